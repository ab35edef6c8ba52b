//! From a frame to the IP packet in it, by link type (the numbers of the tcpdump.org registry).
//!
//! Checksums at the link's end (FCS) are not verified: IP says where its packet ends.

use super::skips::Skip;

/// The IP packet in a frame, and how many bytes it and what follows it had on the wire.
#[inline]
pub(super) fn ip_packet(
    link_type: u32,
    frame: &[u8],
    wire_len: usize,
) -> Result<(&[u8], usize), Skip> {
    let at = match link_type {
        ETHERNET => ethertype(frame, 12)?,
        RAW | RAW_BSD | RAW_OPENBSD | IPV4 | IPV6 => 0,
        LINUX_SLL => ethertype(frame, 14)?,
        LINUX_SLL2 => sll2(frame)?,
        NULL | LOOP => family(frame)?,
        PPP => ppp(frame, 0)?,
        // One byte says who sent it.
        PPP_WITH_DIRECTION => ppp(frame, 1)?,
        // PPP in HDLC-like framing (RFC 1662), or Cisco's HDLC (RFC 1547 section 4.3.1).
        PPP_SERIAL if frame.first() == Some(&0xff) => ppp(frame, 0)?,
        PPP_SERIAL | C_HDLC => ethertype(frame, 2)?,
        PPP_ETHER => ppp(frame, 6)?,
        NFLOG => nflog(frame)?,
        other => return Err(Skip::LinkType(other)),
    };
    let packet = frame.get(at..).ok_or(Skip::CutOff)?;
    Ok((packet, wire_len.saturating_sub(at)))
}

/// Where the packet of the EtherType at `at` starts; tags in between are passed over.
#[inline]
fn ethertype(frame: &[u8], at: usize) -> Result<usize, Skip> {
    match be16(frame, at)? {
        0x0800 | 0x86dd => Ok(at + 2),
        _ => tagged(frame, at),
    }
}

fn tagged(frame: &[u8], mut at: usize) -> Result<usize, Skip> {
    // Each round goes on by at least two bytes, so this ends with the frame.
    loop {
        match be16(frame, at)? {
            0x0800 | 0x86dd => return Ok(at + 2),
            // VLAN: 802.1Q, 802.1ad, and two that came before it.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 4,
            // PPPoE session: version, type, code, session and length, then the protocol.
            0x8864 => return ppp(frame, at + 8),
            0x8847 | 0x8848 => return mpls(frame, at + 2),
            // 802.3 with SNAP (RFC 1042).
            0..=1500 if frame.get(at + 2..at + 8) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) => at += 8,
            other => return Err(Skip::NotIp(other)),
        }
    }
}

/// Labels down to the one at the bottom of the stack (RFC 3032); the packet's first four bits
/// then tell what it is.
pub(super) fn mpls(frame: &[u8], mut at: usize) -> Result<usize, Skip> {
    loop {
        let label = frame.get(at..at + 4).ok_or(Skip::CutOff)?;
        at += 4;
        if label[2] & 1 == 1 {
            break;
        }
    }
    match frame.get(at).ok_or(Skip::CutOff)? >> 4 {
        4 | 6 => Ok(at),
        _ => Err(Skip::NotIp(0x8847)),
    }
}

/// PPP, with or without address and control (RFC 1662); the protocol may be compressed.
pub(super) fn ppp(frame: &[u8], mut at: usize) -> Result<usize, Skip> {
    if frame.get(at..at + 2) == Some(&[0xff, 0x03]) {
        at += 2;
    }
    match be16(frame, at)? {
        0x0021 | 0x0057 => Ok(at + 2),
        other if [0x21, 0x57].contains(&(other >> 8)) => Ok(at + 1),
        other => Err(Skip::NotIp(other)),
    }
}

fn sll2(frame: &[u8]) -> Result<usize, Skip> {
    match be16(frame, 0)? {
        0x0800 | 0x86dd => Ok(20),
        // Tags stand where the packet otherwise starts.
        0x8100 | 0x88a8 => ethertype(frame, 22),
        0x8864 => ppp(frame, 26),
        0x8847 | 0x8848 => mpls(frame, 20),
        other => Err(Skip::NotIp(other)),
    }
}

/// Linux's netfilter log: attributes, of which one is the packet. Their lengths are in the byte
/// order of the machine that captured, which nothing states: that in which they fit is taken.
fn nflog(frame: &[u8]) -> Result<usize, Skip> {
    let read = |at: usize, big_endian: bool| {
        let bytes = *frame.get(at..)?.first_chunk()?;
        Some(if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    };
    let payload = |big_endian| {
        // Address family, version, resource id.
        let mut at = 4;
        loop {
            let (length, kind) = (usize::from(read(at, big_endian)?), read(at + 2, big_endian)?);
            if length < 4 {
                return None;
            }
            if kind & 0x7fff == NFULA_PAYLOAD {
                return Some(at + 4);
            }
            at += length.next_multiple_of(4);
        }
    };
    match frame.first().ok_or(Skip::CutOff)? {
        2 | 10 => payload(false).or_else(|| payload(true)).ok_or(Skip::CutOff),
        other => Err(Skip::NotIp(u16::from(*other))),
    }
}

/// BSD's address family, in either byte order: the file's need not be that of the machine.
fn family(frame: &[u8]) -> Result<usize, Skip> {
    let bytes = frame.first_chunk().ok_or(Skip::CutOff)?;
    let family = u32::from_le_bytes(*bytes).min(u32::from_be_bytes(*bytes));
    match family {
        2 | 10 | 24 | 28 | 30 => Ok(4),
        other => Err(Skip::NotIp(other as u16)),
    }
}

#[inline]
pub(super) fn be16(frame: &[u8], at: usize) -> Result<u16, Skip> {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|b| u16::from_be_bytes(*b)).ok_or(Skip::CutOff)
}

const NULL: u32 = 0;
pub(super) const ETHERNET: u32 = 1;
const PPP: u32 = 9;
/// DLT_RAW, which some programs wrote into files.
const RAW_BSD: u32 = 12;
const RAW_OPENBSD: u32 = 14;
const PPP_SERIAL: u32 = 50;
const PPP_ETHER: u32 = 51;
const RAW: u32 = 101;
const C_HDLC: u32 = 104;
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
const PPP_WITH_DIRECTION: u32 = 204;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const NFLOG: u32 = 239;
const LINUX_SLL2: u32 = 276;
/// Attribute of NFLOG that holds the packet.
const NFULA_PAYLOAD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Header bytes before a packet that starts with 0x45.
    fn starts(link_type: u32, header: &[u8]) -> Result<(), Skip> {
        let mut frame = header.to_vec();
        frame.extend([0x45, 0, 0, 20]);
        let (packet, len) = ip_packet(link_type, &frame, frame.len() + 100)?;
        assert_eq!((packet, len), (&[0x45, 0, 0, 20][..], 104));
        Ok(())
    }

    fn ethernet(rest: &[u8]) -> Vec<u8> {
        [&[0; 12][..], rest].concat()
    }

    #[test]
    fn packets_start_after_their_link_headers() {
        for rest in [
            &[8, 0][..],
            &[0x81, 0, 0, 5, 8, 0],
            &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 8, 0],
            &[0x88, 0x64, 0x11, 0, 0, 1, 0, 50, 0, 0x21],
            &[0x88, 0x47, 0, 1, 0, 64, 0, 1, 1, 64],
            &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
        ] {
            assert_eq!(starts(ETHERNET, &ethernet(rest)), Ok(()), "{rest:02x?}");
        }
        let cooked = [&[0; 14][..], &[8, 0]].concat();
        assert_eq!(starts(LINUX_SLL, &cooked), Ok(()));
        let tagged = [&[0; 14][..], &[0x81, 0, 0, 3, 8, 0]].concat();
        assert_eq!(starts(LINUX_SLL, &tagged), Ok(()));
        let cooked = |kind: [u8; 2], more: &[u8]| [&kind[..], &[0; 18], more].concat();
        for header in [
            cooked([8, 0], &[]),
            cooked([0x81, 0], &[0, 5, 8, 0]),
            cooked([0x88, 0x64], &[0x11, 0, 0, 1, 0, 50, 0, 0x21]),
            cooked([0x88, 0x47], &[0, 1, 0, 64, 0, 1, 1, 64]),
        ] {
            assert_eq!(starts(LINUX_SLL2, &header), Ok(()), "{header:02x?}");
        }
        for link_type in [RAW, RAW_BSD, RAW_OPENBSD, IPV4] {
            assert_eq!(starts(link_type, &[]), Ok(()));
        }
        assert_eq!(starts(NULL, &[2, 0, 0, 0]), Ok(()));
        assert_eq!(starts(LOOP, &[0, 0, 0, 2]), Ok(()));
        assert_eq!(starts(PPP, &[0xff, 3, 0, 0x21]), Ok(()));
        assert_eq!(starts(PPP, &[0x21]), Ok(()));
        assert_eq!(starts(PPP_SERIAL, &[0x0f, 0, 8, 0]), Ok(()));
        for attribute in [[8, 0, 9, 0], [0, 8, 0, 9]] {
            assert_eq!(starts(NFLOG, &[&[2, 0, 0, 1][..], &attribute].concat()), Ok(()));
        }
    }

    #[test]
    fn what_is_not_ip_is_named() {
        let refused = |link_type, frame: &[u8]| ip_packet(link_type, frame, 60).unwrap_err();
        assert_eq!(refused(ETHERNET, &ethernet(&[8, 6, 0, 0])), Skip::NotIp(0x0806));
        assert_eq!(refused(ETHERNET, &ethernet(&[0x81])), Skip::CutOff);
        assert_eq!(refused(ETHERNET, &ethernet(&[0, 38, 0x42, 0x42, 3])), Skip::NotIp(38));
        assert_eq!(refused(127, &[0; 60]), Skip::LinkType(127));
        // Netlink's log may be of other families, and endless in neither byte order.
        assert_eq!(refused(NFLOG, &[7, 0, 0, 1, 8, 0, 9, 0]), Skip::NotIp(7));
        for length in [0, 3] {
            assert_eq!(refused(NFLOG, &[2, 0, 0, 1, length, 0, 1, 0]), Skip::CutOff);
        }
    }
}
