//! Packets on their way: a ring as long as they stay in order, a heap for those that are
//! overtaken.

use super::fetch_soon;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use tabane_engine::Instant;

/// Packets by time of arrival; those of the same time in the order they were pushed, as far as
/// they are in the ring.
pub(super) struct Flight<P> {
    ring: VecDeque<(Instant, P)>,
    overtaking: BinaryHeap<Early<P>>,
    pushed: u64,
}

/// Arrives before the last one in the ring.
struct Early<P> {
    at: Instant,
    number: u64,
    packet: P,
}

impl<P> Flight<P> {
    pub(super) fn new() -> Self {
        Self { ring: VecDeque::new(), overtaking: BinaryHeap::new(), pushed: 0 }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, at: Instant, packet: P) {
        if self.ring.back().is_none_or(|last| last.0 <= at) {
            self.ring.push_back((at, packet));
        } else {
            self.pushed += 1;
            self.overtaking.push(Early { at, number: self.pushed, packet });
        }
    }

    /// When the next one arrives.
    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        let ring = self.ring.front().map(|f| f.0);
        let Some(early) = self.overtaking.peek() else { return ring };
        Some(ring.map_or(early.at, |at| at.min(early.at)))
    }

    /// The next one, if it has arrived by `now`.
    #[inline]
    pub(super) fn pop(&mut self, now: Instant) -> Option<P> {
        let at = self.next().filter(|&at| at <= now)?;
        if self.ring.front().is_some_and(|f| f.0 == at) {
            fetch_soon(&self.ring);
            return self.ring.pop_front().map(|f| f.1);
        }
        self.overtaking.pop().map(|early| early.packet)
    }

    /// The `n`-th packet from now, as far as none is overtaken.
    #[inline]
    pub(super) fn upcoming(&self, n: usize) -> Option<&P> {
        self.ring.get(n).map(|f| &f.1)
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len() + self.overtaking.len()
    }

    /// Each with its time of arrival, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = (Instant, &P)> {
        let ring = self.ring.iter().map(|f| (f.0, &f.1));
        ring.chain(self.overtaking.iter().map(|e| (e.at, &e.packet)))
    }

    /// Takes all out, in no particular order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = P> {
        self.ring.drain(..).map(|f| f.1).chain(self.overtaking.drain().map(|e| e.packet))
    }
}

impl<P> Ord for Early<P> {
    /// The earliest is the greatest, because `BinaryHeap` pops the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<P> PartialOrd for Early<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Early<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Early<P> {}
