//! One seed replays everything: the same records, whether segments are values or bytes.

use tabane_sim::check::RecordHash;
use tabane_sim::scenario::Scenario;
use tabane_sim::{run, swarm};

fn hash(scenario: &Scenario) -> (u64, u64) {
    let mut hash = RecordHash::default();
    run(&scenario.compile().expect("a plan"), &mut hash).expect("a run");
    (hash.value(), hash.count)
}

/// Two lossy paths and everything that adds randomness.
fn lossy(seed: u64, wire: bool) -> Scenario {
    let text = format!(
        "seed = {seed}\nwire = {wire}\nduration = \"20s\"\n\
         [link.wifi]\nrate = \"20Mbps\"\ndelay = \"8ms\"\njitter = \"1ms\"\nloss = \"1%\"\n\
         duplicate = \"0.5%\"\nreorder = \"0.5%\"\ncorrupt = \"0.2%\"\n\
         [link.lte]\nrate = \"8Mbps\"\ndelay = \"30ms\"\nloss = \"gilbert:p=0.01,r=0.4\"\n\
         queue = \"codel\"\n[[flow]]\nbulk = \"4MB\"\n\
         [[flow]]\nrequest = {{ size = \"50kB\", count = 10 }}\n"
    );
    Scenario::parse("lossy.toml", &text).expect("a scenario")
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let first = hash(&lossy(3, false));
    assert!(first.1 > 10_000, "only {} records", first.1);
    assert_eq!(first, hash(&lossy(3, false)));
    assert_ne!(first, hash(&lossy(4, false)));
}

#[test]
fn bytes_give_the_same_records_as_values() {
    assert_eq!(hash(&lossy(5, false)), hash(&lossy(5, true)));
    for seed in 0..10 {
        let mut generated = swarm::generate(seed);
        generated.wire = false;
        let values = hash(&generated);
        generated.wire = true;
        assert_eq!(values, hash(&generated), "seed {seed}");
    }
}
