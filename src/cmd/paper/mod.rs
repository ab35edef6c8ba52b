//! `tabane paper`: published experiments, repeated. One file per verb below it.

mod list;
mod run;

use crate::exit::Failure;
use clap::Subcommand;

/// Repeats published experiments in simulated time, and reports ours beside theirs.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the papers.
    List(list::Args),
    /// Repeat papers; print a summary, and write a page with figures for each.
    Run(run::Args),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::List(args) => list::run(&args),
        What::Run(args) => run::run(&args),
    }
}
