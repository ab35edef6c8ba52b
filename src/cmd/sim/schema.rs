//! `tabane sim schema`: the JSON Schema of scenario files.

use crate::exit::Failure;
use crate::say;

/// Prints the JSON Schema of scenario files.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  tabane sim schema > scenario.schema.json     # then `#:schema scenario.schema.json` in a file")]
pub(crate) struct Args {}

/// Prints it.
pub(super) fn run(_: &Args) -> Result<(), Failure> {
    let schema = tabane_sim::scenario::schema();
    say::print(&serde_json::to_string_pretty(&schema).map_err(anyhow::Error::new)?)
}
