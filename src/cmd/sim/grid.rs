//! `tabane sim grid`: is the bond ever slower than the best of its links?

mod loaded;

use super::files::Folder;
use super::table::seconds;
use crate::cmd::progress::Progress;
use crate::exit::Failure;
use crate::plural::count;
use crate::say;
use crate::units::rate;
use anyhow::anyhow;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use tabane_engine::policy::Spec;
use tabane_engine::{congestion, scheduler};
use tabane_sim::grid::Summary;
use tabane_sim::grid::{self, Contender, Links, Measured, Point, PointResult, Ratios, Settings};
use tabane_sim::sweep;

/// Generate pairs and triples of paths; compare schedulers over all of them with every path alone.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The seed that points are generated from; the n-th point of a seed is always the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of points.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    points: u32,
    /// Only this point; with --out, all its runs as scenarios.
    #[arg(long, conflicts_with = "points")]
    point: Option<u32>,
    /// Kind of links: steady, bursty, varying, bloated, jittery, or all of them in turn.
    #[arg(long, value_name = "KIND", default_value_t = Links::Steady)]
    links: Links,
    /// Also a download, requests and a stream at once (always, unless links are steady).
    #[arg(long)]
    loaded: bool,
    /// Schedulers, separated by commas; repeat the option for one with parameters.
    #[arg(long, value_name = "NAME,...", default_value = DEFAULT)]
    schedulers: Vec<String>,
    /// Congestion control of every run [default: the engine's].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// What runs on a path alone.
    #[arg(long, value_enum, default_value_t = Alone::Tcp)]
    alone: Alone,
    /// Also the best path alone once more, with other random losses: what luck alone makes of a
    /// ratio.
    #[arg(long)]
    again: bool,
    /// Runs of everything, each with other random losses, of which figures are the means.
    #[arg(long, value_name = "N", default_value = "1")]
    repeat: NonZero<u32>,
    /// Parallel runs [default: one per core].
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Print one JSON document with every point.
    #[arg(long)]
    json: bool,
    /// Write grid.json, points.csv, and the runs in which a scheduler fails, as scenarios, into
    /// this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What a bond is compared with.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Debug)]
enum Alone {
    /// Plain TCP, as without a bond: 1.4 % less overhead.
    Tcp,
    /// MPTCP over that path only.
    Mptcp,
}

const DEFAULT: &str = "default,minrtt,roundrobin,blest,ecf,necf,burst";

const EXAMPLES: &str = "\
Examples:
  tabane sim grid                                  300 points, the usual schedulers
  tabane sim grid --seed 9 --points 50 --schedulers minrtt,necf --jobs 1
  tabane sim grid --point 17 --json                one point, every figure
  tabane sim grid --links all --points 40          links that lose in bursts, change, queue
  tabane sim grid --links all --repeat 5           means of five runs: less luck
  tabane sim grid --out DIR                        where it fails, as scenarios for `tabane sim run`

A path alone is plain TCP. A bulk download over a bond is as large as what its paths alone carried
in 20 s and ten of the longest round trips. Bound: the sum over distinct bottlenecks of
rate x (1 - loss) x 1428/1500. Requests: 60 of 100 KB, 100 ms apart. Stream: 1200-byte messages at
30 % of the best path's goodput, at most 5 Mbit/s.

Links: bursty ones lose 0.05 to 2 % in bursts of 3 to 30 packets, varying ones follow the models leo
and cellular, bloated ones queue for 0.5 to 3 s, jittery ones delay each packet by some milliseconds
more or less and lose. Under load: requests of 10 KB, 100 ms apart, and a stream of 64 kbit/s beside
an endless download, for 40 s and ten round trips. Attainable: the mean of rate x (1 - loss) x
1428/1500 over that time.";

/// What `--json` prints and `grid.json` holds.
#[derive(Serialize)]
struct Grid<'a> {
    seed: u64,
    #[serde(skip_serializing_if = "Links::is_steady")]
    links: Links,
    repeat: NonZero<u32>,
    version: &'static str,
    congestion: String,
    summaries: &'a [Summary],
    points: &'a [PointResult],
    cost: Measured,
}

/// Measures and reports.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let settings = settings(args)?;
    let mut folder = args.out.as_deref().map(Folder::create).transpose()?;
    let results = measure_all(args, &settings)?;
    let summaries = grid::summarise(&results);
    let cost: Measured = results.iter().map(|r| r.cost).sum();
    let congestion = settings.congestion.as_ref().map_or("default".into(), Spec::to_string);
    let document = Grid {
        seed: args.seed,
        links: args.links,
        repeat: args.repeat,
        version: env!("CARGO_PKG_VERSION"),
        congestion,
        summaries: &summaries,
        points: &results,
        cost,
    };
    if let Some(folder) = &mut folder {
        folder.write_json("grid.json", &document)?;
        folder.write("points.csv", &csv(&results))?;
        for result in &results {
            write_runs(folder, result, &settings, args.point.is_some())?;
        }
    }
    if args.json {
        say::print(&serde_json::to_string(&document).map_err(|e| anyhow!(e))?)?;
    } else {
        if let [only] = results.as_slice() {
            say::print(&one(only).to_string())?;
            if settings.loaded {
                say::print(&loaded::one(only).to_string())?;
            }
        }
        say::print(&table(&summaries).to_string())?;
        if settings.loaded {
            say::print(&loaded::table(&summaries).to_string())?;
        }
    }
    say::note(&format!(
        "{} points, {} runs: {:.0} s simulated, {:.1} GB delivered, {} packet-hops",
        results.len(),
        cost.runs,
        cost.simulated_s,
        cost.bytes as f64 / 1e9,
        cost.packet_hops,
    ));
    folder.iter().for_each(|folder| say::note(&folder.summary()));
    Ok(())
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let usage = |e: tabane_engine::policy::PolicyError| Failure::usage(e.to_string());
    let mut schedulers = Vec::new();
    for given in &args.schedulers {
        // `name:a=1,b=2` has commas of its own.
        let names: Vec<&str> =
            if given.contains(':') { vec![given] } else { given.split(',').collect() };
        for name in names.into_iter().filter(|n| !n.trim().is_empty()) {
            let spec: Spec = name.parse().map_err(usage)?;
            scheduler::build(&spec).map_err(usage)?;
            schedulers.push(spec);
        }
    }
    if schedulers.is_empty() {
        return Err(Failure::usage("--schedulers names none; see `tabane list`"));
    }
    let congestion = args.congestion.as_deref().map(str::parse::<Spec>).transpose();
    let congestion = congestion.map_err(usage)?;
    if let Some(spec) = &congestion {
        congestion::REGISTRY.find(spec).map_err(usage)?;
    }
    let alone_mptcp = args.alone == Alone::Mptcp;
    let loaded = args.loaded || !args.links.is_steady();
    Ok(Settings {
        schedulers,
        congestion,
        alone_mptcp,
        loaded,
        again: args.again,
        repeat: args.repeat,
    })
}

fn measure_all(args: &Args, settings: &Settings) -> Result<Vec<PointResult>, Failure> {
    let numbers = args.point.map_or(0..args.points, |n| n..n.saturating_add(1));
    let points: Vec<Point> = numbers.map(|n| Point::generate(args.links, args.seed, n)).collect();
    let progress = Progress::new(&count(points.len(), "point"), points.len() as u64);
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or_else(cores, NonZero::get);
    let job = |point: &Point| grid::measure(point, settings);
    let results = sweep::each_on(jobs, &points, job, |done, _| progress.set(done as u64));
    progress.finish();
    let named = points.iter().zip(results);
    let named =
        named.map(|(p, r)| r.map_err(|e| anyhow!(e).context(format!("point {}", p.number))));
    Ok(named.collect::<Result<_, _>>()?)
}

/// Schedulers as rows.
fn table(summaries: &[Summary]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "scheduler",
        "below 98 %\nof best path",
        "worst\n(point)",
        "of bound\nmedian, p5",
        "of paths alone\nmedian, p5",
        "request median\n> 1.05, p95, worst",
        "request p95\n> 1.05, p95, worst",
        "stream p95\n> 1.05, p95, worst",
    ]);
    for s in summaries {
        let goodput = |r: &Ratios| format!("{:.3}, {:.3}", r.median, r.tail);
        let latency = |r: &Ratios| {
            format!("{:.1} %, {:.2}, {:.2} ({})", r.bad * 100.0, r.tail, r.worst, r.worst_point)
        };
        let cells = [
            format!("{:.1} %", s.best.bad * 100.0),
            format!("{:.3} ({})", s.best.worst, s.best.worst_point),
            goodput(&s.bound),
            goodput(&s.alone),
            latency(&s.request_median),
            latency(&s.request_p95),
            latency(&s.stream_p95),
        ];
        let mut row = vec![Cell::new(&s.scheduler)];
        row.extend(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    table
}

/// One point: paths, then schedulers.
fn one(result: &PointResult) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["carrier", "what", "bulk", "request median", "p95", "stream p95"]);
    let mut row = |trial: &grid::Trial, what: String| {
        let request = |f: fn(&tabane_sim::result::LatencyResult) -> f64| {
            trial.request.as_ref().map_or("none".to_owned(), |l| seconds(f(l)))
        };
        let stream = trial.stream.as_ref().map_or("none".to_owned(), |l| seconds(l.p95_s));
        let median = request(|l| l.p50_s);
        let cells = [what, rate(trial.bulk_bps), median, request(|l| l.p95_s), stream];
        let cells = cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(&trial.name)).chain(cells));
    };
    for (trial, path) in result.alone.iter().zip(&result.point.paths) {
        let (ms, loss) = (path.delay.as_secs_f64() * 2e3, path.loss * 100.0);
        let kb = path.queue_bytes / 1000;
        let bps = rate(path.rate_bps as f64);
        let burst = path.burst.map_or_else(String::new, |n| format!(" in bursts of {n:.0}"));
        let model = path.conditions.as_deref().unwrap_or_default();
        let what = format!("{bps}, {ms:.1} ms, {loss:.2} %{burst}, queue {kb} kB {model}");
        row(trial, what.trim_end().to_owned());
    }
    for trial in &result.bonds {
        let core = result.point.core.as_ref().map_or(String::new(), |core| {
            format!("core {}, queue {} kB", rate(core.rate_bps as f64), core.queue_bytes / 1000)
        });
        row(trial, core);
    }
    table
}

/// One row a point and contender.
fn csv(results: &[PointResult]) -> String {
    let mut text = String::from(
        "point,paths,shared,bound_bps,alone_bps,carrier,bulk_bps,request_p50_s,request_p95_s,\
         stream_p95_s",
    );
    let under_load = results.iter().any(|r| r.attainable_bps.is_some());
    text += if under_load { loaded::COLUMNS } else { "" };
    text += "\n";
    for r in results {
        for trial in r.alone.iter().chain(&r.bonds) {
            let request = |f: fn(&tabane_sim::result::LatencyResult) -> f64| {
                trial.request.as_ref().map_or(String::new(), |l| f(l).to_string())
            };
            let stream = trial.stream.as_ref().map_or(String::new(), |l| l.p95_s.to_string());
            let (number, paths) = (r.point.number, r.point.paths.len());
            let (bound, alone) = (r.bound_bps, r.alone_bps);
            let (p50, p95) = (request(|l| l.p50_s), request(|l| l.p95_s));
            let (name, bulk) = (trial.name.replace(',', ";"), trial.bulk_bps);
            let shared = r.point.core.is_some();
            let loaded = loaded::cells(r, trial);
            let _ = writeln!(
                text,
                "{number},{paths},{shared},{bound},{alone},{name},{bulk},{p50},{p95},{stream}\
                 {loaded}"
            );
        }
    }
    text
}

/// The runs of a point for `tabane sim run`: those that break a line, or `all`.
fn write_runs(
    folder: &mut Folder,
    result: &PointResult,
    settings: &Settings,
    all: bool,
) -> Result<(), Failure> {
    for (n, scheduler) in settings.schedulers.iter().enumerate() {
        let bonds = vec![result.bonds[n].clone()];
        let own = PointResult { bonds, again: Vec::new(), ..result.clone() };
        let Some(summary) = grid::summarise(&[own]).pop() else { continue };
        let bad = [
            summary.best.bad,
            summary.request_median.bad + summary.request_p95.bad,
            summary.stream_p95.bad,
        ];
        let name = scheduler.to_string().replace([':', ',', '='], "-");
        for ((workload, flow, time), bad) in result.workloads().into_iter().zip(bad) {
            if all || bad > 0.0 {
                let contender = Contender::AllPaths(scheduler);
                let congestion = settings.congestion.as_ref();
                let scenario = result.point.scenario(contender, congestion, flow, time);
                let file = format!("point{}-{name}-{workload}.toml", result.point.number);
                folder.write(&file, &scenario.to_toml())?;
            }
        }
    }
    Ok(())
}
