//! `--json`: one document on standard output, field by field, the same each time.

use crate::program::{BUNDLE, Place, tabane};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

fn without_cost(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("cost").unwrap();
    result
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value}"))
}

#[test]
fn the_document_keeps_the_contract() {
    let place = Place::new();
    place.write("bundle.toml", BUNDLE);
    let result = place.json(&["sim", "run", "bundle.toml", "--json"]);
    assert_eq!(result["scenario"], "bundle");
    assert_eq!(result["seed"], 7);
    assert_eq!(result["version"], env!("CARGO_PKG_VERSION"));

    let flows = result["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 1);
    let flow = &flows[0];
    assert_eq!(flow["name"], "download");
    assert_eq!(flow["bytes"], 2_000_000);
    let completed = number(flow, "completed_s");
    let goodput = number(flow, "goodput_bps");
    assert!((goodput * completed / 8.0 - 2e6).abs() < 1.0, "{flow}");
    // More than the better link alone can carry, less than both.
    assert!((10e6..25e6).contains(&goodput), "{goodput}");

    let subflows = flow["subflows"].as_array().unwrap();
    let paths: Vec<&str> = subflows.iter().map(|s| s["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["wifi", "lte"]);
    let sum: f64 = subflows.iter().map(|s| number(s, "bytes")).sum();
    assert_eq!(sum, 2e6, "{flow}");
    assert!(subflows.iter().all(|s| number(s, "goodput_bps") > 0.0), "{flow}");

    let cost = &result["cost"];
    assert!(number(cost, "packet_hops") > 2_000.0);
    assert!(number(cost, "user_s") >= 0.0);
    assert!(cost["instructions"].is_null() || cost["instructions"].as_u64().unwrap() > 1_000_000);
    let memory = &cost["peak_rss_bytes"];
    assert!(memory.is_null() || memory.as_u64().unwrap() > 1_000_000);
}

#[test]
fn a_flow_that_does_not_finish_has_no_completion() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let result = place.json(&["sim", "run", "s.toml", "--json", "--set", "duration=100ms"]);
    assert!(result["flows"][0]["completed_s"].is_null(), "{result}");
    assert!(result["flows"][0]["bytes"].as_u64().unwrap() < 2_000_000);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let run = |args: &[&str]| {
        let all: Vec<&str> =
            ["sim", "run", "s.toml", "--json"].iter().chain(args).copied().collect();
        without_cost(place.json(&all))
    };
    let first = run(&[]);
    assert_eq!(first, run(&[]));
    // Who watches changes nothing.
    assert_eq!(first, run(&["--out", "o", "--records", "--pcap", "client"]));
    // Nor do bytes instead of values.
    assert_eq!(first, run(&["--set", "wire=true"]));
    let other = run(&["--seed", "8"]);
    assert_eq!(other["seed"], 8);
    assert_ne!(first["flows"], other["flows"]);
}

#[test]
fn a_scenario_may_come_by_standard_input() {
    let mut child = tabane()
        .args(["sim", "run", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(BUNDLE.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["flows"][0]["bytes"], 2_000_000);
}

#[test]
fn a_sweep_is_one_document_with_every_point() {
    let place = Place::new();
    place.write("s.toml", BUNDLE);
    let sets = ["--set", "seed=[1, 2]", "--set", "defaults.congestion=[\"reno\", \"cubic\"]"];
    let args: Vec<&str> = ["sim", "run", "s.toml", "--json"].iter().chain(&sets).copied().collect();
    let sweep = place.json(&args);
    let runs = sweep["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let params = run["params"].as_object().unwrap();
        assert_eq!(params.len(), 2, "{run}");
        assert_eq!(params["seed"].as_str().unwrap(), run["seed"].to_string());
        assert_eq!(run["flows"][0]["bytes"], 2_000_000);
    }
    let text = place.ok(&args.iter().filter(|a| **a != "--json").copied().collect::<Vec<_>>());
    assert_eq!(text.lines().filter(|line| line.contains("2.00 MB")).count(), 4, "{text}");
}

#[test]
fn a_seed_of_the_swarm_runs_again() {
    let place = Place::new();
    let first = without_cost(place.json(&["sim", "replay", "3", "--json"]));
    assert_eq!(first, without_cost(place.json(&["sim", "replay", "3", "--json"])));
    assert_eq!(first["seed"], 3);
    let scenario = place.ok(&["sim", "replay", "3", "--print"]);
    place.write("drawn.toml", &scenario);
    let same = without_cost(place.json(&["sim", "run", "drawn.toml", "--json"]));
    assert_eq!(first["flows"], same["flows"]);
}

#[test]
fn a_campaign_of_the_swarm_says_what_it_covered() {
    let place = Place::new();
    let campaign = place.json(&["sim", "swarm", "--seeds", "100..120", "--json"]);
    assert_eq!((&campaign["first_seed"], &campaign["worlds"]), (&100.into(), &20.into()));
    assert!(campaign["violations"].as_object().unwrap().is_empty(), "{campaign}");
    assert!(number(&campaign, "packet_hops") > 10_000.0, "{campaign}");
    let coverage = &campaign["coverage"];
    assert!(number(coverage, "loss") > 0.0, "{campaign}");
    assert!(coverage.get("scheduler necf").is_some(), "{campaign}");
}
