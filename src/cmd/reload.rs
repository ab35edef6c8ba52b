//! `tabane reload`: a running agent takes its configuration as it is now, whatever runs the agent.

use super::agent::Agent;
use super::running::{Running, of_file, said};
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use std::path::PathBuf;
use tabane_gateway::model::EventKind;

/// Make a running agent read its configuration again; connections stay open.
///
/// An agent that runs as a service has only a copy of the file, so this command sends it the
/// current text: run it as a user who can read the file (sudo).
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    agent: Agent,
    /// The agent that runs from this file.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["agent", "socket"])]
    config: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// When no agent answers, or the configuration is wrong.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut agents = match &args.config {
        None => vec![Running::new(args.agent.connect()?)?],
        Some(file) => {
            let found = of_file(file);
            if found.agents.is_empty() {
                let doubts = found.doubtful.iter().map(|doubt| format!("; {doubt}"));
                let doubts: String = doubts.collect();
                return Err(anyhow!("no agent runs from {}{doubts}", file.display()).into());
            }
            found.agents
        }
    };
    for running in &mut agents {
        say::note(&format!("the configuration is read: {}", said_all(running)?));
    }
    Ok(())
}

/// What has changed, whose clients included.
fn said_all(running: &mut Running) -> Result<String, Failure> {
    let events = running.reload()?;
    let (reload, clients): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| event.kind == EventKind::Reload);
    let texts = [said(&clients), said(&reload)];
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    Ok(texts.join("; "))
}
