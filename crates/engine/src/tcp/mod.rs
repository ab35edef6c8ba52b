//! One TCP subflow (RFC 9293): handshake, acknowledgements, loss recovery, timers, closing.
//!
//! The subflow never calls up. The connection pushes [`Chunk`]s down and pulls [`Outgoing`]
//! segments out; what a segment brought comes back as an [`Accepted`] value. It knows no data
//! sequence numbers beyond the label on a chunk, no scheduler, no siblings, and no reassembly:
//! payload goes up as it arrives. Chunks stay here until acknowledged, so that retransmission is
//! local; a segment never spans two chunks.

use crate::config::TcpConfig;
use crate::policy::{PolicyError, Spec};
use crate::record::{CloseReason, DropReason, RecordLog};
use crate::seq::{Dsn, Ssn};
use crate::time::{Duration, Instant};
use crate::view::{PathId, SubflowId, SubflowView};
use bytes::Bytes;
use std::net::SocketAddr;
use tabane_wire::{Segment, SeqNum};

/// Data bound to a subflow: refcounted bytes and the data position of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Data position of the first byte.
    pub dsn: Dsn,
    /// The bytes; never empty, at most [`SubflowView::mss`] long.
    pub data: Bytes,
}

/// What a subflow is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its slot.
    pub id: SubflowId,
    /// Its path.
    pub path: PathId,
    /// Largest IP packet of that path, bytes.
    pub mtu: u16,
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Initial send sequence number (RFC 6528; the endpoint makes it).
    pub iss: u32,
    /// Offset of this connection's timestamps (RFC 7323 section 5.4).
    pub timestamp_offset: u32,
    /// Congestion control.
    pub congestion: Spec,
    /// Largest window we will ever advertise: decides the window scale.
    pub window_max: u64,
}

/// States of RFC 9293 section 3.3.2 (LISTEN is the endpoint's, CLOSED is `Closed`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received, ours sent.
    SynReceived,
    /// Open.
    Established,
    /// We closed first; FIN sent or about to be.
    FinWait1,
    /// Our FIN is acknowledged.
    FinWait2,
    /// The peer closed first.
    CloseWait,
    /// Both closed at once.
    Closing,
    /// The peer closed first, then we.
    LastAck,
    /// Waiting for old segments to die.
    TimeWait,
    /// Gone; [`Tcb::close_reason`] says why.
    Closed,
}

/// What a segment brought. `Default` is "nothing".
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Accepted {
    /// The segment was dropped (an answer may be due all the same).
    pub dropped: Option<DropReason>,
    /// The handshake completed with this segment.
    pub established: bool,
    /// Payload within the window, as it came, at its position. May overlap what came before.
    pub payload: Option<(Ssn, Bytes)>,
    /// Whether nothing in the segment was new to this subflow (a copy of a copy).
    pub duplicate: bool,
    /// SND.UNA advanced to here (counts SYN at 0 and FIN).
    pub acked_to: Option<Ssn>,
    /// The acknowledgement field was acceptable and the window field is this many bytes, scaled:
    /// room for the peer from its acknowledgement (or DATA_ACK) on.
    pub window: Option<u64>,
    /// The peer's FIN has been reached, nothing before it is missing.
    pub fin: bool,
    /// Our FIN has been acknowledged.
    pub fin_acked: bool,
    /// The subflow closed with this segment.
    pub closed: Option<CloseReason>,
}

/// What `on_timeout` did that the connection must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expired {
    /// A retransmission timeout fired: the how-manieth in a row.
    pub rto: Option<u32>,
    /// The subflow gave up or its TIME-WAIT ended.
    pub closed: Option<CloseReason>,
}

/// A segment to send: TCP complete, MPTCP options still to be added by the connection, which may
/// cut SACK blocks to make room.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing {
    /// Addresses, numbers, flags, window, timestamps, SACK, payload.
    pub segment: Segment,
    /// What it is.
    pub kind: Kind,
    /// Position of its first byte (or of SYN, FIN).
    pub ssn: Ssn,
    /// Data position of its payload; `None` without payload.
    pub dsn: Option<Dsn>,
    /// Sent before.
    pub retransmission: bool,
}

/// What a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// SYN of an active open (`Outgoing::retransmission` tells a repeat).
    Syn,
    /// SYN+ACK (also of a simultaneous open).
    SynAck,
    /// Carries payload (perhaps a FIN too).
    Data,
    /// FIN without payload.
    Fin,
    /// No payload: acknowledgement, window update, probe, keepalive, challenge.
    Ack,
    /// Reset.
    Reset,
}

/// One subflow.
pub struct Tcb {
    /// Records of this subflow, drained by the connection (which fills in its id).
    pub log: RecordLog,
}

#[allow(unused_variables, missing_docs)]
impl Tcb {
    /// Active open: in SYN-SENT; the SYN comes out of `poll_segment`.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub fn connect(now: Instant, config: &TcpConfig, setup: Setup) -> Result<Self, PolicyError> {
        todo!()
    }

    /// Passive open upon `syn` (SYN without ACK, which the caller has checked): SYN-RECEIVED.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub fn accept(
        now: Instant,
        config: &TcpConfig,
        setup: Setup,
        syn: &Segment,
    ) -> Result<Self, PolicyError> {
        todo!()
    }

    /// Processes a segment of this 4-tuple (RFC 9293 section 3.10.7). `siblings`: pictures of all
    /// subflows of the connection.
    pub fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        siblings: &[SubflowView],
    ) -> Accepted {
        todo!()
    }

    /// Runs every timer that is due.
    pub fn on_timeout(&mut self, now: Instant, siblings: &[SubflowView]) -> Expired {
        todo!()
    }

    /// When `on_timeout` wants to be called (RTO, TLP, reordering, delayed ACK, persist,
    /// keepalive, TIME-WAIT, pacing release).
    pub fn next_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// The next segment that this subflow owes or may send: handshake, resets, retransmissions,
    /// pushed chunks, FIN, ACKs that are due. `window`: bytes that the connection can take from
    /// its (data-level) acknowledgement on; the connection sees to it that the edge never shrinks.
    pub fn poll_segment(&mut self, now: Instant, window: u64) -> Option<Outgoing> {
        todo!()
    }

    /// Payload bytes of new data that may leave now: cwnd or PRR, pacing and the peer's subflow
    /// window. 0 unless ESTABLISHED or CLOSE-WAIT, or while retransmissions come first.
    pub fn sendable(&self, now: Instant) -> u64 {
        todo!()
    }

    /// Binds a chunk to the next positions; it leaves with the next `poll_segment`s, in order.
    /// The caller has asked `sendable` (a chunk pushed without room leaves all the same).
    pub fn push(&mut self, now: Instant, chunk: Chunk) -> Ssn {
        todo!()
    }

    /// Chunks bound and not yet acknowledged cumulatively, oldest first (those SACKed included).
    pub fn unacked(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::empty()
    }

    /// No more data will be pushed: FIN after what was.
    pub fn close(&mut self, now: Instant) {
        todo!()
    }

    /// Sends RST (if the state calls for it) and closes.
    pub fn abort(&mut self) {
        todo!()
    }

    /// An ACK (perhaps on data) leaves at the next `poll_segment`: window update, DATA_ACK, or
    /// an MPTCP option to carry.
    pub fn request_ack(&mut self) {
        todo!()
    }

    /// Data waits for the peer's window while nothing is in flight: run the persist timer, which
    /// sends old-sequence ACK probes with backoff and never gives up while they are answered.
    pub fn set_blocked(&mut self, now: Instant, blocked: bool) {
        todo!()
    }

    /// Bytes of option space that MPTCP needs on data segments; lowers `mss`.
    pub fn set_option_reserve(&mut self, bytes: u16) {
        todo!()
    }

    /// New path MTU (ICMP or probing): smaller segments from now on, also for retransmissions.
    pub fn set_mtu(&mut self, mtu: u16) {
        todo!()
    }

    /// Another controller, starting from the present window.
    ///
    /// # Errors
    /// [`PolicyError`] for an unknown congestion control.
    pub fn set_congestion(&mut self, now: Instant, spec: &Spec) -> Result<(), PolicyError> {
        todo!()
    }

    /// Penalisation by the scheduler (`CongestionController::on_penalty`).
    pub fn penalise(&mut self, now: Instant) {
        todo!()
    }

    /// The picture for policies; `backup` and `suspect` are the connection's to fill in.
    pub fn view(&self, now: Instant) -> SubflowView {
        todo!()
    }

    /// State.
    pub fn state(&self) -> State {
        todo!()
    }
    /// Why it closed; `None` unless `Closed`.
    pub fn close_reason(&self) -> Option<CloseReason> {
        todo!()
    }
    /// What it was made from.
    pub fn setup(&self) -> &Setup {
        todo!()
    }
    /// First position not acknowledged.
    pub fn snd_una(&self) -> Ssn {
        todo!()
    }
    /// Next position to bind (pushed data counts).
    pub fn snd_nxt(&self) -> Ssn {
        todo!()
    }
    /// Next position expected.
    pub fn rcv_nxt(&self) -> Ssn {
        todo!()
    }
    /// Peer's initial sequence number.
    pub fn irs(&self) -> SeqNum {
        todo!()
    }
    /// Position of a sequence number of the peer, nearest to `rcv_nxt`.
    pub fn position(&self, seq: SeqNum) -> Option<Ssn> {
        todo!()
    }
    /// Payload of a full segment.
    pub fn mss(&self) -> u64 {
        todo!()
    }
    /// Present retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        todo!()
    }
    /// Counters since the start.
    pub fn stats(&self) -> &Stats {
        todo!()
    }
}

/// Counters of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Payload bytes sent, repeats included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Payload bytes acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received, repeats included.
    pub bytes_received: u64,
    /// Of these, bytes that had been received before.
    pub bytes_duplicate: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Times fast recovery was entered.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Congestion responses undone.
    pub undone: u64,
    /// Tail loss probes sent.
    pub tail_loss_probes: u64,
    /// Segments dropped on arrival.
    pub dropped: u64,
}
