//! Templates made into what they stand for: backbones into routers and links, groups into hosts
//! and their access links, flows of groups and arrivals into flows. What comes out is a scenario
//! without templates, and the rest of the simulator knows no other.
//!
//! Each quantity of each template is drawn from a random stream of its own, one after the other:
//! the same seed gives the same network, and a larger `count` leaves what was there as it is.

mod arrivals;
mod backbone;
mod draw;
mod group;
mod table;

pub(crate) use table::Table;

use crate::plan::Traces;
use crate::scenario::validate::MAX_FLOWS;
use crate::scenario::{Fault, Flow, Link, Scenario};
use crate::seed::Seed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

/// Links of a network, at most.
pub(crate) const MAX_LINKS: usize = 500_000;

/// What templates were made into.
pub(crate) struct Expanded {
    pub(crate) scenario: Arc<Scenario>,
    origins: Origins,
}

/// Which template something comes from: ranges of places, and keys in the file.
#[derive(Default)]
struct Origins {
    hosts: Vec<(Range<usize>, Vec<String>)>,
    links: Vec<(Range<usize>, Vec<String>)>,
    flows: Vec<(Range<usize>, Vec<String>)>,
}

/// A scenario that grows.
struct Builder<'s> {
    source: &'s Scenario,
    made: Scenario,
    origins: Origins,
    files: &'s mut Traces,
    /// Names of links.
    links: BTreeSet<String>,
    /// Edge routers by backbone.
    edges: BTreeMap<String, Vec<String>>,
    /// Hosts by group.
    groups: BTreeMap<String, u32>,
}

/// A scenario without its templates; `None` if it has none.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn expand(source: &Scenario, files: &mut Traces) -> Result<Option<Expanded>, Fault> {
    if source.group.is_empty() && source.backbone.is_empty() && source.arrivals.is_empty() {
        return Ok(None);
    }
    let mut made = source.clone();
    made.group.clear();
    made.backbone.0.clear();
    made.arrivals.clear();
    made.flow.clear();
    let mut builder = Builder {
        source,
        made,
        origins: Origins::default(),
        files,
        links: source.link.names().map(str::to_owned).collect(),
        edges: BTreeMap::new(),
        groups: BTreeMap::new(),
    };
    for (name, backbone) in source.backbone.iter() {
        builder.add_backbone(name, backbone)?;
    }
    for n in 0..source.group.len() {
        builder.add_group(n)?;
    }
    builder.add_flows()?;
    for n in 0..source.arrivals.len() {
        builder.add_arrivals(n)?;
    }
    if builder.made.flow.is_empty() && !source.arrivals.is_empty() {
        let fault = Fault::new(&[&"arrivals", &0], "no flow arrives before the run ends");
        return Err(fault.help("make the rate or the duration larger"));
    }
    Ok(Some(Expanded { scenario: Arc::new(builder.made), origins: builder.origins }))
}

impl Builder<'_> {
    fn seed(&self) -> Seed {
        Seed(self.source.seed)
    }

    /// A link that `at` stands for.
    fn add_link(&mut self, at: &[&dyn Display], name: String, link: Link) -> Result<(), Fault> {
        if self.made.link.0.len() >= MAX_LINKS {
            return Err(Fault::new(at, format!("more than {MAX_LINKS} links")));
        }
        if !self.links.insert(name.clone()) {
            return Err(Fault::new(at, format!("there are two links '{name}'")));
        }
        self.made.link.0.push((name, link));
        Ok(())
    }

    /// `[[flow]]`: one for each host of a group that it names.
    fn add_flows(&mut self) -> Result<(), Fault> {
        for (n, flow) in self.source.flow.iter().enumerate() {
            let start = self.made.flow.len();
            let size = |name: &str| self.groups.get(name).copied();
            let (from, to) = (size(&flow.from), size(&flow.to));
            let name = flow.name_at(n).into_owned();
            let Some(hosts) = from.max(to) else {
                self.made.flow.push(Flow { name: Some(name), ..flow.clone() });
                self.note_flows(start, &[&"flow", &n]);
                continue;
            };
            let all = u64::from(hosts) * u64::from(flow.count);
            if all + start as u64 > MAX_FLOWS {
                let message = format!("{all} flows of {hosts} hosts, the most is {MAX_FLOWS}");
                return Err(Fault::new(&[&"flow", &n], message));
            }
            for k in 1..=hosts {
                let end = |group: &str, size: Option<u32>| match size {
                    Some(size) => format!("{group}-{}", (k - 1) % size + 1),
                    None => group.to_owned(),
                };
                self.made.flow.push(Flow {
                    name: Some(format!("{name}.{k}")),
                    from: end(&flow.from, from),
                    to: end(&flow.to, to),
                    ..flow.clone()
                });
            }
            self.note_flows(start, &[&"flow", &n]);
        }
        Ok(())
    }

    /// Flows from `start` on come from `at`.
    fn note_flows(&mut self, start: usize, at: &[&dyn Display]) {
        self.origins.flows.push((start..self.made.flow.len(), keys(at)));
    }
}

impl Expanded {
    /// A fault of what was made, as one of the template that it was made from.
    pub(crate) fn relocate(&self, fault: Fault) -> Fault {
        let Some((kind, rest)) = fault.at.split_first() else { return fault };
        let Some((name, rest)) = rest.split_first() else { return fault };
        let (ranges, place) = match kind.as_str() {
            "host" => (&self.origins.hosts, self.scenario.host.position(name)),
            "link" => (&self.origins.links, self.scenario.link.position(name)),
            "flow" => (&self.origins.flows, name.parse().ok()),
            _ => return fault,
        };
        let origin = ranges.iter().find(|(range, _)| place.is_some_and(|n| range.contains(&n)));
        match origin {
            Some((_, at)) => {
                let at = at.iter().chain(rest).cloned().collect();
                Fault { at, ..fault }
            }
            None => fault,
        }
    }
}

fn keys(at: &[&dyn Display]) -> Vec<String> {
    at.iter().map(ToString::to_string).collect()
}
