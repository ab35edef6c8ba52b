//! Runs of a sweep that are done, kept in its folder as they finish: `runs.jsonl`, one a line. A
//! sweep that was interrupted goes on from there, and one whose lists have grown runs only what
//! is new.
//!
//! A line is of a run by a key of scenario, seed, version and program; a line that is torn, or of
//! another run, is left alone.

use crate::exit::Failure;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;
use tabane_sim::Plan;
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Variant;
use tabane_trace::report::Figure;

/// A run that is done: its result, and what was seen of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) result: RunResult,
    pub(super) figures: Vec<Figure>,
}

/// Those of a sweep.
#[derive(Debug)]
pub(super) struct Kept {
    /// Nothing is kept without a folder.
    file: Option<File>,
    keys: Vec<String>,
    runs: Vec<Option<Done>>,
}

#[derive(Serialize, Deserialize)]
struct Line<D> {
    key: String,
    run: D,
}

pub(super) const FILE: &str = "runs.jsonl";
/// The longest line that is read back, and the most of them; what is beyond runs again.
const LINE_BYTES: u64 = 64 << 20;
const LINES: usize = 4_000_000;

impl Kept {
    /// Of these runs, with what the folder has of them.
    pub(super) fn open(folder: Option<&Path>, variants: &[Variant]) -> Result<Self, Failure> {
        let Some(folder) = folder else {
            let runs = vec![None; variants.len()];
            return Ok(Self { file: None, keys: Vec::new(), runs });
        };
        let program = program();
        let keys = variants.iter().map(|variant| key(&program, &variant.plan)).collect::<Vec<_>>();
        let path = folder.join(FILE);
        let context = || format!("{} cannot be used", path.display());
        let runs = match File::open(&path) {
            Ok(file) => read(file, &keys).with_context(context)?,
            Err(error) if error.kind() == ErrorKind::NotFound => vec![None; keys.len()],
            Err(error) => return Err(anyhow!(error).context(context()).into()),
        };
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.with_context(context)?;
        // Ends a line that an abrupt end has torn; an empty line is none.
        file.write_all(b"\n").with_context(context)?;
        Ok(Self { file: Some(file), keys, runs })
    }

    /// Keeps a run.
    pub(super) fn put(&mut self, n: usize, done: Done) -> Result<(), Failure> {
        if let Some(file) = &mut self.file {
            let line = Line { key: self.keys[n].clone(), run: &done };
            let line = serde_json::to_string(&line).map_err(|e| anyhow!(e))?;
            // In one write, so that what is there are whole lines.
            file.write_all(format!("{line}\n").as_bytes())
                .with_context(|| format!("{FILE} cannot be written"))?;
        }
        self.runs[n] = Some(done);
        Ok(())
    }

    /// Every run in order of the sweep; `None` is still to be made.
    pub(super) fn runs(&self) -> &[Option<Done>] {
        &self.runs
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.runs.iter().flatten().count()
    }
}

fn read(file: File, keys: &[String]) -> std::io::Result<Vec<Option<Done>>> {
    let places: BTreeMap<&str, usize> =
        keys.iter().enumerate().map(|(n, key)| (key.as_str(), n)).collect();
    let mut runs = vec![None; keys.len()];
    let mut reader = BufReader::new(file);
    for _ in 0..LINES {
        let mut line = Vec::new();
        if reader.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Ok(Line { key, run }) = serde_json::from_slice::<Line<Done>>(&line) else { continue };
        if let Some(n) = places.get(key.as_str()) {
            runs[*n] = Some(run);
        }
    }
    Ok(runs)
}

/// What a run depends on, as a hash: its scenario with its seed, the files that it names (measured
/// rates, networks), and the program.
pub(in crate::cmd) fn key(program: &str, plan: &Plan) -> String {
    let mut hash = Sha256::new();
    hash.update(program);
    let scenario = &plan.source;
    hash.update(scenario.to_toml());
    let files = scenario.traces();
    for file in files.iter().map(String::as_str).chain(scenario.policy_files()) {
        hash.update(identity(Path::new(file)));
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Version and build: whoever changes the engine does not get the old engine's results.
pub(in crate::cmd) fn program() -> String {
    let file = std::env::current_exe().map(|path| identity(&path)).unwrap_or_default();
    format!("{} {file}", env!("CARGO_PKG_VERSION"))
}

/// A file's size and when it was written.
fn identity(path: &Path) -> String {
    let Ok(meta) = std::fs::metadata(path) else { return String::new() };
    let since = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", meta.len(), since.map_or(0, |since| since.as_nanos()))
}
