//! What a server records of the paths of its clients and of their connections
//! (`tabane_record`).

use super::Core;
use super::carried::Id;
use crate::index::{ClientIndex, PathIndex};
use crate::path::Use;
use crate::recording::{self, Hook, Known, LOOKED_AT, Seen, Wanted};
use std::collections::BTreeMap;
use std::sync::Arc;
use tabane_engine::Instant;
use tabane_record::{ConnectionReading, DOWN, Role};

pub(super) type Recording = Hook<Id>;

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
        self.recording = Hook::start(&wanted, Role::Server, log);
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
        let mut seen: BTreeMap<ClientIndex, Seen> = BTreeMap::new();
        let connections = self.connection_readings(now, &mut hook, &mut seen);
        let nothing = Seen::default();
        let mut paths = Vec::new();
        for client in self.client_sessions.places() {
            let owner = self.owner(client, hook.recorder.has_names());
            let Some(session) = self.client_sessions.get(client) else { continue };
            for path in PathIndex::all().filter(|path| session.peers[*path].is_some()) {
                // Thousands of clients do nothing: that costs nothing.
                let counters = &session.bond.counters[path];
                let idle = counters.tx_bps == 0.0 && counters.rx_bps == 0.0;
                if idle && session.works(path) && !seen.contains_key(&client) {
                    continue;
                }
                let using = match (session.is_used(path), session.is_low(path)) {
                    (false, _) => Use::Unused,
                    (_, true) => Use::Low,
                    _ => Use::Active,
                };
                let known = Known {
                    name: format!("{owner}/{path}").into(),
                    path: path.get(),
                    up: session.works(path),
                    far_full: false,
                    using,
                    rtt: None,
                };
                let seen = seen.get(&client).unwrap_or(&nothing);
                let counts = (&session.reports[path], counters);
                paths.push(Recording::path(now, (known, DOWN), counts, seen));
            }
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

    /// What the paths of a client are called by.
    fn owner(&mut self, client: ClientIndex, named: bool) -> String {
        match self.client_sessions.get(client) {
            Some(session) if named => session.name.clone(),
            Some(session) => format!("c{}", session.number.0),
            None => String::new(),
        }
    }

    fn policies_of(&mut self, client: ClientIndex) -> Arc<str> {
        let Some(session) = self.client_sessions.get(client) else { return "".into() };
        // What a client sends by is its own matter; it is taken to be the same.
        let down = &session.rules.rest().down;
        recording::policies(down, down)
    }

    fn record_finished(&mut self, at: (Instant, u64), hook: &mut Recording) {
        for one in self.carried.take_finished() {
            let policies = self.policies_of(one.id.0);
            let owner = self.owner(one.id.0, hook.recorder.has_names());
            hook.ended(at, &one, (policies, owner.into()));
        }
    }

    /// Of some connections, in turn.
    fn connection_readings(
        &mut self,
        now: Instant,
        hook: &mut Recording,
        seen: &mut BTreeMap<ClientIndex, Seen>,
    ) -> Vec<ConnectionReading> {
        let named = hook.recorder.has_names();
        let some = self.carried.some(hook.looked_at, LOOKED_AT);
        let some: Vec<_> = some
            .into_iter()
            .map(|one| {
                let age = now.saturating_since(one.since);
                (one.id, one.number, age, one.passed, hook.target(one.target))
            })
            .collect();
        let mut readings = Vec::new();
        for (id, number, age, bytes, target) in some {
            hook.looked_at = Some(id);
            let (policies, owner) = (self.policies_of(id.0), self.owner(id.0, named));
            let Some(session) = self.client_sessions.get(id.0) else { continue };
            let Some(conn) = session.bond.endpoint.connection(id.1) else { continue };
            let name = |path: usize| format!("{owner}/{path}").into();
            let (paths, waits) = seen.entry(id.0).or_default().look(&conn.info(now), name);
            readings.push(ConnectionReading {
                id: number,
                age,
                bytes,
                waits,
                paths,
                policies,
                target,
                owner: owner.into(),
            });
        }
        readings
    }
}
