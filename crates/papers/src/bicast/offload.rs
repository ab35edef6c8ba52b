//! Whether super-packets explain the published times: between virtual machines, as the authors had
//! them, a link loses what segmentation offload has put together as one, and the far end
//! acknowledges it as one.

use super::table::{Grid, Mode, Place, job};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table};
use crate::stats;

/// Uplink losses that are looked at, percent.
const UP: [u8; 3] = [0, 5, 10];
/// Downlink losses: those at which the link is not full.
const DOWN: [u8; 4] = [2, 3, 4, 5];

/// Runs the cells with offload and puts them beside those without, and the paper's.
pub(super) fn compare(
    context: &Context<'_>,
    grid: &Grid,
    report: &mut Report,
) -> Result<(), PaperError> {
    let mut places: Vec<Place> = Vec::new();
    for mode in Mode::BOTH {
        places.extend(UP.iter().flat_map(|up| DOWN.map(|down| (mode, *up, down))));
    }
    let mut jobs = Vec::new();
    for place in &places {
        for seed in &report.seeds {
            jobs.push(job(*place, *seed, &[("offload", "true")])?);
        }
    }
    let results = context.run("super-packets", &jobs)?;
    let mut times = Vec::new();
    for (job, result) in jobs.iter().zip(&results) {
        times.push(job.completed(result, "file")?);
    }
    let of_each: Vec<f64> = times
        .chunks(report.seeds.len())
        .map(|times| stats::mean(times).unwrap_or(f64::NAN))
        .collect();
    let rows = places.iter().zip(&of_each).map(|(place, with)| {
        let (mode, up, down) = *place;
        let mut row = vec![format!("{up} % / {down} %"), mode.name().to_owned()];
        row.extend([grid.theirs(*place), grid.mean(*place), *with].map(|t| format!("{t:.1} s")));
        row
    });
    report.tables.push(Table {
        title: "Super-packets".into(),
        head: ["cell, up/down", "mode", "paper", "single segments", "super-packets"]
            .map(str::to_owned)
            .into(),
        rows: rows.collect(),
        caption: "Means of the seeds. With `offload = true` what leaves a host together is lost \
                  and acknowledged as one."
            .into(),
    });
    let error = |of: &dyn Fn(usize) -> f64| {
        let pairs: Vec<_> =
            places.iter().enumerate().map(|(n, place)| (grid.theirs(*place), of(n))).collect();
        stats::mape(&pairs).unwrap_or(f64::NAN) * 100.0
    };
    let single = error(&|n| grid.mean(places[n]));
    let together = error(&|n| of_each[n]);
    let gain = |up: u8, down: u8| {
        let time = |mode| {
            let at = places.iter().position(|place| *place == (mode, up, down));
            at.map_or(f64::NAN, |at| of_each[at])
        };
        (1.0 - time(Mode::Bicast) / time(Mode::Plain)) * 100.0
    };
    report.note(format!(
        "Super-packets: with them the worst cell takes {:.2} times as long without bicast, and \
         bicast saves {:.1} % of the time at 0 % uplink and 5 % downlink loss. The error of these \
         cells is {together:.1} % with them and {single:.1} % without.",
        1.0 / (1.0 - gain(10, 5) / 100.0),
        gain(0, 5)
    ));
    Ok(())
}
