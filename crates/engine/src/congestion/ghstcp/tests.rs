//! The two detectors, on RTTs made by hand.

use super::*;

fn trend() -> Detector {
    Detector::new(&Values::defaults(PARAMS))
}

fn thresholds() -> Detector {
    let spec: crate::policy::Spec = "ghstcp:variant=1".parse().unwrap();
    Detector::new(&crate::congestion::REGISTRY.find(&spec).unwrap().1)
}

/// Windows of `n` samples in 40 ms each; RTTs in us by sample number. The verdicts.
fn windows(detector: &mut Detector, count: u64, n: u64, rtt: impl Fn(u64) -> u64) -> Vec<char> {
    let mut verdicts = Vec::new();
    for window in 0..count {
        for i in 0..n {
            let at = window * 40_000 + i * 40_000 / n;
            detector.add(
                Instant(at * 1000) + Duration::from_secs(1_000_000),
                Duration::from_micros(rtt(window * n + i)),
            );
        }
        verdicts.push(match detector.end_of_window() {
            Some(true) => 'r',
            Some(false) => 'h',
            None => '-',
        });
    }
    verdicts
}

fn text(verdicts: &[char]) -> String {
    verdicts.iter().collect()
}

#[test]
fn a_rising_trend_is_congestion_and_a_flat_or_falling_one_is_not() {
    // 30 us a sample, with noise of 20 us that alternates: far beyond a millisecond in all.
    let noisy = |i: u64| 40_000 + 30 * i + 20 * (i % 2);
    assert_eq!(text(&windows(&mut trend(), 4, 100, noisy)), "rrrr");
    assert_eq!(text(&windows(&mut trend(), 4, 100, |i| 40_000 + 20 * (i % 2))), "hhhh");
    assert_eq!(text(&windows(&mut trend(), 4, 100, |i| 60_000 - 30 * i)), "hhhh");
    // A rise within the resolution says nothing: neither congested nor not.
    assert_eq!(text(&windows(&mut trend(), 2, 100, |i| 40_000 + i / 10)), "--");
    // Too few samples say nothing.
    assert_eq!(text(&windows(&mut trend(), 2, 3, |i| 40_000 + 1000 * i)), "--");
}

#[test]
fn thinning_keeps_the_whole_window() {
    let mut points = Points::default();
    for i in 0..10_000 {
        points.add(Instant(i * 1000), Duration(i));
    }
    assert!(points.len > Points::LIMIT / 2 - 1 && points.len <= Points::LIMIT);
    let kept = &points.kept[..points.len];
    let gaps: Vec<u64> = kept.windows(2).map(|w| w[1].0.0 - w[0].0.0).collect();
    assert!(gaps.iter().all(|g| *g == gaps[0]), "{gaps:?}");
    assert!(kept[points.len - 1].0.0 > 9_000_000, "{kept:?}");
}

/// RTTs between 20 and 30 ms: congested from 25 ms on, no more below 22.5 ms.
#[test]
fn thresholds_look_at_the_share_of_the_range() {
    let mut d = thresholds();
    d.add(Instant::ZERO, Duration::from_millis(30));
    assert_eq!(text(&windows(&mut d, 1, 50, |_| 20_000)), "h");
    assert_eq!(text(&windows(&mut d, 1, 50, |_| 24_000)), "-");
    assert_eq!(text(&windows(&mut d, 1, 50, |_| 26_000)), "r");
    assert_eq!(text(&windows(&mut d, 1, 50, |_| 24_000)), "-");
    assert_eq!(text(&windows(&mut d, 1, 50, |_| 21_000)), "h");
    // A range of 2 ms or less means nothing.
    assert_eq!(text(&windows(&mut thresholds(), 2, 50, |i| 20_000 + 30 * i)), "hr");
}
