//! `tabane sim list`: the scenario files below a folder, with what they say about themselves.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tabane_sim::scenario::Document;

/// List the scenarios below a folder.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder to search [default: `scenarios` and `papers` in the current folder].
    folders: Vec<PathBuf>,
    /// Print one JSON document: a list of scenarios.
    #[arg(long)]
    json: bool,
}

/// A scenario found.
#[derive(Serialize, Debug)]
struct Found {
    file: PathBuf,
    about: String,
    runs: usize,
}

/// Folders below each other that are looked into.
const DEPTH: usize = 8;

/// Prints what it finds, in alphabetical order.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut files = Vec::new();
    for folder in &args.folders {
        collect(folder, DEPTH, &mut files)
            .with_context(|| format!("{} cannot be read", folder.display()))?;
    }
    if args.folders.is_empty() {
        let usual = ["scenarios", "papers"].map(Path::new);
        for folder in usual.into_iter().filter(|f| f.is_dir()) {
            collect(folder, DEPTH, &mut files)
                .with_context(|| format!("{} cannot be read", folder.display()))?;
        }
    }
    files.sort();
    let found: Vec<Found> = files.iter().filter_map(|file| look_at(file)).collect();
    if args.json {
        return say::print(&serde_json::to_string_pretty(&found).map_err(anyhow::Error::new)?);
    }
    if found.is_empty() {
        say::note("no scenario here; name a folder, or run this where tabane was cloned");
    }
    let width = found.iter().map(|f| f.file.display().to_string().len()).max().unwrap_or(0);
    let lines: Vec<String> = found
        .iter()
        .map(|f| {
            let runs = if f.runs == 1 { String::new() } else { format!(" ({} runs)", f.runs) };
            format!("{:width$}  {}{runs}", f.file.display(), f.about)
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { say::print(&lines.join("\n")) }
}

/// `tabane compare` has explanations of differences there, beside the scenarios of a matrix.
pub(in crate::cmd) const NOTES: &str = "notes.toml";
/// What the page of a matrix says, where it is not that of the validation.
pub(in crate::cmd) const PAGE: &str = "page.toml";

/// Whether a file in a folder of scenarios is one of those, and no scenario.
pub(in crate::cmd) fn is_beside_scenarios(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == NOTES || name == PAGE)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if path.extension().is_some_and(|e| e == "toml") && !is_beside_scenarios(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// What a file says; `None` if it is not a scenario. One that is wrong says so.
fn look_at(file: &Path) -> Option<Found> {
    let about = |text: String, runs| Some(Found { file: file.to_owned(), about: text, runs });
    match Document::read(file, &[]).and_then(|d| d.variants()) {
        Ok(variants) => {
            let first = variants.first()?;
            about(first.plan.scenario.about.lines().next().unwrap_or("").to_owned(), variants.len())
        }
        Err(error) => {
            let place = error.position.map_or(String::new(), |(l, c)| format!("{l}:{c}: "));
            about(format!("(wrong: {place}{})", error.message), 0)
        }
    }
}
