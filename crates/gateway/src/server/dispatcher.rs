//! Datagrams of a client at its server: those that come are freed of copies and put in order
//! before they go on; for those that leave, the paths that there are. A stock peer numbers
//! nothing, and is sent everything once.

use super::Core;
use super::client_session::ClientSession;
use super::client_sessions::{ClientSessions, seal};
use super::limiters::RateLimiter;
use crate::config::{Protocol, UdpMode};
use crate::index::{ClientIndex, PathIndex};
use crate::inner::peek;
use crate::path::Reading;
use crate::udp::{Choice, DatagramPath, Outcome, PREFERRED, fragment, request, role};
use crate::udp_packet;
use std::net::SocketAddr;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{PeerId, Peers, UdpPort};
use tabane_wire::ip::protocol;

impl Core {
    /// A datagram or an echo request to the outside: what is no copy and has its turn goes on.
    pub(super) fn take_datagram(
        &mut self,
        now: Instant,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
    ) {
        let Some(session) = self.client_sessions.get(at) else { return };
        if fragment::is_fragment(packet) {
            if let Some(whole) = session.reassembler.add(now, packet) {
                self.send_on(now, (at, path), &whole);
            }
            return;
        }
        if session.takes(now, path, packet) {
            self.send_on(now, (at, path), packet);
        }
        self.release_datagrams(now, at);
    }

    /// Packets of a client that have waited enough for those before them.
    pub(super) fn release_datagrams(&mut self, now: Instant, at: ClientIndex) {
        if let Some(session) = self.client_sessions.get(at) {
            session.hear_reports(now);
        }
        while let Some(session) = self.client_sessions.get(at)
            && let Some(packet) = session.dispatcher.poll_packet(now)
        {
            let path = session.best().unwrap_or(PathIndex::new(0));
            self.send_on(now, (at, path), &packet);
        }
    }
}

impl ClientSessions {
    /// Sends a datagram's packet to a member, by the paths that it wants; in fragments if it is too
    /// long for a path.
    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        at: ClientIndex,
        packet: &mut [u8],
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        if let Outcome::Leaves(paths) = session.prepare(now, peers, packet) {
            paths.iter().for_each(|path| session.transmit(now, path, packet, (peers, ports)));
        }
    }

    /// Sends what has waited for a path to be free.
    pub(super) fn transmit_datagrams(
        &mut self,
        now: Instant,
        at: ClientIndex,
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, network, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        if session.dispatcher.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        session.look_at_datagram_paths(now, peers);
        while let Some((path, mut packet)) = session.dispatcher.poll_transmit(now) {
            session.transmit(now, path, &mut packet, (peers, ports));
        }
        let ([own, _], [service, _]) = (network.own(session.number), network.service());
        let ends = [service, own].map(|ip| SocketAddr::new(ip, request::PORT));
        while let Some((paths, text)) = session.dispatcher.poll_request(now) {
            let mut packet = udp_packet(ends[0], ends[1], text.into());
            for path in paths.iter() {
                session.transmit(now, path, &mut packet, (peers, ports));
            }
        }
    }

    /// Takes a request of a client for packets of a protected flow.
    pub(super) fn take_request(
        &mut self,
        now: Instant,
        at: ClientIndex,
        text: &[u8],
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        session.look_at_datagram_paths(now, peers);
        for (path, mut packet) in session.dispatcher.handle_request(now, text) {
            session.transmit(now, path, &mut packet, (peers, ports));
        }
    }
}

impl ClientSession {
    /// Whether a packet from it goes on now.
    fn takes(&mut self, now: Instant, path: PathIndex, packet: &[u8]) -> bool {
        let first =
            self.responders[path].is_stock() || self.dispatcher.takes(now, path.get(), packet);
        if first {
            self.fastest = Some(path);
        }
        first
    }

    /// The client has started again: what it numbers begins anew.
    pub(super) fn meet(&mut self, now: Instant, run: u32) -> bool {
        let ended = self.lives.meet(now, run);
        if ended {
            self.dispatcher.forget();
            self.ended_runs = self.ended_runs.wrapping_add(1);
        }
        ended
    }

    /// What becomes of a packet from outside to it.
    fn prepare(&mut self, now: Instant, peers: &Peers, packet: &mut [u8]) -> Outcome {
        self.look_at_datagram_paths(now, peers);
        let mode = match source(packet) {
            Some(source) => self.rules.find(Protocol::Udp, source, None).down.udp,
            None => UdpMode::Best,
        };
        match self.dispatcher.send(now, mode, packet) {
            Outcome::Leaves(paths) if paths.is_empty() => {
                // That a path works is said by a probe, which may be lost: who asks is answered.
                let asks = self.fastest.filter(|path| self.responders[*path].is_heard(now));
                let id = |path: PathIndex| path.into();
                Outcome::Leaves(self.best().or(asks).map(id).map_or(paths, PathSet::only))
            }
            outcome => outcome,
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        id: PathId,
        packet: &mut [u8],
        (peers, ports): (&mut Peers, &mut [UdpPort]),
    ) {
        let (path, mtu) = (PathIndex::from(id), usize::from(self.dispatcher.mtu(id)));
        self.fragment_id = self.fragment_id.wrapping_add(1);
        let Self { bond, peers: own, fragment_id, limiters, .. } = self;
        fragment::cut(packet, mtu, *fragment_id, &mut |chunk| {
            let taken = own[path].is_some_and(|peer| match limiters.leave(now, path, chunk) {
                RateLimiter::Open => seal(peers, peer, chunk, ports),
                limiter => limiter == RateLimiter::Waits,
            });
            bond.counters[path].sent(chunk.len(), taken);
        });
    }

    fn look_at_datagram_paths(&mut self, now: Instant, peers: &Peers) {
        if self.dispatcher.is_stale(now) {
            self.hear_reports(now);
            let datagram_path = |path| self.datagram_path(path, sent(now, peers, self.peers[path]));
            let datagram_paths: Vec<DatagramPath> = PathIndex::all().map(datagram_path).collect();
            self.dispatcher.set_paths(now, datagram_paths.into_iter());
        }
    }

    /// What the reports of its paths have brought.
    fn hear_reports(&mut self, now: Instant) {
        for (path, reports) in PathIndex::enumerate(&mut self.reports) {
            self.dispatcher.handle_reports(now, path.into(), reports);
        }
    }

    /// A path as a choice: round trips are the client's to measure, and the path by which its
    /// datagrams come first is the fastest that it knows.
    fn datagram_path(&self, path: PathIndex, sent: Reading) -> DatagramPath {
        let responder = &self.responders[path];
        let choice = Choice {
            id: path.into(),
            usable: responder.is_up() && self.is_used(path),
            role: role(self.role(path), self.is_low(path)),
            rtt: if self.fastest == Some(path) { PREFERRED } else { Duration::ZERO },
        };
        DatagramPath { choice, mtu: responder.mtu(), numbers: !responder.is_stock(), sent }
    }
}

/// Everything that was sent to a peer, as of now.
fn sent(now: Instant, peers: &Peers, peer: Option<PeerId>) -> Reading {
    let session = peer.and_then(|peer| peers.session(peer));
    let counters = session.map(|session| *session.counters()).unwrap_or_default();
    Reading { at_us: now.0 / 1000, packets: counters.tx_packets, bytes: counters.tx_bytes }
}

/// Where a datagram comes from; the packet is one that this server made.
fn source(packet: &[u8]) -> Option<SocketAddr> {
    let inner = peek(packet).filter(|inner| inner.protocol == protocol::UDP)?;
    let at = if inner.src.is_ipv4() { 20 } else { 40 };
    let port = [*packet.get(at)?, *packet.get(at + 1)?];
    Some(SocketAddr::new(inner.src, u16::from_be_bytes(port)))
}
