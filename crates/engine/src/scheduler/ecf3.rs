//! `ecf3`, ECF for three subflows as published (Algorithm 1 of the paper that docs/papers.md calls
//! `ecf3`): subflows sorted by RTT, the backlog weighed against the fastest alone, no variation, no
//! hysteresis.
//!
//! The published rule has no more than three subflows; further ones are treated as the third.
//! Backups, potentially failed subflows and those that have carried the data are left out as by the
//! default choice, and a subflow is not waited for if it has nothing in flight that could free it.

use super::common::{BACKLOG, Backlog, Choice, Opportunistic, drain_time, is_awaitable};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Duration;
use crate::view::{SubflowId, SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[BACKLOG];

#[derive(Default)]
pub(super) struct Ecf3 {
    backlog: Backlog,
    reason: Reason,
    opportunistic: Opportunistic,
}

impl Ecf3 {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self { backlog: Backlog::of(values), ..Self::default() }))
    }

    /// Algorithm 1 with a backlog of `k` bytes. The fastest is full, `others` are sorted by RTT.
    fn decide<'v>(
        &mut self,
        k: u64,
        fastest: &SubflowView,
        mut others: impl Iterator<Item = &'v SubflowView>,
    ) -> Option<SubflowId> {
        let finish = fastest.srtt + drain_time(k, fastest);
        let wait = |than: Duration| {
            let gain = than.saturating_sub(finish);
            Reason::WaitingIsFaster { for_subflow: fastest.id, gain }
        };
        let second = others.next()?;
        if finish < second.srtt {
            self.reason = wait(second.srtt);
            return None;
        }
        if second.sendable > 0 {
            return Some(second.id);
        }
        let third = others.find(|v| v.sendable > 0)?;
        if third.srtt < finish {
            return Some(third.id);
        }
        self.reason = wait(third.srtt);
        None
    }
}

impl Scheduler for Ecf3 {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let Some(default) = choice.view else { return SubflowSet::NONE };
        let peers = || choice.peers(subflows).filter(|v| v.sendable > 0 || is_awaitable(v));
        let Some(fastest) = peers().min_by_key(|v| v.srtt).filter(|v| v.sendable == 0) else {
            return SubflowSet::only(default.id);
        };
        let chosen = self.decide(self.backlog.see(work), fastest, by_rtt(peers()).skip(1));
        chosen.map_or(SubflowSet::NONE, SubflowSet::only)
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

/// Sorted by smoothed RTT, equals in list order, without memory: there are few.
pub(super) fn by_rtt<'v>(
    views: impl Iterator<Item = &'v SubflowView> + Clone,
) -> impl Iterator<Item = &'v SubflowView> {
    let mut last = None;
    std::iter::from_fn(move || {
        let keyed = views.clone().enumerate().map(|(at, view)| ((view.srtt, at), view));
        let next = keyed.filter(|(key, _)| last.is_none_or(|l| *key > l)).min_by_key(|n| n.0)?;
        last = Some(next.0);
        Some(next.1)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;

    /// cwnd 10 each, RTT 20/50/90, the fastest full (computed by hand from
    /// Algorithm 1).
    fn decide(k: u64, second_free: bool, third_free: bool) -> SubflowSet {
        let sendable = |free| if free { 1448 } else { 0 };
        let views = [
            SubflowView { sendable: sendable(third_free), ..view(0, 90) },
            SubflowView { sendable: 0, ..view(1, 20) },
            SubflowView { sendable: sendable(second_free), ..view(2, 50) },
        ];
        Ecf3::default().select(&Work { unsent: k * 1448, ..work() }, &views)
    }

    #[test]
    fn vectors() {
        assert_eq!(decide(10, true, true), ids(&[]), "40 < 50");
        assert_eq!(decide(40, true, true), ids(&[2]));
        assert_eq!(decide(40, false, true), ids(&[0]), "90 < 100");
        assert_eq!(decide(30, false, true), ids(&[]), "80 is not < 50, but 90 < 80 is false");
    }

    #[test]
    fn the_fastest_takes_what_it_can() {
        let views = [view(0, 90), view(1, 20), view(2, 50)];
        assert_eq!(Ecf3::default().select(&work(), &views), ids(&[1]));
        let two = [view(0, 90), SubflowView { sendable: 0, ..view(1, 20) }];
        assert_eq!(Ecf3::default().select(&work(), &two), ids(&[0]), "a large backlog");
    }

    #[test]
    fn sorting_is_stable() {
        let views = [view(0, 20), view(1, 10), view(2, 20), view(3, 10)];
        let order: Vec<u8> = by_rtt(views.iter()).map(|v| v.id.0).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
