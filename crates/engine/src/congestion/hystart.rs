//! HyStart++ (RFC 9406): leaves the first slow start when round-trip times rise, before loss.
//!
//! Only for the first slow start (section 4.3), and for senders that do not pace (L = 8).
//!
//! And [`Linux`]: HyStart (Ha and Rhee, 2011) as Linux' `tcp_cubic.c` has it, which ends slow start
//! at once, and also where acknowledgements follow each other closely for half a round trip: what
//! is in flight then fills half of the path.

use super::Ack;
use crate::time::{Duration, Instant, mul_div};

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;
const L: u64 = 8;

/// State of the first slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// The round ends when this is acknowledged; unknown before the first ACK.
    window_end: Option<u64>,
    /// RTT samples of this round.
    samples: u32,
    current_round_min_rtt: Duration,
    last_round_min_rtt: Duration,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline_min_rtt: Duration,
    /// Rounds ended in it, the one it began in included.
    rounds: u32,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            window_end: None,
            samples: 0,
            current_round_min_rtt: Duration::MAX,
            last_round_min_rtt: Duration::MAX,
            css: None,
        }
    }

    /// Whether in conservative slow start.
    pub(super) fn conservative(&self) -> bool {
        self.css.is_some()
    }

    /// RTTs from now on have nothing to do with those before.
    pub(super) fn restart(&mut self) {
        *self = Self::new();
    }

    /// By how many bytes the window grows for `bytes` newly acknowledged.
    pub(super) fn growth(&self, bytes: u64, mss: u64) -> u64 {
        let counted = bytes.min(L * mss);
        if self.conservative() { counted / CSS_GROWTH_DIVISOR } else { counted }
    }

    /// After the window has grown by `ack`: whether slow start is over.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.samples += 1;
        }
        if self.samples >= N_RTT_SAMPLE {
            self.compare();
        }
        let end = *self.window_end.get_or_insert(ack.snd_nxt);
        if ack.snd_una < end {
            return false;
        }
        self.next_round(ack.snd_nxt)
    }

    fn compare(&mut self) {
        let (current, last) = (self.current_round_min_rtt, self.last_round_min_rtt);
        match self.css {
            Some(css) if current < css.baseline_min_rtt => self.css = None,
            Some(_) => {}
            None if last == Duration::MAX => {}
            None => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.css = Some(Css { baseline_min_rtt: current, rounds: 0 });
                }
            }
        }
    }

    fn next_round(&mut self, snd_nxt: u64) -> bool {
        self.window_end = Some(snd_nxt);
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = Duration::MAX;
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        css.rounds += 1;
        css.rounds >= CSS_ROUNDS
    }
}

/// Segments from which on it looks (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// Acknowledgements no further apart than this are one train (`hystart_ack_delta_us`).
const ACK_DELTA: Duration = Duration::from_millis(2);
/// Bytes of the largest super-packet, four of which may have delayed an acknowledgement, and the
/// most that they are taken to have (`hystart_ack_delay`).
const GSO_MAX: u64 = 65_536;
const ACK_DELAY: Duration = Duration::from_millis(1);

/// Linux' HyStart, which ends one slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linux {
    /// The round ends when more than this is acknowledged.
    end: u64,
    round_start: Instant,
    /// The last of the acknowledgements that follow each other closely.
    last_ack: Instant,
    least: Duration,
    current: Duration,
    samples: u32,
    found: bool,
}

impl Linux {
    pub(super) fn new() -> Self {
        Self {
            end: 0,
            round_start: Instant::ZERO,
            last_ack: Instant::ZERO,
            least: Duration::MAX,
            current: Duration::MAX,
            samples: 0,
            found: false,
        }
    }

    /// Before the window of `cwnd` bytes grows by `ack`: whether slow start is over.
    pub(super) fn on_ack(&mut self, ack: &Ack, cwnd: u64) -> bool {
        let Some(rtt) = ack.rtt.filter(|_| !self.found) else { return false };
        self.least = self.least.min(rtt);
        if ack.snd_una > self.end {
            (self.round_start, self.last_ack) = (ack.now, ack.now);
            (self.end, self.current, self.samples) = (ack.snd_nxt, Duration::MAX, 0);
        }
        if cwnd < LOW_WINDOW * ack.mss {
            return false;
        }
        let is_train = ack.now - self.last_ack <= ACK_DELTA;
        if is_train {
            self.last_ack = ack.now;
        }
        self.current = self.current.min(rtt);
        let known = self.samples >= N_RTT_SAMPLE;
        self.samples += u32::from(!known);
        let thresh = (self.least / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        let is_long = is_train && ack.now - self.round_start > self.half(ack, cwnd);
        self.found = is_long || known && self.current > self.least + thresh;
        self.found
    }

    /// Half of a round trip, and of what super-packets may delay an acknowledgement by at the rate
    /// at which Linux would pace.
    fn half(&self, ack: &Ack, cwnd: u64) -> Duration {
        let pacing = mul_div(2 * cwnd, 1_000_000_000, ack.srtt.0.max(1));
        let delay = Duration(mul_div(4 * GSO_MAX, 1_000_000_000, pacing.max(1)));
        (self.least + delay.min(ACK_DELAY)) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests;
    use super::*;

    const MSS: u64 = 1000;

    /// A round of `count` acknowledgements of two segments, `apart` from each other, the first
    /// after `base`, each `later` than the one before it: in which of them slow start ends.
    fn round(linux: &mut Linux, start: Instant, count: u64, apart: u64, later: u64) -> Option<u64> {
        let (base, until) = (Duration::from_millis(40), linux.end.max(1));
        (0..count).find(|n| {
            let now = start + base + Duration::from_micros(n * apart);
            let rtt = base + Duration::from_micros(n * later);
            let ack = Ack { now, rtt: Some(rtt), srtt: rtt, mss: MSS, ..tests::ack(0, 40) };
            let ack = Ack { snd_una: until + n + 1, snd_nxt: until + count, ..ack };
            linux.on_ack(&ack, count * 2 * MSS)
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_it() {
        let train = |count, apart| round(&mut Linux::new(), Instant::ZERO, count, apart, 0);
        // 20.5 ms by acknowledgements 1 ms apart: the 21st.
        assert_eq!(train(40, 1_000), Some(21));
        assert_eq!(train(20, 1_000), None);
        assert_eq!(train(20, 2_001), None, "too far apart for a train");
        assert_eq!(train(7, 10_000), None, "a small window");
    }

    #[test]
    fn round_trips_that_grow_by_an_eighth_end_it() {
        let mut linux = Linux::new();
        assert_eq!(round(&mut linux, Instant::ZERO, 16, 100, 0), None);
        // All of them are compared by the least of the round.
        let second = Instant::ZERO + Duration::from_millis(40);
        let longer = |by| {
            let mut linux = linux;
            let now = second + Duration::from_millis(40);
            (0..16).any(|n| {
                let ack = Ack { now, rtt: Some(Duration::from_micros(by)), ..tests::ack(0, 40) };
                let ack = Ack { srtt: Duration::from_millis(40), mss: MSS, ..ack };
                let (snd_una, snd_nxt) = (linux.end + u64::from(n == 0), linux.end + 16);
                linux.on_ack(&Ack { snd_una, snd_nxt, ..ack }, 32 * MSS)
            })
        };
        assert!(longer(45_001) && !longer(45_000));
    }
}
