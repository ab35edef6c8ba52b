//! Row `failover`: under a download over two links each of them becomes a black hole for a while.
//! How long the program then gets nothing, and how long the link takes to carry its share again.

use super::figure::{Figure, Target, Unit};
use super::link::{Link, bed};
use super::tell;
use crate::bed::flow::{Arrivals, Flow};
use crate::bed::source::Source;
use crate::bed::{Bed, status};
use crate::say;
use std::sync::atomic::Ordering;
use std::thread;
use tabane_engine::{Duration, Instant};
use tabane_gateway::config::client::ClientConfig;
use tabane_gateway::config::rule::Policies;
use tabane_gateway::model::Role;
use tabane_gateway::request_channel::{Answer, Request};
use tabane_net::Clock;

const ROW: &str = "failover";
const GAP: Target = Target::new(1.0, 0.3);
const BACK: Target = Target::new(2.0, 1.0);

/// The first carries most.
const LINKS: [Link; 2] = [Link::new(100, 20), Link::new(50, 40)];
/// Before the first failure.
const WARM: Duration = Duration::from_millis(2500);
/// A secondary comes in only when the primary has been full for two seconds.
const WARM_SECONDARY: Duration = Duration::from_millis(6000);
/// A link that carried less has no share to come back to.
const LEAST_BPS: f64 = 1e6;
/// A link is away for so long.
const AWAY: Duration = Duration::from_millis(2000);
/// And then there for so long before the next one goes.
const THERE: Duration = Duration::from_millis(3500);
/// Over which rates are taken: what it carried before, and what it carries again.
const BEFORE: Duration = Duration::from_millis(1000);
const AGAIN: Duration = Duration::from_millis(250);
/// Of its rate before; the rest is noise of a short time.
const SHARE: f64 = 0.8;
/// Between looks at the paths' counters.
const GLANCE: std::time::Duration = std::time::Duration::from_millis(20);

/// Of the rates that `--verbose` shows.
const STEP: Duration = Duration::from_millis(100);

/// Bytes that had come by each path, by time.
type Counts = Vec<(Instant, [u64; 2])>;

/// Both links with the same role, then one that only helps, then one that only stands by.
///
/// # Errors
/// The download fails.
pub(super) fn measure(quick: bool) -> anyhow::Result<Vec<Figure>> {
    let mut figures = run("two primaries", WARM, |_| {})?;
    if !quick {
        figures.extend(run("primary and secondary", WARM_SECONDARY, |config| {
            config.path[1].role = Role::Secondary;
        })?);
        // It carries nothing, so that nothing tells that the primary alone is at fault.
        figures.extend(run("primary and backup", WARM, |config| {
            config.path[1].role = Role::Backup;
        })?);
    }
    Ok(figures)
}

fn run(title: &str, warm: Duration, client: fn(&mut ClientConfig)) -> anyhow::Result<Vec<Figure>> {
    let (clock, source) = (Clock::start(), Source::start()?);
    let bed = bed(&LINKS, Policies::default(), client)?;
    let flow = Flow::start(clock, bed.socks, source.address())?;
    let mut counts = Counts::new();
    watch(&bed, clock, clock.now() + warm, &mut counts)?;
    let mut moments = Vec::new();
    for link in 0..LINKS.len() {
        let cut = clock.now();
        bed.cut[link].store(true, Ordering::Relaxed);
        watch(&bed, clock, cut + AWAY, &mut counts)?;
        let back = clock.now();
        bed.cut[link].store(false, Ordering::Relaxed);
        watch(&bed, clock, back + THERE, &mut counts)?;
        moments.push((link, cut, back, clock.now()));
    }
    let arrivals = flow.end()?;
    details(&bed, &counts, &moments)?;
    bed.end()?;
    let mut figures = Vec::new();
    for (link, cut, back, end) in moments {
        let name = if link == 0 { "the larger link" } else { "the smaller link" };
        let gap = arrivals.longest_gap(cut, end).as_secs_f64();
        let what = format!("{title}, {name} dies: longest gap");
        let gap = Figure::new(ROW, what, (gap, Unit::Seconds), GAP);
        figures.push(gap.note(meanwhile(&arrivals, cut, back)));
        figures.push(returned(&format!("{title}, {name} returns: to its share"), &counts, {
            (link, cut, back, end)
        }));
    }
    figures.iter().for_each(tell);
    Ok(figures)
}

/// For `--verbose`: what each path carried, and what both agents say has happened.
fn details(
    bed: &Bed,
    counts: &Counts,
    moments: &[(usize, Instant, Instant, Instant)],
) -> anyhow::Result<()> {
    for &(link, cut, back, end) in moments {
        let ms = |at: Instant| at.saturating_since(cut).as_millis();
        say::detail(&format!("link {link} dies at 0 ms, is there again at {} ms", ms(back)));
        let mut at = cut;
        while at + STEP < end {
            let [a, b] = [0, 1].map(|link| bps(counts, link, at, at + STEP) / 1e6);
            say::detail(&format!("  from {:>4} ms: {a:6.1} + {b:5.1} Mbit/s", ms(at)));
            at += STEP;
        }
    }
    for (name, agent) in [("client", &bed.client), ("server", &bed.server)] {
        if let Answer::Events(all) = agent.ask(Request::Events { since: 0 })? {
            for h in all {
                let time = h.unix_ms % 100_000;
                say::detail(&format!("  {name} at ...{time:05} ms: {} {}", h.kind, h.text));
            }
        }
    }
    Ok(())
}

/// What the download was before and while the link was away.
fn meanwhile(arrivals: &Arrivals, cut: Instant, back: Instant) -> String {
    let before = arrivals.bps(Instant(cut.0.saturating_sub(BEFORE.0)), cut) / 1e6;
    let away = arrivals.bps(cut + (back - cut) / 2, back) / 1e6;
    format!("{before:.0} Mbit/s before, {away:.0} while it was away")
}

/// When a link that has come back carries its share again.
fn returned(
    what: &str,
    counts: &Counts,
    (link, cut, back, end): (usize, Instant, Instant, Instant),
) -> Figure {
    let before = bps(counts, link, Instant(cut.0.saturating_sub(BEFORE.0)), cut);
    if before < LEAST_BPS {
        let why = "it carried nothing before: it has no share to come back to";
        return Figure::skipped(ROW, what, Unit::Seconds, BACK, why);
    }
    let carries = |at: Instant| bps(counts, link, at, at + AGAIN) >= SHARE * before;
    let moments = counts.iter().map(|(at, _)| *at);
    let mut moments = moments.filter(|at| *at >= back && *at + AGAIN <= end);
    let found = moments.find(|at| carries(*at));
    // What has not come by the end has taken at least that long.
    let at = found.unwrap_or(end).saturating_since(back).as_secs_f64();
    let mut note = format!("it carried {:.0} Mbit/s before", before / 1e6);
    if found.is_none() {
        note += "; it did not come to that again";
    }
    Figure::new(ROW, what, (at, Unit::Seconds), BACK).note(note)
}

/// Notes what each path has carried until then.
fn watch(bed: &Bed, clock: Clock, until: Instant, counts: &mut Counts) -> anyhow::Result<()> {
    while clock.now() < until {
        let status = status(&bed.client)?;
        let bytes = |link: usize| status.paths.get(link).map_or(0, |path| path.rx_bytes);
        counts.push((clock.now(), [bytes(0), bytes(1)]));
        thread::sleep(GLANCE);
    }
    Ok(())
}

/// What a path carried between two moments, bits per second.
fn bps(counts: &Counts, link: usize, from: Instant, to: Instant) -> f64 {
    let bytes = |at: Instant| {
        let after = counts.partition_point(|(then, _)| *then <= at);
        after.checked_sub(1).map_or(0, |last| counts[last].1[link])
    };
    (bytes(to) - bytes(from)) as f64 * 8.0 / to.saturating_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::super::figure::Verdict;
    use super::*;

    /// A link that carries 8 Mbit/s, nothing while it is away, and the same from some time on.
    #[test]
    fn the_return_of_a_link_is_when_it_carries_its_share() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let counts = |from: u64| -> Counts {
            let bytes = |ms: u64| ms.min(2000) * 1000 + ms.saturating_sub(from) * 1000;
            (0..400).map(|i| (at(i * 20), [bytes(i * 20), 0])).collect()
        };
        let case = (0, at(2000), at(4000), at(7500));
        let figure = |from| returned("", &counts(from), case);
        // A fifth of the time in which the rate is taken may be missing.
        let value = figure(5000).value.unwrap();
        assert!((0.94..=0.98).contains(&value), "{value}");
        assert_eq!(figure(99_999).value, Some(3.5));
        assert!(figure(99_999).note.contains("not"));
        // The other link has carried nothing.
        let idle = returned("", &counts(5000), (1, at(2000), at(4000), at(7500)));
        assert_eq!((idle.value, idle.verdict), (None, Verdict::Skipped));
    }
}
