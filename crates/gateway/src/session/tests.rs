//! A kernel, the sessions, a bond of two paths and a server, in virtual time.

use super::*;
use crate::index::PathIndex;
use crate::tun::local::{LocalConfig, LocalStack, Outgoing, ProgramId};
use bytes::Bytes;
use std::net::IpAddr;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::pipe::{ConnectionStream, Read, Sink, Source, Stream, Written};
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Endpoint};

const SERVER: &str = "192.0.2.80:443";
const NOBODY: &str = "192.0.2.80:1";
/// Of the bond.
const PATHS: [&str; 2] = ["10.81.0.16", "10.81.0.17"];

struct World {
    now: Instant,
    kernel: Endpoint,
    stack: LocalStack,
    sessions: Sessions<ProgramId, ConnId>,
    owners: BTreeMap<ConnId, ProgramId>,
    bond: Endpoint,
    server: Endpoint,
    /// Paths that nothing comes through.
    dead: Vec<usize>,
    /// Wishes are left alone.
    pathless: bool,
    kernel_heard: Vec<(ConnId, Event)>,
    server_heard: Vec<(ConnId, Event)>,
    messages: Vec<Bytes>,
}

impl Near for LocalStack {
    type Id = ProgramId;

    fn admit(&mut self, _: Instant, id: ProgramId, _: Option<SocketAddr>) -> Admitted {
        LocalStack::admit(self, id);
        Admitted::Later
    }

    fn refuse(&mut self, now: Instant, id: ProgramId, why: ConnectError) {
        LocalStack::refuse(self, now, id, why);
    }

    fn stream(&mut self, now: Instant, id: ProgramId) -> Option<impl Program> {
        Some(ConnectionStream { connection: self.connection(id)?, now })
    }

    fn close(&mut self, _: ProgramId) {}
}

fn endpoint(addresses: &[&str], mptcp: bool) -> Endpoint {
    let path = |(i, text): (usize, &&str)| {
        let addresses = vec![text.parse::<IpAddr>().unwrap()];
        PathConfig::new(PathId(i as u8), addresses, 1400)
    };
    let config = Config::default().with(|c| {
        c.paths = addresses.iter().enumerate().map(path).collect();
        c.mptcp.enabled = mptcp;
        c.tcp.nagle = false;
    });
    Endpoint::new(config, [addresses.len() as u8 + u8::from(mptcp); 32]).unwrap()
}

impl World {
    fn new() -> Self {
        let mut server = endpoint(&["192.0.2.80"], true);
        server.listen(SERVER.parse().unwrap()).unwrap();
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            kernel: endpoint(&["10.81.0.31"], false),
            stack: LocalStack::new(LocalConfig::default(), [4; 32]).unwrap(),
            sessions: Sessions::new(Patience::default()),
            owners: BTreeMap::new(),
            bond: endpoint(&PATHS, true),
            server,
            dead: Vec::new(),
            pathless: false,
            kernel_heard: Vec::new(),
            server_heard: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn connect(&mut self, to: &str) -> ConnId {
        let from = "10.81.0.31:0".parse().unwrap();
        self.kernel.connect(self.now, from, to.parse().unwrap()).unwrap()
    }

    fn grant(&mut self) {
        while let Some(request) = self.sessions.poll_request() {
            let path = usize::from(self.dead.contains(&0));
            let from = SocketAddr::new(PATHS[path].parse().unwrap(), 0);
            let conn = self.bond.connect(self.now, from, request.address).unwrap();
            self.owners.insert(conn, request.id);
            self.sessions.opening(self.now, request.id, conn, Some(PathIndex::new(path)));
        }
    }

    /// What an agent does in one round.
    fn step(&mut self) {
        self.now += Duration::from_micros(500);
        let now = self.now;
        let endpoints = [&mut self.kernel, &mut self.bond, &mut self.server];
        endpoints.into_iter().for_each(|endpoint| endpoint.handle_timeout(now));
        self.stack.handle_timeout(now);
        while let Some(departure) = self.kernel.poll_segment(now) {
            self.stack.handle_segment(now, departure.segment);
        }
        self.kernel_heard.extend(std::iter::from_fn(|| self.kernel.poll_event()));
        while let Some((id, event)) = self.stack.poll_event() {
            if let Event::Incoming { local, remote } = event {
                let wanted = (Target::Address(local), VecDeque::from([local]));
                self.sessions.incoming(id, (remote, now), wanted);
            } else {
                self.sessions.on_near(now, (&mut self.stack, &mut self.bond), id, event);
            }
        }
        for id in self.sessions.take_again() {
            self.sessions.step(now, (&mut self.stack, &mut self.bond), id);
        }
        self.sessions.tick(now, (&mut self.stack, &mut self.bond));
        if !self.pathless {
            self.grant();
        }
        while let Some(departure) = self.bond.poll_segment(now) {
            let path = departure.paths.iter().next().unwrap();
            if !self.dead.contains(&usize::from(path.0)) {
                self.server.handle_segment(now, PathId(0), &departure.segment);
            }
        }
        self.bond_events(now);
        while let Some(departure) = self.server.poll_segment(now) {
            let to = departure.segment.dst.ip();
            let path = PATHS.iter().position(|text| text.parse() == Ok(to)).unwrap();
            if !self.dead.contains(&path) {
                self.bond.handle_segment(now, PathId(path as u8), &departure.segment);
            }
        }
        self.bond_events(now);
        while let Some(outgoing) = self.stack.poll_packet(now) {
            match outgoing {
                Outgoing::Segment(s) => self.kernel.handle_segment(now, PathId(0), &s),
                Outgoing::Packet(packet) => self.messages.push(packet),
            }
        }
        self.kernel_heard.extend(std::iter::from_fn(|| self.kernel.poll_event()));
        self.server_heard.extend(std::iter::from_fn(|| self.server.poll_event()));
    }

    fn bond_events(&mut self, now: Instant) {
        while let Some((conn, event)) = self.bond.poll_event() {
            let owner = self.owners[&conn];
            let ends = (&mut self.stack, &mut self.bond);
            self.sessions.on_far(now, ends, (owner, conn), event);
        }
    }

    fn wait(&mut self, milliseconds: u64) {
        (0..milliseconds * 2).for_each(|_| self.step());
    }

    /// A connected program, and the server's end.
    fn open(&mut self) -> (ConnId, ConnId) {
        let program = self.connect(SERVER);
        self.wait(20);
        assert!(self.kernel_heard.contains(&(program, Event::Connected)));
        let accepted = |(id, event): &(ConnId, Event)| match event {
            Event::Accepted { .. } => Some(*id),
            _ => None,
        };
        let served = self.server_heard.iter().rev().find_map(accepted).unwrap();
        (program, served)
    }

    fn closed(&self, heard: &[(ConnId, Event)], id: ConnId) -> Option<CloseReason> {
        heard.iter().find_map(|(conn, event)| match event {
            Event::Closed(reason) if *conn == id => Some(*reason),
            _ => None,
        })
    }

    /// Nothing is kept of what is over.
    fn is_clean(&self) {
        assert!(self.sessions.all.is_empty());
        assert_eq!(self.stack.connections(), 0);
        assert_eq!(self.bond.connections(), 0);
    }
}

#[test]
fn a_whole_life() {
    let mut world = World::new();
    let (program, served) = world.open();
    assert_eq!(world.sessions.connected_ones().count(), 1);
    let mut request = Bytes::from(vec![1; 100_000]);
    world.kernel.connection(program).unwrap().write(&mut request);
    let now = world.now;
    world.kernel.connection(program).unwrap().close(now);
    world.wait(300);
    let snapshot = world.sessions.connected_ones().next().unwrap();
    assert_eq!(*snapshot.target, Target::Address(SERVER.parse().unwrap()));
    assert_eq!(world.sessions.taken(), 100_000);
    let mut got = 0;
    while let Some(data) = world.server.connection(served).unwrap().read(usize::MAX) {
        got += data.len();
    }
    assert_eq!(got, 100_000);
    let now = world.now;
    let connection = world.server.connection(served).unwrap();
    connection.write(&mut Bytes::from(vec![2; 50_000]));
    connection.close(now);
    world.wait(300);
    let mut got = 0;
    while let Some(data) = world.kernel.connection(program).unwrap().read(usize::MAX) {
        got += data.len();
    }
    world.wait(2_000);
    assert_eq!(got, 50_000);
    assert_eq!(world.closed(&world.kernel_heard, program), Some(CloseReason::Finished));
    assert_eq!(world.closed(&world.server_heard, served), Some(CloseReason::Finished));
    world.wait(2_000);
    assert!(world.sessions.all.is_empty());
    assert_eq!(world.sessions.totals(), (1, 0));
}

#[test]
fn what_the_server_left_is_delivered_after_it_has_gone() {
    let mut world = World::new();
    let (program, served) = world.open();
    let now = world.now;
    world.kernel.connection(program).unwrap().close(now);
    let connection = world.server.connection(served).unwrap();
    // More than the program's kernel takes while the program does not read.
    let sent = connection.write(&mut Bytes::from(vec![2; 3_000_000]));
    connection.close(now);
    world.wait(3_000);
    let mut got = 0;
    for _ in 0..4_000 {
        let Some(connection) = world.kernel.connection(program) else { break };
        while let Some(data) = connection.read(200_000) {
            got += data.len();
        }
        world.step();
    }
    assert_eq!(got, sent);
    assert_eq!(world.closed(&world.kernel_heard, program), Some(CloseReason::Finished));
}

#[test]
fn resets_pass_through_both_ways() {
    let mut world = World::new();
    let (program, served) = world.open();
    let now = world.now;
    world.kernel.connection(program).unwrap().abort(now);
    world.wait(100);
    assert!(world.closed(&world.server_heard, served).is_some_and(|r| r != CloseReason::Finished));
    world.is_clean();

    let (program, served) = world.open();
    let now = world.now;
    world.server.connection(served).unwrap().abort(now);
    world.wait(100);
    assert_eq!(world.closed(&world.kernel_heard, program), Some(CloseReason::Reset(None)));
    world.is_clean();
}

#[test]
fn a_refusal_passes_through() {
    let mut world = World::new();
    world.sessions.remember_finished();
    let program = world.connect(NOBODY);
    world.wait(50);
    assert_eq!(world.closed(&world.kernel_heard, program), Some(CloseReason::Refused));
    assert_eq!(world.sessions.take_finished().len(), 1, "whoever follows it need not any more");
    assert_eq!(world.sessions.totals(), (1, 1));
    world.is_clean();
}

#[test]
fn a_message_of_the_far_end_ends_the_attempt() {
    let mut world = World::new();
    world.dead = vec![0, 1];
    world.connect(SERVER);
    world.wait(10);
    let conn = world.sessions.connected_ones().next().unwrap().far;
    let local = world.bond.connection(conn).unwrap().info(world.now).subflows[0].local;
    let (now, remote) = (world.now, SERVER.parse().unwrap());
    let why = ConnectError::HostUnreachable;
    let other = (local, NOBODY.parse().unwrap());
    let World { stack, bond, sessions, .. } = &mut world;
    assert!(!sessions.unreachable(now, (&mut *stack, &mut *bond), other, why));
    assert!(sessions.unreachable(now, (stack, bond), (local, remote), why));
    world.wait(10);
    assert_eq!(world.messages.len(), 1, "told by ICMP");
    world.is_clean();
}

#[test]
fn who_waits_for_a_path_gets_the_next_or_is_told() {
    let mut world = World::new();
    let is_connected =
        |world: &World, program| world.kernel_heard.contains(&(program, Event::Connected));
    // By a path that dies at once; then by the other.
    world.pathless = true;
    let first = world.connect(SERVER);
    world.wait(1);
    world.grant();
    (world.dead, world.pathless) = (vec![0], false);
    world.wait(50);
    assert!(!is_connected(&world, first), "nothing comes through the path");
    world.sessions.retry(world.now, &mut world.bond, Some(PathIndex::new(0)));
    world.wait(100);
    assert!(is_connected(&world, first), "by the other path");
    // There was no path when it was asked for; then there is one.
    world.pathless = true;
    let second = world.connect(SERVER);
    world.wait(1);
    assert!(world.sessions.poll_request().is_some() && world.sessions.poll_request().is_none());
    world.pathless = false;
    world.wait(50);
    assert!(!is_connected(&world, second), "nobody asks again until paths change");
    world.sessions.retry(world.now, &mut world.bond, None);
    world.wait(100);
    assert!(is_connected(&world, second));
    // None at all.
    world.pathless = true;
    world.connect(SERVER);
    world.wait(9_900);
    assert!(world.messages.is_empty());
    world.wait(300);
    assert_eq!(world.messages.len(), 1, "no path: the network is unreachable");
}

/// A path may answer probes and be of no use all the same.
#[test]
fn who_gets_no_answer_for_a_second_begins_again_where_a_path_has_come_up() {
    let mut world = World::new();
    world.pathless = true;
    let program = world.connect(SERVER);
    world.wait(1);
    world.grant();
    (world.dead, world.pathless) = (vec![0], false);
    world.wait(50);
    world.sessions.retry(world.now, &mut world.bond, None);
    world.wait(900);
    assert!(!world.kernel_heard.contains(&(program, Event::Connected)), "it may be slow");
    world.wait(200);
    assert!(world.kernel_heard.contains(&(program, Event::Connected)));
    assert_eq!(world.bond.connections(), 1);
}

/// Two connections for one program would share what it sends, and lose it.
#[test]
fn paths_that_come_up_together_open_one_connection() {
    let mut world = World::new();
    world.pathless = true;
    let program = world.connect(SERVER);
    world.wait(50);
    for _ in 0..2 {
        world.sessions.retry(world.now, &mut world.bond, None);
    }
    world.pathless = false;
    world.wait(100);
    assert!(world.kernel_heard.contains(&(program, Event::Connected)));
    assert_eq!((world.bond.connections(), world.server.connections()), (1, 1));
}

#[test]
fn who_was_told_that_there_is_no_path_gets_none_any_more() {
    let mut world = World::new();
    world.pathless = true;
    world.connect(SERVER);
    world.wait(10_200);
    assert_eq!((world.messages.len(), world.sessions.len()), (1, 0));
    world.pathless = false;
    world.wait(100);
    assert_eq!(world.bond.connections(), 0);
}

#[test]
fn a_change_of_servers_resets_every_program() {
    let mut world = World::new();
    let (program, _) = world.open();
    let now = world.now;
    world.sessions.reset_all(now, (&mut world.stack, &mut world.bond));
    world.wait(10);
    assert_eq!(world.closed(&world.kernel_heard, program), Some(CloseReason::Reset(None)));
    assert!(world.sessions.all.is_empty());
}

/// One end of a session without an engine: what it says, and how much it takes.
#[derive(Default)]
struct Fake {
    says: VecDeque<Bytes>,
    room: usize,
    heard: Vec<u8>,
    shut: bool,
    closed: bool,
}

impl Source for &mut Fake {
    fn read(&mut self) -> Read {
        self.says.pop_front().map_or(Read::Pending, Read::Data)
    }
}

impl Sink for &mut Fake {
    fn write(&mut self, chunks: &mut VecDeque<Bytes>) -> Written {
        while let Some(chunk) = chunks.front_mut() {
            let taken = chunk.split_to(chunk.len().min(self.room));
            self.room -= taken.len();
            self.heard.extend_from_slice(&taken);
            if !chunk.is_empty() {
                return Written::Full;
            }
            chunks.pop_front();
        }
        Written::All
    }

    fn shutdown(&mut self) {
        self.shut = true;
    }
}

impl Stream for &mut Fake {
    fn reset(&mut self) {
        panic!("nobody is to be reset");
    }
}

impl Program for &mut Fake {}

impl Near for Fake {
    type Id = u8;

    fn admit(&mut self, _: Instant, _: u8, _: Option<SocketAddr>) -> Admitted {
        Admitted::Now
    }

    fn refuse(&mut self, _: Instant, _: u8, why: ConnectError) {
        panic!("{why}");
    }

    fn stream(&mut self, _: Instant, _: u8) -> Option<impl Program> {
        (!self.closed).then_some(self)
    }

    fn close(&mut self, _: u8) {
        self.closed = true;
    }
}

impl Far for Fake {
    type Id = u8;

    fn stream(&mut self, _: Instant, _: u8) -> Option<impl Stream> {
        (!self.closed).then_some(self)
    }

    fn local(&mut self, _: Instant, _: u8) -> Option<SocketAddr> {
        None
    }

    fn close(&mut self, _: u8) {
        self.closed = true;
    }
}

/// A program may be gone for its kernel while its last bytes wait for room at the far end.
#[test]
fn what_a_program_that_has_gone_left_is_delivered() {
    let (now, mut near, mut far) = (Instant::ZERO, Fake::default(), Fake::default());
    let mut sessions = Sessions::new(Patience::default());
    let target: SocketAddr = SERVER.parse().unwrap();
    sessions.incoming(1, (target, now), (Target::Address(target), VecDeque::from([target])));
    assert_eq!(sessions.poll_request().map(|request| request.address), Some(target));
    sessions.opening(now, 1, 2, None);
    near.says.push_back(Bytes::from_static(b"last words"));
    far.room = 4;
    sessions.connected(now, (&mut near, &mut far), 1);
    assert_eq!(far.heard, b"last");
    sessions.on_near(now, (&mut near, &mut far), 1, Event::Closed(CloseReason::Finished));
    assert!(!far.shut && sessions.len() == 1, "some of it still waits");
    far.room = 100;
    sessions.on_far(now, (&mut near, &mut far), (1, 2), Event::Writable);
    assert_eq!((far.heard.as_slice(), far.shut), (&b"last words"[..], true));
    assert!(sessions.all.is_empty());
}
