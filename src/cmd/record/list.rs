//! `tabane record list`: what a recording holds, hour by hour.

use super::{Place, failed};
use crate::cmd::agent::{print_json, right, table};
use crate::exit::Failure;
use crate::plural::count;
use crate::say;
use crate::units::{bytes, utc};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tabane_record::{Contents, DOWN, Recording, Row, UP};

/// List what an agent has recorded.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane record list
  tabane record list -c /etc/tabane/server.toml
  tabane record list --folder /var/lib/tabane-client-home/record --json

Times are UTC. A file is an hour, or what there was of it.")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A file.
#[derive(Serialize)]
struct Hour {
    file: String,
    from: String,
    to: String,
    size: u64,
    connections: usize,
    paths: BTreeMap<String, Busy>,
    skipped: u64,
    torn: bool,
    damaged_blocks: usize,
}

/// What a path did.
#[derive(Serialize, Default)]
struct Busy {
    busy_s: f64,
    up_bytes: u64,
    down_bytes: u64,
}

/// Prints it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let recording = args.place.open()?;
    let mut hours = Vec::new();
    for file in recording.files {
        let (name, size) = (file.path.display().to_string(), file.size);
        let only = Recording { files: vec![file] };
        let contents = only.read(0, u64::MAX).map_err(failed)?;
        hours.push(hour((name, only.files[0].start_ms, size), &contents));
    }
    if args.json {
        return print_json(&hours);
    }
    if hours.is_empty() {
        say::note("nothing is recorded yet");
        return Ok(());
    }
    let mut shown = table(&["from", "to", "size", "connections", "path", "busy", "down", "up"]);
    for hour in &hours {
        let mut first = true;
        for (path, busy) in &hour.paths {
            let once = |text: &str| if first { text.to_owned() } else { String::new() };
            let connections = hour.connections.to_string();
            let size = bytes(hour.size as f64);
            shown.add_row(vec![
                right(once(&hour.from)),
                right(once(&hour.to)),
                right(once(&size)),
                right(once(&connections)),
                right(path),
                right(format!("{:.0} s", busy.busy_s)),
                right(bytes(busy.down_bytes as f64)),
                right(bytes(busy.up_bytes as f64)),
            ]);
            first = false;
        }
    }
    say::print(&shown.to_string())?;
    for hour in &hours {
        if hour.torn {
            say::note(&format!("{}: its end is torn; the last seconds are missing", hour.file));
        }
        if hour.damaged_blocks > 0 {
            let blocks = count(hour.damaged_blocks, "block");
            say::note(&format!("{}: {blocks} cannot be read", hour.file));
        }
        if hour.skipped > 0 {
            let rows = hour.skipped;
            say::note(&format!("{}: {rows} rows were not kept, for want of room", hour.file));
        }
    }
    Ok(())
}

fn hour((file, start_ms, size): (String, u64, u64), contents: &Contents) -> Hour {
    let mut paths: BTreeMap<String, Busy> = BTreeMap::new();
    let (mut connections, mut skipped, mut last) = (BTreeSet::new(), 0, start_ms);
    for row in &contents.rows {
        match row {
            Row::Path(row) => {
                last = last.max(row.unix_ms);
                let busy = paths.entry(row.path.to_string()).or_default();
                busy.up_bytes += row.directions[UP].bytes;
                busy.down_bytes += row.directions[DOWN].bytes;
                if row.directions.iter().any(|direction| direction.bytes > 0) {
                    // A row after a pause is about the pause.
                    busy.busy_s += f64::from(row.lasts_ms.min(1000)) / 1e3;
                }
            }
            Row::Connection(row) => {
                last = last.max(row.unix_ms);
                connections.insert(row.id);
            }
            Row::Skipped(rows) => skipped += rows,
        }
    }
    Hour {
        file,
        from: short(start_ms),
        to: short(last),
        size,
        connections: connections.len(),
        paths,
        skipped,
        torn: !contents.torn.is_empty(),
        damaged_blocks: contents.damaged.iter().map(|(_, blocks)| blocks).sum(),
    }
}

/// To the second.
fn short(unix_ms: u64) -> String {
    let text = utc(unix_ms);
    text.split('.').next().unwrap_or_default().to_owned()
}
