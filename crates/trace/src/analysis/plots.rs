//! Plots of an analysis: throughput, RTT, bytes in flight and windows, error packets, fairness.
//!
//! The connections that carry most get lines, in the direction in which they carry it.

use super::files::{Metric, Series};
use super::labels::Label;
use super::report::Analysis;
use crate::plot::run::{DrawError, thinned};
use crate::plot::style::{INK, Unit, colour};
use crate::plot::{Line, Panel, Plot, Stroke, render};

/// Connections with lines.
const CONNECTIONS: usize = 7;
/// Subflows of a connection with lines.
const SUBFLOWS: usize = 8;
/// Points of a rate.
const RATE_POINTS: f64 = 250.0;

/// Plots by file name, without the ending; what there is nothing to show of is left out.
///
/// # Errors
/// [`DrawError`], which drawing to memory should not give.
pub fn plots(analysis: &Analysis, source: &str) -> Result<Vec<(&'static str, String)>, DrawError> {
    let view = View::new(analysis, source);
    let found = [
        ("throughput", view.throughput()),
        ("rtt", view.by_subflow("RTT, from data to its ACK", "RTT", Unit::Seconds, Metric::Rtt)),
        ("in_flight", view.in_flight()),
        ("errors", view.errors()),
        ("fairness", view.fairness()),
    ];
    let shown = found.into_iter().filter_map(|(name, plot)| Some((name, plot?)));
    shown.map(|(name, plot)| Ok((name, render(&plot)?))).collect()
}

struct View<'a> {
    analysis: &'a Analysis,
    source: &'a str,
    /// Indices of the connections shown.
    shown: Vec<usize>,
}

impl<'a> View<'a> {
    fn new(analysis: &'a Analysis, source: &'a str) -> Self {
        let mut shown: Vec<usize> = (0..analysis.connections.len()).collect();
        shown.sort_by_key(|i| std::cmp::Reverse(analysis.connections[*i].new_bytes()));
        shown.retain(|i| analysis.connections[*i].new_bytes() > 0);
        shown.truncate(CONNECTIONS);
        Self { analysis, source, shown }
    }

    fn throughput(&self) -> Option<Plot> {
        let whole = self.goodputs();
        let mut panels = vec![panel("goodput", Unit::BitRate, whole)];
        if self.several() {
            let parts = self.lines(Metric::Throughput, Stroke::Solid);
            panels.push(panel("sent by subflow", Unit::BitRate, parts));
        }
        self.plot("Goodput of each connection", panels)
    }

    /// Whether a connection has several subflows with data.
    fn several(&self) -> bool {
        let parts = |i: &usize| self.of(*i, Metric::Throughput).count();
        self.shown.iter().any(|i| parts(i) > 1)
    }

    fn by_subflow(&self, title: &str, label: &str, unit: Unit, metric: Metric) -> Option<Plot> {
        self.plot(title, vec![panel(label, unit, self.lines(metric, Stroke::Solid))])
    }

    fn in_flight(&self) -> Option<Plot> {
        let sent = panel("in flight", Unit::Bytes, self.lines(Metric::InFlight, Stroke::Solid));
        let windows = panel("window", Unit::Bytes, self.lines(Metric::Window, Stroke::Solid));
        self.plot("Bytes in flight, and the receiver's window", vec![sent, windows])
    }

    fn errors(&self) -> Option<Plot> {
        let panels = Label::ERRORS.into_iter().map(|label| {
            let lines = self.shown.iter().enumerate().map(|(hue, &i)| Line {
                label: self.name(i),
                colour: colour(hue),
                stroke: Stroke::Solid,
                points: self.counted(i, label),
            });
            let words = label.name().replace('_', " ");
            panel(&words, Unit::Packets, lines.collect())
        });
        self.plot("Error packets so far, as Wireshark names them", panels.collect())
    }

    /// Packets of a connection with a label so far, both directions and all subflows together.
    fn counted(&self, connection: usize, label: Label) -> Vec<(f64, f64)> {
        let all = self.analysis.series.iter();
        let of = all.filter(|s| s.connection == connection && s.metric == Metric::Errors(label));
        let mut steps = Vec::new();
        for series in of {
            let mut before = 0.0;
            for &(t, n) in &series.points {
                steps.push((t, n - before));
                before = n;
            }
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let count = steps.into_iter().map(|(t, n)| {
            sum += n;
            (t, sum)
        });
        count.collect()
    }

    fn fairness(&self) -> Option<Plot> {
        let fairness = self.analysis.fairness.as_ref()?;
        let points = fairness.points.clone();
        let label = format!("Jain's index ({:.3} s)", fairness.window_s);
        let line = Line { label, colour: INK, stroke: Stroke::Solid, points };
        let jain = Panel { top: Some(1.05), ..panel("Jain's index", Unit::Index, vec![line]) };
        let goodput = panel("goodput", Unit::BitRate, self.goodputs());
        self.plot("Fairness among connections", vec![goodput, jain])
    }

    /// Goodput of each connection in its main direction: at data level where there is one.
    fn goodputs(&self) -> Vec<Line> {
        let lines = self.shown.iter().enumerate().filter_map(|(hue, &i)| {
            let of = |whole: bool| {
                self.of(i, Metric::Goodput).find(move |s| s.subflow.is_none() == whole)
            };
            let series = of(true).or_else(|| of(false))?;
            let points = thinned(&series.points, self.analysis.duration_s / RATE_POINTS);
            Some(Line { label: self.name(i), colour: colour(hue), stroke: Stroke::Solid, points })
        });
        lines.collect()
    }

    /// Series of a connection in its main direction.
    fn of(&self, connection: usize, metric: Metric) -> impl Iterator<Item = &'a Series> {
        let forward = self.analysis.connections[connection].main().1;
        self.analysis.series.iter().filter(move |s| {
            s.connection == connection && s.metric == metric && s.forward == forward
        })
    }

    /// One line a subflow; of one connection, each in its own colour.
    fn lines(&self, metric: Metric, stroke: Stroke) -> Vec<Line> {
        let mut lines = Vec::new();
        for (hue, &i) in self.shown.iter().enumerate() {
            let parts = self.of(i, metric).filter(|s| s.subflow.is_some());
            for (n, series) in parts.take(SUBFLOWS).enumerate() {
                let (label, hue, stroke) = match (self.shown.len(), n) {
                    (1, _) => (self.subflow(i, series), n, stroke),
                    (_, 0) => (self.name(i), hue, stroke),
                    (_, n) => {
                        let strokes = [stroke, Stroke::Dashed, Stroke::Dotted];
                        (format!("{} #{n}", self.name(i)), hue, strokes[n % 3])
                    }
                };
                let rate = matches!(metric, Metric::Throughput | Metric::Goodput);
                let step = self.analysis.duration_s / RATE_POINTS;
                let points =
                    if rate { thinned(&series.points, step) } else { series.points.clone() };
                lines.push(Line { label, colour: colour(hue), stroke, points });
            }
        }
        lines
    }

    fn name(&self, connection: usize) -> String {
        let of = &self.analysis.connections[connection];
        format!("{connection}: {} {}", of.kind, of.client)
    }

    fn subflow(&self, connection: usize, series: &Series) -> String {
        let subflows = &self.analysis.connections[connection].subflows;
        let number = series.subflow.unwrap_or(0);
        let ends = subflows.get(number).map_or("", |s| s.client.as_str());
        format!("#{number} {ends}")
    }

    fn plot(&self, title: &str, mut panels: Vec<Panel>) -> Option<Plot> {
        for panel in &mut panels {
            panel.lines.retain(|line| !line.points.is_empty());
        }
        panels.retain(|panel| !panel.lines.is_empty());
        (!panels.is_empty()).then(|| Plot {
            title: title.to_owned(),
            caption: self.source.to_owned(),
            panels,
            marks: Vec::new(),
            end: self.analysis.duration_s.max(1e-3),
        })
    }
}

fn panel(label: &str, unit: Unit, lines: Vec<Line>) -> Panel {
    Panel { label: label.to_owned(), unit, lines, top: None }
}
