//! Which transfers are slower than the best path alone, or than with another scheduler, and what
//! the decisions of the worst of them say.

use super::design::CLASSES;
use super::measure::{self, MINRTT, Measured, OURS, STACKS};
use crate::PaperError;
use crate::context::Context;
use crate::report::{Report, Table};
use tabane_engine::record::{Record, What};
use tabane_engine::scheduler::Reason;
use tabane_sim::observe::{HostIdx, Observer, Wants};

/// How much slower is worth counting.
const SLOWER: f64 = 0.05;

/// How many of a class are slower.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) slower: usize,
    /// By more than 2 %.
    pub(super) clearly: usize,
}

impl Count {
    pub(super) fn of(slowness: impl Iterator<Item = f64>) -> Self {
        slowness.fold(Self::default(), |count, slow| Self {
            slower: count.slower + usize::from(slow > 0.0),
            clearly: count.clearly + usize::from(slow > 0.02),
        })
    }
}

/// How much slower a stack is, share; below 0 it is faster.
pub(super) type Slowness = fn(&Measured, usize) -> f64;

/// From the better path: than that path alone.
pub(super) fn from_best(one: &Measured, stack: usize) -> f64 {
    -one.benefit(stack, one.best(stack))
}

/// From the worse path: than the better path alone, begun two round trips of the worse one later.
pub(super) fn from_worst(one: &Measured, stack: usize) -> f64 {
    one.late(stack)
}

/// What the sender decided.
#[derive(Default)]
struct Decisions {
    /// Data placed or held.
    all: u64,
    /// Held, although a slower subflow could have sent it.
    blocked: u64,
    waiting: u64,
}

impl Observer for Decisions {
    fn wants(&self) -> Wants {
        Wants { records: true, ..Wants::default() }
    }

    fn record(&mut self, _host: HostIdx, record: &Record) {
        if let What::Decision { reason, .. } = record.what {
            self.all += 1;
            self.blocked += u64::from(matches!(reason, Reason::WouldBlock { .. }));
            self.waiting += u64::from(matches!(reason, Reason::WaitingIsFaster { .. }));
        }
    }
}

/// Of what minRTT with the same controller gives.
fn ratio(&(one, from): &(&Measured, usize)) -> f64 {
    one.together[OURS][from] / one.together[MINRTT][from]
}

/// How far ours is behind minRTT with the same controller, and the decisions of the worst run.
pub(super) fn behind(
    context: &Context<'_>,
    report: &mut Report,
    all: &[Measured],
) -> Result<(), PaperError> {
    let each = || all.iter().flat_map(|one| [(one, 0), (one, 1)]);
    let row = |class: usize| {
        let of = || each().filter(move |(one, _)| one.class == class);
        let far = |one: &Measured| (one.paths[0].rtt - one.paths[1].rtt).abs() >= 200.0;
        let behind = || of().filter(|transfer| ratio(transfer) < 1.0 - SLOWER);
        let ahead = of().filter(|transfer| ratio(transfer) > 1.0 + SLOWER);
        vec![
            CLASSES[class].name.to_owned(),
            behind().count().to_string(),
            behind().filter(|(one, _)| far(one)).count().to_string(),
            ahead.count().to_string(),
            of().count().to_string(),
        ]
    };
    report.tables.push(Table {
        title: "necf beside minRTT, the same controller".to_owned(),
        head: [
            "class",
            "5 % slower or more",
            "of these with round trips 200 ms apart",
            "5 % faster or more",
            "transfers",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: (0..CLASSES.len()).map(row).collect(),
        caption: "From either path.".to_owned(),
    });
    let worst = each().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    worst.map_or(Ok(()), |worst| decisions(context, report, worst))
}

/// What both schedulers decided in a transfer that began on path `from`.
fn decisions(
    context: &Context<'_>,
    report: &mut Report,
    (worst, from): (&Measured, usize),
) -> Result<(), PaperError> {
    let mut rows = Vec::new();
    for stack in [OURS, MINRTT] {
        let job = measure::together(worst.paths, from, STACKS[stack].sets, context.seed)?;
        let mut seen = Decisions::default();
        let result = job.run(context, &mut seen)?;
        let carried = result.flows.iter().flat_map(|flow| &flow.subflows);
        let carried: Vec<String> =
            carried.map(|subflow| format!("{:.2}", subflow.bytes as f64 / 1e6)).collect();
        rows.push(vec![
            STACKS[stack].name.to_owned(),
            format!("{:.1}", worst.together[stack][from]),
            carried.join(" / "),
            seen.all.to_string(),
            seen.blocked.to_string(),
            seen.waiting.to_string(),
        ]);
    }
    let [first, second] = [worst.paths[from], worst.paths[1 - from]].map(|path| path.words());
    report.tables.push(Table {
        title: "The transfer in which necf is furthest behind minRTT".to_owned(),
        head: [
            "stack",
            "Mbit/s",
            "MB by path",
            "decisions",
            "held: would block or delay",
            "held: waiting is faster",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        caption: format!("{}: {first}; {second}.", CLASSES[worst.class].name),
    });
    Ok(())
}
