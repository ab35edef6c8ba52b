//! Numbers on datagrams that travel in copies or spread over paths, so that the far end can take
//! the first copy only and restore the order.
//!
//! The number lies where nobody looks: in the identification of IPv4, which means nothing in a
//! packet that is not fragmented (RFC 6864), and in the low 16 bits of the flow label of IPv6. A
//! stock peer ignores both. But a stock peer also writes there what it likes: only what comes from
//! a peer that is known to number may go through a [`Filter`](super::Filter).
//!
//! Of the 16 bits the highest says that order is wanted, the others are the number of the packet
//! in its flow, from 1 to 32767 and round again; 0 is no number.
//!
//! The hop limit, which means nothing inside a tunnel either, says more: its highest bit that it
//! does so (hosts begin with less than 128), the next that copies are sent on request
//! ([`Kind::Protected`]), the others which of the [`TRAIL`] packets before went by the same path,
//! the last one first. A path keeps its order: what went by this one before and is not there is
//! lost. Earlier versions do not look at it.

use super::generations::{FlowKey, Generations, key};
use super::sent::SentFlow;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tabane_engine::Instant;

/// Numbers packets, each flow (addresses and ports) by itself.
#[derive(Debug)]
pub(crate) struct Tagger {
    flows: Generations<SentFlow>,
    rng: ChaCha8Rng,
}

/// What a flow's numbers are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Copies: only the first is to get through.
    Copies,
    /// Copies are sent again on request.
    Protected,
    /// Spread over paths: order is to be restored.
    Ordered,
}

/// A number and what is wanted of the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// Below [`NUMBERS`].
    pub(crate) number: u16,
    pub(crate) ordered: bool,
    /// What the hop limit says: copies are sent on request, and which packets before went by the
    /// same path; `None` of earlier versions.
    pub(crate) more: Option<(bool, u8)>,
}

/// Numbers of a flow, from 0.
pub(super) const NUMBERS: u16 = 0x7fff;
const ORDERED: u16 = 0x8000;
/// Packets before of which the path is said.
pub(super) const TRAIL: u32 = 6;
/// Bits of the hop limit.
const SAYS_MORE: u8 = 0x80;
const PROTECTED: u8 = 0x40;
/// The hop limit of what has no number.
const HOPS: u8 = 64;

impl Tagger {
    /// The first number of each flow is drawn from `seed`: who starts again does not repeat.
    #[must_use]
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { flows: Generations::default(), rng: ChaCha8Rng::from_seed(seed) }
    }

    /// What is known of the flow of a packet; `None` if it is no whole UDP packet: then send it
    /// once, by the best path, without a number.
    pub(crate) fn flow(&mut self, now: Instant, packet: &[u8]) -> Option<&mut SentFlow> {
        let key = key(packet)?;
        self.flows.turn(now);
        let rng = &mut self.rng;
        Some(self.flows.entry(key, || SentFlow::new((rng.next_u32() % u32::from(NUMBERS)) as u16)))
    }

    /// The flow of a key, if it is known.
    pub(crate) fn known(&mut self, key: &FlowKey) -> Option<&mut SentFlow> {
        self.flows.get_mut(key)
    }

    /// Numbers a packet that will travel in copies. Returns false, and leaves it as it is, if it is
    /// no whole UDP packet.
    pub(crate) fn tag(&mut self, now: Instant, packet: &mut [u8], kind: Kind) -> bool {
        let Some(flow) = self.flow(now, packet) else { return false };
        flow.number(packet, kind, None);
        true
    }

    /// Removes what looks like a number from a UDP packet that goes once: the identification that
    /// the host's own stack wrote.
    pub(crate) fn clear(packet: &mut [u8]) {
        if key(packet).is_some() {
            write(packet, 0, HOPS);
        }
    }
}

/// The tag of a packet of which [`key`] is known.
pub(super) fn read(packet: &[u8]) -> Option<Tag> {
    let (at, hops) = if packet[0] >> 4 == 4 { (4, packet[8]) } else { (2, packet[7]) };
    let bits = u16::from_be_bytes([packet[at], packet[at + 1]]);
    let number = (bits & NUMBERS).checked_sub(1)?;
    let trail = hops & !(SAYS_MORE | PROTECTED);
    let more = (hops & SAYS_MORE != 0).then_some((hops & PROTECTED != 0, trail));
    Some(Tag { number, ordered: bits & ORDERED != 0, more })
}

/// Writes a number, and which of the packets before went by the same path.
pub(super) fn put(packet: &mut [u8], number: u16, kind: Kind, trail: u8) {
    let ordered = if kind == Kind::Ordered { ORDERED } else { 0 };
    let protected = if kind == Kind::Protected { PROTECTED } else { 0 };
    write(packet, (number + 1) | ordered, SAYS_MORE | protected | trail);
}

fn write(packet: &mut [u8], bits: u16, hops: u8) {
    if packet[0] >> 4 == 6 {
        packet[1] &= 0xf0;
        packet[2..4].copy_from_slice(&bits.to_be_bytes());
        packet[7] = hops;
        return;
    }
    // RFC 1624 section 3, equation 3: the checksum changes by what the fields change.
    let field = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let hops_after = u32::from(u16::from_be_bytes([hops, packet[9]]));
    let mut sum = (!field(10) & 0xffff) + (!field(4) & 0xffff) + u32::from(bits);
    sum += (!field(8) & 0xffff) + hops_after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[4..6].copy_from_slice(&bits.to_be_bytes());
    packet[8] = hops;
    packet[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::packet::{HEADROOM, parse, put_udp};
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn packet(from: &str, to: &str) -> Vec<u8> {
        let mut buffer = [&[0; HEADROOM][..], b"payload"].concat();
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let start = put_udp(&mut buffer, from, to).unwrap();
        buffer.split_off(start)
    }

    const FLOWS: [(&str, &str); 3] = [
        ("10.0.0.1:1", "10.0.0.2:2"),
        ("10.0.0.1:1", "10.0.0.2:3"),
        ("[fd00::1]:1", "[fd00::2]:2"),
    ];

    #[test]
    fn each_flow_counts_for_itself_and_packets_stay_whole() {
        let mut tagger = Tagger::new([1; 32]);
        let mut last = [None; 3];
        for round in 0..2 * u32::from(NUMBERS) {
            for (i, (from, to)) in FLOWS.iter().enumerate() {
                if round > 9 && i > 0 {
                    continue;
                }
                let mut numbered = packet(from, to);
                let kind = if i == 1 { Kind::Ordered } else { Kind::Copies };
                assert!(tagger.tag(Instant::ZERO, &mut numbered, kind));
                assert_eq!(parse(&numbered), parse(&packet(from, to)), "with its checksums");
                let tag = read(&numbered).unwrap();
                assert_eq!(tag.ordered, i == 1);
                let expected = last[i].map_or(tag.number, |last| (last + 1) % NUMBERS);
                assert_eq!(tag.number, expected);
                last[i] = Some(tag.number);
                Tagger::clear(&mut numbered);
                assert_eq!((read(&numbered), parse(&numbered)), (None, parse(&packet(from, to))));
            }
        }
    }

    #[test]
    fn fragments_and_others_are_left_alone() {
        let mut tagger = Tagger::new([1; 32]);
        let mut fragment = packet("10.0.0.1:1", "10.0.0.2:2");
        fragment[6] = 0x20;
        let mut tcp = packet("[fd00::1]:1", "[fd00::2]:2");
        tcp[6] = 6;
        for packet in [fragment, tcp] {
            let mut same = packet.clone();
            assert!(!tagger.tag(Instant::ZERO, &mut same, Kind::Ordered));
            Tagger::clear(&mut same);
            assert_eq!(same, packet);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(
            mut bytes: Vec<u8>, first in prop::sample::select(&[0x45u8, 0x60][..]),
        ) {
            let mut tagger = Tagger::new([1; 32]);
            tagger.tag(Instant::ZERO, &mut bytes, Kind::Ordered);
            bytes.resize(bytes.len().max(1), 0);
            bytes[0] = first;
            tagger.tag(Instant::ZERO, &mut bytes, Kind::Copies);
            Tagger::clear(&mut bytes);
        }

        #[test]
        fn the_checksum_follows(id: u16, hop_limit: u8, ordered: bool) {
            let mut packet = packet("10.0.0.1:1", "10.0.0.2:2");
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[8] = hop_limit;
            packet[10..12].fill(0);
            let sum = tabane_wire::Checksum::of(&packet[..20]).finish();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let kind = if ordered { Kind::Ordered } else { Kind::Protected };
            Tagger::new([id as u8; 32]).tag(Instant::ZERO, &mut packet, kind);
            prop_assert!(parse(&packet).is_some());
        }
    }
}
