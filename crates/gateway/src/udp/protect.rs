//! The sending end of a protected flow: each packet once, by the best path, and again by another
//! when the far end asks for it ([`Request`](super::request::Request)).
//!
//! A path of which packets were asked for is shunned for a while: its losses come in bursts, or it
//! has just failed. So a burst or a failure costs copies of what was under way, not of everything.
//! Copies without being asked are sent only where requests take longer than what the flow bears,
//! while more than one packet in a hundred is asked for: then asking would be too late for them.

use super::sender::Choice;
use super::sent::SentFlow;
use super::tag::NUMBERS;
use crate::address::PATHS_MAX;
use crate::config::Protect;
use std::collections::VecDeque;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};

/// What is kept of a protected flow.
#[derive(Default, Debug)]
pub(super) struct Protection {
    /// The last [`KEPT_MAX`] packets, as numbered.
    sent: VecDeque<Sent>,
    /// Until when a path is shunned, and how often in a row it was.
    shunned: [(Instant, u32); PATHS_MAX],
    /// When the newest packet was sent by each path that is known to have come.
    proved: [Option<Instant>; PATHS_MAX],
    /// Share of packets that are asked for, over the last hundred or so.
    asked: f64,
    /// From the sending of a packet to the request for it.
    lateness: Duration,
    /// The last requests, and when they came.
    requests: VecDeque<(Instant, u8)>,
}

#[derive(Debug)]
struct Sent {
    number: u16,
    at: Instant,
    /// By which path last, and when.
    path: Option<PathId>,
    again: Instant,
    copies: u32,
    packet: Vec<u8>,
}

/// Number, path that it took last, whether it was sent again before, and the packet.
type Copy = (u16, Option<PathId>, bool, Vec<u8>);

/// Packets kept; a third of a second of most calls. What is older is of no use to a call.
const KEPT_MAX: usize = 16;
const KEPT: Duration = Duration::from_millis(400);
/// A path is shunned for so long first, and twice as long each further time, up to the most:
/// most bursts are shorter, and a path that flaps is down for about as long as it takes to be
/// noticed otherwise.
const SHUN: Duration = Duration::from_millis(300);
const SHUN_MAX: Duration = Duration::from_secs(5);
/// Without being asked for so long, a path is as good as any.
const FORGIVEN: Duration = Duration::from_secs(10);
/// A copy is not sent again within this: one request may follow another at once.
const AGAIN: Duration = Duration::from_millis(10);
/// Copies of one packet.
const COPIES_MAX: u32 = 5;
/// More than one packet in a hundred would be late.
const OFTEN: f64 = 0.01;

impl Protection {
    /// Paths that the next packet should not take, if there are others.
    pub(super) fn shunned(&self, now: Instant) -> PathSet {
        let mut shunned = PathSet::NONE;
        for (at, (until, _)) in self.shunned.iter().enumerate() {
            if *until > now {
                shunned.insert(PathId(at as u8));
            }
        }
        shunned
    }

    /// Of paths that are all shunned the one that was last known to work. Requests are false alarms
    /// where a host was late: one of these must not send everything by the path that is down.
    pub(super) fn last_proved<'a>(
        &self,
        paths: impl Iterator<Item = &'a Choice>,
    ) -> Option<PathId> {
        let proved = |path: &Choice| Some((self.proved[usize::from(path.id.0)]?, path.id));
        paths.filter_map(proved).max().map(|(_, path)| path)
    }

    /// Whether copies are to be sent without being asked for.
    pub(super) fn doubles(&self, protect: &Protect) -> bool {
        self.asked > OFTEN.max(f64::from(protect.loss_ppm) / 1e6) && self.lateness > protect.late
    }

    /// A packet has its number, and leaves by `path`.
    pub(super) fn sent(&mut self, now: Instant, number: u16, path: Option<PathId>, packet: &[u8]) {
        let old = |sent: &Sent| now.saturating_since(sent.at) > KEPT;
        while self.sent.len() >= KEPT_MAX || self.sent.front().is_some_and(old) {
            self.sent.pop_front();
        }
        let packet = packet.to_vec();
        let sent = Sent { number, at: now, path, again: now, copies: 0, packet };
        self.sent.push_back(sent);
        self.asked *= 0.99;
    }

    /// Whether that is the first copy of a request: each comes by several paths.
    pub(super) fn is_new(&mut self, now: Instant, number: u8) -> bool {
        while self.requests.front().is_some_and(|(at, _)| now.saturating_since(*at) > KEPT) {
            self.requests.pop_front();
        }
        let new = self.requests.iter().all(|(_, seen)| *seen != number);
        if new {
            self.requests.push_back((now, number));
        }
        new
    }

    /// The far end has not got some packets: those that are sent again, with the path that each
    /// took last, and whether it was sent again before.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        (newest, silent): (u16, bool),
        wanted: &[u16],
    ) -> Vec<Copy> {
        let after = |number: u16| {
            let ahead = (i32::from(number) - i32::from(newest)).rem_euclid(i32::from(NUMBERS));
            (1..i32::from(NUMBERS) / 2).contains(&ahead)
        };
        if let Some(sent) = self.sent.iter().find(|sent| sent.number == newest)
            && let Some(path) = sent.path
            && let Some(proved) = self.proved.get_mut(usize::from(path.0))
        {
            *proved = Some(sent.again).max(*proved);
        }
        let mut copies = Vec::new();
        let mut failed = PathSet::NONE;
        for sent in &mut self.sent {
            let asked = wanted.contains(&sent.number) || (silent && after(sent.number));
            let lately = sent.copies > 0 && now.saturating_since(sent.again) < AGAIN;
            if !asked || lately || sent.copies >= COPIES_MAX {
                continue;
            }
            if sent.copies == 0 {
                self.asked += 0.01;
                let late = now.saturating_since(sent.at);
                self.lateness =
                    if self.lateness.is_zero() { late } else { (self.lateness * 7 + late) / 8 };
            }
            if let Some(path) = sent.path {
                failed.insert(path);
            }
            copies.push((sent.number, sent.path, sent.copies > 0, sent.packet.clone()));
            (sent.again, sent.copies) = (now, sent.copies + 1);
        }
        failed.iter().for_each(|path| self.shun(now, path));
        copies
    }

    /// A copy has left by a path.
    pub(super) fn again(&mut self, number: u16, path: PathId) {
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.number == number) {
            sent.path = Some(path);
        }
    }

    fn shun(&mut self, now: Instant, path: PathId) {
        let Some((until, times)) = self.shunned.get_mut(usize::from(path.0)) else { return };
        if *until > now {
            return;
        }
        *times = if now.saturating_since(*until) > FORGIVEN { 0 } else { (*times + 1).min(8) };
        *until = now + Duration(SHUN.0 << *times).min(SHUN_MAX);
    }
}

impl SentFlow {
    /// What is kept of it, from now on.
    pub(super) fn protection(&mut self) -> &mut Protection {
        self.protection.get_or_insert_default()
    }
}
