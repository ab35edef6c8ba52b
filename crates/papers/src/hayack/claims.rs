//! The paper's own runs: HayACK and plain MPTCP beside TCP, at four RTTs.

use super::watch::START;
use super::{CAPTURED, Case, Outcome, PURE, RTTS, Regime, UNDER_WAY};
use super::{geometric_words, mean, ratio, repetitions};
use crate::context::Context;
use crate::report::{Report, Table, Verdict};
use crate::{PaperError, stats};
use tabane_trace::analysis::Label;

/// Ways of B, as the report calls them.
pub(super) const WAYS: [(&str, &str); 5] = [
    (PURE, "HayACK"),
    ("own", "plain MPTCP"),
    ("hayack", "HayACK, ours"),
    ("hayack-fair", "HayACK, compensated"),
    ("tcp", "TCP (control)"),
];

/// Repetitions of one way at one RTT.
pub(super) struct Point {
    pub(super) rtt: u32,
    pub(super) way: &'static str,
    pub(super) runs: Vec<Outcome>,
}

impl Point {
    /// Mean over the repetitions.
    pub(super) fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.runs, of)
    }

    /// The same with its 95 % interval.
    fn interval(&self, of: impl Fn(&Outcome) -> f64, digits: usize) -> String {
        let found = stats::estimate(&self.runs.iter().map(of).collect::<Vec<_>>());
        found.map_or("–".to_owned(), |found| words(found, digits))
    }
}

/// Of an estimate.
fn words(found: stats::Estimate, digits: usize) -> String {
    let stats::Estimate { mean, half_width } = found;
    format!("{mean:.digits$} ± {half_width:.digits$}")
}

pub(super) fn run(context: &Context<'_>, regime: Regime) -> Result<Vec<Point>, PaperError> {
    let seeds = context.seeds(repetitions(context));
    let mut cases = Vec::new();
    for rtt in RTTS {
        for (egress, _) in WAYS {
            let captures = CAPTURED.contains(&egress);
            let case = |&seed: &u64| Case { captures, ..Case::new(rtt, egress, regime, seed) };
            cases.extend(seeds.iter().map(case));
        }
    }
    let mut outcomes = context.each("shares", &cases, |case| case.run(context))?.into_iter();
    let mut points = Vec::new();
    for (rtt, _) in RTTS {
        for (way, _) in WAYS {
            points.push(Point { rtt, way, runs: outcomes.by_ref().take(seeds.len()).collect() });
        }
    }
    Ok(points)
}

fn point<'a>(points: &'a [Point], rtt: u32, way: &str) -> Option<&'a Point> {
    points.iter().find(|p| p.rtt == rtt && p.way == way)
}

/// `stated`: with what the paper states, which its claims are judged by; `large`: where only
/// congestion control limits anybody.
pub(super) fn report(report: &mut Report, stated: &[Point], large: &[Point]) {
    for (points, regime) in [(stated, ""), (large, ", large buffers")] {
        cells(report, points, regime);
    }
    let both = [stated, large];
    equal_paths(report, both);
    above_tcp(report, both);
    peak(report, both);
    steady(report, both);
    losses(report, both);
    ceiling(report, both);
    captures(report, both);
    beyond(report, large);
}

fn cells(report: &mut Report, points: &[Point], regime: &str) {
    let named = |what: &str| format!("{what}{regime}");
    let mut rows = Vec::new();
    for p in points {
        let name = WAYS.iter().find(|(way, _)| *way == p.way).map_or(p.way, |(_, name)| name);
        let row = format!("{} ms", p.rtt);
        report.cell(&named("Jain's index"), &row, name, (None, p.mean(Outcome::mean_jain), ""));
        report.cell(&named("B over TCP on Link1"), &row, name, (None, ratio(&p.runs), ""));
        let rate = p.mean(Outcome::aggregate);
        report.cell(&named("goodput of B"), &row, name, (None, rate, "Mbit/s"));
        rows.push(vec![
            row,
            (*name).to_owned(),
            p.interval(Outcome::mean_jain, 3),
            format!("{:.3}", ratio(&p.runs)),
            geometric_words(&p.runs, 3),
            p.interval(|o| o.rates()[0], 2),
            p.interval(|o| o.rates()[1], 2),
            p.interval(Outcome::aggregate, 2),
        ]);
    }
    let head = ["RTT of Link1", "B", "Jain's index", "B over TCP on Link1"];
    let rates = ["geometric mean of it", "TCP, Mbit/s", "B by Link1", "B"];
    report.tables.push(Table {
        title: named("Means of the repetitions and their 95 % intervals"),
        head: head.into_iter().chain(rates).map(str::to_owned).collect(),
        rows,
        caption: "From the first packet at 5 s to the end at 60 s, slow start included. B over \
                  TCP is the ratio of the mean rates; the geometric mean is that of the \
                  repetitions' ratios, with its interval."
            .to_owned(),
    });
}

/// A value of each regime, as a claim says them.
fn pair(values: [f64; 2], digits: usize) -> String {
    let [stated, large] = values;
    format!("{stated:.digits$}; {large:.digits$} with large buffers")
}

/// What holds as stated is reproduced; what holds with large buffers alone is so in part.
fn judge([stated, large]: [bool; 2], why_not: impl FnOnce() -> String) -> Verdict {
    match (stated, large) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::Partly(format!("with large buffers; as stated {}", why_not())),
        (false, false) => Verdict::Not(why_not()),
    }
}

/// Why so little of B is on Link1 with the buffers that the paper states.
const IDLE: &str = "what B's send buffer lets it send goes by Link2, whose RTT is the least, at \
                    every rate and RTT of Link2 that was tried";

fn equal_paths(report: &mut Report, both: [&[Point]; 2]) {
    let jain = |points| point(points, 5, PURE).map_or(0.0, |p| p.mean(Outcome::mean_jain));
    let jain = both.map(jain);
    let verdict = judge(jain.map(|jain| jain >= 0.95), || IDLE.to_owned());
    let text = "at 5 ms, where both paths are equal, HayACK is fair";
    report.claim("equal", text, (1.0, pair(jain, 3), ""), verdict);
}

fn above_tcp(report: &mut Report, both: [&[Point]; 2]) {
    let share = |points, rtt: u32| point(points, rtt, PURE).map_or(0.0, |p| p.mean(Outcome::above));
    let shares = both.map(|points| [100, 250, 350].map(|rtt| share(points, rtt)));
    let words = |[a, b, c]: [f64; 3]| format!("{a:.0}, {b:.0}, {c:.0} % of the seconds");
    let found = format!("{}; with large buffers {}", words(shares[0]), words(shares[1]));
    let always = shares.map(|shares| shares.iter().all(|share| *share >= 95.0));
    let verdict = judge(always, || format!("it is not: {IDLE}; with large ones both have losses"));
    let text = "from 100 ms on HayACK is above TCP all the time (100, 250, 350 ms)";
    report.claim("above", text, ("all the time", found, ""), verdict);
}

fn peak(report: &mut Report, both: [&[Point]; 2]) {
    let most = |points: &[Point], way: &str| {
        let slow = points.iter().filter(|p| p.way == way && p.rtt > 5);
        slow.map(|p| p.mean(Outcome::peak)).fold(0.0, f64::max)
    };
    let [hayack, plain] = [PURE, "own"].map(|way| both.map(|points| most(points, way)));
    let verdict = judge(hayack.map(|most| (3.0..=5.0).contains(&most)), || {
        format!(
            "the largest is {:.1}, but plain MPTCP, whose loop is not shorter, has {:.1}; with \
             large buffers {:.1} and {:.1}. What remains as stated is the first flight: ten full \
             segments of B against one of 536 bytes of ns-3's TCP",
            hayack[0], plain[0], hayack[1], plain[1]
        )
    });
    let text = "HayACK gets up to about four times TCP's rate at some instants (maximum; beside \
                it plain MPTCP's)";
    let words = |at: usize| format!("{:.1} (plain {:.1})", hayack[at], plain[at]);
    let found = format!("{} times; with large buffers {}", words(0), words(1));
    report.claim("peak", text, ("4 times", found, ""), verdict);
}

fn steady(report: &mut Report, both: [&[Point]; 2]) {
    let most = |points: &[Point]| {
        let ours = points.iter().filter(|p| p.way == PURE);
        ours.map(|p| p.mean(Outcome::unsteady) * 100.0).fold(0.0, f64::max)
    };
    let most = both.map(most);
    let verdict = judge(most.map(|most| most <= 10.0), || format!("it strays by {:.0} %", most[0]));
    let text = format!(
        "Link2's throughput is steady from {UNDER_WAY} s after the start on (standard deviation \
         of its seconds, of the mean)"
    );
    report.claim("steady", &text, ("steady", pair(most, 1), "%"), verdict);
}

/// The four classes of the paper, of all repetitions at 100 to 350 ms.
fn errors(points: &[Point], way: &str, of: impl Fn(&Outcome) -> u64) -> u64 {
    let found = [100, 250, 350].map(|rtt| point(points, rtt, way));
    let runs = found.into_iter().flatten().flat_map(|p| &p.runs);
    runs.map(of).sum()
}

fn losses(report: &mut Report, both: [&[Point]; 2]) {
    let on_link1 = |points, way: &str| errors(points, way, |o| o.watch.on_link1.errors());
    let found = both.map(|points| ["own", PURE].map(|way| on_link1(points, way)));
    let few = found.map(|[plain, hayack]| plain > 0 && hayack * 4 <= plain);
    let verdict = judge(few, || format!("neither has any: {IDLE}"));
    let words = found.map(|[plain, hayack]| format!("{hayack} against {plain}"));
    let text = "on Link1 plain MPTCP shows periodic error packets, HayACK few (four classes, 100 \
                to 350 ms, all repetitions)";
    let words = words.join("; with large buffers ");
    report.claim("losses", text, ("few against periodic", words, ""), verdict);
}

/// Of TCP's rate, what B has to carry on Link1 for its windows there to say anything.
const USED: f64 = 0.05;

/// Seconds from the start within which a window that reaches its limit does so early.
const EARLY: f64 = 10.0;

/// What HayACK's window on Link1 comes to.
struct Ceiling {
    /// B over TCP on Link1.
    share: f64,
    /// Whether the receive window is early at its limit in every run, and how near to it it comes.
    early: bool,
    window: f64,
    timeouts: f64,
    falls: f64,
}

impl Ceiling {
    fn of(p: &Point) -> Self {
        let early = |o: &Outcome| o.watch.window.full_at.is_some_and(|at| at <= START + EARLY);
        Self {
            share: ratio(&p.runs),
            early: p.runs.iter().all(early),
            window: p.mean(|o| o.watch.window.most),
            timeouts: p.mean(|o| o.watch.flows[1].timeouts as f64),
            falls: p.mean(falls),
        }
    }

    /// Why it is not as in the paper, if it is not.
    fn why_not(&self) -> Option<String> {
        let Self { share, early, window, timeouts, falls } = *self;
        if share <= USED {
            return Some(format!("B hardly uses Link1 ({share:.3} of TCP's rate)"));
        }
        if !early {
            let percent = 100.0 * window;
            return Some(format!(
                "the receive window is not at its limit within {EARLY} s (at most {percent:.0} %)"
            ));
        }
        (timeouts > 0.0 || falls > 0.0).then(|| {
            format!("there are {timeouts:.1} timeouts, and bytes out fall {falls:.1} times")
        })
    }

    fn words(&self) -> String {
        let Self { share, window, timeouts, falls, .. } = self;
        format!(
            "timeouts {timeouts:.1}, falls {falls:.1}, window {:.0} % of its limit, B {share:.3} \
             of TCP's rate",
            100.0 * window
        )
    }
}

fn ceiling(report: &mut Report, both: [&[Point]; 2]) {
    let [Some(stated), Some(large)] = both.map(|points| point(points, 350, PURE)) else { return };
    let found = [stated, large].map(Ceiling::of);
    let why = found.each_ref().map(Ceiling::why_not);
    let verdict = match &why {
        [None, _] => Verdict::Reproduced,
        [Some(stated), None] => {
            Verdict::Partly(format!("with large buffers; as stated it says nothing, as {stated}"))
        }
        [Some(stated), Some(large)] => {
            Verdict::Not(format!("as stated {stated}; with large buffers {large}"))
        }
    };
    let text = "at 350 ms HayACK's window reaches its limit early, no timeout follows, and on \
                Link1 bytes out only rise";
    let words = format!("{}; with large buffers {}", found[0].words(), found[1].words());
    report.claim("ceiling", text, ("none", words, ""), verdict);
}

/// How often bytes out fall in the capture on Link1.
fn falls(outcome: &Outcome) -> f64 {
    let out = &outcome.watch.flows[1].captured.out;
    out.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

/// What the same packets are called where the ACKs are seen, and where they are not.
fn captures(report: &mut Report, both: [&[Point]; 2]) {
    let mut rows = Vec::new();
    for (points, regime) in both.into_iter().zip(["as stated", "large"]) {
        for (rtt, _) in RTTS {
            for (way, name) in &WAYS[..2] {
                let Some(p) = point(points, rtt, way) else { continue };
                let mean =
                    |of: &dyn Fn(&Outcome) -> u64| format!("{:.1}", p.mean(|o| of(o) as f64));
                let mut row = vec![regime.to_owned(), format!("{rtt} ms"), (*name).to_owned()];
                row.push(mean(&|o| o.watch.lost));
                for n in 0..Label::ERRORS.len() {
                    let seen = [
                        mean(&|o| o.watch.on_link1.counts[n]),
                        mean(&|o| o.watch.at_sender.counts[n]),
                    ];
                    row.push(seen.join(" / "));
                }
                rows.push(row);
            }
        }
    }
    let head = ["buffers", "RTT of Link1", "B", "segments lost on Link1"];
    let labels = Label::ERRORS.iter().map(|label| label.name());
    report.tables.push(Table {
        title: "Error packets on Link1 / at B".to_owned(),
        head: head.into_iter().chain(labels).map(str::to_owned).collect(),
        rows,
        caption:
            "Of B's first subflow, means of the repetitions: in a capture on Link1, where the \
                  paper's is, and in one of both paths at B."
                .to_owned(),
    });
    seen(report, both[1]);
}

/// What is counted of a run: its name, and how much of it there is.
type Count = (&'static str, fn(&Outcome) -> u64);

const COUNTS: [Count; 7] = [
    ("segments that Link1 lost", |o| o.watch.lost),
    ("packets of the paper's four classes, captured on Link1", |o| o.watch.on_link1.errors()),
    ("the same packets, captured at B on both paths", |o| o.watch.at_sender.errors()),
    ("duplicate ACKs among them, on Link1", |o| o.watch.on_link1.of(Label::DuplicateAck)),
    ("duplicate ACKs among them, at B", |o| o.watch.at_sender.of(Label::DuplicateAck)),
    ("out of order, which the paper does not plot, on Link1", |o| {
        o.watch.on_link1.of(Label::OutOfOrder)
    }),
    ("times that bytes out fall on Link1", |o| falls(o) as u64),
];

/// The same runs, seen by the paper's capture and by one that has the ACKs: sums.
fn seen(report: &mut Report, points: &[Point]) {
    let counts = COUNTS.map(|(_, of)| [PURE, "own"].map(|way| errors(points, way, of)));
    let row = |((name, _), [hayack, plain]): (&Count, &[u64; 2])| {
        vec![(*name).to_owned(), hayack.to_string(), plain.to_string()]
    };
    report.tables.push(Table {
        title: "What the same runs look like to two captures".to_owned(),
        head: ["large buffers, 100 to 350 ms, all repetitions", "HayACK", "plain MPTCP"]
            .map(str::to_owned)
            .to_vec(),
        rows: COUNTS.iter().zip(&counts).map(row).collect(),
        caption: "Sums, by Wireshark's rules.".to_owned(),
    });
    let [[lost, plain_lost], [on_link1, plain], [at_b, _], ..] = counts;
    report.note(format!(
        "Where the capture is decides what figures 5 and 6 show. With large buffers (100 to 350 \
         ms, all repetitions) HayACK lost {lost} segments on Link1; the same packets are \
         {on_link1} error packets of the paper's four classes in a capture on Link1 and {at_b} in \
         one at B. Plain MPTCP lost {plain_lost}, and shows {plain} on Link1. HayACK's ACKs are \
         not on Link1: duplicate ACKs cannot be counted there, what is sent again is no fast \
         retransmission without them, and bytes out, which no ACK takes down, only rise, whatever \
         is lost. As files for Wireshark: `tabane sim run papers/hayack/shared.toml --set \
         'defaults.egress={PURE}' --out results --pcap link1`, and the same with `--pcap b`."
    ));
}

fn beyond(report: &mut Report, points: &[Point]) {
    for (rtt, _) in RTTS {
        let [fair, plain, control] =
            ["hayack-fair", "own", "tcp"].map(|way| point(points, rtt, way));
        let (Some(fair), Some(plain), Some(control)) = (fair, plain, control) else { continue };
        fairness(report, fair, control);
        more_than_plain(report, fair, plain);
    }
}

/// Whether a mean is above a bound: what its interval spans is not decided by these repetitions.
fn above(found: stats::Estimate, (bound, unit): (f64, &str), why_not: &str) -> Verdict {
    let is = format!("it is {}{unit}", words(found, 3));
    let spans = "the bound is within the 95 % interval";
    match (found.mean > bound, (found.mean - bound).abs() < found.half_width) {
        (true, false) => Verdict::Reproduced,
        (true, true) => Verdict::Partly(format!("{is}, and {spans}")),
        (false, true) => Verdict::Not(format!("{is}, and {spans}; {why_not}")),
        (false, false) => Verdict::Not(format!("{is}; {why_not}")),
    }
}

fn fairness(report: &mut Report, fair: &Point, control: &Point) {
    let jain: Vec<f64> = fair.runs.iter().map(Outcome::mean_jain).collect();
    let Some(found) = stats::estimate(&jain) else { return };
    let beside = control.interval(Outcome::mean_jain, 3);
    let why_not = format!("of two plain TCP flows in the same place it is {beside}");
    let verdict = above(found, (0.95, ""), &why_not);
    let rtt = fair.rtt;
    let text = format!("mean Jain's index of hayack-fair with Reno beside TCP at {rtt} ms");
    report.target(&format!("jain-{rtt}"), &text, (0.95, found.mean, ""), verdict);
}

fn more_than_plain(report: &mut Report, fair: &Point, plain: &Point) {
    // Runs with the same seed start alike, so that their differences say more than their means.
    let pairs = fair.runs.iter().zip(&plain.runs);
    let more: Vec<f64> = pairs.map(|(f, p)| f.aggregate() - p.aggregate()).collect();
    let Some(found) = stats::estimate(&more) else { return };
    let why_not =
        "Link2 is full in both, and a fair share of Link1 is what plain MPTCP has already";
    let verdict = above(found, (0.0, " Mbit/s more"), why_not);
    let rtt = fair.rtt;
    let text = format!("goodput of hayack-fair above that of plain MPTCP at {rtt} ms");
    let values = (plain.mean(Outcome::aggregate), fair.mean(Outcome::aggregate), "Mbit/s");
    report.target(&format!("goodput-{rtt}"), &text, values, verdict);
}
