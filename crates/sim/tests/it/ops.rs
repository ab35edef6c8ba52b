//! Two endpoints under arbitrary operations: writes, pauses, paths that come and go, packets that
//! are dropped, reordered and repeated. Whatever was done, bytes arrive exactly; and once it
//! stops, everything arrives.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_sim::pattern::Pattern;
use tabane_wire::Segment;

const PATHS: u8 = 3;

/// Something done to the two ends or to the packets between them.
#[derive(Clone, Debug)]
enum Op {
    /// The client or the server writes this much.
    Write { server: bool, bytes: u32 },
    /// An end reads no more, or reads again.
    Pause { server: bool, paused: bool },
    /// The client opens a subflow on a path.
    Add { path: u8 },
    /// The client resets its newest subflow, if it has another.
    Remove,
    /// A subflow changes its priority.
    Backup { path: u8, backup: bool },
    /// A path loses everything, or nothing any more; hosts are told or not.
    Cut { path: u8, cut: bool, told: bool },
    /// The next packets on their way are lost.
    Drop { packets: u8 },
    /// The next packet changes places with a later one.
    Swap { with: u8 },
    /// The next packet comes again.
    Repeat,
    /// Time passes.
    Advance { ms: u16 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<bool>(), 1_u32..60_000).prop_map(|(server, bytes)| Op::Write { server, bytes }),
        1 => any::<(bool, bool)>().prop_map(|(server, paused)| Op::Pause { server, paused }),
        1 => (0..PATHS).prop_map(|path| Op::Add { path }),
        1 => Just(Op::Remove),
        1 => (0..PATHS, any::<bool>()).prop_map(|(path, backup)| Op::Backup { path, backup }),
        1 => (0..PATHS, any::<bool>(), any::<bool>())
            .prop_map(|(path, cut, told)| Op::Cut { path, cut, told }),
        2 => (1_u8..5).prop_map(|packets| Op::Drop { packets }),
        2 => (1_u8..10).prop_map(|with| Op::Swap { with }),
        1 => Just(Op::Repeat),
        6 => (1_u16..400).prop_map(|ms| Op::Advance { ms }),
    ]
}

/// A packet on its way.
struct Flying {
    at: Instant,
    to_server: bool,
    path: PathId,
    segment: Segment,
}

/// One end: its endpoint, its connection, and what it wrote and read.
struct End {
    endpoint: Endpoint,
    conn: Option<ConnId>,
    pattern: Pattern,
    peer_pattern: Pattern,
    to_write: u64,
    written: u64,
    read: u64,
    paused: bool,
}

struct Pair {
    now: Instant,
    ends: [End; 2],
    flying: VecDeque<Flying>,
    cut: [bool; PATHS as usize],
}

fn address(server: bool, path: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, u8::from(server), path + 1).into()
}

impl End {
    fn new(server: bool) -> Self {
        let paths = (0..PATHS).map(|path| {
            PathConfig::new(
                PathId(path),
                vec![address(server, if server { 0 } else { path })],
                1500,
            )
        });
        let mut config = Config::default().with(|c| c.paths = paths.collect());
        config.tcp.receive_buffer = 40_000;
        config.tcp.receive_buffer_max = 40_000;
        config.tcp.send_buffer = 100_000;
        let mut endpoint = Endpoint::new(config, [server.into(); 32]).expect("an endpoint");
        if server {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            endpoint.listen(any).expect("listening");
        }
        let (own, peer) = (u64::from(server), u64::from(!server));
        Self {
            endpoint,
            conn: None,
            pattern: Pattern::of(own),
            peer_pattern: Pattern::of(peer),
            to_write: 0,
            written: 0,
            read: 0,
            paused: false,
        }
    }

    /// Writes and reads what it can.
    fn work(&mut self) {
        let Some(connection) = self.conn.and_then(|id| self.endpoint.connection(id)) else {
            return;
        };
        while self.written < self.to_write {
            let mut bytes = self.pattern.from(self.written, self.to_write - self.written);
            self.written += connection.write(&mut bytes) as u64;
            if !bytes.is_empty() {
                break;
            }
        }
        while !self.paused
            && let Some(bytes) = connection.read(usize::MAX)
        {
            assert!(self.peer_pattern.matches(self.read, &bytes), "wrong bytes at {}", self.read);
            self.read += bytes.len() as u64;
        }
    }
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            now: Instant::ZERO,
            ends: [End::new(false), End::new(true)],
            flying: VecDeque::new(),
            cut: [false; PATHS as usize],
        };
        let local = SocketAddr::new(address(false, 0), 0);
        let remote = SocketAddr::new(address(true, 0), 80);
        let conn = pair.ends[0].endpoint.connect(pair.now, local, remote);
        pair.ends[0].conn = Some(conn.expect("a connection"));
        pair.flush();
        pair
    }

    /// Lets both ends do all they can do now.
    fn flush(&mut self) {
        for (n, end) in self.ends.iter_mut().enumerate() {
            loop {
                end.work();
                while let Some((conn, event)) = end.endpoint.poll_event() {
                    if matches!(event, Event::Accepted { .. }) && end.conn.is_none() {
                        end.conn = Some(conn);
                    }
                    end.work();
                }
                let Some(departure) = end.endpoint.poll_segment(self.now) else { break };
                for path in departure.paths.iter() {
                    if !self.cut[usize::from(path.0)] {
                        let delay = Duration::from_millis(5 + 10 * u64::from(path.0));
                        let segment = departure.segment.clone();
                        let at = self.now + delay;
                        self.flying.push_back(Flying { at, to_server: n == 0, path, segment });
                    }
                }
            }
        }
    }

    /// Delivers packets and runs timers for a while.
    fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let arrival = self.flying.iter().map(|f| f.at).min();
            let timers = self.ends.iter().filter_map(|e| e.endpoint.poll_timeout());
            let Some(next) = timers.chain(arrival).min().filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            if let Some(n) = self.flying.iter().position(|f| f.at <= self.now) {
                let Flying { to_server, path, segment, .. } =
                    self.flying.remove(n).expect("invariant: found just now");
                let end = &mut self.ends[usize::from(to_server)];
                end.endpoint.handle_segment(self.now, path, &segment);
            } else {
                for end in &mut self.ends {
                    end.endpoint.handle_timeout(self.now);
                }
            }
            self.flush();
        }
        self.now = end;
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Write { server, bytes } => {
                self.ends[usize::from(server)].to_write += u64::from(bytes);
            }
            Op::Pause { server, paused } => self.ends[usize::from(server)].paused = paused,
            Op::Cut { path, cut, told } => {
                self.cut[usize::from(path)] = cut;
                if told {
                    for end in &mut self.ends {
                        end.endpoint.set_path_up(self.now, PathId(path), !cut);
                    }
                }
            }
            Op::Drop { packets } => {
                let count = usize::from(packets).min(self.flying.len());
                self.flying.drain(..count);
            }
            Op::Swap { with } => {
                let last = self.flying.len().saturating_sub(1);
                if last > 0 {
                    let with = usize::from(with).min(last);
                    let (a, b) = (self.flying[0].at, self.flying[with].at);
                    (self.flying[0].at, self.flying[with].at) = (b, a);
                }
            }
            Op::Repeat => {
                if let Some(Flying { at, to_server, path, segment }) = self.flying.front() {
                    let (at, to_server, path) = (*at + Duration(1), *to_server, *path);
                    let segment = segment.clone();
                    self.flying.push_back(Flying { at, to_server, path, segment });
                }
            }
            Op::Advance { ms } => self.advance(Duration::from_millis(ms.into())),
            Op::Add { .. } | Op::Remove | Op::Backup { .. } => self.steer(op),
        }
        self.flush();
    }

    /// Operations on the client's subflows; those that are refused change nothing.
    fn steer(&mut self, op: &Op) {
        let now = self.now;
        let end = &mut self.ends[0];
        let Some(connection) = end.conn.and_then(|id| end.endpoint.connection(id)) else { return };
        let subflows = connection.info(now).subflows;
        let done = match op {
            Op::Add { path } => {
                let local = SocketAddr::new(address(false, *path), 0);
                let remote = SocketAddr::new(address(true, 0), 80);
                connection.add_subflow(now, local, remote, false).map(|_| ())
            }
            Op::Remove => {
                let live: Vec<_> = subflows.iter().filter(|s| s.view.usable).collect();
                match live.last() {
                    Some(last) if live.len() > 1 => connection.reset_subflow(now, last.view.id),
                    _ => Ok(()),
                }
            }
            Op::Backup { path, backup } => {
                match subflows.iter().find(|s| s.path.0 == *path && s.view.usable) {
                    Some(subflow) => connection.set_backup(now, subflow.view.id, *backup),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        };
        // A refusal is an answer too; that it changes nothing is what the end of the test shows.
        let _ = done;
    }

    /// Everything stops that stood in the way.
    fn heal(&mut self) {
        self.cut = [false; PATHS as usize];
        for end in &mut self.ends {
            end.paused = false;
            for path in 0..PATHS {
                end.endpoint.set_path_up(self.now, PathId(path), true);
            }
        }
        self.flush();
        for _ in 0..400 {
            self.advance(Duration::from_secs(1));
            if self.ends[0].read == self.ends[1].to_write
                && self.ends[1].read == self.ends[0].to_write
            {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_exactly_and_in_the_end_all_do(ops in prop::collection::vec(op(), 1..60)) {
        let mut pair = Pair::new();
        for op in &ops {
            pair.apply(op);
        }
        pair.heal();
        prop_assert_eq!(pair.ends[0].read, pair.ends[1].to_write, "server to client");
        prop_assert_eq!(pair.ends[1].read, pair.ends[0].to_write, "client to server");
    }
}
