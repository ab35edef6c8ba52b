//! `tabane policy set`: another scheduler, congestion control or egress in a running agent.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::say;
use tabane_engine::policy::Spec;
use tabane_gateway::request_channel::Request;

/// Change the policies of a running agent.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
enum Verb {
    /// Set the scheduler, congestion control or egress of one connection, or of all present and
    /// future ones.
    Set(Set),
}

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane policy set scheduler redundant --conn 17    everything on all paths, for a game
  tabane policy set congestion bbr
  tabane policy set egress hayack                    ACKs by the fastest path
`tabane list` names them all.")]
struct Set {
    /// Which policy.
    #[arg(value_parser = ["scheduler", "congestion", "egress"])]
    policy: String,
    /// The new policy, `name` or `name:key=value,...`.
    spec: String,
    /// Only for this connection.
    #[arg(long, value_name = "ID")]
    conn: Option<u64>,
    #[command(flatten)]
    agent: Agent,
}

/// The same with the path of the file that it names from the root on: the agent runs elsewhere.
fn absolute(spec: &str) -> Result<String, Failure> {
    // What is no policy is for the agent to say.
    let Ok(mut spec) = spec.parse::<Spec>() else { return Ok(spec.to_owned()) };
    if let Some(file) = &mut spec.params.file {
        let path = std::path::absolute(&*file).map_err(anyhow::Error::new)?;
        *file = path.to_string_lossy().into_owned();
    }
    Ok(spec.to_string())
}

/// Does it.
///
/// # Errors
/// When no agent answers, or it refuses.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Verb::Set(args) = &args.verb;
    let (policy, spec, connection) = (args.policy.clone(), absolute(&args.spec)?, args.conn);
    let request = Request::SetPolicy { policy, spec, connection };
    let mut client = args.agent.connect()?;
    client.order(request).map_err(agent::failed)?;
    let whom = match args.conn {
        Some(id) => format!("connection {id}"),
        // For those to come, clients say what a server is to do.
        None if client.status().map_err(agent::failed)?.agent == "server" => {
            "all connections that are open".into()
        }
        None => "all connections and those to come".into(),
    };
    say::note(&format!("{} {}: {whom}", args.policy, args.spec));
    Ok(())
}
