//! Segments that are known to come soon: what they will need is brought into the caches, step by
//! step, while those before them are dealt with.
//!
//! With thousands of connections the state of each has long left the caches when its next segment
//! comes, and its parts are found one behind the other: table, connection, subflow, queue. Each
//! [`Endpoint::expect`] takes the segments announced before it one step further. Only speed
//! depends on it: a segment that was expected and does not come is no harm.

use super::Endpoint;
use super::flow::{Owner, Tuple};
use tabane_wire::Segment;

impl Endpoint {
    /// A segment that will be handed over two segments from now (or about then).
    #[inline]
    pub fn expect(&mut self, segment: &Segment) {
        let tuple = Tuple { local: segment.dst, remote: segment.src };
        if self.flows.is_last(&tuple) {
            return;
        }
        self.expect_other(tuple);
    }

    fn expect_other(&mut self, tuple: Tuple) {
        let slot = |owner| match owner {
            Some(Owner::Subflow(key, _)) => self.connections.get(key as usize),
            _ => None,
        };
        let (one, two) = self.flows.expected();
        if let Some(slot) = slot(two) {
            slot.connection.prefetch_queues();
        }
        if let Some(slot) = slot(one) {
            slot.connection.prefetch_subflows();
        }
        if let Some(slot) = slot(self.flows.expect(tuple)) {
            slot.connection.prefetch();
        }
    }
}
