//! Comparisons as tables: rows for the terminal, Markdown for `docs/validation.md`, and whether
//! the targets are met.

use super::{Compared, Runner, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tabane_trace::estimate::{Estimate, median};

/// Explanations of differences, by scenario.
pub type Notes = BTreeMap<String, String>;

/// A heading, how a value reads, and where it stands.
pub(super) type Shown = (&'static str, fn(f64) -> String, Value);

/// What is compared.
pub(super) const VALUES: [Shown; 8] = [
    ("goodput", mbits, |o| Some(o.goodput_bps)),
    ("completed", seconds, |o| o.completed_s),
    ("sent again", percent, |o| Some(o.retransmitted_ratio)),
    ("srtt p50", millis, |o| o.srtt_p50_s),
    ("srtt p95", millis, |o| o.srtt_p95_s),
    ("latency p50", millis, |o| o.latency_p50_s),
    ("latency p95", millis, |o| o.latency_p95_s),
    ("Jain", number, |o| o.jain),
];

/// Rows of a table of one scenario: a heading, then each stack with how far it is from the
/// simulator. The first row is the head.
pub fn rows(compared: &Compared) -> Vec<Vec<String>> {
    let mut head = vec![String::new()];
    for runner in compared.runs.keys() {
        head.push(runner.as_str().to_owned());
        if *runner != Runner::Sim && compared.runs.contains_key(&Runner::Sim) {
            head.push("against sim".to_owned());
        }
    }
    let mut rows = vec![head];
    for (name, words, value) in VALUES {
        let known = compared.runs.keys().any(|r| compared.estimate(*r, value).is_some());
        if known {
            rows.push(row(compared, name, words, value));
        }
    }
    for path in paths(compared) {
        let mut row = vec![format!("share of {path}")];
        for (runner, runs) in &compared.runs {
            let all: f64 = runs.iter().filter_map(|run| run.shares.get(&path)).sum();
            row.push(percent(all / runs.len().max(1) as f64));
            if *runner != Runner::Sim && compared.runs.contains_key(&Runner::Sim) {
                row.push(String::new());
            }
        }
        rows.push(row);
    }
    rows
}

fn row(compared: &Compared, name: &str, words: fn(f64) -> String, value: Value) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    for runner in compared.runs.keys() {
        let own = compared.estimate(*runner, value);
        row.push(own.map_or_else(|| "none".to_owned(), |e| spread(e, words)));
        if *runner != Runner::Sim && compared.runs.contains_key(&Runner::Sim) {
            row.push(difference(compared.difference(*runner, value)));
        }
    }
    row
}

/// Paths, where there are several.
fn paths(compared: &Compared) -> Vec<String> {
    let shares = compared.runs.values().flatten().flat_map(|run| run.shares.keys());
    let names: std::collections::BTreeSet<&String> = shares.collect();
    if names.len() < 2 { Vec::new() } else { names.into_iter().cloned().collect() }
}

pub(super) fn spread(estimate: Estimate, words: fn(f64) -> String) -> String {
    if estimate.half_width == 0.0 {
        return words(estimate.mean);
    }
    format!("{} ± {}", words(estimate.mean), words(estimate.half_width))
}

fn difference(estimate: Option<Estimate>) -> String {
    let Some(Estimate { mean, half_width }) = estimate else { return String::new() };
    match half_width {
        0.0 => format!("{:+.1} %", mean * 100.0),
        half => format!("{:+.1} % ± {:.1}", mean * 100.0, half * 100.0),
    }
}

pub(super) fn mbits(bps: f64) -> String {
    format!("{:.2} Mbit/s", bps / 1e6)
}
fn seconds(s: f64) -> String {
    format!("{s:.2} s")
}
pub(super) fn millis(s: f64) -> String {
    format!("{:.1} ms", s * 1e3)
}
fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
pub(super) fn number(x: f64) -> String {
    format!("{x:.3}")
}

/// Whether a target is met.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// What is compared.
    pub what: &'static str,
    /// Scenarios compared.
    pub scenarios: usize,
    /// Median of the absolute differences of goodput, and what it may be at most.
    pub median: (f64, f64),
    /// The largest, what it may be at most, and where it is.
    pub worst: (f64, f64, String),
}

impl Verdict {
    /// Whether both are.
    pub fn is_met(&self) -> bool {
        self.median.0 <= self.median.1 && self.worst.0 <= self.worst.1
    }
}

/// A target: what is compared, with whom, where, and what median and worst may be at most.
struct Target {
    what: &'static str,
    runner: Runner,
    /// Scenarios with several paths, those with one, or both.
    multipath: Option<bool>,
    /// Only scenarios whose links lose packets by themselves.
    lossy: bool,
    median: f64,
    worst: f64,
}

/// By goodput.
const TARGETS: [Target; 4] = [
    Target {
        what: "our stack, all scenarios",
        runner: Runner::Tabane,
        multipath: None,
        lossy: false,
        median: 0.03,
        worst: 0.10,
    },
    Target {
        what: "the kernel, one path",
        runner: Runner::Kernel,
        multipath: Some(false),
        lossy: false,
        median: 0.10,
        worst: 0.25,
    },
    Target {
        what: "the kernel, links that lose",
        runner: Runner::Kernel,
        multipath: None,
        lossy: true,
        median: 0.10,
        worst: 0.10,
    },
    Target {
        what: "the kernel, two paths (no target)",
        runner: Runner::Kernel,
        multipath: Some(true),
        lossy: false,
        median: f64::INFINITY,
        worst: f64::INFINITY,
    },
];

/// The targets of the matrix.
pub fn verdicts(all: &[Compared]) -> Vec<Verdict> {
    TARGETS.iter().filter_map(|target| verdict(all, target)).collect()
}

/// `None` if there is nothing to judge.
fn verdict(all: &[Compared], target: &Target) -> Option<Verdict> {
    let mut off: Vec<(f64, String)> = Vec::new();
    for compared in all {
        let paths = target.multipath.is_none_or(|multipath| multipath == compared.multipath);
        if paths && (compared.lossy || !target.lossy) {
            let difference = compared.difference(target.runner, |o| Some(o.goodput_bps));
            off.extend(difference.map(|d| (d.mean.abs(), compared.scenario.clone())));
        }
    }
    let values: Vec<f64> = off.iter().map(|(d, _)| *d).collect();
    let (worst, place) = off.iter().max_by(|a, b| a.0.total_cmp(&b.0)).cloned()?;
    Some(Verdict {
        what: target.what,
        scenarios: off.len(),
        median: (median(&values)?, target.median),
        worst: (worst, target.worst, place),
    })
}

/// The page of a whole matrix.
pub fn markdown(all: &[Compared], notes: &Notes, machine: &str) -> String {
    let mut out = String::from(HEAD);
    let runs = || all.iter().flat_map(|c| c.runs.values().map(Vec::len));
    let runs = match (runs().min().unwrap_or(0), runs().max().unwrap_or(0)) {
        (least, most) if least < most => format!("{least} to {most}"),
        (_, most) => most.to_string(),
    };
    let _ = writeln!(out, "\n{machine} {} scenarios, {runs} runs of each stack.\n", all.len());
    out += "## Targets\n\n| simulator against | scenarios | median | worst | met |\n\
            |---|---|---|---|---|\n";
    for verdict in verdicts(all) {
        let (median, median_max) = verdict.median;
        let (worst, worst_max, place) = &verdict.worst;
        let bound = |max: f64| match max.is_finite() {
            true => format!(" (at most {:.0} %)", max * 100.0),
            false => String::new(),
        };
        let met = match (median_max.is_finite(), verdict.is_met()) {
            (false, _) => "",
            (_, true) => "yes",
            (_, false) => "no",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {:.1} %{} | {:.1} %{}, `{place}` | {met} |",
            verdict.what,
            verdict.scenarios,
            median * 100.0,
            bound(median_max),
            worst * 100.0,
            bound(*worst_max),
        );
    }
    out += "\n## Goodput\n\n\
            | scenario | sim | tabane | | kernel | | late p99 |\n|---|---|---|---|---|---|---|\n";
    all.iter().for_each(|compared| goodput_row(&mut out, compared));
    out += "\n## Repeats, round trips, shares\n\n\
            Of sim / tabane / kernel.\n\n\
            | scenario | sent again | srtt p50 | srtt p95 | share of the first path |\n\
            |---|---|---|---|---|\n";
    all.iter().for_each(|compared| other_row(&mut out, compared));
    out += "\n## Where they differ\n\n";
    for compared in all {
        if let Some(note) = notes.get(&compared.scenario) {
            let _ = writeln!(out, "- `{}`: {}", compared.scenario, note.trim());
        }
    }
    out
}

fn goodput_row(out: &mut String, compared: &Compared) {
    let value: Value = |o| Some(o.goodput_bps);
    let cell = |runner| {
        let estimate = compared.estimate(runner, value);
        let poor = if compared.poor(runner).is_some() { " (poor accuracy)" } else { "" };
        estimate.map_or_else(|| "none".into(), |e| format!("{:.2}{poor}", e.mean / 1e6))
    };
    let late = |runner| {
        let runs = compared.runs.get(&runner).into_iter().flatten();
        runs.filter_map(|run| run.lateness_p99_us).max().unwrap_or(0)
    };
    let _ = writeln!(
        out,
        "| `{}` | {} | {} | {} | {} | {} | {}, {} us |",
        compared.scenario,
        cell(Runner::Sim),
        cell(Runner::Tabane),
        difference(compared.difference(Runner::Tabane, value)),
        cell(Runner::Kernel),
        difference(compared.difference(Runner::Kernel, value)),
        late(Runner::Tabane),
        late(Runner::Kernel),
    );
}

fn other_row(out: &mut String, compared: &Compared) {
    let three = |words: fn(f64) -> String, value: Value| {
        let one = |runner: &Runner| {
            compared.estimate(*runner, value).map_or_else(|| "none".into(), |e| words(e.mean))
        };
        compared.runs.keys().map(one).collect::<Vec<String>>().join(" / ")
    };
    let first = paths(compared).into_iter().next_back();
    let share = first.map_or_else(String::new, |path| {
        let one = |runs: &Vec<super::Outcome>| {
            let all: f64 = runs.iter().filter_map(|run| run.shares.get(&path)).sum();
            format!("{:.0} %", all / runs.len().max(1) as f64 * 100.0)
        };
        let shares: Vec<String> = compared.runs.values().map(one).collect();
        format!("{path}: {}", shares.join(" / "))
    });
    let _ = writeln!(
        out,
        "| `{}` | {} | {} | {} | {share} |",
        compared.scenario,
        three(percent, |o| Some(o.retransmitted_ratio)),
        three(millis, |o| o.srtt_p50_s),
        three(millis, |o| o.srtt_p95_s),
    );
}

const HEAD: &str = "\
# Validation

Each scenario of `scenarios/validation/` in simulated time, on our stack and on the Linux kernel's
over emulated links in real time. The page is generated, as root, by

```
tabane compare --matrix scenarios/validation --results DIR --markdown docs/validation.md
```

Goodput is payload in Mbit/s, a difference is against the simulator, ± half of its 95 % confidence
interval. *Late p99*: 99 % of the packets left their link no later than that after their time (our
stack, the kernel). How each is measured: [lab.md](lab.md).
";
