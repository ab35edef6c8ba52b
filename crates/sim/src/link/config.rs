//! What a link direction is made from, and what may be changed on it while it runs.
//!
//! Plain values, already parsed: how a scenario file or a command line writes them is its own
//! business. Queue and loss models are named as policies are (`codel:target_ms=5`), from the
//! tables [`queue::ALL`](super::queue::ALL) and [`loss::ALL`](super::loss::ALL).

use super::rate::Trace;
use std::sync::Arc;
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
            up: true,
        }
    }
}

/// Rates. Packets count with their IP header and no more.
#[derive(Clone, PartialEq, Debug)]
pub enum RateConfig {
    /// Sending takes no time.
    Unlimited,
    /// Bits per second, at least 1.
    Constant(u64),
    /// Opportunities to send, recorded from a real link.
    Trace(Arc<Trace>),
}

/// Propagation delays, one way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DelayConfig {
    /// The same for all.
    Constant(Duration),
    /// Normally distributed; what would be negative is zero.
    Normal {
        /// Mean.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
        /// Packets may overtake each other; else a packet waits for the one before it.
        reorder: bool,
    },
    /// Uniform in `low ..= high`.
    Uniform {
        /// Least.
        low: Duration,
        /// Most.
        high: Duration,
        /// As above.
        reorder: bool,
    },
}

/// Faults: off by default, for tests that want everything that can go wrong. Probabilities are
/// per packet that leaves the loss stage.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    /// A second copy arrives right behind the first.
    pub duplicate: f64,
    /// One bit arrives flipped.
    pub corrupt: f64,
    /// Comes late by `reorder_by`, overtaken by those sent meanwhile.
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_by: Duration,
    /// The packets with these numbers are lost, counted from 1 at the loss stage; ascending.
    pub drop: Vec<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        let reorder_by = Duration::from_millis(10);
        Self { duplicate: 0.0, corrupt: 0.0, reorder: 0.0, reorder_by, drop: Vec::new() }
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
    /// A uniform delay with `low` above `high`.
    #[error("the least delay is above the greatest")]
    DelayRange,
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
        self.delay.check()?;
        self.faults.check()
    }
}

impl LinkChange {
    /// Whether it can be made.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), LinkError> {
        self.queue.as_ref().map(super::queue::build).transpose()?;
        self.loss.as_ref().map(super::loss::build).transpose()?;
        self.rate.as_ref().map_or(Ok(()), RateConfig::check)?;
        self.delay.as_ref().map_or(Ok(()), DelayConfig::check)?;
        self.faults.as_ref().map_or(Ok(()), Faults::check)
    }
}

impl RateConfig {
    fn check(&self) -> Result<(), LinkError> {
        if matches!(self, Self::Constant(0)) { Err(LinkError::NoRate) } else { Ok(()) }
    }
}

impl DelayConfig {
    /// Whether packets may overtake each other.
    pub fn reorders(&self) -> bool {
        match *self {
            Self::Constant(_) => false,
            Self::Normal { reorder, .. } | Self::Uniform { reorder, .. } => reorder,
        }
    }

    fn check(&self) -> Result<(), LinkError> {
        match self {
            Self::Uniform { low, high, .. } if low > high => Err(LinkError::DelayRange),
            _ => Ok(()),
        }
    }
}

impl Faults {
    fn check(&self) -> Result<(), LinkError> {
        let probabilities =
            [("duplicate", self.duplicate), ("corrupt", self.corrupt), ("reorder", self.reorder)];
        for (what, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(LinkError::Probability { what, value });
            }
        }
        Ok(())
    }
}
