//! Packets that wait: one subqueue, first in first out, unless the queue model keeps flows apart.

use super::queue::Subqueues;
use super::{Instant, Packet, fetch_soon};
use std::collections::VecDeque;

/// A packet in the queue.
pub(super) struct Waiting<P> {
    pub(super) since: Instant,
    pub(super) packet: P,
}

/// What waits in front of a link.
pub(super) struct Backlog<P> {
    first: VecDeque<Waiting<P>>,
    /// Subqueues beside the first; mostly none.
    more: Vec<VecDeque<Waiting<P>>>,
    bytes: u64,
    /// Totals, and what is in each subqueue if there are several.
    subqueues: Subqueues,
}

impl<P: Packet> Backlog<P> {
    pub(super) fn new(subqueues: usize) -> Self {
        Self {
            first: VecDeque::new(),
            more: (1..subqueues).map(|_| VecDeque::new()).collect(),
            bytes: 0,
            subqueues: Subqueues::new(if subqueues > 1 { subqueues } else { 0 }),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.subqueues.packets() == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.more.is_empty() { self.first.len() } else { self.subqueues.packets() }
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether flows are kept apart.
    #[inline]
    pub(super) fn has_subqueues(&self) -> bool {
        !self.more.is_empty()
    }

    pub(super) fn subqueues(&self) -> &Subqueues {
        &self.subqueues
    }

    /// Bytes in the subqueue.
    #[inline]
    pub(super) fn bytes_in(&self, subqueue: usize) -> u64 {
        if self.more.is_empty() { self.bytes } else { self.subqueues.of(subqueue).bytes }
    }

    #[inline]
    pub(super) fn push(&mut self, subqueue: usize, since: Instant, packet: P) {
        let len = packet.wire_len();
        self.bytes += u64::from(len);
        if self.more.is_empty() {
            return self.first.push_back(Waiting { since, packet });
        }
        self.subqueues.add(subqueue, len);
        self.subqueue(subqueue).push_back(Waiting { since, packet });
    }

    #[inline]
    pub(super) fn pop(&mut self, subqueue: usize) -> Option<Waiting<P>> {
        if self.more.is_empty() {
            let waiting = self.first.pop_front()?;
            self.bytes -= u64::from(waiting.packet.wire_len());
            fetch_soon(&self.first);
            return Some(waiting);
        }
        let waiting = self.subqueue(subqueue).pop_front()?;
        let len = waiting.packet.wire_len();
        self.bytes -= u64::from(len);
        self.subqueues.remove(subqueue, len);
        Some(waiting)
    }

    /// Takes all out, in the order in which they came.
    pub(super) fn take(&mut self) -> Vec<Waiting<P>> {
        let subqueues = self.more.len() + 1;
        let taken = std::mem::replace(self, Self::new(subqueues));
        let mut all: Vec<_> =
            taken.first.into_iter().chain(taken.more.into_iter().flatten()).collect();
        all.sort_by_key(|waiting| waiting.since);
        all
    }

    fn subqueue(&mut self, subqueue: usize) -> &mut VecDeque<Waiting<P>> {
        match subqueue.checked_sub(1) {
            None => &mut self.first,
            Some(n) => &mut self.more[n],
        }
    }
}
