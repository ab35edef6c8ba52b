//! The far end of [`Tagger`](super::Tagger): of copies only the first gets through, and what was
//! spread over paths gets its order back, within bounds.
//!
//! Copies are known by a window of the last [`WINDOW`] numbers of each flow, as in RFC 6479; a
//! number that is older is a late copy. Nothing waits for that. Where order is wanted, a packet
//! waits for those before it as [`Order`] says. Of a protected flow nothing waits either, and what
//! has not come is asked for ([`Wants`]).

use super::generations::{FlowKey, Generations, key};
use super::order::{HOLD, Order, Place};
use super::request::{REQUESTS, Request};
use super::tag::{self, NUMBERS};
use super::wants::{Wanted, Wants};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Add;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};

/// For one peer that numbers its packets.
#[derive(Debug)]
pub(crate) struct Filter {
    flows: Generations<Flow>,
    /// When the packet that has waited longest in a flow has waited enough.
    timers: BTreeSet<(Instant, FlowKey)>,
    /// When something may have to be asked for.
    wants: BTreeSet<(Instant, FlowKey)>,
    ready: VecDeque<Vec<u8>>,
    /// Bytes that wait.
    held: usize,
    /// Longest wait for what is missing.
    hold: Duration,
    /// From a request to what it brings.
    answer: Duration,
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
    /// It is later than those that had waited for it; order was wanted.
    Late,
}

/// What happened, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    /// Copies removed.
    pub(crate) copies: u64,
    /// Packets that waited.
    pub(crate) held: u64,
    /// Packets that came after they had been given up, and were dropped.
    pub(crate) late: u64,
    /// Packets given up.
    pub(crate) missed: u64,
    /// Requests for packets that have not come.
    pub(crate) requests: u64,
}

impl Add for Counters {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            copies: self.copies + other.copies,
            held: self.held + other.held,
            late: self.late + other.late,
            missed: self.missed + other.missed,
            requests: self.requests + other.requests,
        }
    }
}

#[derive(Default, Debug)]
struct Flow {
    window: Window,
    last: Instant,
    /// A number far behind: if another follows it, the sender has started again.
    suspect: Option<u16>,
    /// Only where order is wanted.
    order: Option<Box<Order>>,
    /// Only of a protected flow; and when it is in the filter's timers.
    wants: Option<Box<Wants>>,
    wants_due: Option<Instant>,
}

/// The numbers of a flow that have come; positions do not wrap.
#[derive(Debug)]
struct Window {
    /// The highest position; 0 before the first.
    highest: u64,
    seen: Box<[u64; WINDOW as usize / 64]>,
}

/// From a request to what it brings, while nothing is known of the paths' delays.
const ANSWER: Duration = Duration::from_millis(60);
/// Numbers of a flow that are remembered: 80 ms at 100 000 packets a second, by which paths may
/// differ.
const WINDOW: u64 = 8192;
/// Packets of a flow that wait; beyond, what is missing is given up.
const HELD_MAX: usize = 4096;
/// Bytes of all flows that wait; beyond, the same.
const HELD_BYTES_MAX: usize = 8 << 20;
/// After such a silence a flow may count anew: no copy is that late.
const SILENCE: Duration = Duration::from_secs(2);
/// How far apart the numbers of one who has started again may be.
const RESTART: i32 = 16;

impl Default for Filter {
    fn default() -> Self {
        Self {
            flows: Generations::default(),
            timers: BTreeSet::new(),
            wants: BTreeSet::new(),
            ready: VecDeque::new(),
            held: 0,
            hold: HOLD,
            answer: ANSWER,
            counters: Counters::default(),
        }
    }
}

impl Filter {
    /// Looks at a packet that came by `path`.
    pub(crate) fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) -> Verdict {
        let Some(key) = key(packet) else { return Verdict::Deliver };
        let Some(tag) = tag::read(packet) else { return Verdict::Deliver };
        if let Some(forgotten) = self.flows.turn(now) {
            // Only a flood of new flows forgets one whose packets wait: they go through.
            for mut flow in forgotten.into_values() {
                if let Some(order) = &mut flow.order {
                    self.held -= order.drain(&mut self.ready);
                }
            }
        }
        let flow = self.flows.entry(key, Flow::default);
        let Some(position) = flow.take(now, tag.number) else {
            self.counters.copies += 1;
            return Verdict::Copy;
        };
        if !tag.ordered {
            // A flow that was spread before: what waits for order goes before what needs none.
            if let Some(order) = &mut flow.order {
                self.held -= order.drain(&mut self.ready);
                order.restart();
            }
            if tag.more.is_some_and(|(protected, _)| protected) {
                let wants = flow.wants.get_or_insert_default();
                wants.take(now, path, position, self.hold);
                set_due(key, flow, &mut self.wants);
            }
            return Verdict::Deliver;
        }
        if flow.wants.take().is_some() {
            set_due(key, flow, &mut self.wants);
        }
        let order = flow.order.get_or_insert_default();
        let trail = tag.more.map_or(0, |(_, trail)| trail);
        let verdict = match order.take(now, path, (position, trail), packet) {
            Place::Next => Verdict::Deliver,
            Place::Late => {
                self.counters.late += 1;
                Verdict::Late
            }
            Place::Held => {
                self.held += packet.len();
                self.counters.held += 1;
                if order.len() > HELD_MAX || self.held > HELD_BYTES_MAX {
                    self.counters.missed += order.skip();
                }
                Verdict::Held
            }
        };
        let (missed, bytes) = order.release(now, &mut self.ready);
        self.counters.missed += missed;
        self.held -= bytes;
        order.set_timer(key, self.hold, &mut self.timers);
        verdict
    }

    /// The longest wait for what is missing, from now on.
    pub(crate) fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// How long a request takes to bring something, from now on.
    pub(crate) fn set_answer(&mut self, answer: Duration) {
        self.answer = answer;
    }

    /// The next packet that has waited enough.
    pub(crate) fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// What is to be asked for of the far end now.
    pub(super) fn poll_request(&mut self, now: Instant) -> Option<Request> {
        while let Some(&(at, key)) = self.wants.first()
            && at <= now
        {
            self.wants.pop_first();
            let Some(flow) = self.flows.get_mut(&key) else { continue };
            flow.wants_due = None;
            let wanted = flow.wants.as_mut().and_then(|wants| wants.poll(now, self.answer));
            set_due(key, flow, &mut self.wants);
            let Some(Wanted { newest, silent, positions }) = wanted else { continue };
            let number = (self.counters.requests % u64::from(REQUESTS)) as u8;
            self.counters.requests += 1;
            let (newest, wanted) = (number_of(newest), positions.into_iter().map(number_of));
            let wanted = wanted.collect();
            return Some(Request { flow: key, number, newest, silent, wanted });
        }
        None
    }

    /// When [`Filter::poll_request`] may have one.
    #[must_use]
    pub(crate) fn request_timeout(&self) -> Option<Instant> {
        self.wants.first().map(|(at, _)| *at)
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
            let (missed, bytes) = order.give_up(now, self.hold, &mut self.ready);
            self.counters.missed += missed;
            self.held -= bytes;
            order.set_timer(key, self.hold, &mut self.timers);
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
        let waits = self.order.as_ref().is_some_and(|order| order.len() > 0);
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
        // Its timer finds that there is nothing.
        self.wants = None;
        if let Some(order) = &mut self.order {
            order.restart();
        }
        position
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { highest: 0, seen: Box::new([0; WINDOW as usize / 64]) }
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

/// Sets the timer of what a flow wants anew, if it has changed.
fn set_due(key: FlowKey, flow: &mut Flow, timers: &mut BTreeSet<(Instant, FlowKey)>) {
    let due = flow.wants.as_ref().and_then(|wants| wants.due());
    if due != flow.wants_due {
        if let Some(at) = flow.wants_due {
            timers.remove(&(at, key));
        }
        timers.extend(due.map(|at| (at, key)));
        flow.wants_due = due;
    }
}

fn number_of(position: u64) -> u16 {
    (position % u64::from(NUMBERS)) as u16
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
