//! The send buffer: what the application wrote and the peer has not acknowledged at data level.
//!
//! Bytes are kept as they were written and handed out as slices of them; only a slice that spans
//! two writes is a copy. Its limit is the connection's (`TcpConfig::send_buffer`).

use crate::cache::fetch_front;
use crate::seq::Dsn;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Written and not yet acknowledged.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    /// Start of each part; parts are contiguous.
    parts: VecDeque<(Dsn, Bytes)>,
    /// How many parts have been popped since the start: makes indices absolute.
    popped: usize,
    /// Absolute index of the part that the last slice ended in.
    hint: usize,
    una: Dsn,
    end: Dsn,
    /// Where slices that span parts are put together: a relay between connections whose segments
    /// differ in size would allocate for each. Given back when the buffer runs empty.
    scratch: BytesMut,
}

impl SendBuffer {
    pub(crate) fn new(start: Dsn) -> Self {
        Self {
            parts: VecDeque::new(),
            popped: 0,
            hint: 0,
            una: start,
            end: start,
            scratch: BytesMut::new(),
        }
    }

    /// Asks for what an acknowledgement will need: see `cache.rs`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch_front(&self.parts, 1);
    }

    /// First position not acknowledged.
    #[inline]
    pub(crate) fn una(&self) -> Dsn {
        self.una
    }

    /// Position after the last byte written.
    #[inline]
    pub(crate) fn end(&self) -> Dsn {
        self.end
    }

    /// Bytes held.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.end - self.una
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        let start = self.end;
        self.end += data.len() as u64;
        if let Some((_, last)) = self.parts.back_mut()
            && let Some(joined) = join_small(last, &data)
        {
            *last = joined;
            return;
        }
        self.parts.push_back((start, data));
    }

    /// `len` bytes from `dsn` on; the range is within what is held.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    pub(crate) fn slice(&mut self, dsn: Dsn, len: usize) -> Bytes {
        debug_assert!(dsn >= self.una && dsn + len as u64 <= self.end);
        let at = self.find(dsn);
        let (start, part) = &self.parts[at];
        let from = (dsn - *start) as usize;
        self.hint = self.popped + at;
        if from + len <= part.len() {
            return part.slice(from..from + len);
        }
        self.assemble(at, from, len)
    }

    fn assemble(&mut self, mut at: usize, mut from: usize, len: usize) -> Bytes {
        if self.scratch.capacity() < len {
            self.scratch = BytesMut::with_capacity(len.max(SCRATCH));
        }
        while self.scratch.len() < len {
            let part = &self.parts[at].1;
            let take = (part.len() - from).min(len - self.scratch.len());
            self.scratch.extend_from_slice(&part[from..from + take]);
            self.hint = self.popped + at;
            at += 1;
            from = 0;
        }
        self.scratch.split().freeze()
    }

    #[inline]
    fn find(&self, dsn: Dsn) -> usize {
        let contains = |at: usize| {
            self.parts
                .get(at)
                .is_some_and(|(start, part)| *start <= dsn && dsn < *start + part.len() as u64)
        };
        let hint = self.hint.saturating_sub(self.popped);
        if contains(hint) {
            return hint;
        }
        if contains(hint + 1) {
            return hint + 1;
        }
        self.parts.partition_point(|(start, _)| *start <= dsn).saturating_sub(1)
    }

    /// Everything before `to` has been acknowledged.
    #[inline]
    pub(crate) fn acknowledge(&mut self, to: Dsn) {
        self.una = to.min(self.end).max(self.una);
        while let Some((start, part)) = self.parts.front()
            && *start + part.len() as u64 <= self.una
        {
            self.parts.pop_front();
            self.popped += 1;
        }
        if self.parts.is_empty() && self.parts.capacity() > 64 {
            self.parts = VecDeque::new();
        }
        if self.parts.is_empty() && self.scratch.capacity() > 0 {
            self.scratch = BytesMut::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.parts = VecDeque::new();
        self.una = self.end;
    }
}

/// `last` followed by `next` as one part, if both are small: a part costs some 60 bytes beside
/// its content, and a peer or application that deals in single bytes must not cost a hundred
/// times what it sends.
pub(crate) fn join_small(last: &Bytes, next: &Bytes) -> Option<Bytes> {
    if last.len() + next.len() > SMALL {
        return None;
    }
    let mut joined = BytesMut::with_capacity(SMALL);
    joined.extend_from_slice(last);
    joined.extend_from_slice(next);
    Some(joined.freeze())
}

/// Bytes taken from the allocator at once for slices that span parts.
const SCRATCH: usize = 64 << 10;

/// Parts up to this size are joined.
pub(crate) const SMALL: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(from: usize, len: usize) -> Bytes {
        (from..from + len).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn slices_are_what_was_written_wherever_parts_end() {
        let mut buffer = SendBuffer::new(Dsn(1));
        let mut written = 0;
        for len in [3000, 1, 1, 700, 5, 1448, 20, 9000, 2] {
            buffer.push(pattern(written, len));
            written += len;
        }
        assert_eq!(buffer.len(), written as u64);
        let mut at = 0;
        while at < written {
            let len = (written - at).min(1448);
            assert_eq!(buffer.slice(Dsn(1 + at as u64), len), pattern(at, len), "at {at}");
            at += len;
        }
        // Backwards, as reinjection may ask; and after acknowledging.
        buffer.acknowledge(Dsn(3500));
        assert_eq!(buffer.slice(Dsn(9000), 100), pattern(8999, 100));
        assert_eq!(buffer.slice(Dsn(3500), 1000), pattern(3499, 1000));
        buffer.acknowledge(Dsn(1));
        assert_eq!(buffer.una(), Dsn(3500), "never backwards");
        buffer.acknowledge(Dsn(1_000_000));
        assert_eq!((buffer.una(), buffer.len()), (buffer.end(), 0));
    }

    #[test]
    fn a_slice_within_one_write_is_not_a_copy() {
        let mut buffer = SendBuffer::new(Dsn(1));
        let data = pattern(0, 4000);
        buffer.push(data.clone());
        assert_eq!(buffer.slice(Dsn(101), 1448).as_ptr(), data[100..].as_ptr());
    }

    #[test]
    fn single_bytes_are_joined() {
        let mut buffer = SendBuffer::new(Dsn(1));
        (0..10_000).for_each(|i| buffer.push(pattern(i, 1)));
        assert!(buffer.parts.len() <= 10_000 / 256);
        assert_eq!(buffer.slice(Dsn(1), 10_000), pattern(0, 10_000));
    }
}
