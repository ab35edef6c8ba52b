//! Row `cost`: processor time of both agents on links that limit them, where there is little to do
//! at a time and often, and while nothing is carried at all. The emulated links, the program and
//! its far end run on threads of their own, which are not counted.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, bed};
use super::tell;
use super::unshaped::download;
use crate::bed::connect;
use crate::bed::source::Source;
use anyhow::Context;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;
use tabane_gateway::config::rule::Policies;
use tabane_net::Clock;

const ROW: &str = "cost";
const BUSY: Target = Target::new(6.0, 4.0);
/// Of one core, both agents together.
const IDLE: Target = Target::new(0.03, 0.01);

/// Pairs of links that carry one transfer.
const PAIRS: [[Link; 2]; 2] =
    [[Link::new(100, 20), Link::new(100, 40)], [Link::new(230, 20), Link::new(80, 50)]];
/// Links of the idle gateway.
const FOUR: [Link; 4] =
    [Link::new(100, 20), Link::new(100, 40), Link::new(230, 20), Link::new(80, 50)];
const CONNECTIONS: usize = 100;

/// A transfer is as long as its links would take for it at their nominal rates.
const LENGTH_S: f64 = 6.0;
const QUICK_S: f64 = 3.0;
/// From the last connection on, before idling counts.
const WARM_UP: Duration = Duration::from_secs(2);

/// Transfers both ways, then nothing.
///
/// # Errors
/// A transfer fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let seconds = if quick { QUICK_S } else { LENGTH_S };
    let mut figures = Vec::new();
    for links in PAIRS {
        for up in [false, true] {
            figures.push(busy(links, up, seconds)?);
        }
    }
    figures.push(idle(seconds)?);
    Ok(figures)
}

/// One transfer over two links.
fn busy(links: [Link; 2], up: bool, seconds: f64) -> anyhow::Result<Figure> {
    let nominal: f64 = links.iter().map(Link::bps).sum();
    let bytes = (nominal / 8.0 * seconds) as u64;
    let source = Source::start()?;
    let bed = bed(&links, Policies::default(), |_| {})?;
    let before = bed.cpu();
    let stream = connect(bed.socks, source.address())?;
    let took = if up { upload(stream, bytes)? } else { download(stream, bytes)? };
    let after = bed.cpu();
    bed.end()?;
    let [client, server] = [0, 1].map(|agent| (after[agent] - before[agent]) / bytes as f64 * 1e9);
    let [a, b] = links;
    let what = format!("{a} + {b} ms, {}", if up { "up" } else { "down" });
    let note = format!(
        "client {client:.2}, server {server:.2}; {} MB at {}",
        bytes / 1_000_000,
        Unit::Bps.text(bytes as f64 * 8.0 / took)
    );
    let figure = Figure::new(ROW, what, (client + server, Unit::SecondsPerGb), BUSY).note(note);
    tell(&figure);
    Ok(figure)
}

/// Seconds that an upload to a source takes, until it says that all has come.
fn upload(mut stream: TcpStream, bytes: u64) -> anyhow::Result<f64> {
    let clock = Clock::start();
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("-{bytes}\n").as_bytes())?;
    let (block, mut left) = (vec![0x5a; 256 << 10], bytes);
    while left > 0 {
        let len = left.min(block.len() as u64);
        stream.write_all(&block[..len as usize]).context("the upload stands still")?;
        left -= len;
    }
    stream.read_exact(&mut [0]).context("the upload does not end")?;
    Ok(clock.now().as_secs_f64())
}

/// Open connections on which nothing happens.
fn idle(seconds: f64) -> anyhow::Result<Figure> {
    let source = Source::start()?;
    let bed = bed(&FOUR, Policies::default(), |_| {})?;
    let open: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| connect(bed.socks, source.address())).collect::<Result<_, _>>()?;
    thread::sleep(WARM_UP);
    let (clock, before) = (Clock::start(), bed.cpu());
    thread::sleep(Duration::from_secs_f64(seconds));
    let (after, took) = (bed.cpu(), clock.now().as_secs_f64());
    drop(open);
    bed.end()?;
    let [client, server] = [0, 1].map(|agent| (after[agent] - before[agent]) / took);
    let what = format!("idle with {} links and {CONNECTIONS} connections, of a core", FOUR.len());
    let note = format!("client {:.2} %, server {:.2} %", client * 100.0, server * 100.0);
    let figure = Figure::new(ROW, what, (client + server, Unit::Share), IDLE).note(note);
    tell(&figure);
    Ok(figure)
}
