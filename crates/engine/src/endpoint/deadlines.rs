//! The deadlines of connections, the earliest first: a heap in which each node has four children
//! that share a cache line. With thousands of connections the heap is in no cache when it is
//! needed, and half as many levels mean half as many misses.
//!
//! A deadline moves with nearly every segment, mostly to later. An entry whose deadline has become
//! later stays where it is until it is the first; then it moves once, however often the deadline
//! did. The valid deadline is noted here and not in the connection, which need not be touched
//! before it is due.

use crate::cache::fetch;
use crate::time::Instant;

/// The time and the connection's key. Equal times are ordered by key.
type Entry = (Instant, u32);

/// No entry: after all others.
const NONE: Entry = (Instant::FAR_FUTURE, u32::MAX);

/// The deadline of a connection.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// `FAR_FUTURE` if there is no deadline.
    at: Instant,
    /// When its entry in the heap fires, never later than `at`; others of it mean nothing.
    entered: Instant,
}

impl Due {
    const NEVER: Self = Self { at: Instant::FAR_FUTURE, entered: Instant::FAR_FUTURE };
}

/// The children of one node.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Group([Entry; Group::SIZE]);

impl Group {
    const SIZE: usize = 4;
}

/// A deadline per key. The first entry of the heap always holds.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    heap: Heap,
    /// Indexed by the connection's key.
    due: Vec<Due>,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { heap: Heap::new(), due: Vec::new() }
    }

    /// The earliest deadline, and whose it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Entry> {
        self.heap.peek()
    }

    /// Asks for what `set` will need: see `cache.rs`.
    #[inline]
    pub(super) fn prefetch(&self, key: u32) {
        if let Some(due) = self.due.get(key as usize) {
            fetch(due);
        }
    }

    /// The deadline of `key` is now `at`; `FAR_FUTURE` for none.
    #[inline]
    pub(super) fn set(&mut self, key: u32, at: Instant) {
        let place = key as usize;
        if place >= self.due.len() {
            self.due.resize(place + 1, Due::NEVER);
        }
        let due = &mut self.due[place];
        due.at = at;
        if at < due.entered {
            due.entered = at;
            self.heap.push(at, key);
        }
        self.tidy();
    }

    /// A key whose deadline has come. It has none from now on.
    pub(super) fn expire(&mut self, now: Instant) -> Option<u32> {
        let (_, key) = self.heap.peek().filter(|(at, _)| *at <= now)?;
        self.set(key, Instant::FAR_FUTURE);
        Some(key)
    }

    /// Makes the first entry one that holds.
    #[inline]
    fn tidy(&mut self) {
        while let Some((at, key)) = self.heap.peek() {
            let due = &mut self.due[key as usize];
            if due.entered != at {
                self.heap.pop();
            } else if due.at != at {
                due.entered = due.at;
                self.heap.pop();
                if due.at != Instant::FAR_FUTURE {
                    self.heap.push(due.at, key);
                }
            } else {
                break;
            }
        }
    }
}

/// Entries, the least first.
#[derive(Clone, Debug)]
struct Heap {
    first: Entry,
    /// That at `n` has the children of node `n`, which are the nodes from `4 n + 1` on.
    groups: Vec<Group>,
    len: usize,
}

impl Heap {
    fn new() -> Self {
        Self { first: NONE, groups: Vec::new(), len: 0 }
    }

    #[inline]
    fn peek(&self) -> Option<Entry> {
        (self.len > 0).then_some(self.first)
    }

    fn push(&mut self, at: Instant, key: u32) {
        let entry = (at, key);
        let mut node = self.len;
        self.len += 1;
        if node > 0 && (node - 1) / Group::SIZE == self.groups.len() {
            self.groups.push(Group([NONE; Group::SIZE]));
        }
        while node > 0 {
            let parent = (node - 1) / Group::SIZE;
            let above = self.get(parent);
            if above <= entry {
                break;
            }
            self.set(node, above);
            node = parent;
        }
        self.set(node, entry);
    }

    /// Takes the least out.
    fn pop(&mut self) -> Option<Entry> {
        let first = self.peek()?;
        self.len -= 1;
        let last = self.get(self.len);
        self.set(self.len, NONE);
        if self.len == 0 {
            return Some(first);
        }
        let mut node = 0;
        while let Some(Group(children)) = self.groups.get(node) {
            let pair = |a: usize, b: usize| if children[b] < children[a] { b } else { a };
            let (left, right) = (pair(0, 1), pair(2, 3));
            let least = pair(left, right);
            let child = children[least];
            if child >= last {
                break;
            }
            self.set(node, child);
            node = node * Group::SIZE + 1 + least;
        }
        self.set(node, last);
        Some(first)
    }

    #[inline]
    fn get(&self, node: usize) -> Entry {
        match node.checked_sub(1) {
            None => self.first,
            Some(n) => self.groups[n / Group::SIZE].0[n % Group::SIZE],
        }
    }

    #[inline]
    fn set(&mut self, node: usize, entry: Entry) {
        match node.checked_sub(1) {
            None => self.first = entry,
            Some(n) => self.groups[n / Group::SIZE].0[n % Group::SIZE] = entry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    proptest! {
        #[test]
        fn it_agrees_with_the_heap_of_the_library(
            steps in prop::collection::vec(
                prop::option::weighted(0.6, (0_u64..50, 0_u32..9)),
                0..400,
            ),
        ) {
            let (mut ours, mut theirs) = (Heap::new(), BinaryHeap::new());
            for step in steps {
                match step {
                    Some((at, key)) => {
                        ours.push(Instant(at), key);
                        theirs.push(Reverse((Instant(at), key)));
                    }
                    None => {
                        prop_assert_eq!(ours.pop(), theirs.pop().map(|Reverse(entry)| entry));
                    }
                }
                prop_assert_eq!(ours.peek(), theirs.peek().map(|Reverse(entry)| *entry));
            }
            while let Some(Reverse(entry)) = theirs.pop() {
                prop_assert_eq!(ours.pop(), Some(entry));
            }
            prop_assert_eq!(ours.pop(), None);
        }

        #[test]
        fn the_first_is_the_least_that_holds(
            steps in prop::collection::vec((0_u32..9, prop::option::of(0_u64..50)), 0..400),
        ) {
            let mut ours = Deadlines::new();
            let mut known = [Instant::FAR_FUTURE; 9];
            let least = |known: &[Instant; 9]| {
                let keys = (0..9).filter(|k| known[*k as usize] != Instant::FAR_FUTURE);
                keys.map(|k| (known[k as usize], k)).min()
            };
            for (key, at) in steps {
                let at = at.map_or(Instant::FAR_FUTURE, Instant);
                ours.set(key, at);
                known[key as usize] = at;
                prop_assert_eq!(ours.first(), least(&known));
            }
            while let Some((at, key)) = least(&known) {
                prop_assert_eq!(ours.expire(Instant(at.0.saturating_sub(1))).is_some(), at.0 == 0);
                if at.0 > 0 {
                    prop_assert_eq!(ours.expire(at), Some(key));
                }
                known[key as usize] = Instant::FAR_FUTURE;
            }
            prop_assert_eq!(ours.first(), None);
        }
    }
}
