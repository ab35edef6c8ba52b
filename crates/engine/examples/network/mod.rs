//! A network in memory for the examples: two hosts, as many paths between them as asked for, each
//! with a delay and a rate. Time is a number that jumps from event to event.

use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_wire::Segment;

/// A path between the two hosts, the same in both directions.
pub(crate) struct Link {
    /// From one end to the other.
    pub(crate) delay: Duration,
    /// Bytes per second.
    pub(crate) rate: u64,
}

/// What a transfer came to.
pub(crate) struct Outcome {
    /// From `connect` to the last byte at the server.
    pub(crate) took: Duration,
    /// Bytes of payload that the client sent by each path.
    pub(crate) sent: BTreeMap<PathId, u64>,
}

/// The configuration of a host with an address on each of the paths.
pub(crate) fn config(host: u8, paths: usize) -> Config {
    let path = |n: u8| PathConfig::new(PathId(n), vec![address(host, n)], 1500);
    Config::default().with(|c| c.paths = (0..paths as u8).map(path).collect())
}

fn address(host: u8, path: u8) -> IpAddr {
    IpAddr::from([10, path, 0, host])
}

/// Sends `data` from a client to a server.
///
/// # Errors
/// If a policy of `client` does not exist, the connection fails, or other data arrives.
pub(crate) fn transfer(client: Config, links: &[Link], data: Bytes) -> Result<Outcome, String> {
    let now = Instant::ZERO;
    let server = config(2, links.len());
    let mut net = Network {
        now,
        hosts: [
            Endpoint::new(client, [1; 32]).map_err(|e| e.to_string())?,
            Endpoint::new(server, [2; 32]).map_err(|e| e.to_string())?,
        ],
        links,
        free: BTreeMap::new(),
        flying: BinaryHeap::new(),
        order: 0,
    };
    let service: SocketAddr = SocketAddr::new(address(2, 0), 80);
    net.hosts[1].listen(service).map_err(|e| e.to_string())?;
    let local = SocketAddr::new(address(1, 0), 0);
    let id = net.hosts[0].connect(now, local, service).map_err(|e| e.to_string())?;
    let (mut unsent, mut received) = (data.clone(), Vec::new());
    loop {
        if let Some(connection) = net.hosts[0].connection(id) {
            while connection.write(&mut unsent) > 0 {}
        }
        net.drain(&mut received)?;
        if received.len() >= data.len() {
            break;
        }
        net.advance()?;
    }
    if received != data {
        return Err("other data arrived".into());
    }
    let info = net.hosts[0].connection(id).map(|connection| connection.info(net.now));
    let mut sent = BTreeMap::new();
    for subflow in info.map(|info| info.subflows).unwrap_or_default() {
        *sent.entry(subflow.path).or_default() += subflow.stats.bytes_sent;
    }
    Ok(Outcome { took: net.now - now, sent })
}

struct Network<'l> {
    now: Instant,
    /// Client and server.
    hosts: [Endpoint; 2],
    links: &'l [Link],
    /// When a path and direction has sent what it has been given.
    free: BTreeMap<(PathId, usize), Instant>,
    /// Segments on the way: when they arrive, where, by which path.
    flying: BinaryHeap<Reverse<Flight>>,
    order: u64,
}

struct Flight {
    at: Instant,
    order: u64,
    to: usize,
    path: PathId,
    segment: Segment,
}

impl Network<'_> {
    /// Takes everything out of both endpoints, until neither has anything left.
    fn drain(&mut self, received: &mut Vec<u8>) -> Result<(), String> {
        for from in [0, 1] {
            while let Some(departure) = self.hosts[from].poll_segment(self.now) {
                for path in departure.paths.iter() {
                    self.launch(from, path, departure.segment.clone());
                }
            }
            while let Some((id, event)) = self.hosts[from].poll_event() {
                match event {
                    Event::Readable if from == 1 => self.read(id, received),
                    Event::Closed(reason) => return Err(format!("closed: {reason:?}")),
                    _ => {}
                }
            }
            // Reading may have opened the window.
            while let Some(departure) = self.hosts[from].poll_segment(self.now) {
                for path in departure.paths.iter() {
                    self.launch(from, path, departure.segment.clone());
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, id: ConnId, received: &mut Vec<u8>) {
        let Some(connection) = self.hosts[1].connection(id) else { return };
        while let Some(data) = connection.read(usize::MAX) {
            received.extend_from_slice(&data);
        }
    }

    fn launch(&mut self, from: usize, path: PathId, segment: Segment) {
        let link = &self.links[usize::from(path.0)];
        let free = self.free.entry((path, from)).or_insert(self.now);
        *free =
            self.now.max(*free) + Duration(segment.wire_len() as u64 * 1_000_000_000 / link.rate);
        let (at, to) = (*free + link.delay, 1 - from);
        self.order += 1;
        self.flying.push(Reverse(Flight { at, order: self.order, to, path, segment }));
    }

    /// Goes on to the next arrival or timeout.
    fn advance(&mut self) -> Result<(), String> {
        let timeouts = self.hosts.iter().filter_map(Endpoint::poll_timeout);
        let arrival = self.flying.peek().map(|Reverse(flight)| flight.at);
        self.now = timeouts.chain(arrival).min().ok_or("nothing will ever happen")?;
        while let Some(Reverse(flight)) = self.flying.peek()
            && flight.at <= self.now
        {
            let Some(Reverse(flight)) = self.flying.pop() else { break };
            self.hosts[flight.to].handle_segment(self.now, flight.path, &flight.segment);
        }
        for host in &mut self.hosts {
            if host.poll_timeout().is_some_and(|at| at <= self.now) {
                host.handle_timeout(self.now);
            }
        }
        Ok(())
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Flight {}
