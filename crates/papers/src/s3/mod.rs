//! Paper S3: earliest completion first (ECF) for three subflows. A file over three equal links,
//! and over one fast and two slow ones; four ways to use them.
//!
//! What the paper does not state is in `papers/s3/README.md`.

use crate::context::{Context, Job};
use crate::report::Report;
use crate::{Paper, PaperError};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "s3",
    title: "Earliest completion first for three subflows",
    summary: "a file over three equal links, and over a fast and two slow ones; beyond: within 3 % \
              of the sum of the links",
    run,
};

const CASES: [Case; 2] = [
    Case {
        name: "homogeneous",
        file: "papers/s3/homogeneous.toml",
        text: include_str!("../../../../papers/s3/homogeneous.toml"),
        mbps: [8.6, 8.6, 8.6],
    },
    Case {
        name: "heterogeneous",
        file: "papers/s3/heterogeneous.toml",
        text: include_str!("../../../../papers/s3/heterogeneous.toml"),
        mbps: [8.6, 0.3, 0.1],
    },
];

struct Case {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    mbps: [f64; 3],
}

/// A way to use the links.
struct Scheme {
    name: &'static str,
    sets: &'static [(&'static str, &'static str)],
}

const SCHEMES: [Scheme; 2] = [
    Scheme { name: "minRTT, 3 paths", sets: &[("defaults.scheduler", "minrtt")] },
    Scheme { name: "single fastest path", sets: &[("defaults.mptcp", "false")] },
];

/// Payload of a full packet of 1500 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
const SHARE: f64 = 1428.0 / 1500.0;

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    let sizes: &[u32] = context.pick(&[10, 60], &[10, 20, 30, 40, 50, 60]);
    let mut jobs = Vec::new();
    let mut places = Vec::new();
    for case in &CASES {
        for &size in sizes {
            for scheme in &SCHEMES {
                let size_text = format!("{size}MB");
                let seed = context.seed.to_string();
                let mut sets = vec![("flow.0.bulk", size_text.as_str()), ("seed", &seed)];
                sets.extend(scheme.sets);
                jobs.push(Job::new(case.file, case.text, &sets)?);
                places.push((case, size, scheme));
            }
        }
    }
    let results = context.run("files", &jobs)?;
    for ((case, size, scheme), (job, result)) in places.iter().zip(jobs.iter().zip(&results)) {
        let seconds = job.completed(result, "file")?;
        let bound = f64::from(*size) * 8.0 / (case.mbps.iter().sum::<f64>() * SHARE);
        report.cell(case.name, format!("{size} MB"), scheme.name, (None, seconds, "s"));
        if scheme.name.starts_with("min") {
            report.cell(case.name, format!("{size} MB"), "bound", (None, bound, "s"));
        }
    }
    Ok(report)
}
