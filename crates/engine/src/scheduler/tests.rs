//! Snapshots for the unit tests of schedulers.

use super::Work;
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use crate::view::{PathId, RecoveryPhase, SubflowId, SubflowSet, SubflowView};

/// A subflow with space, a window of ten segments and nine in flight.
pub(super) fn view(id: u8, srtt_ms: u64) -> SubflowView {
    let srtt = Duration::from_millis(srtt_ms);
    SubflowView {
        id: SubflowId(id),
        path: PathId(id),
        usable: true,
        backup: false,
        potentially_failed: false,
        phase: RecoveryPhase::Open,
        sendable: 1448,
        cwnd: 14_480,
        ssthresh: u64::MAX,
        in_flight: 13_032,
        unacked: 13_032,
        oldest_sent: Instant::FAR_FUTURE,
        mss: 1448,
        srtt,
        rttvar: Duration::ZERO,
        latest_rtt: srtt,
        min_rtt: srtt,
        max_rtt: srtt,
        pacing_rate: 1_000_000,
        delivery_rate: 0,
        loss_interval: 0,
        reduced_at: Instant::ZERO,
        loss_rate: 0.0,
        capacity: 0,
        train_at: Instant::ZERO,
        busy_until: Instant::ZERO,
        cross_traffic: false,
    }
}

/// A segment of new data with a hundred kilobytes behind it.
pub(super) fn work() -> Work {
    Work {
        now: Instant(1_000_000_000),
        dsn: Dsn(1),
        len: 1448,
        unsent: 100_000,
        carried: SubflowSet::NONE,
        reinjection: false,
        window_space: 100_000,
        window: 1 << 20,
    }
}

/// A set of subflows.
pub(super) fn ids(ids: &[u8]) -> SubflowSet {
    ids.iter().map(|&id| SubflowId(id)).collect()
}
