//! What a result is a result of: stored with every file, so that none is ever an orphan.

use serde::Serialize;

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
}

impl RunInfo {
    /// `scenario · seed 7 · tabane 0.1.0`: for titles and comments.
    pub fn caption(&self) -> String {
        format!("{} · seed {} · tabane {}", self.scenario, self.seed, self.version)
    }
}
