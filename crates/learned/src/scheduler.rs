//! The scheduler: observes, asks the network, does what it says.

use crate::model::Running;
use crate::observation::{answer, first_able, observe, width};
use tabane_engine::scheduler::{Reason, Scheduler, Work};
use tabane_engine::view::{SubflowSet, SubflowView};

/// A connection's scheduler.
pub(crate) struct Learned {
    network: Running,
    seen: Vec<f32>,
    reason: Reason,
}

impl Learned {
    pub(crate) fn new(network: Running) -> Self {
        let seen = vec![0.0; width(network.subflows())];
        Self { network, seen, reason: Reason::default() }
    }
}

impl Scheduler for Learned {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let Some(first) = first_able(work, subflows) else {
            self.reason = Reason::NoSpace;
            return SubflowSet::NONE;
        };
        observe(work, subflows, &mut self.seen);
        // Weights are finite and observations from 0 to 1. Were an answer no number all the same,
        // data goes on rather than waiting for ever.
        let action = self.network.decide(&self.seen).unwrap_or(i64::from(first.id.0));
        let (chosen, reason) = answer(action, work, first, subflows);
        self.reason = reason;
        chosen
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
