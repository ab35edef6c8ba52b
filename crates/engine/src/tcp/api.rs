//! The values that pass between a connection and its subflows: chunks and states, what a segment or
//! a timer brought, and segments to send.

use crate::record::{CloseReason, DropReason};
use crate::seq::{Dsn, Ssn};
use bytes::Bytes;
use tabane_wire::Segment;

/// Data bound to a subflow: refcounted bytes and the data position of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Data position of the first byte.
    pub dsn: Dsn,
    /// The bytes; never empty, at most [`SubflowView::mss`](crate::view::SubflowView::mss) long.
    pub data: Bytes,
}

/// States of RFC 9293 section 3.3.2 (LISTEN is the endpoint's, CLOSED is `Closed`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// We have sent a SYN.
    SynSent,
    /// SYN received, ours sent.
    SynReceived,
    /// Both directions are open.
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
    /// space for the peer from its acknowledgement (or DATA_ACK) on.
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
    /// A retransmission timeout fired; the value counts those in a row.
    pub rto: Option<u32>,
    /// Two round trips have passed without an acknowledgement of the data in flight.
    pub unresponsive: bool,
    /// The subflow gave up or its TIME-WAIT ended.
    pub closed: Option<CloseReason>,
}

/// A segment to send: TCP complete, MPTCP options still to be added by the connection, which may
/// cut SACK blocks to make space. It is filled in where the caller wants it: what has just been
/// written bit by bit is slow to be copied as a whole.
#[derive(PartialEq, Debug)]
pub struct Outgoing<'s> {
    /// Addresses, numbers, flags, window, timestamps, SACK, payload.
    pub segment: &'s mut Segment,
    /// What it is for; decides its MPTCP options.
    pub kind: Kind,
    /// Position of its first byte (or of SYN, FIN).
    pub ssn: Ssn,
    /// Data position of its payload; `None` without payload.
    pub dsn: Option<Dsn>,
    /// Its payload (or SYN, FIN) was sent before.
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
    /// A FIN without payload.
    Fin,
    /// No payload: acknowledgement, window update, probe, keepalive, challenge.
    Ack,
    /// An RST.
    Reset,
}
