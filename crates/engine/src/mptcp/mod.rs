//! A connection (RFC 8684): one or more subflows, one stream of data in each direction. Plain TCP
//! is a connection with one subflow and no MPTCP options: there `Dsn` and `Ssn` coincide.
//!
//! The life of a segment. Out: [`Connection::write`] puts data into `buffer.rs`; `poll` (in
//! `send.rs`) first sends what subflows have pending, then binds data to a subflow that can send
//! it now (`assign.rs`); `options.rs` adds the MPTCP options. In: `receive.rs` hands a segment to
//! its subflow, reads its options, maps its payload (`mapping.rs`) and reassembles it
//! (`reassembly.rs`).

use crate::cache::{fetch_from, fetch_front};
use crate::config::{Config, TcpConfig};
use crate::endpoint::Departure;
use crate::event::{ConnId, Event};
use crate::policy::{PolicyError, Spec};
use crate::record::{CloseReason, RecordLog, What};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathSet, SubflowId, SubflowSet, SubflowView};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

mod address;
mod api;
mod assign;
mod buffer;
mod close;
pub mod crypto;
mod fallback;
mod handshake;
mod hedge;
mod keys;
mod mapping;
mod mesh;
mod opportunistic;
mod options;
mod overdue;
mod paths;
mod reassembly;
mod receive;
mod receiver;
mod reinject;
mod route;
mod scheduling;
mod send;
mod sender;
mod session;
mod steer;
mod subflow;
mod tail_reinjection;
mod timers;
mod window;

pub use api::{Info, Policy, SubflowError, SubflowInfo};
pub(crate) use hedge::PathRtts;
pub(crate) use keys::OwnKey;
use receiver::Receiver;
use route::EgressState;
use scheduling::Scheduling;
use sender::Sender;
pub(crate) use session::{ClosedTuple, Opening, Request};
use session::{Protocol, Session};
use subflow::Subflow;

/// One stream of data in each direction, over one or more subflows (MPTCP), or over one (plain
/// TCP).
///
/// # Contract
///
/// The application gets it from [`Endpoint::connection`](crate::Endpoint::connection), for one use
/// at a time: whatever it changes takes effect with the endpoint's next poll.
///
/// - `write` takes as much as the send buffer has space for. After a short write `Event::Writable`
///   says when to go on. `read` returns data in order; `Event::Readable` comes again only after
///   `read` has returned `None`.
/// - `close` ends only our direction, after all that was written; `Event::Flushed` says that the
///   peer has it. `abort` ends both at once.
/// - It is over, with one `Event::Closed`, when both directions have ended and everything has been
///   read, or at once if it is reset, aborted or given up.
/// - Losing a subflow loses no data: whatever the peer has not acknowledged at data level goes by
///   the others, or by the next one if there is none.
///
/// The endpoint feeds it with segments and timeouts and polls it for segments; it never calls up.
// In the order of how often fields are needed: with thousands of connections each cache line that a
// segment touches is a miss.
#[repr(C)]
pub struct Connection {
    id: ConnId,
    now: Instant,
    /// Subflows that may have something to send; `poll` asks these.
    pending: SubflowSet,
    /// Live subflows in order of creation.
    subflows: Vec<Subflow>,
    protocol: Protocol,
    role: Role,
    established: bool,
    reported: bool,
    ended: Option<CloseReason>,
    config: Arc<Config>,
    log: RecordLog,
    /// `None` is `own`, which always answers the subflow's own path.
    egress: Option<Box<EgressState>>,
    /// Snapshots for policies, in the order of `subflows`; those in `outdated` are to be refreshed.
    outdated: SubflowSet,
    views: Vec<SubflowView>,
    events: VecDeque<Event>,
    /// Segments that closed subflows still have to send: resets, mostly.
    pending_resets: VecDeque<Departure>,
    /// Subflows that the endpoint is to open.
    requests: Vec<Request>,
    /// 4-tuples that the endpoint may forget or keep in TIME-WAIT.
    closed_tuples: Vec<ClosedTuple>,
    send: Sender,
    receive: Receiver,
    // From here on: rarely.
    scheduling: Scheduling,
    /// `config.tcp`, for subflows to come.
    tcp: Arc<TcpConfig>,
    congestion: Option<Spec>,
    /// Slots in use or reserved by a request.
    slots: SubflowSet,
    /// Paths that the driver says are down.
    paths_down: PathSet,
    /// What the driver has said about MTUs; else they are as configured.
    mtus: Option<Mtus>,
    /// What the endpoint expects of paths, if openings are hedged.
    path_rtts: Option<PathRtts>,
    /// What handshakes have said of paths, until the endpoint takes it; one a subflow.
    opening_rtts: Vec<(PathId, Duration)>,
    /// Subflows so far, those that are no more included.
    created: u32,
    /// The last states of the subflows that closed last.
    closed_subflows: VecDeque<SubflowInfo>,
    /// Scheduler and egress that were set since it was opened.
    steered: Option<Box<[Option<Spec>; 2]>>,
}

/// MTUs of paths, shared by an endpoint's connections.
pub(crate) type Mtus = Arc<Vec<(PathId, u16)>>;

/// Which end we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// We connected.
    Client,
    /// We accepted.
    Server,
}

impl Connection {
    /// Queues data; returns how many bytes of the front were taken (send buffer limit), and
    /// advances `data` past them. `Event::Writable` follows a short write.
    pub fn write(&mut self, data: &mut Bytes) -> usize {
        if self.send.is_closed() || self.ended.is_some() {
            return 0;
        }
        self.send.write(data, self.config.tcp.send_buffer)
    }

    /// Room in the send buffer, bytes.
    pub fn writable(&self) -> u64 {
        if self.send.is_closed() || self.ended.is_some() {
            return 0;
        }
        self.send.writable(self.config.tcp.send_buffer)
    }

    /// From now on the send buffer holds no more than that, bytes, and no more than the
    /// configuration says; what it holds already stays.
    pub fn limit_send_buffer(&mut self, bytes: u64) {
        self.send.set_limit(bytes);
    }

    /// The next bytes in order, at most `max`; `None` when there are none now.
    pub fn read(&mut self, max: usize) -> Option<Bytes> {
        if max == 0 {
            return None;
        }
        self.receive.read(max)
    }

    /// Bytes that `read` would return.
    pub fn readable(&self) -> u64 {
        self.receive.readable()
    }

    /// Whether the peer has finished and everything has been read.
    pub fn is_finished(&self) -> bool {
        self.receive.is_finished() && self.receive.readable() == 0
    }

    /// No more data will be written (DATA_FIN, FIN). Reading goes on. The connection is over
    /// (`Event::Closed`) when the peer has finished too and everything has been read.
    pub fn close(&mut self, _now: Instant) {
        self.send.close();
    }

    /// Ends the connection at once: MP_FASTCLOSE or RST. What has arrived and was not read is
    /// discarded (RFC 9293 section 3.10.5), also where the connection is over and its end waits to
    /// be reported until somebody has read everything.
    pub fn abort(&mut self, now: Instant) {
        self.now = now;
        self.abort_all(CloseReason::Aborted);
        while self.read(usize::MAX).is_some() {}
    }

    /// Opens a subflow (MP_JOIN) from `local` (port 0: ephemeral) to `remote`. It is closed again,
    /// with an event, if no port is free.
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
        self.now = now;
        self.request_subflow(local, remote, backup)
    }

    /// Closes a subflow; its data goes on by the others.
    ///
    /// # Errors
    /// [`SubflowError::NoSubflow`].
    pub fn close_subflow(&mut self, now: Instant, id: SubflowId) -> Result<(), SubflowError> {
        self.now = now;
        let at = self.index(id).ok_or(SubflowError::NoSubflow)?;
        self.forbid_mesh(at);
        self.shut_subflow(at);
        Ok(())
    }

    /// Resets a subflow (MP_TCPRST); its data goes on by the others.
    ///
    /// # Errors
    /// [`SubflowError::NoSubflow`].
    pub fn reset_subflow(&mut self, now: Instant, id: SubflowId) -> Result<(), SubflowError> {
        self.now = now;
        let at = self.index(id).ok_or(SubflowError::NoSubflow)?;
        self.forbid_mesh(at);
        self.reset_at(at, subflow::reset_reason::UNSPECIFIED, CloseReason::Aborted);
        Ok(())
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
        self.now = now;
        let at = self.index(id).ok_or(SubflowError::NoSubflow)?;
        self.steer_backup(at, backup);
        Ok(())
    }

    /// Changes a policy from now on.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn set_policy(&mut self, now: Instant, policy: Policy) -> Result<(), PolicyError> {
        self.now = now;
        self.steer_policy(policy)
    }

    /// Announces an address of ours (ADD_ADDR, repeated until echoed); its id. Port 0 names no
    /// port: the peer uses the one that it knows.
    ///
    /// # Errors
    /// [`SubflowError`].
    pub fn announce(&mut self, now: Instant, address: SocketAddr) -> Result<u8, SubflowError> {
        self.now = now;
        self.announce_address(address)
    }

    /// Withdraws addresses of ours (REMOVE_ADDR) and closes our subflows from them.
    pub fn withdraw(&mut self, now: Instant, address_ids: &[u8]) {
        self.now = now;
        self.withdraw_addresses(address_ids);
    }

    /// A snapshot of the connection.
    pub fn info(&self, now: Instant) -> Info {
        self.snapshot(now)
    }

    /// The policies that are in force: scheduler, congestion control of subflows to come, egress.
    #[must_use]
    pub fn policies(&self) -> [&Spec; 3] {
        let steered = |at: usize| self.steered.as_ref().and_then(|all| all[at].as_ref());
        let configured = &self.config.mptcp;
        [
            steered(0).unwrap_or(&configured.scheduler),
            self.congestion(),
            steered(1).unwrap_or(&configured.egress),
        ]
    }

    /// The id that the endpoint knows it by.
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// Asks for what a segment will need of the connection: see `cache.rs`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch_from(&self.id, self.receive.seldom());
    }

    /// As `prefetch`, once that has had its effect: the subflow. `data`: the segment brings some.
    #[inline]
    pub(crate) fn prefetch_subflows(&self, data: bool) {
        let Some(first) = self.subflows.first() else { return };
        fetch_from(first, &first.tcb);
        first.tcb.prefetch();
        if !data {
            first.tcb.prefetch_sender();
        }
    }

    /// As `prefetch_subflows`, once that has had its effect: what subflows point to, and buffers.
    #[inline]
    pub(crate) fn prefetch_queues(&self, data: bool) {
        if data {
            self.receive.prefetch();
            fetch_front(&self.events, 1);
            return;
        }
        if let Some(first) = self.subflows.first() {
            first.tcb.prefetch_queues();
        }
        self.send.prefetch();
    }

    /// The subflow that has these ends.
    #[inline]
    pub(crate) fn between(&self, local: SocketAddr, remote: SocketAddr) -> Option<SubflowId> {
        let has = |s: &&Subflow| {
            let setup = s.tcb.setup();
            setup.local == local && setup.remote == remote
        };
        self.subflows.iter().find(has).map(|s| s.id)
    }

    /// Called when nothing is left to send: subflows in TIME-WAIT leave the connection, and its end
    /// is reported if it is over. Returns whether there is something to send again.
    pub(crate) fn flush_closed(&mut self) -> bool {
        self.retire_time_wait();
        self.report_end();
        !self.pending_resets.is_empty() || !self.pending.is_empty()
    }

    /// Whether a subflow was asked for, or has closed: `take_request`, `take_closed_tuple`.
    #[inline]
    pub(crate) fn changes_flows(&self) -> bool {
        !self.requests.is_empty() || !self.closed_tuples.is_empty()
    }

    #[inline]
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if self.events.is_empty() {
            // It begins at its beginning again: that is in the caches.
            self.events.clear();
        }
        event
    }

    pub(crate) fn take_record(&mut self) -> Option<crate::record::Record> {
        self.log.pop()
    }

    /// The next 4-tuple whose subflow has closed.
    #[inline]
    pub(crate) fn take_closed_tuple(&mut self) -> Option<ClosedTuple> {
        self.closed_tuples.pop()
    }

    /// The own path of a subflow.
    #[inline]
    pub(crate) fn own_path(&self, id: SubflowId) -> Option<PathId> {
        self.subflows.iter().find(|s| s.id == id).map(|s| s.path)
    }

    /// Slot of a subflow in `subflows`.
    #[inline]
    fn index(&self, id: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|s| s.id == id)
    }

    /// Adds a record, if records are on.
    #[inline]
    fn note(&mut self, subflow: Option<SubflowId>, what: impl FnOnce() -> What) {
        self.log.add(self.now, Some(self.id), subflow, what);
    }

    /// Moves a subflow's records to ours.
    #[inline]
    fn drain_log(&mut self, at: usize) {
        if !self.log.is_on() {
            return;
        }
        while let Some(record) = self.subflows[at].tcb.log.pop() {
            self.log.add(record.at, Some(self.id), record.subflow, || record.what);
        }
    }

    /// Whether both directions of the stream are over.
    #[inline]
    fn is_stream_over(&self) -> bool {
        self.send.is_fin_acked() && self.receive.is_finished()
    }

    /// Whether MPTCP is spoken on this connection.
    #[inline]
    fn is_mptcp(&self) -> bool {
        matches!(self.protocol, Protocol::Mptcp(_))
    }

    /// Whether MPTCP was asked for and the peer's key is not known yet.
    #[inline]
    fn is_negotiating(&self) -> bool {
        matches!(self.protocol, Protocol::Opening(_))
    }
}
