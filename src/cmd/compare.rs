//! `tabane compare`: a scenario on the simulator, on our stack and on the kernel's, side by side;
//! and a whole folder of them as a page of documentation.

use super::lab::failure;
use super::sets::Sets;
use super::sim;
use super::sim::kept;
use super::sim::list::{NOTES, PAGE, is_beside_scenarios};
use crate::exit::Failure;
use crate::interruption::interruption;
use crate::plural::count;
use crate::say;
use anyhow::{Context, anyhow};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tabane_config::bounded;
use tabane_lab::compare::{Compared, Notes, Page, Repeats, Runner, markdown, page, rows, verdicts};
use tabane_lab::{LabError, refuse};
use tabane_sim::Plan;
use tabane_sim::scenario::{Document, Variant};
use tabane_trace::Report;

/// Run scenarios on several stacks and report how far the results differ.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario files (TOML).
    #[arg(required_unless_present = "matrix", conflicts_with = "matrix")]
    files: Vec<PathBuf>,
    /// The stacks that run them.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sim", "tabane", "kernel"])]
    stacks: Vec<StackArg>,
    #[command(flatten)]
    sets: Sets,
    /// Number of runs of each, with consecutive seeds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write tables and plots to this HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Run every scenario of this folder, instead of files.
    #[arg(long, value_name = "DIR")]
    matrix: Option<PathBuf>,
    /// Keep results here, one file per scenario; a scenario whose result is already there, of the
    /// same files and by the same program, is not run again.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Write the matrix as a Markdown page: as its page.toml says, or else the validation page.
    #[arg(long, value_name = "FILE", requires = "matrix")]
    markdown: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples, as root:
  tabane compare scenarios/validation/base-cubic.toml --html compare.html
  tabane compare scenarios/wifi-lte.toml --stacks sim,tabane --repeat 5 --json
  tabane compare scenarios/wifi-lte.toml --set link.lte.rate=20Mbps --set 'seed=[1, 2]'
  tabane compare --matrix scenarios/validation --results DIR --markdown docs/validation.md

Runs in real time, whose accuracy is measured; a run that is too inaccurate is made again, twice at
most. The kernel runs what it can: scenarios name one of its controllers (reno, cubic, bbr).";

/// Who runs a scenario.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum StackArg {
    /// The simulator.
    Sim,
    /// The engine on emulated links.
    Tabane,
    /// The kernel on emulated links.
    Kernel,
}

/// Further tries for a run of poor accuracy.
const RETRIES: u32 = 2;

/// A result as a file of `--results` has it.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Of what it depends on, see [`kept::key`].
    key: String,
    #[serde(flatten)]
    compared: Compared,
}

/// One comparison, with what is drawn of it.
type Done = (Compared, BTreeMap<Runner, Report>);

/// Runs and reports.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let runners: Vec<Runner> = args.stacks.iter().map(|stack| stack.runner()).collect();
    let files = match &args.matrix {
        Some(folder) => scenarios_of(folder)?,
        None => args.files.clone(),
    };
    let documents = read_all(&files, args.sets.values(), &runners)?;
    let own: Option<Page> = match &args.matrix {
        Some(folder) => extra(folder, PAGE)?,
        None => None,
    };
    if let Some(folder) = &args.results {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    for file in args.html.iter().chain(&args.markdown) {
        // Better now than after the runs.
        let opened = OpenOptions::new().create(true).append(true).open(file);
        opened.with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let interrupted = interruption()?;
    let mut all: Vec<Done> = Vec::new();
    // Files are written though nobody reads what is printed.
    let mut printed = Ok(());
    for (document, scenario) in &documents {
        let done = compare(args, (document, scenario), &runners, &interrupted)?;
        if !args.json && args.matrix.is_none() {
            printed = printed.and_then(|()| print(&done.0));
        }
        all.push(done);
    }
    let compared: Vec<Compared> = all.iter().map(|(compared, _)| compared.clone()).collect();
    if args.json {
        printed = say::print(&serde_json::to_string(&compared).map_err(|e| anyhow!(e))?);
    }
    if let Some(file) = &args.html {
        write(file, &page(&all).map_err(|e| anyhow!(e))?)?;
    }
    if let Some(folder) = &args.matrix {
        if let Some(file) = &args.markdown {
            let text = match &own {
                Some(page) => page.write(&compared, &machine()).map_err(|e| anyhow!(e))?,
                None => {
                    let notes: Option<Notes> = extra(folder, NOTES)?;
                    markdown(&compared, &notes.unwrap_or_default(), &machine())
                }
            };
            write(file, &text)?;
        }
        if !args.json && own.is_none() {
            judge(&compared)?;
        }
    }
    printed?;
    complain(&compared, &runners)
}

impl StackArg {
    fn runner(self) -> Runner {
        match self {
            Self::Sim => Runner::Sim,
            Self::Tabane => Runner::Tabane,
            Self::Kernel => Runner::Kernel,
        }
    }
}

/// Reads everything before anything runs, and refuses what a stack cannot do.
fn read_all(
    files: &[PathBuf],
    sets: &[String],
    runners: &[Runner],
) -> Result<Vec<(Document, Plan)>, Failure> {
    let mut read = Vec::new();
    for file in files {
        let document = sim::read(file, sets)?;
        let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
        let several = variants.len() > 1;
        for Variant { params, mut plan } in variants {
            for stack in runners.iter().filter_map(|runner| runner.stack()) {
                refuse(&plan.scenario, stack)
                    .map_err(|fault| failure(&document, LabError::Refused(fault)))?;
            }
            if several {
                let name = tabane_sim::output::info(&plan.scenario, &params).scenario;
                Arc::make_mut(&mut plan.scenario).name = name;
            }
            read.push((document.clone(), plan));
        }
    }
    Ok(read)
}

fn compare(
    args: &Args,
    (document, plan): (&Document, &Plan),
    runners: &[Runner],
    interrupted: &AtomicBool,
) -> Result<Done, Failure> {
    let scenario = &*plan.scenario;
    // A swept value may be the path of a file.
    let name = scenario.name.replace('/', "_");
    let file = args.results.as_ref().map(|dir| dir.join(format!("{name}.json")));
    let key = kept::key(&kept::program(), plan);
    if let Some(file) = &file
        && let Some(known) = known(file, &key, runners, args.repeat)
    {
        return Ok((known, BTreeMap::new()));
    }
    say::note(&format!("{}: {}", scenario.name, scenario.about));
    let repeats = Repeats { repeat: args.repeat, retries: RETRIES };
    let done = Compared::run(plan, runners, repeats, interrupted);
    let done = done.map_err(|error| failure(document, error))?;
    for runner in runners {
        if let Some(why) = done.0.poor(*runner) {
            let name = runner.as_str();
            say::error(&format!("{} on {name}: poor accuracy: {why}", scenario.name));
        }
    }
    if let Some(file) = &file {
        let kept = Kept { key, compared: done.0.clone() };
        write(file, &serde_json::to_string_pretty(&kept).map_err(|e| anyhow!(e))?)?;
    }
    Ok(done)
}

/// A result that is there already, if it is of the same inputs and program, and complete.
fn known(file: &Path, key: &str, runners: &[Runner], repeat: u32) -> Option<Compared> {
    let text = bounded::text(file, bounded::DATA).ok()?;
    let Kept { key: of, compared } = serde_json::from_str(&text).ok()?;
    let has =
        |runner: &Runner| compared.runs.get(runner).is_some_and(|r| r.len() >= repeat as usize);
    (of == key && runners.iter().all(has)).then_some(compared)
}

/// Says which flows failed or got wrong bytes; then it has failed.
fn complain(all: &[Compared], runners: &[Runner]) -> Result<(), Failure> {
    let mut flows = 0;
    for (one, runner) in all.iter().flat_map(|one| runners.iter().map(move |runner| (one, runner)))
    {
        for run in one.runs.get(runner).into_iter().flatten() {
            for why in &run.failed {
                let (scenario, name, seed) = (&one.scenario, runner.as_str(), run.seed);
                say::error(&format!("{scenario} on {name}, seed {seed}: flow {why}"));
                flows += 1;
            }
        }
    }
    match flows {
        0 => Ok(()),
        _ => Err(anyhow!("{} failed or got wrong bytes", count(flows, "flow")).into()),
    }
}

/// Scenario files of a folder, by name.
fn scenarios_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .filter(|path| !is_beside_scenarios(path))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(format!("no scenarios (*.toml) in {}", folder.display())));
    }
    Ok(files)
}

/// A file of a matrix's folder that is no scenario.
fn extra<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let file = folder.join(name);
    if !file.exists() {
        return Ok(None);
    }
    let text = bounded::text(&file, bounded::SOURCE_DOCUMENT)
        .with_context(|| file.display().to_string())?;
    Ok(Some(toml::from_str(&text).with_context(|| file.display().to_string())?))
}

/// What it was measured on, in a sentence.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim().split('-').next().unwrap_or_default().to_owned();
    let version = env!("CARGO_PKG_VERSION");
    format!("Measured with tabane {version} on Linux {release}, {cores} processors.")
}

fn print(compared: &Compared) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let mut lines = rows(compared).into_iter();
    table.set_header(lines.next().unwrap_or_default());
    for line in lines {
        let cells = line.into_iter().enumerate().map(|(n, text)| match n {
            0 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        });
        table.add_row(cells.collect::<Vec<_>>());
    }
    say::print(&format!("{}: {}", compared.scenario, compared.about))?;
    say::print(&table.to_string())
}

/// Says whether the targets of the matrix are met.
fn judge(all: &[Compared]) -> Result<(), Failure> {
    for verdict in verdicts(all) {
        let met = if verdict.is_met() { "ok" } else { "MISSED" };
        say::print(&format!(
            "{met:6}  {}: median {:.1} %, worst {:.1} % ({}), {} scenarios",
            verdict.what,
            verdict.median.0 * 100.0,
            verdict.worst.0 * 100.0,
            verdict.worst.2,
            verdict.scenarios,
        ))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    say::note(&format!("written: {}", file.display()));
    Ok(())
}
