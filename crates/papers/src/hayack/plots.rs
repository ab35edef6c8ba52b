//! Figures: Jain's index and rates over time, error packets, windows.

use super::CAPTURED;
use super::capture::Capture;
use super::claims::{Point, WAYS};
use super::watch::STEP;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::Report;
use tabane_trace::analysis::Label;

/// Points of a series at most.
const POINTS: usize = 300;

/// The paper's figures 4, 5 and 6 in one regime, whose name is added to theirs.
pub(super) fn add(report: &mut Report, (points, regime): (&[Point], &str), suffix: &str) {
    let id = |id: &str| format!("{id}{suffix}");
    let title = |title: &str| format!("{title}, {regime}");
    let jain = |p: &Point| vec![series("Jain's index", 0, p.runs[0].jain.clone())];
    let unit = Axis { low: Some(0.5), high: Some(1.0), ..Axis::new("Jain's index") };
    let caption = "First repetition; windows of ten RTTs, at least 1 s.";
    let what = (id("jain"), title("Jain's index over time"), caption);
    add_figure(report, what, (points, unit), jain);
    let rates = |p: &Point| {
        let rate = |n: usize| {
            let bytes = &p.runs[0].watch.flows[n].bytes;
            let per = (1.0 / STEP) as usize;
            let seconds = bytes.windows(per + 1).enumerate();
            seconds.map(move |(i, w)| (i as f64 * STEP + 1.0, (w[per] - w[0]) * 8e-6))
        };
        vec![series("TCP", 0, rate(0).collect()), series("B by Link1", 1, rate(1).collect())]
    };
    let caption = "First repetition, means of a second.";
    let what = (id("rates"), title("Rates on Link1 over time"), caption);
    add_figure(report, what, (points, Axis::new("Mbit/s")), rates);
    errors(report, points, (id("errors"), title("Error packets")));
    windows(report, points, (id("windows"), title("Receive window and bytes out on Link1")));
}

/// Figure 5, from the paper's capture and from one that sees the ACKs.
fn errors(report: &mut Report, points: &[Point], (id, title): (String, String)) {
    let shown = |p: &&Point| CAPTURED.contains(&p.way);
    let of = |capture: &Capture| {
        let line = |n: usize| {
            let counts = capture.over_time.iter().enumerate();
            counts.map(|(s, c)| (s as f64, c[n] as f64)).collect()
        };
        let named = Label::ERRORS.iter().enumerate();
        named.map(|(n, label)| series(label.name(), n, line(n))).collect::<Vec<_>>()
    };
    let mut panels = Vec::new();
    for p in points.iter().filter(shown) {
        let watch = &p.runs[0].watch;
        for (place, capture) in [("on Link1", &watch.on_link1), ("at B", &watch.at_sender)] {
            let mut panel = panel(p, of(capture), Axis::new("packets"));
            if let Panel::Plot(plot) = &mut panel {
                plot.title = format!("{}, {place}", plot.title);
            }
            panels.push(panel);
        }
    }
    let caption = "Packets of B's first subflow as Wireshark labels them, counted from the start: \
                   in a capture on Link1, as the paper's, and in one of everything at B. \
                   Out-of-order is not in the paper's figure.";
    report.figures.push(figure((id, title, caption), 4, panels));
}

/// Figure 6 at every RTT.
fn windows(report: &mut Report, points: &[Point], (id, title): (String, String)) {
    let lines = |p: &Point| {
        let line = |values: &[f64]| -> Vec<(f64, f64)> {
            values.iter().enumerate().map(|(i, v)| (i as f64 * STEP, v / 1e3)).collect()
        };
        let [tcp, ours] = &p.runs[0].watch.flows;
        vec![
            series("receive window", 0, line(&ours.captured.receive)),
            series("bytes out", 1, line(&ours.captured.out)),
            series("TCP's receive window", 2, line(&tcp.captured.receive)),
            series("TCP's bytes out", 3, line(&tcp.captured.out)),
        ]
    };
    let shown = |p: &&Point| CAPTURED.contains(&p.way);
    // What is never acknowledged would hide everything else.
    let y = Axis { low: Some(0.0), high: Some(400.0), ..Axis::new("kB") };
    let panels = points.iter().filter(shown).map(|p| panel(p, lines(p), y.clone())).collect();
    let caption = "First repetition, as Wireshark draws them from the capture on Link1: bytes out \
                   are those that no ACK in it has acknowledged.";
    report.figures.push(figure((id, title, caption), 2, panels));
}

fn add_figure(
    report: &mut Report,
    what: (String, String, &str),
    (points, y): (&[Point], Axis),
    of: impl Fn(&Point) -> Vec<Series>,
) {
    let panels = points.iter().map(|p| panel(p, of(p), y.clone())).collect();
    report.figures.push(figure(what, 4, panels));
}

fn figure(
    (id, title, caption): (String, String, &str),
    columns: usize,
    panels: Vec<Panel>,
) -> Figure {
    let caption = caption.to_owned();
    Figure { id, title, caption, columns, panels }
}

fn panel(point: &Point, series: Vec<Series>, y: Axis) -> Panel {
    let name = WAYS.iter().find(|(way, _)| *way == point.way).map_or(point.way, |(_, name)| name);
    let title = format!("{name}, {} ms", point.rtt);
    let x = Axis { low: Some(0.0), high: Some(60.0), ..Axis::new("s") };
    Panel::Plot(Plot { title, x, y, kind: Kind::Lines, series })
}

fn series(label: &str, hue: usize, points: Vec<(f64, f64)>) -> Series {
    let step = points.len().div_ceil(POINTS).max(1);
    let points = points.into_iter().step_by(step).collect();
    Series { label: label.to_owned(), hue, source: Source::Ours, points }
}
