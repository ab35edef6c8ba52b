//! Lines and bars.

use super::scale::Scale;
use super::{Anchor, Area, Ink, Svg, hue, letters};
use crate::figure::{Axis, Kind, Plot, Source};

const LEFT: f64 = 56.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 44.0;

pub(super) fn draw(out: &mut Svg, plot: &Plot, area: Area) {
    let (x0, x1) = (area.x + LEFT, area.x + area.width - RIGHT);
    let (y0, y1) = (area.y + area.height - BOTTOM, area.y + TOP);
    let xs = plot.series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let ys = plot.series.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let y = Scale::fit(&plot.y, ys, (y0, y1), true);
    let x = if plot.x.names.is_empty() {
        Scale::fit(&plot.x, xs, (x0, x1), false)
    } else {
        let axis = Axis {
            low: Some(-0.5),
            high: Some(plot.x.names.len() as f64 - 0.5),
            ..Axis::default()
        };
        Scale::fit(&axis, std::iter::empty(), (x0, x1), false)
    };
    out.words(x0, area.y + 14.0, &plot.title, Ink::Strong, Anchor::Start, 14.0);
    for (value, words) in y.ticks(5) {
        let at = y.place(value);
        out.rule((x0, at), (x1, at), false);
        out.words(x0 - 6.0, at + 4.0, &words, Ink::Muted, Anchor::End, 12.0);
    }
    x_ticks(out, plot, &x, (y0, y1), x1 - x0);
    out.rule((x0, y0), (x1, y0), true);
    out.rule((x0, y0), (x0, y1), true);
    let middle = ((x0 + x1) / 2.0, (y0 + y1) / 2.0);
    out.words(middle.0, y0 + 36.0, &plot.x.label, Ink::Muted, Anchor::Middle, 12.0);
    let style = (Ink::Muted, Anchor::Middle, 12.0);
    out.words_turned(area.x + 13.0, middle.1, &plot.y.label, style, true);
    match plot.kind {
        Kind::Bars => bars(out, plot, &x, &y),
        kind => lines(out, plot, &x, &y, kind == Kind::Points),
    }
}

fn x_ticks(out: &mut Svg, plot: &Plot, x: &Scale, (y0, y1): (f64, f64), width: f64) {
    let ticks: Vec<(f64, String)> = if plot.x.names.is_empty() {
        x.ticks((width / 70.0) as usize)
    } else {
        plot.x.names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect()
    };
    let widest = ticks.iter().map(|t| letters(&t.1, 12.0)).fold(1.0, f64::max);
    let every = (widest * 1.15 * ticks.len() as f64 / width).ceil().max(1.0) as usize;
    for (i, (value, words)) in ticks.iter().enumerate() {
        let at = x.place(*value);
        if plot.x.names.is_empty() {
            out.rule((at, y0), (at, y1), false);
        }
        if i % every == 0 {
            out.words(at, y0 + 17.0, words, Ink::Muted, Anchor::Middle, 12.0);
        }
    }
}

fn lines(out: &mut Svg, plot: &Plot, x: &Scale, y: &Scale, marks: bool) {
    for series in &plot.series {
        let colour = hue(series.hue, series.source);
        let finite = series.points.iter().filter(|p| p.0.is_finite() && p.1.is_finite());
        let points: Vec<_> = finite.map(|p| (x.place(p.0), y.place(p.1))).collect();
        out.curve(&points, colour, series.source);
        if marks && series.source != Source::Bound {
            points.iter().for_each(|at| out.mark(*at, colour, series.source));
        }
    }
}

/// Bars of one x value stand beside each other, in order of the series.
fn bars(out: &mut Svg, plot: &Plot, x: &Scale, y: &Scale) {
    let count = plot.series.len().max(1) as f64;
    let group = (x.place(1.0) - x.place(0.0)).abs() * 0.8;
    for (i, series) in plot.series.iter().enumerate() {
        let colour = hue(series.hue, series.source);
        for &(at, value) in series.points.iter().filter(|p| p.1.is_finite()) {
            let left = x.place(at) - group / 2.0 + group * i as f64 / count;
            let (top, zero) = (y.place(value.max(0.0)), y.place(value.min(0.0)));
            let width = group / count - 1.0;
            out.bar(Area { x: left, y: top, width, height: zero - top }, colour, series.source);
        }
    }
}
