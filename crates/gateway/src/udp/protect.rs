//! The sending end of a protected flow: each packet once, by the best path, and again by another
//! when the far end asks for it ([`Request`](super::request::Request)).
//!
//! A path of which packets were asked for is shunned until something that was sent later has come:
//! its losses come in bursts, or it has just failed. So a burst or a failure costs copies of what
//! was under way, not of everything.
//! Copies without being asked are sent only where requests take longer than what the flow bears,
//! while more than one packet in a hundred is asked for: then asking would be too late for them.

use super::kept::{KEPT, Kept, KeptId};
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
    /// When packets of a path were asked for last.
    failed: [Option<Instant>; PATHS_MAX],
    /// When the newest packet was sent by each path that is known to have come.
    proved: Proved,
    /// Share of packets that are asked for, over the last hundred or so.
    asked: f64,
    /// From the sending of a packet to the request for it, and how many it is the mean of.
    lateness: (Duration, u32),
    /// Packets since that was measured last.
    unmeasured: u32,
    /// The last requests, and when they came.
    requests: VecDeque<(Instant, u8)>,
}

/// By path: when the newest thing left by it that is known to have come.
pub(super) type Proved = [Option<Instant>; PATHS_MAX];

#[derive(Debug)]
struct Sent {
    number: u16,
    at: Instant,
    /// By which path last, and when.
    path: Option<PathId>,
    again: Instant,
    copies: u32,
    packet: KeptId,
}

/// Number, path that it took last, whether it was sent again before, and the packet.
type Copy = (u16, Option<PathId>, bool, Vec<u8>);

/// Packets known; a third of a second of most calls.
const KEPT_MAX: usize = 16;
/// A path that is not proved otherwise is shunned for so long.
const SHUN_MAX: Duration = Duration::from_secs(5);
/// A copy is not sent again within this, or a round trip: one request may follow another at once.
const AGAIN: Duration = Duration::from_millis(10);
/// Copies of one packet.
const COPIES_MAX: u32 = 5;
/// Lateness is known after so many samples, and is the mean of so many at most.
const SAMPLES: u32 = 8;
const SAMPLES_MAX: u32 = 16;
/// Without a sample for so many packets, some are needed again.
const MEASURED: u32 = 500;
/// More than one packet in a hundred would be late.
const OFTEN: f64 = 0.01;

impl Protection {
    /// Paths that the next packet should not take, if there are others: packets of theirs were
    /// asked for, and nothing that was sent since is known to have come. `proved`: what else is
    /// known.
    pub(super) fn shunned(&self, now: Instant, proved: &Proved) -> PathSet {
        let mut shunned = PathSet::NONE;
        for (at, failed) in self.failed.iter().enumerate() {
            let lately = failed.filter(|failed| now.saturating_since(*failed) < SHUN_MAX);
            if lately.is_some() && self.proved[at].max(proved[at]) <= lately {
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
        proved: &Proved,
    ) -> Option<PathId> {
        let at = |path: &Choice| usize::from(path.id.0);
        let last = |path: &Choice| Some((self.proved[at(path)].max(proved[at(path)])?, path.id));
        paths.filter_map(last).max().map(|(_, path)| path)
    }

    /// Whether copies are to be sent without being asked for.
    pub(super) fn doubles(&self, protect: &Protect) -> bool {
        let (late, samples) = self.lateness;
        let often = self.asked > OFTEN.max(f64::from(protect.loss_ppm) / 1e6);
        often && samples >= SAMPLES && late > protect.late
    }

    /// A packet has its number, and leaves by `path`.
    pub(super) fn sent(&mut self, now: Instant, number: u16, path: PathId, packet: KeptId) {
        let old = |sent: &Sent| now.saturating_since(sent.at) > KEPT;
        while self.sent.len() >= KEPT_MAX || self.sent.front().is_some_and(old) {
            self.sent.pop_front();
        }
        let sent = Sent { number, at: now, path: Some(path), again: now, copies: 0, packet };
        self.sent.push_back(sent);
        self.asked *= 0.99;
        self.unmeasured += 1;
        if self.unmeasured == MEASURED {
            // Copies hide how late asking is: it may have become quicker.
            self.lateness.1 /= 4;
            self.unmeasured = 0;
        }
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
    /// took last, and whether it was sent again before. `round_trip`: of paths, there by this one,
    /// as far as it is known.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        (newest, silent): (u16, bool),
        wanted: &[u16],
        kept: &Kept,
        round_trip: impl Fn(PathId) -> Option<Duration>,
    ) -> Vec<Copy> {
        let after = |number: u16| {
            let ahead = (i32::from(number) - i32::from(newest)).rem_euclid(i32::from(NUMBERS));
            (1..i32::from(NUMBERS) / 2).contains(&ahead)
        };
        let mut copies = Vec::new();
        let mut failed = PathSet::NONE;
        for sent in &mut self.sent {
            let (missing, after) = (wanted.contains(&sent.number), after(sent.number));
            if !missing
                && !after
                && let Some(path) = sent.path
                && let Some(proved) = self.proved.get_mut(usize::from(path.0))
            {
                *proved = Some(sent.again).max(*proved);
            }
            let asked = missing || (silent && after);
            // Who asked could not know of the last copy yet.
            let known = sent.path.and_then(&round_trip).map_or(AGAIN, |rtt| rtt.max(AGAIN));
            let lately = sent.copies > 0 && now.saturating_since(sent.again) < known;
            if !asked || lately || sent.copies >= COPIES_MAX {
                continue;
            }
            if sent.copies == 0 {
                self.asked += 0.01;
                let late = now.saturating_since(sent.at);
                let (mean, samples) = self.lateness;
                let samples = (samples + 1).min(SAMPLES_MAX);
                let mean = (mean * u64::from(samples - 1) + late) / u64::from(samples);
                (self.lateness, self.unmeasured) = ((mean, samples), 0);
            }
            if let Some(path) = sent.path {
                failed.insert(path);
            }
            if let Some(packet) = kept.get(sent.packet) {
                copies.push((sent.number, sent.path, sent.copies > 0, packet.to_vec()));
            }
            (sent.again, sent.copies) = (now, sent.copies + 1);
        }
        for path in failed.iter() {
            if let Some(failed) = self.failed.get_mut(usize::from(path.0)) {
                *failed = Some(now);
            }
        }
        copies
    }

    /// A copy has left by a path.
    pub(super) fn again(&mut self, number: u16, path: PathId) {
        if let Some(sent) = self.sent.iter_mut().find(|sent| sent.number == number) {
            sent.path = Some(path);
        }
    }
}

impl SentFlow {
    /// What is kept of it, from now on.
    pub(super) fn protection(&mut self) -> &mut Protection {
        self.protection.get_or_insert_default()
    }
}
