//! Conditions: how rate, delay, loss and queue of a link direction change together over time, as
//! measured (a [`Series`]) or by a model of a kind of link.
//!
//! A model gives one phase after the other, whatever the packets do. Both directions of a link
//! draw from one random stream, so that an outage is one of the link.

mod bursts;
mod cellular;
mod course;
mod leo;
pub mod measured;
mod series;

use super::config::LinkError;
use super::{LinkConfig, RateConfig};
use crate::seed::Rng;
use std::sync::Arc;
use tabane_engine::Duration;
use tabane_engine::policy::{Entry, PolicyError, Registry, Spec, Values};

pub(super) use course::Course;
pub(crate) use series::lines;
pub use series::{Series, SeriesError};

/// What a link direction is like for a while.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Condition {
    /// How fast packets leave the queue.
    pub rate: RateIs,
    /// How long they travel. Packets do not overtake because of it.
    pub delay: DelayIs,
    /// Share of packets lost, each by itself, instead of by the link's own model.
    pub loss: Option<f64>,
    /// A drop-tail queue of this size instead of the link's own.
    pub queue: Option<QueueIs>,
}

/// A rate.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum RateIs {
    /// The link's own.
    #[default]
    Own,
    /// This many times the link's own, which is constant.
    Times(f64),
    /// Bits per second; at 0 what comes waits.
    Bps(u64),
}

/// A delay, one way.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum DelayIs {
    /// The link's own.
    #[default]
    Own,
    /// The link's own and this.
    More(Duration),
    /// This, with the link's own jitter.
    Exactly(Duration),
}

/// The size of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum QueueIs {
    /// Most packets that wait.
    Packets(u64),
    /// Most bytes that wait.
    Bytes(u64),
    /// What the link's own rate sends in this time.
    Time(Duration),
}

/// A condition and how long it lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// What the link is like.
    pub condition: Condition,
    /// At least [`SHORTEST`].
    pub lasts: Duration,
}

/// Phases are not shorter: a run would not end otherwise.
pub const SHORTEST: Duration = Duration::from_micros(100);

/// Conditions over time.
pub trait Conditions: Send {
    /// The next phase; `None`: the last one lasts for ever. How often it draws must not depend on
    /// parameters that may differ between the directions of a link.
    fn next(&mut self, rng: &mut Rng) -> Option<Phase>;
}

/// Signature of a row's constructor.
pub type Build = dyn Fn(&Values<'_>) -> Result<Box<dyn Conditions>, PolicyError> + Send + Sync;

/// Every model of a kind of link.
pub const ALL: &[Entry<Build>] = &[
    Entry {
        name: "bursts",
        aliases: &["fading"],
        summary: "losses in bursts of time, whatever is sent",
        params: bursts::PARAMS,
        build: &bursts::Bursts::build,
    },
    Entry {
        name: "cellular",
        aliases: &["lte"],
        summary: "a rate that wanders, scheduled in bursts, handovers, a queue of seconds",
        params: cellular::PARAMS,
        build: &cellular::Cellular::build,
    },
    Entry {
        name: "leo",
        aliases: &["starlink"],
        summary: "satellites in low orbit: another one every 15 s, with outage, loss and RTT step",
        params: leo::PARAMS,
        build: &leo::Leo::build,
    },
];

/// What can be named: [`ALL`], and what a program registers.
pub static REGISTRY: Registry<Build> = Registry::new("link model", ALL);

/// Makes the model that `spec` names.
///
/// # Errors
/// [`PolicyError`] for unknown names and parameters, and values out of range.
pub fn build(spec: &Spec) -> Result<Box<dyn Conditions>, PolicyError> {
    let (entry, values) = REGISTRY.find(spec)?;
    (entry.build)(&values)
}

/// Where conditions come from.
#[derive(Clone, PartialEq, Debug)]
pub enum ConditionsConfig {
    /// A row of [`ALL`].
    Model(Spec),
    /// Measured.
    Series(Arc<Series>),
}

impl ConditionsConfig {
    fn build(&self) -> Result<Box<dyn Conditions>, PolicyError> {
        match self {
            Self::Model(spec) => build(spec),
            Self::Series(series) => Ok(Box::new(series::Played::new(series.clone()))),
        }
    }

    /// Whether they say how fast the link is, whatever its own rate.
    pub fn has_rate(&self) -> bool {
        matches!(self, Self::Series(series) if series.has_rate())
    }

    pub(super) fn check(&self, config: &LinkConfig) -> Result<(), LinkError> {
        self.build()?;
        let constant = matches!(config.rate, RateConfig::Constant(_));
        match self {
            Self::Model(_) if !constant => Err(LinkError::NoOwnRate),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
