//! From what an agent knows, every [`TICK`](super::TICK), to rows: what has changed since the last
//! row of a path, as long as the path is busy and for a while after.
//!
//! Bytes are a budget that grows with time. While more than half of [`RESERVE`] is there, every
//! busy path has its row; below that [`IN_TURN`] paths a tick have theirs, in turn, each row about
//! the time since the last one; when there is nothing left, rows are skipped and counted.

use super::connections::{ConnectionReading, Connections};
use super::{ConnectionRow, DirectionRow, PathRow, Row, TICK, Using};
use std::collections::BTreeMap;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};

/// Bytes a second: 40 MB a day.
pub(crate) const BUDGET: u64 = 463;
/// Bytes at once, so that a day has at most 50 MB.
pub(crate) const RESERVE: u64 = 10_000_000;
/// Rows of paths a tick when there is little room.
pub(crate) const IN_TURN: usize = 3;
/// Paths known at a time; of more at once, the others are counted as skipped.
const PATHS: usize = 4096;
/// A path has rows until it has been quiet for so long.
const QUIET: Duration = Duration::from_secs(2);
/// A quiet path that works has a row this often: its round-trip time.
const IDLE: Duration = Duration::from_secs(10);
/// A row waits so long for what the far end counts.
const NEWS: Duration = Duration::from_millis(450);
/// Probes and keepalives are no traffic: bytes a second.
const NOISE: f64 = 2_000.0;

/// What is known of a path now; counts are since any time, and only grow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathReading {
    /// Whether it works.
    pub up: bool,
    /// Data waits for an answer, or for room.
    pub waits: bool,
    /// What it is used for.
    pub using: Using,
    /// Latest round-trip time.
    pub rtt: Option<Duration>,
    /// [`super::UP`] and [`super::DOWN`].
    pub directions: [DirectionReading; 2],
}

/// One direction of it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionReading {
    /// When this was counted, microseconds by the clock of whoever received. What is not newer
    /// than the last reading says nothing.
    pub at_us: u64,
    /// Bytes of inner packets that arrived.
    pub bytes: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets that did not.
    pub lost: u64,
    /// One-way delay above its base.
    pub queue: Option<Duration>,
    /// It was the bottleneck until then.
    pub exercised: bool,
    /// What it has shown to carry, bits per second.
    pub capacity: Option<u64>,
    /// How much that may be trusted, 0 to 1.
    pub confidence: f64,
}

/// Makes rows.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    paths: BTreeMap<Arc<str>, Path>,
    connections: Connections,
    budget: Budget,
    skipped: u64,
    next: Instant,
    /// When readings were taken last.
    taken: Instant,
    /// Something moved lately.
    busy: bool,
}

#[derive(Debug)]
struct Path {
    last: PathReading,
    /// The direction, or directions, in which more moved by its last row.
    carried: [bool; 2],
    /// When its last row was.
    row: Instant,
    /// When it was last busy.
    busy: Instant,
    /// When it was last read.
    seen: Instant,
}

/// Bytes that may be written; what was written beyond them at once is owed.
#[derive(Debug)]
struct Budget {
    left: i64,
    at: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: RESERVE as i64, at: Instant::ZERO }
    }
}

impl Budget {
    fn grow(&mut self, now: Instant) {
        let more = (now.saturating_since(self.at).as_secs_f64() * BUDGET as f64) as i64;
        if more > 0 {
            self.left = (self.left + more).min(RESERVE as i64);
            self.at = now;
        }
    }
}

impl Sampler {
    /// Whether readings are to be taken now.
    #[must_use]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// When they are to be taken next, if nothing moves before.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.busy.then_some(self.next)
    }

    /// Rows were written: so many bytes.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.budget.left -= i64::try_from(bytes).unwrap_or(i64::MAX >> 1);
    }

    /// What is known of all paths and of some connections at `now`, which is `unix_ms` after 1970:
    /// rows, in order.
    pub(crate) fn take(
        &mut self,
        (now, unix_ms): (Instant, u64),
        paths: impl IntoIterator<Item = (Arc<str>, PathReading)>,
        connections: impl IntoIterator<Item = ConnectionReading>,
    ) -> Vec<Row> {
        self.next = now + TICK;
        self.budget.grow(now);
        self.forget();
        self.taken = now;
        let mut due: Vec<(Instant, Arc<str>, PathReading)> = Vec::new();
        self.busy = false;
        for (name, reading) in paths {
            match self.look(now, &name, &reading) {
                Some(since) => due.push((since, name, reading)),
                None => continue,
            }
        }
        let mut rows = Vec::new();
        for (name, reading) in self.within_budget(due) {
            rows.extend(self.row((now, unix_ms), name, reading).map(Row::Path));
        }
        let rtt = |name: &str| self.paths.get(name).and_then(|path| path.last.rtt);
        let room = self.budget.left > 0;
        for row in self.connections.take((now, unix_ms), connections, rtt) {
            self.put_connection(&mut rows, row, room);
        }
        if self.skipped > 0 && self.budget.left > RESERVE as i64 / 4 {
            rows.push(Row::Skipped(std::mem::take(&mut self.skipped)));
        }
        rows
    }

    /// A connection has ended; its last reading.
    pub(crate) fn ended(&mut self, at: (Instant, u64), last: &ConnectionReading) -> Vec<Row> {
        let mut rows = Vec::new();
        let row = self.connections.ended(at, last);
        let room = self.budget.left > 0;
        row.into_iter().for_each(|row| self.put_connection(&mut rows, row, room));
        rows
    }

    /// The agent ends: what is known of connections that are still there.
    pub(crate) fn end(&mut self, unix_ms: u64) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.connections.end(unix_ms).into_iter().map(Row::Connection).collect();
        if self.skipped > 0 {
            rows.push(Row::Skipped(std::mem::take(&mut self.skipped)));
        }
        rows
    }

    /// Makes room, where there is none: clients come and go. Those that are still read stay, as
    /// otherwise more paths than have room would push out each other, and none had rows.
    fn forget(&mut self) {
        if self.paths.len() >= PATHS {
            let taken = self.taken;
            self.paths.retain(|_, path| taken.saturating_since(path.seen) <= QUIET);
        }
    }

    fn put_connection(&mut self, rows: &mut Vec<Row>, row: ConnectionRow, room: bool) {
        if room {
            rows.push(Row::Connection(row));
        } else {
            self.skipped += 1;
        }
    }

    /// Takes note of a path; since when it has had no row, if it is to have one.
    fn look(&mut self, now: Instant, name: &Arc<str>, reading: &PathReading) -> Option<Instant> {
        let Some(path) = self.paths.get_mut(name) else {
            if self.paths.len() < PATHS {
                let (last, carried, busy) = (*reading, [false; 2], Instant::ZERO);
                let path = Path { last, carried, row: now, busy, seen: now };
                self.paths.insert(name.clone(), path);
            } else {
                self.skipped += 1;
            }
            return None;
        };
        path.seen = now;
        let seconds = now.saturating_since(path.row).as_secs_f64().max(1e-3);
        let bytes = |reading: &PathReading| -> u64 {
            reading.directions.iter().map(|direction| direction.bytes).sum()
        };
        let moved = bytes(reading).saturating_sub(bytes(&path.last)) as f64;
        let moves = moved / seconds >= NOISE || reading.waits;
        if moves {
            path.busy = now;
        }
        let lately = path.busy > Instant::ZERO && now.saturating_since(path.busy) <= QUIET;
        self.busy |= lately;
        let changed = path.last.up != reading.up;
        let idle = reading.up && now.saturating_since(path.row) >= IDLE;
        let directions = path.carried.iter().zip(&path.last.directions).zip(&reading.directions);
        let stale =
            directions.filter(|((carried, old), new)| **carried && new.at_us <= old.at_us).count();
        let waits = stale > 0 && now.saturating_since(path.row) < NEWS;
        (lately && !waits || changed || idle).then_some(path.row)
    }

    /// Those that may have a row now.
    fn within_budget(
        &mut self,
        mut due: Vec<(Instant, Arc<str>, PathReading)>,
    ) -> Vec<(Arc<str>, PathReading)> {
        if self.budget.left <= 0 {
            self.skipped += due.len() as u64;
            due.clear();
        } else if self.budget.left < RESERVE as i64 / 2 && due.len() > IN_TURN {
            due.sort_by_key(|(since, ..)| *since);
            due.truncate(IN_TURN);
        }
        due.into_iter().map(|(_, name, reading)| (name, reading)).collect()
    }

    fn row(
        &mut self,
        (now, unix_ms): (Instant, u64),
        name: Arc<str>,
        reading: PathReading,
    ) -> Option<PathRow> {
        let path = self.paths.get_mut(&name)?;
        let lasts = now.saturating_since(path.row);
        let mut directions = [DirectionRow::default(); 2];
        let pairs = reading.directions.iter().zip(&path.last.directions);
        for (row, (new, old)) in directions.iter_mut().zip(pairs) {
            *row = direction(new, old, lasts);
        }
        let most = directions[0].bytes.max(directions[1].bytes);
        path.carried = directions.map(|row| row.bytes > 0 && row.bytes * 2 >= most);
        (path.last, path.row) = (reading, now);
        Some(PathRow {
            unix_ms,
            lasts_ms: u32::try_from(lasts.0 / 1_000_000).unwrap_or(u32::MAX),
            path: name,
            up: reading.up,
            waits: reading.waits,
            using: reading.using,
            rtt_us: reading.rtt.map(micros),
            directions,
        })
    }
}

/// What happened from one reading to the next one, as if they were `lasts` apart: those of a far
/// end are of its own times.
fn direction(new: &DirectionReading, old: &DirectionReading, lasts: Duration) -> DirectionRow {
    let mut row = DirectionRow {
        queue_us: new.queue.map(micros),
        capacity_bps: new.capacity,
        confidence: new.confidence as f32,
        ..DirectionRow::default()
    };
    // Whoever counts anew begins at zero: nothing is known of the time between.
    let began = new.bytes < old.bytes || new.packets < old.packets;
    let Some(apart) = new.at_us.checked_sub(old.at_us).filter(|us| *us > 0 && !began) else {
        return row;
    };
    let scale = lasts.0 as f64 / 1e3 / apart as f64;
    let small = |new: u64, old: u64| u32::try_from(new.saturating_sub(old)).unwrap_or(u32::MAX);
    row.bytes = ((new.bytes - old.bytes) as f64 * scale) as u64;
    (row.packets, row.lost) = (small(new.packets, old.packets), small(new.lost, old.lost));
    row.exercised = new.exercised && old.exercised;
    row
}

/// Microseconds, as rows have them.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.0 / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::codec::Encoder;
    use super::*;

    fn at(ms: u64) -> (Instant, u64) {
        (Instant::ZERO + Duration::from_millis(ms), 1_800_000_000_000 + ms)
    }

    /// At a tick.
    fn reading(tick: u64, bytes: u64) -> PathReading {
        let at_us = tick * 100_000;
        let down = DirectionReading { at_us, bytes, packets: bytes / 1000, ..Default::default() };
        let rtt = Some(Duration::from_millis(20));
        let directions = [DirectionReading::default(), down];
        PathReading { up: true, rtt, directions, ..PathReading::default() }
    }

    fn path_rows(rows: Vec<Row>) -> Vec<PathRow> {
        let path = |row| match row {
            Row::Path(row) => Some(row),
            _ => None,
        };
        rows.into_iter().filter_map(path).collect()
    }

    #[test]
    fn a_path_has_rows_while_it_is_busy_and_a_while_after() {
        let mut sampler = Sampler::default();
        let mut rows = Vec::new();
        for tick in 1..=100 {
            // A megabit a second for two seconds, then nothing.
            let bytes = tick.min(20) * 12_500;
            let made = sampler.take(at(tick * 100), [("wifi".into(), reading(tick, bytes))], []);
            rows.extend(path_rows(made));
        }
        assert_eq!(rows.iter().map(|row| row.directions[1].bytes).sum::<u64>(), 19 * 12_500);
        assert!((19..=42).contains(&rows.len()), "{}", rows.len());
        assert!(rows.iter().take(19).all(|row| row.lasts_ms == 100));
        assert_eq!(sampler.poll_timeout(), None, "nobody is woken for a quiet path");
        let quiet = sampler.take(at(20_000), [("wifi".into(), reading(200, 250_000))], []);
        assert_eq!(path_rows(quiet).len(), 1, "its round-trip time");
        let down = PathReading { up: false, ..reading(200, 250_000) };
        let down = path_rows(sampler.take(at(20_100), [("wifi".into(), down)], []));
        assert!(down.len() == 1 && !down[0].up);
    }

    #[test]
    fn clients_that_have_left_make_room_for_others() {
        let mut sampler = Sampler::default();
        let mut take = |tick: u64, client: u64, bytes: u64| {
            // One is there all the time, and a call goes by it.
            let paths = [(format!("c{client}/0"), bytes), ("call/0".to_owned(), tick * 1000)];
            let paths = paths.map(|(name, bytes)| (name.into(), reading(tick, bytes)));
            path_rows(sampler.take(at(tick * 100), paths, []))
        };
        let mut last = Vec::new();
        for client in 0..=PATHS as u64 {
            take(client * 2 + 1, client, 0);
            last = take(client * 2 + 2, client, 12_500);
        }
        let names: Vec<&str> = last.iter().map(|row| &*row.path).collect();
        assert_eq!(names, [format!("c{PATHS}/0").as_str(), "call/0"]);
        assert!(last.iter().all(|row| row.lasts_ms == 100), "{last:?}");
    }

    #[test]
    fn paths_that_are_there_do_not_push_out_each_other() {
        let mut sampler = Sampler::default();
        let mut rows = Vec::new();
        for tick in 1..=40 {
            let paths = (0..PATHS + 9).map(|path| {
                let bytes = if path == 5 { tick * 12_500 } else { 0 };
                (format!("c{path}/0").into(), reading(tick, bytes))
            });
            rows.extend(path_rows(sampler.take(at(tick * 100), paths, [])));
        }
        assert_eq!(rows.len(), 39, "each tick but the first");
    }

    #[test]
    fn thousands_of_connections_keep_within_the_budget() {
        let (mut sampler, mut encoder) = (Sampler::default(), Encoder::default());
        let (mut bytes, hours) = (0, 2);
        for tick in 1..=hours * 360 {
            let all = (0..1000).map(|id| ConnectionReading {
                id,
                age: Duration::from_secs(tick * 10),
                bytes: [tick * 1000, tick * 100_000 + id],
                ..ConnectionReading::default()
            });
            for row in sampler.take(at(tick * 10_000), [], all) {
                // Forty times what it takes: the reserve is used up sooner.
                let took = encoder.add(&row) as u64 * 40;
                sampler.wrote(took);
                bytes += took;
            }
            if encoder.len() > 4096 {
                encoder.finish();
            }
        }
        let may = RESERVE + hours * 3600 * BUDGET;
        assert!(bytes > RESERVE, "{bytes}");
        // All that are due at one time go beyond it, once.
        assert!(bytes < may + RESERVE, "{bytes} of {may}");
    }

    #[test]
    fn a_day_of_twenty_busy_paths_is_no_more_than_fifty_megabytes() {
        let (mut sampler, mut encoder) = (Sampler::default(), Encoder::default());
        let (mut bytes, mut carried) = (0u64, 0u64);
        // Every tenth tick, and what a row takes ten times: the same budget, sooner.
        for tick in 1..=86_400u64 {
            let paths = (0..20).map(|path| {
                let wander = tick * 1_000_000 + (tick * 7919 + path * 31) % 101 * 900;
                (format!("c{path}/0").into(), reading(tick * 10, wander))
            });
            for row in sampler.take(at(tick * 1000), paths, []) {
                let took = encoder.add(&row) as u64 * 10;
                if let Row::Path(row) = &row {
                    carried += row.directions[1].bytes;
                }
                sampler.wrote(took);
                bytes += took;
            }
            if encoder.len() > 4096 {
                encoder.finish();
            }
        }
        assert!((30_000_000..=50_100_000).contains(&bytes), "{bytes}");
        // Rows are about the time since the last one: nothing that was carried is left out.
        assert!(carried > 80_000 * 20 * 1_000_000, "{carried}");
    }
}
