//! Who wants to be looked at when: one entry each, the earliest first.

use std::collections::BTreeSet;
use tabane_engine::Instant;

/// Deadlines of things with an index.
#[derive(Default, Debug)]
pub(crate) struct Deadlines {
    order: BTreeSet<(Instant, usize)>,
    /// By index; `FAR_FUTURE` for none.
    when: Vec<Instant>,
}

impl Deadlines {
    /// Sets, moves or (with `None`) removes the deadline of `index`.
    pub(crate) fn set(&mut self, index: usize, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::FAR_FUTURE);
        if self.when.len() <= index {
            self.when.resize(index + 1, Instant::FAR_FUTURE);
        }
        let old = std::mem::replace(&mut self.when[index], at);
        if old == at {
            return;
        }
        self.order.remove(&(old, index));
        if at != Instant::FAR_FUTURE {
            self.order.insert((at, index));
        }
    }

    /// The earliest.
    #[must_use]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<usize> {
        let (at, index) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.set(index, None);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_once() {
        let mut deadlines = Deadlines::default();
        deadlines.set(7, Some(Instant(30)));
        deadlines.set(2, Some(Instant(10)));
        deadlines.set(7, Some(Instant(5)));
        deadlines.set(3, Some(Instant(1)));
        deadlines.set(3, None);
        assert_eq!(deadlines.next(), Some(Instant(5)));
        assert_eq!(deadlines.pop(Instant(4)), None);
        let due = std::iter::from_fn(|| deadlines.pop(Instant(99)));
        assert_eq!(due.collect::<Vec<_>>(), [7, 2]);
    }
}
