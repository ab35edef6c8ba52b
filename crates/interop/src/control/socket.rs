//! How commands reach the driver: a Unix socket for any number of lines, or standard input.
//!
//! Threads that block read the lines; they hand each to the driver and wait for its answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::{fs, thread};
use tabane_net::driver::Waker;

/// Lines for the driver. Make it with [`Inbox::new`] and give the other half to those who ask.
pub struct Inbox {
    lines: Receiver<(String, Sender<String>)>,
}

/// The other half: asks the driver.
#[derive(Clone, Debug)]
pub struct Outbox {
    lines: SyncSender<(String, Sender<String>)>,
    waker: Waker,
}

/// A control socket; goes with the value.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
}

/// Commands that may wait; who has more must wait too.
const QUEUE: usize = 64;
/// Clients at one time; one more is hung up on.
const CLIENTS: usize = 16;
/// Longest line, bytes; what is longer is an error and the end of the client.
const LINE_MAX: u64 = 4096;

impl Inbox {
    /// Both halves, for the driver that `waker` wakes.
    #[must_use]
    pub fn new(waker: Waker) -> (Self, Outbox) {
        let (sender, lines) = sync_channel(QUEUE);
        (Self { lines }, Outbox { lines: sender, waker })
    }

    /// The next line, and where its answer goes.
    pub(super) fn take(&self) -> Option<(String, Sender<String>)> {
        self.lines.try_recv().ok()
    }
}

impl Outbox {
    /// Has the driver do a command; its answer. `None` when the driver has ended.
    #[must_use]
    pub fn ask(&self, line: &str) -> Option<String> {
        let (sender, answer) = channel();
        self.lines.send((line.to_owned(), sender)).ok()?;
        self.waker.wake();
        answer.recv().ok()
    }
}

impl ControlSocket {
    /// Listens on `path`, for this user only. A socket that nobody listens on any more is
    /// replaced.
    ///
    /// # Errors
    /// The system's; `AddrInUse` if somebody listens there.
    pub fn bind(path: &Path, outbox: Outbox) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                if UnixStream::connect(path).is_ok() {
                    return Err(e);
                }
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let clients = Arc::new(AtomicUsize::new(0));
        thread::Builder::new().name("control".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if clients.load(Ordering::Relaxed) >= CLIENTS {
                    continue;
                }
                let (outbox, clients) = (outbox.clone(), clients.clone());
                clients.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    // A client that goes away is its own affair.
                    let _ = serve_lines(BufReader::new(&stream), &stream, &outbox);
                    clients.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers the lines of `input` on `output` until it ends or the driver does.
///
/// # Errors
/// Reading, writing, or a line that is too long.
pub fn serve_lines(
    mut input: impl BufRead,
    mut output: impl Write,
    outbox: &Outbox,
) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LINE_MAX && !line.ends_with('\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
        }
        if line.trim().is_empty() {
            continue;
        }
        let Some(answer) = outbox.ask(line.trim()) else { return Ok(()) };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}
