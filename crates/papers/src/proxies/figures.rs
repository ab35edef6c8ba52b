//! RTT and window of one direct Reno flow against time.

use super::throughput::{FILE, TEXT};
use super::{Case, LARGE, OKINAWA, TOKYO, claim};
use crate::PaperError;
use crate::context::Context;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Verdict};
use tabane_engine::time::Duration;
use tabane_trace::collect::Settings;
use tabane_trace::report::Metric;

/// The traces by RTT.
pub(super) struct Trace(Vec<(u32, tabane_trace::report::Report)>);

pub(super) fn trace(context: &Context<'_>) -> Result<Trace, PaperError> {
    let mut jobs = Vec::new();
    for (delay, _) in [TOKYO, OKINAWA] {
        let case = Case { buffer: LARGE, delay, between: None, seed: context.seed };
        jobs.push(case.job(FILE, TEXT, context.pick("30s", "60s"))?);
    }
    let settings = Settings { interval: Duration::from_millis(100), ..Settings::default() };
    let runs = context.watch("trace", &jobs, settings)?;
    let rtts = [TOKYO.1, OKINAWA.1];
    Ok(Trace(rtts.into_iter().zip(runs.into_iter().map(|run| run.1)).collect()))
}

impl Trace {
    fn points(&self, rtt: u32, metric: Metric, scale: f64) -> Vec<(f64, f64)> {
        let found = self.0.iter().find(|t| t.0 == rtt).and_then(|(_, report)| {
            report.of(metric, false).find(|series| series.subject.host == "sender")
        });
        found.map_or_else(Vec::new, |s| s.points.iter().map(|p| (p.0, p.1 * scale)).collect())
    }

    /// Packets that each overflow of the bottleneck's queue drops, slow start left out.
    fn overflows(&self, rtt: u32) -> Vec<f64> {
        // Drops further apart are of another overflow: the window takes seconds to grow back.
        const APART: f64 = 0.5;
        let mut drops: Vec<(f64, f64)> = Vec::new();
        let found = self.0.iter().find(|t| t.0 == rtt).map(|(_, report)| report);
        let links = found.into_iter().flat_map(|report| report.of(Metric::LinkLost, false));
        for link in links.filter(|series| series.subject.path == "internet") {
            for pair in link.points.windows(2).filter(|pair| pair[1].0 > 5.0) {
                let (at, more) = (pair[1].0, pair[1].1 - pair[0].1);
                match drops.last_mut() {
                    _ if more <= 0.0 => {}
                    Some((last, sum)) if (0.0..=APART).contains(&(at - *last)) => {
                        (*last, *sum) = (at, *sum + more);
                    }
                    _ => drops.push((at, more)),
                }
            }
        }
        drops.into_iter().map(|(_, sum)| sum).collect()
    }

    pub(super) fn tell(&self, report: &mut Report) {
        let rtts = self.points(TOKYO.1, Metric::Rtt, 1e3);
        let settled: Vec<f64> = rtts.iter().filter(|p| p.0 > 5.0).map(|p| p.1).collect();
        let low = settled.iter().copied().fold(f64::INFINITY, f64::min);
        let high = settled.iter().copied().fold(0.0, f64::max);
        let within = (17.5..19.5).contains(&low) && (28.0..31.5).contains(&high);
        let drops = self.overflows(TOKYO.1);
        let single = drops.iter().filter(|n| **n == 1.0).count();
        let most = drops.iter().copied().fold(0.0, f64::max);
        let seen = format!(
            "of {} overflows after slow start {single} drop one packet, and none more than {most}",
            drops.len()
        );
        let verdict = match (within, !drops.is_empty() && single == drops.len()) {
            (true, true) => Verdict::Reproduced,
            (true, false) => Verdict::Partly(format!("the RTTs; {seen}")),
            (false, _) => {
                Verdict::Not(format!("RTTs lie between {low:.1} and {high:.1} ms; {seen}"))
            }
        };
        let text = "18 ms: RTTs of a Reno flow rise from 18 to about 30 ms (largest seen), and an \
                    overflow of the queue drops one packet";
        claim(report, "queue", text, high, "ms", verdict);
        let panel = |title: String, label: &str, points: Vec<(f64, f64)>, hue| {
            let series = vec![Series { label: label.into(), hue, source: Source::Ours, points }];
            let (x, y) = (Axis::new("time, s"), Axis { low: Some(0.0), ..Axis::new(label) });
            Panel::Plot(Plot { title, x, y, kind: Kind::Lines, series })
        };
        let panels = self.0.iter().flat_map(|(rtt, _)| {
            let (delays, windows) = (
                self.points(*rtt, Metric::Rtt, 1e3),
                self.points(*rtt, Metric::Cwnd, 1.0 / 1024.0),
            );
            [
                panel(format!("{rtt} ms"), "RTT, ms", delays, 0),
                panel(format!("{rtt} ms"), "cwnd, KiB", windows, 1),
            ]
        });
        report.figures.push(Figure {
            id: "trace".into(),
            title: "RTT and window of one direct Reno flow".into(),
            caption: "Sockets of 512 KiB. The queue fills up to 12 ms; a loss halves the window."
                .into(),
            columns: 2,
            panels: panels.collect(),
        });
    }
}
