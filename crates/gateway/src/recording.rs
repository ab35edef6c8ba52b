//! What both agents do alike to record: readings from what is known of each path
//! ([`Estimate`], of both directions) and the snapshots of connections. What becomes of them is
//! told in `tabane_record`.

use crate::address::PATHS_MAX;
use crate::bond::Counters;
use crate::config::Choice;
use crate::event_log::EventLog;
use crate::model::EventKind;
use crate::path::{Estimate, Reports, Use};
use crate::session::Finished;
use std::path::Path;
use std::sync::Arc;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_record::{
    ConnectionReading, DirectionReading, PathReading, RecordSettings, Recorder, Role, UP, Using,
};

/// The recording of an agent; `K` names a connection.
pub(crate) struct Hook<K> {
    pub(crate) recorder: Recorder,
    /// The connection that was looked at last.
    pub(crate) looked_at: Option<K>,
}

/// What the subflows of a bond say of its paths.
#[derive(Default)]
pub(crate) struct Seen {
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

/// What a configuration says of recording, and its file.
pub(crate) struct Wanted<'a> {
    pub(crate) keep: Option<&'a str>,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) names: bool,
    pub(crate) config: Option<&'a Path>,
}

impl<K> Hook<K> {
    /// Begins to record, if that is wanted. That it cannot is an event.
    pub(crate) fn start(
        wanted: &Wanted<'_>,
        role: Role,
        log: (Instant, &mut EventLog),
    ) -> Option<Self> {
        let Wanted { keep, folder, names, config } = *wanted;
        let settings = RecordSettings::of(keep, (folder, names), config)?;
        match Recorder::start(&settings, role) {
            Ok(recorder) => Some(Self { recorder, looked_at: None }),
            Err(error) => {
                let folder = settings.folder.display();
                stopped(log, format!("nothing is recorded: {folder}: {error}"));
                None
            }
        }
    }

    /// Writes what is known at a time. That it cannot any more is an event.
    pub(crate) fn take(
        &mut self,
        at: (Instant, u64),
        (paths, connections): (Vec<(Arc<str>, PathReading)>, Vec<ConnectionReading>),
        log: &mut EventLog,
    ) {
        if let Some(why) = self.recorder.take(at, paths, connections) {
            stopped((at.0, log), why);
        }
    }

    /// A connection has ended.
    pub(crate) fn ended<I>(
        &mut self,
        at: (Instant, u64),
        one: &Finished<I>,
        (policies, owner): (Arc<str>, Arc<str>),
    ) {
        let last = ConnectionReading {
            id: one.number,
            age: at.0.saturating_since(one.since),
            bytes: one.passed,
            policies,
            target: self.target(&one.target),
            owner,
            ..ConnectionReading::default()
        };
        self.recorder.ended(at, &last);
    }

    /// Where a connection goes, if that may be said.
    pub(crate) fn target(&self, target: &impl ToString) -> Arc<str> {
        if self.recorder.has_names() { target.to_string().into() } else { "".into() }
    }

    /// A path now. `own_way` is the direction in which this agent sends.
    pub(crate) fn path(
        now: Instant,
        (known, own_way): (Known, usize),
        (reports, counters): (&Reports, &Counters),
        seen: &Seen,
    ) -> (Arc<str>, PathReading) {
        let own = |bytes, packets| DirectionReading {
            at_us: now.0 / 1_000,
            bytes,
            packets,
            ..DirectionReading::default()
        };
        // Of a far end that sends no reports, what goes to it is taken for what arrives.
        let sent = direction(&reports.sending(now))
            .unwrap_or_else(|| own(counters.tx_bytes, counters.tx_packets));
        let received = direction(&reports.receiving(now))
            .unwrap_or_else(|| own(counters.rx_bytes, counters.rx_packets));
        let directions = if own_way == UP { [sent, received] } else { [received, sent] };
        let using = match known.using {
            Use::Active => Using::Active,
            Use::Low => Using::Backup,
            Use::Unused => Using::Unused,
        };
        let (path, up) = (known.path, known.up);
        let waits = seen.waits[path] || known.far_full;
        let rtt = reports.round_trip(now).or(known.rtt);
        (known.name, PathReading { up, waits, using, rtt, directions })
    }
}

/// What the markers of a direction say; `None` if there are none.
fn direction(estimate: &Estimate) -> Option<DirectionReading> {
    let Estimate { capacity, confidence, longest_delay, exercised, newest, .. } = *estimate;
    let sample = newest?;
    Some(DirectionReading {
        at_us: sample.received.at_us,
        bytes: sample.received.bytes,
        packets: sample.received.packets,
        lost: sample.sent.packets.saturating_sub(sample.received.packets),
        queue: longest_delay,
        exercised,
        capacity,
        confidence,
    })
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
            self.waits[path] |= subflow.view.in_flight > 0;
            let (name, bytes) = (name(path), subflow.stats.bytes_sent + subflow.delivered);
            match paths.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += bytes,
                None => paths.push((name, bytes)),
            }
        }
        (paths, info.written > info.acked + info.outstanding)
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
    tabane_record::policies(up.each_ref().map(String::as_str), down.each_ref().map(String::as_str))
        .into()
}

fn stopped((now, log): (Instant, &mut EventLog), why: String) {
    log.add(now, EventKind::RecordStopped, (None, None), why);
}
