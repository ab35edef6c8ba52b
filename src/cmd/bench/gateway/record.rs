//! Row `record`: a download over two links that change is recorded by both agents, exported, and
//! run again in the simulator: how near the replay is to what was measured, what the files would
//! come to in a day, and what recording costs.

use super::figure::{Figure, Target, Unit};
use super::tell;
use crate::bed::flow::Flow;
use crate::bed::source::Source;
use crate::bed::{Bed, Plan};
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::config::server::ServerConfig;
use tabane_gateway::recording::export::Measured;
use tabane_gateway::recording::ring::Recording;
use tabane_gateway::recording::{Export, Row, Window};
use tabane_net::Clock;
use tabane_sim::link::{ConditionsConfig, LinkConfig, Series};
use tabane_sim::scenario::Document;
use tabane_sim::what_if;

const ROW: &str = "record";
/// Goodput of the replay, from what was measured.
const GOODPUT: Target = Target::new(0.05, 0.02);
/// 95 % of round-trip times likewise.
const RTT: Target = Target::new(0.15, 0.05);
/// Bytes a day.
const DAY: Target = Target::new(50e6, 25e6);
/// Of a core.
const CPU: Target = Target::new(0.01, 0.003);

const TRACES: [&str; 2] = [
    include_str!("../../../../scenarios/links/train-a.csv"),
    include_str!("../../../../scenarios/links/train-b.csv"),
];

/// Where this process records.
fn folder(role: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tabane-record-{}-{role}", std::process::id()))
}

/// Records a download, exports it, and runs it again.
///
/// # Errors
/// A download that fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let seconds = if quick { 12 } else { 30 };
    let folders = ["client", "server"].map(folder);
    let measured = record(seconds, true).and_then(|(bps, busy)| {
        let (_, idle) = record(seconds, false)?;
        let mut figures = Vec::new();
        for (role, folder) in ["client", "server"].into_iter().zip(&folders) {
            figures.extend(replayed(role, folder, bps)?);
        }
        let cost = (busy - idle).max(0.0) / seconds as f64;
        let what = "processor time of both agents for it, of a core";
        figures.push(Figure::new(ROW, what, (cost, Unit::Share), CPU));
        anyhow::Ok(figures)
    });
    for folder in folders {
        // Of a run that failed there may be none.
        let _ = std::fs::remove_dir_all(folder);
    }
    let figures = measured?;
    figures.iter().for_each(tell);
    Ok(figures)
}

/// Goodput of a download, and the processor time of both agents, seconds.
fn record(seconds: u64, records: bool) -> anyhow::Result<(f64, f64)> {
    let (clock, source) = (Clock::start(), Source::start()?);
    let mut paths = Vec::new();
    for (n, trace) in TRACES.iter().enumerate() {
        let series = Series::parse(trace).map_err(|error| anyhow!("{error}"))?;
        let conditions = Some(ConditionsConfig::Series(Arc::new(series)));
        let link = LinkConfig { conditions, ..LinkConfig::default() };
        paths.push((format!("link{n}"), Some([link.clone(), link])));
    }
    let client: fn(&mut ClientConfig) = |config| {
        config.record = Some("1 day".into());
        config.record_folder = Some(folder("client"));
    };
    let server: fn(&mut ServerConfig) = |config| {
        config.record = Some("1 day".into());
        config.record_folder = Some(folder("server"));
    };
    let none: (fn(&mut ClientConfig), fn(&mut ServerConfig)) = (|_| {}, |_| {});
    let (client, server) = if records { (client, server) } else { none };
    let plan = Plan { paths, seed: 1, client, server, policies: Policies::default() };
    let bed = Bed::start(&plan)?;
    bed.wait_for_paths(|| false)?;
    let begin = clock.now();
    let flow = Flow::start(clock, bed.socks, source.address())?;
    thread::sleep(std::time::Duration::from_secs(seconds));
    let end = clock.now();
    let arrivals = flow.end()?;
    let ended = bed.end()?;
    Ok((arrivals.bps(begin, end), ended.cpu.iter().sum()))
}

/// How near the replay of an agent's recording is.
fn replayed(role: &str, folder: &Path, bps: f64) -> anyhow::Result<Vec<Figure>> {
    let recording = Recording::open(folder)?;
    let size: u64 = recording.files.iter().map(|file| file.size).sum();
    let contents = recording.read(0, u64::MAX)?;
    let times = contents.rows.iter().filter_map(|row| match row {
        Row::Path(row) if row.directions.iter().any(|way| way.bytes > 100_000) => Some(row.unix_ms),
        _ => None,
    });
    let (from, to) = times.fold((u64::MAX, 0), |(from, to), at| (from.min(at), to.max(at)));
    let window = Window { from_ms: from.saturating_sub(100), to_ms: to, client: None };
    let export = Export::make(&contents.rows, &window, role)?;
    for (file, text) in &export.files {
        std::fs::write(folder.join(file), text)?;
    }
    let scenario = folder.join(format!("{role}.toml"));
    std::fs::write(&scenario, &export.scenario)?;
    let document = Document::read(&scenario, &[]).map_err(|error| anyhow!("{error}"))?;
    let variants = document.variants().map_err(|error| anyhow!("{error}"))?;
    let plan = &variants.first().context("a scenario is one run")?.plan;
    let replay = what_if::measure(plan).map_err(|error| anyhow!(error))?;
    let Measured { rtt_p95_s, paths, flows, .. } = &export.measured;
    let off = |a: Option<f64>, b: Option<f64>| {
        a.zip(b).map_or(f64::INFINITY, |(a, b)| (a / b - 1.0).abs())
    };
    let mega = |bps: Option<f64>| format!("{:.1}", bps.unwrap_or(0.0) / 1e6);
    let ms = |s: Option<f64>| format!("{:.1}", s.unwrap_or(0.0) * 1e3);
    let goodput = flows.first().map(|flow| flow.goodput_bps);
    let seen: Vec<String> = paths.iter().map(|p| format!("{:.0} %", p.seen[1] * 100.0)).collect();
    let note = format!(
        "{} Mbit/s replayed, {} recorded, {} seen by the program; rates seen {}",
        mega(replay.goodput_bps),
        mega(goodput),
        mega(Some(bps)),
        seen.join(", ")
    );
    let what = |what: &str| format!("{role}: {what}");
    let day = size as f64 * 86_400_000.0 / (to - from).max(1) as f64;
    let rtt = (off(replay.rtt_p95_s, *rtt_p95_s), Unit::Share);
    let times = format!("{} ms replayed, {} measured", ms(replay.rtt_p95_s), ms(*rtt_p95_s));
    let near = (off(replay.goodput_bps, Some(bps)), Unit::Share);
    Ok(vec![
        Figure::new(ROW, what("goodput of the replay, off by"), near, GOODPUT).note(note),
        Figure::new(ROW, what("95 % of round-trip times, off by"), rtt, RTT).note(times),
        Figure::new(ROW, what("files of a busy day, two paths"), (day, Unit::Bytes), DAY),
    ])
}
