//! The grid: the same points give the same results whoever measures them, and what it says holds.
#![allow(clippy::unwrap_used)]

use tabane_sim::grid::{self, Carrier, Point, Settings};
use tabane_sim::scenario::{Amount, Flow, Scenario};

fn settings(alone_mptcp: bool) -> Settings {
    let schedulers = ["minrtt", "necf"].map(|s| s.parse().unwrap()).to_vec();
    Settings { schedulers, congestion: None, alone_mptcp }
}

#[test]
fn a_point_gives_the_same_figures_again() {
    let point = Point::draw(1, 62);
    let first = grid::measure(&point, &settings(false)).unwrap();
    assert_eq!(first, grid::measure(&point, &settings(false)).unwrap());
    assert!(first.alone.iter().all(|t| t.bulk_bps <= first.bound_bps * 1.02), "{first:?}");
    let names: Vec<&str> = first.bundles.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["minrtt", "necf"]);
}

/// Three points on which the default of Linux loses to the best path alone: a narrow path with a
/// short round trip, and two with a long one. The forecast of `necf` must not.
#[test]
fn a_bundle_is_not_slower_than_the_best_of_its_paths() {
    let points = [9, 49, 62].map(|n| Point::draw(1, n));
    let measured = points.map(|p| grid::measure(&p, &settings(true)).unwrap());
    let summaries = grid::summarise(&measured);
    let (minrtt, necf) = (&summaries[0], &summaries[1]);
    assert!(minrtt.best.worst < 0.98 && minrtt.request_p95.worst > 5.0, "{minrtt:?}");
    assert!(necf.best.worst >= 0.98, "{:?}", necf.best);
    assert!(necf.request_median.worst <= 1.05, "{:?}", necf.request_median);
}

#[test]
fn points_are_scenarios_that_can_be_run_from_a_file() {
    for number in 0..50 {
        let point = Point::draw(5, number);
        let scheduler = "necf".parse().unwrap();
        let flow = Flow { bulk: Some(Amount::Unlimited), ..Flow::default() };
        let duration = tabane_engine::Duration::from_secs(1);
        let scenario = point.scenario(Carrier::Bundle(&scheduler), None, flow, duration);
        let read = Scenario::parse("point.toml", &scenario.to_toml()).unwrap();
        assert_eq!(read.link, scenario.link);
        assert_eq!(read.path, scenario.path);
    }
}
