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
    /// Smoothed rates of trains, bytes/s.
    capacity: u64,
    /// What waits there does so behind what others send.
    cross_traffic: bool,
    /// When the last train told one of the two, or a segment that it is still so.
    train_at: Instant,
    train: Train,
    /// When the bottleneck will have forwarded what has been sent.
    busy_until: Instant,
    /// Share of bytes that are lost, of late.
    loss_rate: f32,
}

/// Segments that have all waited behind others.
#[derive(Clone, Copy, Default, Debug)]
struct Train {
    /// The ACK of the first.
    began: Instant,
    /// When the first was sent.
    sent_at: Instant,
    /// The count of deliveries at that ACK.
    delivered: u64,
}

/// Bytes of which the loss rate is the mean.
const LATELY: f32 = 512.0 * 1400.0;
/// Less is no loss: the mean would end among numbers too small to be quick, and never be zero.
const NEGLIGIBLE: f32 = 1e-9;
/// A segment that is full.
const SEGMENT: u64 = 1400;
/// Bytes of a train that tell of a rate.
const TRAIN: u64 = 8 * SEGMENT;
/// A train needs no confirmation for so long.
const CONFIRMED: Duration = Duration::from_secs(1);
/// What a segment waits at least behind others, between these and an eighth of the least RTT.
const WAITED: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(10));

impl RateSampler {
    /// `segment` leaves now; `idle`: nothing was in flight before.
    #[inline]
    pub(super) fn stamp(&mut self, now: Instant, segment: &mut TxSegment, idle: bool) {
        if idle {
            self.flight_start = now;
            self.delivered_at = now;
        }
        if self.capacity > 0 {
            let bytes = segment.chunk.data.len() as u64;
            let busy = mul_div(bytes, 1_000_000_000 * 4 / 5, self.capacity);
            self.busy_until = self.busy_until.max(now) + Duration(busy);
        }
        segment.delivered = self.delivered;
        segment.delivered_at = self.delivered_at;
        segment.flight_start = self.flight_start;
    }

    /// An ACK delivered `bytes`, the most recently sent of which bore `mark`; `idle`: nothing is in
    /// flight after it. A sample in bytes/s and whether the application limited it; `None` if the
    /// interval is shorter than `min_rtt`.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        mark: Option<RateMark>,
        idle: bool,
        min_rtt: Duration,
    ) -> Option<(u64, bool)> {
        if bytes == 0 {
            return None;
        }
        self.delivered += bytes;
        self.loss_rate *= 1.0 - (bytes as f32 / LATELY).min(1.0);
        if self.loss_rate < NEGLIGIBLE {
            self.loss_rate = 0.0;
        }
        let previous = std::mem::replace(&mut self.delivered_at, now);
        let mark = mark?;
        if !idle {
            self.on_train(now, previous, &mark, min_rtt);
        }
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
        if self.capacity != 0 {
            self.capacity = self.capacity.max(rate);
        }
        Some((rate, mark.app_limited))
    }

    /// Segments that all waited behind others arrive as fast as the bottleneck forwards, however
    /// few they are: the spacing of a train of packets tells of it (Jain and Dovrolis, SIGCOMM
    /// 2002). Unless it is the spacing with which the application sent them, into a queue of
    /// others. `previous` is the ACK before. The last ACK says nothing: it may have been delayed,
    /// for want of more.
    fn on_train(&mut self, now: Instant, previous: Instant, mark: &RateMark, min_rtt: Duration) {
        let (least, most) = WAITED;
        let waited = now - mark.sent_at > min_rtt + (min_rtt / 8).clamp(least, most);
        let train = self.train;
        let (bytes, time) = (self.delivered - train.delivered, now - train.began);
        let next = Train { began: now, sent_at: mark.sent_at, delivered: self.delivered };
        if !waited || mark.sent_at >= previous {
            self.cross_traffic &= waited;
            self.train = next;
        } else if time >= min_rtt / 4 && !time.is_zero() {
            let spread = time * 4 > (mark.sent_at - train.sent_at) * 5;
            self.cross_traffic =
                mark.app_limited && !spread && !self.waited_for_itself(now, mark, 0);
            let long = bytes >= TRAIN;
            if self.cross_traffic || long {
                self.train_at = now;
            }
            if long && !self.cross_traffic {
                let rate = mul_div(bytes, 1_000_000_000, time.0);
                self.capacity = match self.capacity {
                    0 => rate,
                    known => (known * 3 + rate) / 4,
                };
            }
            if long {
                self.train = next;
            }
        }
    }

    /// A round trip was so much longer than the least, and no ACK was delayed: if a segment needs
    /// that at the rate that is known, it is still so. A path that carries one now and then has no
    /// trains, and would be taken for a fast one as soon as the last of them is forgotten.
    #[inline]
    pub(super) fn confirm(&mut self, now: Instant, waited: Duration, bytes: u64) {
        if self.capacity > 0 && now > self.train_at + CONFIRMED && waited > WAITED.0 {
            let forwarded = u128::from(waited.0) * u128::from(self.capacity);
            if forwarded * 4 >= u128::from(bytes.min(SEGMENT)) * 3_000_000_000 {
                self.train_at = now;
            }
        }
    }

    /// Whether what was in flight before a segment is why it waited, at the rate at which the
    /// bottleneck forwards: whoever sends as acknowledgements come does so at that rate, too.
    ///
    /// `more`: bytes that the present ACK delivers and that are not counted yet.
    pub(super) fn waited_for_itself(&self, now: Instant, mark: &RateMark, more: u64) -> bool {
        let before = self.delivered + more - mark.delivered;
        let forwarded = u128::from((now - mark.sent_at).0) * u128::from(self.capacity);
        self.capacity > 0 && forwarded * 4 <= u128::from(before) * 5_000_000_000
    }

    /// So many bytes were found to be lost.
    #[inline]
    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.loss_rate += (1.0 - self.loss_rate) * (bytes as f32 / LATELY).min(1.0);
    }

    /// Share of bytes that were lost, of the last half thousand segments or so.
    pub(super) fn loss_rate(&self) -> f32 {
        self.loss_rate
    }

    /// Estimate in bytes/s; 0 when unknown.
    pub(super) fn estimate(&self) -> u64 {
        self.estimate
    }

    /// What the bottleneck forwards in bytes/s, as far as segments that waited there have shown; 0
    /// when unknown.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// When that, or cross traffic, was last seen.
    pub(super) fn train_at(&self) -> Instant {
        self.train_at
    }

    /// Whether what waits at the bottleneck does so behind what others send.
    pub(super) fn is_behind_cross_traffic(&self) -> bool {
        self.cross_traffic
    }

    /// When the bottleneck will have forwarded what has been sent, were it a quarter faster than it
    /// is thought to be: what is a little too low would add up over a long transfer.
    pub(super) fn busy_until(&self) -> Instant {
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 100;

    fn ms(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Segments sent in these milliseconds, acknowledged in those.
    fn sampled(segments: impl Iterator<Item = (u64, u64)>) -> RateSampler {
        let mut sampler = RateSampler::default();
        segments.for_each(|segment| sample(&mut sampler, segment, false));
        sampler
    }

    /// One more; `idle`: nothing is in flight after it.
    fn sample(sampler: &mut RateSampler, (sent, acked): (u64, u64), idle: bool) {
        let mark = RateMark {
            sent_at: ms(sent),
            delivered: 0,
            delivered_at: ms(0),
            flight_start: ms(0),
            app_limited: true,
        };
        sampler.on_ack(ms(acked), SEGMENT, Some(mark), idle, Duration::from_millis(BASE));
    }

    /// Twenty at once, and each takes five milliseconds at the bottleneck: a rate over the whole
    /// round trip would be half of that.
    #[test]
    fn a_burst_tells_what_the_bottleneck_forwards() {
        let sampler = sampled((1..=20).map(|n| (n, BASE + 5 * n)));
        assert_eq!((sampler.capacity(), sampler.is_behind_cross_traffic()), (SEGMENT * 200, false));
    }

    /// The last of a flight is acknowledged late, for want of more: nothing is known from that.
    /// What is sent after it begins anew.
    #[test]
    fn the_end_of_a_flight_tells_nothing() {
        let mut sampler = sampled((1..=20).map(|n| (n, BASE + 5 * n)));
        sample(&mut sampler, (21, 2 * BASE + 250), true);
        sample(&mut sampler, (5 * BASE, 6 * BASE + 50), false);
        assert_eq!((sampler.capacity(), sampler.is_behind_cross_traffic()), (SEGMENT * 200, false));
    }

    /// Five milliseconds a segment: one that took four more is confirmation, one that took two is
    /// none, and a train of the last second needs none.
    #[test]
    fn a_single_segment_confirms_what_a_train_has_told() {
        let mut sampler = sampled((1..=20).map(|n| (n, BASE + 5 * n)));
        let train = sampler.train_at();
        let mut told = |at: u64, waited: u64| {
            sampler.confirm(ms(at), Duration::from_millis(waited), SEGMENT);
            sampler.train_at()
        };
        assert_eq!([told(900, 4), told(8_000, 2), told(9_000, 4)], [train, train, ms(9_000)]);
        let mut unknown = RateSampler::default();
        unknown.confirm(ms(9_000), Duration::from_millis(50), SEGMENT);
        assert_eq!(unknown.train_at(), Instant::ZERO);
    }

    /// One each five milliseconds, and all wait for half the base: that is what was sent.
    #[test]
    fn what_waits_behind_others_does_not() {
        let sampler = sampled((1..=200).map(|n| (5 * n, 5 * n + BASE * 3 / 2)));
        assert_eq!((sampler.capacity(), sampler.is_behind_cross_traffic()), (0, true));
    }

    /// Whoever has a window in flight and sends as acknowledgements come sends as the bottleneck
    /// forwards, and waits behind nobody but itself.
    #[test]
    fn nor_do_ones_own_segments_wait_behind_others() {
        // Twenty at once, and one more for each acknowledged.
        let sent = (1..=20).map(|n| (n, n)).chain((21..=200).map(|n| (BASE + 5 * (n - 20), n)));
        let mut sampler = RateSampler::default();
        for (sent, n) in sent {
            let mark = RateMark {
                sent_at: ms(sent),
                delivered: (n - 1).saturating_sub(20) * SEGMENT,
                delivered_at: ms(0),
                flight_start: ms(0),
                app_limited: true,
            };
            let base = Duration::from_millis(20);
            sampler.on_ack(ms(BASE + 5 * n), SEGMENT, Some(mark), false, base);
        }
        assert!(sampler.capacity() > 0 && !sampler.is_behind_cross_traffic());
        let mark = |before: u64| RateMark {
            sent_at: ms(2000),
            delivered: sampler.delivered - before * SEGMENT,
            delivered_at: ms(0),
            flight_start: ms(0),
            app_limited: true,
        };
        let capacity = sampler.capacity() as f64 / SEGMENT as f64;
        let waited =
            |before: u64, ms: u64| sampler.waited_for_itself(self::ms(2000 + ms), &mark(before), 0);
        assert!(waited(20, (20.0 / capacity * 1000.0) as u64));
        assert!(!waited(5, (20.0 / capacity * 1000.0) as u64), "five are not why");
        let unknown = RateSampler { delivered: sampler.delivered, ..RateSampler::default() };
        assert!(!unknown.waited_for_itself(ms(2001), &mark(20), 0), "nothing is known");
    }

    /// A fifth of the segments, none for half as long again, and none for long.
    #[test]
    fn the_loss_rate_is_that_of_late() {
        let mut sampler = sampled((1..=2000).map(|n| (n, n + BASE)));
        assert_eq!(sampler.loss_rate(), 0.0);
        for n in 2001..4001 {
            sample(&mut sampler, (n, n + BASE), false);
            sampler.on_lost(SEGMENT / 4);
        }
        assert!((sampler.loss_rate() - 0.2).abs() < 0.01, "{}", sampler.loss_rate());
        (4001..5025).for_each(|n| sample(&mut sampler, (n, n + BASE), false));
        assert!((sampler.loss_rate() - 0.2 / 7.4).abs() < 0.01, "{}", sampler.loss_rate());
        (5025..20_000).for_each(|n| sample(&mut sampler, (n, n + BASE), false));
        assert_eq!(sampler.loss_rate(), 0.0, "forgotten");
    }

    #[test]
    fn nothing_that_did_not_wait_tells_anything() {
        let sampler = sampled((1..=200).map(|n| (5 * n, 5 * n + BASE)));
        assert_eq!((sampler.capacity(), sampler.is_behind_cross_traffic()), (0, false));
    }
}
