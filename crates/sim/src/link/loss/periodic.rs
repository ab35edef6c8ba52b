//! Periodic loss: each n-th packet. What the response functions of Mathis, RFC 3649 and RFC 9438
//! are derived for; no link does that.

use super::Loss;
use crate::seed::Rng;
use tabane_engine::policy::{Param, PolicyError, Values};

/// Parameters of the table row.
pub(super) const PARAMS: &[Param] =
    &[Param::count("n", 1000.0, 1.0..=1e9, "packets of which the last is lost")];

/// Counts packets.
pub(super) struct Periodic {
    every: u64,
    sent: u64,
}

impl Periodic {
    pub(super) fn build(values: &Values<'_>) -> Result<Option<Box<dyn Loss>>, PolicyError> {
        let every = values.get("n") as u64;
        Ok(Some(Box::new(Self { every, sent: 0 })))
    }
}

impl Loss for Periodic {
    fn lost(&mut self, _rng: &mut Rng) -> bool {
        self.sent += 1;
        self.sent.is_multiple_of(self.every)
    }
}
