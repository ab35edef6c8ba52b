//! What a grid says about a scheduler.

use super::{PointResult, Trial};
use crate::result::LatencyResult;
use serde::Serialize;

/// A scheduler over all points.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
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

/// One summary a scheduler, in their order.
pub fn summarise(results: &[PointResult]) -> Vec<Summary> {
    let count = results.first().map_or(0, |r| r.bonds.len());
    (0..count).map(|n| summary(results, n)).collect()
}

fn summary(results: &[PointResult], n: usize) -> Summary {
    let goodput = |limit: f64, base: fn(&PointResult) -> f64| {
        let ratio = |r: &PointResult| (r.bonds[n].bulk_bps / base(r), r.point.number);
        ratios(results.iter().map(ratio).collect(), |x| x < limit, true)
    };
    let latency = |of: fn(&Trial) -> Option<&LatencyResult>, figure: fn(&LatencyResult) -> f64| {
        let ratio = |r: &PointResult| {
            let best = r.alone.iter().filter_map(of).map(figure).fold(f64::INFINITY, f64::min);
            let own = of(&r.bonds[n]).map_or(f64::INFINITY, figure);
            (own / best, r.point.number)
        };
        // Where not even the best path answered there is nothing to compare.
        let ratios_of = results.iter().map(ratio).filter(|(x, _)| !x.is_nan()).collect();
        ratios(ratios_of, |x| x > 1.05, false)
    };
    Summary {
        scheduler: results[0].bonds[n].name.clone(),
        best: goodput(0.98, best_alone),
        bound: goodput(0.95, |r| r.bound_bps),
        alone: goodput(0.95, |r| r.alone_bps),
        request_median: latency(|t| t.request.as_ref(), |l| l.p50_s),
        request_p95: latency(|t| t.request.as_ref(), |l| l.p95_s),
        stream_p95: latency(|t| t.stream.as_ref(), |l| l.p95_s),
    }
}

/// The best path alone, bulk.
fn best_alone(result: &PointResult) -> f64 {
    result.alone.iter().map(|t| t.bulk_bps).fold(0.0, f64::max)
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
