//! `tabane bench`: how fast this machine runs the committed bench scenarios, the engine on bytes,
//! and the gateway. For users; regressions are found by `cargo bench`.
//!
//! Each run is a process of its own (this program again, with `sim run --json`), so that peak
//! memory is that of one run; figures are medians.

mod bytes;
mod gateway;

use crate::cost::{Meter, Scope};
use crate::exit::Failure;
use crate::plural::count;
use crate::say;
use anyhow::{Context, anyhow};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;
use std::io::Write;
use std::process::{Command, Stdio};
use tabane_engine::policy::{meant, nearest};

/// Measures speed and memory of simulator and engine.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tabane bench                         all of it but the gateway, medians of 3 runs
  tabane bench reference --runs 9      one of them
  tabane bench gateway                 the gateway, beside its targets
  tabane bench --json > bench.json"
)]
pub(crate) struct Args {
    /// What to run, by name [default: all].
    names: Vec<String>,
    /// Number of runs of each; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    what: Option<What>,
}

/// What is measured in a way of its own.
#[derive(clap::Subcommand, Debug)]
enum What {
    /// Measure the gateway on this machine, beside its targets.
    Gateway(gateway::Args),
}

/// The scenarios as committed: the binary needs no files.
const SCENARIOS: &[(&str, &str)] = &[
    ("reference", include_str!("../../../scenarios/bench/reference.toml")),
    ("reference-mptcp", include_str!("../../../scenarios/bench/reference-mptcp.toml")),
    ("reference-loss", include_str!("../../../scenarios/bench/reference-loss.toml")),
    ("flows-1", include_str!("../../../scenarios/bench/flows-1.toml")),
    ("flows-1000", include_str!("../../../scenarios/bench/flows-1000.toml")),
    ("idle-1", include_str!("../../../scenarios/bench/idle-1.toml")),
    ("idle-1000", include_str!("../../../scenarios/bench/idle-1000.toml")),
];

/// Two endpoints in one thread, emit, parse and checksums.
const BYTES: &str = "bytes";

/// What `--json` prints.
#[derive(Serialize)]
struct Bench {
    version: &'static str,
    runs: u32,
    scenarios: Vec<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<ByteFigures>,
}

/// Medians of a scenario's runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Figures {
    name: &'static str,
    user_s: f64,
    packet_hops: u64,
    ns_per_hop: f64,
    peak_rss_bytes: Option<u64>,
    instructions: Option<u64>,
    /// Payload of all flows over the simulated time.
    goodput_bps: f64,
}

/// Median of the engine's runs on bytes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct ByteFigures {
    bytes: u64,
    user_s: f64,
    gbit_per_user_s: f64,
}

/// Runs what is asked for.
///
/// # Errors
/// [`Failure`].
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(What::Gateway(args)) = &args.what {
        return gateway::run(args);
    }
    let known = || SCENARIOS.iter().map(|s| s.0).chain([BYTES, "gateway"]);
    if let Some(unknown) = args.names.iter().find(|name| !known().any(|k| k == **name)) {
        let meant = meant(nearest(unknown, known()));
        let known = known().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(format!("unknown bench '{unknown}'{meant}; known: {known}")));
    }
    let asked = |name: &str| args.names.is_empty() || args.names.iter().any(|n| n == name);
    let mut bench = Bench {
        version: env!("CARGO_PKG_VERSION"),
        runs: args.runs,
        scenarios: Vec::new(),
        bytes: None,
    };
    for (name, text) in SCENARIOS.iter().filter(|s| asked(s.0)) {
        say::note(&format!("{name}: {}", count(args.runs, "run")));
        bench.scenarios.push(scenario(name, text, args.runs)?);
    }
    if asked(BYTES) {
        say::note(&format!("{BYTES}: {}", count(args.runs, "run")));
        bench.bytes = Some(on_bytes(args.runs)?);
    }
    if args.json {
        return say::print(&serde_json::to_string_pretty(&bench).map_err(|e| anyhow!(e))?);
    }
    print(&bench)
}

fn scenario(name: &'static str, text: &str, runs: u32) -> Result<Figures, Failure> {
    let results = (0..runs).map(|_| one_run(text)).collect::<Result<Vec<_>, Failure>>()?;
    let number = |path: &'static str| {
        move |result: &serde_json::Value| result.pointer(path).and_then(serde_json::Value::as_f64)
    };
    let figure = |path| median(results.iter().filter_map(number(path)).collect());
    let user_s = figure("/cost/user_s").context("a run without its user time")?;
    let packet_hops = figure("/cost/packet_hops").context("a run without its packet-hops")? as u64;
    let first = results.first().context("no run")?;
    let flows = first["flows"].as_array().context("a run without flows")?;
    let bytes: f64 = flows.iter().filter_map(|f| f["bytes"].as_f64()).sum();
    let ended_s = first["ended_s"].as_f64().context("a run without an end")?;
    Ok(Figures {
        name,
        user_s,
        packet_hops,
        ns_per_hop: user_s * 1e9 / packet_hops.max(1) as f64,
        peak_rss_bytes: figure("/cost/peak_rss_bytes").map(|b| b as u64),
        instructions: figure("/cost/instructions").map(|n| n as u64),
        goodput_bps: bytes * 8.0 / ended_s,
    })
}

/// One run in a process of its own; its result.
fn one_run(text: &str) -> Result<serde_json::Value, Failure> {
    let this = std::env::current_exe().context("where this program is cannot be found out")?;
    let mut child = Command::new(this)
        .args(["--quiet", "sim", "run", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("this program cannot be started again")?;
    let mut stdin = child.stdin.take().context("invariant: its standard input is a pipe")?;
    stdin.write_all(text.as_bytes()).context("the scenario cannot be handed over")?;
    drop(stdin);
    let output = child.wait_with_output().context("a run was lost")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(anyhow!("a run failed: {}", words.trim()).into());
    }
    Ok(serde_json::from_slice(&output.stdout).context("a run printed no JSON")?)
}

fn on_bytes(runs: u32) -> Result<ByteFigures, Failure> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let meter = Meter::start(Scope::Thread);
        bytes::transfer(bytes::BYTES).context("transfer on bytes")?;
        times.extend(meter.spent().user.map(|time| time.as_secs_f64()));
    }
    let user_s = median(times).context("no run")?;
    let gbit_per_user_s = bytes::BYTES as f64 * 8e-9 / user_s.max(1e-9);
    Ok(ByteFigures { bytes: bytes::BYTES, user_s, gbit_per_user_s })
}

/// The middle value; of an even number, the lower of the two.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

fn print(bench: &Bench) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_header(["bench", "user time", "packet-hops", "ns a hop", "peak memory", "goodput"]);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for f in &bench.scenarios {
        let memory = f.peak_rss_bytes.map_or_else(|| "?".to_owned(), |b| mega(b as f64, "MB"));
        table.add_row(vec![
            Cell::new(f.name),
            right(format!("{:.3} s", f.user_s)),
            right(f.packet_hops.to_string()),
            right(format!("{:.0}", f.ns_per_hop)),
            right(memory),
            right(mega(f.goodput_bps, "Mbit/s")),
        ]);
    }
    if !bench.scenarios.is_empty() {
        say::print(&table.to_string())?;
    }
    let peak = |name| {
        let run = bench.scenarios.iter().find(|f| f.name == name)?;
        run.peak_rss_bytes.map(|bytes| bytes as f64)
    };
    if let Some((one, many)) = peak("idle-1").zip(peak("idle-1000")) {
        let each = (many - one) / 999.0 / 1e3;
        say::print(&format!("memory: {each:.1} kB for each further idle flow, both ends"))?;
    }
    if let Some(f) = &bench.bytes {
        let (rate, size) = (f.gbit_per_user_s, mega(f.bytes as f64, "MB"));
        say::print(&format!(
            "bytes: {rate:.1} Gbit/s ({size} between two endpoints in one thread, {:.3} s user)",
            f.user_s
        ))?;
    }
    Ok(())
}

fn mega(value: f64, unit: &str) -> String {
    format!("{:.1} {unit}", value / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
