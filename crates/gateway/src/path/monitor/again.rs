//! When a path that was left is used again.
//!
//! A path that answers what was asked before it was left has lost nothing: it held packets back,
//! as a mobile link does whose rate is 0 for a while. It is used again at once, and has not failed.

use super::super::reason::Reason;
use super::Monitor;
use crate::model::PathState;

impl Monitor {
    /// Whether this is the late answer to a probe of the time before the path was left. One in its
    /// usual time says nothing: a path that loses nearly all gives such, too.
    pub(super) fn has_held(&mut self, seq: u32) -> bool {
        let Some(before) = self.before.as_mut().filter(|_| self.state == PathState::Down) else {
            return false;
        };
        let usual = before.bound();
        before.answered(self.now, seq).is_some_and(|answered| answered.rtt > usual)
    }

    /// It had been left, and has lost nothing.
    pub(super) fn resume(&mut self) {
        if let Some(mut before) = self.before.take() {
            before.go_on(&self.history);
            self.history = before;
        }
        self.answered = self.now;
        self.damping.withdraw();
        self.rise();
    }

    /// Looks whether a path that is not used has proved itself.
    pub(super) fn consider(&mut self) {
        let needed = match self.state {
            PathState::Connecting => 1,
            PathState::Down if self.demand.alone => 1,
            PathState::Down => 2,
            PathState::Absent | PathState::Up => return,
        };
        if self.answers == 0 {
            return;
        }
        if self.now >= self.answered + self.together() {
            self.answers = 0;
            self.trial_end = None;
            self.reason = Reason::Silent(self.answered);
        } else if self.answers >= needed && self.session {
            let trial = self.damping.trial(self.now);
            let until = *self.trial_end.get_or_insert(self.now + trial);
            if self.demand.alone || self.now >= until {
                self.rise();
            } else {
                let failures = self.damping.count(self.now);
                self.reason = Reason::Trial { failures, until };
            }
        }
    }

    fn rise(&mut self) {
        self.before = None;
        self.state = PathState::Up;
        self.since = self.now;
        self.reason = Reason::Works;
        self.trial_end = None;
        self.heard = self.now;
        self.unheard = None;
        // Probes of the time when it was dead say nothing about loss.
        self.history.forgive();
        self.mtu.resume(self.now);
        // The far end sends nothing by it before it is told, and what goes from here is answered.
        (self.next_probe, self.last_probe) = (self.now, None);
    }
}
