//! Parse and emit are inverse, and nothing panics, for segments and bytes drawn at random.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use tabane_wire::mptcp::{AddAddr, MpCapable, MpJoin, MpTcpRst};
use tabane_wire::{
    DataNumber, Dss, Ecn, EmitError, Flags, Mapping, MptcpOption, SackBlocks, Segment, SeqNum,
    TcpOptions, Timestamps, Trust,
};

fn data_number() -> impl Strategy<Value = DataNumber> {
    prop_oneof![any::<u32>().prop_map(DataNumber::Short), any::<u64>().prop_map(DataNumber::Long)]
}

fn dss() -> impl Strategy<Value = Dss> {
    let mapping = (data_number(), any::<u32>(), any::<u16>(), of(any::<u16>()))
        .prop_map(|(dsn, ssn, length, checksum)| Mapping { dsn, ssn, length, checksum });
    (of(data_number()), of(mapping), any::<bool>()).prop_map(|(data_ack, mapping, fin)| Dss {
        data_ack,
        data_fin: fin && mapping.is_some(),
        mapping,
    })
}

fn capable() -> impl Strategy<Value = MpCapable> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let fields = (any::<u64>(), any::<u64>(), any::<u16>(), of(any::<u16>()));
    (0..16u8, flags, fields, 0..4u8).prop_map(|(version, (a, b, c, h), fields, form)| MpCapable {
        version,
        checksum_required: a,
        extensibility: b,
        deny_join_initial: c,
        hmac_sha256: h,
        sender_key: (form >= 1).then_some(fields.0),
        receiver_key: (form >= 2).then_some(fields.1),
        data: (form >= 3).then_some((fields.2, fields.3)),
    })
}

fn join() -> impl Strategy<Value = MpJoin> {
    let common = || (any::<bool>(), any::<u8>(), any::<u32>());
    prop_oneof![
        (common(), any::<u32>()).prop_map(|((backup, address_id, nonce), token)| MpJoin::Syn {
            backup,
            address_id,
            token,
            nonce
        }),
        (common(), any::<u64>()).prop_map(|((backup, address_id, nonce), hmac)| MpJoin::SynAck {
            backup,
            address_id,
            hmac,
            nonce
        }),
        any::<[u8; 20]>().prop_map(|hmac| MpJoin::Ack { hmac }),
    ]
}

fn mptcp_option() -> impl Strategy<Value = MptcpOption> {
    prop_oneof![
        capable().prop_map(MptcpOption::Capable),
        join().prop_map(MptcpOption::Join),
        (any::<u8>(), any::<IpAddr>(), of(any::<u16>()), of(any::<u64>())).prop_map(
            |(address_id, address, port, hmac)| MptcpOption::AddAddr(AddAddr {
                address_id,
                address,
                port,
                hmac
            })
        ),
        vec(any::<u8>(), 1..17).prop_map(MptcpOption::RemoveAddr),
        any::<bool>().prop_map(|backup| MptcpOption::Prio { backup }),
        any::<u64>().prop_map(MptcpOption::Fail),
        any::<u64>().prop_map(MptcpOption::FastClose),
        (any::<bool>(), any::<u8>())
            .prop_map(|(transient, reason)| MptcpOption::TcpRst(MpTcpRst { transient, reason })),
    ]
}

fn tcp_options() -> impl Strategy<Value = TcpOptions> {
    let syn = (of(any::<u16>()), of(any::<u8>()), any::<bool>());
    let timestamps =
        of((any::<u32>(), any::<u32>()).prop_map(|(value, echo)| Timestamps { value, echo }));
    let sack = vec((any::<u32>(), any::<u32>()), 0..5).prop_map(|blocks| {
        let mut sack = SackBlocks::default();
        for (start, end) in blocks {
            assert!(sack.push(SeqNum(start), SeqNum(end)));
        }
        sack
    });
    // Weighted towards few options, so that most draws fit in 40 bytes.
    let mptcp = prop_oneof![3 => vec(mptcp_option(), 0..2), 1 => vec(mptcp_option(), 0..5)];
    (prop::option::weighted(0.3, syn), timestamps, sack, of(dss()), mptcp).prop_map(
        |(syn, timestamps, sack, dss, mptcp)| {
            let (mss, window_scale, sack_permitted) = syn.unwrap_or_default();
            let mut options = TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack,
                dss,
                mptcp: None,
            };
            mptcp.into_iter().for_each(|option| options.push_mptcp(option));
            options
        },
    )
}

fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let ports = || (any::<u16>(), any::<u16>());
    prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>(), ports())
            .prop_map(|(a, b, (p, q))| ((a, p).into(), (b, q).into())),
        (any::<[u8; 16]>(), any::<[u8; 16]>(), ports())
            .prop_map(|(a, b, (p, q))| ((a, p).into(), (b, q).into())),
    ]
}

/// Any segment that can be constructed; whether its options fit is not looked at.
fn any_segment() -> impl Strategy<Value = Segment> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), 0..4u8);
    let payload = prop_oneof![Just(vec![]), vec(any::<u8>(), 0..200), vec(any::<u8>(), 1400..1500)];
    (addresses(), numbers, tcp_options(), payload).prop_map(
        |((src, dst), (seq, ack, flags, window, ecn), options, payload)| Segment {
            src,
            dst,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: Flags(flags),
            window,
            ecn: Ecn::from_bits(ecn),
            options,
            payload: payload.into(),
        },
    )
}

/// The same without those options that do not fit, from the last one on.
fn segment() -> impl Strategy<Value = Segment> {
    any_segment().prop_map(|mut segment| {
        let options = &mut segment.options;
        while options.emitted_len() > TcpOptions::SPACE {
            let shorter = options.mptcp().split_last().map(|(_, shorter)| shorter.to_vec());
            match shorter {
                Some(shorter) => {
                    options.mptcp = None;
                    shorter.into_iter().for_each(|option| options.push_mptcp(option));
                }
                None if options.sack.is_empty() => options.dss = None,
                None => options.sack.truncate(options.sack.len() - 1),
            }
        }
        segment
    })
}

fn emit(segment: &Segment) -> Bytes {
    // Not zero: emission must not rely on a clean buffer.
    let mut buffer = vec![0xa5; 2000];
    let len = segment.emit(&mut buffer).expect("the strategy draws valid segments");
    assert_eq!(len, segment.wire_len());
    assert!(buffer[len..].iter().all(|byte| *byte == 0xa5), "wrote beyond the packet");
    buffer.truncate(len);
    buffer.into()
}

proptest! {
    #[test]
    fn parse_undoes_emit(segment in segment()) {
        let packet = emit(&segment);
        prop_assert_eq!(&Segment::parse(&packet).unwrap(), &segment);
        prop_assert_eq!(&Segment::parse_slice(&packet).unwrap(), &segment);
        let mut padded = packet.to_vec();
        padded.extend([0xff; 7]);
        prop_assert_eq!(&Segment::parse_slice(&padded).unwrap(), &segment);
    }

    #[test]
    fn emit_fits_or_says_why(segment in any_segment(), room in 0..1600usize) {
        let mut buffer = vec![0; room];
        let needed = segment.wire_len();
        let options = segment.options.emitted_len();
        match segment.emit(&mut buffer) {
            Ok(len) => prop_assert!(len == needed && len <= room),
            Err(EmitError::OptionSpace(len)) => prop_assert!(len == options && len > 40),
            Err(EmitError::Buffer { needed: n, available }) => {
                prop_assert!(n == needed && available == room && needed > room);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn one_wrong_bit_is_noticed(segment in segment(), at in any::<prop::sample::Index>()) {
        let packet = emit(&segment);
        let bit = at.index(packet.len() * 8);
        let mut damaged = packet.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // Of IPv6, no checksum covers traffic class, flow label and hop limit, and a shorter
        // length may by chance still fit.
        let unprotected = segment.src.is_ipv6() && matches!(bit / 8, 0..=5 | 7);
        if !unprotected {
            prop_assert!(Segment::parse_slice(&damaged).is_err());
        }
        let _ = Segment::parse_slice_with(&damaged, Trust::Intact);
    }

    /// Damage that no checksum stops, so that the option parsers see it.
    #[test]
    fn damage_never_panics_and_what_parses_is_stable(
        segment in segment(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut packet = emit(&segment).to_vec();
        let head = packet.len().min(100);
        for (at, byte) in damage {
            packet[at.index(head)] = byte;
        }
        stable(&packet);
    }

    #[test]
    fn any_option_bytes(bytes in vec(option_byte(), 0..41)) {
        let mut packet = emit(&plain(bytes.len().next_multiple_of(4))).to_vec();
        packet[40..40 + bytes.len()].copy_from_slice(&bytes);
        stable(&packet);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200), version in prop_oneof![Just(4), Just(6)]) {
        stable(&bytes);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | *first & 0xf;
        }
        stable(&bytes);
    }
}

/// Bytes that kinds, lengths and subtypes are made of, more often than others.
fn option_byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        0..9u8,
        Just(30),
        2..31u8,
        prop::sample::select(vec![0x10, 0x20, 0x21]),
        any::<u8>()
    ]
}

/// A segment over IPv4 whose option space has `len` bytes, all NOPs.
fn plain(len: usize) -> Segment {
    let mut options = TcpOptions::default();
    if len >= 4 {
        // Filled by the caller: anything of the right length will do.
        options.push_mptcp(MptcpOption::RemoveAddr(vec![1; len - 3]));
    }
    Segment {
        src: ([10, 0, 0, 1], 1).into(),
        dst: ([10, 0, 0, 2], 2).into(),
        seq: SeqNum(1),
        ack: SeqNum(2),
        flags: Flags::ACK,
        window: 3,
        ecn: Ecn::NotEct,
        options,
        payload: Bytes::from_static(b"payload"),
    }
}

/// What parses (checksum aside) is emitted and parsed as the same, unless it cannot be emitted
/// for a reason that parsing cannot have.
fn stable(packet: &[u8]) {
    let Ok(segment) = Segment::parse_slice_with(packet, Trust::Intact) else { return };
    let _ = segment.to_string();
    let mut buffer = vec![0; 70_000];
    match segment.emit(&mut buffer) {
        Ok(len) => {
            assert_eq!(len, segment.wire_len());
            assert_eq!(Segment::parse_slice(&buffer[..len]), Ok(segment));
        }
        Err(EmitError::Mptcp { .. }) => {
            let unknown = |option: &MptcpOption| matches!(option, MptcpOption::Unknown { .. });
            assert!(segment.options.mptcp().iter().any(unknown), "{segment}");
        }
        Err(other) => panic!("{other}: {segment}"),
    }
}
