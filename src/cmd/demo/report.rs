//! The demo's report: one page with links, runs, throughput over time and events, which needs
//! neither a network nor scripts to be looked at.

use super::links::DemoLink;
use super::{Frame, Run, conclusion, yardsticks};
use crate::exit::Failure;
use anyhow::Context;
use std::fmt::Write as _;
use tabane_engine::Instant;
use tabane_gateway::model::EventKind;
use tabane_papers::{escape, head};
use tabane_trace::plot::style::{Unit, colour};
use tabane_trace::plot::{Line, Panel, Plot, Stroke, render};

/// Throughput is that of so many frames, at a tenth of a second each.
const SMOOTHED: usize = 5;

/// The page.
///
/// # Errors
/// When a plot cannot be drawn.
pub(super) fn page(
    links: &[DemoLink],
    runs: &[Run],
    (bytes, seed): (u64, u64),
) -> Result<String, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let caption =
        format!("tabane {version} · a file of {:.1} MB · seed {seed}", bytes as f64 / 1e6);
    let mut out = head("tabane: several links as one");
    let _ = write!(out, "<h1>Several links as one</h1><p class=\"caption\">{caption}</p>");
    for line in conclusion(runs).lines() {
        let _ = write!(out, "<p>{}</p>", escape(line));
    }
    out += "<h2>Links</h2><ul>";
    for link in links {
        let _ = write!(out, "<li>{}</li>", escape(&link.summary));
    }
    out += "</ul><h2>Runs</h2>";
    table(&mut out, runs);
    for run in runs {
        let _ = write!(out, "<h3>{}</h3>", escape(&run.title));
        let svg = render(&plot(run, &caption)).context("the report")?;
        // A declaration belongs at the beginning of a file, not into a page.
        let svg = svg.find("<svg").map_or("", |at| &svg[at..]);
        let _ = write!(out, "<figure>{svg}</figure>");
        events(&mut out, run);
    }
    Ok(out + "</main></body></html>\n")
}

fn table(out: &mut String, runs: &[Run]) {
    let singles = runs.iter().take_while(|run| run.links.len() == 1).count();
    let (best, sum) = yardsticks(&runs[..singles]);
    *out += "<table><thead><tr>";
    for cell in Run::HEAD {
        let _ = write!(out, "<th class=\"n\">{cell}</th>");
    }
    *out += "</tr></thead><tbody>";
    for run in runs {
        let [title, figures @ ..] = run.row(best, sum);
        let _ = write!(out, "<tr><td>{}</td>", escape(&title));
        for figure in figures {
            let _ = write!(out, "<td class=\"n\">{}</td>", escape(&figure));
        }
        *out += "</tr>";
    }
    *out += "</tbody></table>";
}

/// Throughput of each link, and of the file before them.
fn plot(run: &Run, caption: &str) -> Plot {
    let begin = run.begin();
    let seconds = |at: Instant| at.saturating_since(begin).as_secs_f64();
    let frames: Vec<_> = run.film.frames.iter().filter(|frame| frame.0 >= begin).collect();
    let rates = |of: &dyn Fn(&Frame) -> u64| -> Vec<(f64, f64)> {
        let rate = |ends: &[&Frame]| {
            let (first, last) = (ends[0], ends[ends.len() - 1]);
            let took = last.0.saturating_since(first.0).as_secs_f64().max(1e-3);
            (seconds(last.0), of(last).saturating_sub(of(first)) as f64 * 8.0 / took)
        };
        frames.windows(SMOOTHED.min(frames.len()).max(2)).map(rate).collect()
    };
    let line = |(n, label): (usize, &String)| Line {
        label: label.clone(),
        colour: colour(n),
        stroke: Stroke::Solid,
        points: rates(&|frame| frame.2[n]),
    };
    let mut lines: Vec<Line> = run.links.iter().enumerate().map(line).collect();
    if run.links.len() > 1 {
        let all = Line {
            label: "the file".into(),
            colour: colour(run.links.len()),
            stroke: Stroke::Filled,
            points: rates(&|frame| frame.1),
        };
        lines.insert(0, all);
    }
    let marks = run.film.events.iter().filter(|event| event.0 >= begin);
    let marks = marks.filter(|event| matches!(event.1, EventKind::PathDown | EventKind::PathUp));
    let unit = Unit::BitRate;
    Plot {
        title: run.title.clone(),
        caption: caption.to_owned(),
        panels: vec![Panel { label: "throughput".into(), unit, lines, top: None }],
        marks: marks.map(|event| (seconds(event.0), event.1.to_string())).collect(),
        end: frames.last().map_or(1.0, |frame| seconds(frame.0)).max(0.1),
    }
}

fn events(out: &mut String, run: &Run) {
    let begin = run.begin();
    *out += "<table><thead><tr><th class=\"n\">at</th><th>event</th><th></th></tr></thead><tbody>";
    for (at, kind, words) in &run.film.events {
        let at = at.0 as f64 / 1e9 - begin.0 as f64 / 1e9;
        let (kind, words) = (escape(&kind.to_string()), escape(words));
        let _ =
            write!(out, "<tr><td class=\"n\">{at:.2} s</td><td>{kind}</td><td>{words}</td></tr>");
    }
    *out += "</tbody></table>";
}

impl Run {
    /// When the file began to come: before it the tunnels are set up.
    fn begin(&self) -> Instant {
        let waiting = self.film.frames.iter().take_while(|frame| frame.1 == 0);
        waiting.last().map(|frame| frame.0).unwrap_or(Instant::ZERO)
    }
}
