//! The receiving end of a protected flow: which of its packets have not come, and when to ask for
//! them.
//!
//! A path keeps its order, so a number is missing as soon as a later one has come by the same path;
//! by another, after the bound that holds for order, too. And since the flow has a pace, it is
//! missed when nothing comes at all: an interval and some deviations after the last packet.

use super::request::WANTED_MAX;
use std::collections::BTreeMap;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};

#[derive(Default, Debug)]
pub(super) struct Wants {
    newest: u64,
    /// When it came, and by which path.
    came: Instant,
    path: Option<PathId>,
    pace: Option<Pace>,
    /// Positions that have not come; at most [`MISSING_MAX`].
    missing: BTreeMap<u64, Missing>,
    /// Requests since the last packet, for everything after it.
    silent: u32,
    silent_due: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Instant,
    due: Instant,
}

/// When packets come. What is late itself does not make the next one late: the pace is that of a
/// clock, not of the last packet.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The next packet.
    next: Instant,
    /// Between packets, and how far they come from their time (mean), nanoseconds.
    interval: f64,
    off: f64,
    /// Packets so far.
    count: f64,
    /// The last packets that came far from their time.
    astray: u32,
}

impl Pace {
    fn new(first: Instant, second: Instant) -> Self {
        let interval = second.saturating_since(first);
        let off = interval.0 as f64 / 4.0;
        Self { next: second + interval, interval: interval.0 as f64, off, count: 2.0, astray: 0 }
    }

    /// A packet has come, the so-many-th after the last. One that had to be asked for says nothing
    /// of the pace, and one that is far from its time begins it anew.
    fn next(self, now: Instant, steps: u64, asked: bool) -> Self {
        let Self { interval, off, count, .. } = self;
        let due = self.next.0 as f64 + (steps - 1) as f64 * interval;
        let late = now.0 as f64 - due;
        let astray = self.astray + 1;
        if late.abs() > interval * FAR {
            return Self { next: now + Duration(interval as u64), astray, ..self };
        }
        if asked {
            return Self { next: Instant((due + interval) as u64), astray, ..self };
        }
        let count = (count + 1.0).min(SURE);
        // A filter of second order (alpha, beta), quick at first.
        let interval = (interval + late / (count * count)).max(0.0);
        let next = Instant((due + late / count.sqrt() + interval) as u64);
        Self { next, interval, off: off + (late.abs() - off) / 8.0, count, astray: 0 }
    }

    /// When the next packet is missed, if the last came now.
    fn due(self, now: Instant) -> Option<Instant> {
        let patience = Duration((self.off * DEVIATIONS).max(PATIENCE) as u64);
        (self.interval < PACE_MAX).then(|| self.next.max(now) + patience)
    }
}

/// What is wanted now.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) newest: u64,
    pub(super) silent: bool,
    pub(super) positions: Vec<u64>,
}

const MISSING_MAX: usize = 64;
/// A packet that is missing for longer is given up: a call has gone on without it.
const GIVEN_UP: Duration = Duration::from_millis(300);
/// Requests into silence: after them, the flow is taken to pause.
const SILENT_MAX: u32 = 4;
/// Mean deviations that are borne, and at least so much: the timers of hosts.
const DEVIATIONS: f64 = 4.0;
const PATIENCE: f64 = 3e6;
/// Packets until a pace is as sure as it gets.
const SURE: f64 = 16.0;
/// What is later or earlier by so many intervals does not belong to the pace, and after so many
/// packets in a row that did not come in time the pace is another.
const FAR: f64 = 4.0;
const ASTRAY_MAX: u32 = 8;
/// A flow that sends more rarely has no pace.
const PACE_MAX: f64 = 200e6;

impl Wants {
    /// A packet has come that had not come before; `hold` bounds how far paths lie apart.
    pub(super) fn take(&mut self, now: Instant, path: PathId, position: u64, hold: Duration) {
        self.missing.remove(&position);
        if position <= self.newest {
            return;
        }
        let (steps, before) = (position - self.newest, self.newest);
        let first = before == 0;
        self.pace = match self.pace {
            _ if first => None,
            Some(pace) if pace.astray < ASTRAY_MAX => Some(pace.next(now, steps, self.silent > 0)),
            _ => Some(Pace::new(self.came, now)),
        };
        let same = self.path == Some(path);
        let due = if same { now } else { now + hold };
        for missing in (before + 1..position).rev().take(if first { 0 } else { MISSING_MAX }) {
            self.missing.insert(missing, Missing { since: now, due });
        }
        while self.missing.len() > MISSING_MAX {
            self.missing.pop_first();
        }
        (self.newest, self.came, self.path, self.silent) = (position, now, Some(path), 0);
        self.silent_due = self.pace.and_then(|pace| pace.due(now));
    }

    /// When [`Wants::poll`] has something.
    pub(super) fn due(&self) -> Option<Instant> {
        let missing = self.missing.values().map(|missing| missing.due);
        missing.chain(self.silent_due).min()
    }

    /// What is to be asked for now; again, if it has not come after `answer`.
    pub(super) fn poll(&mut self, now: Instant, answer: Duration) -> Option<Wanted> {
        self.missing.retain(|_, missing| now.saturating_since(missing.since) < GIVEN_UP);
        let again = now + answer;
        let mut positions = Vec::new();
        for (position, missing) in &mut self.missing {
            if missing.due <= now && positions.len() < WANTED_MAX {
                positions.push(*position);
                missing.due = again;
            }
        }
        let silent = self.silent_due.is_some_and(|due| due <= now);
        if silent {
            self.silent += 1;
            self.silent_due = (self.silent < SILENT_MAX).then_some(again);
        }
        let newest = self.newest;
        (silent || !positions.is_empty()).then_some(Wanted { newest, silent, positions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Duration = Duration::from_millis(60);

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn gaps_are_asked_for_at_once_and_silence_after_its_time() {
        let (mut wants, hold) = (Wants::default(), Duration::from_millis(30));
        for i in 0..20 {
            wants.take(ms(i * 20), PathId(0), 100 + i, hold);
            assert_eq!(wants.poll(ms(i * 20), ANSWER), None);
        }
        // 120 is lost, 121 comes by the same path, 122 by another.
        wants.take(ms(420), PathId(0), 121, hold);
        let asked = Wanted { newest: 121, silent: false, positions: vec![120] };
        assert_eq!(wants.poll(ms(420), ANSWER), Some(asked));
        assert_eq!(wants.poll(ms(421), ANSWER), None, "not twice");
        wants.take(ms(460), PathId(1), 123, hold);
        assert_eq!(wants.poll(ms(460), ANSWER), None, "122 may be under way");
        wants.take(ms(465), PathId(0), 120, hold);
        let at = wants.due().unwrap();
        assert!(at > ms(480) && at <= ms(490), "{at:?}");
        let Some(silence) = wants.poll(ms(490), ANSWER) else { panic!("nothing is asked for") };
        assert_eq!((silence.newest, silence.silent, silence.positions), (123, true, vec![122]));
        // Into silence not for ever.
        let mut count = 0;
        let mut now = ms(490);
        while let Some(due) = wants.due() {
            now = now.max(due);
            count += usize::from(wants.poll(now, ANSWER).is_some_and(|wanted| wanted.silent));
            assert!(now < ms(2000));
        }
        assert_eq!(count, SILENT_MAX as usize - 1);
    }

    /// In vain is asked for little while the pace changes, and for nothing after that, whether
    /// packets come from a host that is late now and then, or two at once at first.
    #[test]
    fn another_pace_is_found() {
        for (before, after) in [(20, 60), (60, 20), (20, 30), (0, 20), (1, 100)] {
            let (mut wants, mut now, mut asked) = (Wants::default(), ms(1000), 0);
            for i in 0..200_u64 {
                let (interval, late) = if i < 40 { (before, 0) } else { (after, i * 7 % 3) };
                now += Duration::from_millis(interval);
                let at = now + Duration::from_millis(late);
                while let Some(due) = wants.due().filter(|due| *due < at) {
                    asked += u32::from(wants.poll(due, ANSWER).is_some());
                    assert!(asked < 60, "{before} {after} {i}");
                }
                if i == 100 {
                    asked = 0;
                }
                wants.take(at, PathId(0), 100 + i, Duration::ZERO);
            }
            assert_eq!(asked, 0, "{before} {after}");
        }
    }
}
