//! Why a packet could not be parsed or emitted.

/// Why bytes are not the packet that was asked for. Such packets are dropped; the text is the
/// reason that goes into the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The packet ends inside the named header, or before the length that the header states.
    #[error("{0}: truncated")]
    Truncated(&'static str),
    /// A length field contradicts itself (a header shorter than its minimum, or longer than
    /// what carries it).
    #[error("{0}: impossible length field")]
    Length(&'static str),
    /// Neither 4 nor 6.
    #[error("IP version {0}")]
    Version(u8),
    /// A fragment: reassembly is not done here, PMTU discovery avoids fragments.
    #[error("IP fragment")]
    Fragment,
    /// An IPv6 routing header with segments left: the packet is not at its destination.
    #[error("IPv6 routing header with segments left")]
    SourceRoute,
    /// Another upper-layer protocol than the one asked for, by its IP protocol number.
    #[error("IP protocol {0}")]
    Protocol(u8),
    /// The checksum of the named header does not fit.
    #[error("{0}: wrong checksum")]
    Checksum(&'static str),
    /// A TCP option whose length is impossible (RFC 9293 section 3.1, MUST-7).
    #[error("TCP option {kind} with length {length}")]
    OptionLength {
        /// Option kind.
        kind: u8,
        /// Its length byte; 0 where the byte itself is missing.
        length: u8,
    },
    /// An ICMP message other than "packet too big".
    #[error("ICMP type {kind} code {code}")]
    IcmpType {
        /// ICMP or ICMPv6 type.
        kind: u8,
        /// Code.
        code: u8,
    },
}

/// Why a value could not be emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is too small.
    #[error("packet of {needed} bytes into a buffer of {available}")]
    Buffer {
        /// Bytes the packet has.
        needed: usize,
        /// Bytes the buffer has.
        available: usize,
    },
    /// IP's length field has 16 bits: 65535 bytes with the header (IPv4) or without (IPv6).
    #[error("packet of {0} bytes is too long for IP")]
    TooLong(usize),
    /// Source and destination are not of one IP version.
    #[error("source and destination addresses of different IP versions")]
    MixedFamilies,
    /// TCP's option space is 40 bytes.
    #[error("TCP options of {0} bytes; at most 40 fit")]
    OptionSpace(usize),
    /// An MPTCP option that has no encoding.
    #[error("MPTCP option of subtype {subtype}: {reason}")]
    Mptcp {
        /// Four-bit subtype.
        subtype: u8,
        /// What is wrong.
        reason: &'static str,
    },
    /// The packet to be quoted in an ICMP message is not one to answer.
    #[error("packet to quote: {0}")]
    Quote(ParseError),
}
