//! Rates: how long the packet at the head of the queue takes to leave.

mod trace;

use super::LinkError;
use crate::scenario::LinkParams;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};

pub use trace::{OPPORTUNITY, Trace, TraceError};

/// Rates. Packets count with their IP header and no more.
#[derive(Clone, PartialEq, Debug)]
pub enum RateConfig {
    /// Sending takes no time.
    Unlimited,
    /// Bits per second, at least 1.
    Constant(u64),
    /// Opportunities to send, recorded from a real link.
    Trace(Arc<Trace>),
}

impl RateConfig {
    /// What scenarios ask for, but for traces, which are files.
    pub fn of(params: &LinkParams) -> Self {
        params.rate.map_or(Self::Unlimited, |rate| Self::Constant(rate.0))
    }

    /// Bits per second on average.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Unlimited => f64::INFINITY,
            Self::Constant(rate) => *rate as f64,
            Self::Trace(trace) => trace.mean_rate() as f64,
        }
    }

    pub(super) fn check(&self) -> Result<(), LinkError> {
        if matches!(self, Self::Constant(0)) { Err(LinkError::NoRate) } else { Ok(()) }
    }
}

/// Work to send: 10^-9 bits, so that both `bits / rate` and `rate * nanoseconds` are integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Work(pub u64);

impl Work {
    /// A packet of `bytes`.
    #[inline]
    pub fn bytes(bytes: u32) -> Self {
        Self(u64::from(bytes).saturating_mul(8_000_000_000))
    }

    /// What is left at `now` of work that takes from `start` to `end`, at an even pace.
    pub(super) fn left(self, start: Instant, now: Instant, end: Instant) -> Self {
        let (whole, left) = ((end - start).0, (end - now.max(start)).0);
        if whole == 0 {
            return Self(0);
        }
        Self((u128::from(self.0) * u128::from(left) / u128::from(whole)) as u64)
    }
}

/// The sender at the head of a link. Asked in order of time.
pub trait Rate: Send {
    /// The first moment at or after `at` at which a packet may begin.
    fn ready(&mut self, at: Instant) -> Instant {
        at
    }

    /// When the last bit of `work`, begun at `start`, has left.
    fn sent(&mut self, start: Instant, work: Work) -> Instant;
}

/// The model that `config` names, from `origin` on.
pub(super) fn build(config: &RateConfig, origin: Instant) -> Box<dyn Rate> {
    match config {
        RateConfig::Unlimited => Box::new(Unlimited),
        // Only conditions give it.
        RateConfig::Constant(0) => Box::new(Stopped),
        RateConfig::Constant(rate) => Box::new(Constant::new(*rate)),
        RateConfig::Trace(trace) => Box::new(trace::TraceDriven::new(trace.clone(), origin)),
    }
}

/// Sending takes no time.
struct Unlimited;

impl Rate for Unlimited {
    fn sent(&mut self, start: Instant, _work: Work) -> Instant {
        start
    }
}

/// Nothing is sent.
struct Stopped;

impl Rate for Stopped {
    fn sent(&mut self, _start: Instant, _work: Work) -> Instant {
        Instant::FAR_FUTURE
    }
}

/// So many bits per second. Moments are rounded down to nanoseconds; what is not yet sent then is
/// carried to the next packet, so that a busy link does not drift.
struct Constant {
    rate: u64,
    last: Instant,
    carry: u64,
    /// The last work, and what division by the rate gave: packets of one size follow each other,
    /// and dividing is the dearest thing a link does.
    known: (u64, u64, u64),
}

impl Constant {
    fn new(rate: u64) -> Self {
        Self { rate: rate.clamp(1, 1 << 62), last: Instant::ZERO, carry: 0, known: (0, 0, 0) }
    }
}

impl Rate for Constant {
    fn sent(&mut self, start: Instant, work: Work) -> Instant {
        if self.known.0 != work.0 {
            self.known = (work.0, work.0 / self.rate, work.0 % self.rate);
        }
        let (_, mut nanos, mut rest) = self.known;
        if start == self.last {
            rest += self.carry;
            if rest >= self.rate {
                (nanos, rest) = (nanos + 1, rest - self.rate);
            }
        }
        self.carry = rest;
        self.last = start + Duration(nanos);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_constant_rate_is_exact_to_the_nanosecond() {
        // 1500 bytes at 7 Mb/s take 1 714 285.714... ns.
        let mut rate = Constant::new(7_000_000);
        let mut at = Instant(5);
        for packet in 1..=7_000_u64 {
            at = rate.sent(at, Work::bytes(1500));
            let exact = 5 + packet * 12_000 * 1_000_000_000 / 7_000_000;
            assert_eq!(at, Instant(exact), "packet {packet}");
        }
        assert_eq!(at, Instant(5 + 12_000_000_000));
    }

    #[test]
    fn an_idle_link_carries_nothing() {
        let mut rate = Constant::new(7_000_000);
        let first = rate.sent(Instant(0), Work::bytes(1500));
        assert_eq!(first, Instant(1_714_285));
        assert_eq!(rate.sent(first + Duration(1), Work::bytes(1500)), Instant(3_428_571));
    }

    #[test]
    fn what_is_left_of_work_is_proportional() {
        let work = Work::bytes(1500);
        let left = work.left(Instant(1_000), Instant(251_000), Instant(1_001_000));
        assert_eq!(left, Work(work.0 / 4 * 3));
        assert_eq!(work.left(Instant(5), Instant(5), Instant(5)), Work(0));
    }
}
