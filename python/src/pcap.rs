//! What a capture says.

use crate::error;
use crate::table::Table;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs::File;
use std::path::PathBuf;
use tabane_trace::analysis::{Document, Settings};

/// An analysed capture: the document as JSON, and its series.
#[pyfunction]
pub(crate) fn read_pcap<'py>(
    py: Python<'py>,
    path: PathBuf,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let file = File::open(&path).map_err(|error| error::file(&path, &error))?;
    let name = path.display().to_string();
    let document = py.detach(|| Document::read(&name, file, Settings::default()));
    let document = document.map_err(|error| error::failed(py, &error.to_string()))?;
    let json = serde_json::to_string(&document).expect("invariant: a document has a JSON form");
    let series = &document.analysis.series;
    let names: Vec<String> = series.iter().map(|s| s.metric.name()).collect();
    let rows = || {
        let series = series.iter().zip(&names);
        series.flat_map(|(s, name)| s.points.iter().map(move |(t, value)| (s, name, *t, *value)))
    };
    let mut table = Table::default();
    table.floats("t", rows().map(|row| row.2));
    table.counts("connection", rows().map(|row| row.0.connection as u64));
    table.integers("subflow", rows().map(|row| row.0.subflow.map_or(-1, |n| n as i64)));
    let direction = |forward: bool| if forward { "forward" } else { "backward" };
    table.texts("direction", rows().map(|row| direction(row.0.forward)));
    table.texts("metric", rows().map(|row| row.1.as_str()));
    table.floats("value", rows().map(|row| row.3));
    Ok((json, table.into_python(py)?))
}
