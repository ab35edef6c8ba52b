//! Messages at a steady rate: voice, video, sensors. A message that finds the send buffer full
//! waits, and the wait counts as latency.

use super::Latencies;
use crate::scenario;
use tabane_engine::{Duration, Instant};

/// State of both ends.
#[derive(Debug)]
pub(super) struct Paced {
    message: u64,
    interval: Duration,
    /// When message 0 was due.
    started: Option<Instant>,
    /// Messages due so far.
    due: u64,
    /// Messages complete at the sink.
    arrived: u64,
    /// A tick is on its way.
    waiting: bool,
}

impl Paced {
    pub(super) fn new(spec: &scenario::Paced) -> Self {
        let nanos = u128::from(spec.message.0) * 8 * 1_000_000_000 / u128::from(spec.rate.0);
        let interval = Duration(u64::try_from(nanos).unwrap_or(u64::MAX).max(1));
        let message = spec.message.0;
        Self { message, interval, started: None, due: 0, arrived: 0, waiting: false }
    }

    /// Bytes due by now, and when more will be.
    pub(super) fn goal(&mut self, now: Instant, stopping: bool) -> (u64, Option<Instant>) {
        let started = *self.started.get_or_insert(now);
        if !stopping {
            self.due = (now - started).0 / self.interval.0 + 1;
        }
        let next = started + self.interval * self.due;
        let again = (!stopping && !std::mem::replace(&mut self.waiting, true)).then_some(next);
        (self.due * self.message, again)
    }

    /// The tick has come.
    pub(super) fn wake(&mut self) {
        self.waiting = false;
    }

    /// Notes the latency of every message that is complete with `read` bytes.
    pub(super) fn arrived(&mut self, now: Instant, read: u64, latencies: &mut Latencies) {
        let Some(started) = self.started else { return };
        while (self.arrived + 1) * self.message <= read {
            let due = started + self.interval * self.arrived;
            latencies.add((now - due).0);
            self.arrived += 1;
        }
    }
}
