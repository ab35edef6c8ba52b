//! `tabane sim convert`: a measured series of somebody else as conditions of a link.

use crate::exit::Failure;
use crate::say;
use anyhow::Context;
use std::path::{Path, PathBuf};
use tabane_config::bounded;
use tabane_config::quantity::Time;
use tabane_engine::Duration;
use tabane_sim::link::conditions::measured::{self, Read, Reading};

/// Convert a measured series into a file for the key `conditions` of a link.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A CSV file with a header, or a mahimahi trace; `-` for standard input.
    file: PathBuf,
    /// What a column means that is not understood by its name: time_s, rate_mbps, rtt_ms, delay_ms,
    /// loss, queue_packets, queue_kb, ...
    #[arg(long, value_name = "THEIRS=MEANING", value_parser = column)]
    column: Vec<(String, String)>,
    /// Hold the last row instead of beginning again.
    #[arg(long)]
    hold: bool,
    /// A row for each of these, for mahimahi traces.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    step: Time,
}

const EXAMPLES: &str = "\
Examples:
  tabane sim convert drive.csv > drive-link.csv
  tabane sim convert drive.csv --column 'Downlink=rate_kbps' --column 'Zeit=time_s' > link.csv
  tabane sim convert Verizon-LTE-driving.down --step 50ms > verizon.csv

A scenario then says conditions = \"drive-link.csv\". Columns may come in any order; names such as
'time', 'Throughput (Mbit/s)', 'rtt_ms' or 'loss %' are understood. Half of an RTT is the delay.
Times count from the first row; an empty cell means the value above it.";

/// Moments in mahimahi's traces are whole milliseconds.
const STEP_MIN: Time = Time(Duration::from_millis(1));

fn column(text: &str) -> Result<(String, String), String> {
    let (theirs, ours) = text
        .split_once('=')
        .ok_or_else(|| "write THEIRS=MEANING, as in 'Downlink=rate_mbps'".to_owned())?;
    Ok((theirs.trim().to_owned(), ours.trim().to_owned()))
}

/// Prints the series.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let text = if args.file == Path::new("-") {
        bounded::text_of(std::io::stdin(), bounded::DATA).context("standard input")?
    } else {
        let text = bounded::text(&args.file, bounded::DATA);
        text.with_context(|| args.file.display().to_string())?
    };
    if args.step.0 < STEP_MIN.0 {
        return Err(Failure::usage(format!("--step {}: at least {STEP_MIN}", args.step)));
    }
    let reading = Reading { columns: args.column.clone(), hold: args.hold, step: args.step.0 };
    let Read { series, ignored } = measured::read(&text, &reading)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.file.display())))?;
    if !ignored.is_empty() {
        let names = ignored.join(", ");
        say::note(&format!("left out, since their names say nothing: {names} (see --column)"));
    }
    say::print(series.to_csv().trim_end())
}
