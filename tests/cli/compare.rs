//! `tabane compare` on the simulator alone, which needs no root: what it keeps, and what it
//! complains of.

use crate::program::{Place, Said};
use serde_json::Value;

const SIMPLE: &str = r#"
duration = "20s"
[link.wifi]
delay = "5ms"
trace = "a.trace"
[[flow]]
name = "get"
bulk = "200kB"
"#;

/// A packet each so many milliseconds.
fn write_rates(place: &Place, name: &str, every_ms: u64) {
    let times: String = (1..200).map(|n| format!("{}\n", n * every_ms)).collect();
    place.write(name, &times);
}

fn compare(place: &Place, more: &[&str]) -> Said {
    let args = ["compare", "x.toml", "--stacks", "sim", "--repeat", "1", "--results", "r"];
    place.tabane(&[&args, more].concat())
}

#[test]
fn a_result_of_other_inputs_is_not_taken() {
    let place = Place::new();
    place.write("x.toml", SIMPLE);
    write_rates(&place, "a.trace", 2);
    let took = || {
        let said = compare(&place, &["--json"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let all: Value = serde_json::from_str(&said.out).unwrap();
        all[0]["runs"]["sim"][0]["completed_s"].as_f64().unwrap()
    };
    let fast = took();
    // What is kept is taken as it is.
    let kept = place.read("r/x.json");
    let changed = kept.replace(&fast.to_string(), "7.5");
    assert_ne!(kept, changed);
    place.write("r/x.json", &changed);
    assert_eq!(took(), 7.5);
    write_rates(&place, "a.trace", 20);
    let slow = took();
    assert!(slow > fast * 4.0 && slow != 7.5, "{fast} {slow}");
}

#[test]
fn a_swept_file_makes_no_folders() {
    let place = Place::new();
    place.write("x.toml", SIMPLE);
    ["a.trace", "b.trace"].iter().for_each(|name| write_rates(&place, name, 2));
    let files = ["a.trace", "b.trace"].map(|name| place.path(name).display().to_string());
    let said = compare(&place, &["--set", &format!("link.wifi.trace={files:?}")]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(std::fs::read_dir(place.path("r")).unwrap().count(), 2);
}

#[test]
fn a_flow_that_failed_is_told_last() {
    let place = Place::new();
    write_rates(&place, "a.trace", 200);
    let abort = "[[at]]\ntime = \"2s\"\nhost = \"client\"\nabort = true\n";
    place.write("x.toml", &(SIMPLE.to_owned() + abort));
    for more in [&[][..], &["--json"]] {
        let said = compare(&place, more);
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.err.contains("x on sim, seed 1: flow get: "), "{}", said.err);
        assert!(said.err.contains("1 flow failed or got wrong bytes"), "{}", said.err);
        assert!(said.out.contains("goodput"), "{}", said.out);
    }
}
