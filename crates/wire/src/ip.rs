//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.
//!
//! IPv4 options and the IPv6 hop-by-hop, routing and destination options headers are skipped;
//! fragments are refused, and so is an IPv6 source route that has not ended. In captures the
//! destination is the last one of a source route (RFC 791, 6275, 8754), as in Wireshark. Emitted
//! headers carry no options, forbid fragmentation (DF) and leave identification (RFC 6864) and
//! flow label zero.

use crate::checksum::Checksum;
use crate::octets::{Writer, array, ipv4_at, ipv6_at, u16_at};
use crate::segment::Ecn;
use crate::{EmitError, ParseError};
use std::net::IpAddr;
use std::ops::Range;

/// The parts of an IP header that matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Upper-layer protocol (IPv6: of the header after the extension headers).
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Differentiated services codepoint, 6 bits (RFC 2474).
    pub dscp: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
}

/// Protocol numbers.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// Hop limit of what is emitted.
pub const DEFAULT_HOP_LIMIT: u8 = 64;

impl IpHeader {
    /// A header with [`DEFAULT_HOP_LIMIT`], DSCP 0 and not ECN-capable.
    pub fn new(src: IpAddr, dst: IpAddr, protocol: u8) -> Self {
        let hop_limit = DEFAULT_HOP_LIMIT;
        Self { src, dst, protocol, hop_limit, dscp: 0, ecn: Ecn::NotEct }
    }

    /// Parses the header of a whole packet; also returns where in `packet` the upper layer
    /// lies. Bytes after the length that the header states (link-layer padding) are ignored.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Self, Range<usize>), ParseError> {
        let (header, payload) = Self::parse_quoted(packet)?;
        if payload.end > packet.len() {
            return Err(ParseError::Truncated("IP"));
        }
        let v4_header = if header.src.is_ipv4() { &packet[..payload.start] } else { &[] };
        if !v4_header.is_empty() && Checksum::of(v4_header).finish() != 0 {
            return Err(ParseError::Checksum("IPv4"));
        }
        Ok((header, payload))
    }

    /// As [`IpHeader::parse`] for the start of a packet, as ICMP quotes it: the range may end
    /// beyond `packet`, and the header checksum is not verified (routers rewrote the header).
    #[inline]
    pub fn parse_quoted(packet: &[u8]) -> Result<(Self, Range<usize>), ParseError> {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => parse_v4(packet, None),
            Some(6) => parse_v6(packet, None),
            Some(version) => Err(ParseError::Version(version)),
            None => Err(ParseError::Truncated("IP")),
        }
    }

    /// As [`IpHeader::parse_quoted`] for a packet of a capture, of which `packet` was kept and
    /// that had `wire_len` bytes. It ends where its header says, but not beyond the frame; a
    /// packet captured before segmentation offload may say length 0 and ends with the frame.
    #[inline]
    pub fn parse_captured(
        packet: &[u8],
        wire_len: usize,
    ) -> Result<(Self, Range<usize>), ParseError> {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => parse_v4(packet, Some(wire_len)),
            Some(6) => parse_v6(packet, Some(wire_len)),
            Some(version) => Err(ParseError::Version(version)),
            None => Err(ParseError::Truncated("IP")),
        }
    }

    /// Writes the header for an upper layer of `payload_len` bytes, after checking that the
    /// buffer holds both. Returns the header's length.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8], payload_len: usize) -> Result<usize, EmitError> {
        self.emit_before(buffer, payload_len, payload_len)
    }

    /// As [`IpHeader::emit`], where only the first `held` bytes of the upper layer are to be in
    /// the buffer.
    #[inline]
    pub(crate) fn emit_before(
        &self,
        buffer: &mut [u8],
        payload_len: usize,
        held: usize,
    ) -> Result<usize, EmitError> {
        let header_len = header_len(self.src);
        // IPv6's length field does not count the header.
        let counted = if self.src.is_ipv4() { header_len + payload_len } else { payload_len };
        if counted > usize::from(u16::MAX) {
            return Err(EmitError::TooLong(header_len + payload_len));
        }
        let needed = header_len + held;
        if needed > buffer.len() {
            return Err(EmitError::Buffer { needed, available: buffer.len() });
        }
        let traffic_class = self.dscp << 2 | self.ecn.bits();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let head = &mut buffer[..20];
                let mut out = Writer::new(head);
                out.put([0x45, traffic_class]);
                out.put_u16(counted as u16);
                out.put([0, 0, DONT_FRAGMENT, 0, self.hop_limit, self.protocol, 0, 0]);
                out.put(src.octets());
                out.put(dst.octets());
                let checksum = Checksum::of(head).finish();
                head[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut out = Writer::new(&mut buffer[..40]);
                out.put([0x60 | traffic_class >> 4, traffic_class << 4, 0, 0]);
                out.put_u16(counted as u16);
                out.put([self.protocol, self.hop_limit]);
                out.put(src.octets());
                out.put(dst.octets());
            }
            _ => return Err(EmitError::MixedFamilies),
        }
        Ok(header_len)
    }
}

/// Length of an emitted header, in bytes.
#[inline]
pub(crate) fn header_len(address: IpAddr) -> usize {
    if address.is_ipv4() { 20 } else { 40 }
}

/// High byte of the flags and fragment offset.
const DONT_FRAGMENT: u8 = 0x40;

/// `captured` is the length on the wire of a packet that is taken from a capture.
#[inline]
fn parse_v4(
    packet: &[u8],
    captured: Option<usize>,
) -> Result<(IpHeader, Range<usize>), ParseError> {
    if packet.len() < 20 {
        return Err(ParseError::Truncated("IPv4"));
    }
    let start = usize::from(packet[0] & 0xf) * 4;
    let end = match (u16_at(packet, 2), captured) {
        (0, Some(length)) => length,
        (said, _) => usize::from(said),
    };
    if start < 20 || end < start {
        return Err(ParseError::Length("IPv4"));
    }
    if packet.len() < start {
        return Err(ParseError::Truncated("IPv4"));
    }
    let end = captured.map_or(end, |length| end.min(length.max(start)));
    // More fragments, or an offset.
    if u16_at(packet, 6) & 0x3fff != 0 {
        return Err(ParseError::Fragment);
    }
    let mut dst = ipv4_at(packet, 16);
    if captured.is_some() && start > 20 {
        dst = end_of_source_route(&packet[20..start]).unwrap_or(dst);
    }
    let header = IpHeader {
        src: ipv4_at(packet, 12),
        dst,
        protocol: packet[9],
        hop_limit: packet[8],
        dscp: packet[1] >> 2,
        ecn: Ecn::from_bits(packet[1]),
    };
    Ok((header, start..end))
}

/// Where a loose or strict source route that has not ended leads (RFC 791 section 3.1).
fn end_of_source_route(mut options: &[u8]) -> Option<IpAddr> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    loop {
        let kind = match *options {
            [] | [END, ..] => return None,
            [NO_OPERATION, ref rest @ ..] => {
                options = rest;
                continue;
            }
            [kind, ..] => kind,
        };
        let length = usize::from(*options.get(1)?);
        let option = options.get(..length).filter(|option| option.len() >= 2)?;
        if matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) {
            // The pointer counts from 1, and is beyond the option when the route has ended.
            let pointer = usize::from(*option.get(2)?);
            let whole = length >= 7 && pointer >= 4 && pointer <= length;
            return whole.then(|| ipv4_at(option, length - 4));
        }
        options = &options[length..];
    }
}

#[inline]
fn parse_v6(
    packet: &[u8],
    captured: Option<usize>,
) -> Result<(IpHeader, Range<usize>), ParseError> {
    if packet.len() < 40 {
        return Err(ParseError::Truncated("IPv6"));
    }
    let end = match (u16_at(packet, 4), captured) {
        (0, Some(length)) => length.max(40),
        (said, _) => 40 + usize::from(said),
    };
    let mut dst = ipv6_at(packet, 24);
    let (protocol, start) = skip_extensions(packet, end, captured.is_some().then_some(&mut dst))?;
    let end = captured.map_or(end, |length| end.min(length.max(start)));
    let traffic_class = packet[0] << 4 | packet[1] >> 4;
    let header = IpHeader {
        src: ipv6_at(packet, 8),
        dst,
        protocol,
        hop_limit: packet[7],
        dscp: traffic_class >> 2,
        ecn: Ecn::from_bits(traffic_class),
    };
    Ok((header, start..end))
}

/// The upper-layer protocol and where it starts (RFC 8200 section 4). A source route that has not
/// ended leads to `dst`; without one it is an error.
fn skip_extensions(
    packet: &[u8],
    end: usize,
    mut dst: Option<&mut IpAddr>,
) -> Result<(u8, usize), ParseError> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION_OPTIONS: u8 = 60;
    let (mut next, mut at) = (packet[6], 40);
    loop {
        match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {}
            FRAGMENT if !is_atomic(packet, at) => return Err(ParseError::Fragment),
            FRAGMENT => {}
            _ => return Ok((next, at)),
        }
        if at + 8 > packet.len() {
            return Err(ParseError::Truncated("IPv6 extension header"));
        }
        let [following, units, _, segments_left] = array(packet, at);
        // That of fragments has no length of its own.
        let length = if next == FRAGMENT { 8 } else { (usize::from(units) + 1) * 8 };
        if next == ROUTING && segments_left != 0 {
            let dst = dst.as_deref_mut().ok_or(ParseError::SourceRoute)?;
            *dst = last_segment(packet, at, length)?;
        }
        at += length;
        if at > end {
            return Err(ParseError::Length("IPv6 extension header"));
        }
        next = following;
    }
}

/// Whether the fragment header at `at` is of a whole packet (RFC 6946 section 4).
fn is_atomic(packet: &[u8], at: usize) -> bool {
    const OFFSET_AND_MORE: u16 = 0xfff9;
    packet.len() >= at + 8 && u16_at(packet, at + 2) & OFFSET_AND_MORE == 0
}

/// The address to which the routing header at `at` leads in the end. Of its types those are read
/// that hold whole addresses: 0 (RFC 2460), 2 (RFC 6275) and the segment routing header (RFC 8754).
fn last_segment(packet: &[u8], at: usize, length: usize) -> Result<IpAddr, ParseError> {
    const SOURCE_ROUTE: u8 = 0;
    const MOBILE: u8 = 2;
    const SEGMENT_ROUTING: u8 = 4;
    let last = match packet[at + 2] {
        SOURCE_ROUTE if length >= 24 => at + length - 16,
        // One address; a list in reverse order.
        MOBILE | SEGMENT_ROUTING if length >= 24 => at + 8,
        _ => return Err(ParseError::SourceRoute),
    };
    if packet.len() < last + 16 {
        return Err(ParseError::Truncated("IPv6 routing header"));
    }
    Ok(ipv6_at(packet, last))
}
