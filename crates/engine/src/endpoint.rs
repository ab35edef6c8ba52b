//! The engine's face: many connections behind one state machine.
//!
//! Run loop of a driver: feed `handle_*`, then drain `poll_segment` (or `poll_transmit`),
//! `poll_event` and `poll_record` until each returns `None`, then sleep until `poll_timeout`.

use crate::config::Config;
use crate::event::{ConnId, Event};
use crate::mptcp::Connection;
use crate::policy::PolicyError;
use crate::record::Record;
use crate::time::Instant;
use crate::view::{PathId, PathSet};
use std::net::SocketAddr;
use tabane_wire::Segment;
use thiserror::Error;

/// Many connections, one per peer and port pair.
pub struct Endpoint {}

/// A segment to send, and the paths by which a copy leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Departure {
    /// Ways out; never empty.
    pub paths: PathSet,
    /// The segment.
    pub segment: Segment,
}

/// Bytes to send: `len` bytes of the caller's buffer, by these paths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transmit {
    /// Ways out; never empty.
    pub paths: PathSet,
    /// Length of the IP packet at the start of the buffer.
    pub len: usize,
}

/// Why `connect` was refused.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum ConnectError {
    /// No path has this local address.
    #[error("no path has the address {0}")]
    NoPath(std::net::IpAddr),
    /// Every ephemeral port to that destination is in use.
    #[error("no free port towards {0}")]
    NoPort(SocketAddr),
    /// `Limits::connections`.
    #[error("too many connections (limit {0})")]
    Limit(usize),
    /// A policy named in the configuration.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Why `listen` was refused.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum ListenError {
    /// Somebody listens there already.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// A policy named in the configuration.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

#[allow(unused_variables)]
impl Endpoint {
    /// An endpoint. Everything random in it comes from `seed`.
    ///
    /// # Errors
    /// A policy named in the configuration does not exist.
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, PolicyError> {
        todo!()
    }

    /// Accepts connections to `local`; an unspecified address is every address of every path,
    /// port 0 every port.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, local: SocketAddr) -> Result<(), ListenError> {
        todo!()
    }

    /// Opens a connection from `local` (port 0: an ephemeral one, RFC 6056) to `remote`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<ConnId, ConnectError> {
        todo!()
    }

    /// A connection, to read, write and steer. `None` once it is gone.
    pub fn connection(&mut self, id: ConnId) -> Option<&mut Connection> {
        todo!()
    }

    /// Takes a segment that came by `path`. Never fails: bad input is a record and a counter.
    pub fn handle_segment(&mut self, now: Instant, path: PathId, segment: Segment) {
        todo!()
    }

    /// The next segment to send.
    pub fn poll_segment(&mut self, now: Instant) -> Option<Departure> {
        todo!()
    }

    /// Takes an IP packet: parse and `handle_segment`.
    pub fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        todo!()
    }

    /// The next packet to send, written to the start of `buf` (at least the largest MTU).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        todo!()
    }

    /// When `handle_timeout` wants to be called next. May be early, never late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Runs every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        todo!()
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        todo!()
    }

    /// The next record, if `Config::records`.
    pub fn poll_record(&mut self) -> Option<Record> {
        todo!()
    }

    /// A path went down or came up (link state): subflows on it are suspect, or tried again.
    pub fn set_path_up(&mut self, now: Instant, path: PathId, up: bool) {
        todo!()
    }

    /// The MTU of a path changed.
    pub fn set_path_mtu(&mut self, now: Instant, path: PathId, mtu: u16) {
        todo!()
    }
}
