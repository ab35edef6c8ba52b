//! `cubicd`: CUBIC beside others, a short queue alone. Ours.
//!
//! Who has a bottleneck for himself can keep its queue short, and needs no losses to know what it
//! carries: round trips and delivered data say so. Who shares it with flows that fill the queue
//! must do as they do, or gets nothing. Which of the two it is, is asked by *draining*: in flight
//! is cut to what the path delivered at its base round trip, for a round. If the queue was ours it
//! is gone then, and if it stays it is another's.
//!
//! *Alone*: one segment more a round, faster once no queue has stood for some rounds. A queue of
//! `limit` is the signal to drain. Flows of this kind see the same queue, drain at the same time,
//! and find the queue gone: they share by additive increase and multiplicative decrease, as in
//! DUAL (Wang and Crowcroft, 1992), and none takes the others for rivals. Losses are repaired and
//! otherwise ignored; those with a queue ask for a drain. Only where they come with a queue and
//! never without one, they are drops: of a queue that is managed, which we may share. Then CUBIC's
//! window answers. So do losses that come the more often the longer round trips are, however short
//! the queue is (`evidence.rs`): RED drops early. What the path carried a short while ago is
//! remembered: rates that fall and rise each second are followed in slow start.
//!
//! *Beside others*: the window of CUBIC (RFC 9438). A loss with a queue counts, however short the
//! queue is: what CoDel and RED drop is congestion. Drains go on, seldom, to see whether the others
//! have left.
//!
//! Subflows that meet in one bottleneck (`shared.rs`) grow together as one flow would: n of them by
//! the n-th part, and what one of them loses counts for all, once in a round trip.
//!
//! The two modes are Copa's idea (Arun and Balakrishnan, 2018) and Nimbus' (Goyal et al., 2022);
//! draining on purpose is from BBR. It is always paced.

use super::cubic::Cubic;
use super::{Ack, CcPhase, CcState, Congestion, CongestionController, CongestionKind, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant, mul_div};
use crate::view::{RecoveryPhase, SubflowView};
use path::Path;
use shared::Shared;

mod evidence;
mod path;
mod shared;
#[cfg(test)]
mod tests;

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("beta", 0.7, 0.1..=0.95, "window after a loss beside others, of that before"),
    Param::new("c", 0.4, 0.001..=100.0, "aggressiveness beside others, segments/s^3"),
];

/// The controller `cubicd`.
pub(super) struct Cubicd {
    mss: u64,
    /// The window in startup and alone, bytes.
    cwnd: u64,
    /// Slow start goes up to this, bytes.
    ssthresh: u64,
    /// And that is what trains of segments said.
    aims: bool,
    mode: Mode,
    drain: Option<Drain>,
    path: Path,
    shared: Shared,
    /// The window beside others.
    cubic: Cubic,
    /// Rounds without a queue, in a row.
    calm: u32,
    /// Bytes acknowledged that have not made the window grow yet.
    counted: u64,
    stood: Stood,
    /// Drains of slow start that ended without a sample after an overflow.
    overflowed: u32,
    /// When the last drain ended, and drains in a row that found others, or not.
    drained_at: Instant,
    found: u32,
    missed: u32,
    /// When a sibling's congestion signal was answered.
    answered_at: Instant,
    /// When a queue was last seen beside others.
    queued_at: Instant,
    /// Mode, window and threshold before the last timeout.
    before: Option<(Mode, u64, u64)>,
    srtt: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Alone,
    Beside,
}

/// When the queue last moved, the window shrank or something was lost: both, and rounds since.
#[derive(Clone, Copy, Debug)]
struct Stood {
    cwnd: u64,
    queue: Duration,
    rounds: u32,
}

/// Less in flight, to see what becomes of the queue.
#[derive(Clone, Copy, Debug)]
struct Drain {
    cwnd: u64,
    /// The queue before.
    queue: Duration,
    since: Instant,
    /// When as little as `cwnd` was in flight, and rounds that have ended since.
    drained: Option<(Instant, u32)>,
    /// The least round trip of what was sent after that.
    least: Duration,
    /// The queue in the round since, if it has not moved and nothing was lost.
    flat: Option<Duration>,
    /// Half of what was in flight is drained, to make sure.
    deep: bool,
    /// More was lost than a path without congestion loses.
    overflow: bool,
}

impl Cubicd {
    pub(super) fn build(
        values: &Values<'_>,
        start: Start,
    ) -> Result<Box<dyn CongestionController>, PolicyError> {
        Ok(Box::new(Self::made(values, start)))
    }

    fn made(values: &Values<'_>, start: Start) -> Self {
        let mss = start.mss.max(1);
        let cwnd = start.cwnd.max(mss);
        Self {
            mss,
            cwnd,
            ssthresh: start.ssthresh,
            aims: false,
            mode: if start.ssthresh == u64::MAX { Mode::Startup } else { Mode::Alone },
            drain: None,
            path: Path::new(),
            shared: Shared::default(),
            cubic: Cubic::plain(values.get("beta"), values.get("c"), start),
            calm: 0,
            counted: 0,
            stood: Stood { cwnd, queue: Duration::ZERO, rounds: 0 },
            overflowed: 0,
            drained_at: Instant::ZERO,
            found: 0,
            missed: 0,
            answered_at: Instant::ZERO,
            queued_at: Instant::ZERO,
            before: None,
            srtt: Duration::ZERO,
        }
    }

    /// The queue that is long enough: thresholds of HyStart++ (RFC 9406), by which CUBIC itself
    /// leaves slow start, some segments on a slow link, or what stands out of the noise.
    fn limit(&self) -> Duration {
        let some = Duration(mul_div(SEGMENTS * self.mss, 1_000_000_000, self.path.peak().max(1)));
        let base = (self.path.base() / 8).max(some.min(LIMITS[1])).clamp(LIMITS[0], LIMITS[1]);
        base.max(self.path.noise())
    }

    fn window(&self) -> u64 {
        match (self.drain, self.mode) {
            (Some(drain), _) => drain.cwnd,
            (None, Mode::Beside) => self.cubic.state().cwnd,
            (None, _) => self.cwnd,
        }
    }

    fn start_drain(&mut self, now: Instant, deep: bool) {
        let before = self.window();
        // In slow start no round delivers less than the ones before, but for losses.
        let rate = if self.mode == Mode::Startup { self.path.peak() } else { self.path.rate() };
        // In whole segments, or a slow link would idle.
        let delivered = self.path.volume(rate).next_multiple_of(self.mss);
        let cwnd = if deep { before / 2 } else { delivered }.max(LEAST * self.mss).min(before);
        let (queue, least) = (self.path.queue(), Duration::MAX);
        let overflow = self.path.overflows(self.mss);
        let (drained, flat) = (None, None);
        self.drain = Some(Drain { cwnd, queue, since: now, drained, least, flat, deep, overflow });
    }

    /// Goes on with a drain; whether it is over.
    fn step_drain(&mut self, ack: &Ack) {
        let (queue, jitter) = (self.path.queue(), self.path.jitter());
        let overflow = self.path.overflows(self.mss);
        let Some(drain) = &mut self.drain else { return };
        drain.overflow |= overflow;
        if drain.drained.is_none() && ack.in_flight <= drain.cwnd {
            drain.drained = Some((ack.now, 0));
        } else if self.path.round_ended
            && let Some((_, rounds)) = &mut drain.drained
        {
            *rounds += 1;
            if *rounds == 1 {
                drain.flat = Some(queue);
            }
        }
        if let Some((at, _)) = drain.drained
            && let Some(rtt) = ack.rtt.filter(|rtt| ack.now >= at + *rtt)
        {
            drain.least = drain.least.min(rtt);
        }
        let still = |flat: &Duration| queue.max(*flat) - queue.min(*flat) <= jitter;
        drain.flat = drain.flat.filter(still).filter(|_| ack.lost == 0);
        let drain = *drain;
        // A program that has nothing to send tells nothing.
        let is_seen = drain.least < Duration::MAX;
        let is_over = is_seen && drain.drained.is_some_and(|(_, rounds)| rounds >= 2);
        let is_stuck = ack.now > drain.since + self.srtt * 6;
        if is_over || is_stuck && (is_seen || drain.drained.is_none()) {
            self.end_drain(ack.now, &drain);
        } else if is_stuck {
            self.drain = None;
            // There are no samples of what is sent again. Slow start begins anew with what was
            // delivered, once: a burst of losses looks the same.
            if self.mode == Mode::Startup && drain.overflow {
                self.overflowed += 1;
                self.cwnd = drain.cwnd;
                if self.overflowed >= SURE {
                    self.drained_at = ack.now;
                    self.alone(drain.cwnd);
                }
            }
        }
    }

    /// No drain has told anything yet.
    fn is_undrained(&self) -> bool {
        self.drained_at == Instant::ZERO
    }

    fn end_drain(&mut self, now: Instant, drain: &Drain) {
        self.drain = None;
        let first = self.is_undrained();
        self.drained_at = now;
        if first {
            self.path.forget_losses();
        }
        let before = self.window();
        let noise = self.path.noise();
        let left = drain.least.min(self.path.base() + drain.queue).saturating_sub(self.path.base());
        let cut = before - drain.cwnd.min(before);
        // On a slow link even what a drain leaves in flight waits for itself.
        let own = self.path.time_of(drain.cwnd).saturating_sub(self.path.base()) + noise;
        if left <= (drain.queue / 8 * 3).max(own) {
            if self.mode == Mode::Beside && !self.misses_others(cut, drain.queue - left) {
                return;
            }
            self.found = 0;
            // Round trips are longer than the least of them by what is no queue, too.
            let usual = self.path.volume_in(self.path.jitter());
            self.alone(drain.cwnd + usual.min(cut));
            if first {
                self.aim();
            }
        } else if drain.flat.is_some() && left + noise >= drain.queue && cut * 8 > before {
            // Nothing moved though an eighth less was in flight: is there a queue at all?
            if !drain.deep {
                return self.start_drain(now, true);
            }
            self.path.rebase();
            self.alone_as_known(before);
        } else {
            self.found += 1;
            self.missed = 0;
            // A host that was late for a round looks the same, once.
            if self.mode == Mode::Alone && self.found < SURE {
                self.alone(before);
            } else if self.mode != Mode::Beside {
                // Startup may have gone far beyond what the path and its queue hold.
                let held = self.path.volume_with(drain.queue).max(drain.cwnd);
                self.beside(now, before.min(held));
            }
        }
    }

    /// The queue is gone after a drain beside others: whether they are. What less in flight cannot
    /// have taken went by itself, as their queues do, and once that may look like ours.
    fn misses_others(&mut self, cut: u64, gone: Duration) -> bool {
        if self.path.time_of(cut) < gone / 2 {
            return false;
        }
        self.missed += 1;
        self.missed >= SURE
    }

    fn alone(&mut self, cwnd: u64) {
        self.mode = Mode::Alone;
        self.missed = 0;
        self.aims = false;
        self.cwnd = cwnd.max(LEAST * self.mss);
        self.ssthresh = self.cwnd;
        (self.calm, self.counted) = (0, 0);
    }

    /// Alone on a path that is known to carry more: slow start goes up to that.
    fn alone_as_known(&mut self, cwnd: u64) {
        self.found = 0;
        self.alone(cwnd);
        self.ssthresh = self.ssthresh.max(self.path.volume(self.path.peak()));
    }

    /// Rounds of slow start deliver less than the path carries, the more so the more is lost.
    /// Trains of segments have told by then what that is: slow start goes on up to it.
    fn aim(&mut self) {
        let known = self.path.volume(self.path.capacity());
        if known > self.ssthresh {
            self.ssthresh = known;
            self.aims = true;
        }
    }

    fn beside(&mut self, now: Instant, cwnd: u64) {
        self.mode = Mode::Beside;
        self.queued_at = now;
        self.cubic.resume(cwnd);
    }

    /// Whether those who were there have left: who fills queues does not leave one empty for long.
    fn is_deserted(&self, now: Instant) -> bool {
        now > self.queued_at + (self.srtt * 20).max(Duration::from_secs(1))
    }

    /// Whether it is time to ask again whether the others are still there: after a while, when the
    /// queue does not move, as the queue of flows that grow and shrink does, and at once where they
    /// have been missed.
    fn is_due(&self, now: Instant) -> bool {
        let doublings = self.found.saturating_sub(1).min(3);
        let wait = (self.srtt * 20).max(Duration::from_secs(1)) * (1 << doublings);
        let due = self.missed > 0
            || now > self.drained_at + wait
            || self.path.steady() >= STEADY << doublings;
        due && self.path.queue() > self.limit()
    }

    fn grow(&mut self, ack: &Ack) {
        if !ack.cwnd_limited {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(ack.delivered).min(self.ssthresh);
            return;
        }
        // Segments a round: one, and after some rounds without a queue twice as many each round.
        let doublings = self.calm.saturating_sub(CALM).min(20);
        let most = (self.cwnd / 8).max(self.mss);
        let per_round = ((self.mss << doublings) / self.shared.count()).min(most);
        self.counted += ack.delivered.min(self.cwnd);
        let due = mul_div(self.counted, per_round, self.cwnd.max(1));
        if due >= self.mss {
            let grown = due - due % self.mss;
            self.counted -= mul_div(grown, self.cwnd, per_round).min(self.counted);
            self.cwnd = self.cwnd.saturating_add(grown);
        }
    }

    /// Where no queue stands, and the path carried twice as much a short while ago, slow start
    /// goes back to that: it is the path that varies, and growth alone would not follow it.
    fn remember(&mut self) {
        if self.calm >= CALM && self.carries_little() {
            self.ssthresh = self.path.volume(self.path.peak());
            self.aims = false;
        }
    }

    /// What is put into flight beyond what the path carries waits. More of it, and what is taken
    /// for a queue has not moved for some rounds: the path has become longer, by too little to ask
    /// for a drain. Only where the path carried twice as much a short while ago: queues that
    /// several flows share may stand still as well. Whether that has been found.
    fn look_at_length(&mut self, ack: &Ack) -> bool {
        let (queue, noise) = (self.path.queue(), self.path.noise());
        let (stood, cwnd) = (self.stood, self.window());
        let moved = queue.max(stood.queue) - queue.min(stood.queue) > noise;
        if ack.lost > 0 || moved || cwnd < stood.cwnd {
            self.stood = Stood { cwnd, queue, rounds: 0 };
        } else if self.path.round_ended {
            self.stood.rounds += 1;
            let more = cwnd.saturating_sub(stood.cwnd);
            let wait = Duration(mul_div(more, 1_000_000_000, self.path.rate().max(1)));
            // Beside others, whose queue one that is managed keeps as it is, for longer.
            let steady = if self.mode == Mode::Beside { STILL } else { STEADY };
            let is_still = stood.rounds >= steady && wait >= noise * 2;
            if is_still && self.carries_little() && queue > self.path.jitter() {
                self.path.rebase();
                return true;
            }
        }
        false
    }

    /// Less than half of what the path carried a short while ago is in flight.
    fn carries_little(&self) -> bool {
        self.window() < self.path.volume(self.path.peak()) / 2
    }

    fn step(&mut self, ack: &Ack) {
        if self.mode != Mode::Startup && self.look_at_length(ack) && self.mode == Mode::Beside {
            self.alone_as_known(self.window());
        }
        let queue = self.path.queue();
        match self.mode {
            Mode::Startup => {
                self.cwnd += if ack.cwnd_limited { ack.delivered } else { 0 };
                let queued = self.path.early_queue() >= self.limit();
                let flight = self.path.flight();
                let own = flight < self.cwnd / 4 * 3;
                if self.path.overflows(self.mss) || queued && !own {
                    self.start_drain(ack.now, false);
                } else if queued {
                    // It is the program's own burst that queued, and what the path delivers in a
                    // round is what the program sent.
                    self.path.forget_losses();
                    self.alone(flight);
                }
            }
            Mode::Alone => {
                if self.path.round_ended {
                    self.calm = if queue <= self.path.jitter() { self.calm + 1 } else { 0 };
                }
                if self.is_undrained() {
                    self.aim();
                }
                self.remember();
                let lost = ack.lost > 0 && queue >= self.limit() / 2;
                let open = ack.phase == RecoveryPhase::Open;
                let full = if self.cwnd < self.ssthresh {
                    open && self.path.early_queue() >= self.limit()
                } else {
                    queue >= self.limit() || lost
                };
                if (full || self.path.overflows(self.mss)) && ack.cwnd_limited {
                    self.start_drain(ack.now, false);
                } else {
                    self.grow(ack);
                }
            }
            Mode::Beside => {
                self.cubic.on_ack(ack, &[]);
                if self.path.round_ended && (queue > self.path.noise() || self.path.early_drops()) {
                    self.queued_at = ack.now;
                }
                if self.path.round_ended && self.is_deserted(ack.now) {
                    self.alone_as_known(self.window());
                } else if ack.cwnd_limited
                    && self.is_due(ack.now)
                    && ack.phase == RecoveryPhase::Open
                {
                    self.start_drain(ack.now, false);
                }
            }
        }
    }
}

impl CongestionController for Cubicd {
    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        self.srtt = ack.srtt;
        self.path.on_ack(ack);
        if siblings.len() > 1
            && let Some(rtt) = ack.rtt.filter(|_| ack.in_flight > 0)
        {
            self.shared.on_rtt(ack.subflow, rtt, siblings);
        }
        if siblings.len() > 1 && self.shared.congested(siblings) && self.mode == Mode::Beside {
            self.on_shared_congestion(ack, siblings);
        }
        if self.path.round_ended && siblings.len() > 1 {
            self.shared.on_round(ack.now, siblings);
            self.cubic.set_share(1.0 / self.shared.count() as f64);
        }
        if self.drain.is_some() {
            self.step_drain(ack);
        } else {
            self.step(ack);
        }
    }

    fn on_congestion(&mut self, event: &Congestion, siblings: &[SubflowView]) {
        let timeout = event.kind == CongestionKind::Rto;
        if timeout {
            self.drain = None;
        }
        let early = self.path.early_drops();
        let queued = self.path.queue() > self.path.jitter();
        let dropped = !timeout && (early || queued && self.path.drops());
        if self.mode == Mode::Alone && dropped {
            self.cwnd = self.window();
            self.drain = None;
            self.drained_at = event.now;
            self.beside(event.now, self.cwnd);
        }
        if self.mode == Mode::Beside {
            let sure = timeout || event.kind == CongestionKind::Ecn;
            // What a sibling lost a moment ago has been answered already.
            let again = !timeout && event.now < self.answered_at + self.srtt;
            if (sure || self.believes_losses()) && !again {
                self.cubic.on_congestion(event, siblings);
            }
        } else if timeout {
            self.before = Some((self.mode, self.cwnd, self.ssthresh));
            let known = self.path.volume(self.path.peak());
            self.ssthresh = known.min(self.cwnd.max(self.ssthresh.min(known))).max(2 * self.mss);
            self.cwnd = self.mss;
            self.aims = false;
            self.mode = Mode::Alone;
        } else if event.kind == CongestionKind::Ecn && self.drain.is_none() {
            self.start_drain(event.now, false);
        }
    }

    fn on_spurious(&mut self, now: Instant) {
        if self.mode == Mode::Beside {
            self.cubic.on_spurious(now);
        } else if let Some((mode, cwnd, ssthresh)) = self.before.take() {
            self.mode = mode;
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.cubic.on_sent(now, bytes, in_flight);
    }

    /// A single segment meets the burst that took all that was in flight.
    fn retry_burst(&self) -> u64 {
        (self.path.volume_in(self.srtt + WAIT) / 16).min(PROBES * self.mss)
    }

    fn on_penalty(&mut self) {
        self.cubic.on_penalty();
        self.cwnd = (self.cwnd / 2).max(self.mss);
    }

    fn on_mss(&mut self, mss: u64) {
        self.mss = mss.max(1);
        self.cubic.on_mss(self.mss);
        self.cwnd = self.cwnd.max(self.mss);
    }

    fn report(&self, state: &mut CcState) {
        let cwnd = self.window().max(self.mss);
        state.cwnd = cwnd;
        state.ssthresh = match self.mode {
            Mode::Beside => self.cubic.state().ssthresh,
            Mode::Startup if self.drain.is_some() => cwnd,
            Mode::Startup | Mode::Alone => self.ssthresh,
        }
        .max(2 * self.mss);
        let slow_start = cwnd < state.ssthresh && self.drain.is_none();
        let gain = if slow_start { STARTUP_GAIN } else { GAIN };
        // The mean still knows of the outage or the queue that is over.
        let rtt = self.path.recent().min(self.srtt);
        let rtt = if rtt.is_zero() { Duration::from_millis(1) } else { rtt };
        let mut rate = mul_div(cwnd, 1_000_000_000 / 100 * gain, rtt.0);
        if slow_start && self.aims {
            // Twice as much would overflow a short queue on the way there.
            let usual = mul_div(cwnd, 1_000_000_000 / 100 * GAIN, rtt.0);
            rate = rate.min(usual.max(self.path.capacity()));
        }
        // While it drains, samples still have the queue: what the path delivers is known.
        let delivered = if self.drain.is_some() { self.path.rate() } else { 0 };
        state.pacing_rate = Some(rate.max(delivered).max(self.mss));
        state.phase = match (self.drain, self.mode) {
            (Some(_), _) => CcPhase::Other(1),
            (None, _) if slow_start => CcPhase::SlowStart,
            (None, Mode::Alone | Mode::Startup) => CcPhase::Other(2),
            (None, Mode::Beside) => CcPhase::Avoidance,
        };
    }
}

/// Least and most of the queue that is long enough (RFC 9406).
const LIMITS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(16)];
/// Segments that queue however slow the link is: with less it would run empty.
const SEGMENTS: u64 = 4;
/// Segments in flight at least, so that acknowledgements go on.
const LEAST: u64 = 4;
/// Segments that are sent again at once at a timeout, at most (RFC 6928).
const PROBES: u64 = 10;
/// Between timeouts, beside a round trip.
const WAIT: Duration = Duration::from_millis(40);
/// Rounds without a queue after which growth doubles each round.
const CALM: u32 = 2;
/// Drains in a row that found others, or none of those who were there, until they are believed.
const SURE: u32 = 2;
/// Rounds in which a queue of others would have moved: each of them adds a segment a round.
const STEADY: u32 = 4;
/// Rounds without any loss in which even a managed queue would have moved.
const STILL: u32 = 32;
/// Pacing rates in hundredths of window over round trip, as Linux': in slow start the window
/// doubles while a round is sent.
const STARTUP_GAIN: u64 = 200;
const GAIN: u64 = 120;
