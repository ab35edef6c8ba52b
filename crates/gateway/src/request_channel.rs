//! How other threads ask an agent something: a request and its answer, in order, no locks.
//!
//! The agent's thread answers between packets; whoever asks waits at most `PATIENCE`.

use crate::config::TEXT_MAX;
use crate::model::{AgentEvent, ConnStatus, Role, Status};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use tabane_config::bounded;
use thiserror::Error;

/// What can be asked of an agent; on the control socket one JSON object a line.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// [`Answer::Status`].
    Status,
    /// [`Answer::Connections`].
    Connections,
    /// [`Answer::Events`] after that number.
    #[serde(alias = "happenings")]
    Events {
        /// The last one known; 0 for all that are remembered.
        since: u64,
    },
    /// Change a path.
    SetPath {
        path: String,
        /// New role.
        #[serde(default)]
        role: Option<Role>,
        /// New rate cap in bits per second; 0 for none.
        #[serde(default)]
        cap_bps: Option<u64>,
    },
    /// End a connection at once.
    CloseConnection {
        /// Its id.
        id: u64,
    },
    /// Change a policy of one connection, or of all and those to come.
    SetPolicy {
        /// `scheduler`, `congestion` or `egress`.
        policy: String,
        /// Its name, with parameters.
        spec: String,
        /// One connection only.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Read the configuration again.
    Reload,
    /// Take this text as its configuration, as if its file had it and was read again.
    Configure {
        /// The whole file.
        text: String,
    },
    /// End the agent.
    Stop,
    /// End the agent for another that takes over at once: with the kill switch a client leaves the
    /// host as it is.
    StopForRestart,
}

/// The answer to a [`Request`].
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Snapshot of the agent.
    Status(Box<Status>),
    /// Open connections.
    Connections(Vec<ConnStatus>),
    /// The event log, oldest first.
    #[serde(alias = "happenings")]
    Events(Vec<AgentEvent>),
    /// Done.
    Done,
    /// Not done: the reason, for people.
    Error(String),
}

impl From<Result<(), String>> for Answer {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Error, |()| Self::Done)
    }
}

/// Where requests are put; cheap to clone.
#[derive(Clone)]
pub struct RequestSender {
    requests: Sender<(Request, SyncSender<Answer>)>,
    wake: Arc<mio::Waker>,
}

/// The agent's end.
pub struct RequestReceiver(Receiver<(Request, SyncSender<Answer>)>);

/// No answer came.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// It has ended.
    #[error("the agent has ended")]
    Gone,
    /// It is stuck or very busy.
    #[error("the agent did not answer within {} s", PATIENCE.as_secs())]
    Late,
}

/// How long [`RequestSender::ask`] waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A request channel whose requests wake the agent's poll by `wake`.
#[must_use]
pub fn request_channel(wake: Arc<mio::Waker>) -> (RequestSender, RequestReceiver) {
    let (requests, inbox) = channel();
    (RequestSender { requests, wake }, RequestReceiver(inbox))
}

impl Request {
    /// To take what a file of the agent's holds now, for one that has only a copy of it.
    ///
    /// # Errors
    /// The file's.
    pub fn configure(file: &Path) -> io::Result<Self> {
        Ok(Self::Configure { text: bounded::text(file, TEXT_MAX)? })
    }
}

impl RequestSender {
    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn ask(&self, request: Request) -> Result<Answer, RequestError> {
        let (reply, answer) = sync_channel(1);
        self.requests.send((request, reply)).map_err(|_| RequestError::Gone)?;
        self.wake.wake().map_err(|_| RequestError::Gone)?;
        answer.recv_timeout(PATIENCE).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => RequestError::Late,
            std::sync::mpsc::RecvTimeoutError::Disconnected => RequestError::Gone,
        })
    }
}

impl RequestReceiver {
    /// The next request and where its answer goes; whoever asked may be gone by then.
    #[must_use]
    pub fn take(&self) -> Option<(Request, SyncSender<Answer>)> {
        self.0.try_recv().ok()
    }
}
