//! "Packet too big": ICMP destination unreachable, fragmentation needed (RFC 792, RFC 1191) and
//! ICMPv6 packet too big (RFC 4443 section 3.2), for path MTU discovery; and, only to be sent,
//! "destination unreachable" for other reasons. No other ICMP.

use crate::checksum::Checksum;
use crate::ip::{self, IpHeader, protocol};
use crate::octets::{Writer, u16_at, u32_at};
use crate::{EmitError, ParseError, SeqNum};
use std::net::{IpAddr, SocketAddr};

/// A router's report that a TCP segment was too big for the next hop. Anybody can forge one:
/// the receiver checks that `seq` is in flight (RFC 5927 section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooBig {
    /// Who reports.
    pub reporter: IpAddr,
    /// MTU of the next hop in bytes; 0 from IPv4 routers older than RFC 1191.
    pub mtu: u32,
    /// Source of the segment: normally us.
    pub src: SocketAddr,
    /// Destination of the segment.
    pub dst: SocketAddr,
    /// Sequence number of the segment.
    pub seq: SeqNum,
}

impl TooBig {
    /// Parses a whole IP packet that reports a TCP segment as too big.
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let (outer, range) = IpHeader::parse(packet)?;
        let icmp = &packet[range];
        let v4 = match outer.protocol {
            protocol::ICMP if outer.src.is_ipv4() => true,
            protocol::ICMPV6 if outer.src.is_ipv6() => false,
            other => return Err(ParseError::Protocol(other)),
        };
        if icmp.len() < HEADER_LEN {
            return Err(ParseError::Truncated("ICMP"));
        }
        if checksum(&outer, icmp) != 0 {
            return Err(ParseError::Checksum("ICMP"));
        }
        let [kind, code] = [icmp[0], icmp[1]];
        if [kind, code] != kind_and_code(v4) {
            return Err(ParseError::IcmpType { kind, code });
        }
        let (inner, range) = IpHeader::parse_quoted(&icmp[HEADER_LEN..])?;
        if inner.protocol != protocol::TCP {
            return Err(ParseError::Protocol(inner.protocol));
        }
        let tcp = icmp.get(HEADER_LEN + range.start..).unwrap_or_default();
        // Eight bytes are all that RFC 792 promises.
        if tcp.len() < 8 {
            return Err(ParseError::Truncated("quoted TCP"));
        }
        Ok(Self {
            reporter: outer.src,
            mtu: if v4 { u32::from(u16_at(icmp, 6)) } else { u32_at(icmp, 4) },
            src: SocketAddr::new(inner.src, u16_at(tcp, 0)),
            dst: SocketAddr::new(inner.dst, u16_at(tcp, 2)),
            seq: SeqNum(u32_at(tcp, 4)),
        })
    }
}

/// Writes the IP packet by which the router `reporter` tells the sender of `original` (a whole
/// IP packet, no ICMP error) that the next hop takes no more than `mtu` bytes; over IPv4 at most
/// 65535 is sent. Returns its length, at most 1280 bytes. How often to send is the caller's
/// decision (RFC 4443 section 2.4 f).
pub fn emit_too_big(
    buffer: &mut [u8],
    reporter: IpAddr,
    mtu: u32,
    original: &[u8],
) -> Result<usize, EmitError> {
    let v4 = reporter.is_ipv4();
    let mtu = if v4 { mtu.min(u32::from(u16::MAX)) } else { mtu };
    emit_error(buffer, reporter, kind_and_code(v4), mtu, original)
}

/// Why a destination cannot be reached (RFC 792, RFC 1812 section 5.2.7.1; RFC 4443 section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// No route.
    Network,
    /// No answer from the host.
    Host,
    /// Nobody listens.
    Port,
    /// Somebody does not allow it.
    Prohibited,
}

impl Unreachable {
    fn kind_and_code(self, v4: bool) -> [u8; 2] {
        let (code, code_v6) = match self {
            Self::Network => (0, 0),
            Self::Host => (1, 3),
            Self::Port => (3, 4),
            Self::Prohibited => (13, 1),
        };
        if v4 { [3, code] } else { [1, code_v6] }
    }
}

/// As [`emit_too_big`]: `reporter` tells that the destination of `original` is unreachable.
pub fn emit_unreachable(
    buffer: &mut [u8],
    reporter: IpAddr,
    why: Unreachable,
    original: &[u8],
) -> Result<usize, EmitError> {
    emit_error(buffer, reporter, why.kind_and_code(reporter.is_ipv4()), 0, original)
}

fn emit_error(
    buffer: &mut [u8],
    reporter: IpAddr,
    kind_and_code: [u8; 2],
    parameter: u32,
    original: &[u8],
) -> Result<usize, EmitError> {
    let (inner, range) = IpHeader::parse(original).map_err(EmitError::Quote)?;
    if is_error(inner.protocol, original.get(range.start).copied()) {
        return Err(EmitError::Quote(ParseError::Protocol(inner.protocol)));
    }
    let v4 = reporter.is_ipv4();
    // RFC 1812 section 4.3.2.3 and RFC 4443 section 3.2: as much as fits in these.
    let (limit, protocol) = if v4 { (576, protocol::ICMP) } else { (1280, protocol::ICMPV6) };
    let quote = &original[..original.len().min(limit - ip::header_len(reporter) - HEADER_LEN)];
    let icmp_len = HEADER_LEN + quote.len();
    let outer = IpHeader::new(reporter, inner.src, protocol);
    let start = outer.emit(buffer, icmp_len)?;
    let icmp = &mut buffer[start..start + icmp_len];
    let mut out = Writer::new(icmp);
    out.put(kind_and_code);
    out.put_u16(0);
    out.put_u32(parameter);
    icmp[HEADER_LEN..].copy_from_slice(quote);
    let sum = checksum(&outer, icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(start + icmp_len)
}

/// Whether a packet of this protocol, whose message begins so, is an ICMP error: about these there
/// are none, since errors about errors multiply (RFC 1122 section 3.2.2, RFC 4443 section 2.4 e).
fn is_error(number: u8, kind: Option<u8>) -> bool {
    match number {
        protocol::ICMP => matches!(kind, None | Some(3..=5 | 11 | 12)),
        protocol::ICMPV6 => kind.is_none_or(|kind| kind < 128),
        _ => false,
    }
}

/// Type, code, checksum and four bytes that hold the MTU.
const HEADER_LEN: usize = 8;

fn kind_and_code(v4: bool) -> [u8; 2] {
    if v4 { [3, 4] } else { [2, 0] }
}

/// The checksum of a whole ICMP message behind `ip`; zero if it carries the right one already.
/// ICMPv6's covers addresses, length and protocol too (RFC 8200 section 8.1).
#[must_use]
pub fn checksum(ip: &IpHeader, message: &[u8]) -> u16 {
    let mut sum = match ip.src {
        IpAddr::V4(_) => Checksum::new(),
        IpAddr::V6(_) => Checksum::pseudo_header(ip.src, ip.dst, protocol::ICMPV6, message.len()),
    };
    sum.add(message);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, Flags, Segment, TcpOptions};
    use proptest::prelude::*;

    fn segment(host: &str, payload: usize) -> (Segment, Vec<u8>) {
        let segment = Segment {
            src: format!("{host}1]:4000").parse().unwrap_or(([10, 0, 0, 1], 4000).into()),
            dst: format!("{host}2]:80").parse().unwrap_or(([10, 0, 0, 2], 80).into()),
            seq: SeqNum(0x8000_0001),
            ack: SeqNum(0),
            flags: Flags::ACK,
            window: 1,
            ecn: Ecn::NotEct,
            options: TcpOptions::default(),
            payload: vec![7; payload].into(),
        };
        let mut packet = vec![0; segment.wire_len()];
        segment.emit(&mut packet).unwrap();
        (segment, packet)
    }

    const REPORTERS: [(&str, &str, usize); 2] =
        [("", "192.0.2.1", 576), ("[2001:db8::", "2001:db8::ff", 1280)];

    #[test]
    fn a_report_names_the_segment() {
        for (host, reporter, limit) in REPORTERS {
            for payload in [0, 1, 1400] {
                let (segment, packet) = segment(host, payload);
                let reporter: IpAddr = reporter.parse().unwrap();
                let mut buffer = [0xa5; 1500];
                let len = emit_too_big(&mut buffer, reporter, 1300, &packet).unwrap();
                assert!(len <= limit);
                assert!(payload < 1400 || len == limit);
                let (src, dst, seq) = (segment.src, segment.dst, segment.seq);
                let expected = TooBig { reporter, mtu: 1300, src, dst, seq };
                assert_eq!(TooBig::parse(&buffer[..len]), Ok(expected));
                let about = emit_too_big(&mut [0; 1500], reporter, 1300, &buffer[..len]);
                assert!(matches!(about, Err(EmitError::Quote(ParseError::Protocol(1 | 58)))));
                buffer[len - 1] ^= 1;
                let damaged = TooBig::parse(&buffer[..len]);
                assert_eq!(damaged, Err(ParseError::Checksum("ICMP")));
            }
        }
    }

    #[test]
    fn an_unreachable_destination_is_told_with_its_reason() {
        for ((host, reporter, _), expected) in REPORTERS.iter().zip([[3, 13], [1, 1]]) {
            let (_, packet) = segment(host, 0);
            let reporter = reporter.parse().unwrap();
            let mut buffer = vec![0; 1300];
            let why = Unreachable::Prohibited;
            let len = emit_unreachable(&mut buffer, reporter, why, &packet).unwrap();
            let [kind, code] = expected;
            let parsed = TooBig::parse(&buffer[..len]);
            // The checksum holds, or it would not have come as far as the type.
            assert_eq!(parsed, Err(ParseError::IcmpType { kind, code }));
            assert!(buffer[..len].ends_with(&packet), "the packet is quoted whole");
        }
    }

    #[test]
    fn other_packets_are_named() {
        let (_, tcp) = segment("", 5);
        assert_eq!(TooBig::parse(&tcp), Err(ParseError::Protocol(protocol::TCP)));
        let mut buffer = [0; 600];
        let reporter = "192.0.2.1".parse().unwrap();
        let len = emit_too_big(&mut buffer, reporter, 1300, &tcp).unwrap();
        // Port unreachable, its checksum mended.
        buffer[21] = 3;
        buffer[23] += 1;
        let parsed = TooBig::parse(&buffer[..len]);
        assert_eq!(parsed, Err(ParseError::IcmpType { kind: 3, code: 3 }));
        let mixed = emit_too_big(&mut buffer, "::1".parse().unwrap(), 1300, &tcp);
        assert_eq!(mixed, Err(EmitError::MixedFamilies));
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            v4: bool, keep in 0..1300usize,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let (host, reporter, _) = REPORTERS[usize::from(!v4)];
            let (_, packet) = segment(host, 100);
            let mut buffer = vec![0; 1300];
            let len =
                emit_too_big(&mut buffer, reporter.parse().unwrap(), 1300, &packet).unwrap();
            buffer.truncate(len.min(keep));
            let head = if v4 { 20 } else { 40 };
            for (at, byte) in damage {
                // Into the quote, with the checksum made right again, so that it is parsed.
                if buffer.len() > head + 4 {
                    let at = head + 4 + at.index(buffer.len() - head - 4);
                    buffer[at] = byte;
                }
            }
            if buffer.len() == len {
                buffer[head + 2..head + 4].fill(0);
                let outer = IpHeader::parse(&buffer).unwrap().0;
                let sum = checksum(&outer, &buffer[head..]).to_be_bytes();
                buffer[head + 2..head + 4].copy_from_slice(&sum);
            }
            let _ = TooBig::parse(&buffer);
        }
    }
}
