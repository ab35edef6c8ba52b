//! Which subflows of the connection meet in one bottleneck: those whose round trips rise and fall
//! together. RFC 8382 compares summaries of one-way delay; this compares round trips directly, by
//! their correlation over some thirty rounds. Each counts with the mean of what was measured at
//! the same times: where a managed queue is short, single round trips differ by more than it does.

use crate::time::Duration;
use crate::view::{SubflowId, SubflowView};

/// What is known of each sibling.
#[derive(Clone, Default, Debug)]
pub(super) struct Shared {
    siblings: Vec<(SubflowId, Together)>,
}

/// Moments of two round trips, in seconds, smoothed.
#[derive(Clone, Copy, Default, Debug)]
struct Together {
    /// Sums over the present round, and their number.
    round: ([f64; 2], u32),
    samples: u32,
    mean: [f64; 2],
    variance: [f64; 2],
    covariance: f64,
    shared: bool,
}

impl Together {
    /// Rounds over which moments are taken.
    const MEMORY: u32 = 32;
    /// Correlation from which on a bottleneck is shared, and below which it is no more. Rounds that
    /// have nothing to do with each other come to 0.35 in a thirtieth of all cases (two standard
    /// deviations at so many rounds), queues that rise over many rounds to more.
    const SHARED: f64 = 0.7;
    const APART: f64 = 0.35;
    /// A standard deviation below this, in seconds, is no queue that grows and shrinks.
    const LEAST: f64 = 0.000_5;

    fn end_round(&mut self) {
        let ([own, other], count) = std::mem::take(&mut self.round);
        if count > 0 {
            self.add(own / f64::from(count), other / f64::from(count));
        }
    }

    fn add(&mut self, own: f64, other: f64) {
        self.samples = (self.samples + 1).min(Self::MEMORY);
        let weight = 1.0 / f64::from(self.samples);
        let differ = [own - self.mean[0], other - self.mean[1]];
        self.mean[0] += weight * differ[0];
        self.mean[1] += weight * differ[1];
        let blend = |old: f64, new: f64| (1.0 - weight) * (old + weight * new);
        self.variance[0] = blend(self.variance[0], differ[0] * differ[0]);
        self.variance[1] = blend(self.variance[1], differ[1] * differ[1]);
        self.covariance = blend(self.covariance, differ[0] * differ[1]);
        if self.samples < Self::MEMORY / 2 {
            return;
        }
        // Compared as squares, so that there is no root to take.
        let product = self.variance[0] * self.variance[1];
        let still = self.variance[0].min(self.variance[1]) < Self::LEAST * Self::LEAST;
        let least = if self.shared { Self::APART } else { Self::SHARED };
        let together =
            self.covariance > 0.0 && self.covariance * self.covariance >= least * least * product;
        // A queue that does not move says nothing either way.
        if !still {
            self.shared = together;
        }
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

    /// A round of the own subflow has ended.
    pub(super) fn on_round(&mut self, views: &[SubflowView]) {
        self.siblings.retain(|(known, _)| views.iter().any(|v| v.id == *known && v.usable));
        self.siblings.iter_mut().for_each(|(_, together)| together.end_round());
    }

    /// How many subflows share the bottleneck, the own one included.
    pub(super) fn count(&self) -> u64 {
        1 + self.siblings.iter().filter(|(_, together)| together.shared).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saw of `period` rounds between 20 and 30 ms, `phase` rounds later.
    fn saw(round: u32, period: u32, phase: u32) -> f64 {
        0.020 + 0.010 * f64::from((round + phase) % period) / f64::from(period)
    }

    #[test]
    fn one_queue_is_shared_and_two_are_not() {
        let mut together = Together::default();
        (0..100).for_each(|n| together.add(saw(n, 12, 0), saw(n, 12, 1) + 0.050));
        assert!(together.shared);
        (0..100).for_each(|n| together.add(saw(n, 12, 0), saw(n, 17, 5)));
        assert!(!together.shared);
    }

    #[test]
    fn a_queue_that_does_not_move_says_nothing() {
        let mut together = Together::default();
        (0..100).for_each(|n| together.add(0.020 + 1e-4 * saw(n, 12, 0), 0.030));
        assert!(!together.shared);
    }
}
