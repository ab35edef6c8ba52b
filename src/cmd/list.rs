//! `tabane list`: every row of every table of plug points, with its parameters.

use crate::exit::Failure;
use crate::say;
use serde::Serialize;
use tabane_engine::policy::{Entry, Registry};
use tabane_engine::{congestion, egress, scheduler};
use tabane_sim::app;
use tabane_sim::link::{conditions, loss, medium, queue};

/// List every policy, link model and application.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane list                          a human-readable table
  tabane list --json | jq -r '.scheduler[].name'")]
pub(crate) struct Args {
    /// Print one JSON document: kind -> rows.
    #[arg(long)]
    json: bool,
}

/// A row as shown.
#[derive(Serialize, Debug)]
struct Row {
    name: &'static str,
    aliases: Vec<&'static str>,
    summary: &'static str,
    params: Vec<Param>,
}

#[derive(Serialize, Debug)]
struct Param {
    name: &'static str,
    /// Not of the name of a file.
    #[serde(flatten)]
    numbers: Option<Numbers>,
    meaning: &'static str,
}

#[derive(Serialize, Debug)]
struct Numbers {
    default: f64,
    least: f64,
    most: f64,
}

/// Prints the tables.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let tables = tables();
    if args.json {
        let map: serde_json::Map<String, serde_json::Value> = tables
            .into_iter()
            .map(|(kind, rows)| (kind.to_owned(), serde_json::json!(rows)))
            .collect();
        return say::print(&serde_json::to_string_pretty(&map).map_err(anyhow::Error::new)?);
    }
    say::print(&text(&tables))
}

fn tables() -> Vec<(&'static str, Vec<Row>)> {
    vec![
        ("scheduler", rows(&scheduler::REGISTRY)),
        ("congestion", rows(&congestion::REGISTRY)),
        ("egress", rows(&egress::REGISTRY)),
        ("queue", rows(&queue::REGISTRY)),
        ("rate", plain(RATES)),
        ("loss", rows(&loss::REGISTRY)),
        ("delay", plain(DELAYS)),
        ("conditions", rows(&conditions::REGISTRY)),
        ("medium", rows(&medium::REGISTRY)),
        ("app", plain(app::ALL)),
    ]
}

/// Link models that are not chosen by name but by the key that is given.
const RATES: &[(&str, &str)] = &[
    ("constant", "key `rate`: bits per second, as in \"20Mbps\""),
    ("trace", "key `trace`: a file of opportunities to send, as mahimahi records them"),
    ("unlimited", "neither key: sending takes no time"),
];

const DELAYS: &[(&str, &str)] = &[
    ("constant", "key `delay`: one way, the same for all packets"),
    ("normal", "keys `delay` and `jitter`: mean and deviation, as in \"5ms\""),
    ("uniform", "keys `delay` and `jitter`: mean and half the width, as in \"uniform 5ms\""),
];

fn plain(table: &[(&'static str, &'static str)]) -> Vec<Row> {
    let row = |&(name, summary): &(&'static str, &'static str)| Row {
        name,
        aliases: Vec::new(),
        summary,
        params: Vec::new(),
    };
    table.iter().map(row).collect()
}

fn rows<F: ?Sized>(registry: &Registry<F>) -> Vec<Row> {
    registry.entries().into_iter().map(row).collect()
}

fn row<F: ?Sized>(entry: &Entry<F>) -> Row {
    let param = |param: &tabane_engine::policy::Param| Param {
        name: param.name,
        numbers: (!param.is_file()).then(|| Numbers {
            default: param.default,
            least: *param.range.start(),
            most: *param.range.end(),
        }),
        meaning: param.meaning,
    };
    Row {
        name: entry.name,
        aliases: entry.aliases.to_vec(),
        summary: entry.summary,
        params: entry.params.iter().map(param).collect(),
    }
}

fn text(tables: &[(&'static str, Vec<Row>)]) -> String {
    let mut lines = Vec::new();
    for (kind, rows) in tables {
        lines.push(format!("{kind}:"));
        for row in rows {
            let aliases = match row.aliases.as_slice() {
                [] => String::new(),
                names => format!(" (also {})", names.join(", ")),
            };
            lines.push(format!("  {:<14}{}{aliases}", row.name, row.summary));
            for p in &row.params {
                let Param { name, numbers, meaning } = p;
                let range = numbers.as_ref().map(|Numbers { default, least, most }| {
                    format!(" ({least} to {most}, default {default})")
                });
                let range = range.unwrap_or_default();
                lines.push(format!("  {:<14}  {name}: {meaning}{range}", ""));
            }
        }
    }
    lines.join("\n")
}
