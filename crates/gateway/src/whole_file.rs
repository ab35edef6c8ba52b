//! Files that are written as a whole: whoever reads one finds the old content or the new one, also
//! after a crash or a loss of power, and what was written when this returned stays.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Who may use a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// A new one only its owner; one that is replaced keeps owner, group, and what these two may.
    Private,
    /// Whom the umask of the process that writes it lets, whoever wrote it before.
    Usual,
    /// A new one everybody may read; one that is replaced keeps owner, group and mode.
    Public,
}

/// Writes a file that may be there already.
///
/// # Errors
/// Those of the file system: the old content is still there.
pub(crate) fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    write(path, content, (access, fs::metadata(path).ok()), |fresh| fs::rename(fresh, path))
}

/// Writes a file that may not be there yet.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::AlreadyExists`].
pub(crate) fn create(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    // A rename would replace what is there.
    write(path, content, (access, None), |fresh| fs::hard_link(fresh, path))
}

fn write(
    path: &Path,
    content: &[u8],
    (access, old): (Access, Option<fs::Metadata>),
    put: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let fresh = beside(folder, path)?;
    // Of one with the same number that was killed in the middle of this.
    let _ = fs::remove_file(&fresh);
    let mode = if access == Access::Private { 0o600 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
    let done = allow(&file, access, old)
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| put(&fresh));
    // A rename has taken it away already.
    let _ = fs::remove_file(&fresh);
    done?;
    // The name is in the folder, which some file systems cannot sync: the file is there all the
    // same.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Two processes that write at once have a file each.
fn beside(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    Ok(folder.join(format!(".{name}.{}", std::process::id())))
}

/// Who could use the old one still can: a service may run as a user of its own.
fn allow(file: &File, access: Access, old: Option<fs::Metadata>) -> io::Result<()> {
    let mask = match access {
        Access::Private => 0o660,
        Access::Public => 0o777,
        Access::Usual => return Ok(()),
    };
    let Some(old) = old else {
        // Whatever the umask is.
        let new = if access == Access::Public { 0o644 } else { 0o600 };
        return file.set_permissions(Permissions::from_mode(new));
    };
    // A service that writes its own files may not even ask for another owner (SystemCallFilter=).
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid())).map_err(|error| not_ours(&error, &old))?;
    }
    file.set_permissions(Permissions::from_mode(old.mode() & mask))
}

/// Only root may write a file for another user, or for a group that one is not in.
fn not_ours(error: &io::Error, old: &fs::Metadata) -> io::Error {
    let (user, group) = (old.uid(), old.gid());
    let text = format!("it belongs to user {user} and group {group}: run this as root ({error})");
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn each_access_holds_for_new_files_and_for_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        for (access, new, kept) in [(Access::Private, 0o600, 0o640), (Access::Public, 0o644, 0o645)]
        {
            let path = folder.path().join(format!("{access:?}"));
            replace(&path, b"one", access).unwrap();
            assert_eq!(mode(&path), new);
            fs::set_permissions(&path, Permissions::from_mode(0o645)).unwrap();
            replace(&path, b"two", access).unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), kept));
            let error = create(&path, b"three", access).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"two");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside");
    }

    /// In a container every process has the same number, also the one that lost its power.
    #[test]
    fn what_a_crash_has_left_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.json");
        fs::write(beside(folder.path(), &path).unwrap(), "ha").unwrap();
        create(&path, b"whole", Access::Private).unwrap();
        fs::write(beside(folder.path(), &path).unwrap(), "lf").unwrap();
        replace(&path, b"anew", Access::Private).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"anew");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
