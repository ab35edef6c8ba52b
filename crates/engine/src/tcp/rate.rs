//! Delivery rate samples (the estimator of draft-cheng-iccrg-delivery-rate-estimation): bytes
//! delivered between the sending and the acknowledgement of a segment, over the longer of the
//! sending and the acknowledging interval.

use super::scoreboard::{RateMark, TxSegment};
use crate::time::{Duration, Instant, mul_div};

/// Counts deliveries and stamps segments with the count.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct RateSampler {
    delivered: u64,
    delivered_at: Instant,
    flight_start: Instant,
    /// Smoothed samples that the application did not limit, bytes/s.
    estimate: u64,
}

impl RateSampler {
    /// `segment` leaves now; `idle`: nothing was in flight before.
    #[inline]
    pub(super) fn stamp(&mut self, now: Instant, segment: &mut TxSegment, idle: bool) {
        if idle {
            self.flight_start = now;
            self.delivered_at = now;
        }
        segment.delivered = self.delivered;
        segment.delivered_at = self.delivered_at;
        segment.flight_start = self.flight_start;
    }

    /// An ACK delivered `bytes`, the most recently sent of which bore `mark`. A sample in bytes/s
    /// and whether the application limited it; `None` if the interval is shorter than `min_rtt`.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        mark: Option<RateMark>,
        min_rtt: Duration,
    ) -> Option<(u64, bool)> {
        self.delivered += bytes;
        self.delivered_at = now;
        let mark = mark?;
        self.flight_start = mark.sent_at;
        let send_interval = mark.sent_at - mark.flight_start;
        let ack_interval = now - mark.delivered_at;
        let interval = send_interval.max(ack_interval);
        if interval.is_zero() || interval < min_rtt {
            return None;
        }
        let delivered = self.delivered - mark.delivered;
        let rate = mul_div(delivered, 1_000_000_000, interval.0);
        if !mark.app_limited || rate > self.estimate {
            self.estimate = if self.estimate == 0 { rate } else { (self.estimate * 7 + rate) / 8 };
        }
        Some((rate, mark.app_limited))
    }

    /// Estimate in bytes/s; 0 when unknown.
    pub(super) fn estimate(&self) -> u64 {
        self.estimate
    }
}
