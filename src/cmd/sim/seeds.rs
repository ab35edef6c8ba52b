//! Points of a sweep that differ only in their seed, taken together: mean and 95 % interval
//! (Student's t) of each figure, as CSV, as a table, and as one plot a metric.

use super::files::Folder;
use super::kept::Done;
use super::table;
use crate::exit::Failure;
use crate::units::rate;
use anyhow::anyhow;
use comfy_table::{Cell, Table};
use std::fmt::Write as _;
use tabane_sim::output::{self, info};
use tabane_sim::scenario::Variant;
use tabane_trace::RunInfo;
use tabane_trace::csv::{self, quoted};
use tabane_trace::estimate::{Estimate, estimate};
use tabane_trace::plot::intervals::{Intervals, render};
use tabane_trace::plot::style::Unit;
use tabane_trace::report::{Figure, Subject};

/// The axis that is taken together.
pub(super) const SEED: &str = "seed";

/// The values of the other axes.
pub(super) fn others(variant: &Variant) -> impl Iterator<Item = &(String, String)> {
    variant.params.iter().filter(|(key, _)| key != SEED)
}

/// Runs that differ in their seed alone.
pub(super) struct Group {
    info: RunInfo,
    /// Values of the other axes.
    axes: Vec<(String, String)>,
    figures: Vec<Estimated>,
    runs: usize,
}

struct Estimated {
    subject: Subject,
    metric: String,
    values: Vec<f64>,
}

/// All figures of a run: what the world measured, then what was seen of it.
pub(super) fn figures(done: &Done) -> Vec<Figure> {
    let mut figures = output::figures(&done.result);
    figures.extend(done.figures.iter().cloned());
    figures
}

/// The groups of a sweep, in its order.
pub(super) fn groups<'a>(runs: impl Iterator<Item = (&'a Variant, &'a Done)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (variant, done) in runs {
        let axes: Vec<_> = others(variant).cloned().collect();
        let known = groups.iter().position(|group| group.axes == axes);
        let group = known.unwrap_or_else(|| {
            let info = info(&variant.plan.scenario, &axes);
            groups.push(Group { info, axes, figures: Vec::new(), runs: 0 });
            groups.len() - 1
        });
        groups[group].add(figures(done));
    }
    groups
}

impl Group {
    fn add(&mut self, figures: Vec<Figure>) {
        self.runs += 1;
        // Figures of every run come in the same order, unless one has some that others lack.
        let mut from = 0;
        for Figure { subject, metric, value } in figures {
            if !value.is_finite() {
                continue;
            }
            let is_it = |e: &Estimated| e.metric == metric && e.subject == subject;
            let found = self.figures[from..].iter().position(is_it).map(|n| from + n);
            match found.or_else(|| self.figures[..from].iter().position(is_it)) {
                Some(n) => {
                    self.figures[n].values.push(value);
                    from = n + 1;
                }
                None => self.figures.push(Estimated { subject, metric, values: vec![value] }),
            }
        }
    }

    /// Of the flow's own figures, not of its subflows.
    fn of_flow(&self, flow: &str, metric: &str) -> Option<(Estimate, usize)> {
        let found = self.figures.iter().find(|e| e.is_whole() && e.is(flow, metric))?;
        Some((estimate(&found.values)?, found.values.len()))
    }
}

impl Estimated {
    /// Of a whole flow, as the world measured it.
    fn is_whole(&self) -> bool {
        let Subject { host, subflow, path, .. } = &self.subject;
        host.is_empty() && subflow.is_none() && path.is_empty()
    }

    fn is(&self, flow: &str, metric: &str) -> bool {
        self.subject.flow == flow && self.metric == metric
    }
}

/// Whether any point was run with more than one seed.
pub(super) fn are_several(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.runs > 1)
}

/// `estimates.csv` and one plot a metric.
pub(super) fn write(folder: &mut Folder, groups: &[Group]) -> Result<(), Failure> {
    folder.write("estimates.csv", &estimates(groups))?;
    for metric in metrics(groups) {
        let svg = render(&plot(groups, &metric)).map_err(|e| anyhow!(e))?;
        folder.write(&format!("{metric}.svg"), &svg)?;
    }
    Ok(())
}

fn estimates(groups: &[Group]) -> String {
    let axes = groups.first().map_or(&[][..], |group| &group.axes);
    let mut out = String::from("scenario,version,scheduler,congestion,egress,");
    axes.iter().for_each(|(key, _)| out += &format!("{},", quoted(key)));
    let _ = writeln!(out, "{},runs,mean,low,high", csv::SUBJECT);
    for group in groups {
        let info = &group.info;
        let run = [&info.scenario, &info.version, &info.scheduler, &info.congestion, &info.egress];
        let run = run.into_iter().chain(group.axes.iter().map(|(_, value)| value));
        let run = run.map(|text| quoted(text)).collect::<Vec<_>>().join(",");
        for figure in &group.figures {
            let Some(Estimate { mean, half_width }) = estimate(&figure.values) else { continue };
            let (subject, metric) = (csv::columns(&figure.subject), quoted(&figure.metric));
            let (count, low, high) = (figure.values.len(), mean - half_width, mean + half_width);
            let _ = writeln!(out, "{run},{subject},{metric},{count},{mean},{low},{high}");
        }
    }
    out
}

/// Metrics of whole flows, in the order in which they come.
fn metrics(groups: &[Group]) -> Vec<String> {
    let mut metrics: Vec<String> = Vec::new();
    for figure in groups.iter().flat_map(|group| &group.figures).filter(|f| f.is_whole()) {
        if !metrics.contains(&figure.metric) {
            metrics.push(figure.metric.clone());
        }
    }
    metrics
}

/// Over the first axis; a line for each flow and combination of the other axes.
fn plot(groups: &[Group], metric: &str) -> Intervals {
    let (mut names, mut lines) = (Vec::new(), Vec::<(String, Vec<_>)>::new());
    let mut axis = String::new();
    for group in groups {
        let name = group.axes.first().map_or_else(String::new, |(_, value)| value.clone());
        group.axes.first().iter().for_each(|(key, _)| axis.clone_from(key));
        let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let others: Vec<String> =
            group.axes.iter().skip(1).map(|(key, value)| format!("{key}={value}")).collect();
        let flows = group.figures.iter().filter(|f| f.is_whole() && f.metric == metric);
        for flow in flows.map(|figure| &figure.subject.flow) {
            let Some((found, _)) = group.of_flow(flow, metric) else { continue };
            let parts = std::iter::once(flow.clone()).chain(others.iter().cloned());
            let label = parts.collect::<Vec<_>>().join(", ");
            let line = lines.iter().position(|(known, _)| *known == label).unwrap_or_else(|| {
                lines.push((label, Vec::new()));
                lines.len() - 1
            });
            let points = &mut lines[line].1;
            points.resize(points.len().max(at + 1), None);
            points[at] = Some((found.mean, found.half_width));
        }
    }
    let first = groups.first();
    let (scenario, version) = first.map_or(("", ""), |g| {
        let name = g.info.scenario.split(" [").next().unwrap_or_default();
        (name, g.info.version.as_str())
    });
    let runs = groups.iter().map(|group| group.runs).max().unwrap_or(0);
    let mut caption = format!("{scenario} · mean and 95 % interval of {runs} seeds");
    if runs < 2 {
        caption = format!("{scenario} · one seed");
    }
    caption += &format!(" · tabane {version}");
    for (what, all, most) in
        [("values", names.len(), Intervals::NAMES), ("lines", lines.len(), Intervals::LINES)]
    {
        if all > most {
            caption += &format!(" · {most} of {all} {what}");
        }
    }
    let unit = Unit::of(metric);
    let label = metric.replace('_', " ");
    Intervals { title: metric.to_owned(), caption, label, unit, axis, names, lines }
}

/// One row a group and flow.
pub(super) fn table(groups: &[Group]) -> Table {
    let axes = groups.first().map_or(&[][..], |group| &group.axes);
    let mut head: Vec<&str> = axes.iter().map(|(key, _)| key.as_str()).collect();
    head.extend(["flow", "seeds", "goodput", "completed"]);
    let mut table = table::empty(&head);
    for group in groups {
        let flows = group.figures.iter().filter(|f| f.is_whole() && f.metric == "goodput_bps");
        for flow in flows.map(|figure| figure.subject.flow.as_str()) {
            let mut row: Vec<Cell> =
                group.axes.iter().map(|(_, value)| table::right(value.clone())).collect();
            let goodput = group.of_flow(flow, "goodput_bps").map_or_else(String::new, |(e, _)| {
                format!("{} ± {}", rate(e.mean), rate(e.half_width))
            });
            let completed = match group.of_flow(flow, "completed_s") {
                Some((e, n)) if n == group.runs => {
                    format!("{:.3} ± {:.3} s", e.mean, e.half_width)
                }
                Some((_, n)) => format!("{n} of {} runs", group.runs),
                None => "not".to_owned(),
            };
            row.push(Cell::new(flow));
            row.extend([group.runs.to_string(), goodput, completed].map(table::right));
            table.add_row(row);
        }
    }
    table
}
