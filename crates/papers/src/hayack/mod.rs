//! Paper `hayack` (S2): HayACK, ACKs by the path with the smallest RTT, and whether that is fair
//! to a TCP flow on the shared link. Beyond: a compensated form, under every controller.
//!
//! What the paper does not state is in `papers/hayack/README.md`.

use crate::context::{Context, Job};
use crate::report::Report;
use crate::{Paper, PaperError, stats};
use tabane_sim::scenario::Scenario;
use watch::{START, STEP, Watch};

mod capture;
mod claims;
mod matrix;
mod plots;
mod watch;

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "hayack",
    alias: "s2",
    title: "HayACK: ACKs over another path, and whether that is fair",
    source: None,
    summary: "a TCP flow beside HayACK or plain MPTCP at four RTTs; beyond: fair at every RTT, and \
              more than plain MPTCP",
    inventory: include_str!("../../../../papers/hayack/inventory.csv"),
    run,
};

/// Round-trip times of Link1, ms, and the delay that makes them.
const RTTS: [(u32, &str); 4] = [(5, "2.5ms"), (100, "50ms"), (250, "125ms"), (350, "175ms")];

/// HayACK as the paper has it: always the path with the smallest RTT, no ACK beside it.
const PURE: &str = "hayack:own=0,margin=0,decisions=1";
/// Of which captures are looked at, as in the paper.
const CAPTURED: [&str; 2] = [PURE, "own"];

/// What is run: everything that differs between runs.
#[derive(Clone, PartialEq, Debug)]
struct Case {
    rtt: (u32, &'static str),
    /// `tcp`: B is a TCP flow, too.
    egress: &'static str,
    controller: &'static str,
    regime: Regime,
    loss: &'static str,
    /// Rate of both links, and the delay of Link2.
    rate: &'static str,
    delay2: &'static str,
    duration: &'static str,
    captures: bool,
    seed: u64,
}

/// Stacks and socket buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Regime {
    /// A is TCP as ns-3.26 has it; else it is as B.
    native: bool,
    buffers: Buffers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Buffers {
    /// As the paper states them.
    Stated,
    /// The same, and the scheduler goes by turns.
    ByTurns,
    /// Never the limit, of any host.
    Large,
}

/// As the paper says.
const STATED: Regime = Regime { native: true, buffers: Buffers::Stated };
/// Nothing but congestion control limits anybody, and both have the same stack.
const LARGE: Regime = Regime { native: false, buffers: Buffers::Large };

/// A stack as B's, where the scenario has that of ns-3. The buffers: what Linux makes of the
/// sysctls that the paper states.
const AS_B: [(&str, &str); 11] = [
    ("host.a.tcp.sack", "true"),
    ("host.a.tcp.send_buffer", "41187B"),
    ("host.a.tcp.initial_window", "10"),
    ("host.a.tcp.initial_ssthresh", "1GB"),
    ("host.a.tcp.rto_min", "200ms"),
    ("host.c.tcp.sack", "true"),
    ("host.c.tcp.mss", "1460"),
    ("host.c.tcp.receive_buffer", "43690B"),
    ("host.c.tcp.receive_buffer_max", "43690B"),
    ("host.c.tcp.ack_delay", "40ms"),
    ("host.c.tcp.quick_acks", "16"),
];
const LARGE_BUFFERS: [(&str, &str); 5] = [
    ("host.a.tcp.send_buffer", "8MiB"),
    ("host.c.tcp.receive_buffer", "8MiB"),
    ("host.c.tcp.receive_buffer_max", "8MiB"),
    ("host.d.tcp.linux.rmem", "4096 8388608 8388608"),
    ("host.b.tcp.linux.wmem", "4096 8388608 8388608"),
];

/// The control: B is a TCP flow, with A's stack and buffers.
fn control(scenario: &mut Scenario) {
    for (ours, theirs) in [("b", "a"), ("d", "c")] {
        let tcp = scenario.host.get(theirs).map(|host| host.tcp.clone()).unwrap_or_default();
        let hosts = scenario.host.0.iter_mut();
        hosts.filter(|(name, _)| name == ours).for_each(|(_, host)| host.tcp = tcp.clone());
    }
}

/// What came of a run.
struct Outcome {
    watch: Watch,
    /// Jain's index of the two flows on Link1 by time, seconds.
    jain: Vec<(f64, f64)>,
}

impl Case {
    fn new(rtt: (u32, &'static str), egress: &'static str, regime: Regime, seed: u64) -> Self {
        Self {
            rtt,
            egress,
            controller: "reno",
            regime,
            loss: "0%",
            rate: "10Mbps",
            delay2: "2.5ms",
            duration: "60s",
            captures: false,
            seed,
        }
    }

    fn job(&self) -> Result<Job, PaperError> {
        let seed = self.seed.to_string();
        // Starts within half a second, by seed.
        let start = |step: u64| format!("{}ms", 5000 + self.seed.wrapping_mul(step) % 500);
        let starts = [start(173), start(311)];
        let mut sets = vec![
            ("link.link1.delay", self.rtt.1),
            ("link.link1.loss", self.loss),
            ("link.link1.rate", self.rate),
            ("link.link2.rate", self.rate),
            ("link.link2.delay", self.delay2),
            ("host.b.congestion", self.controller),
            ("flow.0.start", &starts[0]),
            ("flow.1.start", &starts[1]),
            ("duration", self.duration),
            ("seed", &seed),
        ];
        if !self.regime.native {
            sets.extend(AS_B);
        }
        match self.egress {
            "tcp" => sets.push(("defaults.mptcp", "false")),
            egress => sets.push(("defaults.egress", egress)),
        }
        match self.regime.buffers {
            Buffers::Stated => {}
            Buffers::ByTurns => sets.push(("defaults.scheduler", "roundrobin")),
            Buffers::Large => sets.extend(LARGE_BUFFERS),
        }
        let text = include_str!("../../../../papers/hayack/shared.toml");
        let job = Job::new("papers/hayack/shared.toml", text, &sets)?;
        match self.egress {
            "tcp" => job.with(control),
            _ => Ok(job),
        }
    }

    fn run(&self, context: &Context<'_>) -> Result<Outcome, PaperError> {
        let mut watch = Watch::new(self.captures);
        self.job()?.run(context, &mut watch)?;
        let width = (f64::from(self.rtt.0) / 1e3 * 10.0).max(1.0);
        let jain = jain_over_time(&watch, width);
        Ok(Outcome { watch, jain })
    }
}

/// In sliding windows of `width` seconds, from the first packet on.
fn jain_over_time(watch: &Watch, width: f64) -> Vec<(f64, f64)> {
    let skip = (START / STEP) as usize;
    let rates = |n: usize| -> Vec<f64> {
        let bytes = watch.flows[n].bytes.windows(2).map(|w| w[1] - w[0]);
        bytes.skip(skip).collect()
    };
    let windows = stats::jain_over_time(&[rates(0), rates(1)], (width / STEP) as usize);
    windows.into_iter().map(|(bin, jain)| (START + bin as f64 * STEP, jain)).collect()
}

impl Outcome {
    /// Mean of Jain's index over time.
    fn mean_jain(&self) -> f64 {
        let values: Vec<f64> = self.jain.iter().map(|j| j.1).collect();
        stats::mean(&values).unwrap_or(0.0)
    }

    /// Mbit/s by Link1 from the start on: TCP's and the first subflow's.
    fn rates(&self) -> [f64; 2] {
        [0, 1].map(|n| mbps(&self.watch.flows[n].bytes))
    }

    /// Mbit/s of the whole multipath connection.
    fn aggregate(&self) -> f64 {
        self.rates()[1] + mbps(&self.watch.second)
    }

    /// In windows of a second: the multipath flow's share of Link1 over TCP's; those in which both
    /// have brought something.
    fn ratios(&self) -> Vec<f64> {
        let [tcp, other] = [0, 1].map(|n| per_second(&self.watch.flows[n].bytes));
        let pairs = tcp.into_iter().zip(other);
        pairs.filter(|(tcp, _)| *tcp > 0.0).map(|(tcp, other)| other / tcp).collect()
    }

    /// The largest in a second.
    fn peak(&self) -> f64 {
        self.ratios().into_iter().fold(0.0, f64::max)
    }

    /// Percent of the seconds in which the multipath flow is above TCP.
    fn above(&self) -> f64 {
        let ratios = self.ratios();
        let above = ratios.iter().filter(|ratio| **ratio > 1.0).count();
        above as f64 / ratios.len().max(1) as f64 * 100.0
    }

    /// How far Link2's rate in a second strays from its mean, of the mean, once it is under way.
    fn unsteady(&self) -> f64 {
        let rates = per_second(&self.watch.second);
        let rates = rates.get(UNDER_WAY..).unwrap_or_default();
        let mean = stats::mean(rates).unwrap_or(0.0);
        let square: Vec<f64> = rates.iter().map(|rate| (rate - mean).powi(2)).collect();
        stats::mean(&square).unwrap_or(0.0).sqrt() / mean.max(1.0)
    }

    /// Of TCP's reductions, the share with one of the multipath flow within `rtt` seconds.
    fn synchronised(&self, rtt: f64) -> Option<f64> {
        let [tcp, other] = [0, 1].map(|n| &self.watch.flows[n].cuts);
        let both = tcp.iter().filter(|t| other.iter().any(|o| (*o - **t).abs() <= rtt)).count();
        (!tcp.is_empty()).then(|| both as f64 / tcp.len() as f64)
    }
}

/// Mean over repetitions.
fn mean(runs: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    stats::mean(&runs.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The multipath flow's share of Link1 over TCP's, of all repetitions: the ratio of the mean rates.
/// The mean of the ratios would be above 1 for two flows that are alike.
fn ratio(runs: &[Outcome]) -> f64 {
    mean(runs, |o| o.rates()[1]) / mean(runs, |o| o.rates()[0]).max(1e-9)
}

/// Geometric mean of the ratios, and its 95 % interval; nothing where a flow carried nothing. Of
/// two flows that are alike it is 1, as a ratio and its inverse are equally far from it.
fn geometric(runs: &[Outcome]) -> Option<[f64; 3]> {
    let ratios = runs.iter().map(|o| o.rates()[1] / o.rates()[0]);
    let logs: Vec<f64> = ratios.map(f64::ln).collect();
    let all = logs.iter().all(|log| log.is_finite());
    let stats::Estimate { mean, half_width } = stats::estimate(&logs).filter(|_| all)?;
    Some([mean, mean - half_width, mean + half_width].map(f64::exp))
}

/// The same in words.
fn geometric_words(runs: &[Outcome], digits: usize) -> String {
    geometric(runs).map_or("–".to_owned(), |[mean, low, high]| {
        format!("{mean:.digits$} ({low:.digits$} to {high:.digits$})")
    })
}

/// Seconds until Link2's rate is looked at.
const UNDER_WAY: usize = 5;

/// Bytes in each second from the start on.
fn per_second(bytes: &[f64]) -> Vec<f64> {
    let (skip, per) = ((START / STEP) as usize, (1.0 / STEP) as usize);
    let ends: Vec<f64> = bytes.iter().copied().skip(skip).step_by(per).collect();
    ends.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn mbps(bytes: &[f64]) -> f64 {
    let skip = (START / STEP) as usize;
    match (bytes.get(skip), bytes.last()) {
        (Some(first), Some(last)) => {
            (last - first) * 8e-6 / ((bytes.len() - 1 - skip) as f64 * STEP).max(STEP)
        }
        _ => 0.0,
    }
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(repetitions(context));
    assumptions(&mut report);
    let [stated, large] = [claims::run(context, STATED)?, claims::run(context, LARGE)?];
    claims::report(&mut report, &stated, &large);
    plots::add(&mut report, (&stated, "as stated"), "");
    plots::add(&mut report, (&large, "large buffers"), "-large");
    matrix::unnamed(context, &mut report)?;
    matrix::confounders(context, &mut report)?;
    matrix::controllers(context, &mut report)?;
    matrix::smooth(context, &mut report)?;
    Ok(report)
}

/// Of the paper's own runs.
fn repetitions(context: &Context<'_>) -> u64 {
    context.pick(2, 10)
}

fn assumptions(report: &mut Report) {
    for (what, value, why) in [
        ("rate of both links", "10 Mbit/s", "not stated; swept from 1 to 10"),
        ("RTT of Link2", "5 ms", "not stated; the least of Link1's; swept from 5 to 50"),
        ("queues", "100 packets, drop-tail", "default of the simulator that the paper used"),
        ("starts", "at 5 s, within half a second, by seed", "else drop-tail repeats one phase"),
        (
            "window of Jain's index",
            "ten RTTs, at least 1 s",
            "not stated; shorter ones show bursts",
        ),
        ("ns-3's least RTO", "1 s", "its default"),
        ("where Link1 is captured", "at its far end", "not stated; ACKs by Link2 are at neither"),
    ] {
        report.assume(what, value, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Wireshark calls errors depends on whether the ACKs are in the capture.
    #[test]
    fn on_link1_hayack_shows_neither_duplicate_acks_nor_a_falling_line() {
        let quiet = |_: crate::Progress<'_>| ();
        let watch = |egress| {
            let case = Case { captures: true, ..Case::new(RTTS[2], egress, LARGE, 1) };
            case.run(&Context::new(&quiet)).unwrap().watch
        };
        let (hayack, plain) = (watch(PURE), watch("own"));
        let falls = |watch: &Watch| {
            let out = &watch.flows[1].captured.out;
            out.windows(2).any(|pair| pair[1] < pair[0])
        };
        assert!(hayack.lost > 20 && plain.lost > 20, "{}, {}", hayack.lost, plain.lost);
        let duplicates = |watch: &Watch| [watch.on_link1.counts[0], watch.at_sender.counts[0]];
        let ([here, there], [plain_here, plain_there]) = (duplicates(&hayack), duplicates(&plain));
        assert!(here == 0 && there > 100 && plain_here == plain_there, "{here}, {there}");
        assert!(!falls(&hayack) && falls(&plain));
    }

    /// Independent losses at 350 ms: theory says R/R_eff = 1.97 for HayACK, 1 compensated.
    #[test]
    fn random_loss_shows_the_shorter_loop_and_its_compensation() {
        // One draw of losses says little: five of them.
        let quiet = |_: crate::Progress<'_>| ();
        let ratio = |egress| {
            let rates = (1..=5).map(|seed| {
                let case = Case { loss: "0.5%", ..Case::new(RTTS[3], egress, LARGE, seed) };
                case.run(&Context::new(&quiet)).unwrap().rates()
            });
            let [tcp, other] = rates.fold([0.0, 0.0], |a, b| [a[0] + b[0], a[1] + b[1]]);
            other / tcp
        };
        let (raw, fair) = (ratio("hayack"), ratio("hayack-fair"));
        assert!((1.4..2.8).contains(&raw), "{raw}");
        assert!((0.7..1.3).contains(&fair), "{fair}");
        assert!(raw > 1.3 * fair, "{raw}, compensated {fair}");
    }
}
