//! What a port has done.

/// What a port has done. Bytes are UDP payload.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounters {
    /// Datagrams received.
    pub rx_datagrams: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// System calls that received something.
    pub rx_calls: u64,
    /// Datagrams that the kernel took.
    pub tx_datagrams: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// System calls that sent something.
    pub tx_calls: u64,
    /// Datagrams dropped because the kernel's buffer was full.
    pub dropped_full: u64,
    /// Datagrams dropped for want of a way: host or network unreachable, interface down, no
    /// address on it.
    pub dropped_unreachable: u64,
    /// Datagrams dropped that the link does not carry whole.
    pub dropped_too_big: u64,
    /// Datagrams dropped for want of memory, or by a queue on the way out.
    pub dropped_no_buffer: u64,
    /// Datagrams dropped by a firewall.
    pub dropped_forbidden: u64,
    /// Datagrams dropped for any other reason.
    pub dropped_other: u64,
    /// Errors that receiving met and passed over.
    pub rx_errors: u64,
}

impl PortCounters {
    /// Datagrams that could not be sent, for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_full
            + self.dropped_unreachable
            + self.dropped_too_big
            + self.dropped_no_buffer
            + self.dropped_forbidden
            + self.dropped_other
    }
}
