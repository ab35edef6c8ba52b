//! Datagrams between the programs' side and the paths: by which of them they leave, and what is
//! done about copies and order when they come.

use super::{Core, UpstreamNotification};
use crate::config::Protocol;
use crate::index::PathIndex;
use crate::path::Use;
use crate::udp::{Choice, DatagramPath, fragment, role};
use std::net::SocketAddr;
use tabane_engine::Instant;

impl Core {
    /// Sends a datagram's packet by the paths that its destination's rule says; what is too long
    /// for a path, in fragments by the best one.
    pub(super) fn send_datagram(&mut self, now: Instant, to: SocketAddr, packet: &mut [u8]) {
        if self.dispatcher.is_stale(now) {
            let all = PathIndex::enumerate(self.tunnels.all());
            let datagram_paths = all.map(|(path, tunnel)| {
                let choice = Choice {
                    id: path.into(),
                    usable: tunnel.carries(),
                    role: role(tunnel.config().role, tunnel.decision().using == Use::Low),
                    rtt: tunnel.monitor().rtt().unwrap_or_default(),
                    rate: tunnel.config().cap_up.map_or(0, |rate| rate.0),
                };
                DatagramPath { choice, mtu: tunnel.monitor().mtu(), numbers: true }
            });
            self.dispatcher.set_paths(now, datagram_paths);
        }
        let mode = self.rules.find(Protocol::Udp, to, None).up.udp;
        let paths = self.dispatcher.prepare(now, mode, packet);
        for id in paths.iter() {
            let (path, mtu) = (PathIndex::from(id), usize::from(self.dispatcher.mtu(id)));
            self.fragment_id = self.fragment_id.wrapping_add(1);
            let Self { tunnels, bond, .. } = self;
            fragment::cut(packet, mtu, self.fragment_id, &mut |chunk| {
                let taken = tunnels.send(now, path, chunk);
                bond.counters[path].sent(chunk.len(), taken);
            });
        }
    }

    /// A whole packet that came by a path: for a program, if it is no copy and has its turn.
    pub(super) fn take_datagram(&mut self, now: Instant, path: PathIndex, packet: &[u8]) {
        if self.dispatcher.takes(now, path.get(), packet) {
            self.hand_over(packet);
        }
        self.release_datagrams(now);
    }

    /// Packets that have waited enough for those before them.
    pub(super) fn release_datagrams(&mut self, now: Instant) {
        while let Some(packet) = self.dispatcher.poll_packet(now) {
            self.hand_over(&packet);
        }
    }

    /// A packet for a program: at an association, else somewhere on this host.
    pub(super) fn hand_over(&mut self, packet: &[u8]) {
        if self.deliver(packet) {
            return;
        }
        if let Some(host) = &mut self.host {
            host.give(packet);
        } else if let Some(upstream) = &mut self.upstream {
            upstream.tell(UpstreamNotification::Packet(packet.to_vec()));
        }
    }
}
