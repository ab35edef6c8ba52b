//! `burst`, the default of upstream Linux (`mptcp_subflow_get_send` in `net/mptcp/protocol.c`): the
//! subflow whose queue drains first at its average pacing rate gets up to 64 KiB in a row; no
//! opportunistic retransmission, no penalisation; backups only when no active subflow exists at
//! all.
//!
//! Upstream binds data early: it queues on a subflow up to the socket's send buffer, about two
//! windows, whether the congestion window has space or not. Here data is bound late: the backlog
//! counts as the queue of a full subflow, up to one window, and the data waits for that subflow if
//! its queue drains first even so. A burst ends when the subflow has no more space. Upstream gives
//! a reinjection only to an idle subflow; here an idle one is preferred.

use super::common::{Choice, is_awaitable};
use super::{Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Duration;
use crate::view::{SubflowId, SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] =
    &[Param::count("burst", 65_428.0, 1.0..=1e6, "bytes in a row on one subflow")];

pub(super) struct Burst {
    burst: u64,
    /// Who has the present burst, and what is left of it.
    current: Option<(SubflowId, u64)>,
    /// Average pacing rate by slot, bytes/s; 0 before the first burst. At most 64.
    rates: Vec<u64>,
    reason: Reason,
}

impl Burst {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self::new(values)))
    }

    fn new(values: &Values<'_>) -> Self {
        let burst = values.get("burst") as u64;
        Self { burst, current: None, rates: Vec::new(), reason: Reason::default() }
    }

    fn rate(&self, view: &SubflowView) -> u64 {
        let average = self.rates.get(usize::from(view.id.0)).copied().unwrap_or(0);
        if average == 0 { pacing_rate(view) } else { average }
    }

    /// Time until `view` has sent everything, `backlog` included if that must wait there.
    fn linger(&self, view: &SubflowView, backlog: u64) -> Duration {
        let waiting = if view.sendable == 0 { backlog.min(view.cwnd) } else { 0 };
        let nanos = u128::from(view.unacked + waiting) * 1_000_000_000;
        let nanos = nanos / u128::from(self.rate(view).max(1));
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A burst begins: the average takes the present rate in, by bytes.
    fn begin(&mut self, view: &SubflowView, window: u64) {
        let burst = self.burst.min(window).max(1);
        let (average, queued) = (u128::from(self.rate(view)), u128::from(view.unacked));
        let now = u128::from(pacing_rate(view));
        let sum = average * queued + now * u128::from(burst);
        let slot = usize::from(view.id.0);
        if self.rates.len() <= slot {
            self.rates.resize(slot + 1, 0);
        }
        self.rates[slot] = (sum / (queued + u128::from(burst))) as u64;
        self.current = Some((view.id, burst));
    }
}

impl Scheduler for Burst {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        if choice.view.is_none() {
            return SubflowSet::NONE;
        }
        // A slot that is used again starts afresh.
        for view in subflows.iter().filter(|v| v.srtt.is_zero()) {
            if let Some(rate) = self.rates.get_mut(usize::from(view.id.0)) {
                *rate = 0;
            }
        }
        let peers = || choice.peers(subflows).filter(|v| v.sendable > 0 || is_awaitable(v));
        if work.reinjection {
            let free = peers().filter(|v| v.sendable > 0);
            let best = free.min_by_key(|v| (v.unacked > 0, self.linger(v, 0)));
            return best.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id));
        }
        if let Some((id, left)) = &mut self.current
            && *left > 0
            && peers().any(|v| v.id == *id && v.sendable > 0)
        {
            *left = left.saturating_sub(work.len);
            return SubflowSet::only(*id);
        }
        let linger = |v: &&SubflowView| self.linger(v, work.unsent);
        let Some(best) = peers().min_by_key(linger) else { return SubflowSet::NONE };
        if best.sendable > 0 {
            if peers().count() > 1 {
                self.reason = Reason::ShortestQueue;
            }
            self.begin(best, work.window_space);
            if let Some((_, left)) = &mut self.current {
                *left = left.saturating_sub(work.len);
            }
            return SubflowSet::only(best.id);
        }
        let free = peers().filter(|v| v.sendable > 0).map(|v| self.linger(v, 0)).min();
        let gain = free.unwrap_or(Duration::ZERO).saturating_sub(linger(&best));
        self.reason = Reason::WaitingIsFaster { for_subflow: best.id, gain };
        SubflowSet::NONE
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// Linux's pacing rate: twice the window a round trip in slow start, later 1.2 times.
fn pacing_rate(view: &SubflowView) -> u64 {
    let tenths = if view.cwnd < view.ssthresh / 2 { 20 } else { 12 };
    let bytes = u128::from(view.cwnd) * tenths * 100_000_000;
    u64::try_from(bytes / u128::from(view.srtt.0.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;

    #[test]
    fn the_queue_that_drains_first_gets_a_burst() {
        let mut s = Burst::new(&Values::defaults(PARAMS));
        // 20 segments at 100 a second against 2 at 20: 0.1 and 0.05 s at the pacing rate.
        let busy = SubflowView { unacked: 20 * 1448, cwnd: 20 * 1448, ..view(0, 200) };
        let idle = SubflowView { unacked: 2 * 1448, cwnd: 2 * 1448, ..view(1, 100) };
        let mut picks = Vec::new();
        for _ in 0..46 {
            picks.push(s.select(&work(), &[busy, idle]));
        }
        assert!(picks.iter().all(|p| *p == ids(&[1])));
        // 65 428 bytes are 45 segments and a bit; then the queues are looked at again.
        let other = SubflowView { unacked: 0, ..busy };
        assert_eq!(s.select(&work(), &[other, idle]), ids(&[0]));
        assert_eq!(s.reason(), Reason::ShortestQueue);
    }

    #[test]
    fn pacing_rate_is_linuxs() {
        let slow_start = SubflowView { cwnd: 10_000, ssthresh: u64::MAX, ..view(0, 100) };
        assert_eq!(pacing_rate(&slow_start), 200_000);
        assert_eq!(pacing_rate(&SubflowView { ssthresh: 20_000, ..slow_start }), 120_000);
    }

    #[test]
    fn waits_for_a_full_one_that_drains_first() {
        let mut s = Burst::new(&Values::defaults(PARAMS));
        let fast = SubflowView { sendable: 0, unacked: 14_480, ..view(0, 10) };
        let slow = SubflowView { unacked: 14_480, ..view(1, 100) };
        assert_eq!(s.select(&work(), &[fast, slow]), ids(&[]));
        assert!(matches!(s.reason(), Reason::WaitingIsFaster { .. }));
        // The fast one's queue, with a window more behind it, drains in 10 ms.
        let nearly_idle = SubflowView { unacked: 0, ..slow };
        assert_eq!(s.select(&work(), &[fast, nearly_idle]), ids(&[1]));
        let again = Work { reinjection: true, ..work() };
        assert_eq!(s.select(&again, &[fast, slow]), ids(&[1]));
    }
}
