//! Whether a loss comes with a queue. At a drop-tail queue packets are lost when it is full, and
//! the round trips of those around them say so; a packet lost at random leaves no such trace.
//!
//! What round trips are is said by the least of the last one or few. A queue that overflows has
//! stood for as long; a processor that is late, a sender's burst or a radio lengthens some of them
//! and leaves others, and the more they differ the deeper a queue must be to be one.
//!
//! Ours. That round trips tell losses apart is known from Biaz and Vaidya (1999) and TCP Veno (Fu
//! and Liew, 2003), to go by the least of a while from Copa (Arun and Balakrishnan, 2018), to cut a
//! window to what empties the queue from TCP Westwood (2001). Where round trips vary by themselves
//! for longer they look like a queue, and losses count as ever: it errs to that side. At a queue
//! of less than three segments losses do not count until a tenth of all is lost, of late or in one
//! recovery.

use super::Ack;
use crate::time::{Duration, Instant};

/// What recent round trips and losses say about the bottleneck's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    /// The latest sample of a round trip.
    sample: Duration,
    /// The least of all, and of the part of time before this one and of this.
    least: Duration,
    low: [Duration; 2],
    /// The longest of these parts; the samples of this one, and when it began.
    high: [Duration; 2],
    samples: u32,
    part: Instant,
    /// By how much samples of two parts differ, smoothed.
    wobble: Duration,
    /// Parts in a row, of late, without a queue.
    calm: u32,
    /// The longest standing round trip, in this stage and the one before.
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
    /// A stage lasts this long.
    const STAGE: Duration = Duration::from_secs(10);
    /// A part of time lasts half a round trip, or as much as this if that is no more than two:
    /// what has to wait for a processor waits for milliseconds, however short round trips are.
    const LATE: Duration = Duration::from_millis(25);
    /// A queue as deep as this, or a quarter of the least round trip, is one, however deep it has
    /// been: jitter makes deep ones of none.
    const DEEP: Duration = Duration::from_millis(10);
    /// As `MAX_RTT_THRESH` of RFC 9406.
    const BURST: Duration = Duration::from_millis(16);
    /// A share of loss above this is congestion whatever the round trips say, per mille.
    const MOST_LOSS: u64 = 100;
    /// Parts without a queue that are calm: two round trips.
    const CALM: u32 = 4;
    /// Segments after which counts are halved.
    const MEMORY: u64 = 512;
    /// Losses of one recovery are congestion when they exceed that share by so many segments. At
    /// 5 % of random loss a recovery gets there once in a thousand.
    const MARGIN: u64 = 5;

    pub(super) fn new() -> Self {
        Self {
            sample: Duration::MAX,
            least: Duration::ZERO,
            low: [Duration::MAX; 2],
            high: [Duration::ZERO; 2],
            samples: 0,
            part: Instant::ZERO,
            wobble: Duration::ZERO,
            calm: 0,
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
            self.least = ack.min_rtt;
            self.take(ack, rtt);
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

    /// A sample. A part has two of them at least.
    fn take(&mut self, ack: &Ack, rtt: Duration) {
        let length = (ack.srtt / 2).max(Self::LATE.min(ack.srtt * 2));
        if self.samples >= 2 && ack.now >= self.part + length {
            let differ = self.high[0].max(self.high[1]).saturating_sub(self.standing());
            self.wobble = Duration((self.wobble.0 * 7 + differ.0) / 8);
            self.longest[1] = self.longest[1].max(self.standing());
            self.calm = if self.is_empty() { self.calm + 1 } else { 0 };
            self.low = [self.low[1], Duration::MAX];
            self.high = [self.high[1], Duration::ZERO];
            (self.samples, self.part) = (0, ack.now);
        }
        self.low[1] = self.low[1].min(rtt);
        self.high[1] = self.high[1].max(rtt.min(self.sample));
        self.samples += 1;
        self.sample = rtt;
    }

    /// The least round trip of two parts. A queue that is full has been long for as long; a sender,
    /// receiver or link that is late now and then is in time between.
    fn standing(&self) -> Duration {
        let least = self.low[0].min(self.low[1]);
        if least == Duration::MAX { self.least } else { least }
    }

    fn queue(&self) -> Duration {
        self.standing().saturating_sub(self.least)
    }

    /// What round trips differ by when there is no queue.
    fn noise(&self) -> Duration {
        (self.spacing * 3).max(Duration::from_micros(500))
    }

    /// Whether no queue stands.
    pub(super) fn is_empty(&self) -> bool {
        self.queue() < self.noise().max(self.wobble)
    }

    /// Whether no queue has stood for two round trips since the last reduction: then the link has
    /// time to spare.
    pub(super) fn is_calm(&self) -> bool {
        self.calm >= Self::CALM
    }

    /// The window has been reduced. Answers the least round trip.
    pub(super) fn reduced(&mut self) -> Duration {
        self.calm = 0;
        self.least
    }

    /// What a loss found now leaves of the window, `beta` if it is congestion for sure: all of it
    /// (`None`) without a queue. Between an empty queue and a full one it may be either: then the
    /// window is cut to what empties the queue, and no further. `first`: in the first slow start.
    pub(super) fn answer(&self, beta: f64, mss: u64, first: bool) -> Option<f64> {
        let standing = self.standing();
        let longest = self.longest[0].max(self.longest[1]).max(standing);
        let deepest = longest.saturating_sub(self.least);
        // The bursts of slow start make a queue of their own: as deep as HyStart++ allows.
        let burst = if first { (self.least / 8).min(Self::BURST) } else { Duration::ZERO };
        let noise = self.noise().max(burst);
        let queue = self.queue();
        let seen = self.lost + self.delivered;
        if seen > 0 && self.lost * 1000 > Self::MOST_LOSS * seen || self.overflowed(mss) {
            return Some(beta);
        }
        let enough = (deepest / 2).min(Self::DEEP.max(self.least / 4));
        if queue < enough.max(noise).max(self.wobble) {
            return None;
        }
        if queue + noise >= deepest / 10 * 9 {
            return Some(beta);
        }
        Some(beta.max(self.least.0 as f64 / standing.0.max(1) as f64))
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

    /// How deep a queue has been is remembered for a stage or two, whatever is answered meanwhile:
    /// losses at random keep a deep one short, and each would look like an overflow of that.
    fn next_stage(&mut self, now: Instant) {
        self.longest = [self.longest[1], Duration::ZERO];
        self.stage = now;
    }
}
