//! The order of one flow at the far end of paths of different lengths.
//!
//! A packet waits for those before it for at most a bound that its owner sets by how far the
//! paths' delays lie apart ([`HOLD`] while that is not known), and not at all for what is known to
//! be lost. A path keeps its own order, so a packet is lost
//! - if it went by a path that has brought something newer. A packet says of the last few before it
//!   which went by the same path;
//! - or if every path on which the flow was heard lately has brought something newer. One path
//!   alone says nothing: the first packet by another may be under way.
//!
//! What comes after it was given up is dropped: the program sees no packet out of order, only
//! ones that are missing, as by any link that loses.

use super::generations::FlowKey;
use crate::address::PATHS_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};

#[derive(Default, Debug)]
pub(super) struct Order {
    /// Everything before has gone through or was given up; 0 before the first.
    next: u64,
    packets: BTreeMap<u64, Vec<u8>>,
    /// Those in the order in which they came.
    arrivals: VecDeque<(Instant, u64)>,
    /// The highest position by each path, and when that was.
    paths: [(u64, Instant); PATHS_MAX],
    /// Positions that are known to be lost; each is within a trail of one that waits.
    lost: BTreeSet<u64>,
    /// When what was due next came last.
    progress: Instant,
    /// In the filter's timers.
    timer: Option<Instant>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It goes through; others may follow.
    Next,
    /// A copy of it waits.
    Held,
    /// It was given up before.
    Late,
}

/// Longest wait for what is missing while nothing is known of the paths' delays.
pub(crate) const HOLD: Duration = Duration::from_millis(30);
/// Nothing waits longer, however far the paths lie apart: the sender uses none that differ by more
/// than 100 ms, and no queue should.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(200);
/// A path that has brought nothing for so long is not waited for.
const RECENT: Duration = Duration::from_millis(100);

impl Order {
    /// Takes the packet at a position; `trail` says which of those before went by the same path.
    pub(super) fn take(
        &mut self,
        now: Instant,
        path: PathId,
        (position, trail): (u64, u8),
        packet: &[u8],
    ) -> Place {
        if let Some(highest) = self.paths.get_mut(usize::from(path.0)) {
            *highest = (highest.0.max(position), now);
        }
        if self.next == 0 {
            self.next = position;
        }
        if position < self.next {
            return Place::Late;
        }
        for back in (0..8).filter(|bit| trail & (1 << bit) != 0) {
            let before = position.saturating_sub(back + 1);
            if before >= self.next && !self.packets.contains_key(&before) {
                self.lost.insert(before);
            }
        }
        if position > self.next {
            self.packets.insert(position, packet.to_vec());
            self.arrivals.push_back((now, position));
            return Place::Held;
        }
        self.next += 1;
        self.progress = now;
        Place::Next
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Lets through what need not wait any more; returns how many packets were given up for that,
    /// and how many bytes go through.
    pub(super) fn release(&mut self, now: Instant, ready: &mut VecDeque<Vec<u8>>) -> (u64, usize) {
        let (mut missed, mut bytes) = (0, 0);
        loop {
            bytes += self.pass(ready);
            if self.packets.is_empty() {
                break;
            }
            if self.lost.remove(&self.next) {
                self.next += 1;
                missed += 1;
            } else if self.is_passed(now) {
                missed += self.skip();
            } else {
                break;
            }
        }
        self.lost = self.lost.split_off(&self.next);
        (missed, bytes)
    }

    /// Gives up what packets have waited for during `hold`; returns as [`Order::release`].
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        hold: Duration,
        ready: &mut VecDeque<Vec<u8>>,
    ) -> (u64, usize) {
        self.timer = None;
        let (mut missed, mut bytes) = (0, 0);
        while self.due(hold).is_some_and(|due| due <= now) {
            missed += self.skip();
            let (more, released) = self.release(now, ready);
            (missed, bytes) = (missed + more, bytes + released);
        }
        (missed, bytes)
    }

    /// Gives up what is missing before the packets that wait; returns how many that is.
    pub(super) fn skip(&mut self) -> u64 {
        let Some((first, _)) = self.packets.first_key_value() else { return 0 };
        let missed = first.saturating_sub(self.next);
        self.next = *first;
        missed
    }

    /// The sender counts anew.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.paths = Default::default();
        self.lost.clear();
    }

    /// Lets everything through; returns how many bytes that is.
    pub(super) fn drain(&mut self, ready: &mut VecDeque<Vec<u8>>) -> usize {
        let bytes = self.packets.values().map(Vec::len).sum();
        self.arrivals.clear();
        ready.extend(std::mem::take(&mut self.packets).into_values());
        bytes
    }

    /// Sets the timer anew, if it has changed.
    pub(super) fn set_timer(
        &mut self,
        key: FlowKey,
        hold: Duration,
        timers: &mut BTreeSet<(Instant, FlowKey)>,
    ) {
        let timer = self.due(hold);
        if timer != self.timer {
            if let Some(at) = self.timer {
                timers.remove(&(at, key));
            }
            timers.extend(timer.map(|at| (at, key)));
            self.timer = timer;
        }
    }

    /// Whether what is missing next cannot come any more, since all paths have passed it.
    fn is_passed(&self, now: Instant) -> bool {
        let recent = |path: &&(u64, Instant)| path.0 > 0 && now.saturating_since(path.1) < RECENT;
        let heard = self.paths.iter().filter(recent);
        heard.clone().count() > 1 && heard.clone().all(|(highest, _)| *highest > self.next)
    }

    fn pass(&mut self, ready: &mut VecDeque<Vec<u8>>) -> usize {
        let mut bytes = 0;
        while let Some(packet) = self.packets.remove(&self.next) {
            self.next += 1;
            bytes += packet.len();
            ready.push_back(packet);
        }
        bytes
    }

    /// When the packet that has waited longest has waited enough. While those before it still come,
    /// though late, they are not lost: a path whose capacity is not known yet may have a queue.
    fn due(&mut self, hold: Duration) -> Option<Instant> {
        let (since, _) = self.oldest()?;
        Some((since.max(self.progress) + hold).min(since + HOLD_MAX.max(hold)))
    }

    /// The packet that has waited longest.
    fn oldest(&mut self) -> Option<(Instant, u64)> {
        while self.arrivals.front().is_some_and(|(_, at)| !self.packets.contains_key(at)) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_through_is_not_waited_for_after_a_restart() {
        let (mut order, mut ready) = (Order::default(), VecDeque::new());
        let now = Instant(1_000_000_000);
        assert_eq!(order.take(now, PathId(0), (1, 0), &[1]), Place::Next);
        assert_eq!(order.take(now, PathId(0), (3, 0), &[3]), Place::Held);
        assert_eq!(order.drain(&mut ready), 1);
        order.restart();
        assert_eq!(order.give_up(now + HOLD, HOLD, &mut ready), (0, 0));
        assert_eq!(order.oldest(), None);
    }

    #[test]
    fn what_still_comes_is_not_given_up() {
        let (mut order, mut ready) = (Order::default(), VecDeque::new());
        let (slow, quick) = (PathId(0), PathId(1));
        let at = |ms| Instant(1_000_000_000) + Duration::from_millis(ms);
        order.take(at(0), slow, (1, 0), &[1]);
        assert_eq!(order.take(at(0), quick, (9, 0), &[9]), Place::Held);
        for position in 2..8 {
            let now = at(position * 20 - 20);
            assert_eq!(order.give_up(now, HOLD, &mut ready), (0, 0), "{position}");
            assert_eq!(order.take(now, slow, (position, 0), &[0]), Place::Next);
        }
        // The eighth does not come.
        assert_eq!(order.give_up(at(120) + HOLD, HOLD, &mut ready), (1, 1));
        // Not for ever: a packet each 20 ms.
        assert_eq!(order.take(at(200), quick, (100, 0), &[9]), Place::Held);
        let missed = (10..30).find(|position| {
            let now = at(position * 20);
            let (missed, _) = order.give_up(now, HOLD, &mut ready);
            order.take(now, slow, (*position, 0), &[0]);
            missed > 0
        });
        assert_eq!(missed, Some(20), "{HOLD_MAX:?} after 200 ms");
    }
}
