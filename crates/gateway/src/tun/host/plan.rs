//! From the configuration to a list of changes; changes nothing.
//!
//! What carries the mark, or goes to a server, jumps over our rules and finds its way as if they
//! were not there (hosts with several links have rules of their own). Each configured prefix has a
//! rule that leads to our table, where it leads into the device.
//!
//! Without the kill switch there is a rule before that: to the main table, but only to its routes
//! that are more specific than the prefix (so the local network, and whatever else the host has
//! routes to, stays where it is). With it there is none, because anybody in charge of a network can
//! put such routes there (DHCP option 121, router advertisements). What may go beside the device
//! is then in our own table: the networks that the host has an address in, if they are in a prefix
//! that the owner lists. And behind the device is a route to nowhere, which remains when the
//! device is gone.

use super::HostConfig;
use super::sysctl::Sysctl;
use crate::access::Prefix;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// One change.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Rule(Rule),
    Route(Route),
    Sysctl(Sysctl),
    Resolvers(Resolvers),
}

/// A rule of the routing policy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Rule {
    pub(super) priority: u32,
    pub(super) to: (IpAddr, u8),
    /// Packets with this mark only.
    pub(super) mark: Option<u32>,
    /// Packets that came by this interface only.
    #[serde(default)]
    pub(super) from: Option<String>,
    /// UDP to this port only.
    #[serde(default)]
    pub(super) udp_port: Option<u16>,
    pub(super) action: Action,
}

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    /// Asks a table.
    Table(u32),
    /// Asks the main table for routes with a longer prefix than this.
    Longer(u8),
    /// Goes on after our rules.
    Skip,
    /// Is where that leads.
    End,
    /// Nothing, and nobody is told: what the kernel says to a sender is routed as packets of this
    /// machine are, and would leave by a link.
    Discard,
}

/// A route in our table.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Route {
    pub(super) to: (IpAddr, u8),
    pub(super) table: u32,
    /// `None`: unreachable.
    pub(super) device: Option<String>,
    pub(super) metric: u32,
    /// Beside the tunnel, from this address: a network that the host is in.
    #[serde(default)]
    pub(super) source: Option<IpAddr>,
}

/// A network that the host has an address in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OnLink {
    pub(crate) prefix: Prefix,
    pub(crate) device: String,
    /// The host's address.
    pub(crate) source: IpAddr,
}

impl Change {
    /// Whether making this one makes the other vain to undo: they are in the same place.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Route(new), Self::Route(old)) => new.place() == old.place(),
            (Self::Sysctl(new), Self::Sysctl(old)) => new.name == old.name,
            (Self::Resolvers(new), Self::Resolvers(old)) => new.path == old.path,
            _ => self == other,
        }
    }
}

impl Route {
    /// What two routes cannot share.
    pub(super) fn place(&self) -> ((IpAddr, u8), u32, u32) {
        (self.to, self.table, self.metric)
    }
}

/// The list of resolvers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Resolvers {
    pub(super) path: PathBuf,
    /// `None`: there was none.
    pub(super) before: Option<String>,
    pub(super) after: String,
}

/// Rules have priorities from here (`super::lan`), before those that `ip rule add` chooses.
pub(crate) const PRIORITY_LEAST: u32 = 29_600;
/// To here.
pub(super) const PRIORITY_LAST: u32 = 29_999;
/// Here those of marks and servers come first, then that of link-local addresses, and those of
/// prefixes from the last of these.
const PRIORITY_FIRST: u32 = 29_700;
const PRIORITY_LINK_LOCAL: u32 = 29_790;
const PRIORITY_PREFIXES: u32 = 29_800;
/// `RT_TABLE_MAIN`
pub(super) const MAIN: u32 = 254;
/// Metric of a route into the device, and of the one behind it.
pub(super) const METRIC: u32 = 10;
pub(super) const METRIC_UNREACHABLE: u32 = 20_000;
/// The networks that the host is in, from here: several links may be in the same one.
const METRIC_ON_LINK: u32 = 100;
/// Networks beside the tunnel; more are not looked at.
const ON_LINK_MAX: usize = 256;
/// fe80::/10: never further than the link, which every packet to it names.
const LINK_LOCAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);

/// All changes of routes and rules, in the order in which to make them; `on_link` are the networks
/// that the host is in.
pub(super) fn routing(config: &HostConfig, on_link: &[OnLink]) -> Vec<Change> {
    let prefixes = prefixes(config);
    let mut changes = Vec::new();
    for (prefix, blocked) in &prefixes {
        let to = (prefix.address(), prefix.len());
        let route =
            |device, metric| Route { to, table: config.table, device, metric, source: None };
        if !blocked {
            changes.push(Change::Route(route(Some(config.device.clone()), METRIC)));
        }
        if *blocked || config.kill_switch {
            changes.push(Change::Route(route(None, METRIC_UNREACHABLE)));
        }
    }
    changes.extend(beside_routes(config, on_link, &prefixes).into_iter().map(Change::Route));
    let mut rules = beside(config, &prefixes);
    // Few enough: a configuration has not a hundred prefixes, and more than that share the last.
    for (at, (prefix, _)) in prefixes.iter().enumerate() {
        let priority = (PRIORITY_PREFIXES + 2 * at as u32).min(PRIORITY_LAST - 2);
        let to = (prefix.address(), prefix.len());
        if !config.kill_switch {
            let action = Action::Longer(prefix.len());
            rules.push(Rule { priority, to, mark: None, from: None, udp_port: None, action });
        }
        let (priority, action) = (priority + 1, Action::Table(config.table));
        rules.push(Rule { priority, to, mark: None, from: None, udp_port: None, action });
    }
    changes.extend(rules.into_iter().map(Change::Rule));
    changes
}

/// With the kill switch: routes to the networks that the host is in, where the owner lists them.
fn beside_routes(
    config: &HostConfig,
    on_link: &[OnLink],
    prefixes: &[(Prefix, bool)],
) -> Vec<Route> {
    if !config.kill_switch {
        return Vec::new();
    }
    let within = |all: &[Prefix], inner: &Prefix| all.iter().any(|outer| outer.covers(inner));
    let routed: Vec<Prefix> = prefixes.iter().map(|(prefix, _)| *prefix).collect();
    let mut wanted: Vec<&OnLink> = on_link
        .iter()
        .filter(|link| link.device != config.device && !link.prefix.is_host())
        .filter(|link| within(&config.local, &link.prefix))
        .filter(|link| within(&routed, &link.prefix))
        .collect();
    wanted.sort_unstable();
    wanted.dedup_by(|a, b| (a.prefix, &a.device) == (b.prefix, &b.device));
    wanted.truncate(ON_LINK_MAX);
    let mut routes: Vec<Route> = Vec::new();
    for link in wanted {
        let to = (link.prefix.address(), link.prefix.len());
        let before = routes.iter().filter(|route| route.to == to).count();
        let metric = METRIC_ON_LINK + before as u32;
        let (device, source) = (Some(link.device.clone()), Some(link.source));
        routes.push(Route { to, table: config.table, device, metric, source });
    }
    routes
}

/// Rules for what leaves beside the tunnel: marked packets, and those to servers. The latter are
/// for kernels that check where answers come from (`rp_filter`), which carry no mark. With the kill
/// switch they are for nothing else, since whoever answers for a server's name says where that is.
fn beside(config: &HostConfig, prefixes: &[(Prefix, bool)]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for all in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        if prefixes.iter().any(|(prefix, _)| prefix.address().is_ipv4() == all.is_ipv4()) {
            let to = (all, 0);
            let end = Rule {
                priority: PRIORITY_LAST,
                to,
                mark: None,
                from: None,
                udp_port: None,
                action: Action::End,
            };
            let mark = Some(config.mark);
            rules.push(end);
            rules.push(Rule {
                priority: PRIORITY_FIRST,
                to,
                mark,
                from: None,
                udp_port: None,
                action: Action::Skip,
            });
        }
    }
    let (link_local, len) = LINK_LOCAL;
    let routed = prefixes.iter().any(|(prefix, _)| prefix.holds(link_local.into()));
    if config.kill_switch && routed && config.local.iter().any(|p| p.holds(link_local.into())) {
        let (to, action) = ((link_local.into(), len), Action::Longer(len - 1));
        rules.push(Rule {
            priority: PRIORITY_LINK_LOCAL,
            to,
            mark: None,
            from: None,
            udp_port: None,
            action,
        });
    }
    let mut servers = config.servers.clone();
    servers.sort();
    servers.dedup();
    for server in servers {
        if prefixes.iter().any(|(prefix, _)| prefix.holds(server.ip())) {
            let to = (server.ip(), width(server.ip()));
            let udp_port = config.kill_switch.then_some(server.port());
            let (priority, action) = (PRIORITY_FIRST + 1, Action::Skip);
            rules.push(Rule { priority, to, mark: None, from: None, udp_port, action });
        }
    }
    rules
}

/// The prefixes, longest first, each once; true for those that lead nowhere.
fn prefixes(config: &HostConfig) -> Vec<(Prefix, bool)> {
    let wanted = config.routes.iter().copied();
    let resolvers = config.resolvers.iter().copied().map(Prefix::host);
    let mut all: Vec<(Prefix, bool)> = wanted.chain(resolvers).map(|p| (p, false)).collect();
    if config.kill_switch {
        let whole = |v4: bool| is_whole(config.routes.iter().filter(|p| is_v4(p) == v4));
        let nothing = |address: IpAddr| (Prefix::new(address, 0), true);
        let missing = match (whole(true), whole(false)) {
            (true, false) => Some(nothing(Ipv6Addr::UNSPECIFIED.into())),
            (false, true) => Some(nothing(Ipv4Addr::UNSPECIFIED.into())),
            _ => None,
        };
        if let Some((Ok(prefix), blocked)) = missing {
            all.push((prefix, blocked));
        }
    }
    all.sort_by_key(|(prefix, _)| (std::cmp::Reverse(prefix.len()), *prefix));
    all.dedup_by_key(|(prefix, _)| *prefix);
    all
}

/// Whether prefixes of one family are together all of it.
fn is_whole<'a>(prefixes: impl Iterator<Item = &'a Prefix> + Clone) -> bool {
    let within = |inner: &Prefix| {
        prefixes.clone().any(|outer| outer.len() < inner.len() && outer.covers(inner))
    };
    let mut largest: Vec<&Prefix> = prefixes.clone().filter(|prefix| !within(prefix)).collect();
    largest.sort();
    largest.dedup();
    // No two of these overlap, so their shares of a whole of 2^128 add up to at most that, which
    // is 0.
    let share = |prefix: &Prefix| 1_u128.checked_shl(128 - u32::from(prefix.len())).unwrap_or(0);
    let sum = largest.iter().fold(0, |sum: u128, prefix| sum.wrapping_add(share(prefix)));
    !largest.is_empty() && sum == 0
}

fn is_v4(prefix: &Prefix) -> bool {
    prefix.address().is_ipv4()
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => {
                let (address, len) = rule.to;
                write!(f, "the rule {}: to {address}/{len}", rule.priority)?;
                if let Some(mark) = rule.mark {
                    write!(f, " fwmark {mark:#x}")?;
                }
                if let Some(from) = &rule.from {
                    write!(f, " iif {from}")?;
                }
                if let Some(port) = rule.udp_port {
                    write!(f, " udp port {port}")?;
                }
                match rule.action {
                    Action::Table(table) => write!(f, " lookup {table}"),
                    Action::Longer(len) => write!(f, " lookup main suppress_prefixlength {len}"),
                    Action::Skip => write!(f, " goto {PRIORITY_LAST}"),
                    Action::End => f.write_str(" nop"),
                    Action::Discard => f.write_str(" blackhole"),
                }
            }
            Self::Route(route) => {
                let (address, len) = route.to;
                let how = route.device.as_ref().map_or_else(
                    || format!("unreachable {address}/{len}"),
                    |device| format!("{address}/{len} dev {device}"),
                );
                write!(f, "the route {how} table {} metric {}", route.table, route.metric)
            }
            Self::Sysctl(switch) => write!(f, "net/{} = {}", switch.name, switch.after),
            Self::Resolvers(change) => write!(f, "the resolvers in {}", change.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl FnOnce(&mut HostConfig)) -> Vec<String> {
        let mut config = HostConfig::default();
        change(&mut config);
        let on_link: Vec<OnLink> = [
            ("10.7.0.0/24", "up0", "10.7.0.2"),
            ("10.7.0.0/24", "wlan0", "10.7.0.3"),
            ("203.0.113.0/24", "up0", "203.0.113.7"),
            ("10.81.0.31/32", "tabane0", "10.81.0.31"),
            ("10.99.0.1/32", "ppp0", "10.99.0.1"),
        ]
        .iter()
        .map(|(to, device, source)| OnLink {
            prefix: prefix(to),
            device: (*device).to_owned(),
            source: source.parse().unwrap(),
        })
        .collect();
        routing(&config, &on_link).iter().map(ToString::to_string).collect()
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_is_changed_that_is_not_configured() {
        assert!(plan(|_| {}).is_empty());
        assert!(plan(|c| c.kill_switch = true).is_empty());
        assert!(plan(|c| c.servers.push("192.0.2.1:7".parse().unwrap())).is_empty());
    }

    #[test]
    fn a_prefix_yields_to_what_is_more_specific() {
        assert_eq!(
            plan(|c| c.routes = vec![prefix("10.0.0.0/8")]),
            [
                "the route 10.0.0.0/8 dev tabane0 table 29794 metric 10",
                "the rule 29999: to 0.0.0.0/0 nop",
                "the rule 29700: to 0.0.0.0/0 fwmark 0x7462 goto 29999",
                "the rule 29800: to 10.0.0.0/8 lookup main suppress_prefixlength 8",
                "the rule 29801: to 10.0.0.0/8 lookup 29794",
            ]
        );
    }

    #[test]
    fn only_networks_that_the_owner_lists_are_beside_the_kill_switch() {
        let beside = |local: &[&str], routes: &[&str]| {
            let all = plan(|c| {
                c.routes = routes.iter().map(|text| prefix(text)).collect();
                c.local = local.iter().map(|text| prefix(text)).collect();
                c.kill_switch = true;
            });
            all.iter().filter(|one| one.contains("metric 10") && !one.contains("tabane0")).count()
        };
        assert_eq!(beside(&["10.0.0.0/8"], &["0.0.0.0/0"]), 2);
        assert_eq!(beside(&["10.7.0.0/25"], &["0.0.0.0/0"]), 0, "more than is listed");
        assert_eq!(beside(&[], &["0.0.0.0/0"]), 0);
        assert_eq!(beside(&["203.0.113.0/24"], &["0.0.0.0/0"]), 1);
        assert_eq!(beside(&["10.0.0.0/8"], &["192.0.2.0/24"]), 0, "it is not routed anyway");
        assert_eq!(beside(&["0.0.0.0/0"], &["0.0.0.0/0"]), 3, "but never a single address");
    }

    #[test]
    fn prefixes_that_are_all_of_one_family_close_the_other() {
        let closed = |routes: &[&str]| {
            let all = plan(|c| {
                c.routes = routes.iter().map(|text| prefix(text)).collect();
                c.kill_switch = true;
            });
            let closes = |to: &str| {
                let route = format!("the route unreachable {to} table 29794 metric 20000");
                all.contains(&route)
            };
            ["0.0.0.0/0", "::/0"].map(closes)
        };
        assert_eq!(closed(&["0.0.0.0/1", "128.0.0.0/1"]), [false, true]);
        assert_eq!(closed(&["::/1", "8000::/2", "c000::/2"]), [true, false]);
        assert_eq!(closed(&["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"]), [false, true]);
        assert_eq!(closed(&["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3"]), [false, false]);
        // What is in another counts once.
        assert_eq!(closed(&["0.0.0.0/1", "64.0.0.0/2", "0.0.0.0/2"]), [false, false]);
        assert_eq!(closed(&["0.0.0.0/1", "128.0.0.0/1", "10.0.0.0/8"]), [false, true]);
        assert_eq!(closed(&["0.0.0.0/1", "128.0.0.0/1", "::/0"]), [false, true]);
    }

    #[test]
    fn the_whole_host_with_everything() {
        let changes = plan(|c| {
            c.routes = vec![prefix("0.0.0.0/0")];
            c.kill_switch = true;
            c.resolvers = vec!["10.81.0.1".parse().unwrap()];
            c.servers = vec!["192.0.2.1:7".parse().unwrap(), "192.0.2.1:7".parse().unwrap()];
            c.servers.push("[2001:db8::1]:8".parse().unwrap());
        });
        assert_eq!(
            changes,
            [
                "the route 10.81.0.1/32 dev tabane0 table 29794 metric 10",
                "the route unreachable 10.81.0.1/32 table 29794 metric 20000",
                "the route 0.0.0.0/0 dev tabane0 table 29794 metric 10",
                "the route unreachable 0.0.0.0/0 table 29794 metric 20000",
                "the route unreachable ::/0 table 29794 metric 20000",
                "the route 10.7.0.0/24 dev up0 table 29794 metric 100",
                "the route 10.7.0.0/24 dev wlan0 table 29794 metric 101",
                "the rule 29999: to 0.0.0.0/0 nop",
                "the rule 29700: to 0.0.0.0/0 fwmark 0x7462 goto 29999",
                "the rule 29999: to ::/0 nop",
                "the rule 29700: to ::/0 fwmark 0x7462 goto 29999",
                "the rule 29790: to fe80::/10 lookup main suppress_prefixlength 9",
                "the rule 29701: to 192.0.2.1/32 udp port 7 goto 29999",
                "the rule 29701: to 2001:db8::1/128 udp port 8 goto 29999",
                "the rule 29801: to 10.81.0.1/32 lookup 29794",
                "the rule 29803: to 0.0.0.0/0 lookup 29794",
                "the rule 29805: to ::/0 lookup 29794",
            ]
        );
    }
}
