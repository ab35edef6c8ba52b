//! Published experiments, repeated.

use crate::policy::{self, Failure};
use crate::{error, gym};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
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
    let raised: Mutex<Option<Failure>> = Mutex::new(None);
    // It may be a policy of another run that calls this.
    let _outer = policy::Aside::new();
    let report = py.detach(|| {
        let _outer = gym::Outer::aside();
        // It is told after each run, on the thread of that run: what a policy raised lies there,
        // and no policy of the next run would be asked.
        let take = |_: tabane_papers::Progress<'_>| note_failure(&raised);
        let mut context = Context::new(&take);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        context.quick = quick;
        context.seed = seed;
        context.jobs = if jobs == 0 { cores } else { jobs };
        context.options = Options { place: false, sets };
        let report = tabane_papers::repeat(paper, &context);
        // Not every run is one of those of which progress is told.
        note_failure(&raised);
        report
    });
    if let Some(failure) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(failure.into_error(py));
    }
    let report = report.map_err(|error| error::failed(py, &error.to_string()))?;
    if let Some(folder) = folder {
        let written = output::write(&folder, &report);
        written.map_err(|error| error::failed(py, &error.to_string()))?;
    }
    Ok(serde_json::to_string(&report).expect("invariant: a report has a JSON form"))
}

/// Takes what a policy raised on this thread; the first of all is told.
fn note_failure(raised: &Mutex<Option<Failure>>) {
    if let Some(failure) = policy::take_failure() {
        raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }
}
