//! RTT between the capture and the receiver of the data, from what passes: from a segment to the
//! ACK that covers it (not after a repeat: Karn), and from a timestamp to its echo (RFC 7323
//! section 4).
//!
//! At the sender this is the RTT, at the receiver next to nothing, in between the part beyond
//! the capture. Delayed ACKs are in it.

use crate::histogram::Histogram;
use std::collections::VecDeque;

/// RTT of one direction's data.
#[derive(Clone, Default, Debug)]
pub(super) struct Meter {
    unacked: VecDeque<Unacked>,
    /// Timestamps and when each was first seen.
    ticks: VecDeque<(u32, u64)>,
    echoed: Option<u32>,
    pub(super) by_ack: Histogram,
    pub(super) by_timestamp: Histogram,
    /// Latest sample of either kind, the former preferred, since it was last taken.
    latest: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Unacked {
    end: u64,
    at: u64,
    repeated: bool,
}

/// Segments waiting for an ACK at most; further ones are not measured until some are covered.
const SEGMENTS: usize = 8192;
/// Timestamps waiting for an echo at most; the oldest is forgotten.
const TICKS: usize = 256;

impl Meter {
    /// A segment with new data or SYN or FIN, up to position `end`.
    #[inline]
    pub(super) fn sent(&mut self, now: u64, end: u64) {
        if self.unacked.len() < SEGMENTS {
            self.unacked.push_back(Unacked { end, at: now, repeated: false });
        }
    }

    /// A segment with data that was sent before.
    pub(super) fn repeated(&mut self, start: u64, end: u64) {
        let first = self.unacked.partition_point(|u| u.end <= start);
        for unacked in self.unacked.range_mut(first..) {
            unacked.repeated = true;
            if unacked.end >= end {
                break;
            }
        }
    }

    /// Positions before `end` are acknowledged, and were not before.
    #[inline]
    pub(super) fn acknowledged(&mut self, now: u64, end: u64) {
        let (mut newest, mut repeated) = (None, false);
        while let Some(unacked) = self.unacked.front().filter(|u| u.end <= end) {
            (newest, repeated) = (Some(unacked.at), repeated || unacked.repeated);
            self.unacked.pop_front();
        }
        if let (Some(at), false) = (newest, repeated) {
            let sample = now.saturating_sub(at);
            self.by_ack.add(sample);
            self.latest = Some(sample);
        }
    }

    /// A packet with this timestamp.
    #[inline]
    pub(super) fn tick(&mut self, now: u64, value: u32) {
        if self.ticks.back().is_none_or(|(last, _)| (value.wrapping_sub(*last) as i32) > 0) {
            if self.ticks.len() == TICKS {
                self.ticks.pop_front();
            }
            self.ticks.push_back((value, now));
        }
    }

    /// A timestamp is echoed by an ACK of new data.
    #[inline]
    pub(super) fn echo(&mut self, now: u64, value: u32) {
        if self.echoed == Some(value) {
            return;
        }
        while let Some(&(tick, at)) = self.ticks.front() {
            let ahead = tick.wrapping_sub(value) as i32;
            if ahead > 0 {
                return;
            }
            self.ticks.pop_front();
            if ahead == 0 {
                self.echoed = Some(value);
                let sample = now.saturating_sub(at);
                self.by_timestamp.add(sample);
                self.latest = self.latest.or(Some(sample));
                return;
            }
        }
    }

    /// The latest sample since this was last asked, in seconds.
    pub(super) fn take(&mut self) -> Option<f64> {
        self.latest.take().map(|ns| ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_not_measured() {
        let mut meter = Meter::default();
        for n in 1..=4 {
            meter.sent(n * 10, n * 100);
        }
        meter.acknowledged(60, 200);
        assert_eq!((meter.by_ack.count(), meter.by_ack.quantile(1.0)), (1, Some(40)));
        meter.repeated(200, 300);
        meter.acknowledged(90, 400);
        assert_eq!(meter.by_ack.count(), 1, "the hole has delayed the ACK");
        assert_eq!(meter.take(), Some(4e-8));
        assert_eq!(meter.take(), None);
    }

    #[test]
    fn the_first_packet_of_a_tick_is_the_one_that_is_echoed() {
        let mut meter = Meter::default();
        for (now, value) in [(10, u32::MAX), (11, u32::MAX), (20, 0), (30, 1)] {
            meter.tick(now, value);
        }
        meter.echo(50, u32::MAX);
        meter.echo(60, u32::MAX);
        meter.echo(70, 1);
        assert_eq!(meter.by_timestamp.count(), 2);
        assert_eq!(meter.by_timestamp.mean(), Some(40.0));
    }
}
