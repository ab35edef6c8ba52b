//! Packets a second from the bytes of a capture to labels, data level and series: the reader, the
//! analyzer, and both together. The figure that has a target is `whole`: 3 million a second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tabane_trace::analysis::{Analyzer, Settings};
use tabane_trace::pcap::{Buffered, Segments};
use tabane_wire::mptcp::{MpCapable, MpJoin, MptcpOption};
use tabane_wire::{
    DataNumber, Dss, Ecn, Flags, Headers, Mapping, PcapngWriter, SackBlocks, Segment, SeqNum,
    TcpOptions, Timestamps,
};

const PACKETS: usize = 120_000;
const MSS: u32 = 1400;

/// A download by two subflows with some losses: two segments, one ACK, as captured at the sender.
fn packets() -> Vec<(u64, Segment)> {
    let mut out = Vec::new();
    let token = tabane_engine::mptcp::crypto::Key(2).token_and_idsn().0;
    for n in 0..2u8 {
        let nonce = 9;
        let syn = match n {
            0 => MptcpOption::Capable(MpCapable { version: 1, ..MpCapable::default() }),
            _ => MptcpOption::Join(MpJoin::Syn { backup: false, address_id: 1, token, nonce }),
        };
        let syn_ack = match n {
            0 => MptcpOption::Capable(MpCapable {
                version: 1,
                sender_key: Some(2),
                ..MpCapable::default()
            }),
            _ => MptcpOption::Join(MpJoin::SynAck { backup: false, address_id: 1, hmac: 0, nonce }),
        };
        let (mut a, mut b) = (packet(n, true, 0, 0, 0), packet(n, false, 0, 1, 0));
        (a.flags, b.flags) = (Flags::SYN, Flags::SYN | Flags::ACK);
        a.options.push_mptcp(syn);
        b.options.push_mptcp(syn_ack);
        out.extend([(0, a), (20_000_000, b), (40_000_000, packet(n, true, 1, 1, 0))]);
    }
    let (mut seq, mut dsn, mut time) = ([1u32; 2], 1u64 << 33, 50_000_000);
    while out.len() < PACKETS {
        let n = (out.len() / 3 % 5 == 0) as usize;
        for _ in 0..2 {
            time += 1_200;
            let mut data = packet(n as u8, false, seq[n], 1, MSS);
            let mapping = Mapping {
                dsn: DataNumber::Long(dsn),
                ssn: seq[n],
                length: MSS as u16,
                checksum: None,
            };
            data.options.dss =
                Some(Dss { data_ack: None, mapping: Some(mapping), data_fin: false });
            if out.len() % 100 == 7 {
                out.push((time + 400, data.clone()));
            }
            out.push((time, data));
            seq[n] += MSS;
            dsn += u64::from(MSS);
        }
        let mut ack = packet(n as u8, true, 1, seq[n].wrapping_sub(20 * MSS).max(1), 0);
        ack.options.dss = Some(Dss { data_ack: Some(DataNumber::Long(dsn)), ..Dss::default() });
        if out.len() % 50 < 3 {
            let mut sack = SackBlocks::default();
            sack.push(SeqNum(seq[n] - MSS), SeqNum(seq[n]));
            ack.options.sack = sack;
        }
        out.push((time + 300, ack));
    }
    out
}

fn packet(n: u8, up: bool, seq: u32, ack: u32, len: u32) -> Segment {
    let client = ([10, 0, n, 1], 40_000 + u16::from(n)).into();
    let server = ([10, 9, 0, 1], 443).into();
    Segment {
        src: if up { client } else { server },
        dst: if up { server } else { client },
        seq: SeqNum(seq),
        ack: SeqNum(ack),
        flags: Flags::ACK,
        window: 60_000,
        ecn: Ecn::NotEct,
        options: TcpOptions {
            timestamps: Some(Timestamps { value: seq / 50_000, echo: ack / 50_000 }),
            ..TcpOptions::default()
        },
        payload: vec![0; len as usize].into(),
    }
}

/// The file, of which `kept` bytes a packet are kept.
fn file(kept: u32) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "bench").expect("memory takes everything");
    let interface = writer.interface("wan", kept).expect("memory takes everything");
    let mut buffer = vec![0; 2_048];
    for (time, segment) in packets() {
        let len = segment.emit(&mut buffer).expect("options fit");
        writer.packet(interface, time, &buffer[..len], "").expect("memory takes everything");
    }
    writer.into_inner()
}

fn whole(file: &[u8]) -> u64 {
    let mut segments = Segments::open(Buffered::new(file)).expect("a capture");
    let mut analyzer = Analyzer::new(Settings::default());
    let mut headers = Headers::default();
    while let Some(seen) = segments.next_segment(&mut headers).expect("memory can be read") {
        black_box(analyzer.packet(seen.time, &headers));
    }
    analyzer.analysis().packets
}

fn captures(c: &mut Criterion) {
    let mut group = c.benchmark_group("pcap");
    group.throughput(Throughput::Elements(packets().len() as u64));
    for (name, kept) in [("headers", 128), ("all", 0)] {
        let bytes = file(kept);
        group.bench_function(format!("read/{name}"), |b| {
            b.iter(|| {
                let mut segments = Segments::open(Buffered::new(&bytes[..])).expect("a capture");
                let mut headers = Headers::default();
                while segments.next_segment(&mut headers).expect("memory can be read").is_some() {
                    black_box(&headers);
                }
            });
        });
        group.bench_function(format!("whole/{name}"), |b| b.iter(|| whole(black_box(&bytes))));
    }
    let packets: Vec<(u64, Headers)> =
        packets().iter().map(|(t, segment)| (*t, Headers::from(segment))).collect();
    group.bench_function("analyze", |b| {
        b.iter(|| {
            let mut analyzer = Analyzer::new(Settings::default());
            for (time, headers) in &packets {
                black_box(analyzer.packet(1 << 60 | time, headers));
            }
            analyzer
        });
    });
    group.finish();
}

criterion_group!(benches, captures);
criterion_main!(benches);
