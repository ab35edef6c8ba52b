//! What a client records of its paths and of the connections of programs (`tabane_record`).

use super::Core;
use super::carried::ProgramId;
use super::tunnels::Tunnel;
use crate::index::PathIndex;
use crate::recording::{self, Hook, Known, LOOKED_AT, Seen, Wanted};
use std::sync::Arc;
use tabane_engine::{Duration, Instant};
use tabane_record::{ConnectionReading, Role, UP};

pub(super) type Recording = Hook<ProgramId>;

/// A delay that is a queue, and no noise of timers.
const QUEUE: Duration = Duration::from_millis(2);

impl Core {
    /// Begins to record, if the configuration says so.
    pub(super) fn start_recording(&mut self) {
        let wanted = Wanted {
            keep: self.config.record.as_deref(),
            folder: self.config.record_folder.as_deref(),
            names: self.config.record_names,
            config: self.source.as_ref().and_then(|source| source.file()),
        };
        let log = (self.clock.now(), &mut self.event_log);
        self.recording = Hook::start(&wanted, Role::Client, log);
        if self.recording.is_some() {
            self.carried.remember_finished();
        }
    }

    /// Takes readings if it is time to.
    pub(super) fn record(&mut self, now: Instant) {
        if !self.recording.as_ref().is_some_and(|hook| hook.recorder.is_due(now)) {
            return;
        }
        let Some(mut hook) = self.recording.take() else { return };
        let at = (now, self.event_log.unix_ms(now));
        self.record_finished(at, &mut hook);
        let names: Vec<Arc<str>> =
            self.tunnels.all().iter().map(|tunnel| tunnel.name().into()).collect();
        let mut seen = Seen::default();
        let connections = self.connection_readings(now, &mut hook, (&names, &mut seen));
        let mut paths = Vec::new();
        for (path, tunnel) in PathIndex::enumerate(self.tunnels.all()) {
            let known = Known {
                name: names[path].clone(),
                path: path.get(),
                up: tunnel.monitor().is_up(),
                far_full: tunnel.monitor().health(now).far_full,
                using: tunnel.decision().using,
                rtt: tunnel.monitor().rtt(),
            };
            let counts = (tunnel.reports(), &self.bond.counters[path]);
            paths.push(Recording::path(now, (known, UP), counts, &seen));
        }
        hook.take(at, (paths, connections), &mut self.event_log);
        self.recording = Some(hook);
    }

    /// Writes what is left.
    pub(super) fn end_recording(&mut self, now: Instant) {
        let Some(mut hook) = self.recording.take() else { return };
        let at = (now, self.event_log.unix_ms(now));
        self.record_finished(at, &mut hook);
        hook.recorder.end(at);
    }

    fn record_finished(&mut self, at: (Instant, u64), hook: &mut Recording) {
        let finished = self.carried.take_finished();
        if finished.is_empty() {
            return;
        }
        let policies = recording::policies(&self.rules.rest().up, &self.rules.rest().down);
        finished.iter().for_each(|one| hook.ended(at, one, (policies.clone(), "".into())));
    }

    /// Of some connections, in turn.
    fn connection_readings(
        &mut self,
        now: Instant,
        hook: &mut Recording,
        (names, seen): (&[Arc<str>], &mut Seen),
    ) -> Vec<ConnectionReading> {
        let policies = recording::policies(&self.rules.rest().up, &self.rules.rest().down);
        let mut readings = Vec::new();
        for session in self.carried.some(hook.looked_at, LOOKED_AT) {
            hook.looked_at = Some(session.id);
            let Some(conn) = self.bond.endpoint.connection(session.far) else { continue };
            let name = |path: usize| names.get(path).cloned().unwrap_or_else(|| "gone".into());
            let (paths, waits) = seen.look(&conn.info(now), name);
            readings.push(ConnectionReading {
                id: session.number,
                age: now.saturating_since(session.since),
                bytes: session.passed,
                waits,
                paths,
                policies: policies.clone(),
                target: hook.target(session.target),
                owner: "".into(),
            });
        }
        // What waits for us at the far end, of whomever it is, waits for room on its path: the far
        // end says so, or there is a queue.
        let waits = |tunnel: &Tunnel| {
            let known = tunnel.reports().receiving(now);
            let queue = known.longest_delay.is_some_and(|delay| delay >= QUEUE);
            queue || known.exercised || tunnel.monitor().health(now).far_full
        };
        let all = self.tunnels.all().iter().zip(names);
        let full: Vec<&Arc<str>> =
            all.filter(|(tunnel, _)| waits(tunnel)).map(|(_, name)| name).collect();
        for reading in &mut readings {
            reading.waits |= reading.paths.iter().any(|(name, _)| full.contains(&name));
        }
        readings
    }
}
