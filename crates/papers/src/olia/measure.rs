//! The runs of the three scenarios.

use super::theory::{self, Rates};
use crate::PaperError;
use crate::context::{Context, Job};
use crate::stats;
use tabane_sim::result::{FlowResult, RunResult};

/// Of a shared link's N2 users, each with C2 = 1 Mbit/s.
const N2: u32 = 10;

/// Blue users in scenario B, and as many Red ones; capacities of X and T, Mbit/s.
pub(super) const USERS: f64 = 15.0;
pub(super) const X: f64 = 27.0;
pub(super) const T: f64 = 36.0;

/// Payload of a packet of 1500 bytes: IPv4 and TCP take 40, timestamps 12, DSS 20.
pub(super) const SHARE: f64 = 1428.0 / 1500.0;

/// Round trip with the queue, seconds: what a segment each costs where only that is sent.
const ROUND_TRIP: f64 = 0.15;

pub(super) const CONTROLLERS: [&str; 4] = ["lia", "olia", "balia", "reno"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// Both paths of the first behind the server's link, one of them through the others' access.
    A,
    /// Blue and Red; upgraded or not.
    B { upgraded: bool },
    /// The first have an access point of their own beside that of the others.
    C,
}

/// One point of a scenario.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) n1: u32,
    /// Mbit/s.
    pub(super) c1: f64,
}

/// What users got with one controller: means, Mbit/s of payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) controller: &'static str,
    pub(super) rates: Rates,
    /// By the path that the first kind shares with the second (B: Red by X and T).
    pub(super) shared: f64,
    /// In B: how many times as much Blue has by X as by T, and how many times as much T loses.
    pub(super) split: (f64, f64),
}

impl Case {
    pub(super) fn all(context: &Context<'_>) -> Vec<Self> {
        let grid: &[(u32, f64)] = context.pick(
            &[(10, 1.0)],
            &[
                (10, 0.75),
                (10, 1.0),
                (10, 1.5),
                (20, 0.75),
                (20, 1.0),
                (20, 1.5),
                (30, 0.75),
                (30, 1.0),
                (30, 1.5),
            ],
        );
        let of = |scenario| move |&(n1, c1): &(u32, f64)| Self { scenario, n1, c1 };
        let b = [false, true].map(|upgraded| Self {
            scenario: Scenario::B { upgraded },
            n1: USERS as u32,
            c1: X / USERS,
        });
        grid.iter().map(of(Scenario::A)).chain(b).chain(grid.iter().map(of(Scenario::C))).collect()
    }

    pub(super) fn ratio(&self) -> f64 {
        f64::from(self.n1) / f64::from(N2)
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        match self.scenario {
            Scenario::A => format!("A, N1/N2 = {}, C1/C2 = {}", self.ratio(), self.c1),
            Scenario::C => format!("C, N1/N2 = {}, C1/C2 = {}", self.ratio(), self.c1),
            Scenario::B { upgraded: false } => "B, Red with one path".to_owned(),
            Scenario::B { upgraded: true } => "B, Red with two paths".to_owned(),
        }
    }

    /// The fixed point of LIA, Mbit/s on the wire.
    pub(super) fn lia(&self) -> Rates {
        match self.scenario {
            Scenario::A => theory::lia_a(self.ratio(), self.c1),
            Scenario::C => theory::lia_c(self.ratio(), self.c1),
            Scenario::B { upgraded } => theory::lia_b(X / USERS, T / USERS, upgraded),
        }
    }

    /// The optimum with the cost of probing, of scenarios A and C where the shared path is worse.
    pub(super) fn optimum(&self) -> Option<Rates> {
        let probe = 1500.0 * 8.0 / 1e6 / ROUND_TRIP;
        match self.scenario {
            Scenario::A if self.c1 >= 1.0 => {
                Some(theory::optimum(self.ratio(), self.c1 - probe, probe))
            }
            Scenario::C if self.c1 >= 1.0 => Some(theory::optimum(self.ratio(), self.c1, probe)),
            _ => None,
        }
    }

    fn job(&self, controller: &str, seed: u64, duration: &str) -> Result<Job, PaperError> {
        let (seed, count) = (seed.to_string(), self.n1.to_string());
        let rate = format!("{}Mbps", f64::from(self.n1) * self.c1);
        let red = red(f64::from(self.n1) * self.c1);
        let mut sets =
            vec![("defaults.congestion", controller), ("seed", &seed), ("duration", duration)];
        let (file, text, own) = match self.scenario {
            Scenario::A => ("papers/olia/a.toml", A, "server"),
            Scenario::C => ("papers/olia/c.toml", C, "ap1"),
            Scenario::B { upgraded } => {
                let subflows = if upgraded { "2" } else { "1" };
                sets.push(("host.red.mptcp.max_subflows", subflows));
                return Job::new("papers/olia/b.toml", B, &sets);
            }
        };
        let (rate_key, queue_key) = (format!("link.{own}.rate"), format!("link.{own}.queue"));
        sets.extend([("flow.0.count", count.as_str()), (&rate_key, &rate), (&queue_key, &red)]);
        Job::new(file, text, &sets)
    }
}

const A: &str = include_str!("../../../../papers/olia/a.toml");
const B: &str = include_str!("../../../../papers/olia/b.toml");
const C: &str = include_str!("../../../../papers/olia/c.toml");

/// RED in proportion to the link: of 10 Mbit/s nothing is dropped up to 25 packets, 10 % at 50, and
/// everything at 100.
fn red(mbps: f64) -> String {
    let min = 2.5 * mbps;
    format!("red:min={min},max={},packets={},ecn=0", 2.0 * min, (4.0 * min).ceil())
}

pub(super) fn run(context: &Context<'_>, seeds: &[u64]) -> Result<Vec<Found>, PaperError> {
    let duration = context.pick("30s", "120s");
    let cases = Case::all(context);
    let rows = cases.iter().flat_map(|case| CONTROLLERS.iter().map(move |c| (*case, *c)));
    let rows: Vec<(Case, &'static str)> = rows.collect();
    let mut jobs = Vec::new();
    for (case, controller) in &rows {
        for seed in seeds {
            jobs.push(case.job(controller, *seed, duration)?);
        }
    }
    let results = context.run("scenarios A, B and C", &jobs)?;
    let found = rows.iter().zip(results.chunks(seeds.len())).map(|((case, controller), runs)| {
        let [one, two, path] = match case.scenario {
            Scenario::A => ["type1", "type2", "shared"],
            Scenario::B { .. } => ["blue", "red", "red-xt"],
            Scenario::C => ["multi", "single", "shared"],
        };
        let rates = Rates {
            first: mean(runs, one, |flow| flow.goodput_bps),
            second: mean(runs, two, |flow| flow.goodput_bps),
        };
        let by_path = |flow: &FlowResult| -> f64 {
            flow.subflows.iter().filter(|s| s.path == path).map(|s| s.goodput_bps).sum()
        };
        let of = if matches!(case.scenario, Scenario::B { .. }) { two } else { one };
        let blue = |path: &str| {
            mean(runs, "blue", |flow| {
                flow.subflows.iter().filter(|s| s.path == path).map(|s| s.goodput_bps).sum()
            })
        };
        let split = (blue("blue-x") / blue("blue-t"), lost(runs, "t") / lost(runs, "x"));
        Found { case: *case, controller, rates, shared: mean(runs, of, by_path), split }
    });
    Ok(found.collect())
}

/// Mean over the users of a kind and over the runs, Mbit/s.
fn mean(runs: &[RunResult], name: &str, of: impl Fn(&FlowResult) -> f64) -> f64 {
    let flows = runs.iter().flat_map(|run| &run.flows).filter(|flow| flow.name.starts_with(name));
    stats::mean(&flows.map(|flow| of(flow) / 1e6).collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Share of the packets that a link lost.
fn lost(runs: &[RunResult], link: &str) -> f64 {
    let of = || runs.iter().flat_map(|run| &run.links).filter(|l| l.link == link && l.lost > 0);
    of().map(|l| l.lost).sum::<u64>() as f64 / of().map(|l| l.packets + l.lost).sum::<u64>() as f64
}
