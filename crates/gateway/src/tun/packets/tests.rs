//! What each kind of packet becomes.

use super::*;
use proptest::prelude::*;
use tabane_wire::{Flags, SeqNum, TcpOptions};

const PROGRAM: [&str; 2] = ["10.81.0.31:5000", "[fd74::31]:5000"];
const SERVER: [&str; 2] = ["192.0.2.80:443", "[2001:db8::80]:443"];
const RESOLVER: [&str; 2] = ["10.81.0.1", "fd74::1"];

impl Packets {
    fn tell(&mut self, frame: Frame) -> Inbound {
        self.classify(Instant::ZERO, frame)
    }
}

fn packets() -> Packets {
    let dns = RESOLVER.map(|text| text.parse().unwrap()).to_vec();
    Packets::new(PacketsConfig { dns, mtu: 1400 })
}

fn datagram(src: &str, dst: &str, len: usize) -> (Datagram, Bytes) {
    let payload: Bytes = (0..len).map(|i| i as u8).collect();
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let datagram = Datagram { src, dst, ecn: Ecn::Ect0, payload };
    let mut packet = vec![0; datagram.wire_len()];
    datagram.emit(&mut packet).unwrap();
    (datagram, packet.into())
}

fn segment(src: &str, dst: &str, len: usize) -> Segment {
    Segment {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        seq: SeqNum(77),
        ack: SeqNum(99),
        flags: Flags::ACK,
        window: 500,
        ecn: Ecn::NotEct,
        options: TcpOptions::default(),
        payload: (0..len).map(|i| i as u8).collect(),
    }
}

fn echo(v4: bool, len: usize) -> Bytes {
    let [src, dst]: [SocketAddr; 2] =
        [PROGRAM, SERVER].map(|text| text[usize::from(!v4)].parse().unwrap());
    let (number, kind) = if v4 { (protocol::ICMP, 8) } else { (protocol::ICMPV6, 128) };
    let header = IpHeader::new(src.ip(), dst.ip(), number);
    let mut packet = vec![0; 48 + len];
    let start = header.emit(&mut packet, 8 + len).unwrap();
    packet[start] = kind;
    packet.truncate(start + 8 + len);
    packet.into()
}

#[test]
fn tcp_comes_whole_however_large() {
    for (src, dst) in PROGRAM.into_iter().zip(SERVER) {
        for len in [0, 1, 1400, 60_000] {
            let sent = segment(src, dst, len);
            let mut head = [0; 120];
            let (ip, tcp) = sent.emit_headers(&mut head, len).unwrap();
            let mut packet = head[..ip + tcp].to_vec();
            packet.extend_from_slice(&sent.payload);
            let checksum = Checksumming::Partial { start: ip as u16, offset: 16 };
            let segmentation = (len > 1400).then_some(Segmentation::Tcp(1348));
            let frame = Frame { packet: packet.into(), checksum, segmentation };
            let mut packets = packets();
            assert_eq!(packets.tell(frame), Inbound::Tcp(sent));
            assert_eq!(packets.counts().tcp, 1);
        }
    }
}

#[test]
fn a_checksum_that_is_there_is_verified() {
    let sent = segment(PROGRAM[0], SERVER[0], 100);
    let mut packet = vec![0; sent.wire_len()];
    sent.emit(&mut packet).unwrap();
    let mut packets = packets();
    assert_eq!(packets.tell(Bytes::from(packet.clone()).into()), Inbound::Tcp(sent));
    packet[60] ^= 1;
    assert_eq!(packets.tell(Bytes::from(packet).into()), Inbound::Nothing);
    assert_eq!(packets.counts().malformed, 1);
}

#[test]
fn datagrams_sent_at_once_come_apart() {
    for (src, dst) in PROGRAM.into_iter().zip(SERVER) {
        let (whole, packet) = datagram(src, dst, 2_500);
        let start = if whole.src.is_ipv4() { 20 } else { 40 };
        let checksum = Checksumming::Partial { start, offset: 6 };
        let segmentation = Some(Segmentation::Udp(1_000));
        let mut packets = packets();
        let Inbound::Udp(datagrams) = packets.tell(Frame { packet, checksum, segmentation }) else {
            panic!("not taken as datagrams")
        };
        assert_eq!((datagrams.src, datagrams.dst), (whole.src, whole.dst));
        assert_eq!(datagrams.len(), 3);
        let parts: Vec<Datagram> = datagrams.collect();
        assert!(parts.iter().all(|d| (d.src, d.dst, d.ecn) == (whole.src, whole.dst, whole.ecn)));
        let lengths: Vec<usize> = parts.iter().map(|d| d.payload.len()).collect();
        assert_eq!(lengths, [1_000, 1_000, 500]);
        let joined: Vec<u8> = parts.iter().flat_map(|d| d.payload.to_vec()).collect();
        assert_eq!(joined, whole.payload);
        assert_eq!(packets.counts().udp, 3);
    }
}

#[test]
fn an_empty_datagram_is_one() {
    let (sent, packet) = datagram(PROGRAM[0], SERVER[0], 0);
    let Inbound::Udp(datagrams) = packets().tell(packet.into()) else { panic!("lost") };
    assert_eq!(datagrams.collect::<Vec<_>>(), [sent]);
}

#[test]
fn questions_for_names_are_told_apart_by_address_and_port() {
    let mut packets = packets();
    for (src, resolver) in PROGRAM.into_iter().zip(["10.81.0.1:53", "[fd74::1]:53"]) {
        let (sent, packet) = datagram(src, resolver, 40);
        let Inbound::Dns(datagrams) = packets.tell(packet.into()) else { panic!("not DNS") };
        assert_eq!(datagrams.collect::<Vec<_>>(), [sent]);
    }
    for other in ["10.81.0.1:54", "10.81.0.2:53"] {
        let (_, packet) = datagram(PROGRAM[0], other, 40);
        assert!(matches!(packets.tell(packet.into()), Inbound::Udp(_)), "{other}");
    }
    packets.config.dns.clear();
    let (_, packet) = datagram(PROGRAM[0], "10.81.0.1:53", 40);
    assert!(matches!(packets.tell(packet.into()), Inbound::Udp(_)));
    assert_eq!((packets.counts().dns, packets.counts().udp), (2, 3));
}

#[test]
fn what_is_too_big_is_answered_with_the_size_that_fits() {
    for (at, (src, dst)) in PROGRAM.into_iter().zip(SERVER).enumerate() {
        let headers = [28, 48][at];
        let mut packets = packets();
        let (_, fits) = datagram(src, dst, 1_400 - headers);
        assert!(matches!(packets.tell(fits.into()), Inbound::Udp(_)));
        let (sent, packet) = datagram(src, dst, 1_401 - headers);
        let Inbound::Answer(answer) = packets.tell(packet.clone().into()) else {
            panic!("no answer")
        };
        let (header, range) = IpHeader::parse(&answer).unwrap();
        assert_eq!((header.src, header.dst), (sent.dst.ip(), sent.src.ip()));
        let icmp = &answer[range];
        assert_eq!(icmp[..2], [[3, 4], [2, 0]][at]);
        assert_eq!(icmp[6..8], 1_400_u16.to_be_bytes());
        assert!(packet.starts_with(&icmp[8..]));
        assert_eq!(packets.counts().too_big, 1);
        packets.config.mtu = 1_401;
        assert!(matches!(packets.tell(packet.into()), Inbound::Udp(_)));
    }
}

#[test]
fn echo_passes_with_its_checksum_made_complete() {
    for v4 in [true, false] {
        let mut packets = packets();
        let packet = echo(v4, 56);
        assert_eq!(packets.tell(packet.clone().into()), Inbound::Echo(packet.clone()));
        let start = if v4 { 20 } else { 40 };
        let checksum = Checksumming::Partial { start, offset: 2 };
        let partial = Frame { packet, checksum, segmentation: None };
        let Inbound::Echo(completed) = packets.tell(partial) else { panic!("lost") };
        assert_eq!(Checksum::of(&completed[usize::from(start)..]).finish(), 0);
        assert_eq!(packets.counts().echo, 2);
        assert_eq!(packets.tell(echo(v4, 1_400).into()), Inbound::Nothing);
        assert_eq!(packets.counts().too_big, 1);
    }
}

fn cut(packet: &[u8], id: u32) -> Vec<Frame> {
    let mut parts = Vec::new();
    assert!(fragment::cut(&mut packet.to_vec(), 1400, id, &mut |part| {
        parts.push(Frame::from(Bytes::copy_from_slice(part)));
    }));
    assert!(parts.len() > 1);
    parts
}

#[test]
fn what_a_host_has_cut_is_put_together_in_any_order() {
    for (src, dst) in PROGRAM.into_iter().zip(SERVER) {
        for backwards in [false, true] {
            let mut packets = packets();
            let (sent, packet) = datagram(src, dst, 60_000);
            let mut parts = cut(&packet, 7);
            if backwards {
                parts.reverse();
            }
            let last = parts.pop().unwrap();
            for part in parts {
                assert_eq!(packets.tell(part), Inbound::Nothing);
            }
            let Inbound::Udp(datagrams) = packets.tell(last) else { panic!("lost") };
            let [whole] = datagrams.collect::<Vec<_>>().try_into().unwrap();
            assert_eq!((whole.src, whole.dst, whole.payload), (sent.src, sent.dst, sent.payload));
            assert_eq!(*packets.counts(), Counts { udp: 1, ..Counts::default() });
        }
    }
}

#[test]
fn a_large_ping_is_put_together() {
    for v4 in [true, false] {
        let mut packets = packets();
        let sent = echo(v4, 4_000);
        let told: Vec<_> = cut(&sent, 7).into_iter().map(|part| packets.tell(part)).collect();
        let Some(Inbound::Echo(whole)) = told.last() else { panic!("lost") };
        let [whole, sent] = [&whole[..], &sent].map(|packet| {
            let (header, range) = IpHeader::parse(packet).unwrap();
            (header.dst, packet[range].to_vec())
        });
        assert_eq!(whole, sent);
    }
}

#[test]
fn of_what_is_not_carried_fragments_are_not_either() {
    let mut packets = packets();
    let mut tunnelled = vec![0; 2_000];
    let [src, dst] = [PROGRAM[0], SERVER[0]].map(|t| t.parse::<SocketAddr>().unwrap().ip());
    IpHeader::new(src, dst, 47).emit(&mut tunnelled, 1_980).unwrap();
    let told: Vec<_> = cut(&tunnelled, 7).into_iter().map(|part| packets.tell(part)).collect();
    let [Inbound::Nothing, Inbound::Answer(answer)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(answer[20..22], [3, 13]);
    // Groups do not fill the space of others.
    let (_, group) = datagram(PROGRAM[0], "224.0.0.251:5353", 60_000);
    for id in 0..40 {
        let first = cut(&group, id).remove(0);
        assert_eq!(packets.tell(first), Inbound::Nothing);
    }
    let (_, packet) = datagram(PROGRAM[0], SERVER[0], 60_000);
    let unfinished = cut(&packet, 8);
    for part in &unfinished[1..] {
        assert_eq!(packets.tell(part.clone()), Inbound::Nothing);
    }
    let late = Instant(6_000_000_000);
    assert_eq!(packets.classify(late, unfinished[0].clone()), Inbound::Nothing);
    let expected = Counts { multicast: 40, other: 1, fragments: 1, ..Counts::default() };
    assert_eq!(*packets.counts(), expected);
}

#[test]
fn the_rest_is_counted_by_kind() {
    let mut packets = packets();
    let (_, group) = datagram(PROGRAM[0], "224.0.0.251:5353", 40);
    let (_, all) = datagram(PROGRAM[0], "255.255.255.255:67", 40);
    let (_, group6) = datagram(PROGRAM[1], "[ff02::fb]:5353", 40);
    for packet in [group, all, group6] {
        assert_eq!(packets.tell(packet.into()), Inbound::Nothing);
    }
    let mut tunnelled = vec![0; 60];
    let [src, dst] = [PROGRAM[0], SERVER[0]].map(|t| t.parse::<SocketAddr>().unwrap().ip());
    IpHeader::new(src, dst, 47).emit(&mut tunnelled, 40).unwrap();
    let answer = packets.tell(Bytes::from(tunnelled.clone()).into());
    let Inbound::Answer(answer) = answer else { panic!("its sender is not told") };
    assert_eq!(answer[20..22], [3, 13]);
    assert_eq!(answer[28..], tunnelled[..]);
    // An error is not answered by another.
    assert_eq!(packets.tell(answer.into()), Inbound::Nothing);
    for junk in [&b""[..], b"\x45", b"\x60\0\0\0\0\0\x11", b"\xff\xff"] {
        assert_eq!(packets.tell(Bytes::copy_from_slice(junk).into()), Inbound::Nothing);
    }
    let expected = Counts { multicast: 3, other: 2, malformed: 4, ..Counts::default() };
    assert_eq!(*packets.counts(), expected);
}

proptest! {
    #[test]
    fn nothing_that_a_host_sends_does_harm(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00]),
        number in prop::sample::select(vec![0u8, 1, 6, 17, 44, 58, 60]),
        size: u16, start: u16, offset: u16,
    ) {
        if bytes.len() > 60 {
            let len = bytes.len() as u16;
            bytes[0] = version;
            if version >> 4 == 4 {
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
                bytes[9] = number;
                bytes[10..12].fill(0);
                let sum = Checksum::of(&bytes[..usize::from(version & 0xf) * 4]).finish();
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            } else {
                bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
                bytes[6] = number;
            }
        }
        let checksum = Checksumming::Partial { start, offset };
        let segmentation = Some(Segmentation::Udp(size));
        let frame = Frame { packet: bytes.into(), checksum, segmentation };
        let mut packets = packets();
        if let Inbound::Udp(datagrams) | Inbound::Dns(datagrams) = packets.tell(frame) {
            prop_assert!(datagrams.count() > 0);
        }
    }
}
