//! Which positions of a byte stream were seen: disjoint ranges, few of them.

/// Half-open ranges, ascending, neither empty nor touching.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Ranges(Vec<(u64, u64)>);

/// Ranges at most. With one more, the lowest gap counts as seen: it is the oldest.
const LIMIT: usize = 1024;

impl Ranges {
    /// Adds `start..end`; returns how many of its positions are new.
    #[inline]
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        match self.0.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            Some(last) if last.1 > start => return self.fill(start, end),
            _ => self.push(start, end),
        }
        end - start
    }

    /// One beyond the highest position.
    pub(super) fn end(&self) -> Option<u64> {
        self.0.last().map(|range| range.1)
    }

    #[cold]
    fn push(&mut self, start: u64, end: u64) {
        self.0.push((start, end));
        self.limit();
    }

    fn limit(&mut self) {
        if self.0.len() > LIMIT {
            let lowest = self.0.remove(0).0;
            self.0[0].0 = lowest;
        }
    }

    /// The general case: somewhere below the end.
    #[cold]
    fn fill(&mut self, start: u64, end: u64) -> u64 {
        let first = self.0.partition_point(|range| range.1 < start);
        let after = self.0.partition_point(|range| range.0 <= end);
        let touched = &self.0[first..after];
        let known: u64 = touched.iter().map(|r| r.1.min(end).saturating_sub(r.0.max(start))).sum();
        let new = end - start - known;
        match (touched.first(), touched.last()) {
            (Some(low), Some(high)) => {
                let merged = (low.0.min(start), high.1.max(end));
                self.0.splice(first..after, [merged]);
            }
            _ => {
                self.0.insert(first, (start, end));
                self.limit();
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_set_of_positions(
            pieces in proptest::collection::vec((0u64..300, 0u64..40), 0..80),
        ) {
            let mut ranges = Ranges::default();
            let mut seen = [false; 400];
            for (start, len) in pieces {
                let slots = &mut seen[start as usize..(start + len) as usize];
                let new = slots.iter().filter(|s| !**s).count() as u64;
                slots.fill(true);
                prop_assert_eq!(ranges.insert(start, start + len), new);
                prop_assert!(ranges.0.iter().all(|r| r.0 < r.1));
                prop_assert!(ranges.0.windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }

    #[test]
    fn the_oldest_gap_is_given_up() {
        let mut ranges = Ranges::default();
        for n in 0..LIMIT as u64 + 10 {
            assert_eq!(ranges.insert(n * 10, n * 10 + 1), 1);
        }
        assert_eq!(ranges.0.len(), LIMIT);
        assert_eq!(ranges.insert(5, 6), 0);
        assert_eq!(ranges.insert(LIMIT as u64 * 10 + 5, LIMIT as u64 * 10 + 6), 1);
    }
}
