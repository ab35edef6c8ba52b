//! `tabane monitor`: what happens in a running agent, as it happens.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::{say, units, watcher};
use tabane_gateway::model::AgentEvent;

/// Show the events of a running agent until it ends or you stop this command.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane monitor                            from now on
  tabane monitor --since 0                  with all that is remembered
  tabane monitor --since 0 --end            only that
  tabane monitor --json | jq -r 'select(.kind == \"path-down\") | .path'
Times are UTC.")]
pub(crate) struct Args {
    #[command(flatten)]
    agent: Agent,
    /// Begin after the event with this number; 0 for all that are remembered [default: only new
    /// events].
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// End when all remembered events have been shown.
    #[arg(long)]
    end: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Shows them.
///
/// # Errors
/// When no agent answers, or it ends.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.agent.connect()?;
    let since = match args.since {
        Some(since) => since,
        None if args.end => 0,
        None => {
            let past = client.events(0).map_err(agent::failed)?;
            past.last().map_or(0, |last| last.seq)
        }
    };
    if args.end {
        let all = client.events(since).map_err(agent::failed)?;
        return all.iter().try_for_each(|event| show(event, args.json));
    }
    watcher::leave_with_reader();
    for event in client.follow(since).map_err(agent::failed)? {
        show(&event.map_err(agent::failed)?, args.json)?;
    }
    Ok(())
}

fn show(event: &AgentEvent, json: bool) -> Result<(), Failure> {
    if json {
        return say::print(&serde_json::to_string(event).map_err(anyhow::Error::new)?);
    }
    let client = event.client.as_ref().map(|name| format!(" [{name}]")).unwrap_or_default();
    say::print(&format!(
        "{} {:>5} {:<14}{client} {}",
        units::utc(event.unix_ms),
        event.seq,
        event.kind,
        event.text
    ))
}
