//! Timed changes: done to links, paths and live connections.

use super::{Action, World};
use crate::link::LinkChange;
use crate::models;
use crate::relay::Side;
use crate::scenario::{Change, ProxySide, SubflowChange, Way};
use std::fmt::Write as _;
use std::net::SocketAddr;
use tabane_engine::ConnId;
use tabane_engine::mptcp::Policy;
use tabane_engine::view::{PathId, SubflowId};

impl World<'_> {
    /// Does the `n`-th change of the scenario, and plans its next time.
    pub(super) fn change(&mut self, n: usize) {
        let change = self.scenario.at[n].clone();
        if let Some(every) = change.every {
            self.plan(self.now + every.0, Action::Change(n as u32));
        }
        let mut words = String::new();
        if let Some(name) = change.down.as_ref().or(change.up.as_ref()) {
            let up = change.up.is_some();
            let _ = write!(words, "{name} {}", if up { "up" } else { "down" });
            self.switch_link(name, up, change.silent);
        } else if let Some(name) = &change.link {
            let _ = write!(words, "{name} {}", describe(&change));
            self.change_link(name, &change);
        } else if let Some(name) = &change.host {
            let _ = write!(words, "{name} {}", describe(&change));
            if let Some(refused) = self.change_host(name, &change) {
                let _ = write!(words, " (refused: {refused})");
            }
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
                self.settle(host);
            }
        }
    }

    fn change_link(&mut self, name: &str, change: &Change) {
        let Some(link) = self.link_index(name) else { return };
        for (direction, way) in [(2 * link, Way::Up), (2 * link + 1, Way::Down)] {
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
        let spec = &mut self.links[direction].spec;
        let mut link_change = LinkChange::default();
        if change.rate.is_some() {
            (spec.rate, spec.trace) = (change.rate, None);
            link_change.rate = models::config(spec).ok().map(|config| config.rate);
        }
        if change.delay.is_some() || change.jitter.is_some() {
            spec.delay = change.delay.or(spec.delay);
            spec.jitter = change.jitter.or(spec.jitter);
            link_change.delay = Some(models::delay(spec));
        }
        link_change.queue = change.queue.as_ref().map(|queue| queue.0.clone());
        link_change.loss = change.loss.as_ref().map(|loss| loss.0.clone());
        if change.reorder.is_some() || change.duplicate.is_some() || change.corrupt.is_some() {
            spec.reorder = change.reorder.or(spec.reorder);
            spec.duplicate = change.duplicate.or(spec.duplicate);
            spec.corrupt = change.corrupt.or(spec.corrupt);
            link_change.faults = Some(models::faults(spec));
        }
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
                    let mtu = links.iter().map(|l| self.links[*l as usize].mtu).min();
                    let mtu = mtu.and_then(|m| u16::try_from(m).ok()).unwrap_or(u16::MAX);
                    self.hosts[host].endpoint.set_path_mtu(self.now, PathId(path as u8), mtu);
                }
            }
            self.settle(host);
        }
    }

    /// Changes a host's live connections; says what was refused.
    fn change_host(&mut self, name: &str, change: &Change) -> Option<String> {
        let host = self.topology.host(name)?;
        let path = change
            .path
            .as_ref()
            .and_then(|path| self.topology.hosts[host].paths.iter().position(|p| p.name == *path));
        let mut refused = None;
        for n in 0..self.flows.len() {
            let flow = &self.flows[n];
            let base = flow.name.split_once('.').map_or(flow.name.as_str(), |(base, _)| base);
            if change.flow.as_ref().is_some_and(|f| *f != flow.name && f != base) {
                continue;
            }
            let side = change.side.map(|side| match side {
                ProxySide::Listen => Side::Near,
                ProxySide::Connect => Side::Far,
            });
            for conn in flow.conns_at(host, side) {
                let done = self.change_connection(host, conn, path, change);
                refused = refused.or(done.err());
            }
        }
        self.settle(host);
        refused
    }

    fn change_connection(
        &mut self,
        host: usize,
        conn: ConnId,
        path: Option<usize>,
        change: &Change,
    ) -> Result<(), String> {
        let now = self.now;
        let Some(connection) = self.hosts[host].endpoint.connection(conn) else { return Ok(()) };
        if change.abort {
            connection.abort(now);
            return Ok(());
        }
        let info = connection.info(now);
        let on_path = info.subflows.iter().filter(|s| {
            path.is_some_and(|path| usize::from(s.path.0) == path)
                && s.state != tabane_engine::tcp::State::Closed
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
            let which: Vec<_> = match path {
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
        if let (Some(SubflowChange::Add), Some(path)) = (change.subflow, path) {
            let local = SocketAddr::new(self.topology.address(host, path), 0);
            let remote = info.subflows.first().map(|s| s.remote);
            let remote = remote.ok_or_else(|| "the connection has no subflow".to_owned())?;
            let backup = change.backup.unwrap_or(false);
            connection.add_subflow(now, local, remote, backup).map_err(|e| words(&e))?;
        }
        Ok(())
    }
}

/// A change's values as the scenario writes them.
fn describe(change: &Change) -> String {
    let text = toml::to_string(change).unwrap_or_default();
    let lines = text.lines().filter(|line| {
        let key = line.split(' ').next().unwrap_or_default();
        !matches!(key, "time" | "every" | "link" | "host")
    });
    lines.collect::<Vec<_>>().join(", ")
}
