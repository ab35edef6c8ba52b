//! A fake agent: a thread that answers a request channel from a world that a test holds and
//! changes.
//!
//! Nothing is carried; what is tested with it is how an agent is asked and shown.

#![allow(dead_code)] // Each test uses a part of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tabane_gateway::model::{
    AgentEvent, ConnStatus, Histogram, PathRecordTotals, PathState, PathStatus, RecordTotals, Role,
    Status, SubflowStatus,
};
use tabane_gateway::request_channel::{
    Answer, Request, RequestReceiver, RequestSender, request_channel,
};

/// An agent that only seems to be one; ends when dropped.
pub(crate) struct Fake {
    /// To ask it.
    pub(crate) request_channel: RequestSender,
    world: Arc<Mutex<World>>,
    thread: Option<JoinHandle<()>>,
}

/// What it knows.
pub(crate) struct World {
    pub(crate) status: Status,
    pub(crate) connections: Vec<ConnStatus>,
    pub(crate) events: Vec<AgentEvent>,
    /// Everything that was asked, but for snapshots.
    pub(crate) orders: Vec<Request>,
    /// Snapshots asked for.
    pub(crate) looks: u64,
    /// Called before each answer to `Request::Status`; changes the world.
    pub(crate) step: Option<fn(&mut World)>,
}

impl Fake {
    /// An agent with the world of [`World::home`].
    pub(crate) fn start() -> Self {
        Self::with(World::home())
    }

    pub(crate) fn with(world: World) -> Self {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let (request_channel, inbox) = request_channel(waker);
        let world = Arc::new(Mutex::new(world));
        let shared = Arc::clone(&world);
        let thread = std::thread::spawn(move || run(poll, &inbox, &shared));
        Self { request_channel, world, thread: Some(thread) }
    }

    /// The world, to look at and to change.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it; whoever asks later hears that it is gone.
    pub(crate) fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.request_channel.ask(Request::Stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(mut poll: mio::Poll, inbox: &RequestReceiver, world: &Mutex<World>) {
    let mut events = mio::Events::with_capacity(4);
    loop {
        let _ = poll.poll(&mut events, None);
        while let Some((request, reply)) = inbox.take() {
            let stop = request == Request::Stop;
            let answer = world.lock().unwrap_or_else(PoisonError::into_inner).answer(request);
            let _ = reply.send(answer);
            if stop {
                return;
            }
        }
    }
}

impl World {
    /// A client with a good link, an idle backup and one that is dead.
    pub(crate) fn home() -> Self {
        let status = Status {
            agent: "client".into(),
            version: "0.1.0".into(),
            name: "home".into(),
            uptime_s: 8123.0,
            server: Some(address("203.0.113.5:51820")),
            paths: vec![fibre(), lte(), train()],
            connections: 2,
            connections_total: 341,
            refused_total: 3,
            udp_flows: 4,
            clock_ahead_ms: Some(3.0),
            record_counters: Some(record_totals()),
            counters: vec![
                ("duplicates_removed".into(), 17),
                ("drop_no_route".into(), 2),
                ("malformed".into(), 0),
            ],
            ..Status::default()
        };
        let mut world = Self {
            status,
            connections: vec![download(), chat()],
            events: Vec::new(),
            orders: Vec::new(),
            looks: 0,
            step: None,
        };
        world.happened("started", None, "client home started");
        world.happened("path-up", Some("fibre"), "fibre is up: 12 ms, MTU 1420");
        world.happened("path-up", Some("lte"), "lte is up: 48 ms, MTU 1372");
        world.happened("path-down", Some("train"), "train is down: interface wlan0 is not there");
        world
    }

    pub(crate) fn path(&mut self, name: &str) -> &mut PathStatus {
        self.status.paths.iter_mut().find(|path| path.name == name).unwrap()
    }

    pub(crate) fn happened(&mut self, kind: &str, path: Option<&str>, text: &str) {
        let seq = self.events.len() as u64 + 1;
        self.events.push(AgentEvent {
            seq,
            unix_ms: 1_790_000_000_000 + seq * 1000,
            kind: kind.into(),
            path: path.map(Into::into),
            client: None,
            text: text.into(),
        });
    }

    fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Status => {
                self.looks += 1;
                if let Some(step) = self.step {
                    step(self);
                }
                return Answer::Status(Box::new(self.status.clone()));
            }
            Request::Connections => return Answer::Connections(self.connections.clone()),
            Request::Events { since } => {
                let newer = self.events.iter().filter(|h| h.seq > since);
                return Answer::Events(newer.cloned().collect());
            }
            _ => self.orders.push(request.clone()),
        }
        match request {
            Request::SetPath { path, role, cap_bps } => self.set_path(&path, role, cap_bps),
            Request::CloseConnection { id } => {
                let before = self.connections.len();
                self.connections.retain(|c| c.id != id);
                if self.connections.len() == before {
                    return Answer::Error(format!("no connection {id}"));
                }
                Answer::Done
            }
            Request::SetPolicy { policy, spec, connection } => {
                let at = ["scheduler", "congestion", "egress"].iter().position(|p| *p == policy);
                let Some(at) = at else { return Answer::Error(format!("no policy {policy}")) };
                for c in &mut self.connections {
                    if connection.is_none_or(|id| id == c.id) {
                        c.policies[at].clone_from(&spec);
                    }
                }
                Answer::Done
            }
            _ => Answer::Done,
        }
    }

    fn set_path(&mut self, name: &str, role: Option<Role>, cap_bps: Option<u64>) -> Answer {
        let Some(path) = self.status.paths.iter_mut().find(|p| p.name == name) else {
            return Answer::Error(format!("no path '{name}'"));
        };
        if let Some(role) = role {
            path.role = role;
            self.happened("role", Some(name), &format!("{name} is {role} now"));
        }
        if let Some(cap) = cap_bps {
            self.path(name).cap_bps = (cap > 0).then_some(cap);
        }
        Answer::Done
    }
}

/// Carries nearly everything.
fn fibre() -> PathStatus {
    PathStatus {
        name: "fibre".into(),
        id: 0,
        interface: Some("enp3s0".into()),
        local: Some(address("192.168.1.20:40001")),
        remote: Some(address("203.0.113.5:51820")),
        seen_as: Some(address("198.51.100.7:40001")),
        role: Role::Primary,
        state: PathState::Up,
        reason: "carries 2 subflows".into(),
        since_s: 8120.0,
        rtt_ms: Some(12.4),
        loss: Some(0.0),
        mtu: 1420,
        tx_bps: 4_210_000.0,
        rx_bps: 93_400_000.0,
        tx_bytes: 1_204_000_000,
        rx_bytes: 48_930_000_000,
        tx_packets: 12_000_000,
        rx_packets: 35_000_000,
        retransmitted_bytes: 1_204_123,
        cwnd_bytes: 412_000,
        inflight_bytes: 120_400,
        subflows: 2,
        handshake_age_s: Some(71.0),
        record_counters: Some(PathRecordTotals {
            decisions: vec![("lowest_rtt".into(), 412)],
            retransmitted_bytes: 1_204_123,
            reinjected_bytes: 70_000,
            duplicate_bytes: 4_000,
        }),
        ..PathStatus::default()
    }
}

/// What records say of all paths.
fn record_totals() -> RecordTotals {
    RecordTotals {
        held: vec![("no_room".into(), 31)],
        fallbacks: vec![("peer_plain".into(), 2)],
        gaps: Histogram { counts: vec![0, 1, 2, 3, 0, 0, 0, 0, 0, 1], sum: 11.5 },
    }
}

/// Waits for the fibre to fail.
fn lte() -> PathStatus {
    PathStatus {
        name: "lte".into(),
        id: 1,
        interface: Some("wwan0".into()),
        local: Some(address("10.140.3.9:40002")),
        remote: Some(address("203.0.113.5:51820")),
        role: Role::Backup,
        state: PathState::Up,
        reason: "idle: backup, and fibre works".into(),
        since_s: 8119.0,
        rtt_ms: Some(48.2),
        loss: Some(0.005),
        mtu: 1372,
        tx_bps: 800.0,
        rx_bps: 800.0,
        tx_bytes: 2_100_000,
        rx_bytes: 30_400_000,
        tx_packets: 9000,
        rx_packets: 30_000,
        subflows: 2,
        handshake_age_s: Some(12.0),
        quota_left: Some(18_400_000_000),
        cap_bps: Some(20_000_000),
        ..PathStatus::default()
    }
}

/// Is not there.
fn train() -> PathStatus {
    PathStatus {
        name: "train".into(),
        id: 2,
        interface: Some("wlan0".into()),
        role: Role::Secondary,
        state: PathState::Absent,
        reason: "interface wlan0 is not there".into(),
        since_s: 640.0,
        ..PathStatus::default()
    }
}

fn download() -> ConnStatus {
    ConnStatus {
        id: 17,
        token: 0x5f0a_11c2,
        source: Some(address("127.0.0.1:50122")),
        target: "mirror.example.org:443".into(),
        age_s: 34.0,
        tx_bytes: 81_200,
        rx_bytes: 401_000_000,
        reinjected_bytes: 2856,
        policies: ["ecf".into(), "cubic".into(), "own".into()],
        subflows: vec![subflow("fibre", 12.6, 400_000_000), subflow("lte", 49.0, 1_000_000)],
        ..ConnStatus::default()
    }
}

fn chat() -> ConnStatus {
    ConnStatus {
        id: 18,
        token: 0x0102_0304,
        source: Some(address("127.0.0.1:50130")),
        target: "[2001:db8::7]:5222".into(),
        age_s: 3605.0,
        tx_bytes: 9000,
        rx_bytes: 12_000,
        policies: ["redundant".into(), "cubic".into(), "own".into()],
        subflows: vec![subflow("fibre", 12.6, 12_000)],
        ..ConnStatus::default()
    }
}

fn subflow(path: &str, rtt_ms: f64, rx_bytes: u64) -> SubflowStatus {
    SubflowStatus {
        path: path.into(),
        state: "Established".into(),
        backup: path == "lte",
        rtt_ms,
        cwnd_bytes: 206_000,
        inflight_bytes: 60_200,
        tx_bytes: 40_000,
        rx_bytes,
        retransmitted_bytes: 0,
    }
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A step of a world that moves: rates sway, and now and then the fibre fails and LTE takes over.
pub(crate) fn live(world: &mut World) {
    let n = world.looks;
    let sway = |period: f64, phase: f64| {
        0.5 + 0.5 * (n as f64 / period * std::f64::consts::TAU + phase).sin()
    };
    let fails = n % 60 >= 45;
    if n % 60 == 45 {
        world.happened("path-down", Some("fibre"), "fibre is down: 3 probes without an answer");
    } else if n.is_multiple_of(60) && n > 0 {
        world.happened("path-up", Some("fibre"), "fibre is up again: 12 ms");
    }
    world.status.uptime_s += 1.0;
    let (fibre, lte) = if fails { (0.0, 18e6) } else { (70e6 + 24e6 * sway(17.0, 0.0), 800.0) };
    let path = world.path("fibre");
    path.state = if fails { PathState::Down } else { PathState::Up };
    path.since_s = if fails { (n % 60 - 45) as f64 } else { (n % 60) as f64 };
    path.reason = if fails { "3 probes without an answer" } else { "carries 2 subflows" }.into();
    path.rtt_ms = (!fails).then_some(11.0 + 5.0 * sway(9.0, 2.0));
    path.loss = Some(if fails { 1.0 } else { 0.0 });
    carry(path, fibre, fibre / 22.0);
    let path = world.path("lte");
    path.reason = if fails { "carries 2 subflows" } else { "idle: backup, and fibre works" }.into();
    path.rtt_ms = Some(44.0 + 12.0 * sway(13.0, 1.0));
    carry(path, lte * (0.9 + 0.2 * sway(5.0, 0.0)), lte / 20.0);
    for conn in &mut world.connections {
        conn.age_s += 1.0;
    }
    world.connections[0].rx_bytes += ((fibre + lte) / 8.0) as u64;
    world.connections[0].subflows[usize::from(fails)].rx_bytes += ((fibre + lte) / 8.0) as u64;
}

fn carry(path: &mut PathStatus, rx_bps: f64, tx_bps: f64) {
    (path.rx_bps, path.tx_bps) = (rx_bps, tx_bps);
    path.rx_bytes += (rx_bps / 8.0) as u64;
    path.tx_bytes += (tx_bps / 8.0) as u64;
}
