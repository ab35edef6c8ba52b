//! What the paths are used for: asks [`Roles`] a few times a second and when a path's state has
//! changed, and carries it out on connections there are and on those to come.
//!
//! Whether a path is full, and whether large packets get lost on it, is seen in the connections;
//! at most [`LOOKED_AT`] of them at a time, in turn.

use super::Core;
use super::carried::Owner;
use crate::address::PATHS_MAX;
use crate::index::PathIndex;
use crate::model::EventKind;
use crate::path::{Health, PathFacts, Roles, Use};
use crate::snapshots;
use std::collections::BTreeMap;
use tabane_engine::tcp::State;
use tabane_engine::view::SubflowId;
use tabane_engine::{ConnId, Instant};

#[derive(Default)]
pub(super) struct RoleState {
    roles: Roles,
    /// Paths that work and are used, as the engine was told.
    carries: [bool; PATHS_MAX],
    /// Data waits for room, by path.
    full: [bool; PATHS_MAX],
    /// Retransmission timeouts of subflows when they were last looked at.
    timeouts: BTreeMap<(ConnId, u32), u64>,
    /// The connection that was looked at last.
    last: Option<ConnId>,
}

/// Connections looked at in one tick.
pub(super) const LOOKED_AT: usize = 64;
/// Subflows remembered; beyond it all are forgotten, and a timeout may go unnoticed once.
const REMEMBERED: usize = 4096;

impl Core {
    /// Decides what each path is used for, and sees to it.
    pub(super) fn decide(&mut self, now: Instant) {
        let unix = self.unix(now);
        let all = self.tunnels.all();
        let health: Vec<Health> = all.iter().map(|tunnel| tunnel.health(now)).collect();
        let quotas = &mut self.quotas;
        let spent: Vec<Option<String>> =
            PathIndex::first(all.len()).map(|path| quotas.spent(path, unix)).collect();
        let facts = all.iter().enumerate().map(|(i, tunnel)| {
            let counters = self.bond.counters.get(i).copied().unwrap_or_default();
            PathFacts {
                name: tunnel.name(),
                role: tunnel.config().role,
                spent: spent[i].as_deref(),
                health: &health[i],
                full: [self.role_state.full.get(i).copied().unwrap_or(false), health[i].far_full],
                rate_bps: [counters.tx_bps as u64, counters.rx_bps as u64],
                cap_bps: [tunnel.config().cap_up, tunnel.config().cap_down]
                    .map(|cap| cap.map(|c| c.0)),
            }
        });
        let facts: Vec<PathFacts<'_>> = facts.collect();
        let decisions = self.role_state.roles.decide(now, &facts);
        let upstream = self.owners.values().any(|owner| *owner == Owner::Upstream);
        let open = self.carried.len() > 0 || upstream;
        let changed = self.tunnels.obey(now, (open, !self.config.keep_roles), decisions);
        for (path, tunnel) in PathIndex::enumerate(self.tunnels.all()) {
            self.bond.endpoint.set_path_rtt(path.into(), tunnel.expected_rtt());
        }
        for &(path, before) in &changed {
            let tunnel = &self.tunnels.all()[path];
            let begins = before == Use::Unused && tunnel.decision().using == Use::Active;
            // That it works, or does not, is an event of its own.
            if tunnel.monitor().is_up() && !begins {
                let name = tunnel.name().to_owned();
                let text = format!("{name}: {}", tunnel.decision().reason);
                self.event_log.add(now, EventKind::PathUse, (None, Some(&name)), text);
            }
        }
        if !changed.is_empty() {
            self.apply_roles(now);
        }
    }

    /// Makes the paths what they are used for, for connections there are and for those to come.
    fn apply_roles(&mut self, now: Instant) {
        for (path, tunnel) in PathIndex::enumerate(self.tunnels.all()) {
            let (told, carries) = (&mut self.role_state.carries[path.get()], tunnel.carries());
            // What is up, and is said to be up again, is asked whether it has been down.
            if std::mem::replace(told, carries) != carries {
                self.bond.endpoint.set_path_up(now, path.into(), carries);
            }
        }
        self.profiles.clear();
        let conns = self.open_connections();
        for id in conns {
            self.look_at(now, id);
        }
    }

    /// A path is no more.
    pub(super) fn forget_path(&mut self, now: Instant, path: PathIndex) {
        self.role_state.carries[path.get()] = false;
        self.bond.endpoint.set_path_up(now, path.into(), false);
    }

    /// Looks at some of the connections: whether paths are full, whether timeouts make the size of
    /// packets suspect, and whether subflows that came since have their priority.
    pub(super) fn look(&mut self, now: Instant) {
        let mut ids = self.open_connections();
        ids.sort_unstable();
        if ids.len() > LOOKED_AT {
            let begin = ids.partition_point(|id| Some(*id) <= self.role_state.last);
            ids.rotate_left(begin);
            ids.truncate(LOOKED_AT);
        }
        self.role_state.last = ids.last().copied();
        self.role_state.full = [false; PATHS_MAX];
        if self.role_state.timeouts.len() > REMEMBERED {
            self.role_state.timeouts.clear();
        }
        for id in ids {
            self.look_at(now, id);
        }
    }

    fn look_at(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.bond.endpoint.connection(id) else { return };
        let info = conn.info(now);
        snapshots::note_full(&info, &mut self.role_state.full);
        let mut changed: Vec<(SubflowId, bool)> = Vec::new();
        for subflow in &info.subflows {
            let path = PathIndex::from(subflow.path);
            let Some(tunnel) = self.tunnels.all().get(path.get()) else { continue };
            let low = tunnel.decision().using == Use::Low;
            // What is not used has no need of a priority, and could not tell it.
            let used =
                tunnel.decision().using != Use::Unused && subflow.state == State::Established;
            if used && subflow.view.backup != low {
                changed.push((subflow.view.id, low));
            }
            let timeouts = subflow.stats.timeouts;
            let before = self.role_state.timeouts.insert((id, subflow.number), timeouts);
            if before.is_some_and(|before| before < timeouts) {
                self.tunnels.suspect_mtu(now, path);
            }
        }
        for (subflow, low) in changed {
            // It may have closed in the meantime.
            let _ = conn.set_backup(now, subflow, low);
        }
    }

    /// Seconds since 1970.
    pub(super) fn unix(&self, now: Instant) -> u64 {
        self.clock.unix(now).as_secs()
    }
}
