//! What windows, and so rates, become of losses.

use super::probe::{Sender, Setting, Step};
use super::rows::Row;

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
    /// Of a run; `records`: with its signals and windows.
    fn measure(setting: Setting, records: bool) -> Self {
        let mut sender = Sender::new(records);
        setting.watch(&mut sender);
        let ([delivered, lost], seconds) = sender.carried();
        let rate = (delivered + lost) / seconds;
        let events = sender.signals as f64 / (delivered + lost);
        let (rtt, rto) = (sender.rtt(), sender.rto());
        let p = lost / (delivered + lost);
        Self { p, events, rtt, rto, window: rate * rtt, rate, sender }
    }
}

const fn losses(sets: &'static [&'static str]) -> Setting {
    Setting { file: "losses.toml", sets }
}

pub(crate) fn mathis_periodic() -> Vec<Row> {
    let setting = losses(&[]);
    let run = Losses::measure(setting, false);
    vec![Row {
        name: "mathis-periodic",
        what: "Reno, each 1000th packet lost: segments a round trip",
        formula: "W = sqrt(3 / 2p)",
        source: "Mathis et al., CCR 27(3), 1997, eq. 3",
        setting,
        theory: (1.5 / run.p).sqrt(),
        ours: run.window,
        within: 1.1,
    }]
}

pub(crate) fn mathis_random() -> Vec<Row> {
    let setting = losses(&["link.path.down.loss=0.1%"]);
    let run = Losses::measure(setting, false);
    vec![Row {
        name: "mathis-random",
        what: "Reno, 0.1 % lost at random: segments a round trip",
        formula: "W = 1.31 / sqrt(p)",
        source: "Mathis et al., CCR 27(3), 1997, table 1",
        setting,
        theory: 1.31 / run.p.sqrt(),
        ours: run.window,
        within: 1.1,
    }]
}

/// Padhye et al.: the simple form, with and without its timeouts.
fn pftk(names: [&'static str; 2], what: &'static str, setting: Setting) -> Vec<Row> {
    let run = Losses::measure(setting, true);
    let (p, rtt, rto) = (run.events, run.rtt, run.rto);
    let round = rtt * (2.0 * p / 3.0).sqrt();
    let timeouts = rto * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    // What explains the difference: of signals, so few are timeouts.
    let share = run.sender.timeouts as f64 / run.sender.signals as f64;
    assert!(share < 0.01, "{share} of the losses end in timeouts");
    let row = |name, formula, theory, within| Row {
        name,
        what,
        formula,
        source: "Padhye et al., SIGCOMM 1998, section 2.3 (the approximation)",
        setting,
        theory,
        ours: run.rate,
        within,
    };
    let with = "1 / (RTT sqrt(2p/3) + RTO min(1, 3 sqrt(3p/8)) p (1 + 32 p^2))";
    let without = "the same without its timeouts: 1 / (RTT sqrt(2p/3))";
    vec![
        row(names[0], with, 1.0 / (round + timeouts), 1.25),
        row(names[1], without, 1.0 / round, 1.2),
    ]
}

pub(crate) fn pftk_1() -> Vec<Row> {
    let what = "Reno, 1 % lost at random: segments a second";
    pftk(["pftk-1", "pftk-1-sack"], what, losses(&["link.path.down.loss=1%"]))
}

pub(crate) fn pftk_5() -> Vec<Row> {
    let what = "Reno, 5 % lost at random: segments a second";
    pftk(["pftk-5", "pftk-5-sack"], what, losses(&["link.path.down.loss=5%"]))
}

/// CUBIC's mean window, and how far it strays from the curve over all that it goes through.
pub(crate) fn cubic() -> Vec<Row> {
    const SETTING: Setting = losses(&[
        "defaults.congestion=cubic",
        "link.path.delay=50ms",
        "link.path.down.loss=periodic:n=20000",
        "duration=200s",
    ]);
    let run = Losses::measure(SETTING, true);
    vec![
        Row {
            name: "cubic-response",
            what: "CUBIC, each 20000th packet lost, 100 ms: segments a round trip",
            formula: "W = (C (3 + b) / 4 (1 - b))^(1/4) (RTT / p)^(3/4)",
            source: "RFC 9438 section 5.1 (AVG_W_cubic)",
            setting: SETTING,
            theory: cubic_window(run.rtt, run.p),
            ours: run.window,
            within: 1.2,
        },
        Row {
            name: "cubic-curve",
            what: "CUBIC's window over its curve, where they are furthest apart",
            formula: "W(t) = C (t - K)^3 + Wmax, K = cbrt((Wmax - cwnd) / C)",
            source: "RFC 9438 section 4.2 (W_cubic, K)",
            setting: SETTING,
            theory: 1.0,
            ours: furthest(&run.sender.steps),
            within: 1.05,
        },
    ]
}

fn cubic_window(rtt: f64, p: f64) -> f64 {
    (0.4 * 3.7 / (4.0 * 0.3_f64)).powf(0.25) * (rtt / p).powf(0.75)
}

/// Window over CUBIC's curve, where they are furthest apart.
fn furthest(steps: &[(f64, Step)]) -> f64 {
    let (mut worst, mut compared) = (1.0_f64, 0);
    let (mut w_max, mut window, mut epoch) = (0.0_f64, 0.0_f64, None);
    for (at, step) in steps {
        match step {
            Step::Signal => {
                // Fast convergence, RFC 9438 section 4.7.
                w_max = if window < w_max { window * 1.7 / 2.0 } else { window };
                epoch = None;
            }
            // What came before the first signal of the second half is not known.
            Step::Repaired if w_max == 0.0 => {}
            Step::Repaired => epoch = Some((*at, window)),
            Step::Window(bytes) => {
                window = *bytes as f64 / MSS;
                let Some((begin, low)) = epoch else { continue };
                let k = ((w_max - low) / 0.4_f64).max(0.0).cbrt();
                let off = window / (0.4 * (at - begin - k).powi(3) + w_max);
                compared += 1;
                if off.max(1.0 / off) > worst.max(1.0 / worst) {
                    worst = off;
                }
            }
        }
    }
    assert!(compared > 500, "only {compared} windows");
    worst
}

fn highspeed(name: &'static str, what: &'static str, setting: Setting) -> Vec<Row> {
    let run = Losses::measure(setting, false);
    vec![Row {
        name,
        what,
        formula: "W = 0.12 / p^0.835",
        source: "RFC 3649 section 5",
        setting,
        theory: 0.12 / run.p.powf(0.835),
        ours: run.window,
        within: 1.2,
    }]
}

pub(crate) fn highspeed_10000() -> Vec<Row> {
    let sets =
        &["defaults.congestion=highspeed", "link.path.down.loss=periodic:n=10000", "duration=100s"];
    let what = "HighSpeed TCP, each 10000th packet lost: segments a round trip";
    highspeed("highspeed-10000", what, losses(sets))
}

pub(crate) fn highspeed_50000() -> Vec<Row> {
    let sets =
        &["defaults.congestion=highspeed", "link.path.down.loss=periodic:n=50000", "duration=120s"];
    let what = "HighSpeed TCP, each 50000th packet lost: segments a round trip";
    highspeed("highspeed-50000", what, losses(sets))
}

/// Rates at 50 and 200 ms with the same losses, the first over the second.
fn near_over_far([near, far]: [Setting; 2]) -> f64 {
    Losses::measure(near, false).rate / Losses::measure(far, false).rate
}

pub(crate) fn reno_rtt() -> Vec<Row> {
    const FAR: Setting = losses(&["link.path.delay=100ms"]);
    vec![Row {
        name: "reno-rtt",
        what: "Reno, the same losses: its rate at 50 ms over that at 200 ms",
        formula: "4^1: rate ~ 1 / RTT",
        source: "Mathis et al., CCR 27(3), 1997, eq. 3",
        setting: FAR,
        theory: 4.0,
        ours: near_over_far([losses(&[]), FAR]),
        within: 1.1,
    }]
}

pub(crate) fn cubic_rtt() -> Vec<Row> {
    const LOSS: &str = "link.path.down.loss=periodic:n=50000";
    const CUBIC: &str = "defaults.congestion=cubic";
    const NEAR: Setting = losses(&[CUBIC, LOSS, "duration=150s"]);
    const FAR: Setting = losses(&[CUBIC, LOSS, "duration=150s", "link.path.delay=100ms"]);
    vec![Row {
        name: "cubic-rtt",
        what: "CUBIC, the same losses: its rate at 50 ms over that at 200 ms",
        formula: "4^(1/4): rate ~ RTT^(-1/4)",
        source: "RFC 9438 section 5.1 (AVG_W_cubic)",
        setting: FAR,
        theory: 4_f64.powf(0.25),
        ours: near_over_far([NEAR, FAR]),
        within: 1.2,
    }]
}

/// What a connection of two subflows gets of what one of plain TCP gets.
fn coupled(name: &'static str, setting: Setting, formula: &'static str, theory: f64) -> Vec<Row> {
    let result = setting.run();
    let bytes = |prefix: &str| -> f64 {
        let flows = result.flows.iter().filter(|flow| flow.name.starts_with(prefix));
        flows.map(|flow| flow.bytes as f64).sum()
    };
    vec![Row {
        name,
        what: "two subflows over one TCP at the same bottleneck: rates",
        formula,
        source: match name.split_once('-') {
            Some(("lia", _)) => "RFC 6356 section 2, goals 1 and 2",
            Some(("olia", _)) => "Khalili et al., CoNEXT 2012, theorem 1",
            Some(("balia", _)) => "Peng et al., ToN 24(1), 2016, section IV",
            _ => "two flows of Reno",
        },
        setting,
        theory,
        ours: bytes("multi") / bytes("single"),
        within: 1.2,
    }]
}

const fn shared(sets: &'static [&'static str]) -> Setting {
    Setting { file: "shared.toml", sets }
}

const TAIL: &str = "link.bottleneck.queue=180 packets";
const OLIA: &str = "host.multi.congestion=olia";
const BALIA: &str = "host.multi.congestion=balia";
const RENO: &str = "host.multi.congestion=reno";

pub(crate) fn lia() -> Vec<Row> {
    coupled("lia-red", shared(&[]), "1", 1.0)
}

pub(crate) fn olia() -> Vec<Row> {
    coupled("olia-red", shared(&[OLIA]), "1", 1.0)
}

pub(crate) fn balia() -> Vec<Row> {
    coupled("balia-red", shared(&[BALIA]), "1", 1.0)
}

pub(crate) fn uncoupled() -> Vec<Row> {
    coupled("uncoupled-red", shared(&[RENO]), "2", 2.0)
}

pub(crate) fn lia_tail() -> Vec<Row> {
    coupled("lia-tail", shared(&[TAIL]), "1", 1.0)
}

pub(crate) fn olia_tail() -> Vec<Row> {
    coupled("olia-tail", shared(&[OLIA, TAIL]), "1", 1.0)
}

pub(crate) fn balia_tail() -> Vec<Row> {
    coupled("balia-tail", shared(&[BALIA, TAIL]), "1", 1.0)
}

pub(crate) fn uncoupled_tail() -> Vec<Row> {
    coupled("uncoupled-tail", shared(&[RENO, TAIL]), "2", 2.0)
}
