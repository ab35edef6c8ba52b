//! What a world does with packets that no engine may make.

use super::World;
use crate::check::Check;
use crate::scenario::Scenario;

const BOTH_WAYS: &str = r#"
name = "both"
verify = true
closing = true
duration = "60s"
[link.a]
rate = "20Mbps"
delay = "10ms"
loss = 0.01
mtu = 1440
[link.b]
rate = "10Mbps"
delay = "20ms"
loss = 0.01
[[flow]]
bulk = "2MB"
direction = "both"
"#;

#[test]
fn both_directions_at_once_bring_everything() {
    let scenario = Scenario::parse("both.toml", BOTH_WAYS).unwrap_or_else(|e| panic!("{e}"));
    let mut check = Check::new(&scenario);
    let plan = scenario.compile().expect("a sound scenario");
    let world = World::new(&plan, &mut check).expect("a world");
    let result = world.run().expect("a run");
    assert!(result.flows[0].completed_s.is_some(), "{result:?}");
    assert!(result.links.iter().all(|link| link.bytes > 300_000), "{:?}", result.links);
    assert_eq!(check.violations(&scenario, &result), Vec::<String>::new());
}

// A tunnel of exact MTU: what is longer does not go in, is counted and seen, and its sender is told
// what does.
#[test]
fn what_is_too_long_for_a_path_is_refused_and_answered() {
    let scenario = Scenario::parse("both.toml", BOTH_WAYS).unwrap_or_else(|e| panic!("{e}"));
    let mut check = Check::new(&scenario);
    let plan = scenario.compile().expect("a sound scenario");
    let mut world = World::new(&plan, &mut check).expect("a world");
    // The engine has not heard of it.
    world.hosts[0].mtus[0] = 1300;
    let result = world.run().expect("a run");
    assert!(result.flows[0].completed_s.is_some(), "{result:?}");
    let [(node, count)] = &result.too_long[..] else { panic!("{:?}", result.too_long) };
    assert!(node == "client" && (1..100).contains(count), "{node} {count}");
    let violations = check.violations(&scenario, &result);
    assert!(violations.iter().any(|v| v.contains("too long")), "{violations:?}");
    assert!(violations.iter().any(|v| v.contains("longer than their path's MTU")));
}
