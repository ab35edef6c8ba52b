//! What `--out DIR` gets: the scenario as it was run, the result, tables, series, plots.
//!
//! Files with the same names are replaced, others left alone.

use crate::exit::Failure;
use anyhow::{Context, anyhow};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use tabane_sim::result::{FlowResult, RunResult};
use tabane_sim::scenario::Scenario;
use tabane_trace::report::{Figure, Subject};
use tabane_trace::{Report, RunInfo, csv, plot};

/// A folder for the results of a run or of a sweep.
pub(in crate::cmd) struct Folder {
    root: PathBuf,
    written: Vec<String>,
}

impl Folder {
    /// Makes it, if it is not there.
    pub(in crate::cmd) fn create(root: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(root)
            .with_context(|| format!("{} cannot be made", root.display()))?;
        Ok(Self { root: root.to_owned(), written: Vec::new() })
    }

    /// Opens a file in it for writing.
    pub(in crate::cmd) fn open(&mut self, name: &str) -> Result<BufWriter<File>, Failure> {
        let path = self.root.join(name);
        let file =
            File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        self.written.push(name.to_owned());
        Ok(BufWriter::with_capacity(1 << 18, file))
    }

    /// Writes a file in it.
    pub(in crate::cmd) fn write(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.root.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Writes a JSON document.
    pub(in crate::cmd) fn write_json(
        &mut self,
        name: &str,
        value: &impl Serialize,
    ) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|e| anyhow!(e))?;
        self.write(name, &(text + "\n"))
    }

    /// `files: DIR/{a, b}`.
    pub(in crate::cmd) fn summary(&self) -> String {
        format!("written to {}: {}", self.root.display(), self.written.join(", "))
    }
}

/// Everything about one run but its result as a document.
pub(in crate::cmd) fn write_run(
    folder: &mut Folder,
    scenario: &Scenario,
    info: &RunInfo,
    result: &RunResult,
    report: &Report,
) -> Result<(), Failure> {
    folder.write("scenario.toml", &scenario_file(scenario, info))?;
    let mut whole = report.clone();
    let mut figures = result_figures(result);
    figures.append(&mut whole.figures);
    whole.figures = figures;
    let rows = csv::summary_rows(info, &whole);
    folder.write_json("meta.json", info)?;
    folder.write("summary.csv", &format!("{}{rows}", csv::summary_header(&info.axes)))?;
    folder.write("series.csv", &csv::series(report))?;
    for (name, svg) in plot::run::plots(info, report).map_err(|e| anyhow!(e))? {
        folder.write(&format!("{name}.svg"), &svg)?;
    }
    Ok(())
}

/// The scenario as it was run: what `--set` changed is in it.
pub(in crate::cmd) fn scenario_file(scenario: &Scenario, info: &RunInfo) -> String {
    format!("# {}\n{}", info.caption().replace('\n', " "), scenario.to_toml())
}

/// What the world itself measured, as rows of a summary.
pub(in crate::cmd) fn result_figures(result: &RunResult) -> Vec<Figure> {
    let mut figures = Vec::new();
    for flow in &result.flows {
        let subject = Subject { flow: flow.name.clone(), ..Subject::default() };
        add_flow(&mut figures, &subject, flow);
        for (i, subflow) in flow.subflows.iter().enumerate() {
            let path = subflow.path.clone();
            let subject = Subject { subflow: Some(i), path, ..subject.clone() };
            add(&mut figures, &subject, "bytes", subflow.bytes as f64);
            add(&mut figures, &subject, "goodput_bps", subflow.goodput_bps);
            let share = subflow.bytes as f64 / flow.bytes.max(1) as f64;
            add(&mut figures, &subject, "share_ratio", share);
        }
    }
    figures
}

fn add_flow(figures: &mut Vec<Figure>, subject: &Subject, flow: &FlowResult) {
    add(figures, subject, "bytes", flow.bytes as f64);
    add(figures, subject, "goodput_bps", flow.goodput_bps);
    if let Some(at) = flow.completed_s {
        add(figures, subject, "completed_s", at);
    }
    if let Some(latency) = &flow.latency {
        add(figures, subject, "latency_count", latency.count as f64);
        add(figures, subject, "latency_mean_s", latency.mean_s);
        add(figures, subject, "latency_p50_s", latency.p50_s);
        add(figures, subject, "latency_p95_s", latency.p95_s);
        add(figures, subject, "latency_p99_s", latency.p99_s);
        add(figures, subject, "latency_max_s", latency.max_s);
    }
}

fn add(figures: &mut Vec<Figure>, subject: &Subject, metric: &str, value: f64) {
    figures.push(Figure { subject: subject.clone(), metric: metric.to_owned(), value });
}
