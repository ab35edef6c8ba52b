//! Changes of policy on a live connection, and snapshots of it.

use super::route::EgressState;
use super::{Connection, Info, Policy, SubflowInfo};
use crate::config::Profile;
use crate::congestion::{self, Start};
use crate::policy::PolicyError;
use crate::time::Instant;
use crate::{egress, scheduler};

impl Policy {
    /// Whether there is such a policy, with such parameters: a connection that takes it, now or
    /// later, takes it without an error.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn check(&self) -> Result<(), PolicyError> {
        match self {
            Self::Scheduler(spec) => scheduler::build(spec).map(drop),
            Self::Egress(spec) => egress::build(spec).map(drop),
            Self::Congestion(_, spec) => {
                let start = Start { mss: 1, cwnd: 1, ssthresh: u64::MAX };
                congestion::build(spec, start).map(drop)
            }
        }
    }
}

impl Connection {
    pub(super) fn steer_policy(&mut self, policy: Policy) -> Result<(), PolicyError> {
        // Also where it would be built later: no subflow may be there now.
        policy.check()?;
        match policy {
            Policy::Scheduler(spec) => {
                self.scheduling.change(&spec)?;
                self.steered.get_or_insert_default()[0] = Some(spec);
                let session = self.protocol.session();
                let spans = session.is_some_and(|session| self.spans(&session.agreed));
                for subflow in &mut self.subflows {
                    subflow.tcb.set_spans(spans);
                    self.outdated.insert(subflow.id);
                }
            }
            Policy::Egress(spec) => {
                self.egress = EgressState::build(&spec)?;
                self.steered.get_or_insert_default()[1] = Some(spec);
            }
            Policy::Congestion(which, spec) => {
                for at in 0..self.subflows.len() {
                    if which.is_none_or(|id| self.subflows[at].id == id) {
                        self.subflows[at].tcb.set_congestion(self.now, &spec)?;
                        self.outdated.insert(self.subflows[at].id);
                        self.drain_log(at);
                    }
                }
                if which.is_none() {
                    self.congestion = Some(spec);
                }
            }
        }
        Ok(())
    }

    /// Congestion control of subflows to come.
    pub(crate) fn congestion(&self) -> &crate::policy::Spec {
        self.congestion.as_ref().unwrap_or(&self.config.tcp.congestion)
    }

    /// The settings of this connection, to open another with the same.
    pub(crate) fn profile(&self) -> Profile {
        Profile { config: self.config.clone(), tcp: self.tcp.clone() }
    }

    pub(super) fn snapshot(&self, now: Instant) -> Info {
        let agreed = self.protocol.session().map(|s| &s.agreed);
        let (sent, received) = (self.send.counters(), self.receive.counters());
        let live = (0..self.subflows.len()).map(|at| self.subflow_info(at, now));
        let mut subflows: Vec<_> = self.closed_subflows.iter().cloned().chain(live).collect();
        subflows.sort_by_key(|subflow| subflow.number);
        Info {
            mptcp: agreed.is_some(),
            checksum: agreed.is_some_and(|a| a.checksum()),
            token: agreed.map_or(0, |a| a.own().token()),
            written: sent.written,
            acked: sent.acked,
            received: received.received,
            read: received.read,
            out_of_order: received.out_of_order,
            duplicate: received.duplicate,
            reinjected: sent.reinjected,
            receive_buffer: received.buffer,
            receive_window: received.window,
            send_window: agreed.map(|_| self.send.window()),
            outstanding: self.send.nxt() - self.send.una(),
            subflows,
        }
    }

    pub(super) fn subflow_info(&self, at: usize, now: Instant) -> SubflowInfo {
        let subflow = &self.subflows[at];
        let mut view = subflow.tcb.view(now);
        view.usable = subflow.usable();
        view.backup = subflow.backup || subflow.peer_backup;
        view.potentially_failed = subflow.potentially_failed();
        SubflowInfo {
            number: subflow.number,
            view,
            path: subflow.path,
            local: subflow.tcb.setup().local,
            remote: subflow.tcb.setup().remote,
            state: subflow.tcb.state(),
            rto: subflow.tcb.rto(),
            stats: *subflow.tcb.stats(),
            delivered: subflow.delivered,
        }
    }
}
