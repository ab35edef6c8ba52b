//! The monotonic clock as the engine's [`Instant`], and the wall clock that belongs to it.
//!
//! The only place of the data plane that reads a clock. Threads that share a [`Clock`] agree on
//! the origin.

use std::time::{SystemTime, UNIX_EPOCH};
use tabane_engine::Instant;

/// A clock whose origin is the moment it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
    wall: SystemTime,
}

impl Clock {
    /// Starts at [`Instant::ZERO`].
    #[allow(clippy::disallowed_methods)] // The one place where time comes in.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now(), wall: SystemTime::now() }
    }

    /// Time since the origin.
    #[allow(clippy::disallowed_methods)] // See above.
    #[must_use]
    pub fn now(&self) -> Instant {
        // 2^64 ns are 584 years.
        Instant(self.origin.elapsed().as_nanos() as u64)
    }

    /// The wall clock now, as whoever sets it has it.
    #[allow(clippy::disallowed_methods)] // See above.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    /// What the wall clock says now of the moment `at`, since 1970. It may be set while the agent
    /// runs (a board without a clock of its own begins in 1970), and goes on while a machine is
    /// suspended, when this clock stands still: what is to be remembered is of this time.
    #[must_use]
    pub fn unix(&self, at: Instant) -> std::time::Duration {
        let now = self.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(self.now().saturating_since(at).into())
    }

    /// The wall clock at the origin.
    #[must_use]
    pub fn wall_origin(&self) -> SystemTime {
        self.wall
    }
}

/// Makes sleeps of this thread end within about a microsecond of what was asked, instead of the
/// 50 us that Linux adds by default. Best effort: precision is all that is lost if it fails.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
