//! What the rows of links have in common: a gateway over the links of a scenario of
//! `scenarios/links`, emulated in real time with the scenario's seed, and programs that use it.

use super::trail::Trail;
use crate::bed::flow::{Arrivals, Flow};
use crate::bed::requests::{Habit, Requests};
use crate::bed::source::Source;
use crate::bed::{Bed, Plan};
use crate::say;
use anyhow::Context;
use tabane_engine::{Duration, Instant};
use tabane_gateway::config::rule::Policies;
use tabane_sim::attainable::PAYLOAD;
use tabane_sim::scenario::Document;

/// Files that the scenarios name.
pub(super) const FILES: [(&str, &str); 2] = [
    ("train-a.csv", include_str!("../../../../scenarios/links/train-a.csv")),
    ("train-b.csv", include_str!("../../../../scenarios/links/train-b.csv")),
];

/// A scenario's links.
#[derive(Debug)]
pub(super) struct Scene {
    name: &'static str,
    text: &'static str,
    pub(super) plan: tabane_sim::Plan,
}

/// Who uses them.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// Downloads without end, or uploads.
    pub(super) bulk: usize,
    pub(super) upload: bool,
    /// Programs that ask.
    pub(super) requests: Vec<Habit>,
}

/// When it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Not counted: until flows have found their rates.
    pub(super) warm: Duration,
    /// After that.
    pub(super) length: Duration,
}

/// What came of a load.
pub(super) struct Outcome {
    /// Payload of all bulk flows, bits per second.
    pub(super) bps: f64,
    /// What the links could have carried of it in that time, bits per second.
    pub(super) attainable: f64,
    /// The longest time without a byte of any bulk flow, seconds.
    pub(super) stall: f64,
    /// How long answers took, seconds.
    pub(super) answers: Vec<f64>,
}

impl Scene {
    /// One of `scenarios/links`.
    ///
    /// # Errors
    /// None with the files as they are committed.
    pub(super) fn new(name: &'static str, text: &'static str) -> anyhow::Result<Self> {
        Ok(Self { name, text, plan: compile(name, text, &[])? })
    }

    /// As the simulator or the lab would run it, with other settings.
    ///
    /// # Errors
    /// A setting that cannot be.
    pub(super) fn with(&self, sets: &[String]) -> anyhow::Result<tabane_sim::Plan> {
        compile(self.name, self.text, sets)
    }

    /// A gateway over its links, all paths working.
    ///
    /// # Errors
    /// No sockets, or a path that does not come up.
    pub(super) fn bed(&self) -> anyhow::Result<Bed> {
        let mut paths = Vec::new();
        for (name, _) in self.plan.scenario.link.iter() {
            let [up, down] = self.plan.link(name).context("invariant: it has this link")?;
            paths.push((name.to_owned(), Some([up.config.clone(), down.config.clone()])));
        }
        let (seed, policies) = (self.plan.scenario.seed, Policies::default());
        let bed = Bed::start(&Plan { paths, seed, client: |_| {}, server: |_| {}, policies })?;
        bed.wait_for_paths(|| false)?;
        Ok(bed)
    }

    /// Payload that its links carry between two moments, bits per second. What they lose counts.
    ///
    /// # Errors
    /// None with the files as they are committed.
    pub(super) fn attainable(
        &self,
        upload: bool,
        from: Instant,
        to: Instant,
    ) -> anyhow::Result<f64> {
        let mut bits = 0.0;
        for way in self.plan.links.iter().skip(usize::from(!upload)).step_by(2) {
            let until = |at: Instant| -> anyhow::Result<f64> {
                let time = at - Instant::ZERO;
                Ok(way.mean_rate(self.plan.scenario.seed, time)? * time.as_secs_f64())
            };
            bits += until(to)? - if from == Instant::ZERO { 0.0 } else { until(from)? };
        }
        Ok(bits * PAYLOAD / (to - from).as_secs_f64())
    }

    /// The least round-trip time of its links without a queue, seconds.
    pub(super) fn least_rtt(&self) -> f64 {
        let delay = |n: usize| self.plan.links[n].params.delay.map_or(0.0, |d| d.0.as_secs_f64());
        let trips = (0..self.plan.links.len()).step_by(2).map(|n| delay(n) + delay(n + 1));
        trips.fold(f64::MAX, f64::min)
    }

    /// Runs a load through a gateway.
    ///
    /// # Errors
    /// A flow that fails.
    pub(super) fn run(&self, load: &Load, span: Span) -> anyhow::Result<Outcome> {
        let (bed, source) = (self.bed()?, Source::start()?);
        let mut flows = Vec::new();
        for _ in 0..load.bulk {
            flows.push(match load.upload {
                true => Flow::upload(bed.clock, bed.socks)?,
                false => Flow::start(bed.clock, bed.socks, source.address())?,
            });
        }
        let mut programs = Vec::new();
        for habit in &load.requests {
            programs.push(Requests::start(bed.clock, bed.socks, source.address(), *habit)?);
        }
        let begin = bed.clock.now() + span.warm;
        let end = begin + span.length;
        let mut trail = Trail::new(self.name, load.upload);
        trail.until(&bed, end)?;
        let flows = flows.into_iter().map(Flow::end).collect::<anyhow::Result<Vec<_>>>()?;
        let asked = programs.into_iter().map(Requests::end).collect::<anyhow::Result<Vec<_>>>()?;
        trail.events(&bed)?;
        let ended = bed.end()?;
        let within = |(at, _): &(Instant, f64)| *at >= begin && *at < end;
        let answers = asked.into_iter().flatten().filter(within).map(|(_, took)| took).collect();
        let outcome = Outcome {
            bps: flows.iter().map(|flow| flow.bps(begin, end)).sum(),
            attainable: self.attainable(load.upload, begin, end)?,
            stall: Arrivals::together(&flows).longest_gap(begin, end).as_secs_f64(),
            answers,
        };
        let [half, most] = [0.5, 0.99].map(|share| ended.network.lateness.quantile_us(share));
        say::detail(&format!("    packets left the links {half} us late, 99 % within {most} us"));
        Ok(outcome)
    }
}

impl Span {
    /// In seconds.
    pub(super) fn new(warm: f64, length: f64) -> Self {
        Self { warm: Duration::from_secs_f64(warm), length: Duration::from_secs_f64(length) }
    }

    /// Both.
    pub(super) fn whole(self) -> Duration {
        self.warm + self.length
    }
}

impl Outcome {
    /// Goodput over what is attainable.
    pub(super) fn share(&self) -> f64 {
        self.bps / self.attainable
    }

    /// What the share is made of.
    pub(super) fn note(&self) -> String {
        let [got, all] = [self.bps, self.attainable].map(|bps| bps / 1e6);
        format!("{got:.1} of {all:.1} Mbit/s; longest stall {:.2} s", self.stall)
    }
}

fn compile(
    name: &'static str,
    text: &'static str,
    sets: &[String],
) -> anyhow::Result<tabane_sim::Plan> {
    let document = Document::parse(name, text, sets)?.with_files(&FILES);
    let variants = document.variants()?;
    // Those of a sweep have the same links.
    Ok(variants.into_iter().next().context("an empty sweep")?.plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_attainable_follows_the_links() {
        let train = include_str!("../../../../scenarios/links/train.toml");
        let train = Scene::new("train", train).unwrap();
        let mbit = |from, to| train.attainable(false, at(from), at(to)).unwrap() / 1e6;
        // The traces' first rows: 5.4 + 38.2, then 33.9 + 37.9 Mbit/s.
        assert!((mbit(0, 1) - 43.6 * PAYLOAD).abs() < 0.01, "{}", mbit(0, 1));
        assert!((mbit(1, 2) - 71.8 * PAYLOAD).abs() < 0.01, "{}", mbit(1, 2));
        let far = include_str!("../../../../scenarios/links/far.toml");
        let far = Scene::new("far", far).unwrap();
        assert!((far.attainable(true, at(3), at(5)).unwrap() / 1e6 - 102.0 * PAYLOAD).abs() < 0.01);
        assert!((far.least_rtt() - 0.020).abs() < 1e-9);
    }
}
