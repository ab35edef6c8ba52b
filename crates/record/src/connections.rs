//! What each connection was and how it went, from readings of its counters: bytes, pauses, what it
//! looks like.
//!
//! A request is told by its direction: bytes that go one way after bytes had come the other. A
//! connection whose bytes come at a steady rate, most of the time, without waiting for room is
//! paced. Everything else wants as much as it gets.

use super::sampler::micros;
use super::{ConnectionRow, DOWN, Kind, TICK, UP};
use std::collections::BTreeMap;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};

/// Connections followed at a time; of others, only what they were at their end is known.
pub(crate) const TRACKED: usize = 4096;
/// A connection that lasts has a row this often.
pub(crate) const EVERY: Duration = Duration::from_secs(10);
/// Buckets of round-trip times, each 5 % wider than the one before it, from 50 us on: to 12 s.
const BUCKETS: usize = 256;
const NARROWEST_US: f64 = 50.0;
const WIDER: f64 = 1.05;
/// Rates of seconds that are compared to find out whether a connection is paced.
const SECONDS: usize = 30;
/// A rate is steady if it varies by less than this (standard deviation over mean): a second has
/// ten ticks, so one message more or less in a tick of either end makes some 10 %.
const STEADY: f64 = 0.25;
/// Answers above this are downloads.
const ANSWER_MAX: u64 = 2 << 20;

/// What is known of a connection now; counts are since it began.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConnectionReading {
    /// Tells it from others of the agent's run.
    pub id: u64,
    /// How long it has been there.
    pub age: Duration,
    /// Payload bytes, [`UP`] and [`DOWN`].
    pub bytes: [u64; 2],
    /// Some of its data waits for room on a path.
    pub waits: bool,
    /// By path: bytes of it, both ways.
    pub paths: Vec<(Arc<str>, u64)>,
    /// See [`super::policies`].
    pub policies: Arc<str>,
    /// Where it goes, if it may be said.
    pub target: Arc<str>,
    /// At a server: the client, as the names of its paths have it.
    pub owner: Arc<str>,
}

/// Follows connections.
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<u64, Tracked>);

#[derive(Debug)]
struct Tracked {
    last: ConnectionReading,
    at: Instant,
    row: Instant,
    /// Last direction in which bytes went.
    turn: Option<usize>,
    exchanges: u32,
    active: Duration,
    /// When bytes moved last.
    moved: Instant,
    stall: Duration,
    rtts: Rtts,
    seconds: Seconds,
    ticks: u32,
    waiting: u32,
}

/// A histogram.
#[derive(Debug)]
struct Rtts(Box<[u16; BUCKETS]>);

/// Bytes of the last whole seconds.
#[derive(Debug, Default)]
struct Seconds {
    since: Duration,
    bytes: u64,
    ring: Vec<u64>,
    next: usize,
}

impl Connections {
    /// Readings of some connections, and the round-trip time of a path now.
    pub(super) fn take(
        &mut self,
        at: (Instant, u64),
        readings: impl IntoIterator<Item = ConnectionReading>,
        rtt: impl Fn(&str) -> Option<Duration>,
    ) -> Vec<ConnectionRow> {
        let mut rows = Vec::new();
        for reading in readings {
            let full = self.0.len() >= TRACKED;
            let Some(tracked) = self.0.get_mut(&reading.id) else {
                if !full {
                    let tracked = Tracked::new(at.0, &reading, &rtt);
                    self.0.insert(reading.id, tracked);
                }
                continue;
            };
            tracked.take(at.0, reading, &rtt);
            if at.0.saturating_since(tracked.row) >= EVERY {
                tracked.row = at.0;
                rows.push(tracked.row(at.1, false));
            }
        }
        rows
    }

    /// One has ended. Its client may have left meanwhile, and another be in its place: whose it was
    /// stays what was known while it was there.
    pub(super) fn ended(
        &mut self,
        (now, unix_ms): (Instant, u64),
        last: &ConnectionReading,
    ) -> Option<ConnectionRow> {
        let mut tracked =
            self.0.remove(&last.id).unwrap_or_else(|| Tracked::new(now, last, &|_| None));
        let mut last = last.clone();
        for (known, last) in
            [(&tracked.last.owner, &mut last.owner), (&tracked.last.policies, &mut last.policies)]
        {
            if !known.is_empty() {
                *last = known.clone();
            }
        }
        tracked.take(now, last, &|_| None);
        let moved = tracked.last.bytes != [0, 0];
        moved.then(|| tracked.row(unix_ms, true))
    }

    /// Rows of all that are there.
    pub(super) fn end(&mut self, unix_ms: u64) -> Vec<ConnectionRow> {
        let all = std::mem::take(&mut self.0).into_values();
        all.map(|tracked| tracked.row(unix_ms, false)).collect()
    }
}

impl Tracked {
    fn new(
        now: Instant,
        reading: &ConnectionReading,
        rtt: &impl Fn(&str) -> Option<Duration>,
    ) -> Self {
        let began = Instant(now.0.saturating_sub(reading.age.0));
        let nothing = ConnectionReading {
            bytes: [0, 0],
            paths: Vec::new(),
            age: Duration::ZERO,
            ..reading.clone()
        };
        let mut tracked = Self {
            last: nothing,
            at: began,
            row: began,
            turn: None,
            exchanges: 0,
            active: Duration::ZERO,
            moved: began,
            stall: Duration::ZERO,
            rtts: Rtts(Box::new([0; BUCKETS])),
            seconds: Seconds::default(),
            ticks: 0,
            waiting: 0,
        };
        tracked.take(now, reading.clone(), rtt);
        tracked
    }

    fn take(
        &mut self,
        now: Instant,
        reading: ConnectionReading,
        rtt: &impl Fn(&str) -> Option<Duration>,
    ) {
        let moved = [UP, DOWN].map(|way| reading.bytes[way].saturating_sub(self.last.bytes[way]));
        let since = now.saturating_since(self.at);
        if moved != [0, 0] {
            // It may have been looked at long ago: it moved in one tick at least.
            self.active = self.active + since.min(TICK + TICK / 2);
            self.moved = now;
            // Within a tick the question comes first.
            if moved[UP] > 0 {
                self.turn = Some(UP);
            }
            if moved[DOWN] > 0 {
                self.exchanges += u32::from(self.turn == Some(UP));
                self.turn = Some(DOWN);
            }
        } else if reading.waits || self.last.waits {
            self.stall = self.stall.max(now.saturating_since(self.moved));
        }
        for (path, bytes) in &reading.paths {
            let before = self.last.paths.iter().find(|(name, _)| name == path);
            if *bytes > before.map_or(0, |(_, bytes)| *bytes)
                && let Some(rtt) = rtt(path)
            {
                self.rtts.add(rtt);
            }
        }
        self.ticks += 1;
        self.waiting += u32::from(reading.waits);
        self.seconds.add(reading.age, moved[UP] + moved[DOWN]);
        (self.last, self.at) = (reading, now);
    }

    fn kind(&self) -> Kind {
        let [up, down] = self.last.bytes;
        let exchanges = u64::from(self.exchanges.max(1));
        let waits = self.waiting * 4 > self.ticks;
        let (answer, question) = (down / exchanges, up / exchanges);
        let asks = up > 0 && down > 0 && answer <= ANSWER_MAX && question <= answer.max(16 << 10);
        if self.seconds.is_steady() && !waits {
            Kind::Paced
        } else if asks && (self.exchanges > 1 || !waits) {
            Kind::Requests
        } else {
            Kind::Bulk
        }
    }

    fn row(&self, unix_ms: u64, ended: bool) -> ConnectionRow {
        let last = &self.last;
        ConnectionRow {
            unix_ms,
            id: last.id,
            age_ms: last.age.0 / 1_000_000,
            ended,
            kind: self.kind(),
            bytes: last.bytes,
            exchanges: self.exchanges,
            active_ms: self.active.0 / 1_000_000,
            stall_ms: micros(self.stall) / 1000,
            rtt_us: self.rtts.quantile(0.5).zip(self.rtts.quantile(0.95)).map(|(a, b)| [a, b]),
            policies: last.policies.clone(),
            target: last.target.clone(),
            owner: last.owner.clone(),
        }
    }
}

impl Rtts {
    fn add(&mut self, rtt: Duration) {
        let bucket = (f64::from(micros(rtt)) / NARROWEST_US).max(1.0).ln() / WIDER.ln();
        let count = &mut self.0[(bucket as usize).min(BUCKETS - 1)];
        *count = count.saturating_add(1);
    }

    /// Middle of the bucket in which it is, microseconds.
    fn quantile(&self, share: f64) -> Option<u32> {
        let all: u32 = self.0.iter().map(|count| u32::from(*count)).sum();
        let rank = (share * f64::from(all)).ceil().max(1.0) as u32;
        let mut below = 0;
        let bucket = self.0.iter().position(|count| {
            below += u32::from(*count);
            below >= rank
        });
        (all > 0).then(|| {
            let bucket = bucket.unwrap_or(BUCKETS - 1) as f64 + 0.5;
            (NARROWEST_US * WIDER.powf(bucket)) as u32
        })
    }
}

impl Seconds {
    fn add(&mut self, age: Duration, bytes: u64) {
        self.bytes += bytes;
        if age.saturating_sub(self.since) < Duration::from_secs(1) {
            return;
        }
        let seconds = age.saturating_sub(self.since).as_secs_f64();
        let rate = (std::mem::take(&mut self.bytes) as f64 / seconds) as u64;
        self.since = age;
        if self.ring.len() < SECONDS {
            self.ring.push(rate);
        } else {
            self.ring[self.next] = rate;
        }
        self.next = (self.next + 1) % SECONDS;
    }

    fn is_steady(&self) -> bool {
        // The first and the last second are not whole, as a rule.
        let rates: Vec<f64> = self.ring.iter().skip(1).map(|rate| *rate as f64).collect();
        if rates.len() < 3 {
            return false;
        }
        let n = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / n;
        mean > 0.0 && variance.sqrt() < STEADY * mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection of `seconds` whose bytes after each tick are as said; its last row.
    fn row(seconds: u64, bytes: impl Fn(u64) -> [u64; 2], waits: bool) -> ConnectionRow {
        let mut connections = Connections::default();
        let mut last = ConnectionReading::default();
        let rtt = |_: &str| Some(Duration::from_millis(30));
        for tick in 1..=seconds * 10 {
            let now = Instant::ZERO + TICK * tick;
            let bytes = bytes(tick);
            let paths = vec![("wifi".into(), bytes[0] + bytes[1])];
            let age = TICK * tick;
            last = ConnectionReading { id: 1, age, bytes, waits, paths, ..last };
            connections.take((now, tick * 100), [last.clone()], rtt);
        }
        let end = (Instant::ZERO + TICK * (seconds * 10), seconds * 1000);
        connections.ended(end, &last).unwrap()
    }

    #[test]
    fn what_a_connection_looks_like() {
        let bulk = row(20, |tick| [200, tick * 100_000 + tick * tick * 700], true);
        assert_eq!((bulk.kind, bulk.exchanges), (Kind::Bulk, 1));
        assert_eq!(bulk.age_ms, 20_000);
        // 64 kbit/s each way.
        let voice = row(20, |tick| [tick * 800, tick * 800], false);
        assert_eq!(voice.kind, Kind::Paced);
        // A question every two seconds, the answer some ticks later.
        let asks =
            |tick: u64| [(tick / 20 + 1) * 300, tick.saturating_sub(3).div_ceil(20) * 20_000];
        let asks = row(20, asks, false);
        assert_eq!((asks.kind, asks.exchanges), (Kind::Requests, 10));
        let upload = row(20, |tick| [tick * 100_000 + tick * tick * 700, 0], true);
        assert_eq!(upload.kind, Kind::Bulk);
    }

    #[test]
    fn pauses_and_round_trips() {
        // Nothing moves from 3 s to 5.5 s, while there is something that waits.
        let stalls = row(10, |tick| [0, tick.min(30).max(tick.saturating_sub(25)) * 1000], true);
        assert!((2400..=2600).contains(&stalls.stall_ms), "{}", stalls.stall_ms);
        let [p50, p95] = stalls.rtt_us.unwrap();
        assert!((29_000..=31_500).contains(&p50) && p50 == p95, "{p50} {p95}");
        let quiet = row(10, |tick| [0, tick.min(30) * 1000], false);
        assert_eq!(quiet.stall_ms, 0, "nobody waited");
    }

    /// The client was removed, or a reload gave its place to another one.
    #[test]
    fn whose_a_connection_was_is_known_from_when_it_was_there() {
        for (owner, policies) in [("", ""), ("ben", "ecf bbr own | ecf bbr own")] {
            let mut connections = Connections::default();
            let there = ConnectionReading {
                id: 1,
                bytes: [300, 9_000],
                owner: "anna".into(),
                policies: "necf cubicd own | necf cubicd own".into(),
                ..Default::default()
            };
            connections.take((Instant::ZERO + TICK, 100), [there.clone()], |_| None);
            let last = ConnectionReading {
                owner: owner.into(),
                policies: policies.into(),
                ..there.clone()
            };
            let row = connections.ended((Instant::ZERO + TICK * 2, 200), &last).unwrap();
            assert_eq!((row.owner, row.policies), (there.owner, there.policies));
        }
    }

    #[test]
    fn what_is_beyond_the_limit_is_known_by_its_end() {
        let mut connections = Connections::default();
        let all = (0..TRACKED as u64 + 5).map(|id| ConnectionReading {
            id,
            bytes: [1, 1],
            ..Default::default()
        });
        let at = (Instant::ZERO + TICK, 1);
        assert!(connections.take(at, all, |_| None).is_empty());
        assert_eq!(connections.0.len(), TRACKED);
        let last = ConnectionReading { id: u64::MAX, bytes: [7, 9], ..Default::default() };
        assert_eq!(connections.ended(at, &last).unwrap().bytes, [7, 9]);
        let nothing = ConnectionReading { id: 3, bytes: [0, 0], ..Default::default() };
        assert_eq!(connections.ended(at, &nothing), None);
    }
}
