//! A recorded scenario run again: what its flows got, and how far that rests on rates that nobody
//! saw.
//!
//! Where a rate was not seen, each seed has another one: the interpolated one times a factor from
//! a log-normal distribution, one for each time without sight (Rubin, "Multiple Imputation",
//! 1987). Results over seeds then vary by what chance does on the links and by what is not known
//! of them.

use crate::link::conditions::SHORTEST;
use crate::link::conditions::{Condition, RateIs};
use crate::link::{ConditionsConfig, Series};
use crate::observe::{FlowIdx, HostIdx, Layout, Observer, Wants};
use crate::plan::Plan;
use crate::result::{LatencyResult, RunResult};
use crate::seed::{Seed, exp};
use crate::world::{self, RunError};
use crate::{app::Latencies, scenario::Scenario};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};

/// A time in which the rate of a link direction was not seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unseen {
    /// From the start of the run.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Standard deviation of the logarithm of the rate.
    pub sd: f64,
}

/// What the flows of a run got.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    /// Of bulk flows: their payload over the time that they took, bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// The longest time between two deliveries of a bulk flow, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
    /// Of answers and messages, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_s: Option<f64>,
    /// 95 % were at most that late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p95_s: Option<f64>,
    /// Round-trip times of paths while data went by them, every [`SAMPLE`], seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p50_s: Option<f64>,
    /// 95 % were at most that long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_p95_s: Option<f64>,
}

/// Between two looks, as an agent records.
pub const SAMPLE: Duration = Duration::from_millis(100);
/// A path carries data from here on, bits per second.
const BUSY: f64 = 100_000.0;

/// The same plan with other rates where they were not seen: by number of link direction. The first
/// seed keeps them as they are.
///
/// # Errors
/// As of [`Plan::with_seed`].
pub fn with_unseen(
    plan: &Plan,
    unseen: &BTreeMap<usize, Vec<Unseen>>,
    seed: u64,
) -> Result<Plan, RunError> {
    let mut plan = plan.with_seed(seed)?;
    let mut links = plan.links.to_vec();
    for (n, link) in links.iter_mut().enumerate() {
        let Some(unseen) = unseen.get(&n).filter(|_| seed > 1) else { continue };
        let Some(ConditionsConfig::Series(series)) = &link.config.conditions else { continue };
        let mut rng = Seed(seed).stream(&format!("unseen/{}", link.name()));
        let factors: Vec<f64> = unseen.iter().map(|one| exp(rng.normal() * one.sd)).collect();
        let series = varied(series, unseen, &factors);
        link.config.conditions = Some(ConditionsConfig::Series(Arc::new(series)));
    }
    plan.links = links.into();
    Ok(plan)
}

/// A series whose rate has another factor in each time without sight. Rows begin where that begins
/// and ends: the series may have none there.
fn varied(series: &Series, unseen: &[Unseen], factors: &[f64]) -> Series {
    let mut rows = series.rows().to_vec();
    for at in unseen.iter().flat_map(|one| [one.from, one.to]) {
        let after = rows.partition_point(|(begin, _)| *begin <= at);
        let far = |row: Option<&(Duration, Condition)>| {
            row.is_none_or(|(begin, _)| begin.0.abs_diff(at.0) >= SHORTEST.0)
        };
        let ended = series.period().is_some_and(|period| at + SHORTEST > period);
        if let Some(before) = after.checked_sub(1)
            && far(rows.get(before))
            && far(rows.get(after))
            && !ended
        {
            rows.insert(after, (at, rows[before].1));
        }
    }
    let row = |(at, condition): (Duration, Condition)| {
        // A row that stands for the beginning may be a little before it.
        let within = unseen.partition_point(|one| one.from < at + SHORTEST).checked_sub(1);
        let factor = within.filter(|n| at + SHORTEST <= unseen[*n].to).map_or(1.0, |n| factors[n]);
        let rate = match condition.rate {
            RateIs::Bps(bps) => RateIs::Bps((bps as f64 * factor) as u64),
            other => other,
        };
        (at, Condition { rate, ..condition })
    };
    Series::new(rows.into_iter().map(row).collect(), series.period())
}

/// Runs it.
///
/// # Errors
/// [`RunError`], of a world without progress.
pub fn measure(plan: &Plan) -> Result<Figures, RunError> {
    let mut watch = Watch::default();
    let result = world::run(plan, &mut watch)?;
    Ok(figures(&plan.scenario, &result, &watch))
}

fn figures(scenario: &Scenario, result: &RunResult, watch: &Watch) -> Figures {
    let mut figures = Figures::default();
    let (mut bits, mut seconds, mut stall) = (0.0, 0.0, Duration::ZERO);
    let mut latencies = Latencies::default();
    let mut flows = result.flows.iter();
    for spec in &scenario.flow {
        for (n, flow) in flows.by_ref().take(spec.count as usize).enumerate() {
            if spec.bulk.is_some() {
                let until = spec.stop.map_or(result.ended_s, |stop| stop.0.as_secs_f64());
                let start = spec.start.0 + spec.stagger.0 * n as u64;
                let there = until.min(result.ended_s) - start.as_secs_f64();
                bits += flow.bytes as f64 * 8.0;
                seconds += flow.completed_s.unwrap_or(there).max(1e-3);
                stall = stall.max(flow.detail.stall);
            } else {
                latencies.nanos.extend_from_slice(&flow.detail.latencies);
            }
        }
    }
    if seconds > 0.0 {
        (figures.goodput_bps, figures.stall_s) = (Some(bits / seconds), Some(stall.as_secs_f64()));
    }
    if let Some(found) = LatencyResult::of(&latencies) {
        (figures.latency_p50_s, figures.latency_p95_s) = (Some(found.p50_s), Some(found.p95_s));
    }
    let rtts = Latencies { nanos: watch.rtts.clone(), ..Latencies::default() };
    if let Some(found) = LatencyResult::of(&rtts) {
        (figures.rtt_p50_s, figures.rtt_p95_s) = (Some(found.p50_s), Some(found.p95_s));
    }
    figures
}

/// Round-trip times of paths, by path of a host: as an agent samples them.
#[derive(Default)]
struct Watch {
    /// Bytes of each subflow so far: flow, host, the subflow's number.
    bytes: BTreeMap<(u32, u32, u32), u64>,
    /// Bytes and latest round-trip time of a host's paths in this tick.
    tick: BTreeMap<(u32, u8), (u64, Duration)>,
    at: Instant,
    rtts: Vec<u64>,
}

impl Watch {
    fn flush(&mut self) {
        for (bytes, rtt) in std::mem::take(&mut self.tick).into_values() {
            if bytes as f64 * 8.0 / SAMPLE.as_secs_f64() > BUSY && !rtt.is_zero() {
                self.rtts.push(rtt.0);
            }
        }
    }
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        Wants { sample: Some(SAMPLE), ..Wants::default() }
    }

    fn begin(&mut self, _layout: &Layout) {}

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        if now > self.at {
            self.flush();
            self.at = now;
        }
        for subflow in &info.subflows {
            let path = subflow.path.0;
            let sent = subflow.stats.bytes_sent;
            let known = self.bytes.entry((flow.0, host.0, subflow.number)).or_default();
            // Of a further connection of the flow it begins anew.
            let moved = if sent < *known { sent } else { sent - *known };
            *known = sent;
            let tick = self.tick.entry((host.0, path)).or_default();
            tick.0 += moved;
            if moved > 0 {
                tick.1 = subflow.view.latest_rtt;
            }
        }
    }

    fn end(&mut self, _now: Instant) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "seed = 1\nduration = \"10s\"\n[link.wifi]\nrate = \"20Mbps\"\n\
                        delay = \"10ms\"\nqueue = \"50kB\"\n[[flow]]\nbulk = \"unlimited\"\n";

    #[test]
    fn figures_are_those_of_the_link() {
        let plan = Scenario::parse("x", LINK).unwrap().compile().unwrap();
        let figures = measure(&plan).unwrap();
        let goodput = figures.goodput_bps.unwrap();
        assert!((17e6..20e6).contains(&goodput), "{goodput}");
        let (p50, p95) = (figures.rtt_p50_s.unwrap(), figures.rtt_p95_s.unwrap());
        // 20 ms and at most a queue of 20 ms.
        assert!(0.02 <= p50 && p50 <= p95 && p95 < 0.043, "{p50} {p95}");
        assert_eq!(figures.latency_p50_s, None);
    }

    /// A seed is a pair of runs, also where a change takes a link away or adds one.
    #[test]
    fn a_link_has_the_same_rates_whatever_other_links_there_are() {
        let series = Arc::new(Series::parse("time_s,rate_mbps\n0,10\n5,20\n").unwrap());
        let (from, to) = (Duration::ZERO, Duration::from_secs(10));
        let rates = |links: &[&str]| {
            let link = |name: &&str| format!("[link.{name}]\nrate = \"20Mbps\"\n");
            let links: String = links.iter().map(link).collect();
            let text = format!("seed = 1\n{links}[[flow]]\nbulk = \"1MB\"\n");
            let mut plan = Scenario::parse("x", &text).unwrap().compile().unwrap();
            let mut given = plan.links.to_vec();
            for link in &mut given {
                link.config.conditions = Some(ConditionsConfig::Series(series.clone()));
            }
            plan.links = given.into();
            let unseen =
                (0..plan.links.len()).map(|n| (n, vec![Unseen { from, to, sd: 0.5 }])).collect();
            let plan = with_unseen(&plan, &unseen, 2).unwrap();
            plan.link("lte").unwrap().clone().map(|way| match way.config.conditions {
                Some(ConditionsConfig::Series(series)) => series.rows().to_vec(),
                other => panic!("{other:?}"),
            })
        };
        let [up, down] = rates(&["wifi", "lte"]);
        assert_ne!(up, down);
        assert_eq!(rates(&["lte"]), [up.clone(), down.clone()]);
        assert_eq!(rates(&["dsl", "lte", "wifi"]), [up, down]);
    }

    #[test]
    fn what_was_not_seen_differs_from_seed_to_seed_and_nothing_else() {
        let series = "time_s,rate_mbps\n0,10\n2,20\n4,10\n";
        let series = Series::parse(series).unwrap();
        let at = Duration::from_secs;
        let rates = |from: Duration, to: Duration, factor: f64| {
            let varied = varied(&series, &[Unseen { from, to, sd: 0.5 }], &[factor]);
            let row = |row: &(Duration, Condition)| match row.1.rate {
                RateIs::Bps(bps) => (row.0.as_secs_f64(), bps / 1_000_000),
                other => panic!("{other:?}"),
            };
            varied.rows().iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(rates(at(2), at(4), 0.5), [(0.0, 10), (2.0, 10), (4.0, 10)]);
        assert_eq!(rates(at(2), at(4), 2.0), [(0.0, 10), (2.0, 40), (4.0, 10)]);
        // It may begin and end where the series has no row.
        let between = [(0.0, 10), (1.0, 20), (2.0, 40), (3.0, 20), (4.0, 10)];
        assert_eq!(rates(at(1), at(3), 2.0), between);
        let little = Duration::from_micros(50);
        assert_eq!(rates(at(2) + little, at(4) + little, 2.0), [(0.0, 10), (2.0, 40), (4.0, 10)]);
    }
}
