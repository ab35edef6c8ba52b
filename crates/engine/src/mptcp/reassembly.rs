//! The only reassembler: bytes by data position, in order for the application.
//!
//! Out-of-order data is kept as ranges, each a list of segments as they came. Memory is bounded
//! by the receive window (the subflows drop what is beyond), the number of ranges by
//! `Limits::out_of_order_ranges`. First arrival wins (RFC 8684 section 3.3). Lists are used again:
//! where two paths interleave, a range comes and goes with nearly every segment.

use super::buffer::join_small;
use crate::cache::fetch_front;
use crate::seq::Dsn;
use bytes::Bytes;
use std::collections::VecDeque;

/// Received data: what is in order and not read yet, and the ranges beyond the first gap.
#[derive(Debug)]
pub(crate) struct Reassembler {
    /// The first position that has not arrived.
    next: Dsn,
    /// In order, not yet read.
    ready: VecDeque<Bytes>,
    ready_len: u64,
    /// Out of order: ascending, disjoint, no two adjacent.
    ranges: VecDeque<Range>,
    held: u64,
    /// Empty lists for ranges to come, at most [`SPARES`].
    spare: Vec<VecDeque<Bytes>>,
    /// Times in a row that all was read while nothing was out of order.
    calm: u32,
}

/// Lists kept for use again.
const SPARES: usize = 32;
/// After this many calm moments in a row, spare and long lists are given back.
const CALM: u32 = 64;
/// A list with space for more segments than this is long.
const LONG: usize = 64;

/// A contiguous range out of order.
#[derive(Debug)]
struct Range {
    start: Dsn,
    end: Dsn,
    parts: VecDeque<Bytes>,
}

/// What became of inserted bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Inserted {
    /// Bytes that became readable.
    pub(crate) in_order: u64,
    /// Bytes that were new.
    pub(crate) new: u64,
    /// Bytes that had been there.
    pub(crate) duplicate: u64,
    /// Bytes refused: one more range than allowed.
    pub(crate) refused: u64,
}

impl Reassembler {
    pub(crate) fn new(next: Dsn) -> Self {
        Self {
            next,
            ready: VecDeque::new(),
            ready_len: 0,
            ranges: VecDeque::new(),
            held: 0,
            spare: Vec::new(),
            calm: 0,
        }
    }

    /// Asks for what data will need: see `cache.rs`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch_front(&self.ready, 1);
    }

    /// The first position that has not arrived.
    #[inline]
    pub(crate) fn next(&self) -> Dsn {
        self.next
    }

    /// Bytes in order, not yet read.
    #[inline]
    pub(crate) fn readable(&self) -> u64 {
        self.ready_len
    }

    /// Bytes out of order.
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Adds `data` at `dsn`; `limit` bounds the number of ranges out of order.
    #[inline]
    pub(crate) fn insert(&mut self, dsn: Dsn, mut data: Bytes, limit: usize) -> Inserted {
        let mut result = Inserted::default();
        let old = (self.next - dsn).min(data.len() as u64);
        if old > 0 {
            result.duplicate = old;
            drop(data.split_to(old as usize));
        }
        if data.is_empty() {
            return result;
        }
        if dsn > self.next {
            self.insert_out_of_order(dsn, data, limit, &mut result);
            return result;
        }
        if self.ranges.is_empty() {
            result.new = data.len() as u64;
            result.in_order = result.new;
            self.append(data);
            return result;
        }
        self.fill(data, &mut result);
        result
    }

    /// `data` starts at `next`, and there are ranges beyond.
    fn fill(&mut self, mut data: Bytes, result: &mut Inserted) {
        let before = self.next;
        while let Some(first) = self.ranges.front() {
            let end = self.next + data.len() as u64;
            if first.start > end {
                break;
            }
            let range = self.ranges.pop_front().expect("invariant: there is a first");
            let overlap = end - range.start;
            let mut rest = data.split_off(data.len() - overlap as usize);
            let len = range.end - range.start;
            let beyond = rest.split_off(len.min(overlap) as usize);
            result.duplicate += rest.len() as u64;
            result.new += data.len() as u64;
            self.append(data);
            self.held -= len;
            self.ready_len += len;
            self.next = range.end;
            let emptied = append_parts(&mut self.ready, range.parts);
            self.recycle(emptied);
            data = beyond;
        }
        result.new += data.len() as u64;
        self.append(data);
        result.in_order = self.next - before;
    }

    #[inline]
    fn append(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        self.next += data.len() as u64;
        self.ready_len += data.len() as u64;
        push_part(&mut self.ready, data);
    }

    fn insert_out_of_order(
        &mut self,
        mut dsn: Dsn,
        mut data: Bytes,
        limit: usize,
        result: &mut Inserted,
    ) {
        // Usual case: what follows the last range.
        if let Some(last) = self.ranges.back_mut()
            && last.end == dsn
        {
            last.end += data.len() as u64;
            self.held += data.len() as u64;
            result.new += data.len() as u64;
            push_part(&mut last.parts, data);
            return;
        }
        // The first range that ends beyond `dsn`.
        let mut at = self.ranges.partition_point(|r| r.end <= dsn);
        while !data.is_empty() {
            let mut gap = u64::MAX;
            if let Some(range) = self.ranges.get(at) {
                if range.start <= dsn {
                    let known = (range.end - dsn).min(data.len() as u64);
                    result.duplicate += known;
                    drop(data.split_to(known as usize));
                    dsn += known;
                    at += 1;
                    continue;
                }
                gap = range.start - dsn;
            }
            let part = data.split_to(gap.min(data.len() as u64) as usize);
            let len = part.len() as u64;
            match self.place(at, dsn, part, limit) {
                Some(then) => {
                    at = then;
                    result.new += len;
                }
                None => result.refused += len,
            }
            dsn += len;
        }
    }

    /// Puts `part`, which overlaps nothing, at `dsn`, before range `at`, joining its neighbours.
    /// The place of the first range that ends beyond it; `None` if it is one range too many.
    fn place(&mut self, at: usize, dsn: Dsn, part: Bytes, limit: usize) -> Option<usize> {
        let len = part.len() as u64;
        let end = dsn + len;
        let follows = at > 0 && self.ranges[at - 1].end == dsn;
        let leads = self.ranges.get(at).is_some_and(|r| r.start == end);
        let then = match (follows, leads) {
            (true, true) => {
                let after = self.ranges.remove(at).expect("invariant: `leads` found it");
                let range = &mut self.ranges[at - 1];
                range.end = after.end;
                push_part(&mut range.parts, part);
                let emptied = append_parts(&mut range.parts, after.parts);
                self.recycle(emptied);
                at - 1
            }
            (true, false) => {
                let range = &mut self.ranges[at - 1];
                range.end = end;
                push_part(&mut range.parts, part);
                at
            }
            (false, true) => {
                let range = &mut self.ranges[at];
                range.start = dsn;
                push_front_part(&mut range.parts, part);
                at
            }
            (false, false) => {
                if self.ranges.len() >= limit {
                    return None;
                }
                let mut parts = self.spare.pop().unwrap_or_default();
                parts.push_back(part);
                self.ranges.insert(at, Range { start: dsn, end, parts });
                at + 1
            }
        };
        self.held += len;
        Some(then)
    }

    fn recycle(&mut self, emptied: VecDeque<Bytes>) {
        if self.spare.len() < SPARES && emptied.capacity() > 0 {
            self.spare.push(emptied);
        }
    }

    /// The next bytes in order, at most `max`.
    #[inline]
    pub(crate) fn read(&mut self, max: usize) -> Option<Bytes> {
        let front = self.ready.front_mut()?;
        let data = if front.len() > max {
            front.split_to(max)
        } else {
            self.ready.pop_front().expect("invariant: front exists")
        };
        self.ready_len -= data.len() as u64;
        if self.ready.is_empty() {
            self.on_drained();
        }
        Some(data)
    }

    /// All that is in order has been read. Nothing out of order for some time: gives memory back.
    #[inline]
    fn on_drained(&mut self) {
        // It begins at its beginning again: that is in the caches.
        self.ready.clear();
        if !self.ranges.is_empty() {
            self.calm = 0;
            return;
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm == CALM {
            self.spare = Vec::new();
            self.ranges = VecDeque::new();
            if self.ready.capacity() > LONG {
                self.ready = VecDeque::new();
            }
        }
    }

    /// The DATA_FIN (or FIN) at `next` was reached: it takes one position.
    pub(crate) fn advance_over_fin(&mut self) {
        self.next += 1;
    }

    /// Forgets what is out of order (the stream has ended before it).
    pub(crate) fn drop_held(&mut self) {
        self.ranges.clear();
        self.held = 0;
    }
}

#[inline]
fn push_part(parts: &mut VecDeque<Bytes>, data: Bytes) {
    if let Some(last) = parts.back_mut()
        && let Some(joined) = join_small(last, &data)
    {
        *last = joined;
        return;
    }
    parts.push_back(data);
}

fn push_front_part(parts: &mut VecDeque<Bytes>, data: Bytes) {
    if let Some(first) = parts.front_mut()
        && let Some(joined) = join_small(&data, first)
    {
        *first = joined;
        return;
    }
    parts.push_front(data);
}

/// Appends `after` to `parts`, moving the shorter of the two; gives back the emptied list.
fn append_parts(parts: &mut VecDeque<Bytes>, mut after: VecDeque<Bytes>) -> VecDeque<Bytes> {
    // Where they meet, too: else single bytes that fill gaps between single bytes are not joined.
    if let (Some(last), Some(first)) = (parts.back_mut(), after.front())
        && let Some(joined) = join_small(last, first)
    {
        *last = joined;
        after.pop_front();
    }
    if parts.len() < after.len() {
        while let Some(part) = parts.pop_back() {
            after.push_front(part);
        }
        std::mem::swap(parts, &mut after);
    } else {
        parts.append(&mut after);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(from: u64, len: u64) -> Bytes {
        (from..from + len).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn in_order_data_is_readable_and_cut_to_size() {
        let mut r = Reassembler::new(Dsn(1));
        let inserted = r.insert(Dsn(1), pattern(1, 1000), 4);
        assert_eq!((inserted.in_order, inserted.new, inserted.duplicate), (1000, 1000, 0));
        assert_eq!(r.read(400), Some(pattern(1, 400)));
        assert_eq!(r.read(4000), Some(pattern(401, 600)));
        assert_eq!((r.read(1), r.readable()), (None, 0));
    }

    #[test]
    fn the_limit_of_ranges_refuses_a_new_range_but_not_a_growing_one() {
        let mut r = Reassembler::new(Dsn(1));
        for start in [1000, 3000, 5000] {
            assert_eq!(r.insert(Dsn(start), pattern(start, 600), 3).new, 600);
        }
        assert_eq!(r.insert(Dsn(7000), pattern(7000, 600), 3).refused, 600);
        assert_eq!(r.insert(Dsn(1600), pattern(1600, 600), 3).new, 600);
        assert_eq!(r.insert(Dsn(2400), pattern(2400, 600), 3).new, 600);
        assert_eq!(r.insert(Dsn(2200), pattern(2200, 200), 3).new, 200);
        assert_eq!(r.ranges.len(), 2, "1000..3600 and 5000..5600");
        assert_eq!(r.insert(Dsn(1), pattern(1, 999), 3).in_order, 3599);
        assert_eq!(r.held(), 600);
    }

    /// Parts that are held or wait to be read.
    fn parts(r: &Reassembler) -> usize {
        r.ready.len() + r.ranges.iter().map(|range| range.parts.len()).sum::<usize>()
    }

    #[test]
    fn single_bytes_are_joined_in_whatever_order_they_come() {
        let most = 4096;
        let downwards = (2..=most).rev().collect::<Vec<_>>();
        let gaps_last = (0..2).flat_map(|odd| (1..most / 2).map(move |n| 2 * n + 1 - odd));
        let gaps_upwards = gaps_last.collect::<Vec<_>>();
        for order in [downwards, gaps_upwards] {
            let mut r = Reassembler::new(Dsn(1));
            for &at in &order {
                assert_eq!(r.insert(Dsn(at), pattern(at, 1), 4096).new, 1);
            }
            assert!(r.ranges.len() == 1 && parts(&r) <= 4096 / 256, "{}", parts(&r));
            assert_eq!(r.insert(Dsn(1), pattern(1, 1), 4096).in_order, order.len() as u64 + 1);
            let mut read = Vec::new();
            while let Some(part) = r.read(5000) {
                read.extend_from_slice(&part);
            }
            assert_eq!(read, pattern(1, order.len() as u64 + 1));
        }
        // Those that are in order at once.
        let mut r = Reassembler::new(Dsn(1));
        (1..=1000).for_each(|n| assert_eq!(r.insert(Dsn(2 * n), pattern(0, 1), 4096).new, 1));
        (0..1000).for_each(|n| assert_eq!(r.insert(Dsn(2 * n + 1), pattern(0, 1), 4096).new, 1));
        assert!(r.readable() == 2000 && parts(&r) <= 2000 / 256, "{}", parts(&r));
    }

    proptest! {
        /// Whatever the order, overlaps and repeats: the stream comes out, each byte once, and
        /// new and duplicate bytes add up.
        #[test]
        fn any_order_gives_the_stream(
            mut segments in prop::collection::vec((0u64..5000, 1u64..900), 1..60),
            seed in any::<u64>(),
        ) {
            let end = segments.iter().map(|(s, l)| s + l).max().unwrap();
            segments.extend((0..end).step_by(700).map(|s| (s, 700.min(end - s))));
            let rotate = seed as usize % segments.len();
            segments.rotate_left(rotate);
            let mut r = Reassembler::new(Dsn(1));
            let (mut new, mut in_order) = (0, 0);
            for (start, len) in segments {
                let i = r.insert(Dsn(1 + start), pattern(start, len), usize::MAX);
                prop_assert_eq!(i.new + i.duplicate, len);
                new += i.new;
                in_order += i.in_order;
                let held: u64 = r.ranges.iter().map(|x| x.end - x.start).sum();
                prop_assert_eq!(held, r.held());
                prop_assert_eq!(in_order + held, new);
            }
            prop_assert_eq!(r.next(), Dsn(1 + end));
            let mut out = Vec::new();
            while let Some(part) = r.read(333) {
                out.extend_from_slice(&part);
            }
            prop_assert_eq!(Bytes::from(out), pattern(0, end));
            prop_assert!(r.ranges.is_empty());
        }
    }
}
