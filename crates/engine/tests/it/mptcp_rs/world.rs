//! Their client, our server, two links between them, a queue of packets in virtual time.

use bytes::Bytes;
use mptcp_rs::{ConnectConfig, ConnectionHandle, Event as TheirEvent, SubflowId as TheirSubflow};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::config::PathConfig;
use tabane_engine::mptcp::Info;
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathId;
use tabane_engine::{Config, ConnId, Connection, Endpoint, Event, Instant};

const PORT: u16 = 5201;
const MTU: u16 = 1500;

/// Which IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What the client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    Mptcp,
    Tcp,
}

/// A link, alike in both directions.
pub(crate) struct Link {
    /// Bits a second.
    pub(crate) rate: u64,
    /// One way, ns.
    pub(crate) delay: u64,
    /// Probability.
    pub(crate) loss: f64,
    /// Swallows everything.
    pub(crate) down: bool,
    free_at: [u64; 2],
}

/// Packets that may wait for the rate of a link, in time: more are dropped.
const QUEUE_NS: u64 = 100_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    ToUs = 0,
    ToThem = 1,
}

/// Everything.
pub(crate) struct World {
    /// Path 1 (index 0) and path 2.
    pub(crate) links: [Link; 2],
    /// For the client's connection.
    pub(crate) config: ConnectConfig,
    /// Payload delivered, by path.
    pub(crate) payload_to_us: [u64; 2],
    pub(crate) payload_to_them: [u64; 2],
    pub(crate) we_sent: Vec<u8>,
    pub(crate) we_got: Vec<u8>,
    pub(crate) they_sent: Vec<u8>,
    pub(crate) they_got: Vec<u8>,
    pub(crate) they_got_end: bool,
    /// Whether their application reads.
    pub(crate) they_read: bool,
    pub(crate) our_events: Vec<Event>,
    pub(crate) their_events: Vec<TheirEvent>,
    /// Packets sent by either.
    pub(crate) packets: u64,
    /// Hash of all of them and their times.
    pub(crate) trace: u64,
    family: Family,
    speaks: Speaks,
    us: Endpoint,
    them: mptcp_rs::Endpoint<ChaCha20Rng>,
    conn: Option<ConnId>,
    handle: Option<ConnectionHandle>,
    subflow: Option<TheirSubflow>,
    now: u64,
    opened: u64,
    flying: BTreeMap<(u64, u64), (Direction, usize, Vec<u8>)>,
    rng: ChaCha20Rng,
    buffer: Vec<u8>,
    to_write: (Bytes, usize),
}

impl World {
    pub(crate) fn new(family: Family, seed: u64, speaks: Speaks) -> Self {
        let path = |n: u8| PathConfig::new(PathId(n - 1), vec![address(family, 1, n)], MTU);
        let config = Config::default().with(|c| c.paths = vec![path(1), path(2)]);
        let mut us = Endpoint::new(config, [seed as u8; 32]).unwrap();
        us.listen(SocketAddr::new(address(family, 1, 1), PORT)).unwrap();
        us.listen(SocketAddr::new(address(family, 1, 2), PORT)).unwrap();
        let link = |rate, delay_ms: u64| {
            let delay = delay_ms * 1_000_000;
            Link { rate, delay, loss: 0.0, down: false, free_at: [0; 2] }
        };
        Self {
            links: [link(20_000_000, 10), link(10_000_000, 25)],
            config: ConnectConfig::default(),
            payload_to_us: [0; 2],
            payload_to_them: [0; 2],
            we_sent: Vec::new(),
            we_got: Vec::new(),
            they_sent: Vec::new(),
            they_got: Vec::new(),
            they_got_end: false,
            they_read: true,
            our_events: Vec::new(),
            their_events: Vec::new(),
            packets: 0,
            trace: 0,
            family,
            speaks,
            us,
            them: mptcp_rs::Endpoint::new(ChaCha20Rng::seed_from_u64(seed)),
            conn: None,
            handle: None,
            subflow: None,
            now: 1_000_000_000,
            opened: 0,
            flying: BTreeMap::new(),
            rng: ChaCha20Rng::seed_from_u64(seed ^ 0xfeed),
            buffer: vec![0; 65_536],
            to_write: (Bytes::new(), 0),
        }
    }

    /// Connects.
    pub(crate) fn open(&mut self) {
        let (local, remote) = (address(self.family, 0, 1), self.our_address(1));
        let (now, config) = (mptcp_rs::Instant::from_nanos(self.now), self.config.clone());
        let connected = match self.speaks {
            Speaks::Mptcp => self.them.connect_mptcp(now, local, remote, config),
            Speaks::Tcp => self.them.connect(now, local, remote, config),
        };
        self.handle = Some(connected.unwrap());
        self.run("the handshake", 20_000_000_000, |w| {
            w.conn.is_some()
                && w.their_events.iter().any(|e| matches!(e, TheirEvent::Connected { .. }))
        });
        if self.speaks == Speaks::Mptcp {
            self.greet();
        }
        self.opened = self.now;
    }

    /// A request, as most protocols begin: a host has no second subflow before it has seen a DSS.
    fn greet(&mut self) {
        self.send_from_them(100);
        self.run("the request", 20_000_000_000, |w| w.we_got.len() == 100);
        assert!(self.we_got == self.they_sent, "the request arrived damaged");
        self.we_got.clear();
        self.they_sent.clear();
        self.to_write.1 = 0;
        self.payload_to_us = [0; 2];
    }

    /// Their second address joins at our first.
    pub(crate) fn join(&mut self, backup: bool) {
        self.join_from(address(self.family, 0, 2), self.our_address(1), backup);
    }

    /// Their first address joins at `remote`.
    pub(crate) fn join_at(&mut self, remote: SocketAddr) {
        self.join_from(address(self.family, 0, 1), remote, false);
    }

    fn join_from(&mut self, local: IpAddr, remote: SocketAddr, backup: bool) {
        let (now, handle) = (mptcp_rs::Instant::from_nanos(self.now), self.handle.unwrap());
        let joined = self.them.add_subflow(now, handle, local, remote, MTU, backup);
        self.subflow = Some(joined.unwrap());
    }

    pub(crate) fn set_their_backup(&mut self, backup: bool) {
        let (now, handle) = (mptcp_rs::Instant::from_nanos(self.now), self.handle.unwrap());
        self.them.set_backup(now, handle, self.subflow.unwrap(), backup).unwrap();
    }

    pub(crate) fn remove_their_address(&mut self, n: u8) {
        let (now, handle) = (mptcp_rs::Instant::from_nanos(self.now), self.handle.unwrap());
        self.them.remove_address(now, handle, address(self.family, 0, n)).unwrap();
    }

    pub(crate) fn our_address(&self, n: u8) -> SocketAddr {
        SocketAddr::new(address(self.family, 1, n), PORT)
    }

    pub(crate) fn client(&mut self) -> &mut mptcp_rs::Connection {
        self.them.connection(self.handle.unwrap()).unwrap()
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.us.connection(self.conn.unwrap()).unwrap()
    }

    pub(crate) fn info(&mut self) -> Info {
        let now = self.now();
        self.connection().info(now)
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(self.now)
    }

    /// Since the connection was opened.
    pub(crate) fn seconds(&self) -> f64 {
        (self.now - self.opened) as f64 / 1e9
    }

    pub(crate) fn our_close(&self) -> Option<CloseReason> {
        self.our_events.iter().find_map(|event| match event {
            Event::Closed(reason) => Some(*reason),
            _ => None,
        })
    }

    pub(crate) fn close_us(&mut self) {
        let now = self.now();
        self.connection().close(now);
    }

    pub(crate) fn abort_us(&mut self) {
        let now = self.now();
        self.connection().abort(now);
    }

    pub(crate) fn close_them(&mut self) {
        self.client().close();
    }

    pub(crate) fn send_from_us(&mut self, len: usize) {
        self.we_sent = self.noise(len);
        self.to_write.0 = Bytes::from(self.we_sent.clone());
    }

    pub(crate) fn send_from_them(&mut self, len: usize) {
        self.they_sent = self.noise(len);
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.rng.fill_bytes(&mut data);
        data
    }

    /// Runs until `done`; panics with `what` if that takes longer than `limit` ns.
    pub(crate) fn run(&mut self, what: &str, limit: u64, done: impl Fn(&mut Self) -> bool) {
        let end = self.now + limit;
        loop {
            self.run_until_idle();
            if done(self) {
                return;
            }
            // To look at a connection is to touch it: the endpoint wants to be asked again.
            self.run_until_idle();
            assert!(self.now < end && self.step(end), "{what} not within {limit} ns; {self}");
        }
    }

    /// Runs for `time` ns.
    pub(crate) fn run_for(&mut self, time: u64) {
        let end = self.now + time;
        self.run_until_idle();
        while self.step(end) {
            self.run_until_idle();
        }
        self.now = end;
    }

    /// Moves to the next thing that happens, and does it; false if that is after `end`.
    fn step(&mut self, end: u64) -> bool {
        let arrival = self.flying.keys().next().map(|key| key.0);
        let theirs = self.them.poll_timeout().map(mptcp_rs::Instant::as_nanos);
        let ours = self.us.poll_timeout().map(|at| at.0);
        let Some(next) = [arrival, theirs, ours].into_iter().flatten().min() else { return false };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (direction, path, packet) = entry.remove();
            self.arrive(direction, path, &packet);
        }
        if self.us.poll_timeout().is_some_and(|at| at.0 <= self.now) {
            self.us.handle_timeout(Instant(self.now));
        }
        let now = mptcp_rs::Instant::from_nanos(self.now);
        if self.them.poll_timeout().is_some_and(|at| at <= now) {
            self.them.handle_timeout(now);
        }
        true
    }

    fn arrive(&mut self, direction: Direction, path: usize, packet: &[u8]) {
        let payload = payload_len(packet);
        if direction == Direction::ToUs {
            self.payload_to_us[path] += payload;
            let local = PathId(number(packet, true) - 1);
            self.us.handle_packet(Instant(self.now), local, packet);
        } else {
            self.payload_to_them[path] += payload;
            self.them.handle_packet(mptcp_rs::Instant::from_nanos(self.now), packet);
        }
    }

    /// Lets applications act and both sides send, until nothing more happens at this time.
    fn run_until_idle(&mut self) {
        loop {
            let before = self.packets;
            self.our_application();
            self.their_application();
            let now = mptcp_rs::Instant::from_nanos(self.now);
            while let Some(len) = self.them.poll_transmit(now, &mut self.buffer) {
                let packet = self.buffer[..len].to_vec();
                self.depart(Direction::ToUs, packet);
            }
            while let Some(sent) = self.us.poll_transmit(Instant(self.now), &mut self.buffer) {
                let packet = self.buffer[..sent.len].to_vec();
                assert_eq!(sent.paths.len(), 1, "a copy by another path");
                self.depart(Direction::ToThem, packet);
            }
            if self.packets == before {
                return;
            }
        }
    }

    fn our_application(&mut self) {
        while let Some((id, event)) = self.us.poll_event() {
            if matches!(event, Event::Accepted { .. }) {
                self.conn = Some(id);
            }
            self.our_events.push(event);
        }
        let Some(connection) = self.conn.and_then(|id| self.us.connection(id)) else { return };
        if !self.to_write.0.is_empty() {
            connection.write(&mut self.to_write.0);
        }
        while let Some(data) = connection.read(usize::MAX) {
            self.we_got.extend_from_slice(&data);
        }
    }

    fn their_application(&mut self) {
        while let Some((_, event)) = self.them.poll_event() {
            self.their_events.push(event);
        }
        let Some(client) = self.handle.and_then(|handle| self.them.connection(handle)) else {
            return;
        };
        while self.to_write.1 < self.they_sent.len() {
            match client.write(&self.they_sent[self.to_write.1..]) {
                Ok(taken) if taken > 0 => self.to_write.1 += taken,
                _ => break,
            }
        }
        let mut block = [0u8; 16_384];
        while self.they_read && !self.they_got_end {
            match client.read(&mut block) {
                Ok(0) => self.they_got_end = true,
                Ok(len) => self.they_got.extend_from_slice(&block[..len]),
                Err(_) => break,
            }
        }
    }

    /// A packet enters the link that belongs to its addresses.
    fn depart(&mut self, direction: Direction, packet: Vec<u8>) {
        self.packets += 1;
        // A path of exact MTU.
        let len = packet.len();
        assert!(len <= usize::from(MTU), "{len} bytes are too long ({direction:?})");
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u64(self.trace);
        hasher.write_u64(self.now);
        hasher.write(&packet);
        self.trace = hasher.finish();
        let path = usize::from(number(&packet, true).max(number(&packet, false)) - 1);
        let link = &mut self.links[path];
        let start = link.free_at[direction as usize].max(self.now);
        let lost = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if start > self.now + QUEUE_NS {
            return;
        }
        let sent = start + packet.len() as u64 * 8 * 1_000_000_000 / link.rate;
        link.free_at[direction as usize] = sent;
        if !link.down && lost >= link.loss {
            self.flying.insert((sent + link.delay, self.packets), (direction, path, packet));
        }
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "at {} s, {} packets", self.now as f64 / 1e9, self.packets)?;
        writeln!(f, "  we sent {} got {}", self.we_sent.len(), self.we_got.len())?;
        writeln!(f, "  they sent {} got {}", self.they_sent.len(), self.they_got.len())?;
        writeln!(f, "  payload to us {:?} to them {:?}", self.payload_to_us, self.payload_to_them)?;
        writeln!(f, "  our events {:?}", self.our_events)?;
        write!(f, "  their events {:?}", self.their_events)
    }
}

/// Address `n` (1 or 2) of a side: 0 is theirs, 1 ours.
fn address(family: Family, side: u8, n: u8) -> IpAddr {
    let text = match family {
        Family::V4 => format!("10.{side}.{n}.9"),
        Family::V6 => format!("fd00:{side}:{n}::9"),
    };
    text.parse().unwrap()
}

/// The number of the destination's or source's address, as [`address`] gives it.
fn number(packet: &[u8], destination: bool) -> u8 {
    let at = if packet[0] >> 4 == 4 { 14 } else { 13 };
    let len = if packet[0] >> 4 == 4 { 4 } else { 16 };
    packet[at + if destination { len } else { 0 }]
}

fn payload_len(packet: &[u8]) -> u64 {
    let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
    packet.len() as u64 - header - u64::from(packet[header as usize + 12] >> 4) * 4
}
