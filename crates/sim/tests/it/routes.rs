//! Routes are what a search over all links finds, for each pair of hosts by itself.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::VecDeque;
use tabane_sim::Plan;
use tabane_sim::scenario::Scenario;
use tabane_sim::topology::{Hop, NO_ROUTE};

/// A network: links between nodes, of which the first few are hosts.
#[derive(Clone, Debug)]
struct Network {
    hosts: usize,
    links: Vec<(usize, usize)>,
}

impl Network {
    fn name(&self, node: usize) -> String {
        format!("{}{node}", if node < self.hosts { "h" } else { "r" })
    }

    fn compile(&self, ecmp: bool) -> Result<Plan, String> {
        let used = |n: &usize| self.links.iter().any(|(a, b)| a == n || b == n);
        let nodes = self.links.iter().flat_map(|(a, b)| [*a, *b]).max().unwrap_or(0) + 1;
        let routers = (self.hosts..nodes).filter(used).map(|n| format!("'{}'", self.name(n)));
        let routers: Vec<String> = routers.collect();
        let mut text = format!("ecmp = {ecmp}\nrouters = [{}]\n", routers.join(", "));
        for (n, (a, b)) in self.links.iter().enumerate() {
            let (a, b) = (self.name(*a), self.name(*b));
            text += &format!("link.l{n} = {{ between = ['{a}', '{b}'], rate = '1Mbps' }}\n");
        }
        (0..self.hosts).filter(used).for_each(|n| text += &format!("host.h{n} = {{}}\n"));
        text += "[[flow]]\nfrom = 'h0'\nto = 'h1'\nbulk = '1kB'\n";
        let scenario = Scenario::parse("network.toml", &text).map_err(|e| e.to_string())?;
        scenario.compile().map_err(|fault| fault.message)
    }

    /// Fewest link directions from one to another through routers, first in the file.
    fn search(&self, first: u32, last: u32) -> Option<Vec<u32>> {
        let ends = |direction: u32| match (self.links[direction as usize / 2], direction % 2) {
            ((a, b), 0) => (a, b),
            ((a, b), _) => (b, a),
        };
        let mut before = vec![None; 2 * self.links.len()];
        before[first as usize] = Some(first);
        let mut queue = VecDeque::from([first]);
        while let Some(at) = queue.pop_front() {
            if at == last {
                let mut links = vec![last];
                while links[links.len() - 1] != first {
                    links.push(before[links[links.len() - 1] as usize]?);
                }
                links.reverse();
                return Some(links);
            }
            let node = ends(at).1;
            let next =
                (0..before.len() as u32).filter(|n| node >= self.hosts && ends(*n).0 == node);
            for next in next {
                if before[next as usize].is_none() {
                    before[next as usize] = Some(at);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Link directions of the route from a path of a host to an address of another, and the path by
/// which it arrives.
fn route(plan: &Plan, from: (usize, usize), to: std::net::IpAddr) -> Option<(Vec<u32>, u8)> {
    let mut cursor = plan.topology.route(from.0, from.1, to);
    let mut links = Vec::new();
    while cursor != NO_ROUTE {
        match plan.topology.hop(cursor) {
            Hop::Link(link) => links.push(link),
            Hop::Arrive(_, path) => return Some((links, path)),
        }
        cursor += 1;
    }
    None
}

fn networks() -> impl Strategy<Value = Network> {
    let link = (0_usize..9, 0_usize..9).prop_filter("two ends", |(a, b)| a != b);
    let links = prop::collection::vec(link, 1..20);
    (2_usize..5, links).prop_map(|(hosts, links)| Network { hosts, links })
}

/// Every pair of paths of two hosts: what is found, and what should be.
fn compare(network: &Network, plan: &Plan, ecmp: bool) -> Result<(), TestCaseError> {
    let topology = &plan.topology;
    for (from, to) in (0..topology.hosts.len())
        .flat_map(|a| (0..topology.hosts.len()).filter(move |b| *b != a).map(move |b| (a, b)))
    {
        for (path, own) in topology.hosts[from].paths.iter().enumerate() {
            let mut nearest: Option<(usize, u8)> = None;
            for (by, other) in topology.hosts[to].paths.iter().enumerate() {
                let wanted = network.search(own.first, other.first ^ 1);
                let found = route(plan, (from, path), topology.address(to, by));
                let found = found.map(|(links, arrival)| {
                    assert_eq!(usize::from(arrival), by);
                    links
                });
                if ecmp {
                    let length = |links: &Option<Vec<u32>>| links.as_ref().map(Vec::len);
                    prop_assert_eq!(length(&found), length(&wanted));
                    let links: Vec<u32> = found.into_iter().flatten().collect();
                    let end = |link: u32| &topology.links[link as usize];
                    let is_joined = links.windows(2).all(|two| end(two[0]).to == end(two[1]).from);
                    prop_assert!(is_joined, "not one after the other: {:?}", links);
                } else {
                    prop_assert_eq!(&found, &wanted);
                }
                if let Some(links) = wanted
                    && nearest.is_none_or(|(least, _)| links.len() < least)
                {
                    nearest = Some((links.len(), by as u8));
                }
            }
            let shared = route(plan, (from, path), topology.shared_address(to));
            prop_assert_eq!(shared.map(|(links, by)| (links.len(), by)), nearest);
        }
    }
    Ok(())
}

#[test]
fn they_are_the_shortest_and_first_in_the_file() {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let compared = Cell::new(0);
    let run = TestRunner::new(config).run(&(networks(), any::<bool>()), |(network, ecmp)| {
        // Hosts without a way to each other are refused, which is another test's.
        let Ok(plan) = network.compile(ecmp) else { return Ok(()) };
        compared.set(compared.get() + 1);
        compare(&network, &plan, ecmp)
    });
    run.unwrap();
    assert!(compared.get() > 30, "only {} networks join the two hosts", compared.get());
}
