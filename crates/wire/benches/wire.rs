//! Cost of packets as bytes: emit and parse with checksums, for a full data segment of an MPTCP
//! connection and for a pure ACK, and the parts they are made of.
//!
//! The figure that has a target is `data/emit+parse`: payload bytes a second of one core.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tabane_wire::{
    Checksum, DataNumber, Dss, Ecn, Flags, Mapping, Segment, SeqNum, TcpOptions, Timestamps,
};

fn data(checksum: Option<u16>) -> Segment {
    let mapping = Mapping { dsn: DataNumber::Long(1 << 40), ssn: 1, length: 1420, checksum };
    let dss =
        Dss { data_ack: Some(DataNumber::Long(1 << 41)), mapping: Some(mapping), data_fin: false };
    Segment {
        src: ([10, 0, 0, 1], 1000).into(),
        dst: ([10, 0, 0, 2], 80).into(),
        seq: SeqNum(1),
        ack: SeqNum(2),
        flags: Flags::ACK | Flags::PSH,
        window: 500,
        ecn: Ecn::NotEct,
        options: TcpOptions {
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            dss: Some(dss),
            ..TcpOptions::default()
        },
        payload: (0..1420u32).map(|n| n as u8).collect::<Vec<_>>().into(),
    }
}

fn ack() -> Segment {
    let mut segment = data(None);
    segment.payload = Bytes::new();
    segment.options.dss = Some(Dss { data_ack: Some(DataNumber::Long(7)), ..Dss::default() });
    segment
}

fn segments(c: &mut Criterion) {
    for (name, segment) in [("data", data(None)), ("data-csum", data(Some(7))), ("ack", ack())] {
        let mut group = c.benchmark_group(name);
        if !segment.payload.is_empty() {
            group.throughput(Throughput::Bytes(segment.payload.len() as u64));
        }
        let mut buffer = vec![0; 2048];
        let len = segment.emit(&mut buffer).expect("options fit");
        let packet = Bytes::copy_from_slice(&buffer[..len]);
        group.bench_function("emit", |b| b.iter(|| black_box(&segment).emit(&mut buffer)));
        group.bench_function("parse", |b| b.iter(|| Segment::parse(black_box(&packet))));
        group.bench_function("parse_slice", |b| {
            b.iter(|| Segment::parse_slice(black_box(&packet)));
        });
        group.bench_function("emit+parse", |b| {
            b.iter(|| {
                let len = black_box(&segment).emit(&mut buffer).expect("options fit");
                let parsed = Segment::parse_slice(&buffer[..len]).expect("just emitted");
                // What DSS checksums add at both ends.
                if parsed.options.dss.is_some_and(|dss| {
                    dss.mapping.is_some_and(|mapping| mapping.checksum.is_some())
                }) {
                    black_box(Checksum::of(&segment.payload).finish());
                    black_box(Checksum::of(&parsed.payload).finish());
                }
                parsed
            });
        });
        group.bench_function("wire_len", |b| b.iter(|| black_box(&segment).wire_len()));
        group.finish();
    }
}

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("checksum");
    for len in [20, 1448, 65536] {
        let bytes = vec![0x5a; len];
        let mut copy = vec![0; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("sum {len}"), |b| {
            b.iter(|| Checksum::of(black_box(&bytes)).finish());
        });
        group.bench_function(format!("copy and sum {len}"), |b| {
            b.iter(|| {
                let mut sum = Checksum::new();
                sum.add_copy(&mut copy, black_box(&bytes));
                sum.finish()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, segments, checksums);
criterion_main!(benches);
