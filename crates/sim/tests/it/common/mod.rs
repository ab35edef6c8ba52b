//! What tests of scenarios begin with.

use tabane_sim::Plan;
use tabane_sim::scenario::Document;

/// The first run of a scenario with these values laid over it.
pub(crate) fn plan(text: &str, sets: &[&str]) -> Plan {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let document = Document::parse("test.toml", text, &sets).unwrap_or_else(|e| panic!("{e}"));
    document.variants().unwrap_or_else(|e| panic!("{e}")).remove(0).plan
}
