//! Paper `olia` (S7): MPTCP is not Pareto-optimal (Khalili et al.): three scenarios in which LIA
//! takes from others what it does not need, and OLIA does not; BALIA and uncoupled Reno beside
//! them.
//!
//! What the paper does not state is in `papers/olia/README.md`.

mod measure;
mod theory;

use crate::context::Context;
use crate::figure::{Axis, Figure, Kind, Panel, Plot, Series, Source as Whose};
use crate::report::{Report, Table, Verdict};
use crate::{Paper, PaperError, Source};
use measure::{CONTROLLERS, Case, Found, SHARE, Scenario};

/// The row of this paper.
pub(crate) const PAPER: Paper = Paper {
    name: "olia",
    alias: "s7",
    title: "MPTCP is not Pareto-optimal: LIA, OLIA, and others",
    source: Some(Source {
        authors: &[
            "Ramin Khalili",
            "Nicolas Gast",
            "Miroslav Popovic",
            "Utkarsh Upadhyay",
            "Jean-Yves Le Boudec",
        ],
        title: "MPTCP is not Pareto-optimal: Performance Issues and a Possible Solution",
        venue: "ACM CoNEXT",
        year: 2012,
        doi: "10.1145/2413176.2413178",
    }),
    summary: "scenarios A, B and C with LIA, OLIA, BALIA and uncoupled Reno, beside the fixed \
              points",
    inventory: include_str!("../../../../papers/olia/inventory.csv"),
    run,
};

/// How far a share may be from the fixed point's.
const TOLERANCE: f64 = 0.1;

/// All that was found.
struct All(Vec<Found>);

impl All {
    fn of(&self, controller: &str, is: impl Fn(&Case) -> bool) -> Option<&Found> {
        self.0.iter().find(|found| found.controller == controller && is(&found.case))
    }

    fn b(&self, controller: &str, upgraded: bool) -> Option<&Found> {
        self.of(controller, |case| case.scenario == Scenario::B { upgraded })
    }
}

fn run(context: &Context<'_>) -> Result<Report, PaperError> {
    let mut report = Report::new(&PAPER, context);
    report.seeds = context.seeds(context.pick(1, 2));
    assumptions(&mut report);
    let all = All(measure::run(context, &report.seeds)?);
    for found in &all.0 {
        let row = found.case.words();
        let fixed = (found.controller == "lia").then(|| found.case.lia());
        let rates = [
            ("first", found.rates.first, fixed.map(|f| f.first)),
            ("second", found.rates.second, fixed.map(|f| f.second)),
        ];
        for (kind, rate, fixed) in rates {
            let column = format!("{}, {kind} kind", found.controller);
            report.cell("Mbit/s of a user", &row, column, (fixed, rate / SHARE, "Mbit/s"));
        }
    }
    for scenario in [Scenario::A, Scenario::C] {
        for ratio in [1.0, 3.0] {
            harm(&mut report, &all, (scenario, ratio));
        }
    }
    nothing_gained(&mut report, &all);
    upgrade(&mut report, &all);
    report.tables.push(table(&all));
    report.figures.push(figure(&all));
    Ok(report)
}

/// What is left to the others where both kinds are given the same: LIA against its fixed point,
/// OLIA against the optimum with the cost of probing.
fn harm(report: &mut Report, all: &All, (scenario, ratio): (Scenario, f64)) {
    let is = |case: &Case| {
        case.scenario == scenario && case.ratio() == ratio && (case.c1 - 1.0).abs() < 1e-9
    };
    let (name, id) = match scenario {
        Scenario::A => ("A: type 2 users", "a"),
        _ => ("C: single-path users", "c"),
    };
    for (controller, what) in [("lia", "fixed point"), ("olia", "optimum with the cost of probing")]
    {
        let Some(found) = all.of(controller, is) else { continue };
        let case = &found.case;
        let shall = if controller == "lia" { Some(case.lia()) } else { case.optimum() };
        let Some(shall) = shall.map(|rates| rates.second) else { continue };
        let ours = found.rates.second / SHARE;
        let verdict = Verdict::within(shall, ours, TOLERANCE, || {
            format!(
                "the shared path carries {:.3} Mbit/s of each multipath user here: at windows of a \
                 few segments a subflow is never below one or two of them a round trip",
                found.shared / SHARE
            )
        });
        let text = format!(
            "{name} have this share of C2 with {controller}, N1/N2 = {ratio}, C1 = C2 ({what}, \
             within {TOLERANCE})"
        );
        report.claim(&format!("{id}-{controller}-{ratio}"), &text, (shall, ours, ""), verdict);
    }
}

/// Problem P1: the upgrade brings those who upgrade nothing in scenario A.
fn nothing_gained(report: &mut Report, all: &All) {
    let of = all.0.iter().filter(|f| f.case.scenario == Scenario::A && f.controller == "lia");
    let most = of.map(|f| f.rates.first / SHARE / f.case.c1).fold(0.0, f64::max);
    let verdict = Verdict::when(most <= 1.01, || format!("{most:.3} of C1"));
    let text = "A: the second path brings type 1 users nothing with lia (most of C1 that any has)";
    report.claim("a-nothing", text, (1.0, most, ""), verdict);
}

/// Scenario B: what the upgrade of the Red users costs.
fn upgrade(report: &mut Report, all: &All) {
    let loss = |controller: &str| {
        let (before, after) = (all.b(controller, false)?.rates, all.b(controller, true)?.rates);
        let sum = |rates: theory::Rates| rates.first + rates.second;
        let percent = |after: f64, before: f64| 100.0 * (after / before - 1.0);
        Some((percent(after.first, before.first), percent(sum(after), sum(before))))
    };
    let (Some(lia), Some(olia)) = (loss("lia"), loss("olia")) else { return };
    let [before, after] = [false, true].map(|upgraded| {
        let case = all.b("lia", upgraded).map(|found| found.case.lia());
        case.unwrap_or(theory::Rates { first: f64::NAN, second: f64::NAN })
    });
    let blue = 100.0 * (after.first / before.first - 1.0);
    let both = 100.0 * ((after.first + after.second) / (before.first + before.second) - 1.0);
    let (split, losses) = all.b("lia", false).map_or((f64::NAN, f64::NAN), |found| found.split);
    let because = |ours: f64, shall: f64| {
        format!(
            "{ours:.1} % here, {shall:.1} % by the fixed point: before the upgrade Blue has \
             {split:.1} times as much by X as by T, where T loses only {losses:.1} times as much; \
             a window of a few segments carries less than the formula says, so that Blue has less \
             to lose"
        )
    };
    let verdict = Verdict::within(blue, lia.0, 10.0, || because(lia.0, blue));
    let text = "B, lia: what Blue users lose when Red users take a second path (fixed point, \
                within 10 points)";
    report.claim("b-blue", text, (blue, lia.0, "%"), verdict);
    let verdict = Verdict::within(both, lia.1, 5.0, || because(lia.1, both));
    let text = "B, lia: what all lose (fixed point, within 5 points)";
    report.claim("b-all", text, (both, lia.1, "%"), verdict);
    let verdict = Verdict::when(olia.1 > lia.1 / 2.0, || format!("lia loses {:.1} %", lia.1));
    let text = "B, olia: all lose less than half of what they lose with lia";
    report.claim("b-olia", text, ("less", olia.1, "%"), verdict);
}

fn table(all: &All) -> Table {
    let mut head = vec!["scenario".to_owned()];
    head.extend(CONTROLLERS.map(str::to_owned));
    head.extend(["fixed point of lia", "optimum with probing"].map(str::to_owned));
    let pair = |rates: theory::Rates| format!("{:.2} / {:.2}", rates.first, rates.second);
    let rows = all.0.chunks(CONTROLLERS.len()).map(|of| {
        let case = &of[0].case;
        let mut row = vec![case.words()];
        row.extend(of.iter().map(|found| {
            let theory::Rates { first, second } = found.rates;
            pair(theory::Rates { first: first / SHARE, second: second / SHARE })
        }));
        row.push(pair(case.lia()));
        row.push(case.optimum().map_or_else(String::new, pair));
        row
    });
    Table {
        title: "Mbit/s of a user of the first kind and of the second".to_owned(),
        head,
        rows: rows.collect(),
        caption:
            "On the wire; C2 is 1 Mbit/s. First and second kind: type 1 and type 2 in A, Blue \
                  and Red in B, multipath and single-path in C."
                .to_owned(),
    }
}

/// What is left to the second kind, over N1/N2 with C1 = C2.
fn figure(all: &All) -> Figure {
    let panel = |(scenario, title): (Scenario, &str)| {
        let of = |controller: &str| -> Vec<&Found> {
            let is = |f: &&Found| {
                f.case.scenario == scenario && f.controller == controller && f.case.c1 == 1.0
            };
            all.0.iter().filter(is).collect()
        };
        let mut series: Vec<Series> = CONTROLLERS
            .iter()
            .enumerate()
            .map(|(hue, controller)| Series {
                label: (*controller).to_owned(),
                hue,
                source: Whose::Ours,
                points: of(controller)
                    .iter()
                    .map(|f| (f.case.ratio(), f.rates.second / SHARE))
                    .collect(),
            })
            .collect();
        series.push(Series {
            label: "lia, fixed point".to_owned(),
            hue: 0,
            source: Whose::Paper,
            points: of("lia").iter().map(|f| (f.case.ratio(), f.case.lia().second)).collect(),
        });
        Panel::Plot(Plot {
            title: title.to_owned(),
            x: Axis::new("N1 / N2"),
            y: Axis { low: Some(0.0), ..Axis::new("share of C2 left to the second kind") },
            kind: Kind::Points,
            series,
        })
    };
    Figure {
        id: "left".to_owned(),
        title: "What multipath users leave to the others".to_owned(),
        caption: "C1 = C2 = 1 Mbit/s; scenario A: type 2; scenario C: single-path users."
            .to_owned(),
        columns: 2,
        panels: [(Scenario::A, "scenario A"), (Scenario::C, "scenario C")].map(panel).to_vec(),
    }
}

fn assumptions(report: &mut Report) {
    report.assume(
        "published values",
        "the fixed points of the paper's analysis, solved here",
        "its measured values are bars and curves",
    );
    report.assume(
        "queues",
        "RED: of 10 Mbit/s no drops up to 25 packets, 10 % at 50, all at 100; others in proportion",
        "as its testbed's routers are described; the weight of the average is not stated: 0.002",
    );
    report.assume(
        "round trips",
        "80 ms of propagation on every path, 110 to 150 ms with queues",
        "equal, as its analysis has them",
    );
    report.assume(
        "scenario B",
        "Red users' second path passes X and T; 27 and 36 Mbit/s, 15 users of each kind",
        "so that the capacities of the fixed point are those of its tables",
    );
    report.assume("stack", "minRTT, no tail reinjection, SACK", "the Linux implementation's");
    report.assume("runs", "120 s, two seeds (quick: 30 s, one)", "its own are 120 s long");
}
