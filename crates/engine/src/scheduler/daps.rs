//! `daps`, delay-aware packet scheduling (Kuhn et al., ICC 2014): with D half of the smoothed RTT,
//! each subflow carries a window of data every D, and data is assigned in the order of these times.
//!
//! The published plan covers the least common multiple of all D and is then made again. Here it is
//! made step by step: the subflow whose time comes next is next, with its present window. The order
//! is the same, without the multiple, which is practically never reached with D in microseconds.
//! The paper also gives the slow subflow data from further ahead; here data is bound late, and each
//! subflow gets the next data. A subflow whose turn it is but which has no space is waited for.

use super::common::{Choice, Opportunistic, is_awaitable};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::view::{SubflowId, SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] =
    &[Param::switch("smooth", false, "1: windows smoothed with weight 1/8; 0: as they are")];

pub(super) struct Daps {
    smooth: bool,
    plan: Vec<Planned>,
    /// Time of the plan, nanoseconds.
    clock: u64,
    /// Whose turn it is, and the bytes left of it.
    turn: Option<(SubflowId, u64)>,
    reason: Reason,
    opportunistic: Opportunistic,
}

/// A subflow in the plan. At most 64.
struct Planned {
    id: SubflowId,
    /// When its turn comes, on the clock of the plan.
    next: u64,
    /// Smoothed window, bytes.
    cwnd: u64,
}

impl Daps {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        let smooth = values.is_on("smooth");
        let (reason, opportunistic) = (Reason::default(), Opportunistic::default());
        let plan = Vec::new();
        Ok(Box::new(Self { smooth, plan, clock: 0, turn: None, reason, opportunistic }))
    }

    /// The plan holds those that may carry data now, and no others.
    fn update<'v>(&mut self, peers: impl Iterator<Item = &'v SubflowView> + Clone) {
        self.plan.retain(|p| peers.clone().any(|v| v.id == p.id));
        if self.turn.is_some_and(|(id, _)| self.plan.iter().all(|p| p.id != id)) {
            self.turn = None;
        }
        for view in peers {
            if self.plan.iter().all(|p| p.id != view.id) {
                let next = self.clock + half(view);
                self.plan.push(Planned { id: view.id, next, cwnd: view.cwnd });
            }
        }
    }

    /// The subflow whose turn it is now.
    fn turn<'v>(
        &mut self,
        peers: impl Iterator<Item = &'v SubflowView> + Clone,
    ) -> Option<&'v SubflowView> {
        self.update(peers.clone());
        if let Some((id, left)) = self.turn
            && left > 0
        {
            return peers.clone().find(|v| v.id == id);
        }
        let next = self.plan.iter_mut().min_by_key(|p| p.next)?;
        let view = peers.clone().find(|v| v.id == next.id)?;
        self.clock = next.next;
        next.next = self.clock + half(view);
        next.cwnd = if self.smooth { (next.cwnd * 7 + view.cwnd) / 8 } else { view.cwnd };
        self.turn = Some((view.id, next.cwnd.max(view.mss)));
        Some(view)
    }
}

impl Scheduler for Daps {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let Some(default) = choice.view else { return SubflowSet::NONE };
        if work.reinjection {
            return SubflowSet::only(default.id);
        }
        let peers = choice.peers(subflows).filter(|v| v.sendable > 0 || is_awaitable(v));
        let Some(view) = self.turn(peers) else { return SubflowSet::only(default.id) };
        if view.sendable == 0 {
            self.reason = Reason::AwaitsTurn(view.id);
            return SubflowSet::NONE;
        }
        if self.plan.len() > 1 {
            self.reason = Reason::Turn;
        }
        if let Some((_, left)) = &mut self.turn {
            *left = left.saturating_sub(work.len.min(view.mss));
        }
        SubflowSet::only(view.id)
    }

    fn opportunistic_retransmission(
        &mut self,
        blocked: &Blocked,
        subflows: &[SubflowView],
    ) -> OpportunisticRetransmission {
        self.opportunistic.answer(blocked, subflows)
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// One-way delay, as estimated: half of the smoothed RTT.
fn half(view: &SubflowView) -> u64 {
    (view.srtt.0 / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{view, work};
    use super::*;

    fn turns(daps: &mut dyn Scheduler, views: &[SubflowView], n: usize) -> Vec<i32> {
        let pick = |_| daps.select(&work(), views).first().map_or(-1, |id| i32::from(id.0));
        (0..n).map(pick).collect()
    }

    #[test]
    fn windows_in_order_of_time() {
        let mut daps = Daps::build(&Values::defaults(PARAMS)).unwrap();
        // D of 10 and 30 ms, windows of two and three segments: at 10, 20, 30 and again.
        let views = [
            SubflowView { cwnd: 2 * 1448, ..view(0, 20) },
            SubflowView { cwnd: 3 * 1448, ..view(1, 60) },
        ];
        let round = [0, 0, 0, 0, 0, 0, 1, 1, 1];
        assert_eq!(turns(&mut *daps, &views, 18), [round, round].concat());
    }

    #[test]
    fn strict_but_not_for_what_nothing_frees() {
        let mut daps = Daps::build(&Values::defaults(PARAMS)).unwrap();
        let views = [view(0, 20), view(1, 25)];
        assert_eq!(turns(&mut *daps, &views, 1), [0]);
        let full = SubflowView { sendable: 0, ..views[0] };
        assert_eq!(turns(&mut *daps, &[full, views[1]], 2), [-1, -1]);
        assert_eq!(daps.reason(), Reason::AwaitsTurn(SubflowId(0)));
        let dead = SubflowView { in_flight: 0, ..full };
        assert_eq!(turns(&mut *daps, &[dead, views[1]], 2), [1, 1]);
    }
}
