//! Row `bundle`: one download over two links, beside what each of them carries alone through the
//! same gateway, and beside what they are said to carry.
//!
//! Goodput is measured from [`WARM`] on, when a download has found its rate. The two links alone
//! are measured at the same time, each through a gateway of its own: the machine then has as much
//! to do as with both together.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, bed};
use super::tell;
use crate::bed::flow::Flow;
use crate::bed::source::Source;
use anyhow::anyhow;
use std::thread;
use tabane_engine::Duration;
use tabane_gateway::config::Policies;
use tabane_net::Clock;

const ROW: &str = "bundle";

/// Of what the links carry alone.
const SHARE: Target = Target::new(0.90, 0.95);
/// Of what the better one carries alone.
const BESIDE: Target = Target::new(0.98, 1.00);

/// The pairs, each without and with loss.
const PAIRS: [[Link; 2]; 4] = [
    [Link::new(100, 10), Link::new(100, 60)],
    [Link::new(100, 20), Link::new(30, 80)],
    [Link::new(230, 20), Link::new(80, 50)],
    [Link::new(50, 40), Link::new(5, 80)],
];
/// Percent.
const LOSSES: [f64; 2] = [0.0, 1.0];
/// Pairs of a quick run.
const QUICK: [usize; 2] = [1, 2];

/// The first of a download is not counted.
const WARM: Duration = Duration::from_millis(2500);
const LENGTH: Duration = Duration::from_millis(6500);

/// Runs all cases.
///
/// # Errors
/// A download that fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (i, pair) in PAIRS.into_iter().enumerate() {
        if quick && !QUICK.contains(&i) {
            continue;
        }
        for loss in LOSSES {
            let [a, b] = pair.map(|link| Link { loss, ..link });
            let alone = thread::scope(|scope| {
                let other = scope.spawn(|| goodput(&[b]));
                let one = goodput(&[a]);
                let other = other.join().map_err(|_| anyhow!("a measurement panicked"))?;
                anyhow::Ok([one?, other?])
            })?;
            let both = goodput(&[a, b])?;
            figures.extend(case([a, b], alone, both));
        }
    }
    Ok(figures)
}

fn case(links: [Link; 2], alone: [f64; 2], both: f64) -> [Figure; 2] {
    let [a, b] = links;
    let title = format!("{a} + {b} ms, {} % loss", a.loss);
    let mega = |bps: f64| format!("{:.1}", bps / 1e6);
    let nominal = both / (a.bps() + b.bps());
    let note = format!(
        "{} Mbit/s of {} + {} alone; {:.1} % of the nominal rates",
        mega(both),
        mega(alone[0]),
        mega(alone[1]),
        nominal * 100.0,
    );
    let share = both / (alone[0] + alone[1]);
    let share = Figure::new(ROW, format!("{title}: of the sum"), (share, Unit::Share), SHARE);
    let share = share.note(note);
    let beside = both / alone[0].max(alone[1]);
    let what = format!("{title}: of the better one");
    let beside = Figure::new(ROW, what, (beside, Unit::Share), BESIDE);
    tell(&share);
    tell(&beside);
    [share, beside]
}

/// What a download over these links comes to, bits per second.
fn goodput(links: &[Link]) -> anyhow::Result<f64> {
    let (clock, source) = (Clock::start(), Source::start()?);
    let bed = bed(links, Policies::default(), |_| {})?;
    let begin = clock.now();
    let flow = Flow::start(clock, bed.socks, source.address())?;
    thread::sleep(std::time::Duration::from_nanos(LENGTH.0));
    let arrivals = flow.end()?;
    bed.end()?;
    Ok(arrivals.bps(begin + WARM, begin + LENGTH))
}
