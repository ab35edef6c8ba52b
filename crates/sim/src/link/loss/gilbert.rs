//! Gilbert-Elliott loss: bursts, from a Markov chain of two states.

use super::Loss;
use crate::seed::Rng;
use tabane_engine::policy::{Params, PolicyError};

/// Gilbert (1960) and Elliott (1963): a packet is subject to the loss of the state it finds, then
/// the state may change. Begins good. Mean loss `(p bad + r good) / (p + r)`, mean length of a bad
/// phase `1 / r` packets.
pub(super) struct Gilbert {
    p: f64,
    r: f64,
    good: f64,
    bad: f64,
    in_bad: bool,
}

impl Gilbert {
    pub(super) fn build(params: &Params) -> Result<Option<Box<dyn Loss>>, PolicyError> {
        let p = params.in_range("p", 0.01, 0.0..=1.0)?;
        let r = params.in_range("r", 0.25, 0.0..=1.0)?;
        let good = params.in_range("good", 0.0, 0.0..=1.0)?;
        let bad = params.in_range("bad", 1.0, 0.0..=1.0)?;
        Ok(Some(Box::new(Self { p, r, good, bad, in_bad: false })))
    }
}

impl Loss for Gilbert {
    fn lost(&mut self, rng: &mut Rng) -> bool {
        let (loss, change) = if self.in_bad { (self.bad, self.r) } else { (self.good, self.p) };
        let lost = rng.chance(loss);
        self.in_bad ^= rng.chance(change);
        lost
    }
}
