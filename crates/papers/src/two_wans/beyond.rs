//! Beyond the paper: one TCP flow of a host at home through proxies at the ends of the bundle,
//! with a controller that does not need long queues.

use super::{Course, Runs, settings, sum_of_both};
use crate::PaperError;
use crate::context::{Context, Job};
use crate::report::{Report, Verdict};

const FILE: &str = "papers/two_wans/proxied.toml";
const TEXT: &str = include_str!("../../../../papers/two_wans/proxied.toml");

/// Share of the sum that is to be reached, and after how many seconds.
const TARGET: f64 = 0.95;
const WITHIN: usize = 2;

/// Queues of the WANs: the calibrated one, and about 10 ms.
const QUEUES: [(&str, &str); 2] = [("calibrated", "80KB"), ("long", "300KB")];

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<Vec<Runs>, PaperError> {
    let duration = context.pick("10s", "30s");
    let mut jobs = Vec::new();
    for (_, queue) in QUEUES {
        for seed in &report.seeds {
            let seed = seed.to_string();
            let sets = [
                ("duration", duration),
                ("link.ftth.queue", queue),
                ("link.vdsl.queue", queue),
                ("seed", &seed),
            ];
            jobs.push(Job::new(FILE, TEXT, &sets)?);
        }
    }
    let all = context.watch("one flow through proxies", &jobs, settings())?;
    let all: Vec<Course> = all.iter().map(|(_, seen)| Course::of(seen, "file", "client")).collect();
    let all: Vec<Runs> = all.chunks(report.seeds.len()).map(|runs| Runs(runs.to_vec())).collect();
    for ((name, queue), runs) in QUEUES.iter().zip(&all) {
        target(report, name, queue, runs);
    }
    Ok(all)
}

fn target(report: &mut Report, name: &str, queue: &str, runs: &Runs) {
    let bound = sum_of_both();
    let ours = runs.mean(WITHIN, usize::MAX);
    let verdict = Verdict::when(ours >= TARGET * bound, || {
        format!(
            "from {WITHIN} s on it has {:.1} % of the sum (third second {:.0} Mbit/s, later mean \
             {:.0}): a queue of {queue} holds 3 ms of FTTH, and BBR keeps headroom below where it \
             lost; with CUBIC it is {}",
            100.0 * ours / bound,
            runs.mean(2, 3),
            runs.mean(5, usize::MAX),
            "far less, see the courses"
        )
    });
    let text = format!(
        "one TCP flow, no extra tunnel, {name} queues ({queue}): 95 % of the sum from 2 s on"
    );
    report.target(&format!("sum-{name}"), &text, (bound, ours, "Mbit/s"), verdict);
}
