//! A TCP segment with the parts of its IP header that matter (RFC 9293 section 3.1).

use crate::SeqNum;
use crate::option::TcpOptions;
use bytes::Bytes;
use std::net::SocketAddr;
use std::ops::BitOr;

mod codec;
mod display;

pub use codec::Trust;
pub(crate) use codec::header_len;

/// One TCP segment as a value. Payload is refcounted, so that copies cost nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Source address and port.
    pub src: SocketAddr,
    /// Destination address and port.
    pub dst: SocketAddr,
    /// Sequence number of the first byte (or of the SYN).
    pub seq: SeqNum,
    /// Acknowledgement number; meaningful iff [`Flags::ACK`].
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// Window field as sent, unscaled.
    pub window: u16,
    /// ECN codepoint of the IP header (RFC 3168 section 5).
    pub ecn: Ecn,
    /// Options.
    pub options: TcpOptions,
    /// Payload.
    pub payload: Bytes,
}

impl Segment {
    /// From nowhere to nowhere, with nothing in it: to be filled in.
    pub fn blank() -> Self {
        let nowhere = SocketAddr::from(([0; 4], 0));
        Self {
            src: nowhere,
            dst: nowhere,
            seq: SeqNum(0),
            ack: SeqNum(0),
            flags: Flags::default(),
            window: 0,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: Bytes::new(),
        }
    }

    /// Sequence space used: payload, SYN and FIN (SEG.LEN).
    #[inline]
    pub fn seq_len(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.contains(Flags::SYN))
            + u32::from(self.flags.contains(Flags::FIN))
    }
}

/// TCP control bits, in header order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from sender.
    pub const FIN: Self = Self(1);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(2);
    /// Reset the connection.
    pub const RST: Self = Self(4);
    /// Push.
    pub const PSH: Self = Self(8);
    /// Acknowledgement field is significant.
    pub const ACK: Self = Self(16);
    /// Urgent pointer is significant.
    pub const URG: Self = Self(32);
    /// ECN echo.
    pub const ECE: Self = Self(64);
    /// Congestion window reduced.
    pub const CWR: Self = Self(128);

    /// Whether every bit of `other` is set.
    #[inline]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[inline]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// ECN codepoint (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(1).
    Ect1,
    /// ECT(0).
    Ect0,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// The two bits of the traffic class, as sent.
    #[inline]
    pub fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    /// From the low two bits of `bits`; the others are ignored.
    #[inline]
    pub fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}
