//! `tabane sim replay`: the world that a seed of the swarm draws, run and checked again.

use super::files::Folder;
use super::measure::measured;
use super::point;
use super::watch::{Outputs, Watchers};
use crate::cost::Scope;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use tabane_sim::output::info;
use tabane_sim::{RunError, swarm};

/// Run the world that the swarm generates from a seed, and check its invariants.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  tabane sim replay 42                            run it; exit code 1 if something is violated
  tabane sim replay 42 --print > world.toml       the world as a scenario, to look at and change
  tabane sim replay 42 --out DIR --pcap client    everything about it")]
pub(crate) struct Args {
    /// Seed, as a failing test prints it.
    seed: u64,
    /// Print the scenario instead of running it.
    #[arg(long, conflicts_with_all = ["out", "json"])]
    print: bool,
    #[command(flatten)]
    outputs: Outputs,
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = swarm::generate(args.seed);
    if args.print {
        return say::print(scenario.to_toml().trim_end());
    }
    let plan = scenario.compile().map_err(|fault| anyhow!(RunError::from(fault)))?;
    let info = info(&scenario, &[]);
    let mut folder = args.outputs.out.as_deref().map(Folder::create).transpose()?;
    let mut watchers = Watchers::new(&args.outputs, &plan, &info, folder.as_mut())?;
    let mut violations = Vec::new();
    let result = measured(Scope::Process, || {
        let outcome = swarm::replay(args.seed, &mut watchers.all());
        violations = [outcome.violations, outcome.endings].concat();
        outcome.result
    });
    let report = watchers.finish()?;
    let result = result.map_err(|e| anyhow!(e).context(info.scenario.clone()))?;
    point::give_out(&args.outputs, folder, &scenario, &info, &result, &result, &report)?;
    point::note_cost(&args.outputs, &result);
    match violations.as_slice() {
        [] => Ok(()),
        some => Err(anyhow!("seed {}: {}", args.seed, some.join("\n  ")).into()),
    }
}
