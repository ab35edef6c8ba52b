//! `tabane server -c FILE`: runs the agent until it is stopped.

use crate::cmd::agents::{Windows, again, open};
use crate::cmd::config::load;
use crate::exit::Failure;
use crate::say;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tabane_gateway::config::ServerConfig;
use tabane_gateway::server::Server;

/// Runs a server.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Its configuration.
    #[arg(short, long, value_name = "FILE", default_value = "/etc/tabane/server.toml")]
    config: PathBuf,
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
    let config = load::<ServerConfig>(&args.config)?.config;
    let windows = Windows {
        name: "server".into(),
        control: config.control.clone(),
        metrics: config.metrics,
        web: config.web,
        web_token_file: config.web_token_file.clone(),
    };
    let clients = config.client.len();
    let state = super::usual_state(&args.config);
    make_folder(&state, &config);
    let mut server = Server::with_state(config, Some(&state)).map_err(anyhow::Error::new)?;
    let file = args.config.clone();
    server.set_source(Box::new(move || again(&file)));
    for at in server.local() {
        say::note(&format!("{clients} clients may connect to {at}"));
    }
    let _around = open(windows, &server.mailbox())?;
    Ok(server.run().map_err(anyhow::Error::new)?)
}
