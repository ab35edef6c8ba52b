//! `tabane config`: whether a configuration is sound, and what it comes to with defaults and the
//! environment.

use crate::exit::Failure;
use crate::plural::count;
use crate::say;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::{ConfigError, Configuration, Loaded};
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::config::source::ConfigFile;

/// Check a configuration, or show its effective values.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Report what is wrong with a file, with line and remedy.
    #[command(after_help = "Exit codes: 0 sound, 1 cannot be read, 2 wrong.

Examples:
  tabane config check /etc/tabane/client.toml
  TABANE_CLIENT_UP__SCHEDULER=ecf tabane config check client.toml")]
    Check(File),
    /// Print the effective configuration, including defaults and environment, without keys.
    Dump {
        #[command(flatten)]
        file: File,
        /// Print keys as well.
        #[arg(long)]
        show_keys: bool,
    },
}

#[derive(clap::Args, Debug)]
struct File {
    /// The file.
    file: PathBuf,
    /// Its role [default: guessed from its keys].
    #[arg(long)]
    role: Option<Role>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Debug)]
enum Role {
    Client,
    Server,
}

/// Does what was asked.
///
/// # Errors
/// [`Failure::Usage`] for a wrong file, [`Failure::Failed`] for one that cannot be read.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (file, dump) = match &args.action {
        Action::Check(file) => (file, None),
        Action::Dump { file, show_keys } => (file, Some(*show_keys)),
    };
    match file.role.unwrap_or_else(|| guess(&file.file)) {
        Role::Client => {
            let config = load::<ClientConfig>(&file.file)?.config;
            let (paths, servers) = (config.path.len(), config.server.len());
            done::<ClientConfig>(
                &config,
                dump,
                format!("{}, {}", count(paths, "path"), count(servers, "server")),
                file,
            )
        }
        Role::Server => {
            let config = load::<ServerConfig>(&file.file)?.config;
            let clients = config.client.len();
            done::<ServerConfig>(&config, dump, count(clients, "client"), file)
        }
    }
}

/// Reads a configuration with what the environment lays over it; warnings go to standard error.
///
/// # Errors
/// As [`run`].
pub(super) fn load<C: Configuration>(path: &Path) -> Result<Loaded<C>, Failure> {
    let loaded = ConfigFile::from(path).load::<C>().map_err(refused)?;
    loaded.warnings.iter().for_each(|warning| say::note(&format!("warning: {warning}")));
    Ok(loaded)
}

/// A wrong file is the user's to correct; one that cannot be read is not wrong.
pub(super) fn refused(error: ConfigError) -> Failure {
    match &error.0[..] {
        [one] if one.position.is_none() && one.message.starts_with("cannot be read") => {
            Failure::Failed(error.into())
        }
        _ => Failure::usage(error.to_string()),
    }
}

fn done<C: Configuration>(
    config: &C,
    dump: Option<bool>,
    what: String,
    file: &File,
) -> Result<(), Failure> {
    let Some(show_keys) = dump else {
        return say::print(&format!("{}: sound, a {} ({what})", file.file.display(), C::ROLE));
    };
    let mut text = toml::to_string_pretty(config).map_err(anyhow::Error::new)?;
    if !show_keys {
        text = text.lines().map(hidden).collect::<Vec<_>>().join("\n");
    }
    say::print(text.trim_end())
}

/// A line of a dump without the key in it.
fn hidden(line: &str) -> String {
    let secret = ["secret = ", "private_key = ", "preshared_key = ", "enrolment = ", "login = "];
    match secret.iter().find(|key| line.starts_with(**key)) {
        Some(key) => format!("# {key}..."),
        None => line.to_owned(),
    }
}

/// Whose keys a file has more of; a client's if it says nothing.
fn guess(path: &Path) -> Role {
    let text = bounded::text(path, bounded::SOURCE_DOCUMENT).unwrap_or_default();
    let has = |keys: &[&str]| {
        let starts = |line: &str| {
            let line = line.trim_start().trim_start_matches('[');
            keys.iter().any(|key| {
                let rest = line.strip_prefix(key).map(str::trim_start);
                rest.is_some_and(|rest| rest.starts_with(['=', ']', '.']))
            })
        };
        text.lines().filter(|line| starts(line)).count()
    };
    let client = has(&["server", "path", "secret", "secret_file", "front", "tun", "rule", "up"]);
    let server = has(&["client", "listen", "public", "private_key", "private_key_file", "access"]);
    if server > client { Role::Server } else { Role::Client }
}
