//! Hosts behind the client: rules that lead what comes from them into the device, and the kernel's
//! switches that make this machine a router for them, and for nobody else.
//!
//! A packet from such a host that is for none of their networks is looked up in a table of its own,
//! which leads into the device and, behind that, nowhere. So it does not matter what else this
//! machine has routes to, which others may have put there. These rules come before those of marks
//! and servers: not even to the server does such a host get past the tunnel.
//!
//! What comes out of the device is for this machine or for hosts: for a network of theirs, or one
//! that the main table leads to by their interfaces. The rest are answers to addresses that
//! somebody made up, and would leave by whatever link the main table says.
//!
//! IPv4 is forwarded from interfaces that are switched on (`conf/NAME/forwarding`): here those of
//! the hosts and the device. IPv6 has one switch for all. Where it was off, rules keep what comes
//! by any other interface from being forwarded, and links that take their addresses from router
//! advertisements go on doing so (`accept_ra = 2`).

use super::HostConfig;
use super::plan::{Action, Change, METRIC, METRIC_UNREACHABLE, OnLink, Route, Rule};
use super::sysctl::{self, Sysctl};
use crate::access::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is wanted for hosts behind this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LanHosts {
    /// Interfaces that they are behind.
    pub(crate) interfaces: Vec<String>,
    /// Links of the paths that name one.
    pub(crate) links: Vec<String>,
    /// Source addresses of those that name one instead.
    pub(crate) sources: Vec<IpAddr>,
    /// A path names neither: its link is any.
    pub(crate) any_link: bool,
    /// While the device is gone, their packets go nowhere.
    pub(crate) block: bool,
    /// They are led into the device; otherwise they go as the host's own do.
    pub(crate) carried: bool,
}

/// In front of all other rules: what is not to be forwarded at all.
const PRIORITY_LINKS: u32 = 29_600;
/// Then the networks of the hosts: they are never behind the tunnel.
const PRIORITY_NETWORKS: u32 = 29_601;
/// Then what comes from there.
const PRIORITY_FROM: u32 = 29_602;
/// Then what comes out of the device, for networks behind routers of the hosts.
const PRIORITY_BEHIND: u32 = 29_603;
/// And for everybody else.
const PRIORITY_DEVICE: u32 = 29_604;
/// Interfaces from which nothing is forwarded; more are not looked at.
const LINKS_MAX: usize = 1024;
/// Networks behind routers of the hosts; more get no answers.
const BEHIND_MAX: usize = 256;

/// Where `table` is that of [`HostConfig`]: the table for what comes from hosts.
pub(super) fn table(config: &HostConfig) -> Option<u32> {
    config.lan.as_ref().map(|_| config.table.wrapping_add(1))
}

/// All changes, in the order in which to make them: nothing is forwarded before it is known where
/// to. `behind` are networks that the main table leads to by the hosts' interfaces, and `current`
/// are changes that stand.
pub(super) fn changes(
    config: &HostConfig,
    links: &[OnLink],
    behind: &[(IpAddr, u8)],
    current: &[Change],
) -> Vec<Change> {
    let (Some(lan), Some(table)) = (&config.lan, table(config)) else { return Vec::new() };
    let networks = networks(lan, links);
    let lan = &LanHosts { links: links_of_paths(config, lan, links), ..lan.clone() };
    let switches = switches(config, lan, &networks, current);
    let mut changes = Vec::new();
    for network in &networks {
        let to = (network.address(), network.len());
        let action = Action::Longer(network.len() - 1);
        changes.push(Change::Rule(rule(PRIORITY_NETWORKS, to, None, action)));
    }
    let own = |to: &(IpAddr, u8)| networks.iter().any(|own| (own.address(), own.len()) == *to);
    for &to in behind.iter().filter(|to| !own(to)).take(BEHIND_MAX) {
        let action = Action::Longer(to.1 - 1);
        changes.push(Change::Rule(rule(PRIORITY_BEHIND, to, Some(&config.device), action)));
    }
    for to in EVERYTHING {
        let rule = rule(PRIORITY_DEVICE, to, Some(&config.device), Action::Discard);
        changes.push(Change::Rule(rule));
    }
    if lan.carried {
        for to in EVERYTHING {
            let route = |device, metric| Route { to, table, device, metric, source: None };
            changes.push(Change::Route(route(Some(config.device.clone()), METRIC)));
            if lan.block {
                changes.push(Change::Route(route(None, METRIC_UNREACHABLE)));
            }
            let from = |name| rule(PRIORITY_FROM, to, Some(name), Action::Table(table));
            changes.extend(lan.interfaces.iter().map(from).map(Change::Rule));
        }
    }
    // Answers to hosts that go past the tunnel come by these links.
    if lan.block && switches.iter().any(|switch| switch.name == FORWARD_V6) {
        let from = |name| rule(PRIORITY_LINKS, EVERYTHING[1], Some(name), Action::Discard);
        changes.extend(others(config, lan).iter().map(from).map(Change::Rule));
    }
    changes.extend(switches.into_iter().map(Change::Sysctl));
    changes
}

const EVERYTHING: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];
/// Turns forwarding of IPv6 on or off, on all interfaces.
const FORWARD_V6: &str = "ipv6/conf/all/forwarding";

fn rule(priority: u32, to: (IpAddr, u8), from: Option<&String>, action: Action) -> Rule {
    Rule { priority, to, mark: None, from: from.cloned(), udp_port: None, action }
}

/// The links of all paths, each once; for one that names none all that are not the hosts'.
fn links_of_paths(config: &HostConfig, lan: &LanHosts, links: &[OnLink]) -> Vec<String> {
    let mut all = lan.links.clone();
    for OnLink { device, source, .. } in links {
        let ours = lan.interfaces.contains(device) || *device == config.device;
        let used = lan.any_link || lan.sources.contains(source);
        if used && !ours && !all.contains(device) {
            all.push(device.clone());
        }
    }
    all
}

/// All interfaces that are neither the hosts' nor the device, the paths' links among them.
fn others(config: &HostConfig, lan: &LanHosts) -> Vec<String> {
    let mut all = sysctl::interfaces_v6();
    all.extend(lan.links.iter().cloned());
    all.retain(|name| !lan.interfaces.contains(name) && *name != config.device);
    all.sort();
    all.dedup();
    all.truncate(LINKS_MAX);
    all
}

/// The networks that the hosts are in, each once.
fn networks(lan: &LanHosts, links: &[OnLink]) -> Vec<Prefix> {
    let ours = links.iter().filter(|link| lan.interfaces.contains(&link.device));
    let mut all: Vec<Prefix> = ours
        .map(|link| link.prefix)
        .filter(|prefix| !prefix.is_host() && prefix.len() > 0)
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The kernel's switches that are not as they must be, or have been set by a client.
fn switches(
    config: &HostConfig,
    lan: &LanHosts,
    networks: &[Prefix],
    current: &[Change],
) -> Vec<Sysctl> {
    let mut wanted = Vec::new();
    let mut want = |name: String, value: &str, only: Option<&str>| {
        let ours = current.iter().find_map(|change| match change {
            Change::Sysctl(switch) if switch.name == name && switch.after == value => Some(switch),
            _ => None,
        });
        wanted.extend(ours.cloned().or_else(|| {
            let before = sysctl::read(&name)?;
            let change = before != value && only.is_none_or(|only| before == only);
            change.then(|| Sysctl { name, before, after: value.into() })
        }));
    };
    let direct = lan.links.iter().filter(|_| !lan.block);
    for interface in lan.interfaces.iter().chain([&config.device]).chain(direct) {
        want(format!("ipv4/conf/{interface}/forwarding"), "1", None);
    }
    // It stays while the client runs: a network that comes and goes must not turn it on and off.
    let stands = |change: &Change| matches!(change, Change::Sysctl(s) if s.name == FORWARD_V6);
    let v6 = networks.iter().any(|network| network.address().is_ipv6());
    if v6 || current.iter().any(stands) {
        for link in &lan.links {
            want(format!("ipv6/conf/{link}/accept_ra"), "2", Some("1"));
        }
        want(FORWARD_V6.into(), "1", None);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_by_what_paths_name() {
        let on = |device: &str, address: &str| {
            let source: IpAddr = address.parse().unwrap();
            OnLink { prefix: Prefix::host(source), device: device.into(), source }
        };
        let links = [
            on("br0", "192.168.7.1"),
            on("wan0", "10.7.0.2"),
            on("wan1", "10.8.0.2"),
            on("tabane0", "10.81.0.31"),
        ];
        let config = HostConfig { device: "tabane0".into(), ..HostConfig::default() };
        let of = |named: &[&str], sources: &[&str], any_link| {
            let lan = LanHosts {
                interfaces: vec!["br0".into()],
                links: named.iter().map(ToString::to_string).collect(),
                sources: sources.iter().map(|source| source.parse().unwrap()).collect(),
                any_link,
                block: true,
                carried: true,
            };
            links_of_paths(&config, &lan, &links)
        };
        assert_eq!(of(&["wan1"], &[], false), ["wan1"]);
        assert_eq!(of(&["wan1"], &["10.7.0.2"], false), ["wan1", "wan0"]);
        assert_eq!(of(&[], &["10.8.0.2", "10.9.9.9"], false), ["wan1"]);
        assert_eq!(of(&[], &[], true), ["wan0", "wan1"]);
    }
}
