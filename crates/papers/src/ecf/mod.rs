//! Paper `ecf` (S8): ECF, a scheduler for heterogeneous paths (Lim et al.): chunks of a video over
//! two paths of 0.3 to 8.6 Mbit/s each, with four schedulers, and what rate they come at beside
//! what both paths carry. Beyond: `necf` in each cell at least as good as any of them.
//!
//! What the paper does not state is in `papers/ecf/README.md`. Not here: a player that adapts; a
//! chunk is of the bit rate that would be ideal.

use crate::context::{Context, Job};
use crate::figure::{Figure, Heat, Panel};
use crate::report::{Report, Table, Verdict};
use crate::stats;
use crate::{Paper, PaperError, Source};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "ecf",
    alias: "s8",
    title: "ECF over two heterogeneous paths",
    source: Some(Source {
        authors: &["Yeon-sup Lim", "Erich M. Nahum", "Don Towsley", "Richard J. Gibbens"],
        title: "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths",
        venue: "ACM CoNEXT",
        year: 2017,
        doi: "10.1145/3143361.3143376",
    }),
    summary: "chunks of a video over two paths of 0.3 to 8.6 Mbit/s with minRTT, DAPS, BLEST and \
              ECF; beyond: necf at least as good as any in each cell",
    inventory: include_str!("../../../../papers/ecf/inventory.csv"),
    run,
};

const FILE: &str = "papers/ecf/stream.toml";
const TEXT: &str = include_str!("../../../../papers/ecf/stream.toml");

/// Rates of each path, Mbit/s: a little more than the video's bit rates.
const RATES: [f64; 6] = [0.3, 0.7, 1.1, 1.7, 4.2, 8.6];

/// The highest bit rate of the video, Mbit/s.
const HIGHEST: f64 = 8.47;

/// Seconds of video in a chunk.
const CHUNK: f64 = 5.0;

/// Payload of a packet of 1500 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
const SHARE: f64 = 1428.0 / 1500.0;

const DEFAULT: &str = "minrtt";
const ECF: &str = "ecf";
const OURS: &str = "necf";
/// The paper's four, and ours.
const SCHEDULERS: [&str; 5] = [DEFAULT, "daps", "blest", ECF, OURS];

/// Payload that both paths carry, Mbit/s.
fn sum(wifi: f64, lte: f64) -> f64 {
    (wifi + lte) * SHARE
}

/// The ideal bit rate, as the paper has it: what both paths carry, but no more than the highest.
fn ideal(wifi: f64, lte: f64) -> f64 {
    sum(wifi, lte).min(HIGHEST)
}

/// What a scheduler gave in every cell: rates at which chunks came, over the ideal bit rate.
struct Found {
    name: &'static str,
    /// By LTE, then by Wi-Fi.
    ratios: Vec<Vec<f64>>,
}

impl Found {
    fn cells(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let row = |(l, row): (usize, &Vec<f64>)| {
            row.iter().enumerate().map(|(w, r)| (l, w, *r)).collect::<Vec<_>>()
        };
        self.ratios.iter().enumerate().flat_map(row)
    }

    /// Mean over the cells that `is` picks by their rates.
    fn mean(&self, rates: &[f64], is: impl Fn(f64, f64) -> bool) -> f64 {
        let cells = self.cells().filter(|(l, w, _)| is(rates[*w], rates[*l]));
        stats::mean(&cells.map(|cell| cell.2).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(1, 3));
    assumptions(&mut report);
    let rates = context.pick(&[0.3, 1.7, 8.6][..], &RATES);
    let found = measure(context, rates, &report.seeds)?;
    for one in &found {
        for (l, w, ratio) in one.cells() {
            let table = format!("Rate of chunks over the ideal, {}", one.name);
            let (row, column) = (format!("LTE {}", rates[l]), format!("Wi-Fi {}", rates[w]));
            report.cell(&table, row, column, (None, ratio, ""));
        }
    }
    claims(&mut report, &found, rates);
    target(&mut report, &found, rates);
    report.tables.push(table(&found, rates));
    report.figures.push(figure(&found, rates));
    Ok(report)
}

fn measure(context: &Context<'_>, rates: &[f64], seeds: &[u64]) -> Result<Vec<Found>, PaperError> {
    let count = context.pick(5, 20).to_string();
    let mut jobs = Vec::new();
    for scheduler in SCHEDULERS {
        for lte in rates {
            for wifi in rates {
                let bits = ideal(*wifi, *lte);
                let size = format!("{:.0}kB", bits * CHUNK * 125.0);
                // The pause of a player whose buffer is full.
                let think = format!("{:.3}s", CHUNK * (1.0 - bits / sum(*wifi, *lte)));
                let (wifi, lte) = (format!("{wifi}Mbps"), format!("{lte}Mbps"));
                for seed in seeds {
                    let seed = seed.to_string();
                    let sets = [
                        ("defaults.scheduler", scheduler),
                        ("link.wifi.rate", &wifi),
                        ("link.lte.rate", &lte),
                        ("flow.0.request.size", &size),
                        ("flow.0.request.think", &think),
                        ("flow.0.request.count", &count),
                        ("seed", &seed),
                    ];
                    jobs.push(Job::new(FILE, TEXT, &sets)?);
                }
            }
        }
    }
    let results = context.run("chunks", &jobs)?;
    let mut seconds = Vec::new();
    for (job, result) in jobs.iter().zip(&results) {
        job.completed(result, "video")?;
        let all = result.flows.iter().flat_map(|flow| &flow.detail.latencies);
        let all: Vec<f64> = all.map(|ns| *ns as f64 / 1e9).collect();
        seconds.push(stats::mean(&all).unwrap_or(f64::NAN));
    }
    let cells: Vec<f64> = seconds
        .chunks(seeds.len())
        .map(|seeds| (CHUNK / stats::mean(seeds).unwrap_or(f64::NAN)).min(1.0))
        .collect();
    let side = rates.len();
    let each = SCHEDULERS.iter().zip(cells.chunks(side * side));
    Ok(each
        .map(|(name, cells)| Found {
            name,
            ratios: cells.chunks(side).map(<[f64]>::to_vec).collect(),
        })
        .collect())
}

/// Whether one path has at least four times the rate of the other.
fn heterogeneous(wifi: f64, lte: f64) -> bool {
    wifi.max(lte) >= 4.0 * wifi.min(lte)
}

fn by<'a>(found: &'a [Found], name: &str) -> &'a Found {
    let found = found.iter().find(|one| one.name == name);
    found.expect("invariant: it is one of the schedulers")
}

/// The cell in which `one` is furthest behind `other`: by how much, and where.
fn furthest(one: &Found, other: &Found, rates: &[f64]) -> (f64, String) {
    let pairs = one.cells().zip(other.cells()).map(|(a, b)| (a.2 - b.2, a.0, a.1));
    let least = pairs.min_by(|a, b| a.0.total_cmp(&b.0));
    least.map_or((0.0, String::new()), |(by, l, w)| {
        (by, format!("Wi-Fi {}, LTE {} Mbit/s", rates[w], rates[l]))
    })
}

fn claims(report: &mut Report, found: &[Found], rates: &[f64]) {
    let (default, ecf) = (by(found, DEFAULT), by(found, ECF));
    let equal = |wifi: f64, lte: f64| (wifi - lte).abs() < 1e-9;
    let (same, unlike) = (default.mean(rates, equal), default.mean(rates, heterogeneous));
    let verdict = Verdict::when(unlike < same - 0.02, || {
        format!("{unlike:.3} of the ideal on unequal paths, {same:.3} on equal ones")
    });
    let text = format!(
        "the default scheduler falls short of the ideal on heterogeneous paths (rates 4 times \
         apart or more), compared with equal paths ({same:.3})"
    );
    report.claim("default", &text, ("less", unlike, ""), verdict);
    let gain = |name: &str| by(found, name).mean(rates, heterogeneous) - unlike;
    let verdict = Verdict::when(gain(ECF) > 0.01, || "it is as minRTT".to_owned());
    let text = "ECF gives more than the default on heterogeneous paths (share of the ideal, mean)";
    report.claim("ecf", text, ("more", gain(ECF), ""), verdict);
    let (least, place) = furthest(ecf, default, rates);
    let verdict = Verdict::when(least >= -0.02, || format!("at {place}"));
    let text = format!("ECF is nowhere below the default (least difference, {place}; within 0.02)");
    report.claim("ecf-never", &text, ("0", least, ""), verdict);
    let verdict = Verdict::when(gain("daps") < 0.01, || "it gives more".to_owned());
    let text = "DAPS does not give more than the default on heterogeneous paths";
    report.claim("daps", text, ("not more", gain("daps"), ""), verdict);
    let verdict = Verdict::when(gain("blest") < gain(ECF), || "it gives as much".to_owned());
    let text = "BLEST gives less than ECF on heterogeneous paths (over the default)";
    report.claim("blest", text, ("less", gain("blest"), ""), verdict);
}

/// Ours in each cell at least as good as any of the four.
fn target(report: &mut Report, found: &[Found], rates: &[f64]) {
    let ours = by(found, OURS);
    let others = found.iter().filter(|one| one.name != OURS);
    let worst = others
        .map(|other| (furthest(ours, other, rates), other.name))
        .min_by(|a, b| a.0.0.total_cmp(&b.0.0));
    let Some(((least, place), name)) = worst else { return };
    let verdict = Verdict::when(least >= -0.01, || format!("{name} has more at {place}"));
    let text = format!(
        "necf in each cell at least as good as any of the four (least difference: {name}, {place}; \
         within 0.01)"
    );
    report.target("necf", &text, (0.0, least, "of the ideal"), verdict);
    let (bound, mean) = (1.0, ours.mean(rates, heterogeneous));
    let verdict = Verdict::when(mean >= 0.95, || format!("{mean:.3}"));
    let text = "necf has 95 % of the ideal on heterogeneous paths (mean)";
    report.target("necf-ideal", text, (bound, mean, "of the ideal"), verdict);
}

fn table(found: &[Found], rates: &[f64]) -> Table {
    let row = |one: &Found| {
        let least = one.cells().map(|cell| cell.2).fold(f64::MAX, f64::min);
        vec![
            one.name.to_owned(),
            format!("{:.3}", one.mean(rates, |wifi, lte| (wifi - lte).abs() < 1e-9)),
            format!("{:.3}", one.mean(rates, heterogeneous)),
            format!("{:.3}", one.mean(rates, |_, _| true)),
            format!("{least:.3}"),
        ]
    };
    Table {
        title: "Rate of chunks over the ideal bit rate".to_owned(),
        head: ["scheduler", "equal paths", "heterogeneous paths", "all cells", "least"]
            .map(str::to_owned)
            .to_vec(),
        rows: found.iter().map(row).collect(),
        caption: "Means over cells; at most 1 each. Heterogeneous: rates four times apart or more."
            .to_owned(),
    }
}

fn figure(found: &[Found], rates: &[f64]) -> Figure {
    let names = || rates.iter().map(f64::to_string).collect::<Vec<_>>();
    let panel = |one: &Found| {
        Panel::Heat(Heat {
            title: one.name.to_owned(),
            rows: ("LTE, Mbit/s".to_owned(), names()),
            columns: ("Wi-Fi, Mbit/s".to_owned(), names()),
            values: one.ratios.iter().map(|row| row.iter().map(|r| Some(*r)).collect()).collect(),
            scale: (0.5, 1.0),
        })
    };
    Figure {
        id: "grid".to_owned(),
        title: "Rate of chunks over the ideal bit rate".to_owned(),
        caption:
            "The paper's heat maps, repeated: darker is nearer to what both paths carry, or to \
                  the highest bit rate."
                .to_owned(),
        columns: 2,
        panels: found.iter().map(panel).collect(),
    }
}

fn assumptions(report: &mut Report) {
    report.assume(
        "published values",
        "the relations in the text",
        "the heat maps are colours, not numbers",
    );
    report.assume(
        "player",
        "chunks of 5 s of the ideal bit rate, a pause where both paths carry more than it",
        "a real one adapts; the measured rate is the chunks', at most the ideal one",
    );
    report.assume(
        "paths",
        "5 and 35 ms one way, queues of 36 kB",
        "so that the round trips are some 40 and 105 ms at 8.6 Mbit/s and 0.9 s at 0.3",
    );
    report.assume("stack", "LIA, buffers of 6 and 4 MiB, no tail reinjection", "Linux's defaults");
    report.assume("runs", "20 chunks, three seeds (quick: 5, one)", "0.5 ms of jitter");
}
