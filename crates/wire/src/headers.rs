//! The headers of a TCP segment whose payload nobody asks for: what analyses work on, and what
//! is left of a packet in a capture that kept only its start (RFC 9293 section 3.1).
//!
//! Captures are taken as they are: checksums are not verified (offload leaves them to be filled
//! in), options end where the capture or a wrong length ends them.

use crate::octets::{u16_at, u32_at};
use crate::segment::{Ecn, Flags, Segment, header_len};
use crate::{ParseError, SeqNum, TcpOptions, ip};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A segment without its payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
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
    /// ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// Options, as far as they were captured.
    pub options: TcpOptions,
    /// Bytes of payload that the IP header speaks of, captured or not.
    pub payload_len: u32,
}

impl Default for Headers {
    fn default() -> Self {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self {
            src: nowhere,
            dst: nowhere,
            seq: SeqNum(0),
            ack: SeqNum(0),
            flags: Flags(0),
            window: 0,
            ecn: Ecn::NotEct,
            options: TcpOptions::NONE,
            payload_len: 0,
        }
    }
}

impl Headers {
    /// Reads the start of an IP packet of which `packet` was captured and that had `wire_len`
    /// bytes; in place, since the value is large to be moved. Bytes that are missing matter only
    /// where they belong to the IP header or the first 20 of the TCP header.
    ///
    /// # Errors
    /// As for [`Segment::parse`], but for checksums and options. The value is then of no use.
    #[inline]
    pub fn read(&mut self, packet: &[u8], wire_len: usize) -> Result<(), ParseError> {
        let (ip, range) = ip::IpHeader::parse_captured(packet, wire_len)?;
        if ip.protocol != ip::protocol::TCP {
            return Err(ParseError::Protocol(ip.protocol));
        }
        let length = range.end - range.start;
        let tcp = packet.get(range.start..).ok_or(ParseError::Truncated("TCP"))?;
        let tcp = &tcp[..tcp.len().min(length)];
        let header_len = header_len(tcp, length)?;
        self.src = SocketAddr::new(ip.src, u16_at(tcp, 0));
        self.dst = SocketAddr::new(ip.dst, u16_at(tcp, 2));
        self.seq = SeqNum(u32_at(tcp, 4));
        self.ack = SeqNum(u32_at(tcp, 8));
        self.flags = Flags(tcp[13]);
        self.window = u16_at(tcp, 14);
        self.ecn = ip.ecn;
        self.payload_len = (length - header_len) as u32;
        self.options = TcpOptions::NONE;
        // What comes before a wrong option counts; what comes after it cannot be told.
        let _ = self.options.parse(&tcp[TCP_HEADER_LEN..header_len.min(tcp.len())]);
        Ok(())
    }

    /// Takes over the headers of a segment.
    pub fn set(&mut self, segment: &Segment) {
        let Segment { src, dst, seq, ack, flags, window, ecn, options, payload } = segment;
        self.options.clone_from(options);
        (self.src, self.dst, self.seq, self.ack) = (*src, *dst, *seq, *ack);
        (self.flags, self.window, self.ecn) = (*flags, *window, *ecn);
        self.payload_len = payload.len() as u32;
    }
}

impl From<&Segment> for Headers {
    fn from(segment: &Segment) -> Self {
        let mut headers = Self::default();
        headers.set(segment);
        headers
    }
}

/// Without options.
const TCP_HEADER_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamps;
    use bytes::Bytes;

    fn segment() -> Segment {
        Segment {
            src: "[2001:db8::1]:1000".parse().unwrap(),
            dst: "[2001:db8::2]:80".parse().unwrap(),
            seq: SeqNum(7),
            ack: SeqNum(9),
            flags: Flags::ACK,
            window: 500,
            ecn: Ecn::Ect0,
            options: TcpOptions {
                timestamps: Some(Timestamps { value: 1, echo: 2 }),
                mss: Some(1400),
                ..TcpOptions::default()
            },
            payload: Bytes::from(vec![1; 1000]),
        }
    }

    #[test]
    fn the_payload_may_be_missing() {
        let segment = segment();
        let mut packet = vec![0; segment.wire_len()];
        let len = segment.emit(&mut packet).unwrap();
        let mut read = Headers::default();
        for kept in (40 + 20 + 16..=len).step_by(31) {
            read.read(&packet[..kept], len).unwrap();
            assert_eq!(read, Headers::from(&segment), "{kept} bytes kept");
        }
        // Within the options, those that are whole count.
        read.read(&packet[..40 + 20 + 7], len).unwrap();
        assert_eq!((read.options.mss, read.options.timestamps), (Some(1400), None));
        assert_eq!(read.payload_len, 1000);
        assert_eq!(read.read(&packet[..59], len), Err(ParseError::Truncated("TCP")));
    }

    #[test]
    fn offloaded_packets_have_no_length() {
        let segment = Segment {
            src: "10.0.0.1:1000".parse().unwrap(),
            dst: "10.0.0.2:80".parse().unwrap(),
            ..segment()
        };
        let mut packet = vec![0; segment.wire_len()];
        segment.emit(&mut packet).unwrap();
        packet[2..4].fill(0);
        let mut read = Headers::default();
        read.read(&packet[..60], 70_000).unwrap();
        assert_eq!(read.payload_len, 70_000 - 20 - 20 - 16);
    }
}
