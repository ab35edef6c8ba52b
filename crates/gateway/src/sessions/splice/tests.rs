//! A kernel, the stack, a bond of one path and a server, in virtual time.

use super::*;
use crate::sessions::{Near, ProgramEvent};
use crate::tun::local::{LocalConfig, LocalStack, Outgoing, ProgramId};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::config::{Config, PathConfig, TcpConfig};
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Endpoint, Event};

const SERVER: &str = "192.0.2.80:443";

struct World {
    now: Instant,
    kernel: Endpoint,
    stack: LocalStack,
    bond: Endpoint,
    server: Endpoint,
    /// The program's connection: at the stack, and through the bond.
    ids: Option<(ProgramId, ConnId)>,
    splice: Splice,
    relay_state: RelayState,
    events: Vec<Event>,
    server_heard: Vec<(ConnId, Event)>,
}

fn endpoint(address: &str, mtu: u16, mptcp: bool, buffer: u64) -> Endpoint {
    let addresses = vec![address.parse::<IpAddr>().unwrap()];
    let tcp = TcpConfig::default().with(|c| {
        c.receive_buffer = buffer;
        c.receive_buffer_max = buffer;
        c.send_buffer = buffer;
    });
    let config = Config::default().with(|c| {
        c.paths = vec![PathConfig::new(PathId(0), addresses, mtu)];
        c.mptcp.enabled = mptcp;
        c.tcp = tcp;
    });
    Endpoint::new(config, [address.len() as u8; 32]).unwrap()
}

/// Moves what `from` has to send, and takes its events.
fn deliver(
    now: Instant,
    (from, heard): (&mut Endpoint, &mut Vec<(ConnId, Event)>),
    to: &mut Endpoint,
) -> bool {
    let segments: Vec<_> = std::iter::from_fn(|| from.poll_segment(now)).collect();
    heard.extend(std::iter::from_fn(|| from.poll_event()));
    let any = !segments.is_empty();
    segments.into_iter().for_each(|d| to.handle_segment(now, PathId(0), &d.segment));
    any
}

impl World {
    /// With buffers of this size in the bond, and a program that has connected.
    fn new(buffer: u64) -> (Self, ConnId, ConnId) {
        let mut server = endpoint("192.0.2.80", 1400, true, buffer);
        server.listen(SERVER.parse().unwrap()).unwrap();
        let mut world = Self {
            now: Instant::ZERO + Duration::from_secs(1),
            kernel: endpoint("10.81.0.31", 1400, false, 128 << 10),
            stack: LocalStack::new(LocalConfig::default(), [2; 32]).unwrap(),
            bond: endpoint("10.81.0.16", 1400, true, buffer),
            server,
            ids: None,
            splice: Splice::default(),
            relay_state: RelayState::Open,
            events: Vec::new(),
            server_heard: Vec::new(),
        };
        let from = "10.81.0.31:0".parse().unwrap();
        let program = world.kernel.connect(world.now, from, SERVER.parse().unwrap()).unwrap();
        let mut accepted = None;
        for _ in 0..10 {
            world.step();
            for (id, event) in world.server_heard.drain(..) {
                accepted = accepted.or(matches!(event, Event::Accepted { .. }).then_some(id));
            }
        }
        (world, program, accepted.expect("the server has accepted"))
    }

    /// As an agent does, once; false if nothing was to be done.
    fn step(&mut self) -> bool {
        self.now += Duration::from_micros(50);
        let now = self.now;
        self.kernel.handle_timeout(now);
        self.stack.handle_timeout(now);
        self.bond.handle_timeout(now);
        self.server.handle_timeout(now);
        let mut told = Vec::new();
        let mut any = deliver(now, (&mut self.bond, &mut told), &mut self.server);
        any |= deliver(now, (&mut self.server, &mut self.server_heard), &mut self.bond);
        while let Some(departure) = self.kernel.poll_segment(now) {
            any = true;
            self.stack.handle_segment(now, departure.segment);
        }
        while self.kernel.poll_event().is_some() {}
        while let Some((id, event)) = self.stack.poll_event() {
            if let ProgramEvent::Incoming { destination, .. } = event {
                let from: SocketAddr = "10.81.0.16:0".parse().unwrap();
                self.ids = Some((id, self.bond.connect(now, from, destination).unwrap()));
            }
        }
        told.extend(std::iter::from_fn(|| self.bond.poll_event()));
        for (_, event) in told {
            if event == Event::Connected {
                self.stack.admit(self.now, self.ids.unwrap().0);
            }
            self.events.push(event);
        }
        if let Some((program, conn)) = self.ids
            && let Some(mut program) = self.stack.program(now, program)
            && let Some(connection) = self.bond.connection(conn)
        {
            self.relay_state = self.splice.step(now, &mut program, connection);
        }
        while let Some(outgoing) = self.stack.poll_packet(now) {
            any = true;
            let Outgoing::Segment(segment) = outgoing else { panic!("nothing is refused here") };
            self.kernel.handle_segment(now, PathId(0), &segment);
        }
        any || self.relay_state == RelayState::More
    }

    fn run(&mut self) {
        while self.step() {}
    }

    /// Lets time pass, timers included.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(5);
            self.run();
        }
    }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn drain(connection: &mut Connection, into: &mut Vec<u8>) {
    while let Some(data) = connection.read(usize::MAX) {
        into.extend_from_slice(&data);
    }
}

#[test]
fn a_request_and_its_answer_with_both_ends_of_stream() {
    let (mut world, program, served) = World::new(1 << 20);
    let mut request = pattern(3_000_000);
    let mut got = Vec::new();
    while got.len() < 3_000_000 {
        world.kernel.connection(program).unwrap().write(&mut request);
        world.step();
        drain(world.server.connection(served).unwrap(), &mut got);
        assert!(world.now < Instant::ZERO + Duration::from_secs(60), "{} bytes came", got.len());
    }
    let now = world.now;
    world.kernel.connection(program).unwrap().close(now);
    world.wait(Duration::from_millis(100));
    assert!(got == pattern(3_000_000));
    assert!(world.server.connection(served).unwrap().is_finished(), "its end came too");
    assert_eq!(world.relay_state, RelayState::Open, "the answer is still to come");

    let mut answer = pattern(2_000_000);
    let mut got = Vec::new();
    while got.len() < 2_000_000 {
        world.server.connection(served).unwrap().write(&mut answer);
        world.step();
        drain(world.kernel.connection(program).unwrap(), &mut got);
        assert!(world.now < Instant::ZERO + Duration::from_secs(120), "{} bytes came", got.len());
    }
    assert!(got == pattern(2_000_000));
    let now = world.now;
    world.server.connection(served).unwrap().close(now);
    world.wait(Duration::from_millis(100));
    assert_eq!(world.relay_state, RelayState::Finished);
    assert_eq!((world.splice.taken(), world.splice.given()), (3_000_000, 2_000_000));
    assert!(world.events.contains(&Event::PeerFinished));
}

#[test]
fn a_slow_end_holds_the_other_through_everything_between() {
    let buffer = 100 << 10;
    let (mut world, program, served) = World::new(buffer);
    let mut data = pattern(16 << 20);
    for _ in 0..20 {
        world.kernel.connection(program).unwrap().write(&mut data);
        world.wait(Duration::from_millis(100));
    }
    let info = world.kernel.connection(program).unwrap().info(world.now);
    // The stack's buffer, one piece, the bond's buffers at both ends.
    let most = LocalConfig::default().receive_buffer + (64 << 10) + 2 * buffer + 4096;
    assert!(info.acked <= most, "{} bytes went in, at most {most} may", info.acked);
    let mut got = Vec::new();
    while got.len() < 1 << 20 {
        world.wait(Duration::from_millis(10));
        drain(world.server.connection(served).unwrap(), &mut got);
        assert!(world.now < Instant::ZERO + Duration::from_secs(60), "{} bytes came", got.len());
    }
    assert!(got == pattern(16 << 20)[..got.len()]);
}
