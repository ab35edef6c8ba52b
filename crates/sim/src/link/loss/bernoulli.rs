//! Bernoulli loss: each packet by itself.

use super::Loss;
use crate::seed::Rng;
use tabane_engine::policy::{PolicyError, Values};

/// Independent loss.
pub(super) struct Bernoulli {
    p: f64,
}

impl Bernoulli {
    pub(super) fn build(values: &Values<'_>) -> Result<Option<Box<dyn Loss>>, PolicyError> {
        let p = values.get("p");
        Ok(Some(Box::new(Self { p })))
    }
}

impl Loss for Bernoulli {
    fn lost(&mut self, rng: &mut Rng) -> bool {
        rng.chance(self.p)
    }
}
