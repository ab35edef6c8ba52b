//! What each subflow does, and why it idles, over the decisions since the last look: in the words
//! of [`tabane_trace::idle`], and by their keys for those who translate them.

use crate::watch::{Event, Sub, Watch};
use serde::Serialize;
use std::collections::BTreeMap;
use tabane_engine::tcp;
use tabane_sim::observe::LinkIdx;
use tabane_sim::{Plan, World};
use tabane_trace::idle::Why;

/// Everything that is said beside the curves.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Status {
    /// As [`crate::About::series`] has them.
    pub series: Vec<SeriesStatus>,
    /// As [`crate::About::links`] has them.
    pub links: Vec<LinkStatus>,
    events: Vec<Event>,
}

/// What the subflows of a series do.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct SeriesStatus {
    /// One word: `absent`, `opening`, `down`, `failed`, `backup`, `carries`, `sends` (there is
    /// nothing to decide, as with plain TCP), `idle`, `quiet` (nothing to send) or `closed`.
    pub state: &'static str,
    /// Segments that it was given.
    pub chosen: u64,
    /// Segments that any subflow of the flow was given.
    pub placed: u64,
    /// Why it was not given the others, most frequent first.
    pub not: Vec<WhyNot>,
    /// Bytes that wait in the flow for a subflow.
    pub unsent: u64,
}

/// A reason, and how often it was the one.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct WhyNot {
    /// One word ([`Why::name`]).
    pub key: &'static str,
    /// The path waited for, if it is such a reason.
    pub path: Option<String>,
    /// What waiting gained on average, milliseconds.
    pub gain_ms: Option<f64>,
    /// A part of a sentence: "its window was full".
    pub words: String,
    /// Decisions.
    pub times: u64,
}

/// How a link is, both directions.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct LinkStatus {
    /// Whether it is plugged in.
    pub up: bool,
}

/// Whether each link is up.
pub(crate) fn ups(world: &World<'_>) -> Vec<bool> {
    let directions = world.layout().links.len() as u32;
    (0..directions).step_by(2).map(|n| world.is_link_up(LinkIdx(n))).collect()
}

/// Says how things stand, and counts decisions anew from now on if it is asked to.
pub(crate) fn status(plan: &Plan, watch: &mut Watch, ups: &[bool], anew: bool) -> Status {
    let mut gathered: Vec<Gathered> = Vec::new();
    gathered.resize_with(watch.series.len(), Gathered::default);
    for ((flow, host), end) in &watch.ends {
        if !watch.sends(*flow, *host) {
            continue;
        }
        let placed = end.decisions.total() - end.decisions.held();
        let undecided = end.decisions.total() == 0;
        for sub in end.subflows.values() {
            gathered[sub.series].meet(sub);
            gathered[sub.series].unsent += end.unsent;
            gathered[sub.series].sends |= undecided && sub.info.view.in_flight > 0;
        }
        for (number, fate) in end.decisions.subflows() {
            let Some(series) = end.subflows.get(&number).map(|sub| sub.series) else { continue };
            let into = &mut gathered[series];
            into.chosen += fate.chosen;
            into.placed += placed;
            for (why, times) in &fate.not {
                let name = |slot| watch.slot_name(end, slot);
                let other = match why {
                    Why::WaitingFor(other) | Why::WouldBlock(other) => Some(name(*other)),
                    _ => None,
                };
                let gain_ms = match why {
                    Why::WaitingFor(_) => fate.gain.mean().map(|nanos| nanos / 1e6),
                    _ => None,
                };
                let words = fate.words(*why, name);
                let fresh = WhyNot { key: why.name(), path: other, gain_ms, words, times: 0 };
                into.not.entry(*why).or_insert(fresh).times += times;
            }
        }
    }
    for end in watch.ends.values_mut().filter(|_| anew) {
        end.decisions.clear();
    }
    let down = downs(plan, watch, ups);
    let series = gathered.into_iter().zip(down).map(|(one, down)| one.status(down)).collect();
    let links = ups.iter().map(|up| LinkStatus { up: *up }).collect();
    Status { series, links, events: watch.take_events() }
}

/// Whether the path of each series crosses a link that is down.
fn downs(plan: &Plan, watch: &Watch, ups: &[bool]) -> Vec<bool> {
    let cut = |path: &str| {
        let hosts = plan.topology.hosts.iter();
        let named = hosts.flat_map(|host| &host.paths).find(|p| p.name == path);
        let mut links = named.iter().flat_map(|path| &path.links);
        links.any(|link| !ups.get(*link as usize / 2).copied().unwrap_or(true))
    };
    watch.series.iter().map(|series| cut(&series.path)).collect()
}

/// What is known of a series.
#[derive(Default)]
struct Gathered {
    seen: bool,
    opening: bool,
    alive: u32,
    backup: u32,
    failed: u32,
    sends: bool,
    chosen: u64,
    placed: u64,
    unsent: u64,
    not: BTreeMap<Why, WhyNot>,
}

impl Gathered {
    fn meet(&mut self, sub: &Sub) {
        self.seen = true;
        if !sub.is_alive() {
            return;
        }
        self.opening |= matches!(sub.info.state, tcp::State::SynSent | tcp::State::SynReceived);
        self.alive += 1;
        self.backup += u32::from(sub.info.view.backup);
        self.failed += u32::from(sub.info.view.potentially_failed);
    }

    fn status(self, down: bool) -> SeriesStatus {
        let state = match &self {
            _ if down => "down",
            all if !all.seen => "absent",
            all if all.alive == 0 => "closed",
            all if all.opening => "opening",
            all if all.chosen > 0 => "carries",
            all if all.sends => "sends",
            all if all.failed == all.alive => "failed",
            all if all.backup == all.alive => "backup",
            all if all.not.is_empty() && all.unsent == 0 => "quiet",
            _ => "idle",
        };
        let mut not: Vec<WhyNot> = self.not.into_values().collect();
        not.sort_by_key(|why| std::cmp::Reverse(why.times));
        let (chosen, placed, unsent) = (self.chosen, self.placed, self.unsent);
        SeriesStatus { state, chosen, placed, not, unsent }
    }
}
