//! Segments that are known to come soon: what they will need is brought into the caches, step by
//! step, while those before them are dealt with.
//!
//! With thousands of connections the state of each has long left the caches when its next segment
//! comes, and its parts are found one behind the other: table, connection, subflow, queue. Each
//! [`Endpoint::expect`] takes the segments announced before it one step further, not all at once:
//! a processor waits for few lines of memory at a time, and stands still when asked for more. Only
//! speed depends on it: a segment that was expected and does not come is no harm.

use super::flow::{Guess, Owner, Tuple};
use super::{Endpoint, Slot};
use crate::cache::fetch_from;
use crate::event::ConnId;
use tabane_wire::Segment;

/// Connections that are on the way into the caches, and how far they have come.
#[derive(Default)]
pub(super) struct Ahead {
    /// Those of the segments that were announced last and last but one.
    announced: [Option<Announced>; 2],
    /// Steps for them that wait for their turn.
    waiting: u8,
    /// Whose deadline is the next, and the steps done for it.
    deadline: Option<(u32, u8)>,
}

/// The state of fewer connections stays in the caches by itself.
const MANY: usize = 64;

/// A segment to come.
#[derive(Clone, Copy)]
struct Announced {
    key: u32,
    /// It brings data.
    data: bool,
}

impl Endpoint {
    /// A segment that will be handed over two segments from now (or about then). What it answers
    /// is the connection of the segment announced before it: its owner may want to prepare too.
    #[inline]
    pub fn expect(&mut self, segment: &Segment) -> Option<ConnId> {
        if self.connections.len() < MANY {
            return None;
        }
        let tuple = Tuple { local: segment.dst, remote: segment.src };
        let repeated = self.flows.is_latest(&tuple);
        if repeated && self.ahead.announced[0].is_none() && self.ahead.announced[1].is_none() {
            return None;
        }
        let tuple = (!repeated).then_some(tuple);
        self.fetch_ahead(tuple, !segment.payload.is_empty())
    }

    fn fetch_ahead(&mut self, tuple: Option<Tuple>, data: bool) -> Option<ConnId> {
        while self.ahead.waiting > 0 {
            self.fetch_next();
        }
        let [one, two] = self.ahead.announced;
        if let Some(Announced { key, data }) = two
            && let Some(slot) = self.slot(key)
        {
            slot.connection.prefetch_queues(data);
        }
        let key = tuple.and_then(|tuple| self.flows.expect(tuple)).map(|(key, _)| key);
        self.ahead.announced = [key.map(|key| Announced { key, data }), one];
        self.ahead.waiting = 3;
        one.and_then(|one| self.slot(one.key)).map(|slot| slot.connection.id())
    }

    /// The next of the steps that wait: called between parts of the work on other segments.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.ahead.waiting > 0 {
            self.fetch_next();
        }
    }

    fn fetch_next(&mut self) {
        self.ahead.waiting -= 1;
        let [one, two] = self.ahead.announced;
        match self.ahead.waiting {
            2 => {
                if let Some(two) = two
                    && let Some(slot) = self.slot(two.key)
                {
                    slot.connection.prefetch_subflows(two.data);
                }
            }
            1 => {
                if let Some(slot) = one.and_then(|one| self.slot(one.key)) {
                    slot.prefetch();
                }
            }
            _ => self.fetch_deadline(),
        }
    }

    /// The same for the connection whose deadline is the next.
    fn fetch_deadline(&mut self) {
        let Some((_, next)) = self.deadlines.first() else { return };
        let steps = match self.ahead.deadline {
            Some((key, steps)) if key == next => steps,
            _ => 0,
        };
        let Some(slot) = self.slot(next) else { return };
        match steps {
            0 => slot.prefetch(),
            1 => slot.connection.prefetch_subflows(false),
            2 => slot.connection.prefetch_queues(false),
            _ => return,
        }
        self.ahead.deadline = Some((next, steps + 1));
    }

    #[inline]
    fn slot(&self, key: u32) -> Option<&Slot> {
        self.connections.get(key as usize).map(|slot| &**slot)
    }

    /// Whose a segment is.
    #[inline]
    pub(super) fn find_owner(&mut self, tuple: Tuple) -> Option<Owner> {
        if let Some(guess) = self.flows.guess(&tuple)
            && self.is_right(guess, &tuple)
        {
            self.flows.confirm(tuple, guess);
            return Some(Owner::Subflow(guess.0, guess.1));
        }
        self.flows.find(&tuple)
    }

    #[inline]
    fn is_right(&self, (key, id): Guess, tuple: &Tuple) -> bool {
        let slot = self.connections.get(key as usize);
        slot.is_some_and(|s| s.connection.is_between(id, tuple.local, tuple.remote))
    }
}

impl Slot {
    #[inline]
    fn prefetch(&self) {
        fetch_from(&self.token, &self.connection);
        self.connection.prefetch();
    }
}
