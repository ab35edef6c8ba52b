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
    /// Between packets, and the mean deviation, nanoseconds; not known before the second.
    interval: Option<(f64, f64)>,
    /// Positions that have not come; at most [`MISSING_MAX`].
    missing: BTreeMap<u64, Missing>,
    /// Requests since the last packet, for everything after it.
    silent: u32,
    silent_due: Option<Instant>,
    /// From a request to what it brings.
    answer: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Instant,
    due: Instant,
    asked: Option<Instant>,
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
/// The next request for the same, while it is not known how long an answer takes.
const ANSWER: Duration = Duration::from_millis(60);
const ANSWER_MIN: Duration = Duration::from_millis(20);
/// Requests into silence: after them, the flow is taken to pause.
const SILENT_MAX: u32 = 4;
/// Deviations of the interval that are borne, and at least so much: the timers of hosts.
const DEVIATIONS: f64 = 4.0;
const PATIENCE: f64 = 4e6;
/// A flow that sends more rarely has no pace.
const PACE_MAX: f64 = 200e6;

impl Wants {
    /// A packet has come that had not come before; `hold` bounds how far paths lie apart.
    pub(super) fn take(&mut self, now: Instant, path: PathId, position: u64, hold: Duration) {
        if let Some(missing) = self.missing.remove(&position)
            && let Some(asked) = missing.asked
        {
            let took = now.saturating_since(asked);
            self.answer = Some(self.answer.map_or(took, |answer| (answer * 3 + took) / 4));
        }
        if position <= self.newest {
            return;
        }
        let (steps, before) = (position - self.newest, self.newest);
        let first = before == 0;
        if !first && steps == 1 && self.silent == 0 {
            let interval = now.saturating_since(self.came).0 as f64;
            let (mean, deviation) = self.interval.get_or_insert((interval, interval / 4.0));
            *deviation += ((interval - *mean).abs() - *deviation) / 8.0;
            *mean += (interval - *mean) / 8.0;
        }
        let same = self.path == Some(path);
        let due = if same { now } else { now + hold };
        for missing in (before + 1..position).rev().take(if first { 0 } else { MISSING_MAX }) {
            self.missing.insert(missing, Missing { since: now, due, asked: None });
        }
        while self.missing.len() > MISSING_MAX {
            self.missing.pop_first();
        }
        (self.newest, self.came, self.path, self.silent) = (position, now, Some(path), 0);
        self.silent_due = self
            .interval
            .filter(|(mean, _)| *mean < PACE_MAX)
            .map(|(mean, off)| now + Duration((mean + (off * DEVIATIONS).max(PATIENCE)) as u64));
    }

    /// When [`Wants::poll`] has something.
    pub(super) fn due(&self) -> Option<Instant> {
        let missing = self.missing.values().map(|missing| missing.due);
        missing.chain(self.silent_due).min()
    }

    /// What is to be asked for now.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Wanted> {
        self.missing.retain(|_, missing| now.saturating_since(missing.since) < GIVEN_UP);
        let again = now + self.answer.map_or(ANSWER, |answer| (answer * 3 / 2).max(ANSWER_MIN));
        let mut positions = Vec::new();
        for (position, missing) in &mut self.missing {
            if missing.due <= now && positions.len() < WANTED_MAX {
                positions.push(*position);
                (missing.due, missing.asked) = (again, Some(now));
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

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn gaps_are_asked_for_at_once_and_silence_after_its_time() {
        let (mut wants, hold) = (Wants::default(), Duration::from_millis(30));
        for i in 0..20 {
            wants.take(ms(i * 20), PathId(0), 100 + i, hold);
            assert_eq!(wants.poll(ms(i * 20)), None);
        }
        // 120 is lost, 121 comes by the same path, 122 by another.
        wants.take(ms(420), PathId(0), 121, hold);
        let asked = Wanted { newest: 121, silent: false, positions: vec![120] };
        assert_eq!(wants.poll(ms(420)), Some(asked));
        assert_eq!(wants.poll(ms(421)), None, "not twice");
        wants.take(ms(440), PathId(1), 123, hold);
        assert_eq!(wants.poll(ms(440)), None, "122 may be under way");
        wants.take(ms(445), PathId(0), 120, hold);
        let at = wants.due().unwrap();
        assert!(at > ms(463) && at <= ms(470), "{at:?}");
        let Some(silence) = wants.poll(ms(470)) else { panic!("nothing is asked for") };
        assert_eq!((silence.newest, silence.silent, silence.positions), (123, true, vec![122]));
        // Into silence not for ever.
        let mut count = 0;
        let mut now = ms(470);
        while let Some(due) = wants.due() {
            now = now.max(due);
            count += usize::from(wants.poll(now).is_some_and(|wanted| wanted.silent));
            assert!(now < ms(2000));
        }
        assert_eq!(count, SILENT_MAX as usize - 1);
    }
}
