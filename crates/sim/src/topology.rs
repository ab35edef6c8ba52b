//! From names to numbers: hosts, link directions, addresses, and every route resolved to a list
//! of link directions before the first packet moves.
//!
//! Two notations: links in a row under `[path]` (no nodes are named, hosts inject into the
//! first link), or links `between` nodes with shortest routes. A host has one address a path and
//! one that all its paths share, where it listens; the host and path of an address are its
//! digits, so that looking up a route is arithmetic.

use crate::packet::Packet;
use crate::scenario::{Fault, Scenario};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod chain;
mod graph;

/// Everything that does not change during a run.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub hosts: Vec<Host>,
    /// Link directions: `2 n` is the n-th link up, `2 n + 1` down.
    pub links: Vec<LinkEnd>,
    /// 4 or 6.
    pub ip: u8,
    /// Routes end to end: link directions, then an arrival.
    hops: Vec<Hop>,
    /// Cursor into `hops` by (path of a host, destination address); [`NO_ROUTE`] if none.
    routes: Vec<u32>,
    /// First destination of each host: its shared address, then one a path.
    destinations: Vec<u32>,
    /// First row of each host in `routes`.
    rows: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    /// Its paths; `PathId` is the index.
    pub paths: Vec<HostPath>,
}

/// A path of a host.
#[derive(Clone, Debug)]
pub struct HostPath {
    pub name: String,
    /// The first link direction out.
    pub first: u32,
    /// Links, in order, that its default route crosses.
    pub links: Vec<u32>,
    /// New subflows on it ask for low priority.
    pub backup: bool,
    /// Largest IP packet.
    pub mtu: u16,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// Name of the link.
    pub name: String,
    /// Where it comes from, for people.
    pub from: String,
    /// Where it leads to.
    pub to: String,
}

/// One step of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// Into this link direction.
    Link(u32),
    /// Arrived at this host, by this path of it.
    Arrive(u32, u8),
}

pub const NO_ROUTE: u32 = u32::MAX;
/// `PathId` has six bits.
const MAX_PATHS: usize = 64;
/// Last digit of the address that a host's paths share.
const SHARED: u16 = 250;
/// Hosts fit two address octets.
const MAX_HOSTS: usize = 65_000;
/// The largest IP packet of a link that does not say.
pub const DEFAULT_MTU: u16 = 1500;

impl Topology {
    /// Resolves a scenario's names.
    pub(crate) fn build(scenario: &Scenario) -> Result<Self, Fault> {
        let joined = scenario.link.iter().filter(|(_, link)| link.between.is_some()).count();
        let mut topology = Self { ip: scenario.ip, ..Self::default() };
        let plan = if joined == 0 {
            chain::plan(scenario, &mut topology)?
        } else if let Some((name, _)) = scenario.link.iter().find(|(_, l)| l.between.is_none()) {
            let message = format!("link '{name}' does not say what it is between, others do");
            return Err(Fault::new(&[&"link", &name], message).help("add between = [\"a\", \"b\"]"));
        } else {
            graph::plan(scenario, &mut topology)?
        };
        for host in &topology.hosts {
            if host.paths.len() > MAX_PATHS {
                let message = format!("host '{}' has more than {MAX_PATHS} paths", host.name);
                return Err(Fault::new(&[&"path"], message));
            }
        }
        if topology.hosts.len() > MAX_HOSTS {
            return Err(Fault::new(&[&"path"], format!("more than {MAX_HOSTS} hosts")));
        }
        for name in scenario.host.names() {
            if topology.host(name).is_none() {
                let known = topology.hosts.iter().map(|h| h.name.as_str());
                let fault = Fault::unknown(&[&"host", &name], "path to or from host", name, known);
                return Err(fault);
            }
        }
        for name in scenario.proxy.names() {
            if scenario.host.get(name).is_some() {
                let message = format!("'{name}' is a host and a proxy");
                return Err(Fault::new(&[&"proxy", &name], message)
                    .help("its settings are those under [proxy]: listen = {..}, connect = {..}"));
            }
            if topology.host(name).is_none() {
                let known = topology.hosts.iter().map(|h| h.name.as_str());
                let what = "path to or from proxy";
                return Err(Fault::unknown(&[&"proxy", &name], what, name, known));
            }
        }
        topology.resolve(&plan);
        if topology.hops.len() > Packet::MAX_CURSOR as usize {
            let message = format!("all routes together have more than {} hops", Packet::MAX_CURSOR);
            return Err(Fault::new(&[&"path"], message).help("fewer hosts, or fewer paths"));
        }
        topology.set_mtus(scenario);
        Ok(topology)
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|h| h.name == name)
    }

    /// Whether packets from `from` can get to `to` at all.
    pub fn reachable(&self, from: &str, to: &str) -> bool {
        match (self.host(from), self.host(to)) {
            (Some(from), Some(to)) => self.first_path(from, to).is_some(),
            _ => false,
        }
    }

    /// The first path of `from` that leads to `to`.
    pub fn first_path(&self, from: usize, to: usize) -> Option<usize> {
        let shared = self.shared_address(to);
        (0..self.hosts[from].paths.len()).find(|p| self.route(from, *p, shared) != NO_ROUTE)
    }

    /// The address of a host on one of its paths.
    pub fn address(&self, host: usize, path: usize) -> IpAddr {
        self.make_address(host, path as u16 + 1)
    }

    /// The address that all paths of a host share, where it listens.
    pub fn shared_address(&self, host: usize) -> IpAddr {
        self.make_address(host, SHARED)
    }

    fn make_address(&self, host: usize, last: u16) -> IpAddr {
        let host = host as u16;
        match self.ip {
            6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, host, last).into(),
            _ => Ipv4Addr::new(10, (host >> 8) as u8, host as u8, last as u8).into(),
        }
    }

    /// Cursor to the first hop of a packet that leaves `host` by `path` for `destination`, or
    /// [`NO_ROUTE`].
    #[inline]
    pub fn route(&self, host: usize, path: usize, destination: IpAddr) -> u32 {
        let (to, last) = match destination {
            IpAddr::V4(a) => {
                let [_, high, low, last] = a.octets();
                (usize::from(u16::from_be_bytes([high, low])), u16::from(last))
            }
            IpAddr::V6(a) => {
                let digits = a.segments();
                (usize::from(digits[6]), digits[7])
            }
        };
        let Some(&base) = self.destinations.get(to) else { return NO_ROUTE };
        let slot = if last == SHARED { 0 } else { usize::from(last) };
        let known = to + 1 < self.destinations.len();
        if !known || slot > self.hosts[to].paths.len() || path >= self.hosts[host].paths.len() {
            return NO_ROUTE;
        }
        let width = self.destinations[self.destinations.len() - 1] as usize;
        let row = self.rows[host] as usize + path;
        self.routes[row * width + base as usize + slot]
    }

    /// The hop at a cursor.
    #[inline]
    pub fn hop(&self, cursor: u32) -> Hop {
        self.hops[cursor as usize]
    }

    /// Fills the route table from a plan.
    fn resolve(&mut self, plan: &[Route]) {
        let (mut at, mut row) = (0, 0);
        for host in &self.hosts {
            self.destinations.push(at);
            self.rows.push(row);
            at += 1 + host.paths.len() as u32;
            row += host.paths.len() as u32;
        }
        self.destinations.push(at);
        self.routes = vec![NO_ROUTE; (row * at) as usize];
        for route in plan {
            let cursor = self.hops.len() as u32;
            self.hops.extend(route.links.iter().map(|l| Hop::Link(*l)));
            self.hops.push(Hop::Arrive(route.to.0 as u32, route.to.1 as u8));
            for slot in &route.slots {
                let column = self.destinations[route.to.0] as usize + slot;
                let row = self.rows[route.from.0] as usize + route.from.1;
                self.routes[row * at as usize + column] = cursor;
            }
            let path = &mut self.hosts[route.from.0].paths[route.from.1];
            if path.links.is_empty() {
                path.links.clone_from(&route.links);
            }
        }
    }

    /// A path's MTU is the smallest of its links'.
    fn set_mtus(&mut self, scenario: &Scenario) {
        for path in self.hosts.iter_mut().flat_map(|h| &mut h.paths) {
            let links = path.links.iter().map(|l| &scenario.link.0[*l as usize / 2].1);
            path.mtu = links.map(|l| l.mtu.unwrap_or(DEFAULT_MTU)).min().unwrap_or(DEFAULT_MTU);
        }
    }
}

/// A route between a path of a host and (a path of) another.
#[derive(Clone, Debug)]
struct Route {
    from: (usize, usize),
    to: (usize, usize),
    links: Vec<u32>,
    /// Addresses of `to` that it leads to: 0 is the shared one, `p + 1` that of path `p`.
    slots: Vec<usize>,
}
