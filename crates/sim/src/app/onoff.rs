//! Bursts and silence, constant or exponentially distributed: cross traffic.
//!
//! While on, a source keeps at most [`BACKLOG`] bytes waiting in the connection, so that silence
//! begins soon after it is ordered.

use crate::scenario;
use crate::seed::Rng;
use tabane_engine::{Duration, Instant};

/// State of the source.
#[derive(Debug)]
pub(super) struct OnOff {
    on: Duration,
    off: Duration,
    random: Option<Rng>,
    /// Sending, until `until`.
    sending: bool,
    until: Option<Instant>,
    /// Room in an empty send buffer.
    room: u64,
    waiting: bool,
}

/// Written and not yet acknowledged, bytes.
const BACKLOG: u64 = 512 << 10;
/// How often a source that is on looks for room.
const LOOK: Duration = Duration::from_millis(5);

impl OnOff {
    pub(super) fn new(spec: &scenario::OnOff, rng: Rng) -> Self {
        Self {
            on: spec.on.0,
            off: spec.off.0,
            random: spec.random.then_some(rng),
            sending: false,
            until: None,
            room: 0,
            waiting: false,
        }
    }

    /// Bytes that should have been written by now, given those that have been and the room in the
    /// send buffer; and when to look again.
    pub(super) fn goal(&mut self, now: Instant, written: u64, room: u64) -> (u64, Option<Instant>) {
        self.room = self.room.max(room);
        let mut until = *self.until.get_or_insert(now);
        while until <= now {
            self.sending = !self.sending;
            until += self.span();
        }
        self.until = Some(until);
        let next = if self.sending { until.min(now + LOOK) } else { until };
        let again = (!std::mem::replace(&mut self.waiting, true)).then_some(next);
        let backlog = self.room - room;
        let more = if self.sending { BACKLOG.saturating_sub(backlog) } else { 0 };
        (written + more, again)
    }

    /// The tick has come.
    pub(super) fn wake(&mut self) {
        self.waiting = false;
    }

    fn span(&mut self) -> Duration {
        let mean = if self.sending { self.on } else { self.off };
        match &mut self.random {
            // A span of zero would never end.
            Some(rng) => Duration(rng.exponential_span(mean).0.max(1_000)),
            None => Duration(mean.0.max(1)),
        }
    }
}
