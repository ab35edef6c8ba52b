//! Snapshots of connections, and of paths as their connections see them, for both agents.

use crate::address::PATHS_MAX;
use crate::bond::Bond;
use crate::index::PathIndex;
use crate::model::{ConnStatus, DirectionStatus, PathStatus, SubflowStatus};
use crate::path::Estimate;
use tabane_engine::mptcp::Info;
use tabane_engine::{ConnId, Connection, Duration, Instant};

/// What the connections of a bond have on each path.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Load {
    /// Subflows.
    pub(crate) subflows: u32,
    /// Congestion windows, bytes.
    pub(crate) cwnd: u64,
    /// In flight, bytes.
    pub(crate) in_flight: u64,
    /// Payload bytes sent again.
    pub(crate) retransmitted: u64,
}

/// A direction of a path.
#[must_use]
pub(crate) fn direction(estimate: Estimate) -> DirectionStatus {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    DirectionStatus {
        delivery_bps: estimate.delivery_rate.map(|bps| bps as f64),
        capacity_bps: estimate.capacity.map(|bps| bps as f64),
        confidence: estimate.confidence,
        queueing_ms: ms(estimate.queueing_delay),
        jitter_ms: ms(estimate.jitter),
        loss: estimate.loss,
    }
}

/// By path.
#[must_use]
pub(crate) fn loads(
    bond: &mut Bond,
    now: Instant,
    conns: impl Iterator<Item = ConnId>,
) -> [Load; PATHS_MAX] {
    let mut loads = [Load::default(); PATHS_MAX];
    for id in conns {
        let Some(conn) = bond.endpoint.connection(id) else { continue };
        for subflow in conn.info(now).subflows {
            let Some(load) = loads.get_mut(PathIndex::from(subflow.path).get()) else { continue };
            load.subflows += 1;
            load.cwnd += subflow.view.cwnd;
            load.in_flight += subflow.view.in_flight;
            load.retransmitted += subflow.stats.bytes_retransmitted;
        }
    }
    loads
}

/// Notes the paths on which a connection's data waits for room.
pub(crate) fn note_full(info: &Info, full: &mut [bool; PATHS_MAX]) {
    if info.written <= info.acked + info.outstanding {
        return;
    }
    for subflow in &info.subflows {
        let view = &subflow.view;
        if let Some(full) = full.get_mut(PathIndex::from(subflow.path).get()) {
            *full |= view.usable && view.sendable < view.mss;
        }
    }
}

/// Puts counters and load into a path's snapshot.
pub(crate) fn fill(status: &mut PathStatus, bond: &Bond, path: PathIndex, load: &Load) {
    let counters = &bond.counters[path];
    (status.tx_bps, status.rx_bps) = (counters.tx_bps, counters.rx_bps);
    (status.tx_bytes, status.rx_bytes) = (counters.tx_bytes, counters.rx_bytes);
    (status.tx_packets, status.rx_packets) = (counters.tx_packets, counters.rx_packets);
    status.record_counters =
        bond.record_counters.as_ref().and_then(|record_counters| record_counters.path(path));
    // Those of open connections alone; records know of all.
    let all =
        status.record_counters.as_ref().map(|record_counters| record_counters.retransmitted_bytes);
    status.retransmitted_bytes = all.unwrap_or(load.retransmitted);
    (status.cwnd_bytes, status.inflight_bytes) = (load.cwnd, load.in_flight);
    status.subflows = load.subflows;
}

/// A connection's snapshot, as far as the engine knows it.
#[must_use]
pub(crate) fn connection(
    now: Instant,
    conn: &Connection,
    name: impl Fn(PathIndex) -> String,
) -> ConnStatus {
    let info = conn.info(now);
    let subflow = |subflow: &tabane_engine::mptcp::SubflowInfo| SubflowStatus {
        path: name(subflow.path.into()),
        state: format!("{:?}", subflow.state).to_lowercase(),
        backup: subflow.view.backup,
        rtt_ms: subflow.view.srtt.as_secs_f64() * 1e3,
        cwnd_bytes: subflow.view.cwnd,
        inflight_bytes: subflow.view.in_flight,
        tx_bytes: subflow.stats.bytes_sent,
        rx_bytes: subflow.delivered,
        retransmitted_bytes: subflow.stats.bytes_retransmitted,
    };
    ConnStatus {
        id: conn.id().0,
        token: info.token,
        tx_bytes: info.written,
        rx_bytes: info.received,
        reinjected_bytes: info.reinjected,
        policies: conn.policies().map(ToString::to_string),
        subflows: info.subflows.iter().map(subflow).collect(),
        ..ConnStatus::default()
    }
}
