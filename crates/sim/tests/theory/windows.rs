//! What windows, and so rates, become of losses.

use crate::probe::{Sender, Setting, Step};
use crate::rows::Row;
use tabane_sim::result::RunResult;

/// Payload of a full segment, bytes: 1500 less IP, TCP and timestamps.
const MSS: f64 = 1448.0;

/// A run of `losses.toml`, and what formulas take from it.
struct Losses {
    /// Share of packets that were lost.
    p: f64,
    /// Share of packets that a congestion signal was about: a loss event may be of several.
    events: f64,
    /// Mean, seconds.
    rtt: f64,
    /// Mean timeout, seconds.
    rto: f64,
    /// Mean window: packets sent in a round trip.
    window: f64,
    /// Packets sent a second.
    rate: f64,
    sender: Sender,
}

impl Losses {
    fn measure(setting: Setting) -> Self {
        let mut sender = Sender::default();
        let result = setting.watch(&mut sender);
        let (delivered, lost, seconds) = sent(&result);
        let rate = (delivered + lost) / seconds;
        let events = sender.signals as f64 / (delivered + lost);
        let (rtt, rto) = (sender.rtt(), sender.rto());
        let p = lost / (delivered + lost);
        Self { p, events, rtt, rto, window: rate * rtt, rate, sender }
    }
}

/// Packets that the link towards the client delivered and lost, and the time of the run.
fn sent(result: &RunResult) -> (f64, f64, f64) {
    let link = result.links.iter().find(|l| l.to == "client").expect("a link to the client");
    (link.packets as f64, link.lost as f64, result.ended_s)
}

const fn losses(sets: &'static [&'static str]) -> Setting {
    Setting { file: "losses.toml", sets }
}

pub(crate) fn mathis_periodic() -> Row {
    let setting = losses(&[]);
    let run = Losses::measure(setting);
    Row {
        name: "mathis-periodic",
        what: "Reno, each 1000th packet lost: segments a round trip",
        formula: "W = sqrt(3 / 2p)",
        source: "Mathis et al., CCR 27(3), 1997, eq. 3",
        setting,
        theory: (1.5 / run.p).sqrt(),
        ours: run.window,
        within: 1.1,
    }
}

pub(crate) fn mathis_random() -> Row {
    let setting = losses(&["link.path.down.loss=0.1%"]);
    let run = Losses::measure(setting);
    Row {
        name: "mathis-random",
        what: "Reno, 0.1 % lost at random: segments a round trip",
        formula: "W = 1.31 / sqrt(p)",
        source: "Mathis et al., CCR 27(3), 1997, table 1",
        setting,
        theory: 1.31 / run.p.sqrt(),
        ours: run.window,
        within: 1.1,
    }
}

/// Padhye et al.: the simple form.
fn pftk(name: &'static str, what: &'static str, setting: Setting) -> Row {
    let run = Losses::measure(setting);
    let (p, rtt, rto) = (run.events, run.rtt, run.rto);
    let timeouts = rto * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    eprintln!("{name}: p {} events {} rtt {rtt} rto {rto} timeouts {} signals {}", run.p, run.events, run.sender.timeouts, run.sender.signals);
    Row {
        name,
        what,
        formula: "B = 1 / (RTT sqrt(2p/3) + RTO min(1, 3 sqrt(3p/8)) p (1 + 32 p^2))",
        source: "Padhye et al., ToN 8(2), 2000, eq. 31",
        setting,
        theory: 1.0 / (rtt * (2.0 * p / 3.0).sqrt() + timeouts),
        ours: run.rate,
        within: 1.2,
    }
}

pub(crate) fn pftk_1() -> Row {
    let what = "Reno, 1 % lost at random: segments a second";
    pftk("pftk-1", what, losses(&["link.path.down.loss=1%"]))
}

pub(crate) fn pftk_5() -> Row {
    let what = "Reno, 5 % lost at random: segments a second";
    pftk("pftk-5", what, losses(&["link.path.down.loss=5%"]))
}

const CUBIC: Setting = losses(&[
    "defaults.congestion=cubic",
    "link.path.delay=50ms",
    "link.path.down.loss=periodic:n=20000",
]);

pub(crate) fn cubic_response() -> Row {
    let run = Losses::measure(CUBIC);
    Row {
        name: "cubic-response",
        what: "CUBIC, each 20000th packet lost, 100 ms: segments a round trip",
        formula: "W = (C (3 + b) / 4 (1 - b))^(1/4) (RTT / p)^(3/4)",
        source: "RFC 9438 section 5.1, eq. 6",
        setting: CUBIC,
        theory: (0.4 * 3.7 / (4.0 * 0.3_f64)).powf(0.25) * (run.rtt / run.p).powf(0.75),
        ours: run.window,
        within: 1.1,
    }
}

/// How far the window strays from the curve, over all that it went through.
pub(crate) fn cubic_curve() -> Row {
    let run = Losses::measure(CUBIC);
    let mut worst: f64 = 1.0;
    let (mut w_max, mut window, mut epoch) = (0.0_f64, 0.0_f64, None);
    for (at, step) in &run.sender.steps {
        match step {
            Step::Signal => {
                // Fast convergence, RFC 9438 section 4.7.
                w_max = if window < w_max { window * 1.7 / 2.0 } else { window };
                epoch = None;
            }
            Step::Repaired => epoch = Some((*at, window)),
            Step::Window(bytes) => {
                window = *bytes as f64 / MSS;
                let Some((begin, low)) = epoch else { continue };
                let k = ((w_max - low) / 0.4_f64).max(0.0).cbrt();
                let curve = 0.4 * (at - begin - k).powi(3) + w_max;
                let off = window / curve;
                if off.max(1.0 / off) > worst.max(1.0 / worst) {
                    worst = off;
                    eprintln!("{at} {begin} {low} {k} {w_max} {curve} {window}");
                }
            }
        }
    }
    Row {
        name: "cubic-curve",
        what: "CUBIC's window over its curve, where they are furthest apart",
        formula: "W(t) = C (t - K)^3 + Wmax, K = cbrt((Wmax - cwnd) / C)",
        source: "RFC 9438 section 4.2, eq. 1 and 2",
        setting: CUBIC,
        theory: 1.0,
        ours: worst,
        within: 1.05,
    }
}

fn highspeed(name: &'static str, what: &'static str, setting: Setting) -> Row {
    let run = Losses::measure(setting);
    Row {
        name,
        what,
        formula: "W = 0.12 / p^0.835",
        source: "RFC 3649 section 5, eq. 3",
        setting,
        theory: 0.12 / run.p.powf(0.835),
        ours: run.window,
        within: 1.2,
    }
}

pub(crate) fn highspeed_4() -> Row {
    let sets = &["defaults.congestion=highspeed", "link.path.down.loss=periodic:n=10000"];
    let what = "HighSpeed TCP, each 10000th packet lost: segments a round trip";
    highspeed("highspeed-4", what, losses(sets))
}

pub(crate) fn highspeed_5() -> Row {
    let sets = &[
        "defaults.congestion=highspeed",
        "link.path.down.loss=periodic:n=100000",
        "duration=60s",
    ];
    let what = "HighSpeed TCP, each 100000th packet lost: segments a round trip";
    highspeed("highspeed-5", what, losses(sets))
}

/// How the rate falls with the RTT, of two runs that differ in it alone: the exponent.
fn exponent(near: Setting, far: Setting) -> f64 {
    let [near, far] = [near, far].map(Losses::measure);
    (near.rate / far.rate).ln() / (far.rtt / near.rtt).ln()
}

pub(crate) fn reno_exponent() -> Row {
    const FAR: Setting = losses(&["link.path.delay=100ms"]);
    Row {
        name: "reno-rtt",
        what: "Reno's rate at 50 and 200 ms and the same losses: exponent of 1/RTT",
        formula: "rate ~ RTT^-1",
        source: "Mathis et al., CCR 27(3), 1997, eq. 3",
        setting: FAR,
        theory: 1.0,
        ours: exponent(losses(&[]), FAR),
        within: 1.05,
    }
}

pub(crate) fn cubic_exponent() -> Row {
    const LOSS: &str = "link.path.down.loss=periodic:n=50000";
    const CUBIC: &str = "defaults.congestion=cubic";
    const NEAR: Setting = losses(&[CUBIC, LOSS, "duration=120s"]);
    const FAR: Setting = losses(&[CUBIC, LOSS, "duration=120s", "link.path.delay=100ms"]);
    Row {
        name: "cubic-rtt",
        what: "CUBIC's rate at 50 and 200 ms and the same losses: exponent of 1/RTT",
        formula: "rate ~ RTT^-1/4",
        source: "RFC 9438 section 5.1, eq. 6",
        setting: FAR,
        theory: 0.25,
        ours: exponent(NEAR, FAR),
        within: 1.2,
    }
}

/// What a connection of two subflows gets of what one of plain TCP gets.
fn coupled(name: &'static str, sets: &'static [&'static str], theory: f64, within: f64) -> Row {
    let setting = Setting { file: "shared.toml", sets };
    let result = setting.run();
    let bytes = |prefix: &str| -> f64 {
        let flows = result.flows.iter().filter(|flow| flow.name.starts_with(prefix));
        flows.map(|flow| flow.bytes as f64).sum()
    };
    Row {
        name,
        what: "two subflows over one TCP at the same bottleneck",
        formula: if theory == 1.0 { "1" } else { "2" },
        source: "RFC 6356 section 3",
        setting,
        theory,
        ours: bytes("multi") / bytes("single"),
        within,
    }
}

const TAIL: &str = "link.bottleneck.queue=300 packets";

pub(crate) fn lia() -> Row {
    coupled("lia-red", &[], 1.0, 1.2)
}
pub(crate) fn olia() -> Row {
    coupled("olia-red", &["host.multi.congestion=olia"], 1.0, 1.2)
}
pub(crate) fn balia() -> Row {
    coupled("balia-red", &["host.multi.congestion=balia"], 1.0, 1.2)
}
pub(crate) fn uncoupled() -> Row {
    coupled("uncoupled-red", &["host.multi.congestion=reno"], 2.0, 1.2)
}
pub(crate) fn lia_tail() -> Row {
    coupled("lia-tail", &[TAIL], 1.0, 1.2)
}
pub(crate) fn olia_tail() -> Row {
    coupled("olia-tail", &["host.multi.congestion=olia", TAIL], 1.0, 1.2)
}
pub(crate) fn balia_tail() -> Row {
    coupled("balia-tail", &["host.multi.congestion=balia", TAIL], 1.0, 1.2)
}
pub(crate) fn uncoupled_tail() -> Row {
    coupled("uncoupled-tail", &["host.multi.congestion=reno", TAIL], 2.0, 1.2)
}
