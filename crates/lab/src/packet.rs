//! A packet on an emulated link: its bytes and where it is on its route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_sim::link;
use tabane_sim::topology::NO_ROUTE;
use tabane_wire::Checksum;

/// A whole IP packet.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Where it is on its route.
    pub(crate) cursor: u32,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, cursor: NO_ROUTE }
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
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
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

    /// An IPv4 packet of this protocol with these ports.
    fn flow(protocol: u8, ports: [u8; 4]) -> u64 {
        let mut bytes = vec![0; 40];
        (bytes[0], bytes[9]) = (0x45, protocol);
        bytes[20..24].copy_from_slice(&ports);
        Packet::new(bytes).flow()
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
