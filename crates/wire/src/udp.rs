//! UDP datagrams (RFC 768) over IPv4 and IPv6 (RFC 8200 section 8.1). No UDP-Lite, no options.

use crate::checksum::Checksum;
use crate::ip::{self, IpHeader, protocol};
use crate::octets::{Writer, u16_at};
use crate::segment::{Ecn, Trust};
use crate::{EmitError, ParseError};
use bytes::Bytes;
use std::net::SocketAddr;
use std::ops::Range;

/// One UDP datagram as a value. Payload is refcounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Source address and port.
    pub src: SocketAddr,
    /// Destination address and port.
    pub dst: SocketAddr,
    /// ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// Payload.
    pub payload: Bytes,
}

impl Datagram {
    /// Parses a whole IP packet that holds UDP. The payload shares the packet's memory. With
    /// [`Trust::Intact`] the UDP checksum is not verified.
    pub fn parse(packet: &Bytes, trust: Trust) -> Result<Self, ParseError> {
        let (ip, payload) = parse_headers(packet, trust)?;
        Ok(Self { payload: packet.slice(payload), ..ip })
    }

    /// As [`Datagram::parse`] from borrowed bytes: the payload is copied.
    pub fn parse_slice(packet: &[u8], trust: Trust) -> Result<Self, ParseError> {
        let (ip, payload) = parse_headers(packet, trust)?;
        Ok(Self { payload: Bytes::copy_from_slice(&packet[payload]), ..ip })
    }

    /// Length of the IP packet that [`Datagram::emit`] writes, in bytes.
    pub fn wire_len(&self) -> usize {
        ip::header_len(self.src.ip()) + HEADER_LEN + self.payload.len()
    }

    /// Writes a whole IP packet, checksums included, to the start of `buffer`; returns its
    /// length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let (src, dst) = (self.src.ip(), self.dst.ip());
        let udp_len = HEADER_LEN + self.payload.len();
        let ip = IpHeader { ecn: self.ecn, ..IpHeader::new(src, dst, protocol::UDP) };
        let start = ip.emit(buffer, udp_len)?;
        let (header, payload) = buffer[start..start + udp_len].split_at_mut(HEADER_LEN);
        let mut out = Writer::new(header);
        out.put_u16(self.src.port());
        out.put_u16(self.dst.port());
        out.put_u16(udp_len as u16);
        out.put_u16(0);
        let mut checksum = Checksum::pseudo_header(src, dst, protocol::UDP, udp_len);
        checksum.add(header);
        checksum.add_copy(payload, &self.payload);
        // Zero would mean that there is no checksum; its other representation does not.
        let checksum = match checksum.finish() {
            0 => 0xffff,
            other => other,
        };
        header[6..8].copy_from_slice(&checksum.to_be_bytes());
        Ok(start + udp_len)
    }
}

const HEADER_LEN: usize = 8;

fn parse_headers(packet: &[u8], trust: Trust) -> Result<(Datagram, Range<usize>), ParseError> {
    let (ip, range) = IpHeader::parse(packet)?;
    if ip.protocol != protocol::UDP {
        return Err(ParseError::Protocol(ip.protocol));
    }
    let udp = &packet[range.clone()];
    if udp.len() < HEADER_LEN {
        return Err(ParseError::Truncated("UDP"));
    }
    let len = usize::from(u16_at(udp, 4));
    if len < HEADER_LEN || len > udp.len() {
        return Err(ParseError::Length("UDP"));
    }
    let udp = &udp[..len];
    // Optional over IPv4, required over IPv6.
    let absent = u16_at(udp, 6) == 0;
    if trust == Trust::Verify && !(absent && ip.src.is_ipv4()) {
        let mut checksum = Checksum::pseudo_header(ip.src, ip.dst, protocol::UDP, len);
        checksum.add(udp);
        if absent || checksum.finish() != 0 {
            return Err(ParseError::Checksum("UDP"));
        }
    }
    let datagram = Datagram {
        src: SocketAddr::new(ip.src, u16_at(udp, 0)),
        dst: SocketAddr::new(ip.dst, u16_at(udp, 2)),
        ecn: ip.ecn,
        payload: Bytes::new(),
    };
    Ok((datagram, range.start + HEADER_LEN..range.start + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emit(datagram: &Datagram) -> Vec<u8> {
        let mut buffer = vec![0xa5; 2000];
        let len = datagram.emit(&mut buffer).unwrap();
        assert_eq!(len, datagram.wire_len());
        buffer.truncate(len);
        buffer
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            v4: bool, a: [u8; 16], b: [u8; 16], ports: (u16, u16), ecn in 0..4u8,
            payload in prop::collection::vec(any::<u8>(), 0..300),
            flip in any::<prop::sample::Index>(),
        ) {
            let address = |bytes: [u8; 16], port| match v4 {
                true => SocketAddr::from(([bytes[0], bytes[1], bytes[2], bytes[3]], port)),
                false => SocketAddr::from((bytes, port)),
            };
            let datagram = Datagram {
                src: address(a, ports.0),
                dst: address(b, ports.1),
                ecn: Ecn::from_bits(ecn),
                payload: payload.into(),
            };
            let mut packet = emit(&datagram);
            let shared = Bytes::copy_from_slice(&packet);
            prop_assert_eq!(&Datagram::parse(&shared, Trust::Verify).unwrap(), &datagram);
            prop_assert_eq!(&Datagram::parse_slice(&packet, Trust::Verify).unwrap(), &datagram);
            // Payload is protected; and no damage makes the parser panic.
            let at = flip.index(packet.len());
            packet[at] ^= 0x10;
            let damaged = Datagram::parse_slice(&packet, Trust::Verify);
            prop_assert!(at < packet.len() - datagram.payload.len() || damaged.is_err());
            let _ = Datagram::parse_slice(&packet, Trust::Intact);
        }
    }

    #[test]
    fn a_missing_checksum_is_accepted_over_ipv4_only() {
        for (address, accepted) in [("10.0.0.1:5", true), ("[2001:db8::1]:5", false)] {
            let address: SocketAddr = address.parse().unwrap();
            let payload = Bytes::from_static(b"x");
            let datagram = Datagram { src: address, dst: address, ecn: Ecn::NotEct, payload };
            let mut packet = emit(&datagram);
            let at = packet.len() - 3;
            packet[at..at + 2].fill(0);
            let parsed = Datagram::parse_slice(&packet, Trust::Verify);
            assert_eq!(parsed.is_ok(), accepted, "{address}");
            assert_eq!(Datagram::parse_slice(&packet, Trust::Intact), Ok(datagram));
        }
    }
}
