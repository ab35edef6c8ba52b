//! Paper `ecf3` (S3): earliest completion first (ECF) for three subflows. A file over
//! three equal links, and over one fast and two slow ones, each used in four ways; beyond: the sum
//! of the links, and later data ahead on the slow path.
//!
//! What the paper does not state is in `papers/ecf3/README.md`.

mod ahead;
mod beyond;
mod figures;
mod mechanism;
mod regimes;
mod session;

use crate::context::{Context, Job};
use crate::report::{Report, Verdict};
use crate::stats;
use crate::{Paper, PaperError};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "ecf3",
    alias: "s3",
    title: "Earliest completion first for three subflows",
    source: None,
    summary: "a file over three equal links, and over a fast and two slow ones; beyond: within 3 % \
              of the sum of the links",
    inventory: include_str!("../../../../papers/ecf3/inventory.csv"),
    run,
};

/// One of the paper's two topologies.
struct Case {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    mbps: [f64; 3],
}

const CASES: [Case; 2] = [
    Case {
        name: HOMOGENEOUS,
        file: "papers/ecf3/homogeneous.toml",
        text: include_str!("../../../../papers/ecf3/homogeneous.toml"),
        mbps: [8.6, 8.6, 8.6],
    },
    Case {
        name: HETEROGENEOUS,
        file: "papers/ecf3/heterogeneous.toml",
        text: include_str!("../../../../papers/ecf3/heterogeneous.toml"),
        mbps: [8.6, 0.3, 0.1],
    },
];

const HOMOGENEOUS: &str = "homogeneous";
const HETEROGENEOUS: &str = "heterogeneous";

/// A way to use the links.
struct Scheme {
    name: &'static str,
    sets: &'static [(&'static str, &'static str)],
}

const MIN_RTT: &str = "minRTT, 3 paths";
const ECF: &str = "ECF, 2 fastest paths";
const SINGLE: &str = "single fastest path";
const PROPOSAL: &str = "proposal, 3 paths";

/// Paths are in order of speed in the files, so that two subflows are on the two fastest. The
/// backlog: the send buffer of the public model, which data leaves when it is sent.
const SCHEMES: [Scheme; 4] = [
    Scheme { name: MIN_RTT, sets: &[("defaults.scheduler", "minrtt")] },
    Scheme {
        name: ECF,
        sets: &[("defaults.scheduler", "ecf:backlog=131072"), ("defaults.mptcp.max_subflows", "2")],
    },
    Scheme { name: SINGLE, sets: &[("defaults.mptcp", "false")] },
    Scheme { name: PROPOSAL, sets: &[("defaults.scheduler", "ecf3:backlog=131072")] },
];

/// Sizes of the file, MB.
const SIZES: [u32; 6] = [10, 20, 30, 40, 50, 60];

/// Payload of a full packet of 1500 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
const SHARE: f64 = 1428.0 / 1500.0;

/// Name of the flow in the scenarios.
const FLOW: &str = "file";

/// The scheduler of ours that is judged: ECF for any number of paths.
const SCHEDULER: &str = "necf";

impl Case {
    /// The one of this name.
    fn named(name: &str) -> &'static Self {
        let found = CASES.iter().find(|case| case.name == name);
        found.expect("invariant: only the names of its rows are asked for")
    }

    fn job(&self, seed: u64, size: u32, sets: &[(&str, &str)]) -> Result<Job, PaperError> {
        let (size, seed) = (format!("{size}MB"), seed.to_string());
        let mut all = vec![("flow.0.bulk", size.as_str()), ("seed", &seed)];
        all.extend(sets);
        Job::new(self.file, self.text, &all)
    }

    /// Seconds that the sum of the links needs for a file, nothing else counted.
    fn bound(&self, size: u32) -> f64 {
        f64::from(size) * 8.0 / (self.mbps.iter().sum::<f64>() * SHARE)
    }
}

/// Completion times of the four schemes: case, scheme, size.
struct Times {
    sizes: Vec<u32>,
    rows: Vec<(&'static str, &'static str, Vec<f64>)>,
}

impl Times {
    fn of(&self, case: &str, scheme: &str) -> &[f64] {
        let found = self.rows.iter().find(|row| row.0 == case && row.1 == scheme);
        found.map_or(&[], |row| &row.2)
    }

    /// How much longer `scheme` takes than `other`, percent, mean over the sizes.
    fn more(&self, case: &str, scheme: &str, other: &str) -> f64 {
        let pairs = self.of(case, scheme).iter().zip(self.of(case, other));
        let more: Vec<f64> = pairs.map(|(a, b)| (a / b - 1.0) * 100.0).collect();
        stats::mean(&more).unwrap_or(f64::NAN)
    }

    /// The same of the times of all sizes together.
    fn more_in_all(&self, case: &str, scheme: &str, other: &str) -> f64 {
        let all = |scheme| self.of(case, scheme).iter().sum::<f64>();
        (all(scheme) / all(other) - 1.0) * 100.0
    }

    /// The shortest time of any scheme, by size.
    fn best(&self, case: &str) -> Vec<f64> {
        let of = SCHEMES.iter().map(|scheme| self.of(case, scheme.name));
        let least = |best: Vec<f64>, times: &[f64]| -> Vec<f64> {
            best.iter().zip(times).map(|(a, b)| a.min(*b)).collect()
        };
        of.fold(vec![f64::INFINITY; self.sizes.len()], least)
    }
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(2, 5));
    assumptions(&mut report);
    let times = measure(context, &report.seeds)?;
    for (case, scheme, seconds) in &times.rows {
        for (size, seconds) in times.sizes.iter().zip(seconds) {
            report.cell(
                &format!("{case}: time"),
                format!("{size} MB"),
                scheme,
                (None, *seconds, "s"),
            );
        }
    }
    claims(&mut report, &times);
    mechanism::run(context, &mut report)?;
    let ours = beyond::run(context, &mut report, &times)?;
    report.figures.push(figures::times(&times, &ours));
    session::run(context, &mut report)?;
    ahead::run(context, &mut report)?;
    regimes::run(context, &mut report)?;
    Ok(report)
}

fn measure(context: &Context<'_>, seeds: &[u64]) -> Result<Times, PaperError> {
    let sizes: Vec<u32> = context.pick(&[10, 60][..], &SIZES).to_vec();
    let cases = CASES.iter().flat_map(|case| SCHEMES.iter().map(move |scheme| (case, scheme)));
    let cases: Vec<(&Case, &Scheme)> = cases.collect();
    let rows: Vec<_> = cases.iter().map(|(case, scheme)| (*case, scheme.sets.to_vec())).collect();
    let seconds = seconds(context, "the paper's four schemes", &rows, &sizes, seeds)?;
    let rows = cases.iter().zip(seconds).map(|((case, scheme), seconds)| {
        (case.name, scheme.name, seconds.iter().map(|by_seed| mean(by_seed)).collect())
    });
    Ok(Times { sizes, rows: rows.collect() })
}

/// Completion times of rows of settings, by size, by seed.
fn seconds(
    context: &Context<'_>,
    stage: &str,
    rows: &[(&Case, Vec<(&str, &str)>)],
    sizes: &[u32],
    seeds: &[u64],
) -> Result<Vec<Vec<Vec<f64>>>, PaperError> {
    let mut jobs = Vec::new();
    for (case, sets) in rows {
        for &size in sizes {
            for &seed in seeds {
                jobs.push(case.job(seed, size, sets)?);
            }
        }
    }
    let results = context.run(stage, &jobs)?;
    let all = jobs.iter().zip(&results).map(|(job, result)| job.completed(result, FLOW));
    let all = all.collect::<Result<Vec<f64>, _>>()?;
    let by_size: Vec<Vec<f64>> = all.chunks(seeds.len()).map(<[f64]>::to_vec).collect();
    Ok(by_size.chunks(sizes.len()).map(<[Vec<f64>]>::to_vec).collect())
}

fn mean(values: &[f64]) -> f64 {
    stats::mean(values).unwrap_or(f64::NAN)
}

/// Percentage points within which a relative claim counts as reproduced.
const TOLERANCE: f64 = 3.0;

fn claims(report: &mut Report, times: &Times) {
    // Signs as in the paper: less time is negative.
    let table = [
        ("heterogeneous-minrtt", HETEROGENEOUS, MIN_RTT, -9.0, "about 9 % less than minRTT"),
        ("heterogeneous-single", HETEROGENEOUS, SINGLE, 0.0, "as much as the fastest path alone"),
        ("heterogeneous-ecf", HETEROGENEOUS, ECF, 0.0, "as much as ECF over two paths"),
        ("homogeneous-minrtt", HOMOGENEOUS, MIN_RTT, 0.0, "as much as minRTT"),
        ("homogeneous-ecf", HOMOGENEOUS, ECF, -33.0, "about 33 % less than ECF over two paths"),
    ];
    for (id, case, other, paper, words) in table {
        let ours = times.more_in_all(case, PROPOSAL, other);
        let mean = times.more(case, PROPOSAL, other);
        let text = format!(
            "{case}: the proposal takes {words} (times of all sizes together; the mean of the \
             sizes' percentages is {mean:+.1} %)"
        );
        let sizes: Vec<String> = times
            .of(case, PROPOSAL)
            .iter()
            .zip(times.of(case, other))
            .zip(&times.sizes)
            .map(|((a, b), size)| format!("{size} MB {:+.1} %", (a / b - 1.0) * 100.0))
            .collect();
        let by_size = sizes.join(", ");
        let near = |ours: f64| (ours - paper).abs() <= TOLERANCE;
        let verdict = match (near(ours), near(mean)) {
            (true, true) => Verdict::Reproduced,
            (false, false) => Verdict::Not(format!("it is {ours:+.1} % here, by size: {by_size}")),
            _ => Verdict::Partly(format!(
                "it is {ours:+.1} % of the times of all sizes together, but {mean:+.1} % as the \
                 mean of the sizes' percentages, and the paper does not say which it means; by \
                 size: {by_size}"
            )),
        };
        report.claim(id, &text, (paper, ours, "%"), verdict);
    }
    let gain = |case: &str| {
        let others = [MIN_RTT, ECF, SINGLE].map(|other| times.more_in_all(case, PROPOSAL, other));
        others.into_iter().fold(f64::NEG_INFINITY, f64::max)
    };
    let most = gain(HOMOGENEOUS).min(gain(HETEROGENEOUS));
    let verdict = Verdict::when(most > -TOLERANCE, || {
        format!("the proposal takes {:.1} % less than the best of the others", -most)
    });
    let text = "the proposal is nowhere clearly faster than the best of the other three";
    report.claim("never-clearly-faster", text, ("0", most, "%"), verdict);
}

fn assumptions(report: &mut Report) {
    report.assume(
        "queue of each link",
        "100 packets, drop-tail",
        "the default of its simulator; see the table of others",
    );
    report.assume(
        "stack",
        "LIA, no SACK, initial window 1, ssthresh 65 535 bytes, receive buffer 50 MB",
        "defaults of the public model of MPTCP for ns-3.19",
    );
    report.assume(
        "backlog of algorithm 1",
        "at most 131 072 bytes",
        "the send buffer of that model, from which data goes when it is sent; see the table of \
         others",
    );
    report.assume("20 ms propagation", "one way", "how link delays are written in ns-3");
    report.assume("packets", "1500 bytes of IP", "1428 of them payload with MPTCP, 1448 with TCP");
    report.assume("MB", "10^6 bytes", "files are sized so by iperf and by ns-3's applications");
    report.assume(
        "about 9 %",
        "of the times of all sizes together, and the mean of the sizes' percentages",
        "the paper does not say how it averages; a claim that holds by one of them holds in part",
    );
    report.assume(
        "published values",
        "only the relations in the text",
        "the figures' bars are not available as numbers, so cells have no published value",
    );
}
