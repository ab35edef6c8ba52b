//! A client, a relay and a server in one row; packets take 5 ms from one to the next.

use super::*;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Profile};
use tabane_wire::Segment;

const CLIENT: usize = 0;
const RELAY: usize = 1;
const SERVER: usize = 2;
/// What goes from node to node takes this long.
const DELAY: Duration = Duration::from_millis(5);
/// Buffers of the relay.
const BUFFER: u64 = 64 << 10;

fn address(n: usize, path: u8) -> SocketAddr {
    format!("10.0.{n}.{}:0", path + 1).parse().unwrap()
}

fn server_port() -> SocketAddr {
    "10.0.2.1:80".parse().unwrap()
}

struct Row {
    now: Instant,
    ends: Vec<Endpoint>,
    profile: Profile,
    relay: Option<Relay>,
    /// Connection of the client and of the server.
    conns: [Option<ConnId>; 3],
    events: [Vec<Event>; 3],
    flying: VecDeque<(Instant, usize, Segment)>,
    /// Most that the relay has held for the server.
    most: u64,
}

impl Row {
    /// The server listens, or not.
    fn new(listens: bool) -> Self {
        let config = |n: usize, paths: u8| {
            let path = |p| PathConfig::new(PathId(p), vec![address(n, p).ip()], 1500);
            let mut config = Config::default().with(|c| c.paths = (0..paths).map(path).collect());
            config.mptcp.enabled = n != SERVER;
            config.tcp.receive_buffer = if n == RELAY { BUFFER } else { 1 << 20 };
            config.tcp.receive_buffer_max = config.tcp.receive_buffer;
            config.tcp.send_buffer = config.tcp.receive_buffer;
            config
        };
        let make = |n: usize, paths| Endpoint::new(config(n, paths), [n as u8; 32]).unwrap();
        let mut ends = vec![make(CLIENT, 1), make(RELAY, 2), make(SERVER, 1)];
        ends[RELAY].listen_held("10.0.1.1:80".parse().unwrap()).unwrap();
        if listens {
            ends[SERVER].listen(server_port()).unwrap();
        }
        let mut plain = config(RELAY, 2);
        plain.mptcp.enabled = false;
        let profile = ends[RELAY].profile(plain).unwrap();
        let now = Instant::ZERO;
        let to = "10.0.1.1:80".parse().unwrap();
        let conn = ends[CLIENT].connect(now, address(CLIENT, 0), to).unwrap();
        let mut row = Self {
            now,
            ends,
            profile,
            relay: None,
            conns: [Some(conn), None, None],
            events: Default::default(),
            flying: VecDeque::new(),
            most: 0,
        };
        row.flush();
        row
    }

    fn node(address: SocketAddr) -> usize {
        let std::net::IpAddr::V4(ip) = address.ip() else { panic!("IPv4 only") };
        usize::from(ip.octets()[2])
    }

    fn flush(&mut self) {
        for n in [CLIENT, RELAY, SERVER] {
            loop {
                while let Some((conn, event)) = self.ends[n].poll_event() {
                    self.on_event(n, conn, event);
                }
                let Some(departure) = self.ends[n].poll_segment(self.now) else { break };
                let to = Self::node(departure.segment.dst);
                self.flying.push_back((self.now + DELAY, to, departure.segment));
            }
        }
    }

    fn on_event(&mut self, n: usize, conn: ConnId, event: Event) {
        match (n, event) {
            (RELAY, Event::Incoming { .. }) => {
                let end = &mut self.ends[RELAY];
                let local = address(RELAY, 1);
                let far = end.connect_as(self.now, local, server_port(), &self.profile).unwrap();
                self.relay = Some(Relay::new(conn, far));
            }
            (RELAY, event) => {
                let relay = self.relay.as_mut().expect("no event before the first");
                let near = relay.conn(Side::Near) == Some(conn);
                let side = if near { Side::Near } else { Side::Far };
                relay.on_event(self.now, &mut self.ends[RELAY], side, &event);
            }
            (n, event) => {
                if matches!(event, Event::Accepted { .. }) {
                    self.conns[n] = Some(conn);
                }
                self.events[n].push(event);
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        while self.now < end {
            self.now += Duration::from_millis(1);
            while let Some((_, to, segment)) = self.flying.pop_front_if(|(at, ..)| *at <= self.now)
            {
                let path = if to == RELAY && Self::node(segment.src) == SERVER { 1 } else { 0 };
                self.ends[to].handle_segment(self.now, PathId(path), &segment);
            }
            for end in &mut self.ends {
                if end.poll_timeout().is_some_and(|at| at <= self.now) {
                    end.handle_timeout(self.now);
                }
            }
            self.flush();
            self.most = self.most.max(self.held());
        }
    }

    /// What the relay holds on its way from client to server.
    fn held(&mut self) -> u64 {
        let Some(relay) = &self.relay else { return 0 };
        let piece = relay.pipe.up.held();
        let end = &mut self.ends[RELAY];
        let near = relay.conn(Side::Near).and_then(|id| end.connection(id)).map(|c| c.readable());
        let far = relay.conn(Side::Far).and_then(|id| end.connection(id));
        let unsent = far.map(|c| c.info(self.now)).map(|info| info.written - info.acked);
        piece + near.unwrap_or(0) + unsent.unwrap_or(0)
    }

    fn write(&mut self, n: usize, data: &'static [u8]) -> usize {
        let conn = self.conns[n].expect("connected");
        let mut data = Bytes::from_static(data);
        let written = self.ends[n].connection(conn).unwrap().write(&mut data);
        self.flush();
        written
    }

    fn read(&mut self, n: usize) -> Vec<u8> {
        let mut data = Vec::new();
        let conn = self.conns[n].and_then(|id| self.ends[n].connection(id));
        if let Some(conn) = conn {
            while let Some(piece) = conn.read(usize::MAX) {
                data.extend_from_slice(&piece);
            }
        }
        self.flush();
        data
    }

    fn close(&mut self, n: usize) {
        let conn = self.conns[n].expect("connected");
        self.ends[n].connection(conn).unwrap().close(self.now);
        self.flush();
    }

    fn abort(&mut self, n: usize) {
        let conn = self.conns[n].expect("connected");
        self.ends[n].connection(conn).unwrap().abort(self.now);
        self.flush();
    }

    fn has(&self, n: usize, event: Event) -> bool {
        self.events[n].contains(&event)
    }

    fn closed(&self, n: usize) -> Option<CloseReason> {
        self.events[n].iter().find_map(|event| match event {
            Event::Closed(reason) => Some(*reason),
            _ => None,
        })
    }
}

#[test]
fn nothing_is_answered_before_the_far_side_has_answered() {
    let mut row = Row::new(true);
    row.run(19);
    assert!(!row.has(CLIENT, Event::Connected), "the server's answer is not there before 15 ms");
    row.run(10);
    assert!(row.has(CLIENT, Event::Connected));
    let conn = row.conns[CLIENT].unwrap();
    let info = row.ends[CLIENT].connection(conn).unwrap().info(row.now);
    assert!(info.mptcp, "MPTCP to the client");
    let conn = row.conns[SERVER].unwrap();
    let info = row.ends[SERVER].connection(conn).unwrap().info(row.now);
    assert!(!info.mptcp, "plain TCP to the server");
}

#[test]
fn either_side_may_finish_while_the_other_goes_on() {
    for (first, second) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let mut row = Row::new(true);
        row.run(100);
        row.write(first, b"the last words");
        row.close(first);
        row.run(100);
        assert_eq!(row.read(second), b"the last words");
        assert!(row.has(second, Event::PeerFinished), "{:?}", row.events);
        row.write(second, b"not mine");
        row.run(1_000);
        assert_eq!(row.read(first), b"not mine");
        assert!(!row.has(first, Event::PeerFinished));
        row.close(second);
        row.run(5_000);
        row.read(second);
        assert_eq!(row.closed(first), Some(CloseReason::Finished));
        assert_eq!(row.closed(second), Some(CloseReason::Finished));
        assert!(row.relay.as_ref().unwrap().is_over());
        assert_eq!(row.ends[RELAY].connections(), 0, "nothing is left behind");
    }
}

#[test]
fn a_reset_is_passed_on() {
    for (first, second) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let mut row = Row::new(true);
        row.run(100);
        row.write(second, b"in vain");
        row.abort(first);
        row.run(100);
        let how = row.closed(second).expect("closed");
        assert!(matches!(how, CloseReason::Reset(_) | CloseReason::FastClose), "{how:?}");
        assert!(row.relay.as_ref().unwrap().is_over());
        assert_eq!(row.ends[RELAY].connections(), 0);
    }
}

#[test]
fn a_refusal_is_passed_on_as_a_refusal() {
    let mut row = Row::new(false);
    row.run(100);
    assert_eq!(row.closed(CLIENT), Some(CloseReason::Refused));
    assert_eq!(row.ends[RELAY].connections(), 0);
}

#[test]
fn a_client_that_goes_before_it_is_answered_leaves_nothing() {
    let mut row = Row::new(true);
    row.run(7);
    assert_eq!(row.ends[RELAY].connections(), 2);
    // A SYN-SENT connection goes silently: a reset as a client that knows no more would send.
    let near = row.relay.as_ref().unwrap().conn(Side::Near).unwrap();
    row.ends[RELAY].connection(near).unwrap().abort(row.now);
    row.flush();
    row.run(1_000);
    assert_eq!(row.ends[RELAY].connections(), 0);
    assert!(row.relay.as_ref().unwrap().is_over());
}

#[test]
fn a_relay_holds_two_buffers_and_no_more() {
    static DATA: [u8; 1 << 20] = [7; 1 << 20];
    let mut row = Row::new(true);
    row.run(100);
    let written = row.write(CLIENT, &DATA);
    assert_eq!(written, DATA.len());
    // The server's own buffer takes 1 MiB: half of it is kept from it.
    let conn = row.conns[SERVER].unwrap();
    row.run(3_000);
    let received = row.ends[SERVER].connection(conn).unwrap().readable();
    assert_eq!(received, 1 << 20);
    // Now nobody reads: what is written piles up in the relay, up to its limits.
    let mut sent = 0;
    for _ in 0..40 {
        sent += row.write(CLIENT, &DATA);
        row.run(100);
    }
    assert!(row.most <= 2 * BUFFER + 1500, "{} bytes held", row.most);
    assert!(row.most >= 2 * BUFFER - 6000, "back-pressure was not tried: {} bytes", row.most);
    assert!(sent as u64 <= (1 << 20) + 2 * BUFFER + 1500, "{sent} bytes taken from the client");
    let mut read = 0;
    for _ in 0..200 {
        read += row.read(SERVER).len();
        row.run(100);
    }
    assert_eq!(read, written + sent);
}
