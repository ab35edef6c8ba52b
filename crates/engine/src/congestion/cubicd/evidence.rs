//! Whether losses are of a queue that is managed: RED and PIE drop early, at random, from a queue
//! that is too short to stand out of the noise. What gives them away is that they drop more when
//! that queue is longer; losses by chance come whatever round trips are.
//!
//! Each round is one observation: its mean round trip, and how many segments were lost. Under
//! chance losses are independent of round trips, so that the sum of `(lost - expected) x deviation`
//! has mean zero, however round trips are correlated among themselves. Its variance is `expected x
//! deviation^2`, times what losses vary more than single ones would: they come in bursts. Round
//! trips are those of the last few rounds, as RED's average is, less those of many, or a path that
//! has become longer would tell. Rounds that lost a good part of their packets are left out: an
//! outage is neither kind.
//!
//! A short queue that overflows tells the same, also where most losses come by chance. Hence what
//! is believed is tried: once losses are answered, they must be fewer when round trips are short,
//! and depend on round trips as before; those by chance tell that as soon as it took to be misled.

use super::apart::Apart;
use crate::time::Duration;

/// What rounds have told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Sum of the round trips of the present round, ns, and their number.
    round: (u64, u64),
    /// Mean round trip of some rounds and of many, s, and how many rounds there were.
    some: f64,
    many: f64,
    rounds: u32,
    /// Mean square of their difference.
    variance: f64,
    apart: Apart,
    all: Seen,
    /// Of the last rounds, outages included in part.
    late: Seen,
    /// Since losses have been believed, and of that what had short round trips.
    since: Seen,
    short: Seen,
    /// The sum and its variance, if losses were single.
    sum: f64,
    spread: f64,
    /// Squares of `lost - expected`, and what they would be if losses were single.
    squares: [f64; 2],
    drops: bool,
    /// What was found of losses by deviation when that was believed, and the logarithm of how much
    /// likelier half of it is since then than chance (Wald's sequential test).
    found: f64,
    likelier: f64,
    /// Standard deviations from which on it is no chance.
    sure: f64,
}

/// Segments lost and sent, of late.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    pub(super) lost: f64,
    pub(super) segments: f64,
}

impl Seen {
    /// Adds a round to `keep` of those before.
    pub(super) fn add(&mut self, lost: f64, segments: f64, keep: f64) {
        self.lost = self.lost * keep + lost;
        self.segments = self.segments * keep + segments;
    }
}

impl Evidence {
    /// Rounds whose mean is weighed against that of `MANY`.
    const SOME: f64 = 4.0;
    const MANY: f64 = 32.0;
    /// What is left of an observation a round later: they are summed over some 500.
    const KEEP: f64 = 511.0 / 512.0;
    /// Standard deviations from which on it is no chance, and more each time that was wrong; below
    /// `UNSURE` it may be chance again.
    const SURE: f64 = 6.0;
    const UNSURE: f64 = 2.0;
    /// Standard deviations by which a round trip is short, by how much losses are fewer then if
    /// they are the queue's (RED's are two thirds), and losses from which on that can be told.
    const SHORT: f64 = 0.5;
    const FEWER: f64 = 1.4;
    const ENOUGH: f64 = 16.0;
    /// Logarithm of odds of one in twenty.
    const LIKELY: f64 = 3.0;
    /// More than a path without congestion loses over some 32 rounds, and what counts of one: an
    /// outage, or a change of satellites, loses all of some rounds, and then no more.
    const HEAVY: f64 = 0.08;
    const KEEP_LATE: f64 = 31.0 / 32.0;
    const ROUND: f64 = 0.25;
    /// Losses in a round that are no outage: some, and so much of it.
    const SOME_LOST: f64 = 3.0;
    const PART_LOST: f64 = 0.125;

    pub(super) fn new() -> Self {
        let none = Seen::default();
        Self {
            round: (0, 0),
            some: 0.0,
            many: 0.0,
            rounds: 0,
            variance: 0.0,
            apart: Apart::default(),
            all: none,
            late: none,
            since: none,
            short: none,
            sum: 0.0,
            spread: 0.0,
            squares: [0.0; 2],
            drops: false,
            found: 0.0,
            likelier: 0.0,
            sure: Self::SURE,
        }
    }

    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.round.0 += rtt.0;
        self.round.1 += 1;
    }

    /// A round has ended, in which so many segments were delivered and lost.
    pub(super) fn on_round(&mut self, delivered: f64, lost: f64) {
        let (sum, count) = std::mem::take(&mut self.round);
        if count == 0 {
            return;
        }
        let mean = sum as f64 / 1e9 / count as f64;
        self.rounds = self.rounds.saturating_add(1);
        let weight = |memory: f64| 1.0 / memory.min(f64::from(self.rounds));
        self.some += (mean - self.some) * weight(Self::SOME);
        self.many += (mean - self.many) * weight(Self::MANY);
        let differ = self.some - self.many;
        self.variance += (differ * differ - self.variance) * weight(Self::MANY);
        // The square root of next to nothing would make a deviation of it.
        let known = f64::from(self.rounds) >= Self::MANY && self.variance > 1e-18;
        let segments = delivered + lost;
        let counted = lost.min(segments * Self::ROUND);
        self.late.add(counted, segments, Self::KEEP_LATE);
        self.apart.on_round(mean, counted, segments);
        if known && lost <= Self::SOME_LOST + segments * Self::PART_LOST {
            let deviation = (differ / self.variance.sqrt()).clamp(-2.0, 2.0);
            self.observe(lost, segments, deviation);
        }
    }

    fn observe(&mut self, lost: f64, segments: f64, deviation: f64) {
        self.all.add(lost, segments, Self::KEEP);
        let expected = self.all.lost / self.all.segments.max(1.0) * segments;
        let differ = lost - expected;
        self.sum = self.sum * Self::KEEP + differ * deviation;
        self.spread = self.spread * Self::KEEP * Self::KEEP + expected * deviation * deviation;
        self.squares[0] = self.squares[0] * Self::KEEP + differ * differ;
        self.squares[1] = self.squares[1] * Self::KEEP + expected;
        let burst = self.burst();
        let least = if self.drops { Self::UNSURE } else { self.sure };
        let variance = self.spread * burst;
        let sure = self.sum > 0.0 && self.sum * self.sum > least * least * variance;
        if self.drops {
            self.compare(differ, expected, deviation, burst);
        } else {
            (self.since, self.short) = (Seen::default(), Seen::default());
            (self.found, self.likelier) = (self.sum / self.spread.max(f64::MIN_POSITIVE), 0.0);
        }
        self.drops = sure && self.all.lost >= Self::ENOUGH / 2.0 * burst;
        self.since.add(lost, segments, Self::KEEP);
        if deviation < -Self::SHORT {
            self.short.add(lost, segments, Self::KEEP);
        }
        let (since, short) = (self.since, self.short);
        // Of those with short round trips, if it were chance.
        let expected = since.lost / since.segments.max(1.0) * short.segments;
        let is_known = expected >= Self::ENOUGH * burst;
        let by_chance = self.likelier < -Self::LIKELY;
        if self.drops && (by_chance || is_known && short.lost * Self::FEWER >= expected) {
            self.refute();
        }
    }

    /// What was believed, if anything was, was wrong: it takes more to be believed again.
    pub(super) fn refute(&mut self) {
        if !self.apart.loses_less() && std::mem::take(&mut self.drops) {
            (self.sum, self.spread) = (0.0, 0.0);
            self.sure += Self::SURE;
        }
    }

    /// Does a round tell of as many drops as were found? Of half as many, since what was found was
    /// believed for being much.
    fn compare(&mut self, differ: f64, expected: f64, deviation: f64, burst: f64) {
        let half = self.found / 2.0;
        let told = half * differ * deviation - (half * deviation).powi(2) / 2.0 * expected;
        self.likelier = (self.likelier + told / burst).min(Self::LIKELY);
    }

    /// Others are given way to.
    pub(super) fn give_way(&mut self) {
        self.apart = Apart::begin(self.late.lost / self.late.segments.max(1.0), self.burst());
    }

    /// Whether what has been seen since then tells that they are not there.
    pub(super) fn is_deserted(&self) -> bool {
        self.apart.is_deserted()
    }

    /// Rounds with many losses had a reason.
    pub(super) fn forget_heavy(&mut self) {
        self.late = Seen::default();
    }

    /// How many losses come at a time.
    fn burst(&self) -> f64 {
        let [squares, single] = self.squares;
        if single > 0.0 { (squares / single).max(1.0) } else { 1.0 }
    }

    /// Whether losses come with round trips that are longer than usual, and not without, or are
    /// more than a path without congestion has: PIE's depend on the queue of some seconds ago.
    pub(super) fn drops(&self) -> bool {
        let heavy = self.late.lost > Self::HEAVY * self.late.segments;
        self.drops || heavy && self.late.lost > Self::ENOUGH * self.burst()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that swings between 0 and 2 ms over 60 rounds. A round loses what `lose` says, by
    /// the queue and a generator's luck, and delivers what `delivered` says of that.
    fn told(
        rounds: u32,
        delivered: impl Fn(u32) -> u32,
        lose: impl Fn(f64, &mut dyn FnMut(f64) -> bool) -> u32,
    ) -> bool {
        let mut evidence = Evidence::new();
        let mut state = 1_u64;
        let mut with = |p: f64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) as f64) < p * f64::from(1_u32 << 31)
        };
        for n in 0..rounds {
            let queue = f64::from((n % 60).abs_diff(30)) / 30.0;
            let rtt = Duration::from_secs_f64(0.030 + 0.002 * queue);
            evidence.on_rtt(rtt);
            let lost = lose(queue, &mut with);
            evidence.on_round(f64::from(delivered(lost)), f64::from(lost));
        }
        evidence.drops()
    }

    /// Rounds of 20 segments lose one as `p` of the queue says.
    fn after(rounds: u32, p: impl Fn(f64) -> f64) -> bool {
        told(rounds, |_| 20, |queue, with| u32::from(with(p(queue))))
    }

    /// Of rounds of `segments`, `burst` at a time are lost.
    fn losing(rounds: u32, segments: u32, burst: u32, p: impl Fn(f64) -> f64) -> bool {
        let lose = |queue, with: &mut dyn FnMut(f64) -> bool| {
            burst * (0..segments / burst).filter(|_| with(p(queue))).count() as u32
        };
        told(rounds, |lost| segments - lost, lose)
    }

    #[test]
    fn drops_grow_with_the_queue_and_losses_by_chance_do_not() {
        assert!(after(600, |queue| 0.4 * queue * queue));
        for rounds in [100, 300, 1_000, 3_000] {
            assert!(!after(rounds, |_| 0.2), "{rounds} rounds");
        }
    }

    #[test]
    fn an_overflow_among_losses_by_chance_is_not_believed_for_long() {
        let often = (1_000..3_000)
            .step_by(100)
            .filter(|n| after(*n, |queue| if queue > 0.8 { 0.8 } else { 0.3 }));
        assert!(often.count() <= 5);
    }

    #[test]
    fn rounds_that_all_lose_something_tell_by_how_much() {
        assert!(losing(300, 400, 1, |queue| 0.02 * queue));
        for rounds in [100, 300, 1_000] {
            assert!(!losing(rounds, 400, 1, |_| 0.01), "{rounds} rounds");
            assert!(!losing(rounds, 400, 10, |_| 0.02), "{rounds} rounds in bursts");
        }
    }

    /// A queue that overflows tells by `n` rounds that it drops; after that, losses are by chance.
    #[test]
    fn what_was_believed_is_given_up_when_losses_are_by_chance() {
        let overflows = 300_u32;
        let given_up = |rounds: u32| {
            let round = std::cell::Cell::new(0_u32);
            !after(overflows + rounds, |queue| {
                round.set(round.get() + 1);
                let full = if queue > 0.8 { 0.8 } else { 0.0 };
                if round.get() <= overflows { full } else { 0.2 }
            })
        };
        assert!(!given_up(0));
        assert!(given_up(overflows));
        assert!((300..1_500).step_by(100).all(given_up));
    }

    #[test]
    fn a_tenth_lost_for_long_is_no_chance() {
        assert!(losing(100, 30, 1, |_| 0.12));
        assert!(!losing(1_000, 30, 1, |_| 0.04));
    }
}
