//! `necf`, earliest completion first for any number of subflows. Ours, after `ecf` and `ecf3`: data
//! goes where it will arrive first, and waits if full subflows will have carried the whole backlog
//! before that.
//!
//! It differs from ECF in five respects. The time in which the full subflows carry the backlog is
//! that of all of them together (water-filling). A round trip is forecast from the present load,
//! not from the smoothed RTT (`forecast.rs`). The first subflow is the one on which the data
//! arrives first, not the one with the smallest RTT. And a subflow that is late by what programs
//! notice is used only if that gains more than it delays ([`delays`]); while nothing is known of
//! its rate, it carries copies ([`explores`]). Of subflows with space one that loses more has to be
//! sooner by what that delays ([`risk`]). It neither penalises windows
//! nor retransmits the head of a full window: late data is the business of reinjection
//! (`mptcp/tail_reinjection.rs`, `mptcp/overdue.rs`). Nor does it keep the queue of a slower
//! subflow short so that the faster ones do not fill the peer's window meanwhile, as BLEST: the
//! window grows sooner than that would help (`mptcp/receiver.rs`).

use super::common::{Choice, is_awaitable};
use super::forecast::{self, NOTICED, finish, rate};
use super::{Reason, Scheduler, Work};
use crate::policy::{Param, PolicyError, Values};
use crate::time::{Duration, Instant};
use crate::view::{SubflowSet, SubflowView};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[Param::new(
    "beta",
    0.25,
    0.0..=1.0,
    "how much longer waiting goes on than it would begin, share of RTT",
)];

pub(super) struct NEcf {
    beta: f64,
    /// Those not used by the last decision on them (`w` of ECF).
    refused: SubflowSet,
    promise: Promise,
    reason: Reason,
    /// Forecast round trips of the candidates, in list order: each is asked for several times.
    round_trips: Vec<f64>,
}

impl NEcf {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Scheduler>, PolicyError> {
        let beta = values.get("beta");
        let (refused, promise, reason, round_trips) = Default::default();
        Ok(Box::new(Self { beta, refused, promise, reason, round_trips }))
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
        if !work.reinjection && !self.promise.holds(work.now, Duration(arrival as u64)) {
            return None;
        }
        self.refused.insert(slow.id);
        Some(Duration((arrival - finish).max(0.0) as u64))
    }

    /// The choice among candidates, each with the forecast of its round trip.
    fn choose<'v>(
        &mut self,
        work: &Work,
        candidates: impl Iterator<Item = (f64, &'v SubflowView)> + Clone,
        rate: u64,
    ) -> Option<SubflowSet> {
        let cost = |(round_trip, v): (f64, &'v SubflowView)| {
            let at = forecast::arrival_within(round_trip, v);
            (at + risk(round_trip, v, rate), at, v)
        };
        let free = candidates.clone().filter(|(_, v)| v.sendable > 0).map(cost);
        let arrival = |(round_trip, v)| (forecast::arrival_within(round_trip, v), v);
        let peers = candidates.map(arrival);
        // When the data of who is refused would arrive, and why: what loses more may be sooner.
        let (mut refused, mut why) = (None, None);
        loop {
            let sooner = free.clone().filter(|(_, at, _)| refused.is_none_or(|than| *at < than));
            let Some((_, at, best)) = sooner.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                self.reason = why?;
                return Some(SubflowSet::NONE);
            };
            if self.reason == Reason::LowestRtt {
                self.reason = Reason::SoonestArrival;
            }
            match self.judge(work, peers.clone(), (at, best)) {
                Ok(chosen) => return Some(chosen),
                Err(reason) => _ = why.get_or_insert(reason),
            }
            refused = Some(at);
        }
    }

    /// Whether `best`, by which the data arrives after so many nanoseconds, is to carry it: then
    /// that and who is to have a copy, else why the full ones that are sooner are waited for.
    fn judge<'v>(
        &mut self,
        work: &Work,
        peers: impl Iterator<Item = (f64, &'v SubflowView)> + Clone,
        (soonest, best): (f64, &'v SubflowView),
    ) -> Result<SubflowSet, Reason> {
        let full = peers.clone().filter(|(at, v)| *at < soonest && is_awaitable(v));
        let Some((earliest, first)) = full.clone().min_by(|a, b| a.0.total_cmp(&b.0)) else {
            if work.unsent <= best.mss {
                self.promise.kept();
            }
            let mut chosen = SubflowSet::only(best.id);
            let unknown = peers.clone().find(|peer| explores(work, *peer, best, peers.clone()));
            if let Some((_, unknown)) = unknown {
                self.reason = Reason::Explores { subflow: unknown.id };
                chosen.insert(unknown.id);
            }
            return Ok(chosen);
        };
        let full = full.map(|(_, v)| v);
        if let Some(gain) = self.waits(work, full.clone(), best, soonest) {
            return Err(Reason::WaitingIsFaster { for_subflow: first.id, gain });
        }
        if delays(work, full, (best, soonest - earliest)) {
            return Err(Reason::WouldBlock { for_subflow: first.id });
        }
        Ok(SubflowSet::only(best.id))
    }
}

impl Scheduler for NEcf {
    fn select(&mut self, work: &Work, subflows: &[SubflowView]) -> SubflowSet {
        let choice = Choice::of(work.carried, subflows);
        self.reason = choice.reason;
        let mut round_trips = std::mem::take(&mut self.round_trips);
        let peers = || choice.peers(subflows);
        round_trips.clear();
        round_trips.extend(peers().map(|v| forecast::round_trip(work.now, v, v.mss)));
        let rate = subflows.iter().map(|v| v.delivery_rate).sum();
        let candidates = round_trips.iter().copied().zip(peers());
        let chosen = self.choose(work, candidates, rate);
        self.round_trips = round_trips;
        // The default choice may be one that has carried the data.
        let default = || choice.view.map_or(SubflowSet::NONE, |v| SubflowSet::only(v.id));
        chosen.unwrap_or_else(default)
    }

    fn places_runs(&self) -> bool {
        true
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// By how much a segment on this subflow delays, on average, what arrives: nanoseconds. If it is
/// lost, all that is sent until it is repaired in another round trip, at `rate` bytes/s, waits for
/// half of that time.
fn risk(repair: f64, view: &SubflowView, rate: u64) -> f64 {
    if view.loss_rate == 0.0 {
        return 0.0;
    }
    let delayed = (rate as f64 / 1e9 * repair / view.mss.max(1) as f64).max(1.0);
    f64::from(view.loss_rate) * delayed * repair / 2.0
}

/// What a wait promises: when the slower subflow's data would have arrived, the backlog is gone.
/// ECF's rule reckons with what is written now. If a program goes on writing as fast as the full
/// subflows carry, or faster, the backlog stays, every message waits in it, and in the end the
/// oldest of them take the long way. A promise that did not come true is not made again for a
/// while.
#[derive(Default)]
struct Promise {
    /// Until when the present one is to come true.
    due: Option<Instant>,
    /// None is made before that, and for how long that was.
    pause: (Instant, Duration),
}

/// The first pause. The next is twice as long if it follows within its own length.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

impl Promise {
    /// Whether waiting may begin or go on; the slower subflow's data would arrive after `arrival`.
    fn holds(&mut self, now: Instant, arrival: Duration) -> bool {
        let (end, length) = self.pause;
        if now < end {
            return false;
        }
        if now < *self.due.get_or_insert(now + arrival) {
            return true;
        }
        self.due = None;
        let again = !length.is_zero() && now < end + length;
        let length = if again { (length * 2).min(LONGEST_PAUSE) } else { PAUSE };
        self.pause = (now + length, length);
        false
    }

    /// The backlog is gone.
    fn kept(&mut self) {
        self.due = None;
    }
}

/// Whether `slow`, whose data arrives so many nanoseconds after that of the `full` subflows, delays
/// more than it gains. While its data is under way the peer can deliver nothing that comes after
/// it: at a rate of R, R D^2 / 2 byte-seconds, which the segments that are on `slow` meanwhile
/// share, r D of them. Each brings everything behind it forward by the time that it would have
/// taken at R. So it pays from a backlog of R^2 D / 2 r on. Only of a longer way: queues pass.
fn delays<'v>(
    work: &Work,
    full: impl Iterator<Item = &'v SubflowView> + Clone,
    (slow, late): (&SubflowView, f64),
) -> bool {
    if work.reinjection || late < NOTICED.0 as f64 {
        return false;
    }
    let least = full.clone().map(|v| v.min_rtt).min().unwrap_or_default();
    let all: f64 = full.map(rate).sum();
    slow.min_rtt.saturating_sub(least) / 2 >= NOTICED
        && all * all * late > 2.0 * work.unsent as f64 * rate(slow)
}

/// Whether `unknown`, with its arrival, is to have a copy of what goes by `best`: it is left out
/// ([`delays`]) at a rate of which only the first rounds of slow start have told, which would never
/// change. Copies delay nothing, and its window grows by them. Only for a backlog that will still
/// be there when that is known.
fn explores<'v>(
    work: &Work,
    (arrival, unknown): (f64, &SubflowView),
    best: &SubflowView,
    peers: impl Iterator<Item = (f64, &'v SubflowView)> + Clone,
) -> bool {
    let candidate = unknown.cwnd < unknown.ssthresh
        && unknown.sendable >= unknown.mss
        && unknown.min_rtt.saturating_sub(best.min_rtt) / 2 >= NOTICED;
    if !candidate {
        return false;
    }
    let sooner = peers.filter(|(at, _)| *at < arrival);
    let Some(earliest) = sooner.clone().map(|(at, _)| at).min_by(f64::total_cmp) else {
        return false;
    };
    let sooner = sooner.map(|(_, view)| view);
    let carried = sooner.clone().map(rate).sum::<f64>() * unknown.srtt.0 as f64 * ROUNDS;
    work.unsent as f64 > carried && delays(work, sooner, (unknown, arrival - earliest))
}

/// Round trips that a backlog must outlast for an unknown subflow to be worth copies.
const ROUNDS: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, view, work};
    use super::*;

    /// Full, and beyond slow start.
    fn full(id: u8, srtt_ms: u64) -> SubflowView {
        SubflowView { sendable: 0, ssthresh: 2 * 1448, ..view(id, srtt_ms) }
    }

    fn necf() -> Box<dyn Scheduler> {
        NEcf::build(&Values::defaults(PARAMS)).unwrap()
    }

    fn select(k: u64, views: &[SubflowView]) -> SubflowSet {
        necf().select(&Work { unsent: k * 1448, ..work() }, views)
    }

    /// Half a second late and a fiftieth of the rate: from 100 MB on. The same rate pays at once.
    #[test]
    fn what_is_late_must_gain_more_than_it_delays() {
        let near = SubflowView { cwnd: 250_000, ..full(0, 20) };
        let far = |rate: u64| SubflowView { cwnd: rate, ..view(1, 1000) };
        let late =
            |unsent, rate| delays(&Work { unsent, ..work() }, [near].iter(), (&far(rate), 490e6));
        assert!(late(100 << 20, 250_000) && !late(200 << 20, 250_000));
        assert!(!late(8 << 20, 12_500_000));
        let reinjection = Work { unsent: 1 << 20, reinjection: true, ..work() };
        assert!(!delays(&reinjection, [near].iter(), (&far(250_000), 490e6)));
    }

    /// By its first window the far path gains nothing; a copy tells what it can do. Not for what is
    /// gone before that is known, and not once it is known.
    #[test]
    fn what_is_unknown_and_far_has_copies() {
        let near = SubflowView { cwnd: 250_000, ssthresh: 200_000, ..view(0, 20) };
        let far = SubflowView { cwnd: 14_480, ..view(1, 600) };
        assert_eq!(select(11_000, &[near, far]), ids(&[0, 1]));
        assert_eq!(select(10_000, &[near, far]), ids(&[0]), "gone in 1.2 s");
        for known in [
            SubflowView { ssthresh: 14_480, ..far },
            SubflowView { sendable: 1000, ..far },
            view(1, 200),
        ] {
            assert_eq!(select(11_000, &[near, known]), ids(&[0]), "{known:?}");
        }
    }

    #[test]
    fn water_filling_over_two() {
        // 0.5 (t - 10) + 0.2 (t - 25) = 41 packets: t = 72.9 ms.
        let views = [full(0, 20), full(1, 50)];
        let finish = |k: u64, views: &[SubflowView]| finish(work().now, k * 1448, views.iter());
        assert!((finish(41, &views) / 1e6 - 72.857_143).abs() < 1e-4);
        assert!((finish(41, &views[..1]) / 1e6 - 92.0).abs() < 1e-4);
        // The second starts after the first has finished: no help.
        assert!((finish(7, &views) / 1e6 - 24.0).abs() < 1e-4);
    }

    /// Where it differs from the published rule, which weighs against the fastest alone.
    #[test]
    fn waits_for_two_together() {
        assert_eq!(select(20, &[full(0, 20), full(1, 50), view(2, 90)]), ids(&[]));
        assert_eq!(select(21, &[full(0, 20), full(1, 50), view(2, 90)]), ids(&[2]));
    }

    #[test]
    fn a_refusal_holds_a_little_longer() {
        let mut necf = necf();
        let views = [full(0, 20), view(1, 60)];
        let mut waits = |k: u64| necf.select(&Work { unsent: k * 1448, ..work() }, &views);
        assert_eq!(waits(12), ids(&[1]), "10 + 13 x 2 is not below 30");
        assert_eq!(waits(5), ids(&[]));
        assert_eq!(waits(12), ids(&[]), "36 < 37.5");
        assert_eq!(waits(14), ids(&[1]));
        assert_eq!(waits(12), ids(&[1]));
    }

    /// A path that loses is passed over for a far one that does not; but not left idle where that
    /// would delay more than it gains.
    #[test]
    fn what_is_refused_leaves_the_choice_to_the_others() {
        let near = SubflowView { cwnd: 78_000, delivery_rate: 3_400_000, ..full(0, 23) };
        let lossy = SubflowView {
            cwnd: 1_000_000,
            delivery_rate: 10_000_000,
            loss_rate: 0.02,
            ..view(1, 91)
        };
        let far = SubflowView { cwnd: 14_480, ssthresh: 14_480, ..view(2, 900) };
        assert_eq!(select(11_000, &[near, far]), ids(&[]), "it delays");
        let mut scheduler = necf();
        let work = Work { unsent: 11_000 * 1448, ..work() };
        assert_eq!(scheduler.select(&work, &[near, lossy, far]), ids(&[1]));
        assert_eq!(scheduler.reason(), Reason::SoonestArrival);
        assert_eq!(select(11_000, &[near, lossy]), ids(&[1]));
    }

    #[test]
    fn a_narrow_path_is_slow_whatever_its_rtt() {
        // Five segments queued at 50 ms each behind a least RTT of 5 ms.
        let narrow = SubflowView {
            min_rtt: Duration::from_millis(5),
            latest_rtt: Duration::from_millis(200),
            capacity: 1448 * 20,
            train_at: work().now,
            in_flight: 5 * 1448,
            ..view(0, 10)
        };
        assert_eq!(select(1, &[narrow, view(1, 100)]), ids(&[1]));
        assert_eq!(select(1, &[narrow, view(1, 700)]), ids(&[0]));
    }

    /// Of 700 segments a second, a loss holds up 14 for 20 ms: at 2 % that is 2.8 ms on average.
    #[test]
    fn losses_count_for_what_they_delay() {
        let lossy = SubflowView { loss_rate: 0.02, delivery_rate: 1448 * 700, ..view(0, 20) };
        assert_eq!(select(1, &[lossy, view(1, 24)]), ids(&[1]), "12 ms against 10 and 2.8");
        assert_eq!(select(1, &[lossy, view(1, 27)]), ids(&[0]));
        let slow = SubflowView { delivery_rate: 0, ..lossy };
        assert_eq!(select(1, &[slow, view(1, 24)]), ids(&[0]), "no more than itself");
    }

    /// 30 ms of queue before a receiver 3 ms away against 25 ms without one, one way.
    #[test]
    fn what_arrives_first_counts_and_not_what_is_acknowledged_first() {
        let near = SubflowView {
            min_rtt: Duration::from_millis(6),
            latest_rtt: Duration::from_millis(36),
            capacity: 1448 * 1000,
            train_at: work().now,
            in_flight: 35 * 1448,
            ..view(0, 36)
        };
        assert_eq!(select(1, &[near, view(1, 50)]), ids(&[1]), "33 ms against 25");
        assert_eq!(select(1, &[near, view(1, 70)]), ids(&[0]), "33 ms against 35");
    }
}
