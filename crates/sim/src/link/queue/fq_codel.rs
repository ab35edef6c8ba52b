//! FQ-CoDel (RFC 8290): flows by hash in subqueues of their own, served by deficit round robin, new
//! ones first, each under CoDel.
//!
//! Beyond its limit it drops from the head of the subqueue with most bytes half of that subqueue's
//! packets or 64, whichever is less (section 4.1). The hash has no random part: which flows meet in
//! a subqueue depends on their addresses and ports alone. CoDel looks at the bytes of its own
//! subqueue, where Linux looks at those of all subqueues.

use super::codel::CoDel;
use super::{Arrival, Head, Queue, Subqueues, Verdict};
use crate::seed::Rng;
use std::collections::VecDeque;
use tabane_engine::Instant;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("target_ms", 5.0, 0.001..=1e6, "acceptable standing delay, ms"),
    Param::new(
        "interval_ms",
        100.0,
        0.001..=1e6,
        "for how long it must be exceeded, ms: about a round trip",
    ),
    Param::count("flows", 1024.0, 2.0..=65536.0, "subqueues into which flows are hashed"),
    Param::count("quantum", 1514.0, 1.0..=1e9, "bytes that a subqueue may send in a round"),
    Param::count(
        "packets",
        10240.0,
        1.0..=1e9,
        "most packets that wait, in all subqueues together",
    ),
    Param::switch("ecn", true, "1: mark packets that allow it instead of dropping them"),
];

/// Most packets that are dropped at once when there are too many.
const DROP_BATCH: u64 = 64;

/// The queue `fq_codel`.
pub(super) struct FqCoDel {
    subqueues: Vec<Subqueue>,
    quantum: i64,
    packets: usize,
    /// Subqueues that have just become busy, and those that have been so for a round.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// The subqueue from which packets are being dropped, and how many still.
    evicting: (usize, u64),
}

#[derive(Clone)]
struct Subqueue {
    codel: CoDel,
    deficit: i64,
    /// In `new` or `old`.
    listed: bool,
}

impl FqCoDel {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Queue>, PolicyError> {
        let subqueue = Subqueue { codel: CoDel::new(values), deficit: 0, listed: false };
        Ok(Box::new(Self {
            subqueues: vec![subqueue; values.get("flows") as usize],
            quantum: values.get("quantum") as i64,
            packets: values.get("packets") as usize,
            new: VecDeque::new(),
            old: VecDeque::new(),
            evicting: (0, 0),
        }))
    }
}

impl Queue for FqCoDel {
    fn admit(&mut self, arrival: &Arrival, _rng: &mut Rng) -> Verdict {
        let subqueue = &mut self.subqueues[arrival.subqueue];
        if !subqueue.listed {
            (subqueue.listed, subqueue.deficit) = (true, self.quantum);
            self.new.push_back(arrival.subqueue);
        }
        Verdict::Pass
    }

    fn leave(&mut self, head: &Head) -> Verdict {
        let subqueue = &mut self.subqueues[head.subqueue];
        let verdict = subqueue.codel.leave(head);
        if verdict != Verdict::Drop {
            subqueue.deficit -= i64::from(head.len);
        }
        verdict
    }

    fn on_empty(&mut self, now: Instant) {
        for subqueue in self.new.drain(..).chain(self.old.drain(..)) {
            self.subqueues[subqueue].listed = false;
            self.subqueues[subqueue].codel.on_empty(now);
        }
    }

    fn subqueues(&self) -> usize {
        self.subqueues.len()
    }

    fn subqueue(&self, flow: u64) -> usize {
        // The upper bits: a product is as even as the hash.
        ((u128::from(flow) * self.subqueues.len() as u128) >> 64) as usize
    }

    fn next_subqueue(&mut self, now: Instant, waiting: &Subqueues) -> Option<usize> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let first = *list.front()?;
            let subqueue = &mut self.subqueues[first];
            let empty = waiting.of(first).packets == 0;
            if subqueue.deficit > 0 && !empty {
                return Some(first);
            }
            list.pop_front();
            if subqueue.deficit <= 0 {
                subqueue.deficit += self.quantum;
            } else {
                subqueue.codel.on_empty(now);
                // An empty new subqueue waits for a round, so that it is not new again at once.
                if !is_new {
                    subqueue.listed = false;
                    continue;
                }
            }
            self.old.push_back(first);
        }
    }

    fn evict(&mut self, waiting: &Subqueues) -> Option<usize> {
        if self.evicting.1 == 0 {
            if waiting.packets() <= self.packets {
                return None;
            }
            let fattest = waiting.fattest();
            self.evicting = (fattest, (waiting.of(fattest).packets / 2).clamp(1, DROP_BATCH));
        }
        self.evicting.1 -= 1;
        Some(self.evicting.0)
    }
}

#[cfg(test)]
mod tests;
