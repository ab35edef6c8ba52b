//! `stms`, after Shi et al. (STMS, USENIX ATC 2018): a slower subflow carries data from further
//! ahead in the stream, so that it arrives when the faster ones have sent what is before it. The
//! receiver then holds little out of order, and programs are not kept waiting by the slower
//! subflow.
//!
//! The authors keep the gap in packets and correct it by what the receiver reports of its queue.
//! Here it is what the faster subflows deliver, at a window a round trip each, until data that is
//! sent now by the slower one arrives; a smoothed RTT is late to see a queue, hence the forecast
//! that `necf` uses. Where that is beyond the end of what is written the faster subflows will be
//! through before: nothing is sent. That is ECF's rule, and what bounds the end of a transfer.

use super::common::{Choice, Opportunistic, is_awaitable};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work, forecast};
use crate::policy::{PolicyError, Values};
use crate::time::Duration;
use crate::view::{SubflowSet, SubflowView};

#[derive(Default)]
pub(super) struct Stms {
    gap: u64,
    reason: Reason,
    opportunistic: Opportunistic,
}

impl Stms {
    pub(super) fn build(_: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::<Self>::default())
    }
}

impl Scheduler for Stms {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        (self.gap, self.reason) = (0, choice.reason);
        let Some(slow) = choice.view else { return SubflowSet::NONE };
        let Some(fast) = choice.faster(subflows).filter(|_| !work.reinjection) else {
            return SubflowSet::only(slow.id);
        };
        let at = |v: &SubflowView| forecast::arrival(work.now, v, v.mss);
        let arrival = at(slow);
        let faster = choice.peers(subflows).filter(|v| v.id != slow.id && is_awaitable(v));
        let before = faster.map(|v| forecast::rate(v) * (arrival - at(v)).max(0.0)).sum::<f64>();
        // Whole segments, or what is left between would go as slivers.
        self.gap = before as u64 / slow.mss.max(1) * slow.mss;
        if self.gap + slow.mss > work.unsent {
            let gain = Duration((arrival - at(fast)).max(0.0) as u64);
            self.reason = Reason::WaitingIsFaster { for_subflow: fast.id, gain };
            return SubflowSet::NONE;
        }
        if self.gap + slow.mss > work.window_space {
            self.reason = Reason::WouldBlock { for_subflow: fast.id };
            return SubflowSet::NONE;
        }
        SubflowSet::only(slow.id)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn gap(&self) -> u64 {
        self.gap
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        self.opportunistic.answer(blocked, subflows)
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

    /// Windows of ten segments; the slower one, idle, delivers 40 ms later than the faster, which
    /// is full: 20 segments at one each 2 ms.
    fn select(segments: u64, window: u64) -> (SubflowSet, u64) {
        let fast = SubflowView { sendable: 0, in_flight: 14_480, ..view(0, 20) };
        let slow = SubflowView { in_flight: 0, ..view(1, 100) };
        let (unsent, window_space) = (segments * 1448, window * 1448);
        let mut stms = Stms::default();
        let chosen = stms.select(&Work { unsent, window_space, ..work() }, &[fast, slow]);
        (chosen, stms.gap())
    }

    #[test]
    fn the_slower_one_carries_what_will_be_next() {
        assert_eq!(select(100, 100), (ids(&[1]), 20 * 1448));
        assert_eq!(select(21, 100).0, ids(&[1]));
        assert_eq!(select(20, 100).0, ids(&[]), "the faster is through before");
        assert_eq!(select(100, 20).0, ids(&[]), "the window ends before");
        let free = [view(0, 20), view(1, 100)];
        let mut stms = Stms::default();
        assert_eq!((stms.select(&work(), &free), stms.gap()), (ids(&[0]), 0));
    }
}
