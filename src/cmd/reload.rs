//! `tabane reload`: a running agent reads its configuration again.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::say;
use tabane_gateway::mailbox::Request;

/// Has a running agent read its configuration again; connections stay.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    agent: Agent,
}

/// Does it.
///
/// # Errors
/// When no agent answers, or the configuration is wrong.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.agent.connect()?.order(Request::Reload).map_err(agent::failed)?;
    say::note("the configuration is read");
    Ok(())
}
