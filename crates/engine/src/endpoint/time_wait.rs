//! TIME-WAIT (RFC 9293 section 3.6) for little memory: a connection that is over leaves its
//! 4-tuple and its last ACK. Resets are ignored (RFC 1337); a new SYN may take the 4-tuple over
//! (RFC 6191). At most `Limits::connections` entries; the oldest goes.

use super::Endpoint;
use super::flow::{Owner, Tuple};
use crate::mptcp::ClosedTuple;
use crate::record::DropReason;
use crate::time::{Duration, Instant};
use crate::view::PathId;
use slab::Slab;
use std::collections::VecDeque;
use tabane_wire::{Flags, Segment, SeqNum};

/// Before a 4-tuple in TIME-WAIT may be used again.
const REUSE_AFTER: Duration = Duration::from_secs(1);

/// All entries, and the order in which they expire.
pub(super) struct TimeWaits {
    entries: Slab<TimeWait>,
    /// All stay equally long, so that this is in order; an entry that was renewed is put back.
    /// What has gone out of turn is known by its number.
    order: VecDeque<(Instant, u32, u64)>,
    numbers: u64,
    limit: usize,
    lasts: Duration,
}

struct TimeWait {
    /// No other has this number.
    number: u64,
    tuple: Tuple,
    path: PathId,
    /// The last ACK, repeated when the peer's FIN is.
    last: Box<Segment>,
    timestamp_offset: u32,
    since: Instant,
    expires: Instant,
}

impl TimeWaits {
    pub(super) fn new(limit: usize, lasts: Duration) -> Self {
        let (entries, order, limit) = (Slab::new(), VecDeque::new(), limit.max(1));
        Self { entries, order, numbers: 0, limit, lasts }
    }

    /// Adds an entry; also returns the one that was evicted for it.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        tuple: Tuple,
        closed: ClosedTuple,
    ) -> Option<(u32, Option<(Tuple, u32)>)> {
        let last = closed.time_wait?;
        let mut evicted = None;
        while self.entries.len() >= self.limit
            && let Some((_, at, number)) = self.order.pop_front()
        {
            if self.entries.get(at as usize).is_some_and(|entry| entry.number == number) {
                evicted = Some((self.entries.remove(at as usize).tuple, at));
            }
        }
        let expires = now + self.lasts;
        let timestamp_offset = closed.timestamp_offset;
        self.numbers += 1;
        let (number, path, since) = (self.numbers, closed.path, now);
        let entry = TimeWait { number, tuple, path, last, timestamp_offset, since, expires };
        let at = self.entries.insert(entry) as u32;
        self.order.push_back((expires, at, number));
        Some((at, evicted))
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.order.front().map(|(at, ..)| *at)
    }

    /// Removes one entry that has expired.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(Tuple, u32)> {
        while let Some((due, at, number)) = self.order.front().copied()
            && due <= now
        {
            self.order.pop_front();
            let entry = self.entries.get(at as usize).filter(|entry| entry.number == number);
            let Some(entry) = entry else { continue };
            if entry.expires > now {
                self.order.push_back((entry.expires, at, number));
                continue;
            }
            return Some((self.entries.remove(at as usize).tuple, at));
        }
        None
    }
}

impl Endpoint {
    /// A segment for a 4-tuple in TIME-WAIT.
    pub(super) fn handle_time_wait(
        &mut self,
        path: PathId,
        at: u32,
        tuple: Tuple,
        segment: &Segment,
    ) {
        let lasts = self.time_waits.lasts;
        let Some(entry) = self.time_waits.entries.get(at as usize) else { return };
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            return self.drop_stateless(DropReason::BadReset);
        }
        let (expected, after) = (entry.last.ack, entry.last.seq);
        if is_newer(&entry.last, segment) && self.open(path, tuple, segment, Some(after)) {
            // Only a subflow in its place ends it: there may have been no space for one.
            if self.flows.find(&tuple) != Some(Owner::TimeWait(at)) {
                self.time_waits.entries.remove(at as usize);
            }
            return;
        }
        let opens = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        let bare = segment.payload.is_empty() && !flags.contains(Flags::FIN);
        if !opens && bare && segment.seq == expected {
            return;
        }
        let Some(entry) = self.time_waits.entries.get_mut(at as usize) else { return };
        if flags.contains(Flags::FIN) {
            entry.expires = self.now + lasts;
        }
        let mut answer = (*entry.last).clone();
        if let Some(timestamps) = &mut answer.options.timestamps {
            let clock = self.now.as_millis() as u32;
            timestamps.value = clock.wrapping_add(entry.timestamp_offset);
        }
        let path = entry.path;
        self.send_stateless(path, answer);
    }
}

impl Endpoint {
    /// Whether a connection that is over has left its 4-tuple long enough ago that another may have
    /// it: its SYN is newer than anything that may still be in flight, by timestamps that differ
    /// by a second at least (RFC 6191, from the side that opens; Linux: `tcp_tw_reuse`).
    pub(super) fn may_reuse(&self, at: u32) -> bool {
        let Some(entry) = self.time_waits.entries.get(at as usize) else { return false };
        entry.last.options.timestamps.is_some() && self.now >= entry.since + REUSE_AFTER
    }

    /// Ends the TIME-WAIT of a 4-tuple, if it is in it, for another connection; what its sequence
    /// numbers have to begin after.
    pub(super) fn end_time_wait(&mut self, tuple: Tuple) -> Option<SeqNum> {
        let Some(Owner::TimeWait(at)) = self.flows.find(&tuple) else { return None };
        let entry = self.time_waits.entries.try_remove(at as usize)?;
        self.flows.remove(&tuple, Owner::TimeWait(at));
        Some(entry.last.seq)
    }
}

/// RFC 6191: a SYN that cannot be an old duplicate.
fn is_newer(last: &Segment, syn: &Segment) -> bool {
    match (last.options.timestamps, syn.options.timestamps) {
        (Some(old), Some(new)) if new.value != old.echo => {
            new.value.wrapping_sub(old.echo) as i32 > 0
        }
        _ => last.ack.before(syn.seq),
    }
}
