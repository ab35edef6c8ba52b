//! Two ends of a bond and the links between them.

use crate::config::UdpMode;
use crate::model::Role;
use crate::path::{Estimate, News, Reading, Sample};
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
/// As of `Reports`: how often busy paths say what they carry, and idle ones that are asked; what is
/// worth that, and how many bytes it takes.
const REPORTS: Duration = Duration::from_millis(50);
const ASKED: Duration = Duration::from_millis(100);
const HURRY: Duration = Duration::from_millis(5);
const HURRY_BYTES: u64 = 24_000;
const WORTH: u64 = 3000;
const REPORT: usize = 98;
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

#[derive(Clone, Copy)]
struct Path {
    up: bool,
    sent: Reading,
    received: Reading,
    heard: Option<Sample>,
    /// When the last report left, and what had been sent then.
    reported: (Instant, u64),
    asked: bool,
    urged: bool,
}

#[derive(Clone)]
struct Frame {
    packet: Vec<u8>,
    report: Option<Report>,
    request: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
struct Report {
    marker: Reading,
    heard: Option<Sample>,
    asks: bool,
    urges: bool,
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
        let path = Path {
            up: true,
            sent: Reading::default(),
            received: Reading::default(),
            heard: None,
            reported: (Instant::ZERO, 0),
            asked: false,
            urged: false,
        };
        let end = |i: u8| End {
            dispatcher: Dispatcher::new([i; 32]),
            mode,
            paths: vec![path; configs.len()],
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
        Self { now, ends: [end(1), end(2)], links, next_look: now }
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
            paths.iter().for_each(|path| self.transmit(end, path, packet.clone(), None));
        }
    }

    /// What has come for programs behind `end`.
    pub(super) fn take(&mut self, end: usize) -> VecDeque<Datagram> {
        std::mem::take(&mut self.ends[end].inbox)
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Instant {
        let links = self.links.iter().flatten().filter_map(Link::next_event);
        let ends = self.ends.iter().enumerate().filter_map(|(i, end)| {
            end.dispatcher.poll_timeout().map(|at| if i == SERVER { at_origin(at) } else { at })
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
                self.transmit(end, path, packet, None);
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
        if !dispatcher.is_stale(now) {
            return;
        }
        let paths = paths.iter().enumerate().map(|(i, path)| {
            let (id, role, rtt) = (PathId(i as u8), Role::Primary, Duration::ZERO);
            let choice = Choice { id, usable: path.up, role, rtt };
            DatagramPath { choice, mtu: MTU, numbers: true, sent: path.sent }
        });
        dispatcher.set_paths(now, paths);
    }

    fn transmit(&mut self, end: usize, id: PathId, packet: Vec<u8>, report: Option<Report>) {
        let path = usize::from(id.0);
        let sent = &mut self.ends[end].paths[path].sent;
        sent.packets += 1;
        sent.bytes += packet.len() as u64;
        self.ends[end].bytes += packet.len() as u64;
        self.links[path][1 - end].push(self.now, Frame { packet, report, request: None });
    }

    fn request(&mut self, end: usize, id: PathId, text: Vec<u8>) {
        // As long as it is in its datagram.
        let packet = vec![0; text.len() + 28];
        let path = usize::from(id.0);
        let sent = &mut self.ends[end].paths[path].sent;
        sent.packets += 1;
        sent.bytes += packet.len() as u64;
        self.ends[end].bytes += packet.len() as u64;
        let frame = Frame { packet, report: None, request: Some(text) };
        self.links[path][1 - end].push(self.now, frame);
    }

    fn arrive(&mut self, end: usize, path: usize, frame: Frame) {
        let (at, now) = (self.now, clock(end, self.now));
        let End { dispatcher, paths, .. } = &mut self.ends[end];
        let before = paths[path].received;
        let len = frame.packet.len() as u64;
        paths[path].received =
            Reading { packets: before.packets + 1, bytes: before.bytes + len, at_us: 0 };
        if let Some(text) = frame.request {
            for (path, packet) in dispatcher.handle_request(now, &text) {
                self.transmit(end, path, packet, None);
            }
            return;
        }
        let Some(report) = frame.report else {
            if dispatcher.takes(now, path, &frame.packet) {
                self.ends[end].give(at, &frame.packet);
            }
            return self.deliver(end);
        };
        let received = Reading { at_us: now.0 / 1000, ..before };
        let sample = Sample { sent: report.marker, received };
        paths[path].heard = Some(sample);
        paths[path].asked |= report.asks;
        paths[path].urged |= report.urges;
        let news = News { sent: report.heard, heard: Some(sample) };
        dispatcher.handle_news(now, PathId(path as u8), (news, Estimate::default));
    }

    fn report(&mut self, end: usize, path: usize) {
        let (at, now) = (self.now, clock(end, self.now));
        let Path { sent, heard, reported, asked, urged, .. } = self.ends[end].paths[path];
        let bytes = sent.bytes - reported.1;
        let busy = bytes >= WORTH;
        let due = |interval| at - reported.0 >= interval;
        let asks = self.ends[end].dispatcher.asks_marker(now, PathId(path as u8)) && due(ASKED);
        let unsure = self.ends[end].dispatcher.is_unsure(now, PathId(path as u8));
        let urges = unsure && bytes >= HURRY_BYTES && due(HURRY);
        if !(asks || due(REPORTS) && (busy || asked) || due(HURRY) && asked && urged || urges) {
            return;
        }
        let marker = Reading { at_us: now.0 / 1000, ..sent };
        let report = Report { marker, heard, asks: busy || asks, urges };
        self.transmit(end, PathId(path as u8), vec![0; REPORT], Some(report));
        let Path { sent, reported, asked, urged, .. } = &mut self.ends[end].paths[path];
        (*reported, *asked, *urged) = ((at, sent.bytes), false, false);
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
