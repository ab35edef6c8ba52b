//! What little in flight tells of others who were given way to.
//!
//! *Round trips.* Those that jitter are independent from one round to the next, a queue that others
//! fill is about as long in the next as in this one. Where rounds are independent, squares of steps
//! from one to the next are twice those of differences from the mean (von Neumann's ratio, 1941).
//!
//! *Losses.* What is lost by chance is as much of little as it was of much. Where it has become far
//! less, what was lost before was of a queue: ours, or one that is shared.

use super::evidence::Seen;

/// Rounds since others have been given way to.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Apart {
    rounds: u32,
    /// Mean round trips of the first that counts and of the latest, s.
    first: f64,
    latest: f64,
    /// Sums of differences from the first, of their squares, and of those of steps.
    sum: f64,
    squares: f64,
    steps: f64,
    /// Of segments before, the share that was lost, and how many came at a time.
    lost: f64,
    burst: f64,
    seen: Seen,
}

impl Apart {
    /// Rounds that others have to come back: each of them adds a segment a round.
    const SKIPPED: u32 = 32;
    /// Rounds that tell whether they are independent. They are counted anew after twice as many.
    const ENOUGH: u32 = 128;
    /// Standard deviations by which the ratio may be below two; one of them is `2 / sqrt(rounds)`.
    const BELOW: f64 = 1.0;
    /// Bursts of losses that are to be expected, and by how much fewer there are where they were of
    /// a queue. A queue of ours that overflows beside losses by chance has three times as many as
    /// chance alone, RED with five others in it ten times.
    const EXPECTED: f64 = 16.0;
    const FEWER: f64 = 5.0;
    const KEEP: f64 = 127.0 / 128.0;

    /// Others have been given way to. Of segments before, that share was lost, so many at a time.
    pub(super) fn begin(lost: f64, burst: f64) -> Self {
        Self { lost, burst, ..Self::default() }
    }

    /// A round has ended, of that mean round trip, s.
    pub(super) fn on_round(&mut self, mean: f64, lost: f64, segments: f64) {
        if self.rounds == Self::SKIPPED + 2 * Self::ENOUGH {
            (self.rounds, self.sum, self.squares, self.steps) = (Self::SKIPPED, 0.0, 0.0, 0.0);
        }
        self.rounds += 1;
        if self.rounds <= Self::SKIPPED + 1 {
            (self.first, self.latest) = (mean, mean);
        }
        if self.rounds <= Self::SKIPPED {
            return;
        }
        let (differ, step) = (mean - self.first, mean - self.latest);
        self.sum += differ;
        self.squares += differ * differ;
        self.steps += step * step;
        self.latest = mean;
        self.seen.add(lost, segments, Self::KEEP);
    }

    /// Whether round trips are independent, and losses about as many as before.
    pub(super) fn is_deserted(&self) -> bool {
        let rounds = f64::from(self.rounds.saturating_sub(Self::SKIPPED));
        let scatter = self.squares - self.sum * self.sum / rounds.max(1.0);
        let least = 2.0 - Self::BELOW * 2.0 / rounds.max(1.0).sqrt();
        rounds >= f64::from(Self::ENOUGH) && self.steps > least * scatter && !self.loses_less()
    }

    /// Whether losses are far fewer than before: they were of a queue.
    pub(super) fn loses_less(&self) -> bool {
        let expected = self.lost * self.seen.segments;
        expected >= Self::EXPECTED * self.burst && self.seen.lost * Self::FEWER < expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some noise, uniform in -0.5..0.5.
    fn noise() -> impl FnMut() -> f64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5
        }
    }

    /// In how many of 40 runs of so many rounds it looks deserted, with a queue that is `queue` of
    /// what it was a round before, and 20 segments a round of which `lost` are lost.
    fn deserted(rounds: u32, queue: f64, before: f64, lost: f64) -> usize {
        let mut noise = noise();
        let mut run = || {
            let (mut apart, mut stands) = (Apart::begin(before, 1.0), 0.0);
            for _ in 0..rounds {
                stands = stands * queue + noise() * 0.002;
                apart.on_round(0.03 + stands + noise() * 0.001, 20.0 * lost, 20.0);
            }
            apart.is_deserted()
        };
        (0..40).filter(|_| run()).count()
    }

    #[test]
    fn jitter_is_independent_and_a_queue_is_not() {
        assert!(deserted(200, 0.0, 0.01, 0.01) >= 30);
        assert_eq!(deserted(200, 0.7, 0.01, 0.01), 0);
        assert_eq!(deserted(Apart::SKIPPED + Apart::ENOUGH - 1, 0.0, 0.01, 0.01), 0);
    }

    #[test]
    fn losses_that_go_with_what_is_in_flight_are_of_a_queue() {
        assert_eq!(deserted(200, 0.0, 0.05, 0.005), 0);
        assert!(deserted(200, 0.0, 0.02, 0.01) >= 30);
    }

    #[test]
    fn counting_begins_anew_and_goes_on() {
        let anew = Apart::SKIPPED + 2 * Apart::ENOUGH;
        assert_eq!(deserted(anew + 1, 0.0, 0.01, 0.01), 0);
        assert!(deserted(anew + Apart::ENOUGH, 0.0, 0.01, 0.01) >= 30);
    }
}
