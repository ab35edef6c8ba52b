//! What the paper says and what was found: shares, medians, and the bar that nobody is slower with
//! two paths than with the better one.

use super::design::CLASSES;
use super::measure::{Measured, OPENED, OURS, PAPERS, STACKS};
use super::why::{Count, Slowness, from_best, from_worst};
use crate::report::{Report, Table, Verdict};
use crate::stats;

/// Percent of the transfers of a class that gain by the second path, as printed: of the paper's
/// MPTCP and of its MPQUIC. Of the classes with losses it prints none.
const PUBLISHED: [(usize, f64, f64); 2] = [(0, 45.0, 77.0), (2, 20.0, 58.0)];

/// Percentage points within which a share is the same.
const TOLERANCE: f64 = 10.0;

/// Where a connection begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begins {
    /// On the path that gives more alone.
    Best,
    Worst,
}

/// The results of a class.
pub(super) struct Class<'a> {
    pub(super) number: usize,
    pub(super) all: Vec<&'a Measured>,
}

impl<'a> Class<'a> {
    pub(super) fn of(all: &'a [Measured], number: usize) -> Self {
        Self { number, all: all.iter().filter(|one| one.class == number).collect() }
    }

    /// Benefits of a stack, sorted.
    pub(super) fn benefits(&self, stack: usize, begins: Begins) -> Vec<f64> {
        let from = |one: &Measured| match begins {
            Begins::Best => one.best(stack),
            Begins::Worst => 1 - one.best(stack),
        };
        let mut all: Vec<f64> = self.all.iter().map(|one| one.benefit(stack, from(one))).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn both(&self, stack: usize) -> Vec<f64> {
        [Begins::Best, Begins::Worst].map(|begins| self.benefits(stack, begins)).concat()
    }

    fn median(&self, stack: usize, begins: Begins) -> f64 {
        stats::median(&self.benefits(stack, begins)).unwrap_or(f64::NAN)
    }

    /// Percent of the transfers that gain.
    fn gain(&self, stack: usize) -> f64 {
        let all = self.both(stack);
        100.0 * all.iter().filter(|b| **b > 0.0).count() as f64 / all.len().max(1) as f64
    }

    /// Median goodput from either path, Mbit/s.
    fn goodput(&self, stack: usize) -> f64 {
        let all: Vec<f64> = self.all.iter().flat_map(|one| one.together[stack]).collect();
        stats::median(&all).unwrap_or(f64::NAN)
    }
}

pub(super) fn tell(report: &mut Report, all: &[Measured]) {
    let classes: Vec<Class<'_>> = (0..CLASSES.len()).map(|n| Class::of(all, n)).collect();
    cells(report, &classes);
    claims(report, &classes);
    targets(report, &classes);
    for class in &classes {
        never_slower(report, class);
    }
    report.tables.push(table(&classes));
}

fn cells(report: &mut Report, classes: &[Class<'_>]) {
    for class in classes {
        let name = CLASSES[class.number].name;
        for (n, stack) in STACKS.iter().enumerate() {
            for (words, begins) in [("best", Begins::Best), ("worst", Begins::Worst)] {
                let table = format!("Median benefit, {words} path first");
                report.cell(&table, stack.name, name, (None, class.median(n, begins), ""));
            }
        }
        for (n, stack) in STACKS.iter().enumerate() {
            let published = PUBLISHED.iter().find(|p| p.0 == class.number).map(|p| p.1);
            let published = published.filter(|_| n == PAPERS);
            report.cell("Transfers that gain", stack.name, name, (published, class.gain(n), "%"));
        }
    }
}

fn claims(report: &mut Report, classes: &[Class<'_>]) {
    for (number, mptcp, _) in PUBLISHED {
        let class = &classes[number];
        let (id, name) = (CLASSES[number].id, CLASSES[number].name);
        let share = class.gain(PAPERS);
        let verdict = Verdict::within(mptcp, share, TOLERANCE, || {
            format!(
                "here {share:.0} % gain, medians {:.2} from the best path and {:.2} from the \
                 worst; see the table of queues",
                class.median(PAPERS, Begins::Best),
                class.median(PAPERS, Begins::Worst)
            )
        });
        let text = format!(
            "{name}: transfers that gain by the second path with the paper's MPTCP, minRTT and \
             OLIA (within {TOLERANCE:.0} points)"
        );
        report.claim(&format!("{id}-gain"), &text, (mptcp, share, "%"), verdict);
    }
    for class in classes {
        let (id, name) = (CLASSES[class.number].id, CLASSES[class.number].name);
        let ours = format!(
            "{:.2}, {:.2}",
            class.median(PAPERS, Begins::Best),
            class.median(PAPERS, Begins::Worst)
        );
        let why = "the paper has boxes, whose medians are not printed".to_owned();
        let text = format!(
            "{name}: median benefit of the paper's MPTCP, from the best path and from the worst"
        );
        let verdict = Verdict::Unknown(why);
        report.claim(&format!("{id}-median"), &text, (None, ours, ""), verdict);
    }
}

fn targets(report: &mut Report, classes: &[Class<'_>]) {
    for (number, _, mpquic) in PUBLISHED {
        let share = classes[number].gain(OURS);
        let text = format!(
            "{}: more transfers gain by the second path with necf than with the paper's MPQUIC",
            CLASSES[number].name
        );
        let verdict = Verdict::when(share > mpquic, || format!("{share:.0} % gain"));
        report.target(
            &format!("{}-quic", CLASSES[number].id),
            &text,
            (mpquic, share, "%"),
            verdict,
        );
    }
    for class in classes {
        let (id, name) = (CLASSES[class.number].id, CLASSES[class.number].name);
        let others = (0..STACKS.len()).filter(|n| ![OURS, OPENED].contains(n));
        let best = others.max_by(|a, b| class.goodput(*a).total_cmp(&class.goodput(*b)));
        let Some(best) = best else { continue };
        let (bound, ours) = (class.goodput(best), class.goodput(OURS));
        let verdict = Verdict::when(ours >= bound, || {
            format!("{} has {:.1} % more", STACKS[best].name, 100.0 * (bound / ours - 1.0))
        });
        let text = format!("{name}: median goodput of necf at least that of each other stack");
        report.target(&format!("{id}-goodput"), &text, (bound, ours, "Mbit/s"), verdict);
    }
}

/// The bar: nobody is slower with two paths than with the better one.
fn never_slower(report: &mut Report, class: &Class<'_>) {
    let (id, name) = (CLASSES[class.number].id, CLASSES[class.number].name);
    let text = format!("{name}: necf is never slower than the best path alone, begun on it");
    bar(report, (&format!("{id}-never"), &text), class, from_best);
    let text = format!(
        "{name}: begun on the worst path, necf is never later than the best path alone begun two \
         of the worst path's round trips later, before which nobody joins"
    );
    bar(report, (&format!("{id}-never-late"), &text), class, from_worst);
}

fn bar(report: &mut Report, (id, text): (&str, &str), class: &Class<'_>, slowness: Slowness) {
    let of = |one: &&Measured| slowness(one, OURS);
    let Some(worst) = class.all.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b))) else {
        return;
    };
    let count = |stack| Count::of(class.all.iter().map(|one| slowness(one, stack)));
    let (plain, open) = (count(OURS), count(OPENED));
    let verdict = Verdict::when(plain.slower == 0, || {
        let [first, second] = worst.paths.map(|path| path.words());
        format!(
            "{} of {} are slower, {} of them by more than 2 %; where both have a receive window of \
             1 MiB at once {} and {}; worst: {first}; {second}",
            plain.slower,
            class.all.len(),
            plain.clearly,
            open.slower,
            open.clearly
        )
    });
    let text = format!("{text} (the least aggregation benefit, negated)");
    report.target(id, &text, (0.0, 100.0 * of(&worst), "%"), verdict);
}

fn table(classes: &[Class<'_>]) -> Table {
    let mut head = vec!["stack".to_owned()];
    for class in classes {
        head.push(format!("{}: Mbit/s", CLASSES[class.number].name));
        head.push("benefit from the best / worst path".to_owned());
        head.push("gain, %".to_owned());
    }
    let row = |n: usize| {
        let mut row = vec![STACKS[n].name.to_owned()];
        for class in classes {
            let [best, worst] = [Begins::Best, Begins::Worst].map(|b| class.median(n, b));
            row.push(format!("{:.1}", class.goodput(n)));
            row.push(format!("{best:.2} / {worst:.2}"));
            row.push(format!("{:.0}", class.gain(n)));
        }
        row
    };
    Table {
        title: "Stacks by class".to_owned(),
        head,
        rows: (0..STACKS.len()).map(row).collect(),
        caption: "Medians. Benefit: 0 as the best path alone, 1 as the sum of both. Those with \
                  cubicd are compared with MPTCP and cubicd over one path, the others with TCP \
                  CUBIC, as in the paper; so benefits of the two groups cannot be compared, \
                  Mbit/s can."
            .to_owned(),
    }
}
