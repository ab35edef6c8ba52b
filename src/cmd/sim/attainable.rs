//! `tabane sim attainable`: what flows get against what the links could carry.

use super::seeds::{self, SEED};
use super::table::{empty, right};
use crate::cmd::progress::Progress;
use crate::cmd::sets::Sets;
use crate::exit::Failure;
use crate::say;
use crate::units::time;
use anyhow::anyhow;
use clap::value_parser;
use comfy_table::Cell;
use serde::Serialize;
use std::path::PathBuf;
use tabane_sim::attainable::{self, Row};
use tabane_sim::result::LatencyResult;
use tabane_sim::scenario::Variant;
use tabane_sim::sweep;
use tabane_trace::estimate::median;

/// Run scenarios, and compare what flows get with what the links could carry.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    sets: Sets,
    /// Run each with the seeds 1 to N, unless `--set seed=` says which.
    #[arg(
        long,
        value_name = "N",
        default_value = "4",
        value_parser = value_parser!(u64).range(1..=1000)
    )]
    seeds: u64,
    /// Print one JSON document: every run.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tabane sim attainable scenarios/links/*.toml
  tabane sim attainable scenarios/links/leo.toml --seeds 12
  tabane sim attainable scenarios/links/*.toml --set defaults.congestion=bbr --set seed=7

Attainable is 90.4 % of what the links of a flow's host send on average over the run, whatever they
lose: headers of IP, UDP, WireGuard and TCP are the rest. Of several seeds the table has the median;
`worst` is the least share and its seed, the stall (the longest time without delivery) and p99 are
the longest of any seed. Latency is that of answers and messages; of connections that ask once, from
the SYN on.";

/// A run's rows.
#[derive(Serialize)]
struct Run<'a> {
    /// Place of its file among those that were named: names may be equal.
    #[serde(skip)]
    file: usize,
    #[serde(skip)]
    variant: &'a Variant,
    scenario: &'a str,
    seed: u64,
    params: &'a [(String, String)],
    flows: &'a [Row],
}

impl Run<'_> {
    fn differs_only_in_seed(&self, other: &Self) -> bool {
        self.file == other.file && seeds::others(self.variant).eq(seeds::others(other.variant))
    }
}

/// Runs them all.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut sets = args.sets.values().to_vec();
    if !sets.iter().any(|set| set.split('=').next().is_some_and(|key| key.trim() == SEED)) {
        let seeds: Vec<String> = (1..=args.seeds).map(|seed| seed.to_string()).collect();
        sets.push(format!("{SEED}=[{}]", seeds.join(",")));
    }
    let mut variants: Vec<(usize, Variant)> = Vec::new();
    for (n, file) in args.files.iter().enumerate() {
        let document = super::read(file, &sets)?;
        let of_file = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
        variants.extend(of_file.into_iter().map(|variant| (n, variant)));
    }
    let progress = Progress::new("runs", variants.len() as u64);
    let job = |(_, variant): &(usize, Variant)| attainable::measure(&variant.plan);
    let results = sweep::each(&variants, job, |done, _| progress.set(done as u64));
    progress.finish();
    let results: Vec<Vec<Row>> =
        results.into_iter().collect::<Result<_, _>>().map_err(|error| anyhow!(error))?;
    let runs = variants.iter().zip(&results).map(|((file, variant), flows)| Run {
        file: *file,
        variant,
        scenario: &variant.plan.scenario.name,
        seed: variant.plan.scenario.seed,
        params: &variant.params,
        flows,
    });
    let runs: Vec<Run<'_>> = runs.collect();
    if args.json {
        return say::print(&serde_json::to_string_pretty(&runs).map_err(anyhow::Error::new)?);
    }
    say::print(&table(&runs))
}

fn table(runs: &[Run<'_>]) -> String {
    let mut table = empty(&[
        "scenario",
        "flow",
        "goodput",
        "attainable",
        "share",
        "worst",
        "stall",
        "p50",
        "p95",
        "p99",
        "left",
    ]);
    // Seeds of a sweep need not be neighbours.
    let mut groups: Vec<Vec<&Run<'_>>> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|group| group[0].differs_only_in_seed(run)) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    for group in &groups {
        let axes = seeds::others(group[0].variant).map(|(_, value)| value.as_str());
        let axes: Vec<_> = axes.collect();
        let mut name = format!("{} {}", group[0].scenario, axes.join(" "));
        // Arrivals need not be as many with each seed.
        let flows = group.iter().map(|run| run.flows.len()).max().unwrap_or(0);
        for flow in 0..flows {
            let seeds = group.iter().filter_map(|run| Some((run.seed, run.flows.get(flow)?)));
            let seeds: Vec<(u64, &Row)> = seeds.collect();
            let mut cells = vec![Cell::new(std::mem::take(&mut name).trim_end())];
            cells.extend(of_seeds(&seeds));
            table.add_row(cells);
        }
    }
    format!("{table}\nMbit/s; left: connections that did not finish, of all seeds")
}

/// A flow's cells, from what it got with each seed.
fn of_seeds(seeds: &[(u64, &Row)]) -> Vec<Cell> {
    let values = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> {
        seeds.iter().filter_map(|(_, row)| of(row)).collect()
    };
    let optional = |value: Option<String>| right(value.unwrap_or_default());
    let mbit = |bps: f64| format!("{:.1}", bps / 1e6);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let latency = |of: fn(&LatencyResult) -> f64| values(&|row| row.latency.as_ref().map(of));
    let longest = |values: Vec<f64>| optional(values.into_iter().reduce(f64::max).map(time));
    let worst = seeds
        .iter()
        .filter_map(|(seed, row)| Some((*seed, row.share()?)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
        .filter(|_| seeds.len() > 1);
    let (_, row) = seeds[0];
    let left: usize = seeds.iter().map(|(_, row)| row.unfinished).sum();
    vec![
        Cell::new(match row.connections {
            1 => row.flow.clone(),
            n => format!("{n} {}", row.flow),
        }),
        optional(median(&values(&|row| Some(row.goodput_bps))).map(mbit)),
        optional(median(&values(&|row| row.attainable_bps)).map(mbit)),
        optional(median(&values(&Row::share)).map(percent)),
        optional(worst.map(|(seed, share)| format!("{} ({seed})", percent(share)))),
        longest(values(&|row| row.stall_s)),
        optional(median(&latency(|latency| latency.p50_s)).map(time)),
        optional(median(&latency(|latency| latency.p95_s)).map(time)),
        longest(latency(|latency| latency.p99_s)),
        optional((left > 0).then(|| left.to_string())),
    ]
}
