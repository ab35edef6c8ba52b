//! Exact bytes, written down from the RFCs: layout of options, every MPTCP form, header
//! variants, and what is refused by which name.

use bytes::Bytes;
use tabane_wire::ip::IpHeader;
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MpTcpRst};
use tabane_wire::{
    Checksum, DataNumber, Dss, Ecn, EmitError, Flags, Mapping, MptcpOption, ParseError, SackBlocks,
    Segment, SeqNum, TcpOptions, Timestamps, Trust,
};

fn segment(options: TcpOptions) -> Segment {
    Segment {
        src: ([192, 0, 2, 1], 0x1234).into(),
        dst: ([192, 0, 2, 2], 0x5678).into(),
        seq: SeqNum(0x0102_0304),
        ack: SeqNum(0x0506_0708),
        flags: Flags::ACK | Flags::PSH,
        window: 0x090a,
        ecn: Ecn::Ect0,
        options,
        payload: Bytes::from_static(b"data"),
    }
}

fn emit(segment: &Segment) -> Vec<u8> {
    let mut packet = vec![0; segment.wire_len()];
    assert_eq!(segment.emit(&mut packet), Ok(packet.len()));
    packet
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The option bytes of what is emitted, which parses as the same again.
fn option_bytes(options: TcpOptions) -> String {
    let segment = segment(options);
    let packet = emit(&segment);
    assert_eq!(Segment::parse_slice(&packet).as_ref(), Ok(&segment));
    hex(&packet[40..packet.len() - 4])
}

fn one(option: MptcpOption) -> TcpOptions {
    let mut options = TcpOptions::default();
    options.push_mptcp(option);
    options
}

/// Parses a packet with these option bytes, filled up by zeros (end of options).
fn parse_options(hex: &str) -> Result<TcpOptions, ParseError> {
    let mut options = bytes(hex);
    options.resize(options.len().next_multiple_of(4), 0);
    let mut packet = emit(&segment(TcpOptions::default()));
    packet.splice(40..40, options.iter().copied());
    packet[3] += options.len() as u8;
    packet[32] += (options.len() as u8 / 4) << 4;
    mend_ipv4(&mut packet);
    Segment::parse_slice_with(&packet, Trust::Intact).map(|segment| segment.options)
}

fn mend_ipv4(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let checksum = Checksum::of(&packet[..header]).finish();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_packet_to_the_byte() {
    let packet = emit(&segment(TcpOptions::default()));
    let ip = "4502002c 0000 4000 40 06 b6c6 c0000201 c0000202";
    let tcp = "1234 5678 01020304 05060708 50 18 090a d137 0000 64617461";
    assert_eq!(hex(&packet), format!("{ip}{tcp}").replace(' ', ""));
    let (ip, range) = IpHeader::parse(&packet).unwrap();
    assert_eq!((ip.hop_limit, ip.dscp, ip.ecn, range), (64, 0, Ecn::Ect0, 20..44));
}

#[test]
fn linux_layout() {
    let syn = TcpOptions { mss: Some(1460), window_scale: Some(7), ..TcpOptions::default() };
    assert_eq!(option_bytes(syn.clone()), "020405b401030307");
    let permitted = TcpOptions { sack_permitted: true, ..syn };
    assert_eq!(option_bytes(permitted.clone()), "020405b40101040201030307");
    let timestamps = Some(Timestamps { value: 0xa, echo: 0xb });
    let full = TcpOptions { timestamps, ..permitted };
    assert_eq!(option_bytes(full), "020405b40402080a0000000a0000000b01030307");
    let mut sack = SackBlocks::default();
    sack.push(SeqNum(1), SeqNum(2));
    let ack = TcpOptions { timestamps, sack, ..TcpOptions::default() };
    assert_eq!(option_bytes(ack), "0101080a0000000a0000000b0101050a0000000100000002");
}

#[test]
fn options_are_packed_when_alignment_does_not_fit() {
    let add = AddAddr {
        address_id: 1,
        address: "2001:db8::1".parse().unwrap(),
        port: Some(80),
        hmac: Some(2),
    };
    let mut options = one(MptcpOption::AddAddr(add));
    options.timestamps = Some(Timestamps { value: 1, echo: 2 });
    assert_eq!(options.emitted_len(), 40);
    let text = option_bytes(options.clone());
    assert!(text.starts_with("080a00000001000000021e1e3001"), "{text}");
    options.push_mptcp(MptcpOption::Prio { backup: true });
    let refused = segment(options).emit(&mut [0; 200]);
    assert_eq!(refused, Err(EmitError::OptionSpace(44)));
}

#[test]
fn capable_and_join() {
    let mut capable = MpCapable { version: 1, hmac_sha256: true, ..MpCapable::default() };
    let text = |capable| option_bytes(one(MptcpOption::Capable(capable)));
    assert_eq!(text(capable), "1e040101");
    capable.sender_key = Some(0x0123_4567_89ab_cdef);
    assert_eq!(text(capable), "1e0c01010123456789abcdef");
    capable.receiver_key = Some(0xfedc_ba98_7654_3210);
    capable.deny_join_initial = true;
    let keys = "0123456789abcdeffedcba9876543210";
    assert_eq!(text(capable), format!("1e140121{keys}"));
    capable.data = Some((0x0102, None));
    assert_eq!(text(capable), format!("1e160121{keys}01020101"));
    capable.data = Some((0x0102, Some(0x0304)));
    capable.checksum_required = true;
    capable.extensibility = true;
    assert_eq!(text(capable), format!("1e1801e1{keys}01020304"));

    let text = |join| option_bytes(one(MptcpOption::Join(join)));
    let (token, nonce) = (0x18f9_781b, 0x1122_3344);
    let syn = MpJoin::Syn { backup: true, address_id: 5, token, nonce };
    assert_eq!(text(syn), "1e0c110518f9781b11223344");
    let hmac = 0x3bae_5abc_810a_33c2;
    let syn_ack = MpJoin::SynAck { backup: false, address_id: 6, hmac, nonce };
    assert_eq!(text(syn_ack), "1e1010063bae5abc810a33c211223344");
    let ack = text(MpJoin::Ack { hmac: [7; 20] });
    assert_eq!(ack, format!("1e181000{}", "07".repeat(20)));
}

#[test]
fn data_sequence_signal() {
    let text = |dss| option_bytes(TcpOptions { dss: Some(dss), ..TcpOptions::default() });
    assert_eq!(text(Dss::default()), "1e042000");
    let short = Some(DataNumber::Short(0x0a0b_0c0d));
    let long = Some(DataNumber::Long(0x0102_0304_0506_0708));
    assert_eq!(text(Dss { data_ack: short, ..Dss::default() }), "1e0820010a0b0c0d");
    assert_eq!(text(Dss { data_ack: long, ..Dss::default() }), "1e0c20030102030405060708");
    let mapping = |dsn: Option<DataNumber>, checksum| {
        Some(Mapping { dsn: dsn.unwrap(), ssn: 1, length: 0x0203, checksum })
    };
    let dss = Dss { data_ack: None, mapping: mapping(short, None), data_fin: true };
    assert_eq!(text(dss), "1e0e20140a0b0c0d0000000102030101");
    let dss = Dss { data_ack: short, mapping: mapping(long, Some(0xdf80)), data_fin: false };
    assert_eq!(text(dss), "1e18200d0a0b0c0d0102030405060708000000010203df80");
    let dss = Dss { data_ack: long, mapping: mapping(long, Some(0xdf80)), data_fin: true };
    assert_eq!(text(dss), "1e1c201f01020304050607080102030405060708000000010203df80");
}

#[test]
fn addresses_and_endings() {
    let v4 = "192.0.2.10".parse().unwrap();
    let v6 = "2001:db8::a".parse().unwrap();
    let (port, hmac) = (Some(8080), Some(0x41a2_cd70_995c_c0ef));
    let v6_hex = "20010db800000000000000000000000a";
    let cases = [
        (v4, None, None, "1e083102c000020a".to_owned()),
        (v4, port, None, "1e0a3102c000020a1f900101".to_owned()),
        (v4, None, hmac, "1e103002c000020a41a2cd70995cc0ef".to_owned()),
        (v4, port, hmac, "1e123002c000020a1f9041a2cd70995cc0ef0101".to_owned()),
        (v6, None, None, format!("1e143102{v6_hex}")),
        (v6, port, None, format!("1e163102{v6_hex}1f900101")),
        (v6, None, hmac, format!("1e1c3002{v6_hex}41a2cd70995cc0ef")),
        (v6, port, hmac, format!("1e1e3002{v6_hex}1f9041a2cd70995cc0ef0101")),
    ];
    for (address, port, hmac, text) in cases {
        let add = AddAddr { address_id: 2, address, port, hmac };
        assert_eq!(option_bytes(one(MptcpOption::AddAddr(add))), text);
    }
    let reset = MpTcpRst { transient: true, reason: 6 };
    let cases = [
        (MptcpOption::RemoveAddr(vec![9]), "1e044009"),
        (MptcpOption::RemoveAddr(vec![9, 8]), "1e05400908010101"),
        (MptcpOption::Prio { backup: true }, "1e035101"),
        (MptcpOption::Prio { backup: false }, "1e035001"),
        (MptcpOption::Fail(0x0102_0304_0506_0708), "1e0c60000102030405060708"),
        (MptcpOption::FastClose(0x0102_0304_0506_0708), "1e0c70000102030405060708"),
        (MptcpOption::TcpRst(reset), "1e048106"),
    ];
    for (option, text) in cases {
        assert_eq!(option_bytes(one(option)), text);
    }
}

#[test]
fn malformed_mptcp_options_harm_nothing_else() {
    // Each between two timestamps options; the last one counts.
    let around = |option: &str| {
        parse_options(&format!("080a0000000000000000{option}080a0000000100000002")).unwrap()
    };
    let cases = [
        (0, "1e050101ff"),
        (0, "1e0301"),
        (1, "1e0d110518f9781b11223344ff"),
        (1, "1e0310"),
        // Mapping flag and no mapping; 8 bytes announced and 4 there; one byte too many.
        (2, "1e042004"),
        (2, "1e0820030a0b0c0d"),
        (2, "1e0920010a0b0c0dff"),
        (2, "1e0320"),
        // Echo with the length of one with HMAC; and the reverse.
        (3, "1e103102c000020a41a2cd70995cc0ef"),
        (3, "1e083002c000020a"),
        (4, "1e0340"),
        (5, "1e045101"),
        (6, "1e046000"),
        (7, "1e0b700001020304050607"),
        (8, "1e0381"),
        (9, "1e0390"),
        (15, "1e08f000010203ff"),
    ];
    for (subtype, option) in cases {
        let options = around(option);
        assert_eq!(options.timestamps, Some(Timestamps { value: 1, echo: 2 }), "{option}");
        assert_eq!(options.mptcp(), [MptcpOption::Unknown { subtype }], "{option}");
        assert_eq!(options.dss, None);
    }
    // No subtype to name, DATA_FIN without a mapping, and kinds that nobody knows.
    assert!(!around("1e02").has_mptcp());
    assert_eq!(around("1e042010").dss, Some(Dss::default()));
    assert!(!around("fd0400002202").has_mptcp());
}

#[test]
fn impossible_option_lengths_are_named() {
    let cases = [
        ("0203ff", 2, 3),
        ("030407ff", 3, 4),
        ("0403ff", 4, 3),
        ("0502", 5, 2),
        ("050900000000000000", 5, 9),
        ("080800000000ffff", 8, 8),
        ("fd00", 253, 0),
        ("fd01", 253, 1),
        ("1e00", 30, 0),
        ("010101fd", 253, 0),
        ("1e0c0101", 30, 12),
    ];
    for (option, kind, length) in cases {
        assert_eq!(parse_options(option), Err(ParseError::OptionLength { kind, length }));
    }
    // What follows the end of options is not looked at.
    assert_eq!(parse_options("00fd00ff"), Ok(TcpOptions::default()));
}

#[test]
fn values_without_an_encoding_are_refused() {
    let options = [
        one(MptcpOption::Unknown { subtype: 9 }),
        one(MptcpOption::RemoveAddr(vec![])),
        one(MptcpOption::Capable(MpCapable { version: 16, ..MpCapable::default() })),
        one(MptcpOption::Capable(MpCapable { receiver_key: Some(1), ..MpCapable::default() })),
        TcpOptions { dss: Some(Dss { data_fin: true, ..Dss::default() }), ..TcpOptions::default() },
    ];
    for (options, subtype) in options.into_iter().zip([9, 4, 0, 0, 2]) {
        let refused = segment(options).emit(&mut [0; 200]).unwrap_err();
        assert!(matches!(refused, EmitError::Mptcp { subtype: s, .. } if s == subtype));
    }
    let mut many = segment(one(MptcpOption::RemoveAddr(vec![1; 300])));
    assert!(many.emit(&mut [0; 1000]).is_err());
    many.options = TcpOptions::default();
    many.payload = vec![0; 65_536 - 40].into();
    let mut buffer = vec![0; 70_000];
    assert_eq!(many.emit(&mut buffer), Err(EmitError::TooLong(65_536)));
    many.payload = vec![0; 65_535 - 40].into();
    assert_eq!(many.emit(&mut buffer), Ok(65_535));
    assert_eq!(Segment::parse_slice(&buffer[..65_535]).as_ref(), Ok(&many));
    many.dst = "[2001:db8::1]:1".parse().unwrap();
    assert_eq!(many.emit(&mut buffer), Err(EmitError::MixedFamilies));
}

#[test]
fn ipv4_headers() {
    let plain = segment(TcpOptions::default());
    let packet = emit(&plain);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = packet.clone();
        change(&mut packet);
        mend_ipv4(&mut packet);
        Segment::parse_slice(&packet)
    };
    let with_options = changed(&|packet| {
        packet.splice(20..20, [1, 1, 1, 0]);
        packet[0] = 0x46;
        packet[3] += 4;
    });
    assert_eq!(with_options.as_ref(), Ok(&plain));
    assert_eq!(changed(&|packet| packet.extend([0; 9])).as_ref(), Ok(&plain));
    assert_eq!(changed(&|packet| packet[6] |= 0x20), Err(ParseError::Fragment));
    assert_eq!(changed(&|packet| packet[7] = 1), Err(ParseError::Fragment));
    assert_eq!(changed(&|packet| packet[9] = 17), Err(ParseError::Protocol(17)));
    assert_eq!(changed(&|packet| packet[0] = 0x44), Err(ParseError::Length("IPv4")));
    assert_eq!(changed(&|packet| packet[3] = 19), Err(ParseError::Length("IPv4")));
    assert_eq!(changed(&|packet| packet[3] = 45), Err(ParseError::Truncated("IP")));
    assert_eq!(changed(&|packet| packet[3] = 39), Err(ParseError::Truncated("TCP")));
    assert_eq!(changed(&|packet| packet[32] = 0x40), Err(ParseError::Length("TCP")));
    assert_eq!(changed(&|packet| packet[32] = 0x70), Err(ParseError::Length("TCP")));
    assert_eq!(changed(&|packet| packet[43] ^= 1), Err(ParseError::Checksum("TCP")));
    let mut damaged = packet.clone();
    damaged[8] -= 1;
    assert_eq!(Segment::parse_slice(&damaged), Err(ParseError::Checksum("IPv4")));
    damaged = packet.clone();
    damaged[36] ^= 1;
    assert_eq!(Segment::parse_slice_with(&damaged, Trust::Intact), Ok(plain));
    assert_eq!(Segment::parse_slice(&[0x50]), Err(ParseError::Version(5)));
    assert_eq!(Segment::parse_slice(&[]), Err(ParseError::Truncated("IP")));
}

#[test]
fn ipv6_extension_headers() {
    let mut plain = segment(TcpOptions::default());
    plain.src = "[2001:db8::1]:1".parse().unwrap();
    plain.dst = "[2001:db8::2]:2".parse().unwrap();
    let packet = emit(&plain);
    assert_eq!(hex(&packet[..8]), "6020000000180640");
    let with = |next: u8, headers: &str| {
        let headers = bytes(headers);
        let mut packet = packet.clone();
        packet[6] = next;
        packet[5] += headers.len() as u8;
        packet.splice(40..40, headers);
        Segment::parse_slice(&packet)
    };
    // Hop-by-hop (8 bytes), destination options (16), routing without segments left (8).
    let chain = with(0, "3c00010400000000 2b01010c00000000 0000000000000000 0600000000000000");
    assert_eq!(chain.as_ref(), Ok(&plain));
    assert_eq!(with(43, "0600000100000000"), Err(ParseError::SourceRoute));
    // A fragment that is the whole packet (RFC 6946), one that more follow, and a later one.
    assert_eq!(with(44, "0600000000000007").as_ref(), Ok(&plain));
    assert_eq!(with(44, "0600000100000007"), Err(ParseError::Fragment));
    assert_eq!(with(44, "0600000800000007"), Err(ParseError::Fragment));
    assert_eq!(with(60, "06ff000000000000"), Err(ParseError::Length("IPv6 extension header")));
    assert_eq!(with(59, ""), Err(ParseError::Protocol(59)));
    let mut cut = packet[..44].to_vec();
    (cut[5], cut[6]) = (4, 0);
    let truncated = Err(ParseError::Truncated("IPv6 extension header"));
    assert_eq!(Segment::parse_slice(&cut), truncated);
}

#[test]
fn one_line() {
    let mut options = one(MptcpOption::Prio { backup: true });
    options.timestamps = Some(Timestamps { value: 7, echo: 3 });
    options.dss = Some(Dss { data_ack: Some(DataNumber::Short(5)), ..Dss::default() });
    assert_eq!(
        segment(options).to_string(),
        "192.0.2.1:4660 > 192.0.2.2:22136 [P.] seq 16909060:16909064 ack 84281096 win 2314 len 4 \
         ect0 <ts 7 3,dss ack 5,prio backup>"
    );
}
