//! Engine values in words: enum values in snake case, as every file and table of ours spells them.

use tabane_engine::congestion::{CcPhase, CongestionKind};
use tabane_engine::record::{CloseReason, DropReason, FallbackReason, ReinjectReason};
use tabane_engine::scheduler::Reason;
use tabane_engine::view::RecoveryPhase;

/// Name of a drop reason.
pub fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Copy => "copy",
        DropReason::BadAddress => "bad_address",
        DropReason::Malformed => "malformed",
        DropReason::NoConnection => "no_connection",
        DropReason::OutOfWindow => "out_of_window",
        DropReason::Paws => "paws",
        DropReason::BadAck => "bad_ack",
        DropReason::BadReset => "bad_reset",
        DropReason::BadSyn => "bad_syn",
        DropReason::UnknownToken => "unknown_token",
        DropReason::BadHmac => "bad_hmac",
        DropReason::Limit(_) => "limit",
        DropReason::DssChecksum => "dss_checksum",
        DropReason::Unmapped => "unmapped",
        DropReason::BadMapping => "bad_mapping",
        DropReason::BadFlags => "bad_flags",
    }
}

/// Name of a reason to send data again on another subflow.
pub fn reinject_reason(reason: ReinjectReason) -> &'static str {
    match reason {
        ReinjectReason::Timeout => "timeout",
        ReinjectReason::Unresponsive => "silence",
        ReinjectReason::SubflowClosed => "subflow_closed",
        ReinjectReason::Stale => "stale",
        ReinjectReason::Opportunistic => "opportunistic",
        ReinjectReason::DataTimeout => "data_timeout",
        ReinjectReason::Replica => "replica",
    }
}

/// Name of a close reason.
pub fn close_reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Finished => "finished",
        CloseReason::Reset(_) => "reset",
        CloseReason::Aborted => "aborted",
        CloseReason::FastClose => "fast_close",
        CloseReason::TimedOut => "timed_out",
        CloseReason::Refused => "refused",
        CloseReason::Mptcp(_) => "mptcp",
    }
}

/// Name of a reason to fall back to plain TCP.
pub fn fallback_reason(reason: FallbackReason) -> &'static str {
    match reason {
        FallbackReason::PeerPlain => "peer_plain",
        FallbackReason::OptionsStripped => "options_stripped",
        FallbackReason::NoDataAck => "no_data_ack",
        FallbackReason::Checksum => "checksum",
        FallbackReason::InfiniteMapping => "infinite_mapping",
        FallbackReason::Mismatch => "mismatch",
    }
}

/// Name of a scheduler's reason.
pub fn scheduler_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::OnlyChoice => "only_choice",
        Reason::LowestRtt => "lowest_rtt",
        Reason::Turn => "turn",
        Reason::Replicated => "replicated",
        Reason::SoonestArrival => "soonest_arrival",
        Reason::ShortestQueue => "shortest_queue",
        Reason::NoSpace => "no_room",
        Reason::BackupHeld => "backup_held",
        Reason::PotentiallyFailedHeld => "suspect_held",
        Reason::AwaitsTurn(_) => "awaits_turn",
        Reason::WaitingIsFaster { .. } => "waiting_is_faster",
        Reason::WouldBlock { .. } => "would_block",
    }
}

/// Name of a controller's phase; a phase of its own is `phase3`.
pub fn cc_phase(phase: CcPhase) -> std::borrow::Cow<'static, str> {
    match phase {
        CcPhase::SlowStart => "slow_start".into(),
        CcPhase::ConservativeSlowStart => "conservative_slow_start".into(),
        CcPhase::Avoidance => "avoidance".into(),
        CcPhase::Other(n) => format!("phase{n}").into(),
    }
}

/// Name of a congestion signal.
pub fn congestion_kind(kind: CongestionKind) -> &'static str {
    match kind {
        CongestionKind::Loss => "loss",
        CongestionKind::Rto => "rto",
        CongestionKind::Ecn => "ecn",
    }
}

/// Name of a recovery phase.
pub fn recovery_phase(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Open => "open",
        RecoveryPhase::Recovery => "recovery",
        RecoveryPhase::Loss => "loss",
    }
}
