//! What the paths are used for: asks [`Roles`] a few times a second and when a path's state has
//! changed, and carries it out on connections there are and on those to come.
//!
//! Whether a path is full, and whether large packets get lost on it, is seen in the connections;
//! at most [`LOOKED_AT`] of them at a time, in turn.

use super::{Core, Upstream};
use crate::address::PATHS_MAX;
use crate::path::{Health, PathFacts, Roles, Use};
use crate::snapshots;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;
use tabane_engine::tcp::State;
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{ConnId, Instant};

/// See the module.
#[derive(Default)]
pub(super) struct Uses {
    roles: Roles,
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
        let lanes = self.tunnels.lanes();
        let health: Vec<Health> = lanes.iter().map(|lane| lane.health(now)).collect();
        let quotas = &mut self.quotas;
        let spent: Vec<Option<String>> =
            (0..lanes.len()).map(|path| quotas.spent(path, unix)).collect();
        let facts = lanes.iter().enumerate().map(|(i, lane)| {
            let counters = self.bond.counters.get(i).copied().unwrap_or_default();
            PathFacts {
                name: &lane.name,
                role: lane.config.role,
                spent: spent[i].as_deref(),
                health: &health[i],
                full: [self.uses.full.get(i).copied().unwrap_or(false), health[i].far_full],
                rate_bps: [counters.tx_bps as u64, counters.rx_bps as u64],
                cap_bps: [lane.config.cap_up, lane.config.cap_down].map(|cap| cap.map(|c| c.0)),
            }
        });
        let facts: Vec<PathFacts<'_>> = facts.collect();
        let decisions = self.uses.roles.decide(now, &facts);
        let host = self.host.as_ref();
        let carried = self.carried.iter().flat_map(Upstream::open).next();
        let open = self.programs.open() > 0
            || host.is_some_and(|host| !host.sessions.is_empty())
            || carried.is_some();
        let changed = self.tunnels.obey(now, open, decisions);
        for &(path, before) in &changed {
            let lane = &self.tunnels.lanes()[path];
            let begins = before == Use::Unused && lane.decision.using == Use::Active;
            // That it works, or does not, is an event of its own.
            if lane.monitor.is_up() && !begins {
                let name = lane.name.clone();
                let text = format!("{name}: {}", lane.decision.reason);
                self.event_log.add(now, "path-use", (None, Some(&name)), text);
            }
        }
        if !changed.is_empty() {
            self.apply_uses(now);
        }
    }

    /// Makes the paths what they are used for, for connections there are and for those to come.
    fn apply_uses(&mut self, now: Instant) {
        for (path, lane) in self.tunnels.lanes().iter().enumerate() {
            self.bond.endpoint.set_path_up(now, PathId(path as u8), lane.carries());
        }
        self.profiles.clear();
        let conns = self.open_connections();
        for id in conns {
            self.look_at(now, id);
        }
    }

    /// Looks at some of the connections: whether paths are full, whether timeouts make the size of
    /// packets suspect, and whether subflows that came since have their priority.
    pub(super) fn look(&mut self, now: Instant) {
        let mut ids = self.open_connections();
        ids.sort_unstable();
        if ids.len() > LOOKED_AT {
            let begin = ids.partition_point(|id| Some(*id) <= self.uses.last);
            ids.rotate_left(begin);
            ids.truncate(LOOKED_AT);
        }
        self.uses.last = ids.last().copied();
        self.uses.full = [false; PATHS_MAX];
        if self.uses.timeouts.len() > REMEMBERED {
            self.uses.timeouts.clear();
        }
        for id in ids {
            self.look_at(now, id);
        }
    }

    fn look_at(&mut self, now: Instant, id: ConnId) {
        let Some(conn) = self.bond.endpoint.connection(id) else { return };
        let info = conn.info(now);
        snapshots::note_full(&info, &mut self.uses.full);
        let mut changed: Vec<(SubflowId, bool)> = Vec::new();
        for subflow in &info.subflows {
            let path = usize::from(subflow.path.0);
            let Some(lane) = self.tunnels.lanes().get(path) else { continue };
            let low = lane.decision.using == Use::Low;
            // What is not used has no need of a priority, and could not tell it.
            let used = lane.decision.using != Use::Unused && subflow.state == State::Established;
            if used && subflow.view.backup != low {
                changed.push((subflow.view.id, low));
            }
            let timeouts = subflow.stats.timeouts;
            let before = self.uses.timeouts.insert((id, subflow.number), timeouts);
            if before.is_some_and(|before| before < timeouts) {
                self.tunnels.suspect_mtu(now, path);
            }
        }
        for (subflow, low) in changed {
            // It may have closed in the meantime.
            let _ = conn.set_backup(now, subflow, low);
        }
    }

    /// Seconds since 1970; a clock that is set while the agent runs is not seen.
    pub(super) fn unix(&self, now: Instant) -> u64 {
        let origin = self.clock.wall_origin().duration_since(UNIX_EPOCH).unwrap_or_default();
        origin.as_secs() + now.0 / 1_000_000_000
    }
}
