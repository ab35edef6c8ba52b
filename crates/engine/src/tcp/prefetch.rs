//! Which parts of a subflow a segment will need: asked for in time when thousands of connections
//! take turns (`cache.rs`).

use super::Tcb;
use crate::cache::fetch;

impl Tcb {
    /// Asks for what a segment will need: see `cache.rs`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch(&self.snd_una);
        fetch(&self.state);
        fetch(&self.peer);
        fetch(&self.setup);
        fetch(&self.setup.remote);
        fetch(&self.rx);
        fetch(&self.rx.due);
        fetch(&self.tx);
        fetch(&self.config);
        fetch(&self.timers);
        fetch(&self.rtt);
        fetch(&self.recovery);
        fetch(&self.recovery.phase);
        fetch(&self.window);
        fetch(&self.rate);
        fetch(&self.limited);
        fetch(&self.stats);
        fetch(&self.stats.segments_received);
        fetch(&self.log);
        fetch(&self.cc);
    }

    /// As `prefetch`, once that has had its effect: what it points to.
    #[inline]
    pub(crate) fn prefetch_queues(&self) {
        self.tx.prefetch();
    }
}
