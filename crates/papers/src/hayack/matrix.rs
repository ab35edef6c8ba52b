//! What the paper does not name (rates, Link2's RTT), what else could explain its figures (buffers,
//! stacks, kind of loss), and every controller under every egress policy.

use super::{Buffers, Case, LARGE, Outcome, PURE, RTTS, Regime, STATED};
use super::{geometric_words, mean, ratio};
use crate::context::Context;
use crate::figure::{Figure, Heat, Panel};
use crate::report::{Report, Table, Verdict};
use crate::{PaperError, stats};
use tabane_engine::congestion;

/// Ways of B in the tables.
const EGRESS: [(&str, &str); 3] = [("own", "own"), ("hayack", PURE), ("fair", "hayack-fair")];

/// {rate} x {RTT of Link2} x {plain, HayACK} with all else as the paper states it, at 350 ms.
pub(super) fn unnamed(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let seeds = context.seeds(context.pick(1, 4));
    let (mut cases, mut names) = (Vec::new(), Vec::new());
    for (rate, mbps) in [("1Mbps", "1"), ("2Mbps", "2"), ("5Mbps", "5"), ("10Mbps", "10")] {
        for (delay2, rtt2) in [("2.5ms", "5"), ("10ms", "20"), ("25ms", "50")] {
            for (name, egress) in &EGRESS[..2] {
                names.push([mbps, rtt2, name]);
                let case = Case::new(RTTS[3], egress, STATED, 0);
                cases.extend(seeds.iter().map(|&seed| Case { seed, rate, delay2, ..case.clone() }));
            }
        }
    }
    let outcomes = context.each("unnamed", &cases, |case| case.run(context))?;
    let row = |(name, runs): (&[&str; 3], &[Outcome])| {
        let mut row: Vec<String> = name.iter().map(|&s| s.to_owned()).collect();
        row.push(format!("{:.2}", ratio(runs)));
        row.push(format!("{:.0} %", mean(runs, Outcome::above)));
        row.push(format!("{:.1}", mean(runs, Outcome::peak)));
        row.push(format!("{:.3}", mean(runs, Outcome::mean_jain)));
        row.push(format!("{:.2}", mean(runs, |o| o.rates()[0])));
        row.push(format!("{:.2}", mean(runs, |o| o.rates()[1])));
        row
    };
    let head = ["Mbit/s", "RTT of Link2, ms", "B", "B over TCP on Link1", "seconds above TCP"];
    report.tables.push(Table {
        title: "What the paper does not name, at 350 ms".to_owned(),
        head: head
            .into_iter()
            .chain(["largest ratio in a second", "Jain's index", "TCP, Mbit/s", "B by Link1"])
            .map(str::to_owned)
            .collect(),
        rows: names.iter().zip(outcomes.chunks(seeds.len())).map(row).collect(),
        caption: "Buffers, stacks and scheduler as the paper states them.".to_owned(),
    });
    Ok(())
}

/// {buffers} x {A's stack} x {kind of loss} x {plain, HayACK} at 350 ms, and the regime of each.
pub(super) fn confounders(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let seeds = context.seeds(context.pick(1, 4));
    let mut cases = Vec::new();
    let mut names = Vec::new();
    for (buffers, size) in [
        (Buffers::Stated, "stated, minRTT"),
        (Buffers::ByTurns, "stated, by turns"),
        (Buffers::Large, "large"),
    ] {
        for (native, stack) in [(true, "ns-3"), (false, "as B")] {
            for loss in ["0%", "0.1%"] {
                for (name, egress) in EGRESS {
                    names.push([size, stack, loss, name]);
                    let case = Case::new(RTTS[3], egress, Regime { native, buffers }, 0);
                    cases.extend(seeds.iter().map(|&seed| Case { seed, loss, ..case.clone() }));
                }
            }
        }
    }
    let outcomes = context.each("confounders", &cases, |case| case.run(context))?;
    let (mut rows, mut random) = (Vec::new(), Vec::new());
    for (name, runs) in names.iter().zip(outcomes.chunks(seeds.len())) {
        rows.push(regime(name, runs));
        if let ["large", "as B", "0.1%", way] = *name {
            random.push(theory(way, runs));
        }
    }
    let head = ["buffers", "A's stack", "random loss", "B", "B over TCP", "Jain's index"]
        .into_iter()
        .chain(["B by Link1, Mbit/s", "not limited by cwnd: TCP", "B"])
        .chain(["reductions: TCP", "B", "of TCP's, with one of B's within an RTT"]);
    report.tables.push(Table {
        title: "Confounders at 350 ms".to_owned(),
        head: head.map(str::to_owned).collect(),
        rows,
        caption: "Drop-tail queues of 100 packets everywhere. ns-3's TCP grows in steps of 536 \
                  bytes and begins with one segment."
            .to_owned(),
    });
    random_loss(report, random);
    report.note(
        "With the buffers that the paper states, B has one send buffer of 41 kB of payload for \
         both subflows. minRTT fills it over Link2, and Link1 has what is left. Sent by turns, \
         each subflow has half of it in flight, and HayACK has a higher rate on Link1 without one \
         loss: window-limited, as the paper's window plot is.",
    );
    Ok(())
}

/// What independent losses come to, beside what theory says: Reno's rate is one over the RTT.
fn theory(way: &str, runs: &[Outcome]) -> Vec<String> {
    // Link2's RTT is 5 ms; data goes by Link1, and half a round trip back by either.
    let (slow, fast) = (f64::from(RTTS[3].0), 5.0);
    let expected = if way == "hayack" { slow / ((slow + fast) / 2.0) } else { 1.0 };
    vec![
        way.to_owned(),
        format!("{expected:.2}"),
        format!("{:.2}", ratio(runs)),
        geometric_words(runs, 2),
    ]
}

fn random_loss(report: &mut Report, rows: Vec<Vec<String>>) {
    report.tables.push(Table {
        title: "Random loss of 0.1 % at 350 ms: B over TCP on Link1".to_owned(),
        head: ["B", "theory", "of the mean rates", "geometric mean"].map(str::to_owned).to_vec(),
        rows,
        caption: "Large buffers, A with B's stack.".to_owned(),
    });
}

fn regime(name: &[&str; 4], runs: &[Outcome]) -> Vec<String> {
    let limited = |n: usize| mean(runs, |o| o.watch.flows[n].window_limited());
    let cuts = |n: usize| mean(runs, |o| o.watch.flows[n].cuts.len() as f64);
    let both: Vec<f64> = runs.iter().filter_map(|o| o.synchronised(0.5)).collect();
    let mut row: Vec<String> = name.iter().map(|&s| s.to_owned()).collect();
    row.push(format!("{:.2}", ratio(runs)));
    row.push(format!("{:.3}", mean(runs, Outcome::mean_jain)));
    row.push(format!("{:.2}", mean(runs, |o| o.rates()[1])));
    row.extend([0, 1].map(|n| format!("{:.0} %", limited(n) * 100.0)));
    row.extend([0, 1].map(|n| format!("{:.1}", cuts(n))));
    row.push(stats::mean(&both).map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)));
    row
}

/// Reno's mean rate with less of a sawtooth, and five times as long, with ACKs by the own path and
/// compensated.
pub(super) fn smooth(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    const CONTROLLERS: [&str; 3] = ["reno", "reno:decrease=0.3", "reno:decrease=0.2"];
    let seeds = context.seeds(context.pick(1, 10));
    let (mut cases, mut names) = (Vec::new(), Vec::new());
    for &duration in context.pick(&["60s"][..], &["60s", "300s"][..]) {
        for controller in CONTROLLERS {
            for (name, egress) in [EGRESS[0], EGRESS[2]] {
                names.push([duration, controller, name]);
                for rtt in RTTS {
                    let case = Case { duration, controller, ..Case::new(rtt, egress, LARGE, 0) };
                    cases.extend(seeds.iter().map(|&seed| Case { seed, ..case.clone() }));
                }
            }
        }
    }
    let outcomes = context.each("smooth", &cases, |case| case.run(context))?;
    let row = |(name, runs): (&[&str; 3], &[Outcome])| {
        let cells = runs.chunks(seeds.len()).map(|runs| {
            format!("{:.3} / {:.2}", mean(runs, Outcome::mean_jain), mean(runs, Outcome::aggregate))
        });
        name.iter().map(|&s| s.to_owned()).chain(cells).collect()
    };
    let head = ["time", "controller of B", "egress"].map(str::to_owned);
    let columns = RTTS.map(|(rtt, _)| format!("{rtt} ms"));
    report.tables.push(Table {
        title: "A smaller sawtooth: Jain's index / goodput of B in Mbit/s".to_owned(),
        head: head.into_iter().chain(columns).collect(),
        rows: names.iter().zip(outcomes.chunks(seeds.len() * RTTS.len())).map(row).collect(),
        caption: "Beside TCP with Reno, large buffers. A loss takes a half, 0.3, or 0.2 of B's \
                  window, which grows by 1, 0.53, or 0.33 of a segment a round: the same mean."
            .to_owned(),
    });
    Ok(())
}

/// Every controller of B under every egress policy, beside TCP with Reno.
pub(super) fn controllers(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let seeds = context.seeds(context.pick(1, 6));
    let names: Vec<&'static str> = congestion::ALL.iter().map(|row| row.name).collect();
    let mut cases = Vec::new();
    for &controller in &names {
        for (_, egress) in EGRESS {
            for rtt in RTTS {
                let case = Case { controller, ..Case::new(rtt, egress, LARGE, 0) };
                cases.extend(seeds.iter().map(|&seed| Case { seed, ..case.clone() }));
            }
        }
    }
    let outcomes = context.each("controllers", &cases, |case| case.run(context))?;
    let points: Vec<(f64, f64)> = outcomes
        .chunks(seeds.len())
        .map(|runs| (mean(runs, Outcome::mean_jain), mean(runs, Outcome::aggregate)))
        .collect();
    heat(report, &names, &points);
    best(report, &names, &points);
    Ok(())
}

fn heat(report: &mut Report, names: &[&str], points: &[(f64, f64)]) {
    let columns: Vec<String> = ["own", "hayack", "fair"]
        .iter()
        .flat_map(|egress| RTTS.map(|(rtt, _)| format!("{egress} {rtt}")))
        .collect();
    let rows = || ("controller of B".to_owned(), names.iter().map(|&n| n.to_owned()).collect());
    let panel = |title: &str, scale, of: fn(&(f64, f64)) -> f64| {
        let values = points.chunks(columns.len()).map(|row| row.iter().map(|p| Some(of(p))));
        Panel::Heat(Heat {
            title: title.to_owned(),
            rows: rows(),
            columns: ("egress and RTT of Link1, ms".to_owned(), columns.clone()),
            values: values.map(Iterator::collect).collect(),
            scale,
        })
    };
    report.figures.push(Figure {
        id: "controllers".to_owned(),
        title: "Every controller under every egress policy".to_owned(),
        caption: "Beside TCP with Reno.".to_owned(),
        columns: 1,
        panels: vec![
            panel("Mean of Jain's index", (0.5, 1.0), |p| p.0),
            panel("Goodput of B, Mbit/s", (9.0, 19.0), |p| p.1),
        ],
    });
    let mut lines = points.chunks(columns.len()).zip(names);
    let fields = |(row, name): (&[(f64, f64)], &&str)| {
        let cells = row.iter().map(|(jain, rate)| format!("{jain:.3} / {rate:.1}"));
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    report.tables.push(Table {
        title: "Jain's index / goodput of B in Mbit/s".to_owned(),
        head: std::iter::once("controller".to_owned()).chain(columns.clone()).collect(),
        rows: lines.by_ref().map(fields).collect(),
        caption: "Columns: egress and RTT of Link1 in ms.".to_owned(),
    });
}

/// The fair combination with the best worst case: Jain at every RTT, and more than plain MPTCP
/// with Reno.
fn best(report: &mut Report, names: &[&str], points: &[(f64, f64)]) {
    let n = RTTS.len();
    let Some(reno) = names.iter().position(|name| *name == "reno") else { return };
    let plain = &points[reno * 3 * n..][..n];
    let mut best: Option<(f64, String, f64)> = None;
    for (at, name) in names.iter().enumerate() {
        for (e, egress) in [(1, "hayack"), (2, "hayack-fair")] {
            let row = &points[(at * 3 + e) * n..][..n];
            let jain = row.iter().map(|p| p.0).fold(1.0, f64::min);
            let gain = row.iter().zip(plain).map(|(p, q)| p.1 / q.1).fold(f64::MAX, f64::min);
            let better = best.as_ref().is_none_or(|(j, _, g)| {
                let score = |j: f64, g: f64| j.min(0.95) + (g - 1.0).min(0.0);
                score(jain, gain) > score(*j, *g)
            });
            if better {
                best = Some((jain, format!("{name} with {egress}"), gain));
            }
        }
    }
    let Some((jain, which, gain)) = best else { return };
    let verdict = Verdict::when(jain >= 0.95 && gain > 1.0, || {
        format!("the best is {which}: Jain's index {jain:.3} at worst, goodput {gain:.3} of plain")
    });
    let text = format!(
        "a fair mode: least mean Jain's index over the RTTs, while goodput is above plain MPTCP's \
         ({which}: {gain:.3} times at least)"
    );
    report.target("fair", &text, (0.95, jain, ""), verdict);
}
