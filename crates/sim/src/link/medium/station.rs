//! A direction's place at its medium.

use super::dcf::Dcf;
use super::{Outcome, Wifi};
use crate::seed::Seed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tabane_engine::Instant;

/// One of the two ends of a link, as the medium knows it. Both may be used from any thread; in a
/// world one has the lock for a moment, and nobody waits for it.
pub(in crate::link) struct Station {
    medium: Arc<Mutex<Dcf>>,
    own: usize,
    bps: u64,
}

impl Station {
    /// The ends of a link, up first, whose directions are called `name` (`link/wifi/up`).
    pub(in crate::link) fn both(wifi: &Wifi, bps: [u64; 2], seed: Seed, name: &str) -> [Self; 2] {
        let link = name.rsplit_once('/').map_or(name, |(link, _)| link);
        let medium = Arc::new(Mutex::new(Dcf::new(wifi, bps[0], seed, link)));
        [0, 1].map(|own| Self { medium: medium.clone(), own, bps: bps[own] })
    }

    fn medium(&self) -> MutexGuard<'_, Dcf> {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet of `len` bytes is to be sent. One at a time: after the [`Outcome`] of the last one.
    pub(in crate::link) fn offer(&mut self, now: Instant, len: u32) {
        self.medium().offer(self.own, now, len, self.bps);
    }

    /// What became of the offered packet, if that is known at `now`.
    pub(in crate::link) fn outcome(&mut self, now: Instant) -> Option<Outcome> {
        let mut medium = self.medium();
        medium.advance(now);
        medium.take_outcome(self.own)
    }

    /// When the outcome may be known: not before, but perhaps later. Far in the future if nothing
    /// was offered.
    pub(in crate::link) fn outlook(&self) -> Instant {
        self.medium().outlook(self.own)
    }

    /// Nothing is to be sent any more. What is on the air stays there.
    pub(in crate::link) fn withdraw(&mut self, now: Instant) {
        self.medium().withdraw(self.own, now);
    }

    /// Packets offered from now on are sent at this rate.
    pub(in crate::link) fn set_rate(&mut self, bps: u64) {
        self.bps = bps;
    }

    /// Times that this end has sent a frame so far.
    pub(in crate::link) fn attempts(&self) -> u64 {
        self.medium().counters(self.own).attempts
    }
}
