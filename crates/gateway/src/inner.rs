//! A first look at the plain IP packets that paths carry: who sends what to whom. Whoever takes
//! the packet parses it properly.

use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tabane_wire::icmp::{checksum, emit_unreachable};
use tabane_wire::ip::{IpHeader, protocol};
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions, Unreachable};

/// What the first look shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peek {
    /// Of what is inside (IPv6 extension headers are not followed).
    pub(crate) protocol: u8,
    /// From.
    pub src: IpAddr,
    /// To.
    pub dst: IpAddr,
}

/// `None` if it cannot be an IP packet.
#[must_use]
#[inline]
pub(crate) fn peek(packet: &[u8]) -> Option<Peek> {
    match packet.first()? >> 4 {
        4 => {
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            };
            Some(Peek { protocol: *packet.get(9)?, src: address(12)?, dst: address(16)? })
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            };
            Some(Peek { protocol: *packet.get(6)?, src: address(8)?, dst: address(24)? })
        }
        _ => None,
    }
}

/// Whether a packet of the engine opens a subflow, or answers that it is open.
#[must_use]
pub(crate) fn is_syn(packet: &[u8]) -> bool {
    // The engine's headers have neither options nor extensions.
    let header = if packet.first().is_some_and(|first| first >> 4 == 4) { 20 } else { 40 };
    packet.get(header + 13).is_some_and(|flags| Flags(*flags).contains(Flags::SYN))
}

/// That a SYN from `from` to `to`, numbered `seq`, found nobody: an ICMP packet from the
/// destination itself, so that it passes whatever filters the host has by route. `None` if it
/// cannot be written.
#[must_use]
pub(crate) fn unreachable(
    from: SocketAddr,
    to: SocketAddr,
    seq: SeqNum,
    why: Unreachable,
) -> Option<Vec<u8>> {
    let syn = Segment {
        src: from,
        dst: to,
        seq,
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 0,
        ecn: Ecn::NotEct,
        options: TcpOptions::default(),
        payload: Bytes::new(),
    };
    let mut quote = vec![0; syn.wire_len()];
    syn.emit(&mut quote).ok()?;
    let mut packet = vec![0; 48 + quote.len()];
    let len = emit_unreachable(&mut packet, to.ip(), why, &quote).ok()?;
    packet.truncate(len);
    Some(packet)
}

/// That datagrams from `from` to `to` cannot go on: an ICMP packet as [`unreachable()`] makes it,
/// which quotes the headers of one. `None` if it cannot be written.
#[must_use]
pub(crate) fn quoting_unreachable(
    from: SocketAddr,
    to: SocketAddr,
    why: Unreachable,
) -> Option<Vec<u8>> {
    let quote = crate::udp_packet(from, to, Bytes::new());
    let mut packet = vec![0; 48 + quote.len()];
    let len = emit_unreachable(&mut packet, to.ip(), why, &quote).ok()?;
    packet.truncate(len);
    Some(packet)
}

/// The reverse: which TCP connection attempt (from, to) a packet says cannot succeed.
#[must_use]
pub(crate) fn parse_unreachable(packet: &[u8]) -> Option<(SocketAddr, SocketAddr, Unreachable)> {
    let (header, range) = IpHeader::parse(packet).ok()?;
    let icmp = packet.get(range)?;
    let v4 = header.dst.is_ipv4();
    if header.protocol != (if v4 { protocol::ICMP } else { protocol::ICMPV6 })
        || icmp.len() < 8
        || checksum(&header, icmp) != 0
    {
        return None;
    }
    let why = match (v4, icmp[0], icmp[1]) {
        (true, 3, 0 | 6 | 8 | 11) | (false, 1, 0) => Unreachable::Network,
        (true, 3, 9 | 10 | 13) | (false, 1, 1 | 5) => Unreachable::Prohibited,
        (true, 3, 3) | (false, 1, 4) => Unreachable::Port,
        (true, 3, 1 | 2 | 5 | 7 | 12) | (false, 1, _) => Unreachable::Host,
        _ => return None,
    };
    let quoted = &icmp[8..];
    let inner = peek(quoted).filter(|inner| inner.protocol == protocol::TCP)?;
    let at = if v4 { usize::from(quoted[0] & 15) * 4 } else { 40 };
    let ports = quoted.get(at..at + 4)?;
    let port = |i: usize| u16::from_be_bytes([ports[i], ports[i + 1]]);
    Some((SocketAddr::new(inner.src, port(0)), SocketAddr::new(inner.dst, port(2)), why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [Unreachable; 4] =
        [Unreachable::Network, Unreachable::Host, Unreachable::Port, Unreachable::Prohibited];

    #[test]
    fn what_is_unreachable_is_known_again() {
        let pairs = [("10.81.0.16:4000", "192.0.2.1:80"), ("[fd74::10]:4000", "[2001:db8::1]:80")];
        for (from, to) in pairs.map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())) {
            for why in EVERY {
                let packet = unreachable(from, to, SeqNum(7), why).unwrap();
                assert_eq!(parse_unreachable(&packet), Some((from, to, why)));
                assert_eq!(peek(&packet).unwrap().dst, from.ip());
                for len in 0..packet.len() {
                    let _ = parse_unreachable(&packet[..len]);
                }
                let mut damaged = packet.clone();
                *damaged.last_mut().unwrap() ^= 1;
                assert_eq!(parse_unreachable(&damaged), None);
            }
        }
    }

    #[test]
    fn what_is_no_ip_packet_is_nothing() {
        for packet in [&[][..], &[0x45; 5], &[0x60; 30], &[0x10; 60]] {
            assert_eq!(peek(packet), None);
        }
    }
}
