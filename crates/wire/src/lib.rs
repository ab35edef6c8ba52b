//! Bytes to values and back: IPv4, IPv6, TCP with its options, every MPTCP option
//! (RFC 8684), UDP, "packet too big", checksums and pcapng. Knows no connection state.
//!
//! A [`Segment`] is parsed once into a value and emitted from the value; whatever can be
//! constructed can be emitted, or is refused with an [`EmitError`] that says why.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod checksum;
mod error;
pub mod headers;
pub mod icmp;
pub mod ip;
pub mod mptcp;
mod octets;
pub mod option;
pub mod pcapng;
pub mod segment;
pub mod seq;
pub mod udp;

pub use checksum::Checksum;
pub use error::{EmitError, ParseError};
pub use headers::Headers;
pub use icmp::{TooBig, Unreachable};
pub use mptcp::{DataNumber, Dss, Mapping, MptcpOption};
pub use option::{SackBlocks, TcpOptions, Timestamps};
pub use pcapng::PcapngWriter;
pub use segment::{Ecn, Flags, Segment, Trust};
pub use seq::SeqNum;
pub use udp::Datagram;

/// Compiles and runs what the README shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
