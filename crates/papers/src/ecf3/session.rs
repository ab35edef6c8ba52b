//! What the first round trips of a connection cost a file of 10 MB over equal links, and what a
//! connection gives that is there already, as those of a gateway are.

use super::beyond::{TARGET, host};
use super::{Case, HOMOGENEOUS, SCHEDULER, mean};
use crate::PaperError;
use crate::context::{Context, Job};
use crate::report::{Report, Table, Verdict};

const FILE: &str = "papers/ecf3/session.toml";
const TEXT: &str = include_str!("../../../../papers/ecf3/session.toml");

/// The file, MB.
const SIZE: u32 = 10;

/// Mean seconds of the first file, request to last byte, and of the later ones.
fn files(
    context: &Context<'_>,
    seeds: &[u64],
    restart: &'static str,
) -> Result<[f64; 2], PaperError> {
    let texts: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let jobs = texts.iter().map(|seed| {
        let sets = [("seed", seed.as_str()), ("defaults.tcp.idle_restart", restart)];
        Job::new(FILE, TEXT, &sets)
    });
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let results = context.run("files over one connection", &jobs)?;
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for (job, result) in jobs.iter().zip(&results) {
        job.completed(result, super::FLOW)?;
        let latencies = result.flows.iter().flat_map(|flow| &flow.detail.latencies);
        let mut seconds = latencies.map(|ns| *ns as f64 / 1e9);
        first.extend(seconds.next());
        later.extend(seconds);
    }
    Ok([mean(&first), mean(&later)])
}

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let case = Case::named(HOMOGENEOUS);
    let bound = case.bound(SIZE);
    let alone = super::seconds(
        context,
        "a connection for a file",
        &[(case, host(SCHEDULER))],
        &[SIZE],
        &report.seeds,
    )?;
    let alone = mean(&alone[0][0]);
    let [first, later] = files(context, &report.seeds, "true")?;
    let [_, kept] = files(context, &report.seeds, "false")?;
    let rows = [
        ("a connection for the file: handshake, joins after the first data, slow start", alone),
        ("the same, from the request on", first),
        ("a connection with its subflows there, windows begin again after the pause", later),
        ("the same with the windows kept, as a memory of them would (RFC 9040)", kept),
    ];
    report.tables.push(Table {
        title: format!("{HOMOGENEOUS}, {SIZE} MB: what the first round trips cost"),
        head: ["", "time", "of the bound"].map(str::to_owned).to_vec(),
        rows: rows
            .iter()
            .map(|(name, s)| {
                vec![(*name).to_owned(), format!("{s:.3} s"), format!("{:.3}", s / bound)]
            })
            .collect(),
        caption: format!("{SCHEDULER}, CUBIC. Answers to requests of 200 bytes, 1 s apart."),
    });
    let text = format!(
        "{HOMOGENEOUS}: {SCHEDULER} within 3 % of the sum of the links at {SIZE} MB over a \
         connection that is there already, as a gateway's are"
    );
    let verdict =
        Verdict::when(later <= TARGET * bound, || format!("{:.3} of the bound", later / bound));
    report.target("session-bound", &text, (bound, later, "s"), verdict);
    Ok(())
}
