//! Row `lossy`: new connections, one after the other, while one of two links loses 5 %.

use super::figure::{Figure, Target, Unit};
use super::scene::Scene;
use super::trail::Trail;
use super::{quantile, tell};
use crate::bed::connect;
use crate::bed::source::Source;
use anyhow::{Context, anyhow};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use tabane_engine::Duration;
use tabane_net::Clock;

const ROW: &str = "lossy";
/// Beyond the best link's round trip.
const LATE: [f64; 2] = [0.100, 0.030];

const CONNECTIONS: u32 = 400;
/// Of a quick run, one in so many.
const QUICK: u32 = 4;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(75);
/// What each asks for.
const SIZE: usize = 1000;

const TEXT: &str = include_str!("../../../../scenarios/links/lossy.toml");

/// Connects, each time on a thread of its own: one that waits keeps no other waiting.
///
/// # Errors
/// A connection that does not come about.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let count = if quick { CONNECTIONS / QUICK } else { CONNECTIONS };
    let scene = Scene::new("lossy", TEXT)?;
    let (bed, source) = (scene.bed()?, Source::start()?);
    let mut trail = Trail::new("lossy", false);
    let (clock, socks, far) = (bed.clock, bed.socks, source.address());
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(thread::Builder::new().spawn(move || one(clock, socks, far))?);
        trail.until(&bed, clock.now() + PAUSE)?;
    }
    let (mut connects, mut answers) = (Vec::new(), Vec::new());
    for thread in all {
        let [connected, answered] = thread.join().map_err(|_| anyhow!("a program panicked"))??;
        connects.push(connected);
        answers.push(answered);
    }
    trail.events(&bed)?;
    bed.end()?;
    let mut figures = Vec::new();
    for (name, share) in [("half", 0.5), ("95 %", 0.95), ("99 %", 0.99)] {
        let value = quantile(&mut connects, share).context("no connection")?;
        let whole = quantile(&mut answers, share).context("no connection")?;
        let [must, aim] = LATE.map(|late| scene.least_rtt() + late);
        let what = format!("50@30 with 5 % loss + 50@30 ms: {name} connected within");
        let figure = Figure::new(ROW, what, (value, Unit::Seconds), Target::new(must, aim));
        let whole = Unit::Seconds.text(whole);
        figures.push(figure.note(format!("of {count}; with an answer of 1 KB within {whole}")));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}

/// Seconds until it is connected, and until it has its answer.
fn one(clock: Clock, socks: SocketAddr, far: SocketAddr) -> anyhow::Result<[f64; 2]> {
    let begin = clock.now();
    let since = || clock.now().saturating_since(begin).as_secs_f64();
    let mut stream = connect(socks, far)?;
    let connected = since();
    stream.write_all(format!("{SIZE}\n").as_bytes())?;
    stream.read_exact(&mut [0; SIZE]).context("no answer")?;
    Ok([connected, since()])
}
