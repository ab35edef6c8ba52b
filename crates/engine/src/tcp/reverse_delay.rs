//! How long acknowledgements wait on their way back, by the peer's clock (RFC 7323): our clock when
//! one arrives less its TSval is the delay of that way plus a constant, and the least of that is
//! the delay without a queue, as in LEDBAT (RFC 6817). A round trip less this has only the queue
//! that our own data waits in.
//!
//! What is reported is a lower bound: timestamps have milliseconds, so that less than one is
//! nothing. Clocks drift apart, hence what is taken for the least rises with time: a queue that
//! stands for minutes is no longer seen. A clock that does not tick in milliseconds soon tells of
//! delays longer than the round trip, and nothing is reported before it had time to do so.

use crate::time::{Duration, Instant};

/// Delay of acknowledgements beyond the least seen.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ReverseDelay {
    /// When the first acknowledgement came.
    since: Instant,
    /// The one that was under way for the shortest time.
    least: Option<Least>,
    /// The peer's clock has told what cannot be.
    is_wrong: bool,
}

#[derive(Clone, Copy, Debug)]
struct Least {
    at: Instant,
    value: u32,
}

impl ReverseDelay {
    /// Resolution of timestamps.
    const TICK: Duration = Duration::from_millis(1);
    /// Clocks differ by less than a part in so many (RFC 6817 section 3.4.2 expects 100 ppm).
    const DRIFT: u64 = 10_000;
    /// Round trips in which a clock of another unit shows.
    const TRIAL: u64 = 4;
    /// Timestamps so far apart do not compare (they wrap around after 25 days).
    const LONG: Duration = Duration::from_secs(86_400);

    /// An acknowledgement with this TSval whose round trip is `rtt`. By how much longer it was
    /// under way than without a queue, at least.
    pub(super) fn on_ack(&mut self, now: Instant, value: u32, rtt: Duration) -> Duration {
        if self.is_wrong {
            return Duration::ZERO;
        }
        let here = Least { at: now, value };
        let least = match &mut self.least {
            Some(least) if now - least.at < Self::LONG => least,
            none => {
                (*none, self.since) = (Some(here), now);
                return Duration::ZERO;
            }
        };
        let elapsed = now - least.at;
        // Segments may overtake each other.
        let ticks = i64::from(value.wrapping_sub(least.value) as i32);
        let by_peer = ticks.saturating_mul(Self::TICK.0 as i64);
        let drift = (elapsed.0 / Self::DRIFT) as i64;
        let longer = (elapsed.0 as i64).saturating_sub(by_peer).saturating_sub(drift);
        if longer <= 0 {
            *least = here;
            return Duration::ZERO;
        }
        let longer = Duration(longer as u64).saturating_sub(Self::TICK);
        self.is_wrong = longer > rtt;
        let is_tried = now >= self.since + rtt * Self::TRIAL;
        if is_tried && !self.is_wrong { longer } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The peer's clock at a moment of ours, if it began at 4 billion and ticks once in `tick` ns.
    fn clock(at: u64, tick: u64) -> u32 {
        (4_294_900_000_u64 + at / tick) as u32
    }

    /// Acknowledgements each 3.3 ms, under way for 10 ms and a `queue` there; round trips are that
    /// and `forward`. What is told of each.
    fn told(
        count: u64,
        tick: u64,
        queue: impl Fn(u64) -> u64,
        forward: impl Fn(u64) -> u64,
    ) -> Vec<Duration> {
        let mut delay = ReverseDelay::default();
        let one = |n: u64| {
            let left = 3_300_000 * n;
            let now = Instant(left) + ms(10 + queue(n));
            delay.on_ack(now, clock(left, tick), ms(10 + queue(n) + forward(n)))
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn only_the_queue_on_the_way_back_is_told_and_never_more_of_it() {
        let queue = |n: u64| if (100..200).contains(&n) { 20 } else { 0 };
        let told = told(400, 1_000_000, queue, |n| n % 7 * 5);
        for (n, delay) in (0_u64..).zip(&told) {
            let truth = ms(queue(n));
            let resolution = Duration::from_micros(1_200);
            assert!(*delay <= truth && *delay + resolution >= truth, "{n}: {delay:?}");
        }
        let best = told[100..200].iter().max().unwrap();
        assert!(ms(20).saturating_sub(*best) < Duration::from_micros(200), "{best:?}");
    }

    #[test]
    fn a_clock_that_drifts_makes_no_queue() {
        // 80 ppm slow, for an hour.
        let told = told(1_000_000, 1_000_080, |_| 0, |_| 10);
        assert!(told.iter().all(|delay| delay.is_zero()));
    }

    /// Ticks of 10 ms, of 100 ms, of a microsecond, and a clock that stands.
    #[test]
    fn a_clock_of_another_unit_is_not_believed() {
        for tick in [10_000_000, 100_000_000, 1_000, u64::MAX] {
            let told = told(1_000, tick, |_| 0, |n| 10 + n % 10 * 5);
            assert!(told.iter().all(|delay| delay.is_zero()), "{tick}");
        }
    }
}
