//! One path as spreading sees it: what is bound to it and waits here, what its bottleneck still
//! has to send, and when a packet more would be there.

use super::gauge::{Gauge, OUTER, outer};
use crate::path::{Reading, Sample};
use std::collections::VecDeque;
use tabane_engine::{Duration, Instant};

#[derive(Default, Debug)]
pub(super) struct PathQueue {
    /// It carries packets, and may take part.
    pub(super) usable: bool,
    pub(super) gauge: Gauge,
    queue: VecDeque<Vec<u8>>,
    /// Bytes of `queue`, outer headers included.
    queued: usize,
    /// When the bottleneck will have sent everything that has left.
    free_at: Instant,
    /// What has left, as the path's counters said last, and what was charged since.
    counted: Reading,
    charged: u64,
    last_release: Instant,
    /// What has left since the newest news, and since when there should be some.
    unheard_bytes: usize,
    unheard: Option<Instant>,
}

/// What may stand in the queue of the bottleneck, so that it never runs dry between two markers:
/// twice CoDel's target of 5 ms (RFC 8289 section 4.4), since news of it is as old as a round trip.
const STANDING: Duration = Duration::from_millis(10);
/// However much delays vary.
const STANDING_MAX: Duration = Duration::from_millis(50);
/// Beyond a round trip, a path that is used and says nothing for so long is not counted on: three
/// markers.
const SILENCE: Duration = Duration::from_millis(150);
/// Bytes that a marker follows for sure.
const UNHEARD: usize = 6000;

impl PathQueue {
    /// The path's counters, which other traffic moves too.
    pub(super) fn set_counters(&mut self, now: Instant, counted: Reading) {
        let all = outer(&counted).saturating_sub(outer(&self.counted));
        let first = self.counted == Reading::default();
        let others = all.saturating_sub(self.charged);
        if !first {
            self.charge(now, others as usize);
        }
        (self.counted, self.charged) = (counted, 0);
    }

    /// News of a marker: what the bottleneck had to send when it came there, and what has left
    /// since, say what it has to send now.
    pub(super) fn handle_sample(&mut self, now: Instant, sample: Sample) {
        if !self.gauge.handle_sample(now, sample) {
            return;
        }
        (self.unheard, self.unheard_bytes) = (None, 0);
        let (Some(capacity), Some(sent)) = (self.gauge.capacity(), self.gauge.sent()) else {
            self.free_at = now + self.gauge.queue();
            return;
        };
        let total = outer(&self.counted) + self.charged;
        let since = total.saturating_sub(outer(&sent));
        let left = Instant(sent.at_us * 1000);
        let free_at = left + self.gauge.queue() + time_of(since as usize, capacity);
        self.free_at = free_at.max(now);
    }

    /// Until the bottleneck is through with all that is bound to this path, as far as is known.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let waiting = match self.gauge.capacity() {
            Some(capacity) => time_of(self.queued, capacity),
            None => Duration::ZERO,
        };
        self.ahead(now) + waiting
    }

    /// The same of what has left already.
    pub(super) fn ahead(&self, now: Instant) -> Duration {
        self.free_at.saturating_since(now)
    }

    /// What waits here, as time.
    pub(super) fn standing(&self, now: Instant) -> Duration {
        self.wait(now).saturating_sub(self.allowed())
    }

    /// When a packet of `bytes` would be there, by the far clock, nanoseconds from now; `None`
    /// while nothing is known of the path. One that overtakes what waits here is there sooner.
    pub(super) fn delivery(&self, now: Instant, bytes: usize, express: bool) -> Option<i64> {
        let base = self.gauge.base()?;
        let wait = if express { self.ahead(now) } else { self.wait(now) };
        let sending = self.gauge.capacity().map_or(Duration::ZERO, |bps| time_of(bytes, bps));
        let late = wait + sending + self.silence(now);
        Some(base.saturating_add(i64::try_from(late.0).unwrap_or(i64::MAX / 2)))
    }

    /// For how long longer than usual nothing has been heard of what has left.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let Some(unheard) = self.unheard else { return Duration::ZERO };
        let silent = now.saturating_since(unheard);
        silent.saturating_sub(SILENCE + self.gauge.feedback())
    }

    /// Binds a packet to this path.
    pub(super) fn push(&mut self, packet: Vec<u8>) {
        self.queued += packet.len() + OUTER;
        self.queue.push_back(packet);
    }

    /// A packet leaves at once.
    pub(super) fn pass(&mut self, now: Instant, bytes: usize) {
        self.charge(now, bytes);
        self.charged += bytes as u64;
        self.last_release = now;
        self.unheard_bytes = self.unheard_bytes.saturating_add(bytes);
        if self.unheard_bytes > UNHEARD {
            self.unheard.get_or_insert(now);
        }
    }

    /// The next packet that may leave.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.next_release()? > now {
            return None;
        }
        let packet = self.queue.pop_front()?;
        self.queued -= packet.len() + OUTER;
        self.pass(now, packet.len() + OUTER);
        Some(packet)
    }

    /// When it may: the queue of the bottleneck is short enough then. In any case at half of the
    /// capacity, whatever else fills the path.
    pub(super) fn next_release(&self) -> Option<Instant> {
        let packet = self.queue.front()?;
        let Some(capacity) = self.gauge.capacity() else { return Some(Instant::ZERO) };
        let short = Instant(self.free_at.0.saturating_sub(self.allowed().0));
        let least = self.last_release + time_of(packet.len() + OUTER, capacity) * 2;
        Some(short.min(least))
    }

    /// Whether a packet must wait for others, or for the path.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        !self.queue.is_empty()
            || (self.gauge.capacity().is_some() && self.ahead(now) > self.allowed())
    }

    /// What waits here, in its order, to be bound to others.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Vec<u8>> {
        self.queued = 0;
        std::mem::take(&mut self.queue)
    }

    /// Bytes that wait here.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    fn allowed(&self) -> Duration {
        (STANDING + self.gauge.jitter() * 2).min(STANDING_MAX)
    }

    fn charge(&mut self, now: Instant, bytes: usize) {
        let Some(capacity) = self.gauge.capacity() else { return };
        self.free_at = self.free_at.max(now) + time_of(bytes, capacity);
    }
}

fn time_of(bytes: usize, bps: f64) -> Duration {
    Duration((bytes as f64 * 8e9 / bps.max(1000.0)) as u64)
}
