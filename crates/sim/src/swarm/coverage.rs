//! What a campaign of the swarm went through: faults, settings and policies, and in how many
//! worlds each of them was.

use super::{dies, is_multipath};
use crate::scenario::{Change, FlowDirection, Scenario};
use crate::{link, scenario};
use std::collections::BTreeMap;
use tabane_config::policy::PolicySpec;
use tabane_engine::policy::Entry;
use tabane_engine::{congestion, egress, scheduler};

/// How many worlds had what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    worlds: u64,
    counts: BTreeMap<String, u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a world has something.
type Has = fn(&Scenario) -> bool;

/// What can be wrong with a network, a host or its peer.
const FEATURES: &[(&str, Has)] = &[
    ("loss", |s| links(s, |l| l.loss.is_some())),
    ("reordering", |s| links(s, |l| l.reorder.is_some())),
    ("duplication", |s| links(s, |l| l.duplicate.is_some())),
    ("corruption", |s| links(s, |l| l.corrupt.is_some())),
    ("jitter", |s| links(s, |l| l.jitter.is_some())),
    ("black hole", |s| changes(s, |c| c.silent)),
    ("path flap", |s| changes(s, |c| c.down.is_some() && !c.silent)),
    ("MTU change", |s| changes(s, |c| c.mtu.is_some())),
    ("policy change", |s| {
        changes(s, |c| c.scheduler.is_some() || c.congestion.is_some() || c.egress.is_some())
    }),
    ("subflow change", |s| changes(s, |c| c.subflow.is_some() || c.backup.is_some())),
    ("tiny window", |s| hosts(s).any(|h| h.tcp.receive_buffer.is_some_and(|b| b.0 < 8_000))),
    ("peer dies", |s| changes(s, dies)),
    ("clock pauses", |s| changes(s, |c| c.asleep.is_some() && !dies(c))),
    ("abort", |s| changes(s, |c| c.abort)),
    ("both ways at once", |s| s.flow.iter().any(|f| f.direction == FlowDirection::Both)),
    ("proxy", |s| !s.proxy.is_empty()),
    ("several paths", |s| s.path.0.len() > 1),
    ("plain TCP", |s| !is_multipath(s)),
    ("DSS checksums", |s| hosts(s).any(|h| settings(h).is_some_and(|m| m.checksum.is_some()))),
    ("no SACK", |s| hosts(s).any(|h| h.tcp.sack == Some(false))),
    ("no timestamps", |s| hosts(s).any(|h| h.tcp.timestamps == Some(false))),
    ("ECN", |s| hosts(s).any(|h| h.tcp.ecn == Some(true))),
    ("bytes on the wire", |s| s.wire),
    ("super-packets", |s| s.offload),
    ("IPv6", |s| s.ip == 6),
];

impl Coverage {
    /// Nothing yet; everything is known that there is to be covered.
    #[must_use]
    pub fn new() -> Self {
        let names = FEATURES.iter().map(|(name, _)| (*name).to_owned());
        let policies = rows("scheduler", scheduler::ALL)
            .chain(rows("congestion", congestion::ALL))
            .chain(rows("egress", egress::ALL));
        let queues = link::queue::ALL.iter().map(|row| format!("queue {}", row.name));
        let counts = names.chain(policies).chain(queues).map(|name| (name, 0)).collect();
        Self { worlds: 0, counts }
    }

    pub fn add(&mut self, world: &Scenario) {
        self.worlds += 1;
        let mut had: Vec<String> = Vec::new();
        for (name, has) in FEATURES {
            if has(world) {
                had.push((*name).to_owned());
            }
        }
        let mut policy = |kind: &str, choice: Option<&PolicySpec>| {
            had.extend(choice.map(|choice| format!("{kind} {}", choice.0.name)));
        };
        for host in hosts(world) {
            policy("scheduler", host.scheduler.as_ref());
            policy("congestion", host.congestion.as_ref());
            policy("egress", host.egress.as_ref());
        }
        for change in &world.at {
            policy("scheduler", change.scheduler.as_ref());
            policy("congestion", change.congestion.as_ref());
            policy("egress", change.egress.as_ref());
        }
        let queues = world.link.iter().filter_map(|(_, link)| link.queue.as_ref());
        had.extend(queues.map(|queue| format!("queue {}", queue.0.name)));
        had.sort();
        had.dedup();
        for name in had {
            *self.counts.entry(name).or_default() += 1;
        }
    }

    /// Worlds so far.
    #[must_use]
    pub fn worlds(&self) -> u64 {
        self.worlds
    }

    /// What there is to be covered, by name, and the worlds that had it.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

fn rows<F: ?Sized>(kind: &'static str, table: &'static [Entry<F>]) -> impl Iterator<Item = String> {
    table.iter().map(move |row| format!("{kind} {}", row.name))
}

fn links(scenario: &Scenario, has: impl Fn(&scenario::Link) -> bool) -> bool {
    scenario.link.iter().any(|(_, link)| has(link))
}

/// What heals at the end does not count.
fn changes(scenario: &Scenario, has: impl Fn(&Change) -> bool) -> bool {
    scenario.at.iter().any(has)
}

fn hosts(scenario: &Scenario) -> impl Iterator<Item = &scenario::Host> {
    let proxies = scenario.proxy.iter().flat_map(|(_, proxy)| [&proxy.listen, &proxy.connect]);
    scenario.host.iter().map(|(_, host)| host).chain(proxies)
}

fn settings(host: &scenario::Host) -> Option<&scenario::MptcpSettings> {
    match &host.mptcp {
        Some(scenario::Mptcp::Settings(settings)) => Some(settings),
        _ => None,
    }
}
