//! The values that pass between a connection and its subflows: chunks and states, what a segment or
//! a timer brought, and segments to send.

use crate::record::{CloseReason, DropReason};
use crate::seq::{Dsn, Ssn};
use bytes::Bytes;
use tabane_wire::Segment;

/// Data bound to a subflow: refcounted bytes and the data position of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    /// Data position of the first byte.
    pub(crate) dsn: Dsn,
    /// The bytes; never empty, at most [`SubflowView::mss`](crate::view::SubflowView::mss) long.
    pub(crate) data: Bytes,
}

/// Which mapping (RFC 8684 section 3.3.1) covers a chunk: one of its own, one that begins with it
/// and covers those after it too, or one that began with a chunk before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span(u16);

impl Span {
    /// A mapping for it alone.
    pub(crate) const OWN: Self = Self(0);
    /// That of a chunk before it.
    pub(crate) const WITHIN: Self = Self(1);

    /// A mapping of `bytes` that begins with it; more than its own.
    pub(crate) fn first(bytes: u16) -> Self {
        debug_assert!(bytes > 1);
        Self(bytes)
    }

    /// Whether it needs no mapping.
    #[inline]
    pub(crate) fn is_within(self) -> bool {
        self == Self::WITHIN
    }

    /// How many bytes a mapping that begins with it covers, if more than its own.
    #[inline]
    pub(crate) fn bytes(self) -> Option<u16> {
        (self.0 > 1).then_some(self.0)
    }

    /// That of what follows when a part is cut off.
    pub(crate) fn rest(self) -> Self {
        if self == Self::OWN { self } else { Self::WITHIN }
    }
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
    /// Gone; `Tcb::close_reason` says why.
    Closed,
}

/// What a segment brought. `Default` is "nothing".
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Accepted {
    /// The segment was dropped (an answer may be due all the same).
    pub(crate) dropped: Option<DropReason>,
    /// The handshake completed with this segment.
    pub(crate) established: bool,
    /// Payload within the window, as it came, at its position. May overlap what came before.
    pub(crate) payload: Option<(Ssn, Bytes)>,
    /// Whether nothing in the segment was new to this subflow (a copy of a copy).
    pub(crate) duplicate: bool,
    /// SND.UNA advanced to here (counts SYN at 0 and FIN).
    pub(crate) acked_to: Option<Ssn>,
    /// The acknowledgement field was acceptable and the window field is this many bytes, scaled:
    /// space for the peer from its acknowledgement (or DATA_ACK) on.
    pub(crate) window: Option<u64>,
    /// The peer's FIN has been reached, nothing before it is missing.
    pub(crate) fin: bool,
    /// Our FIN has been acknowledged.
    pub(crate) fin_acked: bool,
    /// The subflow closed with this segment.
    pub(crate) closed: Option<CloseReason>,
}

/// What `on_timeout` did that the connection must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Expired {
    /// A retransmission timeout fired; the value counts those in a row.
    pub(crate) rto: Option<u32>,
    /// Two round trips have passed without an acknowledgement of the data in flight.
    pub(crate) unresponsive: bool,
    /// The SYN or SYN+ACK is not answered within the expected round trip.
    pub(crate) unanswered: bool,
    /// The subflow gave up or its TIME-WAIT ended.
    pub(crate) closed: Option<CloseReason>,
}

/// A segment to send: TCP complete, MPTCP options still to be added by the connection, which may
/// cut SACK blocks to make space. It is filled in where the caller wants it: what has just been
/// written bit by bit is slow to be copied as a whole.
#[derive(PartialEq, Debug)]
pub(crate) struct Outgoing<'s> {
    /// Addresses, numbers, flags, window, timestamps, SACK, payload.
    pub(crate) segment: &'s mut Segment,
    /// What it is for; decides its MPTCP options.
    pub(crate) kind: Kind,
    /// Position of its first byte (or of SYN, FIN).
    pub(crate) ssn: Ssn,
    /// Data position of its payload; `None` without payload.
    pub(crate) dsn: Option<Dsn>,
    /// Which mapping covers that.
    pub(crate) span: Span,
    /// Its payload (or SYN, FIN) was sent before.
    pub(crate) retransmission: bool,
    /// A copy of a SYN or SYN+ACK, for another path.
    pub(crate) copy: bool,
}

impl<'s> Outgoing<'s> {
    /// Without payload, for the first time.
    pub(crate) fn empty(segment: &'s mut Segment, kind: Kind, ssn: Ssn) -> Self {
        let (dsn, span) = (None, Span::OWN);
        Self { segment, kind, ssn, dsn, span, retransmission: false, copy: false }
    }
}

/// What a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// SYN of an active open (`Outgoing::retransmission` tells a repeat).
    Syn,
    /// SYN+ACK (also of a simultaneous open).
    SynAck,
    /// Carries payload (perhaps a FIN too).
    Data,
    /// A FIN without payload.
    Fin,
    /// No payload: acknowledgement, window update, challenge.
    Ack,
    /// No payload, and an old number: keepalive or window probe. Peers answer it, and many read no
    /// option of it.
    Probe,
    /// An RST.
    Reset,
}
