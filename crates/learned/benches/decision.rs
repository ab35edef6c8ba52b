//! What a decision costs: to observe, to run the network, to pick. At most 5 us is wanted.
//!
//! `cargo bench -p tabane-learned --features onnx`

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::Path;
use tabane_engine::Duration;
use tabane_engine::policy::Spec;
use tabane_engine::scheduler::{self, Work};
use tabane_engine::view::{SubflowId, SubflowView};

fn decision(criterion: &mut Criterion) {
    tabane_learned::register().expect("the name is free");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/examples/policy.onnx");
    let spec: Spec = format!("learned:file={}", file.display()).parse().expect("a spec");
    let mut learned = scheduler::build(&spec).expect("the example's policy");
    let mut minrtt = scheduler::build(&Spec::named("minrtt")).expect("a scheduler");
    let view = |id: u8, rtt: u64| {
        SubflowView::default().with(|v| {
            (v.id, v.usable, v.mss, v.cwnd) = (SubflowId(id), true, 1428, 142_800);
            (v.sendable, v.srtt, v.in_flight) = (14_280, Duration::from_millis(rtt), 100_000);
        })
    };
    let views = [view(0, 20), view(1, 70)];
    let work = Work::default().with(|w| (w.len, w.unsent) = (1428, 200_000));
    criterion.bench_function("learned", |b| {
        b.iter(|| learned.select(black_box(&work), black_box(&views)));
    });
    criterion.bench_function("minrtt", |b| {
        b.iter(|| minrtt.select(black_box(&work), black_box(&views)));
    });
}

criterion_group!(benches, decision);
criterion_main!(benches);
