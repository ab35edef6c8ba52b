//! `tabane record`: what agents have recorded of their paths and connections.

mod export;
mod list;
mod when;

use crate::exit::Failure;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::{ConfigError, default_file};
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::config::source::ConfigFile;
use tabane_record::{ReadError, Recording, usual_folder};

/// Show what an agent has recorded, or make a scenario of it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List what there is: when which paths were busy.
    List(list::Args),
    /// Write a scenario, with a trace for each path, of some time.
    Export(export::Args),
}

/// Where the recording is.
#[derive(clap::Args, Debug)]
struct Place {
    /// The folder of the recording [default: that of the configuration].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The configuration of the agent [default: the client's, or the server's if there is none].
    #[arg(short, long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// [`Failure`], as the verb says.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        What::List(args) => list::run(args),
        What::Export(args) => export::run(args),
    }
}

impl Place {
    fn open(&self) -> Result<Recording, Failure> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => self.configured()?,
        };
        Recording::open(&folder).map_err(|error| {
            let help = "an agent records with record = \"7 days\" in its configuration";
            anyhow::anyhow!("{error}\n      = {help}; --folder names another place").into()
        })
    }

    /// The folder that a configuration names, or the usual one. One that the user names must be
    /// right; else it is read as far as it can be: its keys may be another's.
    fn configured(&self) -> Result<PathBuf, Failure> {
        let usual = || ["client", "server"].map(default_file).into_iter().find(|f| f.exists());
        let file = self.config.clone().or_else(usual).unwrap_or_else(|| default_file("client"));
        let named = match named(&file) {
            Err(error) if self.config.is_some() => return Err(anyhow::anyhow!("{error}").into()),
            named => named.ok().flatten(),
        };
        Ok(named.unwrap_or_else(|| usual_folder(&file, None)))
    }
}

/// The folder that a configuration of a client, or else of a server, names.
///
/// # Errors
/// It is neither: what is wrong with the one that it comes nearer to.
fn named(file: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let file = ConfigFile { file: file.to_owned(), copy_of: None };
    let client = file.load::<ClientConfig>().map(|l| l.config.record_folder);
    let server = || file.load::<ServerConfig>().map(|l| l.config.record_folder);
    client.or_else(|of_client| {
        let nearer = |of_server: ConfigError| {
            if of_server.0.len() < of_client.0.len() { of_server } else { of_client }
        };
        server().map_err(nearer)
    })
}

fn failed(error: ReadError) -> Failure {
    anyhow::Error::new(error).into()
}
