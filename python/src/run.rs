//! One run and what came of it.

use crate::observers::{Events, Interrupt, Row};
use crate::policy;
use crate::scenario::Plan;
use crate::table::Table;
use crate::{error, gym};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use tabane_sim::observe::{Observer, Observers};
use tabane_sim::result::{FlowResult, RunResult};
use tabane_sim::{RunError, output};
use tabane_trace::report::Subject;
use tabane_trace::{Capture, CaptureError, Collector, RecordLines, Report, csv};

/// A run that is over.
#[pyclass(frozen, module = "tabane._native")]
pub(crate) struct Output {
    plan: Plan,
    result: RunResult,
    report: Option<Report>,
    events: Option<Vec<u8>>,
    /// Events that were too many to be kept.
    #[pyo3(get)]
    events_lost: u64,
}

/// Runs a plan. `watch`: with series and events; `records`: with the events of every packet too.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    plan: &Bound<'_, Plan>,
    watch: bool,
    records: bool,
) -> PyResult<Output> {
    let Plan { plan, params } = plan.get();
    let info = output::info(&plan.scenario, params);
    let settings = output::settings(&plan.scenario, true);
    let mut collector = watch.then(|| Collector::new(settings));
    let mut events = watch.then(|| Events::new(RecordLines::new(Vec::new(), info), records));
    let mut watchers: Vec<&mut (dyn Observer + Send)> = Vec::new();
    watchers.extend(collector.iter_mut().map(|c| c as &mut (dyn Observer + Send)));
    watchers.extend(events.iter_mut().map(|e| e as &mut (dyn Observer + Send)));
    let result = watched(py, plan, watchers)?;
    Ok(Output {
        plan: Plan { plan: plan.clone(), params: params.clone() },
        result,
        report: collector.map(|collector| collector.report()),
        events_lost: events.as_ref().map_or(0, |events| events.lost),
        events: events.map(Events::finish),
    })
}

/// Runs a plan to capture the packets of a host or a link.
#[pyfunction]
pub(crate) fn capture(
    py: Python<'_>,
    plan: &Bound<'_, Plan>,
    path: PathBuf,
    place: &str,
    snap: u32,
) -> PyResult<()> {
    let Plan { plan, params } = plan.get();
    let info = output::info(&plan.scenario, params);
    let file = BufWriter::with_capacity(1 << 18, Created { path: path.clone(), file: None });
    let mut capture = Capture::new(file, place, snap, info);
    watched(py, plan, vec![&mut capture])?;
    capture.finish().map_err(|error| match error {
        CaptureError::Io(_, error) => error::file(&path, &error),
        error => error::failed(py, &error.to_string()),
    })
}

/// A file that is made with its first bytes: one that is there stays if there is nothing to write.
struct Created {
    path: PathBuf,
    file: Option<File>,
}

impl Write for Created {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::create(&self.path)?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// Runs a plan without the interpreter's lock; Ctrl-C ends it.
fn watched(
    py: Python<'_>,
    plan: &tabane_sim::Plan,
    watchers: Vec<&mut (dyn Observer + Send)>,
) -> PyResult<RunResult> {
    let mut interrupt = Interrupt::default();
    // It may be a policy of another run that calls this.
    let _outer = policy::Aside::new();
    let result = py.detach(|| {
        let _outer = gym::Outer::aside();
        let mut all: Vec<&mut dyn Observer> = vec![&mut interrupt];
        all.extend(watchers.into_iter().map(|watcher| watcher as &mut dyn Observer));
        tabane_sim::run(plan, &mut Observers(all))
    });
    finished(py, result, interrupt.raised)
}

fn finished(
    py: Python<'_>,
    result: Result<RunResult, RunError>,
    raised: Option<PyErr>,
) -> PyResult<RunResult> {
    match (result, policy::take_failure(), raised) {
        (_, _, Some(raised)) => Err(raised),
        (_, Some(failure), None) => Err(failure.into_error(py)),
        (Err(error), None, None) => Err(error::run(py, &error)),
        (Ok(result), None, None) => Ok(result),
    }
}

#[pymethods]
impl Output {
    /// The result as one line of JSON, as `tabane sim run --json` prints it.
    fn json(&self) -> String {
        serde_json::to_string(&self.result).expect("invariant: a result has a JSON form")
    }

    /// The plan that was run.
    #[getter]
    fn plan(&self) -> Plan {
        self.plan.clone()
    }

    /// When it ended, simulated seconds.
    #[getter]
    fn ended_s(&self) -> f64 {
        self.result.ended_s
    }

    /// Packets times link directions crossed.
    #[getter]
    fn packet_hops(&self) -> u64 {
        self.result.cost.packet_hops
    }

    /// A row a flow.
    fn flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        flows(&[&self.result]).into_python(py)
    }

    /// A row a subflow.
    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        paths(&[&self.result]).into_python(py)
    }

    /// A row a link direction.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let links = || self.result.links.iter();
        let mut table = Table::default();
        table.texts("link", links().map(|link| &*link.link));
        table.texts("from", links().map(|link| &*link.from));
        table.texts("to", links().map(|link| &*link.to));
        table.counts("packets", links().map(|link| link.packets));
        table.counts("bytes", links().map(|link| link.bytes));
        table.counts("lost", links().map(|link| link.lost));
        table.into_python(py)
    }

    /// A row a point of a series; `None` if the run was not watched.
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(report) = &self.report else { return Ok(None) };
        let rows =
            || report.series.iter().flat_map(|s| s.points.iter().map(move |(t, v)| (s, *t, *v)));
        let mut table = Table::default();
        table.floats("t", rows().map(|row| row.1));
        add_subject(&mut table, || rows().map(|row| &row.0.subject));
        table.texts("metric", rows().map(|row| row.0.metric.name()));
        table.floats("value", rows().map(|row| row.2));
        table.into_python(py).map(Some)
    }

    /// A row a figure of the whole run; without being watched only those of flows and paths.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let own = output::figures(&self.result);
        let rows = || own.iter().chain(self.report.iter().flat_map(|report| &report.figures));
        let mut table = Table::default();
        add_subject(&mut table, || rows().map(|figure| &figure.subject));
        table.texts("metric", rows().map(|figure| &*figure.metric));
        table.floats("value", rows().map(|figure| figure.value));
        table.into_python(py)
    }

    /// A row an event; `None` if the run was not watched.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(lines) = &self.events else { return Ok(None) };
        // The first line says which run it is.
        let lines = lines.split(|byte| *byte == b'\n').skip(1);
        let rows: Vec<Row> = lines.filter_map(Row::parse).collect();
        let mut table = Table::default();
        table.floats("t", rows.iter().map(|row| row.time));
        table.texts("host", rows.iter().map(|row| &*row.host));
        table.texts("flow", rows.iter().map(|row| &*row.flow));
        table.integers("conn", rows.iter().map(|row| row.conn));
        table.integers("subflow", rows.iter().map(|row| row.subflow));
        table.texts("event", rows.iter().map(|row| &*row.event));
        table.texts("detail", rows.iter().map(|row| &*row.detail));
        table.into_python(py).map(Some)
    }

    /// The events as lines of JSON; `None` if the run was not watched.
    fn lines<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.events.as_ref().map(|lines| PyBytes::new(py, lines))
    }

    /// Why which subflow was chosen or idle, a sentence each.
    fn reasons(&self) -> Vec<String> {
        self.report.iter().flat_map(|report| report.reasons.clone()).collect()
    }

    /// The files that `tabane sim run --out` writes: name and text.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let scenario = &self.plan.plan.scenario;
        let info = output::info(scenario, &self.plan.params);
        let report = self.report.clone().unwrap_or_default();
        let files = output::files(scenario, &info, &self.result, &report);
        let mut files = files.map_err(|error| error::failed(py, &error.to_string()))?;
        let json = serde_json::to_string_pretty(&self.result);
        let json = json.expect("invariant: a result has a JSON form") + "\n";
        files.push(("result.json".to_owned(), json));
        Ok(files)
    }
}

/// Rows of flows; of several runs, each says which.
pub(crate) fn flows(runs: &[&RunResult]) -> Table {
    let rows = || {
        let runs = runs.iter().enumerate();
        runs.flat_map(|(n, run)| run.flows.iter().map(move |flow| (n as i64, flow)))
    };
    let flows = || rows().map(|row| row.1);
    let mut table = Table::default();
    table.integers("run", rows().map(|row| row.0));
    table.texts("flow", flows().map(|flow| &*flow.name));
    table.counts("bytes", flows().map(|flow| flow.bytes));
    table.floats("goodput_bps", flows().map(|flow| flow.goodput_bps));
    table.floats("completed_s", flows().map(|flow| flow.completed_s));
    type Latency = fn(&tabane_sim::result::LatencyResult) -> f64;
    let latencies: [(&str, Latency); 6] = [
        ("latency_count", |l| l.count as f64),
        ("latency_mean_s", |l| l.mean_s),
        ("latency_p50_s", |l| l.p50_s),
        ("latency_p95_s", |l| l.p95_s),
        ("latency_p99_s", |l| l.p99_s),
        ("latency_max_s", |l| l.max_s),
    ];
    for (name, value) in latencies {
        table.floats(name, flows().map(|flow| flow.latency.as_ref().map(value)));
    }
    table.texts("failed", flows().map(|flow| flow.failed.as_deref().unwrap_or_default()));
    table.flags("corrupt", flows().map(|flow| flow.corrupt_at.is_some()));
    table
}

/// Rows of subflows; of several runs, each says which.
pub(crate) fn paths(runs: &[&RunResult]) -> Table {
    let rows = || {
        let runs = runs.iter().enumerate();
        let flows = runs.flat_map(|(n, run)| run.flows.iter().map(move |flow| (n as i64, flow)));
        flows.flat_map(|(n, flow)| {
            flow.subflows.iter().enumerate().map(move |(k, subflow)| (n, flow, k, subflow))
        })
    };
    let mut table = Table::default();
    table.integers("run", rows().map(|row| row.0));
    table.texts("flow", rows().map(|row| &*row.1.name));
    table.integers("subflow", rows().map(|row| row.2 as i64));
    table.texts("path", rows().map(|row| &*row.3.path));
    table.counts("bytes", rows().map(|row| row.3.bytes));
    table.floats("goodput_bps", rows().map(|row| row.3.goodput_bps));
    let all = || runs.iter().flat_map(|run| &run.flows);
    table.floats("share", all().flat_map(FlowResult::shares));
    table
}

/// What a value belongs to, as five columns of `series.csv` have it.
fn add_subject<'t, I: Iterator<Item = &'t Subject>>(table: &mut Table, rows: impl Fn() -> I) {
    debug_assert_eq!(csv::SUBJECT, "flow,host,subflow,path,metric");
    table.texts("flow", rows().map(|subject| &*subject.flow));
    table.texts("host", rows().map(|subject| &*subject.host));
    table.integers("subflow", rows().map(|subject| subject.subflow.map_or(-1, |n| n as i64)));
    table.texts("path", rows().map(|subject| &*subject.path));
}
