//! Beyond the paper: its rule for any number of paths (`necf`) against the sum of the links, the
//! other schedulers beside it, and why what is missing is missing.

use super::{CASES, Case, FLOW, SCHEDULER, SCHEMES, Times};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table, Verdict};
use tabane_engine::{Duration, scheduler};
use tabane_sim::result::RunResult;
use tabane_trace::{Settings, report};

/// Completion times of tabane's scheduler with its own settings.
pub(super) struct Ours {
    /// By case, in the order of [`CASES`], then by size.
    pub(super) times: Vec<Vec<f64>>,
}

/// What tabane's hosts do by default, in place of what the paper's did.
const HOST: [(&str, &str); 3] = [
    ("defaults.congestion", "cubic"),
    // Of options as the paper's, as the bound has them.
    ("defaults.mptcp", "{ segments_per_mapping = 1 }"),
    (
        "defaults.tcp",
        "{ receive_buffer = \"16MiB\", receive_buffer_max = \"16MiB\", send_buffer = \"16MiB\" }",
    ),
];

/// How far above the bound a time may be.
pub(super) const TARGET: f64 = 1.03;

struct Tried {
    name: &'static str,
    /// Means, by case and size.
    times: Vec<Vec<f64>>,
    /// The longest of the repetitions, by case and size.
    longest: Vec<Vec<f64>>,
}

pub(super) fn run(
    context: &Context<'_>,
    report: &mut Report,
    times: &Times,
) -> Result<Ours, PaperError> {
    let tried = try_all(context, times, &report.seeds)?;
    let judged = tried.iter().find(|tried| tried.name == SCHEDULER);
    let judged = judged.expect("invariant: it is one of the schedulers");
    let rivals = try_schemes(context, times, &report.seeds)?;
    report.tables.push(table("Every scheduler", &tried, times));
    report.tables.push(table("The paper's four schemes on the same stack", &rivals, times));
    let ours = Ours { times: judged.times.clone() };
    for (case, seconds) in CASES.iter().zip(&ours.times) {
        for (size, seconds) in times.sizes.iter().zip(seconds) {
            let (table, row) = (format!("{}: time", case.name), format!("{size} MB"));
            let column = format!("tabane, {SCHEDULER}");
            report.cell(&table, &row, column, (None, *seconds, "s"));
            report.cell(&table, &row, "bound", (None, case.bound(*size), "s"));
        }
    }
    targets(context, report, times, judged)?;
    never_slower(report, times, judged, &rivals);
    Ok(ours)
}

fn try_all(context: &Context<'_>, times: &Times, seeds: &[u64]) -> Result<Vec<Tried>, PaperError> {
    let names: Vec<&'static str> =
        scheduler::ALL.iter().map(|row| row.name).filter(|name| *name != "redundant").collect();
    let rows = names.iter().flat_map(|name| CASES.iter().map(|case| (case, host(name))));
    let rows: Vec<_> = rows.collect();
    let seconds = super::seconds(context, "schedulers of ours", &rows, &times.sizes, seeds)?;
    Ok(names.into_iter().zip(seconds.chunks(CASES.len())).map(Tried::of).collect())
}

/// The paper's four, on the stack that ours is judged on: on the paper's own, what a rival loses
/// by its stack would count for our scheduler.
fn try_schemes(
    context: &Context<'_>,
    times: &Times,
    seeds: &[u64],
) -> Result<Vec<Tried>, PaperError> {
    let sets = |scheme: &'static super::Scheme| {
        let own = scheme.sets.iter().copied();
        let replaced = |key: &str| scheme.sets.iter().any(|(other, _)| *other == key);
        HOST.into_iter().filter(|(key, _)| !replaced(key)).chain(own).collect::<Vec<_>>()
    };
    let rows = SCHEMES.iter().flat_map(|s| CASES.iter().map(move |case| (case, sets(s))));
    let rows: Vec<_> = rows.collect();
    let stage = "the paper's four schemes on our stack";
    let seconds = super::seconds(context, stage, &rows, &times.sizes, seeds)?;
    let names = SCHEMES.iter().map(|scheme| scheme.name);
    Ok(names.zip(seconds.chunks(CASES.len())).map(Tried::of).collect())
}

impl Tried {
    /// Seconds by case, size and repetition.
    fn of((name, cases): (&'static str, &[Vec<Vec<f64>>])) -> Self {
        let by_size = |of: &dyn Fn(&[f64]) -> f64| -> Vec<Vec<f64>> {
            cases.iter().map(|sizes| sizes.iter().map(|seeds| of(seeds)).collect()).collect()
        };
        let longest = by_size(&|seeds| seeds.iter().copied().fold(0.0, f64::max));
        Self { name, times: by_size(&super::mean), longest }
    }
}

pub(super) fn host(scheduler: &str) -> Vec<(&str, &str)> {
    let mut sets = HOST.to_vec();
    sets.push(("defaults.scheduler", scheduler));
    sets
}

/// Of times to the bounds.
fn ratios(times: &Times, of: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |case: &Case, seconds: &[f64]| -> Vec<f64> {
        times.sizes.iter().zip(seconds).map(|(size, s)| s / case.bound(*size)).collect()
    };
    CASES.iter().zip(of).map(|(case, seconds)| row(case, seconds)).collect()
}

fn table(what: &str, tried: &[Tried], times: &Times) -> Table {
    let mut head = vec!["scheduler".to_owned()];
    for case in &CASES {
        head.extend(times.sizes.iter().map(|size| format!("{}, {size} MB", case.name)));
    }
    let row = |tried: &Tried| {
        let ratios = ratios(times, &tried.times).into_iter().flatten();
        let mut row = vec![tried.name.to_owned()];
        row.extend(ratios.map(|ratio| format!("{ratio:.3}")));
        row
    };
    Table {
        title: format!("{what}: time over the sum-of-links bound"),
        head,
        rows: tried.iter().map(row).collect(),
        caption: "CUBIC with HyStart++, the end of the file raced, buffers of 16 MiB, three paths \
                  where nothing else is said"
            .to_owned(),
    }
}

fn targets(
    context: &Context<'_>,
    report: &mut Report,
    times: &Times,
    ours: &Tried,
) -> Result<(), PaperError> {
    let all = ratios(times, &ours.longest);
    for ((case, ratios), seconds) in CASES.iter().zip(&all).zip(&ours.longest) {
        let at = greatest(ratios);
        let (size, bound) = (times.sizes[at], case.bound(times.sizes[at]));
        let ours_there = seconds[at];
        let missed: Vec<u32> = times
            .sizes
            .iter()
            .zip(ratios)
            .filter(|(_, ratio)| **ratio > TARGET)
            .map(|(size, _)| *size)
            .collect();
        let verdict = if missed.is_empty() {
            Verdict::Reproduced
        } else {
            let why = why(context, case, size, ours.name)?;
            let met = times.sizes.len() - missed.len();
            let text = format!("{met} of {} sizes, not {missed:?} MB: {why}", times.sizes.len());
            if met == 0 { Verdict::Not(text) } else { Verdict::Partly(text) }
        };
        let text = format!(
            "{}: {} within 3 % of the sum of the links at every size (worst run: {size} MB)",
            case.name, ours.name
        );
        report.target(&format!("{}-bound", case.name), &text, (bound, ours_there, "s"), verdict);
    }
    Ok(())
}

fn greatest(values: &[f64]) -> usize {
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Where ours is furthest behind the shortest of other times: these, ours, and the place.
fn worst(times: &Times, ours: &Tried, best: &[Vec<f64>]) -> Option<(f64, f64, String)> {
    let mut worst: Option<(f64, f64, String)> = None;
    for ((case, seconds), best) in CASES.iter().zip(&ours.times).zip(best) {
        for ((best, seconds), size) in best.iter().zip(seconds).zip(&times.sizes) {
            if worst.as_ref().is_none_or(|(b, s, _)| seconds / best > s / b) {
                worst = Some((*best, *seconds, format!("{}, {size} MB", case.name)));
            }
        }
    }
    worst
}

fn never_slower(report: &mut Report, times: &Times, ours: &Tried, rivals: &[Tried]) {
    let shortest = |case: usize, size: usize| {
        rivals.iter().map(|rival| rival.times[case][size]).fold(f64::INFINITY, f64::min)
    };
    let by_size = |case| (0..times.sizes.len()).map(|size| shortest(case, size)).collect();
    let same: Vec<Vec<f64>> = (0..CASES.len()).map(by_size).collect();
    let papers: Vec<Vec<f64>> = CASES.iter().map(|case| times.best(case.name)).collect();
    let [same, papers] = [same, papers].map(|best| worst(times, ours, &best));
    let (Some((best, seconds, place)), Some((other, there, _))) = (same, papers) else { return };
    let more = |seconds: f64, best: f64| (seconds / best - 1.0) * 100.0;
    let verdict = Verdict::when(seconds <= best * 1.0005, || {
        format!("at {place} it takes {:.2} % more", more(seconds, best))
    });
    let text = format!(
        "{} never slower than any of the four, all on the stack of tabane's hosts (worst: {place}; \
         beside the four on the paper's stack {:+.1} % at worst)",
        ours.name,
        more(there, other)
    );
    report.target("never-slower", &text, (best, seconds, "s"), verdict);
}

/// Where the time goes that the bound does not have, from what the run's observer saw.
fn why(
    context: &Context<'_>,
    case: &Case,
    size: u32,
    scheduler: &str,
) -> Result<String, PaperError> {
    let job = case.job(context.seed, size, &host(scheduler))?;
    let settings =
        Settings { interval: Duration::from_millis(10), bins: 20_000, ..Settings::default() };
    let jobs = std::slice::from_ref(&job);
    let (result, seen) = context.watch("a closer look", jobs, settings)?.remove(0);
    let seconds = job.completed(&result, FLOW)?;
    let links = seen
        .series
        .iter()
        .filter(|s| s.metric == report::Metric::LinkRate && s.subject.host == "server>client");
    let mut words = Vec::new();
    for link in links {
        let busy = |p: &&(f64, f64)| p.1 > 0.0;
        let first = link.points.iter().find(busy).map_or(seconds, |p| p.0);
        let last = link.points.iter().rev().find(busy).map_or(0.0, |p| p.0);
        let idle = idle(link, case, first, last);
        let path = &link.subject.path;
        words.push(format!(
            "{path} began {:.0} ms after the start, was idle {:.0} ms in between and {:.0} ms at \
             the end",
            first * 1e3,
            idle * 1e3,
            (seconds - last).max(0.0) * 1e3
        ));
    }
    words.push(repeats(&result, &seen));
    words.push(format!("the handshakes alone make it {:.3} s", floor(case, size)));
    Ok(words.join("; "))
}

/// The bound with what RFC 8684 asks for: data flows on the first link after two round trips, on
/// the others after four, as nobody may join before data was answered.
fn floor(case: &Case, size: u32) -> f64 {
    const ROUND_TRIP: f64 = 0.040;
    let sum: f64 = case.mbps.iter().sum();
    let later = case.mbps[1..].iter().sum::<f64>();
    case.bound(size) + 2.0 * ROUND_TRIP + 2.0 * ROUND_TRIP * later / sum
}

/// Seconds of nothing between its first and last packet, as a share of its rate not used.
fn idle(link: &report::Series, case: &Case, first: f64, last: f64) -> f64 {
    let at = ["first", "second", "third"].iter().position(|name| *name == link.subject.path);
    let rate = case.mbps[at.unwrap_or(0)] * 1e6;
    let inside = link.points.windows(2).filter(|w| w[0].0 >= first && w[1].0 <= last);
    let carried: f64 = inside.map(|w| (w[1].0 - w[0].0) * w[1].1).sum();
    (last - first - carried / rate).max(0.0)
}

fn repeats(result: &RunResult, seen: &tabane_trace::Report) -> String {
    let sum = |metric: &str| -> f64 {
        seen.figures.iter().filter(|f| f.metric == metric).map(|f| f.value).sum()
    };
    let bytes = result.flows.first().map_or(1, |f| f.bytes).max(1) as f64;
    format!(
        "{:.2} % of the bytes were sent again on their subflow and {:.2} % on another",
        100.0 * sum("retransmitted_bytes") / bytes,
        100.0 * sum("reinjected_bytes") / bytes
    )
}
