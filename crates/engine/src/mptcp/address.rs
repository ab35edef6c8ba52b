//! Addresses: ids, ADD_ADDR with echo and HMAC, REMOVE_ADDR, MP_PRIO (RFC 8684 sections 3.3.8,
//! 3.4): what the path manager (`paths.rs`) says is due is sent, and what the peer says goes to it.

use super::paths::Learned;
use super::session::Protocol;
use super::subflow::reset_reason;
use super::timers::Timer;
use super::{Connection, SubflowError};
use crate::event::Event;
use crate::record::{CloseReason, SubflowChange, What};
use crate::time::Duration;
use std::net::SocketAddr;
use tabane_wire::MptcpOption;
use tabane_wire::mptcp::AddAddr;

impl Connection {
    pub(super) fn announce_address(&mut self, address: SocketAddr) -> Result<u8, SubflowError> {
        self.check_fully()?;
        let session = self.protocol.session_mut().ok_or(SubflowError::NotMptcp)?;
        let id = session.paths.announce(self.now, address);
        self.announce_again();
        Ok(id)
    }

    /// Announces our addresses on other paths than the first, if so configured.
    pub(super) fn announce_own_addresses(&mut self) {
        if !self.config.mptcp.announce {
            return;
        }
        let Some(first) = self.protocol.session().map(|s| s.paths.first_local()) else { return };
        let config = self.config.clone();
        for address in config.paths.iter().flat_map(|p| &p.addresses).filter(|a| **a != first) {
            // Already announced or refused: nothing to be done about it.
            let _ = self.announce_address(SocketAddr::new(*address, 0));
        }
    }

    /// Sends every ADD_ADDR that has not been echoed in time.
    pub(super) fn announce_again(&mut self) {
        let best = self.best_for_signal();
        let rto = best.map_or(Duration::ZERO, |at| self.subflows[at].tcb.rto());
        let interval = rto.max(ANNOUNCE_INTERVAL);
        let Some(session) = self.protocol.session_mut() else { return };
        let Some(at) = best else {
            if session.paths.announces() {
                session.timers.hasten(Timer::Announce, self.now + interval);
            }
            return;
        };
        let keys = session.agreed.keys();
        let (due, next) = session.paths.announcements(self.now, interval, keys);
        session.timers.hasten(Timer::Announce, next);
        for add in due {
            self.signal(at, MptcpOption::AddAddr(add));
        }
    }

    /// Queues an option for the next ACK of a subflow.
    fn signal(&mut self, at: usize, option: MptcpOption) {
        self.subflows[at].signal(option);
        self.pending.insert(self.subflows[at].id);
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
        match &mut self.protocol {
            Protocol::Tcp | Protocol::Fallback(_) => return,
            Protocol::Opening(_) => {}
            Protocol::Mptcp(session) => session.paths.withdraw(ids),
        }
        if let Some(at) = self.best_for_signal()
            && !ids.is_empty()
        {
            self.signal(at, MptcpOption::RemoveAddr(ids.to_vec()));
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
        let limit = self.config.limits.addresses;
        let Some(session) = self.protocol.session_mut() else { return };
        let Some(hmac) = add.hmac else { return session.paths.echoed(add.address_id) };
        let learned = match session.paths.learn(add, hmac, session.agreed.keys(), limit) {
            Ok(learned) => learned,
            Err(reason) => return self.note_drop(at, reason),
        };
        self.signal(at, MptcpOption::AddAddr(AddAddr { hmac: None, ..*add }));
        if let Learned::New(address) = learned {
            let address_id = add.address_id;
            self.events.push_back(Event::AddressAnnounced { address_id, address });
        }
        self.plan_mesh();
    }

    /// REMOVE_ADDR: subflows to these addresses are of no use.
    pub(super) fn on_remove_addr(&mut self, ids: &[u8]) {
        for address_id in ids.iter().copied() {
            let Some(session) = self.protocol.session_mut() else { return };
            let mut known = session.paths.forget(address_id);
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
            self.signal(at, MptcpOption::Prio { backup });
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
        match &self.protocol {
            Protocol::Tcp | Protocol::Fallback(_) => Err(SubflowError::NotMptcp),
            Protocol::Mptcp(session) if session.fully && self.ended.is_none() => Ok(()),
            Protocol::Opening(_) | Protocol::Mptcp(_) => Err(SubflowError::NotEstablished),
        }
    }
}

/// Between transmissions of an ADD_ADDR, at least.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(500);
