//! From what stands to what is wanted, and at the end to nothing.
//!
//! Make before break: at each moment there is at least what stood before or what is wanted. The
//! state file names both from before the first change until after the last.

use super::netlink::Netlink;
use super::plan::{self, Change, OnLink, Resolvers, Route};
use super::state::State;
use super::sysctl::Sysctl;
use super::{Host, HostConfig, HostError, Reconciled, Undone, lan, resolver, sysctl};
use crate::access::Prefix;
use getifaddrs::InterfaceFlags;
use std::io;
use std::net::IpAddr;

impl Host {
    /// Brings the host to what is wanted: checks first, then adds what is missing, then takes away
    /// what is no longer wanted. To be called again when the device has been made anew, when the
    /// host's addresses may have changed, and now and then: what somebody has taken away is put
    /// back. If it fails, what stood before stands.
    ///
    /// # Errors
    /// [`HostError`].
    pub(crate) fn reconcile(&mut self, config: &HostConfig) -> Result<Reconciled, HostError> {
        let first = self.made.is_none();
        let current = self.state.changes().to_vec();
        let mut netlink = open_netlink()?;
        let mut done = Reconciled::default();
        let wanted = self.wanted(config, &mut netlink, &mut done)?;
        if first {
            for table in [config.table].into_iter().chain(lan::table(config)) {
                check_table(&mut netlink, table, &[&current, &wanted])?;
            }
        }
        let both = current.iter().chain(wanted.iter().filter(|new| !current.contains(new)));
        self.state.write(both.cloned().collect())?;
        let mut added: Vec<&Change> = Vec::new();
        for change in &wanted {
            let known = current.contains(change);
            if let Change::Resolvers(list) = change
                && !first
            {
                done.rewrite(list, current.iter().any(|old| change.replaces(old)));
                continue;
            }
            match make(&mut netlink, change, first || !known) {
                Ok(new) if known => done.restored += usize::from(new && !first && !may_go(change)),
                Ok(true) => added.push(change),
                Ok(false) => {}
                // A link that is just going or coming; its network is looked at again soon.
                Err(_) if may_go(change) => {}
                Err(error) => {
                    // The first failure is what matters to whoever reads it.
                    for change in added.into_iter().rev() {
                        let _ = take_away(&mut netlink, change);
                    }
                    let _ = self.state.write(current);
                    return Err(error);
                }
            }
        }
        let obsolete = current.iter().filter(|old| !wanted.iter().any(|new| new.replaces(old)));
        let mut left = Vec::new();
        for change in obsolete.rev() {
            match take_away(&mut netlink, change) {
                Ok(note) => done.notes.extend(note),
                Err(error) => {
                    done.notes.push(error.to_string());
                    left.push(change.clone());
                }
            }
        }
        left.extend(wanted);
        self.state.write(left)?;
        self.made = Some(config.clone());
        Ok(done)
    }

    /// All that is wanted of the host.
    fn wanted(
        &self,
        config: &HostConfig,
        netlink: &mut Netlink,
        done: &mut Reconciled,
    ) -> Result<Vec<Change>, HostError> {
        let links = on_link();
        let interfaces = config.lan.as_ref().map_or(&[][..], |lan| &lan.interfaces);
        let behind = netlink.behind(interfaces).map_err(cannot_ask)?;
        let mut wanted = plan::routing(config, &links);
        wanted.extend(lan::changes(config, &links, &behind, self.state.changes()));
        let resolvers = match self.resolvers(config) {
            // The rest is not to suffer from it.
            Err(error) if self.made.is_some() => {
                done.names_lost = Some(error.to_string());
                self.state.resolvers().cloned()
            }
            planned => planned?,
        };
        wanted.extend(resolvers.map(Change::Resolvers));
        Ok(wanted)
    }

    /// What is wanted of the list of resolvers. What somebody has written there in the meantime is
    /// what there will be at the end.
    fn resolvers(&self, config: &HostConfig) -> Result<Option<Resolvers>, HostError> {
        Ok(match resolver::plan(config, self.state.resolvers())? {
            Some(Change::Resolvers(change)) => Some(change),
            _ => None,
        })
    }
}

impl Reconciled {
    /// Writes the list of resolvers unless it is as it should be; `again` if it has been before.
    fn rewrite(&mut self, list: &Resolvers, again: bool) {
        if self.names_lost.is_some() {
            return;
        }
        match resolver::make(list) {
            Ok(written) => self.names_restored = written && again,
            Err(error) => self.names_lost = Some(error.to_string()),
        }
    }
}

/// Undoes all that the state file lists, the last first. What fails remains listed.
pub(super) fn undo(state: &mut State) -> Result<Undone, HostError> {
    let mut undone = Undone::default();
    if state.changes().is_empty() {
        state.remove();
        return Ok(undone);
    }
    let mut netlink = open_netlink()?;
    let mut failure = None;
    for change in state.changes().iter().rev() {
        match take_away(&mut netlink, change) {
            Ok(note) => {
                undone.changes += 1;
                undone.notes.extend(note);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => {
            state.remove();
            Ok(undone)
        }
    }
}

fn open_netlink() -> Result<Netlink, HostError> {
    Netlink::open().map_err(cannot_ask)
}

fn cannot_ask(source: io::Error) -> HostError {
    HostError::Netlink { what: "ask the kernel about routes".into(), source }
}

/// That nobody else has routes in the table.
fn check_table(netlink: &mut Netlink, table: u32, ours: &[&Vec<Change>]) -> Result<(), HostError> {
    let is_ours = |place: &((IpAddr, u8), u32)| {
        ours.iter().copied().flatten().any(|change| match change {
            Change::Route(route) => route.place() == (place.0, table, place.1),
            _ => false,
        })
    };
    for v6 in [false, true] {
        let what = || format!("list the routes of table {table}");
        let places = netlink.places(table, v6);
        let places = places.map_err(|source| HostError::Netlink { what: what(), source })?;
        if !places.iter().all(is_ours) {
            return Err(HostError::TableInUse { table });
        }
    }
    Ok(())
}

/// Makes a change; whether it was not in force before. One that is not `fresh` has been made by
/// this client already.
fn make(netlink: &mut Netlink, change: &Change, fresh: bool) -> Result<bool, HostError> {
    let failed = |source| HostError::Netlink { what: format!("add {change}"), source };
    match change {
        Change::Rule(rule) => netlink.add_rule(rule).map_err(failed),
        // One that stands may lead into another device.
        Change::Route(route @ Route { device: Some(_), .. }) if fresh => {
            netlink.replace_route(route).map_err(failed)
        }
        Change::Route(route) => netlink.add_route(route).map_err(failed),
        Change::Sysctl(switch) => sysctl::make(switch).map_err(|e| cannot_set(switch, e)),
        Change::Resolvers(change) => resolver::make(change),
    }
}

/// Takes a change back; what was left as it is, for people.
fn take_away(netlink: &mut Netlink, change: &Change) -> Result<Option<String>, HostError> {
    let failed = |source| HostError::Netlink { what: format!("remove {change}"), source };
    match change {
        Change::Rule(rule) => netlink.remove_rule(rule).map_err(failed).map(|()| None),
        Change::Route(route) => netlink.remove_route(route).map_err(failed).map(|()| None),
        Change::Sysctl(switch) => sysctl::undo(switch).map_err(|e| cannot_set(switch, e)),
        Change::Resolvers(change) => resolver::undo(change),
    }
}

fn cannot_set(switch: &Sysctl, source: io::Error) -> HostError {
    HostError::Sysctl { name: switch.name.clone(), value: switch.after.clone(), source }
}

/// Whether it goes and comes with an address of the host, which is nobody's fault.
fn may_go(change: &Change) -> bool {
    matches!(change, Change::Route(Route { source: Some(_), .. }))
}

/// The networks that the host has an address in, of links that are switched on.
pub(crate) fn on_link() -> Vec<OnLink> {
    let all = getifaddrs::getifaddrs().into_iter().flatten();
    all.filter_map(|one| {
        let on = one.flags.contains(InterfaceFlags::UP);
        let source = one.address.ip_addr()?;
        let usable = on && !one.flags.contains(InterfaceFlags::LOOPBACK);
        let linked = matches!(source, IpAddr::V6(own) if own.is_unicast_link_local());
        let prefix = Prefix::around(source, one.address.netmask()?)?;
        (usable && !linked).then(|| OnLink { prefix, device: one.name.clone(), source })
    })
    .collect()
}
