//! The file server: GET and HEAD of what is below a directory, PUT and POST to a sink that
//! answers with length and SHA-256.
//!
//! Requests of one connection are answered one after the other; while a response is being sent
//! nothing is read, so that a client that does not take its responses is held by its window.
//! Files are read on the driver's thread, a block at a time as the connection takes it.

use super::session::{Phase, Session, Step};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::SystemTime;
use std::{fs, io};
use tabane_engine::{ConnId, Duration, Endpoint, Event, Instant};
use tabane_net::driver::App;

/// An HTTP file server on the connections that an endpoint accepts.
pub struct FileServer {
    config: ServerConfig,
    sessions: BTreeMap<ConnId, Session>,
    next_sweep: Instant,
    served: u64,
}

/// Settings of a server.
pub struct ServerConfig {
    /// What is served. Must be canonical ([`std::fs::canonicalize`]).
    pub root: PathBuf,
    /// Where uploads are kept; `None`: they are hashed and forgotten.
    pub uploads: Option<PathBuf>,
    /// The wall clock at the engine's origin, for dates.
    pub wall_origin: SystemTime,
    /// How long a connection may stand still: no byte taken or given.
    pub idle_timeout: Duration,
    /// Addresses announced on every connection (ADD_ADDR).
    pub announce: Vec<IpAddr>,
    /// Told of every answered request.
    pub log: Option<Log>,
}

/// Is told of every answered request.
pub type Log = Box<dyn FnMut(&Access) + Send>;

/// A request and its answer, for the log.
#[derive(Clone, Debug)]
pub struct Access {
    /// The client.
    pub remote: SocketAddr,
    /// Method and target.
    pub request: String,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body, or of the upload.
    pub bytes: u64,
}

/// How often idle connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

impl ServerConfig {
    /// Serves `root`.
    ///
    /// # Errors
    /// If it is not a directory that can be read.
    pub fn new(root: &std::path::Path, wall_origin: SystemTime) -> io::Result<Self> {
        let root = fs::canonicalize(root)?;
        fs::read_dir(&root)?;
        let idle_timeout = Duration::from_secs(120);
        let (uploads, announce, log) = (None, Vec::new(), None);
        Ok(Self { root, uploads, wall_origin, idle_timeout, announce, log })
    }

    /// The wall clock at `now`.
    pub(super) fn wall(&self, now: Instant) -> SystemTime {
        self.wall_origin + std::time::Duration::from_nanos(now.0)
    }
}

impl FileServer {
    /// A server; the caller makes the endpoint listen.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        Self { config, sessions: BTreeMap::new(), next_sweep: Instant::ZERO, served: 0 }
    }

    /// Requests answered so far.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Connections open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// Does what can be done on a connection now.
    fn pump(&mut self, endpoint: &mut Endpoint, now: Instant, id: ConnId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(conn) = endpoint.connection(id) else { return };
        loop {
            match session.step(conn, now, &self.config) {
                Step::Wait => return,
                Step::Again => {}
                Step::Answered(access) => {
                    self.served += 1;
                    if let Some(log) = &mut self.config.log {
                        log(&access);
                    }
                }
                Step::Close => {
                    conn.close(now);
                    session.phase = Phase::Closing;
                }
                Step::Abort => {
                    conn.abort(now);
                    session.phase = Phase::Closing;
                    return;
                }
            }
        }
    }
}

impl App for FileServer {
    fn on_event(&mut self, endpoint: &mut Endpoint, now: Instant, id: ConnId, event: Event) {
        match event {
            Event::Accepted { local, remote } => {
                let announce = !self.config.announce.is_empty();
                self.sessions.insert(id, Session::new(now, id, (local, remote), announce));
            }
            Event::Closed(_) => {
                self.sessions.remove(&id);
                return;
            }
            Event::Fallback(_) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.announce = false;
                }
            }
            _ => {}
        }
        if let (Some(session), Some(conn)) = (self.sessions.get_mut(&id), endpoint.connection(id)) {
            session.announce(conn, now, &self.config.announce);
        }
        self.pump(endpoint, now, id);
    }

    fn on_wakeup(&mut self, endpoint: &mut Endpoint, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP;
        for (id, session) in &self.sessions {
            let idle = now.saturating_since(session.moved) > self.config.idle_timeout;
            if idle
                && session.reading
                && let Some(conn) = endpoint.connection(*id)
            {
                conn.abort(now);
            }
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        (!self.sessions.is_empty()).then_some(self.next_sweep)
    }

    fn on_stop(&mut self, endpoint: &mut Endpoint, now: Instant) {
        for id in self.sessions.keys() {
            if let Some(conn) = endpoint.connection(*id) {
                conn.abort(now);
            }
        }
    }

    fn set_reading(&mut self, endpoint: &mut Endpoint, now: Instant, id: ConnId, on: bool) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.reading = on;
            session.moved = now;
        }
        self.pump(endpoint, now, id);
    }
}
