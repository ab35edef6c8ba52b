//! Forwarding: what clients ask for goes on to the next server, by a bond whose client this
//! server is ([`UpstreamClient`]). Nothing else is connected to or sent from here.

use super::Core;
use super::carried::{FarId, Id};
use crate::address::ClientNumber;
use crate::client::{ClientError, UpstreamClient, UpstreamNotification};
use crate::config::NextConfig;
use crate::dns;
use crate::index::{ClientIndex, PathIndex};
use crate::listener::ConnectError;
use crate::model::{EventKind, Status};
use crate::reactor::{EventSource, Reactor};
use crate::udp::flows::FLOWS_MAX;
use crate::udp::{Flows, Nat, Refused, Sides};
use mio::Interest;
use mio::unix::SourceFd;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::Clock;

/// The next server, and all that goes on to it.
pub(super) struct Next {
    upstream: UpstreamClient,
    /// Whose each connection of the bond is.
    owners: BTreeMap<ConnId, Id>,
    nat: Nat,
    sides: Sides,
}

/// The first port of a source of datagrams; those below are for the server's own questions.
const FIRST_PORT: u16 = 10_000;
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
        reactor.registry().register(&mut SourceFd(&fd), EventSource::Next.token(), interest)?;
        let sides = Sides { own: upstream.own(), service: [service, upstream.service()] };
        Ok(Self { upstream, owners: BTreeMap::new(), nat: Nat::new(FIRST_PORT, FLOWS_MAX), sides })
    }

    /// Sources of datagrams.
    pub(super) fn udp_flows(&self) -> usize {
        self.nat.len()
    }

    /// Opens a connection for a client: which it is, and by which path it begins. `None` as long
    /// as no path works.
    pub(super) fn open(
        &mut self,
        now: Instant,
        owner: Id,
        target: SocketAddr,
    ) -> Result<Option<(FarId, Option<PathIndex>)>, ConnectError> {
        let Some((conn, path)) = self.upstream.open(now, target)? else { return Ok(None) };
        self.owners.insert(conn, owner);
        Ok(Some((FarId::Next(conn), Some(path))))
    }

    /// Its engine.
    pub(super) fn endpoint(&mut self) -> &mut Endpoint {
        self.upstream.endpoint()
    }

    /// A client is no more.
    pub(super) fn forget(&mut self, client: ClientNumber) {
        self.nat.forget(client);
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
}

impl Core {
    /// One round of forwarding; whether there is more to do at once.
    pub(super) fn forward(&mut self, now: Instant) -> bool {
        let Some(next) = &mut self.next else { return false };
        next.nat.handle_timeout(now);
        let mut busy = next.upstream.round().unwrap_or_else(|error| {
            // As a path that cannot be read: tried again with the next thing that happens.
            let text = format!("the next server's paths cannot be waited for: {error}");
            self.event_log.add(now, EventKind::NextFailed, (None, None), text);
            false
        });
        // The bond has read the clock meanwhile.
        let now = self.clock.now();
        while let Some(next) = &mut self.next
            && let Some(notification) = next.upstream.poll_notification()
        {
            busy = true;
            self.on_notification(now, notification);
        }
        busy |= self.open_requested(now);
        for event in self.next.iter_mut().flat_map(|next| next.upstream.take_events()) {
            let path = event.path.map(|path| format!("{PREFIX}{path}"));
            let text = format!("next server: {}", event.text);
            self.event_log.add(now, event.kind, (None, path.as_deref()), text);
        }
        busy
    }

    fn on_notification(&mut self, now: Instant, notification: UpstreamNotification) {
        if let UpstreamNotification::Packet(packet) = &notification {
            return self.bring_back(now, packet);
        }
        let owner = match (&mut self.next, &notification) {
            (Some(next), UpstreamNotification::Event(conn, Event::Closed(_))) => {
                next.owners.remove(conn)
            }
            (Some(next), UpstreamNotification::Event(conn, _)) => next.owners.get(conn).copied(),
            _ => None,
        };
        let (carried, mut clients, mut beyond) = self.ends();
        match notification {
            UpstreamNotification::Event(conn, event) => {
                if let Some(id) = owner {
                    let far = (id, FarId::Next(conn));
                    carried.on_far(now, (&mut clients, &mut beyond), far, event);
                }
            }
            UpstreamNotification::Unreachable(way, why) => {
                carried.unreachable(now, (&mut clients, &mut beyond), way, why);
            }
            UpstreamNotification::Paths { dead } => carried.retry(now, &mut beyond, dead),
            UpstreamNotification::Lost => carried.reset_all(now, (&mut clients, &mut beyond)),
            UpstreamNotification::Packet(_) => {}
        }
    }

    /// A client's datagram or echo request goes on, if there is a next server; a question about a
    /// name goes to that server itself. Whether there is one.
    pub(super) fn send_forward(
        &mut self,
        now: Instant,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
    ) -> bool {
        let Some(next) = &mut self.next else { return false };
        let Some(client_session) = self.client_sessions.get(at) else { return true };
        let asked =
            |to: SocketAddr| to.port() == dns::PORT && next.sides.service[0].contains(&to.ip());
        let allowed = match Nat::destination(packet) {
            None => Err(Refused::NoDatagram),
            Some(to) if asked(to) => Ok(()),
            Some(to) => self.access.check(to).map_err(Refused::from),
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
    fn bring_back(&mut self, now: Instant, packet: &[u8]) {
        let Some(next) = &mut self.next else { return };
        let Some((client, packet)) = next.nat.backwards(&next.sides, packet) else { return };
        if let Some(at) = self.client_sessions.find(client) {
            self.client_sessions.send_datagram(now, at, packet, &mut self.ports);
            self.client_sessions.touch(at);
        }
    }
}
