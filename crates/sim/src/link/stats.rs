//! What went through a link direction.

use tabane_engine::Duration;

/// Packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

/// Totals of a link direction since it was made.
///
/// `offered + duplicated = dropped + lost + cut + delivered +` what is still in the link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStats {
    /// Came.
    pub offered: Count,
    /// Were taken into the queue, or sent at once.
    pub enqueued: Count,
    /// Dropped by the queue, when they came or at its head.
    pub dropped: Count,
    /// Lost by the loss model or the list of drops, after they had been sent.
    pub lost: Count,
    /// Lost because the link was or went down.
    pub cut: Count,
    /// Arrived at the other end.
    pub delivered: Count,
    /// Copies made by the fault `duplicate`.
    pub duplicated: Count,
    /// Marked Congestion Experienced by the queue.
    pub marked: u64,
    /// Damaged by the fault `corrupt`.
    pub corrupted: u64,
    /// Most packets that waited at one time.
    pub queue_packets_max: u64,
    /// Most bytes that waited at one time.
    pub queue_bytes_max: u64,
    /// Time spent sending.
    pub busy: Duration,
}
