//! Windows, ACKs and snapshots for the unit tests of coupled controllers.

use super::window::Window;
use super::{Ack, Start};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowId, SubflowView};

const MSS: u64 = 1000;

/// A window of `w` segments.
pub(super) fn window(w: u64) -> Window {
    Window::new(Start { mss: MSS, cwnd: w * MSS, ssthresh: 0 })
}

/// An ACK for one segment on subflow `id`.
pub(super) fn ack(id: u8, rtt_ms: u64) -> Ack {
    let rtt = Duration::from_millis(rtt_ms);
    Ack {
        now: Instant::ZERO,
        subflow: SubflowId(id),
        acked: MSS,
        delivered: MSS,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        reverse_delay: Duration::ZERO,
        prior_in_flight: 0,
        in_flight: 0,
        mss: MSS,
        cwnd_limited: true,
        phase: RecoveryPhase::Open,
        snd_una: 1,
        snd_nxt: 1,
        delivery_rate: None,
        capacity: 0,
        lost: 0,
    }
}

/// Subflows of (window in segments, RTT in ms), ids from 0 on.
pub(super) fn views(flows: &[(u64, u64)]) -> Vec<SubflowView> {
    let view = |(i, &(w, rtt)): (usize, &(u64, u64))| SubflowView {
        id: SubflowId(i as u8),
        usable: true,
        cwnd: w * MSS,
        in_flight: w * MSS,
        mss: MSS,
        srtt: Duration::from_millis(rtt),
        loss_interval: 1_000_000,
        ..SubflowView::default()
    };
    flows.iter().enumerate().map(view).collect()
}
