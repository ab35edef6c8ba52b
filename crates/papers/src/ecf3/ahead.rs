//! What the paper's conclusion asks for, later data ahead on the slow path (`stms`, after STMS):
//! what it gains beside schedulers that send in order.

use crate::PaperError;
use crate::context::{Context, Job};
use crate::report::{Report, Table, Verdict};
use tabane_sim::result::{FlowResult, LatencyResult, RunResult};
use tabane_trace::{Metric, Report as Seen, Series, Settings};

const FILE: &str = "papers/ecf3/ahead.toml";
const TEXT: &str = include_str!("../../../../papers/ecf3/ahead.toml");
const SCHEDULERS: [&str; 6] = ["minrtt", "blest", "ecf", "ecf3", "necf", AHEAD];
const AHEAD: &str = "stms";

/// Of a scheduler: means over the seeds.
struct Found {
    name: &'static str,
    /// Of a file, Mbit/s.
    goodput: f64,
    /// What the receiver held out of order meanwhile, kB: mean over time.
    held: f64,
    /// Delays of a stream's messages, ms: median, and 99 % are within.
    median: f64,
    late: f64,
}

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let stream = TEXT.replace("bulk = \"unlimited\"", STREAM);
    let mut jobs = Vec::new();
    for scheduler in SCHEDULERS {
        for text in [TEXT, &stream] {
            for seed in &report.seeds {
                let seed = seed.to_string();
                let sets = [("defaults.scheduler", scheduler), ("seed", &seed)];
                jobs.push(Job::new(FILE, text, &sets)?);
            }
        }
    }
    let seen = context.watch("later data ahead", &jobs, Settings::default())?;
    let seeds = report.seeds.len();
    let each = SCHEDULERS.iter().zip(seen.chunks(2 * seeds));
    let found: Vec<Found> =
        each.map(|(name, runs)| Found::of(name, runs.split_at(seeds))).collect();
    report.tables.push(table(&found));
    let by = |name| found.iter().find(|f| f.name == name);
    let (Some(ahead), Some(plain)) = (by(AHEAD), by("minrtt")) else { return Ok(()) };
    let text = "later data ahead on the slow path: the receiver holds less out of order than with \
                minRTT, at 99 % of its goodput or more";
    let holds = ahead.held < plain.held && ahead.goodput >= 0.99 * plain.goodput;
    let verdict = Verdict::when(holds, || format!("{:.1} Mbit/s", ahead.goodput));
    report.target("ahead", text, (plain.held, ahead.held, "kB"), verdict);
    let text = "later data ahead on the slow path: 99 % of a stream's messages sooner than with \
                any of the others";
    let best = found.iter().filter(|f| f.name != AHEAD).map(|f| f.late).fold(f64::MAX, f64::min);
    let verdict = Verdict::when(ahead.late < best, || format!("{:.0} ms", ahead.late));
    report.target("ahead-stream", text, (best, ahead.late, "ms"), verdict);
    Ok(())
}

/// The stream in place of the file: more than the fast link carries.
const STREAM: &str = "paced = { rate = \"55Mbps\", message = \"1400B\" }";

type Run = (RunResult, Seen);

impl Found {
    /// Of runs with the file, and with the stream.
    fn of(name: &'static str, (files, streams): (&[Run], &[Run])) -> Self {
        let flow = |runs: &[Run], of: &dyn Fn(&FlowResult) -> f64| -> f64 {
            super::mean(&runs.iter().filter_map(|r| r.0.flows.first()).map(of).collect::<Vec<_>>())
        };
        let latency = |of: fn(&LatencyResult) -> f64| {
            flow(streams, &|f| f.latency.as_ref().map_or(f64::NAN, of) * 1e3)
        };
        Self {
            name,
            goodput: flow(files, &|f| f.goodput_bps / 1e6),
            held: super::mean(&files.iter().map(|run| held(&run.1)).collect::<Vec<_>>()),
            median: latency(|l| l.p50_s),
            late: latency(|l| l.p99_s),
        }
    }
}

/// What the client holds out of order, kB: mean over time.
fn held(seen: &Seen) -> f64 {
    let is = |s: &&Series| s.metric == Metric::OutOfOrder && s.subject.host == "client";
    let points = seen.series.iter().find(is).map_or(&[][..], |s| &s.points);
    super::mean(&points.iter().map(|p| p.1 / 1e3).collect::<Vec<_>>())
}

fn table(found: &[Found]) -> Table {
    let row = |f: &Found| {
        vec![
            f.name.to_owned(),
            format!("{:.1}", f.goodput),
            format!("{:.0}", f.held),
            format!("{:.0}", f.median),
            format!("{:.0}", f.late),
        ]
    };
    Table {
        title: "Later data ahead on the slow path: 50 Mbit/s at 10 ms and 20 Mbit/s at 60 ms"
            .to_owned(),
        head: [
            "scheduler",
            "file, Mbit/s",
            "held out of order, kB",
            "stream, median ms",
            "stream, 99 % ms",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: found.iter().map(row).collect(),
        caption: "A file for 30 s, and a stream of 55 Mbit/s in messages of 1400 bytes; CUBIC, \
                  100 packets. `stms` waits where the data would arrive after the faster \
                  subflows have sent everything that is written, which is ECF's rule."
            .to_owned(),
    }
}
