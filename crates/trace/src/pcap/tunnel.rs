//! From an IP packet that carries a tunnel to the IP packet inside: IP in IP (RFC 2003, 4213,
//! 2473), GRE (RFC 2784, 2890, and version 1 of RFC 2637) and VXLAN (RFC 7348).
//!
//! As in Wireshark the innermost TCP is what counts. A tunnel whose outer packets are fragments
//! is not looked into: nothing here reassembles them.

use super::link::{ETHERNET, be16, ip_packet, mpls, ppp};
use super::skips::Skip;
use tabane_wire::ip::{IpHeader, protocol};

/// Tunnels in tunnels that are looked into.
pub(super) const DEPTH: usize = 8;

/// The IP packet inside `packet`, whose upper layer is `number`, and its bytes on the wire.
#[cold]
pub(super) fn inside(number: u8, packet: &[u8], wire_len: usize) -> Result<(&[u8], usize), Skip> {
    if !matches!(number, IP_IN_IP | IPV6_IN_IP | GRE | protocol::UDP) {
        return Err(Skip::NotTcp(number));
    }
    let (_, range) = IpHeader::parse_captured(packet, wire_len)?;
    let kept = packet.get(range.start..range.end.min(packet.len())).ok_or(Skip::CutOff)?;
    let wire_len = range.len();
    match number {
        GRE => gre(kept, wire_len),
        protocol::UDP => vxlan(kept, wire_len),
        _ => Ok((kept, wire_len)),
    }
}

fn gre(frame: &[u8], wire_len: usize) -> Result<(&[u8], usize), Skip> {
    let (flags, carried) = (be16(frame, 0)?, be16(frame, 2)?);
    let version = flags & 7;
    let mut at = 4;
    // Checksum and offset; key; sequence number; in version 1 also an acknowledgement.
    for (bit, present) in [(CHECKSUM | ROUTING, 4), (KEY, 4), (SEQUENCE, 4), (ACKNOWLEDGEMENT, 4)] {
        let known = bit != ACKNOWLEDGEMENT || version == 1;
        at += if known && flags & bit != 0 { present } else { 0 };
    }
    if flags & ROUTING != 0 {
        // Source routes within GRE (RFC 1701) were given up in 2000.
        return Err(Skip::NotTcp(GRE));
    }
    let packet = match carried {
        0x0800 | 0x86dd => at,
        0x8847 | 0x8848 => mpls(frame, at)?,
        0x880b => ppp(frame, at)?,
        0x6558 => {
            let inner = frame.get(at..).ok_or(Skip::CutOff)?;
            return ip_packet(ETHERNET, inner, wire_len.saturating_sub(at));
        }
        other => return Err(Skip::NotIp(other)),
    };
    let inner = frame.get(packet..).ok_or(Skip::CutOff)?;
    Ok((inner, wire_len.saturating_sub(packet)))
}

fn vxlan(datagram: &[u8], wire_len: usize) -> Result<(&[u8], usize), Skip> {
    // The header of UDP and that of VXLAN have 8 bytes each.
    const HEADERS: usize = 16;
    let ports = [be16(datagram, 0)?, be16(datagram, 2)?];
    if !ports.contains(&VXLAN_PORT) {
        return Err(Skip::NotTcp(protocol::UDP));
    }
    let frame = datagram.get(HEADERS..).ok_or(Skip::CutOff)?;
    ip_packet(ETHERNET, frame, wire_len.saturating_sub(HEADERS))
}

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACKNOWLEDGEMENT: u16 = 0x0080;
