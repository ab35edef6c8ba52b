//! One path of a client: what it is bound to, and what its port carries.

use super::{OUTER_MTU, OUTER_MTU_MAX, Tunnel};
use crate::config::PathConfig;
use crate::index::PathIndex;
use crate::model::Role;
use crate::path::{
    Absence, Binding, Count, Decision, Health, LinkState, Monitor, Reading, Reports, Use,
    inner_limit,
};
use crate::reactor::{EventSource, register_port};
use mio::Registry;
use mio::unix::SourceFd;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use tabane_engine::view::PathRtt;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{
    Bind, FourTuple, OVERHEAD, PortConfig, Sealed, Session, UdpPort, seal_space,
};

impl Tunnel {
    pub(in crate::client) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::client) fn config(&self) -> &PathConfig {
        &self.config
    }

    /// The watch over it.
    pub(in crate::client) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// What it carries.
    pub(in crate::client) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// What it is used for.
    pub(in crate::client) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Where the server is, as far as this path is concerned.
    pub(in crate::client) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The address that it leaves from.
    pub(in crate::client) fn local(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(UdpPort::local)
    }

    /// Since the last handshake.
    pub(in crate::client) fn handshake_age(&self) -> Option<std::time::Duration> {
        self.session.handshake_age()
    }

    /// Its health.
    pub(in crate::client) fn health(&self, now: Instant) -> Health {
        self.monitor.health(now)
    }

    /// Everything that was sent by it, as of now.
    pub(in crate::client) fn sent(&self, now: Instant) -> Reading {
        let counters = self.session.counters();
        Reading { at_us: now.0 / 1000, packets: counters.tx_packets, bytes: counters.tx_bytes }
    }

    /// Whether it works and is used.
    pub(in crate::client) fn carries(&self) -> bool {
        self.monitor.is_up() && self.decision.using != Use::Unused
    }

    /// What connections are to expect of it; nothing if they are to stay away from it.
    pub(in crate::client) fn expected_rtt(&self) -> Option<PathRtt> {
        let used = self.monitor.is_up() && self.decision.using == Use::Active;
        self.monitor.expected_rtt().filter(|_| used)
    }

    /// How long it is expected to take to open a connection on it: a round trip, and what losses
    /// cost, of which each takes as long as a copy waits ([`PathRtt::answer_within`]).
    pub(super) fn find_opening_time(&self, now: Instant) -> Duration {
        let Some(expected) = self.monitor.expected_rtt() else { return Duration::MAX };
        let known = [self.reports.sending(now).loss, self.reports.receiving(now).loss];
        let probes = self.monitor.health(now).loss;
        let loss = known.into_iter().flatten().fold(probes.unwrap_or(0.0), f64::max);
        // The request and its answer, and the handshake before.
        let lost = expected.answer_within().as_secs_f64() * loss * 2.0;
        expected.srtt + Duration::from_secs_f64(lost)
    }

    /// What it is bound to.
    pub(in crate::client) fn binding(&self, remote: SocketAddr) -> Binding<'_> {
        let PathConfig { interface, source, .. } = &self.config;
        Binding { interface: interface.as_deref(), source: *source, ipv6: remote.is_ipv6() }
    }

    /// Whether a port is missing that could be opened.
    pub(super) fn may_open(&self) -> bool {
        let there = !matches!(self.found, Some(Err(_)));
        self.port.is_none() && there && self.config.role != Role::Never
    }

    /// Outer MTU of what it is bound to.
    pub(super) fn outer_mtu(&self) -> u32 {
        match &self.found {
            Some(Ok(Some(found))) if found.mtu <= OUTER_MTU_MAX => found.mtu,
            _ => OUTER_MTU,
        }
    }

    /// Seals an inner packet and queues it, unless it is longer than the path carries: then whoever
    /// sent it is told.
    pub(super) fn carry(&mut self, now: Instant, packet: &[u8]) -> bool {
        if packet.len() > usize::from(self.monitor.mtu()) {
            self.monitor.handle_too_big(now, packet.len(), false);
            return false;
        }
        self.send(packet)
    }

    /// Sends the report that is due: its length, and whether it was taken.
    pub(super) fn report(&mut self, now: Instant, scratch: &mut [u8]) -> Option<(usize, bool)> {
        self.reports.set_known(self.monitor.knows_reports());
        let counters = self.session.counters();
        let sent = Count { packets: counters.tx_packets, bytes: counters.tx_bytes };
        let len = self.reports.poll(now, sent, scratch)?;
        Some((len, self.send(&scratch[..len])))
    }

    /// What the host's own link has refused to carry.
    pub(super) fn hear_too_big(&mut self, now: Instant) {
        let Some(port) = &mut self.port else { return };
        while let Some((_, len)) = port.poll_too_big() {
            self.monitor.handle_too_big(now, len.saturating_sub(OVERHEAD), true);
        }
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> bool {
        let (Some(port), Some(remote)) = (&mut self.port, self.remote) else { return false };
        let session = &mut self.session;
        let mut taken = true;
        let queued = port.queue(&FourTuple::to(remote), seal_space(packet.len()), |out| {
            match session.seal(packet, out) {
                Sealed::Packet(len) => len,
                Sealed::Handshake(len) => {
                    taken = false;
                    len
                }
                Sealed::Nothing => {
                    taken = false;
                    0
                }
            }
        });
        queued && taken
    }

    pub(super) fn open(&mut self, now: Instant, path: PathIndex, registry: &Registry) {
        let Some(remote) = self.remote else { return };
        let mut wanted = PortConfig::new(self.bind(remote));
        wanted.mark = self.mark;
        let opened = UdpPort::open(wanted);
        let registered = opened.map_err(|error| error.to_string()).and_then(|port| {
            let registered = register_port(registry, &port, EventSource::Port(path.get()));
            registered.map_err(|error| error.to_string()).map(|()| port)
        });
        match registered {
            Ok(port) => {
                self.port = Some(port);
                let limit = inner_limit(self.outer_mtu(), remote.is_ipv6());
                self.monitor.handle_link(now, LinkState::Ready { limit });
            }
            Err(trouble) => {
                self.monitor.handle_link(now, LinkState::Absent(Absence::Other(trouble)));
            }
        }
    }

    pub(super) fn bind(&self, remote: SocketAddr) -> Bind {
        match (&self.config.interface, self.config.source) {
            (Some(name), Some(source)) => Bind::SourceOn { name: name.clone(), source },
            (None, Some(source)) => Bind::Source(source),
            (Some(name), None) => Bind::Interface { name: name.clone(), ipv6: remote.is_ipv6() },
            (None, None) if remote.is_ipv6() => Bind::Source(Ipv6Addr::UNSPECIFIED.into()),
            (None, None) => Bind::Source(Ipv4Addr::UNSPECIFIED.into()),
        }
    }

    pub(in crate::client) fn close(&mut self, registry: &Registry) {
        if let Some(port) = self.port.take() {
            // Closing takes it out of the poll too.
            let _ = registry.deregister(&mut SourceFd(&port.as_raw_fd()));
        }
    }

    pub(super) fn lose(&mut self, now: Instant, registry: &Registry, trouble: String) {
        self.close(registry);
        self.monitor.handle_link(now, LinkState::Absent(Absence::Other(trouble)));
    }
}

/// What has come by a session so far.
pub(super) fn received(session: &Session) -> Count {
    let counters = session.counters();
    Count { packets: counters.rx_packets, bytes: counters.rx_bytes }
}
