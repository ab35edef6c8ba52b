//! Which subflows of the connection meet in one bottleneck: those whose round trips rise and fall
//! together, and change together from round to round. RFC 8382 compares summaries of one-way delay;
//! this compares round trips directly. Queues that rise for seconds do so together by chance, and a
//! host that is late changes all round trips alike: neither says enough without the other.
//!
//! Each round counts with the mean of what was measured at the same times, as single round trips
//! differ by more than a short queue does; and a change that is far above the usual ones, as at the
//! end of slow start, with little more than those.
//!
//! Such subflows are one flow beside others: each grows by its part, and what one of them loses
//! counts for all, once in a round trip. A smaller growth alone would not do: what grows less has
//! fewer of the losses that growth brings about, where queues overflow.

use super::Cubicd;
use crate::congestion::{Ack, Congestion, CongestionController, CongestionKind};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowId, SubflowView};

/// What is known of each sibling.
#[derive(Clone, Default, Debug)]
pub(super) struct Shared {
    siblings: Vec<(SubflowId, Together)>,
}

/// Moments of two series, the latest counting most.
#[derive(Clone, Copy, Default, Debug)]
struct Moments {
    mean: [f64; 2],
    variance: [f64; 2],
    covariance: f64,
}

impl Moments {
    fn add(&mut self, pair: [f64; 2], weight: f64) {
        let differ = [pair[0] - self.mean[0], pair[1] - self.mean[1]];
        self.mean[0] += weight * differ[0];
        self.mean[1] += weight * differ[1];
        let blend = |old: f64, new: f64| (1.0 - weight) * (old + weight * new);
        self.variance[0] = blend(self.variance[0], differ[0] * differ[0]);
        self.variance[1] = blend(self.variance[1], differ[1] * differ[1]);
        self.covariance = blend(self.covariance, differ[0] * differ[1]);
    }

    /// Whether the correlation is at least the root of this. Squares, so that there is no root to
    /// take.
    fn correlate(&self, square: f64) -> bool {
        let product = self.variance[0] * self.variance[1];
        let moves = product > f64::EPSILON * f64::EPSILON;
        moves && self.covariance > 0.0 && self.covariance * self.covariance >= square * product
    }
}

/// Two round trips, round by round.
#[derive(Clone, Copy, Default, Debug)]
struct Together {
    /// Sums over the present round in seconds, and their number.
    round: ([f64; 2], u32),
    /// When that began.
    began: Instant,
    /// Means of the last round.
    last: Option<[f64; 2]>,
    samples: u32,
    /// What changes from one round to the next amount to, seconds.
    usual: [f64; 2],
    /// Of round trips, seconds, and of their changes, in usual ones.
    levels: Moments,
    changes: Moments,
    shared: bool,
    /// When the sibling last answered a congestion signal, as far as is known.
    reduced_at: Instant,
}

impl Together {
    /// Rounds over which moments of changes are taken, and those of round trips and what changes
    /// are usual; after so many they say something.
    const MEMORY: u32 = 256;
    const LATELY: u32 = 32;
    /// Squares of correlations. Of round trips: from which on a bottleneck is shared, and below
    /// which it is no more.
    const ALIKE: f64 = 0.49;
    const UNLIKE: f64 = 0.01;
    /// Of n changes, times n: by chance the root of that is normal with a deviation of one,
    /// whatever n is.
    const NO_CHANCE: f64 = 4.0;
    /// What counts of one change, in usual ones: for what is usual, and for the correlation.
    const FAR: f64 = 4.0;
    const CLEAR: f64 = 2.0;
    /// A standard deviation below this, in seconds, is no queue that grows and shrinks: a host
    /// that is late is so for all its subflows.
    const LEAST: f64 = 0.000_5;

    fn end_round(&mut self) {
        let ([own, other], count) = std::mem::take(&mut self.round);
        if count > 0 {
            self.add(own / f64::from(count), other / f64::from(count));
        }
    }

    fn add(&mut self, own: f64, other: f64) {
        self.samples = (self.samples + 1).min(Self::MEMORY);
        let weight = |number: u32, memory: u32| 1.0 / f64::from(number.min(memory));
        self.levels.add([own, other], weight(self.samples, Self::LATELY));
        let Some(last) = self.last.replace([own, other]) else { return };
        // There is one change less than rounds.
        let number = self.samples - 1;
        let lately = weight(number, Self::LATELY);
        let mut changes = [own - last[0], other - last[1]];
        for (change, usual) in changes.iter_mut().zip(&mut self.usual) {
            let known = self.samples >= Self::LATELY / 4;
            let most = if known { Self::FAR * *usual } else { f64::INFINITY };
            *usual += lately * (change.abs().min(most) - *usual);
            let in_usual = *change / usual.max(f64::MIN_POSITIVE);
            *change = in_usual.clamp(-Self::CLEAR, Self::CLEAR);
        }
        self.changes.add(changes, weight(number, Self::MEMORY));
        if self.samples < Self::LATELY {
            return;
        }
        // Round trips that rise together may do so by chance, and changes by a host's lateness.
        let [own, other] = self.levels.variance;
        let moves = own.min(other) >= Self::LEAST * Self::LEAST;
        let by_chance = Self::NO_CHANCE / f64::from(self.samples);
        let alike = self.levels.correlate(if self.shared { Self::UNLIKE } else { Self::ALIKE });
        self.shared = alike && self.changes.correlate(by_chance) && (moves || self.shared);
    }
}

impl Shared {
    /// A round trip of the subflow `id`, beside the latest ones of the others.
    pub(super) fn on_rtt(&mut self, id: SubflowId, rtt: Duration, views: &[SubflowView]) {
        let busy = |v: &&SubflowView| v.usable && !v.srtt.is_zero() && v.in_flight > 0;
        for view in views.iter().filter(|v| v.id != id).filter(busy) {
            let other = view.latest_rtt.as_secs_f64();
            let known = self.siblings.iter_mut().find(|(known, _)| *known == view.id);
            let Some((_, together)) = known else {
                self.siblings.push((view.id, Together::default()));
                continue;
            };
            let ([sum, sum_other], count) = &mut together.round;
            *sum += rtt.as_secs_f64();
            *sum_other += other;
            *count += 1;
        }
    }

    /// A round of the own subflow has ended. Those are counted together that a sibling with longer
    /// round trips takes for one: it has nothing new to compare sooner.
    pub(super) fn on_round(&mut self, now: Instant, views: &[SubflowView]) {
        self.siblings.retain(|(known, _)| views.iter().any(|v| v.id == *known && v.usable));
        for (id, together) in &mut self.siblings {
            let view = views.iter().find(|view| view.id == *id);
            if view.is_some_and(|view| now >= together.began + view.srtt) {
                together.began = now;
                together.end_round();
            }
        }
    }

    /// Whether a sibling at the same bottleneck has answered a congestion signal since this was
    /// last asked.
    pub(super) fn congested(&mut self, views: &[SubflowView]) -> bool {
        let mut congested = false;
        for (id, together) in &mut self.siblings {
            if let Some(view) = views.iter().find(|view| view.id == *id) {
                congested |= together.shared && view.reduced_at > together.reduced_at;
                together.reduced_at = view.reduced_at;
            }
        }
        congested
    }

    /// How many subflows share the bottleneck, the own one included.
    pub(super) fn count(&self) -> u64 {
        1 + self.siblings.iter().filter(|(_, together)| together.shared).count() as u64
    }
}

impl Cubicd {
    /// Whether a loss is one of the bottleneck's. Where losses come by chance, they are believed
    /// from the queue on that asks for a drain: or the queue would never become so long.
    pub(super) fn believes_losses(&self) -> bool {
        let noisy = self.path.loses_by_chance();
        let least = if noisy { self.limit() } else { self.path.jitter() };
        self.path.queue() > least || self.path.early_drops()
    }

    /// A sibling at the same bottleneck has answered a congestion signal: one flow of all would.
    pub(super) fn on_shared_congestion(&mut self, ack: &Ack, siblings: &[SubflowView]) {
        let repairs = ack.phase != RecoveryPhase::Open;
        if repairs || ack.now < self.answered_at + self.srtt || !self.believes_losses() {
            return;
        }
        self.answered_at = ack.now;
        let event = Congestion {
            now: ack.now,
            subflow: ack.subflow,
            kind: CongestionKind::Loss,
            in_flight: ack.in_flight,
            mss: ack.mss,
            snd_nxt: ack.snd_una + ack.in_flight,
        };
        self.cubic.on_congestion(&event, siblings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips around 25 ms, by one queue and others of their own: numbers of a fixed sequence
    /// (Knuth's MMIX generator), of which the first is a part of both.
    fn rounds(rounds: u32, common: f64) -> Together {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24) * 0.010
        };
        let mut together = Together::default();
        for _ in 0..rounds {
            let queue = next() * common;
            together.add(0.020 + queue + next(), 0.070 + queue + next());
        }
        together
    }

    #[test]
    fn one_queue_is_shared_and_two_are_not() {
        assert!(rounds(60, 2.5).shared, "six sevenths of the variance");
        assert!(!rounds(400, 0.4).shared, "a seventh");
        (20..600).step_by(7).for_each(|n| assert!(!rounds(n, 0.0).shared, "{n}"));
        let mut once = rounds(100, 2.5);
        (0..2_000).for_each(|n| once.add(saw(n, 12, 0), saw(n, 17, 5)));
        assert!(!once.shared, "no more");
    }

    /// Queues that fill for seconds and empty at once, each in its own time.
    #[test]
    fn queues_that_rise_for_long_are_not_shared_for_that() {
        let mut together = Together::default();
        for n in 0..1_000 {
            together.add(saw(n, 90, 0), saw(n, 130, 7));
            assert!(!together.shared, "{n}");
        }
    }

    /// A saw of `period` rounds between 20 and 30 ms, `phase` rounds later.
    fn saw(round: u32, period: u32, phase: u32) -> f64 {
        0.020 + 0.010 * f64::from((round + phase) % period) / f64::from(period)
    }

    #[test]
    fn a_queue_that_does_not_move_says_nothing() {
        let mut together = Together::default();
        (0..300).for_each(|n| together.add(0.020 + 1e-3 * saw(n, 12, 0), 0.030));
        assert!(!together.shared);
    }
}
