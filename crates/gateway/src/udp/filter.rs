//! The far end of [`Tagger`](super::Tagger): of copies only the first gets through, and what was
//! spread over paths gets its order back, within bounds.
//!
//! Copies are known by a window of the last [`WINDOW`] numbers of each flow, as in RFC 6479; a
//! number that is older is a late copy. Nothing waits for that. Where order is wanted a packet
//! waits for those before it for at most [`HOLD`], and not even that once every path on which the
//! flow was heard lately has brought something newer: a path keeps its own order, so what is
//! missing is lost. What comes after it was given up goes through at once: late is better than
//! never, and the program decides.

use super::generations::{FlowKey, Generations, key};
use super::tag::{self, NUMBERS};
use crate::address::PATHS_MAX;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};

/// For one peer that numbers its packets.
#[derive(Default, Debug)]
pub(crate) struct Filter {
    flows: Generations<Flow>,
    /// When the packet that has waited longest in a flow has waited enough.
    timers: BTreeSet<(Instant, FlowKey)>,
    ready: VecDeque<Vec<u8>>,
    /// Bytes that wait.
    held: usize,
    counters: Counters,
}

/// What to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes through now; what has waited for it comes from [`Filter::poll_packet`] after it.
    Deliver,
    /// It was here before.
    Copy,
    /// A copy of it waits for those before it.
    Held,
}

/// What happened, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    /// Copies removed.
    pub(crate) copies: u64,
    /// Packets that waited.
    pub(crate) held: u64,
    /// Packets that came after they had been given up.
    pub(crate) late: u64,
    /// Packets given up.
    pub(crate) missed: u64,
}

#[derive(Default, Debug)]
struct Flow {
    window: Window,
    last: Instant,
    /// A number far behind: if another follows it, the sender has started again.
    suspect: Option<u16>,
    /// Only where order is wanted.
    order: Option<Box<Order>>,
}

/// The numbers of a flow that have come; positions do not wrap.
#[derive(Debug)]
struct Window {
    /// The highest position; 0 before the first.
    highest: u64,
    seen: [u64; WINDOW as usize / 64],
}

#[derive(Default, Debug)]
struct Order {
    /// Everything before has gone through or was given up; 0 before the first.
    next: u64,
    packets: BTreeMap<u64, Vec<u8>>,
    /// Those in the order in which they came.
    arrivals: VecDeque<(Instant, u64)>,
    /// The highest position by each path, and when that was.
    paths: [(u64, Instant); PATHS_MAX],
    /// In `timers`.
    timer: Option<Instant>,
}

/// Numbers of a flow that are remembered: 0.2 s at 10 000 packets a second.
const WINDOW: u64 = 2048;
/// Longest wait for what is missing.
pub(crate) const HOLD: Duration = Duration::from_millis(30);
/// Packets of a flow that wait; beyond, what is missing is given up.
const HELD_MAX: usize = 256;
/// Bytes of all flows that wait; beyond, the same.
const HELD_BYTES_MAX: usize = 1 << 20;
/// A path that has brought nothing for so long is not waited for.
const RECENT: Duration = Duration::from_millis(100);
/// After such a silence a flow may count anew: no copy is that late.
const SILENCE: Duration = Duration::from_secs(2);
/// How far apart the numbers of one who has started again may be.
const RESTART: i32 = 16;

impl Filter {
    /// Looks at a packet that came by `path`.
    pub(crate) fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) -> Verdict {
        let Some(key) = key(packet) else { return Verdict::Deliver };
        let Some(tag) = tag::read(packet) else { return Verdict::Deliver };
        if let Some(forgotten) = self.flows.turn(now) {
            // Only a flood of new flows forgets one whose packets wait: they go through.
            for mut flow in forgotten.into_values() {
                if let Some(order) = &mut flow.order {
                    self.held -= order.bytes();
                    self.ready.extend(std::mem::take(&mut order.packets).into_values());
                }
            }
        }
        let flow = self.flows.entry(key, Flow::default);
        let Some(position) = flow.take(now, tag.number) else {
            self.counters.copies += 1;
            return Verdict::Copy;
        };
        if !tag.ordered {
            return Verdict::Deliver;
        }
        let order = flow.order.get_or_insert_default();
        let late = position < order.next;
        let verdict = order.take(now, path, position, packet);
        match verdict {
            Verdict::Held => {
                self.held += packet.len();
                self.counters.held += 1;
                if order.packets.len() > HELD_MAX || self.held > HELD_BYTES_MAX {
                    order.skip(&mut self.counters);
                }
            }
            Verdict::Deliver | Verdict::Copy => self.counters.late += u64::from(late),
        }
        self.held -= order.release(&mut self.ready);
        while order.is_lost(now) {
            order.skip(&mut self.counters);
            self.held -= order.release(&mut self.ready);
        }
        order.set_timer(key, &mut self.timers);
        verdict
    }

    /// The next packet that has waited enough.
    pub(crate) fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// When [`Filter::handle_timeout`] is due.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Gives up what packets have waited for long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(order) = self.flows.get_mut(&key).and_then(|flow| flow.order.as_mut()) else {
                continue;
            };
            order.timer = None;
            while order.oldest().is_some_and(|(since, _)| since + HOLD <= now) {
                order.skip(&mut self.counters);
                self.held -= order.release(&mut self.ready);
            }
            order.set_timer(key, &mut self.timers);
        }
    }

    /// What happened.
    #[must_use]
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }
}

impl Flow {
    /// The position of a number that has not come before.
    fn take(&mut self, now: Instant, number: u16) -> Option<u64> {
        let idle = now.saturating_since(self.last) > SILENCE;
        let waits = self.order.as_ref().is_some_and(|order| !order.packets.is_empty());
        self.last = now;
        if self.window.highest == 0 || (idle && !waits) {
            return Some(self.restart(number));
        }
        let behind = distance(self.window.highest, number);
        if behind <= -(WINDOW as i32) {
            let follows = self.suspect.is_some_and(|suspect| {
                (1..=RESTART).contains(&distance(u64::from(suspect), number))
            });
            if follows && !waits {
                return Some(self.restart(number));
            }
            self.suspect = Some(number);
            return None;
        }
        let position = self.window.highest.checked_add_signed(i64::from(behind))?;
        self.window.mark(position).then_some(position)
    }

    fn restart(&mut self, number: u16) -> u64 {
        // Far enough from 0 that a window fits before it.
        let position = u64::from(NUMBERS) + u64::from(number);
        self.window = Window { highest: position, ..Window::default() };
        self.window.mark(position);
        self.suspect = None;
        if let Some(order) = &mut self.order {
            order.next = 0;
            order.paths = Default::default();
        }
        position
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { highest: 0, seen: [0; WINDOW as usize / 64] }
    }
}

impl Window {
    /// Notes a position, less than [`WINDOW`] behind the highest; false if it was there.
    fn mark(&mut self, position: u64) -> bool {
        if position > self.highest {
            // Everything that enters the window is new.
            let steps = (position - self.highest).min(WINDOW);
            for entering in position + 1 - steps..=position {
                let (word, bit) = Self::place(entering);
                self.seen[word] &= !bit;
            }
            self.highest = position;
        }
        let (word, bit) = Self::place(position);
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }

    fn place(position: u64) -> (usize, u64) {
        ((position % WINDOW / 64) as usize, 1 << (position % 64))
    }
}

impl Order {
    fn take(&mut self, now: Instant, path: PathId, position: u64, packet: &[u8]) -> Verdict {
        if let Some(highest) = self.paths.get_mut(usize::from(path.0)) {
            *highest = (highest.0.max(position), now);
        }
        if self.next == 0 {
            self.next = position;
        }
        if position > self.next {
            self.packets.insert(position, packet.to_vec());
            self.arrivals.push_back((now, position));
            return Verdict::Held;
        }
        if position == self.next {
            self.next += 1;
        }
        Verdict::Deliver
    }

    /// Whether what is missing next cannot come any more.
    fn is_lost(&self, now: Instant) -> bool {
        let recent = |path: &&(u64, Instant)| path.0 > 0 && now.saturating_since(path.1) < RECENT;
        let heard = self.paths.iter().filter(recent);
        // One path alone says nothing: the other's first packet may be under way.
        !self.packets.is_empty()
            && !self.packets.contains_key(&self.next)
            && heard.clone().count() > 1
            && heard.clone().all(|(highest, _)| *highest > self.next)
    }

    /// Gives up what is missing before the packets that wait.
    fn skip(&mut self, counters: &mut Counters) {
        if let Some((first, _)) = self.packets.first_key_value() {
            counters.missed += first.saturating_sub(self.next);
            self.next = *first;
        }
    }

    /// Lets through what is next; returns how many bytes that is.
    fn release(&mut self, ready: &mut VecDeque<Vec<u8>>) -> usize {
        let mut bytes = 0;
        while let Some(packet) = self.packets.remove(&self.next) {
            self.next += 1;
            bytes += packet.len();
            ready.push_back(packet);
        }
        bytes
    }

    /// The packet that has waited longest.
    fn oldest(&mut self) -> Option<(Instant, u64)> {
        while self.arrivals.front().is_some_and(|(_, position)| *position < self.next) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().copied()
    }

    fn set_timer(&mut self, key: FlowKey, timers: &mut BTreeSet<(Instant, FlowKey)>) {
        let timer = self.oldest().map(|(since, _)| since + HOLD);
        if timer != self.timer {
            if let Some(at) = self.timer {
                timers.remove(&(at, key));
            }
            timers.extend(timer.map(|at| (at, key)));
            self.timer = timer;
        }
    }

    fn bytes(&self) -> usize {
        self.packets.values().map(Vec::len).sum()
    }
}

/// From a position to the nearest one of a number.
fn distance(position: u64, number: u16) -> i32 {
    let numbers = i32::from(NUMBERS);
    let from = (position % u64::from(NUMBERS)) as i32;
    let ahead = (i32::from(number) - from).rem_euclid(numbers);
    if ahead > numbers / 2 { ahead - numbers } else { ahead }
}

#[cfg(test)]
mod tests;
