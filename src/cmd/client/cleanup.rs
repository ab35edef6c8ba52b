//! `tabane client cleanup`: undoes what crashed clients left on this host.

use crate::exit::Failure;
use crate::say;
use tabane_gateway::client::Client;

/// Undo what a crashed client in TUN mode left behind: routes, rules, the list of resolvers.
///
/// With the kill switch, this opens the host again; the next client would otherwise take over what
/// is there. Running clients are not affected.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Goes through every state file there is.
///
/// # Errors
/// What could not be undone; the rest is.
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let (lines, result) = Client::clean_up();
    lines.iter().try_for_each(|line| say::print(line))?;
    Ok(result.map_err(anyhow::Error::new)?)
}
