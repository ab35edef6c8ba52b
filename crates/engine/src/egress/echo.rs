//! RTT of a subflow's own path as its receiver sees it, who may send nothing but ACKs
//! (timestamps: RFC 7323). What shows paths to an [`Egress`](super::Egress) policy measures with
//! this where nothing of its own is acknowledged.

use crate::time::{Duration, Instant};

/// One ACK at a time is timed until data echoes its timestamp. Time that the sender lets pass
/// counts as well, so only the smallest of some seconds is used; and only ACKs that leave by the
/// own path alone are timed, since the faster copy would be echoed. While all ACKs have another
/// way, what was last seen stands.
#[derive(Clone, Copy, Default, Debug)]
pub struct Echo {
    /// TSval of the last segment sent.
    latest: u32,
    timed: Option<(u32, Instant)>,
    /// Smallest RTT of this stretch and of the one before.
    least: [Duration; 2],
    since: Instant,
}

impl Echo {
    /// Length of a stretch.
    const STRETCH: Duration = Duration::from_secs(5);

    /// Begins with the RTT of the handshake, or zero.
    pub fn new(handshake: Duration) -> Self {
        Self { least: [handshake, Duration::ZERO], ..Self::default() }
    }

    /// A segment with TSval `stamp` leaves, by the own path alone or not.
    pub fn on_sent(&mut self, now: Instant, stamp: u32, alone: bool) {
        if !alone {
            // The stamp may be that of the one timed: milliseconds are long.
            self.timed = None;
            return;
        }
        let lost = self.timed.is_some_and(|(_, at)| now - at > Self::STRETCH);
        if stamp != self.latest && (self.timed.is_none() || lost) {
            self.timed = Some((stamp, now));
        }
        self.latest = stamp;
    }

    /// Data came by the own path that echoes `stamp`.
    pub fn on_echo(&mut self, now: Instant, stamp: u32) {
        let Some((timed, at)) = self.timed else { return };
        let age = stamp.wrapping_sub(timed) as i32;
        if age < 0 {
            return;
        }
        self.timed = None;
        if age > 0 {
            return;
        }
        if now - self.since > Self::STRETCH {
            self.least = [Duration::ZERO, self.least[0]];
            self.since = now;
        }
        let least = &mut self.least[0];
        *least = if least.is_zero() { now - at } else { (now - at).min(*least) };
    }

    /// The measured RTT of the own path; zero when unknown.
    pub fn rtt(&self) -> Duration {
        match self.least {
            [new, Duration::ZERO] => new,
            [Duration::ZERO, old] => old,
            [new, old] => new.min(old),
        }
    }
}
