//! Paper `proxies` (S5): TCP proxies that split a connection, with high-speed TCP between them.
//!
//! What the paper does not state is in `papers/proxies/README.md`. The paper's figures are known
//! here in words only, so that its cells have no numbers of the paper's.

use crate::context::{Context, Job};
use crate::published::Published;
use crate::report::{Report, Table, Value, Verdict};
use crate::{Paper, PaperError, Source};
use tabane_sim::result::RunResult;

mod fairness;
mod figures;
mod parallel;
mod place;
mod throughput;

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "proxies",
    alias: "s5",
    title: "TCP proxies with high-speed TCP between them",
    source: Some(Source {
        authors: &[
            "Kana Yamanegi",
            "Takayuki Hama",
            "Go Hasegawa",
            "Masayuki Murata",
            "Hideyuki Shimonishi",
            "Tutomu Murase",
        ],
        title: "Implementation Experiments of the TCP Proxy Mechanism",
        venue: "6th Asia-Pacific Symposium on Information and Telecommunication Technologies \
                (APSITT), pp. 17-22",
        year: 2005,
        doi: "10.1109/APSITT.2005.203624",
    }),
    summary: "socket buffers, delays and controllers, directly and by two proxies; fairness beside \
              Reno; beyond: 95 % of the link at 43 ms, fairly; --place: where to put proxies",
    inventory: include_str!("../../../../papers/proxies/inventory.csv"),
    run,
};

const CLAIMS: &str = include_str!("../../../../papers/proxies/claims.csv");

/// The bottleneck, Mbit/s, headers included.
const LINK: f64 = 70.0;

/// Payload of a full packet of 1500 bytes.
const SHARE: f64 = 1448.0 / 1500.0;

/// Most payload that the bottleneck can carry, Mbit/s.
const BOUND: f64 = LINK * SHARE;

/// This share of it counts as a full link.
const FULL: f64 = 0.95;

/// Delay of the emulator one way, and the RTT that it makes, ms.
const TOKYO: (&str, u32) = ("0ms", 18);
const OKINAWA: (&str, u32) = ("12.5ms", 43);

/// Smallest and largest socket buffer, KiB.
const SMALL: u32 = 64;
const LARGE: u32 = 512;

/// What runs between the proxies in the paper. Of gHSTCP the reading that fits.
const RENO: &str = "reno";
const HIGHSPEED: &str = "highspeed";
const GENTLE: &str = "ghstcp:dec=0";
const PAPERS: [(&str, &str); 3] = [("Reno", RENO), ("HSTCP", HIGHSPEED), ("gHSTCP", GENTLE)];

/// What else can; the first two are asked even when there is little time.
const OTHERS: [(&str, &str); 6] = [
    ("gHSTCP, half in Reno mode", "ghstcp"),
    ("CUBIC", "cubic"),
    ("HSTCP, Linux's table", "highspeed:table=1"),
    ("HSTCP, Linux's table, by ACKs", "highspeed:table=1,per_ack=1"),
    ("gHSTCP, thresholds", "ghstcp:variant=1,dec=0"),
    ("BBR", "bbr"),
];

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(repetitions(context));
    assume(&mut report);
    let throughput = throughput::measure(context)?;
    let pairs = fairness::measure(context)?;
    let line = place::measure(context)?;
    let trace = figures::trace(context)?;
    let parallel = parallel::measure(context)?;
    throughput.tell(&mut report);
    pairs.tell(&mut report);
    trace.tell(&mut report);
    parallel.tell(&mut report);
    line.tell(&mut report);
    beyond(context, &mut report, &throughput, &pairs);
    if context.options.place {
        place::advise(context, &mut report)?;
    }
    Ok(report)
}

fn repetitions(context: &Context<'_>) -> u64 {
    context.pick(1, 3)
}

fn others(context: &Context<'_>) -> &'static [(&'static str, &'static str)] {
    context.pick(&OTHERS[..2], &OTHERS)
}

fn duration(context: &Context<'_>) -> &'static str {
    context.pick("40s", "120s")
}

/// Goodput of a flow, Mbit/s.
fn mbps(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].goodput_bps / 1e6
}

/// What [`PAPERS`] fits of gHSTCP.
const FITTED: &str = "what a loss costs gHSTCP in Reno mode";

/// One of the jobs with `path.toml` or `pair.toml`.
#[derive(Clone, Copy)]
struct Case<'a> {
    buffer: u32,
    delay: &'a str,
    /// Controller between the proxies; `None` is direct.
    between: Option<&'a str>,
    seed: u64,
}

impl Case<'_> {
    fn job(&self, file: &str, text: &str, duration: &str) -> Result<Job, PaperError> {
        let buffer = format!("\"{}KiB\"", self.buffer);
        let (seed, delay) = (self.seed.to_string(), format!("\"{}\"", self.delay));
        let via = if self.between.is_some() { "[\"west\", \"east\"]" } else { "[]" };
        let controller = format!("\"{}\"", self.between.unwrap_or(RENO));
        let duration = format!("\"{duration}\"");
        let sets = [
            ("duration", duration.as_str()),
            ("seed", &seed),
            ("link.emulator.delay", &delay),
            ("host.sender.tcp.linux.so_sndbuf", &buffer),
            ("host.receiver.tcp.linux.so_rcvbuf", &buffer),
            ("proxy.west.connect.congestion", &controller),
            ("flow.0.via", via),
        ];
        Job::new(file, text, &sets)
    }
}

/// Adds a claim with the paper's words for it.
fn claim(report: &mut Report, id: &str, text: &str, ours: f64, unit: &str, verdict: Verdict) {
    let published = Published::parse("papers/proxies/claims.csv", CLAIMS);
    let words = published.ok().and_then(|file| {
        let row = file.rows().find(|row| row.text("id") == Ok(id))?;
        row.text("published").ok().map(str::to_owned)
    });
    let paper = words.map_or(Value::Unknown, Value::from);
    report.claim(id, text, (paper, ours, unit), verdict);
}

fn assume(report: &mut Report) {
    for (what, value, why) in [
        ("socket buffers", "64, 128, 256, 512 KiB", "the paper sweeps from 64 KB up"),
        (
            "what a socket buffer means",
            "Linux's: doubled, half of it window",
            "what a segment is charged limits the sender (`tcp.linux` of scenarios)",
        ),
        ("repetitions", "3", "the paper has 5; ours differ by little"),
        ("buffers of proxies", "16 MiB to send, autotuned to receive", "large, says the paper"),
        ("place of the emulator", "between the proxies", "the long hop keeps its RTT"),
        ("access of hosts and proxies", "1 Gbit/s, 0.05 ms", "not stated"),
        ("jitter", "0.1 ms, normal", "a public network; repetitions differ by it"),
        ("buffers of the direct flow in pairs", "512 KiB", "not its own limit"),
        ("traffic of others", "ten Reno flows that send a third of the time", "not stated"),
        ("thresholds of gHSTCP", "r_hi 0.5, r_lo 0.2, rise 0.1 ms", "ours; the paper's are open"),
    ] {
        report.assume(what, value, why);
    }
    report.calibrate(
        FITTED,
        "b(w), as in HighSpeed mode (dec=0)",
        "fits the order gHSTCP above HSTCP at 43 ms; with a half (dec=1) it is the other way round",
    );
}

/// The target: a full link at 43 ms from hosts of 64 KB, and fair.
fn beyond(
    context: &Context<'_>,
    report: &mut Report,
    throughput: &throughput::Throughput,
    pairs: &fairness::Pairs,
) {
    let all: Vec<_> = PAPERS.iter().chain(others(context)).collect();
    let figures: Vec<(&str, f64, f64)> = all
        .iter()
        .map(|(name, spec)| (*name, throughput.alone(spec), pairs.jain(spec, OKINAWA.1)))
        .collect();
    let fair = figures.iter().filter(|f| f.2 >= 0.9);
    let best = fair.max_by(|a, b| a.1.total_cmp(&b.1)).or(figures.first());
    if let Some(&(name, alone, jain)) = best {
        report.target(
            "full",
            &format!("payload at 43 ms with 64 KB hosts, {name} between the proxies"),
            (FULL * BOUND, alone, "Mbit/s"),
            Verdict::when(alone >= FULL * BOUND, || format!("{name} leaves gaps after losses")),
        );
        report.target(
            "fair",
            &format!("Jain's index beside a direct Reno flow at 43 ms, {name} between the proxies"),
            (0.9, jain, ""),
            Verdict::when(jain >= 0.9, || "all that fill the link take more".into()),
        );
    }
    let row = |f: &(&str, f64, f64)| {
        let percent = format!("{:.1}", 100.0 * f.1 / BOUND);
        vec![f.0.to_owned(), format!("{:.2}", f.1), percent, format!("{:.3}", f.2)]
    };
    report.tables.push(Table {
        title: "Between the proxies at 43 ms, hosts of 64 KB".into(),
        head: ["controller", "alone, Mbit/s", "% of the payload bound", "Jain beside Reno"]
            .map(str::to_owned)
            .to_vec(),
        rows: figures.iter().map(row).collect(),
        caption: format!("The bound is {BOUND:.2} Mbit/s: 70 Mbit/s less headers."),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Progress;
    use crate::report::Beyond;

    /// A quick repetition: every claim has the paper's words, and the target is met.
    #[test]
    fn a_quick_repetition_tells_everything() {
        let quiet = |_: Progress<'_>| ();
        let mut context = Context::new(&quiet);
        (context.quick, context.jobs) = (true, 2);
        let report = run(&context).unwrap_or_else(|e| panic!("{e}"));
        let rows = Published::parse("claims.csv", CLAIMS).unwrap().rows().count();
        assert_eq!(report.claims.len(), rows);
        for claim in &report.claims {
            assert_ne!(claim.paper, Value::Unknown, "{}", claim.id);
        }
        // Slow start counts for more in a short run.
        let holds = |b: &Beyond| b.verdict.holds() || b.id == "full" && b.ratio > 0.98;
        assert!(report.beyond.iter().all(holds), "{:?}", report.beyond);
        assert_eq!(report.assumptions.iter().filter(|a| a.calibrated).count(), 1);
    }
}
