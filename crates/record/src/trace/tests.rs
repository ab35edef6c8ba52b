//! From rows of a path to rates, delays, losses, queues and outages.

use super::*;

/// A path that is sampled each tick: bytes, queue (ms), lost.
fn rows(ticks: impl IntoIterator<Item = (u64, u32, u32)>) -> Vec<PathRow> {
    let row = |(n, (bytes, queue_ms, lost)): (usize, (u64, u32, u32))| {
        let down = DirectionRow {
            bytes,
            packets: (bytes / 1400) as u32,
            lost,
            queue_us: (bytes > 0).then_some(queue_ms * 1000),
            exercised: queue_ms > 0,
            ..DirectionRow::default()
        };
        PathRow {
            unix_ms: 1_000_000 + (n as u64 + 1) * 100,
            lasts_ms: 100,
            path: "wifi".into(),
            up: true,
            waits: true,
            using: Default::default(),
            rtt_us: (bytes > 0).then_some(40_000 + queue_ms * 1000),
            directions: [DirectionRow::default(), down],
        }
    };
    ticks.into_iter().enumerate().map(row).collect()
}

fn trace(rows: &[PathRow], seconds: u64) -> Trace {
    let rows: Vec<&PathRow> = rows.iter().collect();
    Trace::of(&rows, DOWN, (1_000_000, 1_000_000 + seconds * 1000), 0.0).unwrap()
}

fn at(trace: &Trace, ms: u64) -> Step {
    *trace.steps.iter().rev().find(|step| step.at_ms <= ms).unwrap()
}

#[test]
fn what_was_exercised_is_seen_and_the_rest_is_interpolated() {
    // 10 Mbit/s for 2 s with a queue, a trickle for 2 s without, 20 Mbit/s for 2 s with a queue.
    let ticks = (0..60).map(|n| match n {
        0..20 => (125_000, 20, 0),
        20..40 => (2_000, 0, 0),
        _ => (250_000, 20, 0),
    });
    let trace = trace(&rows(ticks), 10);
    assert_eq!(at(&trace, 1_000).rate_bps, 10e6);
    assert_eq!(at(&trace, 5_000).rate_bps, 20e6);
    let between = at(&trace, 3_000).rate_bps;
    assert!((13e6..17e6).contains(&between), "{between}");
    assert_eq!(at(&trace, 9_000).rate_bps, 20e6, "the last that was seen");
    assert!((at(&trace, 1_000).delay_us - 20_000.0).abs() < 1.0);
    assert!((0.49..0.51).contains(&trace.seen), "{}", trace.seen);
    let unseen: u64 = trace.unseen.iter().map(|unseen| unseen.to_ms - unseen.from_ms).sum();
    assert_eq!(unseen, ((1.0 - trace.seen) * 10_000.0).round() as u64);
    let csv = trace.to_csv();
    let read = unseen_in(&csv);
    assert_eq!(read.len(), trace.unseen.len());
    assert!(read.iter().zip(&trace.unseen).all(|(a, b)| a.from_ms == b.from_ms));
}

#[test]
fn losses_of_a_full_queue_are_the_queues() {
    // The queue fills and overflows at 200 ms; earlier, with a short queue, chance takes some.
    let ticks = (0..100).map(|n| match n % 20 {
        5 => (125_000, 10, 3),
        19 => (125_000, 200, 9),
        n => (125_000, 10 * n, 0),
    });
    let trace = trace(&rows(ticks), 10);
    assert!(trace.queue_seen);
    let bytes = 0.2 * 10e6 / 8.0;
    assert!((trace.queue as f64 / bytes - 1.0).abs() < 0.05, "{}", trace.queue);
    let by_chance = at(&trace, 550).loss;
    assert!((by_chance - 3.0 / 92.0).abs() < 1e-3, "{by_chance}");
    assert_eq!(at(&trace, 1_950).loss, 0.0);
}

#[test]
fn an_outage_loses_or_holds_what_the_next_count_says() {
    let outage = |lost: u32| {
        let ticks = (0..30).map(|n| match n {
            10..20 => (0, 0, 0),
            20 => (125_000, 20, lost),
            _ => (125_000, 20, 0),
        });
        trace(&rows(ticks), 3)
    };
    assert_eq!(at(&outage(0), 1_500).rate_bps, 0.0);
    let lost = at(&outage(600), 1_500);
    assert_eq!((lost.loss, lost.rate_bps), (1.0, 10e6));
}

#[test]
fn a_path_that_was_never_exercised_is_not_seen() {
    let trace = trace(&rows((0..50).map(|_| (10_000, 0, 0))), 5);
    assert_eq!(trace.seen, 0.0);
    assert!(!trace.queue_seen);
    assert_eq!(trace.unseen.len(), 1);
    assert!(trace.unseen[0].sd >= 0.7);
    assert_eq!(at(&trace, 2_000).rate_bps, 800_000.0);
}

#[test]
fn a_direction_of_acknowledgements_is_no_bottleneck() {
    let mut rows = rows((0..50).map(|_| (125_000, 20, 0)));
    rows.iter_mut().for_each(|row| row.directions[0].bytes = 2_000);
    let rows: Vec<&PathRow> = rows.iter().collect();
    let [up, down] = Trace::both(&rows, (1_000_000, 1_005_000)).unwrap();
    assert!(up.blind && up.seen == 0.0 && !down.blind);
    assert_eq!((at(&up, 2_000).rate_bps, at(&down, 2_000).rate_bps), (10e6, 10e6));
}
