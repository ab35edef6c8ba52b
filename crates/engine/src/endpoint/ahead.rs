//! Prefetching for segments that are known to arrive soon: the memory that they will need is
//! brought into the caches step by step, while earlier segments are processed.
//!
//! With thousands of connections the state of each has left the caches when its next segment
//! arrives, and each part leads to the next: table, connection, subflow, queue. Each
//! [`Endpoint::expect`] takes the segments announced before it one step further. The code has few
//! branches on purpose: a mispredicted branch costs more than some cache lines fetched in vain.
//! Only speed depends on it; a segment that was announced and does not arrive does no harm.

use super::flow::{Owner, Tuple};
use super::{Endpoint, Slot};
use crate::cache::{fetch, fetch_from};
use tabane_wire::Segment;

/// Whose the segments are that were announced last, the latest first: keys of connections.
#[derive(Default)]
pub(super) struct Ahead([u32; 3]);

/// The state of fewer connections stays in the L2 cache anyway, and prefetching costs more than it
/// saves.
const MANY: usize = 256;

impl Endpoint {
    /// Announces a segment that will be handed over after about four others.
    #[inline]
    pub fn expect(&mut self, segment: &Segment) {
        if self.connections.len() < MANY {
            return;
        }
        let tuple = Tuple { local: segment.dst, remote: segment.src };
        self.fetch_ahead(self.flows.hint(&tuple), !segment.payload.is_empty());
    }

    /// Asks for memory that a segment will need which arrives soon, as [`Endpoint::expect`] does,
    /// where the driver has many endpoints and calls each step itself: from 0 to
    /// [`Endpoint::STEPS`], each once what the one before asked for is there.
    #[inline]
    pub fn prefetch(&self, segment: &Segment, step: usize) {
        if step == 0 {
            return fetch(self);
        }
        let tuple = Tuple { local: segment.dst, remote: segment.src };
        let key = self.flows.hint(&tuple);
        let data = !segment.payload.is_empty();
        match (step, self.slot(key)) {
            (1, _) => self.connections.prefetch(key),
            (2, Some(slot)) => {
                slot.prefetch();
                self.deadlines.prefetch(key);
            }
            (3, Some(slot)) => slot.connection.prefetch_subflows(data),
            (4, Some(slot)) => slot.connection.prefetch_queues(data),
            _ => {}
        }
    }

    /// Steps of [`Endpoint::prefetch`].
    pub const STEPS: usize = 5;

    /// `data`: the segment brings some, and those before it probably did too.
    fn fetch_ahead(&mut self, key: u32, data: bool) {
        let [one, two, three] = self.ahead.0;
        self.ahead.0 = [key, one, two];
        self.connections.prefetch(key);
        if let Some(slot) = self.slot(three) {
            slot.connection.prefetch_queues(data);
        }
        if let Some(slot) = self.slot(one) {
            slot.prefetch();
            self.deadlines.prefetch(one);
        }
        if let Some(slot) = self.slot(two) {
            slot.connection.prefetch_subflows(data);
        }
    }

    #[inline]
    fn slot(&self, key: u32) -> Option<&Slot> {
        self.connections.get(key)
    }

    /// Whose a segment is: the one hinted at, if it says so itself, otherwise as the table says.
    #[inline]
    pub(super) fn find_owner(&mut self, tuple: Tuple) -> Option<Owner> {
        if let Some(owner) = self.flows.latest(&tuple) {
            return Some(owner);
        }
        let key = self.flows.hint(&tuple);
        let hinted = self.slot(key).and_then(|s| s.connection.between(tuple.local, tuple.remote));
        let Some(id) = hinted else { return self.flows.find(&tuple) };
        let owner = Owner::Subflow(key, id);
        debug_assert_eq!(self.flows.find(&tuple), Some(owner), "a tuple has one owner");
        self.flows.confirm(tuple, owner);
        Some(owner)
    }
}

impl Slot {
    #[inline]
    fn prefetch(&self) {
        fetch_from(&self.token, &self.connection);
        self.connection.prefetch();
    }
}
