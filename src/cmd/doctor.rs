//! `tabane doctor`: what is wrong with the links, and what to do about it.

use super::agent::{self, Agent};
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use serde_json::json;
use std::path::{Path, PathBuf};
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::{Loaded, default_file};
use tabane_gateway::config::source::ConfigFile;
use tabane_gateway::control::client::Client;
use tabane_gateway::control::place::{FindError, Which, find};
use tabane_gateway::doctor::{Finding, Verdict, examine};
use tabane_gateway::model::Status;

/// Check each link and say what is wrong and what to do; exit code 1 if anything is wrong.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane doctor                         of the agent that runs
  tabane doctor -c /etc/tabane/home.toml    without one: tries the configuration for some seconds
  tabane doctor --json | jq '.findings[] | select(.verdict == \"bad\")'
Do not try a configuration here while an agent with the same keys runs on another machine: the
server follows the one it heard last.")]
pub(crate) struct Args {
    /// The client's configuration [default: the running agent's links; if there is no agent,
    /// /etc/tabane/client.toml].
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    agent: Agent,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Checks and prints.
///
/// # Errors
/// When something is wrong with a link, or nothing could be checked.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let running = running(&args.agent)?;
    let default = default_file("client");
    let config = match (&args.config, &running) {
        (Some(path), _) => Some(read(path)?),
        (None, None) if default.exists() => Some(read(&default)?),
        (None, None) => {
            let text = "no agent is running; name a configuration to try: tabane doctor -c FILE";
            return Err(Failure::usage(text));
        }
        (None, Some(_)) => None,
    };
    let mut about = Vec::new();
    match &running {
        Some(Status { agent, name, .. }) => about.push(format!("of the running {agent} {name}")),
        None => say::note("no agent is running: trying the configuration for up to 8 s"),
    }
    let (findings, failed) = examine(running.as_ref(), config.as_ref());
    about.extend(failed.map(|error| format!("it could not be tried: {error}")));
    report(args, &about, &findings)
}

/// The status of a running agent, if there is one; it is an error if it is asked for by name.
fn running(agent: &Agent) -> Result<Option<Status>, Failure> {
    let which = agent.which();
    if which != Which::Only {
        return agent.connect()?.status().map_err(agent::failed).map(Some);
    }
    let Some(path) = if_any(find(&which))? else { return Ok(None) };
    let mut client = Client::connect(&path).map_err(agent::failed)?;
    client.status().map_err(agent::failed).map(Some)
}

/// Only where no agent runs at all may a configuration be tried: a trial with the keys of one that
/// runs would take its paths away.
fn if_any(found: Result<PathBuf, FindError>) -> Result<Option<PathBuf>, Failure> {
    match found {
        Ok(path) => Ok(Some(path)),
        Err(FindError::None { .. }) => Ok(None),
        Err(error) => Err(agent::not_found(error)),
    }
}

fn read(path: &Path) -> Result<Loaded<ClientConfig>, Failure> {
    ConfigFile::from(path).load().map_err(|error| Failure::usage(error.to_string()))
}

fn report(args: &Args, about: &[String], findings: &[Finding]) -> Result<(), Failure> {
    let bad = findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    if args.json {
        agent::print_json(&json!({ "ok": bad == 0, "about": about, "findings": findings }))?;
    } else {
        let lines: Vec<String> = about.iter().cloned().chain(findings.iter().map(line)).collect();
        say::print(&lines.join("\n"))?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(anyhow!("one thing is wrong").into()),
        several => Err(anyhow!("{several} things are wrong").into()),
    }
}

fn line(finding: &Finding) -> String {
    let mark = match finding.verdict {
        Verdict::Good => "ok  ",
        Verdict::Note => "note",
        Verdict::Bad => "BAD ",
        Verdict::Unknown => "?   ",
    };
    let mut text = format!("{mark} {:<12} {:<10} {}", finding.about, finding.check, finding.text);
    if let Some(remedy) = &finding.remedy {
        text += &format!("\n                             -> {remedy}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_tried_only_where_no_agent_runs() {
        assert!(matches!(if_any(Err(FindError::None { looked: "/run".into() })), Ok(None)));
        let several = if_any(Err(FindError::Several("home, server".into())));
        assert!(matches!(several, Err(Failure::Usage(_))), "{several:?}");
        let denied = if_any(Err(FindError::Denied("/run/tabane/home.sock".into())));
        assert!(matches!(denied, Err(Failure::Failed(_))), "{denied:?}");
    }
}
