//! One run of `tabane sim run`: who watches it, what is printed and written.

use super::files::{self, Folder};
use super::measure::{info, measured};
use super::progress::{Progress, STEPS};
use super::run::Args;
use super::table;
use crate::cost::Scope;
use crate::exit::Failure;
use crate::say;
use anyhow::anyhow;
use std::fs::File;
use std::io::BufWriter;
use tabane_engine::Duration;
use tabane_sim::observe::{Observer, Observers};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Scenario;
use tabane_trace::{Capture, Collector, RecordLines, Report, RunInfo, Settings};

/// Runs `scenario` and reports as `args` ask.
pub(super) fn run(args: &Args, scenario: &Scenario) -> Result<(), Failure> {
    let info = info(scenario, &[]);
    let mut folder = args.out.as_deref().map(Folder::create).transpose()?;
    let mut watchers = Watchers::new(args, scenario, &info, folder.as_mut())?;
    say::detail(&format!("running {}", info.caption()));
    let result = measured(Scope::Process, || tabane_sim::run(scenario, &mut watchers.all()))
        .map_err(|e| anyhow!(e).context(info.scenario.clone()))?;
    let report = watchers.finish()?;
    if let Some(folder) = &mut folder {
        files::write_run(folder, scenario, &info, &result, &report)?;
    }
    if args.json {
        say::print(&serde_json::to_string(&result).map_err(|e| anyhow!(e))?)?;
    } else {
        print(&info, &result, &report)?;
    }
    report.reasons.iter().for_each(|reason| say::detail(reason));
    if let Some(folder) = &folder {
        say::note(&folder.summary());
    }
    complain(&result)
}

/// For people: a caption, a table, and what it took.
fn print(info: &RunInfo, result: &RunResult, report: &Report) -> Result<(), Failure> {
    say::print(&info.caption())?;
    say::print(&table::flows(result, report).to_string())?;
    let user = result.cost.user_s.unwrap_or(0.0);
    let cost = format!("{:.3} s of simulated time in {user:.3} s of user time", result.ended_s);
    say::note(&format!("{cost}, {} packet-hops", result.cost.packet_hops));
    Ok(())
}

/// A flow that failed or got wrong bytes is a failure of the run.
fn complain(result: &RunResult) -> Result<(), Failure> {
    for flow in &result.flows {
        if let Some(at) = flow.corrupt_at {
            return Err(anyhow!("flow '{}' delivered a wrong byte at {at}", flow.name).into());
        }
    }
    Ok(())
}

/// Those who watch a run.
struct Watchers {
    progress: Progress,
    collector: Option<Collector>,
    records: Option<RecordLines<BufWriter<File>>>,
    captures: Vec<Capture<BufWriter<File>>>,
}

impl Watchers {
    /// `--json` alone wants speed: nobody but the progress bar watches.
    fn new(
        args: &Args,
        scenario: &Scenario,
        info: &RunInfo,
        folder: Option<&mut Folder>,
    ) -> Result<Self, Failure> {
        let collector = match (&folder, args.json) {
            (Some(_), _) => Some(Collector::new(settings(scenario, true))),
            (None, false) => Some(Collector::new(settings(scenario, false))),
            (None, true) => None,
        };
        let mut watchers = Self {
            progress: Progress::new(&info.scenario, STEPS),
            collector,
            records: None,
            captures: Vec::new(),
        };
        let Some(folder) = folder else { return Ok(watchers) };
        if args.records {
            watchers.records = Some(RecordLines::new(folder.open("records.jsonl")?, info.clone()));
        }
        let asked = args.pcap.iter().chain(&scenario.output.pcap);
        let mut places: Vec<&String> = asked.collect();
        places.sort();
        places.dedup();
        for place in places {
            let file = folder.open(&format!("{}.pcapng", place.replace('/', "_")))?;
            watchers.captures.push(Capture::new(file, place, args.snap, info.clone()));
        }
        Ok(watchers)
    }

    fn all(&mut self) -> Observers<'_> {
        let mut all: Vec<&mut dyn Observer> = vec![&mut self.progress];
        all.extend(self.collector.iter_mut().map(|c| c as &mut dyn Observer));
        all.extend(self.records.iter_mut().map(|r| r as &mut dyn Observer));
        all.extend(self.captures.iter_mut().map(|c| c as &mut dyn Observer));
        Observers(all)
    }

    fn finish(self) -> Result<Report, Failure> {
        self.progress.finish();
        if let Some(records) = self.records {
            records.finish()?;
        }
        for capture in self.captures {
            capture.finish().map_err(|e| anyhow!(e))?;
        }
        Ok(self.collector.map(|c| c.report()).unwrap_or_default())
    }
}

/// Series of a plot have 500 to 1000 points, however long the run; without files, only the last
/// sample is looked at.
pub(super) fn settings(scenario: &Scenario, files: bool) -> Settings {
    let end = scenario.duration.0;
    let fine = Duration((end.0 / 10_000).clamp(1_000_000, 1_000_000_000));
    let coarse = Duration((end.0 / 20).max(1_000_000));
    match (files, &scenario.output.sample) {
        (true, Some(asked)) => Settings { interval: asked.0, bins: 100_000, ..Settings::default() },
        (true, None) => Settings { interval: fine, bins: 1_000, ..Settings::default() },
        (false, _) => Settings { interval: coarse, bins: 64, tracked: 0, records: false },
    }
}
