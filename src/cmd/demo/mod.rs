//! `tabane demo`: a real download through a client agent, emulated links and a server agent; first
//! over each link alone, then over all, then over all while one dies. Needs no privilege
//! and touches nothing but loopback and a temporary directory.

mod links;
mod report;
mod show;
mod transfer;

use crate::cmd::sets::Sets;
use crate::exit::Failure;
use crate::interruption::interruption;
use crate::{say, temporary};
use anyhow::{Context, anyhow};
use comfy_table::{CellAlignment, Table, presets};
use links::{Changes, DemoLink, LinkSpec};
use serde_json::json;
use show::{Display, TICKS};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::Size;
use tabane_engine::Instant;
use tabane_engine::policy::Spec;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::model::{AgentEvent, EventKind};
use tabane_lab::Lateness;
use tabane_net::Clock;
use tabane_net::http::hex;
use tabane_sim::seed::Seed;
use tempfile::TempDir;
use transfer::{Outcome, Setup, Transfer};

/// Download a file through the gateway, over emulated Wi-Fi and LTE links, alone and together, and
/// while the Wi-Fi dies.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Links are changed by key=value: rate (Mbit/s), delay (ms, one way), loss (%), burst (packets lost
in a row), queue (ms); or with units as everywhere (20Mbps, 5Mbit/s, 10ms, 1%).

Examples:
  tabane demo
  tabane demo --wifi rate=30,loss=1 --lte rate=10,delay=60 --size 10MB
  tabane demo --scheduler roundrobin --json | tail -1 | jq .bond
  tabane demo --scenario scenarios/wifi-lte.toml --html report.html")]
pub(crate) struct Args {
    /// Send this file instead of a generated one.
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Size of the generated file.
    #[arg(long, default_value = "30MB", value_name = "BYTES", value_parser = size)]
    size: u64,
    /// Changes to the Wi-Fi link.
    #[arg(long, value_name = "KEY=VALUE,...", default_value = None)]
    wifi: Option<Changes>,
    /// Changes to the LTE link.
    #[arg(long, value_name = "KEY=VALUE,...", default_value = None)]
    lte: Option<Changes>,
    /// Use the links of a scenario instead: one for each of its paths.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wifi", "lte"])]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    sets: Sets,
    /// Write a report: a self-contained page with links, throughput over time and events.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Which subflow carries the next data (`tabane list`) [default: the gateway's].
    #[arg(long, value_name = "SPEC")]
    scheduler: Option<Spec>,
    /// How much may be in flight [default: the gateway's].
    #[arg(long, value_name = "SPEC")]
    congestion: Option<Spec>,
    /// Skip the run in which a link dies.
    #[arg(long)]
    no_failure: bool,
    /// Seed of losses and keys. Timings still vary, since the clock is real.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    duration: u64,
    /// Print one line of JSON at the end instead of the table.
    #[arg(long)]
    json: bool,
}

/// A run and what it was.
struct Run {
    title: String,
    outcome: Outcome,
    killed: bool,
    /// Its links, as people call them.
    links: Vec<String>,
    film: Film,
}

/// A moment: when, how much of the file had come, and how much over each link.
type Frame = (Instant, u64, Vec<u64>);

/// What was seen of a run while it went.
#[derive(Default)]
struct Film {
    /// Bytes of the file, and bytes that had come over each link, at times of the guard's clock.
    frames: Vec<Frame>,
    /// What happened, at times of the guard's clock; kind and words.
    events: Vec<(Instant, EventKind, String)>,
}

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
    let policies = policies(args)?;
    let all = links(args)?;
    if let Some(file) = &args.html {
        // Better now than after the runs.
        File::create(file).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let guard = Guard::new(args.duration)?;
    let temp = temporary::folder("tabane-demo-")?;
    let (source, bytes) = source(args, &temp)?;
    let (hasher, _) = hex::hash(File::open(&source)?).context("cannot read the file")?;
    let sent = hex::digest(&hasher);
    all.iter().for_each(|link| say::note(&link.summary));
    say::note(&format!(
        "A file of {:.1} MB from a web server, through a client and a server agent of tabane",
        bytes as f64 / 1e6,
    ));
    let output = temp.path().join("received");
    let setup = Setup { source: &source, output: &output, policies, seed: args.seed };
    let every = || all.iter().collect::<Vec<_>>();
    let mut cases: Vec<_> = all.iter().map(|link| ("alone", vec![link], None)).collect();
    cases.push(("together", every(), None));
    if !args.no_failure {
        cases.push(("while the first dies", every(), Some(0)));
    }
    let mut runs = Vec::new();
    for (how, links, kill) in cases {
        let titles: Vec<_> = links.iter().map(|link| link.title.as_str()).collect();
        let title = format!("{} {how}", titles.join(" and "));
        let (outcome, film) = guard.transfer(&setup, &title, &links, (bytes, kill))?;
        check(&output, &sent).with_context(|| format!("{title}: the file is damaged"))?;
        let links = titles.into_iter().map(str::to_owned).collect();
        runs.push(Run { title, outcome, killed: kill.is_some(), links, film });
    }
    details(&runs);
    if let Some(file) = &args.html {
        let page = report::page(&all, &runs, (bytes, args.seed))?;
        fs::write(file, page).with_context(|| format!("{} cannot be written", file.display()))?;
        say::note(&format!("report: {}", file.display()));
    }
    tell(args.json, &all, &runs)
}

/// The links that the user wants.
fn links(args: &Args) -> Result<Vec<DemoLink>, Failure> {
    let changed = |link: LinkSpec, changes: &Option<Changes>| match changes {
        Some(changes) => DemoLink::from(link.with(changes)),
        None => link.into(),
    };
    let Some(file) = &args.scenario else {
        if !args.sets.values().is_empty() {
            return Err(Failure::usage("--set is for a scenario: give --scenario FILE as well"));
        }
        return Ok(vec![
            changed(LinkSpec::wifi(), &args.wifi),
            changed(LinkSpec::lte(), &args.lte),
        ]);
    };
    let document = super::sim::read(file, args.sets.values())?;
    let wrong = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    links::of_scenario(&document).map_err(wrong)
}

impl Guard {
    fn new(limit: u64) -> Result<Self, Failure> {
        let interrupted = interruption()?;
        let terminal = io::stderr().is_terminal();
        Ok(Self { clock: Clock::start(), limit, interrupted, terminal })
    }

    /// Does one run.
    fn transfer(
        &self,
        setup: &Setup<'_>,
        title: &str,
        links: &[&DemoLink],
        (bytes, kill): (u64, Option<usize>),
    ) -> Result<(Outcome, Film), Failure> {
        let transfer = Transfer::start(setup, links, kill)?;
        let progress = transfer.progress.clone();
        let mut display = Display::new(title, links, bytes, self.terminal);
        let (mut cut, mut film) = (None, Film::default());
        while !transfer.is_finished() {
            std::thread::sleep(Duration::from_secs(1) / TICKS);
            transfer.look();
            display.tick(&progress);
            film.frames.push(progress.frame(self.clock.now()));
            if self.interrupted.load(Ordering::Relaxed) {
                cut = Some(Failure::Interrupted("interrupted".into()));
            } else if self.clock.now().as_millis() >= self.limit * 1000 {
                let why = anyhow!(
                    "not done after {} s: a smaller --size or a longer --duration helps",
                    self.limit
                );
                cut = Some(why.into());
            }
            if cut.is_some() {
                transfer.stop();
                break;
            }
        }
        film.frames.push(progress.frame(self.clock.now()));
        film.events = self.events(transfer.happened());
        display.finish(&progress);
        let outcome = transfer.join();
        match cut {
            Some(why) => Err(why),
            None => {
                let outcome = outcome.with_context(|| format!("{title}: the file did not arrive"));
                Ok((outcome?, film))
            }
        }
    }

    /// Events at our times.
    fn events(&self, happened: Vec<AgentEvent>) -> Vec<(Instant, EventKind, String)> {
        let origin = self.clock.wall_origin().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = |event: AgentEvent| {
            let since = event.unix_ms.saturating_sub(origin.as_millis() as u64);
            (Instant(since * 1_000_000), event.kind, event.text)
        };
        happened.into_iter().map(event).collect()
    }
}

impl Run {
    /// Of a table of runs.
    const HEAD: [&'static str; 6] = ["", "time", "goodput", "shares", "of the best", "of the sum"];

    /// Its row in such a table.
    fn row(&self, best: f64, sum: f64) -> [String; 6] {
        let shares = self.shares().into_iter().map(|share| format!("{:.0} %", share * 100.0));
        [
            self.title.clone(),
            format!("{:.1} s", self.outcome.seconds),
            format!("{:.1} Mbit/s", self.goodput() / 1e6),
            shares.collect::<Vec<_>>().join(" + "),
            format!("{:.2}", self.goodput() / best),
            format!("{:.2}", self.goodput() / sum),
        ]
    }

    fn goodput(&self) -> f64 {
        self.outcome.bytes as f64 * 8.0 / self.outcome.seconds
    }

    /// Parts of the bytes that came over each link; they add up to 1.
    fn shares(&self) -> Vec<f64> {
        let all: u64 = self.outcome.links.iter().sum();
        self.outcome.links.iter().map(|bytes| *bytes as f64 / all.max(1) as f64).collect()
    }
}

/// What the user wants of the policies, once it is known that they exist.
fn policies(args: &Args) -> Result<Policies, Failure> {
    let spec = |given: &Option<Spec>| given.clone().map(PolicySpec);
    let (scheduler, congestion) = (spec(&args.scheduler), spec(&args.congestion));
    let policies = Policies { scheduler, congestion, ..Policies::default() };
    policies.check().map_err(|e| Failure::usage(e.to_string()))?;
    Ok(policies)
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
    let source = temp.path().join("sent");
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
    for Run { title, outcome, .. } in runs {
        lateness.merge(&outcome.network.lateness);
        say::detail(&format!(
            "{title}: {} packets dropped by queues, {} lost; longest gap {:.0} ms",
            outcome.network.dropped,
            outcome.network.lost,
            outcome.gap * 1e3
        ));
    }
    let us = |share| lateness.quantile_us(share);
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
fn tell(as_json: bool, links: &[DemoLink], runs: &[Run]) -> Result<(), Failure> {
    let [singles @ .., bond] = runs.split_at(runs.partition_point(|run| !run.killed)).0 else {
        return Ok(());
    };
    let killed = runs.iter().find(|run| run.killed);
    let (best, sum) = yardsticks(singles);
    if as_json {
        let single: Vec<_> = links
            .iter()
            .zip(singles)
            .map(|(link, run)| json!({ "link": link.name, "goodput_bps": run.goodput() }))
            .collect();
        let shares: serde_json::Map<String, serde_json::Value> =
            links.iter().zip(bond.shares()).map(|(l, s)| (l.name.clone(), json!(s))).collect();
        let document = json!({
            "sha256_ok": true,
            "single": single,
            "bond": { "goodput_bps": bond.goodput(), "shares": shares },
            "sum_bps": sum,
            "failure": killed.map(|run| json!({
                "link": links[0].name,
                "goodput_bps": run.goodput(),
                "longest_gap_s": run.outcome.gap,
            })),
        });
        return say::print(&document.to_string());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(Run::HEAD);
    for run in runs {
        table.add_row(run.row(best, sum));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    say::print(&format!("\n{table}\n{}", conclusion(runs)))
}

/// The goodput of the best link alone, and of all of them together if they added up.
fn yardsticks(singles: &[Run]) -> (f64, f64) {
    (singles.iter().map(Run::goodput).fold(0.0, f64::max), singles.iter().map(Run::goodput).sum())
}

/// What the runs show, in sentences.
fn conclusion(runs: &[Run]) -> String {
    let [singles @ .., bond] = runs.split_at(runs.partition_point(|run| !run.killed)).0 else {
        return String::new();
    };
    let (best, sum) = yardsticks(singles);
    let mut text = sentence(bond.goodput(), best, sum);
    if let Some(run) = runs.iter().find(|run| run.killed) {
        text.push_str(&format!(
            "\nWhen {} died half-way, the download went on after {:.0} ms.",
            run.links[0],
            run.outcome.gap * 1e3
        ));
    }
    text
}

fn sentence(bond: f64, best: f64, sum: f64) -> String {
    let (times, part) = (bond / best, bond / sum * 100.0);
    let hash = "Every file arrived whole (SHA-256).";
    if bond > best {
        // Above 100 %: losses come by chance, and a shorter run meets fewer of them.
        let of_the_sum = if part > 99.5 {
            String::from("all that they give alone")
        } else {
            format!("{part:.0} % of what they give alone")
        };
        return format!(
            "Together they were {times:.2} times as fast as the best one, and gave {of_the_sum}. \
             {hash}"
        );
    }
    format!(
        "Together they were slower than the best one alone ({times:.2} times its goodput): here \
         the bond does not pay. {hash}"
    )
}

/// `24MB`, `512kB`, `1MiB`, `1000`.
fn size(text: &str) -> Result<u64, String> {
    let bytes = match text.trim().parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => text.parse::<Size>()?.0,
    };
    if (1..=1_000_000_000_000).contains(&bytes) {
        return Ok(bytes);
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
    fn a_bond_that_does_not_pay_is_said_to() {
        assert!(sentence(60e6, 40e6, 60e6).contains("1.50 times as fast"));
        assert!(sentence(48e6, 40e6, 60e6).contains("gave 80 % of what"));
        assert!(sentence(30e6, 40e6, 60e6).contains("slower than the best one"));
    }
}
