//! Any controller, fair to others although its ACKs return by a faster path than its data's
//! (`hayack-fair`). The problem is that of the paper `hayack` (docs/papers.md); the remedy is ours.
//!
//! The controller inside lives in a world in which ACKs come by the subflow's own path: RTT R
//! instead of the effective r, and the window w' = w R/r that has the same rate there. It gets
//! every ACK with the numbers of that world, and w = w' r/R is the window in ours. A window of
//! bytes is acknowledged to it once in R, so it grows as a controller whose RTT is R, whatever its
//! law: additive increase by a segment a round there is a = (r/R)^2 of a segment per window here,
//! d(rate)/dt = 1/R^2 in both. Only slow start compounds faster when its rounds are shorter; there
//! bytes count for (2^(r/R) - 1) R/r, so that it doubles once in R, too. And a window there lasts
//! R: losses that are found within R of a reduction belong to what it has answered. (While a queue
//! overflows, until those whose ACKs take R have noticed, it would else reduce twice.)
//!
//! A loss is reported R - r earlier than by the own path. The lost data is sent again at once, but
//! the window shrinks only when the own path would have reported it: a sender that backs off first
//! leaves the queue to the others, which then lose less, and with equal growth that decides the
//! shares.

use super::{Ack, AckPath, CcPhase, CcState, Congestion, CongestionController, CongestionKind};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};

/// A controller that is told of a world with ACKs on the own path.
pub(crate) struct Compensated {
    inner: Box<dyn CongestionController>,
    /// R/r, at least 1.
    scale: f64,
    /// R - r of the head of this file: how much later ACKs come by the own path.
    lag: Duration,
    own_rtt: Duration,
    mss: u64,
    /// Window in our world, whole segments.
    cwnd: u64,
    /// Fast recovery: the scale stays.
    recovering: bool,
    /// The last loss that was answered, or will be.
    reduced: Option<Instant>,
    /// The last signal came so soon after that one that it took nothing.
    passed_over: bool,
    /// When the own path would have told of it, and what is told then.
    due: Option<(Instant, Congestion)>,
}

impl Compensated {
    pub(crate) fn new(inner: Box<dyn CongestionController>, mss: u64) -> Self {
        let cwnd = inner.state().cwnd;
        let (lag, own_rtt) = (Duration::ZERO, Duration::ZERO);
        Self {
            inner,
            scale: 1.0,
            lag,
            own_rtt,
            mss: mss.max(1),
            cwnd,
            recovering: false,
            passed_over: false,
            reduced: None,
            due: None,
        }
    }

    fn up(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.scale) as u64
    }

    /// A window of the other world in ours: the nearest number of whole segments, since only
    /// those are ever in flight.
    fn down(&self, bytes: u64) -> u64 {
        if self.scale <= 1.0 || bytes == u64::MAX {
            return bytes;
        }
        let segments = bytes as f64 / self.scale / self.mss as f64;
        (segments + 0.5).max(1.0) as u64 * self.mss
    }

    /// The window shrinks by `event`, as told there.
    fn reduce(&mut self, event: &Congestion, siblings: &[SubflowView]) {
        self.due = None;
        self.inner.on_congestion(event, siblings);
        self.cwnd = self.down(self.inner.state().cwnd).min(self.cwnd);
    }

    fn take_window(&mut self) {
        self.cwnd = self.down(self.inner.state().cwnd);
    }
}

impl CongestionController for Compensated {
    fn on_ack_path(&mut self, now: Instant, ack_path: &AckPath) {
        self.inner.on_ack_path(now, &AckPath { moved: false, rtt: ack_path.own_rtt, ..*ack_path });
        if self.recovering || ack_path.rtt.is_zero() {
            return;
        }
        let slower = ack_path.compensate && ack_path.own_rtt > ack_path.rtt;
        self.own_rtt = if slower { ack_path.own_rtt } else { ack_path.rtt };
        self.lag = self.own_rtt - ack_path.rtt;
        self.scale = self.own_rtt.0 as f64 / ack_path.rtt.0 as f64;
    }

    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        self.recovering = ack.phase == RecoveryPhase::Recovery;
        if let Some((_, event)) = self.due.filter(|(at, _)| *at <= ack.now) {
            self.reduce(&event, siblings);
        }
        if self.scale <= 1.0 {
            self.inner.on_ack(ack, siblings);
        } else {
            let state = self.inner.state();
            let doubling = state.cwnd < state.ssthresh && !matches!(state.phase, CcPhase::Other(_));
            let weight = if doubling { slow_start_weight(self.scale) } else { 1.0 };
            let weighted = |bytes: u64| (bytes as f64 * weight) as u64;
            let there = Ack {
                acked: weighted(ack.acked),
                delivered: weighted(ack.delivered),
                rtt: ack.rtt.map(|rtt| rtt + self.lag),
                srtt: self.own_rtt,
                min_rtt: ack.min_rtt + self.lag,
                prior_in_flight: self.up(ack.prior_in_flight),
                in_flight: self.up(ack.in_flight),
                ..*ack
            };
            self.inner.on_ack(&there, siblings);
        }
        let target = self.down(self.inner.state().cwnd);
        // The scale may have jumped: no burst of more than what has just been delivered.
        self.cwnd = target.min(self.cwnd + ack.delivered.max(self.mss));
    }

    fn on_congestion(&mut self, event: &Congestion, siblings: &[SubflowView]) {
        let answered = self.reduced.is_some_and(|at| event.now - at < self.own_rtt);
        if (answered || self.due.is_some()) && self.scale > 1.0 && event.kind != CongestionKind::Rto
        {
            self.passed_over = true;
            return;
        }
        (self.reduced, self.passed_over) = (Some(event.now), false);
        let there = Congestion { in_flight: self.up(event.in_flight), ..*event };
        if self.scale <= 1.0 || event.kind == CongestionKind::Rto {
            return self.reduce(&there, siblings);
        }
        let at = event.now + self.lag;
        self.due = Some((at, Congestion { now: at, ..there }));
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let in_flight = if in_flight <= bytes { in_flight } else { self.up(in_flight) };
        self.inner.on_sent(now, bytes, in_flight);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.recovering = false;
        // Nothing was taken by it; what an earlier one took stays.
        if std::mem::take(&mut self.passed_over) {
            return;
        }
        if self.due.take().is_none() {
            self.inner.on_spurious(now);
            self.take_window();
        }
    }

    fn on_idle_restart(&mut self, now: Instant, restart: u64) {
        self.inner.on_idle_restart(now, restart);
        self.take_window();
    }

    fn on_penalty(&mut self) {
        self.inner.on_penalty();
        self.take_window();
    }

    fn retry_burst(&self) -> u64 {
        self.inner.retry_burst()
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.inner.on_mss(mss);
        self.take_window();
    }

    fn report(&self, state: &mut CcState) {
        self.inner.report(state);
        state.cwnd = self.cwnd.max(self.mss);
        state.ssthresh = self.down(state.ssthresh);
        if self.due.is_some() {
            // Until then recovery keeps what is in flight.
            state.ssthresh = state.ssthresh.max(state.cwnd);
        }
    }
}

/// (2^x - 1) / x for x = 1/scale: what a byte counts for in slow start. Series of 2^x, whose terms
/// every machine computes alike.
fn slow_start_weight(scale: f64) -> f64 {
    let x = std::f64::consts::LN_2 / scale;
    let (mut term, mut sum) = (x, x);
    for n in 2..16 {
        term *= x / f64::from(n);
        sum += term;
    }
    sum * scale
}

#[cfg(test)]
mod tests {
    use super::super::{Start, build, tests};
    use super::*;
    use crate::policy::Spec;
    use crate::view::SubflowId;

    const MSS: u64 = 1000;

    fn ack_path(own_us: u64, us: u64) -> AckPath {
        AckPath {
            own_rtt: Duration(own_us * 1000),
            rtt: Duration(us * 1000),
            moved: false,
            compensate: true,
        }
    }

    fn reno(cwnd: u64, ssthresh: u64) -> Compensated {
        let start = Start { mss: MSS, cwnd: cwnd * MSS, ssthresh };
        Compensated::new(build(&Spec::named("reno"), start).unwrap(), MSS)
    }

    fn ack(cc: &Compensated, bytes: u64) -> Ack {
        let rtt = Duration(1);
        Ack {
            acked: bytes,
            delivered: bytes,
            rtt: None,
            srtt: rtt,
            min_rtt: rtt,
            prior_in_flight: cc.state().cwnd,
            in_flight: cc.state().cwnd,
            ..tests::ack(0, 1)
        }
    }

    /// What slow start adds per acknowledged packet, and congestion avoidance per window: the
    /// factors a = (r/R)^2 and 2^(r/R) - 1 of the head of this file.
    #[test]
    fn growth_is_that_of_the_own_path() {
        for (own, effective, avoidance, slow_start) in [
            (350_000, 177_500, 0.2572, 0.4212),
            (250_000, 127_500, 0.2601, 0.4241),
            (100_000, 52_500, 0.2756, 0.4389),
        ] {
            let scale = own as f64 / effective as f64;
            let per_packet = slow_start_weight(scale) / scale;
            assert!((per_packet - slow_start).abs() < 6e-5, "{per_packet}");
            // 400 windows of ours, acknowledged one by one.
            let mut cc = reno(2_000, 10 * MSS);
            cc.on_ack_path(Instant::ZERO, &ack_path(own, effective));
            let virtual_before = cc.inner.state().cwnd;
            let window = cc.down(virtual_before);
            for _ in 0..400 {
                for _ in 0..window / MSS {
                    cc.on_ack(&ack(&cc, MSS), &[]);
                }
            }
            let grown = cc.inner.state().cwnd - virtual_before;
            let per_window = grown as f64 / MSS as f64 / 400.0 / scale;
            let error = (per_window / avoidance - 1.0).abs();
            assert!(error < 0.06, "{per_window} segments a window, not {avoidance}");
        }
    }

    #[test]
    fn slow_start_doubles_once_in_an_rtt_of_the_own_path() {
        let mut cc = reno(1_000, u64::MAX);
        cc.on_ack_path(Instant::ZERO, &ack_path(300_000, 100_000));
        cc.cwnd = cc.down(cc.inner.state().cwnd);
        let before = cc.state().cwnd;
        for _ in 0..3 {
            for _ in 0..cc.state().cwnd / MSS {
                cc.on_ack(&ack(&cc, MSS), &[]);
            }
        }
        let ratio = cc.state().cwnd as f64 / before as f64;
        // Within a round later ACKs meet a larger window only here, where time stands still.
        assert!((1.95..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn one_reduction_in_an_rtt_of_the_own_path_and_not_before_that_would_tell() {
        let mut cc = reno(100, 50 * MSS);
        cc.on_ack_path(Instant::ZERO, &ack_path(200_000, 100_000));
        let lose = |cc: &mut Compensated, ms: u64| {
            let event = Congestion {
                now: Instant(ms * 1_000_000),
                subflow: SubflowId(0),
                kind: CongestionKind::Loss,
                in_flight: 50 * MSS,
                mss: MSS,
                snd_nxt: ms,
            };
            cc.on_congestion(&event, &[]);
            let before = cc.state().cwnd / MSS;
            let now = Instant((ms + 100) * 1_000_000);
            cc.on_ack(&Ack { now, phase: RecoveryPhase::Recovery, ..ack(cc, MSS) }, &[]);
            [before, cc.state().cwnd / MSS]
        };
        cc.on_ack(&Ack { cwnd_limited: false, ..ack(&cc, 50 * MSS) }, &[]);
        assert_eq!(lose(&mut cc, 1000), [50, 25], "the own path tells it 100 ms later");
        assert_eq!(lose(&mut cc, 1110), [25, 25]);
        assert_eq!(lose(&mut cc, 1200), [25, 13], "12.5, rounded");
    }

    /// The loss that took nothing was spurious; that before it was not.
    #[test]
    fn an_undo_of_what_took_nothing_gives_nothing_back() {
        let mut cc = reno(100, 50 * MSS);
        cc.on_ack_path(Instant::ZERO, &ack_path(200_000, 100_000));
        cc.on_ack(&Ack { cwnd_limited: false, ..ack(&cc, 50 * MSS) }, &[]);
        for ms in [1000, 1160] {
            let now = Instant(ms * 1_000_000);
            let (subflow, kind) = (SubflowId(0), CongestionKind::Loss);
            let event =
                Congestion { now, subflow, kind, in_flight: 50 * MSS, mss: MSS, snd_nxt: ms };
            cc.on_congestion(&event, &[]);
            let now = Instant((ms + 100) * 1_000_000);
            cc.on_ack(&Ack { now, phase: RecoveryPhase::Recovery, ..ack(&cc, MSS) }, &[]);
        }
        let reduced = cc.state().cwnd;
        cc.on_spurious(Instant(1_300_000_000));
        assert_eq!(cc.state().cwnd, reduced);
    }

    #[test]
    fn without_a_faster_ack_path_it_is_the_controller_itself() {
        let mut cc = reno(10, 5 * MSS);
        cc.on_ack_path(Instant::ZERO, &ack_path(100, 120));
        for _ in 0..10 {
            cc.on_ack(&ack(&cc, MSS), &[]);
        }
        assert_eq!(cc.state(), cc.inner.state());
        assert_eq!(cc.state().cwnd, 11 * MSS);
    }

    #[test]
    fn the_window_follows_the_ratio_without_a_burst() {
        let mut cc = reno(100, 50 * MSS);
        cc.on_ack_path(Instant::ZERO, &ack_path(200, 100));
        cc.on_ack(&ack(&cc, MSS), &[]);
        assert_eq!(cc.state().cwnd, 50 * MSS);
        cc.on_ack_path(Instant::ZERO, &ack_path(200, 200));
        cc.on_ack(&ack(&cc, 2 * MSS), &[]);
        assert_eq!(cc.state().cwnd, 52 * MSS);
    }
}
