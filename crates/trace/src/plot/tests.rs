//! Plots of a made-up run: well-formed, complete, and the same each time.

use super::run::plots;
use crate::report::{Figure, Metric, Report, Series, Subject};
use crate::run::RunInfo;

fn subject(flow: &str, host: &str, subflow: Option<usize>, path: &str) -> Subject {
    Subject { flow: flow.into(), host: host.into(), subflow, path: path.into() }
}

fn wave(base: f64, swing: f64, phase: f64) -> Vec<(f64, f64)> {
    (1..=600)
        .map(|i| f64::from(i) / 10.0)
        .map(|t| (t, base + swing * ((t + phase) / 7.0).fract()))
        .collect()
}

/// A download over two paths, one of which is down for a while.
pub(super) fn bundle() -> Report {
    let mut report = Report { end: 60.0, interval: 0.1, ..Report::default() };
    let mut add = |subject: Subject, metric, points| {
        report.series.push(Series { subject, metric, points });
    };
    for (i, path, rate, rtt) in [(0, "wifi", 30e6, 0.02), (1, "lte", 12e6, 0.06)] {
        let down = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            let gone = |t: f64| i == 0 && (20.0..30.0).contains(&t);
            points.into_iter().map(|(t, v)| (t, if gone(t) { 0.0 } else { v })).collect()
        };
        let server = subject("download", "server", Some(i), path);
        let client = subject("download", "client", Some(i), path);
        add(client, Metric::Goodput, down(wave(rate * 0.9, rate * 0.08, 0.0)));
        add(server.clone(), Metric::Throughput, down(wave(rate, rate * 0.05, 0.0)));
        add(server.clone(), Metric::Cwnd, wave(rate * rtt / 8.0, rate * rtt / 8.0, i as f64));
        add(server.clone(), Metric::Ssthresh, wave(rate * rtt / 8.0, 0.0, 0.0));
        add(server.clone(), Metric::Srtt, wave(rtt, rtt, i as f64));
        add(server, Metric::InFlight, down(wave(rate * rtt / 8.0, rate * rtt / 10.0, 1.0)));
        let link = subject("", "router>client", None, path);
        add(link.clone(), Metric::LinkRate, wave(rate, 0.0, 0.0));
        add(link, Metric::Queue, wave(0.0, 90_000.0, i as f64));
    }
    let client = subject("download", "client", None, "");
    add(client, Metric::Goodput, wave(39e6, 2e6, 0.0));
    let sender = subject("download", "server", None, "");
    add(sender.clone(), Metric::SendWindow, wave(4e6, 0.0, 0.0));
    add(sender.clone(), Metric::Outstanding, wave(2e6, 1e6, 0.0));
    let metric = "written_bytes".to_owned();
    report.figures.push(Figure { subject: sender, metric, value: 2e8 });
    report.marks = vec![(20.0, "wifi down".into()), (30.0, "wifi up".into())];
    report
}

fn info() -> RunInfo {
    let scenario = "Tom & <Jerry>".to_owned();
    RunInfo { scenario, seed: 7, version: "0.1.0".into(), ..RunInfo::default() }
}

#[test]
fn a_run_gets_its_plots_and_they_say_what_of() {
    let plots = plots(&info(), &bundle()).unwrap();
    let names: Vec<&str> = plots.iter().map(|p| p.0).collect();
    assert_eq!(names, ["overview", "throughput", "cwnd", "rtt", "in_flight", "window", "links"]);
    for (name, svg) in &plots {
        assert!(svg.contains("<desc>Tom &amp; &lt;Jerry&gt; · seed 7 · tabane 0.1.0</desc>"));
        assert!(!svg.contains("Tom & "), "{name}: not escaped");
        assert!(svg.contains("wifi down"), "{name}: no mark");
        assert!(svg.contains("time (s)"), "{name}: no axis");
        assert!(!svg.contains("NaN"), "{name}: a point that is no number");
        let (open, close) = (svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert_eq!((open, close), (1, 1), "{name}");
    }
    if let Ok(dir) = std::env::var("TABANE_PLOTS") {
        std::fs::create_dir_all(&dir).unwrap();
        for (name, svg) in &plots {
            std::fs::write(format!("{dir}/{name}.svg"), svg).unwrap();
        }
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    assert_eq!(plots(&info(), &bundle()).unwrap(), plots(&info(), &bundle()).unwrap());
}

#[test]
fn a_run_without_series_gets_no_plot() {
    assert!(plots(&info(), &Report::default()).unwrap().is_empty());
}

#[test]
fn many_flows_are_cut_and_it_is_said() {
    let mut report = Report { end: 60.0, interval: 0.1, ..Report::default() };
    for i in 0..20 {
        let name = format!("flow{i:02}");
        for subflow in [None, Some(0)] {
            let subject = subject(&name, "client", subflow, "link");
            let points = wave(1e6, 2e5, f64::from(i));
            report.series.push(Series { subject, metric: Metric::Goodput, points });
        }
    }
    let plots = plots(&info(), &report).unwrap();
    let fairness = &plots.iter().find(|p| p.0 == "fairness").unwrap().1;
    assert!(fairness.contains("the first 7 flows"));
    assert!(fairness.contains("flow06") && !fairness.contains("flow07"));
}
