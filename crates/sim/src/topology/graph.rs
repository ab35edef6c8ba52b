//! Topologies written as nodes and links between them: shortest routes (fewest links, then first
//! in the file), or those that `[path]` says. Hosts do not forward.

use super::{Host, HostPath, LinkEnd, Route, Topology};
use crate::scenario::{Fault, Path, PathSettings, Scenario};
use std::collections::VecDeque;

/// Fills hosts and links of `topology`; every path of every host gets routes to every other.
pub(super) fn plan(scenario: &Scenario, topology: &mut Topology) -> Result<Vec<Route>, Fault> {
    let graph = Graph::read(scenario, topology)?;
    let mut routes = Vec::new();
    for (name, Path(settings)) in scenario.path.iter() {
        routes.extend(graph.chosen(scenario, topology, name, settings)?);
    }
    for route in &mut routes {
        route.slots = (0..=topology.hosts[route.to.0].paths.len()).collect();
    }
    let chosen = routes.len();
    for from in 0..topology.hosts.len() {
        for path in 0..topology.hosts[from].paths.len() {
            for to in (0..topology.hosts.len()).filter(|to| *to != from) {
                let explicit =
                    routes[..chosen].iter().any(|r| r.from == (from, path) && r.to.0 == to);
                if !explicit {
                    graph.shortest(topology, (from, path), to, &mut routes);
                }
            }
        }
    }
    Ok(routes)
}

struct Graph {
    /// Nodes at the two ends of each link: hosts first, then routers.
    ends: Vec<[usize; 2]>,
    hosts: usize,
    names: Vec<String>,
}

impl Graph {
    fn read(scenario: &Scenario, topology: &mut Topology) -> Result<Self, Fault> {
        let mut names: Vec<String> = Vec::new();
        let flows = scenario.flow.iter().flat_map(|f| [&f.from, &f.to]);
        let proxies = scenario.proxy.0.iter().map(|(n, _)| n);
        let paths = scenario.path.iter().flat_map(|(_, Path(p))| [&p.from, &p.to]);
        let known = scenario.host.0.iter().map(|(n, _)| n).chain(flows).chain(paths).chain(proxies);
        let joined = |name: &String| {
            scenario.link.iter().any(|(_, l)| l.between.iter().flatten().any(|n| n == name))
        };
        for name in known.filter(|n| joined(n)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let hosts = names.len();
        for (n, name) in scenario.routers.iter().enumerate() {
            if names.contains(name) {
                let message = format!("'{name}' is there twice");
                return Err(Fault::new(&[&"routers", &n], message));
            }
            if !joined(name) {
                return Err(Fault::new(&[&"routers", &n], format!("no link leads to '{name}'")));
            }
            names.push(name.clone());
        }
        topology.hosts =
            names[..hosts].iter().map(|n| Host { name: n.clone(), paths: Vec::new() }).collect();
        let mut graph = Self { ends: Vec::new(), hosts, names };
        for (n, (name, link)) in scenario.link.iter().enumerate() {
            let ends = link.between.as_ref().expect("invariant: the caller looked");
            graph.add_link(topology, n as u32, name, ends)?;
        }
        Ok(graph)
    }

    fn add_link(
        &mut self,
        topology: &mut Topology,
        n: u32,
        name: &str,
        ends: &[String; 2],
    ) -> Result<(), Fault> {
        if ends[0] == ends[1] {
            let message = format!("link '{name}' leads from '{}' to itself", ends[0]);
            return Err(Fault::new(&[&"link", &name, &"between"], message));
        }
        let mut nodes = [0; 2];
        for (side, end) in ends.iter().enumerate() {
            let Some(node) = self.names.iter().position(|n| n == end) else {
                let known = self.names.iter().map(String::as_str);
                let at: &[&dyn std::fmt::Display] = &[&"link", &name, &"between", &side];
                return Err(Fault::unknown(at, "host or router", end, known));
            };
            nodes[side] = node;
            if node < self.hosts {
                topology.hosts[node].paths.push(HostPath {
                    name: name.into(),
                    first: 2 * n + side as u32,
                    links: Vec::new(),
                    backup: false,
                    mtu: super::DEFAULT_MTU,
                });
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

    /// The route that a `[path]` entry says, there and back.
    fn chosen(
        &self,
        scenario: &Scenario,
        topology: &mut Topology,
        name: &str,
        settings: &PathSettings,
    ) -> Result<[Route; 2], Fault> {
        let node = |key: &str, name_of: &str| {
            let hosts = &self.names[..self.hosts];
            hosts.iter().position(|n| n == name_of).ok_or_else(|| {
                let known = hosts.iter().map(String::as_str);
                Fault::unknown(&[&"path", &name, &key], "host", name_of, known)
            })
        };
        let (from, to) = (node("from", &settings.from)?, node("to", &settings.to)?);
        let mut at = from;
        let mut links: Vec<u32> = Vec::new();
        for link in &settings.links {
            let Some(n) = scenario.link.position(link) else {
                return Err(Fault::unknown(&[&"path", &name], "link", link, scenario.link.names()));
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
        Ok([
            Route { from, to, links, slots: Vec::new() },
            Route { from: to, to: from, links: back, slots: Vec::new() },
        ])
    }

    /// Shortest routes from a path of a host to another host: to its shared address by whatever
    /// path is nearest, and to the address of each of its paths by that path.
    fn shortest(
        &self,
        topology: &Topology,
        from: (usize, usize),
        to: usize,
        routes: &mut Vec<Route>,
    ) {
        let first = topology.hosts[from.0].paths[from.1].first;
        let ways = topology.hosts[to].paths.iter().enumerate();
        let mut ways: Vec<_> =
            ways.filter_map(|(path, p)| Some((path, self.search(first, p.first ^ 1)?))).collect();
        ways.sort_by_key(|(path, links)| (links.len(), *path));
        for (n, (path, links)) in ways.into_iter().enumerate() {
            let slots = if n == 0 { vec![0, path + 1] } else { vec![path + 1] };
            routes.push(Route { from, to: (to, path), links, slots });
        }
    }

    /// Fewest link directions from `first` to `last`, both included, through routers only.
    fn search(&self, first: u32, last: u32) -> Option<Vec<u32>> {
        let mut before: Vec<Option<u32>> = vec![None; 2 * self.ends.len()];
        let mut queue = VecDeque::from([first]);
        before[first as usize] = Some(first);
        while let Some(link) = queue.pop_front() {
            if link == last {
                let mut links = vec![last];
                while let Some(&at) = links.last().filter(|l| **l != first) {
                    links.push(before[at as usize].expect("invariant: came from somewhere"));
                }
                links.reverse();
                return Some(links);
            }
            let node = self.target(link);
            if node < self.hosts {
                continue;
            }
            for (n, ends) in self.ends.iter().enumerate() {
                for side in (0..2).filter(|side| ends[*side] == node) {
                    let next = 2 * n as u32 + side as u32;
                    if before[next as usize].is_none() {
                        before[next as usize] = Some(link);
                        queue.push_back(next);
                    }
                }
            }
        }
        None
    }
}
