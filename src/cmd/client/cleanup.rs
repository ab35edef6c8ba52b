//! `tabane client cleanup`: undoes what crashed clients left on this host.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tabane_gateway::tun::host::{Host, HostError, state_folder};

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
    let (mut failure, mut paths) = (None, Vec::new());
    for folder in folders() {
        paths.extend(files(&folder)?);
    }
    for path in paths {
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

/// Where clients keep what they have changed: those that are run by hand, and services.
fn folders() -> Vec<PathBuf> {
    if std::env::var_os("STATE_DIRECTORY").is_some() {
        return vec![state_folder()];
    }
    let services = fs::read_dir("/var/lib").into_iter().flatten().filter_map(Result::ok);
    let is_client = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with("tabane-client-"))
    };
    let mut all: Vec<PathBuf> = services.map(|entry| entry.path()).filter(is_client).collect();
    all.sort();
    all.insert(0, state_folder());
    all
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(".host.json")).collect())
}
