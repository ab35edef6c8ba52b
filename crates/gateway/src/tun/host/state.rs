//! The state file: what has been changed, or was about to be, and where the servers' names led when
//! they were last asked for. Written as a whole before the first change; locked for as long as its
//! client lives.

use super::HostError;
use super::plan::{Change, Resolvers};
use crate::whole_file::{self, Access};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tabane_config::bounded;

/// An open state file.
pub(super) struct State {
    path: PathBuf,
    content: Content,
    _lock: Lock,
}

/// The lock on a state file: on a file beside it, because the state file is replaced when written.
///
/// It is released here rather than by closing the file: a process that is being started on another
/// thread has a copy of every descriptor until it executes its program, and a lock ends with the
/// last copy (flock(2)).
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // If it fails, closing releases the lock all the same.
        let _ = self.0.unlock();
    }
}

#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    changes: Vec<Change>,
    /// Where names led; not in files of version 1.
    #[serde(default)]
    addresses: BTreeMap<String, Vec<SocketAddr>>,
}

const VERSION: u32 = 4;
/// Longest state file, bytes: all changes of a host, and names, with room.
const STATE_MAX: u64 = 1 << 20;
/// Names whose addresses are kept; those of a client's servers are few.
const NAMES_MAX: usize = 64;

impl State {
    /// Locks and reads it; a missing file says that nothing has been changed.
    pub(super) fn open(path: &Path) -> Result<Self, HostError> {
        let failed = |source| HostError::State { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let lock = OpenOptions::new().create(true).append(true).open(beside(path, "lock"));
        let lock = lock.map_err(failed)?;
        let lock = match lock.try_lock() {
            Ok(()) => Lock(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(HostError::Running { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        };
        let content = match bounded::text(path, STATE_MAX) {
            Ok(text) => {
                parse(&text).map_err(|why| HostError::Damaged { path: path.to_owned(), why })?
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Content::default(),
            Err(source) => return Err(failed(source)),
        };
        Ok(Self { path: path.to_owned(), content, _lock: lock })
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.content.changes
    }

    /// Where a name led when it was last asked for.
    pub(super) fn addresses(&self, name: &str) -> &[SocketAddr] {
        self.content.addresses.get(name).map_or(&[], Vec::as_slice)
    }

    /// What is changed of the list of resolvers.
    pub(super) fn resolvers(&self) -> Option<&Resolvers> {
        self.content.changes.iter().find_map(|change| match change {
            Change::Resolvers(change) => Some(change),
            _ => None,
        })
    }

    /// Notes what is about to be changed; on disk when this returns.
    pub(super) fn write(&mut self, changes: Vec<Change>) -> Result<(), HostError> {
        self.replace(Content { changes, ..self.content.clone() })
    }

    /// Notes where a name leads.
    pub(super) fn remember(&mut self, name: &str, found: &[SocketAddr]) -> Result<(), HostError> {
        let mut content = self.content.clone();
        if content.addresses.len() >= NAMES_MAX {
            content.addresses.clear();
        }
        content.addresses.insert(name.to_owned(), found.to_vec());
        self.replace(content)
    }

    fn replace(&mut self, mut content: Content) -> Result<(), HostError> {
        if content == self.content {
            return Ok(());
        }
        content.version = VERSION;
        let text = serde_json::to_string_pretty(&content).map_err(io::Error::other);
        let written =
            text.and_then(|text| whole_file::replace(&self.path, text.as_bytes(), Access::Usual));
        written.map_err(|source| HostError::State { path: self.path.clone(), source })?;
        self.content = content;
        Ok(())
    }

    /// Nothing is changed any more. Where names led stays: with the kill switch nobody but the
    /// host's own resolvers can be asked at the next start.
    pub(super) fn remove(&mut self) {
        let names = Content { changes: Vec::new(), ..self.content.clone() };
        if !names.addresses.is_empty() && self.replace(names).is_ok() {
            return;
        }
        self.content = Content::default();
        // A file that stays lists changes that are gone, which does no harm. The lock's stays: who
        // removed it could leave two with a lock each.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a client that lives no longer has left changes, as that file says. Nothing is written,
/// and who may not read it is told no.
pub(crate) fn is_left(path: &Path) -> bool {
    let text = bounded::text(path, STATE_MAX);
    let content = text.ok().and_then(|text| parse(&text).ok());
    if content.is_none_or(|content| content.changes.is_empty()) {
        return false;
    }
    match File::open(beside(path, "lock")).map(Lock) {
        // Shared, so that those who ask do not see each other; held for a moment only.
        Ok(lock) => lock.0.try_lock_shared().is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

fn parse(text: &str) -> Result<Content, String> {
    let content: Content = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if !(1..=VERSION).contains(&content.version) {
        return Err(format!("version {}, known is {VERSION}", content.version));
    }
    Ok(content)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(end);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let state = State::open(&path).unwrap();
        assert!(matches!(State::open(&path), Err(HostError::Running { .. })));
        // What a child has between fork and exec.
        let copy = state._lock.0.try_clone().unwrap();
        drop(state);
        State::open(&path).unwrap();
        drop(copy);
    }

    #[test]
    fn what_a_killed_client_has_left_is_seen_without_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home.host.json");
        assert!(!is_left(&path));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut state = State::open(&path).unwrap();
        state.remember("vpn.example.org:51820", &[]).unwrap();
        drop(state);
        assert!(path.exists() && !is_left(&path), "names are no changes");
        let change = Change::Sysctl(super::super::sysctl::Sysctl {
            name: "ipv4/ip_forward".into(),
            before: "0".into(),
            after: "1".into(),
        });
        let mut state = State::open(&path).unwrap();
        state.write(vec![change]).unwrap();
        assert!(!is_left(&path), "its client runs");
        drop(state);
        assert!(is_left(&path) && is_left(&path));
        State::open(&path).unwrap().remove();
        assert!(!is_left(&path));
        let mut state = State::open(&path).unwrap();
        let found = ["192.0.2.1:51820".parse().unwrap()];
        state.remember("vpn.example.org:51820", &found).unwrap();
        state.remove();
        drop(state);
        let state = State::open(&path).unwrap();
        assert_eq!(state.addresses("vpn.example.org:51820"), found, "for the next start");
    }
}
