//! Fragments of IP packets (RFC 791 section 3.2, RFC 8200 section 4.5), for datagrams that are
//! longer than the largest packet of a path, and for what hosts have cut themselves. Overlapping
//! fragments are not put together (RFC 5722): the packet is dropped.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_engine::{Duration, Instant};
use tabane_wire::Checksum;

/// Puts fragments of one peer, or of the host and those behind it, together.
#[derive(Default, Debug)]
pub(crate) struct Reassembler {
    packets: BTreeMap<Key, Partial>,
    /// Bytes in `packets`.
    held: usize,
    dropped: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    protocol: u8,
}

#[derive(Debug)]
struct Partial {
    since: Instant,
    /// By offset; they do not overlap.
    parts: BTreeMap<usize, Vec<u8>>,
    bytes: usize,
    /// Known with the last one.
    total: Option<usize>,
    /// IPv4: of the first fragment; IPv6: the part before the fragment header.
    header: Vec<u8>,
}

/// A fragment taken apart.
struct Fragment<'a> {
    key: Key,
    offset: usize,
    more: bool,
    header: &'a [u8],
    data: &'a [u8],
}

/// Packets in work; beyond, the oldest is dropped.
const PACKETS_MAX: usize = 32;
/// Bytes in work; beyond, the oldest is dropped.
const BYTES_MAX: usize = 512 << 10;
/// Until a packet is given up: less than the RFCs' minute, since what is late is of no use.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest that an IP packet can be.
const PACKET_MAX: usize = u16::MAX as usize;
/// The next header of a fragment in IPv6.
pub(crate) const FRAGMENT_HEADER: u8 = 44;

/// Whether a packet is a fragment: what only looks at headers must not take it for a whole one.
#[must_use]
pub(crate) fn is_fragment(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => packet.len() >= 20 && u16_at(packet, 6) & 0x3fff != 0,
        Some(6) => packet.get(6) == Some(&FRAGMENT_HEADER),
        _ => false,
    }
}

/// Cuts a packet without IPv4 options or IPv6 extension headers into pieces of at most `mtu`
/// bytes, all with the same `id`, which must not come again between these hosts for some seconds.
/// "Don't fragment" is overruled: it is for who may overrule it. A packet that fits is handed out
/// as it is. Returns false if the packet cannot be cut.
pub(crate) fn cut(packet: &mut [u8], mtu: usize, id: u32, sink: &mut dyn FnMut(&mut [u8])) -> bool {
    if packet.len() <= mtu {
        sink(packet);
        return true;
    }
    let v4 = packet[0] >> 4 == 4;
    let (header_len, added) = if v4 { (20, 0) } else { (40, 8) };
    let plain = match v4 {
        true => packet[0] & 15 == 5 && !is_fragment(packet),
        false => packet.len() >= 40 && ![0, 43, FRAGMENT_HEADER, 60].contains(&packet[6]),
    };
    let Some(space) = mtu.checked_sub(header_len + added).map(|space| space & !7) else {
        return false;
    };
    if !plain || space == 0 {
        return false;
    }
    let (header, data) = packet.split_at(header_len);
    let mut buffer = vec![0; header_len + added + space];
    for (number, part) in data.chunks(space).enumerate() {
        let offset = number * space;
        let more = offset + part.len() < data.len();
        let len = header_len + added + part.len();
        let fragment = &mut buffer[..len];
        fragment[..header_len].copy_from_slice(header);
        fragment[header_len + added..].copy_from_slice(part);
        if v4 {
            fragment[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            fragment[4..6].copy_from_slice(&(id as u16).to_be_bytes());
            let field = (offset / 8) as u16 | u16::from(more) << 13;
            fragment[6..8].copy_from_slice(&field.to_be_bytes());
            sum_header(fragment);
        } else {
            fragment[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            fragment[6] = FRAGMENT_HEADER;
            fragment[40] = header[6];
            fragment[41] = 0;
            fragment[42..44].copy_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes());
            fragment[44..48].copy_from_slice(&id.to_be_bytes());
        }
        sink(fragment);
    }
    true
}

impl Reassembler {
    /// Takes a fragment; returns the packet that it completes.
    pub(crate) fn add(&mut self, now: Instant, packet: &[u8]) -> Option<Vec<u8>> {
        self.expire(now);
        let Some(part) = parse(packet) else {
            self.dropped += 1;
            return None;
        };
        let end = part.offset + part.data.len();
        // Only the last may have any length.
        let odd = part.more && part.data.len() % 8 != 0;
        if odd || end + part.header.len() > PACKET_MAX {
            self.drop_packet(part.key);
            return None;
        }
        let fresh = || Partial {
            since: now,
            parts: BTreeMap::new(),
            bytes: 0,
            total: None,
            header: Vec::new(),
        };
        let partial = self.packets.entry(part.key).or_insert_with(fresh);
        if partial.parts.get(&part.offset).is_some_and(|known| known == part.data) {
            // A copy.
            return None;
        }
        let before = partial.parts.range(..=part.offset).next_back();
        let after = partial.parts.range(part.offset..).next();
        let overlaps = before.is_some_and(|(at, data)| at + data.len() > part.offset)
            || after.is_some_and(|(at, _)| *at < end);
        let ends = [partial.total, (!part.more).then_some(end)];
        let furthest = partial.parts.last_key_value().map_or(0, |(at, data)| at + data.len());
        let contradicts = ends[0].is_some_and(|total| end > total)
            || ends[1].is_some_and(|end| end < furthest || ends[0].is_some_and(|t| t != end));
        if overlaps || contradicts || part.data.is_empty() {
            self.drop_packet(part.key);
            return None;
        }
        partial.total = ends[0].or(ends[1]);
        partial.bytes += part.data.len();
        self.held += part.data.len();
        if part.offset == 0 {
            partial.header = part.header.to_vec();
        }
        partial.parts.insert(part.offset, part.data.to_vec());
        // The first fragment's header may be longer than that of the others.
        if partial.total.unwrap_or(0).max(end) + partial.header.len() > PACKET_MAX {
            self.drop_packet(part.key);
            return None;
        }
        // Parts that lie apart below the end, and are as long together, are all from the first on.
        if partial.total == Some(partial.bytes) {
            let partial = self.packets.remove(&part.key)?;
            self.held -= partial.bytes;
            return Some(whole(&partial, part.key.protocol));
        }
        while self.packets.len() > PACKETS_MAX || self.held > BYTES_MAX {
            let oldest = self.packets.iter().min_by_key(|(key, partial)| (partial.since, **key));
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            self.drop_packet(key);
        }
        None
    }

    /// Packets given up, and fragments that make none.
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn expire(&mut self, now: Instant) {
        let (held, dropped) = (&mut self.held, &mut self.dropped);
        self.packets.retain(|_, partial| {
            let keep = now.saturating_since(partial.since) < PATIENCE;
            if !keep {
                *held -= partial.bytes;
                *dropped += 1;
            }
            keep
        });
    }

    fn drop_packet(&mut self, key: Key) {
        if let Some(partial) = self.packets.remove(&key) {
            self.held -= partial.bytes;
        }
        self.dropped += 1;
    }
}

fn parse(packet: &[u8]) -> Option<Fragment<'_>> {
    if !is_fragment(packet) {
        return None;
    }
    match packet[0] >> 4 {
        4 => {
            let header_len = usize::from(packet[0] & 15) * 4;
            let len = usize::from(u16_at(packet, 2));
            let header = packet.get(..header_len).filter(|header| header.len() >= 20)?;
            if Checksum::of(header).finish() != 0 {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 4] = packet[at..].first_chunk().copied()?;
                Some(Ipv4Addr::from(octets).into())
            };
            let field = u16_at(packet, 6);
            Some(Fragment {
                key: Key {
                    src: address(12)?,
                    dst: address(16)?,
                    id: u32::from(u16_at(packet, 4)),
                    protocol: packet[9],
                },
                offset: usize::from(field & 0x1fff) * 8,
                more: field & 0x2000 != 0,
                header,
                data: packet.get(header_len..len)?,
            })
        }
        _ => {
            let len = 40 + usize::from(u16_at(packet.get(..48)?, 4));
            // No host cuts a fragment again, and what looks at headers expects a whole packet.
            if packet[40] == FRAGMENT_HEADER {
                return None;
            }
            let address = |at: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = packet[at..].first_chunk().copied()?;
                Some(Ipv6Addr::from(octets).into())
            };
            let field = u16_at(packet, 42);
            Some(Fragment {
                key: Key {
                    src: address(8)?,
                    dst: address(24)?,
                    id: u32::from_be_bytes(packet[44..].first_chunk().copied()?),
                    protocol: packet[40],
                },
                offset: usize::from(field & 0xfff8),
                more: field & 1 != 0,
                header: &packet[..40],
                data: packet.get(48..len)?,
            })
        }
    }
}

/// The packet of all pieces.
fn whole(partial: &Partial, protocol: u8) -> Vec<u8> {
    let mut packet = partial.header.clone();
    for data in partial.parts.values() {
        packet.extend_from_slice(data);
    }
    if packet[0] >> 4 == 4 {
        let (len, header_len) = (packet.len() as u16, partial.header.len());
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[6..8].fill(0);
        sum_header(&mut packet[..header_len]);
    } else {
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet[6] = protocol;
    }
    packet
}

fn sum_header(packet: &mut [u8]) {
    let header_len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = Checksum::of(&packet[..header_len]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::packet::{HEADROOM, put_udp};
    use proptest::prelude::*;

    fn packet(v4: bool, len: usize) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend((0..len).map(|i| (i * 7) as u8));
        let address = |last: u8| match v4 {
            true => SocketAddr::from(([10, 0, 0, last], 99)),
            false => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, u16::from(last)], 99)),
        };
        let start = put_udp(&mut buffer, address(1), address(2)).unwrap();
        buffer.split_off(start)
    }

    use std::net::SocketAddr;

    fn parts(packet: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        assert!(cut(&mut packet.to_vec(), mtu, id, &mut |part| parts.push(part.to_vec())));
        parts
    }

    /// Identification and "don't fragment" are not the same after reassembly.
    fn same(a: &[u8], b: &[u8]) -> bool {
        let parsed = |packet: &[u8]| {
            let datagram =
                tabane_wire::Datagram::parse_slice(packet, tabane_wire::Trust::Verify).unwrap();
            (datagram.src, datagram.dst, datagram.payload)
        };
        parsed(a) == parsed(b)
    }

    proptest! {
        #[test]
        fn whatever_is_cut_is_put_together(
            v4: bool, len in 0..20_000usize, mtu in 576..1500usize, id: u32,
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let packet = packet(v4, len);
            let mut parts = parts(&packet, mtu, id);
            prop_assert!(parts.iter().all(|part| part.len() <= mtu));
            if packet.len() <= mtu {
                prop_assert_eq!(&parts, &[packet]);
                return Ok(());
            }
            prop_assert!(parts.iter().all(|part| is_fragment(part)));
            for (i, at) in order.iter().enumerate() {
                let (i, at) = (i % parts.len(), at.index(parts.len()));
                parts.swap(i, at);
            }
            let mut reassembler = Reassembler::default();
            let last = parts.pop().unwrap();
            for part in &parts {
                prop_assert_eq!(reassembler.add(Instant::ZERO, part), None);
                prop_assert_eq!(reassembler.add(Instant::ZERO, part), None, "a copy");
            }
            let got = reassembler.add(Instant::ZERO, &last).expect("complete");
            prop_assert!(same(&got, &packet));
            prop_assert_eq!((reassembler.held, reassembler.packets.len()), (0, 0));
        }

        /// Of fragments in any order, also such as nobody cuts, whatever comes out has its first
        /// fragment's header and all that is behind it.
        #[test]
        fn what_comes_out_is_whole(
            v4: bool,
            cuts in prop::collection::vec((0..5_usize, 1..4_usize, any::<bool>()), 1..12),
        ) {
            let original = packet(v4, 100);
            let start = if v4 { 20 } else { 40 };
            let mut data = original[start..].to_vec();
            // Looks like a header wherever a fragment may begin.
            data.chunks_mut(8).for_each(|chunk| chunk[0] = 0x45);
            let mut reassembler = Reassembler::default();
            for (offset, len, more) in cuts {
                let part = &data[offset * 8..(offset + len) * 8];
                let fragment = fragment(&original[..start], part, (offset, more));
                let Some(whole) = reassembler.add(Instant::ZERO, &fragment) else { continue };
                prop_assert!(!is_fragment(&whole));
                prop_assert_eq!(whole[0], original[0]);
                prop_assert_eq!(&whole[start..], &data[..whole.len() - start]);
            }
        }

        #[test]
        fn damage_and_junk_are_taken(
            v4: bool, len in 1500..4000usize, junk: Vec<u8>,
            flips in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..9),
        ) {
            let mut reassembler = Reassembler::default();
            reassembler.add(Instant::ZERO, &junk);
            let mut parts = parts(&packet(v4, len), 600, 1);
            for (part, at, byte) in flips {
                let part = part.index(parts.len());
                let at = at.index(parts[part].len());
                parts[part][at] ^= byte;
                let _ = cut(&mut parts[part].clone(), 100, 1, &mut |_| ());
            }
            for part in &parts {
                reassembler.add(Instant::ZERO, part);
            }
            prop_assert!(reassembler.held <= parts.iter().map(Vec::len).sum());
        }
    }

    /// A fragment of a packet with that header, with what is at `offset`, in units of eight bytes.
    fn fragment(header: &[u8], data: &[u8], (offset, more): (usize, bool)) -> Vec<u8> {
        let mut made = header.to_vec();
        let field = (offset * 8) as u16;
        if header.len() == 20 {
            made[2..4].copy_from_slice(&((20 + data.len()) as u16).to_be_bytes());
            made[6..8].copy_from_slice(&((field / 8) | (u16::from(more) << 13)).to_be_bytes());
            sum_header(&mut made);
        } else {
            made[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
            made[6] = FRAGMENT_HEADER;
            made.extend([17, 0]);
            made.extend((field | u16::from(more)).to_be_bytes());
            made.extend([0, 0, 0, 9]);
        }
        made.extend_from_slice(data);
        made
    }

    /// What lies behind the end that the last one tells is as long as what is missing before it.
    #[test]
    fn an_end_before_what_came_is_a_contradiction() {
        for v4 in [true, false] {
            let original = packet(v4, 100);
            let header = &original[..if v4 { 20 } else { 40 }];
            let mut reassembler = Reassembler::default();
            let far = fragment(header, &[0x45; 8], (3, true));
            assert_eq!(reassembler.add(Instant::ZERO, &far), None);
            let last = fragment(header, &[0x45; 8], (1, false));
            assert_eq!(reassembler.add(Instant::ZERO, &last), None);
            assert_eq!((reassembler.dropped(), reassembler.held), (1, 0));
        }
    }

    #[test]
    fn memory_and_time_are_bounded() {
        let mut reassembler = Reassembler::default();
        for id in 0..1000 {
            for part in &parts(&packet(true, 60_000), 1400, id)[1..] {
                reassembler.add(Instant::ZERO, part);
            }
        }
        assert!(reassembler.held <= BYTES_MAX && reassembler.packets.len() <= PACKETS_MAX);
        let (parts, later) = (parts(&packet(true, 2000), 1400, 7), Instant::ZERO + PATIENCE);
        reassembler.add(later, &parts[0]);
        assert_eq!(reassembler.packets.len(), 1, "the old ones are gone");
        assert_eq!(reassembler.add(later + PATIENCE, &parts[1]), None, "too late");
    }

    #[test]
    fn a_fragment_of_a_fragment_makes_nothing() {
        let mut nested = parts(&packet(false, 3000), 1400, 5);
        for part in &mut nested {
            part[40] = FRAGMENT_HEADER;
        }
        let mut reassembler = Reassembler::default();
        for part in &nested {
            assert_eq!(reassembler.add(Instant::ZERO, part), None);
        }
        assert_eq!((reassembler.held, reassembler.dropped()), (0, nested.len() as u64));
    }

    #[test]
    fn no_packet_is_longer_than_its_length_can_say() {
        // 65 535 bytes with a header of 20, four more with the first fragment's option.
        let parts = parts(&packet(true, PACKET_MAX - 28), 1400, 5);
        let mut first = parts[0].clone();
        first.splice(20..20, [1, 1, 1, 0]);
        first[0] = 0x46;
        let len = first.len() as u16;
        first[2..4].copy_from_slice(&len.to_be_bytes());
        sum_header(&mut first);
        for last_first in [false, true] {
            let mut order: Vec<_> = parts[1..].iter().chain([&first]).collect();
            if last_first {
                order.rotate_right(1);
            }
            let mut reassembler = Reassembler::default();
            for part in order {
                assert_eq!(reassembler.add(Instant::ZERO, part), None);
            }
            assert!(reassembler.dropped() > 0);
        }
        let mut reassembler = Reassembler::default();
        let made = parts.iter().find_map(|part| reassembler.add(Instant::ZERO, part));
        assert_eq!(made.expect("the same without the option").len(), PACKET_MAX);
    }

    #[test]
    fn overlaps_are_dropped() {
        let (a, b) = (parts(&packet(true, 3000), 1000, 5), parts(&packet(true, 3000), 900, 5));
        let mut reassembler = Reassembler::default();
        reassembler.add(Instant::ZERO, &a[0]);
        reassembler.add(Instant::ZERO, &b[1]);
        assert_eq!((reassembler.packets.len(), reassembler.dropped()), (0, 1));
    }

    #[test]
    fn what_cannot_be_cut_is_told() {
        let mut sink = |_: &mut [u8]| panic!("nothing comes out");
        assert!(!cut(&mut packet(true, 1000), 27, 1, &mut sink));
        assert!(!cut(&mut packet(false, 1000), 55, 1, &mut sink));
        let mut part = parts(&packet(true, 3000), 1000, 5).remove(0);
        assert!(!cut(&mut part, 600, 1, &mut sink), "a fragment");
    }
}
