//! What the flows of a scenario get, against what its links could carry: a run, and a row for each
//! flow of the file.

use crate::app::Latencies;
use crate::observe::Silent;
use crate::plan::Plan;
use crate::result::{FlowResult, LatencyResult, RunResult};
use crate::scenario::{Flow, FlowDirection};
use crate::world::{self, RunError};
use serde::Serialize;
use std::collections::BTreeMap;
use tabane_engine::Duration;

/// Of what links send in bits, what a gateway can deliver as payload: the rest is headers of IP,
/// UDP, WireGuard and TCP.
pub const PAYLOAD: f64 = 0.904;

/// What became of a flow of the file, or of all that it stands for (`count`).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub flow: String,
    /// Connections.
    pub connections: usize,
    /// Those that did not finish, though they had an end.
    pub unfinished: usize,
    /// Payload bits per second, of all together.
    pub goodput_bps: f64,
    /// What the links of their host carry in their direction, on average over the run, times
    /// [`PAYLOAD`]; for bulk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainable_bps: Option<f64>,
    /// The longest time between two deliveries; for bulk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
    /// Of answers and messages; where a connection asks once, from its SYN to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
}

impl Row {
    /// Goodput over what is attainable.
    pub fn share(&self) -> Option<f64> {
        self.attainable_bps.filter(|bps| *bps > 0.0).map(|bps| self.goodput_bps / bps)
    }
}

/// Runs a scenario.
///
/// # Errors
/// [`RunError`], of a world without progress.
pub fn measure(plan: &Plan) -> Result<Vec<Row>, RunError> {
    let result = world::run(plan, &mut Silent)?;
    let mut flows = result.flows.iter();
    let rows = plan.scenario.flow.iter().map(|spec| {
        let flows: Vec<&FlowResult> = flows.by_ref().take(spec.count as usize).collect();
        row(plan, &result, spec, &flows)
    });
    Ok(rows.collect())
}

fn row(plan: &Plan, result: &RunResult, spec: &Flow, flows: &[&FlowResult]) -> Row {
    let ended = Duration::from_secs_f64(result.ended_s);
    let once = spec.request.as_ref().is_some_and(|request| request.count == Some(1));
    let mut latencies = Latencies::default();
    for (n, flow) in flows.iter().enumerate() {
        if once {
            let start = spec.start.0 + spec.stagger.0 * n as u64;
            let until_end = || ended.saturating_sub(start).as_secs_f64();
            latencies.nanos.push((flow.completed_s.unwrap_or_else(until_end) * 1e9) as u64);
        } else {
            latencies.nanos.extend_from_slice(&flow.detail.latencies);
        }
    }
    let endless = spec.bulk.is_none_or(|amount| amount == crate::scenario::Amount::Unlimited)
        && spec.request.as_ref().is_none_or(|request| request.count.is_none());
    let unfinished = flows.iter().filter(|flow| !endless && flow.completed_s.is_none()).count();
    let bulk = spec.bulk.is_some();
    let stall = flows.iter().map(|flow| flow.detail.stall.as_secs_f64()).fold(0.0, f64::max);
    let name = flows.first().map_or("", |flow| flow.name.as_str());
    Row {
        flow: spec.name.clone().unwrap_or_else(|| name.to_owned()),
        connections: flows.len(),
        unfinished,
        goodput_bps: FlowResult::goodput_together(flows.iter().copied(), result.ended_s),
        attainable_bps: bulk.then(|| attainable(plan, spec, ended)),
        stall_s: bulk.then_some(stall),
        latency: LatencyResult::of(&latencies),
    }
}

/// What the paths of the connecting host carry in the first `time`, each as much as the links
/// that it shares with those before it leave. Links that go down do not count as down.
fn attainable(plan: &Plan, spec: &Flow, time: Duration) -> f64 {
    let Some(host) = plan.topology.host(&spec.from) else { return 0.0 };
    let mut left: BTreeMap<u32, f64> = BTreeMap::new();
    let mut sum = 0.0;
    let upwards = spec.direction == FlowDirection::Upload;
    let paths = &plan.topology.hosts[host].paths;
    let ways = paths.iter().flat_map(|path| plan.topology.beneath(&path.links));
    for way in ways {
        let directions: Vec<u32> =
            way.iter().map(|link| if upwards { *link } else { link ^ 1 }).collect();
        for direction in &directions {
            let link = &plan.links[*direction as usize];
            let rate = || link.mean_rate(plan.scenario.seed, time).unwrap_or(0.0);
            left.entry(*direction).or_insert_with(rate);
        }
        let least = directions.iter().map(|direction| left[direction]).fold(f64::MAX, f64::min);
        for direction in &directions {
            left.entry(*direction).and_modify(|left| *left -= least);
        }
        sum += least;
    }
    sum * PAYLOAD
}
