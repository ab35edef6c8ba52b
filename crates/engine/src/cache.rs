//! Asking the processor for memory before it is needed.
//!
//! With thousands of connections a segment finds the state of its connection in no cache, and
//! reading it field by field waits for one miss after the other. Asked for at once, they are
//! waited for together. Only speed depends on it.

use prefetch_index::prefetch_index;
use std::collections::VecDeque;
use std::ptr;

/// What is asked for at once, bytes.
const LINE: usize = 64;

/// Asks for every cache line of `value`.
#[inline(always)]
pub fn fetch<T: ?Sized>(value: &T) {
    let start = ptr::from_ref(value).cast::<u8>().addr();
    fetch_range(start, start + size_of_val(value));
}

/// Asks for every cache line from `first` on, up to the beginning of `end`: fields of one struct in
/// the order of its memory.
#[inline(always)]
pub(crate) fn fetch_from<T, U>(first: &T, end: &U) {
    fetch_range(ptr::from_ref(first).addr(), ptr::from_ref(end).addr());
}

/// Asks for the place where the only element of `queue` is or will be: queues that run empty are
/// cleared, so that they begin at their beginning.
#[inline(always)]
pub(crate) fn fetch_front<T>(queue: &VecDeque<T>) {
    let start = queue.as_slices().0.as_ptr().addr();
    fetch_range(start, start + size_of::<T>());
}

/// Asks for the place behind `last`, where a queue that ends with it will grow.
#[inline(always)]
pub(crate) fn fetch_behind<T>(last: &T) {
    let start = ptr::from_ref(last).addr() + size_of::<T>();
    fetch_range(start, start + size_of::<T>());
}

#[inline(always)]
fn fetch_range(start: usize, end: usize) {
    /// Only a place to count from: an address is a distance from it.
    const NOTHING: &[u8] = &[];
    let mut at = start & !(LINE - 1);
    while at < end {
        prefetch_index(NOTHING, at.wrapping_sub(NOTHING.as_ptr().addr()));
        at += LINE;
    }
}
