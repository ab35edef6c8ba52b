//! Asking the processor for memory before it is needed.
//!
//! With thousands of connections a segment finds the state of its connection in no cache, and
//! reading it field by field waits for one miss after the other. Asked for at once, they are
//! waited for together. Only speed depends on it.

use prefetch_index::prefetch_index;

/// Asks for the cache line in which `field` begins.
#[inline(always)]
pub(crate) fn fetch<T>(field: &T) {
    prefetch_index(std::slice::from_ref(field), 0);
}
