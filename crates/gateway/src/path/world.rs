//! A client's and a server's end of one path in virtual time, for tests: directions with delay,
//! loss, a largest packet and a switch, and data that flows while an end takes the path for
//! usable.

use super::monitor::{Demand, Monitor, MonitorConfig, PathEvent};
use super::probe::Ends;
use super::reason::LinkState;
use super::responder::Responder;
use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use std::collections::BTreeMap;
use tabane_engine::{Duration, Instant};

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) monitor: Monitor,
    pub(super) responder: Responder,
    /// From the client to the server, and back.
    pub(super) direction: [Direction; 2],
    /// What the monitor said, and when.
    pub(super) client: Vec<(Instant, PathEvent)>,
    pub(super) server: Vec<(Instant, PathEvent)>,
    /// When probes left, and their sizes.
    pub(super) probes: Vec<(Instant, usize)>,
    pub(super) handshakes: usize,
    /// Between data packets of either end.
    pub(super) data: Option<Duration>,
    next_data: Instant,
    flight: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    seed: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Direction {
    pub(super) delay: Duration,
    pub(super) loss: f64,
    pub(super) dead: bool,
    pub(super) mtu: usize,
    last: Instant,
}

const SERVER: usize = 0;
const CLIENT: usize = 1;

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl World {
    /// A path that has just got its keys, with connections open, 10 ms each way.
    pub(super) fn new(seed: u64) -> Self {
        Self::with_family(seed, 0)
    }

    pub(super) fn with_family(seed: u64, family: usize) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let network = Network::default();
        let ends = Ends {
            path: network.path(ClientNumber(1), PathIndex::new(0))[family],
            service: network.service()[family],
        };
        let config = MonitorConfig { ends, path: 0, run: 77, interval: super::INTERVAL, mtu: None };
        let mut monitor = Monitor::new(now, config);
        monitor.handle_link(now, LinkState::Ready { limit: 1440 });
        monitor.handle_session(now, true);
        monitor.handle_demand(now, Demand { open: true, standby: false, alone: false });
        let direction =
            Direction { delay: ms(10), loss: 0.0, dead: false, mtu: 1500, last: Instant::ZERO };
        Self {
            now,
            monitor,
            responder: Responder::new(now, network.service()),
            direction: [direction; 2],
            client: Vec::new(),
            server: Vec::new(),
            probes: Vec::new(),
            handshakes: 0,
            data: None,
            next_data: now,
            flight: BTreeMap::new(),
            sent: 0,
            seed,
        }
    }

    pub(super) fn kill(&mut self, dead: bool) {
        self.direction[0].dead = dead;
        self.direction[1].dead = dead;
    }

    /// What is sent from now on arrives no sooner than this, and all of it.
    pub(super) fn hold(&mut self, span: Duration) {
        for direction in &mut self.direction {
            direction.last = self.now + span;
        }
    }

    pub(super) fn loss(&mut self, loss: f64) {
        self.direction[0].loss = loss;
        self.direction[1].loss = loss;
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.drain();
            let flight = self.flight.keys().next().map_or(Instant::FAR_FUTURE, |key| key.0);
            let data = if self.data.is_some() { self.next_data } else { Instant::FAR_FUTURE };
            let ends = self.monitor.poll_timeout().min(self.responder.poll_timeout());
            let next = flight.min(data).min(ends);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            while let Some(entry) = self.flight.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, packet) = entry.remove();
                self.arrive(to, &packet);
            }
            if self.data.is_some() && self.next_data <= self.now {
                self.send_data();
            }
        }
    }

    fn drain(&mut self) {
        let now = self.now;
        self.monitor.handle_timeout(now);
        self.responder.handle_timeout(now);
        let mut buffer = [0; 1500];
        while let Some(length) = self.monitor.poll_probe(now, &mut buffer) {
            self.probes.push((now, length));
            self.send(SERVER, buffer[..length].to_vec());
        }
        self.handshakes += usize::from(self.monitor.poll_handshake(now));
        while let Some(event) = self.monitor.poll_event() {
            self.client.push((now, event));
        }
        while let Some(event) = self.responder.poll_event() {
            self.server.push((now, event));
        }
        assert!(self.monitor.poll_timeout() > now, "it does not spin");
        assert!(self.responder.poll_timeout() > now, "it does not spin");
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        if to == CLIENT {
            self.monitor.handle_packet(self.now, packet);
        } else if let Some(answer) = self.responder.handle_packet(self.now, packet) {
            self.send(CLIENT, answer);
        }
    }

    fn send_data(&mut self) {
        self.next_data = self.now + self.data.unwrap_or(Duration::MAX);
        let mut packet = vec![0; 100];
        packet[0] = 0x45;
        packet[9] = 6;
        if self.monitor.is_up() {
            self.send(SERVER, packet.clone());
        }
        if self.responder.is_up() {
            self.send(CLIENT, packet);
        }
    }

    fn send(&mut self, to: usize, packet: Vec<u8>) {
        let lost = self.draw() < self.direction[to].loss;
        let direction = &mut self.direction[to];
        if lost || direction.dead || packet.len() > direction.mtu {
            return;
        }
        direction.last = direction.last.max(self.now + direction.delay);
        self.sent += 1;
        self.flight.insert((direction.last, self.sent), (to, packet));
    }

    /// From 0 to 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Changes of state of the client, without MTUs.
    pub(super) fn changes(&self) -> Vec<(Instant, bool)> {
        changes(&self.client)
    }
}

pub(super) fn changes(events: &[(Instant, PathEvent)]) -> Vec<(Instant, bool)> {
    let change = |(at, event): &(Instant, PathEvent)| match event {
        PathEvent::Up => Some((*at, true)),
        PathEvent::Down(_) => Some((*at, false)),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}
