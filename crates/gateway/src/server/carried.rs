//! The connections of clients that a server carries: each with a socket to where it goes or, in a
//! server that forwards, with a connection through the bond to the next server.

use super::Core;
use super::client_session::ClientSession;
use super::client_sessions::ClientSessions;
use super::outbound::{self, Change, Outbound};
use super::upstream_hop::Next;
use crate::index::{ClientIndex, PathIndex};
use crate::inner;
use crate::listener::{ConnectError, Target};
use crate::policy_requests;
use crate::reactor::SocketId;
use crate::session::{Admitted, EndStream, Far, Near, Patience, Program, Sessions};
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::pipe::{ConnectionStream, Stream};
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Duration, Event, Instant};
use tabane_net::wireguard::UdpPort;
use tabane_wire::SeqNum;

/// A connection of a client: the client's place, and what it is there.
pub(super) type Id = (ClientIndex, ConnId);

/// Where a connection goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum FarId {
    Socket(SocketId),
    /// A connection to the next server.
    Next(ConnId),
}

/// The clients' ends.
pub(super) struct Clients<'a> {
    client_sessions: &'a mut ClientSessions,
    ports: &'a mut [UdpPort],
}

/// The other ends.
pub(super) struct Beyond<'a> {
    outbound: &'a mut Outbound,
    next: Option<&'a mut Next>,
}

pub(super) type Carried = Sessions<Id, FarId>;

/// What must still be delivered when the client has closed may take so long.
const LAST_WORDS: Duration = Duration::from_secs(60);

/// None yet; `forwards` says whether they go on to another server, which looks after itself.
pub(super) fn none(forwards: bool) -> Carried {
    let answer = (!forwards).then_some(outbound::PATIENCE);
    Sessions::new(Patience { answer, last_words: Some(LAST_WORDS) })
}

impl Core {
    /// The sessions and their two ends.
    pub(super) fn ends(&mut self) -> (&mut Carried, Clients<'_>, Beyond<'_>) {
        let Self { carried, client_sessions, ports, outbound, next, .. } = self;
        (carried, Clients { client_sessions, ports }, Beyond { outbound, next: next.as_mut() })
    }

    /// Hands out the events of a client's engine; whether there were any.
    pub(super) fn events(&mut self, now: Instant, at: ClientIndex) -> bool {
        let mut any = false;
        while let Some(session) = self.client_sessions.get(at)
            && let Some((conn, event)) = session.bond.endpoint.poll_event()
        {
            any = true;
            if let Event::Incoming { local, remote } = event {
                self.incoming(now, at, conn, (remote, local));
            } else if !session.take_policy_requests(now, conn, event, &self.config.down) {
                let (carried, mut clients, mut beyond) = self.ends();
                carried.on_near(now, (&mut clients, &mut beyond), (at, conn), event);
            }
        }
        self.turn_away(at);
        any
    }

    /// Connections beyond the client's limit were refused by its engine: the program is told why,
    /// before the reset leaves that the engine has made.
    fn turn_away(&mut self, at: ClientIndex) {
        while let Some(session) = self.client_sessions.get(at)
            && let Some(syn) = session.bond.endpoint.poll_turned_away()
        {
            session.opened += 1;
            session.refused += 1;
            self.client_sessions.notes.turned_away(at);
            let (_, mut clients, _) = self.ends();
            let way = (syn.remote, syn.local);
            clients.tell((at, PathIndex::from(syn.path)), way, ConnectError::NotAllowed);
        }
    }

    /// A client wants to connect.
    fn incoming(
        &mut self,
        now: Instant,
        at: ClientIndex,
        conn: ConnId,
        (source, target): (SocketAddr, SocketAddr),
    ) {
        let Some(session) = self.client_sessions.get(at) else { return };
        if target.port() == policy_requests::PORT && self.network.service().contains(&target.ip()) {
            // One at a time: what an earlier one says is not read any more.
            if let Some((before, _)) = session.policy_requests.replace((conn, Vec::new()))
                && let Some(before) = session.bond.endpoint.connection(before)
            {
                before.abort(now);
            }
            session.bond.endpoint.admit(conn);
            return;
        }
        session.opened += 1;
        let denied = self.access.check(target).err();
        if denied.is_some() || session.is_over_memory_limit() {
            if let Some(why) = denied {
                self.client_sessions.notes.denied(at, why);
            }
            let (_, mut clients, _) = self.ends();
            return clients.refuse(now, (at, conn), ConnectError::NotAllowed);
        }
        session.add(conn);
        let wanted = (Target::Address(target), VecDeque::from([target]));
        self.carried.incoming((at, conn), (source, now), wanted);
        self.open_requested(now);
    }

    /// Connects for those that want it, as far as there are paths; whether there were any.
    pub(super) fn open_requested(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(request) = self.carried.poll_request() {
            any = true;
            let opened = match &mut self.next {
                Some(next) => next.open(now, request.id, request.address),
                None => {
                    let socket = self.outbound.connect(request.id, request.address);
                    socket.map(|id| Some((FarId::Socket(id), None)))
                }
            };
            match opened {
                Ok(Some((far, path))) => self.carried.opening(now, request.id, far, path),
                // It is requested again when a path works.
                Ok(None) => {}
                Err(why) => {
                    let (carried, mut clients, _) = self.ends();
                    carried.fail(now, &mut clients, request.id, why);
                }
            }
        }
        any
    }

    /// The poll says that a socket is ready.
    pub(super) fn on_outbound(&mut self, now: Instant, id: SocketId, edges: (bool, bool)) {
        let Some((owner, change)) = self.outbound.ready(id, edges) else { return };
        let (carried, mut clients, mut beyond) = self.ends();
        let ends = (&mut clients, &mut beyond);
        match change {
            Change::Connected => carried.connected(now, ends, owner),
            Change::Failed(why) => carried.unreached(now, ends, owner, why),
            Change::Ready => carried.step(now, ends, owner),
        }
    }

    /// What a client had connected is over.
    pub(super) fn end_connections(&mut self, now: Instant, at: ClientIndex) {
        let Some(session) = self.client_sessions.get(at) else { return };
        let conns: Vec<ConnId> = session.conns.iter().copied().collect();
        if let Some(next) = &mut self.next {
            next.forget(session.number);
        }
        let (carried, mut clients, mut beyond) = self.ends();
        for conn in conns {
            let ends = (&mut clients, &mut beyond);
            carried.on_near(now, ends, (at, conn), Event::Closed(CloseReason::Aborted));
        }
    }
}

impl Near for Clients<'_> {
    type Id = Id;

    fn admit(&mut self, now: Instant, (at, id): Id, _: Option<SocketAddr>) -> Admitted {
        let Some(session) = self.client_sessions.get(at) else { return Admitted::Later };
        if let Some(way) = way_of(now, session, id) {
            session.enforce(now, id, way);
        }
        session.bond.endpoint.admit(id);
        self.client_sessions.touch(at);
        Admitted::Later
    }

    /// By RST, after an ICMP packet if there is more to say than "refused".
    fn refuse(&mut self, now: Instant, (at, id): Id, why: ConnectError) {
        let Some(session) = self.client_sessions.get(at) else { return };
        session.conns.remove(&id);
        session.refused += 1;
        let way = way_of(now, session, id);
        let Some(conn) = session.bond.endpoint.connection(id) else { return };
        // By the path that the RST takes too, so that it is there first.
        let path = conn.info(now).subflows.first().map(|subflow| PathIndex::from(subflow.path));
        conn.abort(now);
        if let (Some(way), Some(path)) = (way, path) {
            self.tell((at, path), way, why);
        }
        self.client_sessions.touch(at);
    }

    fn stream(&mut self, now: Instant, (at, id): Id) -> Option<impl Program> {
        self.client_sessions.touch(at);
        let connection = self.client_sessions.get(at)?.bond.endpoint.connection(id)?;
        Some(ConnectionStream { connection, now })
    }

    fn close(&mut self, (at, id): Id) {
        if let Some(session) = self.client_sessions.get(at) {
            session.conns.remove(&id);
        }
    }
}

impl Clients<'_> {
    /// An ICMP packet on why there is no connection of this way, if there is more to say than
    /// "refused".
    fn tell(
        &mut self,
        to: (ClientIndex, PathIndex),
        (source, target): (SocketAddr, SocketAddr),
        why: ConnectError,
    ) {
        // The SYN's number is not kept; our clients go by the addresses alone.
        let packet = |why| inner::unreachable(source, target, SeqNum(0), why);
        if let Some(packet) = why.unreachable().and_then(packet) {
            self.client_sessions.send(to, &packet, self.ports);
        }
    }
}

/// From where to where a connection of a client goes.
fn way_of(
    now: Instant,
    session: &mut ClientSession,
    id: ConnId,
) -> Option<(SocketAddr, SocketAddr)> {
    let info = session.bond.endpoint.connection(id)?.info(now);
    info.subflows.first().map(|subflow| (subflow.remote, subflow.local))
}

impl Far for Beyond<'_> {
    type Id = FarId;

    fn stream(&mut self, now: Instant, id: FarId) -> Option<impl Stream> {
        match id {
            FarId::Socket(id) => self.outbound.stream(id).map(EndStream::Socket),
            FarId::Next(id) => {
                let connection = self.next.as_mut()?.endpoint().connection(id)?;
                Some(EndStream::Connection(ConnectionStream { connection, now }))
            }
        }
    }

    fn local(&mut self, now: Instant, id: FarId) -> Option<SocketAddr> {
        match id {
            FarId::Socket(id) => self.outbound.local(id),
            FarId::Next(id) => Far::local(self.next.as_mut()?.endpoint(), now, id),
        }
    }

    fn close(&mut self, id: FarId) {
        if let FarId::Socket(id) = id {
            self.outbound.close(id);
        }
    }
}
