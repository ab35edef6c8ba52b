//! Prefetching: asking the processor for memory before it is needed.
//!
//! With thousands of connections the state of a segment's connection is in no cache, and reading it
//! field by field waits for one cache miss after the other. With prefetching the misses overlap.
//! Only speed depends on it.

use prefetch_index::prefetch_index;
use std::collections::VecDeque;
use std::ptr;

/// What is asked for at once, bytes.
const LINE: usize = 64;

/// Asks for every cache line of `value`.
#[inline(always)]
pub(crate) fn fetch<T>(value: &T) {
    fetch_range(ptr::from_ref(value).addr(), size_of::<T>());
}

/// Asks for the first `bytes` of what may be longer or shorter.
#[inline(always)]
pub(crate) fn fetch_start<T: ?Sized>(value: &T, bytes: usize) {
    fetch_range(ptr::from_ref(value).cast::<u8>().addr(), bytes);
}

/// Asks for every cache line from `first` on, up to the beginning of `end`: fields of one struct in
/// the order of its memory.
#[inline(always)]
pub(crate) fn fetch_from<T, U>(first: &T, end: &U) {
    let start = ptr::from_ref(first).addr();
    fetch_range(start, ptr::from_ref(end).addr() - start);
}

/// Asks for the first `count` places of `queue` in memory. Queues that run empty are cleared, so
/// that they begin there.
#[inline(always)]
pub(crate) fn fetch_front<T>(queue: &VecDeque<T>, count: usize) {
    let start = queue.as_slices().0.as_ptr().addr();
    fetch_range(start, count * size_of::<T>());
}

/// `len` is known to the compiler in all uses: no loop is left, whose end a processor could not
/// foresee.
#[inline(always)]
fn fetch_range(start: usize, len: usize) {
    let mut at = 0;
    while at < len {
        fetch_line(start + at);
        at += LINE;
    }
    fetch_line(start + len - 1);
}

#[inline(always)]
fn fetch_line(at: usize) {
    /// Only a place to count from: an address is a distance from it.
    const NOTHING: &[u8] = &[];
    prefetch_index(NOTHING, at.wrapping_sub(NOTHING.as_ptr().addr()));
}
