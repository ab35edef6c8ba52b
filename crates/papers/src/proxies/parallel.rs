//! Parallel connections without proxies, alone and beside background traffic; and timeouts of
//! connections by proxies, which the paper names as the reason why none fills the link.

use super::throughput::{FILE, TEXT};
use super::{BOUND, Case, OKINAWA, PAPERS, SMALL, TOKYO, claim, duration, mbps};
use crate::PaperError;
use crate::context::{Context, Job};
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Verdict};
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Observer, Wants};

/// Connections at once.
const COUNTS: [u32; 5] = [1, 2, 5, 10, 20];

/// Traffic of others: ten Reno flows that send a third of the time.
const BACKGROUND: &str = "\
[[flow]]
name = \"background\"
from = \"sender\"
to = \"receiver\"
via = []
direction = \"upload\"
count = 10
onoff = { on = \"1s\", off = \"2s\", random = true }
";

/// What was measured.
pub(super) struct Parallel {
    /// Mbit/s of all connections together, by their number: alone, and beside others.
    rates: [Vec<f64>; 2],
    /// Retransmission timeouts at 43 ms between the proxies, by controller.
    timeouts: Vec<(&'static str, u64)>,
}

pub(super) fn measure(context: &Context<'_>) -> Result<Parallel, PaperError> {
    let case = Case { buffer: SMALL, delay: TOKYO.0, between: None, seed: context.seed };
    let mut jobs = Vec::new();
    for more in ["", BACKGROUND] {
        for count in COUNTS {
            let text = format!("{TEXT}\ncount = {count}\n\n{more}");
            jobs.push(case.job(FILE, &text, duration(context))?);
        }
    }
    let results = context.run("parallel connections", &jobs)?;
    let all = results.iter().enumerate().map(|(at, result)| {
        let flows = 0..COUNTS[at % COUNTS.len()] as usize;
        flows.map(|flow| mbps(result, flow)).sum()
    });
    let all: Vec<f64> = all.collect();
    let (alone, beside) = all.split_at(COUNTS.len());
    let rates = [alone.to_vec(), beside.to_vec()];
    let jobs = PAPERS.map(|(_, spec)| {
        let case = Case { between: Some(spec), delay: OKINAWA.0, ..case };
        case.job(FILE, TEXT, duration(context))
    });
    let jobs = jobs.into_iter().collect::<Result<Vec<Job>, _>>()?;
    let timeouts = context.each("timeouts", &jobs, |job| {
        let mut watch = Timeouts::default();
        job.run(context, &mut watch)?;
        Ok(watch.0.iter().map(|seen| seen.1).sum())
    })?;
    let timeouts = PAPERS.iter().map(|(name, _)| *name).zip(timeouts).collect();
    Ok(Parallel { rates, timeouts })
}

/// Timeouts so far, by flow and host.
#[derive(Default)]
struct Timeouts(Vec<((FlowIdx, HostIdx), u64)>);

impl Observer for Timeouts {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_millis(100)), ..Wants::default() }
    }

    fn sample(&mut self, _: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let timeouts = info.subflows.iter().map(|s| s.stats.timeouts).sum();
        match self.0.iter_mut().find(|seen| seen.0 == (flow, host)) {
            Some(seen) => seen.1 = timeouts,
            None => self.0.push(((flow, host), timeouts)),
        }
    }
}

impl Parallel {
    pub(super) fn tell(&self, report: &mut Report) {
        for (column, rates) in ["alone", "beside others"].into_iter().zip(&self.rates) {
            for (count, rate) in COUNTS.into_iter().zip(rates) {
                let row = format!("{count} connections");
                report.cell("parallel, 18 ms", row, column, (None, *rate, "Mbit/s"));
            }
        }
        let words: Vec<String> = self.timeouts.iter().map(|(n, t)| format!("{n} {t}")).collect();
        let most = self.timeouts.iter().map(|t| t.1).max().unwrap_or(0);
        let text = "by proxies, 43 ms: it is timeouts that keep each of the three from the link \
                    (most of any, alone)";
        let verdict = Verdict::when(most > 0, || {
            format!(
                "there are none ({}): what is missing is the queue of 12 ms, which is 0.3 of what \
                 Reno needs to keep the link busy after a loss",
                words.join(", ")
            )
        });
        claim(report, "timeouts", text, most as f64, "timeouts", verdict);
        report.figures.push(self.figure());
    }

    fn figure(&self) -> Figure {
        let line = |(hue, (label, rates)): (usize, (&str, &Vec<f64>))| Series {
            label: label.to_owned(),
            hue,
            source: Source::Ours,
            points: COUNTS.iter().map(|n| f64::from(*n)).zip(rates.iter().copied()).collect(),
        };
        let named = ["alone", "beside others"].into_iter().zip(&self.rates);
        let mut series: Vec<Series> = named.enumerate().map(line).collect();
        series.push(Series {
            label: "payload bound".into(),
            hue: 0,
            source: Source::Bound,
            points: COUNTS.iter().map(|n| (f64::from(*n), BOUND)).collect(),
        });
        Figure {
            id: "parallel".into(),
            title: "Parallel connections without proxies".into(),
            caption: "The paper's figure 4: hosts of 64 KB at 18 ms. Others: ten Reno flows that \
                      send a third of the time (assumed)."
                .into(),
            columns: 1,
            panels: vec![Panel::Plot(Plot {
                title: "18 ms".into(),
                x: Axis { log: true, ..Axis::new("connections") },
                y: Axis { low: Some(0.0), ..Axis::new("goodput of all, Mbit/s") },
                kind: Kind::Points,
                series,
            })],
        }
    }
}
