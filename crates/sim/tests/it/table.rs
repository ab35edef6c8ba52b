//! Schedulers and controllers over a few pairs of paths, as tables: the review of a change to an
//! algorithm is the review of its diff. Every scheduler with two controllers, every controller
//! with two schedulers; all with all would take minutes and show no more.

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
fn goodput_of_schedulers() {
    let schedulers: Vec<_> = scheduler::ALL.iter().map(|row| row.name).collect();
    insta::assert_snapshot!(table(&schedulers, &["reno", "cubic"]));
}

#[test]
fn goodput_of_controllers() {
    let controllers: Vec<_> = congestion::ALL.iter().map(|row| row.name).collect();
    insta::assert_snapshot!(table(&["minrtt", "roundrobin"], &controllers));
}

fn table(schedulers: &[&str], controllers: &[&str]) -> String {
    let mut text = String::from("goodput in Mbit/s, share of the first path in %\n");
    for (name, first, second) in PROFILES {
        let _ = writeln!(text, "\n{name}: {} + {}", first.join(" "), second.join(" "));
        let _ = write!(text, "{:14}", "");
        for controller in controllers {
            let _ = write!(text, "{controller:>16}");
        }
        text.push('\n');
        let document = document(first, second, schedulers, controllers);
        let variants = document.variants().unwrap_or_else(|e| panic!("{e}"));
        let results = sweep::run(&variants, |_, _| ());
        for (name, line) in schedulers.iter().zip(results.chunks(controllers.len())) {
            let _ = write!(text, "{name:14}");
            for result in line {
                let flow = &result.as_ref().expect("a run").flows[0];
                let all: u64 = flow.subflows.iter().map(|s| s.bytes).sum();
                let share = 100 * flow.subflows[0].bytes / all.max(1);
                let _ = write!(text, "{:>10.2} {share:>3} %", flow.goodput_bps / 1e6);
            }
            text.push('\n');
        }
    }
    text
}

/// A sweep over policies: schedulers outside, controllers inside.
fn document(
    first: &[&str; 3],
    second: &[&str; 3],
    schedulers: &[&str],
    controllers: &[&str],
) -> Document {
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
