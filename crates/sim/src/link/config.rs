//! What a link direction is made from, and what may be changed on it while it runs.
//!
//! Plain values, already parsed: how a scenario file or a command line writes them is its own
//! business. Queue and loss models are named as policies are (`codel:target_ms=5`), from the
//! tables [`queue::ALL`](super::queue::ALL) and [`loss::ALL`](super::loss::ALL).

use super::conditions::{ConditionsConfig, Course};
use super::medium::Wifi;
use super::{DelayConfig, Faults, RateConfig};
use crate::scenario::{LinkParams, Stage};
use crate::seed::Seed;
use tabane_engine::Duration;
use tabane_engine::policy::{PolicyError, Spec};
use thiserror::Error;

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkConfig {
    /// How fast packets leave the queue.
    pub rate: RateConfig,
    /// How long they travel.
    pub delay: DelayConfig,
    /// The queue in front: a row of [`queue::ALL`](super::queue::ALL).
    pub queue: Spec,
    /// What gets lost on the way: a row of [`loss::ALL`](super::loss::ALL).
    pub loss: Spec,
    /// What real networks do more rarely.
    pub faults: Faults,
    /// How all that changes over time.
    pub conditions: Option<ConditionsConfig>,
    /// What both directions share with other stations: a row of
    /// [`medium::ALL`](super::medium::ALL).
    pub medium: Option<Spec>,
    /// Up at the start.
    pub up: bool,
}

impl Default for LinkConfig {
    /// No limit, no delay, no loss, a queue of 100 packets.
    fn default() -> Self {
        Self {
            rate: RateConfig::Unlimited,
            delay: DelayConfig::Constant(Duration::ZERO),
            queue: Spec::named("droptail"),
            loss: Spec::named("none"),
            faults: Faults::default(),
            conditions: None,
            medium: None,
            up: true,
        }
    }
}

/// A change while the link runs; what is `None` stays.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkChange {
    /// From now on; the packet that is being sent continues at the new rate.
    pub rate: Option<RateConfig>,
    /// For all that have not left the queue yet. Packets do not overtake because of it, unless
    /// the new delay says `reorder`.
    pub delay: Option<DelayConfig>,
    /// The packets that wait move to it, as many as it takes; the rest is dropped.
    pub queue: Option<Spec>,
    /// For all that have not left the queue yet.
    pub loss: Option<Spec>,
    /// For all that have not left the queue yet; `drop` continues to count.
    pub faults: Option<Faults>,
    /// Going down loses everything in the link; while down it loses what comes.
    pub up: Option<bool>,
}

/// Why a link could not be made or changed.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum LinkError {
    /// A queue or loss model that does not exist, or its parameters.
    #[error(transparent)]
    Model(#[from] PolicyError),
    /// A constant rate of zero.
    #[error("a rate of 0 sends nothing: use a change with `up = false`")]
    NoRate,
    /// A probability outside 0 to 1.
    #[error("{what} is {value}, a probability is from 0 to 1")]
    Probability {
        /// Which.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// A model of conditions gives multiples of the link's own rate.
    #[error("its conditions are multiples of a constant rate, which it has not")]
    NoOwnRate,
    /// A medium sends with the link's own rate.
    #[error("a medium needs a constant rate of at least 1 Mbit/s, which the link has not")]
    NoMediumRate,
    /// Conditions and a medium.
    #[error("its conditions do not go with a medium")]
    MediumChanges,
    /// A medium, and one direction only.
    #[error("a medium is for both directions, in the simulator alone: leave it out here")]
    Alone,
}

impl LinkConfig {
    /// Whether a link can be made of it.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), LinkError> {
        super::queue::build(&self.queue)?;
        super::loss::build(&self.loss)?;
        self.rate.check()?;
        self.faults.check()?;
        self.conditions.as_ref().map_or(Ok(()), |conditions| conditions.check(self))?;
        match (&self.medium, &self.rate) {
            (None, _) => Ok(()),
            (Some(_), _) if self.conditions.is_some() => Err(LinkError::MediumChanges),
            (Some(spec), RateConfig::Constant(Wifi::LEAST_RATE..)) => {
                Ok(super::medium::build(spec).map(|_| ())?)
            }
            (Some(_), _) => Err(LinkError::NoMediumRate),
        }
    }

    /// Bits per second that the link called `name` can send on average in the first `time` of a
    /// run, whatever is lost later.
    ///
    /// # Errors
    /// What [`LinkConfig::check`] finds.
    pub fn mean_rate(&self, seed: Seed, name: &str, time: Duration) -> Result<f64, LinkError> {
        self.check()?;
        match (&self.conditions, &self.medium) {
            (Some(given), _) => Ok(Course::new(given, self, seed, name)?.mean_rate(time)),
            (None, Some(spec)) => {
                let wifi = super::medium::build(spec)?;
                Ok(super::medium::mean_rate(&wifi, self.rate.mean() as u64, seed, name, time))
            }
            (None, None) => Ok(self.rate.mean()),
        }
    }
}

impl LinkChange {
    /// What it means for a direction with `params` that it gets those of `over`. It has them from
    /// then on.
    pub fn of(params: &mut LinkParams, over: &LinkParams) -> Self {
        params.lay(over);
        Self {
            rate: over.shapes(Stage::Rate).then(|| RateConfig::of(params)),
            delay: over.shapes(Stage::Delay).then(|| DelayConfig::of(params)),
            queue: over.queue.as_ref().map(|queue| queue.0.clone()),
            loss: over.loss.as_ref().map(|loss| loss.0.clone()),
            faults: over.shapes(Stage::Faults).then(|| Faults::of(params)),
            up: None,
        }
    }

    /// Whether it can be made.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), LinkError> {
        self.queue.as_ref().map(super::queue::build).transpose()?;
        self.loss.as_ref().map(super::loss::build).transpose()?;
        self.rate.as_ref().map_or(Ok(()), RateConfig::check)?;
        self.faults.as_ref().map_or(Ok(()), Faults::check)
    }
}
