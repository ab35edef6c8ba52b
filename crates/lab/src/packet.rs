//! A packet on an emulated link: its bytes and where it is on its route. One of a host with
//! segmentation offload may stand for many segments (a super-packet), which share its fate.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_net::device::virtio::VirtioHeader;
use tabane_sim::link;
use tabane_sim::topology::NO_ROUTE;
use tabane_wire::Checksum;

/// A whole IP packet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Where it is on its route.
    pub(crate) cursor: u32,
    /// What a host with segmentation offload left for the device to do.
    pub(crate) offload: VirtioHeader,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, cursor: NO_ROUTE, offload: VirtioHeader::default() }
    }

    /// Length of its headers, if it stands for several segments, and what each of them carries.
    fn segments(&self) -> Option<(usize, usize)> {
        let (size, tcp) = (self.offload.segment_size()?.into(), self.offload.transport_start());
        let tcp_len = usize::from(*self.bytes.get(tcp + 12)? >> 4) * 4;
        Some((tcp + tcp_len, size)).filter(|(headers, _)| *headers <= self.bytes.len())
    }

    /// Length of the longest packet that it would be on a wire.
    pub(crate) fn longest(&self) -> usize {
        let len = self.bytes.len();
        self.segments().map_or(len, |(headers, size)| len.min(headers + size))
    }

    /// As a capture has it: with its checksum, if that was left to the device.
    pub(crate) fn seen(&self) -> Cow<'_, [u8]> {
        let Some(at) = self.offload.partial_checksum() else { return (&self.bytes).into() };
        let mut bytes = self.bytes.clone();
        if let Some(part) = bytes.get(self.offload.transport_start()..) {
            // The sum of the pseudo header is there already.
            let sum = Checksum::of(part).finish();
            if let Some(field) = bytes.get_mut(at..at + 2) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        bytes.into()
    }

    /// Where it wants to go, if it is an IP packet to one host.
    pub(crate) fn destination(&self) -> Option<IpAddr> {
        self.address().filter(|to| !to.is_multicast())
    }

    fn address(&self) -> Option<IpAddr> {
        match self.bytes.first()? >> 4 {
            4 => {
                let octets: [u8; 4] = self.bytes.get(16..20)?.try_into().ok()?;
                Some(Ipv4Addr::from(octets).into())
            }
            6 => {
                let octets: [u8; 16] = self.bytes.get(24..40)?.try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            }
            _ => None,
        }
    }
}

impl link::Packet for Packet {
    fn wire_len(&self) -> u32 {
        let more = self.segments().map_or(0, |(headers, size)| {
            let segments = (self.bytes.len() - headers).div_ceil(size);
            segments.saturating_sub(1) * headers
        });
        u32::try_from(self.bytes.len() + more).unwrap_or(u32::MAX)
    }

    fn ect(&self) -> bool {
        let ecn = match self.bytes.as_slice() {
            [first, tos, ..] if first >> 4 == 4 => *tos,
            [first, second, ..] if first >> 4 == 6 => *second >> 4,
            _ => 0,
        };
        matches!(ecn & 3, 1 | 2)
    }

    fn mark_ce(&mut self) {
        if self.bytes[0] >> 4 == 6 {
            self.bytes[1] |= 0x30;
            return;
        }
        self.bytes[1] |= 3;
        let header = usize::from(self.bytes[0] & 15) * 4;
        if let Some(header) = self.bytes.get_mut(..header).filter(|h| h.len() >= 20) {
            header[10..12].fill(0);
            let sum = Checksum::of(header).finish();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }

    fn corrupt(&mut self, bits: u64) {
        // A checksum that the device at the far end fills in would hide the damage.
        if let Cow::Owned(bytes) = self.seen() {
            self.bytes = bytes;
            self.offload.complete_checksum();
        }
        link::Packet::corrupt(&mut self.bytes, bits);
    }

    fn duplicate(&self) -> Self {
        self.clone()
    }

    fn flow(&self) -> u64 {
        let bytes = &self.bytes;
        let (protocol, addresses, ports) = match bytes.first().map_or(0, |first| first >> 4) {
            4 => (9, 12..20, usize::from(bytes[0] & 15) * 4),
            6 => (6, 8..40, 40),
            _ => return 0,
        };
        let part = |range: std::ops::Range<usize>| bytes.get(range).unwrap_or_default();
        let protocol = part(protocol..protocol + 1);
        let has_ports = matches!(protocol, [6 | 17]);
        let ports = if has_ports { part(ports..ports + 4) } else { &[] };
        link::flow_hash(&[protocol, part(addresses), ports])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_sim::link::Packet as _;
    use tabane_wire::{Flags, Segment, SeqNum, TcpOptions, Timestamps};

    /// An IPv4 packet of this protocol with these ports.
    fn flow(protocol: u8, ports: [u8; 4]) -> u64 {
        let mut bytes = vec![0; 40];
        (bytes[0], bytes[9]) = (0x45, protocol);
        bytes[20..24].copy_from_slice(&ports);
        Packet::new(bytes).flow()
    }

    /// As a host with segmentation offload gives it: 1448 bytes a segment, the pseudo header's
    /// sum where the checksum goes.
    fn super_packet(payload: usize) -> (Segment, Packet) {
        let segment = Segment {
            src: ([10, 0, 0, 1], 1).into(),
            dst: ([10, 0, 0, 2], 2).into(),
            seq: SeqNum(1),
            ack: SeqNum(1),
            flags: Flags::ACK,
            window: 1000,
            ecn: Default::default(),
            options: TcpOptions {
                timestamps: Some(Timestamps { value: 1, echo: 2 }),
                ..TcpOptions::default()
            },
            payload: (0..payload).map(|n| n as u8).collect(),
        };
        let mut bytes = vec![0; segment.wire_len()];
        segment.emit(&mut bytes).unwrap();
        let mut pseudo = Checksum::of(&bytes[12..20]);
        pseudo.add_u16(6);
        pseudo.add_u16((bytes.len() - 20) as u16);
        bytes[36..38].copy_from_slice(&(!pseudo.finish()).to_be_bytes());
        let offload = VirtioHeader::for_tcp(20, 32, (payload > 1448).then_some(1448), true);
        (segment, Packet { offload, ..Packet::new(bytes) })
    }

    #[test]
    fn a_super_packet_takes_the_time_of_its_segments_and_is_captured_whole() {
        for (payload, wire, longest) in
            [(1448, 1500, 1500), (1449, 1553, 1500), (2896, 3000, 1500), (10_000, 10_364, 1500)]
        {
            let (segment, packet) = super_packet(payload);
            assert_eq!((packet.wire_len(), packet.longest()), (wire, longest), "{payload}");
            let bare = Segment::parse_slice(&packet.bytes);
            assert!(bare.is_err(), "its checksum is left to the device");
            assert_eq!(Segment::parse_slice(&packet.seen()).unwrap(), segment);
        }
        let (_, mut packet) = super_packet(10_000);
        packet.corrupt(8 * 100);
        assert!(Segment::parse_slice(&packet.seen()).is_err(), "damage is not covered up");
        assert_eq!((packet.wire_len(), packet.longest()), (10_364, 1500));
        packet.bytes.truncate(30);
        assert_eq!((packet.wire_len(), packet.longest()), (30, 30), "cut within its headers");
        assert_eq!(packet.seen().len(), 30);
    }

    #[test]
    fn flows_differ_by_protocol_and_ports() {
        let tcp = flow(6, [0, 1, 0, 2]);
        assert_eq!(tcp, flow(6, [0, 1, 0, 2]));
        assert_ne!(tcp, flow(6, [0, 1, 0, 3]));
        assert_ne!(tcp, flow(17, [0, 1, 0, 2]));
        assert_eq!(flow(1, [0, 1, 0, 2]), flow(1, [9, 9, 9, 9]), "ICMP has no ports");
        assert_eq!(Packet::new(vec![0x45; 3]).flow(), Packet::new(vec![0x45; 3]).flow());
        assert_eq!(Packet::new(Vec::new()).flow(), 0);
    }
}
