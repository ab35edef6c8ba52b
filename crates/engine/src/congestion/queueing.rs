//! Whether a loss comes with a queue. At a drop-tail queue packets are lost when it is full, and
//! the round trips of those around them say so; a packet lost at random leaves no such trace.
//!
//! Ours. That round trips tell losses apart is known from Biaz and Vaidya (1999) and TCP Veno (Fu
//! and Liew, 2003), to cut a window to what empties the queue from TCP Westwood (2001). Where round
//! trips vary by themselves they look like a queue, and losses count as ever: it errs to that side.
//! At a queue of less than three segments losses do not count until a tenth of all is lost, of late
//! or in one recovery.

use super::Ack;
use crate::time::{Duration, Instant};

/// What round trips and losses of late say about the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    /// The latest sample of a round trip.
    sample: Duration,
    /// The less of the latest two, and the least.
    latest: Duration,
    least: Duration,
    /// The longest, in this stage and the one before.
    longest: [Duration; 2],
    stage: Instant,
    /// Time in which a segment passes.
    spacing: Duration,
    /// Bytes delivered and lost, of late.
    delivered: u64,
    lost: u64,
    /// The same since the loss that was answered last, or spared.
    since: (u64, u64),
}

impl Queueing {
    /// A stage lasts this long at most.
    const STAGE: Duration = Duration::from_secs(10);
    /// A queue as deep as this, or a quarter of the least round trip, is one, however deep it has
    /// been: jitter makes deep ones of none.
    const DEEP: Duration = Duration::from_millis(10);
    /// As `MAX_RTT_THRESH` of RFC 9406.
    const BURST: Duration = Duration::from_millis(16);
    /// A share of loss above this is congestion whatever the round trips say, per mille.
    const MOST_LOSS: u64 = 100;
    /// Segments after which counts are halved.
    const MEMORY: u64 = 512;
    /// Losses of one recovery are congestion when they exceed that share by so many segments. At
    /// 5 % of random loss a recovery gets there once in a thousand.
    const MARGIN: u64 = 5;

    pub(super) fn new() -> Self {
        Self {
            sample: Duration::ZERO,
            latest: Duration::ZERO,
            least: Duration::ZERO,
            longest: [Duration::ZERO; 2],
            stage: Instant::ZERO,
            spacing: Duration::ZERO,
            delivered: 0,
            lost: 0,
            since: (0, 0),
        }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack) {
        // A sample alone may be an acknowledgement that was delayed, for want of more data.
        if let Some(rtt) = ack.rtt.filter(|_| ack.in_flight > 0) {
            self.latest = rtt.min(self.sample);
            (self.sample, self.least) = (rtt, ack.min_rtt);
            self.longest[1] = self.longest[1].max(self.latest);
        }
        if ack.now > self.stage + Self::STAGE {
            self.next_stage(ack.now);
        }
        if let Some((rate, _)) = ack.delivery_rate {
            self.spacing = Duration((ack.mss * 1_000_000_000).checked_div(rate).unwrap_or(0));
        }
        self.delivered += ack.delivered;
        self.lost += ack.lost;
        self.since = (self.since.0 + ack.delivered, self.since.1 + ack.lost);
        if self.delivered + self.lost > Self::MEMORY * ack.mss {
            self.delivered /= 2;
            self.lost /= 2;
        }
    }

    /// What a loss found now leaves of the window, `beta` if it is congestion for sure: all of it
    /// (`None`) without a queue. Between an empty queue and a full one it may be either: then the
    /// window is cut to what empties the queue, and no further. `first`: in the first slow start.
    pub(super) fn answer(&self, beta: f64, mss: u64, first: bool) -> Option<f64> {
        let longest = self.longest[0].max(self.longest[1]);
        let deepest = longest.saturating_sub(self.least);
        let noise = (self.spacing * 3).max(Duration::from_micros(500));
        // The bursts of slow start make a queue of their own: as deep as HyStart++ allows.
        let burst = if first { (self.least / 8).min(Self::BURST) } else { Duration::ZERO };
        let noise = noise.max(burst);
        let queue = self.latest.saturating_sub(self.least);
        let seen = self.lost + self.delivered;
        if seen > 0 && self.lost * 1000 > Self::MOST_LOSS * seen || self.overflowed(mss) {
            return Some(beta);
        }
        if queue < (deepest / 2).min(Self::DEEP.max(self.least / 4)).max(noise) {
            return None;
        }
        if queue + noise >= deepest / 10 * 9 {
            return Some(beta);
        }
        Some(beta.max(self.least.0 as f64 / self.latest.0.max(1) as f64))
    }

    /// A recovery begins.
    pub(super) fn begin(&mut self) {
        self.since = (0, 0);
    }

    /// Whether so much of what the recovery is about is lost that it was an overflow after all. A
    /// queue that holds less than a burst, behind a long round trip, is not seen in samples.
    pub(super) fn overflowed(&self, mss: u64) -> bool {
        let (delivered, lost) = self.since;
        lost.saturating_sub(Self::MARGIN * mss) * 1000 > Self::MOST_LOSS * (delivered + lost)
    }

    /// The window has been answered for.
    pub(super) fn next_stage(&mut self, now: Instant) {
        self.longest = [self.longest[1], Duration::ZERO];
        self.stage = now;
    }
}
