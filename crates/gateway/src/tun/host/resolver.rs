//! The host's list of resolvers, `resolv.conf(5)`, where it is a plain file. It is replaced as a
//! whole; in place where that cannot be done: containers and namespaces mount it as a file of its
//! own, and the client's service may write it, but nothing beside it.

use super::plan::{Change, Resolvers};
use super::{HostConfig, HostError};
use crate::whole_file::{self, Access};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
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
        // Somebody else's, perhaps half written yet: nothing to go back to.
        Some(ours) if listed(found.as_deref().unwrap_or_default()).is_empty() => {
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

/// Writes the list; false if it is there already.
pub(super) fn make(change: &Resolvers) -> Result<bool, HostError> {
    if read(&change.path).is_ok_and(|text| text == change.after) {
        return Ok(false);
    }
    write(&change.path, &change.after).map(|()| true)
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
    let written = match replace(path, text) {
        Err(error) if is_fixed(&error) => fs::write(path, text),
        done => done,
    };
    written.map_err(|source| HostError::Resolvers { path: path.to_owned(), source })
}

/// Whether a file can be written, but not replaced by another.
fn is_fixed(error: &io::Error) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), CrossesDevices | PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

/// As a whole, unless something else than a plain file, or a second name of it, would be lost.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(old) if !old.is_file() || old.nlink() > 1 => fs::write(path, text),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => whole_file::replace(path, text.as_bytes(), Access::Public),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_list_is_replaced_as_a_whole_and_stays_whose_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        write(&path, "one").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((fs::read_to_string(&path).unwrap(), mode(&path)), ("one".into(), 0o644));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        // Who has it open reads what was there, and all of it.
        let mut open = fs::File::open(&path).unwrap();
        write(&path, "two").unwrap();
        let text = io::read_to_string(&mut open).unwrap();
        assert_eq!((text.as_str(), mode(&path)), ("one", 0o640));
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        // A link to it by another name is one to the same file.
        let other = folder.path().join("other");
        fs::hard_link(&path, &other).unwrap();
        write(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside it");
    }
}
