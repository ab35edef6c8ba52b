//! What a subflow counts.

use crate::with::with;

/// Counters of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
#[non_exhaustive]
pub struct Stats {
    /// Payload bytes sent, repeats included.
    pub bytes_sent: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Payload bytes acknowledged cumulatively.
    pub bytes_acked: u64,
    /// Payload bytes received, repeats included.
    pub bytes_received: u64,
    /// Of these, bytes that had been received before.
    pub bytes_duplicate: u64,
    /// Segments sent, retransmissions and pure ACKs included.
    pub segments_sent: u64,
    /// Segments received, those that were dropped included.
    pub segments_received: u64,
    /// Times fast recovery was entered.
    pub recoveries: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Congestion responses undone.
    pub undone: u64,
    /// Tail loss probes sent.
    pub tail_loss_probes: u64,
    /// Segments dropped on arrival.
    pub dropped: u64,
}

with!(Stats);

/// Bytes acknowledged between losses (OLIA's l1 and l2).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LossInterval {
    /// `Stats::bytes_acked` at the last loss.
    at: u64,
    previous: u64,
}

impl LossInterval {
    /// A congestion signal after `acked` bytes in all. Signals without progress between them are
    /// one.
    pub(super) fn on_congestion(&mut self, acked: u64) {
        if acked > self.at {
            self.previous = acked - self.at;
            self.at = acked;
        }
    }

    /// The larger of the present interval and the one before it.
    pub(super) fn get(&self, acked: u64) -> u64 {
        (acked - self.at).max(self.previous)
    }
}
