//! What the grid says of a download, requests and a stream at once.

use crate::cmd::sim::table::{empty, right};
use crate::units::{rate, time};
use comfy_table::{Cell, Table};
use tabane_sim::grid::{LoadedSummary, PointResult, Spread, Summary, Trial};
use tabane_sim::result::LatencyResult;

/// Columns of `points.csv`.
pub(super) const COLUMNS: &str = ",links,attainable_bps,loaded_bulk_bps,loaded_stall_s,\
     loaded_request_p50_s,loaded_request_p95_s,loaded_stream_p50_s,loaded_stream_p95_s";

/// A row of them; nothing if nothing was measured.
pub(super) fn cells(result: &PointResult, trial: &Trial) -> String {
    let (Some(attainable), Some(loaded)) = (result.attainable_bps, &trial.loaded) else {
        return String::new();
    };
    let quantiles = |latency: &Option<LatencyResult>| match latency {
        Some(latency) => format!("{},{}", latency.p50_s, latency.p95_s),
        None => ",".to_owned(),
    };
    let (bulk, stall) = (loaded.bulk_bps, loaded.stall_s);
    let (request, stream) = (quantiles(&loaded.request), quantiles(&loaded.stream));
    format!(",{},{attainable},{bulk},{stall},{request},{stream}", result.point.links)
}

/// Schedulers as rows.
pub(super) fn table(summaries: &[Summary]) -> Table {
    let mut table = empty(&[
        "under load",
        "below 90 %\nof attainable",
        "median, p5,\nworst (point)",
        "request p50\nmedian, p95, > best",
        "request p95\nmedian, p95, > best",
        "stream p50\nmedian, p95, > best",
        "stream p95\nmedian, p95, > best",
        "longest stall\nmedian, p95, worst (point)",
    ]);
    let seconds = |s: f64| if s.is_finite() { time(s) } else { "none".to_owned() };
    let spread = |of: &Spread| {
        let above = of.above_best * 100.0;
        format!("{}, {}, {above:.0} %", seconds(of.median_s), seconds(of.p95_s))
    };
    for summary in summaries {
        let Some(loaded) = &summary.loaded else { continue };
        let LoadedSummary { attainable, stall, .. } = loaded;
        let (median, tail, worst) = (attainable.median, attainable.tail, attainable.worst);
        let cells = [
            format!("{:.1} %", attainable.bad * 100.0),
            format!("{median:.3}, {tail:.3}, {worst:.3} ({})", attainable.worst_point),
            spread(&loaded.request_p50),
            spread(&loaded.request_p95),
            spread(&loaded.stream_p50),
            spread(&loaded.stream_p95),
            format!(
                "{}, {}, {} ({})",
                seconds(stall.median_s),
                seconds(stall.p95_s),
                seconds(stall.worst_s),
                stall.worst_point
            ),
        ];
        table.add_row(std::iter::once(Cell::new(&summary.scheduler)).chain(cells.map(right)));
    }
    table
}

/// One point: paths, then schedulers.
pub(super) fn one(result: &PointResult) -> Table {
    let mut table = empty(&[
        "under load",
        "bulk",
        "of attainable",
        "stall",
        "request median",
        "p95",
        "stream median",
        "p95",
    ]);
    for trial in result.alone.iter().chain(&result.bonds) {
        let Some(loaded) = &trial.loaded else { continue };
        let latency = |of: &Option<LatencyResult>, figure: fn(&LatencyResult) -> f64| {
            of.as_ref().map_or("none".to_owned(), |latency| time(figure(latency)))
        };
        let share = result.attainable_bps.map(|bps| loaded.bulk_bps / bps * 100.0);
        let cells = [
            rate(loaded.bulk_bps),
            share.map_or_else(String::new, |share| format!("{share:.0} %")),
            time(loaded.stall_s),
            latency(&loaded.request, |l| l.p50_s),
            latency(&loaded.request, |l| l.p95_s),
            latency(&loaded.stream, |l| l.p50_s),
            latency(&loaded.stream, |l| l.p95_s),
        ];
        table.add_row(std::iter::once(Cell::new(&trial.name)).chain(cells.map(right)));
    }
    table
}
