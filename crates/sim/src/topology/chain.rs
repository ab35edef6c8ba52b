//! Topologies written as paths: each a row of links from host to host.

use super::{HostPath, LinkEnd, Route, Topology};
use crate::scenario::{Fault, Path, PathSettings, Scenario};
use std::collections::BTreeMap;

/// Routes by where they begin: a host and a path of it.
pub(super) type Plan = BTreeMap<(usize, usize), Vec<Route>>;

/// Fills hosts and links of `topology`; the routes are the paths, there and back.
pub(super) fn plan(scenario: &Scenario, topology: &mut Topology) -> Result<Plan, Fault> {
    if let Some(router) = scenario.routers.first() {
        let message = format!("router '{router}' joins nothing: no link says what it is between");
        return Err(Fault::new(&[&"routers", &0], message)
            .help("add between = [\"a\", \"b\"] to the links, or drop routers"));
    }
    // Without [path], every link is a path of its own.
    let implied: Vec<(String, Path)> = scenario.link.names().map(one_link).collect();
    let paths = if scenario.path.is_empty() { &implied } else { &scenario.path.0 };
    for name in scenario.link.names() {
        topology.links.push(LinkEnd { name: name.into(), from: String::new(), to: String::new() });
        topology.links.push(LinkEnd { name: name.into(), from: String::new(), to: String::new() });
    }
    let numbers: Numbers<'_> = scenario.link.names().zip(0..).collect();
    let mut used = vec![false; numbers.len()];
    let mut routes = Plan::new();
    for (name, Path(settings)) in paths {
        let links = resolve(scenario, &numbers, name, settings)?;
        links.iter().for_each(|link| used[*link as usize / 2] = true);
        let back: Vec<u32> = links.iter().rev().map(|l| l ^ 1).collect();
        name_ends(topology, settings, &links);
        let from = add_path(topology, &settings.from, name, settings, links[0]);
        let to = add_path(topology, &settings.to, name, settings, back[0]);
        routes.entry(from).or_default().push(Route { to, links, slots: Vec::new() });
        routes.entry(to).or_default().push(Route { to: from, links: back, slots: Vec::new() });
    }
    if let Some(n) = used.iter().position(|used| !used) {
        let name = &scenario.link.0[n].0;
        let fault = Fault::new(&[&"link", name], format!("link '{name}' is on no path"));
        return Err(fault.help("name it under [path], or remove it"));
    }
    // A path leads to whatever address its far end has.
    for route in routes.values_mut().flatten() {
        route.slots = (0..=topology.hosts[route.to.0].paths.len()).collect();
    }
    Ok(routes)
}

/// The number of each link by its name.
type Numbers<'s> = BTreeMap<&'s str, u32>;

fn one_link(name: &str) -> (String, Path) {
    (name.into(), Path(PathSettings { links: vec![name.into()], ..PathSettings::default() }))
}

/// The link directions of a path, from its beginning to its end.
fn resolve(
    scenario: &Scenario,
    numbers: &Numbers<'_>,
    name: &str,
    path: &PathSettings,
) -> Result<Vec<u32>, Fault> {
    if path.links.is_empty() {
        return Err(Fault::new(&[&"path", &name], format!("path '{name}' has no links")));
    }
    if path.from == path.to {
        let message = format!("path '{name}' leads from '{}' to itself", path.from);
        return Err(Fault::new(&[&"path", &name], message));
    }
    let mut links = Vec::new();
    for link in &path.links {
        let Some(&n) = numbers.get(link.as_str()) else {
            return Err(Fault::unknown(&[&"path", &name], "link", link, scenario.link.names()));
        };
        if links.contains(&(2 * n)) {
            let message = format!("path '{name}' crosses link '{link}' twice");
            return Err(Fault::new(&[&"path", &name], message));
        }
        links.push(2 * n);
    }
    Ok(links)
}

/// The host called `name`, with another path.
fn add_path(
    topology: &mut Topology,
    name: &str,
    path: &str,
    settings: &PathSettings,
    first: u32,
) -> (usize, usize) {
    let host = topology.host(name).unwrap_or_else(|| topology.add_host(name));
    let path = HostPath {
        name: path.into(),
        first,
        links: Vec::new(),
        backup: settings.backup,
        mtu: super::DEFAULT_MTU,
    };
    topology.hosts[host].paths.push(path);
    (host, topology.hosts[host].paths.len() - 1)
}

/// Names what a link lies between, for people: the host at its end, or the junction.
fn name_ends(topology: &mut Topology, settings: &PathSettings, links: &[u32]) {
    for (n, link) in links.iter().enumerate() {
        let name = |m: usize| settings.links[m].as_str();
        let from = match n {
            0 => settings.from.clone(),
            _ => format!("{}|{}", name(n - 1), name(n)),
        };
        let to = match n + 1 < links.len() {
            true => format!("{}|{}", name(n), name(n + 1)),
            false => settings.to.clone(),
        };
        let (up, down) = (*link as usize, *link as usize ^ 1);
        if topology.links[up].from.is_empty() {
            topology.links[down].to.clone_from(&from);
            topology.links[down].from.clone_from(&to);
            topology.links[up].from = from;
            topology.links[up].to = to;
        }
    }
}
