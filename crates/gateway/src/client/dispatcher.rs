//! Datagrams between the programs' side and the paths: by which of them they leave, and what is
//! done about copies and order when they come.

use super::{Core, UpstreamNotification};
use crate::config::Protocol;
use crate::index::PathIndex;
use crate::path::Use;
use crate::udp::packet::{Inside, parse};
use crate::udp::{Choice, DatagramPath, Outcome, fragment, request, role};
use crate::udp_packet;
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
        self.request_datagrams(now);
    }

    /// A request of the server for packets of a protected flow; whether it was one.
    pub(super) fn take_request(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Some(Inside::Datagram { source, destination, payload }) = parse(packet) else {
            return false;
        };
        let ours = (source.port(), destination.port()) == (request::PORT, request::PORT)
            && self.network.service().contains(&source.ip());
        if ours {
            self.look_at_datagram_paths(now);
            for (path, mut packet) in self.dispatcher.handle_request(now, payload) {
                self.transmit_datagram(now, path, &mut packet);
            }
        }
        ours
    }

    /// Asks the server for packets of protected flows that have not come.
    fn request_datagrams(&mut self, now: Instant) {
        let ([own, _], [service, _]) = (self.network.own(self.number), self.network.service());
        let ends = [own, service].map(|ip| SocketAddr::new(ip, request::PORT));
        while let Some((paths, text)) = self.dispatcher.poll_request(now) {
            let mut packet = udp_packet(ends[0], ends[1], text.into());
            paths.iter().for_each(|path| self.transmit_datagram(now, path, &mut packet));
        }
    }

    fn transmit_datagram(&mut self, now: Instant, id: PathId, packet: &mut [u8]) {
        let (path, mtu) = (PathIndex::from(id), usize::from(self.dispatcher.mtu(id)));
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
        self.hear_reports(now);
        let all = PathIndex::enumerate(self.tunnels.all());
        let datagram_paths = all.map(|(path, tunnel)| {
            let choice = Choice {
                id: path.into(),
                usable: tunnel.carries(),
                role: role(tunnel.config().role, tunnel.decision().using == Use::Low),
                rtt: tunnel.monitor().rtt().unwrap_or_default(),
            };
            let sent = tunnel.sent(now);
            DatagramPath { choice, mtu: tunnel.monitor().mtu(), numbers: true, sent }
        });
        self.dispatcher.set_paths(now, datagram_paths);
    }

    /// What the reports of the paths have brought.
    fn hear_reports(&mut self, now: Instant) {
        for (path, reports) in self.tunnels.reports_mut() {
            self.dispatcher.handle_reports(now, path.into(), reports);
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
        self.hear_reports(now);
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
            host.give_back(packet);
        } else if let Some(upstream) = &mut self.upstream {
            upstream.tell(UpstreamNotification::Packet(packet.to_vec()));
        }
    }
}
