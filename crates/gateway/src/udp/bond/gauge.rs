//! What markers say of one path, as spreading needs it: quicker and coarser than
//! [`Estimator`](crate::path::Estimator), which other parts of the agent trust for longer.
//!
//! A marker travels in the stream of a path's packets with its sender's clock and counts, to which
//! the far end adds its own. From that follow:
//!
//! - the one-way delay, but for the difference of the two clocks: the same for all paths, so that
//!   *differences between paths* are true;
//! - its base, the least of the last [`WINDOW`] to twice that, and the queue, what is above;
//! - the rate: what came between two markers. It is the capacity while a queue stands at both, and
//!   at least that much otherwise.
//!
//! A queue that does not fall although little is sent is none: the way has become longer, or others
//! fill it. Then it counts as base, and the capacity from before holds again.

use crate::path::{Reading, Sample};
use tabane_engine::{Duration, Instant};

/// One direction of one path.
#[derive(Default, Debug)]
pub(super) struct Gauge {
    /// The least difference of the clocks in this part of time and in the one before, nanoseconds.
    least: [Option<i64>; 2],
    turned: Instant,
    newest: Option<Point>,
    /// Where the rate that is being measured begins.
    from: Option<Point>,
    jitter: f64,
    capacity: Option<f64>,
    /// From a marker's leaving to the news of it.
    feedback: Duration,
    stuck: Option<Stuck>,
    /// When the newest news came.
    pub(super) heard: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    sample: Sample,
    queue: Duration,
}

/// A queue that does not fall, though less is sent than the path carries.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    since: Instant,
    queue: Duration,
    /// The least difference of the clocks since.
    least: i64,
    capacity: f64,
}

/// What the outer headers add to an inner packet: WireGuard, UDP, IPv4.
pub(super) const OUTER: usize = 60;
/// A base is forgotten after twice this: BBR's 10 s (draft-ietf-ccwg-bbr, MinRTTFilterLen), since
/// a path that is in use is nearly empty more often than that.
const WINDOW: Duration = Duration::from_secs(10);
/// A rate is measured over as much at least, so that a packet more or less matters little.
const RATE_MIN: Duration = Duration::from_millis(15);
const RATE_BYTES: u64 = 16 * 1500;
const RATE_MAX: Duration = Duration::from_millis(100);
/// What is above the base by less is no queue, but how batches and timers fall.
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// The first time that a queue is to be believed it must be clearer: flows begin with bursts.
const QUEUE_FIRST: Duration = Duration::from_millis(5);
/// With less than this share of its capacity sent, a queue drains.
const DRAINS: f64 = 0.75;
/// For so long at least it must not have fallen.
const STUCK_MIN: Duration = Duration::from_millis(250);

impl Gauge {
    /// Takes what a marker has shown; false if it is older than what is known.
    pub(super) fn handle_sample(&mut self, now: Instant, sample: Sample) -> bool {
        if let Some(newest) = self.newest
            && newest.sample.sent.at_us >= sample.sent.at_us
        {
            return false;
        }
        let difference = one_way(&sample);
        self.note_least(now, difference);
        let queue = Duration((difference - self.base().unwrap_or(difference)).max(0) as u64);
        if let Some(newest) = self.newest {
            // RFC 3550 section 6.4.1.
            let moved = (difference - one_way(&newest.sample)).unsigned_abs() as f64;
            self.jitter += (moved - self.jitter) / 16.0;
        }
        let point = Point { sample, queue };
        self.newest = Some(point);
        self.heard = Some(now);
        let age = Duration(now.0.saturating_sub(sample.sent.at_us * 1000));
        self.feedback = if self.feedback.is_zero() { age } else { (self.feedback * 7 + age) / 8 };
        match self.from {
            Some(from) => self.measure(now, from, point),
            None => self.from = Some(point),
        }
        true
    }

    /// The one-way delay of the empty path, plus what the far clock is ahead, nanoseconds.
    pub(super) fn base(&self) -> Option<i64> {
        match self.least {
            [Some(a), Some(b)] => Some(a.min(b)),
            [a, b] => a.or(b),
        }
    }

    /// Above the base, as the newest marker found it.
    pub(super) fn queue(&self) -> Duration {
        self.newest.map_or(Duration::ZERO, |point| point.queue)
    }

    /// What left before the newest marker, and when.
    pub(super) fn sent(&self) -> Option<Reading> {
        self.newest.map(|point| point.sample.sent)
    }

    /// The newest marker that has arrived, and when that was heard of.
    pub(super) fn newest(&self) -> Option<(Sample, Instant)> {
        Some((self.newest?.sample, self.heard?))
    }

    /// Bits per second of outer packets, if it has ever been seen.
    pub(super) fn capacity(&self) -> Option<f64> {
        self.capacity
    }

    /// What another estimate says, where nothing is known here.
    pub(super) fn hint(&mut self, capacity: f64) {
        self.capacity.get_or_insert(capacity);
    }

    /// How much delays vary by themselves.
    pub(super) fn jitter(&self) -> Duration {
        Duration(self.jitter as u64)
    }

    /// How old news of a marker is.
    pub(super) fn feedback(&self) -> Duration {
        self.feedback
    }

    fn note_least(&mut self, now: Instant, difference: i64) {
        if now.saturating_since(self.turned) >= WINDOW {
            self.least = [None, self.least[0].or(self.least[1])];
            self.turned = now;
        }
        let least = self.least[0].map_or(difference, |least| least.min(difference));
        self.least[0] = Some(least);
    }

    fn measure(&mut self, now: Instant, from: Point, to: Point) {
        let (a, b) = (&from.sample, &to.sample);
        let (Some(us), Some(came), Some(left)) = (
            b.received.at_us.checked_sub(a.received.at_us),
            outer(&b.received).checked_sub(outer(&a.received)),
            outer(&b.sent).checked_sub(outer(&a.sent)),
        ) else {
            // One end counts anew.
            self.from = Some(to);
            return;
        };
        let time = Duration::from_micros(us);
        if time < RATE_MIN || (came < RATE_BYTES && time < RATE_MAX) {
            return;
        }
        self.from = Some(to);
        let rate = came as f64 * 8.0 / time.as_secs_f64();
        let sent_us = (b.sent.at_us - a.sent.at_us).max(1);
        let offered = left as f64 * 8e6 / sent_us as f64;
        let noise = Duration((self.jitter * 2.0) as u64);
        let least = if self.capacity.is_some() { QUEUE_MIN } else { QUEUE_FIRST } + noise;
        let stood = from.queue > least && to.queue > least;
        self.note_stuck(now, stood, offered, to);
        self.capacity = match (stood, self.capacity) {
            (true, None) => Some(rate),
            (true, Some(known)) => Some((known + rate) / 2.0),
            (false, known) => known.map(|known| known.max(rate)),
        };
    }

    fn note_stuck(&mut self, now: Instant, stood: bool, offered: f64, to: Point) {
        let Some(capacity) = self.capacity else { return };
        let difference = one_way(&to.sample);
        let Some(stuck) = &mut self.stuck else {
            if stood && offered < capacity * DRAINS {
                let (since, queue, least) = (now, to.queue, difference);
                self.stuck = Some(Stuck { since, queue, least, capacity });
            }
            return;
        };
        stuck.least = stuck.least.min(difference);
        if !stood || offered > stuck.capacity * DRAINS || to.queue * 10 < stuck.queue * 7 {
            self.stuck = None;
        } else if now - stuck.since > STUCK_MIN.max(stuck.queue * 3) {
            self.least = [Some(stuck.least), None];
            self.turned = now;
            self.capacity = Some(stuck.capacity);
            self.stuck = None;
        }
    }
}

/// Bytes of outer packets.
pub(super) fn outer(reading: &Reading) -> u64 {
    reading.bytes + reading.packets * OUTER as u64
}

/// The far clock at arrival minus the own one at leaving, nanoseconds. Reports have 48 bits for
/// each, so that sums and differences of some do not overflow.
pub(crate) fn one_way(sample: &Sample) -> i64 {
    let micros = sample.received.at_us.wrapping_sub(sample.sent.at_us) as i64;
    micros.saturating_mul(1000)
}
