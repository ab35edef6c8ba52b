//! Builds without the feature know the name, and say what to do.
#![cfg(not(feature = "onnx"))]

use tabane_engine::policy::Spec;
use tabane_engine::scheduler;

fn refused(spec: &str) -> String {
    tabane_learned::register().expect("nobody else has the name");
    let spec: Spec = spec.parse().expect("a spec");
    scheduler::build(&spec).err().expect("no network").to_string()
}

#[test]
fn the_remedy_is_named() {
    let message = refused("learned:file=policy.onnx");
    assert!(message.contains("build it with --features learned"), "{message}");
    let message = refused("learned");
    assert!(message.contains("write learned:file=policy.onnx"), "{message}");
    assert!(refused("learned:n=1").contains("has no parameter 'n'; it has: file"));
    assert!(refused("minrtt:file=x").contains("'minrtt' has no parameter 'file'"));
}
