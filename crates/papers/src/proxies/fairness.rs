//! One direct Reno flow beside one by the proxies.

use super::{Case, GENTLE, HIGHSPEED, OKINAWA, PAPERS, RENO, SMALL, TOKYO};
use super::{claim, duration, mbps, others, repetitions};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table, Verdict};
use crate::stats;

const FILE: &str = "papers/proxies/pair.toml";
const TEXT: &str = include_str!("../../../../papers/proxies/pair.toml");

/// What was measured.
pub(super) struct Pairs(Vec<Pair>);

struct Pair {
    name: &'static str,
    between: &'static str,
    rtt: u32,
    /// Means of the repetitions, Mbit/s: by proxies, direct.
    proxied: f64,
    plain: f64,
    /// Mean of the repetitions' indices.
    jain: f64,
}

pub(super) fn measure(context: &Context<'_>) -> Result<Pairs, PaperError> {
    let mut wanted = Vec::new();
    for (delay, rtt) in [TOKYO, OKINAWA] {
        wanted.extend(PAPERS.iter().map(|(name, spec)| (*name, *spec, delay, rtt)));
    }
    wanted.extend(others(context).iter().map(|(name, spec)| (*name, *spec, OKINAWA.0, OKINAWA.1)));
    let seeds = context.seeds(repetitions(context));
    let mut jobs = Vec::new();
    for &(_, spec, delay, _) in &wanted {
        for &seed in &seeds {
            let case = Case { buffer: SMALL, delay, between: Some(spec), seed };
            jobs.push(case.job(FILE, TEXT, duration(context))?);
        }
    }
    let results = context.run("pairs", &jobs)?;
    let pair = |(w, runs): (&(&'static str, &'static str, &str, u32), &[_])| {
        let rates: Vec<[f64; 2]> = runs.iter().map(|run| [mbps(run, 0), mbps(run, 1)]).collect();
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| {
            stats::mean(&rates.iter().map(of).collect::<Vec<_>>()).unwrap_or_default()
        };
        let (proxied, plain) = (mean(&|r| r[0]), mean(&|r| r[1]));
        let jain = mean(&|r| stats::jain(r));
        Pair { name: w.0, between: w.1, rtt: w.3, proxied, plain, jain }
    };
    Ok(Pairs(wanted.iter().zip(results.chunks(seeds.len())).map(pair).collect()))
}

impl Pairs {
    fn of(&self, between: &str, rtt: u32) -> Option<&Pair> {
        self.0.iter().find(|p| p.between == between && p.rtt == rtt)
    }

    /// Jain's index with this controller between the proxies.
    pub(super) fn jain(&self, between: &str, rtt: u32) -> f64 {
        self.of(between, rtt).map_or(0.0, |p| p.jain)
    }

    pub(super) fn tell(&self, report: &mut Report) {
        for p in &self.0 {
            let table = format!("beside a direct Reno flow, {} ms", p.rtt);
            report.cell(&table, p.name, "by proxies", (None, p.proxied, "Mbit/s"));
            report.cell(&table, p.name, "direct", (None, p.plain, "Mbit/s"));
            report.cell(&table, p.name, "Jain", (None, p.jain, ""));
        }
        self.harm(report);
        let row = |p: &Pair| {
            let share = 100.0 * p.plain / (p.plain + p.proxied);
            let rtt = format!("{} ms", p.rtt);
            vec![rtt, p.name.to_owned(), format!("{share:.0} %"), format!("{:.3}", p.jain)]
        };
        report.tables.push(Table {
            title: "What the direct Reno flow is left with".into(),
            head: ["RTT", "between the proxies", "share of the direct flow", "Jain"]
                .map(str::to_owned)
                .to_vec(),
            rows: self.0.iter().map(row).collect(),
            caption: "Beside Reno between the proxies it would have about half.".into(),
        });
    }

    /// What the direct flow loses against having Reno for a neighbour, at 43 ms.
    fn harm(&self, report: &mut Report) {
        let left = |spec| {
            let with = |spec| self.of(spec, OKINAWA.1).map_or(f64::NAN, |p| p.plain);
            100.0 * (1.0 - with(spec) / with(RENO))
        };
        let (high, gentle) = (left(HIGHSPEED), left(GENTLE));
        let text = "43 ms: HSTCP between the proxies starves a direct Reno flow (share of its \
                    rate that it loses against Reno between them)";
        let verdict = match high {
            h if h >= 75.0 => Verdict::Reproduced,
            h if h >= 25.0 => Verdict::Partly(format!(
                "it harms, but {:.0} % are left: at such windows HSTCP is worth two Renos (RFC \
                 3649 section 5: N = 0.23 W^0.4)",
                100.0 - h
            )),
            h => Verdict::Not(format!("it loses {h:.0} %")),
        };
        claim(report, "highspeed-harm", text, high, "%", verdict);
        let text = "43 ms: gHSTCP hardly harms a direct Reno flow (share of its rate that it \
                    loses against Reno between them)";
        let verdict = match gentle {
            g if g <= 15.0 => Verdict::Reproduced,
            g if g < 0.75 * high => Verdict::Partly(format!(
                "it harms by {g:.0} %, where HSTCP harms by {high:.0} %; with a half for a loss \
                 in Reno mode by {:.0} %",
                left("ghstcp")
            )),
            g => Verdict::Not(format!("it harms by {g:.0} %, HSTCP by {high:.0} %")),
        };
        claim(report, "ghstcp-harm", text, gentle, "%", verdict);
    }
}
