//! `bursts`: losses in bursts of time, as of a radio link that fades.
//!
//! The chain of two states of Gilbert (1960) and Elliott (1963) in continuous time: both last
//! exponentially distributed times. The loss model `gilbert` counts packets instead: there a burst
//! lasts until enough packets have been lost in it, so that who sends little waits for long.

use super::{Condition, Conditions, Phase};
use crate::seed::Rng;
use tabane_engine::Duration;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] = &[
    Param::new("share", 0.005, 1e-6..=0.9, "share of the time in which packets are lost"),
    Param::new("burst_ms", 5.0, 0.1..=1e6, "mean length of a burst, ms"),
    Param::new("loss", 1.0, 0.0..=1.0, "share of packets lost in a burst"),
];

/// The model `bursts`.
pub(super) struct Bursts {
    burst: Duration,
    pause: Duration,
    loss: f64,
    in_burst: bool,
}

impl Bursts {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Conditions>, PolicyError> {
        let (share, burst) = (values.get("share"), values.get("burst_ms") / 1e3);
        Ok(Box::new(Self {
            burst: Duration::from_secs_f64(burst),
            pause: Duration::from_secs_f64(burst * (1.0 - share) / share),
            loss: values.get("loss"),
            in_burst: true,
        }))
    }
}

impl Conditions for Bursts {
    fn next(&mut self, rng: &mut Rng) -> Option<Phase> {
        self.in_burst = !self.in_burst;
        let loss = self.in_burst.then_some(self.loss);
        let mean = if self.in_burst { self.burst } else { self.pause };
        let lasts = rng.exponential_span(mean);
        Some(Phase { condition: Condition { loss, ..Condition::default() }, lasts })
    }
}
