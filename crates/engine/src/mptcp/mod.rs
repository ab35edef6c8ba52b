//! A connection (RFC 8684): one or more subflows, one stream of data in each direction. Plain TCP
//! is a connection with one subflow and no MPTCP options.

use crate::policy::{PolicyError, Spec};
use crate::tcp;
use crate::time::{Duration, Instant};
use crate::view::{PathId, SubflowId, SubflowView};
use bytes::Bytes;
use std::net::SocketAddr;
use thiserror::Error;

/// A connection.
pub struct Connection {}

/// Why `add_subflow` was refused.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubflowError {
    /// Plain TCP, or fallen back to it.
    #[error("the connection is plain TCP")]
    NotMptcp,
    /// Not yet fully established (RFC 8684 section 3.1), or closing.
    #[error("the connection is not established")]
    NotEstablished,
    /// `MptcpConfig::max_subflows`.
    #[error("too many subflows")]
    Limit,
    /// No path has the local address.
    #[error("no path has the local address")]
    NoPath,
    /// No such subflow.
    #[error("no such subflow")]
    NoSubflow,
}

/// Which policy to change on a live connection.
#[derive(Clone, PartialEq, Debug)]
pub enum Policy {
    /// Which subflow.
    Scheduler(Spec),
    /// How much: on one subflow or, with `None`, on all and those to come.
    Congestion(Option<SubflowId>, Spec),
    /// Which way out.
    Egress(Spec),
}

/// A picture of a connection, for applications, status pages and tests.
#[derive(Clone, PartialEq, Debug, Default)]
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
    /// Subflows, closed ones included, in order of creation.
    pub subflows: Vec<SubflowInfo>,
}

/// A picture of a subflow.
#[derive(Clone, PartialEq, Debug)]
pub struct SubflowInfo {
    /// For policies.
    pub view: SubflowView,
    /// Its own path.
    pub path: PathId,
    /// Addresses.
    pub local: SocketAddr,
    /// See `local`.
    pub remote: SocketAddr,
    /// State.
    pub state: tcp::State,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Counters.
    pub stats: tcp::Stats,
    /// Payload bytes received on it that were new at data level.
    pub delivered: u64,
}

#[allow(unused_variables)]
impl Connection {
    /// Queues data; returns how many bytes of the front were taken (send buffer limit), and
    /// advances `data` past them. `Event::Writable` follows a short write.
    pub fn write(&mut self, data: &mut Bytes) -> usize {
        todo!()
    }

    /// Room in the send buffer, bytes.
    pub fn writable(&self) -> u64 {
        todo!()
    }

    /// The next bytes in order, at most `max`; `None` when there are none now.
    pub fn read(&mut self, max: usize) -> Option<Bytes> {
        todo!()
    }

    /// Bytes that `read` would return.
    pub fn readable(&self) -> u64 {
        todo!()
    }

    /// Whether the peer has finished and everything has been read.
    pub fn is_finished(&self) -> bool {
        todo!()
    }

    /// No more data will be written (DATA_FIN, FIN). Reading goes on.
    pub fn close(&mut self, now: Instant) {
        todo!()
    }

    /// Ends the connection at once: MP_FASTCLOSE or RST.
    pub fn abort(&mut self, now: Instant) {
        todo!()
    }

    /// Opens a subflow (MP_JOIN) from `local` (port 0: ephemeral) to `remote`.
    ///
    /// # Errors
    /// [`SubflowError`].
    pub fn add_subflow(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        backup: bool,
    ) -> Result<SubflowId, SubflowError> {
        todo!()
    }

    /// Closes a subflow; its data goes on by the others.
    ///
    /// # Errors
    /// [`SubflowError::NoSubflow`].
    pub fn close_subflow(&mut self, now: Instant, id: SubflowId) -> Result<(), SubflowError> {
        todo!()
    }

    /// Resets a subflow (MP_TCPRST); its data goes on by the others.
    ///
    /// # Errors
    /// [`SubflowError::NoSubflow`].
    pub fn reset_subflow(&mut self, now: Instant, id: SubflowId) -> Result<(), SubflowError> {
        todo!()
    }

    /// Changes the priority of a subflow here and, by MP_PRIO, at the peer.
    ///
    /// # Errors
    /// [`SubflowError::NoSubflow`].
    pub fn set_backup(
        &mut self,
        now: Instant,
        id: SubflowId,
        backup: bool,
    ) -> Result<(), SubflowError> {
        todo!()
    }

    /// Changes a policy from now on.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn set_policy(&mut self, now: Instant, policy: Policy) -> Result<(), PolicyError> {
        todo!()
    }

    /// Announces an address of ours (ADD_ADDR, repeated until echoed); its id.
    ///
    /// # Errors
    /// [`SubflowError`].
    pub fn announce(&mut self, now: Instant, address: SocketAddr) -> Result<u8, SubflowError> {
        todo!()
    }

    /// Withdraws addresses of ours (REMOVE_ADDR) and closes our subflows from them.
    pub fn withdraw(&mut self, now: Instant, address_ids: &[u8]) {
        todo!()
    }

    /// A picture.
    pub fn info(&self, now: Instant) -> Info {
        todo!()
    }
}
