//! Values of records in words: snake case, as files and tables spell them. A name never changes.

use crate::congestion::{CcPhase, CongestionKind};
use crate::event::Event;
use crate::record::{CloseReason, DropReason, FallbackReason, ReinjectReason};
use crate::scheduler::Reason;
use crate::view::RecoveryPhase;

impl DropReason {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::BadAddress => "bad_address",
            Self::Malformed => "malformed",
            Self::NoConnection => "no_connection",
            Self::OutOfWindow => "out_of_window",
            Self::Paws => "paws",
            Self::BadAck => "bad_ack",
            Self::BadReset => "bad_reset",
            Self::BadSyn => "bad_syn",
            Self::UnknownToken => "unknown_token",
            Self::BadHmac => "bad_hmac",
            Self::Limit(_) => "limit",
            Self::DssChecksum => "dss_checksum",
            Self::Unmapped => "unmapped",
            Self::BadMapping => "bad_mapping",
            Self::BadFlags => "bad_flags",
        }
    }
}

impl ReinjectReason {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unresponsive => "silence",
            Self::SubflowClosed => "subflow_closed",
            Self::Stale => "stale",
            Self::Opportunistic => "opportunistic",
            Self::DataTimeout => "data_timeout",
            Self::Replica => "replica",
        }
    }
}

impl CloseReason {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Reset(_) => "reset",
            Self::Aborted => "aborted",
            Self::FastClose => "fast_close",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Mptcp(_) => "mptcp",
        }
    }
}

impl FallbackReason {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::PeerPlain => "peer_plain",
            Self::OptionsStripped => "options_stripped",
            Self::NoDataAck => "no_data_ack",
            Self::Checksum => "checksum",
            Self::InfiniteMapping => "infinite_mapping",
            Self::Mismatch => "mismatch",
        }
    }
}

impl Reason {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnlyChoice => "only_choice",
            Self::LowestRtt => "lowest_rtt",
            Self::Turn => "turn",
            Self::Replicated => "replicated",
            Self::SoonestArrival => "soonest_arrival",
            Self::ShortestQueue => "shortest_queue",
            Self::NoSpace => "no_room",
            Self::BackupHeld => "backup_held",
            Self::PotentiallyFailedHeld => "suspect_held",
            Self::AwaitsTurn(_) => "awaits_turn",
            Self::WaitingIsFaster { .. } => "waiting_is_faster",
            Self::WouldBlock { .. } => "would_block",
            Self::Explores { .. } => "explores",
        }
    }
}

impl CcPhase {
    /// As files spell it, in snake case; a phase of the controller's own is `phase3`.
    pub fn name(self) -> std::borrow::Cow<'static, str> {
        match self {
            Self::SlowStart => "slow_start".into(),
            Self::ConservativeSlowStart => "conservative_slow_start".into(),
            Self::Avoidance => "avoidance".into(),
            Self::Other(n) => format!("phase{n}").into(),
        }
    }
}

impl CongestionKind {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Rto => "rto",
            Self::Ecn => "ecn",
        }
    }
}

impl RecoveryPhase {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}

impl Event {
    /// As files spell it, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Incoming { .. } => "incoming",
            Self::Accepted { .. } => "accepted",
            Self::Readable => "readable",
            Self::Writable => "writable",
            Self::PeerFinished => "peer_finished",
            Self::Flushed => "flushed",
            Self::Closed(_) => "closed",
            Self::SubflowEstablished(_) => "subflow_established",
            Self::SubflowClosed(..) => "subflow_closed",
            Self::AddressAnnounced { .. } => "address_announced",
            Self::AddressRemoved { .. } => "address_removed",
            Self::Fallback(_) => "fallback",
        }
    }
}
