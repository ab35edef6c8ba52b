//! Results that can be computed by hand: what a simulator must not get wrong.

use tabane_sim::observe::Silent;
use tabane_sim::result::RunResult;
use tabane_sim::run;
use tabane_sim::scenario::Document;

fn run_file(file: &str, sets: &[&str]) -> RunResult {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let document = Document::read(&root.join(file), &sets).unwrap_or_else(|e| panic!("{e}"));
    let variants = document.variants().unwrap_or_else(|e| panic!("{e}"));
    run(&variants[0].plan, &mut Silent).expect("a run")
}

/// 1448 of 1500 bytes are payload; less than one percent goes to start and end.
#[test]
fn a_clean_link_is_filled_to_its_payload_share() {
    let result = run_file("bench/reference.toml", &["verify=true"]);
    let flow = &result.flows[0];
    let bound = 100e6 * 1448.0 / 1500.0;
    assert_eq!((flow.bytes, flow.corrupt_at), (500_000_000, None));
    assert!((0.99 * bound..bound).contains(&flow.goodput_bps), "{}", flow.goodput_bps);
}

#[test]
fn two_clean_links_are_filled_together() {
    let result = run_file("bench/reference-mptcp.toml", &["verify=true"]);
    let flow = &result.flows[0];
    // A data sequence signal takes 20 bytes of one segment in eight.
    let bound = 200e6 * (1448.0 - 20.0 / 8.0) / 1500.0;
    assert_eq!((flow.bytes, flow.corrupt_at), (500_000_000, None));
    assert!((0.98 * bound..bound).contains(&flow.goodput_bps), "{}", flow.goodput_bps);
    assert_eq!(flow.subflows.len(), 2);
    assert!(flow.subflows.iter().all(|s| s.bytes > 200_000_000), "{:?}", flow.subflows);
}

/// A flow of one segment: SYN, SYN+ACK, then the data behind the ACK: two round trips of 20 ms
/// and the time on the wire.
#[test]
fn a_short_flow_takes_two_round_trips() {
    let result = run_file("bench/reference.toml", &["flow.bulk=1000B"]);
    let seconds = result.flows[0].completed_s.expect("completed");
    assert!((0.040..0.0405).contains(&seconds), "{seconds}");
}

/// Messages of a slow paced flow that nothing holds back (no Nagle) meet empty queues: propagation
/// and little else.
#[test]
fn latencies_of_an_idle_link_are_its_delay() {
    let sets = [
        "flow=[{ paced = { rate = \"64kbps\", message = \"160B\" }, stop = \"5s\" }]",
        "defaults.tcp.nagle=false",
    ];
    let result = run_file("bench/reference.toml", &sets);
    let latency = result.flows[0].latency.clone().expect("latencies");
    assert!(latency.count > 240, "{latency:?}");
    assert!((0.010..0.0105).contains(&latency.p50_s), "{latency:?}");
    assert!(latency.max_s < 0.05, "{latency:?}");
}
