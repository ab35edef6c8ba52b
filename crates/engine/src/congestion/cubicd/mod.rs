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
//! otherwise ignored; those with a queue ask for a drain. Where they come with a queue and never
//! without one, or the more often the longer round trips are (`evidence.rs`: RED drops early), they
//! are drops, of a queue that is full or managed, and that we may share: a drain tells if it can be
//! seen, and else CUBIC's window answers. So it does for marks (ECN). What the path carried a short
//! while ago is remembered: rates that fall and rise each second are followed in slow start.
//!
//! *Beside others*: the window of CUBIC (RFC 9438). A loss with a queue counts, however short the
//! queue is: what CoDel and RED drop is congestion. Drains go on, seldom, to see whether the others
//! have left. Where round trips jitter, a queue of others is not seen among that, and they have
//! left only when round trips themselves tell so (`others.rs`).
//!
//! Subflows that meet in one bottleneck (`shared.rs`) grow together as one flow would: n of them by
//! the n-th part, and what one of them loses counts for all, once in a round trip.
//!
//! The two modes are Copa's idea (Arun and Balakrishnan, 2018) and Nimbus' (Goyal et al., 2022);
//! draining on purpose is from BBR. It is always paced.

use super::cubic::{self, Cubic};
use super::{Ack, CcPhase, CcState, Congestion, CongestionController, CongestionKind, Start};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant, mul_div};
use crate::view::{RecoveryPhase, SubflowView};
use drain::Drain;
use path::Path;
use shared::Shared;

mod apart;
mod drain;
mod evidence;
mod others;
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
    /// When a drain last showed the queue to be ours.
    proved_at: Option<Instant>,
    /// When a drain last said that the others had gone.
    left_at: Option<Instant>,
    /// When a sibling's congestion signal was answered.
    answered_at: Instant,
    /// When a queue was last seen beside others.
    queued_at: Instant,
    /// When the last mark came (ECN).
    marked_at: Option<Instant>,
    /// Mode, window and threshold before the last signal, if that was a timeout.
    before: Option<(Mode, u64, u64)>,
    /// When the last ACK came.
    acked_at: Instant,
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
            proved_at: None,
            left_at: None,
            answered_at: Instant::ZERO,
            queued_at: Instant::ZERO,
            marked_at: None,
            before: None,
            acked_at: Instant::ZERO,
            srtt: Duration::ZERO,
        }
    }

    /// The queue that is long enough: `least_limit`, or what stands out of the noise.
    fn limit(&self) -> Duration {
        self.least_limit().max(self.path.noise())
    }

    /// Thresholds of HyStart++ (RFC 9406), by which CUBIC itself leaves slow start, or on a slow
    /// link some segments.
    fn least_limit(&self) -> Duration {
        let some = Duration(mul_div(SEGMENTS * self.mss, 1_000_000_000, self.path.peak().max(1)));
        (self.path.base() / 8).max(some.min(LIMITS[1])).clamp(LIMITS[0], LIMITS[1])
    }

    /// Round trips vary by more than a queue that is long enough, which is not seen among that.
    fn is_jittery(&self) -> bool {
        self.path.noise() > self.least_limit()
    }

    fn window(&self) -> u64 {
        match (self.drain, self.mode) {
            (Some(drain), _) => drain.cwnd,
            (None, Mode::Beside) => self.cubic.state().cwnd,
            (None, _) => self.cwnd,
        }
    }

    fn alone(&mut self, cwnd: u64) {
        if self.mode != Mode::Alone {
            self.path.forget_others();
        }
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

    /// Others are there, for what was lost or marked: the window is not raised.
    fn beside(&mut self, now: Instant, cwnd: u64) {
        self.mode = Mode::Beside;
        self.queued_at = now;
        self.left_at = None;
        self.path.give_way();
        self.cubic.resume(cwnd);
    }

    /// A drain has found others: if they were taken for gone a moment ago, by mistake.
    fn beside_as_found(&mut self, now: Instant, cwnd: u64) {
        let cubic = self.cubic.state().cwnd;
        let away = self.left_at.map(|at| now - at);
        match away.filter(|away| cubic >= cwnd && *away < self.a_while() * AGAIN) {
            Some(away) => {
                (self.mode, self.queued_at, self.left_at) = (Mode::Beside, now, None);
                self.cubic.go_on(away);
            }
            None => self.beside(now, cwnd),
        }
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
        let moved = queue.abs_diff(stood.queue) > noise;
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
                    self.start_drain(ack.now);
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
                let lost =
                    ack.lost > 0 && queue >= self.limit() / 2 && !self.path.loses_by_chance();
                let open = ack.phase == RecoveryPhase::Open;
                let full = if self.cwnd < self.ssthresh {
                    open && self.path.early_queue() >= self.limit()
                } else {
                    queue >= self.limit() || lost
                };
                if (full || self.path.overflows(self.mss)) && ack.cwnd_limited {
                    self.start_drain(ack.now);
                } else {
                    self.grow(ack);
                }
            }
            Mode::Beside => {
                self.cubic.on_ack(ack, &[]);
                if self.path.round_ended {
                    self.look_for_others(ack.now);
                }
                if self.path.round_ended && self.is_deserted(ack.now) {
                    self.path.forget_drops();
                    self.alone_as_known(self.window());
                } else if ack.cwnd_limited
                    && self.is_due(ack.now)
                    && ack.phase == RecoveryPhase::Open
                {
                    self.start_drain(ack.now);
                }
            }
        }
    }
}

impl CongestionController for Cubicd {
    fn on_ack(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        (self.srtt, self.acked_at) = (ack.srtt, ack.now);
        self.path.on_ack(ack);
        if siblings.len() > 1
            && let Some(rtt) = ack.rtt.filter(|_| ack.in_flight > 0)
        {
            self.shared.on_rtt(ack.subflow, rtt, siblings);
        }
        if siblings.len() > 1 && self.shared.congested(siblings) && self.mode == Mode::Beside {
            self.on_shared_congestion(ack, siblings);
        }
        // The last one that is left is told so, too: it counts for all of itself again.
        if self.path.round_ended && (siblings.len() > 1 || self.shared.count() > 1) {
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
        // What an earlier signal took is not given back when this one was spurious.
        self.before = None;
        let marked = event.kind == CongestionKind::Ecn;
        match self.mode {
            Mode::Startup if marked && self.drain.is_none() => self.start_drain(event.now),
            // Who marks manages its queue, whose length says nothing of who fills it.
            Mode::Alone if marked => self.give_way(event.now),
            Mode::Alone if !timeout => self.on_loss_alone(event.now),
            _ => {}
        }
        if self.mode == Mode::Beside {
            if marked {
                (self.queued_at, self.marked_at) = (event.now, Some(event.now));
            }
            let sure = timeout || marked;
            // What a sibling lost a moment ago has been answered already.
            let again = !timeout && event.now < self.answered_at + self.srtt;
            if (sure || self.believes_losses()) && !again {
                self.cubic.on_congestion(event, siblings);
            } else {
                self.cubic.forget_before();
            }
        } else if timeout {
            self.before = Some((self.mode, self.cwnd, self.ssthresh));
            let known = self.path.volume(self.path.peak());
            self.ssthresh = known.min(self.cwnd.max(self.ssthresh.min(known))).max(2 * self.mss);
            self.cwnd = self.mss;
            self.aims = false;
            self.mode = Mode::Alone;
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

    /// A window is good for minutes, as in `cubicq`: what has waited is paced (RFC 7661 section
    /// 4.4.2).
    fn on_idle_restart(&mut self, now: Instant, restart: u64) {
        if now.saturating_since(self.acked_at) < cubic::VALID {
            return;
        }
        self.cubic.on_idle_restart(now, restart);
        if self.mode == Mode::Alone {
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
        self.cwnd = self.cwnd.min(restart).max(self.mss);
        self.aims = false;
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
        let rtt = (self.path.recent() + self.path.back()).min(self.srtt);
        let rtt = if rtt.is_zero() { Duration::from_millis(1) } else { rtt };
        let mut rate = mul_div(cwnd, 1_000_000_000 / 100 * gain, rtt.0);
        if slow_start && self.aims {
            // Twice as much would overflow a short queue on the way there.
            let usual = mul_div(cwnd, 1_000_000_000 / 100 * GAIN, rtt.0);
            rate = rate.min(usual.max(self.path.capacity()));
        }
        if self.mode != Mode::Beside {
            rate = rate.min(self.path.paced_after_pause());
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
/// Segments in flight of which one more or less is much.
const FEW: u64 = 16;
/// Segments that are sent again at once at a timeout, at most (RFC 6928).
const PROBES: u64 = 10;
/// Between timeouts, beside a round trip.
const WAIT: Duration = Duration::from_millis(40);
/// Rounds without a queue after which growth doubles each round.
const CALM: u32 = 2;
/// Drains in a row that found others, or none of those who were there, until they are believed.
const SURE: u32 = 2;
/// How much longer others must not have been seen where drops are early.
const SELDOM: u64 = 4;
/// Others found again within so many whiles had not gone.
const AGAIN: u64 = 4;
/// Rounds in which a queue of others would have moved: each of them adds a segment a round.
const STEADY: u32 = 4;
/// Rounds without any loss in which even a managed queue would have moved.
const STILL: u32 = 32;
/// Pacing rates in hundredths of window over round trip, as Linux': in slow start the window
/// doubles while a round is sent.
const STARTUP_GAIN: u64 = 200;
const GAIN: u64 = 120;
