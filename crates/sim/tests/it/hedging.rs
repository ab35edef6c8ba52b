//! Hedged openings: what opens a connection and is lost on one path comes by another, soon.
use std::path::Path;
use tabane_sim::attainable;
use tabane_sim::observe::Silent;
use tabane_sim::run;
use tabane_sim::scenario::{Document, Scenario};

/// Connections that ask once, one after the other; when the last opens, the first link is dead
/// between the two times, in ms after its SYN. How long the last one took, in ms.
fn opened_beside(dead: (i64, i64), more: &str) -> f64 {
    let at = |ms: i64| 2_000 + ms;
    let text = format!(
        "seed = 1
         duration = \"8s\"
         [link.a]
         rate = \"50Mbps\"
         delay = \"15ms\"
         [link.b]
         rate = \"50Mbps\"
         delay = \"15ms\"
         [defaults]
         mptcp = {{ hedging = true }}
         {more}
         [[flow]]
         request = {{ size = \"1kB\", count = 1 }}
         count = 21
         stagger = \"100ms\"
         [[at]]
         time = \"{}ms\"
         link = \"a\"
         loss = \"100%\"
         [[at]]
         time = \"{}ms\"
         link = \"a\"
         loss = \"0%\"",
        at(dead.0),
        at(dead.1),
    );
    let plan = Scenario::parse("hedging.toml", &text).unwrap().compile().unwrap();
    let result = run(&plan, &mut Silent).unwrap();
    result.flows.last().unwrap().completed_s.expect("it ends") * 1e3
}

/// Two round trips of 30 ms, and for a loss as long as its answer is waited for: a round trip and a
/// quarter.
#[test]
fn whatever_is_lost_of_an_opening_comes_by_another_path() {
    let untouched = opened_beside((-10, -5), "");
    assert!((60.0..62.0).contains(&untouched), "{untouched}");
    for (what, dead) in [
        ("SYN", (-5, 5)),
        ("SYN+ACK", (10, 20)),
        ("request", (25, 35)),
        ("answer", (40, 50)),
        ("SYN and SYN+ACK", (-5, 60)),
        ("all", (-5, 3_000)),
    ] {
        let took = opened_beside(dead, "");
        eprintln!("{what} lost: {took:.1} ms");
        assert!((95.0..102.0).contains(&took), "{what} lost: {took} ms");
    }
}

/// Without it the SYN waits for its timer.
#[test]
fn it_is_hedging_that_saves_them() {
    let off = "[host.client]\nmptcp = { hedging = false }";
    let took = opened_beside((-5, 5), off);
    assert!(took > 1_000.0, "{took}");
}

#[test]
fn nobody_waits_a_second_beside_a_lossy_link() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/lossy.toml");
    for seed in 1..=5 {
        let seed = format!("seed={seed}");
        let document = Document::read(&root, std::slice::from_ref(&seed)).unwrap();
        let plan = &document.variants().unwrap()[0].plan;
        let rows = attainable::measure(plan).unwrap();
        let latency = rows[0].latency.as_ref().unwrap();
        eprintln!("{seed}: p50 {} p99 {} max {}", latency.p50_s, latency.p99_s, latency.max_s);
        // Connecting may take a round trip and 100 ms; the answer takes another.
        assert!(latency.p99_s <= 0.160, "{seed}: {latency:?}");
    }
}

/// Links that were dead without anybody knowing: who only receives asks when they are back, and who
/// sends need not wait for its timer.
#[test]
fn transfers_go_on_when_all_links_are_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/outage.toml");
    let document = Document::read(&root, &[]).unwrap();
    for variant in document.variants().unwrap() {
        for row in attainable::measure(&variant.plan).unwrap() {
            let stall = row.stall_s.unwrap();
            eprintln!("{}: {stall} s", row.flow);
            assert!((105.0..108.0).contains(&stall), "{}: {stall} s", row.flow);
        }
    }
}
