//! Notifications from the threads of a lab (emulator, hosts) to the thread that runs the observers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use tabane_engine::mptcp::Info;
use tabane_engine::record::Record;
use tabane_engine::{ConnId, Instant};
use tabane_trace::observe::{CapturePoint, FlowIdx, HostIdx, LinkIdx, LinkSample};

#[derive(Debug)]
pub(crate) enum Notification {
    /// A flow's connection exists at a host; the client's was opened just now.
    Opened(Instant, FlowIdx, HostIdx, ConnId),
    /// A record of an engine.
    Record(HostIdx, Box<Record>),
    /// A snapshot of a connection.
    Sample(Instant, FlowIdx, HostIdx, Box<Info>),
    /// A snapshot of a link direction.
    Link(Instant, LinkIdx, LinkSample),
    /// A packet passed a point of capture.
    Packet(CapturePoint, Instant, Vec<u8>),
    /// A packet was lost in a link.
    Lost(LinkIdx, Instant, &'static str, Vec<u8>),
    /// A change of the scenario was made.
    Changed(Instant, String),
    /// A flow has delivered everything; its connection at the receiving end.
    Completed(Instant, FlowIdx, Box<Info>),
    /// A flow can go no further.
    Failed(FlowIdx, String),
    /// A thread cannot go on.
    Broken(String),
}

/// Notifications that may wait in the channel; what observers alone need is dropped beyond this.
pub(crate) const LIMIT: usize = 1 << 17;

/// The sending side of the channel, one clone a thread.
#[derive(Clone, Debug)]
pub(crate) struct Notifier {
    out: SyncSender<Notification>,
    dropped: Arc<AtomicU64>,
}

impl Notifier {
    pub(crate) fn new(out: SyncSender<Notification>) -> Self {
        Self { out, dropped: Arc::new(AtomicU64::new(0)) }
    }

    /// For what only observers need: dropped, and counted, when they cannot keep up.
    pub(crate) fn try_send(&self, notification: Notification) {
        if let Err(TrySendError::Full(_)) = self.out.try_send(notification) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// For what the run itself needs: waits while the channel is full.
    pub(crate) fn send(&self, notification: Notification) {
        // The receiver is gone: the run is over.
        let _ = self.out.send(notification);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
