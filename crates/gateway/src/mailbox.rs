//! How other threads ask an agent something: a request and its answer, in order, no locks.
//!
//! The agent's thread answers between packets; whoever asks waits at most [`PATIENCE`].

use crate::model::{ConnStatus, Happening, Role, Status};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use thiserror::Error;

/// What can be asked of an agent; on the control socket one JSON object a line.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// [`Answer::Status`].
    Status,
    /// [`Answer::Connections`].
    Connections,
    /// [`Answer::Happenings`] after that number.
    Happenings {
        /// The last one known; 0 for all that are remembered.
        since: u64,
    },
    /// Change a path.
    SetPath {
        /// Its name.
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
    /// A picture of the agent.
    Status(Box<Status>),
    /// Open connections.
    Connections(Vec<ConnStatus>),
    /// What happened, oldest first.
    Happenings(Vec<Happening>),
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
pub struct Mailbox {
    requests: Sender<(Request, SyncSender<Answer>)>,
    wake: Arc<mio::Waker>,
}

/// The agent's end.
pub struct Inbox(Receiver<(Request, SyncSender<Answer>)>);

/// No answer came.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskError {
    /// It has ended.
    #[error("the agent has ended")]
    Gone,
    /// It is stuck or very busy.
    #[error("the agent did not answer within {} s", PATIENCE.as_secs())]
    Late,
}

/// How long [`Mailbox::ask`] waits.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A mailbox whose requests wake the agent's poll by `wake`.
#[must_use]
pub fn mailbox(wake: Arc<mio::Waker>) -> (Mailbox, Inbox) {
    let (requests, inbox) = channel();
    (Mailbox { requests, wake }, Inbox(inbox))
}

impl Mailbox {
    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn ask(&self, request: Request) -> Result<Answer, AskError> {
        let (reply, answer) = sync_channel(1);
        self.requests.send((request, reply)).map_err(|_| AskError::Gone)?;
        self.wake.wake().map_err(|_| AskError::Gone)?;
        answer.recv_timeout(PATIENCE).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => AskError::Late,
            std::sync::mpsc::RecvTimeoutError::Disconnected => AskError::Gone,
        })
    }
}

impl Inbox {
    /// The next request and where its answer goes; whoever asked may be gone by then.
    #[must_use]
    pub fn take(&self) -> Option<(Request, SyncSender<Answer>)> {
        self.0.try_recv().ok()
    }
}
