//! Forwarding: what clients ask for goes on to the next server, by a bond whose client this
//! server is ([`UpstreamClient`]). Nothing else is connected to or sent from here.
//!
//! The client's engine and the bond's are joined without a socket in between
//! ([`crate::sessions`]): a client's SYN is answered when the next server has answered ours.

use super::Core;
use super::client_session::RelayTarget;
use super::client_sessions::ClientSessions;
use super::connections::{Packet, refuse};
use super::outbound::Attempt;
use crate::client::{ClientError, UpstreamClient, UpstreamNotification, buffered};
use crate::config::NextConfig;
use crate::dns;
use crate::model::Status;
use crate::reactor::{Kind, Reactor, token};
use crate::sessions::{Denial, EngineProgram, Near, Program, ProgramEvent, Sessions, Snapshot};
use crate::udp::flows::FLOWS_MAX;
use crate::udp::{Flows, Nat, Refused, Sides};
use mio::Interest;
use mio::unix::SourceFd;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::record::CloseReason;
use tabane_engine::{ConnId, Duration, Event, Instant};
use tabane_net::Clock;
use tabane_wire::Unreachable;

/// The next server, and all that goes on to it.
pub(super) struct Next {
    upstream: UpstreamClient,
    sessions: Sessions<Id>,
    nat: Nat,
    sides: Sides,
}

/// A connection of a client: its member, and what it is there.
type Id = (usize, ConnId);

/// The clients' ends of connections that go on.
struct Clients<'a> {
    client_sessions: &'a mut ClientSessions,
    /// What is to be told to members, by the path.
    notifications: Vec<(usize, Packet)>,
    /// Members that have something to send now.
    touched: Vec<usize>,
}

/// Before the names of its paths, where paths of clients are shown, too.
const PREFIX: &str = "next/";

impl Next {
    /// The bond to the next server; `service` are the server's own inner addresses.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(super) fn new(
        config: &NextConfig,
        clock: Clock,
        reactor: &Reactor,
        service: [IpAddr; 2],
    ) -> Result<Self, ClientError> {
        let upstream = UpstreamClient::new(config.client(), clock)?;
        let fd = upstream.inside();
        let interest = Interest::READABLE;
        reactor.registry().register(&mut SourceFd(&fd), token(Kind::Next, 0), interest)?;
        let sides = Sides { own: upstream.own(), service: [service, upstream.service()] };
        Ok(Self { upstream, sessions: Sessions::default(), nat: Nat::new(FLOWS_MAX), sides })
    }

    /// Connections that go on, and sources of datagrams.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.sessions.len(), self.nat.len())
    }

    /// What is known of connections that go on.
    pub(super) fn snapshots(&self) -> BTreeMap<Id, Snapshot<Id>> {
        self.sessions.connected().map(|snapshot| (snapshot.id, snapshot)).collect()
    }

    /// Bytes that wait on the far side of each connection that goes on.
    pub(super) fn held(&mut self, now: Instant) -> Vec<(Id, u64)> {
        let ids = self.sessions.connected().map(|snapshot| (snapshot.id, snapshot.conn));
        let ids: Vec<(Id, ConnId)> = ids.collect();
        let endpoint = self.upstream.endpoint();
        let held = |(id, conn)| (id, endpoint.connection(conn).map_or(0, |c| buffered(now, c)));
        ids.into_iter().map(held).collect()
    }

    /// Its own snapshot, its paths named as the server names them.
    pub(super) fn status(&mut self, now: Instant) -> Status {
        let mut status = self.upstream.status(now);
        for path in &mut status.paths {
            path.name.insert_str(0, PREFIX);
        }
        status
    }

    /// The path that a name of ours means.
    pub(super) fn path(name: &str) -> Option<&str> {
        name.strip_prefix(PREFIX)
    }

    /// How long the bond can be left alone.
    pub(super) fn upstream_sleep(&self) -> Option<Duration> {
        self.upstream.sleep()
    }

    /// The bond.
    pub(super) fn upstream(&mut self) -> &mut UpstreamClient {
        &mut self.upstream
    }

    /// Opens connections for those that want them, as far as there are paths; whether any.
    fn grant(&mut self, now: Instant, clients: &mut Clients<'_>) -> bool {
        let mut any = false;
        while let Some(connect_request) = self.sessions.poll_connect_request() {
            any = true;
            match self.upstream.open(now, connect_request.destination) {
                Ok(Some((conn, path))) => self.sessions.opening(connect_request.id, conn, path),
                Ok(None) => {}
                Err(why) => self.sessions.fail(now, clients, connect_request.id, why),
            }
        }
        any
    }

    /// Does what the bond tells; a packet is for a client. Whether there was anything.
    fn hear(&mut self, now: Instant, clients: &mut Clients<'_>) -> (bool, Vec<Vec<u8>>) {
        let (mut any, mut packets) = (false, Vec::new());
        let Self { upstream, sessions, .. } = self;
        while let Some(notifications) = upstream.poll_notification() {
            any = true;
            match notifications {
                UpstreamNotification::Event(conn, event) => {
                    sessions.on_event(now, (&mut *clients, upstream.endpoint()), conn, event);
                }
                UpstreamNotification::Unreachable(way, why) => {
                    sessions.unreachable(now, (&mut *clients, upstream.endpoint()), way, why);
                }
                UpstreamNotification::Paths { dead } => {
                    sessions.retry(now, upstream.endpoint(), dead)
                }
                UpstreamNotification::Lost => sessions.reset_all(now, clients),
                UpstreamNotification::Packet(packet) => packets.push(packet),
            }
        }
        (any, packets)
    }
}

impl Core {
    /// One round of forwarding; whether there is more to do at once.
    pub(super) fn forward(&mut self, now: Instant) -> bool {
        let Some(mut next) = self.next.take() else { return false };
        let (notifications, touched) = (Vec::new(), Vec::new());
        let mut clients =
            Clients { client_sessions: &mut self.client_sessions, notifications, touched };
        let Next { upstream, sessions, nat, .. } = &mut next;
        sessions.step_again(now, (&mut clients, upstream.endpoint()));
        nat.handle_timeout(now);
        let mut busy = next.grant(now, &mut clients);
        match next.upstream.round() {
            Ok(more) => busy |= more,
            // As a path that cannot be read: tried again with the next thing that happens.
            Err(error) => {
                let text = format!("the next server's paths cannot be waited for: {error}");
                self.event_log.add(now, "next-failed", (None, None), text);
            }
        }
        // The bond has read the clock meanwhile.
        let now = self.clock.now();
        let (any, packets) = next.hear(now, &mut clients);
        busy |= any | next.grant(now, &mut clients) | next.sessions.has_again();
        let Clients { notifications, touched, .. } = clients;
        for (at, (path, packet)) in notifications {
            self.client_sessions.send((at, path), &packet, &mut self.ports);
        }
        touched.into_iter().for_each(|at| self.touch(at));
        for event in next.upstream.take_events() {
            let path = event.path.map(|path| format!("{PREFIX}{path}"));
            let text = format!("next server: {}", event.text);
            self.event_log.add(now, &event.kind, (None, path.as_deref()), text);
        }
        for packet in packets {
            self.bring_back(now, &mut next, &packet);
        }
        self.next = Some(next);
        busy
    }

    /// An event of a client's connection that goes on, or is to; whether it was one.
    pub(super) fn on_forwarded(
        &mut self,
        now: Instant,
        at: usize,
        conn: ConnId,
        event: Event,
    ) -> bool {
        let Some(next) = &mut self.next else { return false };
        let Some(client_session) = self.client_sessions.get(at) else { return false };
        match (event, client_session.conns.get(&conn).copied()) {
            (Event::Incoming { local, .. }, _) if self.connections.is_policy_request(local) => {
                return false;
            }
            (Event::Incoming { local, remote }, _) => {
                let why = match self.connections.outside().1.check(local) {
                    Ok(()) if !client_session.is_over_memory_limit() => None,
                    _ => Some(Attempt::Unreachable(Unreachable::Prohibited)),
                };
                if let Some(why) = why {
                    let notifications = refuse(now, client_session, conn, (remote, local), why);
                    if let Some((path, packet)) = notifications {
                        self.client_sessions.send((at, path), &packet, &mut self.ports);
                    }
                    return true;
                }
                client_session.add(conn, RelayTarget::On);
            }
            (Event::Closed(_), Some(RelayTarget::On)) => {
                client_session.conns.remove(&conn);
            }
            (_, Some(RelayTarget::On)) => {}
            _ => return false,
        }
        if let Some(event) = ProgramEvent::of(event) {
            let (notifications, touched) = (Vec::new(), Vec::new());
            let mut clients =
                Clients { client_sessions: &mut self.client_sessions, notifications, touched };
            let ends = (&mut clients, next.upstream.endpoint());
            next.sessions.on_program(now, ends, (at, conn), event);
        }
        true
    }

    /// A client is no more: what it had going on ends.
    pub(super) fn end_forwarded(&mut self, now: Instant, at: usize) {
        let Some(next) = &mut self.next else { return };
        let Some(client_session) = self.client_sessions.get(at) else { return };
        let conns: Vec<ConnId> = client_session.conns.keys().copied().collect();
        next.nat.forget(client_session.number);
        for conn in conns {
            let (notifications, touched) = (Vec::new(), Vec::new());
            let mut clients =
                Clients { client_sessions: &mut self.client_sessions, notifications, touched };
            let ends = (&mut clients, next.upstream.endpoint());
            let event = ProgramEvent::Closed(CloseReason::Aborted);
            next.sessions.on_program(now, ends, (at, conn), event);
        }
    }

    /// Tells those that have waited too long for a path.
    pub(super) fn tick_forwarded(&mut self, now: Instant) {
        let Some(next) = &mut self.next else { return };
        let (notifications, touched) = (Vec::new(), Vec::new());
        let mut clients =
            Clients { client_sessions: &mut self.client_sessions, notifications, touched };
        next.sessions.tick(now, &mut clients);
        let Clients { notifications, touched, .. } = clients;
        for (at, (path, packet)) in notifications {
            self.client_sessions.send((at, path), &packet, &mut self.ports);
        }
        touched.into_iter().for_each(|at| self.touch(at));
    }

    /// A client's datagram or echo request goes on, if there is a next server; a question about a
    /// name goes to that server itself. Whether there is one.
    pub(super) fn send_forward(
        &mut self,
        now: Instant,
        (at, path): (usize, usize),
        packet: &[u8],
    ) -> bool {
        let Some(next) = &mut self.next else { return false };
        let Some(client_session) = self.client_sessions.get(at) else { return true };
        let asked =
            |to: SocketAddr| to.port() == dns::PORT && next.sides.service[0].contains(&to.ip());
        let allowed = match Nat::destination(packet) {
            None => Err(Refused::NoDatagram),
            Some(to) if asked(to) => Ok(()),
            Some(to) => self.connections.outside().1.check(to).map_err(Refused::from),
        };
        let client = (client_session.number, client_session.limits.udp_flows);
        let sent = allowed.and_then(|()| {
            let (to, packet) = next.nat.forward(now, client, &next.sides, packet)?;
            next.upstream.send_datagram(now, to, packet);
            Ok(())
        });
        if let Err(why) = sent
            && let Some(answer) = Flows::explain(packet, why)
        {
            self.client_sessions.send((at, path), &answer, &mut self.ports);
        }
        true
    }

    /// A packet of the next server for a client.
    fn bring_back(&mut self, now: Instant, next: &mut Next, packet: &[u8]) {
        let Some((client, packet)) = next.nat.backwards(&next.sides, packet) else { return };
        if let Some(at) = self.client_sessions.find(client) {
            self.client_sessions.send_datagram(now, at, packet, &mut self.ports);
            self.touch(at);
        }
    }
}

impl Near for Clients<'_> {
    type Id = Id;

    fn admit(&mut self, now: Instant, (at, id): Id) {
        let Some(client_session) = self.client_sessions.get(at) else { return };
        client_session.opened += 1;
        let conn = client_session.bond.endpoint.connection(id);
        let first = conn.and_then(|conn| conn.info(now).subflows.into_iter().next());
        if let Some(first) = first {
            client_session.enforce(now, id, (first.remote, first.local));
        }
        client_session.bond.endpoint.admit(id);
        self.touched.push(at);
    }

    fn refuse(&mut self, now: Instant, (at, id): Id, how: Denial) {
        let Some(client_session) = self.client_sessions.get(at) else { return };
        client_session.conns.remove(&id);
        let Some(conn) = client_session.bond.endpoint.connection(id) else { return };
        let way = conn.info(now).subflows.first().map(|subflow| (subflow.remote, subflow.local));
        let Some(way) = way else { return };
        let why = match how {
            Denial::Reset | Denial::Unreachable(Unreachable::Port) => Attempt::Refused,
            Denial::Unreachable(why) => Attempt::Unreachable(why),
        };
        self.notifications
            .extend(refuse(now, client_session, id, way, why).map(|packet| (at, packet)));
        self.touched.push(at);
    }

    fn program(&mut self, now: Instant, (at, id): Id) -> Option<impl Program> {
        self.touched.push(at);
        let connection = self.client_sessions.get(at)?.bond.endpoint.connection(id)?;
        Some(EngineProgram { connection, now })
    }
}
