//! The client inside a server that forwards: in the place of programs it has connections that the
//! server carries on, and datagrams that the server has given addresses of its own.
//!
//! The server drives it in its own thread, between its own work, and takes what it tells.

use super::carried::Owner;
use super::{Client, ClientError, Core};
use crate::config::ClientConfig;
use crate::index::PathIndex;
use crate::listener::{ConnectError, Target};
use crate::model::{AgentEvent, Role, Status};
use crate::reactor::{Agent, EVENTS, Reactor};
use crate::request_channel::request_channel;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::Clock;

pub(crate) struct UpstreamClient {
    client: Client,
    /// The last thing that happened which the server has been told.
    happened: u64,
}

/// What the server is told.
#[derive(Debug)]
pub(crate) enum UpstreamNotification {
    /// Of a connection that was opened by [`UpstreamClient::open`].
    Event(ConnId, Event),
    /// The far end says that one, from there to there, cannot be.
    Unreachable((SocketAddr, SocketAddr), ConnectError),
    /// Paths have begun to work, or one has died.
    Paths { dead: Option<PathIndex> },
    /// Every connection is lost: the next server is another one.
    Lost,
    /// A packet for one of our inner addresses.
    Packet(Vec<u8>),
}

/// What the agent keeps of it.
#[derive(Default)]
pub(super) struct Upstream {
    /// Taken after every round.
    notifications: VecDeque<UpstreamNotification>,
}

impl UpstreamClient {
    /// A client by that configuration, whose front ends are ignored; its times are by `clock`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) fn new(config: ClientConfig, clock: Clock) -> Result<Self, ClientError> {
        let reactor = Reactor::new()?;
        let (request_channel, inbox) = request_channel(reactor.waker());
        let mut core = Core::new(config, clock, &reactor, inbox)?;
        core.upstream = Some(Upstream::default());
        let client = Client { reactor, core, request_channel, socks: Vec::new() };
        Ok(Self { client, happened: 0 })
    }

    /// To be waited for by the server's own poll.
    pub(crate) fn inside(&self) -> RawFd {
        self.client.reactor.inside()
    }

    /// Takes what is ready, and does what is due; whether there is more to do at once.
    ///
    /// # Errors
    /// [`ClientError`].
    pub(crate) fn round(&mut self) -> Result<bool, ClientError> {
        let Client { reactor, core, .. } = &mut self.client;
        let mut ready = Vec::new();
        reactor.wait(Some(Duration::ZERO), &mut ready)?;
        let all = ready.len() < EVENTS;
        ready.into_iter().for_each(|ready| core.ready(ready));
        Ok(core.round()? || !all)
    }

    /// How long it can be left alone.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        self.client.core.sleep()
    }

    /// The engine, whose connections are those that were opened here.
    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.client.core.bond.endpoint
    }

    /// Opens a connection: which it is, and by which path it begins. `None` as long as no path
    /// works; [`UpstreamNotification::Paths`] comes when one does.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        target: SocketAddr,
    ) -> Result<Option<(ConnId, PathIndex)>, ConnectError> {
        self.client.core.open(now, target, &Target::Address(target), Owner::Upstream)
    }

    /// Sends a datagram's packet, from one of [`UpstreamClient::own`].
    pub(crate) fn send_datagram(&mut self, now: Instant, to: SocketAddr, packet: &mut [u8]) {
        self.client.core.send_datagram(now, to, packet);
    }

    /// The inner addresses that datagrams leave from.
    pub(crate) fn own(&self) -> [IpAddr; 2] {
        let Core { network, number, .. } = &self.client.core;
        network.own(*number)
    }

    /// The inner addresses of the next server itself.
    pub(crate) fn service(&self) -> [IpAddr; 2] {
        self.client.core.network.service()
    }

    /// What the server is to know.
    pub(crate) fn poll_notification(&mut self) -> Option<UpstreamNotification> {
        self.client.core.upstream.as_mut()?.notifications.pop_front()
    }

    /// What has happened since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<AgentEvent> {
        let event_log = &self.client.core.event_log;
        if self.happened == event_log.last() {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.happened, event_log.last());
        event_log.since(before)
    }

    /// Its snapshot.
    pub(crate) fn status(&mut self, now: Instant) -> Status {
        self.client.core.status(now)
    }

    /// Changes a path, as [`crate::request_channel::Request::SetPath`] says.
    ///
    /// # Errors
    /// There is no such path.
    pub(crate) fn set_path(
        &mut self,
        now: Instant,
        path: &str,
        (role, cap_bps): (Option<Role>, Option<u64>),
    ) -> Result<(), String> {
        self.client.core.set_path(now, path, role, cap_bps)
    }

    /// Takes another configuration, as far as it can change while it runs.
    ///
    /// # Errors
    /// What cannot.
    pub(crate) fn adopt(&mut self, now: Instant, new: ClientConfig) -> Result<(), String> {
        self.client.core.adopt(now, new).map(drop)
    }

    /// Tells the next server that all is over, as far as that is possible.
    pub(crate) fn bye(&mut self) {
        self.client.core.bye();
    }
}

impl Upstream {
    pub(super) fn tell(&mut self, notifications: UpstreamNotification) {
        self.notifications.push_back(notifications);
    }
}
