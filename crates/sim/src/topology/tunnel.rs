//! Tunnels in a topology: their ends are nodes with paths of their own, after all hosts; their two
//! directions are numbered after those of the links, so that a route crosses them as it does links.

use super::chain::Builder;
use super::{Host, Topology};
use crate::scenario::{Fault, Scenario};
use std::collections::BTreeSet;

/// Refuses tunnels, and other ways back, where links say what they are between.
pub(super) fn refuse(scenario: &Scenario) -> Result<(), Fault> {
    if let Some((name, _)) = scenario.path.iter().find(|(_, path)| !path.0.back.is_empty()) {
        let message = format!("path '{name}' says how it comes back");
        let fault = Fault::new(&[&"path", &name, &"back"], message);
        return Err(fault.help("name two paths: links here say what they are between"));
    }
    let Some(name) = scenario.tunnel.names().next() else { return Ok(()) };
    let message = format!("tunnel '{name}' in a network whose links say what they are between");
    let help = "write the network as paths: [path] with lists of links, no between";
    Err(Fault::new(&[&"tunnel", &name], message).help(help))
}

/// Names of links and tunnels that tunnels travel over.
pub(super) fn carrying(scenario: &Scenario) -> BTreeSet<&str> {
    scenario.tunnel.iter().flat_map(|(_, tunnel)| tunnel.carriers()).collect()
}

/// Adds the ends of every tunnel, and what they are joined by.
pub(super) fn add(topology: &mut Topology, builder: &mut Builder<'_>) -> Result<(), Fault> {
    let scenario = builder.scenario;
    for (name, tunnel) in scenario.tunnel.iter() {
        let ends = ["near", "far"].map(|end| {
            let number = topology.hosts.len();
            topology.hosts.push(Host { name: format!("{name}:{end}"), paths: Vec::new() });
            number
        });
        topology.tunnels.push(ends);
        for (path, settings) in tunnel.ways() {
            let key = if tunnel.paths.is_empty() { "links" } else { "paths" };
            let own = if tunnel.paths.is_empty() { name } else { &path };
            builder.add(topology, &[&"tunnel", &name, &key], own, &settings, ends)?;
        }
    }
    for (n, name) in scenario.tunnel.names().enumerate() {
        if reaches(scenario, n, n, &mut BTreeSet::new()) {
            let message = format!("tunnel '{name}' travels over itself");
            let fault = Fault::new(&[&"tunnel", &name], message);
            return Err(fault.help("let the innermost of its tunnels travel over links only"));
        }
    }
    Ok(())
}

/// Whether a tunnel travels over another, through whatever lies between.
fn reaches(scenario: &Scenario, from: usize, to: usize, seen: &mut BTreeSet<usize>) -> bool {
    let names = scenario.tunnel.0[from].1.carriers();
    let next: Vec<usize> = names.filter_map(|name| scenario.tunnel.position(name)).collect();
    next.into_iter().any(|n| n == to || (seen.insert(n) && reaches(scenario, n, to, seen)))
}

impl Topology {
    /// The first of the nodes that are ends of tunnels.
    pub(crate) fn first_end(&self) -> usize {
        self.hosts.len() - 2 * self.tunnels.len()
    }

    /// Names of the hosts that a file can name: all but the ends of tunnels.
    pub(crate) fn host_names(&self) -> impl Iterator<Item = &str> {
        self.hosts[..self.first_end()].iter().map(|host| host.name.as_str())
    }

    /// Number of the tunnel that a node is an end of, and which end.
    pub(crate) fn tunnel_end(&self, host: usize) -> Option<(usize, usize)> {
        let place = host.checked_sub(self.first_end())?;
        Some((place / 2, place % 2))
    }

    /// The ways over links that a way over links and tunnels stands for.
    pub(crate) fn beneath(&self, way: &[u32]) -> Vec<Vec<u32>> {
        let first = (self.links.len() - 2 * self.tunnels.len()) as u32;
        let mut ways = vec![Vec::new()];
        for direction in way {
            let Some(place) = direction.checked_sub(first) else {
                ways.iter_mut().for_each(|way| way.push(*direction));
                continue;
            };
            let [near, far] = self.tunnels[place as usize / 2];
            let end = if place % 2 == 0 { near } else { far };
            let carriers = self.hosts[end].paths.iter().flat_map(|path| self.beneath(&path.links));
            let carriers: Vec<Vec<u32>> = carriers.collect();
            let joined = |way: &Vec<u32>| -> Vec<Vec<u32>> {
                carriers.iter().map(|more| [&way[..], more].concat()).collect()
            };
            ways = ways.iter().flat_map(joined).collect();
        }
        ways
    }
}
