//! The agent's end of the control socket: a thread that accepts, and one for each client.

use super::line::{Line, Question, read_line};
use super::{CLIENTS_MAX, QUESTION_MAX};
use crate::request_channel::{Answer, Request, RequestError, RequestSender};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// A control socket that answers; goes, with its file, when it is dropped.
pub(crate) struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the file, so that only our own is removed.
    identity: (u64, u64),
    listener: UnixListener,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Why there is no control socket.
#[derive(Error, Debug)]
pub(crate) enum ControlError {
    /// Another agent has it.
    #[error(
        "an agent already listens at {0}: end it, or give this one another `name` or `control`"
    )]
    Taken(PathBuf),
    /// Something else is in its place.
    #[error("{0} is there and is no socket: remove it, or choose another `control`")]
    NotASocket(PathBuf),
    /// The system says no.
    #[error("the control socket {path} cannot be made: {error}")]
    Io {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

struct Shared {
    request_channel: RequestSender,
    stopping: AtomicBool,
    /// Of the clients that are connected; to hang up on them.
    clients: Mutex<BTreeMap<u64, UnixStream>>,
}

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 16;
/// Who does not take an answer for so long is hung up on.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for events on behalf of one who follows.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

impl ControlSocket {
    /// Listens at `path`, which is made with mode 0600 (and its folder with 0700 if it is not
    /// there), and answers from the agent behind `request_channel`. A socket that nobody listens at
    /// is replaced.
    ///
    /// # Errors
    /// [`ControlError`].
    pub(crate) fn start(path: &Path, request_channel: RequestSender) -> Result<Self, ControlError> {
        let failed = |error| ControlError::Io { path: path.to_path_buf(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        clear(path)?;
        let listener = listen(path).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => ControlError::Taken(path.to_path_buf()),
            _ => failed(error),
        })?;
        let file = fs::symlink_metadata(path).map_err(failed)?;
        let clients = Mutex::new(BTreeMap::new());
        let shared =
            Arc::new(Shared { request_channel, stopping: AtomicBool::new(false), clients });
        let (accepting, sharing) = (listener.try_clone().map_err(failed)?, Arc::clone(&shared));
        let thread = thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&accepting, &sharing))
            .map_err(failed)?;
        Ok(Self {
            path: path.to_path_buf(),
            identity: (file.dev(), file.ino()),
            listener,
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == self.identity)
        {
            let _ = fs::remove_file(&self.path);
        }
        // Linux wakes who waits in `accept` on a socket that is shut down.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for stream in self.shared.clients().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes way for a socket at `path`, unless somebody listens there.
fn clear(path: &Path) -> Result<(), ControlError> {
    let failed = |error| ControlError::Io { path: path.to_path_buf(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ControlError::NotASocket(path.to_path_buf()));
        }
        Ok(_) => {}
    }
    if is_live(path).map_err(failed)? {
        return Err(ControlError::Taken(path.to_path_buf()));
    }
    fs::remove_file(path).map_err(failed)
}

/// Whether somebody listens at that socket.
pub(super) fn is_live(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A full backlog must not block: it is a sign of life.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // On Linux the file gets the mode of the socket: there is no moment at which others may
    // connect, as there would be with a change after `bind`.
    let file = File::from(OwnedFd::from(socket));
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for id in 0u64.. {
        let accepted = listener.accept();
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            Ok((stream, _)) => shared.admit(id, stream),
            // Out of descriptors, most likely: others may be closed meanwhile.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>, id: u64, stream: UnixStream) {
        let _ = stream.set_write_timeout(Some(WRITE_PATIENCE));
        if self.clients().len() >= CLIENTS_MAX {
            let text = format!("{CLIENTS_MAX} clients are connected already: hang up on one");
            // The line fits the socket's buffer, so this does not wait.
            let _ = send(&stream, &Answer::Error(text));
            return;
        }
        let Ok(copy) = stream.try_clone() else { return };
        self.clients().insert(id, copy);
        let shared = Arc::clone(self);
        let spawned = thread::Builder::new().name("control-client".into()).spawn(move || {
            // A client that went away is no error.
            let _ = shared.converse(stream);
            shared.clients().remove(&id);
        });
        if spawned.is_err() {
            self.clients().remove(&id);
        }
    }

    fn converse(&self, stream: UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let line = match read_line(&mut reader, QUESTION_MAX)? {
                Line::Whole(line) => line,
                Line::TooLong => {
                    let text = format!("a line of more than {QUESTION_MAX} bytes");
                    return send(reader.get_ref(), &Answer::Error(text));
                }
                Line::End => return Ok(()),
            };
            if self.stopping.load(Ordering::Acquire) {
                return Ok(());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let answer = match Question::parse(&line) {
                Ok(Question::Ask(request)) => self.ask(request),
                Ok(Question::Follow { since }) => return self.follow(reader.get_ref(), since),
                Err(text) => Answer::Error(text),
            };
            send(reader.get_ref(), &answer)?;
        }
    }

    fn ask(&self, request: Request) -> Answer {
        self.request_channel.ask(request).unwrap_or_else(|error| Answer::Error(error.to_string()))
    }

    /// Sends events until the client hangs up or the agent ends.
    fn follow(&self, mut stream: &UnixStream, mut since: u64) -> io::Result<()> {
        stream.set_read_timeout(Some(FOLLOW_EVERY))?;
        while !self.stopping.load(Ordering::Acquire) {
            match self.request_channel.ask(Request::Events { since }) {
                Ok(Answer::Events(all)) => {
                    if let Some(last) = all.last() {
                        since = last.seq;
                        send(stream, &Answer::Events(all))?;
                    }
                }
                Ok(other) => return send(stream, &other),
                Err(error @ RequestError::Gone) => {
                    return send(stream, &Answer::Error(error.to_string()));
                }
                // It may be busy; who follows can wait.
                Err(RequestError::Late) => {}
            }
            // Waits, and notices when the client hangs up; what it writes has no meaning here.
            match stream.read(&mut [0; 64]) {
                Ok(0) => return Ok(()),
                Ok(_) => thread::sleep(FOLLOW_EVERY),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}
