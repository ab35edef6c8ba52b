//! Topologies written as paths: each a row of links from host to host.

use super::{HostPath, LinkEnd, Route, Topology, tunnel};
use crate::scenario::{Fault, Path, PathSettings, Scenario};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Routes by where they begin: a host and a path of it.
pub(super) type Plan = BTreeMap<(usize, usize), Vec<Route>>;

/// Fills hosts and links of `topology`; the routes are the paths, there and back.
pub(super) fn plan(scenario: &Scenario, topology: &mut Topology) -> Result<Plan, Fault> {
    if let Some(router) = scenario.routers.first() {
        let message = format!("router '{router}' joins nothing: no link says what it is between");
        return Err(Fault::new(&[&"routers", &0], message)
            .help("add between = [\"a\", \"b\"] to the links, or drop routers"));
    }
    let names = || scenario.link.names().chain(scenario.tunnel.names());
    let implied = implied(scenario);
    let paths = if scenario.path.is_empty() { &implied } else { &scenario.path.0 };
    for name in names() {
        topology.links.push(LinkEnd { name: name.into(), from: String::new(), to: String::new() });
        topology.links.push(LinkEnd { name: name.into(), from: String::new(), to: String::new() });
    }
    let mut builder = Builder {
        scenario,
        numbers: names().zip(0..).collect(),
        used: vec![false; topology.links.len() / 2],
        routes: Plan::new(),
    };
    for (name, Path(settings)) in paths {
        let ends = [&settings.from, &settings.to].map(|name| host(topology, name));
        builder.add(topology, &[&"path", &name], name, settings, ends)?;
    }
    tunnel::add(topology, &mut builder)?;
    builder.finish(topology)
}

/// Makes routes of paths.
pub(super) struct Builder<'s> {
    pub(super) scenario: &'s Scenario,
    numbers: Numbers<'s>,
    /// Links that some path crosses.
    used: Vec<bool>,
    routes: Plan,
}

impl Builder<'_> {
    /// A path between two hosts, written at `at` in the file.
    pub(super) fn add(
        &mut self,
        topology: &mut Topology,
        at: &[&dyn Display],
        name: &str,
        settings: &PathSettings,
        ends: [usize; 2],
    ) -> Result<(), Fault> {
        if settings.links.is_empty() {
            return Err(Fault::new(at, format!("path '{name}' has no links")));
        }
        if ends[0] == ends[1] {
            let message = format!("path '{name}' leads from '{}' to itself", settings.from);
            return Err(Fault::new(at, message));
        }
        let links = self.resolve(at, name, &settings.links)?;
        let mut back: Vec<u32> = links.iter().rev().map(|l| l ^ 1).collect();
        name_ends(topology, ends, &links);
        if !settings.back.is_empty() {
            back = self.resolve(at, name, &settings.back)?.iter().map(|l| l ^ 1).collect();
            name_ends(topology, ends, &back.iter().rev().map(|l| l ^ 1).collect::<Vec<_>>());
        }
        let from = add_path(topology, ends[0], name, settings, links[0]);
        let to = add_path(topology, ends[1], name, settings, back[0]);
        self.routes.entry(from).or_default().push(Route { to, links, slots: Vec::new() });
        self.routes.entry(to).or_default().push(Route { to: from, links: back, slots: Vec::new() });
        Ok(())
    }

    /// The link directions of a path, from its beginning to its end.
    fn resolve(
        &mut self,
        at: &[&dyn Display],
        name: &str,
        names: &[String],
    ) -> Result<Vec<u32>, Fault> {
        let mut links = Vec::new();
        for link in names {
            let Some(&n) = self.numbers.get(link.as_str()) else {
                let Scenario { link: known, tunnel, .. } = self.scenario;
                let what = if tunnel.is_empty() { "link" } else { "link or tunnel" };
                let known = known.names().chain(tunnel.names());
                return Err(Fault::unknown(at, what, link, known));
            };
            if links.contains(&(2 * n)) {
                let message = format!("path '{name}' crosses link '{link}' twice");
                return Err(Fault::new(at, message));
            }
            links.push(2 * n);
            self.used[n as usize] = true;
        }
        Ok(links)
    }

    fn finish(mut self, topology: &Topology) -> Result<Plan, Fault> {
        if let Some(n) = self.used.iter().position(|used| !used) {
            let name = &topology.links[2 * n].name;
            let what = if n < self.scenario.link.0.len() { "link" } else { "tunnel" };
            let fault = Fault::new(&[&what, name], format!("{what} '{name}' is on no path"));
            return Err(fault.help("name it under [path], or remove it"));
        }
        // A path leads to whatever address its far end has.
        for route in self.routes.values_mut().flatten() {
            route.slots = (0..=topology.hosts[route.to.0].paths.len()).collect();
        }
        Ok(self.routes)
    }
}

/// The number of each link by its name.
type Numbers<'s> = BTreeMap<&'s str, u32>;

/// Without `[path]`, every link is a path of its own, and every tunnel, unless it carries one.
pub(super) fn implied(scenario: &Scenario) -> Vec<(String, Path)> {
    let carried = tunnel::carrying(scenario);
    let names = scenario.link.names().chain(scenario.tunnel.names());
    let one_link = |name: &str| {
        let settings = PathSettings { links: vec![name.into()], ..PathSettings::default() };
        (name.to_owned(), Path(settings))
    };
    names.filter(|name| !carried.contains(name)).map(one_link).collect()
}

/// The host called `name`.
fn host(topology: &mut Topology, name: &str) -> usize {
    topology.host(name).unwrap_or_else(|| topology.add_host(name))
}

/// Another path of a host.
fn add_path(
    topology: &mut Topology,
    host: usize,
    path: &str,
    settings: &PathSettings,
    first: u32,
) -> (usize, usize) {
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
fn name_ends(topology: &mut Topology, ends: [usize; 2], links: &[u32]) {
    for (n, link) in links.iter().enumerate() {
        let name = |m: usize| topology.links[links[m] as usize].name.as_str();
        let end = |end: usize| topology.hosts[ends[end]].name.clone();
        let from = match n {
            0 => end(0),
            _ => format!("{}|{}", name(n - 1), name(n)),
        };
        let to = match n + 1 < links.len() {
            true => format!("{}|{}", name(n), name(n + 1)),
            false => end(1),
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
