//! The paper's figure: distributions of the aggregation benefit by class and by initial path.

use super::design::CLASSES;
use super::measure::{Measured, STACKS};
use super::tell::{Begins, Class};
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};

/// Where the axis ends; what is beyond stands at its edge.
const ENDS: (f64, f64) = (-1.0, 1.5);

pub(super) fn distributions(all: &[Measured]) -> Vec<Figure> {
    let one = |(id, words, begins): (&str, &str, Begins)| Figure {
        id: id.to_owned(),
        title: format!("Aggregation benefit, {words} path first"),
        caption: "0: as the best path alone; 1: as the sum of what each path gives alone; -1: \
                  nothing."
            .to_owned(),
        columns: 2,
        panels: (0..CLASSES.len()).map(|n| panel(&Class::of(all, n), begins)).collect(),
    };
    [("best-first", "best", Begins::Best), ("worst-first", "worst", Begins::Worst)]
        .map(one)
        .to_vec()
}

fn panel(class: &Class<'_>, begins: Begins) -> Panel {
    let series = STACKS.iter().enumerate().map(|(hue, stack)| {
        let sorted = class.benefits(hue, begins);
        let share = |at: usize| (at + 1) as f64 / sorted.len() as f64;
        let points = sorted.iter().enumerate();
        let points = points.map(|(at, b)| (b.clamp(ENDS.0, ENDS.1), share(at))).collect();
        Series { label: stack.name.to_owned(), hue, source: Source::Ours, points }
    });
    Panel::Plot(Plot {
        title: CLASSES[class.number].name.to_owned(),
        x: Axis { low: Some(ENDS.0), high: Some(ENDS.1), ..Axis::new("aggregation benefit") },
        y: Axis { low: Some(0.0), high: Some(1.0), ..Axis::new("share of transfers") },
        kind: Kind::Lines,
        series: series.collect(),
    })
}
