//! Agents that run from a file: found by asking those that run here, and given the file again.

use super::agent;
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use tabane_gateway::control::client::Client;
use tabane_gateway::control::place::sockets as open_sockets;
use tabane_gateway::model::{AgentEvent, EventKind, Status};
use tabane_gateway::request_channel::Request;

/// An agent that runs.
pub(super) struct Running {
    client: Client,
    status: Status,
}

/// What was found when agents were looked for.
pub(super) struct Found {
    /// Those that run from the file.
    pub(super) agents: Vec<Running>,
    /// Those that could not be asked, and servers of a version that does not say its file.
    pub(super) doubtful: Vec<String>,
}

impl Running {
    /// Asks an agent what it is.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn new(mut client: Client) -> Result<Self, Failure> {
        let status = client.status().map_err(agent::failed)?;
        Ok(Self { client, status })
    }

    /// Has it take its file as it is now; what came of it, as its events say.
    ///
    /// # Errors
    /// When the file cannot be read, or is wrong.
    pub(super) fn reload(&mut self) -> Result<Vec<AgentEvent>, Failure> {
        let past = self.client.events(0).map_err(agent::failed)?;
        let since = past.last().map_or(0, |last| last.seq);
        let request = match &self.status.configuration {
            Some(file) if self.status.configuration_copied => {
                let request = Request::configure(file);
                request.with_context(|| format!("cannot read {}", file.display()))?
            }
            _ => Request::Reload,
        };
        self.client.order(request).map_err(agent::failed)?;
        let mut events = self.client.events(since).map_err(agent::failed)?;
        events.retain(|event| {
            event.kind == EventKind::Reload || event.kind.to_string().starts_with("client-")
        });
        Ok(events)
    }
}

/// The agents that run from a file.
pub(super) fn of_file(file: &Path) -> Found {
    let wanted = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut sockets = open_sockets();
    if let Some(own) = control_of(&wanted)
        && !sockets.iter().any(|(path, _)| *path == own)
    {
        sockets.push((own, true));
    }
    let mut found = Found { agents: Vec::new(), doubtful: Vec::new() };
    for (path, open) in sockets {
        let asked = open.then(|| Client::connect(&path).ok()).flatten();
        match asked.map(Running::new) {
            Some(Ok(running)) => match &running.status.configuration {
                Some(file) if *file == wanted => found.agents.push(running),
                Some(_) => {}
                None if running.status.agent == "server" => {
                    let (path, version) = (path.display(), &running.status.version);
                    let text = format!(
                        "the server at {path} (version {version}) does not say which file it has"
                    );
                    found.doubtful.push(text);
                }
                None => {}
            },
            // A socket that the file names need not be there.
            None if open => {}
            Some(Err(_)) => found.doubtful.push(format!("{} does not answer", path.display())),
            None => found.doubtful.push(format!("{} is another user's", path.display())),
        }
    }
    found
}

/// Has the server that runs from a file take what was changed in it, and says what came of it.
/// `changed` says what stands in the file now.
///
/// # Errors
/// When a server runs and goes on as before.
pub(super) fn tell_server(file: &Path, changed: &str) -> Result<(), Failure> {
    let mut found = of_file(file);
    for running in &mut found.agents {
        let at = running.client.path().display().to_string();
        let events = running.reload().map_err(|failure| match failure {
            Failure::Failed(error) => {
                let text = format!("{changed}, but the running server ({at}) says");
                Failure::Failed(error.context(text))
            }
            other => other,
        })?;
        say::note(&format!("{changed}; in force at the running server ({at}): {}", said(&events)));
    }
    if found.agents.is_empty() && found.doubtful.is_empty() {
        let text = "no server runs from this file here: it holds from its next start";
        say::note(&format!("{changed}; {text}"));
        return Ok(());
    }
    match (found.agents.is_empty(), found.doubtful.as_slice()) {
        (_, []) => Ok(()),
        (false, doubtful) => {
            doubtful.iter().for_each(|text| say::note(text));
            Ok(())
        }
        (true, doubtful) => Err(anyhow!(
            "{changed}, but it is not known whether a running server has taken it: {}; ask with \
             sudo, or restart it",
            doubtful.join("; ")
        )
        .into()),
    }
}

/// What events say, in one line: of clients if there are any, else of the reload.
pub(super) fn said(events: &[AgentEvent]) -> String {
    let texts = |reload: bool| {
        let wanted = events.iter().filter(|event| (event.kind == EventKind::Reload) == reload);
        wanted.map(|event| event.text.as_str()).collect::<Vec<_>>().join("; ")
    };
    let clients = texts(false);
    if clients.is_empty() { texts(true) } else { clients }
}

/// The socket that a configuration names.
fn control_of(file: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file).ok()?;
    let table: toml::Table = text.parse().ok()?;
    let control = table.get("control")?.as_str()?;
    Some(file.parent()?.join(control))
}
