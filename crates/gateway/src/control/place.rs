//! Where control sockets are: `NAME.sock` in a folder of the user or of the system, or in that of a
//! service that systemd runs (`/run/tabane-server`, `/run/tabane-client-NAME`).

use super::server::is_live;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folders, the first that can be used counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    folders: Vec<PathBuf>,
    /// Where folders of services are.
    services: Option<PathBuf>,
}

/// A socket at which somebody listens.
struct Found {
    path: PathBuf,
    /// We may ask there.
    open: bool,
    /// What its service is called: `server`, `client@NAME`.
    service: Option<String>,
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
    /// No folder can be used for a socket.
    #[error(
        "no folder for the control socket: {} {}, or name a socket (`control` in the \
         configuration)",
        folder.display(), if *there {
            "belongs to somebody else or others may write to it; remove it"
        } else {
            "cannot be made; make it, for this user alone"
        }
    )]
    NoFolder {
        /// The last that was tried.
        folder: PathBuf,
        /// Whether it is there.
        there: bool,
    },
}

/// The socket of the agent that is meant, of those that are where agents of this process's user and
/// of the system have them.
///
/// # Errors
/// [`FindError`].
pub fn find(which: &Which) -> Result<PathBuf, FindError> {
    Places::from_env().find(which)
}

/// Every socket at which somebody listens, and whether we may ask there.
#[must_use]
pub fn sockets() -> Vec<(PathBuf, bool)> {
    Places::from_env().all()
}

impl Places {
    /// Of this process: `$TABANE_RUNTIME_DIR` alone if it is set, else `$RUNTIME_DIRECTORY`
    /// (systemd), `$XDG_RUNTIME_DIR/tabane`, `/run/tabane`, and `tabane-UID` in the folder for
    /// temporary files. Services have theirs in `/run`, or beside `$TABANE_RUNTIME_DIR`.
    #[must_use]
    pub(crate) fn from_env() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(only) = folder("TABANE_RUNTIME_DIR").map(PathBuf::from) {
            let beside = only.parent().map(Path::to_owned);
            return Self { folders: vec![only], services: beside };
        }
        let (service, user) = (folder("RUNTIME_DIRECTORY"), folder("XDG_RUNTIME_DIR"));
        Self::new(service, user, std::env::temp_dir(), "/run".into())
    }

    /// With these values of the environment, and that folder for `/run`.
    #[must_use]
    pub(crate) fn new(
        service: Option<OsString>,
        user: Option<OsString>,
        temp: PathBuf,
        run: PathBuf,
    ) -> Self {
        let uid = fs::metadata("/proc/self").map_or(0, |process| process.uid());
        // systemd may name several, with colons between them.
        let service = service.and_then(|all| all.into_string().ok());
        let first = service.iter().filter_map(|all| all.split(':').next());
        let mut folders: Vec<PathBuf> = first.map(PathBuf::from).collect();
        folders.extend(user.map(|folder| PathBuf::from(folder).join("tabane")));
        folders.push(run.join("tabane"));
        folders.push(temp.join(format!("tabane-{uid}")));
        folders.dedup();
        Self { folders, services: Some(run) }
    }

    /// Exactly these folders.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn only(folders: Vec<PathBuf>) -> Self {
        Self { folders, services: None }
    }

    /// The same, with services whose folders are in that one.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn with_services(self, folder: PathBuf) -> Self {
        Self { services: Some(folder), ..self }
    }

    /// Where an agent called `name` shall listen: in the first folder that is ours alone or can be
    /// made.
    ///
    /// # Errors
    /// [`FindError::NoFolder`]: whoever owns the folder could put another socket in its place.
    pub(crate) fn socket_for(&self, name: &str) -> Result<PathBuf, FindError> {
        let make = |folder: &PathBuf| fs::DirBuilder::new().mode(0o700).create(folder).is_ok();
        let folder = self.folders.iter().find(|folder| make(folder) || is_ours(folder));
        let none = || {
            let folder = self.folders.last().cloned().unwrap_or_default();
            FindError::NoFolder { there: folder.exists(), folder }
        };
        folder.map(|folder| folder.join(file_name(name))).ok_or_else(none)
    }

    /// Every socket at which somebody listens, and whether we may ask there.
    #[must_use]
    pub(crate) fn all(&self) -> Vec<(PathBuf, bool)> {
        self.sockets().into_iter().map(|found| (found.path, found.open)).collect()
    }

    /// The socket of the agent that is meant.
    ///
    /// # Errors
    /// [`FindError`].
    pub(crate) fn find(&self, which: &Which) -> Result<PathBuf, FindError> {
        let name = match which {
            Which::Socket(path) => return Ok(path.clone()),
            Which::Named(name) => Some(name),
            Which::Only => None,
        };
        let mut sockets = self.sockets();
        if let Some(name) = name {
            let all = names(&sockets);
            sockets.retain(|found| found.is_called(name));
            if sockets.is_empty() {
                let others = if all.is_empty() { all } else { format!("; running: {all}") };
                let (name, looked) = (name.clone(), self.looked());
                return Err(FindError::NoneNamed { name, looked, others });
            }
            // The same name in two folders: the first folder counts, as for the agent. Services
            // have names of their own.
            if sockets[0].service.is_none() {
                sockets.truncate(1);
            }
        }
        // One's own agent is meant where somebody else's runs beside it.
        if sockets.iter().any(|found| found.open) {
            sockets.retain(|found| found.open);
        }
        match sockets.as_slice() {
            [] => Err(FindError::None { looked: self.looked() }),
            [Found { path, open: true, .. }] => Ok(path.clone()),
            [Found { path, .. }] => Err(FindError::Denied(path.clone())),
            several => Err(FindError::Several(names(several))),
        }
    }

    fn sockets(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for folder in &self.folders {
            if is_in_public(folder) && !is_ours(folder) {
                continue;
            }
            look_into(folder, None, &mut found);
        }
        let services = self.services.iter().filter_map(|folder| fs::read_dir(folder).ok());
        let mut services: Vec<PathBuf> =
            services.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
        services.sort();
        for folder in services.iter().filter(|folder| !self.folders.contains(folder)) {
            if let Some(service) = service_of(folder) {
                look_into(folder, Some(service), &mut found);
            }
        }
        found
    }

    fn looked(&self) -> String {
        let services = self.services.iter().map(|folder| folder.join("tabane-*"));
        let all = self.folders.iter().cloned().chain(services);
        all.map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl Found {
    fn stem(&self) -> String {
        self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether a user may call it so: by its own name, or by its service's.
    fn is_called(&self, name: &str) -> bool {
        let service = self.service.as_deref();
        let instance = service.and_then(|service| service.strip_prefix("client@"));
        self.path.file_name() == Some(file_name(name).as_ref())
            || service == Some(name)
            || instance == Some(name)
    }

    /// What tells it from others.
    fn name(&self) -> String {
        match &self.service {
            Some(service) if *service != self.stem() => service.clone(),
            _ => self.stem(),
        }
    }
}

/// The service whose folder that is.
fn service_of(folder: &Path) -> Option<String> {
    match folder.file_name()?.to_str()?.strip_prefix("tabane-")? {
        "server" => Some("server".into()),
        other => Some(format!("client@{}", other.strip_prefix("client-")?)),
    }
}

/// Adds the sockets of a folder.
fn look_into(folder: &Path, service: Option<String>, found: &mut Vec<Found>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // A service's folder is there as long as the service runs; it is root's or its user's.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && service.is_some() => {
            found.push(Found { path: folder.to_owned(), open: false, service });
            return;
        }
        Err(_) => return,
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "sock"));
    paths.sort();
    for path in paths {
        let service = service.clone();
        match is_live(&path) {
            Ok(true) => found.push(Found { path, open: true, service }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                found.push(Found { path, open: false, service });
            }
            Ok(false) | Err(_) => {}
        }
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

fn names(sockets: &[Found]) -> String {
    sockets.iter().map(Found::name).collect::<Vec<_>>().join(", ")
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
        assert_eq!(places.socket_for("x").unwrap(), own.join("x.sock"));
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        let env = Places::new(None, Some("/run/user/7".into()), "/tmp".into(), "/run".into());
        assert_eq!(env.folders[0], PathBuf::from("/run/user/7/tabane"));
        assert_eq!(env.folders[1], PathBuf::from("/run/tabane"));
    }

    /// As `/tmp/tabane-UID` that somebody else has made first: as a folder that others may write
    /// to, as a link to one, or as a folder of another user.
    #[test]
    fn a_folder_of_somebody_else_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(place.path(), 0o1777);
        let open = place.path().join("open");
        fs::create_dir(&open).unwrap();
        mode(&open, 0o777);
        let target = place.path().join("target");
        fs::create_dir(&target).unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut cases = vec![open.clone(), link];
        let others = place.path().join("others");
        fs::create_dir(&others).unwrap();
        // Only root can give a folder away.
        if std::os::unix::fs::chown(&others, Some(12_345), None).is_ok() {
            cases.push(others);
        }
        let _listener = UnixListener::bind(open.join("x.sock")).unwrap();
        for folder in cases {
            let places = Places::only(vec![folder.clone()]);
            let none = FindError::NoFolder { folder: folder.clone(), there: true };
            assert_eq!(places.socket_for("x"), Err(none));
            let found = places.find(&Which::Only);
            assert!(matches!(found, Err(FindError::None { .. })), "{folder:?}: {found:?}");
        }
        let nowhere = place.path().join("missing/tabane");
        let none = Places::only(vec![nowhere]).socket_for("x").unwrap_err().to_string();
        assert!(none.contains("missing/tabane cannot be made"), "{none}");
    }

    #[test]
    fn agents_of_services_are_found_beside_the_others() {
        let place = tempfile::tempdir().unwrap();
        let (user, run) = (place.path().join("user"), place.path().join("run"));
        let socket = |folder: &Path, name: &str| {
            fs::create_dir_all(folder).unwrap();
            UnixListener::bind(folder.join(name)).unwrap()
        };
        let places = Places::only(vec![user.clone()]).with_services(run.clone());
        let server = run.join("tabane-server");
        let _server = socket(&server, "server.sock");
        assert_eq!(places.find(&Which::Only).unwrap(), server.join("server.sock"));
        let office = run.join("tabane-client-office");
        let _office = socket(&office, "laptop.sock");
        let _home = socket(&run.join("tabane-client-home"), "laptop.sock");
        let _other = socket(&run.join("other"), "x.sock");
        let named = |name: &str| places.find(&Which::Named(name.into()));
        for name in ["office", "client@office"] {
            assert_eq!(named(name).unwrap(), office.join("laptop.sock"), "{name}");
        }
        assert_eq!(named("server").unwrap(), server.join("server.sock"));
        let both = FindError::Several("client@home, client@office".into());
        assert_eq!(named("laptop").unwrap_err(), both);
        let several = places.find(&Which::Only).unwrap_err();
        assert_eq!(several, FindError::Several("client@home, client@office, server".into()));
        let _own = socket(&user, "laptop.sock");
        assert_eq!(named("laptop").unwrap(), user.join("laptop.sock"), "one's own first");
        assert_eq!(places.all().len(), 4);
    }
}
