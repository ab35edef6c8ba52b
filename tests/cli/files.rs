//! What `--out` writes: complete, readable by the tools it is for, the same each time.

use crate::program::{BUNDLE, Place, has};
use std::collections::BTreeMap;
use std::process::Command;

const ARGS: &[&str] =
    &["sim", "run", "s.toml", "--out", "o", "--records", "--pcap", "client", "--pcap", "wifi"];

fn run() -> Place {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    place.ok(ARGS);
    place
}

/// Rows of a CSV file by column, read strictly: the first line is the header, there are no
/// comments, and every row has every column.
pub(crate) fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut records = text.lines().map(fields);
    let head = records.next().unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    assert!(head.len() > 1 && head.iter().all(|name| name.chars().all(is_name)), "{head:?}");
    records
        .map(|fields| {
            assert_eq!(fields.len(), head.len(), "{fields:?}");
            head.iter().cloned().zip(fields).collect()
        })
        .collect()
}

/// RFC 4180, but for line ends in fields.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().unwrap().push(c),
        }
    }
    assert!(!quoted, "{line}");
    fields
}

#[test]
fn everything_is_there_and_says_scenario_seed_and_version() {
    let place = run();
    let caption = format!("s · seed 7 · tabane {}", env!("CARGO_PKG_VERSION"));
    for name in ["scenario.toml", "overview.svg", "throughput.svg", "cwnd.svg"] {
        assert!(place.read(&format!("o/{name}")).contains(&caption), "{name}");
    }
    let result: serde_json::Value = serde_json::from_str(&place.read("o/result.json")).unwrap();
    assert_eq!(result["seed"], 7);
    let meta: serde_json::Value = serde_json::from_str(&place.read("o/meta.json")).unwrap();
    assert_eq!((&meta["scenario"], &meta["seed"]), (&"s".into(), &7.into()));
    assert_eq!(meta["version"], env!("CARGO_PKG_VERSION"));
    for row in rows(&place.read("o/summary.csv")) {
        assert_eq!((row["scenario"].as_str(), row["seed"].as_str()), ("s", "7"));
        assert_eq!((row["scheduler"].as_str(), row["congestion"].as_str()), ("necf", "cubicd"));
        assert!(row["value"].parse::<f64>().unwrap().is_finite(), "{row:?}");
    }
}

#[test]
fn the_scenario_as_run_gives_the_same_result() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let sets = ["--set", "link.lte.rate=8Mbps", "--seed", "5"];
    let flows = |args: &[&str]| place.json(args)["flows"].clone();
    let first: Vec<&str> =
        ["sim", "run", "s.toml", "--json", "--out", "o"].iter().chain(&sets).copied().collect();
    assert_eq!(flows(&first), flows(&["sim", "run", "o/scenario.toml", "--json"]));
}

#[test]
fn series_add_up_to_what_was_delivered() {
    let place = run();
    let mut before = 0.0;
    let mut bytes = 0.0;
    let series = place.read("o/series.csv");
    for row in rows(&series) {
        let whole = row["subflow"].is_empty() && row["flow"] == "download";
        if row["metric"] == "goodput_bps" && whole {
            let (t, rate): (f64, f64) = (row["t"].parse().unwrap(), row["value"].parse().unwrap());
            bytes += rate * (t - before) / 8.0;
            before = t;
        }
    }
    assert!((bytes - 2e6).abs() < 2.0, "{bytes}");
    for metric in [
        "throughput_bps",
        "cwnd_bytes",
        "in_flight_bytes",
        "srtt_s",
        "receive_window_bytes",
        "queue_bytes",
    ] {
        assert!(series.contains(metric), "{metric}");
    }
}

#[test]
fn the_summary_agrees_with_the_result() {
    let place = run();
    let result: serde_json::Value = serde_json::from_str(&place.read("o/result.json")).unwrap();
    let summary = rows(&place.read("o/summary.csv"));
    let value = |subflow: &str, metric: &str| -> f64 {
        let row = summary.iter().find(|r| r["subflow"] == subflow && r["metric"] == metric);
        row.unwrap_or_else(|| panic!("{metric}"))["value"].parse().unwrap()
    };
    let flow = &result["flows"][0];
    assert_eq!(value("", "completed_s"), flow["completed_s"].as_f64().unwrap());
    assert_eq!(value("0", "bytes"), flow["subflows"][0]["bytes"].as_f64().unwrap());
    assert_eq!(value("0", "delivered_bytes"), value("0", "bytes"));
    // Smallest RTT: twice 10 ms and a little; the queue may not add more than it holds.
    assert!((0.020..0.024).contains(&value("0", "rtt_min_s")), "{}", value("0", "rtt_min_s"));
    // Losses of 0.5 % are repaired by about as many bytes again.
    assert!(value("0", "retransmitted_ratio") > 0.001);
}

#[test]
fn records_are_one_object_a_line_in_order() {
    let place = run();
    let mut last = 0.0;
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    for line in place.read("o/records.jsonl").lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let t = record["t"].as_f64().unwrap();
        assert!(t >= last, "{line} after {last}");
        last = t;
        *events.entry(record["event"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    for event in ["run", "sent", "received", "window", "rtt", "decision", "subflow", "completed"] {
        assert!(events.contains_key(event), "{event} in {events:?}");
    }
}

#[test]
fn plots_are_well_formed() {
    let place = run();
    let mut plots = 0;
    for entry in std::fs::read_dir(place.path("o")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "svg") {
            let text = std::fs::read_to_string(&path).unwrap();
            let svg = roxmltree::Document::parse(&text).unwrap();
            assert_eq!(svg.root_element().tag_name().name(), "svg", "{}", path.display());
            let lines = svg.descendants().filter(|n| n.has_tag_name("polyline")).count();
            assert!(lines > 0, "{} shows nothing", path.display());
            plots += 1;
        }
    }
    assert!(plots >= 6, "{plots} plots");
}

#[test]
fn two_runs_write_the_same_bytes() {
    let (one, two) = (run(), run());
    let mut names = 0;
    for entry in std::fs::read_dir(one.path("o")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let read = |place: &Place| std::fs::read(place.path("o").join(&name)).unwrap();
        assert!(read(&one) == read(&two), "{name} differs");
        names += 1;
    }
    assert!(names > 8);
}

#[test]
fn captures_open_in_wireshark_without_a_malformed_packet() {
    if !has("tshark") {
        return;
    }
    let place = run();
    for name in ["client", "wifi"] {
        let file = place.path(&format!("o/{name}.pcapng"));
        let tshark = |filter: &str| {
            let output = Command::new("tshark")
                .args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
                .args(["-Y", filter, "-T", "fields", "-e", "frame.number", "-r"])
                .arg(&file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout.iter().filter(|b| **b == b'\n').count()
        };
        assert!(tshark("tcp") > 1_000, "{name}: too few packets");
        assert_eq!(tshark("_ws.malformed"), 0, "{name}");
        assert_eq!(tshark("tcp.checksum.status == 0 || ip.checksum.status == 0"), 0, "{name}");
        assert!(tshark("tcp.option_kind == 30") > 0, "{name}: no MPTCP");
    }
}

#[test]
fn an_unknown_place_to_capture_is_refused_with_what_there_is() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let said = place.tabane(&["sim", "run", "s.toml", "--out", "o", "--pcap", "wfi"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("'wfi'") && said.err.contains("wifi"), "{}", said.err);
}

#[test]
fn a_sweep_writes_one_tidy_table() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    place.ok(&["sim", "run", "s.toml", "--set", "seed=[1, 2, 3]", "--out", "o"]);
    let text = place.read("o/summary.csv");
    let seeds: std::collections::BTreeSet<String> =
        rows(&text).into_iter().map(|r| r["seed"].clone()).collect();
    assert_eq!(seeds.len(), 3, "{text}");
    let results: serde_json::Value = serde_json::from_str(&place.read("o/results.json")).unwrap();
    assert_eq!(results["runs"].as_array().unwrap().len(), 3);
}
