//! `tabane paper list`: which papers can be repeated.

use crate::exit::Failure;
use crate::say;
use serde::Serialize;
use tabane_papers::{Paper, Source};

/// Names the papers.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  tabane paper list --json | jq -r '.[].name'")]
pub(crate) struct Args {
    /// One JSON document: a list.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    alias: &'static str,
    title: &'static str,
    source: Option<Source>,
    summary: &'static str,
}

/// Prints it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let rows = tabane_papers::ALL.iter().map(|paper| {
        let Paper { name, alias, title, source, summary, .. } = **paper;
        Row { name, alias, title, source, summary }
    });
    let rows: Vec<Row> = rows.collect();
    if args.json {
        return say::print(&serde_json::to_string_pretty(&rows).map_err(anyhow::Error::new)?);
    }
    let lines = rows.iter().map(|r| {
        let source = r.source.map_or_else(String::new, |s| format!("\n    {}", s.citation()));
        format!("{} ({})  {}\n    {}{source}", r.name, r.alias, r.title, r.summary)
    });
    say::print(&lines.collect::<Vec<_>>().join("\n"))
}
