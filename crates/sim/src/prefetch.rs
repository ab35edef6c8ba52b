//! Asking the processor for memory before it is needed; only speed depends on it. A packet was
//! written long before it is read again, and has left the caches by then.

use prefetch_index::prefetch_index;
use std::ptr;

/// What is asked for at once, bytes.
pub(crate) const LINE: usize = 64;

/// Asks for every cache line of `value`.
#[inline(always)]
pub(crate) fn fetch<T>(value: &T) {
    let (start, len) = (ptr::from_ref(value).addr(), size_of::<T>());
    let mut at = 0;
    while at < len {
        fetch_line(start + at);
        at += LINE;
    }
    fetch_line(start + len - 1);
}

/// Asks for the first `bytes` of what may be longer or shorter.
#[inline(always)]
pub(crate) fn fetch_start<T: ?Sized>(value: &T, bytes: usize) {
    let start = ptr::from_ref(value).cast::<u8>().addr();
    (0..bytes.div_ceil(LINE)).for_each(|n| fetch_line(start + n * LINE));
}

#[inline(always)]
fn fetch_line(at: usize) {
    /// Only a place to count from: an address is a distance from it.
    const NOTHING: &[u8] = &[];
    prefetch_index(NOTHING, at.wrapping_sub(NOTHING.as_ptr().addr()));
}
