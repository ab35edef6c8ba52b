//! `tabane client`: the agent that programs use, and what makes its configuration.

mod cleanup;
mod join;
mod links;
mod rotate;
mod run;
mod secrets;

use crate::exit::Failure;
use clap::Subcommand;

/// Bond this machine's links towards a server (SOCKS5, HTTP CONNECT, TUN).
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[group(skip)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: run::Args,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a configuration from the line that `tabane server invite` prints.
    Join(join::Args),
    /// Make new keys and register them at the server; the old ones stay valid for a while.
    Rotate(rotate::Args),
    Cleanup(cleanup::Args),
}

/// Does what was asked.
///
/// # Errors
/// [`Failure`], as the action says.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Some(Action::Join(args)) => join::run(args),
        Some(Action::Rotate(args)) => rotate::run(args),
        Some(Action::Cleanup(args)) => cleanup::run(args),
        None => run::run(&args.run),
    }
}
