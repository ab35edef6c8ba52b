//! `tabane demo`: a real file over real UDP sockets and two emulated links, the engine at both
//! ends; first over each link alone, then over both. Needs no privilege and touches nothing but
//! loopback and a temporary directory.

mod emulator;
mod links;
mod show;
mod transfer;

use crate::exit::Failure;
use crate::say;
use anyhow::{Context, anyhow};
use comfy_table::{CellAlignment, Table, presets};
use emulator::Lateness;
use links::{Changes, LinkSpec};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use show::{Display, TICKS};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabane_engine::Endpoint;
use tabane_engine::policy::Spec;
use tabane_net::Clock;
use tabane_net::http::hex;
use tabane_sim::seed::Seed;
use transfer::{Outcome, Setup, Transfer, config};

/// Send a file over an emulated Wi-Fi and an emulated LTE, alone and together.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Links are changed by key=value: rate (Mbit/s), delay (ms, one way), loss (%), burst (packets lost
in a row), queue (ms).

Examples:
  tabane demo
  tabane demo --wifi rate=30,loss=1 --lte rate=10,delay=60 --size 10MB
  tabane demo --scheduler roundrobin --json | tail -1 | jq .bundle")]
pub(crate) struct Args {
    /// Send this file instead of a made one.
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Size of the file that is made.
    #[arg(long, default_value = "30MB", value_name = "BYTES", value_parser = size)]
    size: u64,
    /// Changes to the Wi-Fi link.
    #[arg(long, value_name = "KEY=VALUE,...", default_value = None)]
    wifi: Option<Changes>,
    /// Changes to the LTE link.
    #[arg(long, value_name = "KEY=VALUE,...", default_value = None)]
    lte: Option<Changes>,
    /// Which subflow carries the next data (`tabane list`).
    #[arg(long, default_value = "minrtt", value_name = "SPEC")]
    scheduler: Spec,
    /// How much may be in flight.
    #[arg(long, default_value = "cubic", value_name = "SPEC")]
    congestion: Spec,
    /// Seed of losses and keys. Times still differ: the clock is real.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give up after so many seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    duration: u64,
    /// End with one line of JSON on standard output, instead of the table.
    #[arg(long)]
    json: bool,
}

/// A run and what it was.
struct Run {
    title: String,
    outcome: Outcome,
}

/// A directory that goes with the value.
struct TempDir(PathBuf);

/// What watches over all runs.
struct Guard {
    clock: Clock,
    limit: u64,
    interrupted: Arc<AtomicBool>,
    terminal: bool,
}

/// Runs the demo.
///
/// # Errors
/// When a file does not arrive, or not whole.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = config(&args.scheduler, &args.congestion);
    Endpoint::new(config, [0; 32]).map_err(|e| Failure::usage(e.to_string()))?;
    let changes = |link: LinkSpec, changes: &Option<Changes>| match changes {
        Some(changes) => link.with(changes),
        None => link,
    };
    let (wifi, lte) = (changes(LinkSpec::wifi(), &args.wifi), changes(LinkSpec::lte(), &args.lte));
    let guard = Guard::new(args.duration)?;
    let temp = TempDir::new()?;
    let (source, bytes) = source(args, &temp)?;
    let (hasher, _) = hex::hash(File::open(&source)?).context("cannot read the file")?;
    let sent = hex::digest(&hasher);
    say::note(&format!("{}\n{}", wifi.summary(), lte.summary()));
    say::note(&format!(
        "A file of {:.1} MB, TCP and MPTCP by tabane's engine at both ends, {}, {}",
        bytes as f64 / 1e6,
        args.scheduler,
        args.congestion
    ));
    let output = temp.0.join("received");
    let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let setup = Setup {
        root: source.parent().context("the file is in no directory")?,
        target: format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC)),
        output: &output,
        scheduler: args.scheduler.clone(),
        congestion: args.congestion.clone(),
        seed: args.seed,
    };
    let cases = [("alone", vec![&wifi]), ("alone", vec![&lte]), ("together", vec![&wifi, &lte])];
    let mut runs = Vec::new();
    for (how, links) in cases {
        let titles: Vec<_> = links.iter().map(|link| link.title).collect();
        let title = format!("{} {how}", titles.join(" and "));
        let outcome = guard.transfer(&setup, &title, &links, bytes)?;
        check(&output, &sent).with_context(|| format!("{title}: the file is damaged"))?;
        runs.push(Run { title, outcome });
    }
    details(&runs);
    tell(args.json, [&wifi, &lte], &runs)
}

impl Guard {
    fn new(limit: u64) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = interrupted.clone();
        ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
            .context("cannot take signals")?;
        let terminal = io::stderr().is_terminal();
        Ok(Self { clock: Clock::start(), limit, interrupted, terminal })
    }

    /// Does one run.
    fn transfer(
        &self,
        setup: &Setup<'_>,
        title: &str,
        links: &[&LinkSpec],
        bytes: u64,
    ) -> Result<Outcome, Failure> {
        let transfer = Transfer::start(setup, links)?;
        let progress = transfer.progress.clone();
        let mut display = Display::new(title, links, bytes, self.terminal);
        let mut cut = None;
        while !transfer.is_finished() {
            std::thread::sleep(Duration::from_secs(1) / TICKS);
            display.tick(&progress);
            if self.interrupted.load(Ordering::Relaxed) {
                cut = Some(anyhow!("interrupted"));
            } else if self.clock.now().as_millis() >= self.limit * 1000 {
                cut = Some(anyhow!(
                    "not done after {} s: a smaller --size or a longer --duration helps",
                    self.limit
                ));
            }
            if cut.is_some() {
                transfer.stop();
                break;
            }
        }
        display.finish(&progress);
        let outcome = transfer.join();
        match cut {
            Some(why) => Err(why.into()),
            None => Ok(outcome.with_context(|| format!("{title}: the file did not arrive"))?),
        }
    }
}

impl Run {
    fn goodput(&self) -> f64 {
        self.outcome.bytes as f64 * 8.0 / self.outcome.seconds
    }

    /// Parts of the bytes that came over each link; they add up to 1.
    fn shares(&self) -> Vec<f64> {
        let all: u64 = self.outcome.links.iter().sum();
        self.outcome.links.iter().map(|bytes| *bytes as f64 / all.max(1) as f64).collect()
    }
}

impl TempDir {
    fn new() -> Result<Self, Failure> {
        let directory = std::env::temp_dir().join(format!("tabane-demo-{}", std::process::id()));
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self(directory.canonicalize()?))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The file to send, and its size.
fn source(args: &Args, temp: &TempDir) -> Result<(PathBuf, u64), Failure> {
    if let Some(file) = &args.file {
        let cannot = || format!("cannot send {}", file.display());
        let source = file.canonicalize().with_context(cannot)?;
        let metadata = source.metadata().with_context(cannot)?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(Failure::usage(format!("{} is not a file with bytes", file.display())));
        }
        return Ok((source, metadata.len()));
    }
    let source = temp.0.join("sent");
    make(&source, args.size, args.seed).context("cannot make the file")?;
    Ok((source, args.size))
}

/// Random bytes: nothing on the way could shrink or guess them.
fn make(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let mut rng = Seed(seed).stream("demo/file");
    let mut out = BufWriter::new(File::create(path)?);
    for _ in 0..size / 8 {
        out.write_all(&rng.bits().to_le_bytes())?;
    }
    out.write_all(&rng.bits().to_le_bytes()[..(size % 8) as usize])?;
    out.flush()
}

/// What was received is what was sent.
fn check(output: &Path, sent: &str) -> anyhow::Result<()> {
    let (hasher, _) = hex::hash(File::open(output)?)?;
    let received = hex::digest(&hasher);
    if received == sent {
        return Ok(());
    }
    Err(anyhow!("SHA-256 is {received}, was {sent}"))
}

fn details(runs: &[Run]) {
    let mut lateness = Lateness::default();
    for Run { title, outcome } in runs {
        lateness.merge(&outcome.network.lateness);
        let [client, server, network] = outcome.cpu.map(|cpu| cpu / outcome.seconds * 100.0);
        say::detail(&format!(
            "{title}: {} packets dropped by queues, {} lost; processor: client {client:.0} %, \
             server {server:.0} %, links {network:.0} %",
            outcome.network.dropped, outcome.network.lost
        ));
    }
    let us = |share| lateness.quantile(share).as_micros();
    say::detail(&format!(
        "{} packets left the links late by: median {} us, 99 % {} us, 99.9 % {} us, all {} us",
        lateness.count(),
        us(0.5),
        us(0.99),
        us(0.999),
        us(1.0)
    ));
}

/// The table and a sentence, or JSON.
fn tell(as_json: bool, links: [&LinkSpec; 2], runs: &[Run]) -> Result<(), Failure> {
    let [singles @ .., bundle] = runs else { return Ok(()) };
    let best = singles.iter().map(Run::goodput).fold(0.0, f64::max);
    let sum: f64 = singles.iter().map(Run::goodput).sum();
    if as_json {
        let single: Vec<_> = links
            .iter()
            .zip(singles)
            .map(|(link, run)| json!({ "link": link.name, "goodput_bps": run.goodput() }))
            .collect();
        let shares: serde_json::Map<String, serde_json::Value> =
            links.iter().zip(bundle.shares()).map(|(l, s)| (l.name.into(), json!(s))).collect();
        let document = json!({
            "sha256_ok": true,
            "single": single,
            "bundle": { "goodput_bps": bundle.goodput(), "shares": shares },
            "sum_bps": sum,
        });
        return say::print(&document.to_string());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "time", "goodput", "shares", "of the best", "of the sum"]);
    for run in runs {
        let shares = match run.shares().as_slice() {
            [first, second] if *second > 0.0 => {
                format!("{:.0} % + {:.0} %", first * 100.0, second * 100.0)
            }
            _ => String::from("100 %"),
        };
        table.add_row([
            run.title.clone(),
            format!("{:.1} s", run.outcome.seconds),
            format!("{:.1} Mbit/s", run.goodput() / 1e6),
            shares,
            format!("{:.2}", run.goodput() / best),
            format!("{:.2}", run.goodput() / sum),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    say::print(&format!("\n{table}\n{}", sentence(bundle.goodput(), best, sum)))
}

fn sentence(bundle: f64, best: f64, sum: f64) -> String {
    let (times, part) = (bundle / best, bundle / sum * 100.0);
    let hash = "Every file arrived whole (SHA-256).";
    if bundle > best {
        // Above 100 %: losses come by chance, and a shorter run meets fewer of them.
        let of_the_sum = if part > 99.5 {
            String::from("all that both give alone")
        } else {
            format!("{part:.0} % of what both give alone")
        };
        return format!(
            "Together they were {times:.2} times as fast as the better one, and gave {of_the_sum}. \
             {hash}"
        );
    }
    format!(
        "Together they were slower than the better one alone ({times:.2} times its goodput): here \
         the bundle does not pay. {hash}"
    )
}

/// `24MB`, `512kB`, `1MiB`, `1000`.
fn size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "k" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{unit}' is no unit: B, kB, MB, GB, KiB, MiB, GiB")),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is no size, as 24MB"))?;
    let bytes = number * factor;
    if (1.0..=1e12).contains(&bytes) {
        return Ok(bytes as u64);
    }
    Err(String::from("the size is from 1 byte to 1000 GB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("24MB", 24_000_000), ("1MiB", 1 << 20), ("7", 7), ("1.5k", 1500)] {
            assert_eq!(size(text).unwrap(), bytes);
        }
        for text in ["", "0", "x", "5X", "1e9", "-1", "9999GB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bundle_that_does_not_pay_is_said_to() {
        assert!(sentence(60e6, 40e6, 60e6).contains("1.50 times as fast"));
        assert!(sentence(48e6, 40e6, 60e6).contains("gave 80 % of what"));
        assert!(sentence(30e6, 40e6, 60e6).contains("slower than the better one"));
    }
}
