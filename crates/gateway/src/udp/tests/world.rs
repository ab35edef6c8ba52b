//! Two ends of a bond and the links between them.

use crate::address::{ClientNumber, Network};
use crate::config::UdpMode;
use crate::index::PathIndex;
use crate::model::Role;
use crate::path::{Count, Ends, Reading, Reports};
use crate::udp::packet::{HEADROOM, Inside, parse, put_udp};
use crate::udp::{Choice, DatagramPath, Dispatcher, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};
use tabane_sim::link::{DelayConfig, Link, LinkChange, LinkConfig, Packet, RateConfig};
use tabane_sim::seed::Seed;

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// What the outer headers add to an inner packet.
const OUTER: u32 = 60;
/// The server's clock is ahead.
const AHEAD: Duration = Duration::from_secs(1000);
const MTU: u16 = 1420;

pub(super) struct World {
    pub(super) now: Instant,
    ends: [End; 2],
    /// By path, and by the end at which it arrives.
    links: Vec<[Link<Frame>; 2]>,
    next_look: Instant,
}

pub(super) struct End {
    pub(super) dispatcher: Dispatcher,
    pub(super) mode: UdpMode,
    paths: Vec<Path>,
    /// Datagrams for programs: when they came, from whom to whom, and what they hold.
    inbox: VecDeque<Datagram>,
    /// Bytes of inner packets that were sent.
    pub(super) bytes: u64,
    /// How many each flow has sent, and the newest that came to it.
    counts: BTreeMap<u16, (u64, u64)>,
    /// Datagrams that came after later ones.
    reordered: u64,
}

pub(super) struct Datagram {
    pub(super) at: Instant,
    /// The port of the program at the client.
    pub(super) flow: u16,
    /// The how-many-th of its flow.
    pub(super) count: u64,
    pub(super) payload: Vec<u8>,
}

struct Path {
    up: bool,
    sent: Count,
    received: Count,
    reports: Reports,
}

#[derive(Clone)]
struct Frame {
    packet: Vec<u8>,
    request: Option<Vec<u8>>,
}

impl Packet for Frame {
    fn wire_len(&self) -> u32 {
        self.packet.len() as u32 + OUTER
    }
    fn corrupt(&mut self, _bits: u64) {}
    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// A link of so many Mbit/s and ms of round trip, with a queue of 50 ms.
pub(super) fn link(mbps: u64, rtt_ms: u64) -> LinkConfig {
    let bytes = (mbps * 1_000_000 / 8 * 50 / 1000).max(10 * 1500);
    LinkConfig {
        rate: RateConfig::Constant(mbps * 1_000_000),
        delay: DelayConfig::Constant(Duration::from_micros(rtt_ms * 500)),
        queue: format!("droptail:bytes={bytes}").parse().unwrap(),
        ..LinkConfig::default()
    }
}

impl World {
    pub(super) fn new(seed: u64, mode: UdpMode, configs: &[LinkConfig]) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let network = Network::default();
        let path = |end: usize, number: usize| {
            let path = network.path(ClientNumber(1), PathIndex::new(number))[0];
            let ends = Ends { path, service: network.service()[0] };
            let mut reports = Reports::new(ends, end == SERVER, 1 + end as u32);
            reports.set_known(true);
            Path { up: true, sent: Count::default(), received: Count::default(), reports }
        };
        let end = |end: usize| End {
            dispatcher: Dispatcher::new([end as u8 + 1; 32]),
            mode,
            paths: (0..configs.len()).map(|number| path(end, number)).collect(),
            inbox: VecDeque::new(),
            bytes: 0,
            counts: BTreeMap::new(),
            reordered: 0,
        };
        let links = configs.iter().enumerate().map(|(i, config)| {
            ["up", "down"]
                .map(|name| Link::new(config, Seed(seed), &format!("link{i}/{name}")).unwrap())
        });
        let links: Vec<[Link<Frame>; 2]> = links.map(|[up, down]| [down, up]).collect();
        Self { now, ends: [end(CLIENT), end(SERVER)], links, next_look: now }
    }

    pub(super) fn end(&mut self, end: usize) -> &mut End {
        &mut self.ends[end]
    }

    /// Datagrams that came to programs after later ones.
    pub(super) fn reordered(&self) -> u64 {
        self.ends.iter().map(|end| end.reordered).sum()
    }

    /// Changes both directions of a link.
    pub(super) fn change(&mut self, path: usize, change: &LinkChange) {
        for link in &mut self.links[path] {
            link.change(self.now, change).unwrap();
        }
    }

    /// What the watch over the paths says.
    pub(super) fn set_up(&mut self, path: usize, up: bool) {
        self.ends.iter_mut().for_each(|end| end.paths[path].up = up);
    }

    /// A program behind `end` sends a datagram; `flow` is its port.
    pub(super) fn send(&mut self, end: usize, flow: u16, payload: &[u8]) {
        let (count, _) = self.ends[end].counts.entry(flow).or_default();
        *count += 1;
        let count = count.to_be_bytes();
        let mut buffer = [&[0; HEADROOM][..], payload, &count].concat();
        let near: SocketAddr = ([10, 81, 0, 31], flow).into();
        let far: SocketAddr = ([192, 0, 2, 1], 443).into();
        let (from, to) = if end == CLIENT { (near, far) } else { (far, near) };
        let start = put_udp(&mut buffer, from, to).unwrap();
        let mut packet = buffer.split_off(start);
        self.look(end);
        let (now, mode) = (clock(end, self.now), self.ends[end].mode);
        if let Outcome::Leaves(paths) = self.ends[end].dispatcher.send(now, mode, &mut packet) {
            paths.iter().for_each(|path| self.transmit(end, path, packet.clone()));
        }
    }

    /// What has come for programs behind `end`.
    pub(super) fn take(&mut self, end: usize) -> VecDeque<Datagram> {
        std::mem::take(&mut self.ends[end].inbox)
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Instant {
        let links = self.links.iter().flatten().filter_map(Link::next_event);
        let ends = self.ends.iter().enumerate().flat_map(|(i, end)| {
            let reports = end.paths.iter().filter_map(|path| path.reports.poll_timeout());
            let due = reports.chain(end.dispatcher.poll_timeout());
            due.map(move |at| if i == SERVER { at_origin(at) } else { at })
        });
        links.chain(ends).min().unwrap_or(Instant::FAR_FUTURE).min(self.next_look)
    }

    /// Time passes, not beyond [`World::next`].
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for path in 0..self.links.len() {
            for end in [CLIENT, SERVER] {
                while let Some(frame) = self.links[path][end].pop(self.now) {
                    self.arrive(end, path, frame);
                }
            }
        }
        for end in [CLIENT, SERVER] {
            self.look(end);
            let now = clock(end, self.now);
            self.deliver(end);
            while let Some((path, packet)) = self.ends[end].dispatcher.poll_transmit(now) {
                self.transmit(end, path, packet);
            }
            while let Some((paths, text)) = self.ends[end].dispatcher.poll_request(now) {
                for id in paths.iter() {
                    self.request(end, id, text.clone());
                }
            }
            for path in 0..self.links.len() {
                self.report(end, path);
            }
        }
        if self.now >= self.next_look {
            self.next_look = self.now + Duration::from_millis(10);
        }
    }

    fn deliver(&mut self, end: usize) {
        let (at, now) = (self.now, clock(end, self.now));
        while let Some(packet) = self.ends[end].dispatcher.poll_packet(now) {
            self.ends[end].give(at, &packet);
        }
    }

    fn look(&mut self, end: usize) {
        let now = clock(end, self.now);
        let End { dispatcher, paths, .. } = &mut self.ends[end];
        for (i, path) in paths.iter_mut().enumerate() {
            dispatcher.handle_reports(now, PathId(i as u8), &mut path.reports);
        }
        if !dispatcher.is_stale(now) {
            return;
        }
        let paths = paths.iter().enumerate().map(|(i, path)| {
            let (id, role, rtt) = (PathId(i as u8), Role::Primary, Duration::ZERO);
            let choice = Choice { id, usable: path.up, role, rtt };
            let Count { packets, bytes } = path.sent;
            let sent = Reading { packets, bytes, at_us: 0 };
            DatagramPath { choice, mtu: MTU, numbers: true, sent }
        });
        dispatcher.set_paths(now, paths);
    }

    fn transmit(&mut self, end: usize, id: PathId, packet: Vec<u8>) {
        self.push(end, id, Frame { packet, request: None });
    }

    fn request(&mut self, end: usize, id: PathId, text: Vec<u8>) {
        // As long as it is in its datagram.
        let packet = vec![0; text.len() + 28];
        self.push(end, id, Frame { packet, request: Some(text) });
    }

    fn push(&mut self, end: usize, id: PathId, frame: Frame) {
        let (path, len) = (usize::from(id.0), frame.packet.len() as u64);
        let Count { packets, bytes } = &mut self.ends[end].paths[path].sent;
        (*packets, *bytes) = (*packets + 1, *bytes + len);
        self.ends[end].bytes += len;
        self.links[path][1 - end].push(self.now, frame);
    }

    fn arrive(&mut self, end: usize, path: usize, frame: Frame) {
        let (at, now) = (self.now, clock(end, self.now));
        let End { dispatcher, paths, .. } = &mut self.ends[end];
        let Path { received, reports, .. } = &mut paths[path];
        let Count { packets, bytes } = *received;
        *received = Count { packets: packets + 1, bytes: bytes + frame.packet.len() as u64 };
        if let Some(text) = frame.request {
            for (path, packet) in dispatcher.handle_request(now, &text) {
                self.transmit(end, path, packet);
            }
        } else if reports.handle_packet(now, &frame.packet, *received) {
            dispatcher.handle_reports(now, PathId(path as u8), reports);
        } else {
            if dispatcher.takes(now, path, &frame.packet) {
                self.ends[end].give(at, &frame.packet);
            }
            self.deliver(end);
        }
    }

    fn report(&mut self, end: usize, path: usize) {
        let (now, mut buffer) = (clock(end, self.now), [0; 200]);
        let Path { sent, reports, .. } = &mut self.ends[end].paths[path];
        if let Some(len) = reports.poll(now, *sent, &mut buffer) {
            self.transmit(end, PathId(path as u8), buffer[..len].to_vec());
        }
    }
}

/// The clock of an end.
fn clock(end: usize, now: Instant) -> Instant {
    if end == SERVER { now + AHEAD } else { now }
}

fn at_origin(at: Instant) -> Instant {
    Instant(at.0.saturating_sub(AHEAD.0))
}

impl End {
    /// A packet for a program. The last eight bytes of the payload say the how-many-th it is.
    fn give(&mut self, at: Instant, packet: &[u8]) {
        let Some(Inside::Datagram { source, destination, payload }) = parse(packet) else {
            panic!("damaged")
        };
        let flow = if source.port() == 443 { destination.port() } else { source.port() };
        let (payload, count) = payload.split_at(payload.len() - 8);
        let count = u64::from_be_bytes(count.try_into().unwrap());
        let (_, newest) = self.counts.entry(flow).or_default();
        self.reordered += u64::from(count <= *newest);
        *newest = count.max(*newest);
        self.inbox.push_back(Datagram { at, flow, count, payload: payload.to_vec() });
    }
}
