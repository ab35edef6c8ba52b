//! What clients in TUN mode that have crashed left on this host, taken back.

use super::Client;
use crate::tun::host::{Host, HostError, is_left, state_folder};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

impl Client {
    /// Undoes what clients that have crashed left on this host, as every state file says that
    /// there is; what was done, a line each, and the first thing that could not be. Running clients
    /// are left alone.
    pub fn clean_up() -> (Vec<String>, io::Result<()>) {
        let (mut lines, mut result) = (Vec::new(), Ok(()));
        let mut paths = Vec::new();
        for folder in folders() {
            match files(&folder) {
                Ok(files) => paths.extend(files),
                Err(error) => return (lines, Err(error)),
            }
        }
        for path in paths {
            let name = path.display();
            match Host::cleanup(&path) {
                Ok(undone) => {
                    lines.push(format!("{name}: {} changes undone", undone.changes));
                    lines.extend(undone.notes);
                }
                Err(HostError::Running { .. }) => {
                    lines.push(format!("{name}: its client runs, left alone"));
                }
                Err(error) => result = result.and(Err(io::Error::other(error))),
            }
        }
        (lines, result)
    }
}

/// The state files of clients that have been killed.
pub(crate) fn left() -> Vec<PathBuf> {
    let paths = folders().into_iter().filter_map(|folder| files(&folder).ok()).flatten();
    paths.filter(|path| is_left(path)).collect()
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

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let text = format!("cannot read {}: {error}", folder.display());
            return Err(io::Error::new(error.kind(), text));
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(".host.json")).collect())
}
