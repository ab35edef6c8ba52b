//! What real networks do to packets more rarely.

use super::{Fate, LinkError};
use crate::scenario::LinkParams;
use crate::seed::Rng;
use tabane_config::quantity::Ratio;
use tabane_engine::Duration;

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

impl Faults {
    /// What scenarios ask for.
    pub fn of(params: &LinkParams) -> Self {
        let share = |ratio: Option<Ratio>| ratio.map_or(0.0, |share| share.0);
        Self {
            duplicate: share(params.duplicate),
            corrupt: share(params.corrupt),
            reorder: share(params.reorder),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), LinkError> {
        let probabilities =
            [("duplicate", self.duplicate), ("corrupt", self.corrupt), ("reorder", self.reorder)];
        for (what, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(LinkError::Probability { what, value });
            }
        }
        Ok(())
    }

    /// Whether one is on.
    pub(super) fn any(&self) -> bool {
        let Self { duplicate, corrupt, reorder, drop, .. } = self;
        *duplicate > 0.0 || *corrupt > 0.0 || *reorder > 0.0 || !drop.is_empty()
    }

    /// What they do to the packet with this number.
    #[inline(always)]
    pub(super) fn apply(&self, number: u64, rng: &mut Rng, fate: &mut Fate) {
        let Self { duplicate, corrupt, reorder, reorder_by, drop } = self;
        fate.listed = drop.binary_search(&number).is_ok();
        fate.duplicate = *duplicate > 0.0 && rng.chance(*duplicate);
        fate.corrupt = (*corrupt > 0.0 && rng.chance(*corrupt)).then(|| rng.bits());
        fate.late = (*reorder > 0.0 && rng.chance(*reorder)).then_some(*reorder_by);
    }
}
