//! The model of conditions of `docs/adding.md`, compiled as if it were in the simulator. The last
//! test compares it with the document.

use tabane_sim::link::conditions::{self, RateIs};
use tabane_sim::scenario::Scenario;

/// What `crate::seed` has for it.
pub(crate) mod seed {
    pub(crate) use tabane_sim::seed::Rng;
}

/// What `crate::link::conditions` has for its models.
mod models {
    mod pulse;

    use tabane_engine::policy::Entry;
    use tabane_sim::link::conditions::{Build, Condition, Conditions, Phase, RateIs};

    pub(crate) const ROW: Entry<Build> = Entry {
        name: "pulse",
        aliases: &[],
        summary: "a rate that alternates",
        params: pulse::PARAMS,
        build: &pulse::Pulse::build,
    };
}

#[test]
fn a_model_takes_a_file_and_a_row() {
    conditions::REGISTRY.register(models::ROW).expect("a new name");
    let mut model = conditions::build(&"pulse:low=0.2".parse().unwrap()).expect("a model");
    let mut rng = tabane_sim::seed::Seed(1).stream("pulse");
    let rates: Vec<RateIs> =
        (0..3).map(|_| model.next(&mut rng).expect("a phase").condition.rate).collect();
    assert_eq!(rates, [1.0, 0.2, 1.0].map(RateIs::Times));

    // A queue that never runs empty: the test is of the link, not of who fills it.
    let text = "duration = \"10s\"\ndefaults.congestion = \"cubicq\"\n\
        [link.a]\nrate = \"10Mbps\"\nconditions = \"pulse\"\n\
        [[flow]]\nbulk = \"unlimited\"\n";
    let plan = Scenario::parse("pulse.toml", text).unwrap().compile().unwrap();
    let result = tabane_sim::run(&plan, &mut tabane_sim::observe::Silent).unwrap();
    let goodput = result.flows[0].goodput_bps / 1e6;
    assert!((6.9..7.3).contains(&goodput), "96 % of 7.5 Mbit/s: {goodput}");
}

#[test]
fn the_document_has_what_was_compiled() {
    let page = include_str!("../../../docs/adding.md");
    let block = page.split("```rust,no_run\n").nth(1).expect("a block");
    let block = block.split("```").next().unwrap_or_default();
    assert_eq!(block, include_str!("models/pulse.rs"));
}
