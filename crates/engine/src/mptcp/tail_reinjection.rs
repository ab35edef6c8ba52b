//! Tail reinjection of late data: when nothing new may leave (all has been sent once, or the peer's
//! window is full) and a subflow has space, what its siblings have under way goes again on it, as
//! far as it delivers that sooner.
//!
//! Ours. Linux sends again only what blocks a window (`opportunistic.rs`), so that the last
//! segments of a file or an answer wait for the slowest subflow's queue, or for its retransmission
//! timer. What a path that loses much has under way goes again even if it may arrive sooner there:
//! the chance that it does not is what the slowest of many messages are made of. The cost is
//! duplicates: at most what siblings have in flight, and only when nothing else may be sent. After
//! DEMS (MobiCom 2017), which lets a fast path work from the end of a slow one's share.
//!
//! Once for each subflow that joins this comes before new data: what left when there was no choice
//! may wait for seconds in the first path's queue.

use super::Connection;
use super::opportunistic::is_able;
use super::timers::Timer;
use crate::record::ReinjectReason;
use crate::scheduler::forecast;
use crate::seq::Dsn;
use crate::time::{Duration, Instant};
use crate::view::{SubflowSet, SubflowView};

impl Connection {
    /// Offers each subflow with space what it would deliver sooner. A subflow that has nothing to
    /// win looks again after a round trip, or when something becomes overdue: the walk over what
    /// is under way is as long as a window. Whether something was bound.
    pub(super) fn reinject_tail(&mut self) -> bool {
        if !self.config.mptcp.tail_reinjection || !self.send.outstanding() {
            return false;
        }
        let active = self.views.iter().any(|v| v.usable && !v.potentially_failed && !v.backup);
        let mut again = Instant::FAR_FUTURE;
        let mut queued = false;
        for n in 0..self.views.len() {
            let fast = self.views[n];
            let able = is_able(&fast) && !fast.srtt.is_zero();
            let Some(at) = self.index(fast.id) else { continue };
            if !able || fast.backup && active {
                continue;
            }
            if self.now >= self.subflows[at].tail_reinjection_at {
                queued = self.queue_tail(at, &fast);
                if queued {
                    break;
                }
            }
            again = again.min(self.subflows[at].tail_reinjection_at);
        }
        if let Some(session) = self.protocol.session_mut() {
            session.timers.set(Timer::Late, if queued { Instant::FAR_FUTURE } else { again });
        }
        queued && self.repeat_next().unwrap_or(false)
    }

    /// A subflow has joined: what was bound when there was no choice, and it would deliver sooner,
    /// goes again on it before anything new. Whether something was bound.
    #[inline]
    pub(super) fn reinject_joined(&mut self) -> bool {
        let joined = self.protocol.session().map_or(SubflowSet::NONE, |s| s.joined);
        !joined.is_empty() && self.take_over(joined)
    }

    fn take_over(&mut self, joined: SubflowSet) -> bool {
        if !self.config.mptcp.tail_reinjection {
            return false;
        }
        for id in joined.iter() {
            let view = self.views.iter().find(|view| view.id == id).copied();
            if view.is_some_and(|v| !is_able(&v) || v.srtt.is_zero()) {
                continue;
            }
            if let Some(session) = self.protocol.session_mut() {
                session.joined.remove(id);
            }
            let (Some(fast), Some(at)) = (view, self.index(id)) else { continue };
            if !fast.backup && self.queue_tail(at, &fast) {
                return self.repeat_next().unwrap_or(false);
            }
        }
        false
    }

    /// Queues what `fast` delivers sooner than the sibling that carries it, and has space for. Each
    /// sibling is walked from its newest data, which would arrive last.
    fn queue_tail(&mut self, at: usize, fast: &SubflowView) -> bool {
        let now = self.now;
        let una = self.send.una();
        let Some(session) = self.protocol.session_mut() else { return false };
        let carried = &mut session.carried;
        let mut queued = 0;
        let mut again = now + fast.srtt;
        for (_, subflow) in self.subflows.iter().enumerate().filter(|(i, _)| *i != at) {
            let slow = subflow.tcb.view(now);
            let mut ahead = slow.in_flight;
            for data in subflow.tcb.undelivered() {
                let (dsn, len) = (data.chunk.dsn, data.chunk.data.len() as u64);
                let left = if data.lost {
                    slow.srtt.0 as f64
                } else {
                    let sent_at = data.sent_at.unwrap_or(now);
                    let (left, overdue) = forecast::remaining(now, sent_at, ahead, &slow);
                    again = overdue.map_or(again, |after| again.min(now + after));
                    ahead = ahead.saturating_sub(data.in_flight);
                    if slow.loss_rate > LOSSY { left + slow.srtt.0 as f64 } else { left }
                };
                let rest = carried.not_by(fast.id, dsn, len).filter(|_| dsn + len > una);
                let Some((dsn, len)) = rest else { continue };
                if forecast::round_trip(now, fast, queued + len) < left {
                    if queued + len > fast.sendable {
                        // More may be worth it as soon as there is space again.
                        again = now;
                        break;
                    }
                    carried.reinjections().add(dsn, len, ReinjectReason::Opportunistic);
                    queued += len;
                }
            }
        }
        self.subflows[at].tail_reinjection_at = again.max(soonest(now, fast.srtt));
        queued > 0
    }

    /// What was queued found no space after all, as pacing lets only a part of a window go at once:
    /// whoever has space next looks again.
    pub(super) fn forget_tail(&mut self, dsn: Dsn, len: u64) {
        let Some(session) = self.protocol.session_mut() else { return };
        session.carried.reinjections().taken(dsn, len);
        for subflow in &mut self.subflows {
            let soonest = soonest(self.now, subflow.tcb.srtt());
            subflow.tail_reinjection_at = subflow.tail_reinjection_at.min(soonest);
        }
    }
}

/// What a path that loses more than this share has under way is reckoned to arrive a round trip
/// later, as it does if it is lost: the copies cost nothing but bytes, as nothing else may be sent.
const LOSSY: f32 = 0.005;

/// When a subflow may look again: the walk over what is under way is as long as a window.
fn soonest(now: Instant, srtt: Duration) -> Instant {
    now + (srtt / 8).max(LEAST)
}

/// A subflow does not look again sooner, nor within an eighth of its round trip.
const LEAST: Duration = Duration::from_millis(1);
