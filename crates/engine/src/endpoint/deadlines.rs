//! The deadlines of connections, the earliest first: a heap in which each node has four children
//! that share a cache line. With thousands of connections it is in no cache when it is needed, and
//! half as many levels are half as many misses.
//!
//! Deadlines that no longer hold are not removed: whoever takes one looks whether it is still its
//! connection's. So there are at most as many as have been entered and not fired yet.

use crate::time::Instant;

/// When, and whose. Equal times go by number.
type Entry = (Instant, u32);

/// No entry: after all others.
const NONE: Entry = (Instant::FAR_FUTURE, u32::MAX);

/// The children of one node.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Group([Entry; Group::SIZE]);

impl Group {
    const SIZE: usize = 4;
}

/// The heap.
#[derive(Clone, Debug)]
pub(super) struct Deadlines {
    first: Entry,
    /// That at `n` has the children of node `n`, which are the nodes from `4 n + 1` on.
    groups: Vec<Group>,
    len: usize,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { first: NONE, groups: Vec::new(), len: 0 }
    }

    /// The earliest.
    #[inline]
    pub(super) fn peek(&self) -> Option<Entry> {
        (self.len > 0).then_some(self.first)
    }

    /// Enters a deadline.
    pub(super) fn push(&mut self, at: Instant, key: u32) {
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

    /// Takes the earliest out.
    pub(super) fn pop(&mut self) -> Option<Entry> {
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
            let (mut ours, mut theirs) = (Deadlines::new(), BinaryHeap::new());
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
    }
}
