//! A tiny virtual network for two endpoints: one delay and rate per path, and a closure that sees
//! every segment and may change or lose it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::event::{ConnId, Event};
use tabane_engine::mptcp::Info;
use tabane_engine::record::Record;
use tabane_engine::view::PathId;
use tabane_engine::{Connection, Duration, Endpoint, Instant};
use tabane_wire::Segment;

/// What a filter sees of a segment.
pub struct Crossing<'a> {
    pub now: Instant,
    /// True from client to server.
    pub up: bool,
    pub path: PathId,
    /// How many segments went this way before.
    pub index: u64,
    pub segment: &'a mut Segment,
}

/// Returns whether the segment goes on.
pub type Filter = Box<dyn FnMut(&mut Crossing<'_>) -> bool>;

pub struct Net {
    pub now: Instant,
    pub client: Host,
    pub server: Host,
    /// One-way delay and bytes per second by path.
    pub links: BTreeMap<PathId, (Duration, u64)>,
    busy: BTreeMap<(PathId, bool), Instant>,
    flights: BinaryHeap<Reverse<Flight>>,
    order: u64,
    pub filter: Filter,
    crossed: [u64; 2],
    /// Segments through bytes.
    pub wire: bool,
    /// Seed and per mille of segments that come up to 30 ms late, overtaken; as many come twice.
    pub late: Option<(u64, u64)>,
}

struct Flight {
    at: Instant,
    order: u64,
    up: bool,
    path: PathId,
    segment: Segment,
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Flight {}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// An endpoint with an application: sends `to_send`, reads if `reading`, closes when told.
pub struct Host {
    pub endpoint: Endpoint,
    pub conns: BTreeMap<ConnId, App>,
    pub events: Vec<(Instant, ConnId, Event)>,
    pub records: Vec<Record>,
    /// For connections accepted: what to send, whether to close after it.
    pub answer: (Bytes, bool),
    /// The last one sent.
    pub segment: Segment,
}

#[derive(Default)]
pub struct App {
    pub to_send: Bytes,
    pub close_after: bool,
    pub closed: bool,
    pub received: Vec<u8>,
    pub paused: bool,
    pub finished: bool,
    pub over: bool,
}

pub fn addr(host: u8, path: u8) -> IpAddr {
    IpAddr::from([10, path, 0, host])
}

pub fn data(len: usize) -> Bytes {
    let mut x = 0x2545_f491_4f6c_dd1du64;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

pub fn config(host: u8, paths: u8) -> Config {
    let path = |id| PathConfig::new(PathId(id), vec![addr(host, id)], 1500);
    let mut config = Config::default().with(|c| c.paths = (0..paths).map(path).collect());
    config.records = true;
    config
}

impl Host {
    fn new(config: Config, seed: u8) -> Self {
        Self {
            endpoint: Endpoint::new(config, [seed; 32]).unwrap(),
            conns: BTreeMap::new(),
            events: Vec::new(),
            records: Vec::new(),
            answer: (Bytes::new(), true),
            segment: Segment::blank(),
        }
    }

    /// Takes events; whether there were any.
    fn take_events(&mut self, now: Instant) -> bool {
        let before = self.events.len();
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.events.push((now, id, event));
            if let Event::Accepted { .. } = event {
                let (to_send, close_after) = self.answer.clone();
                self.conns.insert(id, App { to_send, close_after, ..App::default() });
            }
            if let Event::Closed(_) = event
                && let Some(app) = self.conns.get_mut(&id)
            {
                app.over = true;
                assert!(self.endpoint.connection(id).is_none(), "gone after Closed");
            }
        }
        while let Some(record) = self.endpoint.poll_record() {
            self.records.push(record);
        }
        self.events.len() > before
    }

    /// Applications write and read.
    fn work(&mut self, now: Instant) {
        for (id, app) in &mut self.conns {
            if app.over {
                continue;
            }
            let Some(conn) = self.endpoint.connection(*id) else { continue };
            app.run(now, conn);
        }
    }

    pub fn conn(&mut self, id: ConnId) -> &mut Connection {
        self.endpoint.connection(id).expect("still there")
    }

    pub fn only(&self) -> ConnId {
        assert_eq!(self.conns.len(), 1);
        *self.conns.keys().next().unwrap()
    }

    pub fn app(&mut self) -> &mut App {
        let id = self.only();
        self.conns.get_mut(&id).unwrap()
    }

    pub fn has(&self, event: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(|(_, _, e)| event(e))
    }

    pub fn count(&self, event: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, _, e)| event(e)).count()
    }
}

impl App {
    fn run(&mut self, now: Instant, conn: &mut Connection) {
        while !self.to_send.is_empty() && conn.write(&mut self.to_send) > 0 {}
        if !self.paused {
            while let Some(data) = conn.read(usize::MAX) {
                self.received.extend_from_slice(&data);
            }
        }
        self.finished = conn.is_finished();
        if self.to_send.is_empty() && self.close_after && !self.closed {
            self.closed = true;
            conn.close(now);
        }
    }
}

impl Net {
    pub fn new(client: Config, server: Config) -> Self {
        let mut net = Self {
            now: Instant(1_000_000_000),
            links: client.paths.iter().map(|p| (p.id, (ms(10), 12_500_000))).collect(),
            client: Host::new(client, 1),
            server: Host::new(server, 2),
            busy: BTreeMap::new(),
            flights: BinaryHeap::new(),
            order: 0,
            filter: Box::new(|_| true),
            crossed: [0; 2],
            wire: false,
            late: None,
        };
        net.server.endpoint.listen("0.0.0.0:80".parse().unwrap()).unwrap();
        net
    }

    pub fn pair(paths: u8) -> Self {
        Self::new(config(1, paths), config(2, paths))
    }

    /// Connects on path 0; the client sends `data` and closes if `close`.
    pub fn connect(&mut self, data: Bytes, close: bool) -> ConnId {
        let (local, remote) = (SocketAddr::new(addr(1, 0), 0), SocketAddr::new(addr(2, 0), 80));
        let id = self.client.endpoint.connect(self.now, local, remote).unwrap();
        let app = App { to_send: data, close_after: close, ..App::default() };
        self.client.conns.insert(id, app);
        id
    }

    fn drain(&mut self) {
        let crossed = self.crossed;
        loop {
            assert!(self.crossed[0] + self.crossed[1] < crossed[0] + crossed[1] + 100_000);
            let mut any = false;
            for up in [true, false] {
                let (now, wire) = (self.now, self.wire);
                any |= self.host(up).take_events(now);
                self.host(up).work(now);
                while let Some((paths, segment)) = next(self.host(up), now, wire) {
                    any = true;
                    for path in paths.iter() {
                        self.launch(up, path, segment.clone());
                    }
                }
                any |= self.host(up).take_events(now);
            }
            if !any {
                return;
            }
        }
    }

    fn host(&mut self, up: bool) -> &mut Host {
        if up { &mut self.client } else { &mut self.server }
    }

    fn launch(&mut self, up: bool, path: PathId, mut segment: Segment) {
        let index = self.crossed[usize::from(up)];
        self.crossed[usize::from(up)] += 1;
        if std::env::var_os("TRACE").is_some() {
            eprintln!("{:>12} {} {} {segment}", self.now.0, if up { "->" } else { "<-" }, path.0);
        }
        // The path is that of the client's address, whatever the sender calls it.
        let mut crossing = Crossing { now: self.now, up, path, index, segment: &mut segment };
        if !(self.filter)(&mut crossing) {
            return;
        }
        let (delay, rate) = self.links[&path];
        let busy = self.busy.entry((path, up)).or_insert(self.now);
        let start = (*busy).max(self.now);
        let time = Duration(segment.wire_len() as u64 * 1_000_000_000 / rate);
        if start + time > self.now + ms(100) {
            return; // drop-tail, in time
        }
        *busy = start + time;
        self.order += 1;
        let mut at = start + time + delay;
        if let Some((seed, rate)) = &mut self.late {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let draw = *seed >> 33;
            if draw % 1000 < *rate {
                let copy = Flight { at, order: self.order, up, path, segment: segment.clone() };
                if draw % 2 == 0 {
                    self.flights.push(Reverse(copy));
                    self.order += 1;
                }
                at += Duration(draw % 30_000_000);
            }
        }
        self.flights.push(Reverse(Flight { at, order: self.order, up, path, segment }));
    }

    /// Runs until `until` answers true or `limit` has passed; whether it did.
    pub fn run(&mut self, limit: Duration, mut until: impl FnMut(&mut Net) -> bool) -> bool {
        let end = self.now + limit;
        let mut standing = (self.now, 0);
        loop {
            standing =
                if standing.0 == self.now { (self.now, standing.1 + 1) } else { (self.now, 0) };
            assert!(standing.1 < 100_000, "time stands still at {:?}", self.now);
            self.drain();
            if until(self) {
                return true;
            }
            let arrival = self.flights.peek().map(|Reverse(f)| f.at);
            let timers = [&self.client, &self.server].map(|h| h.endpoint.poll_timeout());
            let next = timers.into_iter().flatten().chain(arrival).min();
            match next {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => {
                    self.now = end;
                    return false;
                }
            }
            while let Some(Reverse(flight)) = self.flights.peek()
                && flight.at <= self.now
            {
                let Reverse(flight) = self.flights.pop().unwrap();
                self.arrive(flight);
            }
            for host in [&mut self.client, &mut self.server] {
                if host.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                    host.endpoint.handle_timeout(self.now);
                }
            }
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let host = if flight.up { &mut self.server } else { &mut self.client };
        if self.wire {
            let mut buffer = [0; 65_536];
            let len = flight.segment.emit(&mut buffer).unwrap();
            host.endpoint.handle_packet(self.now, flight.path, &buffer[..len]);
        } else {
            host.endpoint.handle_segment(self.now, flight.path, &flight.segment);
        }
    }

    pub fn sleep(&mut self, time: Duration) {
        self.run(time, |_| false);
    }

    /// Both ends over.
    pub fn over(&mut self) -> bool {
        let all = |h: &Host| !h.conns.is_empty() && h.conns.values().all(|a| a.over);
        all(&self.client) && all(&self.server)
    }

    pub fn client_info(&mut self) -> Info {
        let (id, now) = (self.client.only(), self.now);
        self.client.conn(id).info(now)
    }

    pub fn server_info(&mut self) -> Info {
        let (id, now) = (self.server.only(), self.now);
        self.server.conn(id).info(now)
    }
}

fn next(
    host: &mut Host,
    now: Instant,
    wire: bool,
) -> Option<(tabane_engine::view::PathSet, Segment)> {
    if wire {
        let mut buffer = [0; 65_536];
        let transmit = host.endpoint.poll_transmit(now, &mut buffer)?;
        let segment = Segment::parse_slice(&buffer[..transmit.len]).expect("ours is well-formed");
        return Some((transmit.paths, segment));
    }
    // In place of the one before, of which nothing may be left.
    let paths = host.endpoint.poll_into(now, &mut host.segment)?;
    assert!(host.segment.options.emitted_len() <= 40, "{:?}", host.segment);
    Some((paths, host.segment.clone()))
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
