//! Published experiments, repeated.

use crate::error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use tabane_papers::{ALL, Context, Options, output};

/// The papers: name, number, title and summary.
#[pyfunction]
pub(crate) fn papers() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    ALL.iter().map(|paper| (paper.name, paper.alias, paper.title, paper.summary)).collect()
}

/// Repeats a paper: its report as JSON. With a folder, `tabane paper run`'s files are written.
#[pyfunction]
pub(crate) fn repeat_paper(
    py: Python<'_>,
    name: &str,
    quick: bool,
    seed: u64,
    sets: Vec<String>,
    jobs: usize,
    folder: Option<PathBuf>,
) -> PyResult<String> {
    let paper = tabane_papers::find(name).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let report = py.detach(|| {
        let nobody = |_: tabane_papers::Progress<'_>| {};
        let mut context = Context::new(&nobody);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        context.quick = quick;
        context.seed = seed;
        context.jobs = if jobs == 0 { cores } else { jobs };
        context.options = Options { place: false, sets };
        tabane_papers::repeat(paper, &context)
    });
    let report = report.map_err(|error| error::failed(py, &error.to_string()))?;
    if let Some(folder) = folder {
        let written = output::write(&folder, &report);
        written.map_err(|error| error::failed(py, &error.to_string()))?;
    }
    Ok(serde_json::to_string(&report).expect("invariant: a report has a JSON form"))
}
