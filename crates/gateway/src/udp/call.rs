//! Calls among flows of datagrams: small packets at a steady pace, both ways.
//!
//! What speech coders send (RFC 3551, RFC 7587: 10 to 60 ms of sound a packet) and what nothing
//! else does for long: a download's acknowledgements are small, but come as its packets do, names
//! are asked for now and then, games send at a pace but are answered by more.

use tabane_engine::Instant;

/// One flow, as the end sees it that sends it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CallWatch {
    count: u32,
    /// Of the other direction, in the same time.
    back: u32,
    large: bool,
    last: Option<Instant>,
    /// Between packets, and how far single ones are from that, nanoseconds.
    sum: u64,
    squares: f64,
    call: bool,
    /// Its last packets did not look like those of one.
    doubtful: bool,
}

/// Inner bytes of the largest packet of speech: 60 ms at 64 kbit/s (G.711), with headers.
pub(super) const SMALL: usize = 600;
/// Packets that are looked at together: a second of most calls.
const COUNT: u32 = 50;
const INTERVAL_MIN: f64 = 5e6;
const INTERVAL_MAX: f64 = 100e6;
/// Standard deviation of the intervals, as a share of their mean. Packets at random have 1.
const STEADY: f64 = 0.5;
/// How far the two directions may differ.
const ALIKE: u32 = 3;

impl CallWatch {
    /// A packet of the flow is sent; whether it is a call's.
    pub(super) fn sent(&mut self, now: Instant, len: usize) -> bool {
        if let Some(last) = self.last {
            let interval = now.saturating_since(last).0;
            self.sum = self.sum.saturating_add(interval);
            self.squares += (interval as f64) * (interval as f64);
        }
        self.last = Some(now);
        self.large |= len > SMALL;
        self.count += 1;
        if self.count == COUNT {
            // Losses and outages break the pace of what is sent in answer, just when protection is
            // needed: it counts until the flow is known for a call.
            let alike = !self.large && self.is_like_a_call();
            let looks = alike && (self.call || self.is_steady());
            let call = looks || (self.call && !self.doubtful && !self.large);
            *self = Self { call, doubtful: !looks, last: self.last, ..Self::default() };
        }
        self.call
    }

    /// A packet of the other direction has come: a small one, and no copy.
    pub(super) fn came(&mut self) {
        self.back = self.back.saturating_add(1);
    }

    fn is_like_a_call(&self) -> bool {
        let alike = self.back * ALIKE >= self.count && self.back <= self.count * ALIKE;
        alike && (INTERVAL_MIN..=INTERVAL_MAX).contains(&self.mean())
    }

    fn is_steady(&self) -> bool {
        let variance = self.squares / f64::from(COUNT) - self.mean() * self.mean();
        variance.max(0.0).sqrt() <= self.mean() * STEADY
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / f64::from(COUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_engine::Duration;

    /// Packets each `ms` on average, with so much of that by chance, and of so many bytes;
    /// answered in one of `back` cases.
    fn is_call(ms: f64, chance: f64, len: usize, back: u32) -> bool {
        let (mut watch, mut now, mut call) = (CallWatch::default(), Instant::ZERO, false);
        for i in 0..120_u32 {
            let jitter = f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0 - 0.5;
            now += Duration::from_secs_f64(ms / 1e3 * (1.0 + 2.0 * chance * jitter));
            call = watch.sent(now, len);
            if back > 0 && i % back == 0 {
                watch.came();
            }
        }
        call
    }

    #[test]
    fn a_call_outlives_one_gap_but_not_another_pace() {
        let (mut watch, mut now) = (CallWatch::default(), Instant::ZERO);
        let mut second = |gaps: &[(u32, u64)], len| {
            let mut call = false;
            for i in 0..COUNT {
                let gap = gaps.iter().find(|(at, _)| *at == i).map_or(20, |(_, ms)| *ms);
                now += Duration::from_millis(gap);
                call = watch.sent(now, len);
                watch.came();
            }
            call
        };
        // Nothing for a while, then all of it at once.
        let outage = [(10, 160), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0), (17, 0)];
        assert!(second(&[], 200) && second(&outage, 200) && second(&[], 200));
        assert!(second(&outage, 200) && second(&outage, 200), "losses break the pace of answers");
        let silence = [(10, 9000)];
        assert!(second(&silence, 200) && !second(&silence, 200), "twice in a row");
        assert!(second(&[], 200) && !second(&[], 1200), "video");
    }

    #[test]
    fn calls_are_known_by_size_pace_and_answers() {
        assert!(is_call(20.0, 0.1, 200, 1), "G.711");
        assert!(is_call(60.0, 0.4, 120, 2), "one side speaks less");
        assert!(!is_call(20.0, 0.1, 1200, 1), "video");
        assert!(!is_call(20.0, 0.1, 200, 0), "nobody answers");
        assert!(!is_call(20.0, 0.1, 200, 10), "hardly anybody");
        assert!(!is_call(0.5, 0.1, 60, 1), "acknowledgements");
        assert!(!is_call(400.0, 0.1, 100, 1), "keepalives");
    }
}
