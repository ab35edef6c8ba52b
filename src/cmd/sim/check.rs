//! `tabane sim check`: reads a scenario and says what is wrong with it, or what it would run.

use crate::cmd::sets::Sets;
use crate::exit::Failure;
use crate::say;
use std::path::PathBuf;

/// Check a scenario without running it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Scenario files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    sets: Sets,
}

/// Checks every file and stops at the first that is wrong.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    for file in &args.files {
        let document = super::read(file, args.sets.values())?;
        let variants = document.variants().map_err(|e| Failure::usage(e.to_string()))?;
        let axes: Vec<String> = document
            .axes()
            .iter()
            .map(|axis| format!("{} ({} values)", axis.key, axis.values.len()))
            .collect();
        let runs = match axes.as_slice() {
            [] => "one run".to_owned(),
            axes => format!("{} runs over {}", variants.len(), axes.join(" x ")),
        };
        say::print(&format!("{}: ok, {runs}", file.display()))?;
        super::warn_of_late(&variants);
    }
    Ok(())
}
