//! Paper `hayack` (S2): HayACK, ACKs by the path with the smallest RTT, and whether that is fair
//! to a TCP flow on the shared link. Beyond: a compensated form, under every controller.
//!
//! What the paper does not state is in `papers/hayack/README.md`.

use crate::context::{Context, Job};
use crate::report::Report;
use crate::{Paper, PaperError, stats};
use watch::{SKIP, STEP, Watch};

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
    run,
};

/// Round-trip times of Link1, ms, and the delay that makes them.
const RTTS: [(u32, &str); 4] = [(5, "2.5ms"), (100, "50ms"), (250, "125ms"), (350, "175ms")];

/// What is run: everything that differs between runs.
#[derive(Clone, PartialEq, Debug)]
struct Case {
    rtt: (u32, &'static str),
    /// `tcp`: B is a TCP flow, too.
    egress: &'static str,
    controller: &'static str,
    buffers: Buffers,
    /// MSS that TCP's receiver announces.
    mss: &'static str,
    loss: &'static str,
    errors: bool,
    seed: u64,
}

/// Socket buffers of all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Buffers {
    /// As the paper says, and its scheduler.
    Small,
    /// The same, sent by turns.
    SmallByTurns,
    /// Never the limit.
    Large,
}

/// What came of a run.
struct Outcome {
    watch: Watch,
    /// Jain's index of the two flows on Link1 by time, seconds.
    jain: Vec<(f64, f64)>,
}

impl Case {
    fn new(rtt: (u32, &'static str), egress: &'static str, seed: u64) -> Self {
        Self {
            rtt,
            egress,
            controller: "reno",
            buffers: Buffers::Large,
            mss: "1460",
            loss: "0%",
            errors: false,
            seed,
        }
    }

    fn job(&self) -> Result<Job, PaperError> {
        let seed = self.seed.to_string();
        // Starts within half a second, by seed.
        let start = |step: u64| format!("{}ms", self.seed.wrapping_mul(step) % 500);
        let starts = [start(173), start(311)];
        let mut sets = vec![
            ("link.link1.delay", self.rtt.1),
            ("link.link1.loss", self.loss),
            ("host.b.congestion", self.controller),
            ("host.c.tcp.mss", self.mss),
            ("flow.0.start", &starts[0]),
            ("flow.1.start", &starts[1]),
            ("seed", &seed),
        ];
        match self.egress {
            "tcp" => sets.push(("defaults.mptcp", "false")),
            egress => sets.push(("defaults.egress", egress)),
        }
        match self.buffers {
            Buffers::Small => {}
            Buffers::SmallByTurns => sets.push(("defaults.scheduler", "roundrobin")),
            Buffers::Large => {
                sets.push(("defaults.tcp.linux.rmem", "4096 8388608 8388608"));
                sets.push(("defaults.tcp.linux.wmem", "4096 8388608 8388608"));
            }
        }
        let text = include_str!("../../../../papers/hayack/shared.toml");
        Job::new("papers/hayack/shared.toml", text, &sets)
    }

    fn run(&self, context: &Context<'_>) -> Result<Outcome, PaperError> {
        let mut watch = Watch::new(self.errors);
        self.job()?.run(context, &mut watch)?;
        let width = (f64::from(self.rtt.0) / 1e3 * 10.0).max(1.0);
        let jain = jain_over_time(&watch, width);
        Ok(Outcome { watch, jain })
    }
}

/// In sliding windows of `width` seconds, the skipped start left out.
fn jain_over_time(watch: &Watch, width: f64) -> Vec<(f64, f64)> {
    let skip = (SKIP / STEP) as usize;
    let rates = |n: usize| -> Vec<f64> {
        let bytes = watch.flows[n].bytes.windows(2).map(|w| w[1] - w[0]);
        bytes.skip(skip).collect()
    };
    let windows = stats::jain_over_time(&[rates(0), rates(1)], (width / STEP) as usize);
    windows.into_iter().map(|(bin, jain)| (SKIP + bin as f64 * STEP, jain)).collect()
}

impl Outcome {
    /// Mean of Jain's index over time.
    fn mean_jain(&self) -> f64 {
        let values: Vec<f64> = self.jain.iter().map(|j| j.1).collect();
        stats::mean(&values).unwrap_or(0.0)
    }

    /// Mbit/s by Link1 after the skipped start: TCP's and the first subflow's.
    fn rates(&self) -> [f64; 2] {
        [0, 1].map(|n| mbps(&self.watch.flows[n].bytes))
    }

    /// Mbit/s of the whole multipath connection.
    fn aggregate(&self) -> f64 {
        self.rates()[1] + mbps(&self.watch.second)
    }

    /// In windows of a second: the multipath flow's share of Link1 over TCP's.
    fn ratios(&self) -> Vec<f64> {
        let per = (1.0 / STEP) as usize;
        let skip = (SKIP / STEP) as usize;
        let [tcp, other] = [0, 1].map(|n| &self.watch.flows[n].bytes);
        let windows = (skip + per..tcp.len().min(other.len())).step_by(per);
        let gain = |bytes: &[f64], at: usize| bytes[at] - bytes[at - per];
        let pairs = windows.map(|at| (gain(tcp, at), gain(other, at)));
        pairs.filter(|(tcp, _)| *tcp > 0.0).map(|(tcp, other)| other / tcp).collect()
    }

    /// Of TCP's reductions, the share with one of the multipath flow within `rtt` seconds.
    fn synchronised(&self, rtt: f64) -> Option<f64> {
        let late = |cuts: &[f64]| cuts.iter().copied().filter(|t| *t >= SKIP).collect::<Vec<_>>();
        let [tcp, other] = [0, 1].map(|n| late(&self.watch.flows[n].cuts));
        let both = tcp.iter().filter(|t| other.iter().any(|o| (*o - **t).abs() <= rtt)).count();
        (!tcp.is_empty()).then(|| both as f64 / tcp.len() as f64)
    }
}

fn mbps(bytes: &[f64]) -> f64 {
    let skip = (SKIP / STEP) as usize;
    match (bytes.get(skip), bytes.last()) {
        (Some(first), Some(last)) => {
            (last - first) * 8e-6 / ((bytes.len() - 1 - skip) as f64 * STEP).max(STEP)
        }
        _ => 0.0,
    }
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    assumptions(&mut report);
    let main = claims::run(context)?;
    claims::report(&mut report, &main);
    plots::add(&mut report, &main);
    matrix::confounders(context, &mut report)?;
    matrix::controllers(context, &mut report)?;
    Ok(report)
}

fn assumptions(report: &mut Report) {
    for (what, value, why) in [
        ("rate of both links", "10 Mbit/s", "not stated"),
        ("RTT of Link2", "5 ms", "not stated; the least of Link1's"),
        ("queues", "100 packets, drop-tail", "default of the simulator that the paper used"),
        ("starts", "within half a second, by seed", "else drop-tail repeats one phase for ever"),
        ("window of Jain's index", "ten RTTs, at least 1 s", "not stated"),
        ("TCP's stack and MSS", "as B's, 1460", "ambiguous; the matrix has 536, too"),
        ("buffers", "large; as stated in the matrix", "as stated, B leaves Link1 idle: see notes"),
    ] {
        report.assume(what, value, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Independent losses at 350 ms: theory says R/R_eff = 1.97 for HayACK, 1 compensated.
    #[test]
    fn random_loss_shows_the_shorter_loop_and_its_compensation() {
        // One draw of losses says little: five of them.
        let quiet = |_: crate::Progress<'_>| ();
        let ratio = |egress| {
            let rates = (1..=5).map(|seed| {
                let case = Case { loss: "0.5%", ..Case::new(RTTS[3], egress, seed) };
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
