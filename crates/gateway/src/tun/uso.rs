//! Puts datagrams of one flow together again for a device that takes them at once (USO): one
//! header, many payloads. The host takes them apart for its program, or gives it all of them if it
//! asks (`UDP_GRO`). Knows nothing of devices.

use crate::udp::packet::{Inside, parse};
use std::net::SocketAddr;
use tabane_net::device::virtio::VirtioHeader;
use tabane_wire::ip::{IpHeader, protocol};

/// Datagrams that will leave as one packet.
#[derive(Default, Debug)]
pub(crate) struct DatagramTrain {
    /// The first packet, then the payloads of the others.
    bytes: Vec<u8>,
    /// What they have in common; `None` when there are none.
    head: Option<Head>,
    count: usize,
    /// The last was short: nothing may follow.
    closed: bool,
}

/// Of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    source: SocketAddr,
    destination: SocketAddr,
    /// Payload of each but the last.
    size: usize,
    /// Where its IP header ends.
    ip_len: usize,
    /// What of the IP header says how it is to be treated on its way.
    service: [u8; 2],
}

/// Datagrams of one packet at most, as with `UDP_SEGMENT` (`UDP_MAX_SEGMENTS` of every kernel that
/// has it).
const DATAGRAMS_MAX: usize = 64;
/// IP's length field has 16 bits, and counts the header in IPv4.
const BYTES_MAX: usize = 65_535;
const UDP_LEN: usize = 8;

impl DatagramTrain {
    /// Takes a whole IP packet in if it is a datagram that continues what is there, or if nothing
    /// is there; `false`: what is there is to be taken first, or it must go by itself.
    pub(crate) fn push(&mut self, packet: &[u8]) -> bool {
        let Some((head, payload)) = Head::of(packet) else { return false };
        let Some(first) = &self.head else {
            self.bytes.clear();
            self.bytes.extend_from_slice(packet);
            (self.head, self.count, self.closed) = (Some(head), 1, head.size == 0);
            return true;
        };
        let fits = !self.closed
            && self.count < DATAGRAMS_MAX
            && self.bytes.len() + payload.len() <= BYTES_MAX
            && (1..=first.size).contains(&head.size)
            && *first == (Head { size: first.size, ..head });
        if fits {
            self.closed = head.size < first.size;
            self.count += 1;
            self.bytes.extend_from_slice(payload);
        }
        fits
    }

    /// What is there, as one packet behind its header, and how many datagrams that is.
    pub(crate) fn take(&mut self) -> Option<(VirtioHeader, &[u8], usize)> {
        let Head { size, ip_len, .. } = self.head.take()?;
        if self.count == 1 {
            return Some((VirtioHeader::default(), &self.bytes, 1));
        }
        let v4 = self.bytes[0] >> 4 == 4;
        let len = self.bytes.len() - ip_len;
        let (ip, udp) = self.bytes.split_at_mut(ip_len);
        if v4 {
            ip[2..4].copy_from_slice(&((ip_len + len) as u16).to_be_bytes());
            ip[10..12].fill(0);
            let sum = tabane_wire::Checksum::of(ip).finish();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        udp[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        let partial = partial_checksum(if v4 { &ip[12..20] } else { &ip[8..40] }, len);
        udp[6..8].copy_from_slice(&partial.to_be_bytes());
        Some((VirtioHeader::for_udp(ip_len, size as u16), &self.bytes, self.count))
    }
}

impl Head {
    /// Of a whole packet with a sound checksum and no options; and its payload.
    fn of(packet: &[u8]) -> Option<(Self, &[u8])> {
        let Inside::Datagram { source, destination, payload } = parse(packet)? else { return None };
        let v4 = source.is_ipv4();
        let ip_len = if v4 { 20 } else { 40 };
        let (header, _) = IpHeader::parse(packet).ok()?;
        let whole = packet.len() == ip_len + UDP_LEN + payload.len();
        // Without a checksum of its own it is not to get one.
        let summed = packet.get(ip_len + 6..ip_len + UDP_LEN)? != [0; 2];
        if !whole || !summed || header.protocol != protocol::UDP {
            return None;
        }
        // Type of service and hop limit; of IPv6 the traffic class lies in the first two bytes.
        let service =
            if v4 { [packet[1], packet[8]] } else { [packet[0] << 4 | packet[1] >> 4, packet[7]] };
        Some((Self { source, destination, size: payload.len(), ip_len, service }, payload))
    }
}

/// The sum of the pseudo header, as the kernel wants it where the rest is to be added.
fn partial_checksum(addresses: &[u8], len: usize) -> u16 {
    let mut sum = tabane_wire::Checksum::of(addresses);
    sum.add_u32(u32::from(protocol::UDP));
    sum.add_u32(len as u32);
    !sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::packet::{HEADROOM, put_udp};

    fn datagram(v4: bool, port: u16, len: usize) -> Vec<u8> {
        let (from, to) = match v4 {
            true => ("192.0.2.1:9", format!("10.81.0.31:{port}")),
            false => ("[2001:db8::1]:9", format!("[fd74::1f]:{port}")),
        };
        let mut buffer = vec![0; HEADROOM];
        buffer.extend((0..len).map(|i| i as u8));
        let start = put_udp(&mut buffer, from.parse().unwrap(), to.parse().unwrap()).unwrap();
        buffer.split_off(start)
    }

    /// What the kernel makes of it: cut every so many bytes, each with headers of its own.
    fn cut(train: &mut DatagramTrain) -> Vec<Vec<u8>> {
        let (header, packet, count) = train.take().unwrap();
        let Some(frame) = header.frame(packet.to_vec().into()) else { return Vec::new() };
        let mut packets =
            super::super::Packets::new(super::super::PacketsConfig { dns: Vec::new(), mtu: 1500 });
        let super::super::Inbound::Udp(datagrams) =
            packets.classify(tabane_engine::Instant::ZERO, frame)
        else {
            panic!("no datagrams")
        };
        let all: Vec<_> = datagrams
            .map(|datagram| crate::udp_packet(datagram.src, datagram.dst, datagram.payload))
            .collect();
        assert_eq!(all.len(), count);
        all
    }

    #[test]
    fn what_continues_joins_until_something_short_comes() {
        for v4 in [true, false] {
            let mut train = DatagramTrain::default();
            let all = [1400, 1400, 1400, 30].map(|len| datagram(v4, 5000, len));
            assert!(all.iter().all(|packet| train.push(packet)));
            assert!(!train.push(&all[0]), "after a short one");
            let bare = |packet: &[u8]| packet[if v4 { 20 } else { 40 }..].to_vec();
            let cut: Vec<_> = cut(&mut train).iter().map(|packet| bare(packet)).collect();
            assert_eq!(cut, all.map(|packet| bare(&packet)));
            assert!(train.take().is_none());
        }
    }

    #[test]
    fn one_alone_is_as_it_came() {
        let (mut train, packet) = (DatagramTrain::default(), datagram(true, 5000, 100));
        assert!(train.push(&packet));
        assert_eq!(train.take(), Some((VirtioHeader::default(), &packet[..], 1)));
    }

    #[test]
    fn what_differs_goes_by_itself() {
        let base = datagram(true, 5000, 100);
        let changed = |at: usize, byte: u8| {
            let mut packet = base.clone();
            packet[at] = byte;
            packet[10..12].fill(0);
            let sum = tabane_wire::Checksum::of(&packet[..20]).finish();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet
        };
        let strangers = [
            datagram(true, 5001, 100),
            datagram(true, 5000, 101),
            datagram(true, 5000, 0),
            datagram(false, 5000, 100),
            changed(1, 0xb8),
            changed(8, 7),
            changed(6, 0x20),
            changed(40, 0xff),
            b"junk".to_vec(),
        ];
        for stranger in strangers {
            let mut train = DatagramTrain::default();
            assert!(train.push(&base));
            assert!(!train.push(&stranger), "{stranger:?}");
            assert_eq!(train.take().map(|taken| taken.2), Some(1));
        }
    }

    #[test]
    fn a_packet_has_an_end() {
        for v4 in [true, false] {
            let mut train = DatagramTrain::default();
            let mut count = 0;
            while train.push(&datagram(v4, 5000, 1400)) {
                count += 1;
            }
            assert_eq!((count, train.take().unwrap().2), (46, 46));
            while train.push(&datagram(v4, 5000, 8)) {
                count -= 1;
            }
            assert_eq!(count, 46 - DATAGRAMS_MAX as i32);
        }
    }
}
