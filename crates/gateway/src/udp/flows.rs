//! At the server: the sockets through which the datagrams of clients reach the outside.
//!
//! Every source address and port of a client has one socket for all its destinations
//! (endpoint-independent mapping, RFC 4787 REQ-1), so that games, calls and STUN work; an echo
//! identifier has one too. From outside, a flow takes datagrams from hosts that it has sent to
//! (address-dependent filtering, REQ-8): a scan costs the client's links nothing. A flow ends two
//! minutes after the client last sent (REQ-5), one that only asked name servers after 20 s. A
//! client at its limit loses the flow that has been idle longest, if that is for 5 s; else the new
//! one is refused.
//!
//! What one round of the agent brings of a flow leaves, and comes, in runs of datagrams
//! (`UDP_SEGMENT`, `UDP_GRO`).
//!
//! Errors that routers and hosts report come back as ICMP. Pings need the system's permission for
//! unprivileged ones (`net.ipv4.ping_group_range`, which most distributions set); without it they
//! go unanswered. Hop limits are not carried, so traceroute shows the server's neighbourhood only
//! as one hop.

mod runs;
mod socket;

use super::by_use::ByUse;
use super::packet::{self, HEADROOM, Inside, Reason};
use crate::access::{Access, Denied};
use crate::address::ClientNumber;
use crate::reactor::EventSource;
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use runs::{Run, Runs};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use tabane_engine::{Duration, Instant};
use tabane_net::datagrams::DatagramSocket;
use tabane_net::wireguard::Batch;
use thiserror::Error;

/// The flows of all clients of a server.
pub(crate) struct Flows {
    flows: Slab<Flow>,
    keys: BTreeMap<Key, usize>,
    /// Flows by the time at which to look whether they are idle.
    timers: BTreeSet<(Instant, usize)>,
    by_use: ByUse<ClientNumber, usize>,
    /// Flows that may have more to read.
    unread: VecDeque<usize>,
    /// What is to leave with [`Flows::flush`].
    runs: Runs,
    /// Flows whose run could not leave, and where it was to go.
    failed: Vec<(Key, SocketAddr, Refused)>,
    /// What has come.
    batch: Batch,
    /// A datagram with room for its headers.
    buffer: Vec<u8>,
    max: usize,
    counters: Counters,
}

/// What `Flows::send` needs of its surroundings.
pub(crate) struct Outside<'a> {
    /// The agent's poll; flows have tokens of [`EventSource::Flow`].
    pub(crate) registry: &'a Registry,
    /// Where clients may send to.
    pub(crate) access: &'a Access,
    /// Flows that this client may have.
    pub(crate) flows: usize,
}

/// Why a datagram was not sent on.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// By the access list.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The client has as many flows as it may, all in use; or the server has.
    #[error("too many flows of datagrams")]
    Full,
    /// The system's reason.
    #[error("the datagram could not be sent: {0:?}")]
    Failed(io::ErrorKind),
    /// Neither UDP nor an echo request, or damaged.
    #[error("not a datagram")]
    NoDatagram,
}

/// What happened, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counters {
    /// Flows opened.
    pub(crate) opened: u64,
    /// Flows ended because a client was at its limit.
    pub(crate) evicted: u64,
    /// Datagrams sent to the outside.
    pub(crate) sent: u64,
    /// Datagrams brought back.
    pub(crate) received: u64,
    /// Datagrams from hosts that the flow had not sent to.
    pub(crate) unasked: u64,
    /// Datagrams not sent because the socket was full.
    pub(crate) dropped: u64,
}

struct Flow {
    key: Key,
    socket: DatagramSocket,
    /// When the client last sent.
    last: Instant,
    /// In `timers`.
    timer: Instant,
    /// Hosts that it has sent to, the oldest first, and the same sorted.
    order: VecDeque<IpAddr>,
    peers: BTreeSet<IpAddr>,
    /// It has only sent to port 53.
    names_only: bool,
    /// It is in `unread`.
    unread: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) client: ClientNumber,
    /// For echoes the identifier is the port.
    pub(super) source: SocketAddr,
    pub(super) echo: bool,
}

/// Sockets of all clients, unless told otherwise.
pub(crate) const FLOWS_MAX: usize = 16_384;
/// RFC 4787 REQ-5.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// A query is answered, repeated or given up by then.
pub(super) const IDLE_NAMES: Duration = Duration::from_secs(20);
/// Not taken from its client before it has been idle so long.
pub(super) const IN_USE: Duration = Duration::from_secs(5);
/// Hosts remembered of a flow; beyond, those sent to first are forgotten.
const PEERS_MAX: usize = 1024;
/// Runs that did not leave of which clients are told at a time; beyond, they learn nothing.
const FAILED_MAX: usize = 64;
/// Datagrams read from one flow before the others have their turn.
const TURN: usize = 32;
pub(super) const NAMES_PORT: u16 = 53;

/// Why this process cannot send pings for others; `None` if it can.
#[must_use]
pub(crate) fn no_pings() -> Option<String> {
    match socket::open(true, true) {
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let group = rustix::process::getgid().as_raw();
            Some(format!("net.ipv4.ping_group_range does not have the agent's group, {group}"))
        }
        Err(error) => Some(error.to_string()),
    }
}

impl Flows {
    /// At most `max` sockets.
    #[must_use]
    pub(crate) fn new(max: usize) -> Self {
        Self {
            flows: Slab::new(),
            keys: BTreeMap::new(),
            timers: BTreeSet::new(),
            by_use: ByUse::new(),
            unread: VecDeque::new(),
            runs: Runs::default(),
            failed: Vec::new(),
            batch: Batch::new(),
            buffer: vec![0; HEADROOM + usize::from(u16::MAX)],
            max,
            counters: Counters::default(),
        }
    }

    /// Sends on what an IP packet of a client holds.
    ///
    /// # Errors
    /// [`Refused`]; [`Flows::explain`] makes the packet that tells the client.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        outside: &Outside<'_>,
        client: ClientNumber,
        packet: &[u8],
    ) -> Result<(), Refused> {
        let (key, destination, bytes) = Key::of(client, packet)?;
        outside.access.check(destination)?;
        let index = self.flow(now, outside, key)?;
        let flow = &mut self.flows[index];
        flow.remember(now, destination);
        if let Some(run) = self.runs.push((index, destination), bytes, flow.socket.most()) {
            self.send_run(&run);
        }
        Ok(())
    }

    /// Sends what [`Flows::send`] has kept; packets that tell clients what did not leave go to
    /// `tell`.
    pub(crate) fn flush(&mut self, tell: &mut dyn FnMut(ClientNumber, Vec<u8>)) {
        while let Some(run) = self.runs.pop() {
            self.send_run(&run);
        }
        for (key, destination, why) in self.failed.drain(..) {
            if let Some(packet) = explain(key, destination, why) {
                tell(key.client, packet);
            }
        }
    }

    /// An error reported about an earlier datagram is not that of these. It stays in the socket's
    /// queue, of which `read` learns from the poll.
    fn send_run(&mut self, run: &Run) {
        let Some(flow) = self.flows.get(run.flow) else { return };
        match flow.socket.send(run.to, &run.bytes, run.size) {
            Ok(sent) => {
                self.counters.sent += sent as u64;
                self.counters.dropped += (run.count() - sent) as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.counters.dropped += run.count() as u64;
            }
            Err(error) if self.failed.len() < FAILED_MAX => {
                self.failed.push((flow.key, run.to, Refused::Failed(error.kind())));
            }
            Err(_) => {}
        }
    }

    /// The ICMP packet for the sender of a packet that `Flows::send` refused; `None` where
    /// silence is right.
    #[must_use]
    pub(crate) fn explain(packet: &[u8], why: Refused) -> Option<Vec<u8>> {
        let (key, destination, _) = Key::of(ClientNumber(0), packet).ok()?;
        explain(key, destination, why)
    }

    /// The poll says that this flow can be read or has failed. Then [`Flows::read`].
    pub(crate) fn ready(&mut self, index: usize) {
        if let Some(flow) = self.flows.get_mut(index)
            && !flow.unread
        {
            flow.unread = true;
            self.unread.push_back(index);
        }
    }

    /// Reads from flows that are ready, in turn, and hands out whole IP packets for their clients;
    /// at most `budget` datagrams. True if there may be more: call again before waiting.
    pub(crate) fn read(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(ClientNumber, &mut [u8]),
    ) -> bool {
        let mut left = budget;
        while left > 0
            && let Some(index) = self.unread.pop_front()
        {
            let Some(flow) = self.flows.get_mut(index) else { continue };
            let turn = TURN.min(left);
            let buffers = (&mut self.batch, &mut self.buffer[..]);
            let taken = flow.read(turn, buffers, &mut self.counters, sink);
            left = left.saturating_sub(taken);
            if taken >= turn {
                self.unread.push_back(index);
            } else {
                flow.unread = false;
            }
        }
        !self.unread.is_empty()
    }

    /// When [`Flows::handle_timeout`] is due.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Ends idle flows.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, index)) = self.timers.first()
            && at <= now
        {
            let flow = &mut self.flows[index];
            let end = flow.last + if flow.names_only { IDLE_NAMES } else { IDLE };
            if end <= now {
                self.remove(index);
            } else {
                self.timers.remove(&(at, index));
                flow.timer = end;
                self.timers.insert((end, index));
            }
        }
    }

    /// Ends all flows of a client.
    pub(crate) fn forget(&mut self, client: ClientNumber) {
        for index in self.of(client).map(|(_, index)| index).collect::<Vec<_>>() {
            self.remove(index);
        }
    }

    /// Flows of a client.
    #[must_use]
    pub(crate) fn count(&self, client: ClientNumber) -> usize {
        self.by_use.count(client)
    }

    /// Flows.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// What happened.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    fn of(&self, client: ClientNumber) -> impl Iterator<Item = (&Key, usize)> {
        let first: SocketAddr = ([0, 0, 0, 0], 0).into();
        let from = Key { client, source: first, echo: false };
        let keys = self.keys.range(from..).take_while(move |(key, _)| key.client == client);
        keys.map(|(key, index)| (key, *index))
    }

    /// The flow of a source, opened if need be.
    fn flow(&mut self, now: Instant, outside: &Outside<'_>, key: Key) -> Result<usize, Refused> {
        if let Some(index) = self.keys.get(&key) {
            return Ok(*index);
        }
        if self.count(key.client) >= outside.flows {
            let last = |index: usize| self.flows[index].last;
            let oldest = self.by_use.oldest(key.client, last);
            let (last, index) = oldest.ok_or(Refused::Full)?;
            if now.saturating_since(last) < IN_USE {
                return Err(Refused::Full);
            }
            self.remove(index);
            self.counters.evicted += 1;
        }
        if self.flows.len() >= self.max {
            return Err(Refused::Full);
        }
        let failed = |error: io::Error| Refused::Failed(error.kind());
        let socket = socket::open(key.source.is_ipv4(), key.echo).map_err(failed)?;
        let entry = self.flows.vacant_entry();
        let index = entry.key();
        let interest = Interest::READABLE;
        outside
            .registry
            .register(
                &mut SourceFd(&socket.as_raw_fd()),
                EventSource::Flow(index).token(),
                interest,
            )
            .map_err(failed)?;
        let timer = now + IDLE_NAMES;
        entry.insert(Flow {
            key,
            socket,
            last: now,
            timer,
            order: VecDeque::new(),
            peers: BTreeSet::new(),
            names_only: true,
            unread: false,
        });
        self.keys.insert(key, index);
        self.by_use.insert(now, key.client, index);
        self.timers.insert((timer, index));
        self.counters.opened += 1;
        Ok(index)
    }

    /// Closing a socket takes it out of the poll.
    fn remove(&mut self, index: usize) {
        while let Some(run) = self.runs.pop_of(index) {
            self.send_run(&run);
        }
        let flow = self.flows.remove(index);
        self.keys.remove(&flow.key);
        self.by_use.remove(flow.key.client, index);
        self.timers.remove(&(flow.timer, index));
        self.unread.retain(|other| *other != index);
    }
}

impl Key {
    /// Whose a packet is, where it goes, and what it holds (of an echo request the message).
    pub(super) fn of(
        client: ClientNumber,
        packet: &[u8],
    ) -> Result<(Self, SocketAddr, &[u8]), Refused> {
        Ok(match packet::parse(packet).ok_or(Refused::NoDatagram)? {
            Inside::Datagram { source, destination, payload } => {
                (Self { client, source, echo: false }, destination, payload)
            }
            Inside::Echo { source, destination, identifier, message } => {
                let source = SocketAddr::new(source, identifier);
                (Self { client, source, echo: true }, SocketAddr::new(destination, 0), message)
            }
        })
    }
}

impl Flow {
    fn remember(&mut self, now: Instant, destination: SocketAddr) {
        self.last = now;
        self.names_only &= destination.port() == NAMES_PORT;
        if self.peers.insert(destination.ip()) {
            self.order.push_back(destination.ip());
            if self.order.len() > PEERS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
        }
    }

    /// Reads about `turn` datagrams and reports; returns how many there were, fewer if that is all.
    fn read(
        &mut self,
        turn: usize,
        (batch, buffer): (&mut Batch, &mut [u8]),
        counters: &mut Counters,
        sink: &mut dyn FnMut(ClientNumber, &mut [u8]),
    ) -> usize {
        let Key { client, source, echo } = self.key;
        let mut taken = 0;
        while taken < turn {
            match self.socket.recv(batch) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Reports wake the poll too, and come only this way.
                    return taken + usize::from(self.report(client, sink));
                }
                Err(_) => {
                    self.report(client, sink);
                    taken += 1;
                    continue;
                }
            }
            for (four_tuple, datagram) in batch.datagrams() {
                taken += 1;
                let from = four_tuple.remote;
                if !self.peers.contains(&from.ip()) {
                    counters.unasked += 1;
                    continue;
                }
                let packet = &mut buffer[..HEADROOM + datagram.len()];
                packet[HEADROOM..].copy_from_slice(datagram);
                let start = match echo {
                    false => packet::put_udp(packet, from, source),
                    true => packet::put_echo_reply(packet, from.ip(), source.ip(), source.port()),
                };
                if let Some(start) = start {
                    counters.received += 1;
                    sink(client, &mut packet[start..]);
                }
            }
        }
        taken
    }

    /// Passes on one report about a datagram that did not arrive, if there is any.
    fn report(&self, client: ClientNumber, sink: &mut dyn FnMut(ClientNumber, &mut [u8])) -> bool {
        let Some(report) = socket::next_report(&self.socket) else { return false };
        let (source, v4) = (self.key.source, self.key.source.is_ipv4());
        let Some(why) = Reason::reported(v4, report.kind, report.code) else { return true };
        let packet = match self.key.echo {
            false => packet::unreachable(source, report.about, why),
            true => packet::echo_unreachable(source.ip(), report.about.ip(), source.port(), why),
        };
        if let Some(mut packet) = packet {
            sink(client, &mut packet);
        }
        true
    }
}

/// The ICMP packet for the sender of a datagram or echo request that did not leave; `None` where
/// silence is right.
fn explain(key: Key, destination: SocketAddr, why: Refused) -> Option<Vec<u8>> {
    let v4 = key.source.is_ipv4();
    let reason = match why {
        Refused::Denied(_) | Refused::Failed(io::ErrorKind::PermissionDenied) => {
            Reason::prohibited(v4)
        }
        Refused::Failed(io::ErrorKind::NetworkUnreachable) => Reason::network(v4),
        Refused::Failed(io::ErrorKind::HostUnreachable) => Reason::host(v4),
        Refused::Failed(_) | Refused::Full | Refused::NoDatagram => return None,
    };
    match key.echo {
        false => packet::unreachable(key.source, destination, reason),
        true => {
            let (source, identifier) = (key.source.ip(), key.source.port());
            packet::echo_unreachable(source, destination.ip(), identifier, reason)
        }
    }
}

#[cfg(test)]
mod tests;
