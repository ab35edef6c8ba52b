//! Forecasts of round trips and of the time that a backlog takes, for `necf` and for reinjection
//! (`mptcp/tail_reinjection.rs`, `mptcp/overdue.rs`). Ours; no paper.
//!
//! The smoothed RTT alone says little about a path that is not loaded as it was when the samples
//! were taken: it lags behind a queue that builds up by some eight ACKs, and stays high after the
//! queue is gone. So a forecast starts from the least RTT, adds what is in flight at the rate at
//! which the bottleneck forwards (`tcp/rate.rs`: where segments waited there, so that it is the
//! path's rate and not the application's) and what waits there behind others, and is never below
//! the time for which the oldest segment has been waiting.

use crate::time::{Duration, Instant};
use crate::view::SubflowView;

/// Later by this much is what programs notice.
pub(crate) const NOTICED: Duration = Duration::from_millis(100);

/// Nanoseconds until data that is sent now is acknowledged.
pub(crate) fn round_trip(now: Instant, view: &SubflowView, bytes: u64) -> f64 {
    let base = base(view);
    let load = (view.in_flight + bytes) as f64;
    let share = (load / view.cwnd.max(1) as f64).min(1.0);
    let usual = base + (view.srtt.0 as f64 - base).max(0.0) * share;
    let own = bottleneck(now, view).map_or(0.0, |rate| {
        let queue = ((view.busy_until - now).0 as f64).min(view.in_flight as f64 / rate);
        (load / rate).max(base + queue + bytes as f64 / rate)
    });
    // The latest round trip may be that of a last ACK, which is delayed for want of more.
    let others = view.latest_rtt.min(view.srtt);
    let others = if view.cross_traffic && remembered(now, view) { others.0 as f64 } else { 0.0 };
    usual.max(own).max(others).max(waiting(now, view).0 as f64)
}

/// Nanoseconds until data that is sent now arrives: a round trip less the way back. What queues
/// does so on the way there; without a queue both ways are taken to be equally long. Compared by
/// round trips a short path would be filled until its queue is as long as the round trip of a
/// longer one, by which the data arrives after half of that.
pub(crate) fn arrival(now: Instant, view: &SubflowView, bytes: u64) -> f64 {
    arrival_within(round_trip(now, view, bytes), view)
}

/// The same of a forecast round trip.
pub(super) fn arrival_within(round_trip: f64, view: &SubflowView) -> f64 {
    round_trip - base(view) / 2.0
}

/// Nanoseconds of a round trip without a queue.
fn base(view: &SubflowView) -> f64 {
    let least = if view.min_rtt.is_zero() { view.srtt } else { view.min_rtt };
    least.0 as f64
}

/// What has been sent arrives within this time, as far as round trips say: one less the way back,
/// and an eighth for what is not known.
pub(crate) fn arrives_within(view: &SubflowView) -> Duration {
    let usual = view.srtt.max(view.latest_rtt);
    (usual + usual / 8).saturating_sub(view.min_rtt / 2)
}

/// How long the oldest segment under way has been.
fn waiting(now: Instant, view: &SubflowView) -> Duration {
    now - view.oldest_sent
}

/// Bytes per nanosecond that the path delivers, as far as trains of segments have shown of late.
fn bottleneck(now: Instant, view: &SubflowView) -> Option<f64> {
    let known = view.capacity > 0 && remembered(now, view);
    known.then_some(view.capacity as f64 / 1e9)
}

/// Whether what trains have shown still counts: a path that is left out because it was slow, or
/// because others queued there, would never show that this is over.
fn remembered(now: Instant, view: &SubflowView) -> bool {
    now < view.train_at + FORGOTTEN
}

/// As long as BBR takes a round trip for the least. Trains are rare where little is sent.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// A window each round trip, bytes a nanosecond.
pub(super) fn rate(view: &SubflowView) -> f64 {
    view.cwnd.max(1) as f64 / view.srtt.0.max(1) as f64
}

/// The same, but no more than the bottleneck forwards.
pub(super) fn carries(now: Instant, view: &SubflowView) -> f64 {
    bottleneck(now, view).unwrap_or(f64::INFINITY).min(rate(view))
}

/// Nanoseconds until the last of `bytes` that wait for these full subflows arrives, by
/// water-filling: each carries a window a round trip from its next space on. A subflow in slow
/// start may do it alone sooner, as its window doubles.
pub(super) fn finish<'v>(
    now: Instant,
    bytes: u64,
    full: impl Iterator<Item = &'v SubflowView> + Clone,
) -> f64 {
    let start = |v: &SubflowView| arrival(now, v, v.mss);
    let (mut total, mut offset, mut finish) = (0.0, 0.0, f64::INFINITY);
    let mut done = f64::NEG_INFINITY;
    loop {
        // In order of their starts, without memory: there are few.
        let next = full.clone().map(|v| (start(v), v)).filter(|(at, _)| *at > done);
        let Some((at, _)) = next.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if at >= finish {
            break;
        }
        done = at;
        for view in full.clone().filter(|v| start(v) == at) {
            let own = carries(now, view);
            total += own;
            offset += own * at;
        }
        finish = (bytes as f64 + offset) / total;
    }
    let growing = full.filter(|v| v.cwnd < v.ssthresh);
    growing.map(|v| start(v) + doubling(now, bytes, v)).fold(finish, f64::min)
}

/// Time in which slow start carries `bytes`, from a full window on, and after that what the
/// bottleneck forwards.
fn doubling(now: Instant, bytes: u64, view: &SubflowView) -> f64 {
    let (mut left, mut window, mut rounds) = (bytes, view.cwnd.max(1), 0.0);
    let held = bottleneck(now, view).map_or(u64::MAX, |rate| (rate * view.srtt.0 as f64) as u64);
    let most = view.ssthresh.min(held).max(window);
    while left > window && window < most {
        left -= window;
        window = window.saturating_mul(2).min(most);
        rounds += 1.0;
    }
    (rounds + left as f64 / window as f64) * view.srtt.0 as f64
}

/// Nanoseconds until a segment that was sent on `view` at `sent_at` is acknowledged, with `ahead`
/// bytes in flight up to its end; and after how long it is overdue, if it is not. What should have
/// been acknowledged by now is expected within RTTVAR; what is overdue after that is lost or behind
/// a queue that has grown, and takes as long again as it has taken.
pub(crate) fn remaining(
    now: Instant,
    sent_at: Instant,
    ahead: u64,
    view: &SubflowView,
) -> (f64, Option<Duration>) {
    let age = now - sent_at;
    let usual = view.srtt.max(view.latest_rtt);
    let patience = usual + view.rttvar;
    if age >= patience {
        return (age.0 as f64, None);
    }
    // Where nothing is known of the bottleneck: a window in the time that the oldest has taken.
    let oldest = waiting(now, view);
    let lately = || view.cwnd.max(1) as f64 / usual.max(oldest).0.max(1) as f64;
    let queued = ahead as f64 / bottleneck(now, view).unwrap_or_else(lately);
    let rest = patience - age;
    let left = if age < usual { queued.max((usual - age).0 as f64) } else { rest.0 as f64 / 2.0 };
    // Nor does it arrive before what was sent earlier.
    let left = if oldest >= patience { left.max(oldest.0 as f64) } else { left };
    (left, Some(rest))
}

/// The same until it arrives: less the way back.
pub(crate) fn arrives_in(now: Instant, sent_at: Instant, ahead: u64, view: &SubflowView) -> f64 {
    remaining(now, sent_at, ahead, view).0 - base(view) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{view, work};
    use super::*;

    const MS: f64 = 1e6;

    /// A path that delivers a segment every `ms`, with a queue.
    fn narrow(srtt_ms: u64, ms: u64) -> SubflowView {
        let min_rtt = Duration::from_millis(10);
        SubflowView { min_rtt, capacity: 1_448_000 / ms, train_at: work().now, ..view(0, srtt_ms) }
    }

    #[test]
    fn a_round_trip_is_what_the_load_makes_it() {
        let now = work().now;
        let idle = SubflowView { in_flight: 0, ..narrow(90, 20) };
        assert_eq!(round_trip(now, &idle, 1448), 30.0 * MS, "the least and one segment");
        let loaded = SubflowView { in_flight: 9 * 1448, ..idle };
        assert_eq!(round_trip(now, &loaded, 1448), 200.0 * MS, "ten at 20 ms each");
        let free = SubflowView { capacity: 0, in_flight: 4 * 1448, ..idle };
        assert_eq!(round_trip(now, &free, 1448), 50.0 * MS, "half the window, half the rest");
        let oldest_sent = Instant(now.0 - 300_000_000);
        let stuck = SubflowView { oldest_sent, ..loaded };
        assert_eq!(round_trip(now, &stuck, 1448), 300.0 * MS, "it is not below what it has been");
    }

    /// A burst waits for itself though it is no more than the path holds, and everything waits
    /// behind what others send.
    #[test]
    fn what_waits_at_the_bottleneck_counts() {
        let now = work().now;
        let narrow =
            SubflowView { in_flight: 1448, min_rtt: Duration::from_millis(100), ..narrow(100, 5) };
        assert_eq!(round_trip(now, &narrow, 1448), 105.0 * MS);
        let burst = SubflowView { busy_until: Instant(now.0 + 40_000_000), ..narrow };
        let burst = SubflowView { in_flight: 8 * 1448, ..burst };
        assert_eq!(round_trip(now, &burst, 1448), 145.0 * MS);
        let lost = SubflowView { in_flight: 1448, ..burst };
        assert_eq!(round_trip(now, &lost, 1448), 110.0 * MS, "what is lost does not wait");
        let old = SubflowView { train_at: Instant::ZERO, ..burst };
        let later = Instant(now.0 + 11_000_000_000);
        let old = SubflowView { oldest_sent: later, ..old };
        assert_eq!(round_trip(later, &old, 1448), 100.0 * MS, "forgotten");
        let latest_rtt = Duration::from_millis(180);
        let cross_traffic = SubflowView { cross_traffic: true, latest_rtt, ..narrow };
        assert_eq!(round_trip(now, &cross_traffic, 1448), 105.0 * MS, "a delayed ACK");
        let cross_traffic = SubflowView { srtt: latest_rtt, ..cross_traffic };
        assert_eq!(round_trip(now, &cross_traffic, 1448), 180.0 * MS);
        let (oldest_sent, srtt) = (later, narrow.srtt);
        let cross_traffic = SubflowView { oldest_sent, srtt, ..cross_traffic };
        assert_eq!(round_trip(later, &cross_traffic, 1448), 100.0 * MS, "forgotten");
    }

    #[test]
    fn slow_start_doubles() {
        let view = SubflowView { cwnd: 10 * 1448, ..view(0, 100) };
        assert_eq!(doubling(work().now, 10 * 1448, &view), 100.0 * MS);
        assert_eq!(doubling(work().now, 70 * 1448, &view), 300.0 * MS);
        assert_eq!(doubling(work().now, 30 * 1448, &view), 200.0 * MS);
        assert_eq!(doubling(work().now, 5 * 1448, &view), 50.0 * MS);
    }

    /// A window that is not all in flight says more than the path forwards.
    #[test]
    fn a_backlog_leaves_no_sooner_than_the_bottleneck_forwards() {
        let now = work().now;
        let fast = SubflowView { cwnd: 40 * 1448, ssthresh: 0, capacity: 0, ..narrow(20, 1) };
        let time = |v: &SubflowView| finish(now, 50 * 1448, [*v].iter()) - arrival(now, v, v.mss);
        assert!((time(&fast) - 25.0 * MS).abs() < 1.0, "two a millisecond");
        let known = SubflowView { capacity: 1_448_000, ..fast };
        assert!((time(&known) - 50.0 * MS).abs() < 1.0);
    }

    #[test]
    fn what_is_overdue_takes_as_long_again() {
        let view = SubflowView { rttvar: Duration::from_millis(20), ..view(1, 100) };
        let now = work().now;
        let at = |ms: u64| remaining(now, Instant(now.0 - ms * 1_000_000), 1448, &view);
        let left = [30, 110, 120, 500].map(|ms| at(ms).0 / MS);
        assert_eq!(left, [70.0, 5.0, 120.0, 500.0]);
        assert_eq!(at(30).1, Some(Duration::from_millis(90)));
        assert_eq!(at(120).1, None);
    }

    #[test]
    fn the_end_of_a_queue_comes_last() {
        let loaded = SubflowView { latest_rtt: Duration::from_millis(90), ..narrow(90, 20) };
        let (now, sent_at) = (work().now, Instant(work().now.0 - 40_000_000));
        let left = |segments: u64| remaining(now, sent_at, segments * 1448, &loaded).0;
        assert_eq!([left(1), left(9)], [50.0 * MS, 180.0 * MS], "nine at 20 ms each");
    }
}
