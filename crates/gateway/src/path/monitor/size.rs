//! What a path carries, as told by those who use it.

use super::{BASE, LinkState, MIN_GAP, Monitor};
use tabane_engine::{Duration, Instant};

impl Monitor {
    /// The configuration has been read again: the interval of probes ([`super::MonitorConfig`]),
    /// and the largest inner packet if it is not to be looked for.
    pub(crate) fn handle_config(&mut self, now: Instant, interval: Duration, mtu: Option<u16>) {
        self.clock(now);
        self.config.interval = interval.max(MIN_GAP);
        if mtu != self.config.mtu {
            self.config.mtu = mtu;
            let limit = match self.link {
                LinkState::Ready { limit } => limit,
                LinkState::Absent(_) => BASE,
            };
            self.restart_mtu(limit);
        }
        if self.next_probe > self.now + self.interval() {
            self.next_probe = self.now;
        }
        self.schedule_wake();
    }

    /// Large packets may be getting lost (the engine's retransmission timeouts say so).
    pub(crate) fn suspect_mtu(&mut self, now: Instant) {
        self.clock(now);
        self.mtu.suspect(self.now);
        self.schedule_wake();
    }

    /// An inner packet of `len` bytes was too long for the path, and did not go: `refused` by the
    /// host's own link, or longer than what is known to pass.
    pub(crate) fn handle_too_big(&mut self, now: Instant, len: usize, refused: bool) {
        self.clock(now);
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        if refused {
            self.mtu.too_big(self.now, len.saturating_sub(1));
        }
        self.too_big.note(self.now, len);
        self.schedule_wake();
    }

    /// Packets that were too long for the path.
    #[must_use]
    pub(crate) fn too_big(&self) -> u64 {
        self.too_big.count()
    }
}
