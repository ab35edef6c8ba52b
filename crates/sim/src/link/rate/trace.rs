//! Trace-driven rate, in mahimahi's format (Netravali et al., USENIX ATC 2015): each line is the
//! millisecond at which 1500 bytes may leave; the last one is also the period.

use super::{Rate, Work};
use std::sync::Arc;
use tabane_engine::{Duration, Instant};
use thiserror::Error;

/// Bytes per opportunity.
pub const OPPORTUNITY: u64 = 1500;

/// Opportunities, largest supported number in one trace.
const MAX_LINES: usize = 10_000_000;

/// A parsed trace file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Ascending milliseconds; one entry per opportunity.
    at_ms: Vec<u32>,
}

/// Why a trace file is none.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum TraceError {
    /// A line that is not a number of milliseconds.
    #[error("line {line}: '{text}' is not a number of milliseconds")]
    Number {
        /// From 1.
        line: usize,
        /// What is there.
        text: String,
    },
    /// A time before the one above it.
    #[error("line {0}: earlier than the line above")]
    Order(usize),
    /// No line, or no time above 0, so that there is no period.
    #[error("no opportunity after 0 ms: a trace ends with its period")]
    Empty,
    /// Too many lines.
    #[error("more than {MAX_LINES} lines")]
    TooLong,
}

impl Trace {
    /// Parses the text of a trace file. Empty lines are allowed.
    ///
    /// # Errors
    /// [`TraceError`] says in which line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut at_ms: Vec<u32> = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let (line, text) = (index + 1, text.trim());
            if text.is_empty() {
                continue;
            }
            let shown = || text.chars().take(40).collect();
            let wrong = |_| TraceError::Number { line, text: shown() };
            let ms: u32 = text.parse().map_err(wrong)?;
            if at_ms.last().is_some_and(|&last| ms < last) {
                return Err(TraceError::Order(line));
            }
            if at_ms.len() == MAX_LINES {
                return Err(TraceError::TooLong);
            }
            at_ms.push(ms);
        }
        match at_ms.last() {
            None | Some(0) => Err(TraceError::Empty),
            Some(_) => Ok(Self { at_ms }),
        }
    }

    /// After which it repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(u64::from(self.at_ms.last().copied().unwrap_or(1)))
    }

    /// Mean rate, bits per second.
    pub fn mean_rate(&self) -> u64 {
        let bits = self.at_ms.len() as u64 * OPPORTUNITY * 8;
        (u128::from(bits) * 1_000_000_000 / u128::from(self.period().0)) as u64
    }
}

/// A trace being played, from the moment its link was given it.
#[derive(Clone, Debug)]
pub(super) struct TraceDriven {
    trace: Arc<Trace>,
    /// Beginning of the period in which `next` lies.
    base: Instant,
    /// The opportunity that is used next.
    next: usize,
    /// Bytes that may still leave at `at`.
    left: u64,
    /// The opportunity being used.
    at: Instant,
}

impl TraceDriven {
    pub(super) fn new(trace: Arc<Trace>, origin: Instant) -> Self {
        Self { trace, base: origin, next: 0, left: 0, at: origin }
    }

    fn time(&self, index: usize) -> Instant {
        self.base + Duration::from_millis(u64::from(self.trace.at_ms[index]))
    }

    /// Takes the first unused opportunity at or after `earliest`; those before it pass unused.
    fn take(&mut self, earliest: Instant) {
        let period = self.trace.period();
        let behind = (earliest - self.base).0 / period.0;
        if behind > 1 {
            // The last line of a period is at the same time as its end: step to one before.
            self.base += period * (behind - 1);
            self.next = 0;
        }
        if self.time(self.trace.at_ms.len() - 1) < earliest {
            self.base += period;
            self.next = 0;
        }
        if self.time(self.next) < earliest {
            let offset = earliest - self.base;
            let passed = |&ms: &u32| Duration::from_millis(u64::from(ms)) < offset;
            self.next = self.trace.at_ms.partition_point(passed);
        }
        self.at = self.time(self.next);
        self.left = OPPORTUNITY;
        self.next += 1;
        if self.next == self.trace.at_ms.len() {
            self.base += period;
            self.next = 0;
        }
    }
}

impl Rate for TraceDriven {
    fn ready(&mut self, at: Instant) -> Instant {
        if self.left == 0 || self.at < at {
            self.take(at);
        }
        self.at
    }

    fn sent(&mut self, _start: Instant, work: Work) -> Instant {
        let mut bytes = work.0.div_ceil(Work::bytes(1).0);
        while bytes > self.left {
            bytes -= self.left;
            self.take(self.at);
        }
        self.left -= bytes;
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn traces_that_are_none_are_refused_with_the_line() {
        assert_eq!(Trace::parse("1\n5\n\n4\n"), Err(TraceError::Order(4)));
        let number = TraceError::Number { line: 2, text: "x".into() };
        assert_eq!(Trace::parse("1\nx\n"), Err(number));
        assert_eq!(Trace::parse("0\n0\n"), Err(TraceError::Empty));
        assert_eq!(Trace::parse(""), Err(TraceError::Empty));
    }

    #[test]
    fn opportunities_repeat_and_unused_ones_pass() {
        let trace = Trace::parse("0\n2\n2\n5\n").unwrap();
        assert_eq!((trace.period(), trace.mean_rate()), (Duration::from_millis(5), 9_600_000));
        let mut rate = TraceDriven::new(Arc::new(trace), ms(100));
        let mut send = |at: Instant, bytes| {
            let start = rate.ready(at);
            rate.sent(start, Work::bytes(bytes))
        };
        assert_eq!(send(ms(100), 1500), ms(100));
        assert_eq!(send(ms(100), 1500), ms(102));
        assert_eq!(send(ms(102), 1500), ms(102), "two opportunities in that millisecond");
        assert_eq!(send(ms(102), 1500), ms(105), "the last of the period");
        assert_eq!(send(ms(105), 1500), ms(105), "0 ms of the next period");
        assert_eq!(send(ms(108), 40), ms(110), "107 ms passed unused");
        assert_eq!(send(ms(1001), 1500), ms(1002));
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_need_several() {
        let trace = Trace::parse("10\n20\n30\n").unwrap();
        let mut rate = TraceDriven::new(Arc::new(trace), ms(0));
        let mut send = |at: Instant, bytes| {
            let start = rate.ready(at);
            (start, rate.sent(start, Work::bytes(bytes)))
        };
        assert_eq!(send(ms(0), 1000), (ms(10), ms(10)));
        assert_eq!(send(ms(10), 500), (ms(10), ms(10)));
        assert_eq!(send(ms(10), 3001), (ms(20), ms(40)));
        assert_eq!(send(ms(40), 1499), (ms(40), ms(40)));
        assert_eq!(send(ms(40), 1), (ms(50), ms(50)));
    }
}
