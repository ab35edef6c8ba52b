//! Opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012, section 4.2). When the
//! peer's window or our send buffer is full and a subflow has space, the first data that is not
//! acknowledged at data level, which blocks the rest, is sent again on that subflow if the
//! scheduler says so (`Scheduler::opportunistic_retransmission`). Data that is merely late is the
//! subject of `tail_reinjection.rs`.

use super::Connection;
use super::assign::DataRange;
use crate::record::ReinjectReason;
use crate::scheduler::Blocked;
use crate::view::{SubflowSet, SubflowView};

impl Connection {
    /// Asks the scheduler whether to send the first unacknowledged data again, if a full window or
    /// send buffer keeps new data from leaving although a subflow has space. Returns whether
    /// something was bound.
    pub(super) fn resend_blocked(&mut self, window_full: bool) -> bool {
        let blocked = window_full || self.send.was_short();
        if !blocked || !self.config.mptcp.opportunistic_retransmission || !self.send.outstanding() {
            return false;
        }
        let able = self.views.iter().filter(|v| is_able(v));
        let Some(fast) = able.min_by_key(|v| v.srtt).copied() else {
            return false;
        };
        self.resend_head(&fast, window_full)
    }

    /// Sends the head again and penalises, as the scheduler answers: at most once per round trip of
    /// `fast`, the subflow that has space.
    fn resend_head(&mut self, fast: &SubflowView, window_full: bool) -> bool {
        let una = self.send.una();
        if !self.scheduling.may_retransmit(self.now, fast.srtt) {
            return false;
        }
        let carried = self.protocol.session().map_or(SubflowSet::NONE, |s| s.carried.by(una));
        let blocked = Blocked { now: self.now, dsn: una, carried, fast: fast.id, window_full };
        let answer = self.scheduling.unblock(&blocked, &self.views);
        for id in answer.penalise.iter() {
            if let Some(at) = self.index(id) {
                self.subflows[at].tcb.penalise(self.now);
                self.outdated.insert(id);
                self.drain_log(at);
            }
        }
        let able = self.views.iter().filter(|v| v.usable && v.sendable > 0).map(|v| v.id).collect();
        let chosen = answer.resend.intersection(able);
        if chosen.is_empty() {
            return false;
        }
        let len = (self.send.nxt() - una).min(fast.mss).min(fast.sendable);
        let again = Some(ReinjectReason::Opportunistic);
        self.bind(DataRange { dsn: una, len, again, carried }, chosen);
        true
    }
}

/// Whether a subflow may carry data once more: it works, is not suspected, and has space.
pub(super) fn is_able(view: &SubflowView) -> bool {
    view.usable && !view.potentially_failed && view.sendable > 0
}
