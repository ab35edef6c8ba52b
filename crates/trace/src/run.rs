//! What a result is a result of: stored with every file, so that none is ever an orphan.

use serde::{Serialize, Serializer};

/// Scenario, seed, version and the policies of one run.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct RunInfo {
    /// Name of the scenario, with the values of its sweep axes if it has any.
    pub scenario: String,
    /// The seed that everything random came from.
    pub seed: u64,
    /// Version of tabane that ran it.
    pub version: String,
    /// Scheduler of the data senders; several are joined with `+`.
    pub scheduler: String,
    /// Congestion control of the data senders; several are joined with `+`.
    pub congestion: String,
    /// Egress policy; several are joined with `+`.
    pub egress: String,
    /// Values of the sweep's axes, in file order; none if it was no sweep.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub axes: Vec<(String, String)>,
}

fn as_map<S: Serializer>(axes: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(axes.iter().map(|(key, value)| (key, value)))
}

impl RunInfo {
    /// `scenario · seed 7 · tabane 0.1.0`: for titles and comments.
    pub fn caption(&self) -> String {
        format!("{} · seed {} · tabane {}", self.scenario, self.seed, self.version)
    }
}
