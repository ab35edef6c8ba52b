//! Transfers by length: what the bundle gains over the faster WAN alone, and how many of its
//! subflows carry something. Transfers are the VPN's MPTCP connection itself, as for UDP.

use super::layers::{CAUSES, Cause, PAPER, Traffic, sets};
use super::{FILE, TEXT};
use crate::context::{Context, Job};
use crate::report::{Report, Table, Verdict};
use crate::{PaperError, stats};

/// Sizes of the transfer, as scenarios have them.
const SIZES: [&str; 6] = ["10kB", "100kB", "1MB", "10MB", "100MB", "300MB"];
/// Up to this one a transfer is short.
const SHORT: usize = 2;
/// Sizes for which every cause is run.
const BY_CAUSE: usize = 4;

/// Of a size.
struct Row {
    size: &'static str,
    /// Seconds by the faster WAN alone, by the bundle, and by the bundle with the extra tunnel.
    seconds: [f64; 3],
    /// Subflows of the last that carried something: mean.
    subflows: f64,
}

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let seeds = report.seeds.clone();
    let all = rows(context, PAPER, &SIZES, &seeds)?;
    claims(report, &all);
    report.tables.push(table(&all));
    let seeds = context.seeds(context.pick(1, 3));
    let mut lines = Vec::new();
    for cause in CAUSES {
        lines.push((cause, rows(context, cause, &SIZES[..BY_CAUSE], &seeds)?));
    }
    report.tables.push(by_cause(&lines));
    Ok(())
}

/// Transfers of these sizes.
fn rows(
    context: &Context<'_>,
    cause: Cause,
    sizes: &[&'static str],
    seeds: &[u64],
) -> Result<Vec<Row>, PaperError> {
    let mut jobs = Vec::new();
    for size in sizes {
        for (extra, alone) in [(false, true), (false, false), (true, false)] {
            for seed in seeds {
                let seed = seed.to_string();
                let own = sets(cause, extra, Traffic::Udp);
                let mut sets: Vec<(&str, &str)> =
                    own.iter().map(|(key, value)| (*key, value.as_str())).collect();
                sets.extend([("flow.0.bulk", *size), ("seed", &seed)]);
                sets.extend(alone.then_some(("defaults.mptcp", "false")));
                jobs.push(Job::new(FILE, TEXT, &sets)?);
            }
        }
    }
    let results = context.run("transfers by length", &jobs)?;
    let mut rows = Vec::new();
    let n = seeds.len();
    for (at, size) in sizes.iter().enumerate() {
        let from = at * 3 * n;
        let mean = |which: usize| -> Result<f64, PaperError> {
            let range = from + which * n..from + (which + 1) * n;
            let all = jobs[range.clone()].iter().zip(&results[range]);
            let all: Result<Vec<f64>, _> = all.map(|(job, r)| job.completed(r, "file")).collect();
            Ok(stats::mean(&all?).unwrap_or(f64::NAN))
        };
        let used = results[from + 2 * n..from + 3 * n].iter().flat_map(|run| &run.flows);
        let used: Vec<f64> =
            used.map(|flow| flow.subflows.iter().filter(|s| s.bytes > 0).count() as f64).collect();
        let subflows = stats::mean(&used).unwrap_or(0.0);
        rows.push(Row { size, seconds: [mean(0)?, mean(1)?, mean(2)?], subflows });
    }
    Ok(rows)
}

/// Time that a transfer saves by the bundle with the extra tunnel, percent.
fn gain(row: &Row) -> f64 {
    (1.0 - row.seconds[2] / row.seconds[0]) * 100.0
}

fn by_cause(lines: &[(Cause, Vec<Row>)]) -> Table {
    let row = |(cause, rows): &(Cause, Vec<Row>)| {
        let mut text = vec![cause.name.to_owned()];
        text.extend(rows.iter().map(|row| format!("{:.0} %, {:.1}", gain(row), row.subflows)));
        text
    };
    let head = ["cause"].into_iter().chain(SIZES).take(1 + BY_CAUSE);
    Table {
        title: "Transfers by length and cause: time saved, and subflows used".to_owned(),
        head: head.map(str::to_owned).collect(),
        rows: lines.iter().map(row).collect(),
        caption: "By the bundle with the extra tunnel, over one connection by the first tunnel \
                  alone."
            .to_owned(),
    }
}

fn claims(report: &mut Report, rows: &[Row]) {
    let most = rows[..SHORT].iter().map(gain).fold(f64::MIN, f64::max);
    let verdict = Verdict::when(most <= 5.0, || {
        format!(
            "at {} it saves {most:.0} %: {:.1} subflows carry something by then, as they join when \
             the first data has been answered; at {} it saves {:.0} %",
            SIZES[SHORT - 1],
            rows[SHORT - 1].subflows,
            SIZES[0],
            gain(&rows[0])
        )
    });
    let text = format!(
        "short transfers gain nothing (time saved by the bundle with the extra tunnel over the \
         faster WAN alone, up to {}; at most 5 %; by the VPN's own connection, as for UDP)",
        SIZES[SHORT - 1]
    );
    report.claim("short", &text, ("nothing", most, "%"), verdict);
    let grows = rows.windows(2).all(|w| w[0].subflows <= w[1].subflows);
    let (first, last) = (rows[0].subflows, rows[rows.len() - 1].subflows);
    let verdict = Verdict::when(grows && last > first, || "their number falls".to_owned());
    let text = format!(
        "the longer a transfer, the more subflows carry it: from {first:.1} at {} on (by the VPN's \
         own connection, as for UDP)",
        SIZES[0]
    );
    report.claim("subflows", &text, ("more", last, "subflows"), verdict);
}

fn table(rows: &[Row]) -> Table {
    let row = |row: &Row| {
        let mut text = vec![row.size.to_owned()];
        text.extend(row.seconds.map(|s| format!("{s:.3}")));
        text.push(format!("{:.1}", row.subflows));
        text
    };
    Table {
        title: "Transfers by length: seconds, and subflows that carried something".to_owned(),
        head: ["size", "FTTH alone", "a tunnel a WAN", "extra tunnel", "subflows of three"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.iter().map(row).collect(),
        caption: "Over TCP tunnels that are open, from the first SYN on. A subflow joins when the \
                  first data has been answered."
            .to_owned(),
    }
}
