//! Every point of a sweep: a table with one row a point, its summary as tidy CSV, and what points
//! that differ in their seed come to together. With a folder, each run is kept as it finishes.

use super::files::Folder;
use super::kept::{self, Done, Kept};
use super::measure::measured;
use super::watch::Outputs;
use super::{point, seeds, table};
use crate::cmd::progress::Progress;
use crate::cost::Scope;
use crate::exit::Failure;
use crate::interruption::interruption;
use crate::plural::count;
use crate::say;
use anyhow::{Context, anyhow};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tabane_sim::RunError;
use tabane_sim::output::{info, settings};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::{Axis, Document, Variant};
use tabane_trace::{Collector, Report, csv};

/// What `--json` prints and `results.json` holds.
#[derive(Serialize)]
struct Sweep<'a> {
    scenario: &'a str,
    version: &'static str,
    axes: BTreeMap<&'a str, &'a [String]>,
    /// Points of the sweep; `runs` are those that are done.
    points: usize,
    runs: Vec<Point<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    params: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    result: &'a RunResult,
}

/// How often it is looked whether the user has had enough.
const LOOK: Duration = Duration::from_millis(100);

/// Runs every point, on all cores.
pub(super) fn run(
    outputs: &Outputs,
    document: &Document,
    variants: Vec<Variant>,
) -> Result<(), Failure> {
    if outputs.records || !outputs.pcap.is_empty() {
        return Err(Failure::usage(
            "--records and --pcap are for one run, and this is a sweep: fix its lists with --set",
        ));
    }
    let variants: Arc<[Variant]> = variants.into();
    let mut folder = outputs.out.as_deref().map(Folder::create).transpose()?;
    let mut kept = Kept::open(outputs.out.as_deref(), &variants)?;
    if kept.count() > 0 {
        let of = variants.len();
        say::note(&format!("{} of {of} runs are done ({}): going on", kept.count(), kept::FILE));
    }
    // Without a folder there is nothing to save: a signal ends the process as it would any.
    let interrupted = match &folder {
        Some(_) => interruption()?,
        None => Arc::default(),
    };
    let ended = run_all(&variants, &mut kept, &interrupted);
    let axes = document.axes();
    let done = variants.iter().zip(kept.runs());
    let done: Vec<(&Variant, &Done)> =
        done.filter_map(|(variant, done)| Some((variant, done.as_ref()?))).collect();
    let groups = seeds::groups(done.iter().copied());
    let sweep = sweep(&axes, &variants, &done);
    if let Some(folder) = folder.as_mut().filter(|_| !done.is_empty()) {
        let bare: Vec<RunResult> =
            done.iter().map(|(_, done)| done.result.reproducible()).collect();
        let runs = sweep.runs.iter().zip(&bare);
        let runs = runs.map(|(run, result)| Point { params: run.params.clone(), result });
        let axes = sweep.axes.clone();
        folder.write_json("results.json", &Sweep { runs: runs.collect(), axes, ..sweep })?;
        folder.write("summary.csv", &summary(&done))?;
        seeds::write(folder, &groups)?;
    }
    ended?;
    if outputs.json {
        say::print(&serde_json::to_string(&sweep).map_err(|e| anyhow!(e))?)?;
    } else {
        let keys: Vec<String> = axes.iter().map(|axis| axis.key.clone()).collect();
        let rows = done.iter().map(|(variant, done)| (variant.params.as_slice(), &done.result));
        say::print(&table::points(&keys, rows).to_string())?;
        if seeds::are_several(&groups) {
            say::print("mean and 95 % interval over seeds:")?;
            say::print(&seeds::table(&groups).to_string())?;
        }
    }
    if let Some(folder) = &folder {
        say::note(&folder.summary());
    }
    complain(&done)
}

/// As of one run; which it was is said.
fn complain(runs: &[(&Variant, &Done)]) -> Result<(), Failure> {
    for (variant, done) in runs {
        let name = || info(&variant.plan.scenario, &variant.params).scenario;
        point::complain(&done.result).with_context(name)?;
    }
    Ok(())
}

fn sweep<'a>(
    axes: &'a [Axis],
    variants: &'a [Variant],
    done: &[(&'a Variant, &'a Done)],
) -> Sweep<'a> {
    let point = |(variant, done): &(&'a Variant, &'a Done)| Point {
        params: variant.params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
        result: &done.result,
    };
    Sweep {
        scenario: variants.first().map_or("", |v| v.plan.scenario.name.as_str()),
        version: env!("CARGO_PKG_VERSION"),
        axes: axes.iter().map(|a| (a.key.as_str(), a.values.as_slice())).collect(),
        points: variants.len(),
        runs: done.iter().map(point).collect(),
    }
}

/// Makes the runs that are missing.
fn run_all(
    variants: &Arc<[Variant]>,
    kept: &mut Kept,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let progress = Progress::new(&count(variants.len(), "run"), variants.len() as u64);
    let results = start(variants.clone(), missing(kept));
    let mut failed = None;
    loop {
        match results.recv_timeout(LOOK) {
            Ok((n, Ok(done))) => kept.put(n, done)?,
            Ok((n, Err(error))) => {
                let name = info(&variants[n].plan.scenario, &variants[n].params).scenario;
                failed.get_or_insert(anyhow!(error).context(name));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        progress.set(kept.count() as u64);
        if interrupted.load(Ordering::Relaxed) {
            progress.finish();
            let (kept, of) = (kept.count(), variants.len());
            return Err(Failure::Interrupted(format!(
                "interrupted: {kept} of {of} runs are kept; the same command goes on from there"
            )));
        }
    }
    progress.finish();
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn missing(kept: &Kept) -> Vec<usize> {
    let runs = kept.runs().iter().enumerate();
    runs.filter(|(_, done)| done.is_none()).map(|(n, _)| n).collect()
}

type Made = (usize, Result<Done, RunError>);

/// Runs these points on all cores, beside this thread; they end with the process.
fn start(variants: Arc<[Variant]>, numbers: Vec<usize>) -> mpsc::Receiver<Made> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let job = |n: &usize| {
            // Nobody listens any more once something has failed that ends the sweep.
            let _ = tell.send((*n, make(&variants[*n])));
        };
        tabane_sim::sweep::each(&numbers, job, |_, _| ());
    });
    told
}

fn make(variant: &Variant) -> Result<Done, RunError> {
    let mut collector = Collector::new(settings(&variant.plan.scenario, false));
    let result = measured(Scope::Thread, || tabane_sim::run(&variant.plan, &mut collector))?;
    Ok(Done { result, figures: collector.report().figures })
}

fn summary(runs: &[(&Variant, &Done)]) -> String {
    let axes = runs.first().map_or(&[][..], |(variant, _)| &variant.params);
    let mut text = csv::summary_header(axes);
    for (variant, done) in runs {
        let report = Report { figures: seeds::figures(done), ..Report::default() };
        text += &csv::summary_rows(&info(&variant.plan.scenario, &variant.params), &report);
    }
    text
}
