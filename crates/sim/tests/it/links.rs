//! The scenarios of links that lose, change and queue: what they could carry, and that they give
//! the same figures again. What the policies get there is no test's business but that of
//! docs/performance.md.

use std::path::Path;
use tabane_sim::attainable::{self, PAYLOAD, Row};
use tabane_sim::scenario::{Document, Variant};

fn variants(file: &str, sets: &[&str]) -> Vec<Variant> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links");
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let document = Document::read(&root.join(file), &sets).unwrap_or_else(|e| panic!("{e}"));
    document.variants().unwrap_or_else(|e| panic!("{e}"))
}

fn rows(file: &str, sets: &[&str]) -> Vec<Row> {
    attainable::measure(&variants(file, sets)[0].plan).expect("a run")
}

fn attainable_mbps(file: &str, sets: &[&str]) -> f64 {
    rows(file, sets)[0].attainable_bps.expect("bulk") / 1e6
}

#[test]
fn attainable_is_the_payload_of_what_links_send() {
    let near = |is: f64, of: f64| assert!((is / of - 1.0).abs() < 1e-9, "{is} {of}");
    near(attainable_mbps("bursts.toml", &["duration=1s"]), 310.0 * PAYLOAD);
    near(attainable_mbps("far.toml", &["duration=1s"]), 102.0 * PAYLOAD);
    // A bottleneck counts once, for a bond too.
    near(attainable_mbps("neighbours-bond.toml", &["duration=1s"]), 50.0 * PAYLOAD);
    // Of a series, the time that the run lasts: the first two rows of each.
    let text = |file: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links");
        std::fs::read_to_string(root.join(file)).expect("a file")
    };
    let rates = |file: &str| -> f64 {
        let rows: Vec<f64> = text(file).lines().skip(2).take(2).map(second).collect();
        rows.iter().sum::<f64>() / 2.0
    };
    let mean = rates("train-a.csv") + rates("train-b.csv");
    near(attainable_mbps("train.toml", &["duration=2s"]), mean * PAYLOAD);
}

fn second(line: &str) -> f64 {
    line.split(',').nth(1).and_then(|cell| cell.parse().ok()).expect("a rate")
}

#[test]
fn links_that_change_give_the_same_figures_again() {
    for file in ["leo.toml", "train.toml", "cellular.toml"] {
        let first = rows(file, &["duration=20s"]);
        assert_eq!(first, rows(file, &["duration=20s"]));
        let goodput = first[0].goodput_bps / first[0].attainable_bps.expect("bulk");
        assert!((0.3..1.06).contains(&goodput), "{file}: {goodput}");
        // Nothing of the train is random.
        let other = rows(file, &["duration=20s", "seed=77"]);
        assert_eq!(first == other, file == "train.toml", "{file}: another seed");
    }
}

/// A connection that asks once is measured from its SYN on, and a stall lasts until the end.
#[test]
fn connections_and_stalls_are_measured() {
    let rows = rows("lossy.toml", &["flow.0.count=20", "link.lossy.loss=0%"]);
    let latency = rows[0].latency.as_ref().expect("latencies");
    assert_eq!((rows[0].connections, rows[0].unfinished, latency.count), (20, 0, 20));
    assert!((0.060..0.062).contains(&latency.max_s), "two round trips: {latency:?}");
    let plan = &variants("outage.toml", &["duration=40s"])[0].plan;
    let rows = attainable::measure(plan).expect("a run");
    let stall = rows[0].stall_s.expect("bulk");
    assert!((29.5..30.5).contains(&stall), "from 10 s to the end: {stall}");
}

/// What the far link has lost before the near one joined is sent again as soon as it is overdue,
/// however large the peer's window: not after the far link's round trips of a second (1.5 s). Nor
/// is the end of it left over, as it was where segments without a mapping were larger (0.14 s).
#[test]
fn a_far_link_does_not_stall_what_the_near_one_delivers() {
    let stall = rows("far.toml", &["duration=10s"])[0].stall_s.expect("bulk");
    assert!(stall < 0.1, "{stall}");
    let without = ["duration=10s", "defaults.mptcp.race=false"];
    let stall = rows("far.toml", &without)[0].stall_s.expect("bulk");
    assert!(stall > 1.0, "the other way to look at it: {stall}");
}
