//! From names to numbers: hosts, link directions, addresses, and routes resolved to lists of link
//! directions before the first packet moves.
//!
//! Two notations: links in a row under `[path]` (no nodes are named, hosts inject into the
//! first link), or links `between` nodes with shortest routes. A host has one address a path and
//! one that all its paths share, where it listens; the host and path of an address are its
//! digits, so that looking up a route is arithmetic.
//!
//! In a small network every host has routes to every other. In one of more than `ALL_PAIRS`
//! hosts only those have them that a flow joins, in both directions: nothing else ever sends.

use crate::packet::Packet;
use crate::scenario::{Fault, Path, Scenario};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_engine::Endpoint;
use tabane_engine::view::PathId;

mod chain;
mod graph;
mod routes;
mod tunnel;

use routes::{Route, Routes};

/// Everything that does not change during a run.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub hosts: Vec<Host>,
    /// Link directions: `2 n` is the n-th link up, `2 n + 1` down. Those of tunnels follow.
    pub links: Vec<LinkEnd>,
    /// The nodes at the ends of each tunnel, the one that connects first: the last of `hosts`.
    pub tunnels: Vec<[usize; 2]>,
    /// 4 or 6.
    pub ip: u8,
    /// Number of each host by its name.
    names: BTreeMap<String, u32>,
    routes: Routes,
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
pub const MAX_HOSTS: usize = 65_000;
/// Up to so many hosts have routes to each other, whether a flow joins them or not.
const ALL_PAIRS: usize = 128;
/// The largest IP packet of a link that does not say.
pub const DEFAULT_MTU: u16 = 1500;
/// The least that a link or tunnel may have as its largest.
const LEAST_MTU: u16 = 296;

/// Refuses an MTU that is too small, written at `at` in the file.
pub(crate) fn check_mtu(mtu: Option<u16>, at: &[&dyn Display]) -> Result<(), Fault> {
    match mtu {
        Some(..LEAST_MTU) => {
            let text = format!("an MTU of less than {LEAST_MTU} bytes");
            Err(Fault::new(at, text).help("write 1500"))
        }
        _ => Ok(()),
    }
}

impl Topology {
    /// The paths of a scenario that has no `[path]`: its links, in their order. None where links
    /// say what they are between: routes are found there.
    pub fn implied_paths(scenario: &Scenario) -> Vec<(String, Path)> {
        match scenario.link.iter().any(|(_, link)| link.between.is_some()) {
            true => Vec::new(),
            false => chain::implied(scenario),
        }
    }

    /// Resolves a scenario's names.
    pub(crate) fn build(scenario: &Scenario) -> Result<Self, Fault> {
        let joined = scenario.link.iter().filter(|(_, link)| link.between.is_some()).count();
        let mut topology = Self { ip: scenario.ip, ..Self::default() };
        if joined > 0 {
            tunnel::refuse(scenario)?;
        }
        if joined == 0 {
            let mut plan = chain::plan(scenario, &mut topology)?;
            topology.check(scenario)?;
            topology.resolve(|_, from| plan.remove(&from).unwrap_or_default())?;
        } else if let Some((name, _)) = scenario.link.iter().find(|(_, l)| l.between.is_none()) {
            let message = format!("link '{name}' does not say what it is between, others do");
            return Err(Fault::new(&[&"link", &name], message).help("add between = [\"a\", \"b\"]"));
        } else {
            let mut plan = graph::plan(scenario, &mut topology)?;
            topology.check(scenario)?;
            let peers = topology.peers_of(scenario);
            topology.resolve(|topology, from| plan.routes(topology, from, &peers[from.0]))?;
        }
        topology.set_mtus(scenario);
        Ok(topology)
    }

    /// Refuses what is too large, and settings of nodes that no path reaches.
    fn check(&self, scenario: &Scenario) -> Result<(), Fault> {
        if let Some(host) = self.hosts.iter().find(|host| host.paths.len() > MAX_PATHS) {
            let (name, paths) = (&host.name, host.paths.len());
            let message = format!("host '{name}' has {paths} paths, the most is {MAX_PATHS}");
            let help = "put a router before it: links of others then end there";
            return Err(Fault::new(&[&"path"], message).help(help));
        }
        if self.hosts.len() > MAX_HOSTS {
            let message = format!("{} hosts, the most is {MAX_HOSTS}", self.hosts.len());
            return Err(Fault::new(&[&"path"], message));
        }
        let known = || self.host_names();
        if let Some(name) = scenario.host.names().find(|name| self.host(name).is_none()) {
            return Err(Fault::unknown(&[&"host", &name], "path to or from host", name, known()));
        }
        for name in scenario.proxy.names() {
            if scenario.host.get(name).is_some() {
                let message = format!("'{name}' is a host and a proxy");
                return Err(Fault::new(&[&"proxy", &name], message)
                    .help("its settings are those under [proxy]: listen = {..}, connect = {..}"));
            }
            if self.host(name).is_none() {
                let what = "path to or from proxy";
                return Err(Fault::unknown(&[&"proxy", &name], what, name, known()));
            }
        }
        Ok(())
    }

    /// For each host, the others that it has to have routes to, in order.
    fn peers_of(&self, scenario: &Scenario) -> Vec<Vec<u32>> {
        let count = self.hosts.len() as u32;
        if self.hosts.len() <= ALL_PAIRS {
            return (0..count).map(|own| (0..count).filter(|n| *n != own).collect()).collect();
        }
        let mut peers = vec![Vec::new(); self.hosts.len()];
        for flow in &scenario.flow {
            let nodes: Vec<usize> = flow.nodes().filter_map(|name| self.host(name)).collect();
            for pair in nodes.windows(2).filter(|pair| pair[0] != pair[1]) {
                peers[pair[0]].push(pair[1] as u32);
                peers[pair[1]].push(pair[0] as u32);
            }
        }
        for own in &mut peers {
            own.sort_unstable();
            own.dedup();
        }
        peers
    }

    /// Another host.
    fn add_host(&mut self, name: &str) -> usize {
        let number = self.hosts.len();
        self.names.insert(name.to_owned(), number as u32);
        self.hosts.push(Host { name: name.to_owned(), paths: Vec::new() });
        number
    }

    /// The host called `name`.
    pub fn host(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|number| *number as usize)
    }

    /// The hosts that `host` has a route to by any of its paths, in order.
    pub fn peers(&self, host: usize) -> Vec<usize> {
        self.routes.peers(host)
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
        self.paths_to(from, to).next()
    }

    /// The path that a connection of `from` to `to` begins on: the first that leads there and is
    /// up, as by the default routes of a host that withdraws those of a link without carrier.
    pub fn path_to_open(&self, from: usize, to: usize, endpoint: &Endpoint) -> usize {
        let is_up = |path: &usize| endpoint.is_path_up(PathId(*path as u8));
        let up = self.paths_to(from, to).find(is_up);
        up.or_else(|| self.first_path(from, to)).unwrap_or(0)
    }

    fn paths_to(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let shared = self.shared_address(to);
        let leads = move |path: &usize| self.route(from, *path, shared) != NO_ROUTE;
        (0..self.hosts[from].paths.len()).filter(leads)
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

    /// The host whose address it is.
    pub fn host_of(&self, address: IpAddr) -> usize {
        digits(address).0
    }

    /// Cursor to the first hop of a packet that leaves `host` by `path` for `destination`, or
    /// [`NO_ROUTE`].
    #[inline]
    pub fn route(&self, host: usize, path: usize, destination: IpAddr) -> u32 {
        let (to, last) = digits(destination);
        let slot = if last == SHARED { 0 } else { usize::from(last) };
        self.routes.cursor(host, path, to, slot)
    }

    /// The hop at a cursor.
    #[inline]
    pub fn hop(&self, cursor: u32) -> Hop {
        self.routes.hop(cursor)
    }

    /// The hops from a cursor on, the arrival last; none from [`NO_ROUTE`].
    pub fn hops(&self, cursor: u32) -> impl Iterator<Item = Hop> {
        let mut next = (cursor != NO_ROUTE).then_some(cursor);
        std::iter::from_fn(move || {
            let cursor = next?;
            let hop = self.hop(cursor);
            next = matches!(hop, Hop::Link(_)).then_some(cursor + 1);
            Some(hop)
        })
    }

    /// Where what leaves `host` by `path` for `to` arrives: the host, and by which path of
    /// it.
    pub fn far_end(&self, host: usize, path: usize, to: IpAddr) -> Option<(usize, usize)> {
        match self.hops(self.route(host, path, to)).last()? {
            Hop::Arrive(host, path) => Some((host as usize, usize::from(path))),
            Hop::Link(_) => None,
        }
    }

    /// Fills the route table, path by path of each host; `routes` says where a path leads.
    fn resolve(
        &mut self,
        mut routes: impl FnMut(&Self, (usize, usize)) -> Vec<Route>,
    ) -> Result<(), Fault> {
        let slots: Vec<u32> = self.hosts.iter().map(|host| 1 + host.paths.len() as u32).collect();
        let mut table = Routes::default();
        for host in 0..self.hosts.len() {
            table.begin_host();
            for path in 0..self.hosts[host].paths.len() {
                let row = routes(self, (host, path));
                if let Some(first) = row.first() {
                    self.hosts[host].paths[path].links.clone_from(&first.links);
                }
                table.add_row(row, &slots);
                if !table.fits() {
                    let most = Packet::MAX_CURSOR;
                    let message = format!("all routes together have more than {most} hops");
                    let help = "fewer hosts that talk to each other, or fewer paths";
                    return Err(Fault::new(&[&"path"], message).help(help));
                }
            }
        }
        table.end();
        self.routes = table;
        Ok(())
    }

    /// A path's MTU is the smallest of its links'.
    fn set_mtus(&mut self, scenario: &Scenario) {
        for path in self.hosts.iter_mut().flat_map(|h| &mut h.paths) {
            let mtus = path.links.iter().map(|l| {
                let n = *l as usize / 2;
                let link = scenario.link.0.get(n).map(|(_, link)| link.mtu);
                let tunnel = || scenario.tunnel.0.get(n - scenario.link.0.len());
                link.unwrap_or_else(|| tunnel().and_then(|(_, tunnel)| tunnel.mtu))
            });
            path.mtu = mtus.map(|mtu| mtu.unwrap_or(DEFAULT_MTU)).min().unwrap_or(DEFAULT_MTU);
        }
    }
}

/// Host and last digit of an address.
#[inline]
fn digits(address: IpAddr) -> (usize, u16) {
    match address {
        IpAddr::V4(a) => {
            let [_, high, low, last] = a.octets();
            (usize::from(u16::from_be_bytes([high, low])), u16::from(last))
        }
        IpAddr::V6(a) => {
            let digits = a.segments();
            (usize::from(digits[6]), digits[7])
        }
    }
}
