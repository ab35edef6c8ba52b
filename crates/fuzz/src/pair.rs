//! Two endpoints with a network between them that does as it is told: what the target `endpoint`
//! lets operations loose on, and what must hold after each of them.

use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Connection, Duration, Endpoint, Event, Instant};
use tabane_sim::pattern::Pattern;
use tabane_wire::Segment;

/// Paths of each end.
pub(crate) const PATHS: u8 = 3;
/// MTU of every path, until it is changed.
const MTU: u16 = 1500;
/// Segments that one end may send at one moment: windows are far smaller.
const BURST_MAX: usize = 4_000;
/// Packets on their way; what is beyond is lost.
const FLYING_MAX: usize = 2_000;

/// A packet on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) at: Instant,
    pub(crate) to_server: bool,
    pub(crate) path: PathId,
    pub(crate) segment: Segment,
}

/// One end: its endpoint, its connection, and what it wrote and read.
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    pub(crate) conn: Option<ConnId>,
    pub(crate) to_write: u64,
    pub(crate) read: u64,
    pub(crate) paused: bool,
    pub(crate) closed: Option<CloseReason>,
    pattern: Pattern,
    peer_pattern: Pattern,
    written: u64,
    buffers: [u64; 2],
}

/// Both ends.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    pub(crate) flying: VecDeque<Flying>,
    pub(crate) cut: [bool; PATHS as usize],
    /// What each end may send by each path, and knows.
    pub(crate) mtus: [[u16; PATHS as usize]; 2],
    /// Nothing was forged or changed so far: bytes must arrive as they were written.
    pub(crate) honest: bool,
    /// Packets that were lost, other than on paths that are cut.
    pub(crate) lost: usize,
    /// How long a path was cut.
    cut_for: Duration,
}

/// Address of an end on a path.
pub(crate) fn address(server: bool, path: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, u8::from(server), path + 1).into()
}

impl End {
    fn new(server: bool, mut config: Config) -> Self {
        config.paths = (0..PATHS)
            .map(|path| {
                // The server listens at one address, on every path.
                let address = address(server, if server { 0 } else { path });
                PathConfig::new(PathId(path), vec![address], MTU)
            })
            .collect();
        let tcp = &config.tcp;
        let buffers = [tcp.receive_buffer_max.max(tcp.receive_buffer), tcp.send_buffer];
        let mut endpoint =
            Endpoint::new(config, [server.into(); 32]).expect("invariant: policies of the tables");
        if server {
            let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            endpoint.listen(any).expect("invariant: nobody listens yet");
        }
        Self {
            endpoint,
            conn: None,
            pattern: Pattern::of(server.into()),
            peer_pattern: Pattern::of((!server).into()),
            to_write: 0,
            written: 0,
            read: 0,
            paused: false,
            closed: None,
            buffers,
        }
    }

    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        self.conn.and_then(|id| self.endpoint.connection(id))
    }

    /// Writes and reads what it can.
    fn work(&mut self, honest: bool) {
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
            let right = self.peer_pattern.matches(self.read, &bytes);
            assert!(!honest || right, "wrong bytes at {}", self.read);
            self.read += bytes.len() as u64;
        }
    }

    /// Whether there were any.
    fn poll_events(&mut self, honest: bool) -> bool {
        let mut told = false;
        while let Some((conn, event)) = self.endpoint.poll_event() {
            told = true;
            match event {
                Event::Accepted { .. } if self.conn.is_none() => self.conn = Some(conn),
                Event::Closed(reason) if self.conn == Some(conn) => self.closed = Some(reason),
                _ => {}
            }
            self.work(honest);
        }
        told
    }

    /// Queues stay within what was set, whatever the other end sends.
    fn check(&mut self, now: Instant) {
        let [receive, send] = self.buffers;
        if let Some(connection) = self.connection() {
            let info = connection.info(now);
            let held = info.out_of_order + info.received.saturating_sub(info.read);
            assert!(held <= receive + (64 << 10), "{held} bytes held, the buffer is {receive}");
            let waiting = info.written.saturating_sub(info.acked);
            assert!(waiting <= send, "{waiting} bytes wait, the buffer is {send}");
            assert!(info.subflows.len() <= 64, "{} subflows", info.subflows.len());
        }
        assert!(self.endpoint.connections() <= 4_000);
    }
}

impl Pair {
    /// A client that connects to a server.
    pub(crate) fn new(client: Config, server: Config) -> Self {
        let mut pair = Self {
            now: Instant::ZERO + Duration::from_secs(1000),
            ends: [End::new(false, client), End::new(true, server)],
            flying: VecDeque::new(),
            cut: [false; PATHS as usize],
            mtus: [[MTU; PATHS as usize]; 2],
            honest: true,
            lost: 0,
            cut_for: Duration::ZERO,
        };
        let local = SocketAddr::new(address(false, 0), 0);
        let remote = SocketAddr::new(address(true, 0), 80);
        let conn = pair.ends[0].endpoint.connect(pair.now, local, remote);
        pair.ends[0].conn = Some(conn.expect("invariant: nothing is in the way yet"));
        pair.settle();
        pair
    }

    /// Lets both ends do all they can do now.
    pub(crate) fn settle(&mut self) {
        for n in 0..2 {
            let mut burst = 0;
            // Looking at a connection makes it one to be polled: before, not after.
            self.ends[n].check(self.now);
            self.ends[n].work(self.honest);
            loop {
                let end = &mut self.ends[n];
                let told = end.poll_events(self.honest);
                let departure = end.endpoint.poll_segment(self.now);
                let due = end.endpoint.poll_timeout().is_some_and(|at| at <= self.now);
                burst += 1;
                assert!(burst < BURST_MAX, "no end of segments or timers: {departure:?}");
                match departure {
                    Some(departure) => {
                        for path in departure.paths.iter() {
                            self.depart(n == 0, path, departure.segment.clone());
                        }
                    }
                    None if due => end.endpoint.handle_timeout(self.now),
                    // Polling for segments finds out what is over.
                    None if told || end.poll_events(self.honest) => {}
                    None => break,
                }
            }
            while self.ends[n].endpoint.poll_record().is_some() {}
        }
    }

    fn depart(&mut self, to_server: bool, path: PathId, segment: Segment) {
        let mtu = self.mtus[usize::from(!to_server)][usize::from(path.0)];
        assert!(segment.wire_len() <= usize::from(mtu), "longer than {mtu}: {segment}");
        if self.cut[usize::from(path.0)] {
            return;
        }
        if self.flying.len() >= FLYING_MAX {
            self.lost += 1;
            return;
        }
        let delay = Duration::from_millis(5 + 10 * u64::from(path.0));
        self.flying.push_back(Flying { at: self.now + delay, to_server, path, segment });
    }

    /// Gives an end a segment.
    pub(crate) fn deliver(&mut self, packet: Flying) {
        let end = &mut self.ends[usize::from(packet.to_server)];
        end.endpoint.handle_segment(self.now, packet.path, &packet.segment);
        self.settle();
    }

    /// Gives an end bytes.
    pub(crate) fn deliver_bytes(&mut self, to_server: bool, path: u8, bytes: &[u8]) {
        let end = &mut self.ends[usize::from(to_server)];
        end.endpoint.handle_bytes(self.now, PathId(path), &Bytes::copy_from_slice(bytes));
        self.settle();
    }

    /// Delivers packets and runs timers for a while.
    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        if self.cut.contains(&true) {
            self.cut_for = self.cut_for + span;
        }
        let mut still = 0;
        loop {
            let arrival = self.flying.iter().map(|f| f.at).min();
            let timers = self.ends.iter().filter_map(|e| e.endpoint.poll_timeout());
            let Some(next) = timers.chain(arrival).min().filter(|t| *t <= end) else { break };
            still = if next > self.now { 0 } else { still + 1 };
            assert!(
                still < FLYING_MAX + 100,
                "time stands still: timers at {:?}, now {:?}, {} packets on their way",
                self.ends.each_ref().map(|e| e.endpoint.poll_timeout()),
                self.now,
                self.flying.len(),
            );
            self.now = self.now.max(next);
            if let Some(n) = self.flying.iter().position(|f| f.at <= self.now) {
                let packet = self.flying.remove(n).expect("invariant: found just now");
                self.deliver(packet);
            } else {
                for end in &mut self.ends {
                    end.endpoint.handle_timeout(self.now);
                }
                self.settle();
            }
        }
        self.now = end;
    }

    /// Everything stops that stood in the way.
    pub(crate) fn heal(&mut self) {
        self.cut = [false; PATHS as usize];
        for end in &mut self.ends {
            end.paused = false;
            for path in 0..PATHS {
                end.endpoint.set_path_up(self.now, PathId(path), true);
            }
        }
        self.settle();
    }

    /// Whether an end may have given up: so much was lost, or for so long.
    pub(crate) fn may_give_up(&self) -> bool {
        let given_up = |end: &End| end.closed == Some(CloseReason::TimedOut);
        let harmed = self.lost > 5 || self.cut_for > Duration::from_secs(45);
        harmed && self.ends.iter().any(given_up)
    }

    /// Whether all that was written has been read, both ways.
    pub(crate) fn is_done(&self) -> bool {
        let [client, server] = &self.ends;
        client.read == server.to_write && server.read == client.to_write
    }
}
