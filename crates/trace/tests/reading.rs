//! Reading captures: every format and link type gives the same segments, and nothing makes the
//! reader or the analyzer panic: cut files, flipped bits, arbitrary bytes.
#![allow(clippy::unwrap_used)]

mod reading {
    pub(crate) mod files;
}

use proptest::prelude::*;
use reading::files::{Format, classic, ng, segments};
use tabane_trace::analysis::{Analyzer, Rules, Settings, files, plots};
use tabane_trace::pcap::{Buffered, End, OpenError, Segments, Skip, Source};
use tabane_wire::Headers;

/// Times and headers of a file, and the reader at its end.
type Read<S> = (Vec<(u64, Headers)>, Segments<S>);

/// Reads all of it.
fn read<S: Source>(source: S) -> Result<Read<S>, OpenError> {
    let mut reader = Segments::open(source)?;
    let mut headers = Headers::default();
    let mut found = Vec::new();
    while let Some(seen) = reader.next_segment(&mut headers).unwrap() {
        found.push((seen.time, headers.clone()));
    }
    Ok((found, reader))
}

/// All that the verb does with a file.
fn analyse(bytes: &[u8]) {
    let Ok(mut reader) = Segments::open(Buffered::new(bytes)) else { return };
    let rules = if bytes.len().is_multiple_of(2) { Rules::Recent } else { Rules::Tshark40 };
    let settings = Settings { rules, bins: 16, streams: 8, ..Settings::default() };
    let mut analyzer = Analyzer::new(settings);
    let mut headers = Headers::default();
    let mut packets = 0;
    while let Some(seen) = reader.next_segment(&mut headers).unwrap() {
        let _ = analyzer.packet(seen.time, &headers);
        packets += 1;
    }
    let analysis = analyzer.analysis();
    assert!(reader.end().is_some());
    assert_eq!(analysis.packets, packets);
    assert_eq!(reader.frames(), packets + reader.skips().total());
    serde_json::to_string(&analysis).unwrap();
    files::csv(&analysis);
    if packets % 16 == 1 {
        plots::plots(&analysis, "test").unwrap();
    }
}

#[test]
fn every_format_gives_the_same() {
    let wanted: Vec<(u64, Headers)> =
        segments().iter().map(|(t, segment)| (*t, Headers::from(segment))).collect();
    for format in Format::ALL {
        let file = format.write(&segments());
        let (found, reader) = read(Buffered::new(&file[..])).unwrap();
        let coarse = |t: u64| t / format.resolution() * format.resolution();
        let expected: Vec<_> =
            wanted.iter().map(|(t, headers)| (coarse(*t), headers.clone())).collect();
        assert_eq!(found, expected, "{format:?}");
        assert_eq!(reader.end(), Some(&End::Whole), "{format:?}");
        assert_eq!(reader.skips().total(), 0, "{format:?}");
        assert_eq!(reader.position(), file.len() as u64, "{format:?}");
        assert_eq!(read(&file[..]).unwrap().0, expected, "{format:?} as a slice");
    }
}

#[test]
fn a_cut_file_says_where_it_ends() {
    for format in Format::ALL {
        let file = format.write(&segments());
        let whole = read(&file[..]).unwrap().0;
        for len in 24..file.len() {
            let Ok((found, reader)) = read(&file[..len]) else {
                panic!("{format:?} of {len} bytes is not opened")
            };
            assert_eq!(found, whole[..found.len()], "{format:?} of {len} bytes");
            match reader.end().unwrap() {
                End::Whole => assert_eq!(reader.position(), len as u64),
                End::Cut { offset, have, want } => {
                    assert_eq!(offset + have, len as u64, "{format:?}");
                    assert!(have < want, "{format:?}");
                }
                End::Damaged { .. } => panic!("{format:?} of {len} bytes is damaged"),
            }
        }
    }
}

#[test]
fn sections_interfaces_and_unknown_blocks() {
    let all = segments();
    let (first, rest) = all.split_at(2);
    let mut file = ng::section(false);
    // A link type that is not read, an unknown block, one longer than any buffer.
    file.extend(ng::interface(false, 127, 6));
    file.extend(ng::interface(false, 101, 9));
    file.extend(ng::packet(false, 0, 9, &[0; 40]));
    file.extend(ng::block(false, 0x0bad_cafe, &[7; 1_000]));
    file.extend(ng::block(false, 0x4242, &vec![0; 3 << 20]));
    for (t, segment) in first {
        file.extend(ng::packet(false, 1, *t, &ng::bytes(segment)));
    }
    file.extend(ng::packet(false, 2, 9, &[0; 40]));
    // Another section in the other byte order, with interfaces of its own.
    file.extend(ng::section(true));
    file.extend(ng::interface(true, 101, 9));
    for (t, segment) in rest {
        file.extend(ng::packet(true, 0, *t, &ng::bytes(segment)));
    }
    // Simple packets have no time of their own.
    file.extend(ng::simple(true, &ng::bytes(&rest[0].1)));
    let (found, reader) = read(Buffered::new(&file[..])).unwrap();
    assert_eq!(found.len(), all.len() + 1);
    assert_eq!(found.last().unwrap().0, all.last().unwrap().0);
    assert_eq!((reader.untimed(), reader.end()), (2, Some(&End::Whole)));
    assert_eq!(reader.skips().get(Skip::LinkType(127)), 1);
    assert_eq!(reader.skips().get(Skip::NoInterface), 1);
    assert_eq!(reader.frames(), all.len() as u64 + 3);
}

#[test]
fn what_is_not_tcp_is_counted() {
    let tcp = ng::bytes(&segments()[0].1);
    let changed = |at: usize, to: u8| {
        let mut packet = tcp.clone();
        packet[at] = to;
        packet
    };
    let packets = [
        changed(9, 17),
        changed(6, 0x20),
        changed(7, 1),
        changed(0, 0x35),
        changed(20 + 12, 0x10),
        tcp[..39].to_vec(),
        tcp.clone(),
    ];
    let file = classic(false, true, 101, packets.iter().map(|p| (1, &p[..], tcp.len())));
    let (found, reader) = read(&file[..]).unwrap();
    assert_eq!(found.len(), 1);
    let counted: Vec<(Skip, u64)> = reader.skips().iter().collect();
    let expected =
        [(Skip::NotTcp(17), 1), (Skip::Fragment, 2), (Skip::CutOff, 1), (Skip::Malformed, 2)];
    assert_eq!(counted, expected);
}

#[test]
fn damage_is_told_with_its_place() {
    let mut file = Format::ALL[0].write(&segments());
    let second = 24 + 16 + ng::bytes(&segments()[0].1).len();
    file[second + 8..second + 12].fill(0xff);
    let (found, reader) = read(&file[..]).unwrap();
    assert_eq!(found.len(), 1);
    let Some(End::Damaged { offset, what }) = reader.end() else { panic!("{:?}", reader.end()) };
    assert_eq!(*offset, second as u64);
    assert!(what.contains("4294967295"), "{what}");
}

#[test]
fn other_files_are_refused() {
    let said = |bytes: &[u8]| match Segments::open(bytes) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    };
    assert!(said(b"").contains("empty"));
    assert!(said(b"PK\x03\x04 and so on").contains("50 4b 03 04"));
    assert!(said(&[0x1f, 0x8b, 8]).contains("gunzip"));
    assert!(said(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("inside its header"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        analyse(&bytes);
    }

    #[test]
    fn flipped_bits_and_cut_ends_do_no_harm(
        format in 0..Format::ALL.len(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = Format::ALL[format].write(&segments());
        for (at, bit) in flips {
            let at = at.index(file.len());
            file[at] ^= 1 << bit;
        }
        file.truncate(1 + cut.index(file.len()));
        analyse(&file);
    }

    /// Only what follows the file header, so that every case gets as far as the packets.
    #[test]
    fn arbitrary_packets_do_no_harm(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 0..40),
        link_type in prop::sample::select(vec![0u32, 1, 9, 12, 101, 108, 113, 228, 229, 276]),
    ) {
        let packets = packets.iter().map(|p| (p.len() as u64, &p[..], p.len() * 7));
        analyse(&classic(false, true, link_type, packets));
    }

    /// Headers that are TCP whatever else they say, between few ends.
    #[test]
    fn arbitrary_headers_do_no_harm(
        headers in proptest::collection::vec(
            (0u16..3, proptest::collection::vec(any::<u8>(), 60), any::<u16>(), any::<u64>()),
            0..200,
        ),
    ) {
        let packets: Vec<Vec<u8>> = headers.iter().map(|(ends, bytes, len, _)| {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1];
            packet[2..4].copy_from_slice(&len.max(&80).to_be_bytes());
            packet.extend(bytes);
            packet[20..24].copy_from_slice(&[0, *ends as u8, 0, 1]);
            packet[32] |= 0x50;
            // An MPTCP option at least of some kind.
            let option = [30, packet[41] % 32, packet[42] % 0x90];
            packet[40..43].copy_from_slice(&option);
            packet
        }).collect();
        let times = headers.iter().map(|h| h.3 >> (h.2 % 64));
        let file = classic(false, true, 101, times.zip(&packets).map(|(t, p)| (t, &p[..], 9_000)));
        analyse(&file);
    }
}
