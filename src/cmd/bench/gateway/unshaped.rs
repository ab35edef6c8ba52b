//! Row `unshaped`: what the gateway moves where no link limits it, and what that costs.

use super::figure::{Figure, Target, Unit};
use super::{median, tell};
use crate::bed::source::Source;
use crate::bed::{Bed, Plan, connect};
use anyhow::Context;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tabane_gateway::config::rule::Policies;
use tabane_net::Clock;

const ROW: &str = "unshaped";
const GOODPUT: Target = Target::new(1.5e9, 3e9);
const COST: Target = Target::new(8.0, 4.0);

/// Bytes of a run.
const BYTES: u64 = 1_000_000_000;
/// Figures are medians.
const RUNS: usize = 3;

/// One flow over two paths without limits.
///
/// # Errors
/// The download fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let (bytes, runs) = if quick { (BYTES / 4, 1) } else { (BYTES, RUNS) };
    let paths = ["one", "two"].map(|name| (name.to_owned(), None));
    let plan = Plan {
        paths: paths.to_vec(),
        seed: 1,
        client: |_| {},
        server: |_| {},
        policies: Policies::default(),
    };
    let (mut goodputs, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let source = Source::start()?;
        let bed = Bed::start(&plan)?;
        bed.wait_for_paths(|| false)?;
        let seconds = download(connect(bed.socks, source.address())?, bytes)?;
        let ended = bed.end()?;
        goodputs.push(bytes as f64 * 8.0 / seconds);
        costs.push(ended.cpu.iter().sum::<f64>() / (bytes as f64 / 1e9));
    }
    let note = format!("median of {runs} runs of {} MB over two paths", bytes / 1_000_000);
    let goodput = median(goodputs).context("no run")?;
    let goodput = Figure::new(ROW, "goodput of one flow", (goodput, Unit::Bps), GOODPUT);
    let cost = median(costs).context("no run")?;
    let cost = (cost, Unit::SecondsPerGb);
    let cost = Figure::new(ROW, "processor time, client and server", cost, COST);
    let figures = vec![goodput.note(&note), cost.note("threads of both agents, kernel included")];
    figures.iter().for_each(tell);
    Ok(figures)
}

/// Seconds that a download from a source takes, from the request to the last byte.
pub(super) fn download(mut stream: TcpStream, bytes: u64) -> anyhow::Result<f64> {
    let clock = Clock::start();
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("{bytes}\n").as_bytes())?;
    let (mut block, mut left) = (vec![0; 256 << 10], bytes);
    while left > 0 {
        let len = stream.read(&mut block).context("the download stands still")? as u64;
        anyhow::ensure!(len > 0, "the download ended {left} bytes early");
        left -= len.min(left);
    }
    Ok(clock.now().as_secs_f64())
}
