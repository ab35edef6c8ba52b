//! Round-trip time estimation and the retransmission timeout (RFC 6298).
//!
//! Like Linux, the lower bound applies to the variance term: RTO = SRTT + max(4 RTTVAR, bound).
//! A bound on the sum would fire on any jitter once the path's RTT exceeds it.

use crate::config::TcpConfig;
use crate::time::{Duration, Instant};
use crate::view::PathRtt;

/// Smoothed RTT, its variation, windowed extremes, and the timeout with its backoff.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    srtt: Duration,
    rttvar: Duration,
    latest: Duration,
    min: Extreme,
    max: Extreme,
    rto: Duration,
    rto_min: Duration,
    rto_max: Duration,
    backoff: u32,
    /// Timeouts need not hold back for fear of congestion (`set_retries_soon`).
    soon: bool,
    /// How long the peer may hold an acknowledgement back.
    ack_delay: Duration,
    /// The timeout is never shorter than this: acknowledgements may come by a slower path.
    least: Duration,
}

impl RttEstimator {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            srtt: Duration::ZERO,
            rttvar: Duration::ZERO,
            latest: Duration::ZERO,
            min: Extreme::default(),
            max: Extreme::default(),
            rto: config.rto_initial,
            rto_min: config.rto_min,
            rto_max: config.rto_max,
            backoff: 0,
            soon: false,
            ack_delay: config.ack_delay,
            least: Duration::ZERO,
        }
    }

    /// Takes a sample from a segment that was sent once (Karn's rule is the caller's).
    pub(super) fn on_sample(&mut self, now: Instant, sample: Duration) {
        let sample = Duration(sample.0.max(1));
        if self.srtt.is_zero() {
            self.srtt = sample;
            self.rttvar = sample / 2;
        } else {
            let error = self.srtt.0.abs_diff(sample.0);
            self.rttvar = Duration((self.rttvar.0 * 3 + error) / 4);
            self.srtt = Duration((self.srtt.0 * 7 + sample.0) / 8);
        }
        self.latest = sample;
        if self.max.is_over(now) {
            self.max.turn(now);
        }
        self.max.take(sample, |new, old| new > old);
        let variance = (self.rttvar * 4).max(self.rto_min);
        self.rto = (self.srtt + variance).min(self.rto_max);
    }

    /// Begins with what is known from elsewhere (RFC 9040), until there is a sample.
    pub(super) fn seed(&mut self, known: PathRtt) {
        (self.srtt, self.rttvar, self.latest) = (known.srtt, known.rttvar, known.srtt);
        self.rto = (self.srtt + (self.rttvar * 4).max(self.rto_min)).min(self.rto_max);
    }

    /// Takes a sample for the windowed minimum only (the most recently sent segment of an ACK).
    /// Behind a queue of one's own (`queued`) it says nothing of the path: the least of before is
    /// not forgotten for it.
    pub(super) fn on_recent(
        &mut self,
        now: Instant,
        sample: Duration,
        queued: impl FnOnce() -> bool,
    ) {
        if self.min.is_over(now) && !queued() {
            self.min.turn(now);
        }
        self.min.take(Duration(sample.0.max(1)), |new, old| new < old);
    }

    /// The ACK path has changed since the latest sample: earlier ones count no more.
    pub(super) fn restart(&mut self) {
        (self.srtt, self.rttvar) = (self.latest, self.latest / 2);
        self.min.restart(self.latest);
        self.max.restart(self.latest);
    }

    /// Sets a lower limit of the timeout.
    pub(super) fn set_least(&mut self, least: Duration) {
        self.least = least;
    }

    /// The timeout without backoff and limits from elsewhere.
    pub(super) fn base(&self) -> Duration {
        self.rto
    }

    /// Sets the largest timeout.
    pub(super) fn set_max(&mut self, max: Duration) {
        // Timeouts that a lower limit kept from doubling are not counted as if they had: the
        // timeout stays what it was. As many of them are no long silence.
        let base = self.rto.max(self.least).0;
        while max > self.rto_max
            && self.backoff > 0
            && base.saturating_mul(1 << (self.backoff - 1).min(20)) >= self.rto_max.0
        {
            self.backoff -= 1;
        }
        self.rto_max = max;
    }

    /// Whether the upper limit has been lowered.
    pub(super) fn is_limited(&self, config: &TcpConfig) -> bool {
        self.rto_max < config.rto_max
    }

    /// A timeout fired: double it (RFC 6298 section 5.5).
    pub(super) fn back_off(&mut self) -> u32 {
        self.backoff += 1;
        self.backoff
    }

    /// From now on until something is acknowledged timeouts come as probes do in QUIC (RFC 9002
    /// section 6.2), and those in a row grow by a quarter of the silence instead of doubling: what
    /// is sent at each of them is next to nothing beside what the path carries
    /// ([`retry_burst`](crate::congestion::CongestionController::retry_burst)).
    pub(super) fn set_retries_soon(&mut self, soon: bool) {
        self.soon = soon;
    }

    pub(super) fn retries_soon(&self) -> bool {
        self.soon
    }

    /// New data was acknowledged.
    pub(super) fn reset_backoff(&mut self) {
        (self.backoff, self.soon) = (0, false);
    }

    /// Timeouts in a row.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The timeout, backoff included.
    pub(super) fn rto(&self) -> Duration {
        let timeout = if self.soon {
            let variance = (self.rttvar * 4).max(Duration::from_millis(1));
            let base = (self.srtt + variance + self.ack_delay).min(self.rto).max(self.least);
            // Four of them are a silence of four: from then on each is a quarter of it.
            let grow = |timeout: u64, _| timeout.saturating_add(timeout / 4);
            (4..self.backoff.min(64)).fold(base.0, grow)
        } else {
            let base = self.rto.max(self.least);
            base.0.saturating_mul(1 << self.backoff.min(20))
        };
        Duration(timeout).min(self.rto_max)
    }

    /// Zero before the first sample.
    pub(super) fn srtt(&self) -> Duration {
        self.srtt
    }

    pub(super) fn rttvar(&self) -> Duration {
        self.rttvar
    }

    pub(super) fn latest(&self) -> Duration {
        self.latest
    }

    /// Smallest sample of the last five to ten seconds; zero before the first.
    pub(super) fn min(&self) -> Duration {
        self.min.get(|a, b| a < b)
    }

    /// Largest sample of the last five to ten seconds.
    pub(super) fn max(&self) -> Duration {
        self.max.get(|a, b| a > b)
    }
}

/// Windowed extreme in two buckets: cheap, and old values leave after one to two bucket lengths.
#[derive(Clone, Copy, Default, Debug)]
struct Extreme {
    current: Duration,
    previous: Duration,
    since: Instant,
}

impl Extreme {
    const BUCKET: Duration = Duration::from_secs(5);

    /// Whether it is time to forget the older part.
    #[inline]
    fn is_over(&self, now: Instant) -> bool {
        now - self.since >= Self::BUCKET
    }

    fn turn(&mut self, now: Instant) {
        (self.previous, self.current, self.since) = (self.current, Duration::ZERO, now);
    }

    #[inline]
    fn take(&mut self, sample: Duration, better: fn(Duration, Duration) -> bool) {
        if self.current.is_zero() || better(sample, self.current) {
            self.current = sample;
        }
    }

    fn restart(&mut self, sample: Duration) {
        (self.current, self.previous) = (sample, Duration::ZERO);
    }

    fn get(&self, better: fn(Duration, Duration) -> bool) -> Duration {
        match (self.current.is_zero(), self.previous.is_zero()) {
            (true, _) => self.previous,
            (_, true) => self.current,
            _ if better(self.previous, self.current) => self.previous,
            _ => self.current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_and_smoothing_follow_rfc_6298() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        rtt.on_sample(Instant(1), Duration::from_millis(400));
        assert_eq!(rtt.srtt(), Duration::from_millis(400));
        assert_eq!(rtt.rttvar(), Duration::from_millis(200));
        assert_eq!(rtt.rto(), Duration::from_millis(1200));
        rtt.on_sample(Instant(2), Duration::from_millis(480));
        assert_eq!(rtt.srtt(), Duration::from_millis(410));
        assert_eq!(rtt.rttvar(), Duration::from_millis(170));
    }

    #[test]
    fn bound_applies_to_the_variance_and_backoff_doubles_up_to_the_cap() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        for i in 0..100 {
            rtt.on_sample(Instant(i), Duration::from_millis(300));
        }
        assert_eq!(rtt.rto(), Duration::from_millis(500));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Duration::from_secs(2));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Duration::from_secs(120));
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), Duration::from_millis(500));
    }

    #[test]
    fn windowed_minimum_forgets() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        rtt.on_recent(Instant::ZERO, Duration::from_millis(10), || false);
        for s in 1..12 {
            rtt.on_recent(
                Instant::ZERO + Duration::from_secs(s),
                Duration::from_millis(50),
                || false,
            );
        }
        assert_eq!(rtt.min(), Duration::from_millis(50));
    }

    /// Who fills a queue for a while would take it for the path, and that for good once the path is
    /// left alone.
    #[test]
    fn a_queue_of_ones_own_is_no_reason_to_forget() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        for s in 0..40 {
            let sample = if s == 0 { 10 } else { 50 };
            rtt.on_recent(at(s), Duration::from_millis(sample), || true);
        }
        assert_eq!(rtt.min(), Duration::from_millis(10));
        rtt.on_recent(at(40), Duration::from_millis(50), || false);
        rtt.on_recent(at(45), Duration::from_millis(50), || false);
        assert_eq!(rtt.min(), Duration::from_millis(50), "by itself it is as long");
    }

    #[test]
    fn extremes_are_of_two_buckets_of_five_seconds() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        for (second, sample) in [(6, 30), (7, 20), (8, 40), (11, 25), (12, 35)] {
            rtt.on_sample(at(second), Duration::from_millis(sample));
            rtt.on_recent(at(second), Duration::from_millis(sample), || false);
        }
        assert_eq!((rtt.min().as_millis(), rtt.max().as_millis()), (20, 40), "of the one before");
        assert_eq!(rtt.latest(), Duration::from_millis(35));
        rtt.on_sample(at(16), Duration::from_millis(33));
        rtt.on_recent(at(16), Duration::from_millis(33), || false);
        assert_eq!((rtt.min().as_millis(), rtt.max().as_millis()), (25, 35));
        rtt.on_sample(at(17), Duration::from_millis(90));
        rtt.on_recent(at(17), Duration::from_millis(10), || false);
        assert_eq!((rtt.min().as_millis(), rtt.max().as_millis()), (10, 90), "of the present one");
    }

    /// The ACK path has changed: what was measured before counts no more.
    #[test]
    fn restart_keeps_the_latest_sample_alone() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        for sample in [100, 100, 20] {
            rtt.on_sample(Instant(1), Duration::from_millis(sample));
            rtt.on_recent(Instant(1), Duration::from_millis(sample), || false);
        }
        rtt.restart();
        assert_eq!([rtt.srtt(), rtt.min(), rtt.max()], [Duration::from_millis(20); 3]);
        assert_eq!(rtt.rttvar(), Duration::from_millis(10));
    }

    #[test]
    fn the_timeout_keeps_to_its_limits() {
        let config = TcpConfig::default();
        let mut rtt = RttEstimator::new(&config);
        rtt.on_sample(Instant(1), Duration::from_millis(100));
        assert_eq!((rtt.base(), rtt.rto()), (Duration::from_millis(300), rtt.base()));
        rtt.set_least(Duration::from_millis(700));
        rtt.back_off();
        assert_eq!((rtt.base().as_millis(), rtt.rto().as_millis()), (300, 1400));
        assert!(!rtt.is_limited(&config));
        rtt.set_max(Duration::from_secs(1));
        assert!(rtt.is_limited(&config));
        assert_eq!(rtt.rto(), Duration::from_secs(1));
    }

    #[test]
    fn who_retries_soon_waits_for_an_answer_and_then_for_a_quarter_of_the_silence() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        for i in 0..100 {
            rtt.on_sample(Instant(i), Duration::from_millis(10));
        }
        assert_eq!(rtt.rto(), Duration::from_millis(210));
        rtt.set_retries_soon(true);
        let wait = Duration::from_millis(10 + 1 + 40);
        let mut silence = Duration::ZERO;
        for n in 0..60 {
            let timeout = rtt.rto();
            let expected = if n < 4 { wait } else { (silence / 4).min(rtt.rto_max) };
            assert!(timeout.0.abs_diff(expected.0) < 100, "{n}: {timeout:?}, not {expected:?}");
            silence = silence + timeout;
            assert_eq!(rtt.back_off(), n + 1);
        }
        rtt.reset_backoff();
        assert_eq!(rtt.rto(), Duration::from_millis(210));
    }
}
