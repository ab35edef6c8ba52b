//! Segments to whole IP packets and back (RFC 9293 section 3.1).
//!
//! The urgent pointer is ignored and emitted as zero (RFC 6093 recommends against its use), and
//! so are the reserved bits of the header.

use super::{Ecn, Flags, Segment};
use crate::checksum::Checksum;
use crate::ip::{self, IpHeader, protocol};
use crate::octets::{Writer, u16_at, u32_at};
use crate::{EmitError, ParseError, SeqNum, TcpOptions};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

/// Whether the TCP checksum of a packet is to be verified. Lengths and the IPv4 header checksum
/// always are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trust {
    /// Verify.
    #[default]
    Verify,
    /// The packet cannot be damaged, or its checksum was left to be filled in (a TUN device
    /// with checksum offload).
    Intact,
}

impl Segment {
    /// Parses a whole IP packet that holds TCP. The payload shares the packet's memory.
    #[inline]
    pub fn parse(packet: &Bytes) -> Result<Self, ParseError> {
        Self::parse_with(packet, Trust::Verify)
    }

    /// As [`Segment::parse`], with or without verifying the TCP checksum.
    #[inline]
    pub fn parse_with(packet: &Bytes, trust: Trust) -> Result<Self, ParseError> {
        let mut segment = BLANK;
        let payload = parse_headers(&mut segment, packet, trust)?;
        segment.payload = packet.slice(payload);
        Ok(segment)
    }

    /// As [`Segment::parse`] from borrowed bytes: the payload is copied.
    #[inline]
    pub fn parse_slice(packet: &[u8]) -> Result<Self, ParseError> {
        Self::parse_slice_with(packet, Trust::Verify)
    }

    /// As [`Segment::parse_slice`], with or without verifying the TCP checksum.
    #[inline]
    pub fn parse_slice_with(packet: &[u8], trust: Trust) -> Result<Self, ParseError> {
        let mut segment = BLANK;
        let payload = parse_headers(&mut segment, packet, trust)?;
        segment.payload = Bytes::copy_from_slice(&packet[payload]);
        Ok(segment)
    }

    /// Length of the IP packet that [`Segment::emit`] writes, in bytes.
    #[inline]
    pub fn wire_len(&self) -> usize {
        ip::header_len(self.src.ip())
            + TCP_HEADER_LEN
            + self.options.emitted_len()
            + self.payload.len()
    }

    /// Writes a whole IP packet, checksums included, to the start of `buffer`; returns its
    /// length. IPv6 scope and flow label of the addresses are not sent.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.payload.len();
        let (start, header_len) = self.put_headers(buffer, len, len)?;
        let (header, payload) = buffer[start..start + header_len + len].split_at_mut(header_len);
        let mut checksum = self.pseudo_header(header_len + len);
        checksum.add(header);
        checksum.add_copy(payload, &self.payload);
        header[16..18].copy_from_slice(&checksum.finish().to_be_bytes());
        Ok(start + header_len + len)
    }

    /// Writes the headers alone, for a payload of `payload_len` bytes that follows elsewhere
    /// (this segment's, or this and the next ones' together: segmentation offload). The TCP
    /// checksum holds the sum of the pseudo header, which whoever knows the payload completes
    /// (checksum offload). Returns the lengths of the IP and of the TCP header.
    pub fn emit_headers(
        &self,
        buffer: &mut [u8],
        payload_len: usize,
    ) -> Result<(usize, usize), EmitError> {
        let (start, header_len) = self.put_headers(buffer, payload_len, 0)?;
        let partial = !self.pseudo_header(header_len + payload_len).finish();
        buffer[start + 16..start + 18].copy_from_slice(&partial.to_be_bytes());
        Ok((start, header_len))
    }

    /// Both headers, the TCP checksum zero; their lengths. The buffer holds `held` bytes more.
    #[inline]
    fn put_headers(
        &self,
        buffer: &mut [u8],
        payload_len: usize,
        held: usize,
    ) -> Result<(usize, usize), EmitError> {
        let options_len = self.options.emitted_len();
        if options_len > TcpOptions::SPACE {
            return Err(EmitError::OptionSpace(options_len));
        }
        let header_len = TCP_HEADER_LEN + options_len;
        let ip = IpHeader::new(self.src.ip(), self.dst.ip(), protocol::TCP);
        let ip = IpHeader { ecn: self.ecn, ..ip };
        let start = ip.emit_before(buffer, header_len + payload_len, header_len + held)?;
        let header = &mut buffer[start..start + header_len];
        let mut out = Writer::new(header);
        out.put_u16(self.src.port());
        out.put_u16(self.dst.port());
        out.put_u32(self.seq.0);
        out.put_u32(self.ack.0);
        out.put([(header_len as u8 / 4) << 4, self.flags.0]);
        out.put_u16(self.window);
        // Checksum, to be filled in, and urgent pointer.
        out.put_u32(0);
        self.options.emit(&mut header[TCP_HEADER_LEN..])?;
        Ok((start, header_len))
    }

    #[inline]
    fn pseudo_header(&self, tcp_len: usize) -> Checksum {
        Checksum::pseudo_header(self.src.ip(), self.dst.ip(), protocol::TCP, tcp_len)
    }
}

/// Length of the header of `tcp`, which was `length` bytes long on the wire.
#[inline]
pub(crate) fn header_len(tcp: &[u8], length: usize) -> Result<usize, ParseError> {
    if tcp.len() < TCP_HEADER_LEN {
        return Err(ParseError::Truncated("TCP"));
    }
    let header_len = usize::from(tcp[12] >> 4) * 4;
    if header_len < TCP_HEADER_LEN || header_len > length {
        return Err(ParseError::Length("TCP"));
    }
    Ok(header_len)
}

/// Fills in all but the payload of a blank segment, in place since it is large to be moved;
/// returns where the payload is.
#[inline]
fn parse_headers(
    segment: &mut Segment,
    packet: &[u8],
    trust: Trust,
) -> Result<Range<usize>, ParseError> {
    let (ip, range) = IpHeader::parse(packet)?;
    if ip.protocol != protocol::TCP {
        return Err(ParseError::Protocol(ip.protocol));
    }
    let tcp = &packet[range.clone()];
    let header_len = header_len(tcp, tcp.len())?;
    if trust == Trust::Verify {
        let mut checksum = Checksum::pseudo_header(ip.src, ip.dst, protocol::TCP, tcp.len());
        checksum.add(tcp);
        if checksum.finish() != 0 {
            return Err(ParseError::Checksum("TCP"));
        }
    }
    segment.src = SocketAddr::new(ip.src, u16_at(tcp, 0));
    segment.dst = SocketAddr::new(ip.dst, u16_at(tcp, 2));
    segment.seq = SeqNum(u32_at(tcp, 4));
    segment.ack = SeqNum(u32_at(tcp, 8));
    segment.flags = Flags(tcp[13]);
    segment.window = u16_at(tcp, 14);
    segment.ecn = ip.ecn;
    segment.options.parse(&tcp[TCP_HEADER_LEN..header_len])?;
    Ok(range.start + header_len..range.end)
}

const BLANK: Segment = Segment {
    src: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    dst: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    seq: SeqNum(0),
    ack: SeqNum(0),
    flags: Flags(0),
    window: 0,
    ecn: Ecn::NotEct,
    options: TcpOptions::NONE,
    payload: Bytes::new(),
};

/// Without options.
const TCP_HEADER_LEN: usize = 20;
