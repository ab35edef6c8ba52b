//! `necf`, earliest completion first for any number of subflows (ours; after algorithms 1.6, 1.5
//! and paper S3): data goes where it will be acknowledged first, and waits if full subflows will
//! have carried the whole backlog before that.
//!
//! It differs from ECF in four ways. The time at which the full ones have carried the backlog is
//! that of all of them together (water-filling). A round trip is forecast from the load of the
//! moment and not the smoothed RTT (`forecast.rs`). The first subflow is the one that the data
//! arrives by first, not the one with the least RTT. And when there is nothing new to send, data
//! that a slower subflow is late with is overtaken, so that neither a full window nor the end of an
//! answer waits for the slowest path; windows are not penalised.

use super::common::{Choice, is_awaitable};
use super::forecast::{finish, overdue, remaining, round_trip};
use super::{Late, Reason, Scheduler, Work};
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
}

impl NEcf {
    pub(super) fn build(params: &Params) -> Result<Box<dyn Scheduler>, PolicyError> {
        let beta = params.in_range("beta", 0.25, 0.0..=1.0)?;
        Ok(Box::new(Self { beta, refused: SubflowSet::NONE, reason: Reason::default() }))
    }

    /// Whether to wait for `full` subflows rather than to use `slow`, by which the data arrives
    /// after `arrival` nanoseconds; by how much that is sooner.
    fn waits<'v>(
        &mut self,
        work: &Work,
        full: impl Iterator<Item = &'v SubflowView> + Clone,
        slow: &SubflowView,
        arrival: f64,
    ) -> Option<Duration> {
        let backlog = if work.reinjection { work.len } else { work.unsent };
        let finish = finish(work.now, backlog + slow.mss, full);
        let patience = if self.refused.contains(slow.id) { 1.0 + self.beta } else { 1.0 };
        if finish >= arrival * patience {
            self.refused.remove(slow.id);
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
        let arrival = |v: &SubflowView| round_trip(work.now, v, v.mss);
        let peers = || choice.peers(subflows).map(|v| (arrival(v), v));
        let free = peers().filter(|(_, v)| v.room > 0);
        let Some((soonest, best)) = free.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            // The default choice may be one that has carried the data.
            return choice.view.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id));
        };
        if self.reason == Reason::LowestRtt {
            self.reason = Reason::SoonestArrival;
        }
        let full = peers().filter(|(at, v)| *at < soonest && is_awaitable(v));
        let Some((_, first)) = full.clone().min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return SubflowSet::only(best.id);
        };
        if let Some(gain) = self.waits(work, full.map(|(_, v)| v), best, soonest) {
            self.reason = Reason::WaitingIsFaster { for_subflow: first.id, gain };
            return SubflowSet::NONE;
        }
        SubflowSet::only(best.id)
    }

    fn overtake(&mut self, late: &Late, subflows: &[SubflowView]) -> Option<Duration> {
        let fast = subflows.iter().find(|v| v.id == late.fast)?;
        let arrival = round_trip(late.now, fast, fast.mss);
        if arrival < remaining(late, subflows) {
            return Some(Duration::ZERO);
        }
        // Once overdue it takes as long again as it has taken: longer than this, at last.
        overdue(late, subflows).map(|at| at.max(Duration(arrival as u64).saturating_sub(late.age)))
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;
    use crate::view::SubflowId;

    /// Full, and beyond slow start.
    fn full(id: u8, srtt_ms: u64) -> SubflowView {
        SubflowView { room: 0, ssthresh: 2 * 1448, ..view(id, srtt_ms) }
    }

    fn necf() -> Box<dyn Scheduler> {
        NEcf::build(&Params::default()).unwrap()
    }

    fn select(k: u64, views: &[SubflowView]) -> SubflowSet {
        necf().select(&Work { unsent: k * 1448, ..work() }, views)
    }

    #[test]
    fn water_filling_over_two() {
        // 0.5 (t - 20) + 0.2 (t - 50) = 41 packets: t = 87.1 ms.
        let views = [full(0, 20), full(1, 50)];
        let finish = |k: u64, views: &[SubflowView]| finish(work().now, k * 1448, views.iter());
        assert!((finish(41, &views) / 1e6 - 87.142_857).abs() < 1e-4);
        assert!((finish(41, &views[..1]) / 1e6 - 102.0).abs() < 1e-4);
        // The second starts after the first has finished: no help.
        assert!((finish(10, &views) / 1e6 - 40.0).abs() < 1e-4);
    }

    /// Where it differs from the published rule, which weighs against the fastest alone.
    #[test]
    fn waits_for_two_together() {
        assert_eq!(select(40, &[full(0, 20), full(1, 50), view(2, 90)]), ids(&[]));
        assert_eq!(select(43, &[full(0, 20), full(1, 50), view(2, 90)]), ids(&[2]));
    }

    #[test]
    fn a_refusal_holds_a_little_longer() {
        let mut necf = necf();
        let views = [full(0, 20), view(1, 60)];
        let mut waits = |k: u64| necf.select(&Work { unsent: k * 1448, ..work() }, &views);
        assert_eq!(waits(25), ids(&[1]), "20 + 26 x 2 is not below 60");
        assert_eq!(waits(10), ids(&[]));
        assert_eq!(waits(25), ids(&[]), "72 < 75");
        assert_eq!(waits(30), ids(&[1]));
        assert_eq!(waits(25), ids(&[1]));
    }

    #[test]
    fn a_narrow_path_is_slow_whatever_its_rtt() {
        // Five segments queued at 50 ms each behind a least RTT of 5 ms.
        let narrow = SubflowView {
            min_rtt: Duration::from_millis(5),
            latest_rtt: Duration::from_millis(200),
            delivery_rate: 1448 * 20,
            in_flight: 5 * 1448,
            ..view(0, 10)
        };
        assert_eq!(select(1, &[narrow, view(1, 100)]), ids(&[1]));
        assert_eq!(select(1, &[narrow, view(1, 400)]), ids(&[0]));
    }

    #[test]
    fn late_data_is_overtaken_by_what_arrives_sooner() {
        let overtaken = |age_ms| {
            let late = Late {
                now: work().now,
                dsn: crate::seq::Dsn(1),
                carried: ids(&[1]),
                age: Duration::from_millis(age_ms),
                fast: SubflowId(0),
            };
            let slow = SubflowView { rttvar: Duration::from_millis(8), ..view(1, 100) };
            necf().overtake(&late, &[view(0, 20), slow]).map(|d| d.as_millis())
        };
        assert_eq!(overtaken(10), Some(0), "90 ms to go against 20");
        assert_eq!(overtaken(80), Some(28), "as soon either way; looked at again when overdue");
        assert_eq!(overtaken(109), Some(0), "it should have come");
    }
}
