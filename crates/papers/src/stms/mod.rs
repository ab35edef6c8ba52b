//! Paper `stms` (S9): STMS (Shi et al.), which sends later data on the long path so that everything
//! arrives in order, against minRTT: over short queues, and with small buffers at the hosts.
//!
//! What the paper does not state is in `papers/stms/README.md`. What else the scheduler is good for
//! is asked in paper `ecf3`.

use crate::context::{Context, Job};
use crate::figure::{Figure, Heat, Panel};
use crate::report::{Report, Verdict};
use crate::stats;
use crate::{Paper, PaperError};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "stms",
    alias: "s9",
    title: "Later data ahead on the long path",
    // USENIX ATC 2018, pages 719-730: it has no DOI to cite it by.
    source: None,
    summary: "a file over a short and a long path with minRTT and STMS, by the length of the queue \
              and by the buffers of the hosts",
    inventory: include_str!("../../../../papers/stms/inventory.csv"),
    run,
};

const FILE: &str = "papers/stms/paths.toml";
const TEXT: &str = include_str!("../../../../papers/stms/paths.toml");

const PLAIN: &str = "minrtt";
const AHEAD: &str = "stms";
const SCHEDULERS: [&str; 3] = [PLAIN, AHEAD, "necf"];

/// Buffers of both hosts, and what of them limits nobody.
const BUFFERS: [&str; 5] = ["256KiB", "512KiB", "1MiB", "2MiB", AMPLE];
const AMPLE: &str = "16MiB";

/// Queues of the short path, packets, and the longest.
const QUEUES: [u32; 4] = [10, 20, 50, LONG];
const LONG: u32 = 100;

/// Goodput of a scheduler, Mbit/s, by buffer and queue.
struct Found {
    name: &'static str,
    buffer: &'static str,
    queue: u32,
    goodput: f64,
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(1, 2));
    assumptions(&mut report);
    let buffers = context.pick(&["512KiB", AMPLE][..], &BUFFERS);
    let queues = context.pick(&[20, LONG][..], &QUEUES);
    let found = measure(context, (buffers, queues), &report.seeds)?;
    for one in &found {
        let table = format!("Goodput, {}", one.name);
        let (row, column) = (one.buffer, format!("{} packets", one.queue));
        report.cell(&table, row, column, (None, one.goodput, "Mbit/s"));
    }
    claims(&mut report, &found);
    report.figures.push(figure(&found, buffers, queues));
    Ok(report)
}

fn measure(
    context: &Context<'_>,
    (buffers, queues): (&[&'static str], &[u32]),
    seeds: &[u64],
) -> Result<Vec<Found>, PaperError> {
    let duration = context.pick("5s", "20s");
    let (mut jobs, mut rows) = (Vec::new(), Vec::new());
    for name in SCHEDULERS {
        for &buffer in buffers {
            for &queue in queues {
                let tcp = format!(
                    "{{ receive_buffer = \"{buffer}\", receive_buffer_max = \"{buffer}\", \
                     send_buffer = \"{buffer}\" }}"
                );
                let packets = format!("{queue} packets");
                for seed in seeds {
                    let seed = seed.to_string();
                    let sets = [
                        ("defaults.scheduler", name),
                        ("defaults.tcp", tcp.as_str()),
                        ("link.short.queue", &packets),
                        ("duration", duration),
                        ("seed", &seed),
                    ];
                    jobs.push(Job::new(FILE, TEXT, &sets)?);
                }
                rows.push((name, buffer, queue));
            }
        }
    }
    let results = context.run("queues and buffers", &jobs)?;
    let found = rows.into_iter().zip(results.chunks(seeds.len()));
    let found = found.map(|((name, buffer, queue), runs)| {
        let flows = runs.iter().flat_map(|run| &run.flows).map(|flow| flow.goodput_bps / 1e6);
        let goodput = stats::mean(&flows.collect::<Vec<_>>()).unwrap_or(f64::NAN);
        Found { name, buffer, queue, goodput }
    });
    Ok(found.collect())
}

/// What `name` has more than minRTT, percent, where it gains most among the cells that `is` picks.
fn most(found: &[Found], name: &str, is: impl Fn(&Found) -> bool) -> (f64, String) {
    let gain = |one: &Found| {
        let same = |f: &&Found| f.buffer == one.buffer && f.queue == one.queue;
        let plain = found.iter().filter(|f| f.name == PLAIN).find(same);
        plain.map_or(f64::NAN, |plain| 100.0 * (one.goodput / plain.goodput - 1.0))
    };
    let of = found.iter().filter(|one| one.name == name && is(one));
    let best = of.max_by(|a, b| gain(a).total_cmp(&gain(b)));
    best.map_or((f64::NAN, String::new()), |one| {
        (gain(one), format!("buffers of {}, a queue of {} packets", one.buffer, one.queue))
    })
}

fn claims(report: &mut Report, found: &[Found]) {
    let (gain, place) = most(found, AHEAD, |one| one.buffer == AMPLE);
    let verdict = Verdict::within(30.0, gain, 10.0, || {
        format!(
            "at most at {place}: with ample buffers the short path never waits for data of the \
             long one, so that minRTT loses nothing by it, however short the queue"
        )
    });
    let text = "30 % more than minRTT where the queue is short, buffers ample (most of all queues, \
                within 10 points)";
    report.claim("queue", text, (30.0, gain, "%"), verdict);
    let (gain, place) = most(found, AHEAD, |one| one.queue == LONG);
    let verdict = Verdict::when(gain >= 15.0, || format!("at most at {place}"));
    let text = format!(
        "15 % more than minRTT where the hosts' buffers are small, at least at some size (most: \
         {place})"
    );
    report.claim("buffer", &text, (15.0, gain, "%"), verdict);
    let (gain, place) = most(found, AHEAD, |one| one.buffer != AMPLE && one.queue != LONG);
    let verdict = Verdict::when(gain > 5.0, || format!("at most at {place}"));
    let text = format!("more than minRTT where both are short (most: {place})");
    report.claim("both", &text, ("more", gain, "%"), verdict);
    let (ours, _) = most(found, "necf", |one| one.queue == LONG);
    let (bound, place) = most(found, AHEAD, |one| one.queue == LONG);
    let verdict = Verdict::when(ours >= bound, || {
        format!("it sends in order; its most is {ours:.0} % where stms has {bound:.0} % at {place}")
    });
    let text = "necf gains as much over minRTT as stms where buffers are small (most of each)";
    report.target("necf", text, (bound, ours, "%"), verdict);
}

fn figure(found: &[Found], buffers: &[&str], queues: &[u32]) -> Figure {
    let panel = |name: &&str| {
        let value = |buffer: &str, queue: u32| {
            let is = |f: &&Found| f.name == *name && f.buffer == buffer && f.queue == queue;
            found.iter().find(is).map(|f| f.goodput)
        };
        let row = |buffer: &&str| queues.iter().map(|queue| value(buffer, *queue)).collect();
        Panel::Heat(Heat {
            title: (*name).to_owned(),
            rows: ("buffers".to_owned(), buffers.iter().map(|b| (*b).to_owned()).collect()),
            columns: ("queue, packets".to_owned(), queues.iter().map(u32::to_string).collect()),
            values: buffers.iter().map(row).collect(),
            scale: (20.0, 95.0),
        })
    };
    Figure {
        id: "grid".to_owned(),
        title: "Goodput by buffers and queue, Mbit/s".to_owned(),
        caption: "50 Mbit/s at 10 ms and 50 Mbit/s at 60 ms one way.".to_owned(),
        columns: 3,
        panels: SCHEDULERS.iter().map(panel).collect(),
    }
}

fn assumptions(report: &mut Report) {
    report.assume(
        "published values",
        "the two gains of the abstract, 30 % and 15 %",
        "at which parameters is not in it; the grid is searched for the most",
    );
    report.assume(
        "paths",
        "50 Mbit/s at 10 ms and at 60 ms one way, 0.2 ms of jitter",
        "a difference of latency is what the paper is about",
    );
    report.assume("stack", "LIA, no tail reinjection", "Linux's MPTCP of its time");
    report.assume("runs", "20 s, two seeds (quick: 5 s, one)", "the steady state is asked for");
}
