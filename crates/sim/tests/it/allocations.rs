//! A packet costs no allocation in the steady state: twice the data, the same allocations.

use tabane_sim::observe::Silent;
use tabane_sim::run;
use tabane_sim::scenario::Document;

/// Allocations (of this thread: a run has no other) and packet-hops of a transfer.
fn cost(file: &str, bulk: &str) -> (u64, u64) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bench");
    let sets = [format!("flow.bulk={bulk}")];
    let document = Document::read(&root.join(file), &sets).unwrap_or_else(|e| panic!("{e}"));
    let plan = document.variants().unwrap_or_else(|e| panic!("{e}")).remove(0).plan;
    let mut hops = 0;
    let cost = allocation_counter::measure(|| {
        hops = run(&plan, &mut Silent).expect("a run").cost.packet_hops;
    });
    (cost.count_total, hops)
}

#[test]
fn packets_are_not_allocated_for() {
    // What is left: a segment that spans two writes of the application is copied together, and
    // the most packets that were ever under way grow a little.
    let files = [
        ("reference.toml", 0.001),
        ("reference-mptcp.toml", 0.005),
        // MPTCP's segments are shorter than those of the relay's other side: each spans two, and
        // where they are put together is given back whenever the relay has nothing left to send.
        ("relay.toml", 0.03),
    ];
    for (file, limit) in files {
        let (half, half_hops) = cost(file, "50MB");
        let (all, all_hops) = cost(file, "100MB");
        let (more, hops) = (all as i64 - half as i64, all_hops - half_hops);
        let per_hop = more as f64 / hops as f64;
        println!("{file}: {half} + {more} allocations, {hops} more packet-hops: {per_hop:.5} each");
        assert!(per_hop < limit, "{file}: {more} allocations for {hops} packet-hops");
    }
}
