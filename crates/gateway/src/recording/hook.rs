//! What both agents do alike to record: readings from the counters of a bond, the snapshots of
//! connections, and the round-trip times of paths.
//!
//! Where nothing measures the queue of one direction, the round-trip time above its least of the
//! last [`WINDOW`] is taken for the queue of the direction that carries more.

use super::{
    ConnectionReading, DOWN, DirectionReading, PathReading, RecordSettings, Recorder, UP, Using,
};
use crate::address::PATHS_MAX;
use crate::bond::Counters;
use crate::config::Choice;
use crate::path::Use;
use crate::recording::ring::Role;
use crate::recording::settings;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};

/// The recording of an agent; `K` names a connection.
pub(crate) struct Hook<K> {
    pub(crate) recorder: Recorder,
    /// The connection that was looked at last.
    pub(crate) looked_at: Option<K>,
    queues: BTreeMap<Arc<str>, Queue>,
}

/// What the subflows of a bond say of its paths.
#[derive(Default)]
pub(crate) struct Seen {
    rtt: [Option<Duration>; PATHS_MAX],
    waits: [bool; PATHS_MAX],
}

/// What else an agent knows of a path.
pub(crate) struct Known {
    pub(crate) name: Arc<str>,
    /// Place in its bond.
    pub(crate) path: usize,
    pub(crate) up: bool,
    /// Data for us waits at the far end.
    pub(crate) far_full: bool,
    pub(crate) using: Use,
    /// By probes.
    pub(crate) rtt: Option<Duration>,
}

/// Connections looked at in one tick.
pub(crate) const LOOKED_AT: usize = 64;
/// Least round-trip times are remembered for half of it to all of it.
const WINDOW: Duration = Duration::from_secs(20);
/// A direction carries data if it carries so many times what the other does.
const MORE: u64 = 2;

/// The queue of a path by its round-trip times.
#[derive(Debug)]
struct Queue {
    least: [Duration; 2],
    since: Instant,
    bytes: [u64; 2],
}

/// How a configuration says to record; `None`: not. `config` is its file.
#[must_use]
pub(crate) fn record_settings(
    (record, folder, names): (&Option<String>, &Option<PathBuf>, bool),
    config: Option<&Path>,
) -> Option<RecordSettings> {
    let keep = settings::keep(record.as_deref()?).ok()?;
    let state = std::env::var_os("STATE_DIRECTORY").filter(|folder| !folder.is_empty());
    // systemd may name several, with colons between them.
    let state = state.map(|folder| {
        let text = folder.to_string_lossy().into_owned();
        PathBuf::from(text.split(':').next().unwrap_or_default())
    });
    let usual = || settings::usual_folder(config.unwrap_or(Path::new("agent")), state.as_deref());
    let folder = folder.clone().unwrap_or_else(usual);
    Some(RecordSettings { keep, folder, names })
}

impl<K> Hook<K> {
    /// Begins to record.
    ///
    /// # Errors
    /// For people: the folder cannot be made, or the system gives no thread.
    pub(crate) fn start(settings: &RecordSettings, role: Role) -> Result<Self, String> {
        let recorder = Recorder::start(settings, role);
        let recorder = recorder.map_err(|error| {
            format!("nothing is recorded: {}: {error}", settings.folder.display())
        })?;
        Ok(Self { recorder, looked_at: None, queues: BTreeMap::new() })
    }

    /// A path now. `own_way` is the direction in which this agent sends.
    pub(crate) fn path(
        &mut self,
        now: Instant,
        (known, own_way): (Known, usize),
        counters: &Counters,
        seen: &Seen,
    ) -> (Arc<str>, PathReading) {
        let path = known.path;
        let (mut sent, mut received) = (DirectionReading::default(), DirectionReading::default());
        (sent.bytes, sent.packets) = (counters.tx_bytes, counters.tx_packets);
        (received.bytes, received.packets) = (counters.rx_bytes, counters.rx_packets);
        let mut directions = if own_way == UP { [sent, received] } else { [received, sent] };
        let rtt = seen.rtt[path].or(known.rtt);
        if let Some(rtt) = rtt {
            let queue = self.queues.entry(known.name.clone()).or_insert_with(|| Queue::new(now));
            let bytes = directions.map(|direction| direction.bytes);
            let queues = queue.take(now, rtt, bytes);
            for (direction, queue) in directions.iter_mut().zip(queues) {
                direction.queue = Some(queue);
            }
        }
        let using = match known.using {
            Use::Active => Using::Active,
            Use::Low => Using::Backup,
            Use::Unused => Using::Unused,
        };
        let waits = seen.waits[path] || known.far_full;
        (known.name, PathReading { up: known.up, waits, using, rtt, directions })
    }
}

impl Seen {
    /// A connection's subflows: bytes by path, and whether some of its data waits for room.
    pub(crate) fn look(
        &mut self,
        info: &Info,
        name: impl Fn(usize) -> Arc<str>,
    ) -> (Vec<(Arc<str>, u64)>, bool) {
        let mut paths: Vec<(Arc<str>, u64)> = Vec::new();
        for subflow in &info.subflows {
            let path = usize::from(subflow.path.0);
            if path >= PATHS_MAX {
                continue;
            }
            let view = &subflow.view;
            if view.in_flight > 0 {
                self.waits[path] = true;
                if !view.latest_rtt.is_zero() {
                    self.rtt[path] = Some(view.latest_rtt);
                }
            }
            let (name, bytes) = (name(path), subflow.stats.bytes_sent + subflow.delivered);
            match paths.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += bytes,
                None => paths.push((name, bytes)),
            }
        }
        (paths, info.written > info.acked + info.outstanding)
    }
}

impl Queue {
    fn new(now: Instant) -> Self {
        Self { least: [Duration(u64::MAX); 2], since: now, bytes: [0, 0] }
    }

    /// The queues of both directions.
    fn take(&mut self, now: Instant, rtt: Duration, bytes: [u64; 2]) -> [Duration; 2] {
        if now.saturating_since(self.since) > WINDOW / 2 {
            self.least = [self.least[1], Duration(u64::MAX)];
            self.since = now;
        }
        self.least[1] = self.least[1].min(rtt);
        let above = rtt.saturating_sub(self.least[0].min(self.least[1]));
        let moved = [UP, DOWN].map(|way| bytes[way].saturating_sub(self.bytes[way]));
        self.bytes = bytes;
        match (moved[UP] > MORE * moved[DOWN], moved[DOWN] > MORE * moved[UP]) {
            (true, _) => [above, Duration::ZERO],
            (_, true) => [Duration::ZERO, above],
            _ => [above / 2, above / 2],
        }
    }
}

/// The policies of an agent's connections, as rows have them.
#[must_use]
pub(crate) fn policies(up: &Choice, down: &Choice) -> Arc<str> {
    let names = |choice: &Choice| {
        let Choice { scheduler, congestion, egress, .. } = choice;
        [scheduler.to_string(), congestion.to_string(), egress.to_string()]
    };
    let (up, down) = (names(up), names(down));
    super::policies(up.each_ref().map(String::as_str), down.each_ref().map(String::as_str)).into()
}

/// The last reading of a connection that has ended.
#[must_use]
pub(crate) fn last_reading(
    (id, age): (u64, Duration),
    bytes: [u64; 2],
    (policies, target): (Arc<str>, Arc<str>),
) -> ConnectionReading {
    ConnectionReading { id, age, bytes, policies, target, ..ConnectionReading::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_that_of_the_direction_that_carries_data() {
        let mut queue = Queue::new(Instant::ZERO);
        let ms = Duration::from_millis;
        let at = |tick: u64| Instant::ZERO + ms(tick * 100);
        assert_eq!(queue.take(at(0), ms(20), [0, 0]), [ms(0), ms(0)]);
        assert_eq!(queue.take(at(1), ms(50), [1_000, 100_000]), [ms(0), ms(30)]);
        assert_eq!(queue.take(at(2), ms(50), [101_000, 101_000]), [ms(30), ms(0)]);
        // A least that is long ago is forgotten.
        for tick in 3..=300 {
            queue.take(at(tick), ms(50), [101_000, tick * 100_000]);
        }
        assert_eq!(queue.take(at(301), ms(50), [101_000, 40_000_000]), [ms(0), ms(0)]);
    }
}
