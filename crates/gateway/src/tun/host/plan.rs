//! From the configuration to a list of changes; changes nothing.
//!
//! What carries the mark, or goes to a server, jumps over our rules and finds its way as if they
//! were not there (hosts with several links have rules of their own). For each configured prefix
//! there are two: first the main table, but only its routes that are more specific than the
//! prefix (so the local network, and whatever else the host has routes to, stays where it is);
//! then our table. There the prefix leads into the device and, with the kill switch, behind that
//! to nowhere: a route that remains when the device is gone.

use super::HostConfig;
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
    Resolvers(Resolvers),
}

/// A rule of the routing policy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Rule {
    pub(super) priority: u32,
    pub(super) to: (IpAddr, u8),
    /// Packets with this mark only.
    pub(super) mark: Option<u32>,
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
}

/// A route in our table.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Route {
    pub(super) to: (IpAddr, u8),
    pub(super) table: u32,
    /// `None`: unreachable.
    pub(super) device: Option<String>,
    pub(super) metric: u32,
}

/// The list of resolvers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) struct Resolvers {
    pub(super) path: PathBuf,
    /// `None`: there was none.
    pub(super) before: Option<String>,
    pub(super) after: String,
}

/// Rules have priorities from here, in front of those that `ip rule add` chooses.
pub(super) const PRIORITY_FIRST: u32 = 29_700;
/// To here.
pub(super) const PRIORITY_LAST: u32 = 29_999;
/// Those of marks and servers come first, those of prefixes from here.
const PRIORITY_PREFIXES: u32 = 29_800;
/// `RT_TABLE_MAIN`
pub(super) const MAIN: u32 = 254;
/// Metric of a route into the device, and of the one behind it.
const METRIC: u32 = 10;
const METRIC_UNREACHABLE: u32 = 20_000;

/// All changes of routes and rules, in the order in which to make them.
pub(super) fn routing(config: &HostConfig) -> Vec<Change> {
    let prefixes = prefixes(config);
    let mut changes = Vec::new();
    for (prefix, blocked) in &prefixes {
        let to = (prefix.address(), prefix.len());
        let route = |device, metric| Route { to, table: config.table, device, metric };
        if !blocked {
            changes.push(Change::Route(route(Some(config.device.clone()), METRIC)));
        }
        if *blocked || config.kill_switch {
            changes.push(Change::Route(route(None, METRIC_UNREACHABLE)));
        }
    }
    let mut rules = beside(config, &prefixes);
    // Few enough: a configuration has not a hundred prefixes, and more than that share the last.
    for (at, (prefix, _)) in prefixes.iter().enumerate() {
        let priority = (PRIORITY_PREFIXES + 2 * at as u32).min(PRIORITY_LAST - 2);
        let to = (prefix.address(), prefix.len());
        rules.push(Rule { priority, to, mark: None, action: Action::Longer(prefix.len()) });
        let (priority, action) = (priority + 1, Action::Table(config.table));
        rules.push(Rule { priority, to, mark: None, action });
    }
    changes.extend(rules.into_iter().map(Change::Rule));
    changes
}

/// Rules for what leaves beside the tunnel: marked packets, and those to servers. The latter are
/// for kernels that check where answers come from (`rp_filter`), which carry no mark.
fn beside(config: &HostConfig, prefixes: &[(Prefix, bool)]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for all in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        if prefixes.iter().any(|(prefix, _)| prefix.address().is_ipv4() == all.is_ipv4()) {
            let to = (all, 0);
            let end = Rule { priority: PRIORITY_LAST, to, mark: None, action: Action::End };
            let mark = Some(config.mark);
            rules.push(end);
            rules.push(Rule { priority: PRIORITY_FIRST, to, mark, action: Action::Skip });
        }
    }
    let mut servers = config.servers.clone();
    servers.sort();
    servers.dedup();
    for server in servers {
        if prefixes.iter().any(|(prefix, _)| prefix.holds(server)) {
            let to = (server, width(server));
            let priority = PRIORITY_FIRST + 1;
            rules.push(Rule { priority, to, mark: None, action: Action::Skip });
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
        let whole = |v4: bool| config.routes.iter().any(|p| p.len() == 0 && is_v4(p) == v4);
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
                match rule.action {
                    Action::Table(table) => write!(f, " lookup {table}"),
                    Action::Longer(len) => write!(f, " lookup main suppress_prefixlength {len}"),
                    Action::Skip => write!(f, " goto {PRIORITY_LAST}"),
                    Action::End => f.write_str(" nop"),
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
        routing(&config).iter().map(ToString::to_string).collect()
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_is_changed_that_is_not_configured() {
        assert!(plan(|_| {}).is_empty());
        assert!(plan(|c| c.kill_switch = true).is_empty());
        assert!(plan(|c| c.servers.push("192.0.2.1".parse().unwrap())).is_empty());
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
    fn the_whole_host_with_everything() {
        let changes = plan(|c| {
            c.routes = vec![prefix("0.0.0.0/0")];
            c.kill_switch = true;
            c.resolvers = vec!["10.81.0.1".parse().unwrap()];
            c.servers = vec!["192.0.2.1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
            c.servers.push("2001:db8::1".parse().unwrap());
        });
        assert_eq!(
            changes,
            [
                "the route 10.81.0.1/32 dev tabane0 table 29794 metric 10",
                "the route unreachable 10.81.0.1/32 table 29794 metric 20000",
                "the route 0.0.0.0/0 dev tabane0 table 29794 metric 10",
                "the route unreachable 0.0.0.0/0 table 29794 metric 20000",
                "the route unreachable ::/0 table 29794 metric 20000",
                "the rule 29999: to 0.0.0.0/0 nop",
                "the rule 29700: to 0.0.0.0/0 fwmark 0x7462 goto 29999",
                "the rule 29999: to ::/0 nop",
                "the rule 29700: to ::/0 fwmark 0x7462 goto 29999",
                "the rule 29701: to 192.0.2.1/32 goto 29999",
                "the rule 29701: to 2001:db8::1/128 goto 29999",
                "the rule 29800: to 10.81.0.1/32 lookup main suppress_prefixlength 32",
                "the rule 29801: to 10.81.0.1/32 lookup 29794",
                "the rule 29802: to 0.0.0.0/0 lookup main suppress_prefixlength 0",
                "the rule 29803: to 0.0.0.0/0 lookup 29794",
                "the rule 29804: to ::/0 lookup main suppress_prefixlength 0",
                "the rule 29805: to ::/0 lookup 29794",
            ]
        );
    }
}
