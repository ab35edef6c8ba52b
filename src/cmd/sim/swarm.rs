//! `tabane sim swarm`: a campaign: the worlds of many seeds, each run and checked.

use super::files::Folder;
use crate::cmd::progress::Progress;
use crate::exit::Failure;
use crate::plural::count;
use crate::say;
use anyhow::anyhow;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use tabane_sim::observe::Silent;
use tabane_sim::swarm::{self, Coverage, Outcome};
use tabane_sim::sweep;

/// Run the worlds generated from a range of seeds, and check their invariants.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The first seed, and the one after the last.
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Parallel runs [default: one per core].
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write swarm.json and the scenarios of failing seeds into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tabane sim swarm                                 seeds 0 to 999
  tabane sim swarm --seeds 5000..15000 --jobs 1    ten thousand others, on one core
  tabane sim replay 5017                           one of them again, with everything about it

Checked in every world: bytes arrive as they were written, acknowledgements never go back, queues
stay within their limits, ACKs are not answered with ACKs for ever, every flow finishes once the
faults are over (or fails, if its peer died), both ends agree on how it closed, and no connection is
left (with keepalive, if the reset of a subflow by hand may have been lost).
Exit code 1 if a seed fails.";

/// Seeds that are run together: what becomes of them is kept in memory.
const BATCH: u64 = 500;
/// Seeds of a campaign.
const SEEDS_MAX: u64 = 10_000_000;

/// What `--json` prints and `swarm.json` holds.
#[derive(Serialize)]
struct Campaign<'a> {
    version: &'static str,
    first_seed: u64,
    worlds: u64,
    flows: u64,
    /// Flows that could not complete: aborted, or their peer died.
    failed_flows: u64,
    bytes: u64,
    packet_hops: u64,
    simulated_s: f64,
    /// By seed, what must not be.
    violations: BTreeMap<u64, Vec<String>>,
    /// Worlds in which each fault, setting and policy was.
    coverage: BTreeMap<&'a str, u64>,
}

/// Runs them.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut folder = args.out.as_deref().map(Folder::create).transpose()?;
    let mut coverage = Coverage::new();
    let mut campaign = Campaign {
        version: env!("CARGO_PKG_VERSION"),
        first_seed: args.seeds.start,
        worlds: 0,
        flows: 0,
        failed_flows: 0,
        bytes: 0,
        packet_hops: 0,
        simulated_s: 0.0,
        violations: BTreeMap::new(),
        coverage: BTreeMap::new(),
    };
    let all = args.seeds.end - args.seeds.start;
    let progress = Progress::new(&count(all, "world"), all);
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or_else(cores, NonZero::get);
    let mut begin = args.seeds.start;
    while begin < args.seeds.end {
        let end = args.seeds.end.min(begin.saturating_add(BATCH));
        let seeds: Vec<u64> = (begin..end).collect();
        let before = begin - args.seeds.start;
        let job = |seed: &u64| swarm::replay(*seed, &mut Silent);
        let told = |done: usize, _| progress.set(before + done as u64);
        for outcome in sweep::each_on(jobs, &seeds, job, told) {
            coverage.add(&outcome.scenario);
            campaign.add(&outcome);
            if let (Some(folder), false) = (&mut folder, outcome.passed()) {
                let name = format!("seed-{}.toml", outcome.seed);
                folder.write(&name, &outcome.scenario.to_toml())?;
            }
        }
        begin = end;
    }
    progress.finish();
    campaign.coverage = coverage.counts().collect();
    if let Some(folder) = &mut folder {
        folder.write_json("swarm.json", &campaign)?;
        say::note(&folder.summary());
    }
    if args.json {
        say::print(&serde_json::to_string(&campaign).map_err(|e| anyhow!(e))?)?;
    } else {
        say::print(&campaign.summary())?;
    }
    match campaign.violations.len() {
        0 => Ok(()),
        n => {
            Err(anyhow!("{n} of {} seeds failed; `tabane sim replay SEED`", campaign.worlds).into())
        }
    }
}

impl Campaign<'_> {
    fn add(&mut self, outcome: &Outcome) {
        self.worlds += 1;
        if let Ok(result) = &outcome.result {
            self.flows += result.flows.len() as u64;
            self.failed_flows += result.flows.iter().filter(|f| f.failed.is_some()).count() as u64;
            self.bytes += result.flows.iter().map(|flow| flow.bytes).sum::<u64>();
            self.packet_hops += result.cost.packet_hops;
            self.simulated_s += result.ended_s;
        }
        if !outcome.passed() {
            let all = [&outcome.violations[..], &outcome.endings].concat();
            self.violations.insert(outcome.seed, all);
        }
    }

    fn summary(&self) -> String {
        let Self { worlds, flows, failed_flows, packet_hops, simulated_s, .. } = self;
        let mut lines = Vec::new();
        for (seed, violations) in &self.violations {
            lines.push(format!("seed {seed}: {}", violations.join("\n  ")));
        }
        let gb = self.bytes as f64 / 1e9;
        lines.push(format!(
            "{worlds} worlds, {flows} flows ({failed_flows} aborted or left by their peer), \
             {simulated_s:.0} s simulated, {gb:.1} GB delivered, {packet_hops} packet-hops"
        ));
        let counts = self.coverage.iter().map(|(name, count)| format!("{name} {count}"));
        lines.push(format!("worlds with: {}", counts.collect::<Vec<_>>().join(", ")));
        lines.push(match self.violations.len() {
            0 => "all seeds passed".to_owned(),
            n => format!("{} failed", count(n, "seed")),
        });
        lines.join("\n")
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wanted = || "write A..B, as in 0..1000".to_owned();
    let (first, last) = text.split_once("..").ok_or_else(wanted)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wanted());
    let range = number(first)?..number(last)?;
    match range.end.checked_sub(range.start) {
        None | Some(0) => {
            Err("no seed is in there: write A..B with B, the one after the last, above A"
                .to_owned())
        }
        Some(count) if count > SEEDS_MAX => Err(format!("at most {SEEDS_MAX} seeds at a time")),
        Some(_) => Ok(range),
    }
}
