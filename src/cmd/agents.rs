//! What `tabane client` and `tabane server` share: reading a configuration, and what surrounds an
//! agent while it runs.

use crate::exit::Failure;
use crate::say;
use std::net::SocketAddr;
use std::path::PathBuf;
use tabane_gateway::agent::{Runtime, raise_descriptor_limit, start_runtime};
use tabane_gateway::config::{ConfigFile, Configuration};
use tabane_gateway::control::{ControlSocket, Places};
use tabane_gateway::request_channel::RequestSender;
use tabane_gateway::web::{Pages, Settings, Token};

/// Where an agent can be asked and seen.
pub(super) struct Windows {
    /// Its name, for the control socket.
    pub(super) name: String,
    pub(super) control: Option<PathBuf>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) web: Option<SocketAddr>,
    pub(super) web_token_file: Option<PathBuf>,
}

/// What ends with the agent.
pub(super) struct Guards {
    _runtime: Runtime,
    _control: ControlSocket,
    _pages: Option<Pages>,
}

/// Reads the configuration of an agent that is about to run; warnings go to standard error.
///
/// # Errors
/// When it cannot be read, or is wrong.
pub(super) fn load<C: Configuration>(file: &ConfigFile) -> Result<C, Failure> {
    let loaded = file.load::<C>().map_err(super::config::refused)?;
    loaded.warnings.iter().for_each(|warning| say::warning(&warning.to_string()));
    Ok(loaded.config)
}

/// Opens the windows of an agent that is about to run.
///
/// # Errors
/// A socket or address that cannot be had.
pub(super) fn open(windows: Windows, request_channel: &RequestSender) -> Result<Guards, Failure> {
    let places = Places::from_env();
    let path = match windows.control {
        Some(path) => path,
        None => places.socket_for(&windows.name).map_err(anyhow::Error::new)?,
    };
    let control =
        ControlSocket::start(&path, request_channel.clone()).map_err(anyhow::Error::new)?;
    say::detail(&format!("control socket: {}", path.display()));
    let mut pages = None;
    if windows.web.is_some() || windows.metrics.is_some() {
        let token = windows.web_token_file.map(|file| Token::read(&file)).transpose();
        let token = token.map_err(anyhow::Error::new)?;
        let settings = Settings { page: windows.web, metrics: windows.metrics, token };
        let started =
            Pages::start(settings, request_channel.clone()).map_err(anyhow::Error::new)?;
        for (what, at) in [("page: http", started.page()), ("metrics: http", started.metrics())] {
            if let Some(at) = at {
                say::note(&format!("{what}://{at}/"));
            }
        }
        pages = Some(started);
    }
    let limit = raise_descriptor_limit();
    say::detail(&format!("{limit} files may be open, sockets included"));
    let runtime = start_runtime(request_channel, say::note)?;
    Ok(Guards { _runtime: runtime, _control: control, _pages: pages })
}
