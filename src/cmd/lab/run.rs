//! `tabane lab run`: a scenario's flows on this machine.

use super::failure;
use crate::cmd::sets::Sets;
use crate::cmd::sim::measure::measured;
use crate::cmd::sim::watch::{Outputs, Watchers};
use crate::cmd::sim::{self, files::Folder, point, table};
use crate::cost::Scope;
use crate::exit::Failure;
use crate::interruption::interruption;
use crate::say;
use anyhow::{Context, anyhow};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tabane_lab::{LabError, LabResult, Stack, refuse};
use tabane_sim::Plan;
use tabane_sim::output::info;
use tabane_sim::scenario::Document;

/// Real time repeats nothing.
impl point::Document for LabResult {
    fn stored(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }
}

/// Runs a scenario in namespaces joined by emulated links.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file (TOML), as for `tabane sim run`.
    pub(super) file: PathBuf,
    /// The stack that carries the flows.
    #[arg(long, value_enum)]
    stack: StackArg,
    #[command(flatten)]
    sets: Sets,
    /// Seed of everything random [default: the scenario's].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of runs, with consecutive seeds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    outputs: Outputs,
}

/// The stack that carries the flows.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cmd) enum StackArg {
    /// The Linux kernel's TCP and MPTCP.
    Kernel,
    /// The engine, behind TUN devices.
    Tabane,
}

impl From<StackArg> for Stack {
    fn from(given: StackArg) -> Self {
        match given {
            StackArg::Kernel => Self::Kernel,
            StackArg::Tabane => Self::Tabane,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  tabane lab run scenarios/wifi-lte.toml --stack tabane
  tabane lab run scenarios/validation/two-equal.toml --stack kernel --repeat 5
  tabane lab run FILE --stack kernel --out results --pcap client --json > run.json

Every result says how late the emulated links were, and whether it is to be believed. Time is real:
a run takes as long as the scenario says.";

/// What `--json` prints for several runs.
#[derive(Serialize)]
struct Runs<'a> {
    scenario: &'a str,
    version: &'static str,
    runs: Vec<Run<'a>>,
}

#[derive(Serialize)]
struct Run<'a> {
    params: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    result: &'a LabResult,
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let document = sim::read(&args.file, &args.sets.with_seed(args.seed))?;
    let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
    let stack = args.stack.into();
    for variant in &variants {
        refuse(&variant.plan.scenario, stack)
            .map_err(|f| failure(&document, LabError::Refused(f)))?;
    }
    let interrupted = interruption()?;
    match variants.as_slice() {
        [only] if args.repeat == 1 => {
            let result = once(&args.outputs, &document, &only.plan, stack, &interrupted)?;
            Ok(complain(&result)?)
        }
        _ => several(args, &document, &interrupted),
    }
}

/// One run with everything that can be given out about it.
fn once(
    outputs: &Outputs,
    document: &Document,
    plan: &Plan,
    stack: Stack,
    interrupted: &AtomicBool,
) -> Result<LabResult, Failure> {
    let mut info = info(&plan.scenario, &[]);
    info.scenario = format!("{} on {}", info.scenario, stack.as_str());
    let mut folder = outputs.out.as_deref().map(Folder::create).transpose()?;
    let mut watchers = Watchers::new(outputs, plan, &info, folder.as_mut())?;
    say::detail(&format!("running {}", info.caption()));
    let mut whole = None;
    let result = measured(Scope::Process, || {
        let result = tabane_lab::run(plan, stack, &mut watchers.all(), interrupted)?;
        let run = result.run.clone();
        whole = Some(result);
        Ok(run)
    })
    .map_err(|e| failure(document, e))?;
    let mut whole = whole.expect("invariant: a run that succeeded has a result");
    whole.run = result;
    let report = watchers.finish()?;
    point::give_out(outputs, folder, &plan.source, &info, &whole.run, &whole, &report)?;
    if !outputs.json {
        say::print(&accuracy(&whole))?;
    }
    warn(&whole);
    Ok(whole)
}

/// Every point of a sweep, and every repetition.
fn several(args: &Args, document: &Document, interrupted: &AtomicBool) -> Result<(), Failure> {
    if args.outputs.records || !args.outputs.pcap.is_empty() || args.outputs.out.is_some() {
        return Err(Failure::usage("--out, --records and --pcap are for one run, not for several"));
    }
    let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
    let mut runs = Vec::new();
    for variant in &variants {
        for n in 0..args.repeat {
            let plan = variant.plan.with_seed(variant.plan.scenario.seed + u64::from(n));
            let plan = plan.map_err(|fault| failure(document, LabError::Refused(fault)))?;
            let mut params = variant.params.clone();
            params.push(("run".to_owned(), (n + 1).to_string()));
            let mut nobody = tabane_sim::observe::Silent;
            let result = tabane_lab::run(&plan, args.stack.into(), &mut nobody, interrupted)
                .map_err(|e| failure(document, e))?;
            say::detail(&accuracy(&result));
            warn(&result);
            runs.push((params, result));
        }
    }
    if args.outputs.json {
        let name = variants.first().map_or("", |v| v.plan.scenario.name.as_str());
        let one = |(params, result)| {
            let params: &Vec<(String, String)> = params;
            let params = params.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            Run { params, result }
        };
        let runs = runs.iter().map(|(params, result)| one((params, result))).collect();
        let document = Runs { scenario: name, version: env!("CARGO_PKG_VERSION"), runs };
        say::print(&serde_json::to_string(&document).map_err(|e| anyhow!(e))?)?;
    } else {
        let mut keys: Vec<String> = document.axes().into_iter().map(|axis| axis.key).collect();
        keys.push("run".to_owned());
        let rows = runs.iter().map(|(params, result)| (params.as_slice(), &result.run));
        say::print(&table::points(&keys, rows).to_string())?;
    }
    let scenario = variants.first().map(|variant| &variant.plan.scenario);
    for (params, result) in &runs {
        let name = || scenario.map_or_else(String::new, |one| info(one, params).scenario);
        complain(result).with_context(name)?;
    }
    Ok(())
}

/// One line about the emulated links.
fn accuracy(result: &LabResult) -> String {
    let a = &result.accuracy;
    let rates = a.links.iter().filter_map(|link| {
        let (rate, achieved) = (link.rate_bps?, link.achieved_bps?);
        let share = achieved / rate * 100.0;
        Some(format!("{} {}>{} {share:.2} % of its rate", link.link, link.from, link.to))
    });
    let rates: Vec<String> = rates.collect();
    let rates = if rates.is_empty() { String::new() } else { format!("; {}", rates.join(", ")) };
    format!(
        "links: {} packets, late by {} us (p50), {} us (p99), {} us (p99.9){rates}",
        a.packets, a.lateness_p50_us, a.lateness_p99_us, a.lateness_p999_us
    )
}

fn warn(result: &LabResult) {
    let accuracy = &result.accuracy;
    if let Some(why) = &accuracy.poor {
        say::error(&format!("the accuracy of this run is poor: {why}"));
    }
    if !accuracy.realtime {
        say::note("no real-time priority: see `tabane lab doctor`");
    }
    if accuracy.dropped_notifications > 0 {
        say::note(&format!(
            "{} observations were dropped: too many at once",
            accuracy.dropped_notifications
        ));
    }
}

/// A flow that failed or got wrong bytes is a failure of the run.
fn complain(result: &LabResult) -> anyhow::Result<()> {
    for flow in &result.run.flows {
        if let Some(why) = &flow.failed {
            return Err(anyhow!("flow '{}' failed: {why}", flow.name));
        }
    }
    point::complain(&result.run)
}
