//! `tabane lab doctor`: what this machine lacks for the lab.

use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use tabane_lab::doctor::{Check, State, examine};

/// Says what this machine lacks for the lab.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Looks, and fails if something is missing without which the lab does not work.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let checks = examine();
    if args.json {
        say::print(&serde_json::to_string(&checks).map_err(|e| anyhow!(e))?)?;
    } else {
        checks.iter().try_for_each(|check| say::print(&line(check)))?;
    }
    let missing: Vec<&str> =
        checks.iter().filter(|c| c.state == State::Missing).map(|c| c.what).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(anyhow!("the lab does not work without: {}", missing.join(", ")).into())
}

fn line(check: &Check) -> String {
    let state = match check.state {
        State::Good => "ok",
        State::Poor => "poor",
        State::Missing => "MISSING",
    };
    let remedy = check.remedy.map_or_else(String::new, |r| format!("\n{:10}= {r}", ""));
    format!("{state:8}  {}: {}{remedy}", check.what, check.found)
}
