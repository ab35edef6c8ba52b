//! Goodput over time: the paper's set-up, and ours.

use super::{Runs, sum_of_both};
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};

/// Courses of the first seed.
pub(super) fn courses(one: &Runs, two: &Runs, ours: &[Runs]) -> Figure {
    let points = |runs: &Runs| -> Vec<(f64, f64)> {
        let course = runs.0.first().map_or(&[][..], |course| &course.0);
        course.iter().enumerate().map(|(second, rate)| (second as f64 + 1.0, *rate)).collect()
    };
    let line = |label: &str, hue: usize, points| {
        let (label, source) = (label.to_owned(), Source::Ours);
        Series { label, hue, source, points }
    };
    let mut series =
        vec![line("a tunnel a WAN", 0, points(one)), line("extra tunnel", 1, points(two))];
    if let Some(first) = ours.first() {
        series.push(line("tabane: proxies and BBR, a tunnel a WAN", 2, points(first)));
    }
    let end = series.iter().flat_map(|s| s.points.last()).map(|p| p.0).fold(1.0, f64::max);
    series.push(Series {
        label: "sum of both".to_owned(),
        hue: 0,
        source: Source::Bound,
        points: vec![(0.0, sum_of_both()), (end, sum_of_both())],
    });
    Figure {
        id: "courses".to_owned(),
        title: "Goodput over time".to_owned(),
        caption: "CUBIC over short queues climbs slowly; the paper's iperf3 runs end at 10 s."
            .to_owned(),
        columns: 1,
        panels: vec![Panel::Plot(Plot {
            title: String::new(),
            x: Axis { low: Some(0.0), ..Axis::new("time (s)") },
            y: Axis::new("goodput (Mbit/s)"),
            kind: Kind::Lines,
            series,
        })],
    }
}
