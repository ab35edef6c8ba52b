//! Datagrams between the programs' side and the paths: by which of them they leave, and what is
//! done about copies and order when they come.

use super::{Core, UpstreamNotification};
use crate::config::Protocol;
use crate::path::Use;
use crate::udp::{Choice, DatagramPath, Outcome, fragment, role};
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_engine::view::PathId;

impl Core {
    /// Sends a datagram's packet by the paths that its destination's rule says; what is too long
    /// for a path, in fragments by the best one.
    pub(super) fn send_datagram(&mut self, now: Instant, to: SocketAddr, packet: &mut [u8]) {
        self.look_at_datagram_paths(now);
        let mode = self.rules.find(Protocol::Udp, to, None).up.udp;
        if let Outcome::Leaves(paths) = self.dispatcher.send(now, mode, packet) {
            paths.iter().for_each(|path| self.transmit_datagram(now, path, packet));
        }
    }

    /// Sends what has waited for a path to be free.
    pub(super) fn transmit_datagrams(&mut self, now: Instant) {
        if self.dispatcher.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        self.look_at_datagram_paths(now);
        while let Some((path, mut packet)) = self.dispatcher.poll_transmit(now) {
            self.transmit_datagram(now, path, &mut packet);
        }
    }

    fn transmit_datagram(&mut self, now: Instant, id: PathId, packet: &mut [u8]) {
        let (path, mtu) = (usize::from(id.0), usize::from(self.dispatcher.mtu(id)));
        self.fragment_id = self.fragment_id.wrapping_add(1);
        let Self { tunnels, bond, .. } = self;
        fragment::cut(packet, mtu, self.fragment_id, &mut |chunk| {
            let taken = tunnels.send(now, path, chunk);
            bond.counters[path].sent(chunk.len(), taken);
        });
    }

    fn look_at_datagram_paths(&mut self, now: Instant) {
        if !self.dispatcher.is_stale(now) {
            return;
        }
        let all = self.tunnels.all().iter().enumerate();
        let datagram_paths = all.map(|(i, tunnel)| {
            let choice = Choice {
                id: PathId(i as u8),
                usable: tunnel.carries(),
                role: role(tunnel.config.role, tunnel.decision.using == Use::Low),
                rtt: tunnel.monitor.rtt().unwrap_or_default(),
            };
            let sent = tunnel.sent(now);
            DatagramPath { choice, mtu: tunnel.monitor.mtu(), numbers: true, sent }
        });
        self.dispatcher.set_paths(now, datagram_paths);
    }

    /// A whole packet that came by a path: for a program, if it is no copy and has its turn.
    pub(super) fn take_datagram(&mut self, now: Instant, path: usize, packet: &[u8]) {
        if self.dispatcher.takes(now, path, packet) {
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
