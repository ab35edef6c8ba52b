//! What the threads of a lab tell the one that watches: emulator and hosts on one side, the
//! observers of a run on the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use tabane_engine::mptcp::Info;
use tabane_engine::record::Record;
use tabane_engine::{ConnId, Instant};
use tabane_trace::observe::{CapturePoint, FlowIdx, HostIdx, LinkIdx, LinkSample};

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Told {
    /// A flow's connection exists at a host; the client's was opened just now.
    Opened(Instant, FlowIdx, HostIdx, ConnId),
    /// A record of an engine.
    Record(HostIdx, Box<Record>),
    /// A picture of a connection.
    Sample(Instant, FlowIdx, HostIdx, Box<Info>),
    /// A picture of a link direction.
    Link(Instant, LinkIdx, LinkSample),
    /// A packet passes a point.
    Packet(CapturePoint, Instant, Vec<u8>),
    /// A packet was lost in a link.
    Lost(LinkIdx, Instant, &'static str, Vec<u8>),
    /// The world was changed.
    Changed(Instant, String),
    /// A flow has delivered everything; its connection at the receiving end.
    Completed(Instant, FlowIdx, Box<Info>),
    /// A flow can go no further.
    Failed(FlowIdx, String),
    /// A thread cannot go on.
    Broken(String),
}

/// Things told and not yet heard; more are not told, but counted.
pub(crate) const LIMIT: usize = 1 << 17;

/// Tells.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    out: SyncSender<Told>,
    untold: Arc<AtomicU64>,
}

impl Teller {
    pub(crate) fn new(out: SyncSender<Told>) -> Self {
        Self { out, untold: Arc::new(AtomicU64::new(0)) }
    }

    /// What only observers need: dropped and counted when they cannot keep up.
    pub(crate) fn show(&self, told: Told) {
        if let Err(TrySendError::Full(_)) = self.out.try_send(told) {
            self.untold.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the run itself needs: waits for room.
    pub(crate) fn tell(&self, told: Told) {
        // Nobody hears it any more: the run is over.
        let _ = self.out.send(told);
    }

    pub(crate) fn untold(&self) -> u64 {
        self.untold.load(Ordering::Relaxed)
    }
}
