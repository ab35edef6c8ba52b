//! What happens next: one time per source (a link direction, a host's timers, the world's own
//! list), in a tournament tree.
//!
//! Sources are few and known from the start, and a packet is not one: moving a source's time
//! costs a walk of log2(sources) comparisons, nothing is allocated, and nothing is ever
//! cancelled. At equal times the source with the lowest number comes first, always.

use tabane_engine::Instant;

/// The next time of each source, and which is first.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    times: Vec<Instant>,
    /// `winners[1]` is the root; `winners[n + i]` is leaf `i`.
    winners: Vec<u32>,
    leaves: usize,
}

impl Schedule {
    /// `sources` sources, none of which has anything to do.
    pub(crate) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let times = vec![Instant::FAR_FUTURE; leaves];
        let mut winners = vec![0; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            winners[node] = if node >= leaves { (node - leaves) as u32 } else { winners[2 * node] };
        }
        Self { times, winners, leaves }
    }

    /// The first source and its time.
    #[inline]
    pub(crate) fn first(&self) -> (Instant, usize) {
        let source = self.winners[1] as usize;
        (self.times[source], source)
    }

    /// When a source has something to do next.
    #[inline]
    pub(crate) fn set(&mut self, source: usize, time: Instant) {
        if self.times[source] == time {
            return;
        }
        self.times[source] = time;
        let mut node = (self.leaves + source) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let right_first = self.times[right as usize] < self.times[left as usize];
            let winner = if right_first { right } else { left };
            // Above a node that somebody else held and still holds nothing changes.
            if self.winners[node] == winner && winner as usize != source {
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }
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
            sources in 1_usize..40,
            moves in prop::collection::vec((0_usize..40, 0_u64..50), 0..300),
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
