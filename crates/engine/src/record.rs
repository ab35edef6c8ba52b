//! Records: observations of the engine. The simulator, the gateway and the lab emit the same kind,
//! and every table, plot, metric and trace is made from them.

use crate::congestion::{CcPhase, CongestionKind};
use crate::event::ConnId;
use crate::scheduler::Reason;
use crate::seq::{Dsn, Ssn};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathSet, RecoveryPhase, SubflowId, SubflowSet};

/// Something that happened at one endpoint.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Record {
    /// When it happened, by the driver's clock.
    pub at: Instant,
    /// On which connection; `None` for what belongs to none.
    pub conn: Option<ConnId>,
    /// On which subflow, if on one.
    pub subflow: Option<SubflowId>,
    /// What happened, with its figures.
    pub what: What,
}

impl Record {
    /// A record of something.
    pub fn new(at: Instant, conn: Option<ConnId>, subflow: Option<SubflowId>, what: What) -> Self {
        Self { at, conn, subflow, what }
    }
}

/// The kinds of observation, with their figures.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum What {
    /// A segment left.
    Sent {
        /// The paths by which copies of it left.
        paths: PathSet,
        /// First subflow position, payload length.
        ssn: Ssn,
        /// Payload length, bytes.
        len: u32,
        /// First data position, for segments with payload.
        dsn: Option<Dsn>,
        /// Sent before on this subflow.
        retransmission: bool,
    },
    /// A segment was accepted.
    Received {
        /// The path by which it came.
        path: PathId,
        /// Subflow position of its first byte.
        ssn: Ssn,
        /// Payload length, bytes.
        len: u32,
        /// Nothing in it was new.
        duplicate: bool,
    },
    /// A segment or packet was dropped.
    Dropped {
        /// Why it was dropped.
        reason: DropReason,
    },
    /// cwnd, ssthresh or phase of a subflow changed.
    Window {
        /// Congestion window, bytes.
        cwnd: u64,
        /// Bytes; `u64::MAX` if none.
        ssthresh: u64,
        /// The phase that the controller reports.
        phase: CcPhase,
        /// RFC 6675's pipe, bytes.
        in_flight: u64,
    },
    /// An RTT sample was taken.
    Rtt {
        /// The sample.
        sample: Duration,
        /// Smoothed RTT, after it.
        srtt: Duration,
        /// Retransmission timeout, after it.
        rto: Duration,
    },
    /// A congestion signal reached the controller.
    Congestion(CongestionKind),
    /// Loss recovery entered this phase.
    Recovery(RecoveryPhase),
    /// Loss marks were undone: the retransmission was spurious.
    Undone,
    /// A tail loss probe left (RFC 8985 section 7).
    TailLossProbe,
    /// A retransmission timeout fired.
    Timeout {
        /// How many in a row.
        backoff: u32,
    },
    /// Receive window as advertised and as used by the peer's sender.
    ReceiveWindow {
        /// Bytes advertised, from what is in order on.
        window: u64,
        /// Buffer size now, bytes.
        buffer: u64,
    },
    /// The peer's connection-level window.
    SendWindow {
        /// Bytes beyond what is acknowledged at data level.
        window: u64,
        /// Bytes sent and not acknowledged at data level.
        outstanding: u64,
    },
    /// The scheduler placed data (or held it).
    Decision {
        /// Data position of the first byte.
        dsn: Dsn,
        /// Those that could carry it.
        eligible: SubflowSet,
        /// Those that carry it; empty if it is held.
        chosen: SubflowSet,
        /// Why the scheduler decided so.
        reason: Reason,
    },
    /// A policy's answer was not possible and another was taken.
    PolicyRefused {
        /// Which policy: `scheduler` or `egress`.
        policy: &'static str,
    },
    /// Data goes again, on another subflow.
    Reinjected {
        /// Data position of the first byte.
        dsn: Dsn,
        /// Length, bytes.
        len: u32,
        /// Why it is sent again.
        why: ReinjectReason,
    },
    /// A gap in the data has been filled, which had held up what came behind it.
    GapFilled {
        /// Since the first byte behind it came, or since it became the first gap.
        delay: Duration,
    },
    /// A subflow opened, closed or changed.
    Subflow(SubflowChange),
    /// The connection fell back to plain TCP (RFC 8684 section 3.7).
    Fallback(FallbackReason),
    /// A connection opened or closed.
    Connection(ConnectionChange),
}

/// Why a segment was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// Not parsable, or a wrong checksum.
    Malformed,
    /// For no connection and no listener (answered with RST).
    NoConnection,
    /// Outside the receive window (RFC 9293 section 3.10.7.4).
    OutOfWindow,
    /// Timestamp too old (RFC 7323 section 5).
    Paws,
    /// Acknowledges what was never sent, or too old (RFC 5961 section 5).
    BadAck,
    /// RST that is not exactly at RCV.NXT (RFC 5961 section 3).
    BadReset,
    /// SYN on a synchronised connection (RFC 5961 section 4).
    BadSyn,
    /// MP_JOIN with an unknown token.
    UnknownToken,
    /// MP_JOIN or ADD_ADDR with a wrong HMAC.
    BadHmac,
    /// A limit was reached: SYN backlog, connections, pending joins, subflows.
    Limit(&'static str),
    /// The DSS checksum does not fit the data.
    DssChecksum,
    /// Data that no mapping covers.
    Unmapped,
    /// Mapping that contradicts an earlier one or the window.
    BadMapping,
    /// Wrong flags for the state.
    BadFlags,
    /// Another path had brought it before.
    Copy,
    /// From or to a group, or everybody, or an announcement of such (RFC 9293 section 3.9.2.3).
    BadAddress,
}

/// Why data went again on another subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReinjectReason {
    /// Its subflow had a retransmission timeout.
    Timeout,
    /// Its subflow had not been answered for two round trips while others were.
    Unresponsive,
    /// Its subflow was closed or reset.
    SubflowClosed,
    /// Its subflow went stale.
    Stale,
    /// Opportunistic retransmission: it blocked the window.
    Opportunistic,
    /// The timer of the data level expired: no DATA_ACK came.
    DataTimeout,
    /// The redundant scheduler's copy.
    Replica,
}

/// Changes in a subflow's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SubflowChange {
    /// SYN sent or received.
    Opening,
    /// The handshake is done; it can carry data.
    Established,
    /// Priority, as seen from both sides.
    Backup(bool),
    /// Unanswered for too long (true), answered again (false).
    Stale(bool),
    /// It is closed, for this reason.
    Closed(CloseReason),
}

/// Why a subflow or a connection closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// Both ends closed it in order (FIN).
    Finished,
    /// RST from the peer; MP_TCPRST's reason code, if it had one.
    Reset(Option<u8>),
    /// We reset it.
    Aborted,
    /// MP_FASTCLOSE from the peer.
    FastClose,
    /// Too many retransmissions, keepalives or probes without an answer.
    TimedOut,
    /// SYN answered by RST.
    Refused,
    /// MPTCP handshake or data plane error; our MP_TCPRST reason code.
    Mptcp(u8),
}

/// Why a connection fell back to plain TCP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum FallbackReason {
    /// Peer does not speak MPTCP v1 (no MP_CAPABLE on its SYN or SYN+ACK).
    PeerPlain,
    /// Third ACK or first data without the option: stripped on the way.
    OptionsStripped,
    /// Data was acknowledged without a DATA_ACK.
    NoDataAck,
    /// Checksum failure with one subflow: MP_FAIL.
    Checksum,
    /// The peer sent an infinite mapping.
    InfiniteMapping,
    /// Versions or required flags do not match.
    Mismatch,
}

/// Changes in a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectionChange {
    /// The first SYN was sent or received.
    Opening,
    /// Established; true if MPTCP.
    Established(bool),
    /// Peer will send no more data.
    PeerFinished,
    /// It is closed, for this reason.
    Closed(CloseReason),
}

/// A buffer of records, which costs one test and one word while it is off.
///
/// Holds at most [`RecordLog::LIMIT`] records; beyond that the newest are counted and dropped.
#[derive(Default, Debug)]
pub struct RecordLog(Option<Box<Records>>);

#[derive(Default, Debug)]
struct Records {
    records: std::collections::VecDeque<Record>,
    lost: u64,
}

impl RecordLog {
    /// Records held at most between two drains.
    pub const LIMIT: usize = 1 << 16;

    /// A log, on or off.
    pub fn new(on: bool) -> Self {
        Self(on.then(Box::default))
    }

    /// Whether records are kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Switches it; switching it off forgets what is in it.
    pub fn set_on(&mut self, on: bool) {
        if on != self.is_on() {
            *self = Self::new(on);
        }
    }

    /// Adds a record if the log is on. `what` is not evaluated if it is off.
    #[inline]
    pub fn add(
        &mut self,
        at: Instant,
        conn: Option<ConnId>,
        subflow: Option<SubflowId>,
        what: impl FnOnce() -> What,
    ) {
        if let Some(records) = &mut self.0 {
            records.push(Record { at, conn, subflow, what: what() });
        }
    }

    /// Removes and returns the oldest record.
    pub fn pop(&mut self) -> Option<Record> {
        self.0.as_mut()?.records.pop_front()
    }

    /// Records dropped because nobody drained the log.
    pub fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, |records| records.lost)
    }
}

impl Records {
    fn push(&mut self, record: Record) {
        if self.records.len() < RecordLog::LIMIT {
            self.records.push_back(record);
        } else {
            self.lost += 1;
        }
    }
}
