//! Published experiments, repeated in the simulator: one module and one folder (`papers/NAME/`) a
//! paper, one row each in [`ALL`]. What comes out is a [`Report`]: the paper's figures beside
//! ours, a verdict for each claim, and how far ours is from the physical bound.
//!
//! ```text
//! Paper::run(Context) -> Report -> output::write -> report.html, report.json, *.csv, *.svg
//! ```
//! A new paper is its module with a `const PAPER`, its folder, and its row. Everything here is
//! deterministic: the same seed gives the same report (its run time is the caller's to add).
#![forbid(unsafe_code)]

pub mod context;
pub mod figure;
mod html;
pub mod output;
pub mod published;
pub mod report;
pub mod stats;
mod svg;

mod s1;
mod s2;
mod s3;
mod s4;
mod s5;

pub use context::{Context, Job, Options, Progress};
pub use html::head;
pub use report::Report;
pub use svg::escape;

use tabane_engine::policy::edit_distance;
use tabane_sim::RunError;
use tabane_sim::scenario::ScenarioError;
use thiserror::Error;

/// Every paper, in the order in which `all` runs them.
pub const ALL: &[&Paper] = &[&s1::PAPER, &s2::PAPER, &s3::PAPER, &s4::PAPER, &s5::PAPER];

/// A paper.
#[derive(Debug)]
pub struct Paper {
    /// The name users type.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// One line: what is repeated and what is asked beyond it.
    pub summary: &'static str,
    /// Repeats it.
    pub run: fn(&Context<'_>) -> Result<Report, PaperError>,
}

/// The paper of this name.
///
/// # Errors
/// [`PaperError::Unknown`], with the nearest name.
pub fn find(name: &str) -> Result<&'static Paper, PaperError> {
    if let Some(paper) = ALL.iter().find(|paper| paper.name == name) {
        return Ok(paper);
    }
    let nearest = ALL.iter().map(|paper| paper.name).min_by_key(|n| edit_distance(n, name));
    let known: Vec<&str> = ALL.iter().map(|paper| paper.name).collect();
    Err(PaperError::Unknown {
        name: name.to_owned(),
        nearest: nearest.unwrap_or_default(),
        known: known.join(", "),
    })
}

/// Why a paper could not be repeated. A result that differs from the paper's is no error.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum PaperError {
    /// No such paper.
    #[error("unknown paper '{name}'; did you mean '{nearest}'? known: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest known name.
        nearest: &'static str,
        /// All names.
        known: String,
    },
    /// A scenario, or what was laid over it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A scenario that is several runs where one was meant.
    #[error("{what}: {runs} runs where one was meant; fix these lists: {axes}")]
    Sweep {
        /// The scenario.
        what: String,
        /// How many.
        runs: usize,
        /// Its axes.
        axes: String,
    },
    /// A run.
    #[error("{what}: {error}")]
    Run {
        /// Which.
        what: String,
        /// Why not.
        error: RunError,
    },
    /// A flow that had to finish within its scenario's duration and did not.
    #[error("{what}: flow '{flow}' did not finish: {why}")]
    Unfinished {
        /// Which run.
        what: String,
        /// Which flow.
        flow: String,
        /// Why.
        why: String,
    },
    /// Published figures that cannot be read.
    #[error("{file}:{line}: {message}")]
    Published {
        /// Name of the file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

#[cfg(test)]
mod tests;
