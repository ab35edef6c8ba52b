//! `minrtt`, the scheduler `default` of Linux MPTCP v0.9x (`get_available_subflow` in
//! `mptcp_sched.c`): smallest smoothed RTT among the subflows with space, active ones before
//! backups; with its opportunistic retransmission and penalisation. The rule itself is in
//! `common.rs`, as most others start from it.

use super::common::{Choice, Opportunistic};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{PolicyError, Values};
use crate::view::{SubflowSet, SubflowView};

#[derive(Default)]
pub(super) struct MinRtt {
    reason: Reason,
    opportunistic: Opportunistic,
}

impl MinRtt {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::<Self>::default())
    }
}

impl Scheduler for MinRtt {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        choice.view.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id))
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        self.opportunistic.answer(blocked, subflows)
    }

    fn places_runs(&self) -> bool {
        true
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
