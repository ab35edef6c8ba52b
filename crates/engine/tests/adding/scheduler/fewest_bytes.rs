//! `fewestbytes`: the subflow with the least in flight. Ours; no paper.

use super::{Reason, Scheduler, Work};
use crate::policy::{PolicyError, Values};
use crate::view::{SubflowSet, SubflowView};

/// The scheduler `fewestbytes`.
#[derive(Default)]
pub(super) struct FewestBytes {
    reason: Reason,
}

impl FewestBytes {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self::default()))
    }
}

impl Scheduler for FewestBytes {
    fn select(&mut self, _work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let with_space = subflows.iter().filter(|v| v.usable && v.sendable > 0);
        let least = with_space.clone().min_by_key(|v| v.in_flight);
        self.reason = match with_space.count() {
            0 => Reason::NoSpace,
            1 => Reason::OnlyChoice,
            _ => Reason::ShortestQueue,
        };
        least.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id))
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
