//! Interrupt moderation for the loop of an agent.
//!
//! To be woken costs the same however little there is to do then. On a link that limits it, a
//! transfer's packets come one by one, and so do the moments at which its pacing lets the next one
//! go: every one would be a turn of its own. Network cards have the same trouble, and hold
//! interrupts back while there are many of them (`ethtool -C adaptive-rx`; Salah, "To coalesce or
//! not to coalesce", 2007). So does an agent: whoever is woken often looks again only after an
//! [`INTERVAL`], and then takes all that has come together. What is seldom is not held back.
//!
//! Time is an argument; the waiting itself is the reactor's.

use tabane_engine::{Duration, Instant};

/// Says how long to leave alone what may be ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moderation {
    /// When all wakes so far would be paid for, one each [`EACH`] (as in the generic cell rate
    /// algorithm, ITU-T I.371).
    paid: Instant,
    /// The last one.
    woken: Instant,
    /// There are too many.
    holds: bool,
}

/// Between looks while there is much to do. A paced burst of a millisecond is what Linux makes,
/// too (`sk_pacing_shift`, tcp_output.c), and no queue on a link is longer for it.
pub(crate) const INTERVAL: Duration = Duration::from_millis(1);
/// Ten times what a wake costs (some 13 us where it was measured). More work than this
/// at a time is worth one: the more there was, the sooner is the next look, and a busy agent is not
/// held back at all.
const WORTH: Duration = Duration::from_micros(100);
/// More wakes than one in so long are many.
const EACH: Duration = Duration::from_micros(500);
/// As long as they are more than these together: what belongs to one connection that is being set
/// up, or to some that are, is not held back.
const BURST: Duration = Duration::from_millis(8);

impl Moderation {
    /// Nothing is held back.
    pub(crate) fn new() -> Self {
        Self { paid: Instant::ZERO, woken: Instant::ZERO, holds: false }
    }

    /// For how long nothing is to be looked at from `now` on, when the agent has done what there
    /// was, whatever is ready or due.
    pub(crate) fn hold(&self, now: Instant) -> Duration {
        if !self.holds {
            return Duration::ZERO;
        }
        let busy = now.saturating_since(self.woken);
        let interval = Duration(INTERVAL.0 * WORTH.0 / busy.max(WORTH).0);
        (self.woken + interval).saturating_since(now)
    }

    /// Woken by something, after having waited for it (not held back) for so long.
    pub(crate) fn handle_wake(&mut self, now: Instant, waited: Duration) {
        self.woken = now;
        if self.holds {
            // What is as seldom as that is not held back any more.
            if waited < INTERVAL {
                return;
            }
            (self.holds, self.paid) = (false, now);
        }
        self.paid = self.paid.max(now) + EACH;
        self.holds = self.paid.saturating_since(now) > BURST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: u64 = 1000;
    const HELD: u64 = INTERVAL.0 / MICROS;

    /// Things that become ready every `gap` microseconds for a tenth of a second: how often the
    /// agent was woken, and how long the longest was held back.
    fn wakes(moderation: &mut Moderation, now: &mut u64, gap: u64) -> (u32, u64) {
        let (mut wakes, mut late) = (0, 0);
        let end = *now + 100_000;
        let mut next = *now + gap;
        while next < end {
            let begin = *now;
            let held = moderation.hold(Instant(*now * MICROS)).0 / MICROS;
            *now = next.max(begin + held);
            late = late.max(*now - next);
            let waited = now.saturating_sub(begin + held);
            moderation.handle_wake(Instant(*now * MICROS), Duration::from_micros(waited));
            wakes += 1;
            next += (*now - next) / gap * gap + gap;
        }
        (wakes, late)
    }

    #[test]
    fn what_is_frequent_is_taken_together() {
        let (mut moderation, mut now) = (Moderation::new(), 0);
        let (many, late) = wakes(&mut moderation, &mut now, 50);
        let least = 100_000 / HELD as u32;
        assert!((least..=least + 20).contains(&many), "{many}");
        assert!((HELD - 100..=HELD).contains(&late), "{late}");
    }

    #[test]
    fn what_is_seldom_is_not_held_back() {
        let (mut moderation, mut now) = (Moderation::new(), 0);
        assert_eq!(wakes(&mut moderation, &mut now, 500), (199, 0));
        // Neither is a burst of what belongs together.
        for _ in 0..15 {
            moderation.handle_wake(Instant(now * MICROS), Duration::ZERO);
            assert_eq!(moderation.hold(Instant(now * MICROS)), Duration::ZERO);
        }
    }

    #[test]
    fn who_has_much_to_do_is_not_held_back() {
        let (mut moderation, mut now) = (Moderation::new(), 0);
        wakes(&mut moderation, &mut now, 50);
        let woken = moderation.woken;
        let hold = |busy: u64| moderation.hold(woken + Duration::from_micros(busy)).0 / MICROS;
        assert_eq!([50, 100, 200].map(hold), [HELD - 50, HELD - 100, HELD / 2 - 200]);
        assert_eq!(hold(HELD), 0);
    }

    #[test]
    fn it_ends_with_the_load() {
        let (mut moderation, mut now) = (Moderation::new(), 0);
        wakes(&mut moderation, &mut now, 50);
        assert!(moderation.hold(Instant(now * MICROS)) > Duration::ZERO);
        let (all, late) = wakes(&mut moderation, &mut now, 3 * HELD);
        let expected = 100_000 / (3 * HELD) as u32;
        assert_eq!((all, late), (expected, 0), "one wait that is long enough is the end of it");
        assert_eq!(moderation.hold(Instant(now * MICROS)), Duration::ZERO);
    }
}
