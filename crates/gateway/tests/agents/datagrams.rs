//! Datagrams over two paths: doubled, spread and put in order again, or protected.

use super::bed::{Agent, Keys, LONG, associate};
use super::wire::Wire;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tabane_gateway::config::{Policies, Protect, Rule, UdpMode};
use tabane_gateway::model::{PathState, Status};

/// Both agents, with a wire for each path, and an association with a far end that sends back what
/// it takes.
struct Bed {
    client: Agent,
    server: Agent,
    wires: [Wire; 2],
    _control: TcpStream,
    relay: SocketAddr,
    program: UdpSocket,
    far: SocketAddr,
    /// Numbers in the order in which the far end had them.
    heard: Arc<Mutex<Vec<u32>>>,
}

impl Bed {
    /// The first wire takes so long for each datagram.
    fn new(mode: UdpMode, pace: Duration) -> Self {
        let keys = Keys::new();
        let server = Agent::server(keys.server_config("127.0.0.1:0".parse().unwrap()));
        let wires = [Wire::slow(server.at, pace), Wire::to(server.at)];
        let mut config = keys.client_config(&[server.at]);
        for (path, wire) in config.path.iter_mut().zip(&wires) {
            path.remote = Some(wire.near);
        }
        let policies = Policies { udp: Some(mode), ..Policies::default() };
        config.rule = vec![Rule {
            protocol: Some("udp".into()),
            up: policies.clone(),
            down: policies,
            ..Rule::default()
        }];
        let client = Agent::client(config);
        client.until_paths_work();
        server.until("up", |s| s.paths.iter().filter(|p| p.rx_packets > 0).count() == 2);
        let (control, relay) = associate(client.at);
        let program = UdpSocket::bind("127.0.0.1:0").unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let far = echo(heard.clone());
        Self { client, server, wires, _control: control, relay, program, far, heard }
    }

    fn send(&self, number: u32) {
        let port = self.far.port().to_be_bytes();
        let head = [&[0, 0, 0, 1, 127, 0, 0, 1][..], &port].concat();
        self.program.send_to(&[&head[..], &number.to_be_bytes()].concat(), self.relay).unwrap();
    }

    /// So many datagrams, four at a time: the far end gets all of them as they were sent, and its
    /// answers come back so. Not more than the program's socket holds until it reads: 256 with the
    /// system's defaults.
    #[track_caller]
    fn all_come_in_order(&self, count: u32) {
        for number in 0..count {
            self.send(number);
            if number % 4 == 3 {
                thread::sleep(Duration::from_millis(4));
            }
        }
        let (back, heard) = (self.back(Duration::from_millis(300)), self.heard());
        let all: Vec<u32> = (0..count).collect();
        assert_eq!((&heard, &back), (&all, &all));
    }

    /// What has come back, until nothing has for so long.
    fn back(&self, patience: Duration) -> Vec<u32> {
        self.program.set_read_timeout(Some(patience)).unwrap();
        let (mut buffer, mut all) = ([0; 2048], Vec::new());
        while let Ok((len, _)) = self.program.recv_from(&mut buffer) {
            all.push(u32::from_be_bytes(buffer[len - 4..len].try_into().unwrap()));
        }
        all
    }

    /// What the far end has heard since it was asked last.
    fn heard(&self) -> Vec<u32> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// Datagrams until the server has heard what is wanted of it: `counter` of the client grows.
    fn until_told(&self, counter: &str) {
        let start = Instant::now();
        while count(&self.client.status(), counter) == 0 {
            assert!(start.elapsed() < LONG, "{:#?}", self.client.status());
            (0..4).for_each(|_| self.send(u32::MAX));
            self.back(Duration::from_millis(50));
        }
        self.back(Duration::from_millis(200));
        self.heard.lock().unwrap().clear();
    }

    /// Packets sent by each path: of the client, then of the server.
    fn sent(&self) -> [u64; 4] {
        let all = [self.client.status(), self.server.status()];
        let all: Vec<u64> = all.iter().flat_map(|s| &s.paths).map(|p| p.tx_packets).collect();
        all.try_into().unwrap()
    }
}

fn count(status: &Status, counter: &str) -> u64 {
    status.counters.iter().find(|(name, _)| name == counter).unwrap().1
}

fn echo(heard: Arc<Mutex<Vec<u32>>>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let number = u32::from_be_bytes(buffer[..len].try_into().unwrap());
            heard.lock().unwrap().push(number);
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    at
}

#[test]
fn copies_arrive_once_and_outlive_a_wire() {
    // Not more than the program's socket holds until it reads: 256 with the system's defaults.
    const COUNT: u32 = 200;
    let bed = Bed::new(UdpMode::Duplicate, Duration::ZERO);
    bed.until_told("datagram_copies_removed");
    let before = bed.sent();
    for number in 0..COUNT {
        bed.send(number);
        thread::sleep(Duration::from_millis(2));
    }
    let (mut back, mut heard) = (bed.back(Duration::from_millis(300)), bed.heard());
    let sent = bed.sent();
    assert!((0..4).all(|i| sent[i] - before[i] >= u64::from(COUNT)), "{before:?} {sent:?}");
    let all: Vec<u32> = (0..COUNT).collect();
    back.sort_unstable();
    heard.sort_unstable();
    assert_eq!((&heard, &back), (&all, &all));
    for (name, agent) in [("client", &bed.client), ("server", &bed.server)] {
        let copies = count(&agent.status(), "datagram_copies_removed");
        assert!(copies >= u64::from(COUNT), "{name}: {copies}");
    }
    // One wire drops everything from the middle on, before anyone knows.
    for number in 0..COUNT {
        if number == COUNT / 2 {
            bed.wires[0].cut(true);
        }
        bed.send(number);
        thread::sleep(Duration::from_millis(2));
    }
    let (mut back, mut heard) = (bed.back(Duration::from_millis(300)), bed.heard());
    back.sort_unstable();
    heard.sort_unstable();
    assert_eq!((&heard, &back), (&all, &all));
}

#[test]
fn what_is_spread_keeps_its_order() {
    // One wire takes 200 datagrams a second, fewer than are sent.
    let bed = Bed::new(UdpMode::Bond, Duration::from_millis(5));
    // From the first on: the server has only just been told which paths work.
    bed.all_come_in_order(200);
}

#[test]
fn a_flow_goes_on_after_a_pause_and_after_an_outage() {
    let bed = Bed::new(UdpMode::Bond, Duration::from_millis(5));
    bed.all_come_in_order(40);
    // Longer than after which numbers may begin anew.
    thread::sleep(Duration::from_millis(2500));
    bed.all_come_in_order(40);
    bed.wires.iter().for_each(|wire| wire.cut(true));
    bed.client.until("down", |s| s.paths.iter().all(|path| path.state != PathState::Up));
    bed.wires.iter().for_each(|wire| wire.cut(false));
    bed.client.until("up", |s| s.paths.iter().any(|path| path.state == PathState::Up));
    bed.all_come_in_order(40);
}

#[test]
fn what_a_wire_swallows_is_asked_for() {
    const COUNT: u32 = 200;
    let bed = Bed::new(UdpMode::Protect(Protect::default()), Duration::ZERO);
    bed.until_told("datagrams_protected");
    let before = bed.sent();
    for number in 0..COUNT {
        // Each wire is cut in its turn, before anyone knows, and is whole again before the other.
        for (wire, first) in [(0, COUNT / 4), (1, COUNT / 2)] {
            if number == first || number == first + COUNT / 8 {
                bed.wires[wire].cut(number == first);
            }
        }
        bed.send(number);
        thread::sleep(Duration::from_millis(20));
    }
    let (mut back, mut heard) = (bed.back(Duration::from_millis(500)), bed.heard());
    let sent = bed.sent();
    back.sort_unstable();
    heard.sort_unstable();
    let all: Vec<u32> = (0..COUNT).collect();
    assert_eq!((&heard, &back), (&all, &all));
    let copies = count(&bed.client.status(), "datagram_copies_sent");
    assert!(copies > 0, "a wire that carried the flow was cut");
    // Most went once: probes and reports are among what is counted.
    let both: u64 = (0..2).map(|i| sent[i] - before[i]).sum();
    assert!(both < u64::from(COUNT) * 7 / 4, "{both}");
}
