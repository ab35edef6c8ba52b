//! Pictures of connections, subflows and paths as JSON. Names are those of the engine's views;
//! times in microseconds say so.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use tabane_engine::ConnId;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::view::PathId;
use tabane_net::driver::Counters;

/// A connection.
pub(super) fn connection_report<'l>(
    id: ConnId,
    info: &Info,
    label: impl Fn(PathId) -> Option<&'l str>,
) -> Value {
    let subflows: Vec<Value> =
        info.subflows.iter().map(|subflow| subflow_report(subflow, label(subflow.path))).collect();
    json!({
        "id": id.0,
        "mptcp": info.mptcp,
        "checksum": info.checksum,
        "token": format!("{:08x}", info.token),
        "written": info.written,
        "acked": info.acked,
        "received": info.received,
        "read": info.read,
        "out_of_order": info.out_of_order,
        "duplicate": info.duplicate,
        "reinjected": info.reinjected,
        "receive_buffer": info.receive_buffer,
        "subflows": subflows,
    })
}

fn subflow_report(subflow: &SubflowInfo, path: Option<&str>) -> Value {
    let (view, stats) = (&subflow.view, &subflow.stats);
    json!({
        "id": view.id.0,
        "path": path,
        "local": subflow.local.to_string(),
        "remote": subflow.remote.to_string(),
        "state": format!("{:?}", subflow.state),
        "usable": view.usable,
        "backup": view.backup,
        "suspect": view.potentially_failed,
        "phase": format!("{:?}", view.phase),
        "cwnd": view.cwnd,
        "ssthresh": (view.ssthresh != u64::MAX).then_some(view.ssthresh),
        "in_flight": view.in_flight,
        "mss": view.mss,
        "srtt_us": view.srtt.as_micros(),
        "rttvar_us": view.rttvar.as_micros(),
        "min_rtt_us": view.min_rtt.as_micros(),
        "rto_us": subflow.rto.as_micros(),
        "pacing_rate": view.pacing_rate,
        "delivery_rate": view.delivery_rate,
        "delivered": subflow.delivered,
        "bytes_sent": stats.bytes_sent,
        "bytes_retransmitted": stats.bytes_retransmitted,
        "bytes_acked": stats.bytes_acked,
        "bytes_received": stats.bytes_received,
        "bytes_duplicate": stats.bytes_duplicate,
        "segments_sent": stats.segments_sent,
        "segments_received": stats.segments_received,
        "recoveries": stats.recoveries,
        "timeouts": stats.timeouts,
        "undone": stats.undone,
        "tail_loss_probes": stats.tail_loss_probes,
        "dropped": stats.dropped,
    })
}

/// A path.
pub(super) fn path_report(id: PathId, label: &str, counters: &Counters) -> Value {
    json!({
        "id": id.0,
        "path": label,
        "rx_packets": counters.rx_packets.load(Ordering::Relaxed),
        "rx_bytes": counters.rx_bytes.load(Ordering::Relaxed),
        "tx_packets": counters.tx_packets.load(Ordering::Relaxed),
        "tx_bytes": counters.tx_bytes.load(Ordering::Relaxed),
        "tx_dropped": counters.tx_dropped.load(Ordering::Relaxed),
    })
}

/// Our end of a subflow.
pub(super) fn subflow_of(subflow: &SubflowInfo) -> SocketAddr {
    subflow.local
}
