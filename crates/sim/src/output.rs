//! What is made of a run, whoever asked for it: its name and policies, how closely it is watched,
//! and the files that say what came of it.
//!
//! It writes nothing; the command line puts the files into a folder, the Python package too.

use crate::result::{FlowResult, RunResult};
use crate::scenario::{FlowDirection, Host, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use tabane_engine::{Config, Duration};
use tabane_trace::report::{Figure, Subject};
use tabane_trace::{Report, RunInfo, Settings, csv, plot};

/// Scenario, seed, version, and the policies of the hosts that send the data.
pub fn info(scenario: &Scenario, params: &[(String, String)]) -> RunInfo {
    let mut senders: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for flow in &scenario.flow {
        let (from, to) = (flow.from.as_str(), flow.to.as_str());
        let sending = match flow.direction {
            FlowDirection::Download => &[to][..],
            FlowDirection::Upload => &[from],
            FlowDirection::Both => &[to, from],
        };
        for sender in sending {
            if known.insert(*sender) {
                senders.push(sender);
            }
        }
    }
    let hosts: BTreeMap<&str, &Host> = scenario.host.iter().collect();
    let configs: Vec<Config> = senders
        .iter()
        .map(|host| {
            let mut config = Config::default();
            scenario.defaults.apply(&mut config);
            if let Some(own) = hosts.get(host) {
                own.apply(&mut config);
            }
            config
        })
        .collect();
    let joined = |name: &dyn Fn(&Config) -> String| {
        let mut names: Vec<String> = configs.iter().map(name).collect();
        names.dedup();
        names.join("+")
    };
    RunInfo {
        scenario: point_name(&scenario.name, params),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scheduler: joined(&|c| c.mptcp.scheduler.to_string()),
        congestion: joined(&|c| c.tcp.congestion.to_string()),
        egress: joined(&|c| c.mptcp.egress.to_string()),
        axes: params.to_vec(),
    }
}

/// Series have up to 1000 points, however long the run, and fewer where there are many flows;
/// without files, only the totals are looked at.
pub fn settings(scenario: &Scenario, files: bool) -> Settings {
    let end = scenario.duration.0;
    let flows: u64 = scenario.flow.iter().map(|f| u64::from(f.count)).sum::<u64>().max(1);
    if !files {
        let interval = Duration((end.0 / 20).max(1_000_000));
        return Settings { interval, bins: 64, tracked: 0, records: false };
    }
    if let Some(asked) = &scenario.output.sample {
        return Settings { interval: asked.0, bins: 100_000, ..Settings::default() };
    }
    let bins = (16_000 / flows).clamp(100, 1_000);
    let interval = Duration((end.0 / (bins * 10)).clamp(1_000_000, 1_000_000_000));
    Settings { interval, bins: bins as usize, ..Settings::default() }
}

/// The files of a run, with their names, but for its result as a document.
///
/// # Errors
/// A plot that cannot be drawn.
pub fn files(
    scenario: &Scenario,
    info: &RunInfo,
    result: &RunResult,
    report: &Report,
) -> Result<Vec<(String, String)>, plot::run::DrawError> {
    let mut whole = report.clone();
    let mut figures = figures(result);
    figures.append(&mut whole.figures);
    whole.figures = figures;
    let rows = csv::summary_rows(info, &whole);
    let meta = serde_json::to_string_pretty(info).expect("invariant: strings have a JSON form");
    let mut files = vec![
        ("scenario.toml".to_owned(), scenario_file(scenario, info)),
        ("meta.json".to_owned(), meta + "\n"),
        ("summary.csv".to_owned(), format!("{}{rows}", csv::summary_header(&info.axes))),
        ("series.csv".to_owned(), csv::series(report)),
    ];
    let plots = plot::run::plots(info, report)?;
    files.extend(plots.into_iter().map(|(name, svg)| (format!("{name}.svg"), svg)));
    Ok(files)
}

/// The scenario as it was run: what `--set` changed is in it.
fn scenario_file(scenario: &Scenario, info: &RunInfo) -> String {
    format!("# {}\n{}", info.caption().replace('\n', " "), scenario.to_toml())
}

/// What the world itself measured, as rows of a summary.
pub fn figures(result: &RunResult) -> Vec<Figure> {
    let mut figures = Vec::new();
    for flow in &result.flows {
        let subject = Subject { flow: flow.name.clone(), ..Subject::default() };
        add_flow(&mut figures, &subject, flow);
        for (i, (subflow, share)) in flow.subflows.iter().zip(flow.shares()).enumerate() {
            let path = subflow.path.clone();
            let subject = Subject { subflow: Some(i), path, ..subject.clone() };
            add(&mut figures, &subject, "bytes", subflow.bytes as f64);
            add(&mut figures, &subject, "goodput_bps", subflow.goodput_bps);
            add(&mut figures, &subject, "share_ratio", share);
        }
    }
    figures
}

fn add_flow(figures: &mut Vec<Figure>, subject: &Subject, flow: &FlowResult) {
    add(figures, subject, "bytes", flow.bytes as f64);
    add(figures, subject, "goodput_bps", flow.goodput_bps);
    if let Some(at) = flow.completed_s {
        add(figures, subject, "completed_s", at);
    }
    if let Some(latency) = &flow.latency {
        add(figures, subject, "latency_count", latency.count as f64);
        add(figures, subject, "latency_mean_s", latency.mean_s);
        add(figures, subject, "latency_p50_s", latency.p50_s);
        add(figures, subject, "latency_p95_s", latency.p95_s);
        add(figures, subject, "latency_p99_s", latency.p99_s);
        add(figures, subject, "latency_max_s", latency.max_s);
    }
}

fn add(figures: &mut Vec<Figure>, subject: &Subject, metric: &str, value: f64) {
    figures.push(Figure { subject: subject.clone(), metric: metric.to_owned(), value });
}

/// A scenario's name with the values of its sweep axes.
fn point_name(name: &str, params: &[(String, String)]) -> String {
    if params.is_empty() {
        return name.to_owned();
    }
    let values: Vec<String> = params.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name} [{}]", values.join(", "))
}
