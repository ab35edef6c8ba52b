//! What happens next: one time per source (a link direction, a host's timers, the world's own
//! list), in a tree of minima.
//!
//! Sources are few and known from the start, and a packet is not one: moving a source's time
//! costs a look at its seven neighbours, a level up only if they were beaten, nothing is
//! allocated, and nothing is ever cancelled. At equal times the source with the lowest number
//! comes first, always.

use tabane_engine::Instant;

/// The next time of each source, and which is first.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Times of the sources, then minima of groups of them, and so on; the last level is one
    /// group. Groups are filled up with `FAR_FUTURE`.
    levels: Vec<Vec<[Instant; GROUP]>>,
}

/// Times that are looked at together: a cache line.
const GROUP: usize = 8;

impl Schedule {
    /// `sources` sources, none of which has anything to do.
    pub(crate) fn new(sources: usize) -> Self {
        let mut levels = Vec::new();
        let mut groups = sources.max(1).div_ceil(GROUP);
        loop {
            levels.push(vec![[Instant::FAR_FUTURE; GROUP]; groups]);
            if groups == 1 {
                return Self { levels };
            }
            groups = groups.div_ceil(GROUP);
        }
    }

    /// The first source and its time.
    #[inline]
    pub(crate) fn first(&self) -> (Instant, usize) {
        let mut first = (Instant::FAR_FUTURE, 0);
        for level in self.levels.iter().rev() {
            let (time, place) = least(&level[first.1]);
            first = (time, first.1 * GROUP + place);
        }
        first
    }

    /// When a source has something to do next, as it was set.
    pub(crate) fn time(&self, source: usize) -> Instant {
        self.levels[0][source / GROUP][source % GROUP]
    }

    /// When a source has something to do next.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, time: Instant) {
        let (mut at, mut time) = (source, time);
        let Some((top, lower)) = self.levels.split_last_mut() else { return };
        for level in lower {
            let group = &mut level[at / GROUP];
            if std::mem::replace(&mut group[at % GROUP], time) == time {
                return;
            }
            time = least(group).0;
            at /= GROUP;
        }
        top[0][at] = time;
    }
}

/// The earliest, and its place; the first of equals. Without a branch, as no processor foresees
/// which it is.
#[inline]
fn least(group: &[Instant; GROUP]) -> (Instant, usize) {
    let pair = |a: (Instant, usize), b: (Instant, usize)| if b.0 < a.0 { b } else { a };
    let of = |n: usize| pair((group[n], n), (group[n + 1], n + 1));
    pair(pair(of(0), of(2)), pair(of(4), of(6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_go_by_number() {
        let mut schedule = Schedule::new(5);
        for source in [4, 2, 3] {
            schedule.set(source, Instant(7));
        }
        assert_eq!(schedule.first(), (Instant(7), 2));
        schedule.set(2, Instant::FAR_FUTURE);
        assert_eq!(schedule.first(), (Instant(7), 3));
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_at_all(
            sources in 1_usize..700,
            moves in prop::collection::vec((0_usize..700, 0_u64..50), 0..300),
        ) {
            let mut schedule = Schedule::new(sources);
            let mut times = vec![Instant::FAR_FUTURE; sources];
            for (source, time) in moves {
                let (source, time) = (source % sources, Instant(time));
                schedule.set(source, time);
                times[source] = time;
                let first = (0..sources).min_by_key(|s| (times[*s], *s)).unwrap();
                prop_assert_eq!(schedule.first(), (times[first], first));
            }
        }
    }
}
