//! What came of a run, in the form that scripts read (`tabane sim run --json`).

use crate::app::Latencies;
use serde::{Deserialize, Serialize};
use tabane_engine::Duration;
use tabane_engine::record::CloseReason;

/// A run's result. Times are seconds, rates bits per second of payload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Version of this program.
    pub version: String,
    /// When the run ended, simulated time.
    pub ended_s: f64,
    /// Flows, in file order.
    pub flows: Vec<FlowResult>,
    /// Link directions, in file order.
    pub links: Vec<LinkResult>,
    /// Packets that a node's engine made longer than their path carries, by node: there are none
    /// but by a fault of the engine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub too_long: Vec<(String, u64)>,
    /// Connections that were still there at the end, by node, if the scenario is `closing`;
    /// of nodes that are awake.
    #[serde(skip)]
    pub open: Vec<(String, usize)>,
    /// What the run cost.
    pub cost: Cost,
}

impl RunResult {
    /// Without what was measured of this process: the same bytes whenever it runs again.
    #[must_use]
    pub fn reproducible(&self) -> Self {
        let cost = Cost { packet_hops: self.cost.packet_hops, ..Cost::default() };
        Self { cost, ..self.clone() }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    pub name: String,
    /// Payload bytes delivered to the application.
    pub bytes: u64,
    /// From its start until everything was delivered; `None` if that did not happen.
    pub completed_s: Option<f64>,
    /// `bytes` over `completed_s`, or over the time from its start to the end of the run.
    pub goodput_bps: f64,
    /// Subflows of its connection, in order of creation.
    pub subflows: Vec<SubflowResult>,
    /// The connections that it is made of, where proxies relay it, from the client on.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hops: Vec<HopResult>,
    /// For applications that have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Position of the first wrong byte, if bytes were compared and one was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt_at: Option<u64>,
    /// How the source's and the sink's connection ended, as far as they did during the run.
    #[serde(skip)]
    pub closed: [Option<CloseReason>; 2],
    /// What is no part of results as they are written.
    #[serde(skip)]
    pub detail: FlowDetail,
}

/// What a simulated flow went through.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlowDetail {
    /// Latencies in nanoseconds, as far as they were kept.
    pub latencies: Vec<u64>,
    /// The longest time between two deliveries, and from the last one to the end of the run unless
    /// the flow had finished.
    pub stall: Duration,
    /// When it was to begin, since the start of the run.
    pub began: Duration,
}

impl FlowResult {
    /// Goodput of several flows together, bit/s: what all of them have delivered, over the time
    /// from the first one's start to the last one's end. A sum of their goodputs is more wherever
    /// they did not run at the same time. `ended_s`: when the run ended.
    pub fn goodput_together<'a>(flows: impl IntoIterator<Item = &'a Self>, ended_s: f64) -> f64 {
        let (mut bits, mut first, mut last) = (0.0, f64::MAX, 0.0);
        for flow in flows {
            let began = flow.detail.began.as_secs_f64();
            bits += flow.bytes as f64 * 8.0;
            first = began.min(first);
            last = flow.completed_s.map_or(ended_s, |took| began + took).max(last);
        }
        if last > first { bits / (last - first) } else { 0.0 }
    }

    /// The part of each subflow, 0 to 1, of what all of them have delivered. In a run that ended
    /// before the flow that is more than the flow's: what waits for data before it counts.
    pub fn shares(&self) -> impl Iterator<Item = f64> {
        let all: u64 = self.subflows.iter().map(|subflow| subflow.bytes).sum();
        self.subflows.iter().map(move |subflow| subflow.bytes as f64 / all.max(1) as f64)
    }
}

/// A connection of a flow that proxies relay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HopResult {
    /// Node that connected.
    pub from: String,
    /// Node that accepted.
    pub to: String,
    /// Payload bytes delivered to its receiving end.
    pub bytes: u64,
    /// As of its flow.
    pub goodput_bps: f64,
    /// Its subflows.
    pub subflows: Vec<SubflowResult>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubflowResult {
    /// Name of its path at the host that connected.
    pub path: String,
    /// Payload bytes that it was the first to deliver.
    pub bytes: u64,
    /// As of its flow.
    pub goodput_bps: f64,
}

/// Latencies in seconds: of answers (request to last byte), of messages (due to last byte).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LatencyResult {
    pub count: u64,
    pub mean_s: f64,
    /// Half are at most this.
    pub p50_s: f64,
    /// 95 % are.
    pub p95_s: f64,
    /// 99 % are.
    pub p99_s: f64,
    /// All are.
    pub max_s: f64,
}

impl LatencyResult {
    /// Of what an application measured; `None` if it measured nothing.
    pub fn of(latencies: &Latencies) -> Option<Self> {
        let mut sorted = latencies.nanos.clone();
        sorted.sort_unstable();
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        // Nearest rank.
        let quantile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
            seconds(sorted[rank - 1])
        };
        let max_s = seconds(*sorted.last()?);
        let sum: u128 = sorted.iter().map(|n| u128::from(*n)).sum();
        Some(Self {
            count: sorted.len() as u64 + latencies.uncounted,
            mean_s: sum as f64 / sorted.len() as f64 / 1e9,
            p50_s: quantile(0.5),
            p95_s: quantile(0.95),
            p99_s: quantile(0.99),
            max_s,
        })
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkResult {
    /// Name of the link.
    pub link: String,
    /// Node that sends into it.
    pub from: String,
    /// Node it leads to.
    pub to: String,
    /// Packets delivered.
    pub packets: u64,
    /// Bytes delivered, IP headers included.
    pub bytes: u64,
    /// Packets lost, for whatever reason.
    pub lost: u64,
    /// Frames sent for them, repeated ones each time, where they share a medium.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub frames: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a run cost. All but `packet_hops` is for the caller to measure.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Packets times link directions crossed.
    pub packet_hops: u64,
    /// User time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_s: Option<f64>,
    /// Instructions retired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Largest resident set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let nanos = (1..=100).rev().map(|ms| ms * 1_000_000).collect();
        let result = LatencyResult::of(&Latencies { nanos, uncounted: 1 }).unwrap();
        assert_eq!((result.p50_s, result.p95_s, result.max_s), (0.05, 0.095, 0.1));
        assert_eq!((result.count, result.mean_s), (101, 0.0505));
        assert_eq!(LatencyResult::of(&Latencies::default()), None);
    }
}
