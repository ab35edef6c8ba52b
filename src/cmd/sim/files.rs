//! What `--out DIR` gets: the scenario as it was run, the result, tables, series, plots.
//!
//! Files with the same names are replaced, others left alone.

use crate::exit::Failure;
use anyhow::{Context, anyhow};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use tabane_sim::output;
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Scenario;
use tabane_trace::{Report, RunInfo};

/// A folder for the results of a run or of a sweep.
pub(in crate::cmd) struct Folder {
    root: PathBuf,
    written: Vec<String>,
}

impl Folder {
    /// Makes it, if it is not there.
    pub(in crate::cmd) fn create(root: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(root)
            .with_context(|| format!("{} cannot be made", root.display()))?;
        Ok(Self { root: root.to_owned(), written: Vec::new() })
    }

    /// Opens a file in it for writing.
    pub(in crate::cmd) fn open(&mut self, name: &str) -> Result<BufWriter<File>, Failure> {
        let path = self.root.join(name);
        let file =
            File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        self.written.push(name.to_owned());
        Ok(BufWriter::with_capacity(1 << 18, file))
    }

    /// Writes a file in it.
    pub(in crate::cmd) fn write(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.root.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Writes a JSON document.
    pub(in crate::cmd) fn write_json(
        &mut self,
        name: &str,
        value: &impl Serialize,
    ) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|e| anyhow!(e))?;
        self.write(name, &(text + "\n"))
    }

    /// `files: DIR/{a, b}`.
    pub(in crate::cmd) fn summary(&self) -> String {
        format!("written to {}: {}", self.root.display(), self.written.join(", "))
    }
}

/// Everything about one run but its result as a document.
pub(in crate::cmd) fn write_run(
    folder: &mut Folder,
    scenario: &Scenario,
    info: &RunInfo,
    result: &RunResult,
    report: &Report,
) -> Result<(), Failure> {
    let files = output::files(scenario, info, result, report).map_err(|e| anyhow!(e))?;
    files.iter().try_for_each(|(name, text)| folder.write(name, text))
}
