//! `redundant`, as in Linux MPTCP since v0.90: every active subflow carries every byte, each with
//! a cursor of its own over what is not acknowledged at data level. A fast subflow runs ahead
//! with new data; a slow one sends the oldest first and skips what has been acknowledged.
//!
//! Backups carry data only when no active subflow is left, and then not as copies. The cursors
//! are the connection's (see [`Scheduler::replicas`]).

use super::common::{any_sound, available};
use super::min_rtt::MinRtt;
use super::{Reason, Scheduler, Work};
use crate::policy::{PolicyError, Values};
use crate::view::{SubflowSet, SubflowView};

#[derive(Default)]
pub(super) struct Redundant {
    /// Places reinjections, and everything while only backups are left.
    default: MinRtt,
    reason: Reason,
}

impl Redundant {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::<Self>::default())
    }
}

impl Scheduler for Redundant {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let chosen = self.default.select(work, subflows);
        self.reason = self.default.reason();
        chosen
    }

    fn replicas(&mut self, subflows: &[SubflowView]) -> SubflowSet {
        let sound = any_sound(subflows);
        let active = subflows.iter().filter(|v| !v.backup && available(v, sound));
        let replicas: SubflowSet = active.map(|v| v.id).collect();
        if replicas.len() > 1 {
            self.reason = Reason::Replicated;
        } else {
            self.reason = Reason::OnlyChoice;
        }
        replicas
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}
