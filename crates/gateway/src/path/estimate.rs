//! What is known of one direction of a path: how fast it delivers, what it has shown to carry, how
//! long its queue is, what it loses. A state machine without I/O, the same at both ends.
//!
//! # What it is fed with
//!
//! [`Sample`]s, each of one marker (`reports`): a small packet in the stream of the tunnel's
//! packets, with the sender's clock and with what the sender had sent before it ([`Reading`]); the
//! receiver adds its own clock and what it had received before the marker. Nothing is added to the
//! packets between two markers: both ends count them anyway.
//!
//! - *Delivery rate*: bytes that came between two markers, by the receiver's clock.
//! - *Loss*: packets that were sent between two markers, and of these those that did not come.
//!   Counts only grow, so a lost marker loses nothing, and what was overtaken by a marker counts as
//!   lost only until the next.
//! - *Queueing delay*: the difference of both clocks at a marker, above the least difference of the
//!   last half minute. The clocks need not agree; that one runs faster shows in the least
//!   differences, which then move steadily (`base`).
//!
//! # What it concludes
//!
//! *Capacity* is measured only where the path was the bottleneck, by what came meanwhile:
//! - a queue stood: the queues that two markers found cover the time between them; or half of it,
//!   in a run of [`HALF_MARKERS`]; or a run of [`STOOD_MARKERS`] found one, however short. (Markers
//!   leave at times of their own, so on a link that is half idle every other one finds none.)
//! - or packets were lost because there were too many (`congestion`).
//!
//! What comes faster than the capacity that is known raises it. A path that was never the
//! bottleneck has no capacity, which is not the same as a small one.
//!
//! # What it does not see
//!
//! A queue that never empties for half a minute becomes the base. A longer way (another route)
//! under load looks like a queue until the load pauses or the half minute has passed.

mod base;
mod congestion;

use base::Base;
use congestion::Congestion;
use std::collections::VecDeque;
use tabane_engine::{Duration, Instant};

/// One direction of a path, as it is now.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Estimate {
    /// What arrives now, bits of inner packets per second; `None` while it is idle.
    pub(crate) delivery_rate: Option<u64>,
    /// What it has shown to carry when it was the bottleneck, bits of inner packets per second;
    /// `None` if it never was.
    pub(crate) capacity: Option<u64>,
    /// How much `capacity` may be trusted, 0 to 1: it was exercised for long, lately, and evenly.
    pub(crate) confidence: f64,
    /// One-way delay above its base; `None` while nothing says it.
    pub(crate) queueing_delay: Option<Duration>,
    /// Variation of the one-way delay (interarrival jitter of RFC 3550 section 6.4.1, of markers).
    pub(crate) jitter: Option<Duration>,
    /// Share of packets that were lost lately; `None` while too few were sent.
    pub(crate) loss: Option<f64>,
    /// The longest of the last [`LONGEST_OF`].
    pub(crate) longest_delay: Option<Duration>,
    /// The newest marker.
    pub(crate) newest: Option<Sample>,
    /// The path was the bottleneck before it.
    pub(crate) exercised: bool,
}

/// What one end has counted, and when by its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reading {
    /// Microseconds since an origin of that end's.
    pub(crate) at_us: u64,
    /// Packets so far.
    pub(crate) packets: u64,
    /// Their bytes, as inner packets.
    pub(crate) bytes: u64,
}

/// A marker: what its sender had sent before it, and its receiver received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// When the marker left.
    pub(crate) sent: Reading,
    /// When it came.
    pub(crate) received: Reading,
}

/// The estimate of one direction of a path.
#[derive(Default, Debug)]
pub(crate) struct Estimator {
    /// The last [`POINTS_MAX`] markers; the oldest go first.
    points: VecDeque<Point>,
    base: Base,
    congestion: Congestion,
    capacity: Option<Capacity>,
    /// Fastest rate delivered lately: what is far below it is a light load.
    peak_bps: f64,
    /// Markers in a row that came after little, and the least delay among them.
    light: (u32, f64),
    /// What light loads find: mean and deviation of the delay above the base, microseconds.
    noise_us: (f64, f64),
    /// Markers in a row that have found a queue.
    stood: usize,
    jitter_us: Option<f64>,
    /// Packets sent and lost, older ones counting less.
    losses: (f64, f64),
}

/// Markers in a row that find a queue show that it stood between them too: of a link that is busy
/// three quarters of the time one run in eighteen is as long, of half the time one in a thousand.
const STOOD_MARKERS: usize = 10;
/// The same where the queues found cover half of the time anyway.
const HALF_MARKERS: usize = 4;
/// Markers are taken that are so far apart: half of what is usual.
const APART_US: u64 = super::reports::INTERVAL.0 / 1000 / 2;
/// Between markers further apart much may have happened, an outage for instance.
const GAP_US: u64 = 500_000;
/// A delay below this is no queue, whatever the noise: timers and batches of the agents.
const STOOD_MIN_US: f64 = 2_000.0;
/// More than so many deviations above what light loads find is no noise.
const STOOD_DEVIATIONS: f64 = 3.0;
/// What is delivered now: over so long at least, and so many packets, but not longer than that.
const RATE_TIME_US: u64 = 200_000;
const RATE_PACKETS: u64 = 16;
const RATE_TIME_MAX_US: u64 = 1_000_000;
/// Two rates that differ by more are not of one capacity: the older one is forgotten.
const CHANGED: f64 = 0.2;
/// A rate this long above the capacity raises it.
const RAISED_US: u64 = 500_000;
/// A share of the peak below which a load is light; and so many markers in a row may show that
/// the way has become longer.
const LIGHT_SHARE: f64 = 0.1;
const LIGHT_MARKERS: u32 = 5;
/// Without a marker for so long, a direction is idle.
const IDLE: Duration = Duration::from_secs(1);
/// A queue may be gone at the next marker.
const LONGEST_OF: Duration = Duration::from_millis(100);
/// Losses count for about so long, and say nothing below so many packets.
const LOSS_TIME_US: f64 = 2e6;
const LOSS_PACKETS: f64 = 20.0;
/// What was lost before that says nothing about now.
const LOSS_KEPT: Duration = Duration::from_secs(30);
/// Half of the trust in a capacity is gone after so long: links of radio change within that.
const TRUST_HALF_S: f64 = 30.0;
/// Half of the trust in a capacity is there after it was exercised for so long.
const TRUST_GAINED_S: f64 = 0.25;
/// Three seconds of markers.
const POINTS_MAX: usize = 64;

/// What a marker has shown.
#[derive(Clone, Copy, Debug)]
struct Point {
    heard: Instant,
    sample: Sample,
    queue_us: f64,
    /// The path was the bottleneck since the marker before.
    exercised: bool,
}

#[derive(Clone, Copy, Debug)]
struct Capacity {
    bps: f64,
    /// For how long it has been exercised, older times counting less, seconds.
    exercised_s: f64,
    /// How far measurements lie apart, as a share.
    deviation: f64,
    at: Instant,
}

impl Estimator {
    /// Takes what a marker has shown. Markers that are older than the newest say nothing new, and
    /// those in a hurry (`Reports::set_hurried`) are more than what is counted here is made for.
    pub(crate) fn handle_sample(&mut self, now: Instant, sample: Sample) {
        let Some(last) = self.points.back().copied() else {
            let queue_us = self.base.above(&sample);
            return self.push(Point { heard: now, sample, queue_us, exercised: false });
        };
        if sample.sent.at_us < last.sample.sent.at_us.saturating_add(APART_US) {
            return;
        }
        let Some(step) = Step::between(&last.sample, &sample) else { return };
        let queue_us = self.base.above(&sample);
        self.push(Point { heard: now, sample, queue_us, exercised: false });
        let moved = (self.base.offset(&sample) - self.base.offset(&last.sample)).abs();
        let jitter = self.jitter_us.get_or_insert(0.0);
        *jitter += (moved - *jitter) / 16.0;
        self.count_losses(&step);
        self.note_light(&step, queue_us);
        self.exercise(&step);
        if let Some((bps, micros)) = self.congestion.handle_step(&step) {
            self.measured(now, bps, micros);
        }
        self.raise(now);
    }

    /// An end counts anew. What the path has shown to carry it may still carry.
    pub(crate) fn restart(&mut self) {
        let capacity = self.capacity;
        *self = Self { capacity, ..Self::default() };
    }

    /// What is known now.
    #[must_use]
    pub(crate) fn estimate(&self, now: Instant) -> Estimate {
        let newest = self.points.back();
        let age = newest.map_or(Duration::MAX, |point| now.saturating_since(point.heard));
        let fresh = newest.filter(|_| age < IDLE);
        let lately = |point: &&Point| now.saturating_since(point.heard) <= LONGEST_OF;
        let longest = self.points.iter().rev().take_while(lately).map(|point| point.queue_us);
        let (sent, lost) = self.losses;
        let told = sent >= LOSS_PACKETS && age < LOSS_KEPT;
        Estimate {
            delivery_rate: fresh.and_then(|_| self.rate(RATE_TIME_US)).map(|bps| bps as u64),
            capacity: self.capacity.map(|capacity| capacity.bps as u64),
            confidence: self.capacity.map_or(0.0, |capacity| capacity.confidence(now)),
            queueing_delay: fresh.map(|point| micros(point.queue_us)),
            longest_delay: longest.reduce(f64::max).map(micros),
            jitter: self.jitter_us.filter(|_| age < LOSS_KEPT).map(micros),
            loss: told.then(|| (lost / sent).clamp(0.0, 1.0)),
            newest: newest.map(|point| point.sample),
            exercised: fresh.is_some_and(|point| point.exercised),
        }
    }

    fn push(&mut self, point: Point) {
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    fn count_losses(&mut self, step: &Step) {
        let kept = (-(step.received_us as f64) / LOSS_TIME_US).exp();
        let (sent, lost) = self.losses;
        self.losses = (sent * kept + step.sent_packets as f64, lost * kept + step.lost);
    }

    /// What a light load finds is the path itself: its noise, and its base, if that has grown.
    fn note_light(&mut self, step: &Step, queue_us: f64) {
        let rate = self.rate(RATE_TIME_US).unwrap_or(0.0);
        self.peak_bps = rate.max(self.peak_bps * 0.5_f64.powf(step.received_us as f64 / 30e6));
        let light = step.sent_bps() < self.peak_bps * LIGHT_SHARE && rate < self.peak_bps * 0.5;
        if !light {
            self.light = (0, f64::MAX);
            return;
        }
        let (count, least) = self.light;
        self.light = (count + 1, least.min(queue_us));
        // The first may still have found what the load before had left.
        if count == 0 {
            self.light.1 = f64::MAX;
            return;
        }
        if count >= LIGHT_MARKERS {
            self.base.raise(self.light.1);
            self.light = (0, f64::MAX);
        }
        let (mean, deviation) = &mut self.noise_us;
        *deviation += ((queue_us - *mean).abs() - *deviation) / 8.0;
        *mean += (queue_us - *mean) / 8.0;
    }

    /// Whether a queue has stood since the last marker; what has come meanwhile is then what the
    /// path can carry.
    fn exercise(&mut self, step: &Step) {
        let (mean, deviation) = self.noise_us;
        let least = (mean + STOOD_DEVIATIONS * deviation).max(STOOD_MIN_US);
        let Some(newest) = self.points.back().copied() else { return };
        let before = self.points.len().checked_sub(2).map_or(0.0, |at| self.points[at].queue_us);
        if newest.queue_us < least || step.received_us > GAP_US {
            self.stood = usize::from(newest.queue_us >= least);
            return;
        }
        self.stood += 1;
        let found = if before >= least { before + newest.queue_us } else { 0.0 };
        let covered = found / step.received_us.max(1) as f64;
        let newly = match self.stood {
            STOOD_MARKERS => STOOD_MARKERS - 1,
            HALF_MARKERS if covered >= 0.5 => HALF_MARKERS - 1,
            stood if stood > STOOD_MARKERS => 1,
            stood if stood > HALF_MARKERS => usize::from(covered >= 0.5),
            _ => usize::from(covered >= 1.0),
        };
        if newly == 0 {
            return;
        }
        for point in self.points.iter_mut().rev().take(newly) {
            point.exercised = true;
        }
        if let Some((bps, micros)) = self.exercised_rate() {
            self.measured(newest.heard, bps, micros.min(step.received_us));
        }
    }

    /// The rate of the time up to now in which the path was the bottleneck, and how long that is:
    /// a second, or less if the rate has changed.
    fn exercised_rate(&self) -> Option<(f64, u64)> {
        let (short, short_us) = self.rate_while(RATE_TIME_US, |point| point.exercised)?;
        let (long, long_us) = self.rate_while(RATE_TIME_MAX_US, |point| point.exercised)?;
        let changed = (short - long).abs() > long * CHANGED;
        Some(if changed { (short, short_us) } else { (long, long_us) })
    }

    /// What comes faster than the capacity that is known raises it.
    fn raise(&mut self, now: Instant) {
        let rate = self.rate(RAISED_US);
        if let (Some(rate), Some(capacity)) = (rate, &mut self.capacity)
            && rate > capacity.bps
        {
            (capacity.bps, capacity.at) = (rate, now);
        }
    }

    /// The path was the bottleneck for the last so many microseconds, and delivered at that rate.
    fn measured(&mut self, now: Instant, bps: f64, micros: u64) {
        let seconds = micros as f64 / 1e6;
        let Some(known) = &mut self.capacity else {
            let deviation = 0.0;
            self.capacity = Some(Capacity { bps, exercised_s: seconds, deviation, at: now });
            return;
        };
        let apart = (bps - known.bps).abs() / known.bps.max(1.0);
        if apart > CHANGED {
            known.bps = bps;
            known.exercised_s = seconds;
        } else {
            known.bps += (bps - known.bps) * 0.3;
            let kept = 0.5_f64.powf(now.saturating_since(known.at).as_secs_f64() / TRUST_HALF_S);
            known.exercised_s = known.exercised_s * kept + seconds;
        }
        known.deviation += (apart.min(1.0) - known.deviation) / 8.0;
        known.at = now;
    }

    /// Bits per second that came by the newest marker, over at least `time_us` and
    /// [`RATE_PACKETS`], but no longer than a second if `time_us` is less.
    fn rate(&self, time_us: u64) -> Option<f64> {
        self.rate_while(time_us, |_| true).map(|(bps, _)| bps)
    }

    /// The same as long as `counts` holds for what came before each marker; and how long that is.
    fn rate_while(&self, time_us: u64, counts: impl Fn(&Point) -> bool) -> Option<(f64, u64)> {
        let newest = self.points.back()?.sample.received;
        let mut found = None;
        for (point, before) in self.points.iter().rev().zip(self.points.iter().rev().skip(1)) {
            let since = before.sample.received;
            let micros = newest.at_us - since.at_us;
            let late = micros > time_us.max(RATE_TIME_MAX_US) && found.is_some();
            if !counts(point) || late {
                break;
            }
            if micros > 0 {
                found = Some(((newest.bytes - since.bytes) as f64 * 8e6 / micros as f64, micros));
            }
            if micros >= time_us && newest.packets - since.packets >= RATE_PACKETS {
                break;
            }
        }
        // A few packets within milliseconds are a burst, no rate.
        found.filter(|(_, micros)| *micros >= RATE_TIME_US / 2)
    }
}

impl Capacity {
    fn confidence(&self, now: Instant) -> f64 {
        let age = now.saturating_since(self.at).as_secs_f64();
        let gained = self.exercised_s / (self.exercised_s + TRUST_GAINED_S);
        gained * 0.5_f64.powf(age / TRUST_HALF_S) / (1.0 + 2.0 * self.deviation)
    }
}

/// What lies between two markers.
#[derive(Clone, Copy, Debug)]
struct Step {
    sent_us: u64,
    received_us: u64,
    sent_packets: u64,
    sent_bytes: u64,
    received_bytes: u64,
    /// Packets; less than none if some have come that counted as lost before.
    lost: f64,
}

impl Step {
    /// `None` unless `b` was sent and received after `a`.
    fn between(a: &Sample, b: &Sample) -> Option<Self> {
        let received_packets = b.received.packets.checked_sub(a.received.packets)?;
        let sent_packets = b.sent.packets.checked_sub(a.sent.packets)?;
        let step = Self {
            sent_us: b.sent.at_us.checked_sub(a.sent.at_us)?,
            received_us: b.received.at_us.checked_sub(a.received.at_us)?,
            sent_packets,
            sent_bytes: b.sent.bytes.checked_sub(a.sent.bytes)?,
            received_bytes: b.received.bytes.checked_sub(a.received.bytes)?,
            lost: sent_packets as f64 - received_packets as f64,
        };
        (step.sent_us > 0).then_some(step)
    }

    fn sent_bps(&self) -> f64 {
        self.sent_bytes as f64 * 8e6 / self.sent_us as f64
    }
}

fn micros(us: f64) -> Duration {
    Duration::from_micros(us.max(0.0) as u64)
}

#[cfg(test)]
mod tests;
