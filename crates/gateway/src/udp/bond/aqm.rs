//! When to drop for want of capacity: CoDel's control law (RFC 8289 section 5.3), asked before a
//! packet has its number, so that a drop leaves no gap for which the far end would wait.
//!
//! The time that a packet would wait is known by what is bound before it; CoDel measures it when
//! the packet leaves.

use tabane_engine::{Duration, Instant};

/// For all that is spread over the paths of a bond.
#[derive(Default, Debug)]
pub(super) struct Aqm {
    /// Waits have been above the target since a time that is so much earlier.
    above: Option<Instant>,
    dropping: bool,
    next: Instant,
    count: u32,
}

/// RFC 8289 section 4.4: 5 to 10 % of the round trips that are served, at the least.
const TARGET: Duration = Duration::from_millis(5);
/// The round trip of what is served, or that of the paths if it is longer.
const INTERVAL: Duration = Duration::from_millis(100);

impl Aqm {
    /// Whether a packet that would wait for so long is dropped; `round_trip` is the longest of the
    /// paths in use.
    pub(super) fn drops(&mut self, now: Instant, wait: Duration, round_trip: Duration) -> bool {
        let interval = INTERVAL.max(round_trip);
        if wait < TARGET {
            (self.above, self.dropping) = (None, false);
            return false;
        }
        let Some(due) = self.above else {
            self.above = Some(now + interval);
            return false;
        };
        if now < due {
            return false;
        }
        if !self.dropping {
            // What was needed last time is needed again, unless that was long ago.
            let lately = now.saturating_since(self.next) < interval * 16;
            self.count = if lately && self.count > 2 { self.count - 2 } else { 1 };
            self.dropping = true;
        } else if now < self.next {
            return false;
        } else {
            self.count = self.count.saturating_add(1);
        }
        self.next = now + Duration((interval.0 as f64 / f64::from(self.count).sqrt()) as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_stands_is_dropped_from_more_and_more_often() {
        let (mut aqm, ms) = (Aqm::default(), Duration::from_millis);
        let mut drops = Vec::new();
        for i in 0..1000 {
            let wait = if !(100..=800).contains(&i) { ms(4) } else { ms(20) };
            if aqm.drops(Instant::ZERO + ms(i), wait, ms(10)) {
                drops.push(i);
            }
        }
        assert_eq!(drops[..4], [200, 300, 371, 429], "100, 100 / sqrt(2), 100 / sqrt(3)");
        assert!(drops.last().is_some_and(|last| *last <= 800));
        // A longer round trip is given longer.
        let mut aqm = Aqm::default();
        let first = (0..1000).find(|i| aqm.drops(Instant::ZERO + ms(*i), ms(20), ms(300)));
        assert_eq!(first, Some(300));
    }
}
