//! What acknowledgements tell of the path: its round trip without a queue, the queue that stands
//! now, and what it delivers in a round.

use super::GAIN;
use super::evidence::Evidence;
use super::others::Others;
use crate::congestion::Ack;
use crate::time::{Duration, Instant, mul_div};

/// Round trips in parts of time, and rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// The round trip without a queue, once parts have ended: the least that the least samples of
    /// all of `Self::PARTS` parts in a row kept to. A single sample is no measure of it: where
    /// round trips vary without a queue, all others would look like one.
    floor: Duration,
    /// The least sample of the present part and of those before.
    low: [Duration; Self::PARTS],
    /// The longest of the present part, isolated ones left out, and the sample before.
    high: Duration,
    last: Duration,
    /// Samples of the present part and of the one before, and their sums.
    samples: u32,
    samples_before: u32,
    sums: [Duration; 2],
    /// And sums of what these acknowledgements waited on their way back.
    backs: [Duration; 2],
    part: Instant,
    /// By how much samples of a part differ, smoothed.
    wobble: Duration,
    delivered: u64,
    lost: u64,
    round: Round,
    /// The most that was in flight in the round before, and whether the window was full.
    flight: u64,
    full: bool,
    /// What the latest round delivered, bytes/s.
    rate: u64,
    /// The most that a round delivered, bytes/s.
    peaks: Most<u64>,
    /// The longest queue at the end of a round.
    fullest: Most<Duration>,
    /// The longest of what looked like a queue and was none.
    mistaken: Most<Duration>,
    /// The longest of what one drain alone said that of.
    suspected: Most<Duration>,
    /// Whether something was lost after a pause.
    lost_after_pause: Most<bool>,
    /// When the present `Self::MEMORY` of these five began.
    peaks_since: Instant,
    /// What trains of segments say that the path carries, bytes/s; 0 if not known.
    capacity: u64,
    /// A queue, and rounds in a row in which it has not moved.
    anchor: (Duration, u32),
    /// Rounds without and with a queue, and in how many of them something was lost.
    rounds: [[u32; 2]; 2],
    /// Whether a queue stood when the first loss of the present round was seen.
    lost_with: Option<bool>,
    evidence: Evidence,
    others: Others,
    /// The sum of bytes in flight at the samples of the present part, and their means in the two
    /// parts before: what is acknowledged now was sent when as much was in flight.
    flights: [u64; 3],
    /// A round ended with the latest ACK.
    pub(super) round_ended: bool,
}

/// How long so many bytes take at `rate`, bytes/s; no time as long as that is zero.
pub(super) fn time_at(bytes: u64, rate: u64) -> Duration {
    if rate == 0 { Duration::ZERO } else { Duration(mul_div(bytes, 1_000_000_000, rate)) }
}

/// The most of what was seen in the present `Path::MEMORY` and in the one before.
#[derive(Clone, Copy, Default, Debug)]
struct Most<T>([T; 2]);

impl<T: Copy + Default + Ord> Most<T> {
    fn see(&mut self, value: T) {
        self.0[0] = self.0[0].max(value);
    }

    fn turn(&mut self) {
        self.0 = [T::default(), self.0[0]];
    }

    fn get(&self) -> T {
        self.0[0].max(self.0[1])
    }
}

/// A round trip's worth of data.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    /// Over when so much is delivered or lost.
    mark: u64,
    since: Instant,
    delivered: u64,
    lost: u64,
    /// The most that was in flight.
    flight: u64,
    /// It began with nothing in flight, so that it is no measure of anything.
    empty: bool,
    /// The window was full, so that what is delivered is what the path carries.
    full: bool,
}

impl Path {
    /// How long what a path once delivered says something: links of today change by the second.
    const MEMORY: Duration = Duration::from_secs(5);
    /// By so much a loss is more likely in a round with a queue than in one without, if it is a
    /// queue that drops.
    const OFTEN: u32 = 8;
    /// Parts that tell the round trip without a queue. A drain lasts two rounds, four parts.
    const PARTS: usize = 3;
    /// A part lasts half a round trip, but so long at least where that is no more than a round
    /// trip: who forwards is late by milliseconds, however short round trips are.
    const LATE: Duration = Duration::from_millis(10);
    /// Samples that say something (RFC 9406).
    const ENOUGH: u32 = 8;
    /// What round trips differ by without a queue: bursts of some segments at the bottleneck.
    const JITTER: Duration = Duration::from_micros(250);

    pub(super) fn new() -> Self {
        Self {
            floor: Duration::MAX,
            low: [Duration::MAX; Self::PARTS],
            high: Duration::ZERO,
            last: Duration::MAX,
            samples: 0,
            samples_before: 0,
            sums: [Duration::ZERO; 2],
            backs: [Duration::ZERO; 2],
            part: Instant::ZERO,
            wobble: Duration::ZERO,
            delivered: 0,
            lost: 0,
            round: Round::default(),
            flight: 0,
            full: false,
            rate: 0,
            peaks: Most::default(),
            fullest: Most::default(),
            mistaken: Most::default(),
            suspected: Most::default(),
            lost_after_pause: Most::default(),
            peaks_since: Instant::ZERO,
            capacity: 0,
            anchor: (Duration::ZERO, 0),
            rounds: [[0; 2]; 2],
            lost_with: None,
            evidence: Evidence::new(),
            others: Others::default(),
            flights: [0; 3],
            round_ended: false,
        }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack) {
        // With nothing in flight the acknowledgement may have been delayed, for want of more.
        if let Some(rtt) = Self::round_trip(ack) {
            if ack.in_flight > 0 {
                self.take(ack, rtt);
            }
            self.evidence.on_rtt(rtt);
        }
        self.delivered += ack.delivered;
        self.lost += ack.lost;
        self.capacity = ack.capacity;
        let queued = self.queue() > self.jitter();
        if ack.lost > 0 {
            self.lost_with = self.lost_with.or(Some(queued));
            self.lost_after_pause.see(self.is_paused());
        }
        self.round.full |= ack.cwnd_limited;
        self.round.flight = self.round.flight.max(ack.prior_in_flight);
        self.round_ended = self.delivered + self.lost >= self.round.mark;
        if self.round_ended && self.round.empty {
            self.round_ended = false;
            self.begin_round(ack.now, ack.in_flight);
        }
        if self.round_ended {
            let took = ack.now - self.round.since;
            let bytes = self.delivered - self.round.delivered;
            if self.round.mark > 0 && !took.is_zero() {
                // Acknowledgements that come in bunches end a round within microseconds. What was
                // in flight needs a round trip.
                let took = took.max(self.recent().min(self.base()) + self.back());
                let rate = mul_div(bytes, 1_000_000_000, took.0);
                self.rate = if self.round.full { rate } else { self.rate.max(rate) };
                if ack.now > self.peaks_since + Self::MEMORY {
                    self.peaks_since = ack.now;
                    self.peaks.turn();
                    self.fullest.turn();
                    self.mistaken.turn();
                    self.suspected.turn();
                    self.lost_after_pause.turn();
                }
                self.fullest.see(self.queue());
                self.peaks.see(rate);
            }
            let lost = self.lost_with.take();
            let of = &mut self.rounds[usize::from(lost.unwrap_or(queued))];
            *of = [of[0] + 1, of[1] + u32::from(lost.is_some())];
            if of[0] >= 4096 || of[1] >= 16 {
                self.rounds.iter_mut().flatten().for_each(|count| *count /= 2);
            }
            let gone = self.lost - self.round.lost;
            let mss = ack.mss.max(1) as f64;
            self.evidence.on_round(bytes as f64 / mss, gone as f64 / mss);
            let queue = self.queue();
            let still = queue.abs_diff(self.anchor.0) <= self.jitter();
            self.anchor = if still { (self.anchor.0, self.anchor.1 + 1) } else { (queue, 0) };
            self.begin_round(ack.now, ack.in_flight);
        }
    }

    fn begin_round(&mut self, now: Instant, in_flight: u64) {
        let (delivered, lost) = (self.delivered, self.lost);
        let mark = delivered + lost + in_flight.max(1);
        let empty = in_flight == 0;
        (self.flight, self.full) = (self.round.flight, self.round.full);
        self.round = Round { mark, since: now, delivered, lost, flight: 0, empty, full: false };
    }

    fn take(&mut self, ack: &Ack, rtt: Duration) {
        let length = (ack.srtt / 2).max(Self::LATE.min(ack.srtt));
        if self.samples >= 2 && ack.now >= self.part + length {
            // Few samples differ by less than what they are taken from.
            if self.samples >= Self::ENOUGH || self.wobble.is_zero() {
                let differ = self.high.saturating_sub(self.low[0]);
                self.wobble = Duration((self.wobble.0 * 7 + differ.0) / 8);
            }
            self.learn_floor();
            let samples = u64::from(self.samples);
            let mean = self.sums[0] / samples;
            self.others.on_part(self.flights[2] as f64, mean.as_secs_f64());
            self.flights = [0, self.flights[0] / samples, self.flights[1]];
            self.low.rotate_right(1);
            self.low[0] = Duration::MAX;
            self.samples_before = self.samples;
            self.sums = [Duration::ZERO, self.sums[0]];
            self.backs = [Duration::ZERO, self.backs[0]];
            (self.high, self.samples, self.part) = (Duration::ZERO, 0, ack.now);
        }
        self.low[0] = self.low[0].min(rtt);
        self.high = self.high.max(rtt.min(self.last));
        self.samples += 1;
        self.flights[0] += ack.in_flight;
        self.sums[0] = self.sums[0] + rtt;
        self.backs[0] = self.backs[0] + ack.reverse_delay;
        self.last = rtt;
    }

    /// A part has ended.
    fn learn_floor(&mut self) {
        let least = self.low.iter().min().copied().unwrap_or(Duration::MAX);
        let most = self.low.iter().max().copied().unwrap_or(Duration::MAX);
        // A short path has a queue before there are so many: round trips that double at once, when
        // nothing is known yet, do so by it.
        let first = self.floor == Duration::MAX && most < Duration::MAX;
        let kept_to = if first && most > least * 2 { least } else { most };
        self.floor = self.floor.min(kept_to);
    }

    pub(super) fn base(&self) -> Duration {
        if self.floor < Duration::MAX {
            return self.floor;
        }
        self.low.iter().min().copied().unwrap_or(Duration::MAX)
    }

    /// The least round trip of late.
    pub(super) fn recent(&self) -> Duration {
        self.low[0].min(self.low[1])
    }

    pub(super) fn wobble(&self) -> Duration {
        self.wobble
    }

    /// The round trip, as if acknowledgements did not queue: theirs is not the queue that counts.
    pub(super) fn round_trip(ack: &Ack) -> Option<Duration> {
        ack.rtt.map(|rtt| rtt - ack.reverse_delay)
    }

    /// The mean round trip of late.
    pub(super) fn mean(&self) -> Duration {
        let samples = u64::from(self.samples + self.samples_before);
        (self.sums[0] + self.sums[1]) / samples.max(1)
    }

    /// What acknowledgements have waited on their way back of late: the mean of the present part or
    /// of the one before, whichever is less. A link that stood still for a moment is no queue.
    pub(super) fn back(&self) -> Duration {
        let of = |sum: Duration, samples: u32| {
            if samples == 0 { Duration::MAX } else { sum / u64::from(samples) }
        };
        let [now, before] = self.backs;
        let least = of(now, self.samples).min(of(before, self.samples_before));
        if least == Duration::MAX { Duration::ZERO } else { least }
    }

    /// Round trips were longer by so much, and it was no queue. Once may be others' doing.
    pub(super) fn take_for_noise(&mut self, differ: Duration) {
        self.mistaken.see(differ.min(self.suspected.get()));
        self.suspected.see(differ);
    }

    /// The queue that has stood for half a round trip or more.
    pub(super) fn queue(&self) -> Duration {
        let least = self.recent();
        if least == Duration::MAX { Duration::ZERO } else { least.saturating_sub(self.base()) }
    }

    /// As `queue`, of as short a time as has enough samples: of the present part, or with the one
    /// before.
    pub(super) fn early_queue(&self) -> Duration {
        let least = if self.samples >= Self::ENOUGH {
            self.low[0]
        } else if self.samples + self.samples_before >= Self::ENOUGH {
            self.recent()
        } else {
            return Duration::ZERO;
        };
        least.saturating_sub(self.base())
    }

    /// Round trips differ by so much without a queue.
    pub(super) fn jitter(&self) -> Duration {
        Self::JITTER.max(self.wobble).max(self.mistaken())
    }

    /// How long what drains showed to be no queue looked of late.
    pub(super) fn mistaken(&self) -> Duration {
        self.mistaken.get()
    }

    /// Whether round trips differ by more than bursts of ours explain, and the path itself.
    pub(super) fn varies(&self) -> bool {
        self.wobble > Self::JITTER.max(self.mistaken())
    }

    /// What is no queue: as `jitter`, and the least of a few round trips differs from the least of
    /// many.
    pub(super) fn noise(&self) -> Duration {
        self.jitter() * 2
    }

    /// Whether losses come with a queue: those of a noisy path do not ask for one. As many as came
    /// in rounds with a queue are expected by chance in those without; that nearly none came says
    /// something once some are expected.
    pub(super) fn drops(&self) -> bool {
        let [[calm, by_chance], [queued, losses]] = self.rounds;
        losses >= 3 && losses * calm > queued * (2 + Self::OFTEN * by_chance)
    }

    /// Whether losses come with a queue that is too short to be seen in a round.
    pub(super) fn early_drops(&self) -> bool {
        self.evidence.drops()
    }

    /// What round trips tell of others.
    pub(super) fn others(&self) -> &Others {
        &self.others
    }

    /// What round trips told of others before does not count.
    pub(super) fn forget_others(&mut self) {
        self.others.begin();
    }

    /// Others are given way to.
    pub(super) fn give_way(&mut self) {
        self.evidence.give_way();
        self.others.begin();
    }

    /// Whether losses only looked like early drops, and what round trips vary by is no queue.
    pub(super) fn is_deserted(&self) -> bool {
        self.early_drops() && self.varies() && self.evidence.is_deserted()
    }

    /// Whether losses come without a queue, too.
    pub(super) fn loses_by_chance(&self) -> bool {
        self.rounds[0][1] >= 3 && !self.drops() && !self.early_drops()
    }

    /// What slow start lost is its own doing, and tells nothing of the queue.
    pub(super) fn forget_losses(&mut self) {
        self.rounds = [[0; 2]; 2];
        self.evidence.forget_heavy();
    }

    /// What was taken for drops of a queue was none: there is no queue.
    pub(super) fn forget_drops(&mut self) {
        self.evidence.refute();
    }

    /// Rounds in a row in which the queue has not moved.
    pub(super) fn steady(&self) -> u32 {
        self.anchor.1
    }

    /// What was taken for a queue is the path's own round trip now.
    pub(super) fn rebase(&mut self) {
        self.floor = self.base() + self.queue();
    }

    /// The most that was in flight in this round and in the one before, bytes.
    pub(super) fn flight(&self) -> u64 {
        self.flight.max(self.round.flight)
    }

    /// Whether the program has paused, or sends less than the window holds.
    fn is_paused(&self) -> bool {
        self.round.empty || !self.round.full && !self.full
    }

    /// The most at which to send after a pause, bytes/s. What a program writes at once would queue,
    /// and overflow a short queue at each of its answers, though the path forwards it no sooner. A
    /// little faster than the path is known to be, or it would not be seen to have become faster;
    /// no faster where that has cost something of late.
    pub(super) fn paced_after_pause(&self) -> u64 {
        if self.capacity == 0 || !self.is_paused() {
            return u64::MAX;
        }
        let known = self.capacity.max(self.peak());
        if self.lost_after_pause.get() { known } else { known / 100 * GAIN }
    }

    /// What the latest round delivered, bytes/s: what the path gives us while a queue stands.
    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// The most that a round delivered in the last seconds, bytes/s.
    pub(super) fn peak(&self) -> u64 {
        self.peaks.get()
    }

    /// The longest queue that a round ended with in the last seconds.
    pub(super) fn fullest(&self) -> Duration {
        self.fullest.get()
    }

    /// What the path carries by itself, bytes/s, if that is known.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What is in flight at `rate` without a queue, bytes.
    pub(super) fn volume(&self, rate: u64) -> u64 {
        if self.base() == Duration::MAX {
            return 0;
        }
        mul_div(rate, (self.base() + self.back()).0, 1_000_000_000)
    }

    /// What the path delivers in that time, bytes.
    pub(super) fn volume_in(&self, time: Duration) -> u64 {
        mul_div(self.peak(), time.0, 1_000_000_000)
    }

    /// How long the path takes for so many bytes; no time as long as that is not known.
    pub(super) fn time_of(&self, bytes: u64) -> Duration {
        time_at(bytes, self.peak())
    }

    /// What is in flight at most while such a queue stands, bytes.
    pub(super) fn volume_with(&self, queue: Duration) -> u64 {
        self.volume_in(self.base().min(Duration::from_secs(60)) + self.back() + queue)
    }

    /// Share of the present round that is lost, in excess of some segments that may be bad luck,
    /// is more than a path without congestion loses.
    pub(super) fn overflows(&self, mss: u64) -> bool {
        let lost = self.lost - self.round.lost;
        let seen = self.delivered - self.round.delivered + lost;
        lost.saturating_sub(5 * mss) * 10 > seen
    }
}
