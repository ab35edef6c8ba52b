//! "Never slower than the best link": pairs and triples of paths generated from a seed, each
//! with a bulk download, a series of requests and a paced stream, by every scheduler over all paths
//! together and by plain TCP over each path alone.
//!
//! A path alone is plain TCP (what somebody without MPTCP has), with the same controller and the
//! same application; random losses come from the same streams, so that the n-th packet of a
//! link meets the same fate in every run of a point.

mod links;
mod mean;
mod measure;
mod point;
mod summary;

pub use links::Links;
pub use measure::{Loaded, Measured, PointResult, Settings, Trial, measure};
pub use point::{AccessPath, Core, Point};
pub use summary::{AGAIN, LoadedSummary, Ratios, Spread, Summary, summarise};

use crate::scenario::{Conditions, Flow, Link, Loss, Mptcp, Path, PathSettings, Queue, Scenario};
use std::collections::BTreeMap;
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::{Rate, Ratio, Time};
use tabane_engine::Duration;
use tabane_engine::policy::{Params, Spec};

/// Payload of a full segment over a 1500-byte packet: IP, TCP with timestamps, and DSS.
pub const PAYLOAD_SHARE: f64 = 1428.0 / 1500.0;

/// What is compared at a point: one path alone, or all paths under a scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Contender<'s> {
    /// Plain TCP over this path.
    PlainTcp(usize),
    /// MPTCP over this path alone.
    SinglePath(usize),
    /// All paths, with this scheduler.
    AllPaths(&'s Spec),
}

impl Point {
    /// The most that all paths together can carry, payload bits per second: the sum over distinct
    /// bottlenecks of rate x (1 - loss) x [`PAYLOAD_SHARE`].
    pub fn bound_bps(&self) -> f64 {
        let access: f64 = self.paths.iter().map(AccessPath::bound_bps).sum();
        self.core.as_ref().map_or(access, |core| access.min(core.bound_bps()))
    }

    /// A run as a scenario: what `tabane sim run` takes.
    pub fn scenario(
        &self,
        contender: Contender<'_>,
        congestion: Option<&Spec>,
        flow: Flow,
        duration: Duration,
    ) -> Scenario {
        let mut scenario = Scenario {
            name: format!("grid-{}-{}", self.seed, self.number),
            about: "a point of the grid".into(),
            seed: self.seed ^ u64::from(self.number) << 32,
            duration: Time(duration),
            flow: vec![flow],
            ..Scenario::default()
        };
        for (n, path) in self.paths.iter().enumerate() {
            let name = path_name(n);
            let core = self.core.as_ref().map(|_| "core".to_owned());
            let links = std::iter::once(name.clone()).chain(core).collect();
            let link = path.link();
            let only = match contender {
                Contender::PlainTcp(n) | Contender::SinglePath(n) => Some(n),
                Contender::AllPaths(_) => None,
            };
            if only.is_none_or(|only| only == n) {
                let path = Path(PathSettings { links, ..PathSettings::default() });
                scenario.path.0.push((name.clone(), path));
                scenario.link.0.push((name, link));
            }
        }
        if let Some(core) = &self.core {
            let link = link(core.rate_bps, Core::DELAY, core.queue_bytes);
            scenario.link.0.push(("core".into(), link));
        }
        // As servers do that answer requests. With Nagle's algorithm the last bytes of an answer
        // wait for a delayed ACK, or not, by whether its segments are odd in number.
        scenario.defaults.tcp.nagle = Some(false);
        scenario.defaults.congestion = congestion.cloned().map(PolicySpec);
        match contender {
            Contender::PlainTcp(_) => scenario.defaults.mptcp = Some(Mptcp::Switch(false)),
            Contender::SinglePath(_) => {}
            Contender::AllPaths(scheduler) => {
                scenario.defaults.scheduler = Some(PolicySpec(scheduler.clone()));
            }
        }
        scenario
    }
}

/// `a`, `b`, `c`.
pub fn path_name(n: usize) -> String {
    char::from(b'a' + n as u8).to_string()
}

impl AccessPath {
    fn link(&self) -> Link {
        // As long as this many packets take.
        let bursts = self.burst.map(|packets| {
            let burst_ms = (packets * 12e6 / self.rate_bps as f64).max(0.1);
            spec("bursts", &[("share", self.loss), ("burst_ms", burst_ms)])
        });
        let each = (self.loss > 0.0 && bursts.is_none()).then_some(self.loss);
        let model = self
            .conditions
            .as_ref()
            .map(|model| model.parse().expect("invariant: a well-formed model"));
        let jitter = format!("{}us", self.jitter.as_micros());
        Link {
            jitter: (!self.jitter.is_zero())
                .then(|| jitter.parse().expect("invariant: a time is a jitter")),
            loss: each.map(|loss| Loss(spec("bernoulli", &[("p", Ratio(loss).0)]))),
            conditions: bursts.or(model).map(Conditions::Model),
            ..link(self.rate_bps, self.delay, self.queue_bytes)
        }
    }
}

fn link(rate_bps: u64, delay: Duration, queue_bytes: u64) -> Link {
    Link {
        rate: Some(Rate(rate_bps)),
        delay: Some(Time(delay)),
        queue: Some(Queue(spec("droptail", &[("bytes", queue_bytes as f64)]))),
        ..Link::default()
    }
}

fn spec(name: &str, params: &[(&str, f64)]) -> Spec {
    let params = params.iter().map(|(key, value)| ((*key).to_owned(), *value));
    Spec { name: name.into(), params: Params::from(params.collect::<BTreeMap<_, _>>()) }
}
