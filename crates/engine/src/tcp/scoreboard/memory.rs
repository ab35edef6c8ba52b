//! Where the scoreboard is in memory: what is asked for ahead (`cache.rs`), and what is given back.

use super::Scoreboard;
use crate::cache::{fetch_back, fetch_front};

impl Scoreboard {
    /// After so many roomy moments in a row memory is given back: a queue that runs round in
    /// memory that it does not need is in no cache.
    const ROOMY: u32 = 32;
    /// A queue for so many segments is small.
    const SMALL: usize = 8;

    /// Asks for what an acknowledgement will need: see `cache.rs`.
    #[inline]
    pub(in crate::tcp) fn prefetch(&self) {
        // A delayed acknowledgement covers two.
        fetch_front(&self.segments, 2);
        fetch_back(&self.segments);
    }

    /// After an acknowledgement: gives memory back when most of it has long been unused.
    #[inline]
    pub(super) fn shrink(&mut self) {
        let (capacity, used) = (self.segments.capacity(), self.segments.len());
        if capacity <= Self::SMALL || used * 4 > capacity {
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
