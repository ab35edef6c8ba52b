//! Published experiments, repeated in the simulator: one module and one folder (`papers/NAME/`) a
//! paper, one row each in [`ALL`]. What comes out is a [`Report`]: the paper's figures beside
//! ours, a verdict for each claim, and how far ours is from the physical bound.
//!
//! ```text
//! Paper::run(Context) -> Report -> output::write -> report.html, report.json, *.csv, *.svg
//! ```
//! A new paper is its module with a `const PAPER`, its folder, and its row. What it comes to is
//! kept in its folder (`report.json`), from which the tables of documents are made (`.ci/papers`).
//! Everything here is deterministic: the same seed gives the same report (its run time is the
//! caller's to add).
#![forbid(unsafe_code)]

pub mod context;
pub mod figure;
mod html;
pub mod inventory;
pub mod output;
pub mod published;
pub mod report;
pub mod stats;
mod svg;

mod bicast;
mod ecf;
mod ecf3;
mod hayack;
mod olia;
mod proxies;
mod stms;
mod two_wans;
mod wsp;

pub use context::{Context, Job, Options, Progress};
pub use html::head;
pub use report::Report;
pub use svg::escape;

use serde::Serialize;
use tabane_engine::policy::{meant, nearest};
use tabane_sim::RunError;
use tabane_sim::scenario::ScenarioError;
use thiserror::Error;

/// Every paper, in the order in which `all` runs them.
pub const ALL: &[&Paper] = &[
    &bicast::PAPER,
    &hayack::PAPER,
    &ecf3::PAPER,
    &two_wans::PAPER,
    &proxies::PAPER,
    &wsp::PAPER,
    &olia::PAPER,
    &ecf::PAPER,
    &stms::PAPER,
];

/// A published experiment that this program repeats, and the function that repeats it.
///
/// `name` is the word users type, and the name of the paper's folder and module. `run` must be
/// deterministic: the same [`Context`] gives the same [`Report`].
#[derive(Debug)]
pub struct Paper {
    pub name: &'static str,
    /// The paper's number in `docs/papers.md` (`s1`), accepted wherever the name is.
    pub alias: &'static str,
    pub title: &'static str,
    /// Where it was published; `None` where that is not known for certain.
    pub source: Option<Source>,
    /// One line: what is repeated and what is asked beyond it.
    pub summary: &'static str,
    /// Its `inventory.csv`.
    pub inventory: &'static str,
    pub run: fn(&Context<'_>) -> Result<Report, PaperError>,
}

/// A publication, as it is cited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Source {
    /// In the order of the publication.
    pub authors: &'static [&'static str],
    /// As printed.
    pub title: &'static str,
    /// Proceedings or journal, pages.
    pub venue: &'static str,
    /// Of publication.
    pub year: u16,
    /// Without `https://doi.org/`.
    pub doi: &'static str,
}

impl Source {
    /// In one line.
    #[must_use]
    pub fn citation(&self) -> String {
        let Self { authors, title, venue, year, doi } = self;
        let authors = authors.join(", ");
        format!("{authors}: {title}. {venue}, {year}. doi:{doi}")
    }
}

/// Repeats `paper`.
///
/// # Errors
/// [`PaperError`]: a run that failed, or a file of the paper that cannot be read.
pub fn repeat(paper: &Paper, context: &Context<'_>) -> Result<Report, PaperError> {
    let items = inventory::items(paper)?;
    let report = (paper.run)(context)?;
    Ok(Report { items, ..report }.finish())
}

/// The paper of this name or alias.
///
/// # Errors
/// [`PaperError::Unknown`], with the nearest name.
pub fn find(name: &str) -> Result<&'static Paper, PaperError> {
    if let Some(paper) = ALL.iter().find(|paper| [paper.name, paper.alias].contains(&name)) {
        return Ok(paper);
    }
    let known: Vec<String> =
        ALL.iter().map(|paper| format!("{} ({})", paper.name, paper.alias)).collect();
    Err(PaperError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, ALL.iter().flat_map(|paper| [paper.name, paper.alias])),
        known: known.join(", "),
    })
}

/// Why a paper could not be repeated. A result that differs from the paper's is no error.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum PaperError {
    /// No such paper.
    #[error("unknown paper '{name}'{}; known: {known}", meant(*.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The known name that it is near to, if it is near to one.
        nearest: Option<&'static str>,
        known: String,
    },
    /// A scenario, or what was laid over it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A scenario that is several runs where one was meant.
    #[error("{what}: {runs} runs where one was meant; fix these lists: {axes}")]
    Sweep { what: String, runs: usize, axes: String },
    #[error("{what}: {error}")]
    Run { what: String, error: RunError },
    /// A flow that had to finish within its scenario's duration and did not.
    #[error("{what}: flow '{flow}' did not finish: {why}")]
    Unfinished { what: String, flow: String, why: String },
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
