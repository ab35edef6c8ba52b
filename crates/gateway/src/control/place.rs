//! Where control sockets are: `NAME.sock` in a folder of the user or of the system.

use super::server::is_live;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folders, the first that can be used counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    folders: Vec<PathBuf>,
}

/// Which agent is meant.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Which {
    /// The only one that runs.
    #[default]
    Only,
    /// The one of that name.
    Named(String),
    /// The one with that socket.
    Socket(PathBuf),
}

/// No agent, or too many.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum FindError {
    /// None runs.
    #[error(
        "no agent is running: looked in {looked}; start one (`tabane client -c FILE` or \
         `tabane server -c FILE`), or name its socket (--socket PATH)"
    )]
    None {
        /// The folders.
        looked: String,
    },
    /// None of that name runs.
    #[error("no agent '{name}' is running: looked in {looked}{others}")]
    NoneNamed {
        /// Asked for.
        name: String,
        /// The folders.
        looked: String,
        /// Who runs.
        others: String,
    },
    /// Several run.
    #[error("several agents are running: say which with --agent ({0})")]
    Several(String),
    /// It runs, but is somebody else's.
    #[error("{0} belongs to another user: ask as that user, or with sudo")]
    Denied(PathBuf),
}

impl Places {
    /// Of this process: `$TABANE_RUNTIME_DIR` alone if it is set, else `$RUNTIME_DIRECTORY`
    /// (systemd), `$XDG_RUNTIME_DIR/tabane`, `/run/tabane`, and `tabane-UID` in the folder for
    /// temporary files.
    #[must_use]
    pub fn from_env() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(only) = folder("TABANE_RUNTIME_DIR") {
            return Self::only(vec![only.into()]);
        }
        Self::new(folder("RUNTIME_DIRECTORY"), folder("XDG_RUNTIME_DIR"), std::env::temp_dir())
    }

    /// With these values of the environment.
    #[must_use]
    pub fn new(service: Option<OsString>, user: Option<OsString>, temp: PathBuf) -> Self {
        let uid = fs::metadata("/proc/self").map_or(0, |process| process.uid());
        // systemd may name several, with colons between them.
        let service = service.and_then(|all| all.into_string().ok());
        let first = service.iter().filter_map(|all| all.split(':').next());
        let mut folders: Vec<PathBuf> = first.map(PathBuf::from).collect();
        folders.extend(user.map(|folder| PathBuf::from(folder).join("tabane")));
        folders.push(PathBuf::from("/run/tabane"));
        folders.push(temp.join(format!("tabane-{uid}")));
        folders.dedup();
        Self { folders }
    }

    /// Exactly these folders.
    #[must_use]
    pub fn only(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Where an agent called `name` shall listen: in the first folder that is ours or can be made.
    #[must_use]
    pub fn socket_for(&self, name: &str) -> PathBuf {
        let usable = |folder: &&PathBuf| fs::create_dir(folder).is_ok() || is_ours(folder);
        let folder = self.folders.iter().find(usable).or(self.folders.last());
        folder.map_or_else(PathBuf::new, |folder| folder.join(file_name(name)))
    }

    /// The socket of the agent that is meant.
    ///
    /// # Errors
    /// [`FindError`].
    pub fn find(&self, which: &Which) -> Result<PathBuf, FindError> {
        let name = match which {
            Which::Socket(path) => return Ok(path.clone()),
            Which::Named(name) => Some(name),
            Which::Only => None,
        };
        let mut sockets = self.sockets();
        if let Some(name) = name {
            let all = names(&sockets);
            sockets.retain(|(path, _)| path.file_name() == Some(file_name(name).as_ref()));
            if sockets.is_empty() {
                let others = if all.is_empty() { all } else { format!("; running: {all}") };
                let (name, looked) = (name.clone(), self.looked());
                return Err(FindError::NoneNamed { name, looked, others });
            }
            // The same name in two folders: the first folder counts, as for the agent.
            sockets.truncate(1);
        }
        match sockets.as_slice() {
            [] => Err(FindError::None { looked: self.looked() }),
            [(path, true)] => Ok(path.clone()),
            [(path, false)] => Err(FindError::Denied(path.clone())),
            several => Err(FindError::Several(names(several))),
        }
    }

    /// Sockets at which somebody listens, and whether we may ask there.
    fn sockets(&self) -> Vec<(PathBuf, bool)> {
        let mut found = Vec::new();
        for folder in &self.folders {
            if is_in_public(folder) && !is_ours(folder) {
                continue;
            }
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let mut paths: Vec<PathBuf> =
                entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            paths.retain(|path| path.extension().is_some_and(|end| end == "sock"));
            paths.sort();
            for path in paths {
                match is_live(&path) {
                    Ok(true) => found.push((path, true)),
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                        found.push((path, false));
                    }
                    Ok(false) | Err(_) => {}
                }
            }
        }
        found
    }

    fn looked(&self) -> String {
        let all: Vec<String> = self.folders.iter().map(|f| f.display().to_string()).collect();
        all.join(", ")
    }
}

/// `NAME.sock`, without what a file name must not have.
fn file_name(name: &str) -> String {
    let mut file = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@') {
            file.push(c);
        } else {
            let _ = write!(file, "%{:02x}", u32::from(c));
        }
    }
    // Neither hidden nor nameless.
    if file.is_empty() || file.starts_with('.') {
        file.insert(0, '_');
    }
    file + ".sock"
}

fn names(sockets: &[(PathBuf, bool)]) -> String {
    let stem = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned());
    sockets.iter().filter_map(|(path, _)| stem(path)).collect::<Vec<_>>().join(", ")
}

/// Whether nobody else can put sockets there.
fn is_ours(folder: &Path) -> bool {
    let uid = fs::metadata("/proc/self").map(|process| process.uid());
    match (fs::symlink_metadata(folder), uid) {
        (Ok(meta), Ok(uid)) => meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0,
        _ => false,
    }
}

/// Whether anybody can make folders beside it, as in `/tmp`.
fn is_in_public(folder: &Path) -> bool {
    let parent = folder.parent().and_then(|parent| fs::metadata(parent).ok());
    parent.is_some_and(|parent| parent.mode() & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn names_become_files() {
        for (name, file) in [
            ("home", "home.sock"),
            ("a/../b", "a%2f..%2fb.sock"),
            ("", "_.sock"),
            ("..", "_...sock"),
            ("büro 2", "büro%202.sock"),
        ] {
            assert_eq!(file_name(name), file);
        }
    }

    #[test]
    fn the_agent_that_is_meant() {
        let place = tempfile::tempdir().unwrap();
        let (user, system) = (place.path().join("user"), place.path().join("system"));
        let places = Places::only(vec![user.clone(), system.clone()]);
        let none = places.find(&Which::Only).unwrap_err().to_string();
        assert!(none.contains("system") && none.contains("--socket"), "{none}");

        fs::create_dir(&system).unwrap();
        let home = UnixListener::bind(system.join("home.sock")).unwrap();
        drop(UnixListener::bind(system.join("stale.sock")).unwrap());
        assert_eq!(places.find(&Which::Only).unwrap(), system.join("home.sock"));
        let stale = places.find(&Which::Named("stale".into())).unwrap_err().to_string();
        assert!(stale.contains("running: home"), "{stale}");

        let _office = UnixListener::bind(system.join("office.sock")).unwrap();
        let several = places.find(&Which::Only).unwrap_err();
        assert_eq!(several, FindError::Several("home, office".into()));
        assert_eq!(
            places.find(&Which::Named("office".into())).unwrap(),
            system.join("office.sock")
        );
        drop(home);
        assert_eq!(places.find(&Which::Only).unwrap(), system.join("office.sock"));
        let anywhere = Which::Socket("x/y.sock".into());
        assert_eq!(places.find(&anywhere).unwrap(), PathBuf::from("x/y.sock"));
    }

    #[test]
    fn a_new_socket_goes_to_the_first_folder_that_is_ours() {
        let place = tempfile::tempdir().unwrap();
        let (gone, open, own) =
            (place.path().join("no/such"), place.path().join("open"), place.path().join("own"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let places = Places::only(vec![gone, open, own.clone()]);
        assert_eq!(places.socket_for("x"), own.join("x.sock"));
        let env = Places::new(None, Some("/run/user/7".into()), "/tmp".into());
        assert_eq!(env.folders[0], PathBuf::from("/run/user/7/tabane"));
        assert_eq!(env.folders[1], PathBuf::from("/run/tabane"));
    }
}
