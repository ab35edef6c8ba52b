//! Figures: the tables as heat maps and curves, windows over time, ratios to the bound.

use super::COLUMNS;
use super::table::{Grid, Mode};
use crate::figure::{Axis, Figure, Heat, Kind, Panel, Plot, Series, Source};
use crate::report::Report;

/// The tables, the paper's and ours.
pub(super) fn tables(grid: &Grid, report: &mut Report) {
    let mut panels = Vec::new();
    for mode in Mode::BOTH {
        let paper = heat(grid, &format!("{}, paper", mode.name()), (41.0, 141.0), |up, down| {
            grid.theirs((mode, up, down))
        });
        let ours = heat(grid, &format!("{}, ours", mode.name()), (41.0, 141.0), |up, down| {
            grid.mean((mode, up, down))
        });
        panels.extend([paper, ours]);
    }
    report.figures.push(Figure {
        id: "tables".into(),
        title: "Transfer time of 500 MB, seconds".into(),
        caption: "Uplink and downlink loss of the Wi-Fi; LTE is backup.".into(),
        columns: 2,
        panels,
    });
    let panels = COLUMNS.map(|down| curves(grid, down));
    report.figures.push(Figure {
        id: "curves".into(),
        title: "Transfer time against uplink loss".into(),
        caption:
            "The paper's figures 4 to 9. Dashed: the paper's. With bicast, uplink loss hardly \
                  matters."
                .into(),
        columns: 3,
        panels: panels.into(),
    });
}

/// A heat map over the cells.
pub(super) fn heat(
    grid: &Grid,
    title: &str,
    scale: (f64, f64),
    value: impl Fn(u8, u8) -> f64,
) -> Panel {
    let percent = |n: &u8| format!("{n} %");
    let row = |up: &u8| COLUMNS.map(|down| Some(value(*up, down)).filter(|v| v.is_finite())).into();
    Panel::Heat(Heat {
        title: title.into(),
        rows: ("uplink loss".into(), grid.rows.iter().map(percent).collect()),
        columns: ("downlink loss".into(), COLUMNS.iter().map(percent).collect()),
        values: grid.rows.iter().map(row).collect(),
        scale,
    })
}

fn curves(grid: &Grid, down: u8) -> Panel {
    let mut series = Vec::new();
    for (hue, mode) in Mode::BOTH.into_iter().enumerate() {
        let line = |source, time: &dyn Fn(u8) -> f64| Series {
            label: format!("{}, {}", mode.name(), source_name(source)),
            hue,
            source,
            points: grid.rows.iter().map(|up| (f64::from(*up), time(*up))).collect(),
        };
        series.push(line(Source::Paper, &|up| grid.theirs((mode, up, down))));
        series.push(line(Source::Ours, &|up| grid.mean((mode, up, down))));
    }
    Panel::Plot(Plot {
        title: format!("{down} % downlink loss"),
        x: Axis::new("uplink loss, %"),
        y: Axis { low: Some(0.0), high: Some(220.0), ..Axis::new("s") },
        kind: Kind::Points,
        series,
    })
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Paper => "paper",
        Source::Ours => "ours",
        Source::Bound => "bound",
    }
}

/// Congestion windows over time, one panel a cell.
pub(super) fn windows(report: &mut Report, cells: Vec<(String, Vec<Series>)>) {
    let panels = cells.into_iter().map(|(title, series)| {
        Panel::Plot(Plot {
            title,
            x: Axis::new("s"),
            y: Axis { low: Some(0.0), ..Axis::new("cwnd, segments") },
            kind: Kind::Lines,
            series,
        })
    });
    report.figures.push(Figure {
        id: "windows".into(),
        title: "Congestion window of the Wi-Fi subflow at the server".into(),
        caption: "With no uplink loss the curves coincide: copies of acknowledgements change \
                  nothing. With uplink loss plain MPTCP waits for timeouts, bicast does not."
            .into(),
        columns: 2,
        panels: panels.collect(),
    });
}

/// Ratios to the physical bound.
pub(super) fn ratios(report: &mut Report, panels: Vec<Panel>) {
    report.figures.push(Figure {
        id: "bound".into(),
        title: "Transfer time over the physical bound".into(),
        caption: "Bound: bytes over the sum of rate x (1 - loss) x payload share of both links. \
                  Left the paper's bicast, right ours with both links, BBR and bicast."
            .into(),
        columns: 2,
        panels,
    });
}
