//! `cubic`: RFC 9438, with HyStart++ (RFC 9406) for the first slow start. And `cubicq` (ours),
//! which asks `queueing.rs` whether a loss came with a queue: without one it is repaired, but the
//! window keeps its size and its course, in recovery too. One that was reduced all the same, for
//! too many losses at once, returns in some round trips, not in the seconds of the curve, if no
//! queue was there and none comes: what overflowed was not the link, but a host that was late.
//!
//! Growth is counted per acknowledged segment, so that delayed ACKs do not slow it; what an ACK
//! counts for is said at `reno`. FlightSize, which the RFC reduces at a congestion event, is cwnd
//! whenever the window was what limited sending, and otherwise the most that was in flight in this
//! round and the one before (RFC 7661 section 4.4.1): when the loss of the end of a burst is found,
//! all else of it has been acknowledged. Windows inside are `f64` segments; only operations that
//! IEEE 754 defines exactly are used (no libm), so every machine computes the same.

use super::hystart::{self, HyStart};
use super::queueing::Queueing;
use super::window::Window;
use super::{Ack, CcPhase, CcState, Congestion, CongestionController, CongestionKind};
use super::{AckPath, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("beta", 0.7, 0.1..=0.95, "window after a loss, of that before"),
    Param::new("c", 0.4, 0.001..=100.0, "aggressiveness, segments/s^3"),
    Param::switch("hystart", true, "1: HyStart++ in the first slow start; 0: off"),
    Param::switch(
        "linux",
        false,
        "1: as Linux' tcp_cubic.c, growth below the curve and HyStart; 0: RFC 9438 and 9406",
    ),
];

/// The controllers `cubic` and `cubicq`.
// In the order of how often fields are needed: see `cache.rs`.
#[repr(C, align(64))]
pub(super) struct Cubic {
    window: Window,
    /// Last ACK, or last sending after idleness.
    last: Instant,
    /// The window was what limited sending, as of the last ACK.
    limited: bool,
    /// The present recovery is for a random loss, which does not cost the window.
    spared: bool,
    /// The window returns to what it was before the last reduction (`cubicq`).
    restoring: bool,
    /// The most in flight in the round before and in this one, and where this one ends.
    flight: [u64; 2],
    round_end: u64,
    c: f64,
    /// Growth, of that of a flow of its own; 1 unless a wrapper couples several.
    share: f64,
    /// Growth per round of the Reno-friendly estimate, segments.
    alpha: f64,
    /// That growth goes on past the window of the last loss, as in Linux (`bictcp_update`); RFC
    /// 9438 section 4.3 has 1 there.
    linux: bool,
    curve: Curve,
    /// Tells losses to a queue from those at random (`cubicq`).
    queueing: Option<Queueing>,
    beta: f64,
    hystart: Option<HyStart>,
    /// In its place, in any slow start.
    linux_hystart: Option<hystart::Linux>,
    /// Window and curve before the last reduction of ssthresh.
    before: Option<(Window, Curve)>,
    /// Since when something has been in flight without a break.
    busy_since: Instant,
    /// When the window was last reduced (`cubicq`).
    reduced_at: Instant,
}

/// What congestion avoidance goes by, segments.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// Window before the last reduction, lowered by fast convergence; 0 when there is none to
    /// return to (no loss yet, or a timeout).
    w_max: f64,
    /// Window when ssthresh was last set.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// t_epoch, moved on by the time that sending was limited by something else.
    start: Instant,
    /// Seconds until the curve reaches `w_max`.
    k: f64,
    /// Plateau of the curve, segments.
    w_max: f64,
    /// What Reno would have, segments.
    w_est: f64,
    /// Fraction of a segment grown and not yet added to cwnd.
    credit: f64,
}

impl Cubic {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Self::new(values, start, None)))
    }

    /// CUBIC that asks `queueing.rs` about each loss: the controller `cubicq`.
    pub(super) fn build_with_queueing(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Self::new(values, start, Some(Queueing::new()))))
    }

    fn new(values: &Values<'_>, start: Start, queueing: Option<Queueing>) -> Self {
        let (beta, c) = (values.get("beta"), values.get("c"));
        let mut cubic = Self::with([beta, c], values.is_on("hystart"), start, queueing);
        cubic.linux = values.is_on("linux");
        if cubic.linux && cubic.hystart.take().is_some() {
            cubic.linux_hystart = Some(hystart::Linux::new());
        }
        cubic
    }

    /// CUBIC in congestion avoidance and without HyStart++, for a controller that is CUBIC only
    /// beside others.
    pub(super) fn plain(beta: f64, c: f64, start: Start) -> Self {
        Self::with([beta, c], false, start, None)
    }

    fn with([beta, c]: [f64; 2], hystart: bool, start: Start, queueing: Option<Queueing>) -> Self {
        Self {
            window: Window::new(start),
            beta,
            c,
            share: 1.0,
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta),
            linux: false,
            hystart: hystart.then(HyStart::new),
            linux_hystart: None,
            curve: Curve::default(),
            before: None,
            last: Instant::ZERO,
            limited: true,
            flight: [0; 2],
            round_end: 0,
            queueing,
            spared: false,
            busy_since: Instant::ZERO,
            reduced_at: Instant::ZERO,
            restoring: false,
        }
    }

    /// Grows by this part of what a flow of its own would. The curve begins anew: its time of
    /// return depends on it.
    pub(super) fn set_share(&mut self, share: f64) {
        if share != self.share {
            self.share = share;
            self.curve.epoch = None;
        }
    }

    /// Goes on from a window of `cwnd` bytes, which is its plateau.
    pub(super) fn resume(&mut self, cwnd: u64) {
        let mss = self.window.mss;
        self.window = Window::new(Start { mss, cwnd, ssthresh: cwnd });
        let segments = self.segments(cwnd);
        self.curve = Curve { w_max: segments, cwnd_prior: segments, epoch: None };
        self.before = None;
    }

    /// Goes on as if the time `away` had not been.
    pub(super) fn go_on(&mut self, away: Duration) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start += away;
        }
        self.before = None;
    }

    /// What was before the last reduction is of another time.
    pub(super) fn forget_before(&mut self) {
        self.before = None;
    }

    /// HyStart++ runs until ssthresh is first set.
    fn first_slow_start(&mut self) -> Option<&mut HyStart> {
        if self.window.ssthresh == u64::MAX { self.hystart.as_mut() } else { None }
    }

    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.window.mss as f64
    }

    /// Time in which something else limited sending does not count (RFC 9438 section 4.2).
    fn exclude_until(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start += now - self.last;
        }
    }

    /// Takes note of `ack`: the round, and whether a loss that was spared is none to be.
    fn learn(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        if ack.snd_una >= self.round_end {
            self.round_end = ack.snd_nxt;
            self.flight = [self.flight[1], ack.in_flight];
        }
        self.spared &= ack.phase == RecoveryPhase::Recovery;
        let Some(queueing) = &mut self.queueing else { return };
        queueing.on_ack(ack);
        if self.spared && queueing.overflowed(ack.mss) {
            let Ack { now, subflow, in_flight, mss, snd_nxt, .. } = *ack;
            let kind = CongestionKind::Loss;
            let event = Congestion { now, subflow, kind, in_flight, mss, snd_nxt };
            self.on_congestion(&event, siblings);
        }
    }

    /// The window returns to what it was before the last reduction: the link is empty.
    fn is_restoring(&self) -> bool {
        let below = self.segments(self.window.cwnd) < self.curve.cwnd_prior;
        self.restoring && below && self.queueing.is_some_and(|queueing| queueing.is_calm())
    }

    /// Congestion avoidance by `bytes` newly acknowledged.
    fn avoid(&mut self, ack: &Ack, bytes: u64) {
        if self.is_restoring() {
            self.window.cwnd += bytes / RESTORE_DIVISOR;
            self.curve.epoch = None;
            return;
        }
        let (cwnd, acked) = (self.segments(self.window.cwnd), self.segments(bytes));
        let c = self.c * self.share;
        let mut epoch = match self.curve.epoch {
            Some(epoch) => epoch,
            None => Epoch::begin(ack.now, cwnd, self.curve.w_max, c),
        };
        let t = (ack.now - epoch.start).as_secs_f64();
        let past = epoch.w_est >= self.curve.cwnd_prior && !self.linux;
        let alpha = if past { 1.0 } else { self.alpha };
        epoch.w_est += alpha * self.share * acked / cwnd;
        if self.linux {
            let t = t + ack.min_rtt.as_secs_f64();
            epoch.credit += acked / epoch.count(c, t, cwnd, self.curve.w_max);
        } else if epoch.window(c, t) < epoch.w_est {
            // Reno-friendly region. Whole segments, as in the other.
            epoch.credit = (epoch.w_est - cwnd).max(0.0);
        } else {
            let rtt = ack.srtt.as_secs_f64();
            let target = epoch.window(c, t + rtt).clamp(cwnd, 1.5 * cwnd);
            epoch.credit += acked * (target - cwnd) / cwnd;
        }
        if epoch.credit >= 1.0 {
            let whole = epoch.credit as u64;
            epoch.credit -= whole as f64;
            self.window.cwnd = self.window.cwnd.saturating_add(whole * self.window.mss);
        }
        self.curve.epoch = Some(epoch);
    }
}

impl CongestionController for Cubic {
    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        self.learn(ack, siblings);
        let spared = self.spared;
        // While a hole is repaired rounds do not end: what limits sending is seen in what is left.
        let filled = ack.prior_in_flight.saturating_mul(2) >= self.window.cwnd;
        let grows = self.window.may_grow(ack) || spared && ack.cwnd_limited && filled;
        let mss = self.window.mss;
        if self.window.in_slow_start()
            && let Some(hystart) = &mut self.linux_hystart
            && hystart.on_ack(ack, self.window.cwnd)
        {
            self.window.ssthresh = self.window.cwnd;
        }
        if let Some(hystart) = self.first_slow_start() {
            let growth = hystart.growth(ack.delivered, mss);
            let over = hystart.on_ack(ack);
            self.window.cwnd += if grows { growth } else { 0 };
            if over {
                self.window.ssthresh = self.window.cwnd;
                self.curve.cwnd_prior = self.segments(self.window.cwnd);
            }
        } else if grows {
            let bytes = if self.window.in_slow_start() {
                self.window.slow_start(ack.delivered)
            } else {
                let counted = if spared { ack.delivered } else { ack.acked };
                counted.min(self.window.cwnd)
            };
            if bytes > 0 {
                self.avoid(ack, bytes);
            }
        }
        if !ack.cwnd_limited {
            self.exclude_until(ack.now);
        }
        self.limited = ack.cwnd_limited;
        self.last = ack.now;
    }

    fn on_congestion(&mut self, event: &Congestion, _siblings: &[SubflowView]) {
        let timeout = event.kind == CongestionKind::Rto;
        let cwnd = self.segments(self.window.cwnd);
        let first = self.window.ssthresh == u64::MAX;
        let queueing = self.queueing.filter(|_| event.kind != CongestionKind::Ecn);
        let kept = queueing.map_or(Some(self.beta), |q| q.answer(self.beta, event.mss, first));
        self.spared = kept.is_none() && event.kind == CongestionKind::Loss;
        if let Some(queueing) = &mut self.queueing {
            queueing.begin();
        }
        if self.spared {
            // Nothing to go back to: what was before the last reduction is of another time.
            self.before = None;
            return;
        }
        if self.window.is_new(event) {
            self.before = Some((self.window, self.curve));
            let w_max = self.curve.w_max;
            let converging = cwnd < w_max;
            self.curve.w_max = if converging { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
            self.curve.cwnd_prior = cwnd;
        }
        if timeout {
            self.curve.w_max = 0.0;
            // `bictcp_state`: it begins anew.
            if let Some(hystart) = &mut self.linux_hystart {
                *hystart = hystart::Linux::new();
            }
        }
        self.curve.epoch = None;
        if let Some(queueing) = &mut self.queueing {
            // Not from one that has followed upon a return: then it was the link after all. Nor
            // from that of a burst after idleness, which is over before its queue is seen.
            let empty = queueing.is_empty() && !timeout;
            let rounds = queueing.reduced() * ROUNDS;
            self.restoring = empty && event.now > self.reduced_at.max(self.busy_since) + rounds;
            self.reduced_at = event.now;
        }
        let most = event.in_flight.max(self.flight[0]).max(self.flight[1]);
        let flight = if self.limited { u64::MAX } else { most }.min(self.window.cwnd);
        self.window.reduce(event, (flight as f64 * kept.unwrap_or(1.0)) as u64);
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.flight[1] = self.flight[1].max(in_flight);
        if in_flight <= bytes {
            self.exclude_until(now);
            (self.last, self.busy_since) = (now, now);
        }
    }

    fn on_ack_path(&mut self, _now: Instant, ack_path: &AckPath) {
        if ack_path.moved
            && let Some(hystart) = &mut self.hystart
        {
            hystart.restart();
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        let Some((window, curve)) = self.before.take() else { return };
        if window.cwnd >= self.window.cwnd {
            self.curve = curve;
        }
        self.window.restore(&window);
    }

    fn on_idle_restart(&mut self, now: Instant, restart: u64) {
        if self.queueing.is_some() && now - self.last < VALID {
            return;
        }
        self.window.idle_restart(restart);
        self.curve.epoch = None;
        // What delays have shown belongs to the window that is gone.
        if let Some(hystart) = &mut self.hystart {
            hystart.restart();
        }
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
        // W_est would lift cwnd to where it was with the next ACK.
        self.curve.epoch = None;
    }

    fn on_mss(&mut self, mss: u64) {
        let scale = self.window.mss as f64 / mss.max(1) as f64;
        self.window.set_mss(mss);
        self.curve.w_max *= scale;
        self.curve.cwnd_prior *= scale;
        self.curve.epoch = None;
    }

    fn report(&self, state: &mut CcState) {
        self.window.report(state);
        if self.spared {
            // Recovery keeps what is in flight.
            state.ssthresh = state.ssthresh.max(state.cwnd);
        }
        let first = self.window.ssthresh == u64::MAX;
        if first && self.hystart.is_some_and(|h| h.conservative()) {
            state.phase = CcPhase::ConservativeSlowStart;
        }
    }
}

/// `cubicq` keeps a window that is not used for so long (RFC 7661 section 4.4: five minutes). A
/// subflow is idle whenever its siblings are the better choice; of what it could carry that says
/// nothing. What a loss then leaves is a share of what was in flight, not of the window.
pub(super) const VALID: Duration = Duration::from_secs(300);

/// A returning window grows by this part of what is acknowledged: by an eighth a round trip.
const RESTORE_DIVISOR: u64 = 8;
/// A window that is reduced again within so many round trips, or so soon after idleness, does not
/// return.
const ROUNDS: u64 = 16;

impl Epoch {
    /// Begins at window `cwnd`; without a larger `w_max` to return to, at the plateau (after a
    /// timeout and after HyStart++, RFC 9438 sections 4.8 and 4.10).
    fn begin(now: Instant, cwnd: f64, w_max: f64, c: f64) -> Self {
        let (k, w_max) = if cwnd < w_max { (cbrt((w_max - cwnd) / c), w_max) } else { (0.0, cwnd) };
        Self { start: now, k, w_max, w_est: cwnd, credit: 0.0 }
    }

    /// Linux (`bictcp_update`): acknowledged segments for which the window of `cwnd` grows by one,
    /// of which there are no parts. Reno's estimate makes it grow only when it is a segment ahead.
    fn count(&self, c: f64, t: f64, cwnd: f64, w_max: f64) -> f64 {
        let cwnd = whole(cwnd);
        let ahead = whole(self.window(c, t)) - cwnd;
        let count = if ahead > 0.0 { whole(cwnd / ahead) } else { 100.0 * cwnd };
        let count = if w_max == 0.0 { count.min(20.0) } else { count };
        let behind = whole(self.w_est) - cwnd;
        let count = if behind > 0.0 { count.min(whole(cwnd / behind)) } else { count };
        count.max(2.0)
    }

    /// W_cubic(t), segments.
    fn window(&self, c: f64, t: f64) -> f64 {
        let d = t - self.k;
        c * d * d * d + self.w_max
    }
}

/// Whole segments of a number of them.
fn whole(segments: f64) -> f64 {
    segments as u64 as f64
}

/// Cube root of a normal positive number, else 0. A third of the exponent as a first guess, good
/// to some percent; each Newton step squares the error.
fn cbrt(x: f64) -> f64 {
    if !x.is_normal() || x < 0.0 {
        return 0.0;
    }
    let mut y = f64::from_bits(x.to_bits() / 3 + (1023_u64 << 52) / 3 * 2);
    for _ in 0..5 {
        y = (2.0 * y + x / (y * y)) / 3.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;
    use crate::view::SubflowId;

    /// W_max = 100, cwnd_epoch = 70: K and the curve, computed by hand from RFC 9438 figure 1.
    #[test]
    fn the_curve_matches_the_formula() {
        let epoch = Epoch::begin(Instant::ZERO, 70.0, 100.0, 0.4);
        assert!((epoch.k - 4.21716).abs() < 5e-6, "K = {}", epoch.k);
        let at = |t: f64| (epoch.window(0.4, t) * 100.0).round() / 100.0;
        let curve: Vec<f64> = [0.0, 1.0, 2.0, 4.0, 6.0].into_iter().map(at).collect();
        assert_eq!(curve, [70.00, 86.68, 95.64, 100.00, 102.27]);
    }

    #[test]
    fn without_a_plateau_above_it_the_curve_is_convex_at_once() {
        let epoch = Epoch::begin(Instant::ZERO, 70.0, 0.0, 0.4);
        assert_eq!((epoch.k, epoch.w_max), (0.0, 70.0));
        assert_eq!(epoch.window(0.4, 10.0), 470.0);
    }

    const MSS: u64 = 1000;

    /// Of 100 segments, beyond slow start.
    fn made(queueing: bool) -> Box<dyn CongestionController> {
        let start = Start { mss: MSS, cwnd: 100 * MSS, ssthresh: 50 * MSS };
        let build = if queueing { Cubic::build_with_queueing } else { Cubic::build };
        build(&Values::defaults(PARAMS), start).unwrap()
    }

    fn loss(in_flight: u64) -> Congestion {
        let (now, subflow) = (Instant(1_000_000_000), SubflowId(0));
        let kind = CongestionKind::Loss;
        Congestion { now, subflow, kind, in_flight, mss: MSS, snd_nxt: 70 * MSS }
    }

    /// What delays have shown belongs to the window that idleness takes.
    #[test]
    fn conservative_slow_start_ends_with_idleness() {
        let start = Start { mss: MSS, cwnd: 100 * MSS, ssthresh: u64::MAX };
        let mut cubic = Cubic::build(&Values::defaults(PARAMS), start).unwrap();
        let mut now = Instant(1_000_000_000);
        let mut sent = 0;
        let mut round = |cubic: &mut Box<dyn CongestionController>, acks: u64, ms: u64| {
            let end = sent + acks;
            for _ in 0..acks {
                now += Duration::from_millis(1);
                sent += 1;
                let (snd_una, snd_nxt) = (sent * 2 * MSS, (end + acks) * 2 * MSS);
                let rtt = Some(Duration::from_millis(ms));
                let ack = Ack { now, rtt, snd_una, snd_nxt, ..tests::ack(0, 2 * MSS) };
                cubic.on_ack(&Ack { delivered: 2 * MSS, ..ack }, &[]);
            }
        };
        for ms in [50, 50, 80, 80] {
            round(&mut cubic, 20, ms);
        }
        let conservative = cubic.state();
        assert_eq!(conservative.ssthresh, u64::MAX);
        cubic.on_idle_restart(Instant(9_000_000_000), 10 * MSS);
        let restarted = cubic.state();
        for _ in 0..4 {
            round(&mut cubic, 5, 50);
        }
        let after = cubic.state();
        assert!(after.cwnd >= 2 * restarted.cwnd, "{restarted:?} {after:?}");
        assert!(after.ssthresh >= conservative.cwnd / 2, "{after:?}");
    }

    /// 70 segments leave at once, less than the window; all but the last two are acknowledged.
    #[test]
    fn the_loss_of_the_end_of_a_burst_costs_a_share_of_the_burst() {
        let mut cubic = made(false);
        for n in 1..=70 {
            cubic.on_sent(Instant(1), MSS, n * MSS);
        }
        let in_flight = 2 * MSS;
        let ack = Ack { cwnd_limited: false, in_flight, snd_nxt: 70 * MSS, ..tests::ack(0, 100) };
        cubic.on_ack(&Ack { delivered: 68 * MSS, acked: 68 * MSS, ..ack }, &[]);
        cubic.on_congestion(&loss(in_flight), &[]);
        assert_eq!(cubic.state().cwnd, 49 * MSS, "0.7 of 70");
    }

    /// Round trips show no queue; four lost of twenty may be bad luck, forty of eighty are not.
    #[test]
    fn so_many_losses_of_one_window_are_an_overflow() {
        let mut cubic = made(true);
        let ack = Ack { in_flight: 90 * MSS, prior_in_flight: 90 * MSS, ..tests::ack(0, 100) };
        (0..200).for_each(|_| cubic.on_ack(&Ack { snd_nxt: 1_000 * MSS, ..ack }, &[]));
        let before = cubic.state().cwnd;
        cubic.on_congestion(&loss(90 * MSS), &[]);
        let repair = Ack { acked: 0, phase: RecoveryPhase::Recovery, ..ack };
        let mut after = |lost: u64, delivered: u64| {
            let (lost, delivered) = (lost * MSS, delivered * MSS);
            cubic.on_ack(&Ack { lost, delivered, ..repair }, &[]);
            cubic.state().cwnd
        };
        assert!(after(4, 16) >= before);
        assert!(after(36, 24) < before);
    }

    #[test]
    fn a_window_outlasts_idleness_if_losses_are_told_apart() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        for (queueing, idle, segments) in [(true, 200, 100), (true, 400, 10), (false, 2, 10)] {
            let mut cubic = made(queueing);
            cubic.on_ack(&Ack { now: second(1), cwnd_limited: false, ..tests::ack(0, 100) }, &[]);
            cubic.on_idle_restart(second(1 + idle), 10 * MSS);
            assert_eq!(cubic.state().cwnd, segments * MSS, "{idle} s");
        }
    }

    /// RFC 9438 section 4.3 and Linux, on a path so short that the curve is below Reno: round
    /// trips from a window of 20 segments, that of the last loss, to one of 30.
    #[test]
    fn linux_goes_on_slower_than_reno() {
        let rounds = |spec: &str| {
            let spec: crate::policy::Spec = spec.parse().unwrap();
            let start = Start { mss: MSS, cwnd: 20 * MSS, ssthresh: 10 * MSS };
            let mut cubic = super::super::build(&spec, start).unwrap();
            cubic.on_congestion(&loss(20 * MSS), &[]);
            let mut seen = [0; 2];
            for round in 0..100 {
                let cwnd = cubic.state().cwnd / MSS;
                for _ in 0..cwnd {
                    let now = Instant(2_000_000_000 + round * 100_000);
                    cubic.on_ack(
                        &Ack { now, acked: MSS, delivered: MSS, mss: MSS, ..tests::ack(0, 1) },
                        &[],
                    );
                }
                seen[0] += u64::from(cwnd < 20);
                seen[1] += u64::from((20..30).contains(&cwnd));
            }
            seen
        };
        let [rfc, linux] = ["cubic", "cubic:linux=1"].map(rounds);
        assert!((rfc[0]..=rfc[0] + 2).contains(&linux[0]), "up to the last loss: {linux:?}");
        assert!((9..=11).contains(&rfc[1]), "one a round trip: {rfc:?}");
        assert!((18..=20).contains(&linux[1]), "0.53 a round trip: {linux:?}");
    }

    #[test]
    fn cube_roots_are_right_to_the_last_digits() {
        for x in [1e-300, 1e-9, 0.3, 1.0, 27.0, 75.0, 1e6, 123_456_789.0, 1e300] {
            let y = cbrt(x);
            assert!((y * y * y / x - 1.0).abs() < 1e-15, "{x}: {y}");
        }
        assert_eq!(cbrt(0.0), 0.0);
    }
}
