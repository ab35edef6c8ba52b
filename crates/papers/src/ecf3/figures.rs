//! The paper's two figures: completion time by size, one group of bars a size.

use super::beyond::Ours;
use super::{CASES, SCHEDULER, SCHEMES, Times};
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};

pub(super) fn times(times: &Times, ours: &Ours) -> Figure {
    let panels = CASES.iter().enumerate().map(|(n, case)| {
        let points = |seconds: &[f64]| -> Vec<(f64, f64)> {
            seconds.iter().enumerate().map(|(i, s)| (i as f64, *s)).collect()
        };
        let mut series: Vec<Series> = SCHEMES
            .iter()
            .enumerate()
            .map(|(hue, scheme)| Series {
                label: scheme.name.to_owned(),
                hue,
                source: Source::Ours,
                points: points(times.of(case.name, scheme.name)),
            })
            .collect();
        series.push(Series {
            label: format!("tabane, {SCHEDULER}"),
            hue: SCHEMES.len(),
            source: Source::Ours,
            points: points(&ours.times[n]),
        });
        let bounds: Vec<f64> = times.sizes.iter().map(|size| case.bound(*size)).collect();
        series.push(Series {
            label: "bound".to_owned(),
            hue: 0,
            source: Source::Bound,
            points: points(&bounds),
        });
        let sizes = times.sizes.iter().map(|size| format!("{size} MB"));
        Panel::Plot(Plot {
            title: case.name.to_owned(),
            x: Axis::named("size of the file", sizes),
            y: Axis::new("time to completion (s)"),
            kind: Kind::Bars,
            series,
        })
    });
    Figure {
        id: "times".to_owned(),
        title: "Completion time by size of the file".to_owned(),
        caption: "The paper's figures, repeated: its four schemes, tabane's with its own \
                  settings, and the sum of the links."
            .to_owned(),
        columns: 1,
        panels: panels.collect(),
    }
}
