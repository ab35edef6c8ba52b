//! From rows to scenarios.

use super::super::{DirectionRow, policies};
use super::*;

const START: u64 = 1_800_000_000_000;

fn path_row(n: u64, path: &str) -> Row {
    let queue_us = Some(8_000);
    let down = DirectionRow { bytes: 125_000, queue_us, exercised: true, ..Default::default() };
    Row::Path(PathRow {
        unix_ms: START + (n + 1) * 100,
        lasts_ms: 100,
        path: path.into(),
        up: true,
        waits: true,
        using: if path.ends_with("lte") { Using::Backup } else { Using::Active },
        rtt_us: Some(48_000),
        directions: [DirectionRow::default(), down],
    })
}

fn connection_row(id: u64, seconds: u64, age_s: u64, bytes: [u64; 2]) -> ConnectionRow {
    ConnectionRow {
        unix_ms: START + seconds * 1000,
        id,
        age_ms: age_s * 1000,
        ended: false,
        kind: Kind::Bulk,
        bytes,
        exchanges: 1,
        active_ms: age_s * 1000,
        stall_ms: 0,
        rtt_us: Some([48_000, 60_000]),
        policies: policies(["necf", "cubicd", "own"], ["ecf", "bbr", "own"]).into(),
        target: "".into(),
        owner: "".into(),
    }
}

fn window(client: Option<&str>) -> Window {
    Window { from_ms: START, to_ms: START + 10_000, client: client.map(str::to_owned) }
}

#[test]
fn connections_become_what_they_looked_like() {
    let mut rows: Vec<Row> =
        (0..100).flat_map(|n| [path_row(n, "wifi"), path_row(n, "lte")]).collect();
    // Of a long one, what it carried within the window, as far as its rows say.
    rows.push(Row::Connection(connection_row(1, 2, 60, [0, 50_000_000])));
    rows.push(Row::Connection(connection_row(1, 12, 70, [0, 60_000_000])));
    // One that began before and ended within is as large as what came within.
    let over = ConnectionRow { ended: true, ..connection_row(4, 3, 60, [0, 30_000_000]) };
    rows.push(Row::Connection(over));
    let asks = ConnectionRow {
        ended: true,
        kind: Kind::Requests,
        exchanges: 5,
        active_ms: 1_000,
        ..connection_row(2, 6, 5, [1_000, 500_000])
    };
    rows.push(Row::Connection(asks));
    let voice = ConnectionRow { kind: Kind::Paced, ..connection_row(3, 9, 8, [64_000, 64_000]) };
    rows.push(Row::Connection(voice));
    let Export { scenario, files, measured } = Export::make(&rows, &window(None), "day").unwrap();
    for part in [
        "duration = \"10s\"",
        "[link.\"wifi\"]",
        "\"lte\" = { links = [\"lte\"], backup = true }",
        "[host.server]",
        "congestion = \"bbr\"",
        "name = \"bulk1\"\nstart = \"0ms\"\ndirection = \"download\"\nbulk = \"unlimited\"",
        "bulk = \"1500000B\"",
        "request = { size = \"100000B\", request = \"200B\", think = \"1000ms\", count = 5 }",
        "paced = { rate = \"64000bps\", message = \"800B\" }",
    ] {
        assert!(scenario.contains(part), "{part}\n{scenario}");
    }
    assert_eq!(files.len(), 4);
    // 8 MB after its first row, and before it 2 s at its mean until then.
    let bytes = 8_000_000 + 50_000_000 * 2 / 60;
    assert!(measured.flows[0].bytes[1].abs_diff(bytes) < 10, "{:?}", measured.flows[0]);
    assert!((measured.flows[0].goodput_bps / (bytes as f64 * 0.8) - 1.0).abs() < 1e-3);
    assert_eq!(measured.rtt_p95_s, Some(0.048));
    assert!(measured.paths.iter().all(|path| path.seen[DOWN] > 0.9), "{:?}", measured.paths);
    assert!(measured.paths.iter().all(|path| path.seen[UP] == 0.0));
}

#[test]
fn what_cannot_be_exported_is_said() {
    let wifi: Vec<Row> = (0..100).map(|n| path_row(n, "wifi")).collect();
    let fails = |rows: &[Row], client| Export::make(rows, &window(client), "day").unwrap_err();
    assert_eq!(fails(&[], None), ExportError::Nothing);
    assert_eq!(fails(&wifi, None), ExportError::NoConnection);
    let two: Vec<Row> = (0..100).flat_map(|n| [path_row(n, "c1/0"), path_row(n, "c2/0")]).collect();
    assert_eq!(fails(&two, None), ExportError::Clients(vec!["c1".into(), "c2".into()]));
    assert_eq!(fails(&two, Some("c2")), ExportError::NoConnection);
    assert_eq!(fails(&two, Some("c3")), ExportError::Nothing);
}

#[test]
fn a_servers_export_has_the_connections_of_its_client() {
    let mut rows: Vec<Row> =
        (0..100).flat_map(|n| [path_row(n, "anna/0"), path_row(n, "ben/0")]).collect();
    for (id, owner, bytes) in [(1, "anna", 5_000_000), (2, "ben", 7_000_000), (3, "", 1_000_000)] {
        let row = connection_row(id, 8, 6, [0, bytes]);
        rows.push(Row::Connection(ConnectionRow { owner: owner.into(), ended: true, ..row }));
    }
    let made = Export::make(&rows, &window(Some("ben")), "day").unwrap();
    let bytes: Vec<u64> = made.measured.flows.iter().map(|flow| flow.bytes[1]).collect();
    // Of version 1 it is not known whose a connection was.
    assert_eq!(bytes, [7_000_000, 1_000_000]);
}

/// The machine was suspended for an hour, or its clock was set.
#[test]
fn a_connection_goes_on_over_a_leap_of_the_clock() {
    let mut rows: Vec<Row> = (0..100).map(|n| path_row(n, "wifi")).collect();
    let before =
        ConnectionRow { unix_ms: START - 3_600_000, ..connection_row(1, 0, 60, [0, 50_000_000]) };
    rows.push(Row::Connection(before));
    rows.push(Row::Connection(connection_row(1, 1, 70, [0, 60_000_000])));
    rows.push(Row::Connection(connection_row(1, 11, 80, [0, 64_000_000])));
    let made = Export::make(&rows, &window(None), "day").unwrap();
    assert_eq!(made.measured.flows.len(), 1);
    let bytes = made.measured.flows[0].bytes[1];
    assert!((3_600_000..3_700_000).contains(&bytes), "{bytes}");
}

#[test]
fn links_of_like_names_have_files_of_their_own() {
    let mut rows: Vec<Row> =
        (0..100).flat_map(|n| [path_row(n, "lte 1"), path_row(n, "lte-1")]).collect();
    rows.push(Row::Connection(connection_row(1, 9, 8, [0, 9_000_000])));
    let mut files = Export::make(&rows, &window(None), "day").unwrap().files;
    files.sort();
    files.dedup_by(|a, b| a.0 == b.0);
    assert_eq!(files.len(), 4);
}

#[test]
fn what_is_measured_is_of_the_window() {
    let mut rows: Vec<Row> = Vec::new();
    let mut put = |id: u64, seconds: [u64; 3], stalls: [u32; 3]| {
        for (second, stall_ms) in seconds.into_iter().zip(stalls) {
            let row = connection_row(id, second, 60 + second, [0, (60 + second) * 1_000_000]);
            let unix_ms = row.unix_ms - 12_000;
            rows.push(Row::Connection(ConnectionRow { unix_ms, stall_ms, ..row }));
        }
    };
    // 2 s before the window, 8 s into it and 8 s after it.
    put(1, [10, 20, 30], [4_000, 4_000, 4_000]);
    put(2, [10, 20, 30], [1_000, 2_000, 2_000]);
    put(3, [10, 20, 30], [0, 0, 3_000]);
    // It began before the window: what of it lies within is no more than that.
    put(4, [10, 20, 30], [1_000, 50_000, 50_000]);
    // One that was long over.
    put(5, [10, 20, 40], [0, 0, 0]);
    rows.sort_by_key(Row::unix_ms);
    rows.insert(1, Row::Skipped(100));
    rows.extend((0..100).map(|n| path_row(n, "wifi")));
    rows.push(Row::Skipped(7));
    rows.push(path_row(150, "wifi"));
    rows.push(Row::Skipped(1_000));
    let measured = Export::make(&rows, &window(None), "day").unwrap().measured;
    let mut stalls: Vec<f64> = measured.flows.iter().map(|flow| flow.stall_s).collect();
    stalls.sort_by(f64::total_cmp);
    assert_eq!(stalls, [0.0, 0.0, 2.0, 3.0, 10.0]);
    assert_eq!(measured.skipped, 7);
}
