//! Packets that wait: one queue, first in first out, unless the model keeps flows apart.

use super::queue::Subqueues;
use super::{Instant, Packet, fetch_soon};
use std::collections::VecDeque;

/// A packet in the queue.
pub(super) struct Waiting<P> {
    pub(super) since: Instant,
    /// Its length, bytes: packets have to count it.
    pub(super) len: u32,
    pub(super) packet: P,
}

/// What waits in front of a link.
pub(super) struct Backlog<P> {
    first: VecDeque<Waiting<P>>,
    packets: usize,
    bytes: u64,
    apart: Option<Box<Apart<P>>>,
}

/// What waits if flows are kept apart; then `first` is empty.
struct Apart<P> {
    queues: Vec<VecDeque<Waiting<P>>>,
    counts: Subqueues,
}

impl<P: Packet> Backlog<P> {
    /// For a model with so many subqueues.
    pub(super) fn new(subqueues: usize) -> Self {
        Self::with(subqueues, subqueues > 1)
    }

    /// With subqueues, be it one: then whatever comes takes the way of packets kept apart.
    pub(super) fn apart(subqueues: usize) -> Self {
        Self::with(subqueues, true)
    }

    fn with(subqueues: usize, apart: bool) -> Self {
        let apart = apart.then(|| {
            let queues = (0..subqueues).map(|_| VecDeque::new()).collect();
            Box::new(Apart { queues, counts: Subqueues::new(subqueues) })
        });
        Self { first: VecDeque::new(), packets: 0, bytes: 0, apart }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What waits in each subqueue, if flows are kept apart.
    #[inline]
    pub(super) fn subqueues(&self) -> Option<&Subqueues> {
        self.apart.as_ref().map(|apart| &apart.counts)
    }

    /// The packet comes last, where flows are not kept apart.
    #[inline]
    pub(super) fn push(&mut self, waiting: Waiting<P>) {
        self.packets += 1;
        self.bytes += u64::from(waiting.len);
        self.first.push_back(waiting);
    }

    /// The first, where flows are not kept apart.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.first.pop_front()?;
        self.packets -= 1;
        self.bytes -= u64::from(waiting.len);
        fetch_soon(&self.first);
        Some(waiting)
    }

    /// The packet comes last in its subqueue.
    pub(super) fn push_into(&mut self, subqueue: usize, waiting: Waiting<P>) {
        let Some(apart) = &mut self.apart else { return self.push(waiting) };
        self.packets += 1;
        self.bytes += u64::from(waiting.len);
        apart.counts.add(subqueue, waiting.len);
        apart.queues[subqueue].push_back(waiting);
    }

    /// The first of a subqueue.
    pub(super) fn pop_from(&mut self, subqueue: usize) -> Option<Waiting<P>> {
        let Some(apart) = &mut self.apart else { return self.pop() };
        let waiting = apart.queues[subqueue].pop_front()?;
        self.packets -= 1;
        self.bytes -= u64::from(waiting.len);
        apart.counts.remove(subqueue, waiting.len);
        Some(waiting)
    }

    /// Each, in order within its subqueue.
    pub(super) fn all(&self) -> impl Iterator<Item = &P> {
        let apart = self.apart.iter().flat_map(|apart| apart.queues.iter().flatten());
        self.first.iter().chain(apart).map(|waiting| &waiting.packet)
    }

    /// Takes all out, in the order in which they came.
    pub(super) fn take(&mut self) -> Vec<Waiting<P>> {
        let subqueues = self.apart.as_ref().map_or(1, |apart| apart.queues.len());
        let empty = Self::with(subqueues, self.apart.is_some());
        let taken = std::mem::replace(self, empty);
        let apart = taken.apart.into_iter().flat_map(|apart| apart.queues.into_iter().flatten());
        let mut all: Vec<_> = taken.first.into_iter().chain(apart).collect();
        all.sort_by_key(|waiting| waiting.since);
        all
    }
}
