//! Timed changes: done to links, paths and live connections.

use super::{Action, World};
use crate::link::LinkChange;
use crate::relay::Side;
use crate::scenario::change::is_named;
use crate::scenario::{Change, LinkDirection, ProxySide, SubflowChange};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::mptcp::Policy;
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{ConnId, Endpoint, Instant};

impl World<'_> {
    /// Does the `n`-th change of the scenario, and plans its next time.
    pub(super) fn change(&mut self, n: usize) {
        let change = &self.scenario.at[n];
        if let Some(every) = change.every {
            self.plan(self.now + every.0, Action::Change(n as u32));
        }
        self.perform(change);
    }

    /// Does a change, and says so to the observer.
    pub(super) fn perform(&mut self, change: &Change) {
        let mut words = change.words();
        if let Some(name) = change.down.as_ref().or(change.up.as_ref()) {
            self.switch_link(name, change.up.is_some(), change.silent);
        } else if let Some(name) = &change.link {
            self.change_link(name, change);
        } else if let Some(name) = &change.host
            && let Some(refused) = self.change_host(name, change)
        {
            let _ = write!(words, " (refused: {refused})");
        }
        self.observer.changed(self.now, &words);
    }

    fn link_index(&self, name: &str) -> Option<usize> {
        self.scenario.link.position(name)
    }

    fn switch_link(&mut self, name: &str, up: bool, silent: bool) {
        let Some(link) = self.link_index(name) else { return };
        let change = LinkChange { up: Some(up), ..LinkChange::default() };
        for direction in [2 * link, 2 * link + 1] {
            let changed = self.links[direction].link.change(self.now, &change);
            debug_assert!(changed.is_ok(), "up and down are always possible");
            self.reschedule(direction);
        }
        if silent {
            return;
        }
        // Whoever is attached to the link sees its carrier go and come.
        for host in 0..self.hosts.len() {
            let mut told = false;
            for path in 0..self.topology.hosts[host].paths.len() {
                if self.topology.hosts[host].paths[path].first as usize / 2 == link {
                    let id = PathId(path as u8);
                    self.hosts[host].endpoint.set_path_up(self.now, id, up);
                    told = true;
                }
            }
            if told {
                self.flush(host);
            }
        }
    }

    fn change_link(&mut self, name: &str, change: &Change) {
        let Some(link) = self.link_index(name) else { return };
        for (direction, way) in [(2 * link, LinkDirection::Up), (2 * link + 1, LinkDirection::Down)]
        {
            if change.direction.is_none_or(|only| only == way) {
                self.change_direction(direction, change);
            }
        }
        if let Some(mtu) = change.mtu {
            self.links[2 * link].mtu = u32::from(mtu);
            self.links[2 * link + 1].mtu = u32::from(mtu);
            self.update_mtus(link as u32);
        }
    }

    fn change_direction(&mut self, direction: usize, change: &Change) {
        let link_change = LinkChange::of(&mut self.links[direction].params, &change.params());
        let changed = self.links[direction].link.change(self.now, &link_change);
        debug_assert!(changed.is_ok(), "changes were checked with the scenario: {changed:?}");
        self.reschedule(direction);
    }

    /// Hosts learn at once what fits their paths (as by ICMP "packet too big").
    fn update_mtus(&mut self, link: u32) {
        for host in 0..self.hosts.len() {
            for path in 0..self.topology.hosts[host].paths.len() {
                let links = &self.topology.hosts[host].paths[path].links;
                if links.iter().any(|l| l / 2 == link) {
                    let mtu = links.iter().map(|l| self.mtu(*l as usize)).min();
                    let mtu = mtu.and_then(|m| u16::try_from(m).ok()).unwrap_or(u16::MAX);
                    let state = &mut self.hosts[host];
                    state.mtus[path] = mtu;
                    state.endpoint.set_path_mtu(self.now, PathId(path as u8), mtu);
                }
            }
            self.flush(host);
        }
    }

    /// The largest packet that goes into a direction of a link or tunnel.
    fn mtu(&self, direction: usize) -> u32 {
        let tunnel = || &self.tunnels[(direction - self.links.len()) / 2];
        self.links.get(direction).map_or_else(|| u32::from(tunnel().mtu), |link| link.mtu)
    }

    /// Changes a host's live connections; says what was refused.
    fn change_host(&mut self, name: &str, change: &Change) -> Option<String> {
        let host = self.topology.host(name)?;
        if self.now < self.asleep[host] {
            return Some("it is asleep".into());
        }
        if let Some(asleep) = change.asleep {
            self.asleep[host] = self.now + asleep.0;
        }
        let path = change
            .path
            .as_ref()
            .and_then(|path| self.topology.hosts[host].paths.iter().position(|p| p.name == *path));
        let mut refused = None;
        for n in 0..self.flows.len() {
            let flow = &self.flows[n];
            if change.flow.as_ref().is_some_and(|meant| !is_named(&flow.name, meant)) {
                continue;
            }
            let side = change.side.map(|side| match side {
                ProxySide::Listen => Side::Near,
                ProxySide::Connect => Side::Far,
            });
            for conn in flow.conns_at(host, side) {
                let on = path.map(|p| (PathId(p as u8), self.topology.address(host, p)));
                let endpoint = &mut self.hosts[host].endpoint;
                let done = change_connection(endpoint, self.now, conn, on, change);
                refused = refused.or(done.err());
            }
        }
        self.flush(host);
        refused
    }
}

/// Changes a live connection as `change` says, or the subflows that it has `on` a path (its id
/// and this host's address on it).
///
/// # Errors
/// In words, what the engine refused.
pub fn change_connection(
    endpoint: &mut Endpoint,
    now: Instant,
    conn: ConnId,
    on: Option<(PathId, IpAddr)>,
    change: &Change,
) -> Result<(), String> {
    let Some(connection) = endpoint.connection(conn) else { return Ok(()) };
    if change.abort {
        connection.abort(now);
        return Ok(());
    }
    let info = connection.info(now);
    let on_path = info.subflows.iter().filter(|s| {
        on.is_some_and(|(path, _)| s.path == path) && s.state != tabane_engine::tcp::State::Closed
    });
    let subflows: Vec<SubflowId> = on_path.map(|s| s.view.id).collect();
    let words = |error: &dyn std::fmt::Display| error.to_string();
    if let Some(choice) = &change.scheduler {
        let policy = Policy::Scheduler(choice.0.clone());
        connection.set_policy(now, policy).map_err(|e| words(&e))?;
    }
    if let Some(choice) = &change.egress {
        let policy = Policy::Egress(choice.0.clone());
        connection.set_policy(now, policy).map_err(|e| words(&e))?;
    }
    if let Some(choice) = &change.congestion {
        let which: Vec<_> = match on {
            Some(_) => subflows.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        for subflow in which {
            let policy = Policy::Congestion(subflow, choice.0.clone());
            connection.set_policy(now, policy).map_err(|e| words(&e))?;
        }
    }
    for id in &subflows {
        let done = match (change.backup, change.subflow) {
            (Some(backup), _) => connection.set_backup(now, *id, backup),
            (_, Some(SubflowChange::Remove)) => connection.close_subflow(now, *id),
            (_, Some(SubflowChange::Reset)) => connection.reset_subflow(now, *id),
            _ => Ok(()),
        };
        done.map_err(|e| words(&e))?;
    }
    if let (Some(SubflowChange::Add), Some((_, address))) = (change.subflow, on) {
        let local = SocketAddr::new(address, 0);
        let remote = info.subflows.first().map(|s| s.remote);
        let remote = remote.ok_or_else(|| "the connection has no subflow".to_owned())?;
        let backup = change.backup.unwrap_or(false);
        connection.add_subflow(now, local, remote, backup).map_err(|e| words(&e))?;
    }
    Ok(())
}
