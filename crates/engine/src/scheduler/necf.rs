//! `necf`, earliest completion first for any number of subflows (ours; algorithms 1.6): a
//! subflow gets no data if all faster ones together, as they become free, complete the backlog
//! before the data would arrive by it.
//!
//! The time at which the faster ones have carried the backlog is that of water-filling: each
//! carries cwnd a round trip from one round trip after it next has room. For one faster subflow
//! this is ECF's rule; the first refusal ends the search, since for a still slower subflow there
//! are more helpers and the data arrives later.

use super::common::{Choice, Rescuer, is_awaitable};
use super::ecf3::by_rtt;
use super::{Blocked, Reason, Rescue, Scheduler, Work};
use crate::policy::{Params, PolicyError};
use crate::time::Duration;
use crate::view::{SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[(&str, f64, &str)] =
    &[("beta", 0.25, "how much longer waiting goes on than it would begin, share of RTT, 0 to 1")];

/// The scheduler `necf`.
pub(super) struct NEcf {
    beta: f64,
    /// Those not used by the last decision on them (`w` of ECF).
    refused: SubflowSet,
    reason: Reason,
    rescuer: Rescuer,
}

impl NEcf {
    pub(super) fn build(params: &Params) -> Result<Box<dyn Scheduler>, PolicyError> {
        let beta = params.in_range("beta", 0.25, 0.0..=1.0)?;
        let (reason, rescuer) = (Reason::default(), Rescuer::default());
        Ok(Box::new(Self { beta, refused: SubflowSet::NONE, reason, rescuer }))
    }

    /// Whether to wait for the `faster` ones with a backlog of `k` bytes rather than to use
    /// `slow`; by how much that is sooner.
    fn waits<'v>(
        &mut self,
        k: u64,
        faster: impl Iterator<Item = &'v SubflowView> + Clone,
        slow: &'v SubflowView,
    ) -> Option<Duration> {
        let delta = faster.clone().chain(std::iter::once(slow)).map(|v| 2 * v.rttvar.0).max()?;
        let least = faster.clone().map(|v| v.srtt.0).min()?;
        let finish = finish_time(k + slow.mss, by_rtt(faster));
        let arrival = (slow.srtt.0 + delta) as f64;
        let patience = if self.refused.contains(slow.id) { 1.0 + self.beta } else { 1.0 };
        if finish >= arrival * patience {
            self.refused.remove(slow.id);
            return None;
        }
        let rounds = k.max(slow.cwnd).div_ceil(slow.cwnd.max(1));
        if rounds.saturating_mul(slow.srtt.0) < 2 * least + delta {
            return None;
        }
        self.refused.insert(slow.id);
        Some(Duration((arrival - finish).max(0.0) as u64))
    }
}

impl Scheduler for NEcf {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let Some(first) = choice.view else { return SubflowSet::NONE };
        let before = |v: &&SubflowView| is_awaitable(v) && v.srtt < first.srtt;
        let faster = choice.peers(subflows).filter(before);
        let Some(fastest) = faster.clone().min_by_key(|v| v.srtt) else {
            return SubflowSet::only(first.id);
        };
        if let Some(gain) = self.waits(work.unsent, faster, first) {
            self.reason = Reason::WaitingIsFaster { for_subflow: fastest.id, gain };
            return SubflowSet::NONE;
        }
        SubflowSet::only(first.id)
    }

    fn rescue(&mut self, blocked: &Blocked, subflows: &[SubflowView]) -> Rescue {
        self.rescuer.rescue(blocked, subflows)
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// When full subflows, given by RTT, will have carried `bytes`, nanoseconds from now.
fn finish_time<'v>(bytes: u64, faster: impl Iterator<Item = &'v SubflowView>) -> f64 {
    let (mut rate, mut offset, mut finish) = (0.0, 0.0, f64::INFINITY);
    for view in faster {
        let srtt = view.srtt.0.max(1) as f64;
        // Its next ACK comes after about the spacing of those it has in flight.
        let spacing = srtt * view.mss as f64 / view.in_flight.max(view.mss).max(1) as f64;
        let start = srtt + spacing;
        if start >= finish {
            continue;
        }
        let own = view.cwnd.max(1) as f64 / srtt;
        rate += own;
        offset += own * start;
        finish = (bytes as f64 + offset) / rate;
    }
    finish
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;

    fn full(id: u8, srtt_ms: u64) -> SubflowView {
        // So much in flight that the next ACK is about to come.
        let rttvar = Duration::ZERO;
        SubflowView { room: 0, in_flight: 1 << 40, rttvar, ..view(id, srtt_ms) }
    }

    fn select(k: u64, views: &[SubflowView]) -> SubflowSet {
        let mut necf = NEcf::build(&Params::default()).unwrap();
        necf.select(&Work { unsent: k * 1448, ..work() }, views)
    }

    #[test]
    fn water_filling_over_two() {
        // 0.5 (t - 20) + 0.2 (t - 50) = 41 packets: t = 87.1 ms.
        let views = [full(0, 20), full(1, 50)];
        let finish = finish_time(41 * 1448, views.iter());
        assert!((finish / 1e6 - 87.142_857).abs() < 1e-4, "{finish}");
        let one = finish_time(41 * 1448, views[..1].iter());
        assert!((one / 1e6 - 102.0).abs() < 1e-4, "{one}");
        // The second starts after the first has finished: no help.
        let late = finish_time(10 * 1448, views.iter());
        assert!((late / 1e6 - 40.0).abs() < 1e-4, "{late}");
    }

    /// Where it differs from the published rule, which weighs against the fastest alone.
    #[test]
    fn waits_for_two_together() {
        let third = SubflowView { rttvar: Duration::ZERO, ..view(2, 90) };
        assert_eq!(select(40, &[full(0, 20), full(1, 50), third]), ids(&[]));
        assert_eq!(select(43, &[full(0, 20), full(1, 50), third]), ids(&[2]));
    }

    #[test]
    fn a_refusal_holds_a_little_longer() {
        let mut necf = NEcf::build(&Params::default()).unwrap();
        let slow = SubflowView { rttvar: Duration::ZERO, ..view(1, 60) };
        let mut waits =
            |k: u64| necf.select(&Work { unsent: k * 1448, ..work() }, &[full(0, 20), slow]);
        assert_eq!(waits(25), ids(&[1]), "20 + 26 x 2 is not below 60");
        assert_eq!(waits(10), ids(&[]));
        assert_eq!(waits(25), ids(&[]), "72 < 75");
        assert_eq!(waits(30), ids(&[1]));
        assert_eq!(waits(25), ids(&[1]));
    }
}
