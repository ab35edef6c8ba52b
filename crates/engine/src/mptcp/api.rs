//! What applications see of a connection beside its methods: errors, policies, snapshots.

use crate::policy::Spec;
use crate::tcp;
use crate::time::Duration;
use crate::view::{PathId, SubflowId, SubflowView};
use crate::with::with;
use std::net::SocketAddr;
use thiserror::Error;

/// Why `add_subflow` was refused.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SubflowError {
    /// Plain TCP, or fallen back to it.
    #[error("the connection is plain TCP")]
    NotMptcp,
    /// Not yet fully established (RFC 8684 section 3.1), or closing.
    #[error("the connection is not established")]
    NotEstablished,
    /// There are as many subflows as `MptcpConfig::max_subflows` allows.
    #[error("too many subflows")]
    Limit,
    /// No path has the local address.
    #[error("no path has the local address")]
    NoPath,
    /// The peer's address is that of a group, broadcast or no address, or its port is 0 (RFC 9293
    /// section 3.9.2.3).
    #[error("subflows lead to a port of one host")]
    Address,
    /// The connection has no subflow with this id.
    #[error("no such subflow")]
    NoSubflow,
}

/// Which policy to change on a live connection.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// Which subflow carries the next data.
    Scheduler(Spec),
    /// How much may be in flight: on one subflow or, with `None`, on all and on those to come.
    Congestion(Option<SubflowId>, Spec),
    /// By which paths segments leave.
    Egress(Spec),
}

/// A snapshot of a connection, for applications, status pages and tests.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Info {
    /// MPTCP in use (no fallback).
    pub mptcp: bool,
    /// DSS checksums in use.
    pub checksum: bool,
    /// Our token (RFC 8684 section 3.1); 0 for plain TCP.
    pub token: u32,
    /// Bytes written by the application.
    pub written: u64,
    /// Bytes acknowledged at data level.
    pub acked: u64,
    /// Bytes received in order at data level.
    pub received: u64,
    /// Bytes read by the application.
    pub read: u64,
    /// Bytes held out of order.
    pub out_of_order: u64,
    /// Bytes received more than once at data level.
    pub duplicate: u64,
    /// Bytes sent again on another subflow.
    pub reinjected: u64,
    /// Receive buffer now, bytes.
    pub receive_buffer: u64,
    /// Receive window as it stands for the peer, bytes.
    pub receive_window: u64,
    /// The peer's connection-level window beyond what is acknowledged, bytes; `None` for plain
    /// TCP, where the subflow obeys it.
    pub send_window: Option<u64>,
    /// Bytes sent and not acknowledged at data level.
    pub outstanding: u64,
    /// Subflows in order of creation, the last few closed ones included.
    pub subflows: Vec<SubflowInfo>,
}

/// A snapshot of a subflow.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SubflowInfo {
    /// How many its connection had before it.
    pub number: u32,
    /// The snapshot that policies get.
    pub view: SubflowView,
    /// The path that has its local address.
    pub path: PathId,
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// State of its TCP connection.
    pub state: tcp::State,
    /// Retransmission timeout (RFC 6298), backoff included.
    pub rto: Duration,
    /// Counters since it was opened.
    pub stats: tcp::Stats,
    /// Payload bytes received on it that were new at data level.
    pub delivered: u64,
}

impl SubflowInfo {
    /// An established subflow between two addresses, ours first, of which only the view is known.
    pub fn new(view: SubflowView, [local, remote]: [SocketAddr; 2]) -> Self {
        Self {
            number: 0,
            view,
            path: view.path,
            local,
            remote,
            state: tcp::State::Established,
            rto: Duration::ZERO,
            stats: tcp::Stats::default(),
            delivered: 0,
        }
    }
}

with!(Info, SubflowInfo);
