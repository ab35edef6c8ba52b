//! `tabane record export`: a scenario of a part of a recording.

use super::{Place, failed, when};
use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use std::fs;
use std::path::{Path, PathBuf};
use tabane_record::{Export, Window};
use tabane_sim::scenario::Document;

/// Write a scenario of some time of a recording, with a trace for each path.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  tabane record export --from '2h ago' --to now --out lunch.toml
  tabane record export --from 'yesterday 18:00' --to 'yesterday 19:00' --out yesterday.toml
  tabane record export -c /etc/tabane/server.toml --client c2 --from 12:00 --to 12:30 --out c2.toml

Times are UTC: 2026-11-24 18:00, 18:00 (today), yesterday 18:00, 2h ago, now.
Beside FILE come FILE-PATH-up.csv and FILE-PATH-down.csv, whose heads say when a rate was not seen,
and FILE.measured.json: what was measured, for `tabane whatif`.")]
pub(super) struct Args {
    /// Its beginning.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// Its end.
    #[arg(long, value_name = "TIME", default_value = "now")]
    to: String,
    /// The scenario's file; what else there is goes beside it.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Of a server's recording: the paths of this client, as `tabane record list` names them.
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Connections have a row each 10 s: what they did at the ends of the window lies between two.
const AROUND_MS: u64 = 15_000;

/// Writes it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let now = now_ms();
    let time = |text: &str| when::parse(text, now).map_err(Failure::usage);
    let (from_ms, to_ms) = (time(&args.from)?, time(&args.to)?);
    if to_ms <= from_ms {
        return Err(Failure::usage("--to is not later than --from"));
    }
    let name = args.out.file_stem().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::usage("--out is to name a file"))?;
    let (early, late) = (from_ms.saturating_sub(AROUND_MS), to_ms + AROUND_MS);
    let contents = args.place.open()?.read(early, late).map_err(failed)?;
    for file in &contents.torn {
        say::note(&format!("{}: its end is torn; seconds are missing", file.display()));
    }
    for (file, blocks) in &contents.damaged {
        say::note(&format!("{}: {blocks} blocks cannot be read", file.display()));
    }
    let window = Window { from_ms, to_ms, client: args.client.clone() };
    let export = Export::make(&contents.rows, &window, name)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let folder = args.out.parent().unwrap_or(Path::new(""));
    for (file, text) in &export.files {
        write(&folder.join(file), text)?;
    }
    let measured = serde_json::to_string_pretty(&export.measured).map_err(|e| anyhow!(e))?;
    write(&folder.join(format!("{name}.measured.json")), &(measured + "\n"))?;
    write(&args.out, &export.scenario)?;
    // What was written is a scenario, or this is a fault of ours.
    Document::read(&args.out, &[])
        .and_then(|document| document.variants())
        .map_err(|error| anyhow!("what was written is no scenario, by a fault of ours: {error}"))?;
    for path in &export.measured.paths {
        let [up, down] = path.seen.map(|share| share * 100.0);
        let name = &path.name;
        say::note(&format!(
            "{name}: its rate was seen {down:.0} % of the time down and {up:.0} % up; the rest is \
             interpolated"
        ));
    }
    let left = export.measured.left_out;
    if left > 0 {
        say::note(&format!("{left} small connections are left out"));
    }
    say::note(&format!("written: {}", args.out.display()));
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(())
}

#[allow(clippy::disallowed_methods)] // A recording is of times of day.
fn now_ms() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
