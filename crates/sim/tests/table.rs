//! Every scheduler with every controller over a few pairs of paths, as one table: the review of a
//! change to an algorithm is the review of its diff.

use std::fmt::Write as _;
use tabane_engine::{congestion, scheduler};
use tabane_sim::scenario::Document;
use tabane_sim::sweep;

/// Pairs of links: rate, one-way delay, loss of each.
const PROFILES: &[(&str, [&str; 3], [&str; 3])] = &[
    ("equal", ["10Mbps", "10ms", "0%"], ["10Mbps", "10ms", "0%"]),
    ("wifi-lte", ["30Mbps", "5ms", "0.5%"], ["10Mbps", "40ms", "0%"]),
    ("unequal", ["20Mbps", "10ms", "0%"], ["1Mbps", "100ms", "0%"]),
    ("lossy", ["10Mbps", "20ms", "2%"], ["10Mbps", "20ms", "2%"]),
];

#[test]
fn goodput_of_schedulers_and_controllers() {
    let mut text = String::from("goodput in Mbit/s, share of the first path in %\n");
    for (name, first, second) in PROFILES {
        let _ = writeln!(text, "\n{name}: {} + {}", first.join(" "), second.join(" "));
        let controllers: Vec<_> = congestion::ALL.iter().map(|row| row.name).collect();
        let _ = write!(text, "{:14}", "");
        for controller in &controllers {
            let _ = write!(text, "{controller:>16}");
        }
        text.push('\n');
        let document = document(first, second, &controllers);
        let variants = document.variants().unwrap_or_else(|e| panic!("{e}"));
        let results = sweep::run(&variants, |_, _| ());
        for (row, line) in scheduler::ALL.iter().zip(results.chunks(controllers.len())) {
            let _ = write!(text, "{:14}", row.name);
            for result in line {
                let flow = &result.as_ref().expect("a run").flows[0];
                let all: u64 = flow.subflows.iter().map(|s| s.bytes).sum();
                let share = 100 * flow.subflows[0].bytes / all.max(1);
                let _ = write!(text, "{:>10.2} {share:>3} %", flow.goodput_bps / 1e6);
            }
            text.push('\n');
        }
    }
    insta::assert_snapshot!(text);
}

/// A sweep over all policies: schedulers outside, controllers inside.
fn document(first: &[&str; 3], second: &[&str; 3], controllers: &[&str]) -> Document {
    let schedulers: Vec<_> = scheduler::ALL.iter().map(|row| row.name).collect();
    let link = |name: &str, [rate, delay, loss]: &[&str; 3]| {
        format!(
            "[link.{name}]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n\
             down = {{ loss = \"{loss}\" }}\n"
        )
    };
    let text = format!(
        "duration = \"20s\"\nseed = 5\n{}{}[defaults]\nscheduler = {schedulers:?}\n\
         congestion = {controllers:?}\n[[flow]]\nbulk = \"unlimited\"\n",
        link("a", first),
        link("b", second),
    );
    Document::parse("table.toml", &text, &[]).unwrap_or_else(|e| panic!("{e}"))
}
