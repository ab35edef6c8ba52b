//! From rows of a path to what its link was like over time: rate, delay, loss and queue of a
//! direction, for every tick of a window, and how much of that was seen.
//!
//! - *Rate.* What a path carried is what it could carry only while it was exercised, as its
//!   estimator says; or nearly, if there was a queue in that tick and nothing around carried more
//!   ([`AROUND_MS`]): who keeps queues short empties them now and then. Between such ticks the
//!   rate is interpolated over time, never below what was carried; further away from them the time
//!   counts as not seen. How far the rate may have been off is what
//!   rates that were seen differ by over half such a time (`Unseen::sd`).
//! - *Delay.* Half of the round-trip time less the queues, where these were shortest within
//!   [`NEAR_MS`], but not across a time without anything, after which a link may be another.
//! - *Loss.* Packets that were lost while the queue was short. Those that were lost while it was
//!   as long as it ever was are the queue's: the simulator's queue drops its own.
//! - *Outage.* While data waited and nothing came, either all was lost, which the next count says,
//!   or the link stood still and kept it.
//! - *Queue.* As many bytes as were seen to wait. That it was never full is said.

use super::{DOWN, DirectionRow, PathRow, UP};
use std::fmt::Write as _;
use tabane_engine::Duration;

/// A link direction over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Trace {
    /// By time, the first at 0.
    pub steps: Vec<Step>,
    /// Times in which the rate was not seen.
    pub unseen: Vec<Unseen>,
    /// Bytes that the queue holds.
    pub queue: u64,
    /// It was full at some time.
    pub queue_seen: bool,
    /// Of the window, the share in which the rate was seen.
    pub seen: f64,
    /// It was never exercised: all of its rates are a guess.
    pub blind: bool,
}

/// What a link was like from a time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Step {
    /// Milliseconds since the window began.
    pub at_ms: u64,
    /// Bits per second.
    pub rate_bps: f64,
    /// One way, microseconds.
    pub delay_us: f64,
    /// Share of packets.
    pub loss: f64,
}

/// A time in which the rate was not seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unseen {
    /// Milliseconds since the window began.
    pub from_ms: u64,
    /// And its end.
    pub to_ms: u64,
    /// Standard deviation of the logarithm of the rate.
    pub sd: f64,
}

/// Rows that are no further apart follow each other, milliseconds.
const JOIN_MS: u64 = 5;
/// A link is taken to carry as much so far around, milliseconds,
const AROUND_MS: u64 = 500;
/// where a queue was found: one as long at least, microseconds, and of so many bytes: what waits
/// behind one packet is no queue.
const FOUND_US: u32 = 2_000;
const FOUND_BYTES: f64 = 3_000.0;
/// A direction that carries so much less than the other one carries its acknowledgements.
const ANSWERS: u64 = 5;
/// Base delays are looked for so far around, milliseconds.
const NEAR_MS: u64 = 5_000;
/// Queues that differ by less are as short as each other, microseconds.
const SHORT_US: f64 = 1_000.0;
/// A long queue loses so many times what a short one does, if it is full.
const CHANCE: f64 = 3.0;
/// Of the longest queue seen, what counts as full.
const FULL: f64 = 0.7;
/// A queue that nobody has seen: 100 packets, as the simulator's own default.
const QUEUE_MIN: u64 = 150_000;
/// If nothing was seen at all, a rate may be off by a factor of two.
const BLIND: f64 = 0.7;
/// A row about a longer time and at a lower rate is about a pause.
const QUIET_MS: u64 = 2_000;
const QUIET_BPS: f64 = 100_000.0;
/// What a path carries is taken over so long, if nothing else is known, milliseconds.
const BEST_MS: u64 = 1_000;

/// A tick of a path that has a row.
#[derive(Clone, Copy)]
struct Tick<'a> {
    from_ms: u64,
    to_ms: u64,
    row: &'a DirectionRow,
    /// Queue at its beginning.
    before_us: Option<u32>,
    waits: bool,
    up: bool,
    /// Round-trip time.
    rtt_us: Option<f64>,
    /// Queues of both directions.
    queues_us: f64,
}

impl Tick<'_> {
    fn rate(&self) -> f64 {
        self.row.bytes as f64 * 8_000.0 / (self.to_ms - self.from_ms).max(1) as f64
    }

    fn is_exercised(&self) -> bool {
        self.row.exercised && self.row.bytes > 0
    }

    /// What waited when it was looked for was half of what came in the tick.
    fn is_covered(&self) -> bool {
        let lasted_us = (self.to_ms - self.from_ms) as f64 * 1e3;
        f64::from(self.queue_us()) >= lasted_us / 2.0 && waiting(self) >= FOUND_BYTES
    }

    fn queue_us(&self) -> u32 {
        self.row.queue_us.unwrap_or(0).max(self.before_us.unwrap_or(0))
    }
}

impl Trace {
    /// What both directions of the path were like from `from_ms` to `to_ms`; `None` if nothing is
    /// known. Rows are the path's, in order of time. A direction of acknowledgements is taken to be
    /// as fast as the other one at its best, where it was not seen: no bottleneck.
    #[must_use]
    pub(crate) fn both(rows: &[&PathRow], window: (u64, u64)) -> Option<[Self; 2]> {
        let mut both = [Self::of(rows, UP, window, 0.0)?, Self::of(rows, DOWN, window, 0.0)?];
        let best = |trace: &Self| trace.steps.iter().map(|step| step.rate_bps).fold(0.0, f64::max);
        let carried = |way: usize| rows.iter().map(|row| row.directions[way].bytes).sum::<u64>();
        for (way, other) in [(UP, DOWN), (DOWN, UP)] {
            if both[way].blind || carried(way) * ANSWERS < carried(other) {
                both[way] = Self::of(rows, way, window, best(&both[other]))?;
            }
        }
        Some(both)
    }

    fn of(rows: &[&PathRow], way: usize, (from_ms, to_ms): (u64, u64), least: f64) -> Option<Self> {
        let ticks = ticks(rows, way, from_ms);
        if ticks.is_empty() {
            return None;
        }
        let (queue, queue_seen) = queue(&ticks);
        let lost = losses(&ticks, queue);
        let base = bases(&ticks);
        let outages = outages(&ticks);
        let known = known(&ticks, &outages, least);
        let blind = known.points.is_empty();
        let mut trace = Self { queue, queue_seen, blind, ..Self::default() };
        let window = to_ms.saturating_sub(from_ms);
        let mut at = 0;
        let mut seen_ms = 0;
        for (n, tick) in ticks.iter().enumerate() {
            if tick.from_ms > at {
                trace.unseen(at, tick.from_ms, &known);
                trace.push(at, known.at((at + tick.from_ms) / 2), base[n], 0.0);
            }
            let middle = (tick.from_ms + tick.to_ms) / 2;
            let (rate, loss) = match outages[n] {
                Some(Outage::Lost) => (known.at(middle), 1.0),
                Some(Outage::Held) => (0.0, lost[n]),
                None => (known.at(middle).max(tick.rate()), lost[n]),
            };
            if known.is_near(middle) || outages[n].is_some() {
                seen_ms += tick.to_ms - tick.from_ms;
            } else {
                trace.unseen(tick.from_ms, tick.to_ms, &known);
            }
            trace.push(tick.from_ms, rate, base[n], loss);
            at = tick.to_ms;
        }
        if at < window {
            trace.unseen(at, window, &known);
            let last = base.last().copied().unwrap_or(0.0);
            trace.push(at, known.at((at + window) / 2), last, 0.0);
        }
        trace.seen = seen_ms as f64 / window.max(1) as f64;
        Some(trace)
    }

    fn push(&mut self, at_ms: u64, rate_bps: f64, delay_us: f64, loss: f64) {
        let step = Step { at_ms, rate_bps, delay_us, loss };
        let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
        match self.steps.last() {
            Some(last)
                if near(last.rate_bps, rate_bps, 0.005 * rate_bps)
                    && near(last.delay_us, delay_us, 100.0)
                    && near(last.loss, loss, 0.0) => {}
            Some(last) if last.at_ms >= at_ms => {}
            _ => self.steps.push(step),
        }
    }

    fn unseen(&mut self, from_ms: u64, to_ms: u64, known: &Known) {
        match self.unseen.last_mut() {
            Some(last) if last.to_ms == from_ms => last.to_ms = to_ms,
            _ => self.unseen.push(Unseen { from_ms, to_ms, sd: 0.0 }),
        }
        if let Some(last) = self.unseen.last_mut() {
            last.sd = known.spread((last.to_ms - last.from_ms) / 2);
        }
    }

    /// As conditions of a link of the simulator. What was not seen is in comments, which
    /// [`unseen_in`] reads.
    #[must_use]
    pub(crate) fn to_csv(&self) -> String {
        let mut text = String::new();
        for Unseen { from_ms, to_ms, sd } in &self.unseen {
            let (from, to) = (*from_ms as f64 / 1e3, *to_ms as f64 / 1e3);
            let _ = writeln!(text, "# unseen {from} {to} {sd:.3}");
        }
        text += "time_s,rate_mbps,delay_ms,loss\n";
        for step in &self.steps {
            let (time, rate) = (step.at_ms as f64 / 1e3, step.rate_bps / 1e6);
            let (delay, loss) = (step.delay_us / 1e3, step.loss);
            let _ = writeln!(text, "{time},{rate:.4},{delay:.2},{loss:.5}");
        }
        text
    }
}

/// The times in which the rate was not seen, of the text of a file.
#[must_use]
pub fn unseen_in(text: &str) -> Vec<Unseen> {
    let line = |line: &str| {
        let mut numbers = line.strip_prefix("# unseen ")?.split(' ').map(str::parse::<f64>);
        let [from, to, sd] = [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        Some(Unseen { from_ms: ms(from), to_ms: ms(to), sd })
    };
    text.lines().take_while(|text| text.starts_with('#')).filter_map(line).collect()
}

fn ticks<'a>(rows: &[&'a PathRow], way: usize, from_ms: u64) -> Vec<Tick<'a>> {
    let mut ticks: Vec<Tick<'_>> = Vec::new();
    for row in rows {
        let to_ms = row.unix_ms.saturating_sub(from_ms);
        let lasts = u64::from(row.lasts_ms);
        let last = ticks.last();
        let mut start = to_ms.saturating_sub(lasts).max(last.map_or(0, |last| last.to_ms));
        // Times are whole milliseconds: what lies between two rows is no time.
        if let Some(last) = last.filter(|last| start - last.to_ms <= JOIN_MS) {
            start = last.to_ms;
        }
        // A row after a pause is about the pause, and says nothing of a rate.
        let bits = row.directions[way].bytes as f64 * 8_000.0;
        let quiet = lasts > QUIET_MS && bits / (lasts as f64) < QUIET_BPS;
        if quiet && row.up {
            continue;
        }
        if start >= to_ms {
            continue;
        }
        let follows = last.filter(|last| last.to_ms == start);
        let queues = row.directions.iter().filter_map(|direction| direction.queue_us).sum::<u32>();
        ticks.push(Tick {
            from_ms: start,
            to_ms,
            row: &row.directions[way],
            before_us: follows.and_then(|last| last.row.queue_us),
            waits: row.waits,
            up: row.up,
            rtt_us: row.rtt_us.map(f64::from),
            queues_us: f64::from(queues),
        });
    }
    ticks
}

/// Bytes of the queue that was found.
fn waiting(tick: &Tick<'_>) -> f64 {
    f64::from(tick.queue_us()) * tick.rate() / 8e6
}

/// Bytes of the queue, and whether it was seen to overflow.
fn queue(ticks: &[Tick<'_>]) -> (u64, bool) {
    let bytes = |tick: &&Tick<'_>| waiting(tick);
    let exercised = || ticks.iter().filter(|tick| tick.is_exercised());
    let mut all: Vec<f64> = exercised().map(|tick| bytes(&tick)).collect();
    all.sort_by(f64::total_cmp);
    // The very longest may be an outage that was not seen as one.
    let most = all.get(all.len().saturating_sub(1 + all.len() / 200)).copied().unwrap_or(0.0);
    // Losses by chance do not ask how long the queue is.
    let losses = |full: bool| {
        let all = ticks.iter().filter(|tick| (waiting(tick) >= FULL * most) == full);
        let sums = all.fold((0.0, 1.0), |(lost, bytes), tick| {
            (lost + f64::from(tick.row.lost), bytes + tick.row.bytes as f64)
        });
        sums.0 / sums.1
    };
    let seen = most > 0.0 && losses(true) > CHANCE * losses(false);
    (if seen { most as u64 } else { (most as u64).max(QUEUE_MIN) }, seen)
}

/// The share of packets that each tick lost, but for those of a full queue.
fn losses(ticks: &[Tick<'_>], queue: u64) -> Vec<f64> {
    let share = |tick: &Tick<'_>| {
        let (lost, came) = (f64::from(tick.row.lost), f64::from(tick.row.packets));
        let full = waiting(tick) >= FULL * queue as f64;
        if lost == 0.0 || full { 0.0 } else { lost / (lost + came) }
    };
    ticks.iter().map(share).collect()
}

/// One-way delay of each tick.
fn bases(ticks: &[Tick<'_>]) -> Vec<f64> {
    // A round-trip time and queues are not of the same moment: what they differ by is the base
    // only while the queues are short, or at least as short as they get.
    let all = |from: usize, to: usize| {
        let told =
            || ticks[from..to].iter().filter_map(|tick| Some((tick.rtt_us?, tick.queues_us)));
        let shortest = told().map(|(_, queues)| queues).fold(f64::MAX, f64::min);
        let short = told().filter(|(_, queues)| *queues <= shortest + SHORT_US);
        short.map(|(rtt, queues)| (rtt - queues).max(0.0)).fold(f64::MAX, f64::min)
    };
    let mut bases = Vec::with_capacity(ticks.len());
    let (mut low, mut high, mut last) = (0, 0, f64::MAX);
    let broken = |n: usize| ticks[n].row.bytes == 0 && ticks[n].waits || !ticks[n].up;
    for (n, tick) in ticks.iter().enumerate() {
        while ticks[low].to_ms + NEAR_MS < tick.from_ms {
            low += 1;
        }
        if n > 0 && broken(n - 1) && !broken(n) {
            low = n;
        }
        high = high.max(n);
        while high + 1 < ticks.len()
            && ticks[high + 1].from_ms < tick.to_ms + NEAR_MS
            && !broken(high + 1)
        {
            high += 1;
        }
        let least = all(low, high + 1);
        let least = if least < f64::MAX { least } else { last };
        last = least;
        bases.push(if least < f64::MAX { least / 2.0 } else { 0.0 });
    }
    // Before the first round-trip time it was as then.
    let first = bases.iter().copied().find(|base| *base > 0.0).unwrap_or(0.0);
    bases.iter_mut().take_while(|base| **base == 0.0).for_each(|base| *base = first);
    bases
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outage {
    Lost,
    Held,
}

/// Ticks in which data waited and nothing came, and why.
fn outages(ticks: &[Tick<'_>]) -> Vec<Option<Outage>> {
    let mut outages = vec![None; ticks.len()];
    let still = |tick: &Tick<'_>| tick.row.bytes == 0 || !tick.up;
    let mut n = 0;
    while n < ticks.len() {
        let end = n + ticks[n..].iter().take_while(|tick| still(tick)).count();
        if end == n {
            n += 1;
            continue;
        }
        // What the other direction waits for is none of this one.
        let before = &ticks[n.saturating_sub(10)..n];
        let carried = before.iter().any(|tick| tick.rate() > 100_000.0);
        let after = ticks.get(end).map(|tick| tick.row);
        let lost = after.is_some_and(|row| row.lost > 0 && row.lost * 2 >= row.packets);
        let down = ticks[n..end].iter().any(|tick| !tick.up);
        // What comes then has waited for it; otherwise nobody sent anything.
        let lasted_us = (ticks[end - 1].to_ms - ticks[n].from_ms) as f64 * 1e3;
        let waited = after.and_then(|row| row.queue_us).map_or(0.0, f64::from);
        let waited = waited >= lasted_us / 2.0;
        let waits = waited || ticks[n..end].iter().any(|tick| tick.waits);
        if carried && (waits || lost) || down {
            let what = if lost || down && !waited { Outage::Lost } else { Outage::Held };
            outages[n..end].iter_mut().for_each(|outage| *outage = Some(what));
        }
        n = end;
    }
    outages
}

/// Rates that were seen.
struct Known {
    /// Middle of a tick, milliseconds, and rate; by time.
    points: Vec<(u64, f64)>,
    /// If there are none.
    blind: f64,
    /// Far from all of them, if it is known.
    least: f64,
}

fn known(ticks: &[Tick<'_>], outages: &[Option<Outage>], least: f64) -> Known {
    let is_most = |n: usize| {
        let (from, to) = (ticks[n].from_ms, ticks[n].to_ms);
        let less = |other: &Tick<'_>| other.rate() <= ticks[n].rate();
        let mut before = ticks[..n].iter().rev().take_while(|other| other.to_ms + AROUND_MS > from);
        let mut after = ticks[n..].iter().take_while(|other| other.from_ms < to + AROUND_MS);
        let (before, after) = (before.all(less), after.all(less));
        let found = ticks[n].row.queue_us >= Some(FOUND_US) && waiting(&ticks[n]) >= FOUND_BYTES;
        found && (before && after || (before || after) && ticks[n].is_covered())
    };
    // What comes first after an outage has waited for it, and is counted over all of it.
    let is_outage = |n: usize| outages[n].is_some() || n > 0 && outages[n - 1].is_some();
    let is_known = |n: &usize| !is_outage(*n) && (ticks[*n].is_exercised() || is_most(*n));
    let point = |tick: &Tick<'_>| ((tick.from_ms + tick.to_ms) / 2, tick.rate());
    let points: Vec<_> = (0..ticks.len()).filter(is_known).map(|n| point(&ticks[n])).collect();
    let capacity = ticks.iter().filter_map(|tick| tick.row.capacity_bps).max();
    let blind = capacity.map_or_else(|| best(ticks), |bps| bps as f64);
    Known { points, least, blind: blind.max(least).max(10_000.0) }
}

/// The most that came in [`BEST_MS`], bits per second.
fn best(ticks: &[Tick<'_>]) -> f64 {
    let (mut low, mut sum, mut best) = (0, 0, 0);
    for tick in ticks {
        sum += tick.row.bytes;
        while ticks[low].to_ms + BEST_MS <= tick.to_ms {
            sum -= ticks[low].row.bytes;
            low += 1;
        }
        best = best.max(sum);
    }
    best as f64 * 8_000.0 / BEST_MS as f64
}

impl Known {
    /// Whether a rate was seen around that time.
    fn is_near(&self, ms: u64) -> bool {
        let after = self.points.partition_point(|(at, _)| *at < ms);
        let nearest = self.points[after.saturating_sub(1)..].iter().take(2);
        nearest.into_iter().any(|(at, _)| at.abs_diff(ms) <= AROUND_MS)
    }

    /// The rate then, interpolated where it was not seen.
    fn at(&self, ms: u64) -> f64 {
        if self.least > 0.0 && !self.is_near(ms) {
            return self.least;
        }
        let after = self.points.partition_point(|(at, _)| *at < ms);
        match (after.checked_sub(1).map(|n| self.points[n]), self.points.get(after)) {
            (Some((from, a)), Some(&(to, b))) => {
                let share = (ms - from) as f64 / (to - from).max(1) as f64;
                a + (b - a) * share
            }
            (Some((_, rate)), None) => rate,
            (None, Some(&(_, rate))) => rate,
            (None, None) => self.blind,
        }
    }

    /// By how much rates that were seen differ over such a time: the standard deviation of the
    /// difference of their logarithms.
    fn spread(&self, ms: u64) -> f64 {
        let step = Duration::from_millis(ms.max(100)).0 / 1_000_000;
        let stride = (self.points.len() / 500).max(1);
        let pairs = self.points.iter().step_by(stride).filter_map(|(at, rate)| {
            let other = self.points.partition_point(|(later, _)| *later < at + step);
            let (_, other) = self.points.get(other)?;
            Some((other.max(1.0) / rate.max(1.0)).ln().powi(2))
        });
        let (sum, n) = pairs.fold((0.0, 0u32), |(sum, n), square| (sum + square, n + 1));
        if n < 3 { BLIND } else { (sum / f64::from(n)).sqrt().min(BLIND) }
    }
}

#[cfg(test)]
mod tests;
