//! Topologies written as nodes and links between them: shortest routes (fewest links, then first
//! in the file), or those that `[path]` says. Hosts do not forward.
//!
//! All hosts at a router share its tree: the link direction by which a search that begins there
//! first comes to each other router. A route is read from it backwards, so that a search is made
//! once for a router and not for a pair of hosts, and looks at links between routers only.
//!
//! With `ecmp` a route takes any of the shortest: at each router, read backwards, a hash of where
//! the route begins and ends chooses, as routers do by addresses (RFC 2992). All packets between
//! two addresses take one route, whatever their ports.

use super::{HostPath, LinkEnd, Route, Topology};
use crate::link::flow_hash;
use crate::scenario::{Fault, Path, PathSettings, Scenario};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;

/// What routes are read from.
pub(super) struct Plan {
    graph: Graph,
    /// Those that `[path]` says, by where they begin.
    chosen: BTreeMap<(usize, usize), Vec<Route>>,
    /// By router.
    trees: BTreeMap<usize, Tree>,
}

/// Shortest ways from a router to the others.
#[derive(Default)]
struct Tree {
    /// The link direction by which each is reached first, or [`NONE`].
    entry: Vec<u32>,
    /// Links to it.
    distance: Vec<u32>,
}

struct Graph {
    /// Nodes at the two ends of each link: hosts first, then routers.
    ends: Vec<[usize; 2]>,
    hosts: usize,
    names: Vec<String>,
    /// Directions of links to other routers, by router, in the order of the file.
    out: Vec<Vec<u32>>,
    ecmp: bool,
}

/// Where a route begins: a host and a path of it.
type Start = (usize, usize);

/// No link direction leads there.
const NONE: u32 = u32::MAX;
/// Entries of trees that are kept at a time (64 MB); a search is cheap.
const TREES: usize = 1 << 24;

/// Fills hosts and links of `topology`.
pub(super) fn plan(scenario: &Scenario, topology: &mut Topology) -> Result<Plan, Fault> {
    let graph = Graph::read(scenario, topology)?;
    let mut chosen: BTreeMap<(usize, usize), Vec<Route>> = BTreeMap::new();
    let links: BTreeMap<&str, usize> = scenario.link.names().zip(0..).collect();
    for (name, Path(settings)) in scenario.path.iter() {
        for (from, route) in graph.chosen(&links, topology, name, settings)? {
            chosen.entry(from).or_default().push(route);
        }
    }
    for route in chosen.values_mut().flatten() {
        route.slots = (0..=topology.hosts[route.to.0].paths.len()).collect();
    }
    Ok(Plan { graph, chosen, trees: BTreeMap::new() })
}

impl Plan {
    /// Routes from a path of a host: those chosen, and the shortest to the other `peers`.
    pub(super) fn routes(
        &mut self,
        topology: &Topology,
        from: (usize, usize),
        peers: &[u32],
    ) -> Vec<Route> {
        let mut routes = self.chosen.remove(&from).unwrap_or_default();
        let chosen: BTreeSet<usize> = routes.iter().map(|route| route.to.0).collect();
        let first = topology.hosts[from.0].paths[from.1].first;
        let root = self.graph.target(first);
        let none = Tree::default();
        let tree = match root.checked_sub(self.graph.hosts) {
            None => &none,
            Some(router) => {
                if self.trees.len() * self.graph.out.len() > TREES {
                    self.trees.clear();
                }
                &*self.trees.entry(router).or_insert_with(|| self.graph.tree(first))
            }
        };
        let others = peers.iter().map(|to| *to as usize).filter(|to| !chosen.contains(to));
        for to in others {
            self.graph.shortest(topology, (first, tree), to, &mut routes);
        }
        routes
    }
}

impl Graph {
    fn read(scenario: &Scenario, topology: &mut Topology) -> Result<Self, Fault> {
        let flows = scenario.flow.iter().flat_map(|f| [&f.from, &f.to]);
        let proxies = scenario.proxy.0.iter().map(|(n, _)| n);
        let paths = scenario.path.iter().flat_map(|(_, Path(p))| [&p.from, &p.to]);
        let known = scenario.host.0.iter().map(|(n, _)| n).chain(flows).chain(paths).chain(proxies);
        let ends = scenario.link.iter().flat_map(|(_, link)| link.between.iter().flatten());
        let joined: BTreeSet<&str> = ends.map(String::as_str).collect();
        for name in known.filter(|name| joined.contains(name.as_str())) {
            if topology.host(name).is_none() {
                topology.add_host(name);
            }
        }
        let hosts = topology.hosts.len();
        let mut names: Vec<String> = topology.hosts.iter().map(|host| host.name.clone()).collect();
        let mut numbers = topology.names.clone();
        for (n, name) in scenario.routers.iter().enumerate() {
            if numbers.insert(name.clone(), names.len() as u32).is_some() {
                let message = format!("'{name}' is there twice");
                return Err(Fault::new(&[&"routers", &n], message));
            }
            if !joined.contains(name.as_str()) {
                return Err(Fault::new(&[&"routers", &n], format!("no link leads to '{name}'")));
            }
            names.push(name.clone());
        }
        let out = vec![Vec::new(); names.len() - hosts];
        let mut graph = Self { ends: Vec::new(), hosts, names, out, ecmp: scenario.ecmp };
        for (n, (name, link)) in scenario.link.iter().enumerate() {
            let ends = link.between.as_ref().expect("invariant: the caller looked");
            graph.add_link(topology, &numbers, (n as u32, name), ends)?;
        }
        Ok(graph)
    }

    fn add_link(
        &mut self,
        topology: &mut Topology,
        numbers: &BTreeMap<String, u32>,
        (n, name): (u32, &str),
        ends: &[String; 2],
    ) -> Result<(), Fault> {
        if ends[0] == ends[1] {
            let message = format!("link '{name}' leads from '{}' to itself", ends[0]);
            return Err(Fault::new(&[&"link", &name, &"between"], message));
        }
        let mut nodes = [0; 2];
        for (side, end) in ends.iter().enumerate() {
            let Some(&node) = numbers.get(end) else {
                let known = self.names.iter().map(String::as_str);
                let at: &[&dyn Display] = &[&"link", &name, &"between", &side];
                return Err(Fault::unknown(at, "host or router", end, known));
            };
            nodes[side] = node as usize;
            if nodes[side] < self.hosts {
                topology.hosts[nodes[side]].paths.push(HostPath {
                    name: name.into(),
                    first: 2 * n + side as u32,
                    links: Vec::new(),
                    backup: false,
                    mtu: super::DEFAULT_MTU,
                });
            }
        }
        if nodes.iter().all(|node| *node >= self.hosts) {
            for (side, node) in nodes.iter().enumerate() {
                self.out[node - self.hosts].push(2 * n + side as u32);
            }
        }
        let [a, b] = ends.clone();
        topology.links.push(LinkEnd { name: name.into(), from: a.clone(), to: b.clone() });
        topology.links.push(LinkEnd { name: name.into(), from: b, to: a });
        self.ends.push(nodes);
        Ok(())
    }

    /// The node that a link direction leads to.
    fn target(&self, direction: u32) -> usize {
        self.ends[direction as usize / 2][1 - (direction as usize & 1)]
    }

    /// The node that a link direction comes from.
    fn origin(&self, direction: u32) -> usize {
        self.target(direction ^ 1)
    }

    /// The route that a `[path]` entry says, there and back, and where each begins.
    fn chosen(
        &self,
        numbers: &BTreeMap<&str, usize>,
        topology: &mut Topology,
        name: &str,
        settings: &PathSettings,
    ) -> Result<[(Start, Route); 2], Fault> {
        let node = |key: &str, name_of: &str| {
            topology.host(name_of).ok_or_else(|| {
                let known = self.names[..self.hosts].iter().map(String::as_str);
                Fault::unknown(&[&"path", &name, &key], "host", name_of, known)
            })
        };
        let (from, to) = (node("from", &settings.from)?, node("to", &settings.to)?);
        let mut at = from;
        let mut links: Vec<u32> = Vec::new();
        for link in &settings.links {
            let Some(&n) = numbers.get(link.as_str()) else {
                let known = topology.links.iter().step_by(2).map(|end| end.name.as_str());
                return Err(Fault::unknown(&[&"path", &name], "link", link, known));
            };
            let Some(side) = self.ends[n].iter().position(|end| *end == at) else {
                let message = format!("link '{link}' does not begin at '{}'", self.names[at]);
                return Err(Fault::new(&[&"path", &name], message));
            };
            links.push(2 * n as u32 + side as u32);
            at = self.ends[n][1 - side];
        }
        if at != to || links.is_empty() {
            let message =
                format!("path '{name}' ends at '{}', not at '{}'", self.names[at], settings.to);
            return Err(Fault::new(&[&"path", &name], message));
        }
        let back: Vec<u32> = links.iter().rev().map(|l| l ^ 1).collect();
        let mut claim = |host: usize, first: u32| {
            let paths = &mut topology.hosts[host].paths;
            let path = paths.iter().position(|p| p.first == first).expect("invariant: its link");
            paths[path].name = name.into();
            paths[path].backup = settings.backup;
            (host, path)
        };
        let (from, to) = (claim(from, links[0]), claim(to, back[0]));
        let route = |to, links| Route { to, links, slots: Vec::new() };
        Ok([(from, route(to, links)), (to, route(from, back))])
    }

    /// Shortest routes from a path of a host, whose first link direction and tree are given, to
    /// another host: to its shared address by whatever path is nearest, and to the address of each
    /// of its paths by that path.
    fn shortest(
        &self,
        topology: &Topology,
        (first, tree): (u32, &Tree),
        to: usize,
        routes: &mut Vec<Route>,
    ) {
        let ways = topology.hosts[to].paths.iter().enumerate();
        let mut ways: Vec<_> = ways
            .filter_map(|(path, p)| Some((path, self.read_back(tree, first, p.first ^ 1)?)))
            .collect();
        ways.sort_by_key(|(path, links)| (links.len(), *path));
        for (n, (path, links)) in ways.into_iter().enumerate() {
            let slots = if n == 0 { vec![0, path + 1] } else { vec![path + 1] };
            routes.push(Route { to: (to, path), links, slots });
        }
    }

    /// A search from the router that `first` leads to.
    fn tree(&self, first: u32) -> Tree {
        let root = self.target(first) - self.hosts;
        let count = self.out.len();
        let mut tree = Tree { entry: vec![NONE; count], distance: vec![u32::MAX; count] };
        tree.distance[root] = 0;
        let mut queue = VecDeque::from([root]);
        while let Some(router) = queue.pop_front() {
            for &next in &self.out[router] {
                let reached = self.target(next) - self.hosts;
                if tree.distance[reached] == u32::MAX {
                    tree.entry[reached] = next;
                    tree.distance[reached] = tree.distance[router] + 1;
                    queue.push_back(reached);
                }
            }
        }
        tree
    }

    /// The link direction before `router` on a route from `first` to `last`.
    fn before(&self, tree: &Tree, router: usize, (first, last): (u32, u32)) -> Option<u32> {
        let entry = *tree.entry.get(router).filter(|entry| **entry != NONE)?;
        if !self.ecmp {
            return Some(entry);
        }
        let nearer = |out: &&u32| {
            let other = self.target(**out) - self.hosts;
            tree.distance[other] != u32::MAX && tree.distance[other] + 1 == tree.distance[router]
        };
        let choices: Vec<u32> = self.out[router].iter().filter(nearer).map(|out| out ^ 1).collect();
        let [first, last, at] = [first, last, router as u32].map(u32::to_be_bytes);
        let hash = flow_hash(&[&first, &last, &at]);
        choices.get((hash % choices.len().max(1) as u64) as usize).copied()
    }

    /// Fewest link directions from `first` to `last`, both included, through routers only.
    fn read_back(&self, tree: &Tree, first: u32, last: u32) -> Option<Vec<u32>> {
        let mut links = vec![last];
        if first == last {
            return Some(links);
        }
        let root = self.target(first);
        let mut node = self.origin(last);
        while node != root {
            let before = self.before(tree, node.checked_sub(self.hosts)?, (first, last))?;
            links.push(before);
            node = self.origin(before);
        }
        // Hosts do not forward.
        root.checked_sub(self.hosts)?;
        links.push(first);
        links.reverse();
        Some(links)
    }
}
