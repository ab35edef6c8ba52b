//! The grid: the same points give the same results whoever measures them, and what it says holds.
use std::collections::BTreeSet;
use std::num::NonZero;
use tabane_config::quantity::Time;
use tabane_engine::Duration;
use tabane_engine::record::{Record, What};
use tabane_sim::grid::{self, AGAIN, Contender, Links, Point, PointResult, Settings};
use tabane_sim::observe::{HostIdx, Observer, Wants};
use tabane_sim::scenario::{Amount, Flow, Request, Scenario};

fn settings(alone_mptcp: bool) -> Settings {
    let schedulers = ["minrtt", "necf"].map(|s| s.parse().unwrap()).to_vec();
    let repeat = NonZero::<u32>::MIN;
    Settings { schedulers, congestion: None, alone_mptcp, loaded: false, again: false, repeat }
}

#[test]
fn a_point_gives_the_same_figures_again() {
    let point = Point::generate(Links::Steady, 1, 62);
    let first = grid::measure(&point, &settings(false)).unwrap();
    assert_eq!(first, grid::measure(&point, &settings(false)).unwrap());
    assert!(first.alone.iter().all(|t| t.bulk_bps <= first.bound_bps * 1.02), "{first:?}");
    let names: Vec<&str> = first.bonds.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["minrtt", "necf"]);
}

/// Runs that differ by luck are averaged: where there is none, nothing changes.
#[test]
fn figures_of_several_runs_are_means() {
    let several = Settings { repeat: NonZero::new(3).unwrap(), ..settings(false) };
    for number in [2, 62] {
        let point = Point::generate(Links::Steady, 1, number);
        let once = grid::measure(&point, &settings(false)).unwrap();
        let means = grid::measure(&point, &several).unwrap();
        assert_eq!(means.cost.runs, 3 * once.cost.runs);
        for ((path, once), mean) in point.paths.iter().zip(&once.alone).zip(&means.alone) {
            let off = (mean.bulk_bps / once.bulk_bps - 1.0).abs();
            assert_eq!(path.loss == 0.0, off < 1e-12, "{path:?}: {off}");
            assert!(off < 0.2, "{path:?}: {off}");
        }
    }
}

/// Luck is other losses, and nothing else.
#[test]
fn a_path_alone_again_differs_where_losses_are_random() {
    let settings = Settings { again: true, ..settings(false) };
    let results = [2, 62].map(|number| {
        let point = Point::generate(Links::Steady, 1, number);
        grid::measure(&point, &settings).unwrap()
    });
    for result in &results {
        for ((path, first), again) in
            result.point.paths.iter().zip(&result.alone).zip(&result.again)
        {
            assert_eq!(path.loss == 0.0, first == again, "{path:?}");
        }
    }
    let lossy = |result: &PointResult| result.point.paths.iter().any(|path| path.loss > 0.0);
    assert!(results.iter().any(lossy));
    let names: Vec<_> = grid::summarise(&results).into_iter().map(|s| s.scheduler).collect();
    assert_eq!(names, ["minrtt", "necf", AGAIN]);
}

/// Three points on which a bundle easily loses to the best path alone: a path with a long round
/// trip that is slow or lossy, beside a short one, twice behind a shared link. (The default of
/// Linux did as long as recoveries were undone for what the one before had sent again.)
#[test]
fn a_bundle_is_not_slower_than_the_best_of_its_paths() {
    let points = [34, 48, 49].map(|n| Point::generate(Links::Steady, 1, n));
    let measured = points.map(|p| grid::measure(&p, &settings(true)).unwrap());
    let summaries = grid::summarise(&measured);
    let necf = &summaries[1];
    assert!(necf.best.worst >= 0.98, "{:?}", necf.best);
    assert!(necf.request_median.worst <= 1.05, "{:?}", necf.request_median);
}

#[test]
fn points_are_scenarios_that_can_be_run_from_a_file() {
    for number in 0..50 {
        let point = Point::generate(Links::Steady, 5, number);
        let scheduler = "necf".parse().unwrap();
        let flow = Flow { bulk: Some(Amount::Unlimited), ..Flow::default() };
        let duration = tabane_engine::Duration::from_secs(1);
        let scenario = point.scenario(Contender::AllPaths(&scheduler), None, flow, duration);
        let read = Scenario::parse("point.toml", &scenario.to_toml()).unwrap();
        assert_eq!(read.link, scenario.link);
        assert_eq!(read.path, scenario.path);
    }
}

/// What is sent for the first time by each subflow.
#[derive(Default)]
struct Carried {
    first: BTreeSet<(HostIdx, u8, u64)>,
    again: Vec<(f64, u8, u64)>,
    reinjected: u32,
}

impl Observer for Carried {
    fn wants(&self) -> Wants {
        Wants { records: true, ..Wants::default() }
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        let Some(subflow) = record.subflow else { return };
        match record.what {
            What::Reinjected { .. } => self.reinjected += 1,
            What::Sent { dsn: Some(dsn), retransmission: false, .. }
                if !self.first.insert((host, subflow.0, dsn.0)) =>
            {
                self.again.push((record.at.as_secs_f64(), subflow.0, dsn.0));
            }
            _ => {}
        }
    }
}

/// Two paths without loss, 18 and 99 Mbit/s, and requests: what is reinjected goes where it is not
/// in flight already. (It went there when the subflow that it was meant for had no room left.)
#[test]
fn what_is_reinjected_goes_by_a_subflow_that_has_not_carried_it() {
    let request =
        Request { think: Time(Duration::from_millis(100)), count: Some(20), ..Request::default() };
    let flow = Flow { request: Some(request), ..Flow::default() };
    let scheduler = "necf".parse().unwrap();
    let contender = Contender::AllPaths(&scheduler);
    let scenario = Point::generate(Links::Steady, 5, 4).scenario(
        contender,
        None,
        flow,
        Duration::from_secs(20),
    );
    let mut carried = Carried::default();
    tabane_sim::run(&scenario.compile().unwrap(), &mut carried).unwrap();
    assert!(carried.reinjected > 0);
    assert_eq!(carried.again, []);
}

/// Points of every kind: what is carried is no more than what was attainable, everything at once is
/// measured for every contender, and the same again gives the same.
#[test]
fn every_kind_of_links_is_measured_under_load() {
    for links in Links::TURN {
        let point = Point::generate(links, 2, 4);
        let schedulers = vec!["necf".parse().unwrap()];
        let settings = Settings { schedulers, loaded: true, ..settings(false) };
        let result = grid::measure(&point, &settings).unwrap();
        if links == Links::Varying {
            assert_eq!(result, grid::measure(&point, &settings).unwrap());
        }
        let attainable = result.attainable_bps.expect("under load");
        for trial in result.alone.iter().chain(&result.bonds) {
            let loaded = trial.loaded.as_ref().expect("under load");
            assert!((0.0..attainable * 1.05).contains(&loaded.bulk_bps), "{links}: {loaded:?}");
            assert!(loaded.stream.is_some() && loaded.stall_s > 0.0, "{links}: {loaded:?}");
        }
        let summary = &grid::summarise(&[result])[0];
        let loaded = summary.loaded.as_ref().expect("under load");
        assert!(loaded.attainable.median > 0.05 && loaded.stream_p50.median_s > 0.0, "{loaded:?}");
    }
}
