//! What waits at a link.

use super::probe::{Queue, Setting};
use super::rows::Row;

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
    assert!(queue.arrived.len() > 50_000, "{} packets", queue.arrived.len());
    let (mut wait, mut last, mut sums, mut worst) = (0.0_f64, None, [0.0_f64; 2], 0.0_f64);
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

pub(crate) fn waiting() -> Vec<Row> {
    let waits = waits();
    // Each packet, not only the mean: links count in nanoseconds.
    assert!(waits.worst < 1e-6, "a packet waits {} s more or less than it should", waits.worst);
    let samples = &waits.queue.samples;
    let packets: u64 = samples.iter().map(|(_, packets, _)| packets).sum();
    vec![
        Row {
            name: "lindley",
            what: "wait of packets at the bottleneck, mean, ms",
            formula: "W' = max(0, W + S - T), packet by packet",
            source: "Lindley, Math. Proc. Camb. Phil. Soc. 48, 1952, eq. 1",
            setting: SETTING,
            theory: waits.lindley * 1e3,
            ours: waits.measured * 1e3,
            within: 1.000_001,
        },
        Row {
            name: "little",
            what: "packets that wait, mean over time",
            formula: "L = lambda W",
            source: "Little, Operations Research 9(3), 1961",
            setting: SETTING,
            theory: waits.arrivals * waits.measured,
            ours: packets as f64 / samples.len() as f64,
            within: 1.02,
        },
    ]
}

/// Of the link in `bbr.toml`: 100 Mbit/s for 40 ms, bytes.
const BDP: f64 = 100e6 * 0.04 / 8.0;

/// Longest queue of a flow under BBR from then on, in bandwidth-delay products.
fn bbr(setting: Setting, from_s: f64) -> f64 {
    let mut queue = Queue::new("path", ["server", "client"], false);
    setting.watch(&mut queue);
    let late = queue.samples.iter().filter(|(at, ..)| *at >= from_s);
    late.map(|(_, _, bytes)| *bytes).max().unwrap_or(0) as f64 / BDP
}

pub(crate) fn bbr_startup() -> Vec<Row> {
    const SETTING: Setting = Setting { file: "bbr.toml", sets: &["duration=2s"] };
    vec![Row {
        name: "bbr-startup",
        what: "BBR's longest queue in Startup, BDPs",
        formula: "cwnd_gain - 1, cwnd_gain = 2",
        source: "draft-ietf-ccwg-bbr: Startup",
        setting: SETTING,
        theory: 1.0,
        ours: bbr(SETTING, 0.0),
        within: 1.1,
    }]
}

pub(crate) fn bbr_probe() -> Vec<Row> {
    const SETTING: Setting = Setting { file: "bbr.toml", sets: &["duration=20s"] };
    vec![Row {
        name: "bbr-probe",
        what: "BBR's longest queue in ProbeBW_UP, BDPs",
        formula: "(0.99 1.25)^3 - 1",
        source: "draft-ietf-ccwg-bbr: ProbeBW_UP ends after three rounds without growth",
        setting: SETTING,
        theory: (0.99_f64 * 1.25).powi(3) - 1.0,
        ours: bbr(SETTING, 5.0),
        within: 1.1,
    }]
}
