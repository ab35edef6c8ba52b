//! The stack against another endpoint in the kernel's place, in virtual time.

use super::*;
use std::collections::VecDeque;
use tabane_engine::record::CloseReason;

const SERVER: &str = "192.0.2.80:443";
const SERVER6: &str = "[2001:db8::80]:443";

/// A kernel, the stack, and a device between them.
struct World {
    now: Instant,
    kernel: Endpoint,
    stack: LocalStack,
    /// Seed of the disorder that the device makes; 0 for none.
    disorder: u64,
    heard: VecDeque<(ProgramId, Event)>,
    kernel_heard: VecDeque<(ConnId, Event)>,
    /// Packets to the kernel that are not TCP.
    others: Vec<Bytes>,
    /// Segments that the stack sent, by flags.
    sent: Vec<Flags>,
}

impl World {
    /// A kernel that makes segments for this MTU (its offloads make it a large one).
    fn new(mtu: u16, config: LocalConfig) -> Self {
        let addresses = vec!["10.81.0.31".parse().unwrap(), "fd00::31".parse().unwrap()];
        let kernel = Config::default().with(|c| {
            c.paths = vec![PathConfig::new(PathId(0), addresses, mtu)];
            c.mptcp.enabled = false;
            c.tcp.nagle = false;
        });
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            kernel: Endpoint::new(kernel, [1; 32]).unwrap(),
            stack: LocalStack::new(config, [2; 32]).unwrap(),
            disorder: 0,
            heard: VecDeque::new(),
            kernel_heard: VecDeque::new(),
            others: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn connect(&mut self, to: &str) -> ConnId {
        let to: SocketAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { "10.81.0.31:0" } else { "[fd00::31]:0" };
        self.kernel.connect(self.now, from.parse().unwrap(), to).unwrap()
    }

    /// Connects a program and admits it.
    fn open(&mut self, to: &str) -> (ConnId, ProgramId) {
        let conn = self.connect(to);
        self.run();
        let id = self.incoming(to);
        self.stack.admit(id);
        self.run();
        assert!(self.kernel_heard.contains(&(conn, Event::Connected)));
        assert!(self.heard.iter().any(|(at, e)| *at == id && matches!(e, Event::Accepted { .. })));
        self.kernel_heard.clear();
        self.heard.clear();
        (conn, id)
    }

    fn incoming(&mut self, to: &str) -> ProgramId {
        let Some((id, Event::Incoming { local, remote })) = self.heard.pop_front() else {
            panic!("nothing came in: {:?}", self.heard);
        };
        assert_eq!(local, to.parse().unwrap());
        assert_eq!(remote.is_ipv4(), local.is_ipv4());
        id
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        if self.disorder == 0 {
            return;
        }
        // Within a few places, as a queue for each processor would.
        for at in 1..items.len() {
            self.disorder = self.disorder.wrapping_mul(6_364_136_223_846_793_005) + 1;
            items.swap(at, at - (self.disorder >> 33) as usize % at.clamp(1, 4));
        }
    }

    /// Moves packets until there are none.
    fn run(&mut self) {
        loop {
            self.now += Duration::from_micros(20);
            let mut up: Vec<Segment> = std::iter::from_fn(|| self.kernel.poll_segment(self.now))
                .map(|d| d.segment)
                .collect();
            let mut down = Vec::new();
            while let Some(outgoing) = self.stack.poll_packet(self.now) {
                match outgoing {
                    Outgoing::Segment(segment) => down.push(segment),
                    Outgoing::Packet(packet) => self.others.push(packet),
                }
            }
            self.heard.extend(std::iter::from_fn(|| self.stack.poll_event()));
            self.kernel_heard.extend(std::iter::from_fn(|| self.kernel.poll_event()));
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.shuffle(&mut up);
            self.shuffle(&mut down);
            self.sent.extend(down.iter().map(|segment| segment.flags));
            up.into_iter().for_each(|s| self.stack.handle_segment(self.now, s));
            down.into_iter().for_each(|s| self.kernel.handle_segment(self.now, PathId(0), &s));
        }
    }

    /// To the next timer, or by `at_most`.
    fn wait(&mut self, at_most: Duration) {
        let due = [self.kernel.poll_timeout(), self.stack.poll_timeout()];
        let due = due.into_iter().flatten().min().unwrap_or(self.now + at_most);
        self.now = due.max(self.now).min(self.now + at_most);
        self.kernel.handle_timeout(self.now);
        self.stack.handle_timeout(self.now);
        self.run();
    }

    fn program(&mut self, id: ProgramId) -> &mut Connection {
        self.stack.connection(id).expect("the connection is there")
    }

    /// All that can be read now; whether it is the end.
    fn read_all(&mut self, id: ProgramId, into: &mut Vec<u8>) -> bool {
        while let Some(data) = self.program(id).read(usize::MAX) {
            into.extend_from_slice(&data);
        }
        self.program(id).is_finished()
    }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Sends `data` both ways at once, byte for byte, then closes both.
fn exchange(world: &mut World, to: &str, data: &Bytes) {
    let (conn, id) = world.open(to);
    let (mut up, mut down) = (data.clone(), data.clone());
    let (mut at_stack, mut at_kernel) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        world.kernel.connection(conn).unwrap().write(&mut up);
        world.program(id).write(&mut down);
        world.run();
        world.read_all(id, &mut at_stack);
        let connection = world.kernel.connection(conn).unwrap();
        while let Some(read) = connection.read(usize::MAX) {
            at_kernel.extend_from_slice(&read);
        }
        if at_stack.len() == data.len() && at_kernel.len() == data.len() {
            break;
        }
        if up.is_empty() && down.is_empty() {
            world.wait(Duration::from_millis(50));
        }
    }
    assert!(at_stack == *data && at_kernel == *data, "{} {}", at_stack.len(), at_kernel.len());
    let now = world.now;
    world.program(id).close(now);
    world.kernel.connection(conn).unwrap().close(now);
    world.run();
    assert_eq!(world.heard.back(), Some(&(id, Event::Closed(CloseReason::Finished))));
    assert!(world.stack.connection(id).is_none());
}

#[test]
fn bytes_arrive_both_ways_whatever_the_size_of_segments() {
    for (mtu, to) in [(1500, SERVER), (1420, SERVER6), (65_535, SERVER), (65_535, SERVER6)] {
        let mut world = World::new(mtu, LocalConfig::default());
        let before = world.now;
        exchange(&mut world, to, &pattern(5_000_000));
        let took = world.now - before;
        assert!(took < Duration::from_millis(300), "no timer may be in the way: {took:?}");
    }
}

#[test]
fn bytes_arrive_in_whatever_order_segments_come() {
    for seed in 1..=8 {
        let mut world = World::new(1500, LocalConfig::default());
        world.disorder = seed;
        exchange(&mut world, SERVER, &pattern(1_000_000));
    }
}

#[test]
fn a_syn_waits_for_the_far_end() {
    let mut world = World::new(1500, LocalConfig::default());
    let conn = world.connect(SERVER);
    world.run();
    // Over two repeats of the SYN.
    (0..40).for_each(|_| world.wait(Duration::from_millis(100)));
    assert!(world.sent.is_empty(), "nothing is answered: {:?}", world.sent);
    let id = world.incoming(SERVER);
    assert!(world.heard.is_empty(), "it is announced once");
    world.stack.admit(id);
    world.run();
    assert!(world.kernel_heard.contains(&(conn, Event::Connected)));
}

#[test]
fn a_refusal_is_a_reset() {
    let mut world = World::new(1500, LocalConfig::default());
    let conn = world.connect(SERVER);
    world.run();
    let id = world.incoming(SERVER);
    world.stack.refuse(world.now, id, ConnectError::Refused);
    world.run();
    assert_eq!(world.kernel_heard, [(conn, Event::Closed(CloseReason::Refused))]);
    assert_eq!(world.stack.connections(), 0);
    assert!(world.others.is_empty());
}

#[test]
fn the_unreachable_is_told_by_icmp_about_the_very_syn() {
    for (to, expected) in [(SERVER, [3, 1]), (SERVER6, [1, 3])] {
        let mut world = World::new(1500, LocalConfig::default());
        world.connect(to);
        let syn = world.kernel.poll_segment(world.now).unwrap().segment;
        world.stack.handle_segment(world.now, syn.clone());
        world.run();
        let id = world.incoming(to);
        world.stack.refuse(world.now, id, ConnectError::HostUnreachable);
        world.run();
        assert!(world.sent.is_empty(), "no reset: {:?}", world.sent);
        assert_eq!(world.stack.connections(), 0);
        let [message] = &world.others[..] else { panic!("one message: {:?}", world.others) };
        let (header, range) = tabane_wire::ip::IpHeader::parse(message).unwrap();
        assert_eq!((header.src, header.dst), (syn.dst.ip(), syn.src.ip()));
        let icmp = &message[range];
        assert_eq!(icmp[..2], expected);
        let quoted = Segment::parse_slice(&icmp[8..]).unwrap();
        assert_eq!((quoted.src, quoted.dst, quoted.seq), (syn.src, syn.dst, syn.seq));
    }
}

#[test]
fn each_direction_ends_by_itself() {
    let mut world = World::new(1500, LocalConfig::default());
    let (conn, id) = world.open(SERVER);
    // The program says all it has to say, and its end.
    let connection = world.kernel.connection(conn).unwrap();
    connection.write(&mut Bytes::from_static(b"request"));
    connection.close(world.now);
    world.run();
    assert!(world.heard.contains(&(id, Event::PeerFinished)));
    let mut request = Vec::new();
    assert!(world.read_all(id, &mut request));
    assert_eq!(request, b"request");
    // Long after, it gets its answer.
    world.wait(Duration::from_secs(10));
    let mut answer = pattern(200_000);
    let mut got = Vec::new();
    while got.len() < 200_000 {
        world.program(id).write(&mut answer);
        world.run();
        let connection = world.kernel.connection(conn).unwrap();
        while let Some(read) = connection.read(usize::MAX) {
            got.extend_from_slice(&read);
        }
    }
    let now = world.now;
    world.program(id).close(now);
    world.run();
    assert!(got == pattern(200_000));
    assert!(world.kernel_heard.contains(&(conn, Event::PeerFinished)));
    assert_eq!(world.heard.back(), Some(&(id, Event::Closed(CloseReason::Finished))));
}

#[test]
fn resets_pass_both_ways() {
    let mut world = World::new(1500, LocalConfig::default());
    let (conn, id) = world.open(SERVER);
    let now = world.now;
    world.kernel.connection(conn).unwrap().abort(now);
    world.run();
    assert_eq!(world.heard, [(id, Event::Closed(CloseReason::Reset(None)))]);
    world.heard.clear();

    let (conn, id) = world.open(SERVER);
    let now = world.now;
    world.program(id).abort(now);
    world.run();
    assert_eq!(world.kernel_heard, [(conn, Event::Closed(CloseReason::Reset(None)))]);
    assert_eq!(world.heard, [(id, Event::Closed(CloseReason::Aborted))]);
    assert_eq!(world.stack.connections(), 0);
}

#[test]
fn what_the_relay_does_not_take_stays_with_the_program() {
    let config = LocalConfig { receive_buffer: 100_000, ..LocalConfig::default() };
    for mtu in [1500, 65_535] {
        let mut world = World::new(mtu, config);
        let (conn, id) = world.open(SERVER);
        let mut data = pattern(1_000_000);
        world.kernel.connection(conn).unwrap().write(&mut data);
        (0..50).for_each(|_| world.wait(Duration::from_millis(100)));
        let info = world.kernel.connection(conn).unwrap().info(world.now);
        // The window is told in units of two bytes, rounded up.
        assert!(info.acked <= 100_001, "MTU {mtu}: {} bytes were let go", info.acked);
        assert!(info.acked >= 30_000, "MTU {mtu}: only {} bytes were let go", info.acked);
        // And goes on at once when it does.
        let before = world.now;
        let mut got = Vec::new();
        while got.len() < 1_000_000 {
            world.read_all(id, &mut got);
            world.run();
            if world.stack.endpoint.connection(id.0).unwrap().readable() == 0 {
                world.wait(Duration::from_millis(1));
            }
            assert!(world.now - before < Duration::from_secs(2), "MTU {mtu}: {}", got.len());
        }
        assert!(got == pattern(1_000_000));
    }
}

#[test]
fn what_a_program_does_not_take_stays_with_the_relay() {
    let config = LocalConfig { send_buffer: 50_000, ..LocalConfig::default() };
    let mut world = World::new(1500, config);
    let (conn, id) = world.open(SERVER);
    let mut data = pattern(4_000_000);
    let mut taken = 0;
    for _ in 0..100 {
        taken += world.program(id).write(&mut data);
        world.run();
    }
    let window = 128 << 10; // the kernel's buffer at the start
    assert!(taken <= 50_000 + window, "{taken} bytes were taken");
    assert_eq!(world.program(id).writable(), 0);
    let connection = world.kernel.connection(conn).unwrap();
    while connection.read(usize::MAX).is_some() {}
    world.run();
    assert!(world.heard.contains(&(id, Event::Writable)));
    assert!(world.program(id).writable() > 0);
}

#[test]
fn many_wait_up_to_the_limit_and_the_rest_come_again() {
    let config = LocalConfig { waiting: 10, ..LocalConfig::default() };
    let mut world = World::new(1500, config);
    for _ in 0..15 {
        world.connect(SERVER);
    }
    world.run();
    assert_eq!(world.heard.len(), 10);
    for (id, _) in std::mem::take(&mut world.heard) {
        world.stack.admit(id);
    }
    world.run();
    (0..20).for_each(|_| world.wait(Duration::from_millis(200)));
    let came = world.heard.iter().filter(|(_, e)| matches!(e, Event::Incoming { .. }));
    assert_eq!(came.count(), 5);
}

#[test]
fn connections_of_before_are_reset() {
    // The client was restarted under a program.
    let mut world = World::new(1500, LocalConfig::default());
    let (conn, _) = world.open(SERVER);
    world.stack = LocalStack::new(LocalConfig::default(), [9; 32]).unwrap();
    world.kernel.connection(conn).unwrap().write(&mut Bytes::from_static(b"still there?"));
    world.run();
    assert_eq!(world.kernel_heard, [(conn, Event::Closed(CloseReason::Reset(None)))]);
}

/// A host of the LAN may vanish; this host's own kernel ends what its programs leave.
#[test]
fn a_host_that_may_vanish_is_missed() {
    for vanish in [true, false] {
        let own = vanish.then(|| ["10.81.0.31", "fd00::31"].map(|a| a.parse().unwrap()));
        let mut world = World::new(1500, LocalConfig { own, ..LocalConfig::default() });
        world.open(SERVER);
        let end = world.now + Duration::from_secs(200);
        // What the stack sends reaches nobody from now on.
        while let Some(now) = world.stack.poll_timeout().filter(|at| *at < end) {
            world.stack.handle_timeout(now);
            while world.stack.poll_packet(now).is_some() {}
            while world.stack.poll_event().is_some() {}
        }
        assert_eq!(world.stack.connections(), usize::from(!vanish));
    }
}

/// A host of the LAN that opens connections without end leaves room for the others and for this
/// host, and gets more as soon as some of its own are over.
#[test]
fn a_host_has_its_share() {
    let own = Some(["10.81.0.1", "fd00::1"].map(|a| a.parse().unwrap()));
    let mut world = World::new(1500, LocalConfig { own, ..LocalConfig::default() });
    world.stack.shares = Shares::new(3);
    let open: Vec<_> = (0..3).map(|_| world.open(SERVER)).collect();
    world.connect(SERVER);
    world.run();
    assert!(world.heard.is_empty());
    // Another address.
    world.open(SERVER6);
    assert_eq!(world.stack.refused(), 1);
    let now = world.now;
    world.program(open[0].1).abort(now);
    world.run();
    assert!(world.heard.iter().any(|(id, e)| *id == open[0].1 && matches!(e, Event::Closed(_))));
    world.heard.clear();
    // The SYN comes again.
    (0..20).for_each(|_| world.wait(Duration::from_millis(200)));
    assert!(matches!(world.heard[0].1, Event::Incoming { .. }));
    // This host's own programs have all there is.
    let own = Some(["10.81.0.31", "fd00::31"].map(|a| a.parse().unwrap()));
    let mut world = World::new(1500, LocalConfig { own, ..LocalConfig::default() });
    world.stack.shares = Shares::new(3);
    for _ in 0..10 {
        world.open(SERVER);
    }
}
