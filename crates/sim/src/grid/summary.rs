//! What a grid says about a scheduler.

use super::{Loaded, PointResult, Trial};
use crate::result::LatencyResult;
use serde::Serialize;

/// A scheduler over all points.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Its name, or [`AGAIN`].
    pub scheduler: String,
    /// Bulk goodput against the best path alone; bad below 0.98.
    pub best: Ratios,
    /// Against the sum of the bounds of distinct bottlenecks; bad below 0.95.
    pub bound: Ratios,
    /// Against what the paths alone reached together; bad below 0.95.
    pub alone: Ratios,
    /// Median latency of requests against that of the best path; bad above 1.05.
    pub request_median: Ratios,
    /// The same of the 95th percentile.
    pub request_p95: Ratios,
    /// The same of messages of the paced stream.
    pub stream_p95: Ratios,
    /// Everything at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<LoadedSummary>,
}

/// A scheduler with a download, requests and a stream at once.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadedSummary {
    /// Goodput of the download against what links carry; bad below 0.9.
    pub attainable: Ratios,
    /// Latencies and the longest stall of the download, seconds.
    pub request_p50: Spread,
    pub request_p95: Spread,
    pub stream_p50: Spread,
    pub stream_p95: Spread,
    pub stall: Spread,
}

/// A figure over all points, seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    pub median_s: f64,
    /// 95 % of the points have less.
    pub p95_s: f64,
    pub worst_s: f64,
    /// Number of the point that has it.
    pub worst_point: u32,
    /// Share of points at which it is more than 1.05 times that of the best path alone.
    pub above_best: f64,
}

/// Ratios over all points: good ones are high for goodput and low for latency.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Ratios {
    /// Share of points that are bad.
    pub bad: f64,
    pub worst: f64,
    /// Number of the point that has it.
    pub worst_point: u32,
    /// Worse than 95 % of the points.
    pub tail: f64,
    pub median: f64,
}

/// In place of a scheduler: the path that is best in the respect that is asked for, alone, once
/// more with other random numbers. What is bad there is so by luck.
pub const AGAIN: &str = "best path again";

/// One summary a scheduler, in their order, and that of [`AGAIN`] if it was measured.
pub fn summarise(results: &[PointResult]) -> Vec<Summary> {
    let Some(first) = results.first() else { return Vec::new() };
    let again = results.iter().all(|r| !r.again.is_empty()).then_some(Who::Again);
    let bonds = (0..first.bonds.len()).map(Who::Bond);
    bonds.chain(again).map(|who| summary(results, who)).collect()
}

/// Whose figures.
#[derive(Clone, Copy)]
enum Who {
    Bond(usize),
    Again,
}

impl Who {
    /// What is least for the best path alone, and what it is here.
    fn figures(self, result: &PointResult, figure: impl Fn(&Trial) -> f64) -> (f64, f64) {
        let of = |trials: &[Trial]| trials.iter().map(&figure).collect::<Vec<_>>();
        let alone = of(&result.alone).into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let (at, best) = alone.unwrap_or((0, f64::INFINITY));
        let own = match self {
            Self::Bond(n) => result.bonds.get(n),
            Self::Again => result.again.get(at),
        };
        (best, own.map_or(f64::INFINITY, figure))
    }

    /// A download, bits per second: of the best path alone, and here.
    fn goodput(self, result: &PointResult) -> (f64, f64) {
        let (best, own) = self.figures(result, |trial| -trial.bulk_bps);
        (-best, -own)
    }

    fn name(self, results: &[PointResult]) -> String {
        let bond = |n: usize| results.first().and_then(|r| r.bonds.get(n));
        match self {
            Self::Bond(n) => bond(n).map(|trial| trial.name.clone()).unwrap_or_default(),
            Self::Again => AGAIN.to_owned(),
        }
    }
}

fn summary(results: &[PointResult], who: Who) -> Summary {
    let goodput = |limit: f64, base: &dyn Fn(&PointResult) -> f64| {
        let ratio = |r: &PointResult| (who.goodput(r).1 / base(r), r.point.number);
        ratios(results.iter().map(ratio).collect(), |x| x < limit, true)
    };
    let latency = |of: fn(&Trial) -> Option<&LatencyResult>, figure: fn(&LatencyResult) -> f64| {
        let ratio = |r: &PointResult| {
            let (best, own) = who.figures(r, |t| of(t).map_or(f64::INFINITY, figure));
            (own / best, r.point.number)
        };
        // Where not even the best path answered there is nothing to compare.
        let ratios_of = results.iter().map(ratio).filter(|(x, _)| !x.is_nan()).collect();
        ratios(ratios_of, |x| x > 1.05, false)
    };
    Summary {
        scheduler: who.name(results),
        best: goodput(0.98, &|r| who.goodput(r).0),
        bound: goodput(0.95, &|r| r.bound_bps),
        alone: goodput(0.95, &|r| r.alone_bps),
        request_median: latency(|t| t.request.as_ref(), |l| l.p50_s),
        request_p95: latency(|t| t.request.as_ref(), |l| l.p95_s),
        stream_p95: latency(|t| t.stream.as_ref(), |l| l.p95_s),
        loaded: results.iter().all(|r| r.attainable_bps.is_some()).then(|| loaded(results, who)),
    }
}

fn loaded(results: &[PointResult], who: Who) -> LoadedSummary {
    let bulk = |trial: &Trial| trial.loaded.as_ref().map_or(0.0, |loaded| loaded.bulk_bps);
    let ratio = |r: &PointResult| {
        let (_, least) = who.figures(r, |trial| -bulk(trial));
        (-least / r.attainable_bps.unwrap_or(f64::NAN), r.point.number)
    };
    let spread = |figure: &dyn Fn(&Loaded) -> Option<f64>| {
        // Without an answer it is without end.
        let of = |trial: &Trial| trial.loaded.as_ref().and_then(figure).unwrap_or(f64::INFINITY);
        let both = results.iter().map(|r| (who.figures(r, of), r.point.number));
        let above = both.clone().filter(|((best, own), _)| *own > 1.05 * best).count();
        let above = above as f64 / results.len() as f64;
        let values = both.map(|((_, own), number)| (own, number)).collect();
        let Ratios { worst, worst_point, tail, median, .. } = ratios(values, |_| false, false);
        Spread { median_s: median, p95_s: tail, worst_s: worst, worst_point, above_best: above }
    };
    LoadedSummary {
        attainable: ratios(results.iter().map(ratio).collect(), |x| x < 0.9, true),
        request_p50: spread(&|l| l.request.as_ref().map(|r| r.p50_s)),
        request_p95: spread(&|l| l.request.as_ref().map(|r| r.p95_s)),
        stream_p50: spread(&|l| l.stream.as_ref().map(|r| r.p50_s)),
        stream_p95: spread(&|l| l.stream.as_ref().map(|r| r.p95_s)),
        stall: spread(&|l| Some(l.stall_s)),
    }
}

/// `values` with the numbers of their points; `high`: high is good.
fn ratios(mut values: Vec<(f64, u32)>, bad: impl Fn(f64) -> bool, high: bool) -> Ratios {
    values.sort_by(|a, b| if high { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) });
    let Some(&(worst, worst_point)) = values.first() else { return Ratios::default() };
    let count = values.len() as f64;
    // Nearest rank, from the bad end.
    let rank = |share: f64| values[(share * count).ceil().max(1.0) as usize - 1].0;
    Ratios {
        bad: values.iter().filter(|(x, _)| bad(*x)).count() as f64 / count,
        worst,
        worst_point,
        tail: rank(0.05),
        median: rank(0.5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_count_from_the_bad_end() {
        let values: Vec<(f64, u32)> = (1..=100).map(|n| (f64::from(n) / 100.0, n)).collect();
        let goodput = ratios(values.clone(), |x| x < 0.98, true);
        assert_eq!((goodput.bad, goodput.worst, goodput.worst_point), (0.97, 0.01, 1));
        assert_eq!((goodput.tail, goodput.median), (0.05, 0.5));
        let latency = ratios(values, |x| x > 0.95, false);
        assert_eq!((latency.bad, latency.worst_point), (0.05, 100));
        assert_eq!((latency.tail, latency.median), (0.96, 0.51));
    }
}
