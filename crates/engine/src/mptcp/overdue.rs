//! Reinjection of an overdue head: data that was to arrive by a slow subflow has not, and all that
//! faster ones deliver meanwhile waits for it at the receiver.
//!
//! Ours. The subflow that lost it learns of that after a round trip of its own, or by its timer; a
//! faster one knows earlier, because its DATA_ACKs do not advance. While the peer's window is small
//! it fills soon, and then the head is sent again (`opportunistic.rs`); with a window that never
//! limits, a program would wait for the slow subflow's repair: 1.5 s by a path of a second.

use super::Connection;
use super::opportunistic::is_able;
use crate::record::ReinjectReason;
use crate::scheduler::forecast;
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use crate::view::SubflowView;

/// The oldest data that is not acknowledged at data level, and when it is looked at.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Head {
    dsn: Dsn,
    look_at: Instant,
}

/// The head is looked at when it has not moved for so long, which programs begin to notice.
const STUCK: Duration = Duration::from_millis(50);
/// At most so much goes again at once.
const MOST: u64 = 64 << 10;

impl Connection {
    /// Sends the head again on the fastest subflow with space, and what else is overdue by the one
    /// that carries it. Whether something was bound.
    #[inline]
    pub(super) fn reinject_overdue(&mut self) -> bool {
        let (now, una) = (self.now, self.send.una());
        let Some(session) = self.protocol.session_mut() else { return false };
        if session.head.dsn != una {
            session.head = Head { dsn: una, look_at: now + STUCK };
            return false;
        }
        now >= session.head.look_at && self.send.outstanding() && self.reinject_head(una)
    }

    fn reinject_head(&mut self, una: Dsn) -> bool {
        if !self.config.mptcp.tail_reinjection {
            return false;
        }
        let now = self.now;
        let able = |v: &&SubflowView| is_able(v) && !v.backup && !v.srtt.is_zero();
        let fast = self.views.iter().filter(able).min_by_key(|v| v.srtt).copied();
        let (Some(fast), Some(session)) = (fast, self.protocol.session_mut()) else { return false };
        session.head.look_at = now + STUCK;
        let by = session.carried.by(una);
        if by.contains(fast.id) {
            return false;
        }
        let carriers = self.subflows.iter().filter(|s| by.contains(s.id));
        let Some(slow) = carriers.max_by_key(|s| s.tcb.srtt()) else { return false };
        let view = slow.tcb.view(now);
        let due = forecast::arrives_within(&view) + fast.srtt;
        let noticed = forecast::arrival(now, &fast, fast.mss) + forecast::NOTICED.0 as f64;
        let mut ahead = view.in_flight;
        let (mut queued, most) = (0, MOST.min(fast.sendable));
        let mut overdue = Vec::new();
        for data in slow.tcb.undelivered() {
            let (dsn, len) = (data.chunk.dsn, data.chunk.data.len() as u64);
            let rest = session.carried.not_by(fast.id, dsn, len).filter(|_| dsn + len > una);
            let sent_at = data.sent_at.unwrap_or(now);
            let left = forecast::arrives_in(now, sent_at, ahead, &view);
            ahead -= if data.lost { 0 } else { data.in_flight.min(ahead) };
            let late = data.lost || now >= sent_at + due || left > noticed;
            if let Some(rest) = rest.filter(|_| late) {
                overdue.push(rest);
            } else if dsn <= una && dsn + len > una {
                // Not yet.
                session.head.look_at = sent_at + due;
            }
        }
        // From the head on: these come newest first.
        for (dsn, len) in overdue.into_iter().rev() {
            if queued + len > most {
                break;
            }
            session.carried.reinjections().add(dsn, len, ReinjectReason::Opportunistic);
            queued += len;
        }
        queued > 0 && self.repeat_next().unwrap_or(false)
    }
}
