//! Which plots a run gets, and which lines are in them.
//!
//! Lines are coloured by path when there are several, else by flow; with both, flows differ by
//! stroke. A plot shows at most [`FLOWS`] flows and says so when there are more.

use super::style::{Colour, INK, Unit, colour};
use super::{Line, Panel, Plot, Stroke, render};
use crate::report::{Metric, Report, Series};
use crate::run::RunInfo;
use std::collections::BTreeMap;

pub use super::draw::DrawError;

/// Flows drawn at most.
pub const FLOWS: usize = 7;

/// Points of a rate over the time axis; with more, the eye sees bursts of single round trips.
const RATE_POINTS: f64 = 250.0;

/// Every plot that has something to show: file name without extension, SVG.
///
/// # Errors
/// [`DrawError`], which drawing to memory should not give.
pub fn plots(info: &RunInfo, report: &Report) -> Result<Vec<(&'static str, String)>, DrawError> {
    let scene = Scene::new(info, report);
    [
        ("overview", scene.overview()),
        ("throughput", scene.throughput()),
        ("cwnd", scene.single("Congestion window", scene.cwnd())),
        ("rtt", scene.single("Round-trip time", scene.rtt())),
        ("in_flight", scene.single("Bytes in flight", scene.in_flight())),
        ("window", scene.windows()),
        ("links", scene.links()),
        ("fairness", scene.fairness()),
    ]
    .into_iter()
    .filter(|(_, plot)| !plot.is_empty())
    .map(|(name, plot)| Ok((name, render(&plot)?)))
    .collect()
}

/// What the lines of a run's plots have in common.
struct Scene<'a> {
    report: &'a Report,
    caption: String,
    flows: Vec<String>,
    paths: Vec<String>,
    senders: BTreeMap<String, String>,
}

impl<'a> Scene<'a> {
    fn new(info: &RunInfo, report: &'a Report) -> Self {
        let subjects = || report.series.iter().map(|s| &s.subject).filter(|s| !s.flow.is_empty());
        let mut flows: Vec<String> = Vec::new();
        for subject in subjects() {
            if !flows.contains(&subject.flow) && flows.len() <= FLOWS {
                flows.push(subject.flow.clone());
            }
        }
        let more = flows.len() > FLOWS;
        flows.truncate(FLOWS);
        let mut paths: Vec<String> = Vec::new();
        for subject in subjects().filter(|s| s.subflow.is_some() && flows.contains(&s.flow)) {
            if !paths.contains(&subject.path) {
                paths.push(subject.path.clone());
            }
        }
        let mut caption = info.caption();
        if more {
            caption += &format!(" · the first {FLOWS} flows");
        }
        Self { report, caption, flows, paths, senders: senders(report) }
    }

    fn plot(&self, title: &str, panels: Vec<Panel>) -> Plot {
        Plot {
            title: title.to_owned(),
            caption: self.caption.clone(),
            panels,
            marks: self.report.marks.clone(),
            end: self.report.end.max(1e-6),
        }
    }

    fn single(&self, title: &str, panel: Panel) -> Plot {
        self.plot(title, vec![panel])
    }

    fn overview(&self) -> Plot {
        let panels = vec![self.goodput(), self.cwnd(), self.rtt(), self.in_flight()];
        let panels = panels.into_iter().filter(|p| !p.lines.is_empty()).collect();
        self.plot("Goodput, window, RTT and bytes in flight", panels)
    }

    fn throughput(&self) -> Plot {
        let sent = self.subflow_lines(Metric::Throughput, Stroke::Solid);
        let panels = vec![self.goodput(), panel("sent, repeats included", Unit::BitRate, sent)];
        self.plot("Throughput", panels.into_iter().filter(|p| !p.lines.is_empty()).collect())
    }

    /// Per path, and their sum behind them. Not the connection's own goodput: that stalls while
    /// a gap is open and jumps when it closes, which would set the scale of the axis.
    fn goodput(&self) -> Panel {
        let parts = self.subflow_lines(Metric::Goodput, Stroke::Solid);
        let mut lines = Vec::new();
        if self.flows.len() == 1 && parts.len() > 1 {
            let label = "all paths".to_owned();
            let points = sum(parts.iter().map(|line| line.points.as_slice()));
            lines.push(Line { label, colour: INK, stroke: Stroke::Filled, points });
        }
        lines.extend(parts);
        panel("goodput", Unit::BitRate, lines)
    }

    fn cwnd(&self) -> Panel {
        let mut lines = self.subflow_lines(Metric::Cwnd, Stroke::Solid);
        if self.flows.len() == 1 {
            let thresholds = self.subflow_lines(Metric::Ssthresh, Stroke::Dotted);
            lines.extend(thresholds.into_iter().map(|mut l| {
                l.label += " ssthresh";
                l
            }));
        }
        panel("cwnd", Unit::Bytes, lines)
    }

    fn rtt(&self) -> Panel {
        panel("smoothed RTT", Unit::Seconds, self.subflow_lines(Metric::Srtt, Stroke::Solid))
    }

    fn in_flight(&self) -> Panel {
        panel("in flight", Unit::Bytes, self.subflow_lines(Metric::InFlight, Stroke::Solid))
    }

    /// Connection level: what the peer allows, what is out, what the receiver holds.
    fn windows(&self) -> Plot {
        let shown = [
            (Metric::SendWindow, "send window", 0),
            (Metric::Outstanding, "outstanding", 1),
            (Metric::ReceiveBuffer, "receive buffer", 2),
            (Metric::ReceiveWindow, "receive window", 3),
            (Metric::OutOfOrder, "out of order", 5),
        ];
        let mut lines = Vec::new();
        let Some(flow) = self.flows.first() else { return self.plot("", Vec::new()) };
        for (metric, label, hue) in shown {
            let found = self.report.of(metric, true).find(|s| s.subject.flow == *flow);
            lines.extend(found.map(|s| line(label, colour(hue), Stroke::Solid, s)));
        }
        let title = match self.flows.len() {
            1 => "Windows of the connection".to_owned(),
            _ => format!("Windows of connection '{flow}'"),
        };
        self.single(&title, panel("data level", Unit::Bytes, lines))
    }

    /// Links that carried most; one colour a link, the busier direction solid.
    fn links(&self) -> Plot {
        let mut busy: Vec<(&Series, f64)> = self
            .report
            .of(Metric::LinkRate, false)
            .map(|s| (s, s.points.iter().map(|p| p.1).sum()))
            .filter(|(_, sum)| *sum > 0.0)
            .collect();
        busy.sort_by(|a, b| b.1.total_cmp(&a.1));
        busy.truncate(FLOWS);
        let mut names: Vec<&str> = Vec::new();
        let (mut rates, mut queues) = (Vec::new(), Vec::new());
        for (series, _) in busy {
            let name = series.subject.path.as_str();
            let first = !names.contains(&name);
            if first {
                names.push(name);
            }
            let hue = self.paths.iter().position(|p| p == name).unwrap_or_else(|| {
                let position = names.iter().position(|n| *n == name).unwrap_or(0);
                self.paths.len() + position
            });
            let stroke = if first { Stroke::Solid } else { Stroke::Dashed };
            let label = format!("{name} {}", series.subject.host);
            rates.push(line(&label, colour(hue), stroke, series));
            let queue = self.report.of(Metric::Queue, false);
            let queue = queue.into_iter().find(|s| s.subject == series.subject);
            queues.extend(queue.map(|s| line(&label, colour(hue), stroke, s)));
        }
        if rates.is_empty() {
            return self.plot("", Vec::new());
        }
        let rates = panel("delivered", Unit::BitRate, rates);
        self.plot("Links", vec![rates, panel("queue", Unit::Bytes, queues)])
    }

    /// Goodput of each flow and Jain's index of all.
    fn fairness(&self) -> Plot {
        let windows = self.report.fairness(1.0, 0.0);
        if windows.is_empty() {
            return self.plot("", Vec::new());
        }
        let flows = self.flows.iter().enumerate().map(|(i, flow)| Line {
            label: flow.clone(),
            colour: colour(i),
            stroke: Stroke::Solid,
            points: self.flow_goodput(flow),
        });
        let goodput = panel("goodput", Unit::BitRate, flows.collect());
        let label = "Jain's index (1 s)".to_owned();
        let jain = Line { label, colour: INK, stroke: Stroke::Solid, points: windows };
        let jain = Panel { top: Some(1.05), ..panel("Jain's index", Unit::Index, vec![jain]) };
        self.plot("Fairness among flows", vec![goodput, jain])
    }

    /// One line a subflow of the shown flows, at the end that sends the data (or receives it,
    /// for what only the receiver sees).
    fn subflow_lines(&self, metric: Metric, stroke: Stroke) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for series in self.report.of(metric, false) {
            let subject = &series.subject;
            let Some(flow) = self.flows.iter().position(|f| *f == subject.flow) else { continue };
            let at_sender = self.senders.get(&subject.flow) == Some(&subject.host);
            if at_sender == (metric == Metric::Goodput) {
                continue;
            }
            let path = self.paths.iter().position(|p| *p == subject.path).unwrap_or(0);
            let (hue, stroke) = match (self.paths.len(), self.flows.len()) {
                (0 | 1, _) => (flow, stroke),
                (_, 1) => (path, stroke),
                _ => (path, [Stroke::Solid, Stroke::Dashed, Stroke::Dotted][flow % 3]),
            };
            let label = self.label(series, &lines);
            let mut line = line(&label, colour(hue), stroke, series);
            if matches!(metric, Metric::Goodput | Metric::Throughput) {
                line.points = thinned(&line.points, self.report.end / RATE_POINTS);
            }
            lines.push(line);
        }
        lines
    }

    /// Goodput of a flow: what its subflows deliver, added up.
    fn flow_goodput(&self, flow: &str) -> Vec<(f64, f64)> {
        let parts = self.report.of(Metric::Goodput, false).filter(|s| s.subject.flow == flow);
        let at_receiver = parts.filter(|s| self.senders.get(flow) != Some(&s.subject.host));
        let points = sum(at_receiver.map(|s| s.points.as_slice()));
        thinned(&points, self.report.end / RATE_POINTS)
    }

    fn label(&self, series: &Series, before: &[Line]) -> String {
        let subject = &series.subject;
        let label = match (self.flows.len(), self.paths.len()) {
            (1, _) => subject.path.clone(),
            (_, 0 | 1) => subject.flow.clone(),
            _ => format!("{} · {}", subject.flow, subject.path),
        };
        if before.iter().any(|l| l.label == label) {
            return format!("{label} #{}", subject.subflow.unwrap_or(0));
        }
        label
    }
}

fn panel(label: &str, unit: Unit, lines: Vec<Line>) -> Panel {
    Panel { label: label.to_owned(), unit, lines, top: None }
}

fn line(label: &str, colour: Colour, stroke: Stroke, series: &Series) -> Line {
    Line { label: label.to_owned(), colour, stroke, points: series.points.clone() }
}

/// Series added up, at the times of any.
fn sum<'a>(series: impl Iterator<Item = &'a [(f64, f64)]>) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for &(t, value) in series.flatten() {
        *sums.entry((t * 1e9).round() as u64).or_default() += value;
    }
    sums.into_iter().map(|(t, value)| (t as f64 / 1e9, value)).collect()
}

/// A rate with points at least `step` seconds apart: means over the points in between, so that
/// the area under it stays.
pub(crate) fn thinned(points: &[(f64, f64)], step: f64) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    let (mut from, mut area, mut before) = (0.0, 0.0, 0.0);
    for (i, &(t, rate)) in points.iter().enumerate() {
        area += rate * (t - before);
        before = t;
        if t - from >= step * 0.999 || i + 1 == points.len() {
            if t > from {
                out.push((t, area / (t - from)));
            }
            (from, area) = (t, 0.0);
        }
    }
    out
}

/// The host that sends most of a flow.
fn senders(report: &Report) -> BTreeMap<String, String> {
    let mut most: BTreeMap<String, (f64, String)> = BTreeMap::new();
    for figure in report.figures.iter().filter(|f| f.metric == "written_bytes") {
        let entry = most.entry(figure.subject.flow.clone()).or_default();
        if figure.value > entry.0 {
            *entry = (figure.value, figure.subject.host.clone());
        }
    }
    most.into_iter().map(|(flow, (_, host))| (flow, host)).collect()
}
