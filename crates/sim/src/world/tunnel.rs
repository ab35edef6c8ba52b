//! Tunnels of a world: packets in the byte stream of a connection.
//!
//! A packet that a route brings to an end of a tunnel waits there until the connection takes it:
//! its length (two bytes), then the IP packet, damage included. What the send buffer has no space
//! for stays behind in order, up to the tunnel's queue; what comes then is dropped. At the other
//! end packets leave the stream in order and go on where their routes lead. Where that is, stays
//! outside of the stream, as routers would look it up.
//!
//! A connection that breaks is opened anew after [`AGAIN`]; what was in its stream is lost.

use super::host::Owner;
use super::{Action, World};
use crate::link::Count;
use crate::observe::{CapturePoint, FlowIdx, HostIdx, LinkIdx, LinkSample};
use crate::packet::Packet;
use crate::relay::Side;
use crate::result::LinkResult;
use crate::scenario::{Limit, Scenario, Tunnel};
use crate::topology::{DEFAULT_MTU, Hop, Topology};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::{ConnId, Duration, Event};
use tabane_wire::Segment;

/// From the end of a connection to the next attempt.
const AGAIN: Duration = Duration::from_secs(1);
/// The port at which the far end listens.
const PORT: u16 = 5_001;
/// Bytes of a packet's length.
const PREFIX: usize = 2;

/// A tunnel.
pub(super) struct TunnelState {
    /// Near and far.
    ends: [End; 2],
    /// Largest packet.
    pub(super) mtu: u16,
    limit: Limit,
    /// Number that observers know its connection by.
    flow: FlowIdx,
}

/// What an end has to do with packets that enter there, and with the stream that comes to it.
#[derive(Default)]
struct End {
    host: usize,
    conn: Option<ConnId>,
    /// The connection takes data.
    open: bool,
    waiting: VecDeque<Packet>,
    waiting_bytes: u64,
    /// What the connection has not taken yet of the packet before those that wait.
    rest: Bytes,
    /// Cursors of the packets in the stream from here.
    cursors: VecDeque<u32>,
    /// Of the stream that comes here, what is no whole packet yet.
    partial: BytesMut,
    /// Packets out of it that are about to go on.
    arrived: VecDeque<Bytes>,
    /// Of packets that entered here.
    delivered: Count,
    lost: u64,
}

/// The tunnels of a scenario; observers know their connections by numbers from `flow` on.
pub(super) fn tunnels(scenario: &Scenario, topology: &Topology, flow: u32) -> Vec<TunnelState> {
    let all = scenario.tunnel.iter().zip(&topology.tunnels).zip(flow..);
    let make = |(((_, tunnel), hosts), flow): (((&str, &Tunnel), &[usize; 2]), u32)| TunnelState {
        ends: hosts.map(|host| End { host, ..End::default() }),
        mtu: tunnel.mtu.unwrap_or(DEFAULT_MTU),
        limit: tunnel.limit().expect("invariant: checked with the scenario"),
        flow: FlowIdx(flow),
    };
    all.map(make).collect()
}

impl End {
    /// Nothing of the connection that it had is left.
    fn forget(&mut self) {
        self.conn = None;
        self.open = false;
        self.lost += self.cursors.len() as u64;
        self.cursors.clear();
        self.rest.clear();
        self.partial.clear();
        self.arrived.clear();
    }

    /// Takes the whole packets out of what has come.
    fn unframe(&mut self) {
        while let Some(prefix) = self.partial.first_chunk::<PREFIX>() {
            let len = usize::from(u16::from_be_bytes(*prefix));
            if self.partial.len() < PREFIX + len {
                return;
            }
            self.partial.advance(PREFIX);
            self.arrived.push_back(self.partial.split_to(len).freeze());
        }
    }
}

/// A packet as it goes into the stream.
fn frame(packet: &Packet, buffer: &mut [u8]) -> Bytes {
    let len = packet.segment().emit(buffer).expect("invariant: engines emit valid segments");
    if let Some(bit) = packet.flipped_bit() {
        buffer[bit / 8] ^= 1 << (bit % 8);
    }
    let mut frame = BytesMut::with_capacity(PREFIX + len);
    frame.put_u16(len as u16);
    frame.put_slice(&buffer[..len]);
    frame.freeze()
}

impl World<'_> {
    /// Opens the connection of every tunnel.
    pub(super) fn open_tunnels(&mut self) {
        (0..self.tunnels.len()).for_each(|n| self.open_tunnel(n));
    }

    /// Opens a tunnel's connection.
    pub(super) fn open_tunnel(&mut self, n: usize) {
        let TunnelState { ends: [near, far], flow, .. } = &self.tunnels[n];
        let (near, far, flow) = (near.host, far.host, *flow);
        let local = SocketAddr::new(self.topology.address(near, 0), 0);
        let remote = SocketAddr::new(self.topology.shared_address(far), PORT);
        match self.hosts[near].endpoint.connect(self.now, local, remote) {
            Ok(conn) => {
                self.attach(n, 0, conn);
                self.observer.opened(self.now, flow, HostIdx(near as u32), conn);
                self.flush(near);
            }
            // No port, no space: later perhaps.
            Err(_) => self.plan(self.now + AGAIN, Action::Tunnel(n as u32)),
        }
    }

    fn attach(&mut self, n: usize, side: usize, conn: ConnId) {
        let end = &mut self.tunnels[n].ends[side];
        end.conn = Some(conn);
        let side = if side == 0 { Side::Near } else { Side::Far };
        let owner = Owner::Relay(Owner::TUNNEL, side);
        self.hosts[end.host].conns.insert(conn, n, owner);
    }

    /// A connection has come to a host at which no flow waits for it: of a tunnel, or nobody's.
    #[cold]
    pub(super) fn accept_tunnel(&mut self, host: usize, conn: ConnId) {
        let Some((n, side)) = self.topology.tunnel_end(host) else { return };
        self.tunnels[n].ends[side].forget();
        self.attach(n, side, conn);
        self.tunnels[n].ends[side].open = true;
        self.observer.opened(self.now, self.tunnels[n].flow, HostIdx(host as u32), conn);
    }

    /// An event of a tunnel's connection.
    #[cold]
    pub(super) fn on_tunnel_event(&mut self, n: usize, side: Side, conn: ConnId, event: &Event) {
        let side = side as usize;
        if self.tunnels[n].ends[side].conn != Some(conn) {
            return;
        }
        match event {
            Event::Connected | Event::Accepted { .. } => {
                self.tunnels[n].ends[side].open = true;
                self.fill_stream(n, side);
            }
            Event::Writable => self.fill_stream(n, side),
            Event::Readable => self.read_stream(n, side),
            Event::PeerFinished | Event::Closed(_) => self.break_tunnel(n),
            _ => {}
        }
    }

    /// A packet enters a tunnel's direction, which is no link's.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_tunnel(&mut self, direction: usize, packet: Packet) {
        let place = direction - self.links.len();
        let (n, side) = (place / 2, place % 2);
        let link = LinkIdx(direction as u32);
        if self.watched {
            self.observer.packet(CapturePoint::Link(link), self.now, packet.segment());
        }
        let TunnelState { ends, mtu, limit, .. } = &mut self.tunnels[n];
        let end = &mut ends[side];
        let bytes = end.waiting_bytes + u64::from(packet.len());
        // What need not wait is not in the queue, which may be shorter than a packet.
        let is_full = !end.waiting.is_empty()
            && (end.waiting.len() as u64 >= limit.packets || bytes > limit.bytes);
        let cause = match packet.len() > u32::from(*mtu) {
            true => Some("mtu"),
            false => is_full.then_some("queue"),
        };
        if let Some(cause) = cause {
            end.lost += 1;
            if self.watched {
                self.observer.lost(link, self.now, cause, packet.segment());
            }
            return self.pool.recycle(packet.into_carried());
        }
        end.waiting_bytes = bytes;
        end.waiting.push_back(packet);
        let host = end.host;
        self.fill_stream(n, side);
        self.flush(host);
    }

    /// Moves what waits into the stream, as far as the connection takes it.
    fn fill_stream(&mut self, n: usize, side: usize) {
        let end = &mut self.tunnels[n].ends[side];
        let Some(conn) = end.conn.filter(|_| end.open) else { return };
        let Some(connection) = self.hosts[end.host].endpoint.connection(conn) else { return };
        loop {
            if !end.rest.is_empty() {
                connection.write(&mut end.rest);
                if !end.rest.is_empty() {
                    return;
                }
            }
            let Some(packet) = end.waiting.pop_front() else { return };
            end.waiting_bytes -= u64::from(packet.len());
            end.rest = frame(&packet, &mut self.buffer);
            end.cursors.push_back(packet.cursor());
            self.pool.recycle(packet.into_carried());
        }
    }

    /// Takes packets out of the stream and lets them go on.
    fn read_stream(&mut self, n: usize, side: usize) {
        let end = &mut self.tunnels[n].ends[side];
        let Some(conn) = end.conn else { return };
        let Some(connection) = self.hosts[end.host].endpoint.connection(conn) else { return };
        while let Some(bytes) = connection.read(usize::MAX) {
            end.partial.extend_from_slice(&bytes);
        }
        end.unframe();
        // Where a packet goes may lead back here, in the midst of this.
        while let Some(bytes) = self.tunnels[n].ends[side].arrived.pop_front() {
            self.leave_tunnel(n, side, &bytes);
        }
    }

    /// A packet has come to an end of a tunnel.
    fn leave_tunnel(&mut self, n: usize, side: usize, bytes: &Bytes) {
        let from = &mut self.tunnels[n].ends[1 - side];
        let cursor = from.cursors.pop_front().expect("invariant: one for each packet");
        self.hops += 1;
        let Ok(segment) = Segment::parse(bytes) else {
            // Damaged before it came into the tunnel.
            from.lost += 1;
            return;
        };
        from.delivered.add(bytes.len() as u32);
        let mut packet = Packet::new(self.pool.boxed(segment), cursor);
        packet.advance();
        match self.topology.hop(packet.cursor()) {
            Hop::Link(next) => self.enter(next as usize, packet),
            Hop::Arrive(host, path) => self.deliver(host as usize, path, packet),
        }
    }

    /// A tunnel's connection is over: another one soon.
    fn break_tunnel(&mut self, n: usize) {
        for side in 0..2 {
            let end = &mut self.tunnels[n].ends[side];
            let (host, conn) = (end.host, end.conn);
            end.forget();
            if let Some(connection) = conn.and_then(|id| self.hosts[host].endpoint.connection(id)) {
                connection.abort(self.now);
                self.flush(host);
            }
        }
        self.plan(self.now + AGAIN, Action::Tunnel(n as u32));
    }

    /// Pictures of a tunnel's connection and of its two directions.
    pub(super) fn sample_tunnel(&mut self, n: usize) {
        let flow = self.tunnels[n].flow;
        for side in 0..2 {
            let End { host, conn, .. } = self.tunnels[n].ends[side];
            let connection = conn.and_then(|id| self.hosts[host].endpoint.connection(id));
            if let Some(connection) = connection {
                let info = connection.info(self.now);
                self.observer.sample(self.now, flow, HostIdx(host as u32), &info);
            }
            let end = &self.tunnels[n].ends[side];
            let sample = LinkSample {
                queued_bytes: end.waiting_bytes,
                queued_packets: end.waiting.len() as u64,
                delivered: end.delivered.packets,
                delivered_bytes: end.delivered.bytes,
                lost: end.lost,
            };
            let link = LinkIdx((self.links.len() + 2 * n + side) as u32);
            self.observer.link_sample(self.now, link, &sample);
        }
    }

    /// What became of the packets that entered tunnels.
    pub(super) fn tunnel_results(&self) -> Vec<LinkResult> {
        let ends = self.tunnels.iter().flat_map(|tunnel| &tunnel.ends);
        let names = &self.topology.links[self.links.len()..];
        let result = |(end, name): (&End, &crate::topology::LinkEnd)| LinkResult {
            link: name.name.clone(),
            from: name.from.clone(),
            to: name.to.clone(),
            packets: end.delivered.packets,
            bytes: end.delivered.bytes,
            lost: end.lost,
            frames: 0,
        };
        ends.zip(names).map(result).collect()
    }
}
