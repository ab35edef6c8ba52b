//! `tabane lab`: scenarios on this machine, in namespaces joined by emulated links. One file per
//! verb below it.

mod doctor;
mod enter;
mod run;
mod up;

use crate::exit::Failure;
use anyhow::anyhow;
use clap::Subcommand;
use tabane_lab::LabError;
use tabane_sim::scenario::Document;

/// Runs scenarios on this machine: namespaces joined by emulated links. Root only.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Run a scenario's flows over the kernel's stack, or over ours.
    Run(run::Args),
    /// Build a scenario's network and keep it until Ctrl-C, for your own programs.
    Up(up::Args),
    /// Run a program on a host of a running lab.
    Exec(enter::ExecArgs),
    /// Open a shell on a host of a running lab.
    Shell(enter::ShellArgs),
    /// Say what this machine lacks for the lab.
    Doctor(doctor::Args),
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Run(args) => run::run(&args),
        What::Up(args) => up::run(&args),
        What::Exec(args) => enter::exec(&args),
        What::Shell(args) => enter::shell(&args),
        What::Doctor(args) => doctor::run(&args),
    }
}

/// A failure of the lab; what a scenario has that it cannot do is for the user to change.
pub(in crate::cmd) fn failure(document: &Document, error: LabError) -> Failure {
    match error {
        LabError::Refused(fault) => Failure::usage(document.error(fault).to_string()),
        error @ LabError::Interrupted => Failure::Interrupted(error.to_string()),
        error => anyhow!(error).into(),
    }
}
