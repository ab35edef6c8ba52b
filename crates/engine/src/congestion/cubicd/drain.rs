//! Whether others are at the bottleneck: in flight is cut to what the path delivered at its base
//! round trip, for a round. The queue goes if it was ours, and stays if it is another's.

use super::path::{Path, time_at};
use super::{Cubicd, FEW, LEAST, Mode, SELDOM, STEADY, SURE};
use crate::congestion::Ack;
use crate::time::{Duration, Instant};

/// Less in flight, to see what becomes of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// What is left in flight.
    pub(super) cwnd: u64,
    /// What the path delivers in its base round trip, and the rate at which it does so, bytes/s.
    pub(super) delivered: u64,
    pub(super) rate: u64,
    /// The queue before.
    queue: Duration,
    since: Instant,
    /// When as little as `cwnd` was in flight, and rounds that have ended since.
    drained: Option<(Instant, u32)>,
    /// The least round trip of what was sent after that, their sum and number.
    least: Duration,
    sum: Duration,
    samples: u64,
    /// The last of them, and the sum of how much each differs from the one before.
    last: Duration,
    steps: Duration,
    /// The mean round trip before, and by how much longer that was than the least.
    mean: Duration,
    spread: Duration,
    /// The queue in the round since, if it has not moved and nothing was lost.
    flat: Option<Duration>,
    level: Level,
    /// Round trips jittered before: what the drain itself makes them differ by is no jitter.
    jittery: bool,
    /// More was lost than a path without congestion loses.
    pub(super) overflow: bool,
}

/// Down to what in flight is drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    /// What trains of segments say that the path carries, at the end of slow start: rounds tell it
    /// too late on a long path, which would carry little for two rounds.
    Carried,
    /// What rounds have delivered.
    Delivered,
    /// Half of what is in flight, to make sure.
    Half,
}

impl Cubicd {
    pub(super) fn start_drain(&mut self, now: Instant) {
        let carried = self.path.capacity();
        let cuts = self.path.volume(carried) < self.window() / 4 * 3;
        let told = self.mode == Mode::Startup && cuts && carried > self.path.peak();
        self.drain_to(now, if told { Level::Carried } else { Level::Delivered });
    }

    fn drain_to(&mut self, now: Instant, level: Level) {
        let before = self.window();
        let rate = match (level, self.mode) {
            (Level::Carried, _) => self.path.capacity(),
            // In slow start no round delivers less than the ones before, but for losses.
            (_, Mode::Startup) => self.path.peak(),
            _ => self.path.rate(),
        };
        // In whole segments, or a slow link would idle. Of a few, the one that waits for the next
        // before it is acknowledged (RFC 5681, section 4.2) is missed.
        let delivered = self.path.volume(rate).next_multiple_of(self.mss);
        let delayed = if delivered < FEW * self.mss { self.mss } else { 0 };
        let cwnd = if level == Level::Half { before / 2 } else { delivered + delayed };
        let cwnd = cwnd.max(LEAST * self.mss).min(before);
        // The one that ends slow start has not stood for long.
        let early =
            if self.mode == Mode::Startup { self.path.early_queue() } else { Duration::ZERO };
        let (queue, least) = (self.path.queue().max(early), Duration::MAX);
        let overflow = self.path.overflows(self.mss);
        let (drained, flat) = (None, None);
        self.drain = Some(Drain {
            cwnd,
            delivered: delivered.min(cwnd),
            rate,
            queue,
            since: now,
            drained,
            least,
            sum: Duration::ZERO,
            samples: 0,
            last: Duration::ZERO,
            steps: Duration::ZERO,
            mean: self.path.mean(),
            spread: self.path.mean().saturating_sub(self.path.recent()),
            flat,
            level,
            jittery: self.is_jittery(),
            overflow,
        });
    }

    /// Goes on with a drain, and ends it once it has told.
    pub(super) fn step_drain(&mut self, ack: &Ack) {
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
            && ack.rtt.is_some_and(|rtt| ack.now >= at + rtt)
            && let Some(rtt) = Path::round_trip(ack)
        {
            drain.least = drain.least.min(rtt);
            drain.sum = drain.sum + rtt;
            drain.samples += 1;
            if drain.samples > 1 {
                drain.steps = drain.steps + rtt.abs_diff(drain.last);
            }
            drain.last = rtt;
        }
        let still = |flat: &Duration| queue.abs_diff(*flat) <= jitter;
        drain.flat = drain.flat.filter(still).filter(|_| ack.lost == 0);
        let drain = *drain;
        // A program that has nothing to send tells nothing.
        let is_seen = drain.least < Duration::MAX;
        // Segments that leave together wait for each other: only all of a round trip tell.
        let all = |(at, rounds)| rounds >= 2 && ack.now >= at + self.srtt * 2;
        let is_over = is_seen && drain.drained.is_some_and(all);
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
    pub(super) fn is_undrained(&self) -> bool {
        self.drained_at == Instant::ZERO
    }

    fn end_drain(&mut self, now: Instant, drain: &Drain) {
        self.drain = None;
        let noise = self.path.noise();
        let left = drain.least.min(self.path.base() + drain.queue).saturating_sub(self.path.base());
        // On a slow link even what a drain leaves in flight waits for itself.
        let own = self.needs(drain).saturating_sub(self.path.base()) + noise;
        let is_gone = left <= (drain.queue / 8 * 3).max(own);
        if !is_gone && drain.level == Level::Carried {
            // Trains tell of too much where a token bucket forwards some of it at once.
            return self.drain_to(now, Level::Delivered);
        }
        let first = self.is_undrained();
        self.drained_at = now;
        if first {
            self.path.forget_losses();
        }
        let before = self.window();
        let cut = before - drain.cwnd.min(before);
        if is_gone {
            if self.mode != Mode::Beside && self.is_jitter(drain) {
                self.path.take_for_noise(drain.queue);
                if self.mode == Mode::Alone {
                    self.alone(before);
                }
                return;
            }
            if self.mode == Mode::Beside {
                if !self.misses_others(cut, drain.queue - left, drain.jittery) {
                    return;
                }
                self.left_at = Some(now);
            }
            self.found = 0;
            // Who shares a queue that drops early sees it empty now and then, but has not got what
            // the path delivered at best.
            if drain.queue > noise
                && drain.delivered >= self.path.volume(self.path.peak()) / 16 * 15
            {
                self.proved_at = Some(now);
            }
            // Round trips are longer than the least of them by what is no queue, too.
            let usual = self.path.volume_in(self.path.jitter());
            self.alone(drain.cwnd + usual.min(cut));
            if first {
                self.aim();
            }
        } else if drain.flat.is_some()
            && left + noise >= drain.queue
            && cut * 8 > before
            && !(drain.jittery && self.path.others().are_seen())
        {
            // Nothing moved though an eighth less was in flight: is there a queue at all?
            if drain.level != Level::Half {
                return self.drain_to(now, Level::Half);
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
                self.beside_as_found(now, before.min(held));
            }
        }
    }

    /// The round trip that what the drain left in flight needs, but for the segment whose
    /// acknowledgement is delayed.
    pub(super) fn needs(&self, drain: &Drain) -> Duration {
        let left = drain.delivered.max(LEAST * self.mss).min(drain.cwnd);
        time_at(left, drain.rate.max(self.path.peak())).saturating_sub(self.path.back())
    }

    /// Whether round trips were as long on the mean while less was in flight, and the least of them
    /// short by luck: what looked like a queue is how they vary. They did so before, by themselves
    /// or from one to the next; what others have in the queue does not change as fast. Beside the
    /// base round trip it is much, or what was taken for a queue costs little.
    fn is_jitter(&self, drain: &Drain) -> bool {
        if drain.samples < 4 {
            return false;
        }
        let base = self.path.base();
        let beyond = |rtt: Duration| rtt.saturating_sub(base);
        let (before, stayed) = (beyond(drain.mean), beyond(drain.sum / drain.samples));
        let own = beyond(self.needs(drain));
        let step = drain.steps / (drain.samples - 1);
        let varies =
            stayed <= self.path.wobble() * 2 || stayed <= step * 3 && self.mode != Mode::Startup;
        varies
            && stayed <= drain.spread * 3
            && stayed > (before / 2).max(own + drain.queue / 2).max(base / 4)
            && beyond(drain.least) <= stayed / 2
    }

    /// The queue is gone after a drain beside others: whether they are. What less in flight cannot
    /// have taken went by itself, as their queues do, and once that may look like ours.
    pub(super) fn misses_others(&mut self, cut: u64, gone: Duration, jittery: bool) -> bool {
        if self.path.time_of(cut) < gone / 2 {
            return false;
        }
        self.missed += 1;
        self.missed >= SURE && self.may_be_alone(jittery)
    }

    /// Something was lost, alone. Where losses come with a queue and hardly ever without, or the
    /// more often the longer round trips are, others may be there, or a short queue of ours
    /// overflows. If a drain has told lately that the queue is ours, or losses are early and it
    /// stands out of the noise, a drain tells again. Else others are there, as they are in a queue
    /// that subflows share.
    pub(super) fn on_loss_alone(&mut self, now: Instant) {
        let queue = self.path.queue();
        let dropped = queue > self.path.jitter() && self.path.drops();
        if !dropped && !self.path.early_drops() {
            return;
        }
        let visible = queue > self.path.noise();
        // Where drains found that it is the path that varies, they found no queue that stays.
        let known = self.is_lately(self.proved_at, now) || !self.path.mistaken().is_zero();
        let ours = known && (!dropped || self.shared.count() == 1);
        if !ours && (dropped || !visible) {
            self.give_way(now);
        } else if visible && self.drain.is_none() {
            self.start_drain(now);
        }
    }

    /// Others are taken to be there without a drain.
    pub(super) fn give_way(&mut self, now: Instant) {
        let cwnd = self.window();
        self.drain = None;
        self.drained_at = now;
        self.beside(now, cwnd);
    }

    /// A round has ended beside others, who fill queues. Where drops are early those are too short
    /// to stand out, but their length is never the same for long.
    pub(super) fn look_for_others(&mut self, now: Instant) {
        let queued = self.path.queue() > self.path.noise();
        if queued || self.path.early_drops() && self.path.varies() {
            self.queued_at = now;
        }
    }

    /// Nothing speaks against having been left alone. Where round trips jitter, no queue is seen
    /// among them anyway: they must tell themselves that there are no others.
    fn may_be_alone(&self, jittery: bool) -> bool {
        !jittery || self.path.others().are_missing()
    }

    /// Whether those who were there have left: who fills queues does not leave one empty for long.
    pub(super) fn is_deserted(&self, now: Instant) -> bool {
        let whiles = if self.path.early_drops() { SELDOM } else { 1 };
        let calm = now > self.queued_at + self.a_while() * whiles;
        self.path.is_deserted() || calm && self.may_be_alone(self.is_jittery())
    }

    /// Whether it is time to ask again whether the others are still there: after a while, when the
    /// queue does not move, as the queue of flows that grow and shrink does, and at once where they
    /// have been missed. On a path that loses by chance a queue that is never as long as `limit` is
    /// asked near its longest: one that is managed may be as short though others fill it. Nor does
    /// one that marks tell anything by becoming empty.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        if self.is_lately(self.marked_at, now) {
            return false;
        }
        let doublings = self.found.saturating_sub(1).min(3);
        let wait = self.a_while() * (1 << doublings);
        let due = self.missed > 0
            || now > self.drained_at + wait
            || self.path.steady() >= STEADY << doublings;
        let short = (self.path.fullest() / 4 * 3).max(self.path.noise()).min(self.limit());
        let least = if self.path.loses_by_chance() { short } else { self.limit() };
        due && self.path.queue() > least
    }

    fn is_lately(&self, at: Option<Instant>, now: Instant) -> bool {
        at.is_some_and(|at| now < at + self.a_while())
    }

    /// For so long what was seen of others holds: they come and go.
    pub(super) fn a_while(&self) -> Duration {
        (self.srtt * 20).max(Duration::from_secs(1))
    }
}
