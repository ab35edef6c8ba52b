//! Packets inside others, and those whose headers say more than the frame holds: the reader finds
//! the same segment in each, and tshark, where it is installed, the same streams and labels.
#![allow(clippy::unwrap_used)]

mod reading {
    #[allow(dead_code)] // Only the writer of files is needed here.
    pub(crate) mod files;
}
mod tshark {
    #[allow(dead_code)] // Whole files are compared, not packets.
    pub(crate) mod run;
}

use reading::files::{classic, segments};
use tabane_trace::pcap::{Segments, Skip};
use tabane_wire::{Headers, Segment, TcpOptions};

const ETHERNET: u32 = 1;
const OUTER: [u8; 8] = [192, 0, 2, 1, 192, 0, 2, 2];

/// How a packet is wrapped.
type Wrap = fn(&[u8]) -> Vec<u8>;

/// Every wrapping, with its name.
const WRAPPED: [(&str, Wrap); 22] = [
    ("IP in IP", |p| ipv4(4, p)),
    ("IPv4 in IPv6", |p| ipv6(4, p)),
    ("GRE", |p| ipv4(47, &gre(0, 0x0800, &[], p))),
    ("GRE over IPv6", |p| ipv6(47, &gre(0, 0x0800, &[], p))),
    ("GRE with checksum, key, sequence", |p| ipv4(47, &gre(0xb000, 0x0800, &[0; 12], p))),
    ("GRE with key", |p| ipv4(47, &gre(0x2000, 0x0800, &[0; 4], p))),
    ("GRE with Ethernet", |p| ipv4(47, &gre(0x2000, 0x6558, &[0; 4], &ethernet(0x0800, p)))),
    ("GRE with MPLS", |p| ipv4(47, &gre(0, 0x8847, &[0, 0, 0x51, 9], p))),
    ("PPTP", |p| {
        let [high, low] = (p.len() as u16 + 4).to_be_bytes();
        let rest = [&[high, low, 0, 9, 0, 0, 0, 1, 0xff, 3, 0, 0x21][..], p].concat();
        ipv4(47, &gre(0x3001, 0x880b, &[], &rest))
    }),
    ("VXLAN", |p| ipv4(17, &vxlan(p))),
    ("VXLAN over IPv6", |p| ipv6(17, &vxlan(p))),
    ("VXLAN in GRE", |p| ipv4(47, &gre(0, 0x0800, &[], &ipv4(17, &vxlan(p))))),
    ("VLAN", |p| tagged(&[0x81, 0, 0, 5, 8, 0], p)),
    ("QinQ", |p| tagged(&[0x88, 0xa8, 0, 2, 0x81, 0, 0, 3, 8, 0], p)),
    ("QinQ, both 8100", |p| tagged(&[0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0], p)),
    ("QinQ, 9100", |p| tagged(&[0x91, 0, 0, 2, 8, 0], p)),
    ("PPPoE", |p| tagged(&pppoe(&[0x88, 0x64], p), p)),
    ("PPPoE in a VLAN", |p| tagged(&pppoe(&[0x81, 0, 0, 7, 0x88, 0x64], p), p)),
    ("a longer total length", |p| {
        let mut packet = p.to_vec();
        packet[2..4].copy_from_slice(&[2, 0]);
        checksummed(packet)
    }),
    ("a loose source route", |p| source_routed(131, 4, p)),
    ("a strict source route", |p| source_routed(137, 8, p)),
    ("a source route at its end", |p| source_routed(131, 12, p)),
];

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), packet].concat()
}

/// Ethernet with these bytes from the EtherType on.
fn tagged(tags: &[u8], packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], tags, packet].concat()
}

fn pppoe(tags: &[u8], packet: &[u8]) -> Vec<u8> {
    let length = (packet.len() as u16 + 2).to_be_bytes();
    [tags, &[0x11, 0, 0, 1], &length, &[0, 0x21]].concat()
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16 + 20).to_be_bytes();
    let head = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    ethernet(0x0800, &[&with_checksum([&head[..], &OUTER].concat()), payload].concat())
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let head = [0x60, 0, 0, 0, high, low, next, 64];
    ethernet(0x86dd, &[&head[..], &address(1), &address(2), payload].concat())
}

fn gre(flags: u16, carried: u16, fields: &[u8], packet: &[u8]) -> Vec<u8> {
    // What is already behind a link header loses it.
    let packet = if carried == 0x0800 { unframed(packet) } else { packet };
    [&flags.to_be_bytes()[..], &carried.to_be_bytes(), fields, packet].concat()
}

fn unframed(packet: &[u8]) -> &[u8] {
    packet.strip_prefix(&ethernet(0x0800, &[])[..]).unwrap_or(packet)
}

fn vxlan(packet: &[u8]) -> Vec<u8> {
    let frame = ethernet(0x0800, packet);
    let [high, low] = (frame.len() as u16 + 16).to_be_bytes();
    let head = [0x15, 0xb3, 0x12, 0xb5, high, low, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0];
    [&head[..], &frame].concat()
}

/// With a route of two hops; `pointer` beyond the option: it has ended, and the destination is
/// that of the header.
fn source_routed(kind: u8, pointer: u8, packet: &[u8]) -> Vec<u8> {
    let (head, rest) = packet.split_at(20);
    let mut head = head.to_vec();
    let (destination, elsewhere) = (head[16..20].to_vec(), [10, 9, 0, 9]);
    let last = if pointer > 11 { &elsewhere[..] } else { &destination };
    let route = [&[kind, 11, pointer, 10, 8, 0, 1], last, &[0]].concat();
    if pointer <= 11 {
        head[16..20].copy_from_slice(&elsewhere);
    }
    head[0] = 0x48;
    let [high, low] = (packet.len() as u16 + 12).to_be_bytes();
    head[2..4].copy_from_slice(&[high, low]);
    ethernet(0x0800, &[&with_checksum([head, route].concat()), rest].concat())
}

fn checksummed(packet: Vec<u8>) -> Vec<u8> {
    let (head, rest) = packet.split_at(20);
    ethernet(0x0800, &[&with_checksum(head.to_vec()), rest].concat())
}

fn with_checksum(mut head: Vec<u8>) -> Vec<u8> {
    head[10..12].fill(0);
    let sum = tabane_wire::Checksum::of(&head).finish();
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    head
}

/// TCP without options, on ports of its own for each wrapping.
fn plain(case: usize) -> Vec<(u64, Segment)> {
    let later = case as u64 * 2_000_000_000;
    let mut all = segments();
    for (time, segment) in &mut all {
        *time += later;
        segment.options = TcpOptions::default();
        for end in [&mut segment.src, &mut segment.dst] {
            end.set_port(end.port() + case as u16);
        }
    }
    all
}

fn bytes(segment: &Segment) -> Vec<u8> {
    let mut packet = vec![0; segment.wire_len()];
    segment.emit(&mut packet).unwrap();
    packet
}

fn read(file: &[u8]) -> (Vec<Headers>, u64) {
    let mut reader = Segments::open(file).unwrap();
    let (mut headers, mut found) = (Headers::default(), Vec::new());
    while reader.next_segment(&mut headers).unwrap().is_some() {
        found.push(headers.clone());
    }
    (found, reader.skips().total())
}

#[test]
fn the_segment_inside_is_found() {
    let mut frames: Vec<(u64, Vec<u8>)> = Vec::new();
    for (case, (name, wrap)) in WRAPPED.iter().enumerate() {
        let wanted: Vec<Headers> = plain(case).iter().map(|(_, s)| Headers::from(s)).collect();
        let wrapped: Vec<_> = plain(case).iter().map(|(t, s)| (*t, wrap(&bytes(s)))).collect();
        let packets = wrapped.iter().map(|(t, frame)| (*t, &frame[..], frame.len()));
        let (found, skipped) = read(&classic(false, true, ETHERNET, packets));
        assert_eq!((found, skipped), (wanted, 0), "{name}");
        frames.extend(wrapped);
    }
    if !tshark::run::has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrapped.pcap");
    let packets = frames.iter().map(|(t, frame)| (*t, &frame[..], frame.len()));
    std::fs::write(&path, classic(false, true, ETHERNET, packets)).unwrap();
    let labels = tshark::run::compare_file("wrapped", &path);
    assert!(labels >= WRAPPED.len(), "{labels} labels: each wrapping has a repeat");
}

/// Routing headers by type, segments left and addresses; where the packet goes in the end.
#[test]
fn ipv6_source_routes_count_by_their_end() {
    let address = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let (_, segment) = &plain(0)[0];
    let tcp = &bytes(segment)[20..];
    let mut frames = Vec::new();
    let cases = [(0, 2, [50, 2]), (0, 1, [50, 2]), (2, 1, [2, 50]), (4, 1, [2, 50])];
    for (kind, left, [one, two]) in cases {
        let routing = [6, 4, kind, left, u8::from(kind == 4), 0, 0, 0];
        let body = [&routing[..], &address(one), &address(two), tcp].concat();
        let length = (body.len() as u16).to_be_bytes();
        let head = [&[0x60, 0, 0, 0], &length[..], &[43, 64], &address(1), &address(99)].concat();
        frames.push(ethernet(0x86dd, &[head, body].concat()));
    }
    let file = |frames: &[Vec<u8>]| {
        let packets = frames.iter().map(|frame| (1_000_000_000, &frame[..], frame.len()));
        classic(false, true, ETHERNET, packets)
    };
    let (found, skipped) = read(&file(&frames));
    assert_eq!((found.len(), skipped), (cases.len(), 0));
    assert!(found.iter().all(|h| h.dst.ip() == std::net::IpAddr::from(address(2))), "{found:?}");
    if tshark::run::has_tshark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routed.pcap");
        std::fs::write(&path, file(&frames)).unwrap();
        tshark::run::compare_file("routed", &path);
    }
    // A type whose addresses are compressed (RFC 6554) is named, not guessed at.
    frames[0][14 + 40 + 2] = 3;
    let file = file(&frames[..1]);
    let mut reader = Segments::open(&file[..]).unwrap();
    assert!(reader.next_segment(&mut Headers::default()).unwrap().is_none());
    assert_eq!(reader.skips().get(Skip::SourceRoute), 1);
}

#[test]
fn tunnels_end() {
    let packet = bytes(&plain(0)[0].1);
    let mut deep = packet.clone();
    for _ in 0..20 {
        deep = unframed(&ipv4(4, &deep)).to_vec();
    }
    let frame = ethernet(0x0800, &deep);
    let skips = |frame: &[u8]| {
        let file = classic(false, true, ETHERNET, [(0, frame, frame.len())].into_iter());
        let mut reader = Segments::open(&file[..]).unwrap();
        assert!(reader.next_segment(&mut Headers::default()).unwrap().is_none());
        reader.skips().iter().map(|(skip, _)| skip).collect::<Vec<_>>()
    };
    assert_eq!(skips(&frame), [Skip::TooDeep]);
    assert_eq!(skips(&ipv4(17, &[0; 30])), [Skip::NotTcp(17)]);
    assert_eq!(skips(&ipv4(47, &gre(0, 0x0806, &[], &packet))), [Skip::NotIp(0x0806)]);
    assert_eq!(skips(&ipv4(47, &[0, 0])), [Skip::CutOff]);
    let whole = ipv4(17, &vxlan(&packet));
    let cut = classic(false, true, ETHERNET, [(0, &whole[..60], whole.len())].into_iter());
    let mut reader = Segments::open(&cut[..]).unwrap();
    assert!(reader.next_segment(&mut Headers::default()).unwrap().is_none());
    assert_eq!(reader.skips().get(Skip::CutOff), 1);
}
