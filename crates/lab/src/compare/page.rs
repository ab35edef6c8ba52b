//! A comparison as one page of HTML: its table, and goodput, windows and round trips of every
//! stack on the same axes.

use super::{Compared, Runner, rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tabane_trace::plot::style::{Unit, colour};
use tabane_trace::plot::{Line, Panel, Plot, Stroke, render};
use tabane_trace::{Metric, Report};

/// One page about several scenarios.
///
/// # Errors
/// In words, if a plot cannot be drawn.
pub fn page(all: &[(Compared, BTreeMap<Runner, Report>)]) -> Result<String, String> {
    let mut out = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <title>tabane compare</title><style>body{font:16px/1.5 system-ui,sans-serif;\
         max-width:64rem;margin:0 auto;padding:1.5rem}table{border-collapse:collapse}\
         td,th{padding:.3rem .7rem;border-bottom:1px solid #ddd;text-align:right}\
         td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}\
         .poor{color:#a3400a}</style></head><body>",
    );
    for (compared, reports) in all {
        let (name, about) = (escape(&compared.scenario), escape(&compared.about));
        let _ = write!(out, "<h1>{name}</h1><p>{about}</p><table>");
        for (n, row) in rows(compared).iter().enumerate() {
            let tag = if n == 0 { "th" } else { "td" };
            let cells = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
            let _ = write!(out, "<tr>{}</tr>", cells.collect::<String>());
        }
        out += "</table>";
        for runner in compared.runs.keys() {
            if let Some(why) = compared.poor(*runner) {
                let why = escape(why);
                let name = runner.as_str();
                let _ = write!(out, "<p class=\"poor\">{name}: poor accuracy: {why}</p>");
            }
        }
        out += &render(&plot(compared, reports)).map_err(|e| e.to_string())?;
    }
    Ok(out + "</body></html>\n")
}

fn plot(compared: &Compared, reports: &BTreeMap<Runner, Report>) -> Plot {
    let panel = |label: &str, unit: Unit, metric: Metric, whole: bool| Panel {
        label: label.to_owned(),
        unit,
        lines: lines(reports, metric, whole),
        top: None,
    };
    let longest = reports.values().max_by(|a, b| a.end.total_cmp(&b.end));
    Plot {
        title: compared.scenario.clone(),
        caption: format!("last run of each · tabane {}", compared.version),
        panels: vec![
            panel("goodput", Unit::BitRate, Metric::Goodput, true),
            panel("window", Unit::Bytes, Metric::Cwnd, false),
            panel("smoothed RTT", Unit::Seconds, Metric::Srtt, false),
        ],
        marks: longest.map_or_else(Vec::new, |report| report.marks.clone()),
        end: longest.map_or(1.0, |report| report.end),
    }
}

/// A colour a stack; further subflows are dashed.
fn lines(reports: &BTreeMap<Runner, Report>, metric: Metric, whole: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for (n, (runner, report)) in reports.iter().enumerate() {
        let mut paths: Vec<&str> = Vec::new();
        for series in report.of(metric, whole).filter(|s| !s.subject.flow.is_empty()) {
            let path = series.subject.path.as_str();
            if !paths.contains(&path) {
                paths.push(path);
            }
            let first = paths.first() == Some(&path);
            let label = match (whole, first) {
                (true, _) | (_, true) => runner.as_str().to_owned(),
                _ => format!("{} {path}", runner.as_str()),
            };
            lines.push(Line {
                label,
                colour: colour(n),
                stroke: if first { Stroke::Solid } else { Stroke::Dashed },
                points: series.points.clone(),
            });
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
