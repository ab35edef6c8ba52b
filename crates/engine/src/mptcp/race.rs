//! The end of data is raced: when everything has been sent once and a subflow has room, what its
//! siblings have still under way goes again on it, as far as it delivers that sooner.
//!
//! Ours. Linux sends again only what blocks a window (`rescue`), so that the last segments of a
//! file or an answer wait for the slowest subflow's queue, or for its retransmission timer. The
//! cost is duplicates: at most what siblings have in flight, and only when nothing else is to be
//! sent. After DEMS (MobiCom 2017), which lets a fast path work from the end of a slow one's share.

use super::Connection;
use crate::record::ReinjectReason;
use crate::time::{Duration, Instant};
use crate::view::SubflowView;

impl Connection {
    /// Offers the fastest subflow with room what it would deliver sooner, at most once per round
    /// trip of it: the walk over what is under way is as long as a window. Whether something was
    /// bound.
    pub(super) fn race(&mut self) -> bool {
        if !self.config.mptcp.race || !self.outstanding() {
            return false;
        }
        let active = self.views.iter().any(|v| v.usable && !v.backup);
        let may = |v: &&SubflowView| {
            v.usable && !v.suspect && v.room > 0 && v.srtt.0 > 0 && !(v.backup && active)
        };
        let Some(fast) = self.views.iter().filter(may).min_by_key(|v| v.srtt).copied() else {
            return false;
        };
        let Some(at) = self.index(fast.id).filter(|at| self.now >= self.subflows[*at].race_at)
        else {
            return false;
        };
        self.subflows[at].race_at = self.now + fast.srtt;
        if !self.challenge(at, &fast) {
            return false;
        }
        self.next_reinjection().is_some_and(|piece| self.schedule(piece))
    }

    /// Queues what `fast` delivers sooner than the sibling that carries it. Each sibling is walked
    /// from its newest data, which would arrive last.
    fn challenge(&mut self, at: usize, fast: &SubflowView) -> bool {
        let una = self.send.buffer.una();
        let Some(session) = &mut self.session else { return false };
        let start = fast.min_rtt.max(drain(fast.in_flight, fast)) + fast.rttvar;
        let mut queued = 0;
        for (_, subflow) in self.subflows.iter().enumerate().filter(|(i, _)| *i != at) {
            let slow = subflow.tcb.view(self.now);
            let mut ahead = slow.in_flight;
            for (chunk, sent_at, lost) in subflow.tcb.pending() {
                let (dsn, len) = (chunk.dsn, chunk.data.len() as u64);
                let arrival = if lost {
                    self.now + slow.srtt
                } else {
                    arrival(self.now, sent_at, ahead, &slow)
                };
                ahead = ahead.saturating_sub(if lost { 0 } else { len });
                if dsn + len <= una || session.carried(dsn).contains(fast.id) {
                    continue;
                }
                if self.now + start + drain(queued + len, fast) < arrival {
                    session.reinjections.add(dsn, len, ReinjectReason::Opportunistic);
                    queued += len;
                }
            }
        }
        queued > 0
    }
}

/// When a sibling will know that what it sent at `sent_at` has arrived: after those `ahead` of it
/// (itself included), and not before a round trip; if that is overdue, a round trip from now.
fn arrival(now: Instant, sent_at: Instant, ahead: u64, slow: &SubflowView) -> Instant {
    let due = sent_at + slow.srtt;
    if now > due + slow.rttvar * 4 {
        return now + slow.srtt;
    }
    due.max(now + drain(ahead, slow))
}

/// Time in which `bytes` are acknowledged at cwnd a round trip.
fn drain(bytes: u64, view: &SubflowView) -> Duration {
    let nanos = u128::from(bytes) * u128::from(view.srtt.0) / u128::from(view.cwnd.max(1));
    Duration(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
}
