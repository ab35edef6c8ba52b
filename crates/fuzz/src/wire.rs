//! The parsers of `wire`: whatever they take, what they made of it can be written, and reading
//! that gives the same value.

use bytes::Bytes;
use std::net::SocketAddr;
use tabane_wire::icmp::{self, TooBig};
use tabane_wire::ip::IpHeader;
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MpTcpRst};
use tabane_wire::{
    DataNumber, Datagram, Dss, Ecn, Flags, Headers, Mapping, MptcpOption, Segment, SeqNum,
    TcpOptions, Timestamps, Trust,
};

/// An IP packet as it may come from a network.
pub(crate) fn packet(data: &[u8]) {
    let packet = Bytes::copy_from_slice(data);
    let strict = Segment::parse(&packet);
    let lenient = Segment::parse_with(&packet, Trust::Intact);
    assert_eq!(strict, Segment::parse_slice(data), "owned and borrowed differ");
    assert_eq!(lenient, Segment::parse_slice_with(data, Trust::Intact));
    if let Ok(segment) = &strict {
        assert_eq!(Some(segment), lenient.as_ref().ok(), "trust changes what is read");
    }
    if let Ok(segment) = &lenient {
        again(segment);
        let mut headers = Headers::default();
        headers.read(data, data.len()).expect("what parses has headers");
        assert_eq!(
            (headers.src, headers.dst, headers.seq),
            (segment.src, segment.dst, segment.seq)
        );
        assert_eq!(headers.payload_len as usize, segment.payload.len());
    }
    for wire_len in [data.len(), data.len() + 1000, usize::MAX] {
        let _ = Headers::default().read(data, wire_len);
    }
    if let Ok((_, payload)) = IpHeader::parse(data) {
        assert!(payload.end <= data.len());
    }
    if let Ok(datagram) = Datagram::parse(&packet, Trust::Intact) {
        let mut buffer = vec![0; datagram.wire_len()];
        let len = datagram.emit(&mut buffer).expect("what was read can be written");
        assert_eq!(Datagram::parse_slice(&buffer[..len], Trust::Verify), Ok(datagram));
    }
    let _ = TooBig::parse(data);
    quoted(data);
}

/// Written and read again, a segment is what it was: what cannot be written was not all of it
/// kept (more options than fit, which nobody sends).
fn again(segment: &Segment) {
    let mut buffer = vec![0; segment.wire_len().max(1)];
    let Ok(len) = segment.emit(&mut buffer) else { return };
    let read = Segment::parse_slice(&buffer[..len]).expect("what was written can be read");
    let mut want = segment.clone();
    // Unknown options are not sent on.
    want.options.mptcp = read.options.mptcp.clone();
    assert_eq!(read, want);
    let mut second = vec![0; read.wire_len()];
    let len = read.emit(&mut second).expect("what was written and read can be written");
    assert_eq!(Segment::parse_slice(&second[..len]), Ok(read));
}

/// Errors about the packet, as a router would send them, are understood again or refused.
fn quoted(data: &[u8]) {
    let v4 = data.first().is_some_and(|byte| byte >> 4 == 4);
    let router = if v4 { "192.0.2.254" } else { "2001:db8::fe" };
    let router = router.parse().expect("invariant: an address");
    let mut buffer = [0; 1600];
    if let Ok(len) = icmp::emit_too_big(&mut buffer, router, 1300, data) {
        let _ = TooBig::parse(&buffer[..len]);
    }
}

/// Bytes as the options of a TCP header, the first of them as its flags.
pub(crate) fn options(data: &[u8]) {
    let (flags, soup) = data.split_first().unwrap_or((&16, &[]));
    if let Some(packet) = with_options(&blank(Flags(*flags)), soup) {
        self::packet(&packet);
    }
}

/// `segment` with these bytes for options, without checksum; `None` if they cannot be.
pub(crate) fn with_options(segment: &Segment, soup: &[u8]) -> Option<Vec<u8>> {
    let mut segment = segment.clone();
    segment.options = TcpOptions::default();
    let mut packet = vec![0; segment.wire_len()];
    segment.emit(&mut packet).ok()?;
    let soup = &soup[..soup.len().min(TcpOptions::SPACE)];
    let padded = soup.len().next_multiple_of(4);
    let mut room = soup.to_vec();
    room.resize(padded, 0);
    let start = if segment.src.is_ipv4() { 20 } else { 40 };
    packet[start + 12] = ((20 + padded) as u8 / 4) << 4;
    packet.splice(start + 20..start + 20, room);
    set_length(&mut packet);
    Some(packet)
}

/// Corrects the length that the IP header speaks of, and its checksum.
fn set_length(packet: &mut [u8]) {
    let len = packet.len();
    if packet[0] >> 4 == 6 {
        packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        return;
    }
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet[10..12].fill(0);
    let sum = tabane_wire::Checksum::of(&packet[..20]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn blank(flags: Flags) -> Segment {
    let end = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    Segment {
        src: end(1, 4000),
        dst: end(2, 80),
        seq: SeqNum(1000),
        ack: SeqNum(2000),
        flags,
        window: 500,
        ecn: Ecn::NotEct,
        options: TcpOptions::default(),
        payload: Bytes::from_static(b"payload"),
    }
}

fn emitted(segment: &Segment) -> Vec<u8> {
    let mut packet = vec![0; segment.wire_len()];
    let len = segment.emit(&mut packet).expect("invariant: its options fit");
    packet.truncate(len);
    packet
}

/// One segment with each option, and what is no TCP.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = segments().iter().map(emitted).collect();
    let (src, dst) = (SocketAddr::from(([10, 0, 0, 1], 53)), SocketAddr::from(([10, 0, 0, 2], 53)));
    let datagram = Datagram { src, dst, ecn: Ecn::Ce, payload: Bytes::from_static(b"question") };
    let mut packet = vec![0; datagram.wire_len()];
    datagram.emit(&mut packet).expect("invariant: room for it");
    let mut error = [0; 200];
    let quoted = all[0].clone();
    if let Ok(len) = icmp::emit_too_big(&mut error, src.ip(), 1300, &quoted) {
        all.push(error[..len].to_vec());
    }
    all.push(packet);
    all
}

/// The options of the same segments, behind their flags.
pub(crate) fn option_soups() -> Vec<Vec<u8>> {
    let soup = |segment: &Segment| {
        let packet = emitted(segment);
        let start = if segment.src.is_ipv4() { 20 } else { 40 };
        let end = start + usize::from(packet[start + 12] >> 4) * 4;
        [&[segment.flags.0], &packet[start + 20..end]].concat()
    };
    segments().iter().map(soup).collect()
}

fn segments() -> Vec<Segment> {
    let with = |options: TcpOptions| Segment { options, ..blank(Flags::ACK) };
    let mut syn = blank(Flags::SYN);
    syn.options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..TcpOptions::default()
    };
    syn.payload = Bytes::new();
    (syn.src, syn.dst) = (([0xfd; 16], 1).into(), ([0xfe; 16], 2).into());
    let mut sack = TcpOptions::default();
    sack.sack.push(SeqNum(3000), SeqNum(4000));
    sack.sack.push(SeqNum(5000), SeqNum(6000));
    let mut segments = vec![syn, with(sack)];
    for (data_ack, dsn, checksum) in [
        (DataNumber::Short(7), DataNumber::Short(9), None),
        (DataNumber::Long(7), DataNumber::Long(9), Some(3)),
    ] {
        let mapping = Some(Mapping { dsn, ssn: 1, length: 7, checksum });
        let dss = Some(Dss { data_ack: Some(data_ack), mapping, data_fin: checksum.is_some() });
        segments.push(with(TcpOptions { dss, ..TcpOptions::default() }));
    }
    for option in mptcp_options() {
        let mut options = TcpOptions::default();
        options.push_mptcp(option);
        segments.push(with(options));
    }
    segments
}

fn mptcp_options() -> Vec<MptcpOption> {
    let capable = MpCapable { version: 1, hmac_sha256: true, ..MpCapable::default() };
    let keys = MpCapable { sender_key: Some(1), receiver_key: Some(2), ..capable };
    let (address, hmac) = (std::net::Ipv4Addr::LOCALHOST.into(), Some(5));
    vec![
        MptcpOption::Capable(capable),
        MptcpOption::Capable(MpCapable { data: Some((7, Some(1))), ..keys }),
        MptcpOption::Capable(MpCapable { receiver_key: None, ..keys }),
        MptcpOption::Join(MpJoin::Syn { backup: true, address_id: 1, token: 2, nonce: 3 }),
        MptcpOption::Join(MpJoin::SynAck { backup: false, address_id: 1, hmac: 2, nonce: 3 }),
        MptcpOption::Join(MpJoin::Ack { hmac: [9; 20] }),
        MptcpOption::AddAddr(AddAddr { address_id: 2, address, port: Some(80), hmac }),
        MptcpOption::AddAddr(AddAddr { address_id: 2, address, port: None, hmac: None }),
        MptcpOption::RemoveAddr(vec![1, 2, 3]),
        MptcpOption::Prio { backup: true },
        MptcpOption::Fail(77),
        MptcpOption::FastClose(78),
        MptcpOption::TcpRst(MpTcpRst { transient: true, reason: 2 }),
    ]
}
