//! Measuring a point: each path alone first, which says how much there is to do, then every
//! scheduler over all of them.

use super::{Contender, Point, mean};
use crate::observe::Silent;
use crate::result::{FlowResult, LatencyResult};
use crate::scenario::{Amount, Flow, Paced, Request, Scenario};
use crate::world::{self, RunError};
use serde::Serialize;
use std::num::NonZero;
use tabane_config::quantity::{Rate, Size, Time};
use tabane_engine::Duration;
use tabane_engine::policy::Spec;

/// What is compared.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Schedulers over all paths.
    pub schedulers: Vec<Spec>,
    /// Congestion control of every run; the engine's own by default.
    pub congestion: Option<Spec>,
    /// A path alone is MPTCP over it and not plain TCP.
    pub alone_mptcp: bool,
    /// Everything at once, too: a download, requests and a stream.
    pub loaded: bool,
    /// Each path alone once more, with other random numbers: what luck alone does to a ratio.
    pub again: bool,
    /// Runs of everything, each with random numbers of its own, of which figures are the means.
    /// The best of several paths in one run is partly the luckiest; the mean of several is not.
    pub repeat: NonZero<u32>,
}

impl Settings {
    fn alone(&self, n: usize) -> Contender<'_> {
        if self.alone_mptcp { Contender::SinglePath(n) } else { Contender::PlainTcp(n) }
    }
}

/// What one contender reached.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Trial {
    /// A path's name or a scheduler.
    pub name: String,
    /// The bulk download, payload bits per second.
    pub bulk_bps: f64,
    /// Latency of requests; `None` if not one was answered in time.
    pub request: Option<LatencyResult>,
    /// Latency of the messages of the paced stream.
    pub stream: Option<LatencyResult>,
    /// Everything at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<Loaded>,
}

/// Requests of 10 KB and a stream of 64 kbit/s beside a download.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loaded {
    /// The download, payload bits per second.
    pub bulk_bps: f64,
    /// The longest time in which the download got nothing.
    pub stall_s: f64,
    /// Latency of requests; `None` if not one was answered.
    pub request: Option<LatencyResult>,
    /// Latency of the messages of the stream.
    pub stream: Option<LatencyResult>,
}

/// A point and what was measured there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PointResult {
    pub point: Point,
    /// Sum over distinct bottlenecks of rate x (1 - loss) x payload share, bits per second.
    pub bound_bps: f64,
    /// What links of which models say how they change carry in the time under load: the mean of
    /// rate x (1 - loss) x payload share, bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainable_bps: Option<f64>,
    /// What all paths alone reached together, at most what the shared link carries.
    pub alone_bps: f64,
    /// Bytes of the bulk download by all paths.
    pub bulk_bytes: u64,
    /// Each path alone, in the order of the point.
    pub alone: Vec<Trial>,
    /// The same once more, with other random numbers; empty unless asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Trial>,
    /// Schedulers, in the order of the settings.
    pub bonds: Vec<Trial>,
    pub cost: Measured,
}

/// What measuring took.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Measured {
    pub runs: u64,
    /// Packets times links crossed.
    pub packet_hops: u64,
    /// Simulated time, seconds.
    pub simulated_s: f64,
    /// Payload delivered.
    pub bytes: u64,
}

impl std::iter::Sum for Measured {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |sum, cost| Self {
            runs: sum.runs + cost.runs,
            packet_hops: sum.packet_hops + cost.packet_hops,
            simulated_s: sum.simulated_s + cost.simulated_s,
            bytes: sum.bytes + cost.bytes,
        })
    }
}

impl PointResult {
    /// What all paths were measured with, for `tabane sim run`: a name, the flow, and how long it
    /// may take.
    pub fn workloads(&self) -> [(&'static str, Flow, Duration); 3] {
        let best = self.alone.iter().map(|path| path.bulk_bps).fold(0.0, f64::max);
        [
            ("bulk", bulk(self.bulk_bytes), REQUESTS_END),
            ("request", requests(), REQUESTS_END),
            ("stream", stream(stream_bps(best)), STREAM_END),
        ]
    }
}

/// The download by all paths.
fn bulk(bytes: u64) -> Flow {
    Flow { bulk: Some(Amount::Bytes(Size(bytes.max(1)))), ..Flow::default() }
}

/// Answers, one after the other.
fn requests() -> Flow {
    let request = Request { think: Time(THINK), count: Some(REQUESTS), ..Request::default() };
    Flow { request: Some(request), ..Flow::default() }
}

/// The rate of the paced stream where the best path reached `best` bits per second.
fn stream_bps(best: f64) -> u64 {
    (best * STREAM_SHARE).clamp(STREAM_LEAST, STREAM_MOST) as u64
}

/// The paced stream.
fn stream(bps: u64) -> Flow {
    let paced = Paced { rate: Rate(bps), message: Size(1_200) };
    Flow { paced: Some(paced), stop: Some(Time(STREAM_TIME)), ..Flow::default() }
}

/// How long a path alone downloads: long enough to be past slow start at the longest round trip.
const BULK: Duration = Duration::from_secs(20);
const BULK_ROUNDS: u64 = 10;
/// A bundle gets this many times as long for what the paths alone delivered together.
const PATIENCE: u64 = 6;
/// Answers of 100 KB, pauses between them, and the end of waiting for them.
const REQUESTS: u32 = 60;
const THINK: Duration = Duration::from_millis(100);
const REQUESTS_END: Duration = Duration::from_secs(180);
/// The paced stream: this share of what the best path reached, and no more than this.
const STREAM_SHARE: f64 = 0.3;
const STREAM_MOST: f64 = 5e6;
const STREAM_LEAST: f64 = 20e3;
const STREAM_TIME: Duration = Duration::from_secs(15);
const STREAM_END: Duration = Duration::from_secs(45);
/// For how long everything runs at once, and ten of the longest round trips.
const LOADED: Duration = Duration::from_secs(40);
/// Any other seed.
const OTHER_LUCK: u64 = 1 << 31;
/// The stream beside a download.
const CALL: Paced = Paced { rate: Rate(64_000), message: Size(160) };
/// Answers beside a download.
const SMALL: Size = Size(10_000);

/// Measures a point.
///
/// # Errors
/// [`RunError`], of a policy that does not exist or of a world without progress.
pub fn measure(point: &Point, settings: &Settings) -> Result<PointResult, RunError> {
    let luck = |n: u32| u64::from(n) << 16;
    let once = |n: u32| measure_once(point, settings, luck(n));
    let results = (0..settings.repeat.get()).map(once).collect::<Result<Vec<_>, _>>()?;
    Ok(mean::of(results).expect("invariant: repeat is not zero"))
}

/// Measures it with random numbers that differ by `luck`.
fn measure_once(point: &Point, settings: &Settings, luck: u64) -> Result<PointResult, RunError> {
    let longest = point.paths.iter().map(|w| w.delay * 2).max().unwrap_or(Duration::ZERO);
    let under_load = LOADED + longest * BULK_ROUNDS;
    let mut lab = Lab { point, settings, under_load, luck, cost: Measured::default() };
    let time = BULK + longest * BULK_ROUNDS;
    let bulks = lab.downloads(time)?;
    let best = bulks.iter().map(|b| b.goodput_bps).fold(0.0, f64::max);
    let sum: f64 = bulks.iter().map(|b| b.goodput_bps).sum();
    let alone_bps = point.core.as_ref().map_or(sum, |core| sum.min(core.bound_bps())).max(best);
    let stream_bps = stream_bps(best);
    let alone = lab.alone(&bulks, stream_bps)?;
    let mut again = Vec::new();
    if settings.again {
        lab.luck = luck ^ OTHER_LUCK;
        let bulks = lab.downloads(time)?;
        again = lab.alone(&bulks, stream_bps)?;
        lab.luck = luck;
    }
    let bulk_bytes = (alone_bps / 8.0 * time.as_secs_f64()) as u64;
    let mut bonds = Vec::new();
    for scheduler in &settings.schedulers {
        let contender = Contender::AllPaths(scheduler);
        let bulk = lab.run(contender, bulk(bulk_bytes), time * PATIENCE)?;
        let trial = lab.trial(contender, scheduler.to_string(), bulk.goodput_bps, stream_bps)?;
        bonds.push(trial);
    }
    Ok(PointResult {
        point: point.clone(),
        bound_bps: point.bound_bps(),
        attainable_bps: settings.loaded.then(|| lab.attainable()).transpose()?,
        alone_bps,
        bulk_bytes,
        alone,
        again,
        bonds,
        cost: lab.cost,
    })
}

/// Runs the worlds of a point.
struct Lab<'a> {
    point: &'a Point,
    settings: &'a Settings,
    /// How long everything runs at once.
    under_load: Duration,
    /// Changes the seed of the runs.
    luck: u64,
    cost: Measured,
}

impl Lab<'_> {
    /// A download by each path alone.
    fn downloads(&mut self, time: Duration) -> Result<Vec<FlowResult>, RunError> {
        let settings = self.settings;
        let bulk = || Flow { bulk: Some(Amount::Unlimited), ..Flow::default() };
        let paths = 0..self.point.paths.len();
        paths.map(|n| self.run(settings.alone(n), bulk(), time)).collect()
    }

    /// The rest by each path alone.
    fn alone(&mut self, bulks: &[FlowResult], stream_bps: u64) -> Result<Vec<Trial>, RunError> {
        let settings = self.settings;
        let trial = |(n, bulk): (usize, &FlowResult)| {
            self.trial(settings.alone(n), super::path_name(n), bulk.goodput_bps, stream_bps)
        };
        bulks.iter().enumerate().map(trial).collect()
    }

    fn run(
        &mut self,
        contender: Contender<'_>,
        flow: Flow,
        duration: Duration,
    ) -> Result<FlowResult, RunError> {
        Ok(self.run_all(contender, vec![flow], duration)?.swap_remove(0))
    }

    fn run_all(
        &mut self,
        contender: Contender<'_>,
        flows: Vec<Flow>,
        duration: Duration,
    ) -> Result<Vec<FlowResult>, RunError> {
        let mut scenario = self.scenario(contender, duration);
        scenario.flow = flows;
        let result = world::run(&scenario.compile()?, &mut Silent)?;
        self.cost.runs += 1;
        self.cost.packet_hops += result.cost.packet_hops;
        self.cost.simulated_s += result.ended_s;
        self.cost.bytes += result.flows.iter().map(|flow| flow.bytes).sum::<u64>();
        Ok(result.flows)
    }

    fn scenario(&self, contender: Contender<'_>, duration: Duration) -> Scenario {
        let congestion = self.settings.congestion.as_ref();
        let scenario = self.point.scenario(contender, congestion, Flow::default(), duration);
        Scenario { seed: scenario.seed ^ self.luck, ..scenario }
    }

    /// What the links carry while everything runs at once.
    fn attainable(&self) -> Result<f64, RunError> {
        let contender = Contender::AllPaths(&self.settings.schedulers[0]);
        let mut scenario = self.scenario(contender, self.under_load);
        scenario.flow = vec![Flow { bulk: Some(Amount::Unlimited), ..Flow::default() }];
        let plan = scenario.compile()?;
        let mut sum = 0.0;
        for (n, path) in self.point.paths.iter().enumerate() {
            let link = plan.link(&super::path_name(n)).map(|[_, down]| down);
            let rate = link.map_or(Ok(0.0), |down| down.mean_rate(scenario.seed, self.under_load));
            let rate = rate.unwrap_or(path.rate_bps as f64);
            sum += rate * (1.0 - path.loss) * super::PAYLOAD_SHARE;
        }
        Ok(self.point.core.as_ref().map_or(sum, |core| sum.min(core.bound_bps())))
    }

    /// Everything at once.
    fn loaded(&mut self, contender: Contender<'_>) -> Result<Loaded, RunError> {
        let bulk = Flow { bulk: Some(Amount::Unlimited), ..Flow::default() };
        let start = Time(Duration::from_secs(2));
        let request = Request { size: SMALL, think: Time(THINK), ..Request::default() };
        let request = Flow { request: Some(request), start, ..Flow::default() };
        let stream = Flow { paced: Some(CALL), start, ..Flow::default() };
        let flows = self.run_all(contender, vec![bulk, request, stream], self.under_load)?;
        Ok(Loaded {
            bulk_bps: flows[0].goodput_bps,
            stall_s: flows[0].detail.stall.as_secs_f64(),
            request: flows[1].latency.clone(),
            stream: flows[2].latency.clone(),
        })
    }

    fn trial(
        &mut self,
        contender: Contender<'_>,
        name: String,
        bulk_bps: f64,
        stream_bps: u64,
    ) -> Result<Trial, RunError> {
        let request = self.run(contender, requests(), REQUESTS_END)?.latency;
        let stream = self.run(contender, stream(stream_bps), STREAM_END)?.latency;
        let loaded = self.settings.loaded.then(|| self.loaded(contender)).transpose()?;
        Ok(Trial { name, bulk_bps, request, stream, loaded })
    }
}
