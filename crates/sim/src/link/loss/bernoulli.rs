//! Bernoulli loss: each packet by itself.

use super::Loss;
use crate::seed::Rng;
use tabane_engine::policy::{Params, PolicyError};

/// Independent loss.
pub(super) struct Bernoulli {
    p: f64,
}

impl Bernoulli {
    pub(super) fn build(params: &Params) -> Result<Option<Box<dyn Loss>>, PolicyError> {
        let p = params.in_range("p", 0.01, 0.0..=1.0)?;
        Ok(Some(Box::new(Self { p })))
    }
}

impl Loss for Bernoulli {
    fn lost(&mut self, rng: &mut Rng) -> bool {
        rng.chance(self.p)
    }
}
