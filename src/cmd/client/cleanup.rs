//! `tabane client cleanup`: undoes what crashed clients left on this host.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::fs;
use std::io::ErrorKind;
use tabane_gateway::tun::host::{Host, HostError, state_folder};

/// Undo what a crashed client in TUN mode left: routes, rules, the list of resolvers.
///
/// With the kill switch this opens the host: the next start would take over what is there. Clients
/// that run are left alone.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Goes through every state file there is.
///
/// # Errors
/// What could not be undone; the rest is.
pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    let folder = state_folder();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let mut failure = None;
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if !path.to_string_lossy().ends_with(".host.json") {
            continue;
        }
        match Host::cleanup(&path) {
            Ok(undone) => {
                say::print(&format!("{}: {} changes undone", path.display(), undone.changes))?;
                undone.notes.iter().try_for_each(|note| say::print(note))?;
            }
            Err(HostError::Running { .. }) => {
                say::print(&format!("{}: its client runs, left alone", path.display()))?;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) => Err(anyhow::Error::new(error).into()),
        None => Ok(()),
    }
}
