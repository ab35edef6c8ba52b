//! The asker's end of the control socket.

use super::ANSWER_MAX;
use super::line::{Line, Question, read_line};
use crate::model::{AgentEvent, ConnStatus, Status};
use crate::request_channel::{Answer, PATIENCE, Request};
use std::collections::VecDeque;
use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// A connection to an agent.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    path: PathBuf,
}

/// Why an agent could not be asked, or said no.
#[derive(Error, Debug)]
pub enum ClientError {
    /// Nobody listens there.
    #[error("no agent answers at {0}: it is not running, or its socket is elsewhere (--socket)")]
    NotRunning(PathBuf),
    /// It belongs to another user.
    #[error("{0} belongs to another user: ask as that user, or with sudo")]
    Denied(PathBuf),
    /// Reading or writing failed.
    #[error("{path}: {error}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It has ended.
    #[error("the agent at {0} hung up")]
    HungUp(PathBuf),
    /// What came is no answer; another version?
    #[error("the agent at {path} gave no answer that is understood ({error}): another version?")]
    Garbled {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// The agent's own error.
    #[error("{0}")]
    Refused(String),
}

/// Events as they come; ends with an error.
#[derive(Debug)]
struct Follow {
    client: Client,
    waiting: VecDeque<AgentEvent>,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let owned = path.to_path_buf();
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => ClientError::NotRunning(owned),
            ErrorKind::PermissionDenied => ClientError::Denied(owned),
            _ => ClientError::Io { path: owned, error },
        })?;
        let client = Self { reader: BufReader::new(stream), path: path.to_path_buf() };
        // The agent itself gives up after `PATIENCE`; this is for one that is stopped.
        client.set_patience(Some(PATIENCE * 2))?;
        Ok(client)
    }

    /// Where its socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks and waits for the answer, which is not [`Answer::Error`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, request: Request) -> Result<Answer, ClientError> {
        self.write(&Question::Ask(request))?;
        self.answer()
    }

    /// Snapshot of the agent.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self) -> Result<Status, ClientError> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(*status),
            other => Err(self.odd(&other)),
        }
    }

    /// Its open connections.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connections(&mut self) -> Result<Vec<ConnStatus>, ClientError> {
        match self.ask(Request::Connections)? {
            Answer::Connections(all) => Ok(all),
            other => Err(self.odd(&other)),
        }
    }

    /// What happened after number `since`, as far as it is remembered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn events(&mut self, since: u64) -> Result<Vec<AgentEvent>, ClientError> {
        match self.ask(Request::Events { since })? {
            Answer::Events(all) => Ok(all),
            other => Err(self.odd(&other)),
        }
    }

    /// Has it do something.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Refused`] with the reason if it will not.
    pub fn order(&mut self, request: Request) -> Result<(), ClientError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    /// Events after number `since`, those that are remembered first, then as they come.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn follow(
        mut self,
        since: u64,
    ) -> Result<impl Iterator<Item = Result<AgentEvent, ClientError>>, ClientError> {
        self.write(&Question::Follow { since })?;
        self.set_patience(None)?;
        Ok(Follow { client: self, waiting: VecDeque::new() })
    }

    fn write(&mut self, question: &Question) -> Result<(), ClientError> {
        let line = question.to_line() + "\n";
        self.reader.get_ref().write_all(line.as_bytes()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => ClientError::HungUp(self.path.clone()),
            _ => ClientError::Io { path: self.path.clone(), error },
        })
    }

    fn answer(&mut self) -> Result<Answer, ClientError> {
        let line = match read_line(&mut self.reader, ANSWER_MAX) {
            Ok(Line::Whole(line)) => line,
            Ok(Line::TooLong) => return Err(self.garbled("longer than allowed")),
            Ok(Line::End) => return Err(ClientError::HungUp(self.path.clone())),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(ClientError::HungUp(self.path.clone()));
            }
            Err(error) => return Err(ClientError::Io { path: self.path.clone(), error }),
        };
        match serde_json::from_slice(&line) {
            Ok(Answer::Error(text)) => Err(ClientError::Refused(text)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.garbled(&error.to_string())),
        }
    }

    fn set_patience(&self, patience: Option<Duration>) -> Result<(), ClientError> {
        let stream = self.reader.get_ref();
        let set = stream.set_read_timeout(patience).and(stream.set_write_timeout(patience));
        set.map_err(|error| ClientError::Io { path: self.path.clone(), error })
    }

    fn odd(&self, answer: &Answer) -> ClientError {
        let name = match answer {
            Answer::Status(_) => "a status",
            Answer::Connections(_) => "connections",
            Answer::Events(_) => "events",
            Answer::Done => "done",
            Answer::Error(_) => "an error",
        };
        self.garbled(&format!("{name}, which was not asked for"))
    }

    fn garbled(&self, error: &str) -> ClientError {
        ClientError::Garbled { path: self.path.clone(), error: error.to_owned() }
    }
}

impl Iterator for Follow {
    type Item = Result<AgentEvent, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(Ok(event));
            }
            match self.client.answer() {
                Ok(Answer::Events(all)) => self.waiting.extend(all),
                Ok(other) => return Some(Err(self.client.odd(&other))),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
