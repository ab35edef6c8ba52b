//! Datagrams of a client at its server: those that come are freed of copies and put in order
//! before they go on; for those that leave, the paths that there are. A stock peer numbers
//! nothing, and is sent everything once.

use super::Core;
use super::client_session::ClientSession;
use crate::config::{Protocol, UdpMode};
use crate::index::{ClientIndex, PathIndex};
use crate::inner::peek;
use crate::udp::{Choice, DatagramPath, PREFERRED, fragment, role};
use std::net::SocketAddr;
use tabane_engine::view::PathSet;
use tabane_engine::{Duration, Instant};
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
        while let Some(session) = self.client_sessions.get(at)
            && let Some(packet) = session.dispatcher.poll_packet(now)
        {
            let path = session.best().unwrap_or(PathIndex::new(0));
            self.send_on(now, (at, path), &packet);
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
    pub(super) fn meet(&mut self, path: PathIndex) -> bool {
        let Some(run) = self.responders[path].run() else { return false };
        let ended = self.lives.meet(run);
        if ended {
            self.dispatcher.forget();
        }
        ended
    }

    /// The paths for a packet from outside to it.
    pub(super) fn prepare(&mut self, now: Instant, packet: &mut [u8]) -> PathSet {
        if self.dispatcher.is_stale(now) {
            let datagram_paths: Vec<DatagramPath> =
                PathIndex::all().map(|path| self.datagram_path(path)).collect();
            self.dispatcher.set_paths(now, datagram_paths.into_iter());
        }
        let mode = match source(packet) {
            Some(source) => self.rules.find(Protocol::Udp, source, None).down.udp,
            None => UdpMode::Best,
        };
        let paths = self.dispatcher.prepare(now, mode, packet);
        let id = |path: PathIndex| path.into();
        if paths.is_empty() { self.best().map(id).map_or(paths, PathSet::only) } else { paths }
    }

    /// A path as a choice: round trips are the client's to measure, and the path by which its
    /// datagrams come first is the fastest that it knows.
    fn datagram_path(&self, path: PathIndex) -> DatagramPath {
        let responder = &self.responders[path];
        let choice = Choice {
            id: path.into(),
            usable: responder.is_up() && self.is_used(path),
            role: role(self.role(path), self.is_low(path)),
            rtt: if self.fastest == Some(path) { PREFERRED } else { Duration::ZERO },
            rate: self.cap_bps(path).unwrap_or(0),
        };
        DatagramPath { choice, mtu: responder.mtu(), numbers: !responder.is_stock() }
    }
}

/// Where a datagram comes from; the packet is one that this server made.
fn source(packet: &[u8]) -> Option<SocketAddr> {
    let inner = peek(packet).filter(|inner| inner.protocol == protocol::UDP)?;
    let at = if inner.src.is_ipv4() { 20 } else { 40 };
    let port = [*packet.get(at)?, *packet.get(at + 1)?];
    Some(SocketAddr::new(inner.src, u16::from_be_bytes(port)))
}
