//! A sorted list of disjoint, non-touching position ranges: SACKed at the sender, received out of
//! order at the receiver.

/// Half-open ranges, ascending.
#[derive(Clone, Default, Debug)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Ranges kept at most: whoever reports single bytes must cost neither memory nor time.
    pub(super) const MOST: usize = crate::config::OUT_OF_ORDER_RANGES;

    /// Adds `[start, end)`. Returns the hull of what was new in it and the whole range it now
    /// belongs to, or `None` if nothing was new, or if it would be one range too many.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> Option<((u64, u64), (u64, u64))> {
        if start >= end {
            return None;
        }
        // Ranges that touch or overlap [start, end) are first..last.
        let first = self.0.partition_point(|r| r.1 < start);
        let last = first + self.0[first..].partition_point(|r| r.0 <= end);
        if first == last {
            if self.0.len() >= Self::MOST {
                return None;
            }
            self.0.insert(first, (start, end));
            return Some(((start, end), (start, end)));
        }
        let low = self.0[first];
        if low.0 <= start && end <= low.1 {
            return None;
        }
        let new_start = if low.0 <= start { low.1.max(start) } else { start };
        let high = self.0[last - 1];
        let new_end = if high.1 >= end { high.0.max(new_start) } else { end };
        let whole = (low.0.min(start), high.1.max(end));
        self.0[first] = whole;
        self.0.drain(first + 1..last);
        Some(((new_start, new_end), whole))
    }

    /// Forgets everything below `position`.
    pub(super) fn drop_below(&mut self, position: u64) {
        if self.0.first().is_none_or(|r| r.0 >= position) {
            return;
        }
        let below = self.0.partition_point(|r| r.1 <= position);
        self.0.drain(..below);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(position);
        }
    }

    /// Removes and returns the end of the first range, if that begins at or below `position`.
    pub(super) fn take_from(&mut self, position: u64) -> Option<u64> {
        let &(start, end) = self.0.first()?;
        if start > position {
            return None;
        }
        self.0.remove(0);
        Some(end)
    }

    /// The range that holds `position`.
    pub(super) fn containing(&self, position: u64) -> Option<(u64, u64)> {
        let at = self.0.partition_point(|r| r.1 <= position);
        self.0.get(at).copied().filter(|r| r.0 <= position)
    }

    /// The first part of `[start, end)` that is held.
    pub(super) fn overlap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let &(a, b) = self.0.get(self.0.partition_point(|r| r.1 <= start))?;
        (a < end).then(|| (a.max(start), b.min(end)))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn insert_reports_what_is_new_and_the_whole() {
        let mut r = Ranges::default();
        assert_eq!(r.insert(10, 20), Some(((10, 20), (10, 20))));
        assert_eq!(r.insert(12, 18), None);
        assert_eq!(r.insert(15, 25), Some(((20, 25), (10, 25))));
        assert_eq!(r.insert(30, 40), Some(((30, 40), (30, 40))));
        assert_eq!(r.insert(25, 30), Some(((25, 30), (10, 40))));
        assert_eq!(r.len(), 1);
        assert_eq!(r.insert(5, 12), Some(((5, 10), (5, 40))));
        assert_eq!(r.containing(39), Some((5, 40)));
        assert_eq!(r.containing(40), None);
        r.drop_below(8);
        assert_eq!(r.take_from(8), Some(40));
        assert!(r.is_empty());
    }

    #[test]
    fn beyond_the_limit_ranges_grow_and_none_is_added() {
        let mut r = Ranges::default();
        let most = Ranges::MOST as u64;
        for n in (0..2 * most).rev() {
            r.insert(n * 2, n * 2 + 1);
        }
        assert_eq!((r.len(), r.containing(0)), (Ranges::MOST, None));
        let first = most * 2;
        assert_eq!(r.insert(first - 1, first), Some(((first - 1, first), (first - 1, first + 1))));
        r.drop_below(first + 1);
        assert!(r.insert(0, 1).is_some(), "there is space again");
    }

    #[test]
    fn agrees_with_a_set_of_bytes() {
        let mut state = 12345_u64;
        let mut next = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), BTreeSet::new());
            for _ in 0..30 {
                let start = next(100);
                let end = start + next(12);
                let fresh = (start..end).any(|b| !bytes.contains(&b));
                bytes.extend(start..end);
                assert_eq!(ranges.insert(start, end).is_some(), fresh);
                let covered: BTreeSet<u64> = ranges.iter().flat_map(|(a, b)| a..b).collect();
                assert_eq!(covered, bytes);
                assert!(ranges.0.windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }
}
