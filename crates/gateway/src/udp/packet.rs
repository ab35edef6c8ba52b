//! IP packets of datagrams, built round their payload without copying it, and the ICMP messages
//! about them.

use std::net::{IpAddr, SocketAddr};
use tabane_wire::ip::{IpHeader, protocol};
use tabane_wire::{Checksum, icmp};

/// Bytes that the headers before a payload can take: IPv6 and UDP.
pub(crate) const HEADROOM: usize = 48;
/// The UDP header, and that of ICMP echo.
const HEADER_LEN: usize = 8;

/// A datagram or an echo request as it came in an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside<'a> {
    /// UDP.
    Datagram {
        /// From.
        source: SocketAddr,
        /// To.
        destination: SocketAddr,
        /// What it carries.
        payload: &'a [u8],
    },
    /// An echo request of ICMP or ICMPv6.
    Echo {
        /// From.
        source: IpAddr,
        /// To.
        destination: IpAddr,
        /// Whose it is at the source.
        identifier: u16,
        /// The whole ICMP message.
        message: &'a [u8],
    },
}

/// What comes back for what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Back<'a> {
    /// UDP.
    Datagram {
        /// From.
        source: SocketAddr,
        /// To.
        destination: SocketAddr,
        /// What it carries.
        payload: &'a [u8],
    },
    /// A reply to an echo request.
    Reply {
        /// From.
        source: IpAddr,
        /// To.
        destination: IpAddr,
        /// Of the request.
        identifier: u16,
        /// The whole ICMP message.
        message: &'a [u8],
    },
    /// It did not arrive; for an echo request the identifier is the source's port, and the
    /// destination has none.
    Failed {
        /// Who had sent it.
        source: SocketAddr,
        /// Where to.
        destination: SocketAddr,
        /// It was an echo request.
        echo: bool,
        /// Why it did not arrive.
        why: Reason,
    },
}

/// Why a datagram did not arrive: type and code of ICMP or ICMPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reason {
    kind: u8,
    code: u8,
}

impl Reason {
    /// Nobody listens there.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn port(v4: bool) -> Self {
        if v4 { Self { kind: 3, code: 3 } } else { Self { kind: 1, code: 4 } }
    }

    /// The host cannot be reached.
    #[must_use]
    pub(crate) fn host(v4: bool) -> Self {
        if v4 { Self { kind: 3, code: 1 } } else { Self { kind: 1, code: 3 } }
    }

    /// There is no route.
    #[must_use]
    pub(crate) fn network(v4: bool) -> Self {
        if v4 { Self { kind: 3, code: 0 } } else { Self { kind: 1, code: 0 } }
    }

    /// It is not allowed.
    #[must_use]
    pub(crate) fn prohibited(v4: bool) -> Self {
        if v4 { Self { kind: 3, code: 13 } } else { Self { kind: 1, code: 1 } }
    }

    /// As a router said it; `None` for what is not about reaching (too big, redirects).
    #[must_use]
    pub(crate) fn reported(v4: bool, kind: u8, code: u8) -> Option<Self> {
        let passed = match (v4, kind) {
            (true, 3) => code != 4,
            (true, 11) | (false, 1 | 3) => true,
            _ => false,
        };
        passed.then_some(Self { kind, code })
    }
}

/// Parses a packet that holds UDP or an echo request, checksums included; `None` for others.
#[must_use]
pub(crate) fn parse(packet: &[u8]) -> Option<Inside<'_>> {
    let (header, range) = IpHeader::parse(packet).ok()?;
    let data = packet.get(range)?;
    let v4 = header.src.is_ipv4();
    match header.protocol {
        protocol::UDP => {
            let len = usize::from(u16_at(data, 4)?);
            let udp = data.get(..len).filter(|udp| udp.len() >= HEADER_LEN)?;
            // None, over IPv4 only.
            let unsummed = u16_at(udp, 6)? == 0;
            let damaged = if unsummed { !v4 } else { checksum(&header, udp) != 0 };
            (!damaged).then_some(Inside::Datagram {
                source: SocketAddr::new(header.src, u16_at(udp, 0)?),
                destination: SocketAddr::new(header.dst, u16_at(udp, 2)?),
                payload: &udp[HEADER_LEN..],
            })
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let asked = echo_kind(v4, true);
            let ours = header.protocol == asked.0
                && data.len() >= HEADER_LEN
                && data[..2] == [asked.1, 0]
                && icmp::checksum(&header, data) == 0;
            ours.then_some(Inside::Echo {
                source: header.src,
                destination: header.dst,
                identifier: u16_at(data, 4)?,
                message: data,
            })
        }
        _ => None,
    }
}

/// Parses what comes back for datagrams and echo requests, checksums included; `None` for others.
#[must_use]
pub(crate) fn parse_back(packet: &[u8]) -> Option<Back<'_>> {
    if let Some(Inside::Datagram { source, destination, payload }) = parse(packet) {
        return Some(Back::Datagram { source, destination, payload });
    }
    let (header, range) = IpHeader::parse(packet).ok()?;
    let message = packet.get(range)?;
    let v4 = header.src.is_ipv4();
    let (number, reply) = echo_kind(v4, false);
    let sound = header.protocol == number
        && message.len() >= HEADER_LEN
        && icmp::checksum(&header, message) == 0;
    if !sound {
        return None;
    }
    if message[..2] == [reply, 0] {
        let (source, destination) = (header.src, header.dst);
        return Some(Back::Reply { source, destination, identifier: u16_at(message, 4)?, message });
    }
    let why = Reason::reported(v4, message[0], message[1])?;
    let (inner, range) = IpHeader::parse_quoted(&message[HEADER_LEN..]).ok()?;
    let quoted = message[HEADER_LEN..].get(range.start..)?;
    let (echo, ports) = match inner.protocol {
        protocol::UDP => (false, (u16_at(quoted, 0)?, u16_at(quoted, 2)?)),
        other if other == number => (true, (u16_at(quoted, 4)?, 0)),
        _ => return None,
    };
    let source = SocketAddr::new(inner.src, ports.0);
    Some(Back::Failed { source, destination: SocketAddr::new(inner.dst, ports.1), echo, why })
}

/// Writes the headers of a datagram before its payload, which lies in `buffer` from [`HEADROOM`]
/// to the end. Returns where the packet starts; `None` if addresses and length make no packet.
pub(crate) fn put_udp(
    buffer: &mut [u8],
    source: SocketAddr,
    destination: SocketAddr,
) -> Option<usize> {
    let len = HEADER_LEN + buffer.len().checked_sub(HEADROOM)?;
    let header = IpHeader::new(source.ip(), destination.ip(), protocol::UDP);
    let udp = &mut buffer[HEADROOM - HEADER_LEN..];
    udp[..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    udp[4..6].copy_from_slice(&u16::try_from(len).ok()?.to_be_bytes());
    udp[6..8].fill(0);
    // Zero would mean that there is no checksum; its other representation does not.
    let sum = match checksum(&header, udp) {
        0 => 0xffff,
        other => other,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    put_ip(buffer, &header, HEADROOM - HEADER_LEN)
}

/// The same for the reply to an echo request: from [`HEADROOM`] on lies an ICMP message, which gets
/// its type, its identifier and its checksum here.
pub(crate) fn put_echo_reply(
    buffer: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
) -> Option<usize> {
    put_echo(buffer, (source, destination), echo_kind(source.is_ipv4(), false), identifier)
}

/// The same for an echo request.
pub(crate) fn put_echo_request(
    buffer: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
) -> Option<usize> {
    put_echo(buffer, (source, destination), echo_kind(source.is_ipv4(), true), identifier)
}

fn put_echo(
    buffer: &mut [u8],
    (source, destination): (IpAddr, IpAddr),
    (number, kind): (u8, u8),
    identifier: u16,
) -> Option<usize> {
    let header = IpHeader::new(source, destination, number);
    let message = buffer.get_mut(HEADROOM..).filter(|message| message.len() >= HEADER_LEN)?;
    message[..4].copy_from_slice(&[kind, 0, 0, 0]);
    message[4..6].copy_from_slice(&identifier.to_be_bytes());
    let sum = icmp::checksum(&header, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    put_ip(buffer, &header, HEADROOM)
}

/// The packet that tells the sender of a datagram (or echo request, with ports 0 and
/// `identifier`) that it did not arrive, in the name of its destination.
#[must_use]
pub(crate) fn unreachable(
    source: SocketAddr,
    destination: SocketAddr,
    why: Reason,
) -> Option<Vec<u8>> {
    let v4 = source.is_ipv4();
    let quoted = IpHeader::new(source.ip(), destination.ip(), protocol::UDP);
    let mut udp = [0; HEADER_LEN];
    udp[..2].copy_from_slice(&source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&destination.port().to_be_bytes());
    udp[5] = HEADER_LEN as u8;
    quote(v4, &quoted, &udp, why)
}

/// The same for an echo request.
#[must_use]
pub(crate) fn echo_unreachable(
    source: IpAddr,
    destination: IpAddr,
    identifier: u16,
    why: Reason,
) -> Option<Vec<u8>> {
    let v4 = source.is_ipv4();
    let (number, kind) = echo_kind(v4, true);
    let mut echo = [0; HEADER_LEN];
    echo[0] = kind;
    echo[4..6].copy_from_slice(&identifier.to_be_bytes());
    quote(v4, &IpHeader::new(source, destination, number), &echo, why)
}

fn quote(v4: bool, quoted: &IpHeader, start: &[u8], why: Reason) -> Option<Vec<u8>> {
    let number = if v4 { protocol::ICMP } else { protocol::ICMPV6 };
    let outer = IpHeader::new(quoted.dst, quoted.src, number);
    let mut packet = vec![0; 40 + HEADER_LEN + 40 + start.len()];
    let inner_len = if v4 { 20 } else { 40 } + start.len();
    let at = outer.emit(&mut packet, HEADER_LEN + inner_len).ok()?;
    packet.truncate(at + HEADER_LEN + inner_len);
    (packet[at], packet[at + 1]) = (why.kind, why.code);
    let inner = quoted.emit(&mut packet[at + HEADER_LEN..], start.len()).ok()?;
    packet[at + HEADER_LEN + inner..].copy_from_slice(start);
    let sum = icmp::checksum(&outer, &packet[at..]);
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}

/// Writes an IP header that ends at `end`, for all that follows.
fn put_ip(buffer: &mut [u8], header: &IpHeader, end: usize) -> Option<usize> {
    let start = end - if header.src.is_ipv4() { 20 } else { 40 };
    let len = buffer.len() - end;
    header.emit(&mut buffer[start..], len).ok().map(|_| start)
}

/// Protocol number, and type of an echo request or reply.
fn echo_kind(v4: bool, request: bool) -> (u8, u8) {
    match (v4, request) {
        (true, true) => (protocol::ICMP, 8),
        (true, false) => (protocol::ICMP, 0),
        (false, true) => (protocol::ICMPV6, 128),
        (false, false) => (protocol::ICMPV6, 129),
    }
}

/// Over the pseudo header too (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn checksum(header: &IpHeader, data: &[u8]) -> u16 {
    let mut sum = Checksum::of(data);
    sum.pad();
    for address in [header.src, header.dst] {
        match address {
            IpAddr::V4(v4) => sum.add(&v4.octets()),
            IpAddr::V6(v6) => sum.add(&v6.octets()),
        }
    }
    sum.add_u32(data.len() as u32);
    sum.add_u32(u32::from(header.protocol));
    sum.finish()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tabane_wire::{Datagram, Trust};

    fn address(v4: bool, octets: [u8; 16]) -> IpAddr {
        match v4 {
            true => [octets[0], octets[1], octets[2], octets[3]].into(),
            false => octets.into(),
        }
    }

    proptest! {
        #[test]
        fn datagrams_are_what_the_wire_crate_takes(
            v4: bool, a: [u8; 16], b: [u8; 16], ports: (u16, u16),
            payload in prop::collection::vec(any::<u8>(), 0..300),
            flip in any::<prop::sample::Index>(),
        ) {
            let source = SocketAddr::new(address(v4, a), ports.0);
            let destination = SocketAddr::new(address(v4, b), ports.1);
            let mut buffer = [&[0xa5; HEADROOM][..], &payload].concat();
            let start = put_udp(&mut buffer, source, destination).unwrap();
            let mut packet = buffer[start..].to_vec();
            let datagram = Datagram::parse_slice(&packet, Trust::Verify).unwrap();
            prop_assert_eq!((datagram.src, datagram.dst), (source, destination));
            prop_assert_eq!(&datagram.payload[..], &payload[..]);
            let inside = Inside::Datagram { source, destination, payload: &payload };
            prop_assert_eq!(parse(&packet), Some(inside));
            let at = flip.index(packet.len());
            packet[at] ^= 0x10;
            let damaged = parse(&packet);
            prop_assert!(at < packet.len() - payload.len() || damaged.is_none());
            for cut in 0..packet.len() {
                prop_assert!(damaged.is_none() || parse(&packet[..cut]).is_none());
            }
        }

        #[test]
        fn echo_replies_are_in_the_identifier_of_the_request(
            v4: bool, a: [u8; 16], b: [u8; 16], identifier: u16, data: Vec<u8>,
        ) {
            let (us, them) = (address(v4, a), address(v4, b));
            let mut buffer = [&[0; HEADROOM][..], &[9; 8], &data].concat();
            let start = put_echo_reply(&mut buffer, them, us, identifier).unwrap();
            let mut packet = buffer[start..].to_vec();
            let (header, range) = IpHeader::parse(&packet).unwrap();
            prop_assert_eq!((header.src, header.dst), (them, us));
            prop_assert_eq!(icmp::checksum(&header, &packet[range.clone()]), 0);
            prop_assert!(parse(&packet).is_none(), "a reply is no request");
            // A request is told by its type alone.
            let at = range.start;
            packet[at] = echo_kind(v4, true).1;
            packet[at + 2..at + 4].fill(0);
            let sum = icmp::checksum(&header, &packet[at..]).to_be_bytes();
            packet[at + 2..at + 4].copy_from_slice(&sum);
            let Some(Inside::Echo { identifier: found, message, .. }) = parse(&packet) else {
                return Err(TestCaseError::fail("no request"));
            };
            prop_assert_eq!((found, &message[8..]), (identifier, &data[..]));
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>, first in prop::sample::select(&[0x45u8, 0x60][..])) {
            let _ = parse(&bytes);
            let mut bytes = bytes;
            bytes.resize(bytes.len().max(60), 0);
            bytes[0] = first;
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn what_did_not_arrive_is_quoted() {
        for (source, destination) in
            [("10.81.0.31:4000", "192.0.2.1:9"), ("[fd74::1f]:4000", "[2001:db8::1]:9")]
        {
            let (source, destination): (SocketAddr, SocketAddr) =
                (source.parse().unwrap(), destination.parse().unwrap());
            let v4 = source.is_ipv4();
            let packet = unreachable(source, destination, Reason::port(v4)).unwrap();
            let (outer, range) = IpHeader::parse(&packet).unwrap();
            assert_eq!((outer.src, outer.dst), (destination.ip(), source.ip()));
            let icmp = &packet[range];
            assert_eq!(icmp::checksum(&outer, icmp), 0);
            assert_eq!(icmp[..2], if v4 { [3, 3] } else { [1, 4] });
            let (inner, range) = IpHeader::parse(&icmp[8..]).unwrap();
            assert_eq!((inner.src, inner.dst), (source.ip(), destination.ip()));
            assert_eq!(icmp[8..][range][..4], [0x0f, 0xa0, 0, 9]);
            let echo =
                echo_unreachable(source.ip(), destination.ip(), 7, Reason::host(v4)).unwrap();
            assert_eq!(echo[echo.len() - 8..], [if v4 { 8 } else { 128 }, 0, 0, 0, 0, 7, 0, 0]);
        }
        assert!(
            unreachable(
                "10.0.0.1:1".parse().unwrap(),
                "[::1]:1".parse().unwrap(),
                Reason::port(true)
            )
            .is_none()
        );
        assert_eq!(Reason::reported(true, 3, 3), Some(Reason::port(true)));
        assert_eq!(Reason::reported(true, 3, 4), None);
        assert_eq!(Reason::reported(false, 2, 0), None);
    }
}
