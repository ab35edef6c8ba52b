//! The transfers that simulators are compared by: `cargo bench -p tabane-sim`.
//!
//! Criterion's throughput is in packet-hops, so that loss and many flows can be compared with the
//! reference. The transfers are those of `scenarios/bench`, some shortened; whole runs with memory
//! and instructions are measured by `tabane bench`.

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::path::Path;
use tabane_sim::observe::Silent;
use tabane_sim::scenario::Document;
use tabane_sim::{Plan, run};

fn plan(file: &str, sets: &[&str]) -> Plan {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bench");
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let document = Document::read(&root.join(file), &sets).unwrap_or_else(|e| panic!("{e}"));
    document.variants().unwrap_or_else(|e| panic!("{e}")).remove(0).plan
}

fn transfers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transfer");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    let cases = [
        ("reference", plan("reference.toml", &[])),
        ("reference-mptcp", plan("reference-mptcp.toml", &[])),
        ("reference-loss", plan("reference-loss.toml", &[])),
        ("reference-wire", plan("reference.toml", &["wire=true", "flow.bulk=100MB"])),
        ("flows-1", plan("flows-1.toml", &["duration=2s"])),
        ("flows-1000", plan("flows-1000.toml", &["duration=2s"])),
    ];
    for (name, plan) in cases {
        let hops = run(&plan, &mut Silent).expect("a run").cost.packet_hops;
        group.throughput(Throughput::Elements(hops));
        group.bench_function(name, |bencher| {
            bencher.iter(|| run(&plan, &mut Silent).expect("a run"));
        });
    }
    group.finish();
}

criterion_group!(benches, transfers);
criterion_main!(benches);
