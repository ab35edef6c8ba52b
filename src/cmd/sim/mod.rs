//! `tabane sim`: scenarios in simulated time. One file per verb below it.

mod attainable;
mod check;
mod convert;
pub(in crate::cmd) mod files;
mod grid;
pub(in crate::cmd) mod kept;
pub(in crate::cmd) mod list;
pub(in crate::cmd) mod measure;
pub(in crate::cmd) mod point;
mod replay;
mod run;
mod schema;
mod seeds;
mod swarm;
mod sweep;
pub(in crate::cmd) mod table;
pub(in crate::cmd) mod watch;

use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use clap::Subcommand;
use std::collections::BTreeSet;
use std::path::Path;
use tabane_config::bounded;
use tabane_sim::scenario::{Document, ScenarioError, Variant};

/// Runs scenarios in simulated time.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Run a scenario, or every point of a sweep.
    Run(run::Args),
    /// List the scenarios below a folder.
    List(list::Args),
    /// Check a scenario without running it.
    Check(check::Args),
    /// Run scenarios, and compare what flows get with what the links could carry.
    Attainable(attainable::Args),
    /// Convert a measured series into conditions of a link.
    Convert(convert::Args),
    /// Run the world that the swarm generates from a seed, and check its invariants.
    Replay(replay::Args),
    /// Run the worlds generated from a range of seeds.
    Swarm(swarm::Args),
    /// Compare schedulers with every path alone, over paths generated from a seed.
    Grid(grid::Args),
    /// Print the JSON Schema of scenario files, for editors.
    Schema(schema::Args),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Run(args) => run::run(&args),
        What::List(args) => list::run(&args),
        What::Check(args) => check::run(&args),
        What::Attainable(args) => attainable::run(&args),
        What::Convert(args) => convert::run(&args),
        What::Replay(args) => replay::run(&args),
        What::Swarm(args) => swarm::run(&args),
        What::Grid(args) => grid::run(&args),
        What::Schema(args) => schema::run(&args),
    }
}

/// Says what none of these runs, or only some of them, will show.
fn warn_of_late(variants: &[Variant]) {
    let late: BTreeSet<String> = variants.iter().flat_map(|v| v.plan.source.late()).collect();
    late.iter().for_each(|what| say::warning(what));
}

/// Reads a scenario file, or standard input if it is called `-`. A file that cannot be read is a
/// failure; one that says something wrong is for the user to change.
pub(in crate::cmd) fn read(file: &Path, sets: &[String]) -> Result<Document, Failure> {
    let wrong = |error: ScenarioError| Failure::usage(error.to_string());
    if file == Path::new("-") {
        let text = bounded::text_of(std::io::stdin(), bounded::SOURCE_DOCUMENT);
        let text = text.context("standard input")?;
        return Document::parse("stdin", &text, sets).map_err(wrong);
    }
    if let Err(error) = std::fs::File::open(file) {
        let hint = "`tabane sim list` shows the scenarios below this folder";
        return Err(anyhow!("{}: {error}\n      = {hint}", file.display()).into());
    }
    Document::read(file, sets).map_err(wrong)
}
