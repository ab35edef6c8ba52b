//! What the connections of clients hold at the server, and what is done when it is too much.
//!
//! Everything counts: the engine's buffers, what a relay has read and not passed on, the kernel's
//! queues of the socket to the outside, and a flat [`EACH`] for a connection itself, also while
//! only its end is still to be delivered. Counted four times a second, and while there is something
//! to do up to a hundred times; what is admitted in between counts [`FRESH`] each. Above half of a
//! limit, buffers become small ("tight"), so that what was quick stays quick and what nobody reads
//! grows no more. Above a limit no connection is admitted; those that hold most are ended until an
//! eighth is free again, of the client whose limit it is, or, if it is the server's (`[limits]
//! total`), of the clients that hold most. Memory that has become free goes back to the system.

use super::Core;
use super::carried::FarId;
use super::client_session::ClientSession;
use crate::client::buffered;
use crate::index::ClientIndex;
use crate::kernel_memory::Peak;
use std::collections::{BTreeMap, BTreeSet};
use tabane_engine::{ConnId, Duration, Instant};

/// What is held, as of the last look.
#[derive(Default)]
pub(super) struct Memory {
    /// All together, bytes.
    held: u64,
    peak: Peak,
    /// Connections that were ended.
    pub(super) shed: u64,
    /// When to look again, if the agent is awake.
    next: Instant,
}

/// What one connection holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    bytes: u64,
    conn: ConnId,
    /// None where there is no far end any more, or never was.
    far: Option<FarId>,
}

/// A connection without any data: state of the engine, of the relay and of the kernel's socket.
const EACH: u64 = 16 << 10;
/// A connection between its admission and the next look.
pub(super) const FRESH: u64 = 64 << 10;
/// For all clients together, unless the configuration says otherwise.
pub(crate) const TOTAL: u64 = 512 << 20;
/// Connections of a client of whose paths none works end after that long.
const ABSENCE: Duration = Duration::from_secs(300);
/// Time between two looks, in units of what a look takes, and at least.
const REST: u64 = 20;
const LOOK_LEAST: Duration = Duration::from_millis(10);

impl Memory {
    /// All together, bytes.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Whether it is time to look again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }
}

impl Core {
    /// Counts what is held, and does what must be done about it.
    pub(super) fn mind_memory(&mut self, now: Instant) {
        let began = self.clock.now();
        self.end_absent(now);
        let total = self.config.limits.total.map_or(TOTAL, |total| total.0);
        let mut holdings = self.measure(now);
        let sum = |own: &Vec<Holding>| own.iter().map(|one| one.bytes).sum::<u64>();
        let sums = |at| holdings.get(&at).map_or(0, sum);
        let sums: Vec<u64> = self.client_sessions.places().map(sums).collect();
        let held: u64 = sums.iter().sum();
        // A client that holds less than its part of what all may hold is not to suffer for others.
        let part = total / 2 / (sums.iter().filter(|held| **held > 0).count() as u64).max(1);
        for (at, own) in ClientIndex::enumerate(sums) {
            let Some(session) = self.client_sessions.get(at) else { continue };
            session.note_held(own, (held > total / 2 && own > part, held > total && own > part));
            let (limit, tight) = (session.limits.buffer.0, session.tight);
            let mine = holdings.remove(&at).unwrap_or_default();
            for holding in &mine {
                if let Some(FarId::Socket(socket)) = holding.far {
                    self.outbound.tighten(socket, tight);
                }
            }
            let excess = if own > limit { own - (limit - limit / 8) } else { 0 };
            let fair = if held > total { own.saturating_sub(part) } else { 0 };
            let excess = excess.max(fair.min(held.saturating_sub(total - total / 8)));
            self.shed(now, at, mine, excess);
        }
        self.memory.held = held;
        self.memory.peak.note(held);
        let took = self.clock.now().saturating_since(began);
        let rest = Duration(took.0.saturating_mul(REST)).max(LOOK_LEAST);
        self.memory.next = now + rest;
    }

    /// Ends connections of a member, those that hold most first, until so many bytes are free.
    fn shed(&mut self, now: Instant, at: ClientIndex, mut holdings: Vec<Holding>, mut excess: u64) {
        holdings.sort();
        while excess > 0
            && let Some(Holding { bytes, conn, far }) = holdings.pop()
        {
            let (carried, mut clients, mut beyond) = self.ends();
            carried.cut(now, (&mut clients, &mut beyond), (at, conn));
            if far.is_none()
                && let Some(session) = self.client_sessions.get(at)
            {
                abort(now, session, conn);
                self.client_sessions.touch(at);
            }
            self.memory.shed += 1;
            excess = excess.saturating_sub(bytes);
        }
    }

    /// What the connections of each member hold, on both sides.
    fn measure(&mut self, now: Instant) -> BTreeMap<ClientIndex, Vec<Holding>> {
        let mut holdings = BTreeMap::<ClientIndex, Vec<Holding>>::new();
        for session in self.carried.connected_ones() {
            let ((at, conn), far) = (session.id, session.far);
            let near = self.client_sessions.get(at);
            let near = near.and_then(|session| session.bond.endpoint.connection(conn));
            let near = near.map_or(0, |near| buffered(now, near));
            let beyond = match (far, &mut self.next) {
                (FarId::Socket(socket), _) => self.outbound.held(socket),
                (FarId::Next(id), Some(next)) => {
                    next.endpoint().connection(id).map_or(0, |beyond| buffered(now, beyond))
                }
                (FarId::Next(_), None) => 0,
            };
            let bytes = EACH + near + session.held + beyond;
            holdings.entry(at).or_default().push(Holding { bytes, conn, far: Some(far) });
        }
        for at in self.client_sessions.places() {
            let Some(session) = self.client_sessions.get(at) else { continue };
            let relayed = holdings.entry(at).or_default();
            let lingering = session.measure_lingering(now, relayed.iter().map(|one| one.conn));
            relayed.extend(lingering);
        }
        holdings
    }

    /// Ends the connections of clients that have been away for too long.
    fn end_absent(&mut self, now: Instant) {
        for at in self.client_sessions.places() {
            let Some(session) = self.client_sessions.get(at) else { continue };
            if session.away(now) < ABSENCE || session.bond.endpoint.connections() == 0 {
                continue;
            }
            session.abort_all(now);
            self.client_sessions.touch(at);
        }
    }
}

impl ClientSession {
    /// What its connections hold that nobody relays: their last bytes wait for the client, whose
    /// window is shut, perhaps. `relayed` are the others.
    fn measure_lingering(
        &mut self,
        now: Instant,
        relayed: impl ExactSizeIterator<Item = ConnId>,
    ) -> Vec<Holding> {
        let all = self.bond.endpoint.connections();
        self.lingering = all.saturating_sub(self.conns.len());
        if all == relayed.len() {
            return Vec::new();
        }
        let relayed: BTreeSet<ConnId> = relayed.collect();
        let ids: Vec<ConnId> = self.bond.endpoint.connection_ids().collect();
        let left = ids.into_iter().filter(|id| !relayed.contains(id));
        let holding = |conn| {
            let near = self.bond.endpoint.connection(conn)?;
            Some(Holding { bytes: EACH + buffered(now, near), conn, far: None })
        };
        left.filter_map(holding).collect()
    }
}

/// Resets a connection of a client; the engine's event does the rest.
fn abort(now: Instant, session: &mut ClientSession, id: ConnId) {
    if let Some(conn) = session.bond.endpoint.connection(id) {
        conn.abort(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientEntry, ServerConfig};
    use crate::index::PathIndex;

    fn session() -> ClientSession {
        let client = ClientEntry { name: "one".into(), number: 1, ..ClientEntry::default() };
        let server = ServerConfig::default();
        ClientSession::new(&server, &client, server.inner()).unwrap()
    }

    #[test]
    fn a_client_without_a_path_is_away_and_comes_back() {
        let mut session = session();
        let at = |s: u64| Instant(s * 1_000_000_000);
        session.look(at(5));
        assert_eq!(session.away(at(304)), Duration::from_secs(299));
        assert!(session.away(at(305)) >= ABSENCE);
        session.set_up(at(306), PathIndex::new(0), true);
        session.look(at(306));
        assert_eq!(session.away(at(900)), Duration::ZERO);
    }

    /// What a client has asked for goes before what the server does with all.
    #[test]
    fn policies_of_the_server_are_read_again() {
        use crate::policy_requests::PolicyRequests;
        let mut session = session();
        let client = ClientEntry { name: "one".into(), number: 1, ..ClientEntry::default() };
        let named = |text: &str| crate::config::Policies {
            scheduler: Some(tabane_engine::policy::Spec::named(text).into()),
            ..crate::config::Policies::default()
        };
        let mut server = ServerConfig { down: named("roundrobin"), ..ServerConfig::default() };
        session.reload(Instant::ZERO, &server, &client).unwrap();
        assert_eq!(session.rules.rest().down.scheduler.to_string(), "roundrobin");
        let asked = PolicyRequests { down: named("redundant"), rule: Vec::new() };
        session.requested = Some(asked.emit());
        server.down = named("minrtt");
        session.reload(Instant::ZERO, &server, &client).unwrap();
        assert_eq!(session.rules.rest().down.scheduler.to_string(), "redundant");
    }

    #[test]
    fn half_full_is_tight_until_it_is_a_quarter() {
        let mut session = session();
        let limit = session.limits.buffer.0;
        for (held, tight) in [(limit / 2, false), (limit / 2 + 1, true), (limit / 3, true)] {
            session.note_held(held, (false, false));
            assert_eq!(session.tight, tight, "{held}");
        }
        session.note_held(limit / 4, (false, false));
        assert!(!session.tight && !session.is_over_memory_limit());
        session.note_held(0, (true, true));
        assert!(session.tight && session.is_over_memory_limit(), "the server's own limit");
    }
}
