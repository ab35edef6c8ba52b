//! What a subflow with room does when there is no new data for it, because the peer's window or our
//! send buffer is full, or all has been sent: data that others are late with goes again, if the
//! scheduler says so (`Scheduler::rescue`, `Scheduler::overtake`).

use super::Connection;
use super::assign::Piece;
use super::timers::Timer;
use crate::record::ReinjectReason;
use crate::scheduler::{Blocked, Late};
use crate::time::Duration;
use crate::view::{SubflowSet, SubflowView};

impl Connection {
    /// Data has been sent and not acknowledged, and nothing new may leave although a subflow has
    /// room. Whether something goes again.
    pub(super) fn rescue(&mut self, window_full: bool) -> bool {
        if !self.config.mptcp.rescue || !self.outstanding() {
            return false;
        }
        let able = |v: &&SubflowView| v.usable && v.room > 0 && !v.suspect;
        let Some(fast) = self.views.iter().filter(able).min_by_key(|v| v.srtt).copied() else {
            return false;
        };
        let blocking = window_full || self.send.short_write;
        if blocking && self.free_head(&fast, window_full) {
            return true;
        }
        if let Some(session) = &mut self.session {
            session.timers.stop(Timer::Late);
        }
        let active = self.views.iter().any(|v| v.usable && !v.suspect && !v.backup);
        for at in 0..self.views.len() {
            let view = self.views[at];
            if able(&&view) && !(view.backup && active) && self.overtake(&view) {
                return true;
            }
        }
        false
    }

    /// Opportunistic retransmission and penalisation: data at the head blocks. At most once per
    /// round trip of the subflow that has room.
    fn free_head(&mut self, fast: &SubflowView, window_full: bool) -> bool {
        let una = self.send.buffer.una();
        let Some(session) = &mut self.session else { return false };
        if self.now < session.rescued_at + fast.srtt {
            return false;
        }
        let carried = session.carried(una);
        let blocked = Blocked { now: self.now, dsn: una, carried, fast: fast.id, window_full };
        let answer = self.scheduler.rescue(&blocked, &self.views);
        if !answer.resend.is_empty() || !answer.penalise.is_empty() {
            session.rescued_at = self.now;
        }
        for id in answer.penalise.iter() {
            if let Some(at) = self.index(id) {
                self.subflows[at].tcb.penalise(self.now);
                self.outdated.insert(id);
                self.drain_log(at);
            }
        }
        let able = self.views.iter().filter(|v| v.usable && v.room > 0).map(|v| v.id).collect();
        let chosen = answer.resend.intersection(able);
        if chosen.is_empty() {
            return false;
        }
        let len = (self.send.nxt - una).min(fast.mss).min(fast.room);
        let again = Some(ReinjectReason::Opportunistic);
        self.bind(Piece { dsn: una, len, again, carried }, chosen);
        true
    }

    /// The oldest data that `fast` has not carried goes by it as well, if it overtakes the copy
    /// that is under way. A subflow's cursor never goes back, so that what it has carried is
    /// passed over once.
    fn overtake(&mut self, fast: &SubflowView) -> bool {
        let una = self.send.buffer.una();
        let Some(at) = self.index(fast.id) else { return false };
        let Some(session) = &self.session else { return false };
        let cursor = self.subflows[at].replica.max(una);
        let Some(sent) = session.not_carried(fast.id, cursor) else {
            self.subflows[at].replica = self.send.nxt;
            return false;
        };
        let dsn = sent.dsn.max(una);
        self.subflows[at].replica = dsn;
        let late = Late {
            now: self.now,
            dsn,
            carried: sent.carried,
            age: sent.age(self.now),
            fast: fast.id,
        };
        match self.scheduler.overtake(&late, &self.views) {
            Some(Duration::ZERO) => {}
            later => {
                if let (Some(after), Some(session)) = (later, &mut self.session) {
                    session.timers.hasten(Timer::Late, self.now + after);
                }
                return false;
            }
        }
        // Who carries what is known by piece: a part of one would count as all of it.
        let len = sent.dsn + u64::from(sent.len) - dsn;
        if len > fast.room {
            return false;
        }
        let again = Some(ReinjectReason::Opportunistic);
        self.bind(Piece { dsn, len, again, carried: sent.carried }, SubflowSet::only(fast.id));
        self.subflows[at].replica = dsn + len;
        true
    }
}
