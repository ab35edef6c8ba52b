//! `sttf`, shortest transfer time first (Hurtig et al., ToN 2019): each packet goes to the subflow
//! on which it arrives first, full subflows included. It also has the code that `otias` shares.
//!
//! In the paper a packet is bound to a full subflow, waits there, and is taken back when the
//! forecast changes. Here data is bound late: the packets written and not yet sent are assigned in
//! thought, each to the earliest arrival, and a slower subflow gets data now if at least one packet
//! of the backlog would be its own. It then gets the first packet, not that one.

use super::common::{Choice, Opportunistic, is_awaitable};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{PolicyError, Values};
use crate::time::Duration;
use crate::view::{SubflowSet, SubflowView};

/// How the window of a full subflow goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Growth {
    /// STTF: doubling up to the threshold, then a segment a round; the last RTT sample counts.
    Foreseen,
    /// OTIAS: not at all; the smoothed RTT counts.
    None,
}

/// The scheduler `sttf`, and with [`Growth::None`] `otias`.
pub(super) struct Sttf {
    growth: Growth,
    reason: Reason,
    opportunistic: Opportunistic,
}

impl Sttf {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self::new(Growth::Foreseen)))
    }

    pub(super) fn new(growth: Growth) -> Self {
        Self { growth, reason: Reason::default(), opportunistic: Opportunistic::default() }
    }

    fn rtt(&self, view: &SubflowView) -> Duration {
        if self.growth == Growth::Foreseen { view.latest_rtt } else { view.srtt }
    }

    /// Bytes that arrive by `view` not later than after `time`, at most about `enough`.
    fn arrived(&self, view: &SubflowView, time: Duration, enough: u64) -> u64 {
        let rtt = self.rtt(view).0.max(1);
        if time.0 < rtt / 2 {
            return 0;
        }
        let mut bytes = view.sendable;
        let mut rounds = (time.0 - rtt / 2) / rtt;
        let mut cwnd = view.cwnd.max(1);
        if self.growth == Growth::None {
            return bytes.saturating_add(rounds.saturating_mul(cwnd));
        }
        while rounds > 0 && bytes < enough {
            bytes = bytes.saturating_add(cwnd);
            let doubled = cwnd <= view.ssthresh;
            cwnd = if doubled { cwnd.saturating_mul(2) } else { cwnd.saturating_add(view.mss) };
            rounds -= 1;
        }
        bytes
    }
}

impl Scheduler for Sttf {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        if choice.view.is_none() {
            return SubflowSet::NONE;
        }
        let free = choice.peers(subflows).filter(|v| v.sendable > 0);
        let Some(best) = free.min_by_key(|v| self.rtt(v)) else { return SubflowSet::NONE };
        let arrival = self.rtt(best) / 2;
        let mut left = work.unsent.max(work.len);
        let mut first: Option<&SubflowView> = None;
        for view in choice.peers(subflows).filter(|v| is_awaitable(v)) {
            let carried = self.arrived(view, arrival, left);
            left = left.saturating_sub(carried);
            if carried > 0 && first.is_none_or(|f| self.rtt(view) < self.rtt(f)) {
                first = Some(view);
            }
        }
        let (0, Some(first)) = (left, first) else {
            if first.is_some() {
                self.reason = Reason::SoonestArrival;
            }
            return SubflowSet::only(best.id);
        };
        let rtt = self.rtt(first);
        let gain = arrival.saturating_sub(rtt + rtt / 2);
        self.reason = Reason::WaitingIsFaster { for_subflow: first.id, gain };
        SubflowSet::NONE
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        // STTF's default: opportunistic retransmission, no penalisation.
        let answer = self.opportunistic.answer(blocked, subflows);
        OpportunisticRetransmission { penalise: SubflowSet::NONE, ..answer }
    }

    fn places_runs(&self) -> bool {
        true
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;

    fn select(growth: Growth, packets: u64, views: &[SubflowView]) -> SubflowSet {
        Sttf::new(growth).select(&Work { unsent: packets * 1448, ..work() }, views)
    }

    fn full(id: u8, srtt_ms: u64) -> SubflowView {
        SubflowView { sendable: 0, ..view(id, srtt_ms) }
    }

    #[test]
    fn a_slower_one_gets_what_would_arrive_first_there() {
        // Arrival by the slow one after 50 ms: the fast one carries a window after 30 ms (its
        // next round and half an RTT), another after 50 ms.
        let views = [full(0, 20), view(1, 100)];
        assert_eq!(select(Growth::None, 20, &views), ids(&[]));
        assert_eq!(select(Growth::None, 21, &views), ids(&[1]));
        // In slow start the second is twice the first.
        assert_eq!(select(Growth::Foreseen, 30, &views), ids(&[]));
        assert_eq!(select(Growth::Foreseen, 31, &views), ids(&[1]));
        // Beyond the threshold it is one more.
        let avoiding = [SubflowView { ssthresh: 8 * 1448, ..views[0] }, views[1]];
        assert_eq!(select(Growth::Foreseen, 21, &avoiding), ids(&[]));
        assert_eq!(select(Growth::Foreseen, 22, &avoiding), ids(&[1]));
    }

    #[test]
    fn less_than_three_times_the_rtt_is_used_at_once() {
        assert_eq!(select(Growth::Foreseen, 1, &[full(0, 20), view(1, 59)]), ids(&[1]));
        assert_eq!(select(Growth::Foreseen, 1, &[full(0, 20), view(1, 60)]), ids(&[]));
    }

    #[test]
    fn several_full_ones_share_the_backlog() {
        let views = [full(0, 20), full(2, 30), view(1, 100)];
        // 20 packets by the first, 10 by the second (after 45 ms).
        assert_eq!(select(Growth::None, 30, &views), ids(&[]));
        assert_eq!(select(Growth::None, 31, &views), ids(&[1]));
    }
}
