//! What a run shall give out, and who watches it for that.

use super::files::Folder;
use crate::cmd::progress::{Progress, STEPS};
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use tabane_sim::observe::{Observer, Observers, Silent};
use tabane_sim::output::settings;
use tabane_sim::{Plan, World};
use tabane_trace::{Capture, Collector, RecordLines, Report, RunInfo, capture};

/// What to print and to write.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Outputs {
    /// Write scenario, result, tables, series and plots into this folder.
    #[arg(long, value_name = "DIR")]
    pub(in crate::cmd) out: Option<PathBuf>,
    /// Standard output is one JSON document.
    #[arg(long)]
    pub(in crate::cmd) json: bool,
    /// Capture the packets of this host or link as pcapng (needs --out).
    #[arg(long, value_name = "HOST|LINK", requires = "out")]
    pub(in crate::cmd) pcap: Vec<String>,
    /// Bytes of each packet in captures; 0 is all of it.
    #[arg(long, value_name = "BYTES", default_value_t = 0, requires = "pcap")]
    pub(in crate::cmd) snap: u32,
    /// Write every record as JSON Lines (needs --out; about 500 bytes a packet).
    #[arg(long, requires = "out")]
    pub(in crate::cmd) records: bool,
}

/// Those who watch a run.
pub(in crate::cmd) struct Watchers {
    progress: Progress,
    collector: Option<Collector>,
    records: Option<RecordLines<BufWriter<File>>>,
    captures: Vec<Capture<BufWriter<File>>>,
}

impl Watchers {
    /// `--json` alone wants speed: nobody but the progress bar watches.
    pub(in crate::cmd) fn new(
        outputs: &Outputs,
        plan: &Plan,
        info: &RunInfo,
        folder: Option<&mut Folder>,
    ) -> Result<Self, Failure> {
        let scenario = &*plan.scenario;
        let collector = match (&folder, outputs.json) {
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
        let Some(folder) = folder else {
            if !scenario.output.pcap.is_empty() {
                say::note("the captures that the scenario asks for need --out DIR");
            }
            return Ok(watchers);
        };
        if outputs.records {
            watchers.records = Some(RecordLines::new(folder.open("records.jsonl")?, info.clone()));
        }
        let asked = outputs.pcap.iter().chain(&scenario.output.pcap);
        let mut places: Vec<&String> = asked.collect();
        places.sort();
        places.dedup();
        check_places(plan, &places)?;
        for place in places {
            let file = folder.open(&format!("{}.pcapng", place.replace('/', "_")))?;
            watchers.captures.push(Capture::new(file, place, outputs.snap, info.clone()));
        }
        Ok(watchers)
    }

    pub(in crate::cmd) fn all(&mut self) -> Observers<'_> {
        let mut all: Vec<&mut dyn Observer> = vec![&mut self.progress];
        all.extend(self.collector.iter_mut().map(|c| c as &mut dyn Observer));
        all.extend(self.records.iter_mut().map(|r| r as &mut dyn Observer));
        all.extend(self.captures.iter_mut().map(|c| c as &mut dyn Observer));
        Observers(all)
    }

    pub(in crate::cmd) fn finish(self) -> Result<Report, Failure> {
        self.progress.finish();
        if let Some(records) = self.records {
            records.finish().context("the records cannot be written")?;
        }
        for capture in self.captures {
            capture.finish().map_err(|e| anyhow!(e))?;
        }
        Ok(self.collector.map(|c| c.report()).unwrap_or_default())
    }
}

/// Refuses to capture where there is nothing, before the run and not after it.
fn check_places(plan: &Plan, places: &[&String]) -> Result<(), Failure> {
    let layout = World::new(plan, &mut Silent).map_err(|e| anyhow!(e))?.layout();
    let known = capture::places(&layout);
    match places.iter().find(|place| !known.contains(place)) {
        None => Ok(()),
        Some(place) => Err(Failure::usage(format!(
            "nothing to capture is called '{place}'; hosts and links are: {}",
            known.join(", ")
        ))),
    }
}
