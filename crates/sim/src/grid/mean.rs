//! One result of several that differ by luck.

use super::{Loaded, PointResult, Trial};
use crate::result::LatencyResult;

/// Means of all figures; costs are added. `None` of none. All are of one point, with the same
/// contenders in the same order.
pub(super) fn of(results: Vec<PointResult>) -> Option<PointResult> {
    let trials = |of: fn(&PointResult) -> &Vec<Trial>| -> Vec<Trial> {
        let count = results.first().map_or(0, |first| of(first).len());
        (0..count).filter_map(|n| trial(results.iter().map(|r| &of(r)[n]).collect())).collect()
    };
    let figure = |of: fn(&PointResult) -> f64| mean(results.iter().map(of));
    let attainable: Option<Vec<f64>> = results.iter().map(|r| r.attainable_bps).collect();
    let first = results.first()?;
    Some(PointResult {
        point: first.point.clone(),
        bound_bps: first.bound_bps,
        attainable_bps: attainable.map(|all| mean(all.into_iter())),
        alone_bps: figure(|r| r.alone_bps),
        bulk_bytes: figure(|r| r.bulk_bytes as f64) as u64,
        alone: trials(|r| &r.alone),
        again: trials(|r| &r.again),
        bonds: trials(|r| &r.bonds),
        cost: results.iter().map(|r| r.cost).sum(),
    })
}

fn trial(of: Vec<&Trial>) -> Option<Trial> {
    let loaded: Option<Vec<&Loaded>> = of.iter().map(|t| t.loaded.as_ref()).collect();
    Some(Trial {
        name: of.first()?.name.clone(),
        bulk_bps: mean(of.iter().map(|t| t.bulk_bps)),
        request: latency(of.iter().map(|t| t.request.as_ref())),
        stream: latency(of.iter().map(|t| t.stream.as_ref())),
        loaded: loaded.map(|of| Loaded {
            bulk_bps: mean(of.iter().map(|l| l.bulk_bps)),
            stall_s: mean(of.iter().map(|l| l.stall_s)),
            request: latency(of.iter().map(|l| l.request.as_ref())),
            stream: latency(of.iter().map(|l| l.stream.as_ref())),
        }),
    })
}

/// `None` where one of them has none: a mean of what was answered would be too good.
fn latency<'a>(of: impl Iterator<Item = Option<&'a LatencyResult>>) -> Option<LatencyResult> {
    let all: Vec<&LatencyResult> = of.collect::<Option<_>>()?;
    let figure = |of: fn(&LatencyResult) -> f64| mean(all.iter().map(|l| of(l)));
    Some(LatencyResult {
        count: all.iter().map(|l| l.count).sum(),
        mean_s: figure(|l| l.mean_s),
        p50_s: figure(|l| l.p50_s),
        p95_s: figure(|l| l.p95_s),
        p99_s: figure(|l| l.p99_s),
        max_s: all.iter().map(|l| l.max_s).fold(0.0, f64::max),
    })
}

/// Of one value it is that value, to the bit.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}
