//! What a path carries, as told by those who use it.

use super::Monitor;
use tabane_engine::Instant;

impl Monitor {
    /// Large packets may be getting lost (the engine's retransmission timeouts say so).
    pub fn suspect_mtu(&mut self, now: Instant) {
        self.clock(now);
        self.mtu.suspect(self.now);
        self.schedule_wake();
    }

    /// An inner packet of `len` bytes was too long for the path, and did not go: `refused` by the
    /// host's own link, or longer than what is known to pass.
    pub fn handle_too_big(&mut self, now: Instant, len: usize, refused: bool) {
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
    pub fn too_big(&self) -> u64 {
        self.too_big.count()
    }
}
