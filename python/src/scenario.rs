//! Scenarios as Python hands them over: text with values laid over it, and the runs in it.

use crate::{error, policy};
use pyo3::prelude::*;
use std::path::PathBuf;
use tabane_config::bounded;
use tabane_sim::output;
use tabane_sim::scenario;

/// A scenario file with overrides: one run, or every point of a sweep.
#[pyclass(frozen, module = "tabane._native")]
pub(crate) struct Document(scenario::Document);

/// One run, checked and ready.
#[pyclass(frozen, module = "tabane._native")]
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) plan: tabane_sim::Plan,
    /// Values of the axes, in file order.
    #[pyo3(get)]
    pub(crate) params: Vec<(String, String)>,
}

#[pymethods]
impl Document {
    /// Text, its name in messages, overrides `key=value`, the folder of files that it names, and
    /// the texts of such files.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        text: &str,
        sets: Vec<String>,
        folder: PathBuf,
        files: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let document = scenario::Document::parse(name, text, &sets);
        let document = document.map_err(|error| error::scenario(py, &error))?.in_folder(&folder);
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (&**n, &**t)).collect();
        Ok(Self(document.with_files(&files)))
    }

    /// Reads the text of a scenario file.
    #[staticmethod]
    fn text_of(path: PathBuf) -> PyResult<String> {
        bounded::text(&path, bounded::SOURCE_DOCUMENT).map_err(|error| error::file(&path, &error))
    }

    /// A scenario that came as JSON, as TOML.
    #[staticmethod]
    fn toml_of(json: &str) -> PyResult<String> {
        // Into TOML's own tables, which keep the order: the first path is the first of its host.
        let value: toml::Table = serde_json::from_str(json).map_err(invalid)?;
        toml::to_string(&value).map_err(invalid)
    }

    /// The axes: key and values.
    fn axes(&self) -> Vec<(String, Vec<String>)> {
        self.0.axes().into_iter().map(|axis| (axis.key, axis.values)).collect()
    }

    /// Every run, checked.
    fn plans(&self, py: Python<'_>) -> PyResult<Vec<Plan>> {
        // What a policy raises in a check is told when it runs.
        let _outer = policy::Aside::new();
        let variants = py.detach(|| self.0.variants());
        let variants = variants.map_err(|error| error::scenario(py, &error))?;
        let plan = |variant: scenario::Variant| Plan { plan: variant.plan, params: variant.params };
        Ok(variants.into_iter().map(plan).collect())
    }
}

#[pymethods]
impl Plan {
    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.plan.scenario.name
    }

    /// The seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.plan.scenario.seed
    }

    /// The same with another seed.
    fn with_seed(&self, py: Python<'_>, seed: u64) -> PyResult<Self> {
        let _outer = policy::Aside::new();
        let plan = self.plan.with_seed(seed);
        let plan = plan.map_err(|fault| error::failed(py, &fault.message))?;
        Ok(Self { plan, params: self.params.clone() })
    }

    /// Flows and changes that come when the run is over.
    fn late(&self) -> Vec<String> {
        self.plan.source.late()
    }

    /// Files that its policies are made from.
    fn policy_files(&self) -> Vec<String> {
        self.plan.scenario.policy_files().map(str::to_owned).collect()
    }

    /// The scenario as it runs, with what was laid over it.
    fn toml(&self) -> String {
        self.plan.source.to_toml()
    }

    /// Files of measured rates and conditions that its links name.
    fn traces(&self) -> Vec<String> {
        self.plan.source.traces()
    }

    /// Scheduler, congestion control and egress of the hosts that send data.
    fn policies(&self) -> (String, String, String) {
        let info = output::info(&self.plan.scenario, &self.params);
        (info.scheduler, info.congestion, info.egress)
    }
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(error.to_string())
}
