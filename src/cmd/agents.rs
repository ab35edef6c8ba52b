//! What `tabane client` and `tabane server` share: reading a configuration, and what surrounds an
//! agent while it runs.

use crate::exit::Failure;
use crate::say;
use std::path::{Path, PathBuf};
use tabane_gateway::agent::{
    Endpoints, OpenEndpoints, Runtime, raise_descriptor_limit, start_runtime,
};
use tabane_gateway::config::load::Configuration;
use tabane_gateway::config::source::ConfigFile;
use tabane_gateway::request_channel::RequestSender;
use tabane_record::RecordSettings;

/// What ends with the agent.
pub(super) struct Guards {
    _runtime: Runtime,
    _endpoints: OpenEndpoints,
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

/// Where an agent will record, if it will: `record`, and `record_folder` and `record_names`.
pub(super) fn recording(
    record: Option<&str>,
    kept: (Option<&Path>, bool),
    file: &ConfigFile,
) -> Option<PathBuf> {
    let original = file.copy_of.as_deref().unwrap_or(&file.file);
    Some(RecordSettings::of(record, kept, Some(original))?.folder)
}

/// Says so, once nothing can keep it from recording any more.
pub(super) fn tell_recording(folder: Option<&Path>) {
    if let Some(folder) = folder {
        say::note(&format!("recording to {}", folder.display()));
    }
}

/// Opens the endpoints of an agent that is about to run.
///
/// # Errors
/// A socket or address that cannot be had.
pub(super) fn open(
    endpoints: Endpoints,
    request_channel: &RequestSender,
) -> Result<Guards, Failure> {
    let open = endpoints.open(request_channel).map_err(anyhow::Error::new)?;
    say::detail(&format!("control socket: {}", open.control.display()));
    for (what, at) in [("page: http", open.page), ("metrics: http", open.metrics)] {
        if let Some(at) = at {
            say::note(&format!("{what}://{at}/"));
        }
    }
    let limit = raise_descriptor_limit();
    say::detail(&format!("{limit} files may be open, sockets included"));
    let runtime = start_runtime(request_channel, say::note)?;
    Ok(Guards { _runtime: runtime, _endpoints: open })
}
