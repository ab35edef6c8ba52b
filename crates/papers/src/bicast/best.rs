//! Beyond the paper: both links used, every cell near the physical bound; and what did it.

use super::table::{Grid, Mode, job};
use super::{BYTES, COLUMNS, figures};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table, Verdict};
use crate::stats;

/// Both links active, a controller that random loss does not slow, copies of what the client sends.
const BEST: [(&str, &str); 3] = [
    ("path.lte.backup", "false"),
    ("defaults.congestion", "bbr"),
    ("defaults.scheduler", "minrtt"),
];
/// Payload of a full packet of 1500 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
const SHARE: f64 = 1428.0 / 1500.0;
/// What every cell must stay within.
const TARGET: f64 = 1.05;

/// Seconds that no sender can beat: both links full of payload that arrives.
fn bound(down: u8) -> f64 {
    let wifi = 100e6 * (1.0 - f64::from(down) / 100.0);
    let lte = 10e6 * 0.99;
    BYTES * 8.0 / ((wifi + lte) * SHARE)
}

/// Runs every cell in the best mode, and the worst cell in steps towards it.
pub(super) fn run(
    context: &Context<'_>,
    grid: &Grid,
    report: &mut Report,
) -> Result<(), PaperError> {
    let cells: Vec<(u8, u8)> =
        grid.rows.iter().flat_map(|up| COLUMNS.map(|down| (*up, down))).collect();
    let mut jobs = Vec::new();
    for seed in &report.seeds {
        for (up, down) in &cells {
            jobs.push(job((Mode::Bicast, *up, *down), *seed, &BEST)?);
        }
    }
    let results = context.run("both links", &jobs)?;
    let mut times = vec![Vec::new(); cells.len()];
    for (n, (job, result)) in jobs.iter().zip(&results).enumerate() {
        times[n % cells.len()].push(job.completed(result, "file")?);
    }
    let ratio: Vec<f64> = cells
        .iter()
        .zip(&times)
        .map(|((_, down), times)| stats::mean(times).unwrap_or(f64::NAN) / bound(*down))
        .collect();
    for ((up, down), ratio) in cells.iter().zip(&ratio) {
        let (row, column) = (format!("up {up} %"), format!("down {down} %"));
        report.cell("ratio to the bound", row, column, (None, *ratio, ""));
    }
    let worst = (0..cells.len()).max_by(|a, b| ratio[*a].total_cmp(&ratio[*b])).unwrap_or(0);
    let ((up, down), most) = (cells[worst], ratio[worst]);
    report.target(
        "both-links",
        &format!("Both links, worst cell ({up} % up, {down} % down): time within 1.05 x the bound"),
        (bound(down), most * bound(down), "s"),
        Verdict::when(most <= TARGET, || format!("{most:.3} times the bound")),
    );
    let at = |up: u8, down: u8| cells.iter().position(|cell| *cell == (up, down));
    let ours = |up, down| at(up, down).map_or(f64::NAN, |n| ratio[n]);
    let theirs = |up, down| grid.theirs((Mode::Bicast, up, down)) / bound(down);
    let scale = (1.0, 1.6);
    let panels = vec![
        figures::heat(grid, "the paper's bicast", scale, theirs),
        figures::heat(grid, "both links, bbr, bicast", scale, ours),
    ];
    figures::ratios(report, panels);
    steps(context, report)
}

/// A mode: its name, what the client does, what is laid over the scenario.
type Step = (&'static str, Mode, &'static [(&'static str, &'static str)]);

/// From the paper's bicast to the best mode, one thing at a time.
fn steps(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    const BOTH: (&str, &str) = ("path.lte.backup", "false");
    const BBR: (&str, &str) = ("defaults.congestion", "bbr");
    let modes: [Step; 6] = [
        ("cubic, Wi-Fi alone", Mode::Plain, &[]),
        ("cubic, Wi-Fi alone, bicast", Mode::Bicast, &[]),
        ("cubic, both links, bicast", Mode::Bicast, &[BOTH]),
        ("bbr, Wi-Fi alone, bicast", Mode::Bicast, &[BBR]),
        ("bbr, both links", Mode::Plain, &[BOTH, BBR]),
        ("bbr, both links, bicast", Mode::Bicast, &[BOTH, BBR]),
    ];
    let mut jobs = Vec::new();
    for (_, mode, sets) in modes {
        jobs.push(job((mode, 10, 5), context.seed, sets)?);
    }
    let results = context.run("what did it", &jobs)?;
    let mut rows = Vec::new();
    for ((name, ..), (job, result)) in modes.iter().zip(jobs.iter().zip(&results)) {
        let seconds = job.completed(result, "file")?;
        let ratio = seconds / bound(5);
        rows.push(vec![(*name).into(), format!("{seconds:.1} s"), format!("{ratio:.3}")]);
    }
    report.tables.push(Table {
        title: "What did it: 10 % uplink and 5 % downlink loss".into(),
        head: ["mode", "time", "over the bound"].map(str::to_owned).into(),
        rows,
        caption: "Loss-based control takes each random loss for congestion; BBR's model of the \
                  path does not, and that is most of it. The second link adds its rate; copies of \
                  acknowledgements the rest."
            .into(),
    });
    Ok(())
}
