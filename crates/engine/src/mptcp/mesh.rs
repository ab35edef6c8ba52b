//! Opening the subflows that there should be (RFC 8684 section 3.4 leaves this to us). The mesh is
//! from every path of ours to every address of the peer that the path manager (`paths.rs`) names.

use super::paths::{Pair, may_be_joined};
use super::session::Request;
use super::timers::Timer;
use super::{Connection, Mtus, SubflowError};
use crate::event::Event;
use crate::record::{CloseReason, ReinjectReason, SubflowChange, What};
use crate::time::Instant;
use crate::view::{PathId, SubflowId};
use std::net::SocketAddr;

impl Connection {
    /// Reserves a slot and asks the endpoint to open the subflow.
    pub(super) fn request_subflow(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        backup: bool,
    ) -> Result<SubflowId, SubflowError> {
        self.check_fully()?;
        if self.is_stream_over() {
            return Err(SubflowError::NotEstablished);
        }
        if !may_be_joined(remote) {
            return Err(SubflowError::Address);
        }
        let path = self.config.path_of(local.ip()).ok_or(SubflowError::NoPath)?;
        if self.has_all_subflows() {
            return Err(SubflowError::Limit);
        }
        let id = self.reserve_slot();
        self.requests.push(Request { id, local, remote, path, backup });
        Ok(id)
    }

    /// Requests for the endpoint.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.requests.pop()
    }

    /// The endpoint could not open it.
    pub(crate) fn request_failed(&mut self, request: &Request) {
        self.slots.remove(request.id);
        self.events.push_back(Event::SubflowClosed(request.id, CloseReason::Aborted));
    }

    /// No subflow may join any more: what was requested is not opened. Without MPTCP its SYN would
    /// open a TCP connection of its own.
    pub(super) fn refuse_requests(&mut self) {
        for request in std::mem::take(&mut self.requests) {
            self.request_failed(&request);
        }
    }

    /// Requests what the mesh lacks: one subflow for each pair of addresses before a second for
    /// any, so that the limit never leaves a path without.
    pub(super) fn plan_mesh(&mut self) {
        if self.check_fully().is_err() || self.is_stream_over() {
            return;
        }
        let (pairs, next) = self.pairs();
        self.hasten(Timer::Mesh, next);
        for wanted in 1..=usize::from(self.config.mptcp.subflows_per_path) {
            for &(local, remote, backup) in &pairs {
                if self.subflows_between(local, remote) < wanted
                    && self.request_subflow(local, remote, backup).is_err()
                {
                    return;
                }
            }
        }
    }

    /// Addresses between which there should be subflows now, and whether as backup; when others
    /// may be tried again.
    fn pairs(&self) -> (Vec<(SocketAddr, SocketAddr, bool)>, Instant) {
        let config = &self.config;
        let remotes = |s: &super::Session| s.paths.remotes(&config.mptcp, self.role);
        let remotes = self.protocol.session().map(remotes).unwrap_or_default();
        let (mut pairs, mut next) = (Vec::new(), Instant::FAR_FUTURE);
        for remote in remotes {
            for path in config.paths.iter().filter(|p| !self.paths_down.contains(p.id)) {
                let same = |a: &&std::net::IpAddr| a.is_ipv4() == remote.is_ipv4();
                let Some(local) = path.addresses.iter().find(same) else { continue };
                let local = SocketAddr::new(*local, 0);
                let retry = self.retry_at(local, remote);
                if retry > self.now {
                    next = next.min(retry);
                } else {
                    pairs.push((local, remote, path.backup));
                }
            }
        }
        (pairs, next)
    }

    /// How many there are between two addresses, those that were only asked for included.
    fn subflows_between(&self, local: SocketAddr, remote: SocketAddr) -> usize {
        let live = self.subflows.iter().filter(|s| {
            let setup = s.tcb.setup();
            !s.closing && setup.local.ip() == local.ip() && setup.remote == remote
        });
        let asked =
            self.requests.iter().filter(|r| r.local.ip() == local.ip() && r.remote == remote);
        live.count() + asked.count()
    }

    fn retry_at(&self, local: SocketAddr, remote: SocketAddr) -> Instant {
        let between = Pair { local: local.ip(), remote };
        self.protocol.session().map_or(Instant::ZERO, |s| s.paths.retry_at(between))
    }

    /// A subflow has closed: another may be opened later.
    pub(super) fn mesh_failed(&mut self, at: usize, reason: CloseReason) {
        let between = self.subflows[at].between();
        let was_forgotten = self.subflows[at].tcb.was_forgotten();
        let Some(session) = self.protocol.session_mut() else { return };
        let next = if was_forgotten {
            session.paths.forgotten(self.now, between)
        } else {
            session.paths.failed(self.now, between, reason)
        };
        session.timers.hasten(Timer::Mesh, next);
    }

    /// The application or the peer does not want a subflow between these addresses: the mesh does
    /// not open it again.
    pub(super) fn forbid_mesh(&mut self, at: usize) {
        let between = self.subflows[at].between();
        if let Some(session) = self.protocol.session_mut() {
            session.paths.forbid(between);
        }
    }

    /// The driver knows a path to be down or up again.
    pub(crate) fn set_path_up(&mut self, now: Instant, path: PathId, up: bool) {
        self.now = now;
        if up {
            self.paths_down.remove(path);
        } else {
            self.paths_down.insert(path);
        }
        for at in 0..self.subflows.len() {
            if self.subflows[at].path != path {
                continue;
            }
            if self.subflows[at].tcb.is_path_down() != up {
                if up {
                    // It may have been down without anybody knowing.
                    self.subflows[at].tcb.retry_if_silent(now);
                    self.pending.insert(self.subflows[at].id);
                }
                continue;
            }
            self.subflows[at].tcb.set_path_down(!up);
            if up {
                self.subflows[at].tcb.retry(now);
                // It may have a question for the peer.
                self.pending.insert(self.subflows[at].id);
            }
            self.outdated.insert(self.subflows[at].id);
            if !up && self.is_mptcp() && self.subflows.len() > 1 {
                self.reinject(at, ReinjectReason::Stale);
                let id = self.subflows[at].id;
                self.note(Some(id), || What::Subflow(SubflowChange::Stale(true)));
            }
        }
        if up {
            self.retry_path(path);
        }
    }

    /// What failed on a path while it was down may be tried again.
    fn retry_path(&mut self, path: PathId) {
        let config = self.config.clone();
        let addresses = config.path(path).map_or(&[][..], |p| &p.addresses);
        if let Some(session) = self.protocol.session_mut() {
            session.paths.forgive(addresses);
        }
        self.plan_mesh();
    }

    /// MTUs as the driver knows them.
    pub(crate) fn learn_mtus(&mut self, mtus: &Mtus) {
        self.mtus = Some(Mtus::clone(mtus));
    }

    /// The driver knows the MTU of a path.
    pub(crate) fn set_path_mtu(&mut self, now: Instant, path: PathId, mtu: u16, all: &Mtus) {
        self.now = now;
        self.learn_mtus(all);
        for subflow in self.subflows.iter_mut().filter(|s| s.path == path) {
            subflow.tcb.set_mtu(mtu);
            self.outdated.insert(subflow.id);
        }
    }
}
