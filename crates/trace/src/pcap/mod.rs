//! Captures in: pcap and pcapng files down to the headers of TCP segments.
//!
//! ```text
//! Source --bytes--> Reader --Frame--> link --IP packet--> wire::Headers     (all in Segments)
//!                                                 tunnel <--no TCP--'
//! ```
//! - pcap in both byte orders, with microseconds or nanoseconds, and its variant with an
//!   interface index; pcapng with any number of sections and interfaces, every time resolution,
//!   enhanced, simple and obsolete packet blocks.
//! - Link types: Ethernet with VLAN tags (also nested), MPLS or PPPoE, Linux cooked (versions 1
//!   and 2), raw IP, null and loopback, PPP, Cisco's HDLC, NFLOG. IPv4, and IPv6 with extension
//!   headers; source routes count by their end.
//! - Tunnels: IP in IP, GRE, VXLAN; the innermost TCP counts.
//! - What was cut off by the snap length is not missed as long as the headers are there.
//!
//! Everything that is not a TCP segment is counted by reason in [`Skips`]. A file that ends early
//! or is damaged is read as far as it goes, and [`End`] says where that is. Memory is one buffer,
//! whatever the length of the file. Fragments are not reassembled.

mod link;
mod pcapng;
mod reader;
mod segments;
mod skips;
mod source;
mod tunnel;

pub use reader::{End, Frame, OpenError, Reader};
pub use segments::{Seen, Segments};
pub use skips::{Skip, Skips};
pub use source::{Buffered, Source};
