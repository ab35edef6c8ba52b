//! How near a replay is to what was recorded.

use super::cases::{POLICIES, SETS, scenario};
use super::feed::{Feed, START};
use std::path::Path;
use tabane_record::{Export, Measured, Recording, Window, policies};
use tabane_sim::Plan;
use tabane_sim::scenario::{Document, Scenario};
use tabane_sim::what_if::{self, Figures};

/// Goodput of a replay under the same policies, from what was measured.
const GOODPUT: f64 = 0.05;
/// 95 % of round-trip times likewise.
const RTT: f64 = 0.15;
/// Policies whose goodput differs by less are as good as each other.
const DIFFERS: f64 = 0.05;

fn plan(text: &str) -> Plan {
    Scenario::parse("set", text).unwrap().compile().unwrap()
}

/// Records a scenario, and exports all of it to a folder.
fn record(text: &str, seconds: u64, folder: &Path) -> Measured {
    let own = [POLICIES[0].0, POLICIES[0].1, "own"];
    let mut feed = Feed::new(&policies(own, own), &folder.join("rec"));
    tabane_sim::run(&plan(text), &mut feed).unwrap();
    let recording = Recording::open(&folder.join("rec")).unwrap();
    let rows = recording.read(0, u64::MAX).unwrap().rows;
    let window = Window { from_ms: START, to_ms: START + seconds * 1000, client: None };
    let export = Export::make(&rows, &window, "set").unwrap();
    for (file, text) in &export.files {
        std::fs::write(folder.join(file), text).unwrap();
    }
    std::fs::write(folder.join("set.toml"), &export.scenario).unwrap();
    export.measured
}

/// The export with other policies.
fn exported(folder: &Path, (scheduler, congestion): (&str, &str)) -> Plan {
    let sets = [
        format!("defaults.scheduler=\"{scheduler}\""),
        format!("defaults.congestion=\"{congestion}\""),
    ];
    let document = Document::read(&folder.join("set.toml"), &sets).unwrap();
    document.variants().unwrap().remove(0).plan
}

fn mean(plan: &Plan, seeds: u64) -> Figures {
    let all: Vec<Figures> =
        (1..=seeds).map(|seed| what_if::measure(&plan.with_seed(seed)).unwrap()).collect();
    let mean = |of: fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(of).collect();
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    Figures { goodput_bps: mean(|f| f.goodput_bps), rtt_p95_s: mean(|f| f.rtt_p95_s), ..all[0] }
}

struct Judged {
    goodput: f64,
    rtt: f64,
    pairs: u32,
    right: u32,
}

/// What came of a set: errors under the same policies, and pairs of policies in the right order.
fn judge(name: &str, links: &str, seconds: u64, others: usize) -> Judged {
    let folder = tempfile::tempdir().unwrap();
    let measured = record(&scenario(links, seconds, POLICIES[0]), seconds, folder.path());
    let (mut truths, mut replays) = (Vec::new(), Vec::new());
    for policies in &POLICIES[..=others] {
        truths.push(what_if::measure(&plan(&scenario(links, seconds, *policies))).unwrap());
        replays.push(mean(&exported(folder.path(), *policies), 2));
    }
    let off = |a: Option<f64>, b: Option<f64>| a.unwrap() / b.unwrap() - 1.0;
    let (truth, replay) = (&truths[0], &replays[0]);
    let measured_bps = measured.flows[0].goodput_bps;
    let goodput = off(replay.goodput_bps, Some(measured_bps));
    // By the same samples: a row counts what arrived, a run what was sent.
    let rtt = off(replay.rtt_p95_s, truth.rtt_p95_s);
    let (mut pairs, mut right) = (0, 0);
    for a in 0..truths.len() {
        for b in 0..a {
            let truth = off(truths[a].goodput_bps, truths[b].goodput_bps);
            let replay = off(replays[a].goodput_bps, replays[b].goodput_bps);
            if truth > DIFFERS || truth < -DIFFERS / (1.0 + DIFFERS) {
                pairs += 1;
                right += u32::from(truth * replay > 0.0);
            }
        }
    }
    let mbps = |figures: &[Figures]| -> Vec<String> {
        figures.iter().map(|f| format!("{:.1}", f.goodput_bps.unwrap() / 1e6)).collect()
    };
    let ms = |figures: &[Figures]| -> Vec<String> {
        figures.iter().map(|f| format!("{:.0}", f.rtt_p95_s.unwrap() * 1e3)).collect()
    };
    println!(
        "{name}: goodput {:+.1} %, p95 RTT {:+.1} %, order {right}/{pairs}",
        goodput * 100.0,
        rtt * 100.0
    );
    println!(
        "  measured {:.1} Mbit/s (run {:.1}), p95 {:.0} ms (run {:.0}), seen {:?}",
        measured_bps / 1e6,
        truth.goodput_bps.unwrap() / 1e6,
        measured.rtt_p95_s.unwrap() * 1e3,
        truth.rtt_p95_s.unwrap() * 1e3,
        measured
            .paths
            .iter()
            .map(|p| (p.name.as_str(), p.seen[1], p.queue_seen[1]))
            .collect::<Vec<_>>()
    );
    println!("  Mbit/s {} | {}", mbps(&truths).join(" "), mbps(&replays).join(" "));
    println!("  p95 ms {} | {}", ms(&truths).join(" "), ms(&replays).join(" "));
    Judged { goodput, rtt, pairs, right }
}

#[test]
fn a_replay_is_near_what_was_recorded() {
    let (name, links) = SETS[1];
    let judged = judge(name, links, 30, 0);
    assert!(judged.goodput.abs() <= GOODPUT, "{name}: goodput {:+.3}", judged.goodput);
    assert!(judged.rtt.abs() <= RTT, "{name}: p95 of RTT {:+.3}", judged.rtt);
}

#[test]
#[ignore = "takes minutes: by hand"]
fn all_ten_sets() {
    let (mut goodput, mut rtt, mut pairs, mut right) = (0, 0, 0, 0);
    let judged =
        tabane_sim::sweep::each(SETS, |(name, links)| judge(name, links, 60, 6), |_, _| ());
    for judged in judged {
        goodput += u32::from(judged.goodput.abs() <= GOODPUT);
        rtt += u32::from(judged.rtt.abs() <= RTT);
        (pairs, right) = (pairs + judged.pairs, right + judged.right);
    }
    println!(
        "goodput within 5 %: {goodput}/10, p95 RTT within 15 %: {rtt}/10, order: {right}/{pairs}"
    );
}
