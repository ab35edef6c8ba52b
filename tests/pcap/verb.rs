//! What the verb prints and writes, and what it says about files that are not what they should be.

use crate::program::{BUNDLE, Place};
use std::fs;
use std::io::Write;
use std::process::Stdio;

fn captured() -> Place {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    place.ok(&["sim", "run", "s.toml", "--out", "o", "--pcap", "server"]);
    place
}

#[test]
fn a_table_and_files() {
    let place = captured();
    let out = place.ok(&["pcap", "o/server.pcapng", "--out", "a"]);
    for words in ["mptcp", "joined", "Mbit/s", "dup ACK", "ms / "] {
        assert!(out.contains(words), "no '{words}' in {out}");
    }
    for name in ["throughput", "rtt", "in_flight", "errors"] {
        let text = place.read(&format!("a/{name}.svg"));
        assert!(text.contains("server.pcapng"), "{name}");
        roxmltree::Document::parse(&text).unwrap();
    }
    let series = place.read("a/series.csv");
    for metric in ["throughput_bps", "goodput_bps", "rtt_s", "in_flight_bytes", "window_bytes"] {
        assert!(series.contains(metric), "{metric}");
    }
    let document: serde_json::Value = serde_json::from_str(&place.read("a/analysis.json")).unwrap();
    assert_eq!(document, place.json(&["pcap", "o/server.pcapng", "--json"]));
    // The area under the goodput is what was delivered.
    let mut area = 0.0;
    let mut before = 0.0;
    for line in series.lines().filter(|l| l.contains(",0,,backward,goodput_bps,")) {
        let mut fields = line.split(',');
        let t: f64 = fields.next().unwrap().parse().unwrap();
        let rate: f64 = fields.next_back().unwrap().parse().unwrap();
        area += rate / 8.0 * (t - before);
        before = t;
    }
    assert!((area - 2e6).abs() < 2e6 * 1e-6, "{area}");
}

#[test]
fn standard_input_is_a_file_too() {
    let place = captured();
    let file = fs::File::open(place.path("o/server.pcapng")).unwrap();
    let output =
        crate::program::tabane().args(["pcap", "-", "--json"]).stdin(file).output().unwrap();
    let mut piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    piped["file"]["name"] = "o/server.pcapng".into();
    assert_eq!(piped, place.json(&["pcap", "o/server.pcapng", "--json"]));
}

/// `tcpdump -w - | tabane pcap -` is ended by Ctrl-C, which both get.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_input_and_not_the_analysis() {
    let place = captured();
    let mut child = crate::program::tabane()
        .args(["pcap", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // More than the pipe holds: once it is written the program reads.
    pipe.write_all(&fs::read(place.path("o/server.pcapng")).unwrap()).unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).contains("mptcp"));
}

#[test]
fn a_file_that_is_cut_off_is_read_until_there() {
    let place = captured();
    let whole = fs::read(place.path("o/server.pcapng")).unwrap();
    fs::write(place.path("cut.pcapng"), &whole[..whole.len() / 2 + 1]).unwrap();
    let said = place.tabane(&["pcap", "cut.pcapng"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("cut off in the piece at offset"), "{}", said.out);
    let document = place.json(&["pcap", "cut.pcapng", "--json"]);
    assert_eq!(document["file"]["whole"], false);
    let frames = document["file"]["frames"].as_u64().unwrap();
    assert!(frames > 500, "{frames}");
}

#[test]
fn what_is_no_capture_is_refused_with_a_remedy() {
    let place = Place::new();
    place.write("empty.pcap", "");
    place.write("text.pcap", "this is a text and not a capture, whatever its name says");
    fs::write(place.path("packed.pcap"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]).unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    for (file, words) in [
        ("empty.pcap", "empty"),
        ("text.pcap", "editcap"),
        ("packed.pcap", "gunzip"),
        ("missing.pcap", "No such file"),
        ("folder", "folder"),
    ] {
        let said = place.tabane(&["pcap", file]);
        assert_eq!(said.code, Some(1), "{file}: {}", said.err);
        assert!(said.err.contains(words) && said.err.contains(file), "{file}: {}", said.err);
        assert_eq!(said.out, "", "{file}");
    }
}
