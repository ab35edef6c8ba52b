//! Forwarding: what clients ask for goes on to the next server, by a bundle whose client this
//! server is ([`Carrier`]). Nothing else is connected to or sent from here.
//!
//! The client's engine and the bundle's are joined without a socket in between
//! ([`crate::sessions`]): a client's SYN is answered when the next server has answered ours.

use super::Core;
use super::connections::{Packet, refuse};
use super::member::Leads;
use super::members::Members;
use super::outward::Attempt;
use crate::client::{Carrier, ClientError, Told, buffered};
use crate::config::NextConfig;
use crate::dns;
use crate::model::Status;
use crate::reactor::{Kind, Reactor, token};
use crate::sessions::{Denial, EngineProgram, Near, Picture, Program, ProgramEvent, Sessions};
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
    carrier: Carrier,
    sessions: Sessions<Id>,
    nat: Nat,
    sides: Sides,
}

/// A connection of a client: its member, and what it is there.
type Id = (usize, ConnId);

/// The clients' ends of connections that go on.
struct Clients<'a> {
    members: &'a mut Members,
    /// What is to be told to members, by the path.
    told: Vec<(usize, Packet)>,
    /// Members that have something to send now.
    touched: Vec<usize>,
}

/// Before the names of its paths, where paths of clients are shown, too.
const PREFIX: &str = "next/";

impl Next {
    /// The bundle to the next server; `service` are the server's own inner addresses.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(super) fn new(
        config: &NextConfig,
        clock: Clock,
        reactor: &Reactor,
        service: [IpAddr; 2],
    ) -> Result<Self, ClientError> {
        let carrier = Carrier::new(config.client(), clock)?;
        let fd = carrier.inside();
        let interest = Interest::READABLE;
        reactor.registry().register(&mut SourceFd(&fd), token(Kind::Next, 0), interest)?;
        let sides = Sides { own: carrier.own(), service: [service, carrier.service()] };
        Ok(Self { carrier, sessions: Sessions::default(), nat: Nat::new(FLOWS_MAX), sides })
    }

    /// Connections that go on, and sources of datagrams.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.sessions.len(), self.nat.len())
    }

    /// What is known of connections that go on.
    pub(super) fn pictures(&self) -> BTreeMap<Id, Picture<Id>> {
        self.sessions.connected().map(|picture| (picture.id, picture)).collect()
    }

    /// Bytes that wait on the far side of each connection that goes on.
    pub(super) fn held(&mut self, now: Instant) -> Vec<(Id, u64)> {
        let ids = self.sessions.connected().map(|picture| (picture.id, picture.conn));
        let ids: Vec<(Id, ConnId)> = ids.collect();
        let endpoint = self.carrier.endpoint();
        let held = |(id, conn)| (id, endpoint.connection(conn).map_or(0, |c| buffered(now, c)));
        ids.into_iter().map(held).collect()
    }

    /// Its own picture, its paths named as the server names them.
    pub(super) fn status(&mut self, now: Instant) -> Status {
        let mut status = self.carrier.status(now);
        for path in &mut status.paths {
            path.name.insert_str(0, PREFIX);
        }
        status
    }

    /// The path that a name of ours means.
    pub(super) fn path(name: &str) -> Option<&str> {
        name.strip_prefix(PREFIX)
    }

    /// How long the bundle can be left alone.
    pub(super) fn carrier_sleep(&self) -> Option<Duration> {
        self.carrier.sleep()
    }

    /// The bundle.
    pub(super) fn carrier(&mut self) -> &mut Carrier {
        &mut self.carrier
    }

    /// Opens connections for those that want them, as far as there are paths; whether any.
    fn grant(&mut self, now: Instant, clients: &mut Clients<'_>) -> bool {
        let mut any = false;
        while let Some(wish) = self.sessions.poll_wish() {
            any = true;
            match self.carrier.open(now, wish.destination) {
                Ok(Some((conn, path))) => self.sessions.opening(wish.id, conn, path),
                Ok(None) => {}
                Err(why) => self.sessions.fail(now, clients, wish.id, why),
            }
        }
        any
    }

    /// Does what the bundle tells; a packet is for a client. Whether there was anything.
    fn hear(&mut self, now: Instant, clients: &mut Clients<'_>) -> (bool, Vec<Vec<u8>>) {
        let (mut any, mut packets) = (false, Vec::new());
        let Self { carrier, sessions, .. } = self;
        while let Some(told) = carrier.poll_told() {
            any = true;
            match told {
                Told::Event(conn, event) => {
                    sessions.on_event(now, (&mut *clients, carrier.endpoint()), conn, event);
                }
                Told::Unreachable(way, why) => {
                    sessions.unreachable(now, (&mut *clients, carrier.endpoint()), way, why);
                }
                Told::Paths { dead } => sessions.retry(now, carrier.endpoint(), dead),
                Told::Lost => sessions.reset_all(now, clients),
                Told::Packet(packet) => packets.push(packet),
            }
        }
        (any, packets)
    }
}

impl Core {
    /// One round of forwarding; whether there is more to do at once.
    pub(super) fn forward(&mut self, now: Instant) -> bool {
        let Some(mut next) = self.next.take() else { return false };
        let (told, touched) = (Vec::new(), Vec::new());
        let mut clients = Clients { members: &mut self.members, told, touched };
        let Next { carrier, sessions, nat, .. } = &mut next;
        sessions.step_again(now, (&mut clients, carrier.endpoint()));
        nat.handle_timeout(now);
        let mut busy = next.grant(now, &mut clients);
        match next.carrier.round() {
            Ok(more) => busy |= more,
            // As a path that cannot be read: tried again with the next thing that happens.
            Err(error) => {
                let text = format!("the next server's paths cannot be waited for: {error}");
                self.happenings.add(now, "next-failed", (None, None), text);
            }
        }
        // The bundle has read the clock meanwhile.
        let now = self.clock.now();
        let (any, packets) = next.hear(now, &mut clients);
        busy |= any | next.grant(now, &mut clients) | next.sessions.has_again();
        let Clients { told, touched, .. } = clients;
        for (at, (path, packet)) in told {
            self.members.send((at, path), &packet, &mut self.ports);
        }
        touched.into_iter().for_each(|at| self.touch(at));
        for happening in next.carrier.take_happened() {
            let path = happening.path.map(|path| format!("{PREFIX}{path}"));
            let text = format!("next server: {}", happening.text);
            self.happenings.add(now, &happening.kind, (None, path.as_deref()), text);
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
        let Some(member) = self.members.get(at) else { return false };
        match (event, member.conns.get(&conn).copied()) {
            (Event::Incoming { local, .. }, _) if self.connections.is_wish(local) => return false,
            (Event::Incoming { local, remote }, _) => {
                let why = match self.connections.outside().1.check(local) {
                    Ok(()) if !member.is_crowded() => None,
                    _ => Some(Attempt::Unreachable(Unreachable::Prohibited)),
                };
                if let Some(why) = why {
                    let told = refuse(now, member, conn, (remote, local), why);
                    if let Some((path, packet)) = told {
                        self.members.send((at, path), &packet, &mut self.ports);
                    }
                    return true;
                }
                member.add(conn, Leads::On);
            }
            (Event::Closed(_), Some(Leads::On)) => {
                member.conns.remove(&conn);
            }
            (_, Some(Leads::On)) => {}
            _ => return false,
        }
        if let Some(event) = ProgramEvent::of(event) {
            let (told, touched) = (Vec::new(), Vec::new());
            let mut clients = Clients { members: &mut self.members, told, touched };
            let ends = (&mut clients, next.carrier.endpoint());
            next.sessions.on_program(now, ends, (at, conn), event);
        }
        true
    }

    /// A client is no more: what it had going on ends.
    pub(super) fn end_forwarded(&mut self, now: Instant, at: usize) {
        let Some(next) = &mut self.next else { return };
        let Some(member) = self.members.get(at) else { return };
        let conns: Vec<ConnId> = member.conns.keys().copied().collect();
        next.nat.forget(member.number);
        for conn in conns {
            let (told, touched) = (Vec::new(), Vec::new());
            let mut clients = Clients { members: &mut self.members, told, touched };
            let ends = (&mut clients, next.carrier.endpoint());
            let event = ProgramEvent::Closed(CloseReason::Aborted);
            next.sessions.on_program(now, ends, (at, conn), event);
        }
    }

    /// Tells those that have waited too long for a path.
    pub(super) fn tick_forwarded(&mut self, now: Instant) {
        let Some(next) = &mut self.next else { return };
        let (told, touched) = (Vec::new(), Vec::new());
        let mut clients = Clients { members: &mut self.members, told, touched };
        next.sessions.tick(now, &mut clients);
        let Clients { told, touched, .. } = clients;
        for (at, (path, packet)) in told {
            self.members.send((at, path), &packet, &mut self.ports);
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
        let Some(member) = self.members.get(at) else { return true };
        let asked =
            |to: SocketAddr| to.port() == dns::PORT && next.sides.service[0].contains(&to.ip());
        let allowed = match Nat::destination(packet) {
            None => Err(Refused::NoDatagram),
            Some(to) if asked(to) => Ok(()),
            Some(to) => self.connections.outside().1.check(to).map_err(Refused::from),
        };
        let client = (member.number, member.limits.udp_flows);
        let sent = allowed.and_then(|()| {
            let (to, packet) = next.nat.onwards(now, client, &next.sides, packet)?;
            next.carrier.send_datagram(now, to, packet);
            Ok(())
        });
        if let Err(why) = sent
            && let Some(answer) = Flows::explain(packet, why)
        {
            self.members.send((at, path), &answer, &mut self.ports);
        }
        true
    }

    /// A packet of the next server for a client.
    fn bring_back(&mut self, now: Instant, next: &mut Next, packet: &[u8]) {
        let Some((client, packet)) = next.nat.backwards(&next.sides, packet) else { return };
        if let Some(at) = self.members.find(client) {
            self.members.send_datagram(now, at, packet, &mut self.ports);
            self.touch(at);
        }
    }
}

impl Near for Clients<'_> {
    type Id = Id;

    fn admit(&mut self, now: Instant, (at, id): Id) {
        let Some(member) = self.members.get(at) else { return };
        member.opened += 1;
        let conn = member.bundle.endpoint.connection(id);
        let first = conn.and_then(|conn| conn.info(now).subflows.into_iter().next());
        if let Some(first) = first {
            member.enforce(now, id, (first.remote, first.local));
        }
        member.bundle.endpoint.admit(id);
        self.touched.push(at);
    }

    fn refuse(&mut self, now: Instant, (at, id): Id, how: Denial) {
        let Some(member) = self.members.get(at) else { return };
        member.conns.remove(&id);
        let Some(conn) = member.bundle.endpoint.connection(id) else { return };
        let way = conn.info(now).subflows.first().map(|subflow| (subflow.remote, subflow.local));
        let Some(way) = way else { return };
        let why = match how {
            Denial::Reset | Denial::Unreachable(Unreachable::Port) => Attempt::Refused,
            Denial::Unreachable(why) => Attempt::Unreachable(why),
        };
        self.told.extend(refuse(now, member, id, way, why).map(|packet| (at, packet)));
        self.touched.push(at);
    }

    fn program(&mut self, now: Instant, (at, id): Id) -> Option<impl Program> {
        self.touched.push(at);
        let connection = self.members.get(at)?.bundle.endpoint.connection(id)?;
        Some(EngineProgram { connection, now })
    }
}
