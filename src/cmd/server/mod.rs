//! `tabane server`: the agent that clients bond their links to; its file and its clients.

mod clients;
mod init;
mod invite;
mod run;

use crate::exit::Failure;
use clap::Subcommand;
use std::path::PathBuf;
use tabane_gateway::config::load::default_file;
use tabane_gateway::invite::edit::EditError;

/// Run the far end of the bond for clients; needs no privileges.
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
    /// Create a configuration with a new key.
    Init(init::Args),
    /// Add a client; print the line that `tabane client join` takes.
    Invite(invite::Args),
    /// List the clients.
    List(clients::ListArgs),
    /// Remove a client; its keys are revoked.
    Remove(clients::RemoveArgs),
    /// Refuse a client until it is enabled again; its connections end.
    Disable(clients::SwitchArgs),
    /// Admit a client again.
    Enable(clients::SwitchArgs),
    /// Rename a client; its keys and number stay.
    Rename(clients::RenameArgs),
}

/// Which file.
#[derive(clap::Args, Debug)]
struct File {
    /// The server's configuration.
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_file("server"))]
    config: PathBuf,
}

/// Does what was asked.
///
/// # Errors
/// [`Failure`], as the action says.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Some(Action::Init(args)) => init::run(args),
        Some(Action::Invite(args)) => invite::run(args),
        Some(Action::List(args)) => clients::list(args),
        Some(Action::Remove(args)) => clients::remove(args),
        Some(Action::Disable(args)) => clients::switch(args, false),
        Some(Action::Enable(args)) => clients::switch(args, true),
        Some(Action::Rename(args)) => clients::rename(args),
        None => run::run(&args.run),
    }
}

/// A file that cannot be read or written failed; a wrong one, or a wrong request, is for the user
/// to correct.
fn failure(error: EditError) -> Failure {
    match error {
        EditError::Config(error) => super::config::refused(error),
        EditError::File(path, error) => {
            anyhow::Error::new(error).context(path.display().to_string()).into()
        }
        other => Failure::usage(other.to_string()),
    }
}

/// Where the server of a configuration remembers who has joined, if the file does not say.
fn usual_state(config: &std::path::Path) -> PathBuf {
    let folder = std::env::var_os("STATE_DIRECTORY");
    tabane_gateway::enrol::usual_file(config, folder.as_deref())
}

/// Now, seconds since 1970.
#[allow(clippy::disallowed_methods)] // Invitations end at a time of day.
fn unix_s() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}
