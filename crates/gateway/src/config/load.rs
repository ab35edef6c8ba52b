//! Reading a configuration: a TOML file, what the environment lays over it, and every fault with
//! file, line, column and remedy. What lines with keys hold is never shown.

use super::rule::Policies;
use super::source::{Service, TEXT_MAX};
use super::{overrides, udp_mode};
use crate::keys::{Key, KeyError, is_exposed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use tabane_config::source_document::{Fault, Problem, SourceDocument};

/// The configuration of an agent.
pub trait Configuration: Serialize + DeserializeOwned {
    /// `client` or `server`.
    const ROLE: &'static str;
    /// Keys that hold lists of text; `*` stands for any element of a list of tables.
    const LISTS: &'static [&'static str];
    /// Where the agent's own key stands: the key, or the file with it.
    const KEY: [&'static str; 2];

    /// Says what is wrong with the values, however well-formed.
    fn check(&self, found: &mut Findings);
    /// The files that it names.
    fn files(&mut self) -> Vec<&mut PathBuf>;
    /// The policies of what it sends itself: files that they name are its own.
    fn sending(&mut self) -> Vec<&mut Policies>;
    /// Files among those that the agent writes and wants back after a restart.
    fn kept(&mut self) -> Vec<&mut PathBuf>;
    /// Files among those that must be there to be read, with their keys (`table.key`).
    fn needed(&self) -> Vec<(&'static str, &Path)>;
    /// The agent's own key as it is given: text, or a file.
    fn given_key(&self) -> (Option<&str>, Option<&Path>);
    /// Whether a key stands in the file itself.
    fn holds_keys(&self) -> bool;

    /// The agent's own key: a client's secret, a server's private key.
    ///
    /// # Errors
    /// [`KeyError`].
    fn key(&self) -> Result<Key, KeyError> {
        let [key, file] = Self::KEY;
        match self.given_key() {
            (Some(text), None) => text.parse(),
            (None, Some(file)) => Key::read(file),
            (None, None) => Err(KeyError::Missing { key, file }),
            (Some(_), Some(_)) => Err(KeyError::Twice { key, file }),
        }
    }
}

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct Loaded<C> {
    /// As written, the names of files relative to the current folder.
    pub config: C,
    /// The agent's own key.
    pub key: Key,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Problem>,
}

/// Why a configuration is refused: everything that is wrong with it.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigError(pub Vec<Problem>);

/// What checks find.
#[derive(Default, Debug)]
pub struct Findings {
    /// What is wrong.
    pub(crate) faults: Vec<Fault>,
    /// What is probably not meant.
    pub(crate) warnings: Vec<Fault>,
}

/// Faults that are told in full; of more, people read the number.
const SHOWN: usize = 20;

/// Keys whose values nobody else may know.
const SECRET: [&str; 5] = ["secret", "private_key", "preshared_key", "enrolment", "login"];

/// Reads a file; `vars` are the variables of the environment that begin with `TABANE_`
/// ([`environment`]).
///
/// # Errors
/// [`ConfigError`].
pub(crate) fn read<C: Configuration>(
    path: &Path,
    vars: &[(String, String)],
) -> Result<Loaded<C>, ConfigError> {
    let document = SourceDocument::new(&path.display().to_string(), &text(path)?);
    let mut loaded = from_document::<C>(document.clone(), vars, path.parent(), None)?;
    if loaded.config.holds_keys() && is_exposed(path) {
        let fault = Fault::new(&[], "everybody on this machine can read the keys in it");
        let fault = fault.help(format!("chmod 600 {}", path.display()));
        loaded.warnings.push(document.problem(fault));
    }
    Ok(loaded)
}

/// Reads a configuration from text; `name` stands in messages, files are relative to the current
/// folder, and `vars` are the environment.
///
/// # Errors
/// [`ConfigError`].
pub fn parse<C: Configuration>(
    name: &str,
    text: &str,
    vars: &[(String, String)],
) -> Result<Loaded<C>, ConfigError> {
    from_document(SourceDocument::new(name, text), vars, None, None)
}

/// As [`read`], from the text of a file that the agent itself perhaps cannot read. Of the files
/// that it names those count that `service` has copies of; what the agent keeps, if not named by a
/// whole path, is in the service's folder.
///
/// # Errors
/// [`ConfigError`].
pub(crate) fn parse_copy<C: Configuration>(
    of: &Path,
    text: &str,
    vars: &[(String, String)],
    service: &Service,
) -> Result<Loaded<C>, ConfigError> {
    let document = SourceDocument::new(&of.display().to_string(), text);
    from_document(document, vars, of.parent(), Some(service))
}

/// The text of a file of bounded length.
pub(super) fn text(path: &Path) -> Result<String, ConfigError> {
    bounded::text(path, TEXT_MAX).map_err(|error| {
        let (file, message) = (path.display().to_string(), format!("cannot be read: {error}"));
        let help = Some(remedy(path, &error).to_owned());
        ConfigError(vec![Problem { file, position: None, excerpt: None, message, help }])
    })
}

/// The variables of the environment that begin with `TABANE_`, by name.
#[must_use]
pub(crate) fn environment() -> Vec<(String, String)> {
    let ours = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("TABANE_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    let mut vars: Vec<_> = ours.collect();
    vars.sort();
    vars
}

/// Where the configuration of a role is unless it is named: `/etc/tabane/ROLE.toml`, or in the
/// folder `$TABANE_CONFIG_DIR`.
#[must_use]
pub fn default_file(role: &str) -> PathBuf {
    let folder = std::env::var_os("TABANE_CONFIG_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.unwrap_or_else(|| "/etc/tabane".into());
    PathBuf::from(folder).join(format!("{role}.toml"))
}

fn from_document<C: Configuration>(
    document: SourceDocument,
    vars: &[(String, String)],
    folder: Option<&Path>,
    service: Option<&Service>,
) -> Result<Loaded<C>, ConfigError> {
    let mut warnings = Vec::new();
    let overrides = overrides::collect::<C>(&document, vars, &mut warnings).map_err(refuse)?;
    let document = document.with(overrides);
    let root = document.root().map_err(refuse)?;
    let old_words = udp_mode::old_words(root.get_ref());
    let reader = toml::de::Deserializer::from(root);
    let mut config = C::deserialize(reader).map_err(|e| refuse(document.toml_problem(&e)))?;
    place_files(&mut config, folder, service);
    let mut found = Findings::default();
    config.check(&mut found);
    found.warnings.extend(old_words);
    let key = found.key(&config);
    found.files(&config);
    let said = |faults: Vec<Fault>| -> Vec<Problem> {
        let more = faults.len().saturating_sub(SHOWN);
        let shown = faults.into_iter().take(SHOWN);
        let mut all: Vec<Problem> = shown.map(|fault| discreet(document.problem(fault))).collect();
        if more > 0 {
            let (file, message) = (document.file().to_owned(), format!("and {more} more"));
            let help = Some("mend these first".into());
            all.push(Problem { file, position: None, excerpt: None, message, help });
        }
        all
    };
    match key {
        Some(key) if found.faults.is_empty() => {
            warnings.extend(said(found.warnings));
            Ok(Loaded { config, key, warnings })
        }
        _ => Err(ConfigError(said(found.faults))),
    }
}

/// Says of each file that is named where it is.
pub(super) fn place_files<C: Configuration>(
    config: &mut C,
    folder: Option<&Path>,
    service: Option<&Service>,
) {
    if let Some(state) = service.and_then(|service| service.state.as_ref()) {
        config.kept().into_iter().for_each(|file| *file = state.join(&*file));
    }
    if let Some(folder) = folder {
        config.files().into_iter().for_each(|file| *file = folder.join(&*file));
        config.sending().into_iter().for_each(|policies| policies.resolve_files(folder));
    }
    let Some(service) = service else { return };
    for file in config.files() {
        if let Some(copy) = service.credential(file) {
            *file = copy;
        }
    }
}

fn refuse(problem: Problem) -> ConfigError {
    ConfigError(vec![discreet(problem)])
}

fn unreadable(at: &[&dyn fmt::Display], file: &Path, error: &io::Error) -> Fault {
    let message = format!("{} cannot be read: {error}", file.display());
    Fault::new(at, message).help(remedy(file, error))
}

/// Folders can be opened like files, and then not be read.
fn is_no_folder(file: File) -> io::Result<()> {
    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

/// What to do about a file that cannot be read.
fn remedy(path: &Path, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => "so long is hardly the file that was meant",
        io::ErrorKind::InvalidData => "save it as UTF-8, if it is the file that was meant",
        _ if path.try_exists().is_ok_and(|exists| exists) => {
            "it must be readable by the user that the agent runs as"
        }
        _ => "`tabane server init` and `tabane client join` make one",
    }
}

/// Hides whatever looks like a key, wherever it stands: people paste one as a name, as a file or
/// as an address. In the excerpt also all that stands behind the name of a key, which may be
/// misspelt: that is then the problem.
fn discreet(mut problem: Problem) -> Problem {
    while let Some(key) = key_in(&problem.message) {
        problem.message.replace_range(key, "...");
    }
    if let Some(line) = &mut problem.excerpt {
        let lower = line.to_ascii_lowercase();
        let names = SECRET.iter().filter_map(|name| lower.find(name).map(|at| at + name.len()));
        let hidden = names.filter(|end| !lower[*end..].starts_with("_file")).min();
        let value = hidden.map(|end| line[end..].find('=').map_or(end, |at| end + at + 1));
        if let Some(at) = value.into_iter().chain(key_in(line).map(|key| key.start)).min() {
            line.truncate(at);
            line.push_str(" ...");
        }
    }
    problem
}

/// Where a text has what may be a key, or most of one: a long run of base64 or hex. Long words and
/// paths are such runs too, but have no digit; of 32 random bytes in base64, one in 1 500 has none.
fn key_in(text: &str) -> Option<Range<usize>> {
    const LEAST: usize = 32;
    let of_keys = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let mut at = 0;
    for run in text.as_bytes().chunk_by(|a, b| of_keys(a) == of_keys(b)) {
        let end = at + run.len();
        if run.len() >= LEAST && of_keys(&run[0]) && run.iter().any(u8::is_ascii_digit) {
            return Some(at..end);
        }
        at = end;
    }
    None
}

impl Findings {
    /// Something is wrong.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// The agent's own key; if it has none, why.
    pub(super) fn key<C: Configuration>(&mut self, config: &C) -> Option<Key> {
        let [_, file] = C::KEY;
        let fault = match config.key() {
            Ok(key) => return Some(key),
            Err(error @ (KeyError::Missing { .. } | KeyError::Twice { .. })) => {
                Fault::new(&[], error.to_string())
            }
            Err(KeyError::File(path, error)) => unreadable(&[&file], &path, &error),
            Err(error) => {
                let at = C::KEY[usize::from(config.given_key().0.is_none())];
                Fault::new(&[&at], error.to_string())
            }
        };
        self.fault(fault);
        None
    }

    /// The files that it names can be read, and by nobody else.
    fn files<C: Configuration>(&mut self, config: &C) {
        for (key, file) in config.needed() {
            let keys: Vec<&str> = key.split('.').collect();
            let at: Vec<&dyn fmt::Display> = keys.iter().map(|key| key as _).collect();
            if self.faults.iter().any(|fault| fault.at == keys) {
                continue;
            }
            if let Err(error) = File::open(file).and_then(is_no_folder) {
                self.fault(unreadable(&at, file, &error));
            } else if is_exposed(file) {
                let message = format!("everybody on this machine can read {}", file.display());
                self.warn(Fault::new(&at, message).help(format!("chmod 600 {}", file.display())));
            }
        }
    }

    /// Something is probably not meant.
    pub(crate) fn warn(&mut self, fault: Fault) {
        self.warnings.push(fault);
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
