//! CoDel (RFC 8289), packet by packet: the loops of its section 5 become states, because the
//! link asks about one head at a time.
//!
//! With `ecn`, a packet that may be marked is marked where it would be dropped, once per head
//! (as Linux does; the RFC leaves it open).

use super::{Arrival, Head, Queue, Verdict};
use crate::seed::Rng;
use tabane_engine::policy::{Param, PolicyError, Values};
use tabane_engine::{Duration, Instant};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("target_ms", 5.0, 0.001..=1e6, "acceptable standing delay, ms"),
    Param::new(
        "interval_ms",
        100.0,
        0.001..=1e6,
        "for how long it must be exceeded, ms: about a round trip",
    ),
    Param::count("packets", 1000.0, 1.0..=1e9, "most packets that wait"),
    Param::switch("ecn", false, "1: mark packets that allow it instead of dropping them"),
];

/// The queue `codel`.
#[derive(Clone)]
pub(super) struct CoDel {
    target: Duration,
    interval: Duration,
    packets: usize,
    ecn: bool,
    /// Largest packet seen: less than that waiting is never too much.
    maxpacket: u64,
    /// When the delay will have been above target for an interval.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    /// The head before this one was dropped at this same moment.
    after: After,
}

/// What was done to the head before this one, at the same moment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// It was dropped on entering the dropping state: this one is sent.
    Entering,
    /// It was dropped in the dropping state: this one is judged again.
    Dropping,
}

impl CoDel {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Queue>, PolicyError> {
        Ok(Box::new(Self::new(values)))
    }

    pub(super) fn new(values: &Values<'_>) -> Self {
        let ms = |name| Duration::from_secs_f64(values.get(name) / 1e3);
        Self {
            target: ms("target_ms"),
            interval: ms("interval_ms"),
            packets: values.get("packets") as usize,
            ecn: values.is_on("ecn"),
            maxpacket: 0,
            first_above_time: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            lastcount: 0,
            after: After::Nothing,
        }
    }

    fn ok_to_drop(&mut self, head: &Head) -> bool {
        self.maxpacket = self.maxpacket.max(u64::from(head.len));
        if head.waited < self.target || head.behind <= self.maxpacket {
            self.first_above_time = None;
            return false;
        }
        let above = *self.first_above_time.get_or_insert(head.now + self.interval);
        head.now >= above
    }

    /// Drops come closer with the square root of their number, so that the throughput of a loss
    /// based sender falls linearly.
    fn control_law(&self, from: Instant) -> Instant {
        let interval = self.interval.0 as f64 / f64::from(self.count.max(1)).sqrt();
        from + Duration(interval as u64)
    }

    fn enter(&mut self, now: Instant) {
        self.dropping = true;
        // Dropped not long ago: begin with the rate that kept the queue under control then.
        let delta = self.count.wrapping_sub(self.lastcount);
        let recent = now - self.drop_next < self.interval * 16;
        self.count = if recent && delta > 1 && delta < u32::MAX / 2 { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.lastcount = self.count;
    }

    /// Drops the head, or marks and sends it.
    fn punish(&mut self, head: &Head, after: After) -> Verdict {
        if self.ecn && head.ect {
            return Verdict::Mark;
        }
        self.after = after;
        Verdict::Drop
    }
}

impl Queue for CoDel {
    fn admit(&mut self, arrival: &Arrival, _rng: &mut Rng) -> Verdict {
        let fits = arrival.packets < self.packets || arrival.at_once;
        if fits { Verdict::Pass } else { Verdict::Drop }
    }

    fn leave(&mut self, head: &Head) -> Verdict {
        let ok = self.ok_to_drop(head);
        let after = std::mem::replace(&mut self.after, After::Nothing);
        if after == After::Entering {
            return Verdict::Pass;
        }
        if self.dropping {
            if !ok {
                self.dropping = false;
                return Verdict::Pass;
            }
            if after == After::Dropping {
                self.drop_next = self.control_law(self.drop_next);
            }
            if head.now < self.drop_next {
                return Verdict::Pass;
            }
            self.count = self.count.saturating_add(1);
            let verdict = self.punish(head, After::Dropping);
            if verdict == Verdict::Mark {
                self.drop_next = self.control_law(self.drop_next);
            }
            return verdict;
        }
        if !ok {
            return Verdict::Pass;
        }
        self.enter(head.now);
        self.punish(head, After::Entering)
    }

    fn on_empty(&mut self, _now: Instant) {
        self.first_above_time = None;
        if self.after != After::Entering {
            self.dropping = false;
        }
        self.after = After::Nothing;
    }
}

#[cfg(test)]
mod tests;
