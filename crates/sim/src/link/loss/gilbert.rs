//! Gilbert-Elliott loss: bursts, from a Markov chain of two states.

use super::Loss;
use crate::seed::Rng;
use tabane_engine::policy::{PolicyError, Values};

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
    pub(super) fn build(values: &Values<'_>) -> Result<Option<Box<dyn Loss>>, PolicyError> {
        let p = values.get("p");
        let r = values.get("r");
        let good = values.get("good");
        let bad = values.get("bad");
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
