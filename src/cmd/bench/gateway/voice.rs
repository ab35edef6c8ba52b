//! Row `voice`: a call through the gateway with `udp = "bond"`, while a link flaps, and over links
//! that lose in bursts.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, bed};
use super::program::{Program, echo};
use super::{quantile, tell};
use crate::bed::{Bed, Plan, status};
use anyhow::Context;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tabane_gateway::config::rule::{Policies, UdpMode};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_sim::link::ConditionsConfig;

/// The far end hears the call by the first, which flaps.
const LINKS: [Link; 2] = [Link::new(50, 20), Link::new(50, 40)];
/// Each of two links that lose in bursts, and how they do.
const BURSTY: Link = Link::new(50, 30);
const BURSTS: &str = "bursts:share=0.05,burst_ms=30";
const LOST: Target = Target::new(1e-3, 0.0);
const IN_A_ROW: Target = Target::new(1.0, 0.0);
const LATE: Target = Target::new(40e-3, 20e-3);
const BYTES: Target = Target::new(1.3, 1.1);

/// Speech by G.711 with RTP's headers, each 20 ms.
const SIZE: usize = 172;
const INTERVAL: Duration = Duration::from_millis(20);
/// Until it is known for a call.
const BEFORE: usize = 150;
/// Packets between two changes of the link.
const FLAP: usize = 150;
const DOWN: usize = 50;
const COUNT: usize = 1500;
const QUICK: usize = 600;
/// Nothing comes for so long: it is over. Longer than an outage.
const PATIENCE: Duration = Duration::from_secs(2);
/// IP's and UDP's headers.
const HEADERS: usize = 28;

/// What a call is carried over.
struct Way {
    bed: Bed,
    words: String,
    flaps: bool,
}

/// Loss, lateness and bytes of a call.
///
/// # Errors
/// A gateway that does not start.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let count = if quick { QUICK } else { COUNT };
    let bond = || Policies { udp: Some(UdpMode::Bond), ..Policies::default() };
    let [a, b] = LINKS;
    let words = format!("{a} + {b}; the first is down for 1 s in 3");
    let flapping = Way { bed: bed(&LINKS, bond(), |_| {})?, words, flaps: true };
    let mut figures = call(flapping, "a link flaps", count)?;
    let mut paths = Vec::new();
    for name in ["one", "two"] {
        let mut config = BURSTY.config()?;
        for direction in &mut config {
            direction.conditions = Some(ConditionsConfig::Model(BURSTS.parse()?));
        }
        paths.push((name.to_owned(), Some(config)));
    }
    let plan = Plan { paths, seed: 1, client: |_| {}, server: |_| {}, policies: bond() };
    let bed = Bed::start(&plan)?;
    bed.wait_for_paths(|| false)?;
    let words = format!("twice {BURSTY}, {BURSTS}");
    figures.extend(call(Way { bed, words, flaps: false }, "two links lose 5 %", count)?);
    figures.iter().for_each(tell);
    Ok(figures)
}

fn call(way: Way, what: &str, count: usize) -> anyhow::Result<Vec<Figure>> {
    let Way { bed, words, flaps } = way;
    let clock = Clock::start();
    let program = Program::new(bed.socks, echo(clock)?)?;
    let (mut sent, mut times) = (Vec::new(), BTreeMap::new());
    let mut before = 0;
    thread::scope(|scope| -> anyhow::Result<()> {
        let collect = scope.spawn(|| program.collect(PATIENCE));
        sharpen_timers();
        let start = clock.now();
        for i in 0..BEFORE + count {
            let at = i.checked_sub(BEFORE);
            if at == Some(0) {
                before = tx_bytes(&bed.client)?;
            }
            match at.filter(|_| flaps).map(|at| at % FLAP) {
                Some(at) if at == FLAP / 2 => bed.cut[0].store(true, Ordering::Relaxed),
                Some(at) if at == FLAP / 2 + DOWN => bed.cut[0].store(false, Ordering::Relaxed),
                _ => {}
            }
            let now = clock.now();
            sent.push(now);
            program.send(now, SIZE);
            let next = start + tabane_engine::Duration::from(INTERVAL) * (i as u64 + 1);
            thread::sleep(next.saturating_since(clock.now()).into());
        }
        let came = collect.join().map_err(|_| anyhow::anyhow!("the collector panicked"))??;
        for (left, turned) in came {
            times.entry(left).or_insert(turned.saturating_since(left).as_secs_f64());
        }
        Ok(())
    })?;
    let bytes = tx_bytes(&bed.client)? - before;
    bed.end()?;
    let (mut row, mut in_a_row, mut lost) = (0_u32, 0, 0_u32);
    for left in &sent[BEFORE..] {
        let came = times.contains_key(left);
        row = if came { 0 } else { row + 1 };
        lost += u32::from(!came);
        in_a_row = row.max(in_a_row);
    }
    let took = sent[BEFORE..].iter().map(|left| times.get(left).copied().unwrap_or(f64::INFINITY));
    let mut took: Vec<f64> = took.collect();
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut took, share));
    let late = p99.context("nothing came")? - p50.context("nothing came")?;
    let once = (count * (SIZE + HEADERS)) as f64;
    let note = format!("{count} packets over {words}");
    let figure = |of: &str, value, target| {
        Figure::new("voice", format!("{what}: {of}"), value, target).note(note.clone())
    };
    Ok(vec![
        figure("lost there and back", (f64::from(lost) / count as f64, Unit::Share), LOST),
        figure("most lost in a row, there and back", (f64::from(in_a_row), Unit::Count), IN_A_ROW),
        figure("99 % within, beyond the median", (late, Unit::Seconds), LATE),
        figure("bytes, of those of one copy", (bytes as f64 / once, Unit::Share), BYTES),
    ])
}

fn tx_bytes(agent: &tabane_gateway::request_channel::RequestSender) -> anyhow::Result<u64> {
    Ok(status(agent)?.paths.iter().map(|path| path.tx_bytes).sum())
}
