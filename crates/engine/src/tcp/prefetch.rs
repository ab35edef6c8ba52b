//! Which parts of a subflow a segment will need, to be prefetched when there are thousands of
//! connections (`cache.rs`).

use super::Tcb;
use crate::cache::{fetch_from, fetch_start};

impl Tcb {
    /// Asks for what any segment will need: see `cache.rs`.
    #[inline]
    pub(crate) fn prefetch(&self) {
        fetch_from(&self.state, &self.setup.congestion);
        fetch_from(&self.stats, &self.stats.recoveries);
        fetch_from(&self.rx, &self.tx.scanned);
    }

    /// Asks for what an acknowledgement of data will need beside that.
    #[inline]
    pub(crate) fn prefetch_sender(&self) {
        fetch_from(&self.tx.scanned, &self.loss_interval);
    }

    /// As `prefetch_sender`, once that has had its effect: what it points to.
    #[inline]
    pub(crate) fn prefetch_queues(&self) {
        self.tx.prefetch();
        fetch_start(&*self.cc, 192);
    }
}
