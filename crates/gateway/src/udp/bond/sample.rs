//! What markers say.

/// What one end has counted, and when by its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reading {
    /// Microseconds since an origin of that end's.
    pub(crate) at_us: u64,
    /// Packets so far.
    pub(crate) packets: u64,
    /// Their bytes, as inner packets.
    pub(crate) bytes: u64,
}

/// A marker: what its sender had sent before it, and its receiver received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// When the marker left.
    pub(crate) sent: Reading,
    /// When it came.
    pub(crate) received: Reading,
}

impl Sample {
    /// The far clock at arrival minus the own one at leaving, nanoseconds.
    pub(crate) fn one_way(&self) -> i64 {
        (self.received.at_us.wrapping_sub(self.sent.at_us) as i64).saturating_mul(1000)
    }
}
