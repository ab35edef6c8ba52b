//! What a subflow with room does when there is no new data for it, because the peer's window or our
//! send buffer is full: the head, which blocks, goes again, if the scheduler says so
//! (`Scheduler::rescue`). What is merely late is raced (`race.rs`).

use super::Connection;
use super::assign::Piece;
use crate::record::ReinjectReason;
use crate::scheduler::Blocked;
use crate::view::SubflowView;

impl Connection {
    /// Data has been sent and not acknowledged, and a full window or send buffer keeps more from
    /// leaving although a subflow has room. Whether something goes again.
    pub(super) fn rescue(&mut self, window_full: bool) -> bool {
        let blocked = window_full || self.send.short_write;
        if !blocked || !self.config.mptcp.rescue || !self.outstanding() {
            return false;
        }
        let able = |v: &&SubflowView| v.usable && v.room > 0 && !v.suspect;
        let Some(fast) = self.views.iter().filter(able).min_by_key(|v| v.srtt).copied() else {
            return false;
        };
        self.free_head(&fast, window_full)
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
}
