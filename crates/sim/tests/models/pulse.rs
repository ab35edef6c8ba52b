//! `pulse`: a rate that alternates. Ours; no measurement.

use super::{Condition, Conditions, Phase, RateIs};
use crate::seed::Rng;
use tabane_engine::Duration;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] =
    &[Param::new("low", 0.5, 0.0..=1.0, "share of the link's own rate in the low phase")];

/// The model `pulse`.
pub(super) struct Pulse {
    low: f64,
    is_low: bool,
}

impl Pulse {
    pub(super) fn build(values: &Values<'_>) -> Result<Box<dyn Conditions>, PolicyError> {
        Ok(Box::new(Self { low: values.get("low"), is_low: true }))
    }
}

impl Conditions for Pulse {
    fn next(&mut self, _rng: &mut Rng) -> Option<Phase> {
        self.is_low = !self.is_low;
        let rate = RateIs::Times(if self.is_low { self.low } else { 1.0 });
        let condition = Condition { rate, ..Condition::default() };
        Some(Phase { condition, lasts: Duration::from_millis(500) })
    }
}
