//! The package's exceptions, which are defined in Python (`python/tabane/_errors.py`).

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io;
use std::path::Path;
use tabane_sim::RunError;
use tabane_sim::scenario::ScenarioError;

/// What was wrong with a scenario: with file, line, column and remedy as attributes.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let (line, column) = error.position.unzip();
    let file = error.file.as_str();
    let args = (error.to_string(), file, line, column, error.message.as_str(), &error.help);
    make(py, "ScenarioError", args)
}

/// Why a run ended before its end.
pub(crate) fn run(py: Python<'_>, error: &RunError) -> PyErr {
    failed(py, &error.to_string())
}

/// A run that could not be made, or what it asks for.
pub(crate) fn failed(py: Python<'_>, message: &str) -> PyErr {
    make(py, "RunError", (message,))
}

/// A file that cannot be read: Python's own exception for it, which names the file.
pub(crate) fn file(path: &Path, error: &io::Error) -> PyErr {
    let Some(code) = error.raw_os_error() else {
        return io::Error::new(error.kind(), format!("{}: {error}", path.display())).into();
    };
    let (words, end) = (error.to_string(), format!(" (os error {code})"));
    let words = words.strip_suffix(&end).unwrap_or(&words).to_owned();
    // The number is twice there: the second one counts where it is one of Windows.
    PyOSError::new_err((code, words, path.as_os_str().to_owned(), code))
}

/// An exception that a policy raised at a moment of simulated time; its cause.
pub(crate) fn policy(py: Python<'_>, policy: &str, time_s: f64, cause: PyErr) -> PyErr {
    let error = make(py, "PolicyError", (policy, time_s, cause.value(py)));
    error.set_cause(py, Some(cause));
    error
}

fn make<'py, A>(py: Python<'py>, class: &str, args: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let made = py.import("tabane._errors").and_then(|module| module.getattr(class)?.call1(args));
    made.map_or_else(|error| error, PyErr::from_value)
}
