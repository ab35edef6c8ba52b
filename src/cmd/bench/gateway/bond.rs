//! Row `bond`: one download over two links, beside what each of them carries alone through the
//! same gateway, and beside what they are said to carry.
//!
//! Goodput is measured from [`WARM`] on, when a download has found its rate. The two links alone
//! are measured at the same time, each through a gateway of its own: the machine then has as much
//! to do as with both together.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, Links, bed};
use super::tell;
use crate::bed::Bed;
use crate::bed::flow::Flow;
use crate::bed::source::Source;
use crate::say;
use anyhow::{anyhow, bail};
use std::thread;
use tabane_engine::Duration;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::model::{ConnStatus, SubflowStatus};
use tabane_gateway::request_channel::{Answer, Request};
use tabane_net::Clock;

const ROW: &str = "bond";

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

/// Between looks at the server's subflows, for `--verbose`.
const GLANCE: Duration = Duration::from_millis(250);

/// Runs all cases, or those that are asked for.
///
/// # Errors
/// A download that fails.
pub(super) fn measure(quick: bool, asked: &[Links], losses: &[f64]) -> anyhow::Result<Vec<Figure>> {
    let usual = PAIRS.iter().enumerate().filter(|(i, _)| !quick || QUICK.contains(i));
    let usual = usual.map(|(_, pair)| Links(pair.to_vec()));
    let cases = if asked.is_empty() { usual.collect() } else { asked.to_vec() };
    let losses = if losses.is_empty() { &LOSSES } else { losses };
    let mut figures = Vec::new();
    for Links(links) in cases {
        for &loss in losses {
            let links: Vec<Link> = links.iter().map(|&link| Link { loss, ..link }).collect();
            match links[..] {
                [a, b] => figures.extend(pair(a, b)?),
                _ => single(&links)?,
            }
        }
    }
    Ok(figures)
}

/// Both alone, then together.
fn pair(a: Link, b: Link) -> anyhow::Result<[Figure; 2]> {
    let alone = thread::scope(|scope| {
        let other = scope.spawn(|| goodput(&[b]));
        let one = goodput(&[a]);
        let other = other.join().map_err(|_| anyhow!("a measurement panicked"))?;
        anyhow::Ok([one?, other?])
    })?;
    let both = goodput(&[a, b])?;
    Ok(case([a, b], alone, both))
}

/// A link alone has nothing to be beside: it is told, and no figure.
fn single(links: &[Link]) -> anyhow::Result<()> {
    let bps = goodput(links)?;
    for link in links {
        let share = bps / link.bps() * 100.0;
        let title = format!("{link} ms, {} % loss, alone", link.loss);
        say::note(&format!("  {title}: {:.1} Mbit/s, {share:.1} % of its rate", bps / 1e6));
    }
    Ok(())
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
    let mut at = begin;
    while at < begin + LENGTH {
        at += GLANCE;
        thread::sleep(std::time::Duration::from_nanos(at.saturating_since(clock.now()).0));
        for connection in server_side(&bed)? {
            for subflow in connection.subflows {
                say::detail(&look(at - begin, links, &subflow));
            }
        }
    }
    let arrivals = flow.end()?;
    let ended = bed.end()?;
    let [half, most] = [0.5, 0.99].map(|share| ended.network.lateness.quantile_us(share));
    say::detail(&format!("    packets left the links {half} us late, 99 % within {most} us"));
    Ok(arrivals.bps(begin + WARM, begin + LENGTH))
}

/// The connections of the server, which sends.
fn server_side(bed: &Bed) -> anyhow::Result<Vec<ConnStatus>> {
    match bed.server.ask(Request::Connections)? {
        Answer::Connections(all) => Ok(all),
        other => bail!("the agent answered {other:?}"),
    }
}

/// What a subflow is like at a moment.
fn look(at: Duration, links: &[Link], subflow: &SubflowStatus) -> String {
    let links: Vec<String> = links.iter().map(Link::to_string).collect();
    let kilo = |bytes: u64| bytes / 1000;
    format!(
        "    {} at {} ms, {}: window {} kB, in flight {} kB, round trip {:.1} ms, sent {} kB, \
         again {} kB",
        links.join(" + "),
        at.as_millis(),
        subflow.path,
        kilo(subflow.cwnd_bytes),
        kilo(subflow.inflight_bytes),
        subflow.rtt_ms,
        kilo(subflow.tx_bytes),
        kilo(subflow.retransmitted_bytes),
    )
}
