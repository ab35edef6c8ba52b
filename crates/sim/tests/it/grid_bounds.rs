//! A small fixed part of the grid, with the default policies, on links of all five kinds: what a
//! bundle reaches there must not become worse than it was. `tabane sim grid` measures more.
//!
//! A bound is what was measured, less the slack beside it: results are the same on every machine,
//! so that slack is for changes that move single packets, not for chance. Who makes something
//! better raises its bound; who must lower one says why in the commit.
use std::num::NonZero;
use tabane_sim::grid::{self, Links, Point, PointResult, Settings};
use tabane_sim::sweep;

/// Points that take few packets to measure: slow paths beside fast ones, a shared link, losses.
const SEED: u64 = 811;
const POINTS: [u32; 4] = [0, 4, 13, 18];

/// Means over the points of a kind.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Download of the bundle, of that of the best path alone.
    goodput: f64,
    /// Median latency of requests, of that of the best path alone.
    request: f64,
    /// Download beside requests and a stream, of what links carry.
    loaded: f64,
    /// 95th percentile of requests beside a download, s.
    beside: f64,
}

/// What was measured, at best: what becomes a little worse each time is seen, too.
const MEASURED: [(Links, Figures); 5] = [
    (Links::Steady, Figures { goodput: 1.032, request: 0.832, loaded: 0.906, beside: 0.170 }),
    (Links::Bursty, Figures { goodput: 1.038, request: 0.844, loaded: 0.909, beside: 0.175 }),
    (Links::Varying, Figures { goodput: 1.017, request: 0.968, loaded: 0.832, beside: 0.214 }),
    (Links::Bloated, Figures { goodput: 1.034, request: 0.828, loaded: 0.909, beside: 0.163 }),
    (Links::Jittery, Figures { goodput: 1.043, request: 0.893, loaded: 0.900, beside: 0.154 }),
];

/// Share of goodput, and of latency, by which a figure may be worse: by so much they differ when
/// something changes that should not matter, as the order in which two packets leave.
const GOODPUT_SLACK: f64 = 0.03;
const LATENCY_SLACK: f64 = 0.10;

fn figures(results: &[PointResult]) -> Figures {
    let mean = |of: &dyn Fn(&PointResult) -> f64| {
        results.iter().map(of).sum::<f64>() / results.len() as f64
    };
    let loaded = |r: &PointResult| r.bonds[0].loaded.clone().unwrap();
    Figures {
        goodput: mean(&|r| {
            r.bonds[0].bulk_bps / r.alone.iter().map(|t| t.bulk_bps).fold(0.0, f64::max)
        }),
        request: mean(&|r| {
            let alone = r.alone.iter().filter_map(|t| t.request.as_ref()).map(|l| l.p50_s);
            r.bonds[0].request.as_ref().unwrap().p50_s / alone.fold(f64::MAX, f64::min)
        }),
        loaded: mean(&|r| loaded(r).bulk_bps / r.attainable_bps.unwrap()),
        beside: mean(&|r| loaded(r).request.unwrap().p95_s),
    }
}

#[test]
fn what_a_bundle_reaches_is_no_less_than_it_was() {
    let settings = Settings {
        schedulers: vec!["default".parse().unwrap()],
        congestion: None,
        alone_mptcp: false,
        loaded: true,
        again: false,
        repeat: NonZero::<u32>::MIN,
    };
    let of_kind = |(links, _)| POINTS.map(move |n| Point::generate(links, SEED, n));
    let points: Vec<Point> = MEASURED.into_iter().flat_map(of_kind).collect();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let measure = |point: &Point| grid::measure(point, &settings).unwrap();
    let results = sweep::each_on(jobs, &points, measure, |_, _| {});
    let mut worse = Vec::new();
    for ((links, known), results) in MEASURED.into_iter().zip(results.chunks(POINTS.len())) {
        let found = figures(results);
        println!("{links}: {found:.3?}");
        let goodputs = [(found.goodput, known.goodput), (found.loaded, known.loaded)];
        let latencies = [(found.request, known.request), (found.beside, known.beside)];
        let lower = goodputs.iter().any(|(now, then)| *now < then * (1.0 - GOODPUT_SLACK));
        let later = latencies.iter().any(|(now, then)| *now > then * (1.0 + LATENCY_SLACK));
        if lower || later {
            worse.push(format!("{links}: {found:.3?}, was {known:.3?}"));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
