//! The runs: every stack from either path, and what each path gives alone.

use super::design::{Class, Path, Point};
use crate::PaperError;
use crate::context::{Context, Job};
use tabane_sim::observe::Silent;

const PAIR: &str = "papers/wsp/pair.toml";
const PAIR_TEXT: &str = include_str!("../../../../papers/wsp/pair.toml");
const SINGLE: &str = "papers/wsp/single.toml";
const SINGLE_TEXT: &str = include_str!("../../../../papers/wsp/single.toml");

/// Name of the flow in the scenarios.
pub(super) const FLOW: &str = "file";

/// Size of the file, bits.
const BITS: f64 = 160e6;

type Sets = &'static [(&'static str, &'static str)];

/// A multipath stack.
pub(super) struct Stack {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) sets: Sets,
    /// What a path alone is measured by: a row of [`ALONE`].
    alone: usize,
}

/// Protocols that single paths are measured by: MPTCP over one path, and TCP as Linux has it.
const ALONE: [Sets; 3] = [
    &[],
    &[
        ("defaults.mptcp", "false"),
        ("defaults.congestion", "cubic:linux=1"),
        ("defaults.tcp", RMEM),
    ],
    &[OPEN],
];

/// A receive buffer that need not grow for a while.
const OPEN: (&str, &str) = (
    "defaults.tcp",
    "{ receive_buffer = \"1MiB\", receive_buffer_max = \"16MiB\", send_buffer = \"16MiB\" }",
);

/// The authors' `tcp_rmem`, as in their scripts.
const RMEM: &str = "{ receive_buffer = \"87380B\", receive_buffer_max = \"16MiB\", \
     send_buffer = \"16MiB\", autotuning = \"linux\" }";

pub(super) const STACKS: [Stack; 6] = [
    Stack { id: "necf", name: "necf, cubicd (tabane's)", sets: &[], alone: 0 },
    Stack {
        id: "minrtt",
        name: "minRTT, cubicd",
        sets: &[("defaults.scheduler", "minrtt")],
        alone: 0,
    },
    Stack { id: "ecf", name: "ECF, cubicd", sets: &[("defaults.scheduler", "ecf")], alone: 0 },
    Stack {
        id: "kernel",
        name: "burst, CUBIC (upstream Linux's)",
        sets: &[
            ("defaults.scheduler", "burst"),
            ("defaults.congestion", "cubic:linux=1"),
            ("defaults.mptcp", "{ race = false, rescue = false, segments_per_mapping = 1 }"),
            ("defaults.tcp", RMEM),
        ],
        alone: 1,
    },
    Stack {
        id: "paper",
        name: "minRTT, OLIA (the paper's MPTCP)",
        sets: &[
            ("defaults.scheduler", "minrtt"),
            ("defaults.congestion", "olia"),
            ("defaults.mptcp", "{ race = false, segments_per_mapping = 1 }"),
            ("defaults.tcp", RMEM),
        ],
        alone: 1,
    },
    Stack {
        id: "open",
        name: "necf, cubicd, receive window of 1 MiB at once",
        sets: &[OPEN],
        alone: 2,
    },
];

/// The stack that is judged.
pub(super) const OURS: usize = 0;
/// The same controller with the scheduler that most have.
pub(super) const MINRTT: usize = 1;
/// The one that the paper measured.
pub(super) const PAPERS: usize = 4;
/// The one that is judged, where the receive window limits it less at first.
pub(super) const OPENED: usize = 5;

/// What one scenario gave, Mbit/s.
#[derive(Clone, Default, Debug)]
pub(super) struct Measured {
    pub(super) class: usize,
    pub(super) paths: [Path; 2],
    alone: [[f64; 2]; ALONE.len()],
    /// By stack, by the path on which the connection began.
    pub(super) together: [[f64; 2]; STACKS.len()],
}

impl Measured {
    /// What the paths give alone by the protocol that `stack` is compared with.
    pub(super) fn alone(&self, stack: usize) -> [f64; 2] {
        self.alone[STACKS[stack].alone]
    }

    /// The path that is the better one alone.
    pub(super) fn best(&self, stack: usize) -> usize {
        let [first, second] = self.alone(stack);
        usize::from(second > first)
    }

    /// How much longer it took from the worse path than the best path alone begun two of the worse
    /// path's round trips later, share: nobody joins before (RFC 8684 section 3.1), as the fourth
    /// packet is the first that the client has answered.
    pub(super) fn late(&self, stack: usize) -> f64 {
        let best = self.best(stack);
        let seconds = |rate: f64| BITS / 1e6 / rate;
        let joined = 2.0 * self.paths[1 - best].rtt / 1e3;
        let earliest = seconds(self.alone(stack)[best]) + joined;
        seconds(self.together[stack][1 - best]) / earliest - 1.0
    }

    /// Experimental aggregation benefit where the connection began on path `from`.
    pub(super) fn benefit(&self, stack: usize, from: usize) -> f64 {
        benefit(self.together[stack][from], self.alone(stack))
    }
}

/// Experimental aggregation benefit (Kaspar; Paasch et al., CSWS 2014): 0 as the best path alone,
/// 1 as the sum of what each gives alone, -1 nothing.
pub(super) fn benefit(together: f64, alone: [f64; 2]) -> f64 {
    let (best, sum) = (alone[0].max(alone[1]), alone[0] + alone[1]);
    let gain = together - best;
    if gain >= 0.0 { gain / (sum - best) } else { gain / best }
}

/// A run over both paths that begins on path `from`.
pub(super) fn together(
    paths: [Path; 2],
    from: usize,
    sets: &[(&str, &str)],
    seed: u64,
) -> Result<Job, PaperError> {
    let links = paths[from].sets("first").into_iter().chain(paths[1 - from].sets("second"));
    job((PAIR, PAIR_TEXT), links, sets, seed)
}

/// A run over one path.
fn alone(path: Path, sets: &[(&str, &str)], seed: u64) -> Result<Job, PaperError> {
    job((SINGLE, SINGLE_TEXT), path.sets("first").into_iter(), sets, seed)
}

fn job(
    (file, text): (&str, &str),
    links: impl Iterator<Item = (String, String)>,
    sets: &[(&str, &str)],
    seed: u64,
) -> Result<Job, PaperError> {
    let (links, seed): (Vec<_>, _) = (links.collect(), seed.to_string());
    let mut all: Vec<(&str, &str)> = links.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    all.extend(sets);
    all.push(("seed", &seed));
    Job::new(file, text, &all)
}

/// Everything for the scenarios of a class.
pub(super) fn class(
    context: &Context<'_>,
    (number, class): (usize, &Class),
    points: &[Point],
) -> Result<Vec<Measured>, PaperError> {
    let all: Vec<usize> = (0..STACKS.len()).collect();
    let paths: Vec<_> = points.iter().map(|point| (number, class.paths(point))).collect();
    measure(context, class.name, &paths, &all)
}

/// Runs these stacks, and each path alone.
pub(super) fn measure(
    context: &Context<'_>,
    stage: &str,
    scenarios: &[(usize, [Path; 2])],
    stacks: &[usize],
) -> Result<Vec<Measured>, PaperError> {
    context.each(stage, scenarios, |&(class, paths)| {
        let mut measured = Measured { class, paths, ..Measured::default() };
        for &stack in stacks {
            let Stack { sets, alone: protocol, .. } = &STACKS[stack];
            let rates = &mut measured.alone[*protocol];
            if rates[0] == 0.0 {
                for (path, rate) in paths.into_iter().zip(rates) {
                    let job = alone(path, ALONE[*protocol], context.seed)?;
                    *rate = goodput(context, &job)?;
                }
            }
            for (from, rate) in measured.together[stack].iter_mut().enumerate() {
                let job = together(paths, from, sets, context.seed)?;
                *rate = goodput(context, &job)?;
            }
        }
        Ok(measured)
    })
}

/// Mbit/s from the connection's first packet to the last byte; 0 of a file that did not arrive.
fn goodput(context: &Context<'_>, job: &Job) -> Result<f64, PaperError> {
    let result = job.run(context, &mut Silent)?;
    Ok(job.completed(&result, FLOW).map_or(0.0, |seconds| BITS / 1e6 / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benefit_is_0_as_the_best_path_1_as_both_and_minus_1_as_none() {
        assert_eq!(benefit(10.0, [10.0, 5.0]), 0.0);
        assert_eq!(benefit(15.0, [5.0, 10.0]), 1.0);
        assert_eq!(benefit(12.5, [10.0, 5.0]), 0.5);
        assert_eq!(benefit(5.0, [10.0, 5.0]), -0.5);
        assert_eq!(benefit(0.0, [10.0, 5.0]), -1.0);
    }
}
