//! Who wants to be looked at when: one entry each, the earliest first.

use crate::index::ClientIndex;
use std::collections::BTreeSet;
use tabane_engine::Instant;

/// Deadlines of clients.
#[derive(Default, Debug)]
pub(crate) struct Deadlines {
    order: BTreeSet<(Instant, ClientIndex)>,
    /// By client; `FAR_FUTURE` for none.
    when: Vec<Instant>,
}

impl Deadlines {
    /// Sets, moves or (with `None`) removes the deadline of `client`.
    pub(crate) fn set(&mut self, client: ClientIndex, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::FAR_FUTURE);
        if self.when.len() <= client.get() {
            self.when.resize(client.get() + 1, Instant::FAR_FUTURE);
        }
        let old = std::mem::replace(&mut self.when[client], at);
        if old == at {
            return;
        }
        self.order.remove(&(old, client));
        if at != Instant::FAR_FUTURE {
            self.order.insert((at, client));
        }
    }

    /// The earliest.
    #[must_use]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<ClientIndex> {
        let (at, client) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.set(client, None);
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_once() {
        let mut deadlines = Deadlines::default();
        deadlines.set(ClientIndex::new(7), Some(Instant(30)));
        deadlines.set(ClientIndex::new(2), Some(Instant(10)));
        deadlines.set(ClientIndex::new(7), Some(Instant(5)));
        deadlines.set(ClientIndex::new(3), Some(Instant(1)));
        deadlines.set(ClientIndex::new(3), None);
        assert_eq!(deadlines.next(), Some(Instant(5)));
        assert_eq!(deadlines.pop(Instant(4)), None);
        let due = std::iter::from_fn(|| deadlines.pop(Instant(99)));
        assert_eq!(due.collect::<Vec<_>>(), [7, 2].map(ClientIndex::new));
    }
}
