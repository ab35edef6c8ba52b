//! What a driver gets from an endpoint: packets to send, counters, and why a request was refused.

use crate::policy::PolicyError;
use crate::view::{PathId, PathSet};
use std::net::SocketAddr;
use tabane_wire::Segment;
use thiserror::Error;

/// Counters of an endpoint: what belongs to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Packets that could not be parsed.
    pub malformed: u64,
    /// Segments for no connection and no listener, or refused by a limit.
    pub dropped: u64,
    /// Resets sent for no connection.
    pub resets: u64,
    /// Segments that another path had brought before (`MptcpConfig::remove_copies`).
    pub copies: u64,
    /// Segments that could not be put into the caller's buffer.
    pub unsendable: u64,
}

/// A segment to send, and the paths by which a copy leaves.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Departure {
    /// The paths by which a copy leaves; never empty.
    pub paths: PathSet,
    /// The TCP segment, with its addresses.
    pub segment: Segment,
}

/// Bytes to send: `len` bytes of the caller's buffer, by these paths.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Transmit {
    /// The paths by which a copy leaves; never empty.
    pub paths: PathSet,
    /// Length of the IP packet at the start of the buffer.
    pub len: usize,
}

/// A SYN that was refused because there are as many connections as `Limits::connections` allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TurnedAway {
    /// The path by which it came, and by which the reset leaves.
    pub path: PathId,
    /// Where it was to go.
    pub local: SocketAddr,
    /// Where it came from.
    pub remote: SocketAddr,
}

/// Why `connect` was refused.
#[derive(Error, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// No path has this local address.
    #[error("no path has the address {0}")]
    NoPath(std::net::IpAddr),
    /// The remote address is of a group, of everybody or of nobody (RFC 9293 section 3.9.2.3).
    #[error("{0} is no address of a host")]
    Address(std::net::IpAddr),
    /// Every ephemeral port to that destination is in use.
    #[error("no free port towards {0}")]
    NoPort(SocketAddr),
    /// There are as many connections as `Limits::connections` allows.
    #[error("too many connections (limit {0})")]
    Limit(usize),
    /// A policy named in the configuration.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Why `listen` was refused.
#[derive(Error, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there already.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// A policy named in the configuration.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}
