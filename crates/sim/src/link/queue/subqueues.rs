//! What waits in each subqueue of a queue that keeps flows apart.

use crate::link::Count;

/// Packets and bytes of each subqueue.
#[derive(Clone, Debug, Default)]
pub struct Subqueues {
    counts: Vec<Count>,
    packets: usize,
}

impl Subqueues {
    /// So many subqueues, in which nothing waits.
    pub fn new(subqueues: usize) -> Self {
        Self { counts: vec![Count::default(); subqueues], packets: 0 }
    }

    /// Packets in all subqueues.
    #[inline]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// What waits in the subqueue.
    pub fn of(&self, subqueue: usize) -> Count {
        self.counts[subqueue]
    }

    /// The subqueue with most bytes; the first of equals.
    pub fn fattest(&self) -> usize {
        let subqueues = self.counts.iter().enumerate().rev();
        subqueues.max_by_key(|(_, count)| count.bytes).map_or(0, |(subqueue, _)| subqueue)
    }

    pub(in crate::link) fn add(&mut self, subqueue: usize, len: u32) {
        self.counts[subqueue].add(len);
        self.packets += 1;
    }

    pub(in crate::link) fn remove(&mut self, subqueue: usize, len: u32) {
        self.counts[subqueue].packets -= 1;
        self.counts[subqueue].bytes -= u64::from(len);
        self.packets -= 1;
    }
}
