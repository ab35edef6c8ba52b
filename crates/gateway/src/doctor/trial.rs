//! A client run for a few seconds, without front ends, to see what its links do.

use crate::agent::AgentError;
use crate::client::Client;
use crate::config::{ClientConfig, ListenerConfig};
use crate::model::{PathState, Role, Status};
use crate::request_channel::{Answer, Request, RequestSender};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Why there was no trial.
#[derive(Error, Debug)]
pub(crate) enum TrialError {
    /// The client does not start.
    #[error(transparent)]
    Client(#[from] AgentError),
    /// It ended, or does not answer.
    #[error("the client that was tried ended early")]
    Ended,
}

/// Between two looks.
const STEP: Duration = Duration::from_millis(250);
/// Looks after which it ends even if links are missing: handshakes are sent again after 5 s.
const LOOKS: usize = 32;
/// Looks after all links work: probes that measure loss, and the search for the largest packet.
const MORE_LOOKS: usize = 12;

/// Runs a client of `config` for up to 8 s; its last status. No other may run with its keys
/// meanwhile: the server would follow this one.
///
/// # Errors
/// `TrialError`.
pub(crate) fn trial(config: &ClientConfig) -> Result<Status, TrialError> {
    let mut config = config.clone();
    config.front = ListenerConfig { socks5: Vec::new(), http: Vec::new(), login: None };
    (config.tun, config.lan) = (None, None);
    (config.control, config.web, config.metrics) = (None, None, None);
    config.state = None;
    let (sender, started) = channel();
    let running = thread::spawn(move || {
        let client = match Client::new(config) {
            Ok(client) => client,
            Err(error) => return drop(sender.send(Err(error))),
        };
        // Whoever waits for this is there: it waits without an end.
        let _ = sender.send(Ok(client.request_channel()));
        // An early end shows as an unanswered question.
        let _ = client.run();
    });
    let request_channel = started.recv().map_err(|_| TrialError::Ended)??;
    let status = watch(&request_channel);
    let _ = request_channel.ask(Request::Stop);
    let _ = running.join();
    status.ok_or(TrialError::Ended)
}

fn watch(request_channel: &RequestSender) -> Option<Status> {
    let (mut looks, mut since_up) = (0, 0);
    loop {
        thread::sleep(STEP);
        let Ok(Answer::Status(status)) = request_channel.ask(Request::Status) else { return None };
        let wanted = |path: &&crate::model::PathStatus| path.role != Role::Never;
        let all_up = status.paths.iter().filter(wanted).all(|path| path.state == PathState::Up);
        looks += 1;
        since_up += usize::from(all_up);
        if looks >= LOOKS || since_up >= MORE_LOOKS {
            return Some(*status);
        }
    }
}
