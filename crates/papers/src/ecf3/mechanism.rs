//! How the proposal saves time on unequal links: it holds the slow ones back. Bytes that each link
//! has carried, over time, by scheme.

use super::{Case, FLOW, HETEROGENEOUS, MIN_RTT, PROPOSAL, SCHEMES};
use crate::PaperError;
use crate::context::Context;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Table, Verdict};
use tabane_engine::Duration;
use tabane_trace::{Settings, report};

/// The file that is looked at, MB.
const SIZE: u32 = 10;

/// A scheme's run.
struct Run {
    scheme: &'static str,
    /// When the file was through, seconds.
    completed: f64,
    /// Bytes so far of the slow links, headers included, by time.
    slow: Vec<(f64, f64)>,
    /// Of each link: bytes in all, and when its last packet arrived.
    links: Vec<(f64, f64)>,
}

const LINKS: [&str; 3] = ["first", "second", "third"];

pub(super) fn run(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let case = Case::named(HETEROGENEOUS);
    let jobs = SCHEMES.iter().map(|scheme| case.job(context.seed, SIZE, scheme.sets));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let settings =
        Settings { interval: Duration::from_millis(100), bins: 2_000, ..Settings::default() };
    let seen = context.watch("bytes on the slow links", &jobs, settings)?;
    let runs = SCHEMES.iter().zip(&jobs).zip(&seen).map(|((scheme, job), (result, seen))| {
        Ok(Run::of(scheme.name, job.completed(result, FLOW)?, seen))
    });
    let runs = runs.collect::<Result<Vec<_>, PaperError>>()?;
    claim(report, &runs);
    report.tables.push(table(&runs));
    report.figures.push(figure(&runs));
    Ok(())
}

impl Run {
    fn of(scheme: &'static str, completed: f64, seen: &tabane_trace::Report) -> Self {
        let (mut slow, mut links) = (Vec::new(), Vec::new());
        for name in LINKS {
            let is = |s: &&report::Series| {
                s.metric == report::Metric::LinkRate
                    && s.subject.host == "server>client"
                    && s.subject.path == name
            };
            let points = seen.series.iter().find(is).map_or(&[][..], |s| &s.points);
            let (mut bytes, mut last, mut end) = (0.0, 0.0, 0.0);
            for (at, &(t, rate)) in points.iter().enumerate() {
                let more = rate * (t - last) / 8.0;
                (bytes, last) = (bytes + more, t);
                end = if rate > 0.0 { t } else { end };
                if name != LINKS[0] {
                    if slow.len() <= at {
                        slow.push((t, 0.0));
                    }
                    slow[at].1 += bytes / 1e6;
                }
            }
            links.push((bytes / 1e6, end));
        }
        Self { scheme, completed, slow, links }
    }

    /// MB by the slow links.
    fn slow_bytes(&self) -> f64 {
        self.links[1..].iter().map(|link| link.0).sum()
    }

    /// Until the first link had nothing more to carry, seconds.
    fn fast_end(&self) -> f64 {
        self.links[0].1
    }
}

fn claim(report: &mut Report, runs: &[Run]) {
    let of = |scheme| runs.iter().find(|run| run.scheme == scheme);
    let (Some(plain), Some(ours)) = (of(MIN_RTT), of(PROPOSAL)) else { return };
    let (less, waited) = (ours.slow_bytes() / plain.slow_bytes(), plain.completed);
    let verdict = Verdict::when(less < 0.5 && ours.completed < waited, || {
        format!("they carry {:.0} % of what they carry with minRTT", less * 100.0)
    });
    let text = format!(
        "the slow links are held back: of {SIZE} MB they carry {:.2} MB with minRTT, which then \
         waits for them from {:.1} to {waited:.1} s, and {:.2} MB with the proposal, which is \
         through at {:.1} s",
        plain.slow_bytes(),
        plain.fast_end(),
        ours.slow_bytes(),
        ours.completed
    );
    report.claim("held-back", &text, ("less", less * 100.0, "%"), verdict);
}

fn table(runs: &[Run]) -> Table {
    let row = |run: &Run| {
        let mut row = vec![run.scheme.to_owned()];
        row.extend(run.links.iter().map(|(mb, end)| format!("{mb:.2}, {end:.1} s")));
        row.push(format!("{:.1} s", run.completed));
        row
    };
    Table {
        title: format!("Heterogeneous, {SIZE} MB: MB by each link, and when its last packet came"),
        head: ["scheme", "8.6 Mbit/s", "0.3 Mbit/s", "0.1 Mbit/s", "file"]
            .map(str::to_owned)
            .to_vec(),
        rows: runs.iter().map(row).collect(),
        caption: "Headers and repeats included. minRTT fills the queue of a slow link while the \
                  fast one is full, and the file ends when that queue is empty."
            .to_owned(),
    }
}

fn figure(runs: &[Run]) -> Figure {
    let series = runs.iter().enumerate().map(|(hue, run)| Series {
        label: run.scheme.to_owned(),
        hue,
        source: Source::Ours,
        points: run.slow.clone(),
    });
    Figure {
        id: "slow-links".to_owned(),
        title: format!("Bytes by the two slow links over time, {SIZE} MB"),
        caption: "Each line ends with its file.".to_owned(),
        columns: 1,
        panels: vec![Panel::Plot(Plot {
            title: "heterogeneous".to_owned(),
            x: Axis::new("time (s)"),
            y: Axis::new("MB by 0.3 and 0.1 Mbit/s"),
            kind: Kind::Lines,
            series: series.collect(),
        })],
    }
}
