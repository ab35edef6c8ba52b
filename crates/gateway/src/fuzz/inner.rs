//! Packets inside the tunnel: probes, datagrams, fragments, numbered copies, errors, and what the
//! host itself sends into TUN mode.

use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use crate::inner as gateway_inner;
use crate::path::Responder;
use crate::path::probe::{Ends, Probe};
use crate::tun::{Inbound, Packets, PacketsConfig};
use crate::udp::fragment::{Reassembler, cut, is_fragment};
use crate::udp::packet::{self, Inside};
use crate::udp::{Filter, Flows, Refused, TagKind, Tagger};
use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use std::net::SocketAddr;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Instant};
use tabane_net::device::virtio::VirtioHeader;
use tabane_net::icmp;
use tabane_wire::{Checksum, Datagram, Ecn};

/// Packets of one input.
const PACKETS_MAX: usize = 60;

/// A packet that arrives.
#[derive(Arbitrary, Debug)]
struct Arrival {
    path: u8,
    after_ms: u8,
    /// Complete the header and the checksums, so that it is looked into.
    whole: bool,
    number: u8,
    virtio: [u8; VirtioHeader::LEN],
    bytes: Vec<u8>,
}

struct World {
    now: Instant,
    network: Network,
    responder: Responder,
    reassembler: Reassembler,
    filter: Filter,
    tagger: Tagger,
    packets: Packets,
}

/// The target.
pub(crate) fn inner(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let network = Network::default();
    let dns = network.service().to_vec();
    let mut world = World {
        now: Instant::ZERO,
        responder: Responder::new(Instant::ZERO, network.service()),
        reassembler: Reassembler::default(),
        filter: Filter::default(),
        tagger: Tagger::new([3; 32]),
        packets: Packets::new(PacketsConfig { dns, mtu: 1400 }),
        network,
    };
    for _ in 0..PACKETS_MAX {
        if input.is_empty() {
            break;
        }
        let Ok(arrival) = Arrival::arbitrary(&mut input) else { break };
        world.arrive(arrival);
    }
}

impl World {
    fn arrive(&mut self, arrival: Arrival) {
        let Arrival { path, after_ms, whole, number, virtio, mut bytes } = arrival;
        self.now += Duration::from_millis(after_ms.into());
        if whole {
            complete(&mut bytes, number, &self.network);
        }
        self.look(&bytes);
        self.probes(&bytes);
        self.datagrams(path % 8, &bytes);
        if let Some(frame) = VirtioHeader::decode(&virtio).frame(Bytes::from(bytes))
            && let Inbound::Udp(datagrams) | Inbound::Dns(datagrams) =
                self.packets.classify(self.now, frame)
        {
            assert!(datagrams.count() > 0);
        }
    }

    /// The first looks, which must agree with the proper ones.
    fn look(&mut self, packet: &[u8]) {
        let peeked = gateway_inner::peek(packet);
        if let Ok((header, _)) = tabane_wire::ip::IpHeader::parse(packet) {
            let peeked = peeked.expect("what parses can be looked at");
            assert_eq!((peeked.src, peeked.dst), (header.src, header.dst));
        }
        let _ = gateway_inner::parse_unreachable(packet);
        for why in [Refused::Full, Refused::Failed(std::io::ErrorKind::HostUnreachable)] {
            let _ = Flows::explain(packet, why);
        }
        if let icmp::Answer::Reply(reply) = icmp::answer(packet, &self.network.service()) {
            assert!(reply.len() <= packet.len() + 40, "an echo that grows");
        }
    }

    fn probes(&mut self, packet: &[u8]) {
        let reply = self.responder.handle_packet(self.now, packet);
        assert!(reply.is_none_or(|reply| reply.len() <= packet.len() + 40));
        while self.responder.poll_event().is_some() {}
        self.responder.handle_timeout(self.now);
        assert!(self.responder.poll_timeout() > self.now, "its timer is stuck");
        let service = self.network.service();
        let paths = self.network.path(ClientNumber(1), PathIndex::new(0));
        for (service, path) in service.into_iter().zip(paths) {
            let ends = Ends { path, service };
            let _ = Probe::answered(packet, &ends);
            if let Some(probe) = Probe::parse_request(packet, &[service]) {
                let mut buffer = vec![0; 2_000];
                let len = probe.emit(&ends, 0, &mut buffer).expect("there is room");
                assert_eq!(Probe::parse_request(&buffer[..len], &[service]), Some(probe));
            }
        }
    }

    fn datagrams(&mut self, path: u8, packet: &[u8]) {
        if let Some(Inside::Datagram { payload, .. }) = packet::parse(packet) {
            assert!(payload.len() < packet.len());
        }
        self.filter.handle_packet(self.now, PathId(path), packet);
        while self.filter.poll_packet().is_some() {}
        self.filter.handle_timeout(self.now);
        assert!(self.filter.poll_timeout().is_none_or(|at| at > self.now), "a timer is stuck");
        if is_fragment(packet) {
            let made = self.reassembler.add(self.now, packet);
            assert!(made.is_none_or(|whole| !is_fragment(&whole) && whole.len() <= 65_535));
        } else if tabane_wire::ip::IpHeader::parse(packet).is_ok() {
            let mut fragments = Vec::new();
            let mut copy = packet.to_vec();
            let done = cut(&mut copy, 600, 7, &mut |fragment| fragments.push(fragment.to_vec()));
            assert_eq!(done, !fragments.is_empty());
            if let [_, _, ..] = fragments[..] {
                assert!(fragments.iter().all(|fragment| fragment.len() <= 600));
                let mut again = Reassembler::default();
                let made = fragments.iter().find_map(|fragment| again.add(self.now, fragment));
                let made = made.expect("the fragments make a whole");
                let start = if packet[0] >> 4 == 4 { 20 } else { 40 };
                assert_eq!(made[start..], packet[start..]);
            }
        }
        let mut tagged = packet.to_vec();
        let kind = [TagKind::Copies, TagKind::Protected, TagKind::Ordered][usize::from(path % 3)];
        if self.tagger.tag(self.now, &mut tagged, kind) {
            assert_eq!(packet::parse(&tagged).is_some(), packet::parse(packet).is_some());
        }
    }
}

/// Makes an IP packet of the bytes that has what parsers check first, mostly to the service.
fn complete(bytes: &mut Vec<u8>, number: u8, network: &Network) {
    let v4 = number & 1 == 0;
    let start = if v4 { 20 } else { 40 };
    if bytes.len() < start + 8 {
        bytes.resize(start + 8, number);
    }
    let len = bytes.len();
    let kind = [17, if v4 { 1 } else { 58 }, 6, 44][usize::from(number >> 1 & 3)];
    let [service4, service6] = network.service();
    if v4 {
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        bytes[9] = kind;
        if let (true, std::net::IpAddr::V4(to)) = (number & 8 == 0, service4) {
            bytes[16..20].copy_from_slice(&to.octets());
        }
        bytes[10..12].fill(0);
        let sum = Checksum::of(&bytes[..20]).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[0] = 0x60 | bytes[0] & 15;
        bytes[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        bytes[6] = kind;
        if let (true, std::net::IpAddr::V6(to)) = (number & 8 == 0, service6) {
            bytes[24..40].copy_from_slice(&to.octets());
        }
    }
    let Ok((header, range)) = tabane_wire::ip::IpHeader::parse(bytes) else { return };
    let data = &mut bytes[range];
    match kind {
        17 => {
            let port = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
            let datagram = Datagram {
                src: SocketAddr::new(header.src, port(0)),
                dst: SocketAddr::new(header.dst, port(2)),
                ecn: Ecn::NotEct,
                payload: Bytes::copy_from_slice(&data[8..]),
            };
            let mut written = vec![0; datagram.wire_len()];
            if datagram.emit(&mut written).is_ok() {
                data[..8].copy_from_slice(&written[start..start + 8]);
            }
        }
        1 | 58 => {
            if number & 16 == 0 {
                data[..2].copy_from_slice(&[if v4 { 8 } else { 128 }, 0]);
            }
            if number & 32 == 0 && data.len() >= 15 {
                data[8..15].copy_from_slice(b"tabane\x01");
            }
            data[2..4].fill(0);
            let sum = tabane_wire::icmp::checksum(&header, data);
            data[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
}

/// Some of each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |len: usize| -> Vec<u8> {
        let next = |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        };
        (0..len).map(next).collect()
    };
    vec![vec![0; 200], random(200), random(600), random(1500)]
}
