//! Two ends that report to each other, without a link between them.

use super::*;
use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use proptest::prelude::*;

fn pair(family: usize) -> [Reports; 2] {
    let network = Network::default();
    let path = network.path(ClientNumber(3), PathIndex::new(1))[family];
    let ends = Ends { path, service: network.service()[family] };
    let mut both = [Reports::new(ends, false, 5), Reports::new(ends, true, 6)];
    both.iter_mut().for_each(|reports| reports.set_known(true));
    both
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn count(packets: u64) -> Count {
    Count { packets, bytes: packets * 1_000 }
}

/// Sends what is due of one end to the other, which has received everything.
fn exchange(now: Instant, reports: &mut [Reports; 2], from: usize, sent: Count) -> bool {
    let mut buffer = [0; 200];
    // It leaves at a time of its own.
    let late = now + INTERVAL / 2;
    let first = reports[from].poll(now, sent, &mut buffer);
    let Some(len) = first.or_else(|| reports[from].poll(late, sent, &mut buffer)) else {
        return false;
    };
    let Count { packets, bytes } = sent;
    let received = Count { packets: packets + 1, bytes: bytes + len as u64 };
    assert!(reports[1 - from].handle_packet(now, &buffer[..len], received));
    true
}

#[test]
fn a_report_says_what_the_far_end_has_counted() {
    for family in [0, 1] {
        let mut reports = pair(family);
        for round in 1..40 {
            let now = at(round * 100);
            assert!(exchange(now, &mut reports, 0, count(round * 50)));
            assert!(exchange(now, &mut reports, 1, count(0)), "it was asked for");
            assert!(!exchange(now, &mut reports, 1, count(0)), "and is sent once");
        }
        let now = at(4_000);
        for estimate in [reports[0].sending(now), reports[1].receiving(now)] {
            assert_eq!(estimate.loss, Some(0.0));
            assert_eq!(estimate.delivery_rate, Some(4_000_000));
        }
    }
}

#[test]
fn markers_are_frequent_where_it_is_not_known_what_a_path_carries() {
    for hurried in [false, true] {
        let (mut reports, mut buffer) = (pair(0), [0; 200]);
        reports[0].set_hurried(hurried);
        let mut rounds = 0;
        // 40 Mbit/s for a second.
        for ms in 1..=1000 {
            let sent = count(ms * 5);
            let Some(len) = reports[0].poll(at(ms), sent, &mut buffer) else { continue };
            let received = Count { packets: sent.packets + 1, bytes: sent.bytes + len as u64 };
            assert!(reports[1].handle_packet(at(ms), &buffer[..len], received));
            let Some(len) = reports[1].poll(at(ms), count(0), &mut buffer) else { continue };
            assert!(reports[0].handle_packet(at(ms), &buffer[..len], count(1)));
            rounds += 1;
        }
        let expected = if hurried { 190..=200 } else { 10..=25 };
        assert!(expected.contains(&rounds), "{hurried}: {rounds} round trips");
    }
}

#[test]
fn a_path_that_was_never_busy_says_how_long_it_is_when_it_is_wanted() {
    let mut reports = pair(0);
    assert!(!exchange(at(1_000), &mut reports, 1, count(1)));
    reports[1].ask();
    assert!(reports[1].poll_timeout().is_some_and(|due| due <= at(1_000)));
    assert!(exchange(at(1_000), &mut reports, 1, count(1)));
    assert!(exchange(at(1_001), &mut reports, 0, count(1)), "it was asked for");
    let News { sent, .. } = reports[1].take_news();
    assert_eq!(sent.map(|sample| sample.sent.at_us), Some(1_000_000));
}

#[test]
fn who_does_not_know_reports_gets_none() {
    let mut reports = pair(0);
    reports[0].set_known(false);
    assert!(!exchange(at(100), &mut reports, 0, count(50)));
    assert_eq!(reports[0].poll_timeout(), None);
}

#[test]
fn only_what_is_worth_it_is_reported() {
    let mut reports = pair(0);
    assert!(!exchange(at(100), &mut reports, 0, count(4)));
    assert!(exchange(at(200), &mut reports, 0, count(5)));
    let mut buffer = [0; 200];
    assert_eq!(reports[0].poll(at(230), count(30), &mut buffer), None, "so soon");
    // What follows a load.
    let mut markers = 0;
    for ms in 231..2_000 {
        markers += usize::from(reports[0].poll(at(ms), count(30), &mut buffer).is_some());
    }
    assert_eq!(markers, 4);
    assert_eq!(reports[0].poll_timeout(), None);
}

/// 200 bytes each 20 ms, a call for instance: while it goes on there is nothing behind it.
#[test]
fn what_follows_a_load_waits_for_its_end() {
    let (mut reports, mut buffer) = (pair(0), [0; 200]);
    let mut markers = [0; 2];
    for ms in 0..6_000 {
        let packets = (ms / 20).min(150);
        let sent = Count { packets, bytes: packets * 200 };
        let after = usize::from(ms >= 3_000);
        markers[after] += usize::from(reports[0].poll(at(ms), sent, &mut buffer).is_some());
    }
    assert_eq!(markers, [6, 1], "one each 4720 bytes, and one behind the last");
}

/// An end that was started again counts anew, and that is neither loss nor speed.
#[test]
fn counters_may_begin_anew() {
    let mut reports = pair(0);
    for round in 1..20 {
        exchange(at(round * 100), &mut reports, 0, count(round * 50));
        exchange(at(round * 100), &mut reports, 1, count(0));
    }
    reports[0].restart();
    for round in 20..40 {
        exchange(at(round * 100), &mut reports, 0, count((round - 19) * 50));
        exchange(at(round * 100), &mut reports, 1, count(0));
    }
    for estimate in [reports[0].sending(at(4_000)), reports[1].receiving(at(4_000))] {
        assert_eq!((estimate.loss, estimate.delivery_rate), (Some(0.0), Some(4_000_000)));
    }
}

proptest! {
    /// Whatever comes, nothing breaks, and estimates are numbers.
    #[test]
    fn anything_may_come(
        readings in prop::collection::vec(any::<[u64; 6]>(), 1..40),
        flip in any::<u16>(),
    ) {
        let mut reports = pair(0);
        let mut buffer = [0; 200];
        for [ms, packets, bytes, far_ms, far_packets, far_bytes] in readings {
            let (mask, sent) = ((1 << 40) - 1, Count { packets, bytes });
            let Some(len) = reports[0].poll(at(ms & mask), sent, &mut buffer) else { continue };
            let received = Count { packets: far_packets, bytes: far_bytes };
            reports[1].handle_packet(at(far_ms & mask), &buffer[..len], received);
            exchange(at(far_ms & mask), &mut reports, 1, count(far_packets % 1_000));
            buffer[usize::from(flip) % len] ^= 1;
            prop_assert!(!reports[1].handle_packet(at(ms & mask), &buffer[..len], received));
            for estimate in [reports[0].sending(at(ms & mask)), reports[1].receiving(at(0))] {
                prop_assert!(estimate.confidence.is_finite());
                prop_assert!(estimate.loss.is_none_or(|loss| (0.0..=1.0).contains(&loss)));
            }
        }
    }
}
