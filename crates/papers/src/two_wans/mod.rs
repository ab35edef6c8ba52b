//! Paper `two_wans` (S4): two WANs of different speed bundled between a home gateway
//! and a cloud host, and a second tunnel over the faster one.
//!
//! UDP through the VPN is modelled as what the bundle delivers, which is all that a saturating
//! sender gets. TCP through the VPN is a second run (`nested`): a connection over a link whose rate
//! at each moment is what the bundle delivered then, behind a queue as long as the outer sender's
//! buffer. What the paper does not state is in `papers/two_wans/README.md`.

mod beyond;
mod cause;
mod figures;
mod lengths;
mod nested;

use crate::context::{Context, Job};
use crate::report::{Report, Verdict};
use crate::stats;
use crate::{Paper, PaperError};
use tabane_engine::Duration;
use tabane_trace::report::Metric;
use tabane_trace::{Report as Seen, Settings};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "two_wans",
    alias: "s4",
    title: "Two WANs of different speed, and filling the faster one",
    source: None,
    summary: "MPTCP over FTTH and VDSL, with and without a second tunnel over FTTH; beyond: 95 % \
              of the sum for one flow within 2 s",
    inventory: include_str!("../../../../papers/two_wans/inventory.csv"),
    run,
};

const FILE: &str = "papers/two_wans/bundle.toml";
const TEXT: &str = include_str!("../../../../papers/two_wans/bundle.toml");

/// The second tunnel over the faster WAN.
const EXTRA: (&str, &str) =
    ("path", "{ ftth = [\"ftth\"], vdsl = [\"vdsl\"], extra = [\"ftth\"] }");

/// Rates of the WANs, Mbit/s.
const FTTH: f64 = 230.0;
const VDSL: f64 = 80.0;

/// Payload of a packet of 1420 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
const SHARE: f64 = 1348.0 / 1420.0;

/// Seconds of an iperf3 run, and of a long transfer.
const SHORT: usize = 10;

/// What both WANs carry together, Mbit/s of payload.
fn sum_of_both() -> f64 {
    (FTTH + VDSL) * SHARE
}

/// Goodput of a run, Mbit/s, one value a second.
#[derive(Clone)]
struct Course(Vec<f64>);

impl Course {
    /// Of a flow, at the host that receives.
    fn of(seen: &Seen, flow: &str, host: &str) -> Self {
        let is = |s: &&tabane_trace::Series| {
            s.metric == Metric::Goodput
                && s.subject.flow == flow
                && s.subject.host == host
                && s.subject.subflow.is_none()
        };
        let (mut bits, mut last) = (Vec::new(), 0.0);
        for &(t, rate) in seen.series.iter().find(is).map_or(&[][..], |s| &s.points) {
            let second = (t - 1e-9).max(0.0) as usize;
            if bits.len() <= second {
                bits.resize(second + 1, 0.0);
            }
            bits[second] += rate * (t - last) / 1e6;
            last = t;
        }
        Self(bits)
    }

    fn mean(&self, from: usize, to: usize) -> f64 {
        let to = to.min(self.0.len());
        stats::mean(self.0.get(from.min(to)..to).unwrap_or(&[])).unwrap_or(0.0)
    }

    fn greatest(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// Runs of the same settings with other seeds.
struct Runs(Vec<Course>);

impl Runs {
    fn mean(&self, from: usize, to: usize) -> f64 {
        let means: Vec<f64> = self.0.iter().map(|course| course.mean(from, to)).collect();
        stats::mean(&means).unwrap_or(0.0)
    }

    fn greatest(&self) -> f64 {
        let all: Vec<f64> = self.0.iter().map(Course::greatest).collect();
        stats::mean(&all).unwrap_or(0.0)
    }
}

/// Samples a tenth of a second apart.
fn settings() -> Settings {
    let interval = Duration::from_millis(100);
    Settings { interval, bins: 2_000, tracked: 64, records: false }
}

/// Runs each of the settings with each seed.
fn courses(
    context: &Context<'_>,
    stage: &str,
    seeds: &[u64],
    rows: &[Vec<(&str, &str)>],
) -> Result<Vec<Runs>, PaperError> {
    let mut jobs = Vec::new();
    for sets in rows {
        for seed in seeds {
            let seed = seed.to_string();
            let mut sets = sets.clone();
            sets.push(("seed", &seed));
            jobs.push(Job::new(FILE, TEXT, &sets)?);
        }
    }
    let all = context.watch(stage, &jobs, settings())?;
    let receiver =
        |at: usize| if rows[at / seeds.len()].contains(&UP) { "server" } else { "client" };
    let all = all.iter().enumerate().map(|(at, run)| Course::of(&run.1, "file", receiver(at)));
    let all: Vec<Course> = all.collect();
    Ok(all.chunks(seeds.len()).map(|runs| Runs(runs.to_vec())).collect())
}

/// A file from the home to the cloud.
const UP: (&str, &str) = ("flow.0.direction", "upload");

/// Runs of one kind of traffic and direction: with a tunnel a WAN, and with the extra tunnel.
struct Row {
    id: &'static str,
    name: &'static str,
    /// The paper's, Mbit/s.
    paper: [f64; 2],
    ours: [f64; 2],
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(2, 5));
    assumptions(&mut report);
    let duration = ("duration", context.pick("20s", "60s"));
    let rows =
        [vec![duration, UP], vec![duration, UP, EXTRA], vec![duration], vec![duration, EXTRA]];
    let outer = courses(context, "the bundle", &report.seeds, &rows)?;
    let inner = nested::run(context, &outer)?;
    let short = |runs: &[Runs], at: usize| [0, 1].map(|n| runs[at + n].mean(0, SHORT));
    let rows = [
        ("udp-up", "UDP up", [130.0, 179.0], short(&outer, 0)),
        ("udp-down", "UDP down", [100.0, 149.0], short(&outer, 2)),
        ("tcp-up", "TCP up", [90.0, 120.0], short(&inner, 0)),
        ("tcp-down", "TCP down", [30.0, 55.0], short(&inner, 2)),
    ];
    let rows = rows.map(|(id, name, paper, ours)| Row { id, name, paper, ours });
    let (one, two) = (&outer[2], &outer[3]);
    cells(&mut report, &rows);
    claims(&mut report, (one, two));
    gains(&mut report, &rows);
    lengths::run(context, &mut report)?;
    cause::run(context, &mut report, (one, two))?;
    let ours = beyond::run(context, &mut report)?;
    report.figures.push(figures::courses(one, two, &ours));
    Ok(report)
}

/// The eight published figures.
fn cells(report: &mut Report, rows: &[Row]) {
    let table = "iperf3 through the VPN, 10 s";
    for row in rows {
        for (at, column) in ["a tunnel a WAN", "extra tunnel"].into_iter().enumerate() {
            let (paper, ours) = (row.paper[at], row.ours[at]);
            report.cell(table, row.name, column, (Some(paper), ours, "Mbit/s"));
            let verdict = Verdict::when((ours / paper - 1.0).abs() <= 0.15, || {
                let ratio = ours / paper;
                match row.id.starts_with("tcp") {
                    true => format!(
                        "{ratio:.1} times as much: here the tunnels are links, which lose nothing \
                         of the inner connection's; the paper's are TCP connections themselves"
                    ),
                    false => format!(
                        "{ratio:.1} times as much: the same queue and rate both ways, fitted to \
                         \"about 150\"; the paper's own two directions differ by a third"
                    ),
                }
            });
            let id = format!("{}-{}", row.id, at + 1);
            let text = format!("iperf3, {}, {column} (within 15 %)", row.name);
            report.claim(&id, &text, (paper, ours, "Mbit/s"), verdict);
        }
    }
}

fn claims(report: &mut Report, (one, two): (&Runs, &Runs)) {
    let first = one.mean(0, SHORT);
    let verdict = Verdict::within(150.0, first, 22.5, || {
        format!("10 s give {first:.0} Mbit/s; the long mean is {:.0}", one.mean(0, 60))
    });
    let text = "with a tunnel a WAN the bundle gives about 150 of 310 Mbit/s (within 15 %)";
    let verdict = verdict.fitted("the queue of each WAN");
    report.claim("bundle", text, (150.0, first, "Mbit/s"), verdict);
    let greatest = two.greatest();
    let verdict = Verdict::when(greatest >= 275.0, || "the windows do not grow so far".to_owned());
    let text = "with the extra tunnel long transfers reach 290 Mbit/s after a slow climb";
    report.claim("reaches", text, (290.0, greatest, "Mbit/s"), verdict);
    let mean = two.mean(0, 60);
    let verdict = Verdict::within(200.0, mean, 30.0, || format!("the mean is {mean:.0}"));
    let text = "with the extra tunnel long transfers have about 200 Mbit/s on average (15 %)";
    report.claim("long-mean", text, (200.0, mean, "Mbit/s"), verdict);
}

/// How many times as much there is with the extra tunnel.
fn gains(report: &mut Report, rows: &[Row]) {
    for row in rows {
        let [paper, ours] = [row.paper, row.ours].map(|[one, two]| two / one.max(1e-9));
        let verdict = Verdict::within(paper, ours, 0.15, || {
            let [one, two] = row.ours;
            format!(
                "10 s give {one:.0} and {two:.0} Mbit/s; here it is a second window over a short \
                 queue, and depends on when the first losses fall"
            )
        });
        let text = format!("{}: gain of the extra tunnel (within 0.15)", row.name);
        report.claim(&format!("gain-{}", row.id), &text, (paper, ours, "times"), verdict);
    }
}

fn assumptions(report: &mut Report) {
    report.calibrate(
        "queue of each WAN",
        "80 KB, drop-tail",
        "fitted on one cell, the 150 Mbit/s with a tunnel a WAN; see the table of others",
    );
    report.assume("delay", "FTTH 15 ms, VDSL 20 ms one way", "a cloud host in another city");
    report.assume("rates", "the same up and down", "the paper gives one rate a WAN");
    report.assume("scheduler", "burst", "upstream Linux's, which mptcpize uses");
    report.assume("congestion control", "cubic on each subflow", "Linux's default");
    report.assume("buffers", "tcp_rmem to 6 MiB, tcp_wmem to 4 MiB", "Linux's defaults");
    report.assume("MTU", "1420 bytes in the tunnel", "WireGuard's");
    report.assume("iperf3", "10 s; long transfers 60 s", "iperf3's default");
    report.assume(
        "TCP through the VPN",
        "a connection over what the bundle delivers",
        "rate in steps of 100 ms, queue of 4 MiB (the outer sender's buffer)",
    );
    report.assume(
        "repetitions",
        "5 with 0.2 ms of jitter (quick: 2)",
        "when losses fall is chance",
    );
}
