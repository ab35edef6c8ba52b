//! Where a running agent's configuration comes from, and how it is read again.
//!
//! An agent may have its file, or a copy of it: a service's user cannot read a file of root's, so
//! the service manager makes a copy when it starts one (`LoadCredential=`, systemd.exec(5)). A copy
//! does not follow its file. Such an agent never reads it again: it is given the file's text by who
//! may read the file ([`Request::Configure`](crate::request_channel::Request)), or says what to do.

use super::load::{self, Configuration, Loaded};
use super::{ConfigError, environment};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tabane_config::bounded;

/// Reads a configuration again.
pub struct Source<C> {
    file: Option<PathBuf>,
    copied: bool,
    read: Reader<C>,
}

/// Reads the file, or a text in its place; the error is for people.
type Reader<C> = Box<dyn Fn(Option<&str>) -> Result<C, String> + Send>;

/// A configuration file as an agent has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFile {
    /// What it reads.
    pub file: PathBuf,
    /// The file that people change, if `file` is a copy of it.
    pub copy_of: Option<PathBuf>,
}

/// What a service manager has laid ready for a service (systemd.exec(5)).
#[derive(Clone, Default, Debug)]
pub(crate) struct Service {
    /// `$CREDENTIALS_DIRECTORY`: copies of files that the service's user could not read.
    pub(crate) credentials: Option<PathBuf>,
    /// `$STATE_DIRECTORY`: what outlives the service.
    pub(crate) state: Option<PathBuf>,
}

/// Longest text of a configuration, bytes: 4095 clients with all their keys, and room.
pub(crate) const TEXT_MAX: u64 = 8 << 20;
/// Of a file with a key or a token; also what is read of a credential to see whether it is one.
const CREDENTIAL_MAX: u64 = 64 << 10;

impl ConfigFile {
    /// Reads it, with what the environment lays over it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load<C: Configuration>(&self) -> Result<Loaded<C>, ConfigError> {
        let Some(of) = &self.copy_of else { return load::read(&self.file, &environment()) };
        let text = load::text(&self.file)?;
        load::parse_copy(of, &text, &environment(), &Service::from_env())
    }

    fn again<C: Configuration>(&self, text: Option<&str>) -> Result<C, String> {
        let of = self.copy_of.as_ref().unwrap_or(&self.file);
        let loaded = match (text, &self.copy_of) {
            (Some(text), _) => {
                let service = self.copy_of.as_ref().map(|_| Service::from_env());
                load::parse_copy(of, text, &environment(), &service.unwrap_or_default())
            }
            (None, Some(_)) => {
                return Err(format!(
                    "this agent has a copy of {of}, made when it started: `tabane reload -c {of}` \
                     as root (or `systemctl reload`) gives it the file as it is now",
                    of = of.display()
                ));
            }
            (None, None) => self.load(),
        };
        loaded.map(|loaded| loaded.config).map_err(|error| error.to_string())
    }
}

impl Service {
    /// Of this process.
    #[must_use]
    pub(crate) fn from_env() -> Self {
        let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
        // systemd names several with colons between them.
        let first = |value: OsString| {
            let text = value.into_string().ok()?;
            Some(PathBuf::from(text.split(':').next()?))
        };
        Self {
            credentials: set("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            state: set("STATE_DIRECTORY").and_then(first),
        }
    }

    /// The copy of a file, if there is one: by the file's name. One with nothing in it stands for
    /// a file that was not there (`SetCredential=`).
    #[must_use]
    pub(crate) fn credential(&self, file: &Path) -> Option<PathBuf> {
        let copy = self.credentials.as_ref()?.join(file.file_name()?);
        let text = bounded::bytes(&copy, CREDENTIAL_MAX).ok()?;
        (!text.trim_ascii().is_empty()).then_some(copy)
    }

    /// Whether a file is one of these copies: who can read it is the service manager's matter.
    #[must_use]
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.credentials.as_ref().is_some_and(|folder| file.parent() == Some(folder))
    }
}

impl<C: Configuration> Source<C> {
    /// From that file.
    #[must_use]
    pub(crate) fn new(file: ConfigFile) -> Self {
        let name = file.copy_of.as_ref().unwrap_or(&file.file);
        // What the command line compares: whatever folder it is called in.
        let name = name.canonicalize().or_else(|_| std::path::absolute(name));
        let copied = file.copy_of.is_some();
        Self { file: name.ok(), copied, read: Box::new(move |text| file.again(text)) }
    }

    /// The file that people change.
    #[must_use]
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether the agent has a copy of it, and is to be given its text.
    #[must_use]
    pub(crate) fn is_copied(&self) -> bool {
        self.copied
    }

    /// As [`Self::read`], of an agent that may have been started without a file.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read_again(source: Option<&Self>, text: Option<&str>) -> Result<C, String> {
        let source = source.ok_or("this agent was not started from a file")?;
        source.read(text)
    }

    /// Reads it again, or takes `text` in its place. Whatever goes wrong in reading is an error:
    /// nothing that stands in a file may end an agent that runs.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(&self, text: Option<&str>) -> Result<C, String> {
        // Nothing of the agent is touched by reading, so nothing is left half changed.
        catch_unwind(AssertUnwindSafe(|| (self.read)(text))).unwrap_or_else(|_| {
            Err("reading it failed by a fault of ours (a panic, see standard error)".into())
        })
    }
}

impl From<&Path> for ConfigFile {
    fn from(file: &Path) -> Self {
        Self { file: file.to_owned(), copy_of: None }
    }
}

impl<C: Configuration> From<ConfigFile> for Source<C> {
    fn from(file: ConfigFile) -> Self {
        Self::new(file)
    }
}

impl<C, F: Fn() -> Result<C, String> + Send + 'static> From<Box<F>> for Source<C> {
    /// Whatever a function gives; a text in its place is not understood.
    fn from(read: Box<F>) -> Self {
        let read = move |text: Option<&str>| match text {
            None => read(),
            Some(_) => Err("this agent was not started from a file".to_owned()),
        };
        Self { file: None, copied: false, read: Box::new(read) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientConfig, ServerConfig};
    use crate::keys::Key;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_in_a_file_ends_an_agent_that_reads_it_again() {
        let panics = Source::<ClientConfig>::from(Box::new(|| panic!("a test's")));
        let said = panics.read(None).unwrap_err();
        assert!(said.contains("a fault of ours"), "{said}");

        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("server.toml");
        let source = Source::<ServerConfig>::new(ConfigFile::from(&*file));
        let deep = format!("x = {}1{}", "[".repeat(200_000), "]".repeat(200_000));
        let far = format!("{}!", " ".repeat(70_000));
        let long = "#".repeat(TEXT_MAX as usize + 1);
        for text in [deep.as_str(), &far, &long, "\0", "x", "listen = 5"] {
            fs::write(&file, text).unwrap();
            let said = source.read(None).unwrap_err();
            assert!(said.len() < 5_000 && said.contains("server.toml"), "{} bytes", said.len());
        }
        fs::write(&file, b"\xff").unwrap();
        assert!(source.read(None).is_err());
    }

    /// Whose file it is has nothing to do with how long it is, nor with what stands in it.
    #[test]
    fn a_file_that_is_not_read_is_given_its_own_remedy() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("server.toml");
        let said = || load::text(&file).unwrap_err().to_string();
        assert!(said().contains("server init"), "{}", said());
        fs::write(&file, "#".repeat(TEXT_MAX as usize + 1)).unwrap();
        assert!(said().contains("8 MiB") && !said().contains("readable by"), "{}", said());
        fs::write(&file, b"\xff").unwrap();
        assert!(said().contains("save it as UTF-8"), "{}", said());
    }

    #[test]
    fn a_copy_is_not_read_again_and_its_files_are_the_service_s() {
        let place = tempfile::tempdir().unwrap();
        let [copies, etc] = ["credentials", "etc"].map(|name| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        });
        let key = Key::random_private().unwrap();
        fs::write(copies.join("server.key"), format!("{key}\n")).unwrap();
        fs::set_permissions(copies.join("server.key"), PermissionsExt::from_mode(0o440)).unwrap();
        // `SetCredential=`: the file was not there.
        fs::write(copies.join("web.token"), "\n").unwrap();
        let service = Service { credentials: Some(copies.clone()), state: Some("/var/s".into()) };
        let of = etc.join("server.toml");
        let parse = |text: &str| load::parse_copy::<ServerConfig>(&of, text, &[], &service);
        for name in ["server.key", "/etc/tabane/server.key"] {
            let loaded = parse(&format!("private_key_file = \"{name}\"")).unwrap();
            assert!(loaded.key == key, "{name}");
            assert_eq!(loaded.config.private_key_file, Some(copies.join("server.key")));
        }
        let text = "private_key_file = \"server.key\"\nweb = \"127.0.0.1:1\"\n\
                    web_token_file = \"web.token\"\n";
        let said = parse(text).unwrap_err().to_string();
        let missing = etc.join("web.token").display().to_string();
        assert!(said.contains(&missing) && said.contains("server.toml:3"), "{said}");

        let mut client = ClientConfig { state: Some("quota.json".into()), ..Default::default() };
        load::place_files(&mut client, Some(&etc), Some(&service));
        assert_eq!(client.state, Some("/var/s/quota.json".into()));

        let file = ConfigFile { file: copies.join("server.toml"), copy_of: Some(of.clone()) };
        let source = Source::<ServerConfig>::new(file);
        assert!(source.is_copied());
        let said = source.read(None).unwrap_err();
        assert!(said.contains("systemctl reload"), "{said}");
        assert!(source.read(Some(&format!("private_key = \"{key}\""))).is_ok());
    }
}
