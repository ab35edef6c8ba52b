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

use super::generations::{Generations, key};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tabane_engine::Instant;

/// Numbers packets, each flow (addresses and ports) by itself.
#[derive(Debug)]
pub(crate) struct Tagger {
    flows: Generations<u16>,
    rng: ChaCha8Rng,
}

/// A number and what is wanted of the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// Below [`NUMBERS`].
    pub(crate) number: u16,
    pub(crate) ordered: bool,
}

/// Numbers of a flow, from 0.
pub(super) const NUMBERS: u16 = 0x7fff;
const ORDERED: u16 = 0x8000;

impl Tagger {
    /// The first number of each flow is drawn from `seed`: who starts again does not repeat.
    #[must_use]
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { flows: Generations::default(), rng: ChaCha8Rng::from_seed(seed) }
    }

    /// Numbers a packet that will travel in copies, or, with `ordered`, spread over paths. Returns
    /// false, and leaves it as it is, if it is no whole UDP packet: then send it once, by the best
    /// path.
    pub(crate) fn tag(&mut self, now: Instant, packet: &mut [u8], ordered: bool) -> bool {
        let Some(key) = key(packet) else { return false };
        self.flows.turn(now);
        let rng = &mut self.rng;
        let next = self.flows.entry(key, || (rng.next_u32() % u32::from(NUMBERS)) as u16);
        let number = *next;
        *next = (number + 1) % NUMBERS;
        write(packet, (number + 1) | if ordered { ORDERED } else { 0 });
        true
    }

    /// Removes what looks like a number from a UDP packet that goes once: the identification that
    /// the host's own stack wrote.
    pub(crate) fn clear(packet: &mut [u8]) {
        if key(packet).is_some() {
            write(packet, 0);
        }
    }
}

/// The tag of a packet of which [`key`] is known.
pub(super) fn read(packet: &[u8]) -> Option<Tag> {
    let at = if packet[0] >> 4 == 4 { 4 } else { 2 };
    let bits = u16::from_be_bytes([packet[at], packet[at + 1]]);
    let number = (bits & NUMBERS).checked_sub(1)?;
    Some(Tag { number, ordered: bits & ORDERED != 0 })
}

fn write(packet: &mut [u8], bits: u16) {
    if packet[0] >> 4 == 6 {
        packet[1] &= 0xf0;
        packet[2..4].copy_from_slice(&bits.to_be_bytes());
        return;
    }
    // RFC 1624 section 3, equation 3: the checksum changes by what the field changes.
    let field = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    let mut sum = (!field(10) & 0xffff) + (!field(4) & 0xffff) + u32::from(bits);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[4..6].copy_from_slice(&bits.to_be_bytes());
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
                assert!(tagger.tag(Instant::ZERO, &mut numbered, i == 1));
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
            assert!(!tagger.tag(Instant::ZERO, &mut same, true));
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
            tagger.tag(Instant::ZERO, &mut bytes, true);
            bytes.resize(bytes.len().max(1), 0);
            bytes[0] = first;
            tagger.tag(Instant::ZERO, &mut bytes, false);
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
            Tagger::new([id as u8; 32]).tag(Instant::ZERO, &mut packet, ordered);
            prop_assert!(parse(&packet).is_some());
        }
    }
}
