//! What the connections of clients lead to.

use super::client_session::{ClientSession, RelayTarget};
use super::outbound::{Attempt, OutboundConnection, PATIENCE};
use crate::access::Access;
use crate::config::Policies;
use crate::inner::unreachable;
use crate::policy_requests;
use crate::reactor::{Kind, token};
use crate::relay::{Pool, RelayState};
use mio::{Interest, Registry};
use slab::Slab;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Event, Instant};
use tabane_wire::{SeqNum, Unreachable};

/// See the module.
pub(super) struct Connections {
    all: Slab<OutboundConnection>,
    /// Those with more to do at once.
    again: VecDeque<usize>,
    /// Still connecting on, oldest first.
    waiting: VecDeque<(Instant, usize)>,
    registry: Registry,
    pool: Pool,
    access: Access,
    /// The server's inner addresses.
    service: [IpAddr; 2],
    /// Policies where clients ask for none.
    own: Policies,
    /// A target that this machine had no port left to connect to.
    no_port: Option<SocketAddr>,
}

/// An inner packet for a client, and the path that it takes.
pub(super) type Packet = (usize, Vec<u8>);

impl Connections {
    /// None yet.
    pub(super) fn new(
        registry: Registry,
        access: Access,
        service: [IpAddr; 2],
        own: Policies,
    ) -> Self {
        Self {
            all: Slab::new(),
            again: VecDeque::new(),
            waiting: VecDeque::new(),
            registry,
            pool: Pool::default(),
            access,
            service,
            own,
            no_port: None,
        }
    }

    /// A target that this machine had no port left to connect to, since the last call.
    pub(super) fn take_no_port(&mut self) -> Option<SocketAddr> {
        self.no_port.take()
    }

    /// Open ones.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    pub(super) fn get(&self, index: usize) -> Option<&OutboundConnection> {
        self.all.get(index)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut OutboundConnection> {
        self.all.get_mut(index)
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut OutboundConnection)> {
        self.all.iter_mut()
    }

    /// Resets the one to the far end.
    pub(super) fn end(&mut self, index: usize) {
        if let Some(outbound) = self.all.get_mut(index) {
            outbound.reset();
            self.remove(index);
        }
    }

    /// The poll and the access list, for datagrams.
    pub(super) fn outside(&self) -> (&Registry, &Access) {
        (&self.registry, &self.access)
    }

    /// Access list and policies change for connections to come.
    pub(super) fn reconfigure(&mut self, access: Access, own: Policies) {
        (self.access, self.own) = (access, own);
    }

    /// Whether a connection to there is one with wishes for the server itself.
    pub(super) fn is_policy_request(&self, local: SocketAddr) -> bool {
        local.port() == policy_requests::PORT && self.service.contains(&local.ip())
    }

    /// Whose it is.
    pub(super) fn session_of(&self, index: usize) -> Option<usize> {
        self.all.get(index).map(|outbound| outbound.session)
    }

    /// An event of a connection of the member at `at`; perhaps a packet to tell the client.
    pub(super) fn on_event(
        &mut self,
        now: Instant,
        (at, session): (usize, &mut ClientSession),
        conn: ConnId,
        event: Event,
    ) -> Option<Packet> {
        if let Event::Incoming { local, remote } = event {
            if self.is_policy_request(local) {
                session.policy_requests = Some((conn, Vec::new()));
                session.bond.endpoint.admit(conn);
                return None;
            }
            return self.connect(now, (at, session), conn, (remote, local));
        }
        if session.take_policy_requests(now, conn, event, &self.own) {
            return None;
        }
        let RelayTarget::Out(index) = *session.conns.get(&conn)? else { return None };
        match event {
            Event::Accepted { .. } | Event::Readable | Event::Writable | Event::PeerFinished => {
                self.step(now, index, session);
            }
            Event::Closed(CloseReason::Finished) => {
                session.conns.remove(&conn);
                if let Some(outbound) = self.all.get_mut(index) {
                    outbound.orphaned = Some(now);
                    if outbound.orphan() != RelayState::Open {
                        self.remove(index);
                    }
                }
            }
            Event::Closed(_) => {
                session.conns.remove(&conn);
                self.end(index);
            }
            _ => {}
        }
        None
    }

    fn connect(
        &mut self,
        now: Instant,
        (at, session): (usize, &mut ClientSession),
        conn: ConnId,
        four_tuple: (SocketAddr, SocketAddr),
    ) -> Option<Packet> {
        let begun = match self.access.check(four_tuple.1) {
            Ok(()) if session.is_over_memory_limit() => {
                Err(Attempt::Unreachable(Unreachable::Prohibited))
            }
            Ok(()) => OutboundConnection::begin(now, at, conn, four_tuple),
            Err(_) => Err(Attempt::Unreachable(Unreachable::Prohibited)),
        };
        let mut outbound = match begun {
            Ok(outbound) => outbound,
            Err(failed) => {
                if failed == Attempt::NoPort {
                    self.no_port = Some(four_tuple.1);
                }
                return refuse(now, session, conn, four_tuple, failed);
            }
        };
        let entry = self.all.vacant_entry();
        let index = entry.key();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered =
            self.registry.register(outbound.stream(), token(Kind::Program, index), both);
        if registered.is_err() {
            let failed = Attempt::Unreachable(Unreachable::Host);
            return refuse(now, session, conn, four_tuple, failed);
        }
        entry.insert(outbound);
        session.add(conn, RelayTarget::Out(index));
        self.waiting.push_back((now + PATIENCE, index));
        None
    }

    /// The poll says that a socket is ready.
    pub(super) fn ready(
        &mut self,
        now: Instant,
        index: usize,
        (readable, writable): (bool, bool),
        session: &mut ClientSession,
    ) -> Option<Packet> {
        let outbound = self.all.get_mut(index)?;
        let (conn, four_tuple) = (outbound.conn, (outbound.source, outbound.target));
        match outbound.ready(readable, writable) {
            Attempt::Pending if outbound.is_connecting() => None,
            Attempt::Pending => {
                self.step(now, index, session);
                None
            }
            Attempt::Connected => {
                session.opened += 1;
                session.enforce(now, conn, four_tuple);
                session.bond.endpoint.admit(conn);
                None
            }
            failed => {
                self.remove(index);
                session.conns.remove(&conn);
                refuse(now, session, conn, four_tuple, failed)
            }
        }
    }

    /// Moves what can be moved, and ends what is over.
    pub(super) fn step(&mut self, now: Instant, index: usize, session: &mut ClientSession) {
        let Some(outbound) = self.all.get_mut(index) else { return };
        let id = outbound.conn;
        let relay_state = match session.bond.endpoint.connection(id) {
            Some(conn) => outbound.step(now, conn, &mut self.pool),
            None => outbound.orphan(),
        };
        match relay_state {
            RelayState::Open => {}
            RelayState::More => self.again.push_back(index),
            RelayState::Finished | RelayState::Answered => {
                session.conns.remove(&id);
                self.remove(index);
            }
            RelayState::Broken => {
                if let Some(conn) = session.bond.endpoint.connection(id) {
                    conn.abort(now);
                }
                session.conns.remove(&id);
                self.remove(index);
            }
        }
    }

    /// One that has more to do at once.
    pub(super) fn take_again(&mut self) -> Option<usize> {
        self.again.pop_front()
    }

    /// How many of those there are.
    pub(super) fn again(&self) -> usize {
        self.again.len()
    }

    /// Whether there are such.
    pub(super) fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// When the next one has waited too long for the far end.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// One that has waited too long for the far end.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<usize> {
        while let Some((at, index)) = self.waiting.front().copied()
            && at <= now
        {
            self.waiting.pop_front();
            // The place may have been given to another one since.
            let late = |outbound: &&OutboundConnection| {
                outbound.is_connecting() && outbound.since + PATIENCE <= now
            };
            if self.all.get(index).filter(late).is_some() {
                return Some(index);
            }
        }
        None
    }

    /// It has waited too long.
    pub(super) fn give_up(
        &mut self,
        now: Instant,
        index: usize,
        session: &mut ClientSession,
    ) -> Option<Packet> {
        let outbound = self.all.get(index)?;
        let (conn, four_tuple) = (outbound.conn, (outbound.source, outbound.target));
        self.remove(index);
        session.conns.remove(&conn);
        refuse(now, session, conn, four_tuple, Attempt::Unreachable(Unreachable::Host))
    }

    /// All of a member that is no more.
    pub(super) fn remove_all(&mut self, session: &mut ClientSession) {
        for relay_target in std::mem::take(&mut session.conns).into_values() {
            if let RelayTarget::Out(index) = relay_target {
                self.end(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let Some(mut outbound) = self.all.try_remove(index) else { return };
        // Closing takes it out of the poll too.
        let _ = self.registry.deregister(outbound.stream());
    }
}

/// Tells the client why its connection cannot be: by RST, after an ICMP packet if there is more to
/// say than "refused".
pub(super) fn refuse(
    now: Instant,
    session: &mut ClientSession,
    conn: ConnId,
    (source, target): (SocketAddr, SocketAddr),
    why: Attempt,
) -> Option<Packet> {
    session.refused += 1;
    let conn = session.bond.endpoint.connection(conn)?;
    // By the path that the RST takes too, so that it is there first.
    let path = conn.info(now).subflows.first().map(|subflow| usize::from(subflow.path.0));
    conn.abort(now);
    let why = match why {
        Attempt::Unreachable(why) => why,
        Attempt::NoPort => Unreachable::Host,
        Attempt::Pending | Attempt::Connected | Attempt::Refused => return None,
    };
    // The SYN's number is not kept; our clients go by the addresses alone.
    Some((path?, unreachable(source, target, SeqNum(0), why)?))
}
