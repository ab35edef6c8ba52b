//! Every point of a sweep: a table with one row a point, and its summary as tidy CSV.

use super::files::{self, Folder};
use super::measure::{info, measured};
use super::table;
use super::watch::{Outputs, settings};
use crate::cmd::progress::Progress;
use crate::cost::Scope;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use serde::Serialize;
use std::collections::BTreeMap;
use tabane_sim::result::RunResult;
use tabane_sim::scenario::{Document, Variant};
use tabane_trace::plural::count;
use tabane_trace::{Collector, Report, csv};

/// What `--json` prints and `results.json` holds.
#[derive(Serialize)]
struct Sweep<'a> {
    scenario: &'a str,
    version: &'static str,
    axes: BTreeMap<&'a str, &'a [String]>,
    runs: Vec<Point<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    params: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    result: &'a RunResult,
}

impl<'a> Point<'a> {
    fn new((params, result, _): &'a Done) -> Self {
        let params = params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        Self { params, result }
    }
}

/// A point that was run: its axes, its result, what was seen of it.
type Done = (Vec<(String, String)>, RunResult, Report);

/// Runs every point, on all cores.
pub(super) fn run(
    outputs: &Outputs,
    document: &Document,
    variants: &[Variant],
) -> Result<(), Failure> {
    if outputs.records || !outputs.pcap.is_empty() {
        return Err(Failure::usage(
            "--records and --pcap are for one run, and this is a sweep: fix its lists with --set",
        ));
    }
    let mut folder = outputs.out.as_deref().map(Folder::create).transpose()?;
    let runs = run_all(variants)?;
    let axes = document.axes();
    let sweep = Sweep {
        scenario: variants.first().map_or("", |v| v.scenario.name.as_str()),
        version: env!("CARGO_PKG_VERSION"),
        axes: axes.iter().map(|a| (a.key.as_str(), a.values.as_slice())).collect(),
        runs: runs.iter().map(Point::new).collect(),
    };
    if let Some(folder) = &mut folder {
        folder.write_json("results.json", &sweep)?;
        folder.write("summary.csv", &summary(variants, &runs))?;
    }
    if outputs.json {
        say::print(&serde_json::to_string(&sweep).map_err(|e| anyhow!(e))?)?;
    } else {
        let keys: Vec<String> = axes.into_iter().map(|axis| axis.key).collect();
        let rows = runs.iter().map(|(params, result, _)| (params.as_slice(), result));
        say::print(&table::points(&keys, rows).to_string())?;
    }
    if let Some(folder) = &folder {
        say::note(&folder.summary());
    }
    Ok(())
}

fn run_all(variants: &[Variant]) -> Result<Vec<Done>, Failure> {
    let progress = Progress::new(&count(variants.len(), "run"), variants.len() as u64);
    let job = |variant: &Variant| {
        let mut collector = Collector::new(settings(&variant.scenario, false));
        let result = measured(Scope::Thread, || tabane_sim::run(&variant.scenario, &mut collector));
        result.map(|result| (variant.params.clone(), result, collector.report()))
    };
    let results = tabane_sim::sweep::each(variants, job, |done, _| progress.set(done as u64));
    progress.finish();
    let mut runs = Vec::with_capacity(results.len());
    for (variant, result) in variants.iter().zip(results) {
        let name = || info(&variant.scenario, &variant.params).scenario;
        runs.push(result.map_err(|e| anyhow!(e).context(name()))?);
    }
    Ok(runs)
}

fn summary(variants: &[Variant], runs: &[Done]) -> String {
    let mut text = csv::SUMMARY_HEADER.to_owned();
    for (variant, (params, result, report)) in variants.iter().zip(runs) {
        let mut figures = files::result_figures(result);
        figures.extend(report.figures.iter().cloned());
        let report = Report { figures, ..Report::default() };
        text += &csv::summary_rows(&info(&variant.scenario, params), &report);
    }
    text
}
