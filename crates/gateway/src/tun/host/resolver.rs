//! The host's list of resolvers, `resolv.conf(5)`, where it is a plain file. It is written in
//! place, since containers and namespaces mount it as a file of its own.

use super::plan::{Change, Resolvers};
use super::{HostConfig, HostError};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;
use tabane_config::bounded;

/// Longest list of resolvers, bytes; the system's resolver uses three lines of it.
const LIST_MAX: u64 = 1 << 20;

/// What stands in a list.
///
/// # Errors
/// It cannot be read, or is no such list by its length.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    bounded::text(path, LIST_MAX)
}

/// What to change, if anything; `current` is what was noted before.
///
/// # Errors
/// The list belongs to another program.
pub(super) fn plan(
    config: &HostConfig,
    current: Option<&Resolvers>,
) -> Result<Option<Change>, HostError> {
    let Some(&resolver) = config.resolvers.first() else { return Ok(None) };
    let path = config.resolv_conf.clone();
    if let Ok(target) = fs::read_link(&path) {
        let resolved = target.components().any(|part| part.as_os_str() == "systemd");
        return Err(if resolved {
            let device = config.device.clone();
            HostError::Resolved { path, target, device, resolver }
        } else {
            HostError::ManagedResolvers { path, target, resolver }
        });
    }
    let found = match read(&path) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(source) => return Err(HostError::Resolvers { path, source }),
    };
    let before = match current {
        // What is there was written by a client that did not end in order.
        Some(ours) if ours.path == path && found.as_ref() == Some(&ours.after) => {
            ours.before.clone()
        }
        _ => found,
    };
    let mut after = String::from("# Written by tabane while it runs; restored when it stops.\n");
    for resolver in &config.resolvers {
        // A String takes whatever it is given.
        let _ = writeln!(after, "nameserver {resolver}");
    }
    for line in before.iter().flat_map(|text| text.lines()) {
        if ["search", "domain", "options"].iter().any(|word| line.starts_with(word)) {
            after.push_str(line);
            after.push('\n');
        }
    }
    Ok(Some(Change::Resolvers(Resolvers { path, before, after })))
}

/// The resolvers that a list names (`nameserver`), at most three as the C library takes them.
pub(super) fn listed(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next().filter(|word| *word == "nameserver");
        // A link-local address names its link behind a percent sign; it is not asked.
        first.and_then(|_| words.next()?.parse().ok())
    };
    text.lines().filter_map(address).take(3).collect()
}

pub(super) fn make(change: &Resolvers) -> Result<(), HostError> {
    write(&change.path, &change.after)
}

/// Puts back what was there, unless somebody has written the list since; then says so.
pub(super) fn undo(change: &Resolvers) -> Result<Option<String>, HostError> {
    let path = &change.path;
    match read(path) {
        Ok(text) if text == change.after => {}
        // The change was noted, but never made.
        Ok(text) if Some(&text) == change.before.as_ref() => return Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(_) => {
            let what = path.display();
            return Ok(Some(format!("{what} was written by somebody else: left as it is")));
        }
        Err(source) => return Err(HostError::Resolvers { path: path.clone(), source }),
    }
    match &change.before {
        Some(text) => write(path, text)?,
        None => fs::remove_file(path)
            .map_err(|source| HostError::Resolvers { path: path.clone(), source })?,
    }
    Ok(None)
}

fn write(path: &Path, text: &str) -> Result<(), HostError> {
    let written: io::Result<()> = fs::write(path, text);
    written.map_err(|source| HostError::Resolvers { path: path.to_owned(), source })
}
