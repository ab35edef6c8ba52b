//! What waits at a link.

use crate::probe::{Queue, Setting};
use crate::rows::Row;
use std::cell::RefCell;

const SETTING: Setting = Setting { file: "queue.toml", sets: &[] };
/// Of its bottleneck.
const RATE: f64 = 20e6;
const DELAY_S: f64 = 0.02;

struct Waits {
    queue: Queue,
    /// Mean wait before a packet is sent, seconds: by Lindley, and as it was.
    lindley: f64,
    measured: f64,
    /// Furthest apart that they are, of a packet, seconds.
    worst: f64,
    /// Packets a second.
    arrivals: f64,
}

/// Lindley's recursion over the packets as they came.
fn waits() -> Waits {
    let mut queue = Queue::new("bottleneck", ["access", "server"], true);
    let result = SETTING.watch(&mut queue);
    let (mut wait, mut last, mut sums, mut worst) = (0.0_f64, None, [0.0_f64; 2], 0.0_f64);
    eprintln!("{} {}", queue.entered.len(), queue.arrived.len());
    for ((at, bytes), arrived) in queue.entered.iter().zip(&queue.arrived) {
        let service = *bytes as f64 * 8.0 / RATE;
        if let Some((before, served)) = last {
            wait = f64::max(0.0, wait + served - (at - before) as f64 / 1e9);
        }
        last = Some((*at, service));
        let real = (arrived - at) as f64 / 1e9 - service - DELAY_S;
        worst = worst.max((real - wait).abs());
        sums = [sums[0] + wait, sums[1] + real];
    }
    let count = queue.arrived.len() as f64;
    let arrivals = queue.entered.len() as f64 / result.ended_s;
    Waits { queue, lindley: sums[0] / count, measured: sums[1] / count, worst, arrivals }
}

pub(crate) fn lindley() -> Row {
    let waits = waits();
    eprintln!("worst {}", waits.worst);
    Row {
        name: "lindley",
        what: "mean wait at the bottleneck, ms",
        formula: "W' = max(0, W + S - T), packet by packet",
        source: "Lindley, Math. Proc. Camb. Phil. Soc. 48, 1952, eq. 1",
        setting: SETTING,
        theory: waits.lindley * 1e3,
        ours: waits.measured * 1e3,
        within: 1.000_001,
    }
}

pub(crate) fn little() -> Row {
    let waits = waits();
    let samples = &waits.queue.samples;
    let packets: u64 = samples.iter().map(|(_, packets, _)| packets).sum();
    Row {
        name: "little",
        what: "packets that wait, mean over time",
        formula: "L = lambda W",
        source: "Little, Operations Research 9(3), 1961",
        setting: SETTING,
        theory: waits.arrivals * waits.measured,
        ours: packets as f64 / samples.len() as f64,
        within: 1.02,
    }
}

/// Of the flow in `bbr.toml`.
const BDP: f64 = 100e6 * 0.04 / 8.0;

fn bbr(sets: &'static [&'static str]) -> (Setting, Vec<(f64, u64, u64)>) {
    let setting = Setting { file: "bbr.toml", sets };
    let mut queue = Queue::new("path", ["server", "client"], false);
    setting.watch(&mut queue);
    (setting, queue.samples)
}

pub(crate) fn bbr_startup() -> Row {
    let (setting, samples) = bbr(&["duration=2s"]);
    let peak = samples.iter().map(|(_, _, bytes)| *bytes).max().unwrap_or(0);
    Row {
        name: "bbr-startup",
        what: "BBR's longest queue in Startup, in BDPs",
        formula: "cwnd_gain - 1",
        source: "draft-ietf-ccwg-bbr, section 5.6.1",
        setting,
        theory: 1.0,
        ours: peak as f64 / BDP,
        within: 1.2,
    }
}

thread_local! { static X: RefCell<()> = const { RefCell::new(()) }; }

pub(crate) fn bbr_steady() -> Row {
    let (setting, samples) = bbr(&[]);
    let mut last = 0.0;
    let mut max = 0;
    for (t, _, bytes) in samples.iter().filter(|(t, _, _)| *t > 5.0 && *t < 15.0) {
        max = max.max(*bytes);
        if *t - last > 0.04 {
            eprintln!("{t:.3} {:.2}", max as f64 / BDP);
            last = *t;
            max = 0;
        }
    }
    let late = samples.iter().filter(|(t, _, _)| *t > 5.0);
    let sum: u64 = late.clone().map(|(_, _, bytes)| *bytes).sum();
    Row {
        name: "bbr-steady",
        what: "BBR's mean queue in ProbeBW, in BDPs",
        formula: "",
        source: "",
        setting,
        theory: 1.0,
        ours: sum as f64 / late.count() as f64 / BDP,
        within: 1.2,
    }
}
