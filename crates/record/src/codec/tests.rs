//! What is written comes back, and what is damaged is told from it.

use super::*;
use proptest::prelude::*;

fn path_row(unix_ms: u64, path: &str, bytes: u64, queue_us: u32) -> Row {
    let down = DirectionRow {
        bytes,
        packets: 90,
        lost: 3,
        queue_us: Some(queue_us),
        exercised: true,
        capacity_bps: Some(40_000_000),
        confidence: 0.75,
    };
    Row::Path(PathRow {
        unix_ms,
        lasts_ms: 101,
        path: path.into(),
        up: true,
        waits: true,
        using: Using::Backup,
        rtt_us: Some(queue_us + 20_000),
        directions: [DirectionRow { bytes: 640, ..DirectionRow::default() }, down],
    })
}

fn connection_row(unix_ms: u64) -> ConnectionRow {
    ConnectionRow {
        unix_ms,
        id: 77,
        age_ms: 12_345,
        ended: true,
        kind: Kind::Requests,
        bytes: [200, 100_000],
        exchanges: 3,
        active_ms: 700,
        stall_ms: 300,
        rtt_us: Some([20_000, 45_000]),
        policies: super::super::policies(["necf", "cubicd", "own"], ["necf", "bbr", "own"]).into(),
        target: "".into(),
        owner: "".into(),
    }
}

fn read(block: &[u8]) -> Vec<Row> {
    let payloads: Vec<_> = blocks(block).collect();
    assert_eq!(payloads.len(), 1);
    decode(payloads[0].unwrap()).unwrap()
}

#[test]
fn rows_come_back_to_the_precision_of_their_units() {
    let mut encoder = Encoder::default();
    let rows = [
        path_row(1_800_000_000_000, "wifi", 128_000, 5_000),
        path_row(1_800_000_000_001, "lte", 64_000, 0),
        path_row(1_800_000_000_100, "wifi", 120_000, 4_000),
        Row::Connection(connection_row(1_800_000_000_150)),
        Row::Connection(ConnectionRow {
            owner: "anna".into(),
            ..connection_row(1_800_000_000_160)
        }),
        Row::Skipped(9),
    ];
    rows.iter().for_each(|row| {
        encoder.add(row);
    });
    let found = read(&encoder.finish());
    assert!(encoder.is_empty());
    assert_eq!(found.len(), rows.len());
    for (found, row) in found.iter().zip(&rows) {
        match (found, row) {
            (Row::Path(found), Row::Path(row)) => {
                let (a, b) = (&found.directions[1], &row.directions[1]);
                assert!(a.bytes.abs_diff(b.bytes) < STEP_BYTES);
                let share = a.capacity_bps.unwrap() as f64 / b.capacity_bps.unwrap() as f64;
                assert!((share - 1.0).abs() < 0.006, "{share}");
                assert!((a.confidence - b.confidence).abs() < 0.04);
                let plain = |direction: &DirectionRow| DirectionRow {
                    bytes: 0,
                    capacity_bps: None,
                    confidence: 0.0,
                    ..*direction
                };
                assert_eq!(plain(a), plain(b));
                assert_eq!((found.unix_ms, &found.path), (row.unix_ms, &row.path));
                assert_eq!((found.lasts_ms, found.up), (row.lasts_ms, row.up));
                assert_eq!((found.waits, found.using), (row.waits, row.using));
                assert_eq!(found.rtt_us, row.rtt_us);
            }
            _ => assert_eq!(found, row),
        }
    }
}

#[test]
fn a_busy_path_takes_less_than_twenty_bytes_a_row() {
    let mut encoder = Encoder::default();
    for n in 0..1000u64 {
        // Rates and queues that wander as those of a mobile link do.
        let wander = (n * 7919 % 101) * 300;
        let row = path_row(1_800_000_000_000 + n * 100, "lte", 300_000 + wander * 4, wander as u32);
        encoder.add(&row);
    }
    let bytes = encoder.finish().len() as f64 / 1000.0;
    assert!(bytes < 20.0, "{bytes}");
}

#[test]
fn what_is_torn_or_damaged_is_told_from_what_is_whole() {
    let mut encoder = Encoder::default();
    let mut file = Vec::new();
    for n in 0..3 {
        encoder.add(&path_row(1_800_000_000_000 + n, "wifi", 1, 1));
        file.extend(encoder.finish());
    }
    let length = file.len();
    for cut in 1..length / 3 {
        let found: Vec<_> = blocks(&file[..length - cut]).collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[2], Err(Damage::Torn));
        assert!(found[1].is_ok());
    }
    file[length / 3 + 10] ^= 1;
    let found: Vec<_> = blocks(&file).map(|block| block.map(drop)).collect();
    assert_eq!(found, [Ok(()), Err(Damage::Wrong), Ok(())]);
}

#[test]
fn the_checksum_is_that_of_others() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        prop_assert!(blocks(&bytes).count() <= bytes.len());
    }

    #[test]
    fn numbers_of_any_size_come_back(values in proptest::collection::vec(any::<u64>(), 1..20)) {
        let mut bytes = Vec::new();
        let mut last = 0;
        for value in &values {
            put(&mut bytes, *value);
            difference(&mut bytes, value >> 2, &mut last);
        }
        let mut decoder = Decoder { rest: &bytes, ..Decoder::default() };
        let mut last = 0;
        for value in &values {
            prop_assert_eq!(decoder.number(), Some(*value));
            prop_assert_eq!(decoder.difference(&mut last), Some(value >> 2));
        }
    }
}
