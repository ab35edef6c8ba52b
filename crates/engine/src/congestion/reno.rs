//! `reno`: RFC 5681 and 6582 as Linux does them.
//!
//! Growth counts bytes (RFC 3465): those newly delivered below ssthresh, without a limit per ACK,
//! so that an ACK which jumps over what was selectively acknowledged brings no burst; those
//! cumulatively acknowledged above it, at most a window per ACK, so that the ACK which ends a
//! recovery counts for the round it took (as in ns-3; Linux counts what it newly delivers).
//!
//! A loss or an ECN echo halves the window (from cwnd, as Linux, not from FlightSize as the RFC:
//! the two differ only when something else limits sending, and then cwnd has not grown); a
//! timeout also restarts from one segment. The inflation of cwnd by duplicate ACKs that the RFC
//! describes is left to PRR (RFC 6937) in the subflow.
//!
//! `decrease=b` makes it AIMD(a, b): a loss takes b of the window, and a = 3b / (2 - b) of a
//! segment a round is the growth with which the mean rate is that of 1 and a half (Floyd, Handley,
//! Padhye, "A comparison of equation-based and AIMD congestion control", 2000). With b = 0.2 the
//! window strays from its mean 0.11 to either side, not 0.33.

use super::window::Window;
use super::{Ack, CcState, Congestion, CongestionController, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Instant;
use crate::view::SubflowView;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[Param::new(
    "decrease",
    0.5,
    0.01..=0.5,
    "what a loss takes of the window, which else grows by 3b / (2 - b) of a segment a round",
)];

pub(super) struct Reno {
    window: Window,
    /// a: segments that a window of counted bytes brings.
    increase: f64,
    /// b: what a loss takes of the window.
    decrease: f64,
    /// Before the last reduction of ssthresh.
    before: Option<Window>,
}

impl Reno {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        let decrease = values.get("decrease");
        let increase = 3.0 * decrease / (2.0 - decrease);
        Ok(Box::new(Self { window: Window::new(start), increase, decrease, before: None }))
    }
}

impl CongestionController for Reno {
    fn on_ack(&mut self, ack: &Ack, _siblings: &[SubflowView]) {
        if !self.window.may_grow(ack) {
            return;
        }
        if !self.window.in_slow_start() {
            return self.window.additive_by(ack.acked, self.increase);
        }
        let bytes = self.window.slow_start(ack.delivered);
        if bytes > 0 {
            self.window.additive_by(bytes, self.increase);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, _siblings: &[SubflowView]) {
        if self.window.is_new(event) {
            self.before = Some(self.window);
        }
        // Exact for a half.
        let reduced = self.window.cwnd as f64 * (1.0 - self.decrease);
        self.window.reduce(event, reduced as u64);
    }

    fn on_spurious(&mut self, _now: Instant) {
        if let Some(before) = self.before.take() {
            self.window.restore(&before);
        }
    }

    fn on_idle_restart(&mut self, _now: Instant, restart: u64) {
        self.window.idle_restart(restart);
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
    }

    fn on_mss(&mut self, mss: u64) {
        self.window.set_mss(mss);
    }

    fn report(&self, state: &mut CcState) {
        self.window.report(state);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ack;
    use super::super::{CongestionKind, build};
    use super::*;
    use crate::policy::Spec;

    /// A loss each 1500 segments: mean and least of the windows, in segments.
    fn sawtooth(spec: &str) -> (f64, f64) {
        let start = Start { mss: 1000, cwnd: 40_000, ssthresh: 0 };
        let mut reno = build(&spec.parse::<Spec>().unwrap(), start).unwrap();
        // Segments take 1/w of a round trip each: the mean over time is that of 1/w, inverted.
        let (mut rounds, mut count, mut least) = (0.0, 0, f64::MAX);
        for n in 1..=60_000_u64 {
            reno.on_ack(&Ack { snd_una: n, ..ack(0, 100) }, &[]);
            if n.is_multiple_of(1500) {
                let event = Congestion::new(Instant::ZERO, CongestionKind::Loss, 1000);
                reno.on_congestion(&Congestion { snd_nxt: n, ..event }, &[]);
            }
            if n > 30_000 {
                let window = reno.state().cwnd as f64 / 1000.0;
                (rounds, count, least) = (rounds + 1.0 / window, count + 1, window.min(least));
            }
        }
        (f64::from(count) / rounds, least)
    }

    /// Mathis et al., CCR 1997: sqrt(3/2p) segments a round trip.
    #[test]
    fn a_smaller_decrease_has_the_same_mean_and_a_smaller_sawtooth() {
        let ((mean, least), (smooth, lowest)) = (sawtooth("reno"), sawtooth("reno:decrease=0.2"));
        let theory = (1.5_f64 * 1500.0).sqrt();
        // Windows are whole segments, and less for that.
        assert!((mean / theory - 1.0).abs() < 0.06, "{mean}, theory {theory}");
        assert!((smooth / theory - 1.0).abs() < 0.06, "{smooth}, theory {theory}");
        assert!((least / mean - 0.667).abs() < 0.03, "{least} of {mean}");
        assert!((lowest / smooth - 0.889).abs() < 0.03, "{lowest} of {smooth}");
    }
}
