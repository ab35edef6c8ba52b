//! `tabane sim run`: one scenario, or every point of a sweep.

use super::watch::Outputs;
use super::{point, sweep};
use crate::cmd::sets::Sets;
use crate::exit::Failure;
use std::path::PathBuf;

/// Run a scenario, or every point of a sweep.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file (TOML), `-` for standard input. A list where one value is expected makes it
    /// a sweep.
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) sets: Sets,
    /// Seed of everything random [default: the scenario's].
    #[arg(long)]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) outputs: Outputs,
}

const EXAMPLES: &str = "\
Examples:
  tabane sim run scenarios/wifi-lte.toml
  tabane sim run scenarios/wifi-lte.toml --set link.lte.rate=20Mbps --seed 3
  tabane sim run scenarios/wifi-lte.toml --set 'defaults.scheduler=[\"minrtt\",\"redundant\"]'
  tabane sim run scenarios/wifi-lte.toml --out results --pcap client --json > run.json

A run with --out DIR writes scenario.toml (as run), result.json, meta.json, summary.csv and
series.csv (tidy: pandas reads them as they are), *.svg and, on request, records.jsonl and *.pcapng.
A sweep writes results.json, summary.csv (each axis a column), estimates.csv (mean and 95 % interval
over seeds) and a plot of each metric. Its runs are kept in runs.jsonl as they finish: after Ctrl-C
the same command goes on from there.";

/// Runs it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let document = super::read(&args.file, &args.sets.with_seed(args.seed))?;
    let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
    super::warn_of_late(&variants);
    match variants.as_slice() {
        [only] if only.params.is_empty() => point::run(&args.outputs, &only.plan),
        _ => sweep::run(&args.outputs, &document, variants),
    }
}
