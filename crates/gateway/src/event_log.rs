//! What happens to an agent: the last things are remembered for whoever asks, and each goes to the
//! log as it happens. `tabane monitor` and the journal have one source, so neither knows less.

use crate::model::{AgentEvent, EventKind};
use std::collections::VecDeque;
use std::fmt;
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;

/// Remembers the last [`KEPT`].
pub(crate) struct EventLog {
    clock: Clock,
    all: VecDeque<AgentEvent>,
    last: u64,
    log: Option<Log>,
}

/// Gets each event as it happens.
pub(crate) type LogSink = Box<dyn Fn(&AgentEvent) + Send>;

/// A log that nobody can fill: a peer that comes and goes causes events as often as it likes.
struct Log {
    sink: LogSink,
    /// Events that may be logged now; one more every [`LOG_EVERY`], at most [`LOG_BURST`].
    left: u32,
    since: Instant,
    /// Events not logged since the last that was.
    skipped: u64,
}

/// Logged at once.
const LOG_BURST: u32 = 100;
/// From one to the next after that.
const LOG_EVERY: Duration = Duration::from_millis(200);

/// The oldest goes when there are more.
pub(crate) const KEPT: usize = 4096;

impl EventLog {
    /// None yet; times are by this clock.
    #[must_use]
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, all: VecDeque::new(), last: 0, log: None }
    }

    /// Where events go from now on, beside being remembered.
    pub(crate) fn set_log(&mut self, sink: LogSink) {
        self.log = Some(Log { sink, left: LOG_BURST, since: Instant::ZERO, skipped: 0 });
    }

    /// The configuration was read again: what has changed, or why it was not taken.
    pub(crate) fn reloaded(&mut self, now: Instant, done: &Result<String, String>) {
        match done {
            Ok(text) => self.add(now, EventKind::Reload, (None, None), text.clone()),
            Err(text) => self.add(now, EventKind::ReloadFailed, (None, None), text.clone()),
        }
    }

    /// Something happened: to a path, if one is named, of a client, if one is named.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        kind: EventKind,
        (client, path): (Option<&str>, Option<&str>),
        text: String,
    ) {
        self.last += 1;
        if self.all.len() == KEPT {
            self.all.pop_front();
        }
        let event = AgentEvent {
            seq: self.last,
            unix_ms: self.unix_ms(now),
            kind,
            path: path.map(str::to_owned),
            client: client.map(str::to_owned),
            text,
        };
        if let Some(log) = &mut self.log {
            log.take(now, &event);
        }
        self.all.push_back(event);
    }

    /// The wall clock then, as events have it: milliseconds since 1970.
    #[must_use]
    pub(crate) fn unix_ms(&self, now: Instant) -> u64 {
        self.clock.unix(now).as_millis() as u64
    }

    /// The number of the last one; 0 if there was none.
    #[must_use]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Those after that number, oldest first.
    #[must_use]
    pub(crate) fn since(&self, seq: u64) -> Vec<AgentEvent> {
        let known = self.all.iter().take_while(|h| h.seq <= seq).count();
        self.all.iter().skip(known).cloned().collect()
    }
}

impl Log {
    fn take(&mut self, now: Instant, event: &AgentEvent) {
        let more = now.saturating_since(self.since).0 / LOG_EVERY.0;
        if more > 0 {
            self.left =
                LOG_BURST.min(self.left.saturating_add(u32::try_from(more).unwrap_or(LOG_BURST)));
            self.since = now;
        }
        if self.left == 0 {
            self.skipped += 1;
            return;
        }
        self.left -= 1;
        if self.skipped > 0 {
            let text = format!(
                "{} events, too many at once; `tabane monitor --since 0` has the last",
                self.skipped
            );
            let kind = EventKind::NotLogged;
            (self.sink)(&AgentEvent { kind, path: None, client: None, text, ..*event });
            self.skipped = 0;
        }
        (self.sink)(event);
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("last", &self.last).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn the_last_ones_are_remembered_in_order() {
        let mut event_log = EventLog::new(Clock::start());
        for i in 0..KEPT as u64 + 10 {
            event_log.add(Instant(i), EventKind::PathUp, (None, Some("wifi")), format!("{i}"));
        }
        let all = event_log.since(0);
        assert_eq!((all.len(), all[0].seq), (KEPT, 11));
        let new = event_log.since(KEPT as u64 + 8);
        assert_eq!(new.iter().map(|h| h.seq).collect::<Vec<_>>(), [4105, 4106]);
    }

    #[test]
    fn each_goes_to_the_log_and_nobody_can_fill_it() {
        let logged = Arc::new(Mutex::new(Vec::new()));
        let mut event_log = EventLog::new(Clock::start());
        let sink = Arc::clone(&logged);
        event_log.set_log(Box::new(move |h| sink.lock().unwrap().push(h.clone())));
        for i in 0..1000 {
            event_log.add(Instant(i), EventKind::PathUp, (Some("home"), None), format!("{i}"));
        }
        assert_eq!(event_log.since(0).len(), 1000, "all are remembered");
        assert_eq!(logged.lock().unwrap().len(), LOG_BURST as usize);
        let later = Instant::ZERO + LOG_EVERY * 3;
        event_log.add(later, EventKind::TunGone, (None, None), "later".into());
        let logged = logged.lock().unwrap();
        let last: Vec<_> = logged[LOG_BURST as usize..].iter().map(|h| h.kind.name()).collect();
        assert_eq!(last, ["not-logged", "tun-gone"]);
        assert!(logged[LOG_BURST as usize].text.starts_with("900 events"));
        assert_eq!(logged[0].client.as_deref(), Some("home"));
    }
}
