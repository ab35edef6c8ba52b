//! The rates of a client at its server: the caps that it announces for its paths, which hold for
//! what it is sent, and the limit that it was given, which holds for each direction.
//!
//! What must wait is copied; what the queues cannot hold is dropped, as by a bottleneck. Answers
//! to probes and the like pass beside.

use crate::index::PathIndex;
use crate::path::Shaper;
use tabane_config::quantity::Rate;
use tabane_engine::Instant;

pub(super) struct RateLimiters {
    /// To the client, all paths together.
    down: Shaper<Waiting>,
    /// To the client, by path.
    caps: Vec<Shaper<Vec<u8>>>,
    /// From the client.
    up: Shaper<Waiting>,
}

/// A packet, and its path.
type Waiting = (PathIndex, Vec<u8>);

/// Whether a packet may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RateLimiter {
    /// Now.
    Open,
    /// Later: a copy of it waits.
    Waits,
    /// Not at all.
    Full,
}

impl RateLimiters {
    /// Those of a client with that limit.
    pub(super) fn new(rate: Option<Rate>) -> Self {
        let rate = rate.map(|rate| rate.0);
        let caps = PathIndex::all().map(|_| Shaper::new(None)).collect();
        Self { down: Shaper::new(rate), caps, up: Shaper::new(rate) }
    }

    /// Another limit.
    pub(super) fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        let rate = rate.map(|rate| rate.0);
        self.down.set_rate(now, rate);
        self.up.set_rate(now, rate);
    }

    /// Another cap of a path.
    pub(super) fn set_cap(&mut self, now: Instant, path: PathIndex, cap_bps: Option<u64>) {
        if self.caps[path].rate_bps() != cap_bps {
            self.caps[path].set_rate(now, cap_bps);
        }
    }

    /// A packet for the client.
    pub(super) fn leave(&mut self, now: Instant, path: PathIndex, packet: &[u8]) -> RateLimiter {
        if !self.down.pass(now, packet.len()) {
            return waits(self.down.push((path, packet.to_vec()), packet.len()));
        }
        if !self.caps[path].pass(now, packet.len()) {
            return waits(self.caps[path].push(packet.to_vec(), packet.len()));
        }
        RateLimiter::Open
    }

    /// A packet for the client that has waited long enough.
    pub(super) fn pop_leaving(&mut self, now: Instant) -> Option<Waiting> {
        while let Some((path, packet)) = self.down.pop(now) {
            let len = packet.len();
            if self.caps[path].pass(now, len) {
                return Some((path, packet));
            }
            // What does not fit has been dropped, and counted.
            let _ = self.caps[path].push(packet, len);
        }
        PathIndex::all().find_map(|path| Some((path, self.caps[path].pop(now)?)))
    }

    /// A packet from the client.
    pub(super) fn enter(&mut self, now: Instant, path: PathIndex, packet: &[u8]) -> RateLimiter {
        if self.up.pass(now, packet.len()) {
            return RateLimiter::Open;
        }
        waits(self.up.push((path, packet.to_vec()), packet.len()))
    }

    /// A packet from the client that has waited long enough.
    pub(super) fn pop_entering(&mut self, now: Instant) -> Option<Waiting> {
        self.up.pop(now)
    }

    /// When one of them will have.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let caps = self.caps.iter().filter_map(Shaper::next_event);
        caps.chain(self.down.next_event()).chain(self.up.next_event()).min()
    }
}

fn waits<P>(pushed: Result<(), P>) -> RateLimiter {
    if pushed.is_ok() { RateLimiter::Waits } else { RateLimiter::Full }
}
