//! What the paper's shares depend on that it does not say: the queues of its emulation.

use super::design::{self, CLASSES, Path, Point};
use super::measure::{self, Measured, PAPERS};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table};

/// Scenarios of each class without losses.
const SCENARIOS: usize = 40;

type Queueing = fn(&Path) -> f64;

/// How queues may be meant: the queueing delay, ms, of a path.
const QUEUES: [(&str, Queueing); 3] = [
    ("queueing delay x capacity", |path| path.queueing),
    ("and a bandwidth-delay product more", |path| path.queueing + path.rtt),
    ("a bandwidth-delay product alone", |path| path.rtt),
];

pub(super) fn run(
    context: &Context<'_>,
    report: &mut Report,
    points: &[Point],
) -> Result<(), PaperError> {
    let points = design::choose(points, context.pick(2, SCENARIOS));
    let mut rows = Vec::new();
    for (name, queueing) in QUEUES {
        let mut row = vec![name.to_owned()];
        for class in [0, 2] {
            let paths = |point: &Point| {
                let paths = CLASSES[class].paths(point);
                (class, paths.map(|path| Path { queueing: queueing(&path), ..path }))
            };
            let scenarios: Vec<_> = points.iter().map(paths).collect();
            let all = measure::measure(context, "queues", &scenarios, &[PAPERS])?;
            row.push(format!("{:.0}", gain(&all)));
        }
        rows.push(row);
    }
    report.tables.push(Table {
        title: "Queues: transfers that gain with the paper's MPTCP, percent".to_owned(),
        head: ["queue", CLASSES[0].name, CLASSES[2].name].map(str::to_owned).to_vec(),
        rows,
        caption: format!("{} of the scenarios, from either path.", points.len()),
    });
    Ok(())
}

fn gain(all: &[Measured]) -> f64 {
    let each = all.iter().flat_map(|one| [0, 1].map(|from| one.benefit(PAPERS, from)));
    let each: Vec<f64> = each.collect();
    100.0 * each.iter().filter(|b| **b > 0.0).count() as f64 / each.len().max(1) as f64
}
