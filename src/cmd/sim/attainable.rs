//! `tabane sim attainable`: what flows get against what the links could carry.

use super::table::{empty, right};
use crate::cmd::progress::Progress;
use crate::cmd::sets::Sets;
use crate::exit::Failure;
use crate::say;
use crate::units::time;
use anyhow::anyhow;
use comfy_table::Cell;
use serde::Serialize;
use std::path::PathBuf;
use tabane_sim::attainable::{self, Row};
use tabane_sim::scenario::Variant;
use tabane_sim::sweep;

/// Run scenarios, and compare what flows get with what the links could carry.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    sets: Sets,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  tabane sim attainable scenarios/links/*.toml
  tabane sim attainable scenarios/links/leo.toml --set 'seed=[1,2,3]'
  tabane sim attainable scenarios/links/*.toml --set defaults.congestion=bbr

Attainable is 90.4 % of what the links of a flow's host send on average over the run, whatever they
lose: headers of IP, UDP, WireGuard and TCP are the rest. A stall is the longest time without
delivery. Latency is that of answers and messages; of connections that ask once, from the SYN on.";

/// A run's rows.
#[derive(Serialize)]
struct Run<'a> {
    scenario: &'a str,
    params: &'a [(String, String)],
    flows: &'a [Row],
}

/// Runs them all.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut variants: Vec<Variant> = Vec::new();
    for file in &args.files {
        let document = super::read(file, args.sets.values())?;
        variants.extend(document.variants().map_err(|e| Failure::usage(e.to_string()))?);
    }
    let progress = Progress::new("runs", variants.len() as u64);
    let job = |variant: &Variant| attainable::measure(&variant.plan);
    let results = sweep::each(&variants, job, |done, _| progress.set(done as u64));
    progress.finish();
    let results: Vec<Vec<Row>> =
        results.into_iter().collect::<Result<_, _>>().map_err(|error| anyhow!(error))?;
    let runs = variants.iter().zip(&results).map(|(variant, flows)| {
        let scenario = &variant.plan.scenario.name;
        Run { scenario, params: &variant.params, flows }
    });
    if args.json {
        let runs: Vec<_> = runs.collect();
        return say::print(&serde_json::to_string_pretty(&runs).map_err(anyhow::Error::new)?);
    }
    say::print(&table(runs))
}

fn table<'a>(runs: impl Iterator<Item = Run<'a>>) -> String {
    let mut table = empty(&[
        "scenario",
        "flow",
        "goodput",
        "attainable",
        "share",
        "stall",
        "p50",
        "p95",
        "p99",
        "left",
    ]);
    for run in runs {
        let params: Vec<_> = run.params.iter().map(|(_, value)| value.as_str()).collect();
        let mut name = format!("{} {}", run.scenario, params.join(" "));
        for row in run.flows {
            let latency = |of: fn(&tabane_sim::result::LatencyResult) -> f64| {
                right(row.latency.as_ref().map_or_else(String::new, |latency| time(of(latency))))
            };
            let mbit = |bps: f64| format!("{:.1}", bps / 1e6);
            let optional = |value: Option<String>| right(value.unwrap_or_default());
            let flow = match row.connections {
                1 => row.flow.clone(),
                n => format!("{n} {}", row.flow),
            };
            table.add_row(vec![
                Cell::new(std::mem::take(&mut name).trim_end()),
                Cell::new(flow),
                right(mbit(row.goodput_bps)),
                optional(row.attainable_bps.map(mbit)),
                optional(row.share().map(|share| format!("{:.0} %", share * 100.0))),
                optional(row.stall_s.map(time)),
                latency(|latency| latency.p50_s),
                latency(|latency| latency.p95_s),
                latency(|latency| latency.p99_s),
                optional((row.unfinished > 0).then(|| row.unfinished.to_string())),
            ]);
        }
    }
    format!("{table}\nMbit/s; left: connections that did not finish")
}
