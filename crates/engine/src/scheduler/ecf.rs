//! `ecf`, earliest completion first (Lim et al., CoNEXT 2017), as in Linux MPTCP v0.9x
//! (`mptcp_ecf.c`): a slower subflow gets no data if the fastest, though full, completes the
//! backlog sooner, and if the slower one would need more than the time that waiting costs.
//!
//! Three things differ from Linux. The products are computed in 128 bits (32 bits overflow at 20 ms
//! times 250 kB). The backlog is counted as payload, not as buffer space. And the fastest subflow
//! is sought among those that the default choice may use; Linux also counts backups and potentially
//! failed subflows, for which it can wait forever.

use super::common::{BACKLOG, Backlog, Choice, Opportunistic};
use super::{Blocked, OpportunisticRetransmission, Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::time::Duration;
use crate::view::{SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new(
        "beta",
        0.25,
        0.0..=1.0,
        "how much longer waiting goes on than it would begin, share of RTT",
    ),
    BACKLOG,
];

pub(super) struct Ecf {
    backlog: Backlog,
    /// The hysteresis of the paper, in 256ths.
    beta: u64,
    /// `w` of the paper: the last decision was to wait. One per connection.
    waiting: bool,
    reason: Reason,
    opportunistic: Opportunistic,
}

impl Ecf {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        Ok(Box::new(Self::new(values)))
    }

    fn new(values: &Values<'_>) -> Self {
        let beta = (values.get("beta") * 256.0) as u64;
        let (reason, opportunistic) = (Reason::default(), Opportunistic::default());
        Self { beta, backlog: Backlog::of(values), waiting: false, reason, opportunistic }
    }

    /// Whether to wait for `fast` with a backlog of `k` bytes; by how much that is sooner.
    fn waits(&mut self, k: u64, fast: &SubflowView, slow: &SubflowView) -> Option<Duration> {
        let wide = u128::from;
        let delta = wide(2 * fast.rttvar.0.max(slow.rttvar.0));
        let (rtt_f, rtt_s) = (wide(fast.srtt.0), wide(slow.srtt.0));
        let (w_f, w_s) = (wide(fast.cwnd.max(1)), wide(slow.cwnd.max(1)));
        let (x_f, x_s) = (wide(k).max(w_f), wide(k).max(w_s));
        let beta = if self.waiting { wide(self.beta) } else { 0 };
        let on_fast = rtt_f * (x_f + w_f);
        if on_fast * 256 >= w_f * (rtt_s + delta) * (256 + beta) {
            self.waiting = false;
            return None;
        }
        if rtt_s * x_s < w_s * (2 * rtt_f + delta) {
            return None;
        }
        self.waiting = true;
        let gain = (rtt_s + delta).saturating_sub(on_fast / w_f);
        Some(Duration(u64::try_from(gain).unwrap_or(u64::MAX)))
    }
}

impl Scheduler for Ecf {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let Some(slow) = choice.view else { return SubflowSet::NONE };
        let Some(fast) = choice.faster(subflows) else { return SubflowSet::only(slow.id) };
        match self.waits(self.backlog.see(work), fast, slow) {
            Some(gain) => {
                self.reason = Reason::WaitingIsFaster { for_subflow: fast.id, gain };
                SubflowSet::NONE
            }
            None => SubflowSet::only(slow.id),
        }
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

    fn path(id: u8, cwnd: u64, srtt_ms: u64, delta_ms: u64) -> SubflowView {
        let rttvar = Duration::from_micros(delta_ms * 500);
        SubflowView { cwnd: cwnd * 1448, rttvar, ..view(id, srtt_ms) }
    }

    /// Inputs k, cwnd_f, RTT_f, cwnd_s, RTT_s, delta, w; whether it waits, and w afterwards.
    /// Computed by hand from the two inequalities in `mptcp_ecf.c`.
    #[test]
    fn vectors() {
        let table = [
            ((0, 10, 20, 10, 60, 5, false), (true, true)),
            ((30, 10, 20, 10, 80, 5, false), (true, true)),
            ((50, 10, 20, 10, 100, 5, false), (false, false)),
            ((0, 10, 20, 10, 35, 5, false), (false, false)),
            ((0, 10, 30, 10, 61, 8, false), (false, false)),
            ((25, 10, 20, 10, 65, 5, false), (false, false)),
            ((25, 10, 20, 10, 65, 5, true), (true, true)),
        ];
        for (input, expected) in table {
            let (k, cwnd_f, rtt_f, cwnd_s, rtt_s, delta, w) = input;
            let mut ecf = Ecf::new(&Values::defaults(PARAMS));
            ecf.waiting = w;
            let (f, s) = (path(0, cwnd_f, rtt_f, delta), path(1, cwnd_s, rtt_s, delta));
            let waits = ecf.waits(k * 1448, &f, &s).is_some();
            assert_eq!((waits, ecf.waiting), expected, "{input:?}");
        }
    }

    #[test]
    fn waits_for_the_fastest_and_says_so() {
        let mut ecf = Ecf::new(&Values::defaults(PARAMS));
        let f = SubflowView { sendable: 0, ..path(0, 10, 20, 0) };
        let s = path(1, 10, 60, 0);
        let work = Work { unsent: 1448, ..work() };
        assert_eq!(ecf.select(&work, &[f, s]), ids(&[]));
        let gain = Duration::from_millis(20);
        assert_eq!(ecf.reason(), Reason::WaitingIsFaster { for_subflow: f.id, gain });
        let f = SubflowView { sendable: 1448, ..f };
        assert_eq!(ecf.select(&work, &[f, s]), ids(&[0]));
        let dead = SubflowView { sendable: 0, in_flight: 0, ..f };
        assert_eq!(ecf.select(&work, &[dead, s]), ids(&[1]), "nothing would ever free it");
        let potentially_failed = SubflowView { sendable: 0, potentially_failed: true, ..f };
        assert_eq!(ecf.select(&work, &[potentially_failed, s]), ids(&[1]));
    }

    #[test]
    fn products_do_not_overflow() {
        let mut ecf = Ecf::new(&Values::defaults(PARAMS));
        let f = SubflowView { cwnd: 1 << 39, ..path(0, 1, 10_000, 0) };
        let s = SubflowView { cwnd: 1 << 39, ..path(1, 1, 60_000, 0) };
        assert!(ecf.waits(1 << 40, &f, &s).is_some());
    }
}
