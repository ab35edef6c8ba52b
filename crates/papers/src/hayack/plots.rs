//! Figures: Jain's index and rates over time, error packets, windows at 350 ms.

use super::claims::{Point, WAYS};
use super::watch::STEP;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::Report;
use tabane_trace::analysis::Label;

/// Points of a series at most.
const POINTS: usize = 300;

pub(super) fn add(report: &mut Report, points: &[Point]) {
    let jain = |p: &Point| vec![series("Jain's index", 0, p.runs[0].jain.clone())];
    let unit = Axis { low: Some(0.5), high: Some(1.0), ..Axis::new("Jain's index") };
    let caption = "First repetition; windows of ten RTTs, at least 1 s.";
    add_figure(report, ("jain", "Jain's index over time", caption), (points, unit), jain);
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
    let what = ("rates", "Rates on Link1 over time", caption);
    add_figure(report, what, (points, Axis::new("Mbit/s")), rates);
    let errors = |p: &Point| {
        let over_time = &p.runs[0].watch.over_time;
        let of = |n: usize| over_time.iter().enumerate().map(move |(s, c)| (s as f64, c[n] as f64));
        let named = Label::ERRORS.iter().take(4).enumerate();
        named.map(|(n, label)| series(label.name(), n, of(n).collect())).collect()
    };
    let shown = |p: &&Point| p.way == "hayack" || p.way == "own";
    let some: Vec<&Point> = points.iter().filter(shown).collect();
    let caption = "Packets of B's first subflow as Wireshark labels them, counted from the start, \
                   without the thinned stream of ACKs.";
    let y = Axis::new("packets");
    let panels = some.iter().map(|p| panel(p, errors(p), y.clone())).collect();
    report.figures.push(figure(("errors", "Error packets", caption), 2, panels));
    let windows = |p: &Point| {
        let line = |values: &[f64]| -> Vec<(f64, f64)> {
            values.iter().enumerate().map(|(i, v)| (i as f64 * STEP, v / 1e3)).collect()
        };
        let flow = &p.runs[0].watch.flows[1];
        vec![
            series("window", 0, line(&flow.window)),
            series("in flight", 1, line(&flow.flight)),
            series("TCP's window", 2, line(&p.runs[0].watch.flows[0].window)),
        ]
    };
    let slow = points.iter().filter(|p| p.rtt == 350);
    let panels = slow.map(|p| panel(p, windows(p), Axis::new("kB"))).collect();
    let caption = "First repetition.";
    report.figures.push(figure(("windows", "Windows at 350 ms", caption), 2, panels));
}

fn add_figure(
    report: &mut Report,
    what: (&str, &str, &str),
    (points, y): (&[Point], Axis),
    of: impl Fn(&Point) -> Vec<Series>,
) {
    let panels = points.iter().map(|p| panel(p, of(p), y.clone())).collect();
    report.figures.push(figure(what, 4, panels));
}

fn figure((id, title, caption): (&str, &str, &str), columns: usize, panels: Vec<Panel>) -> Figure {
    let (id, title, caption) = (id.to_owned(), title.to_owned(), caption.to_owned());
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
