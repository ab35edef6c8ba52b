//! Row `whatif`: downloads over links that vary are recorded by the client, exported, and asked of
//! `tabane whatif`; the same downloads under other policies are measured. How near the replay is to
//! what was measured, and whether it puts policies in the right order; what the files would come
//! to in a day, and what recording costs.
//!
//! A round-trip time is that of markers of the server's tunnels, as its own recording has it.

use super::figure::{Figure, Target, Unit};
use super::scene::FILES;
use super::tell;
use crate::bed::flow::Flow;
use crate::bed::source::Source;
use crate::bed::{Bed, Plan};
use crate::cmd::whatif::{self, Row};
use crate::{say, temporary};
use anyhow::{Context, anyhow};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use tabane_config::policy::PolicySpec;
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::config::server::ServerConfig;
use tabane_net::Clock;
use tabane_record::{Export, Recording, Window};
use tabane_sim::scenario::Document;

const ROW: &str = "whatif";
/// Sets whose goodput is within [`NEAR_BPS`], of all.
const GOODPUT: Target = Target::new(1.0, 1.0);
const NEAR_BPS: f64 = 0.05;
/// Sets of which 95 % of round-trip times are within [`NEAR_RTT`], of all.
const RTT: Target = Target::new(1.0, 1.0);
const NEAR_RTT: f64 = 0.15;
/// Pairs of policies in the right order, of those whose goodput differs by [`DIFFERS`].
const ORDER: Target = Target::new(0.9, 0.95);
const DIFFERS: f64 = 0.05;
/// Bytes a day.
const DAY: Target = Target::new(50e6, 25e6);
/// Of a core.
const CPU: Target = Target::new(0.01, 0.003);
/// Of each replay.
const SEEDS: u64 = 3;

/// Links that vary: name and text.
pub(super) const SETS: [(&str, &str); 10] = [
    (
        "leo+dsl",
        "[link.leo]\nrate = \"150Mbps\"\ndelay = \"20ms\"\nqueue = \"1875kB\"\n\
         conditions = \"leo\"\nup = { rate = \"20Mbps\" }\n\
         [link.dsl]\nrate = \"50Mbps\"\ndelay = \"15ms\"\nqueue = \"312kB\"\n",
    ),
    ("train", "[link.a]\nconditions = \"train-a.csv\"\n[link.b]\nconditions = \"train-b.csv\"\n"),
    (
        "cellular",
        "[link.lte]\nrate = \"40Mbps\"\ndelay = \"25ms\"\nconditions = \"cellular\"\n\
         [link.other]\nrate = \"20Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=1\"\n",
    ),
    (
        "cellular+dsl",
        "[link.lte]\nrate = \"60Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=0.5\"\n\
         [link.dsl]\nrate = \"30Mbps\"\ndelay = \"10ms\"\nqueue = \"150kB\"\n",
    ),
    (
        "fading+cellular",
        "[link.wifi]\nrate = \"60Mbps\"\ndelay = \"5ms\"\nqueue = \"200kB\"\n\
         conditions = \"bursts:share=0.01,burst_ms=20\"\n\
         [link.lte]\nrate = \"30Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular\"\n",
    ),
    (
        "steps",
        "[link.wifi]\nconditions = \"steps.csv\"\nqueue = \"200kB\"\n\
         [link.dsl]\nrate = \"30Mbps\"\ndelay = \"25ms\"\nqueue = \"200kB\"\n",
    ),
    (
        "leo+cellular",
        "[link.leo]\nrate = \"100Mbps\"\ndelay = \"20ms\"\nqueue = \"1250kB\"\n\
         conditions = \"leo\"\n\
         [link.lte]\nrate = \"40Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=1\"\n",
    ),
    (
        "bloated",
        "[link.lte]\nrate = \"40Mbps\"\ndelay = \"25ms\"\nconditions = \"cellular:queue_s=2\"\n\
         [link.other]\nrate = \"20Mbps\"\ndelay = \"30ms\"\nqueue = \"5000kB\"\n",
    ),
    (
        "lossy",
        "[link.wifi]\nrate = \"40Mbps\"\ndelay = \"10ms\"\nqueue = \"200kB\"\nloss = \"0.5%\"\n\
         [link.lte]\nrate = \"30Mbps\"\ndelay = \"30ms\"\nconditions = \"cellular:queue_s=0.5\"\n",
    ),
    (
        "bursts+train",
        "[link.fibre]\nrate = \"50Mbps\"\ndelay = \"10ms\"\nqueue = \"300kB\"\n\
         loss = \"gilbert:p=0.0005,r=0.1\"\n[link.a]\nconditions = \"train-a.csv\"\n",
    ),
];
const STEPS: (&str, &str) =
    ("steps.csv", "time_s,rate_mbps,delay_ms\n0,50,10\n5,10,10\n10,50,10\n15,25,10\n20,50,10\n");

/// Scheduler and congestion control: what is recorded, then what is asked.
const POLICIES: [(&str, &str); 7] = [
    ("necf", "cubicd"),
    ("necf", "cubic"),
    ("necf", "cubicq"),
    ("necf", "bbr"),
    ("minrtt", "cubicd"),
    ("roundrobin", "cubicd"),
    ("roundrobin", "reno"),
];

/// Goodput, 95 % of round-trip times, and processor time of both agents a second.
struct Measured {
    bps: f64,
    rtt_s: f64,
    cpu: f64,
}

/// A set: what was measured under each of the policies, and what the replay says of them.
struct Judged {
    measured: Vec<Measured>,
    replayed: Vec<Row>,
    bytes_a_day: f64,
}

/// Where this process records: set once, as the agents are configured by functions.
static PLACE: OnceLock<PathBuf> = OnceLock::new();

fn folder(role: &str) -> PathBuf {
    PLACE.get().map_or_else(|| role.into(), |place| place.join(role))
}

/// Measures `sets`, or all; with `quick` two of them and no other policies.
///
/// # Errors
/// A download that fails.
pub(super) fn measure(quick: bool, sets: &[String]) -> anyhow::Result<Vec<Figure>> {
    let (seconds, others) = if quick { (15, 0) } else { (25, POLICIES.len() - 1) };
    let meant = |name: &str| match sets {
        [] => !quick || ["train", "steps"].contains(&name),
        sets => sets.iter().any(|set| set == name),
    };
    let place = temporary::folder("tabane-whatif-")?;
    PLACE.get_or_init(|| place.path().to_owned());
    let mut judged = Vec::new();
    for (name, links) in SETS.into_iter().filter(|(name, _)| meant(name)) {
        let of_set = judge(name, links, seconds, others);
        remove();
        let of_set = of_set.with_context(|| format!("set {name}"))?;
        say::note(&of_set.line(name));
        judged.push(of_set);
    }
    let (_, links) = SETS[1];
    let without = download(links, POLICIES[0], seconds, None)?;
    let with = download(links, POLICIES[0], seconds, Some(&folder("client")));
    remove();
    let figures = figures(&judged, with?.cpu - without.cpu);
    figures.iter().for_each(tell);
    Ok(figures)
}

fn remove() {
    for role in ["client", "server"] {
        // Of a run that failed there may be none.
        let _ = std::fs::remove_dir_all(folder(role));
    }
}

fn judge(name: &str, links: &str, seconds: u64, others: usize) -> anyhow::Result<Judged> {
    let kept = folder("client");
    let mut measured = Vec::new();
    let (mut replayed, mut bytes_a_day) = (Vec::new(), 0.0);
    for (n, policies) in POLICIES.into_iter().take(others + 1).enumerate() {
        measured.push(download(links, policies, seconds, Some(&kept))?);
        if n == 0 {
            (replayed, bytes_a_day) = ask(name, &kept, others)?;
        }
        remove();
    }
    Ok(Judged { measured, replayed, bytes_a_day })
}

/// A download under these policies, recorded if that is wanted.
fn download(
    links: &str,
    (scheduler, congestion): (&str, &str),
    seconds: u64,
    kept: Option<&Path>,
) -> anyhow::Result<Measured> {
    let (clock, source) = (Clock::start(), Source::start()?);
    let spec = |name: &str| -> anyhow::Result<_> { Ok(Some(PolicySpec(name.parse()?))) };
    let policies = Policies {
        scheduler: spec(scheduler)?,
        congestion: spec(congestion)?,
        ..Policies::default()
    };
    let mut client: fn(&mut ClientConfig) = |_| {};
    let mut server: fn(&mut ServerConfig) = |_| {};
    if kept.is_some() {
        client = |config| {
            config.record = Some("1 day".into());
            config.record_folder = Some(folder("client"));
        };
        server = |config| {
            config.record = Some("1 day".into());
            config.record_folder = Some(folder("server"));
        };
    }
    let bed = Bed::start(&Plan { paths: paths(links)?, seed: 1, client, server, policies })?;
    bed.wait_for_paths(|| false)?;
    let begin = clock.now();
    let flow = Flow::start(clock, bed.socks, source.address())?;
    thread::sleep(std::time::Duration::from_secs(seconds));
    let end = clock.now();
    let arrivals = flow.end()?;
    let ended = bed.end()?;
    let rtt_s = if kept.is_some() { rtt(&folder("server"))? } else { 0.0 };
    let cpu = ended.cpu.iter().sum::<f64>() / seconds as f64;
    Ok(Measured { bps: arrivals.bps(begin, end), rtt_s, cpu })
}

/// The links of a set, as the emulator has them.
fn paths(links: &str) -> anyhow::Result<Vec<(String, Option<[tabane_sim::link::LinkConfig; 2]>)>> {
    let text = format!("{links}[[flow]]\nbulk = \"unlimited\"\n");
    let document = Document::parse("set", &text, &[])?.with_files(&FILES).with_files(&[STEPS]);
    let plan = document.variants()?.into_iter().next().context("a set is one run")?.plan;
    let named = |(name, _): (&str, _)| {
        let [up, down] = plan.link(name).context("invariant: it has this link")?;
        Ok((name.to_owned(), Some([up.config.clone(), down.config.clone()])))
    };
    plan.scenario.link.iter().map(named).collect()
}

/// What of a folder is about the download.
fn export(folder: &Path) -> anyhow::Result<(Export, f64)> {
    let recording = Recording::open(folder)?;
    let size: u64 = recording.files.iter().map(|file| file.size).sum();
    let rows = recording.read(0, u64::MAX)?.rows;
    let busy = |row: &tabane_record::PathRow| row.directions.iter().any(|way| way.bytes > 10_000);
    let times = rows.iter().filter_map(|row| match row {
        tabane_record::Row::Path(row) if busy(row) => Some(row.unix_ms),
        _ => None,
    });
    let (from, to) = times.fold((u64::MAX, 0), |(from, to), at| (from.min(at), to.max(at)));
    anyhow::ensure!(from < to, "nothing was recorded");
    let window = Window { from_ms: from - 100, to_ms: to, client: None };
    Ok((Export::make(&rows, &window, "set")?, size as f64 * 86_400_000.0 / (to - from) as f64))
}

fn rtt(folder: &Path) -> anyhow::Result<f64> {
    export(folder)?.0.measured.rtt_p95_s.context("no round-trip time was measured")
}

/// What `tabane whatif` says of a recording: of its own policies, then of the others.
fn ask(name: &str, folder: &Path, others: usize) -> anyhow::Result<(Vec<Row>, f64)> {
    let (export, bytes_a_day) = export(folder)?;
    for (file, text) in &export.files {
        std::fs::write(folder.join(file), text)?;
    }
    let scenario = folder.join(format!("{name}.toml"));
    std::fs::write(&scenario, &export.scenario)?;
    let tries =
        POLICIES.iter().skip(1).take(others).map(|(scheduler, congestion)| {
            format!("scheduler={scheduler}+congestion={congestion}")
        });
    let args = whatif::Args::new(scenario, tries.collect(), SEEDS);
    let report = whatif::report(&args).map_err(|failure| anyhow!("{failure:?}"))?;
    Ok((report.rows, bytes_a_day))
}

impl Judged {
    /// Of the policies with that number, from what was measured: goodput, 95 % of round trips.
    fn off(&self, n: usize) -> [f64; 2] {
        let (Measured { bps, rtt_s, .. }, row) = (&self.measured[n], &self.replayed[n]);
        let mean = |interval: Option<whatif::Interval>| interval.map_or(0.0, |found| found.mean);
        [mean(row.goodput_bps) / bps - 1.0, mean(row.rtt_p95_s) / rtt_s - 1.0]
    }

    /// Pairs of policies that differ, and those of them in the right order.
    fn pairs(&self) -> [usize; 2] {
        let replayed = |n: usize| self.replayed[n].goodput_bps.map_or(0.0, |found| found.mean);
        let (mut all, mut right) = (0, 0);
        for a in 0..self.measured.len() {
            for b in 0..a {
                let (low, high) =
                    if self.measured[a].bps < self.measured[b].bps { (a, b) } else { (b, a) };
                if self.measured[high].bps >= self.measured[low].bps * (1.0 + DIFFERS) {
                    all += 1;
                    right += usize::from(replayed(high) > replayed(low));
                }
            }
        }
        [all, right]
    }

    fn line(&self, name: &str) -> String {
        let ([all, right], [goodput, rtt]) = (self.pairs(), self.off(0).map(|off| off * 100.0));
        let mut line = format!(
            "  {name}: goodput {goodput:+.1} %, 95 % of RTT {rtt:+.1} %, order {right}/{all}"
        );
        for (n, measured) in self.measured.iter().enumerate() {
            let row = &self.replayed[n];
            let mean =
                |found: Option<whatif::Interval>, by: f64| found.map_or(0.0, |i| i.mean * by);
            line += &format!(
                "\n    {} {}: {:.1} Mbit/s, {:.0} ms; replayed {:.1}, {:.0}",
                POLICIES[n].0,
                POLICIES[n].1,
                measured.bps / 1e6,
                measured.rtt_s * 1e3,
                mean(row.goodput_bps, 1e-6),
                mean(row.rtt_p95_s, 1e3)
            );
        }
        line
    }
}

fn figures(judged: &[Judged], cpu: f64) -> Vec<Figure> {
    let sets = judged.len();
    let within = |which: usize, near: f64| {
        let off: Vec<f64> = judged.iter().map(|set| set.off(0)[which]).collect();
        let good = off.iter().filter(|off| off.abs() <= near).count();
        let each: Vec<String> = off.iter().map(|off| format!("{:+.0} %", off * 100.0)).collect();
        (good as f64 / sets as f64, format!("{good} of {sets}: {}", each.join(", ")))
    };
    let figure = |what: &str, (share, note): (f64, String), target| {
        Figure::new(ROW, what, (share, Unit::Share), target).note(note)
    };
    let mut figures = vec![
        figure("sets whose replay has the goodput, +-5 %", within(0, NEAR_BPS), GOODPUT),
        figure("sets whose replay has the p95 of RTT, +-15 %", within(1, NEAR_RTT), RTT),
    ];
    let pairs = judged.iter().map(Judged::pairs);
    let [all, right] = pairs.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    if all > 0 {
        let what = "policies in the right order, by pairs";
        let share = right as f64 / all as f64;
        figures.push(figure(what, (share, format!("{right} of {all}")), ORDER));
    }
    let day = judged.iter().map(|set| set.bytes_a_day).fold(0.0, f64::max);
    figures.push(Figure::new(ROW, "files of a busy day, two paths", (day, Unit::Bytes), DAY));
    let what = "processor time of both agents for it, of a core";
    figures.push(Figure::new(ROW, what, (cpu.max(0.0), Unit::Share), CPU));
    figures
}
