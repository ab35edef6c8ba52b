//! Where the scoreboard is in memory: what is asked for ahead (`cache.rs`), and what is given back.

use super::Scoreboard;
use crate::cache::fetch_front;
use std::mem;

impl Scoreboard {
    /// After so many roomy moments in a row memory is given back: a queue that runs round in
    /// memory that it does not need is in no cache.
    const ROOMY: u32 = 32;
    /// A queue with space for so many segments is small.
    const SMALL: usize = 16;

    /// Asks for what an acknowledgement will need: see `cache.rs`.
    #[inline]
    pub(in crate::tcp) fn prefetch(&self) {
        // A small queue is at the beginning of its memory; in a long one these come next.
        fetch_front(&self.segments, 4);
    }

    /// After segments were taken from the front: a small queue begins at the beginning of its
    /// memory again, and most of the memory is given back when it has long been unused.
    #[inline]
    pub(super) fn tidy(&mut self) {
        let (capacity, used) = (self.segments.capacity(), self.segments.len());
        if capacity <= Self::SMALL {
            self.segments = Vec::from(mem::take(&mut self.segments)).into();
        }
        if capacity <= Self::SMALL / 2 || used * 4 > capacity {
            self.roomy = 0;
            return;
        }
        self.roomy += 1;
        if self.roomy == Self::ROOMY {
            self.roomy = 0;
            self.segments.shrink_to((used * 2).next_power_of_two());
        }
    }
}
