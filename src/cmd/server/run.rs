//! `tabane server -c FILE`: runs the agent until it is stopped.

use crate::cmd::agents::{load, open, recording, tell_recording};
use crate::exit::Failure;
use crate::plural::count;
use crate::{journal, say};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tabane_gateway::agent::Endpoints;
use tabane_gateway::config::load::default_file;
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::config::source::ConfigFile;
use tabane_gateway::server::Server;

/// Runs a server.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Its configuration.
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_file("server"))]
    config: PathBuf,
    /// The original, if FILE is a service's copy of it: `tabane reload` then sends the original to
    /// the agent.
    #[arg(long, value_name = "FILE")]
    copy_of: Option<PathBuf>,
}

/// The folder of the system is made by systemd, or by who runs the agent by hand. That it cannot be
/// made is said when a client joins.
fn make_folder(state: &Path, config: &ServerConfig) {
    if let (None, Some(folder)) = (&config.state, state.parent())
        && folder.starts_with("/var/lib")
        && !folder.exists()
    {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    }
}

/// Runs until it is stopped.
///
/// # Errors
/// When the configuration is wrong, or sockets cannot be had.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = ConfigFile { file: args.config.clone(), copy_of: args.copy_of.clone() };
    let config = load::<ServerConfig>(&file)?;
    let endpoints = Endpoints {
        name: "server".into(),
        control: config.control.clone(),
        metrics: config.metrics,
        web: config.web,
        web_token_file: config.web_token_file.clone(),
    };
    let clients = config.client.len();
    let state = super::usual_state(args.copy_of.as_deref().unwrap_or(&args.config));
    make_folder(&state, &config);
    let kept = (config.record_folder.as_deref(), config.record_names);
    let recording = recording(config.record.as_deref(), kept, &file);
    let mut server = Server::new(config, Some(&state)).map_err(anyhow::Error::new)?;
    server.set_source(file);
    server.set_log(Box::new(journal::event));
    for at in server.local() {
        say::note(&format!("{} may connect to {at}", count(clients, "client")));
    }
    let _guards = open(endpoints, &server.request_channel())?;
    tell_recording(recording.as_deref());
    Ok(server.run().map_err(anyhow::Error::new)?)
}
