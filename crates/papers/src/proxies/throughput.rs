//! Throughput of a single flow by socket buffer, delay and controller, directly and by proxies.

use super::{
    BOUND, Case, FITTED, FULL, GENTLE, HIGHSPEED, LARGE, OKINAWA, OTHERS, PAPERS, RENO, SMALL,
};
use super::{TOKYO, claim, duration, mbps, others, repetitions};
use crate::PaperError;
use crate::context::Context;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Verdict};
use crate::stats;

pub(super) const FILE: &str = "papers/proxies/path.toml";
pub(super) const TEXT: &str = include_str!("../../../../papers/proxies/path.toml");

/// What was measured, in Mbit/s.
pub(super) struct Throughput {
    cells: Vec<Cell>,
}

struct Cell {
    buffer: u32,
    rtt: u32,
    between: Option<&'static str>,
    /// Mean of the repetitions.
    mbps: f64,
}

pub(super) fn measure(context: &Context<'_>) -> Result<Throughput, PaperError> {
    let buffers: &[u32] = context.pick(&[SMALL, LARGE], &[SMALL, 128, 256, LARGE]);
    let mut wanted = Vec::new();
    for (delay, rtt) in [TOKYO, OKINAWA] {
        for &buffer in buffers {
            let proxied = PAPERS.iter().map(|(_, spec)| Some(*spec));
            wanted.extend(std::iter::once(None).chain(proxied).map(|b| (buffer, delay, rtt, b)));
        }
    }
    let (delay, rtt) = OKINAWA;
    wanted.extend(others(context).iter().map(|(_, spec)| (SMALL, delay, rtt, Some(*spec))));
    let seeds = context.seeds(repetitions(context));
    let mut jobs = Vec::new();
    for &(buffer, delay, _, between) in &wanted {
        for &seed in &seeds {
            jobs.push(Case { buffer, delay, between, seed }.job(FILE, TEXT, duration(context))?);
        }
    }
    let results = context.run("throughput", &jobs)?;
    let cell = |(w, runs): (&(u32, &str, u32, Option<&'static str>), &[_])| {
        let rates: Vec<f64> = runs.iter().map(|run| mbps(run, 0)).collect();
        let mbps = stats::mean(&rates).unwrap_or_default();
        Cell { buffer: w.0, rtt: w.2, between: w.3, mbps }
    };
    Ok(Throughput { cells: wanted.iter().zip(results.chunks(seeds.len())).map(cell).collect() })
}

/// Whether the link is full.
fn full(mbps: f64) -> bool {
    mbps >= FULL * BOUND
}

impl Throughput {
    fn of(&self, buffer: u32, rtt: u32, between: Option<&str>) -> f64 {
        let is = |c: &&Cell| c.buffer == buffer && c.rtt == rtt && c.between == between;
        self.cells.iter().find(is).map_or(f64::NAN, |c| c.mbps)
    }

    /// By proxies at 43 ms, with hosts of 64 KB.
    pub(super) fn alone(&self, between: &str) -> f64 {
        self.of(SMALL, OKINAWA.1, Some(between))
    }

    pub(super) fn tell(&self, report: &mut Report) {
        for c in &self.cells {
            let named = PAPERS.iter().chain(&OTHERS).find(|(_, spec)| Some(*spec) == c.between);
            let column = named.map_or("direct", |(name, _)| name);
            let row = format!("{} KB", c.buffer);
            report.cell(&format!("{} ms", c.rtt), row, column, (None, c.mbps, "Mbit/s"));
        }
        self.direct(report);
        self.proxied(report);
        report.figures.push(self.figure());
    }

    fn direct(&self, report: &mut Report) {
        let (short, long) = (TOKYO.1, OKINAWA.1);
        let because = |ours: f64| move || format!("it reaches {ours:.1} Mbit/s");
        let ours = self.of(SMALL, short, None);
        let text = "direct, 18 ms: sockets of 64 KB do not fill the link";
        let verdict = Verdict::when(!full(ours), because(ours));
        claim(report, "direct-18", text, ours, "Mbit/s", verdict);
        let ours = self.of(LARGE, long, None);
        let text = "direct, 43 ms: nor do sockets of 512 KB (Reno)";
        let verdict = Verdict::when(!full(ours), because(ours));
        claim(report, "direct-43", text, ours, "Mbit/s", verdict);
        let ours = self.of(SMALL, short, Some(RENO));
        let text = "by proxies, 18 ms: hosts of 64 KB fill the link";
        let verdict = Verdict::when(full(ours), because(ours));
        claim(report, "proxied-18", text, ours, "Mbit/s", verdict);
        let ratio = |rtt| self.of(SMALL, rtt, Some(RENO)) / self.of(LARGE, rtt, Some(RENO));
        let ours = ratio(short).min(ratio(long)) * 100.0;
        let text = "by proxies, Reno: hosts of 64 KB do as well as hosts of 512 KB (within 5 %)";
        let verdict = Verdict::when(ours >= 95.0, || format!("{ours:.0} % of it"));
        claim(report, "small-as-large", text, ours, "%", verdict);
        let (ours, direct) = (self.alone(RENO), self.of(SMALL, long, None));
        let text = "by proxies, 43 ms, Reno: more than direct, less than the link";
        let verdict = Verdict::when(ours > direct && !full(ours), || {
            format!("{ours:.1} Mbit/s, direct {direct:.1}")
        });
        claim(report, "proxied-43", text, ours, "Mbit/s", verdict);
    }

    fn proxied(&self, report: &mut Report) {
        let (reno, high, gentle) = (self.alone(RENO), self.alone(HIGHSPEED), self.alone(GENTLE));
        let text = "by proxies, 43 ms: HSTCP is faster than Reno";
        let verdict = Verdict::when(high > reno, || format!("Reno has {reno:.1} Mbit/s"));
        claim(report, "highspeed", text, high, "Mbit/s", verdict);
        let text = "by proxies, 43 ms: gHSTCP is faster than HSTCP";
        let verdict = Verdict::when(gentle > high, || format!("HSTCP has {high:.1} Mbit/s"));
        claim(report, "ghstcp", text, gentle, "Mbit/s", verdict.fitted(FITTED));
        let most = reno.max(high).max(gentle);
        let text = "by proxies, 43 ms: none of the three reaches the link";
        let verdict = Verdict::when(!full(most), || {
            format!("by the threshold for a full link, {FULL} of {BOUND:.1}; gHSTCP is the most")
        });
        claim(report, "limit", text, most, "Mbit/s", verdict);
        let half = self.alone("ghstcp");
        report.note(format!(
            "gHSTCP with a half for a loss in Reno mode has {half:.1} Mbit/s at 43 ms, with b(w) \
             {gentle:.1}, HSTCP {high:.1}. Losses come when the queue is full, that is in Reno \
             mode: what they cost decides the order, more than how the window grows."
        ));
    }

    fn figure(&self) -> Figure {
        let mut buffers: Vec<u32> = self.cells.iter().map(|c| c.buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        let panel = |rtt: u32| {
            let one = |(hue, (label, between)): (usize, (&str, Option<&str>))| Series {
                label: label.to_owned(),
                hue,
                source: Source::Ours,
                points: buffers
                    .iter()
                    .map(|b| (f64::from(*b), self.of(*b, rtt, between)))
                    .collect(),
            };
            let proxied = PAPERS.iter().map(|(name, spec)| (*name, Some(*spec)));
            let all = std::iter::once(("direct", None)).chain(proxied);
            let mut series: Vec<Series> = all.enumerate().map(one).collect();
            series.push(Series {
                label: "payload bound".into(),
                hue: 0,
                source: Source::Bound,
                points: buffers.iter().map(|b| (f64::from(*b), BOUND)).collect(),
            });
            Panel::Plot(Plot {
                title: format!("{rtt} ms"),
                x: Axis { log: true, ..Axis::new("socket buffer of the hosts, KiB") },
                y: Axis { low: Some(0.0), ..Axis::new("goodput, Mbit/s") },
                kind: Kind::Points,
                series,
            })
        };
        Figure {
            id: "throughput".into(),
            title: "Goodput by socket buffer".into(),
            caption: "Direct, and by two proxies next to the hosts; mean of the repetitions."
                .into(),
            columns: 2,
            panels: vec![panel(TOKYO.1), panel(OKINAWA.1)],
        }
    }
}
