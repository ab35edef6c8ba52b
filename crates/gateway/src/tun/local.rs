//! The end of the host's own TCP connections: an [`Endpoint`] that faces the kernel.
//!
//! It listens on every address and port. A SYN is not answered before the far end has been
//! reached: [`Event::Incoming`] asks for [`LocalStack::admit`] or [`LocalStack::refuse`].
//! Between it and the kernel is a TUN device: no loss, no reordering, a round trip of
//! microseconds. So it is plain TCP without timestamps, acknowledges at once, and takes segments
//! as large as the kernel makes them (segmentation offload).

use crate::inner::unreachable;
use crate::listener::ConnectError;
use crate::session;
use crate::shares::{self, Shares};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::policy::PolicyError;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Connection, Departure, Duration, Endpoint, Event, Instant};
use tabane_wire::{Flags, Segment, SeqNum, Unreachable};

/// Many connections of programs of this host. Sans-I/O: packets in, packets out.
///
/// After `handle_*` and after anything done to a connection, drain `poll_packet` and
/// `poll_event`; call again when `poll_timeout` is due.
pub(crate) struct LocalStack {
    endpoint: Endpoint,
    /// Attempts whose reset leaves as an ICMP message: by (destination, program). As many as
    /// resets wait to be polled.
    denied: BTreeMap<(SocketAddr, SocketAddr), Unreachable>,
    /// This host's own addresses, whose programs have no share.
    own: Option<[IpAddr; 2]>,
    /// The connections of other hosts.
    shares: Shares<ConnId>,
}

/// Limits of a [`LocalStack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalConfig {
    /// Connections; a SYN beyond is refused.
    pub(crate) connections: usize,
    /// Connections that wait for `admit`; a SYN beyond is dropped, and comes again after a second.
    pub(crate) waiting: usize,
    /// Bytes that a program may send ahead of the relay.
    pub(crate) receive_buffer: u64,
    /// Bytes that the relay may write ahead of a program.
    pub(crate) send_buffer: u64,
    /// Programs may be on other hosts too, that is at other addresses than these. Any program is
    /// asked whether it is still there, since hosts may vanish, and a host has no more connections
    /// than its share; a SYN beyond is dropped.
    pub(crate) own: Option<[IpAddr; 2]>,
}

/// A program's connection; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ProgramId(ConnId);

/// A packet for the host.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outgoing {
    /// TCP, to be put together with its successors if the device can take them at once.
    Segment(Segment),
    /// A whole IP packet.
    Packet(Bytes),
}

impl Default for LocalConfig {
    fn default() -> Self {
        let (connections, waiting) = (32_768, 4_096);
        let (receive_buffer, send_buffer) = (1 << 20, 1 << 20);
        Self { connections, waiting, receive_buffer, send_buffer, own: None }
    }
}

/// The only path there is.
const HOST: PathId = PathId(0);

impl LocalStack {
    /// A stack; everything random in it comes from `seed`.
    ///
    /// # Errors
    /// [`PolicyError`], if the engine lacks a policy that this names.
    pub(crate) fn new(config: LocalConfig, seed: [u8; 32]) -> Result<Self, PolicyError> {
        let mut endpoint = Endpoint::new(engine_config(config), seed)?;
        let everything = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        endpoint.listen_held(everything).expect("invariant: nobody else listens");
        Ok(Self {
            endpoint,
            denied: BTreeMap::new(),
            own: config.own,
            shares: Shares::new(shares::OF_ADDRESS),
        })
    }

    /// Takes a TCP segment of the host.
    pub(crate) fn handle_segment(&mut self, now: Instant, segment: Segment) {
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        if opens && self.has_share(segment.src.ip()) && self.shares.is_over(segment.src.ip()) {
            return;
        }
        self.endpoint.handle_segment(now, HOST, &segment);
    }

    /// The next packet for the host.
    pub(crate) fn poll_packet(&mut self, now: Instant) -> Option<Outgoing> {
        loop {
            let Departure { segment, .. } = self.endpoint.poll_segment(now)?;
            if self.denied.is_empty() || !segment.flags.contains(Flags::RST) {
                return Some(Outgoing::Segment(segment));
            }
            let Some(why) = self.denied.remove(&(segment.src, segment.dst)) else {
                return Some(Outgoing::Segment(segment));
            };
            // The RST answers a SYN: it acknowledges just that.
            let syn = SeqNum(segment.ack.0.wrapping_sub(1));
            if let Some(packet) = unreachable(segment.dst, segment.src, syn, why) {
                return Some(Outgoing::Packet(packet.into()));
            }
        }
    }

    /// When `handle_timeout` wants to be called.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    /// Runs every timer that is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    /// The next event of a program's connection.
    pub(crate) fn poll_event(&mut self) -> Option<(ProgramId, Event)> {
        let (id, event) = self.endpoint.poll_event()?;
        match event {
            Event::Incoming { remote, .. } if self.has_share(remote.ip()) => {
                self.shares.add(id, remote.ip());
            }
            Event::Closed(_) => self.shares.remove(&id),
            _ => {}
        }
        Some((ProgramId(id), event))
    }

    fn has_share(&self, address: IpAddr) -> bool {
        self.own.is_some_and(|own| !own.contains(&address))
    }

    /// SYNs of other hosts that were dropped because the host had its share.
    pub(crate) fn refused(&self) -> u64 {
        self.shares.refused
    }

    /// The destination has been reached: the program's SYN is answered with the next
    /// `poll_packet`.
    pub(crate) fn admit(&mut self, id: ProgramId) {
        self.endpoint.admit(id.0);
    }

    /// It could not be: the program is told how, by a reset or by ICMP, with the next
    /// `poll_packet`.
    pub(crate) fn refuse(&mut self, now: Instant, id: ProgramId, why: ConnectError) {
        let Some(connection) = self.endpoint.connection(id.0) else { return };
        if let Some(why) = why.unreachable()
            && let Some(subflow) = connection.info(now).subflows.first()
        {
            self.denied.insert((subflow.local, subflow.remote), why);
        }
        connection.abort(now);
    }

    /// A program's connection; `None` once it is over.
    pub(crate) fn connection(&mut self, id: ProgramId) -> Option<&mut Connection> {
        self.endpoint.connection(id.0)
    }

    /// Connections there are, in whatever state.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn connections(&self) -> usize {
        self.endpoint.connections()
    }
}

fn engine_config(config: LocalConfig) -> Config {
    Config::default().with(|c| {
        c.paths = vec![PathConfig::new(HOST, Vec::new(), u16::MAX)];
        // Nothing is older than the last packet, and no round trip needs measuring.
        c.tcp.timestamps = false;
        c.tcp.nagle = false;
        c.tcp.idle_restart = false;
        // A kernel that sends 64 KB at once must not wait for the second half of a window.
        c.tcp.quick_acks = u32::MAX;
        c.tcp.initial_window = 64;
        // The host's own kernel ends what its programs leave; hosts behind it may just vanish.
        c.tcp.keepalive = config.own.is_some().then_some(session::IDLE.into());
        c.tcp.keepalive_interval = session::INTERVAL.into();
        c.tcp.keepalive_probes = session::PROBES;
        c.tcp.receive_buffer = config.receive_buffer;
        c.tcp.receive_buffer_max = config.receive_buffer;
        c.tcp.send_buffer = config.send_buffer;
        // Nothing is under way that could come late.
        c.tcp.time_wait = Duration::from_secs(1);
        c.mptcp.enabled = false;
        c.limits.connections = config.connections;
        c.limits.syn_backlog = config.waiting;
        c.records = false;
        c.reset_unknown = true;
    })
}

#[cfg(test)]
mod tests;
