//! The same scenario on the simulator, on our stack and on the kernel's: what each run came to,
//! and how far the stacks are from each other.
//!
//! Everything compared is measured in the same way on every stack: bytes by the application,
//! smoothed round trips and repeats from snapshots taken at a steady interval.

mod figures;
mod page;
mod tables;

pub use figures::Page;
pub use page::page;
pub use tables::{Notes, Verdict, markdown, rows, verdicts};

use crate::{LabError, Stack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use tabane_engine::Duration;
use tabane_sim::Plan;
use tabane_sim::result::RunResult;
use tabane_trace::estimate::{Estimate, estimate};
use tabane_trace::fairness::jain;
use tabane_trace::{Collector, Metric, Report, Series, Settings};

/// Who runs a scenario.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    Sim,
    /// The engine on emulated links.
    Tabane,
    /// The kernel on emulated links.
    Kernel,
}

impl Runner {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Tabane => "tabane",
            Self::Kernel => "kernel",
        }
    }

    /// What the lab runs for it; `None` is the simulator.
    pub fn stack(self) -> Option<Stack> {
        match self {
            Self::Sim => None,
            Self::Tabane => Some(Stack::Tabane),
            Self::Kernel => Some(Stack::Kernel),
        }
    }
}

/// What one run came to. Rates are bits a second of payload, times seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub seed: u64,
    /// Of all flows together.
    pub goodput_bps: f64,
    /// When the last flow had delivered everything; `None` if not all have.
    pub completed_s: Option<f64>,
    /// Share of each path in what was delivered.
    pub shares: BTreeMap<String, f64>,
    /// Payload sent again, of all sent.
    pub retransmitted_ratio: f64,
    /// Smoothed round trip of the sending subflows over time: half of the samples are below.
    pub srtt_p50_s: Option<f64>,
    /// 95 % are.
    pub srtt_p95_s: Option<f64>,
    /// Each flow on each of its paths, by `FLOW/PATH`.
    #[serde(default)]
    pub subflows: BTreeMap<String, SubflowOutcome>,
    /// Jain's index of what flows delivered, where there are several.
    pub jain: Option<f64>,
    /// Median latency of answers or messages, where flows have it.
    pub latency_p50_s: Option<f64>,
    /// 95 % are below.
    pub latency_p95_s: Option<f64>,
    /// Of the emulated links, microseconds.
    pub lateness_p99_us: Option<u64>,
    /// Why the run should not be believed.
    pub poor: Option<String>,
    /// Flows that failed or got wrong bytes, and why or where.
    pub failed: Vec<String>,
}

/// What a flow did on a path.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SubflowOutcome {
    /// Bits a second of payload.
    pub goodput_bps: f64,
    /// Median of the sender's smoothed round trip over time.
    pub srtt_p50_s: Option<f64>,
}

/// All runs of one scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Compared {
    pub scenario: String,
    pub about: String,
    /// The file, as run.
    pub toml: String,
    /// Several paths.
    pub multipath: bool,
    /// A link loses packets that its queue had room for.
    #[serde(default)]
    pub lossy: bool,
    /// Version of this program.
    pub version: String,
    /// Runs by who ran them.
    pub runs: BTreeMap<Runner, Vec<Outcome>>,
}

/// How often a run is repeated that proves too inaccurate, and how often each runs.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Runs of each, with seeds one after the other.
    pub repeat: u32,
    /// Further tries for a run of poor accuracy; if all are poor, the last one counts and says so.
    pub retries: u32,
}

/// A value of an outcome.
pub type Value = fn(&Outcome) -> Option<f64>;

impl Compared {
    /// Runs a scenario on everything. The reports are of the last run of each.
    ///
    /// # Errors
    /// [`LabError`].
    pub fn run(
        plan: &Plan,
        runners: &[Runner],
        repeats: Repeats,
        interrupted: &AtomicBool,
    ) -> Result<(Self, BTreeMap<Runner, Report>), LabError> {
        let scenario = &plan.scenario;
        let mut compared = Self {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            toml: scenario.to_toml(),
            multipath: scenario.link.0.len() > 1,
            lossy: plan.links.iter().any(|link| link.config.loss.name != "none"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: BTreeMap::new(),
        };
        let mut reports = BTreeMap::new();
        for n in 0..repeats.repeat {
            let plan = plan.with_seed(scenario.seed + u64::from(n)).map_err(LabError::Refused)?;
            for runner in runners {
                let (mut outcome, mut report) = once(&plan, *runner, interrupted)?;
                for _ in 0..repeats.retries {
                    if outcome.poor.is_some() {
                        (outcome, report) = once(&plan, *runner, interrupted)?;
                    }
                }
                compared.runs.entry(*runner).or_default().push(outcome);
                reports.insert(*runner, report);
            }
        }
        Ok((compared, reports))
    }

    /// Mean of a value over the runs that have it.
    pub fn estimate(&self, runner: Runner, value: Value) -> Option<Estimate> {
        let runs = self.runs.get(&runner)?;
        estimate(&runs.iter().filter_map(value).collect::<Vec<f64>>())
    }

    /// How far a stack is from the simulator, as a ratio, and half the width of the 95 % interval
    /// of that.
    pub fn difference(&self, runner: Runner, value: Value) -> Option<Estimate> {
        let (theirs, sim) = (self.estimate(runner, value)?, self.estimate(Runner::Sim, value)?);
        if sim.mean == 0.0 {
            return None;
        }
        let ratio = theirs.mean / sim.mean;
        let spread = (theirs.half_width / sim.mean).hypot(ratio * sim.half_width / sim.mean);
        Some(Estimate { mean: ratio - 1.0, half_width: spread })
    }

    /// Whether a run of a stack should not be believed.
    pub fn poor(&self, runner: Runner) -> Option<&str> {
        self.runs.get(&runner)?.iter().find_map(|run| run.poor.as_deref())
    }
}

fn once(
    plan: &Plan,
    runner: Runner,
    interrupted: &AtomicBool,
) -> Result<(Outcome, Report), LabError> {
    let interval = Duration((plan.scenario.duration.0.0 / 1000).clamp(5_000_000, 100_000_000));
    let settings = Settings { interval, bins: 2_000, tracked: 64, records: false };
    let mut collector = Collector::new(settings);
    let (run, accuracy) = match runner.stack() {
        None => {
            let run = tabane_sim::run(plan, &mut collector);
            (run.map_err(|e| LabError::Broken(e.to_string()))?, None)
        }
        Some(stack) => {
            let result = crate::run(plan, stack, &mut collector, interrupted)?;
            (result.run, Some(result.accuracy))
        }
    };
    let report = collector.report();
    let mut outcome = outcome(&run, &report);
    outcome.lateness_p99_us = accuracy.as_ref().map(|a| a.lateness_p99_us);
    outcome.poor = accuracy.and_then(|a| a.poor);
    Ok((outcome, report))
}

fn outcome(run: &RunResult, report: &Report) -> Outcome {
    let sum = |metric: &str| {
        let figures = report.figures.iter().filter(|f| f.metric == metric);
        figures.map(|f| f.value).sum::<f64>()
    };
    let mut srtt: Vec<f64> = Vec::new();
    let senders = senders(report);
    let sends =
        |s: &&Series| senders.get(s.subject.flow.as_str()) == Some(&s.subject.host.as_str());
    for series in report.of(Metric::Srtt, false).filter(sends) {
        srtt.extend(series.points.iter().map(|p| p.1));
    }
    srtt.sort_by(f64::total_cmp);
    let bytes: Vec<f64> = run.flows.iter().map(|f| f.bytes as f64).collect();
    let latency = run.flows.iter().find_map(|flow| flow.latency.as_ref());
    let failed = run.flows.iter().filter_map(|flow| {
        let wrong = flow.corrupt_at.map(|at| format!("delivered a wrong byte at {at}"));
        Some(format!("{}: {}", flow.name, wrong.or(flow.failed.clone())?))
    });
    Outcome {
        seed: run.seed,
        goodput_bps: run.flows.iter().map(|f| f.goodput_bps).sum(),
        completed_s: (run.flows.iter())
            .try_fold(0.0, |last: f64, f| Some(last.max(f.completed_s?))),
        shares: shares(run),
        retransmitted_ratio: sum("retransmitted_bytes") / sum("sent_bytes").max(1.0),
        srtt_p50_s: quantile(&srtt, 0.5),
        srtt_p95_s: quantile(&srtt, 0.95),
        subflows: subflows(run, report),
        jain: (bytes.len() > 1).then(|| jain(&bytes)),
        latency_p50_s: latency.map(|l| l.p50_s),
        latency_p95_s: latency.map(|l| l.p95_s),
        lateness_p99_us: None,
        poor: None,
        failed: failed.collect(),
    }
}

fn subflows(run: &RunResult, report: &Report) -> BTreeMap<String, SubflowOutcome> {
    let mut subflows: BTreeMap<String, SubflowOutcome> = BTreeMap::new();
    for flow in &run.flows {
        for subflow in &flow.subflows {
            let name = format!("{}/{}", flow.name, subflow.path);
            subflows.entry(name).or_default().goodput_bps += subflow.goodput_bps;
        }
    }
    let mut srtt: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let senders = senders(report);
    for series in report.of(Metric::Srtt, false) {
        let subject = &series.subject;
        if senders.get(subject.flow.as_str()) == Some(&subject.host.as_str()) {
            let values = srtt.entry(format!("{}/{}", subject.flow, subject.path)).or_default();
            values.extend(series.points.iter().map(|p| p.1));
        }
    }
    for (name, mut values) in srtt {
        values.sort_by(f64::total_cmp);
        subflows.entry(name).or_default().srtt_p50_s = quantile(&values, 0.5);
    }
    subflows
}

/// The host that wrote most of each flow's bytes: the one whose round trips count.
fn senders(report: &Report) -> BTreeMap<&str, &str> {
    let mut most: BTreeMap<&str, (f64, &str)> = BTreeMap::new();
    for figure in report.figures.iter().filter(|f| f.metric == "written_bytes") {
        let subject = &figure.subject;
        let most = most.entry(&subject.flow).or_insert((0.0, &subject.host));
        if figure.value > most.0 {
            *most = (figure.value, &subject.host);
        }
    }
    most.into_iter().map(|(flow, (_, host))| (flow, host)).collect()
}

fn shares(run: &RunResult) -> BTreeMap<String, f64> {
    let mut bytes: BTreeMap<String, f64> = BTreeMap::new();
    for subflow in run.flows.iter().flat_map(|f| &f.subflows) {
        *bytes.entry(subflow.path.clone()).or_default() += subflow.bytes as f64;
    }
    let all: f64 = bytes.values().sum();
    bytes.values_mut().for_each(|share| *share /= all.max(1.0));
    bytes
}

/// Nearest rank.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests;
