//! `tabane client -c FILE`: runs the agent until it is stopped.

use crate::cmd::agents::{load, open, recording, tell_recording};
use crate::exit::Failure;
use crate::{journal, say};
use std::path::PathBuf;
use tabane_gateway::agent::Endpoints;
use tabane_gateway::client::Client;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::load::default_file;
use tabane_gateway::config::source::ConfigFile;

/// Runs a client.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Its configuration.
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_file("client"))]
    config: PathBuf,
    /// The original, if FILE is a service's copy of it: `tabane reload` then sends the original to
    /// the agent.
    #[arg(long, value_name = "FILE")]
    copy_of: Option<PathBuf>,
}

/// Runs until it is stopped.
///
/// # Errors
/// When the configuration is wrong, or sockets cannot be had.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let file = ConfigFile { file: args.config.clone(), copy_of: args.copy_of.clone() };
    let config = load::<ClientConfig>(&file)?;
    let endpoints = Endpoints {
        name: config.name.clone(),
        control: config.control.clone(),
        metrics: config.metrics,
        web: config.web,
        web_token_file: config.web_token_file.clone(),
    };
    let kept = (config.record_folder.as_deref(), config.record_names);
    let recording = recording(config.record.as_deref(), kept, &file);
    let mut client = Client::new(config).map_err(anyhow::Error::new)?;
    client.set_source(file);
    client.set_log(Box::new(journal::event));
    for front in client.listeners() {
        say::note(&format!("SOCKS5 and HTTP CONNECT on {front}"));
    }
    let _guards = open(endpoints, &client.request_channel())?;
    tell_recording(recording.as_deref());
    Ok(client.run().map_err(anyhow::Error::new)?)
}
