//! `tabane client -c FILE`: runs the agent until it is stopped.

use crate::cmd::agents::{Windows, again, open};
use crate::cmd::config::load;
use crate::exit::Failure;
use crate::say;
use std::path::PathBuf;
use tabane_gateway::client::Client;
use tabane_gateway::config::{ClientConfig, default_file};

/// Runs a client.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Its configuration.
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_file("client"))]
    config: PathBuf,
}

/// Runs until it is stopped.
///
/// # Errors
/// When the configuration is wrong, or sockets cannot be had.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = load::<ClientConfig>(&args.config)?.config;
    let windows = Windows {
        name: config.name.clone(),
        control: config.control.clone(),
        metrics: config.metrics,
        web: config.web,
        web_token_file: config.web_token_file.clone(),
    };
    let mut client = Client::new(config).map_err(anyhow::Error::new)?;
    let file = args.config.clone();
    client.set_source(Box::new(move || again(&file)));
    for front in client.fronts() {
        say::note(&format!("SOCKS5 and HTTP CONNECT on {front}"));
    }
    let _around = open(windows, &client.mailbox())?;
    Ok(client.run().map_err(anyhow::Error::new)?)
}
