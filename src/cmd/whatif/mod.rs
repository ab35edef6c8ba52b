//! `tabane whatif`: what would have happened with other policies, by the simulator.

mod change;
mod table;

use crate::cmd::progress::Progress;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use change::Change;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use tabane_engine::Duration;
use tabane_record::{Measured, unseen_in};
use tabane_sim::Plan;
use tabane_sim::scenario::{Conditions, Scenario};
use tabane_sim::sweep;
use tabane_sim::what_if::{self, Figures, Unseen};
use tabane_trace::estimate::{Estimate, estimate};

/// Tell what would have happened with other policies or roles.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane whatif yesterday.toml --try scheduler=necf,minrtt --try role.lte=backup
  tabane whatif yesterday.toml --try congestion=cubicq,bbr --seeds 20 --json
  tabane whatif yesterday.toml --try congestion=bbr+scheduler=minrtt

KEY is scheduler, congestion or egress (`tabane list`), role.PATH (primary, backup or never), or any
key of the scenario. Each value is tried by itself; '+' joins changes that are tried together.

Every row is a mean over seeds with its 95 % interval. From seed to seed differ what chance does on
the links and, where a rate was not seen, the rate: intervals are wide where little was seen.
Differences are of the same seeds, to the replay of what was.")]
pub(crate) struct Args {
    /// A scenario of `tabane record export`, or any other.
    file: PathBuf,
    /// What to try.
    #[arg(long = "try", value_name = "KEY=VALUE,...")]
    tries: Vec<String>,
    /// Seeds of each.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=1000))]
    seeds: u64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: String,
    seeds: u64,
    /// As it was measured, if that is known.
    measured: Option<Figures>,
    /// By link, up and down: share of the time in which its rate was not seen.
    interpolated: BTreeMap<String, [f64; 2]>,
    /// Of all time of links, by what they carried: the share that rests on interpolation.
    rests_on_interpolation: f64,
    pub(crate) rows: Vec<Row>,
}

/// What was tried.
#[derive(Serialize)]
pub(crate) struct Row {
    what: String,
    pub(crate) goodput_bps: Option<Interval>,
    /// Of the replay's, to the same seeds.
    goodput_change: Option<Interval>,
    stall_s: Option<Interval>,
    latency_p50_s: Option<Interval>,
    latency_p95_s: Option<Interval>,
    rtt_p50_s: Option<Interval>,
    pub(crate) rtt_p95_s: Option<Interval>,
    rtt_p95_change: Option<Interval>,
}

/// A mean and its 95 % interval.
#[derive(Serialize, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    low: f64,
    high: f64,
}

/// What is known of the links of a scenario.
struct Sight {
    /// By number of link direction.
    unseen: BTreeMap<usize, Vec<Unseen>>,
    interpolated: BTreeMap<String, [f64; 2]>,
    rests: f64,
}

impl Args {
    /// As if it had been written so.
    pub(crate) fn new(file: PathBuf, tries: Vec<String>, seeds: u64) -> Self {
        Self { file, tries, seeds, json: false }
    }
}

/// Runs it.
///
/// # Errors
/// [`Failure`]: a file that cannot be read, a change that cannot be.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let report = report(args)?;
    if args.json {
        return say::print(&serde_json::to_string_pretty(&report).map_err(|e| anyhow!(e))?);
    }
    say::print(&table::of(&report))
}

/// What it prints.
///
/// # Errors
/// See [`run`].
pub(crate) fn report(args: &Args) -> Result<Report, Failure> {
    let changes = change::parse(&args.tries).map_err(Failure::usage)?;
    let measured = measured(&args.file)?;
    let mut plans = Vec::new();
    let mut names = vec!["replayed".to_owned()];
    names.extend(changes.iter().map(|change| change.name.clone()));
    for change in std::iter::once(&Change::default()).chain(&changes) {
        plans.push(plan(&args.file, change)?);
    }
    let sights = plans.iter().map(|plan| Sight::of(plan, measured.as_ref()));
    let sights: Vec<Sight> = sights.collect::<Result<_, _>>()?;
    let figures = run_all(&plans, &sights, args.seeds)?;
    let sight = &sights[0];
    let rows = names.iter().zip(&figures).map(|(name, own)| row(name, own, &figures[0]));
    Ok(Report {
        scenario: plans[0].scenario.name.clone(),
        seeds: args.seeds,
        measured: measured.as_ref().map(figures_of),
        interpolated: sight.interpolated.clone(),
        rests_on_interpolation: sight.rests,
        rows: rows.collect(),
    })
}

/// The scenario with a change, ready to run.
fn plan(file: &Path, change: &Change) -> Result<Plan, Failure> {
    let document = crate::cmd::sim::read(file, &change.sets)?;
    let variants = document.variants().map_err(|error| Failure::usage(error.to_string()))?;
    let [variant] = &variants[..] else {
        let runs = variants.len();
        return Err(Failure::usage(format!("{}: a sweep of {runs} runs", file.display())));
    };
    let mut scenario = Scenario::clone(&variant.plan.scenario);
    change.apply(&mut scenario).map_err(Failure::usage)?;
    let plan = scenario.compile();
    plan.map_err(|fault| Failure::usage(format!("{}: {}", change.name, fault.message)))
}

/// Every plan with every seed, on all cores.
fn run_all(plans: &[Plan], sights: &[Sight], seeds: u64) -> Result<Vec<Vec<Figures>>, Failure> {
    let jobs: Vec<(usize, u64)> =
        (0..plans.len()).flat_map(|plan| (1..=seeds).map(move |seed| (plan, seed))).collect();
    let progress = Progress::new("runs", jobs.len() as u64);
    let job = |(n, seed): &(usize, u64)| {
        what_if::measure(&what_if::with_unseen(&plans[*n], &sights[*n].unseen, *seed)?)
    };
    let results = sweep::each(&jobs, job, |done, _| progress.set(done as u64));
    progress.finish();
    let mut figures = vec![Vec::new(); plans.len()];
    for ((n, _), result) in jobs.iter().zip(results) {
        figures[*n].push(result.map_err(|error| anyhow!(error))?);
    }
    Ok(figures)
}

impl Sight {
    /// By the heads of the traces.
    fn of(plan: &Plan, measured: Option<&Measured>) -> Result<Self, Failure> {
        let duration = plan.scenario.duration.0;
        let mut sight = Self { unseen: BTreeMap::new(), interpolated: BTreeMap::new(), rests: 0.0 };
        let (mut carried, mut blind) = (0.0, 0.0);
        for (n, link) in plan.links.iter().enumerate() {
            let Some(file) = link.params.conditions.as_ref().and_then(Conditions::file) else {
                continue;
            };
            let text = bounded::text(Path::new(file), bounded::DATA);
            let text = text.map_err(|error| anyhow!("{file}: {error}"))?;
            let time = |ms: u64| Duration::from_millis(ms);
            let unseen: Vec<Unseen> = unseen_in(&text)
                .into_iter()
                .map(|one| Unseen { from: time(one.from_ms), to: time(one.to_ms), sd: one.sd })
                .collect();
            let sum: f64 = unseen.iter().map(|one| (one.to - one.from).as_secs_f64()).sum();
            let share = sum / duration.as_secs_f64().max(1e-3);
            let (name, _) = &plan.scenario.link.0[n / 2];
            sight.interpolated.entry(name.clone()).or_default()[n % 2] = share.min(1.0);
            let path = measured.and_then(|m| m.paths.iter().find(|path| path.name == *name));
            let bytes = path.map_or(1.0, |path| path.bytes[n % 2] as f64);
            (carried, blind) = (carried + bytes, blind + bytes * share.min(1.0));
            sight.unseen.insert(n, unseen);
        }
        sight.rests = if carried > 0.0 { blind / carried } else { 0.0 };
        Ok(sight)
    }
}

/// What was measured, if it stands beside the scenario.
fn measured(file: &Path) -> Result<Option<Measured>, Failure> {
    let file = file.with_extension("measured.json");
    if !file.exists() {
        return Ok(None);
    }
    let text = bounded::text(&file, bounded::DATA);
    let text = text.map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let measured = serde_json::from_str(&text);
    let wrong = |error: serde_json::Error| Failure::usage(format!("{}: {error}", file.display()));
    measured.map(Some).map_err(wrong)
}

fn figures_of(measured: &Measured) -> Figures {
    let bulk = || measured.flows.iter().filter(|flow| flow.kind == "bulk");
    let bits: f64 = bulk().map(|flow| flow.bytes[0].max(flow.bytes[1]) as f64 * 8.0).sum();
    let seconds: f64 = bulk()
        .filter(|flow| flow.goodput_bps > 0.0)
        .map(|flow| flow.bytes[0].max(flow.bytes[1]) as f64 * 8.0 / flow.goodput_bps)
        .sum();
    let stall = bulk().map(|flow| flow.stall_s).fold(0.0, f64::max);
    Figures {
        goodput_bps: (seconds > 0.0).then(|| bits / seconds),
        stall_s: (seconds > 0.0).then_some(stall),
        rtt_p50_s: measured.rtt_p50_s,
        rtt_p95_s: measured.rtt_p95_s,
        ..Figures::default()
    }
}

fn row(what: &str, own: &[Figures], base: &[Figures]) -> Row {
    let mean = |of: fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = own.iter().filter_map(of).collect();
        interval(&values)
    };
    let change = |of: fn(&Figures) -> Option<f64>| {
        let pair = |(own, base): (&Figures, &Figures)| {
            let (own, base) = (of(own)?, of(base)?);
            (base > 0.0).then(|| own / base - 1.0)
        };
        let values: Vec<f64> = own.iter().zip(base).filter_map(pair).collect();
        interval(&values)
    };
    Row {
        what: what.to_owned(),
        goodput_bps: mean(|f| f.goodput_bps),
        goodput_change: change(|f| f.goodput_bps),
        stall_s: mean(|f| f.stall_s),
        latency_p50_s: mean(|f| f.latency_p50_s),
        latency_p95_s: mean(|f| f.latency_p95_s),
        rtt_p50_s: mean(|f| f.rtt_p50_s),
        rtt_p95_s: mean(|f| f.rtt_p95_s),
        rtt_p95_change: change(|f| f.rtt_p95_s),
    }
}

fn interval(values: &[f64]) -> Option<Interval> {
    let Estimate { mean, half_width } = estimate(values)?;
    Some(Interval { mean, low: mean - half_width, high: mean + half_width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_of_a_change_is_by_its_own_files() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        let rates = "time_s,rate_mbps\n0,4\n1,4\n";
        write("seen.csv", rates);
        write("blind.csv", &format!("# unseen 0 2 0.8\n{rates}"));
        write(
            "then.toml",
            "duration = \"2s\"\n[link.wifi]\ndelay = \"5ms\"\nconditions = \"seen.csv\"\n\
             [[flow]]\nbulk = \"unlimited\"\n",
        );
        let tries = ["seen.csv", "blind.csv"]
            .map(|file| format!("link.wifi.conditions=\"{}\"", place.path().join(file).display()));
        let args = Args::new(place.path().join("then.toml"), tries.to_vec(), 4);
        let report = report(&args).unwrap();
        let widths: Vec<f64> = report
            .rows
            .iter()
            .map(|row| row.goodput_bps.unwrap())
            .map(|bps| (bps.high - bps.low) / bps.mean)
            .collect();
        assert!(widths[0] < 0.01 && widths[1] < 0.01 && widths[2] > 0.2, "{widths:?}");
        assert_eq!(report.rests_on_interpolation, 0.0, "of the replay");
    }
}
