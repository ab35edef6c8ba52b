//! Addresses: ids, ADD_ADDR with echo and HMAC, REMOVE_ADDR, MP_PRIO (RFC 8684 sections 3.3.8,
//! 3.4). How many addresses of a peer are kept is `Limits::addresses`; more are ignored.

use super::session::{Announced, PeerAddress};
use super::subflow::reset_reason;
use super::timers::Timer;
use super::{Connection, Mode, SubflowError};
use crate::event::Event;
use crate::record::{CloseReason, DropReason, SubflowChange, What};
use crate::time::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use tabane_wire::MptcpOption;
use tabane_wire::mptcp::AddAddr;

impl Connection {
    /// Id of an address of ours, given at first use.
    pub(super) fn local_id(&mut self, address: IpAddr) -> u8 {
        let Some(session) = &mut self.session else { return 0 };
        if let Some((_, id)) = session.local_ids.iter().find(|(a, _)| *a == address) {
            return *id;
        }
        let id = session.next_local_id;
        session.next_local_id = id.checked_add(1).unwrap_or(1);
        if session.local_ids.len() > 255 {
            session.local_ids.remove(1);
        }
        session.local_ids.push((address, id));
        id
    }

    /// Id of an address of the peer: what it announced, 0 for the first.
    pub(super) fn remote_id(&self, address: SocketAddr) -> u8 {
        let known = self.session.as_ref().map_or(&[][..], |s| &s.addresses);
        known.iter().find(|a| a.address == address).map_or(0, |a| a.id)
    }

    pub(super) fn announce_address(&mut self, address: SocketAddr) -> Result<u8, SubflowError> {
        self.check_fully()?;
        let id = self.local_id(address.ip());
        let Some(session) = &mut self.session else { return Err(SubflowError::NotMptcp) };
        session.announced.retain(|a| a.id != id);
        session.announced.push(Announced { id, address, tries: ANNOUNCE_TRIES, next: self.now });
        self.announce_again();
        Ok(id)
    }

    /// Announces our addresses on other paths than the first, if so configured.
    pub(super) fn announce_own_addresses(&mut self) {
        if !self.config.mptcp.announce {
            return;
        }
        let Some(session) = &self.session else { return };
        let first = session.first_local.ip();
        let config = self.config.clone();
        for address in config.paths.iter().flat_map(|p| &p.addresses).filter(|a| **a != first) {
            // Already announced or refused: nothing to be done about it.
            let _ = self.announce_address(SocketAddr::new(*address, 0));
        }
    }

    /// Sends every ADD_ADDR that has not been echoed in time.
    pub(super) fn announce_again(&mut self) {
        let Some(at) = self.best_for_signal() else {
            if let Some(session) = &mut self.session
                && !session.announced.is_empty()
            {
                session.timers.hasten(Timer::Announce, self.now + ANNOUNCE_INTERVAL);
            }
            return;
        };
        let rto = self.subflows[at].tcb.rto().max(ANNOUNCE_INTERVAL);
        let Some(session) = &mut self.session else { return };
        let Some(keys) = session.keys() else { return };
        // Without a port the first subflow's is meant; and with one, IPv6 and timestamps do not
        // fit into one header (RFC 8684 section 3.4.1).
        let usual = session.first_local.port();
        let mut next = Instant::FAR_FUTURE;
        for announced in &mut session.announced {
            if announced.next <= self.now && announced.tries > 0 {
                announced.tries -= 1;
                announced.next = self.now + rto;
                let (address_id, ip) = (announced.id, announced.address.ip());
                let port = Some(announced.address.port()).filter(|p| ![0, usual].contains(p));
                let hmac = Some(keys.add_addr(address_id, ip, port));
                let option = AddAddr { address_id, address: ip, port, hmac };
                self.subflows[at].signal(MptcpOption::AddAddr(option));
                self.pending.insert(self.subflows[at].id);
            }
            if announced.tries > 0 {
                next = next.min(announced.next);
            }
        }
        session.timers.hasten(Timer::Announce, next);
    }

    /// The subflow for options that belong to the connection.
    fn best_for_signal(&self) -> Option<usize> {
        let usable = |potentially_failed| {
            self.subflows
                .iter()
                .position(|s| s.usable() && s.potentially_failed() == potentially_failed)
        };
        usable(false).or_else(|| usable(true))
    }

    pub(super) fn withdraw_addresses(&mut self, ids: &[u8]) {
        if self.mode == Mode::Plain {
            // TCP has no addresses to withdraw.
            return;
        }
        let Some(session) = &mut self.session else { return };
        session.announced.retain(|a| !ids.contains(&a.id));
        if let Some(at) = self.best_for_signal()
            && !ids.is_empty()
        {
            self.subflows[at].signal(MptcpOption::RemoveAddr(ids.to_vec()));
            self.pending.insert(self.subflows[at].id);
        }
        let leaving: Vec<_> =
            self.subflows.iter().filter(|s| ids.contains(&s.local_id)).map(|s| s.id).collect();
        for id in leaving {
            if let Some(at) = self.index(id) {
                self.forbid_mesh(at);
                self.shut_subflow(at);
            }
        }
    }

    /// ADD_ADDR: an echo of ours, or an address of the peer.
    pub(super) fn on_add_addr(&mut self, at: usize, add: &AddAddr) {
        let Some(session) = &mut self.session else { return };
        let Some(hmac) = add.hmac else {
            session.announced.iter_mut().filter(|a| a.id == add.address_id).for_each(|a| {
                a.tries = 0;
            });
            return;
        };
        let Some(keys) = session.keys() else { return };
        if keys.swapped().add_addr(add.address_id, add.address, add.port) != hmac {
            return self.note_drop(at, DropReason::BadHmac);
        }
        let port = add.port.unwrap_or(session.first_remote.port());
        let address = SocketAddr::new(add.address, port);
        let known = session.addresses.iter().find(|a| a.id == add.address_id);
        if known.is_some_and(|k| k.address != address) {
            // An id keeps its address until it is removed.
            return self.note_drop(at, DropReason::BadMapping);
        }
        let new = known.is_none();
        if new && session.addresses.len() >= self.config.limits.addresses {
            return self.note_drop(at, DropReason::Limit("addresses"));
        }
        if new {
            session.addresses.push(PeerAddress { id: add.address_id, address });
        }
        self.subflows[at].signal(MptcpOption::AddAddr(AddAddr { hmac: None, ..*add }));
        self.pending.insert(self.subflows[at].id);
        if new {
            self.events.push_back(Event::AddressAnnounced { address_id: add.address_id, address });
        }
        // Announced again: what failed may be tried again.
        self.forgive(address);
        self.plan_mesh();
    }

    /// REMOVE_ADDR: subflows to these addresses are of no use.
    pub(super) fn on_remove_addr(&mut self, ids: &[u8]) {
        for address_id in ids.iter().copied() {
            let Some(session) = &mut self.session else { return };
            let before = session.addresses.len();
            session.addresses.retain(|a| a.id != address_id);
            let mut known = before != session.addresses.len();
            while let Some(at) = self.subflows.iter().position(|s| s.remote_id == address_id) {
                known = true;
                self.forbid_mesh(at);
                self.reset_at(at, reset_reason::UNSPECIFIED, CloseReason::Aborted);
            }
            if known {
                self.events.push_back(Event::AddressRemoved { address_id });
            }
        }
    }

    /// MP_PRIO: what the peer wants of what we send on this subflow.
    pub(super) fn on_prio(&mut self, at: usize, backup: bool) {
        self.subflows[at].peer_backup = backup;
        self.backup_changed(at);
    }

    pub(super) fn steer_backup(&mut self, at: usize, backup: bool) {
        self.subflows[at].backup = backup;
        if self.is_mptcp() && self.subflows[at].is_open() {
            self.subflows[at].signals.retain(|s| !matches!(s, MptcpOption::Prio { .. }));
            self.subflows[at].signal(MptcpOption::Prio { backup });
            self.pending.insert(self.subflows[at].id);
        }
        self.backup_changed(at);
    }

    fn backup_changed(&mut self, at: usize) {
        let subflow = &self.subflows[at];
        let (id, backup) = (subflow.id, subflow.backup || subflow.peer_backup);
        self.outdated.insert(id);
        self.note(Some(id), || What::Subflow(SubflowChange::Backup(backup)));
    }

    /// Whether subflows and addresses may be added.
    pub(super) fn check_fully(&self) -> Result<(), SubflowError> {
        match &self.session {
            None => Err(SubflowError::NotMptcp),
            Some(_) if self.mode == Mode::Plain => Err(SubflowError::NotMptcp),
            Some(session) if !session.fully || self.ended.is_some() => {
                Err(SubflowError::NotEstablished)
            }
            Some(_) => Ok(()),
        }
    }
}

/// Transmissions of an ADD_ADDR at most.
const ANNOUNCE_TRIES: u8 = 8;

/// Between them, at least.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(500);
