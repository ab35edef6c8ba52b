//! A rate cap: a token bucket before a small queue, for one direction of a path.
//!
//! Whole packets leave at the rate, in order, after a burst of at most `BURST`; what the queue
//! cannot hold is refused, as any bottleneck refuses it, so that the sender's congestion control
//! sees the cap. The queue is bounded in time (`QUEUE_MAX`): a cap must not become a new source
//! of delay. A state machine without I/O.

use std::collections::VecDeque;
use tabane_engine::{Duration, Instant};

/// One direction of a path.
#[derive(Debug)]
pub(crate) struct Shaper<P> {
    rate_bps: Option<u64>,
    /// When the packets let through until now would have left at exactly the rate.
    busy_until: Instant,
    queue: VecDeque<(P, usize)>,
    queued: usize,
    dropped: u64,
}

/// What may leave at once after a pause.
const BURST: Duration = Duration::from_millis(5);
/// What may wait, as time at the rate; at least `QUEUE_MIN`.
const QUEUE_MAX: Duration = Duration::from_millis(50);
/// Bytes that may wait at any rate.
const QUEUE_MIN: usize = 16 * 1500;
/// Packets that may wait, whatever their size.
const PACKETS_MAX: usize = 4096;

impl<P> Shaper<P> {
    /// At most `rate_bps`; `None` for no cap.
    #[must_use]
    pub(crate) fn new(rate_bps: Option<u64>) -> Self {
        Self { rate_bps, busy_until: Instant::ZERO, queue: VecDeque::new(), queued: 0, dropped: 0 }
    }

    /// Another rate from now on; what waits stays, even where the queue would now be smaller.
    pub(crate) fn set_rate(&mut self, now: Instant, rate_bps: Option<u64>) {
        self.rate_bps = rate_bps;
        // A debt at the old rate is not to be paid at the new one.
        self.busy_until = self.busy_until.min(now);
    }

    /// The rate.
    #[must_use]
    pub(crate) fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// Takes a packet of `bytes`; `Err` gives it back: the queue is full, and the packet dropped.
    ///
    /// # Errors
    /// The packet.
    pub(crate) fn push(&mut self, packet: P, bytes: usize) -> Result<(), P> {
        let full = self.queued + bytes > self.space() || self.queue.len() >= PACKETS_MAX;
        if full {
            self.dropped += 1;
            return Err(packet);
        }
        self.queued += bytes;
        self.queue.push_back((packet, bytes));
        Ok(())
    }

    /// The next packet that may leave now.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<P> {
        if self.next_event()? > now {
            return None;
        }
        let (packet, bytes) = self.queue.pop_front()?;
        self.queued -= bytes;
        self.charge(now, bytes);
        Some(packet)
    }

    /// Whether a packet of `bytes` may leave at `now` without waiting; if so, it is counted. For
    /// drivers that do not want to move packets through a queue when there is no need.
    pub(crate) fn pass(&mut self, now: Instant, bytes: usize) -> bool {
        let free = self.queue.is_empty() && self.free_at() <= now;
        if free {
            self.charge(now, bytes);
        }
        free
    }

    /// When [`Shaper::pop`] has the next packet; `None` while nothing waits.
    #[must_use]
    pub(crate) fn next_event(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then(|| self.free_at())
    }

    /// Bytes that wait.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Packets refused so far.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn charge(&mut self, now: Instant, bytes: usize) {
        let Some(rate) = self.rate_bps else { return };
        let time = (bytes as u64).saturating_mul(8_000_000_000) / rate.max(1);
        self.busy_until = self.busy_until.max(now) + Duration(time);
    }

    /// When the bucket has room: a burst may run ahead of the rate.
    fn free_at(&self) -> Instant {
        match self.rate_bps {
            Some(_) => Instant(self.busy_until.0.saturating_sub(BURST.0)),
            None => Instant::ZERO,
        }
    }

    fn space(&self) -> usize {
        let Some(rate) = self.rate_bps else { return usize::MAX };
        let bytes = rate / 8 * QUEUE_MAX.as_millis() / 1000;
        usize::try_from(bytes).unwrap_or(usize::MAX).max(QUEUE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn packets_leave_in_order_at_the_rate() {
        // 1500 bytes at 12 Mbit/s are 1 ms.
        let mut shaper = Shaper::new(Some(12_000_000));
        for i in 0..50 {
            shaper.push(i, 1500).unwrap();
        }
        assert_eq!(shaper.push(50, 1500), Err(50), "75 kB are 50 ms");
        let mut left = Vec::new();
        while let Some(at) = shaper.next_event() {
            let now = at.max(ms(1_000));
            if at > ms(1_000) {
                assert_eq!(shaper.pop(Instant(now.0 - 1)), None, "not before");
            }
            left.push((shaper.pop(now).unwrap(), now));
        }
        assert_eq!(left.iter().map(|x| x.0).collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
        let burst = left.iter().filter(|x| x.1 == ms(1_000)).count();
        assert!(burst <= 6, "{burst}");
        assert_eq!(left[49].1, ms(1_044), "50 ms less the burst, and the last need not finish");
        assert_eq!((shaper.queued(), shaper.dropped()), (0, 1));
    }

    #[test]
    fn without_a_cap_nothing_waits() {
        let mut shaper = Shaper::new(None);
        for i in 0..1000 {
            assert!(shaper.pass(ms(0), 1500));
            shaper.push(i, 1500).unwrap();
            assert_eq!(shaper.pop(ms(0)), Some(i));
        }
    }

    #[test]
    fn a_new_rate_counts_at_once() {
        let mut shaper = Shaper::new(Some(8_000));
        shaper.push(1, 1000).unwrap();
        assert_eq!(shaper.pop(ms(0)), Some(1));
        shaper.push(2, 1000).unwrap();
        assert_eq!(shaper.next_event(), Some(ms(995)));
        shaper.set_rate(ms(10), Some(8_000_000));
        assert_eq!(shaper.pop(ms(10)), Some(2));
        shaper.set_rate(ms(10), None);
        assert!(shaper.pass(ms(10), 1500));
    }

    proptest! {
        /// Whatever comes, no more leaves than the rate and one burst (and the packet that was
        /// let through last), and what waits is bounded.
        #[test]
        fn the_rate_is_kept(
            rate in 8_000u64..1_000_000_000,
            steps in proptest::collection::vec((0u64..20_000, 1usize..1500), 1..300)
        ) {
            let mut shaper = Shaper::new(Some(rate));
            let mut now = ms(1);
            let start = now;
            let mut bytes = 0;
            for (wait, size) in steps {
                now += Duration::from_micros(wait);
                if !shaper.pass(now, size) {
                    let _ = shaper.push(size, size);
                } else {
                    bytes += size;
                }
                while let Some(size) = shaper.pop(now) {
                    bytes += size;
                }
                let time = now - start + BURST;
                let allowed = rate as f64 / 8.0 * time.as_secs_f64() + 1500.0 + 1.0;
                prop_assert!(bytes as f64 <= allowed, "{bytes} > {allowed}");
                let space = (rate / 8 / 20).max(24_000) as usize;
                prop_assert!(shaper.queued() <= space);
            }
        }
    }
}
