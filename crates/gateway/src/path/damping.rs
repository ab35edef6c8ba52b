//! Damping of paths that flap: one that has failed often of late is on trial before it is used
//! again, and never for longer than [`TRIAL_MAX`].

use tabane_engine::{Duration, Instant};

/// When a path failed last.
#[derive(Default, Debug)]
pub(super) struct Damping {
    /// The last failures, oldest first; older ones are forgotten.
    failures: [Option<Instant>; REMEMBERED],
}

const REMEMBERED: usize = 6;
/// Failures count for this long.
const WINDOW: Duration = Duration::from_secs(120);
/// So many failures within [`WINDOW`] may happen to a good path.
const FREE: u32 = 2;
const TRIAL: Duration = Duration::from_secs(2);
/// The longest trial.
const TRIAL_MAX: Duration = Duration::from_secs(20);

impl Damping {
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures.rotate_left(1);
        self.failures[REMEMBERED - 1] = Some(now);
    }

    /// The last failure was none.
    pub(super) fn withdraw(&mut self) {
        self.failures[REMEMBERED - 1] = None;
        self.failures.rotate_right(1);
    }

    /// Time has jumped.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Failures within the window.
    pub(super) fn count(&self, now: Instant) -> u32 {
        self.failures.iter().flatten().filter(|&&at| now - at < WINDOW).count() as u32
    }

    /// How long a path that answers again is watched before it is used.
    pub(super) fn trial(&self, now: Instant) -> Duration {
        match self.count(now).saturating_sub(FREE) {
            0 => Duration::ZERO,
            excess => (TRIAL * (1 << (excess - 1))).min(TRIAL_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_grow_and_are_bounded_and_forgotten() {
        let mut damping = Damping::default();
        let mut trials = Vec::new();
        for second in 0..8 {
            let now = Instant::ZERO + Duration::from_secs(second);
            damping.failed(now);
            trials.push(damping.trial(now).as_millis() / 1000);
        }
        assert_eq!(trials, [0, 0, 2, 4, 8, 16, 16, 16]);
        damping.withdraw();
        assert_eq!(damping.count(Instant::ZERO + Duration::from_secs(8)), 5);
        assert_eq!(damping.trial(Instant::ZERO + Duration::from_secs(130)), Duration::ZERO);
    }
}
