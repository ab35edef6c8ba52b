//! Captures of the simulator: losses, disorder, copies on two paths, closed windows.

use crate::program::{BUNDLE, Place};
use crate::run::{compare_file, has_tshark};
use tabane_sim::scenario::Scenario;
use tabane_trace::analysis::{Analyzer, Label, Settings, Watch};
use tabane_trace::observe::Observers;
use tabane_trace::pcap::{Buffered, Segments};
use tabane_trace::{Capture, RunInfo};
use tabane_wire::Headers;

/// Runs a scenario and compares the labels at each of these places; how many were given.
fn agree(name: &str, scenario: &str, at: &[&str]) -> usize {
    let place = Place::new();
    place.write("s.toml", scenario);
    let mut args = vec!["sim", "run", "s.toml", "--out", "o"];
    at.iter().for_each(|host| args.extend(["--pcap", host]));
    place.ok(&args);
    let compare = |host: &&str| {
        compare_file(&format!("{name} at {host}"), &place.path(&format!("o/{host}.pcapng")))
    };
    at.iter().map(compare).sum()
}

const DISORDER: &str = r#"
seed = 3
duration = "20s"
[link.wifi]
rate = "20Mbps"
delay = "10ms"
loss = "1%"
reorder = "2%"
duplicate = "1%"
[link.lte]
rate = "10Mbps"
delay = "40ms"
reorder = "3%"
[[flow]]
bulk = "4MB"
[[flow]]
bulk = "1MB"
"#;

#[test]
fn labels_of_lossy_bundles() {
    if has_tshark() {
        assert!(agree("bundle", BUNDLE, &["client", "server", "wifi"]) > 100);
    }
}

#[test]
fn labels_of_disorder_and_duplication() {
    if has_tshark() {
        assert!(agree("disorder", DISORDER, &["client", "server"]) > 300);
    }
}

#[test]
fn labels_of_copies_on_both_paths() {
    if has_tshark() {
        let bicast = format!("{BUNDLE}\n[defaults]\negress = \"bicast\"\n");
        assert!(agree("bicast", &bicast, &["client", "server"]) > 1_000);
    }
}

#[test]
fn labels_of_plain_tcp() {
    if has_tshark() {
        let plain = format!("{DISORDER}\n[host.client]\nmptcp = false\n");
        assert!(agree("plain", &plain, &["client", "server"]) > 100);
    }
}

#[test]
fn labels_of_small_windows() {
    if has_tshark() {
        let small = r#"tcp = { receive_buffer = "3000B", receive_buffer_max = "3000B" }"#;
        let text = format!("{BUNDLE}\n[host.client]\n{small}\n").replace("2MB", "300kB");
        assert!(agree("small windows", &text, &["client", "server"]) > 5);
    }
}

#[test]
fn figures_are_those_of_the_simulator() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let run = place.json(&[
        "sim", "run", "s.toml", "--json", "--out", "o", "--pcap", "client", "--pcap", "server",
    ]);
    let flow = &run["flows"][0];
    for host in ["client", "server"] {
        let capture = place.json(&["pcap", &format!("o/{host}.pcapng"), "--json"]);
        assert_eq!(capture["file"]["skipped_frames"], 0);
        let connection = &capture["connections"][0];
        assert_eq!(connection["kind"], "mptcp");
        assert_eq!(connection["backward"]["new_bytes"], 2_000_000, "at the {host}");
        assert_eq!(connection["backward"]["unmapped_bytes"], 0);
        let subflows = connection["subflows"].as_array().unwrap();
        let opened: Vec<_> = subflows.iter().map(|s| s["opened"].as_str().unwrap()).collect();
        assert_eq!(opened, ["mptcp", "joined"]);
        // What each subflow delivered first; a reinjection may count for either.
        let slack = connection["backward"]["reinjected_bytes"].as_f64().unwrap() + 1.0;
        for (n, subflow) in subflows.iter().enumerate() {
            let theirs = flow["subflows"][n]["bytes"].as_f64().unwrap();
            let ours = subflow["backward"]["new_bytes"].as_f64().unwrap();
            assert!((ours - theirs).abs() <= slack, "{host} {n}: {ours} and {theirs}");
            let rtt = subflow["handshake_rtt_s"].as_f64().unwrap();
            let least = [0.020, 0.060][n];
            assert!((least..least * 1.3).contains(&rtt), "{host} {n}: {rtt}");
        }
    }
    // At the sender the smallest RTT is that of the path.
    let at_server = place.json(&["pcap", "o/server.pcapng", "--json"]);
    let rtt = &at_server["connections"][0]["subflows"][0]["backward"]["rtt"];
    let least = rtt["min_s"].as_f64().unwrap();
    assert!((0.020..0.022).contains(&least), "{least}");
}

#[test]
fn competition_is_measured() {
    let two = format!("{BUNDLE}\n[[flow]]\nname = \"other\"\nbulk = \"2MB\"\n");
    let place = Place::new();
    place.write("s.toml", &two.replace("loss = \"0.5%\"", ""));
    place.ok(&["sim", "run", "s.toml", "--out", "o", "--pcap", "server"]);
    let args = ["pcap", "o/server.pcapng", "--json", "--window", "200ms", "--skip", "100ms"];
    let capture = place.json(&args);
    let fairness = &capture["fairness"];
    let mean = fairness["mean"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&mean), "{fairness}");
    let shares = fairness["shares"].as_array().unwrap();
    let sum: f64 = shares.iter().map(|s| s["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{fairness}");
    let winner = fairness["winner"].as_u64().unwrap() as usize;
    let share = |n: usize| shares[n]["share"].as_f64().unwrap();
    assert!(share(winner) >= share(1 - winner), "{fairness}");
}

/// Analysing a run as it goes gives what its capture gives.
#[test]
fn no_file_is_needed() {
    let plan = Scenario::parse("s.toml", BUNDLE).unwrap().compile().unwrap();
    for place in ["client", "wifi"] {
        let mut file = Vec::new();
        let mut capture = Capture::new(&mut file, place, 0, RunInfo::default());
        let mut watch = Watch::new(place, Settings::default());
        tabane_sim::run(&plan, &mut Observers(vec![&mut capture, &mut watch])).unwrap();
        capture.finish().unwrap();
        let mut segments = Segments::open(Buffered::new(&file[..])).unwrap();
        let mut analyzer = Analyzer::new(Settings::default());
        let mut headers = Headers::default();
        while let Some(seen) = segments.next_segment(&mut headers).unwrap() {
            analyzer.packet(seen.time, &headers).unwrap();
        }
        let watched = watch.into_analyzer().analysis();
        assert!(watched.labels.get(Label::DuplicateAck) > 10, "{place}: {:?}", watched.labels);
        assert_eq!(watched.labels, analyzer.analysis().labels, "{place}");
        // Series hold NaN where there was no sample, which equals nothing.
        let text = |analysis| serde_json::to_string(&analysis).unwrap();
        assert_eq!(text(watched), text(analyzer.analysis()), "{place}");
    }
}
