//! Capture files of every kind, written by hand.

use bytes::Bytes;
use tabane_wire::mptcp::{MpCapable, MpJoin, MptcpOption};
use tabane_wire::{DataNumber, Dss, Ecn, Flags, Mapping, Segment, SeqNum, TcpOptions, Timestamps};

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// pcap: big endian, nanoseconds, link type.
    Classic(bool, bool, u32),
    /// pcapng: big endian, time resolution, link type.
    Ng(bool, u8, u32),
}

impl Format {
    pub(crate) const ALL: [Self; 20] = [
        Self::Classic(false, false, 101),
        Self::Classic(true, false, 1),
        Self::Classic(false, true, 113),
        Self::Classic(true, true, 276),
        Self::Classic(false, true, 0),
        Self::Classic(false, true, 108),
        Self::Classic(false, true, 12),
        Self::Classic(false, true, 228),
        Self::Classic(false, true, 9),
        Self::Classic(false, true, 50),
        Self::Classic(false, true, 51),
        Self::Classic(true, true, 104),
        Self::Classic(false, true, 204),
        Self::Classic(true, true, 239),
        Self::Ng(false, 9, 101),
        Self::Ng(true, 9, 1),
        Self::Ng(false, 6, 113),
        Self::Ng(true, 3, 276),
        Self::Ng(false, 8, 1),
        Self::Ng(false, 0x80 | 30, 101),
    ];

    /// Nanoseconds to which its times are right.
    pub(crate) fn resolution(self) -> u64 {
        match self {
            Self::Classic(_, false, _) | Self::Ng(_, 6, _) => 1_000,
            Self::Ng(_, 3, _) => 1_000_000,
            // Times of the segments are multiples of 2^-3 s, which both kinds can say.
            _ => 1,
        }
    }

    pub(crate) fn write(self, segments: &[(u64, Segment)]) -> Vec<u8> {
        let framed = |link: u32| {
            let frame = move |(t, segment): &(u64, Segment)| (*t, frame(link, &ng::bytes(segment)));
            segments.iter().map(frame).collect::<Vec<_>>()
        };
        match self {
            Self::Classic(big, nano, link) => {
                let frames = framed(link);
                let unit = if nano { 1 } else { 1_000 };
                let packets = frames.iter().map(|(t, f)| (*t / unit * unit, &f[..], f.len()));
                classic(big, nano, link, packets)
            }
            Self::Ng(big, resolution, link) => {
                let mut file = ng::section(big);
                file.extend(ng::interface(big, link as u16, resolution));
                for (t, frame) in framed(link) {
                    let units = match resolution {
                        9 => t,
                        6 => t / 1_000,
                        3 => t / 1_000_000,
                        8 => t / 10,
                        _ => ((u128::from(t) << 30) / 1_000_000_000) as u64,
                    };
                    file.extend(ng::packet(big, 0, units, &frame));
                }
                file
            }
        }
    }
}

/// A packet behind a link header.
fn frame(link: u32, packet: &[u8]) -> Vec<u8> {
    let mut frame = match link {
        1 => [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat(),
        113 => [&[0; 14][..], &[8, 0]].concat(),
        276 => [&[8, 0][..], &[0; 18]].concat(),
        0 => vec![2, 0, 0, 0],
        108 => vec![0, 0, 0, 2],
        9 | 50 => vec![0xff, 3, 0, 0x21],
        51 => vec![0x11, 0, 0, 1, 0, packet.len() as u8, 0, 0x21],
        104 => vec![0x0f, 0, 8, 0],
        204 => vec![0, 0xff, 3, 0, 0x21],
        239 => nflog(packet.len() as u16),
        _ => Vec::new(),
    };
    frame.extend(packet);
    // What Ethernet pads short frames with is not the packet's.
    if link == 1 {
        frame.extend([0; 6]);
    }
    frame
}

/// A log prefix ("drop", with its zero) and the head of the packet.
fn nflog(packet: u16) -> Vec<u8> {
    let [low, high] = (packet + 4).to_le_bytes();
    let prefix = [9, 0, 10, 0, b'd', b'r', b'o', b'p', 0, 0, 0, 0];
    [&[2, 0, 0, 5][..], &prefix, &[low, high, 9, 0]].concat()
}

/// A pcap file of packets: nanoseconds, bytes kept, bytes on the wire.
pub(crate) fn classic<'a>(
    big: bool,
    nano: bool,
    link: u32,
    packets: impl Iterator<Item = (u64, &'a [u8], usize)>,
) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let magic = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let mut file: Vec<u8> = word(magic).to_vec();
    file.extend(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    [0, 0, 65_535, link].iter().for_each(|n| file.extend(word(*n)));
    for (t, bytes, wire_len) in packets {
        let unit = if nano { 1 } else { 1_000 };
        let fraction = (t % 1_000_000_000 / unit) as u32;
        let seconds = (t / 1_000_000_000) as u32;
        for n in [seconds, fraction, bytes.len() as u32, wire_len as u32] {
            file.extend(word(n));
        }
        file.extend(bytes);
    }
    file
}

/// Pieces of pcapng files.
pub(crate) mod ng {
    use tabane_wire::Segment;

    pub(crate) fn bytes(segment: &Segment) -> Vec<u8> {
        let mut packet = vec![0; segment.wire_len()];
        segment.emit(&mut packet).unwrap();
        packet
    }

    fn word(big: bool, n: u32) -> [u8; 4] {
        if big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn half(big: bool, n: u16) -> [u8; 2] {
        if big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    pub(crate) fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
        let len = 12 + body.len().next_multiple_of(4);
        let mut block = [word(big, kind), word(big, len as u32)].concat();
        block.extend(body);
        block.resize(len - 4, 0);
        block.extend(word(big, len as u32));
        block
    }

    pub(crate) fn section(big: bool) -> Vec<u8> {
        let mut body = word(big, 0x1a2b_3c4d).to_vec();
        body.extend([half(big, 1), half(big, 0)].concat());
        body.extend([0xff; 8]);
        block(big, 0x0a0d_0d0a, &body)
    }

    pub(crate) fn interface(big: bool, link: u16, resolution: u8) -> Vec<u8> {
        let mut body = [half(big, link), [0; 2]].concat();
        body.extend(word(big, 0));
        body.extend([half(big, 2), half(big, 3)].concat());
        body.extend(*b"lo0\0");
        body.extend([half(big, 9), half(big, 1)].concat());
        body.extend([resolution, 0, 0, 0]);
        body.extend([0; 4]);
        block(big, 1, &body)
    }

    pub(crate) fn packet(big: bool, interface: u32, units: u64, bytes: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u32;
        let words = [interface, (units >> 32) as u32, units as u32, len, len];
        let mut body = words.map(|n| word(big, n)).concat();
        body.extend(bytes);
        block(big, 6, &body)
    }

    pub(crate) fn simple(big: bool, bytes: &[u8]) -> Vec<u8> {
        let mut body = word(big, bytes.len() as u32).to_vec();
        body.extend(bytes);
        block(big, 3, &body)
    }
}

/// A short MPTCP connection: handshake, data, a join, a repeat.
pub(crate) fn segments() -> Vec<(u64, Segment)> {
    let (client, server) = (([10, 0, 0, 1], 1000).into(), ([10, 0, 0, 2], 80).into());
    let base = |up: bool, seq: u32, ack: u32, flags: Flags, len: usize| Segment {
        src: if up { client } else { server },
        dst: if up { server } else { client },
        seq: SeqNum(seq),
        ack: SeqNum(ack),
        flags,
        window: 1_000,
        ecn: Ecn::NotEct,
        options: TcpOptions {
            timestamps: Some(Timestamps { value: 7, echo: 3 }),
            ..TcpOptions::default()
        },
        payload: Bytes::from(vec![1; len]),
    };
    let capable = |sender: Option<u64>, receiver: Option<u64>| {
        MptcpOption::Capable(MpCapable {
            version: 1,
            hmac_sha256: true,
            sender_key: sender,
            receiver_key: receiver,
            ..MpCapable::default()
        })
    };
    let mut syn = base(true, 99, 0, Flags::SYN, 0);
    syn.options.push_mptcp(capable(None, None));
    let mut syn_ack = base(false, 499, 100, Flags::SYN | Flags::ACK, 0);
    syn_ack.options.push_mptcp(capable(Some(2), None));
    let mut third = base(true, 100, 500, Flags::ACK, 0);
    third.options.push_mptcp(capable(Some(1), Some(2)));
    let mut data = base(true, 100, 500, Flags::ACK, 300);
    let mapping = Mapping { dsn: DataNumber::Long(77), ssn: 1, length: 300, checksum: None };
    data.options.dss = Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false });
    let mut ack = base(false, 500, 400, Flags::ACK, 0);
    ack.options.dss =
        Some(Dss { data_ack: Some(DataNumber::Short(5)), mapping: None, data_fin: false });
    let mut join = base(true, 7, 0, Flags::SYN, 0);
    join.src = ([10, 0, 0, 9], 1001).into();
    join.options.push_mptcp(MptcpOption::Join(MpJoin::Syn {
        backup: true,
        address_id: 3,
        token: tabane_engine::mptcp::crypto::Key(2).token_and_idsn().0,
        nonce: 5,
    }));
    let again = data.clone();
    let all = [syn, syn_ack, third, data, ack, join, again];
    let start = 1_700_000_000_000_000_000;
    let timed = all.into_iter().enumerate();
    timed.map(|(n, segment)| (start + n as u64 * 1_953_125 * 64, segment)).collect()
}
