//! What a scenario has to show and to set: links with their parameters, series, policies.

use crate::changes::{follows, own};
use crate::watch::Watch;
use serde::Serialize;
use tabane_engine::{congestion, egress, scheduler};
use tabane_sim::observe::LinkIdx;
use tabane_sim::scenario::LinkParams;
use tabane_sim::{Plan, World};

/// A scenario as a page shows it.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct About {
    /// As results have it.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Everything random comes from it; text, since not every number is one in a page.
    pub seed: String,
    /// Seconds, at the latest.
    pub duration: f64,
    /// Links, in file order.
    pub links: Vec<LinkAbout>,
    /// Curves, in the order of the figures of [`crate::Play::sample`].
    pub series: Vec<SeriesAbout>,
    /// What hosts do that follow `[defaults]`.
    pub policies: NodePolicies,
    /// Schedulers, controllers and egress policies there are: name and one line.
    pub schedulers: Vec<[&'static str; 2]>,
    pub controllers: Vec<[&'static str; 2]>,
    pub egresses: Vec<[&'static str; 2]>,
}

/// A link; up is towards the server.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct LinkAbout {
    pub name: String,
    /// Nodes at its ends, as far as paths name them.
    pub from: String,
    pub to: String,
    pub up: DirectionAbout,
    pub down: DirectionAbout,
}

/// A direction of a link. What the file does not say is absent.
#[derive(Serialize, Clone, PartialEq, Debug, Default)]
pub struct DirectionAbout {
    /// Bits per second.
    pub rate: Option<u64>,
    /// Seconds one way.
    pub delay: Option<f64>,
    /// As scenarios write it, such as `1%` or `gilbert:p=0.01,r=0.4`.
    pub loss: Option<String>,
    /// As scenarios write it, such as `100 packets` or `codel`.
    pub queue: Option<String>,
    /// Whether its rate, delay or loss follow a model or a file: sliders would fight with it.
    pub moves: bool,
}

/// A curve.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct SeriesAbout {
    /// Flow, without the number of its copy.
    pub flow: String,
    /// The path, as the host that connects calls it.
    pub path: String,
    /// The link that it is known by: the first of the path that no other path of the flow has.
    pub link: Option<usize>,
    /// All links of the path, from the client on.
    pub links: Vec<usize>,
}

/// Policies in force where nothing else is said.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct NodePolicies {
    pub scheduler: String,
    pub congestion: String,
    pub egress: String,
    /// Hosts that have policies of their own.
    pub others: Vec<String>,
}

/// The links of a world, as they are now.
pub(crate) fn links(world: &World<'_>) -> Vec<LinkAbout> {
    let layout = world.layout();
    let directions = layout.links.iter().enumerate().step_by(2);
    let links = directions.map(|(n, link)| LinkAbout {
        name: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        up: direction(world.link_params(LinkIdx(n as u32))),
        down: direction(world.link_params(LinkIdx(n as u32 + 1))),
    });
    links.collect()
}

fn direction(params: &LinkParams) -> DirectionAbout {
    DirectionAbout {
        rate: params.rate.map(|rate| rate.0),
        delay: params.delay.map(|delay| delay.0.as_secs_f64()),
        loss: params.loss.as_ref().map(ToString::to_string),
        queue: params.queue.as_ref().map(ToString::to_string),
        moves: params.trace.is_some() || params.conditions.is_some(),
    }
}

pub(crate) fn about(plan: &Plan, watch: &Watch, links: Vec<LinkAbout>) -> About {
    let scenario = &plan.scenario;
    let config = tabane_engine::config::Config::default();
    let said = |kind: &str, base: String| own(&scenario.defaults, kind).unwrap_or(base);
    let hosts = plan.topology.hosts.iter().map(|host| host.name.clone());
    let kinds = ["scheduler", "congestion", "egress"];
    let others = hosts.filter(|name| kinds.iter().any(|kind| !follows(plan, name, kind)));
    About {
        name: scenario.name.clone(),
        about: scenario.about.clone(),
        seed: scenario.seed.to_string(),
        duration: scenario.duration.0.as_secs_f64(),
        links,
        series: series(plan, watch),
        policies: NodePolicies {
            scheduler: said("scheduler", config.mptcp.scheduler.to_string()),
            congestion: said("congestion", config.tcp.congestion.to_string()),
            egress: said("egress", config.mptcp.egress.to_string()),
            others: others.collect(),
        },
        schedulers: scheduler::ALL.iter().map(|entry| [entry.name, entry.summary]).collect(),
        controllers: congestion::ALL.iter().map(|entry| [entry.name, entry.summary]).collect(),
        egresses: egress::ALL.iter().map(|entry| [entry.name, entry.summary]).collect(),
    }
}

fn series(plan: &Plan, watch: &Watch) -> Vec<SeriesAbout> {
    let links_of = |path: &str| -> Vec<usize> {
        let paths = plan.topology.hosts.iter().flat_map(|host| &host.paths);
        let named = paths.into_iter().find(|p| p.name == path);
        named.map_or_else(Vec::new, |p| p.links.iter().map(|link| *link as usize / 2).collect())
    };
    let one = |n: usize| {
        let series = &watch.series[n];
        let all = links_of(&series.path);
        let siblings = watch.series.iter().filter(|o| o.flow == series.flow && *o != series);
        let taken: Vec<usize> = siblings.flat_map(|other| links_of(&other.path)).collect();
        let link = all.iter().find(|link| !taken.contains(link)).or(all.first()).copied();
        SeriesAbout { flow: series.flow.clone(), path: series.path.clone(), link, links: all }
    };
    (0..watch.series.len()).map(one).collect()
}
