//! Where to put proxies: a line of 43 ms from the sender to the receiver, proxies anywhere on it,
//! and every place tried. The bottleneck is where it is in the paper: in the middle of the first
//! 18 ms.

use super::{GENTLE, RENO, claim, mbps};
use crate::PaperError;
use crate::context::{Context, Job};
use crate::figure::{Axis, Figure, Heat, Kind, Panel, Plot, Series, Source};
use crate::report::{Report, Table, Verdict};
use std::fmt::Write as _;

/// RTT of the line, ms.
const LENGTH: f64 = 43.0;

/// Where the bottleneck is, ms of RTT from the sender.
const BOTTLENECK: f64 = 9.0;

/// What limits the flow.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    /// Socket buffers of the hosts.
    buffer: &'static str,
    /// Loss of the whole line, spread evenly over its length.
    loss: f64,
}

/// The hosts' buffers, as in the paper.
const SMALL: World = World { name: "sockets of 64 KB, no loss", buffer: "64KiB", loss: 0.0 };

/// Loss, as in the theory of split connections.
const LOSSY: World =
    World { name: "sockets of 4 MB, 0.05 % loss spread evenly", buffer: "4MiB", loss: 0.0005 };

/// Goodput by place of one proxy with Reno on both sides.
pub(super) struct Line(Vec<Curve>);

/// (place, Mbit/s).
type Curve = (World, Vec<(f64, f64)>);

pub(super) fn measure(context: &Context<'_>) -> Result<Line, PaperError> {
    let places: &[f64] = context.pick(
        &[0.5, 11.0, 21.5, 32.0, 42.5],
        &[0.5, 4.0, 8.0, 12.0, 16.0, 19.0, 21.5, 24.0, 27.0, 31.0, 35.0, 39.0, 42.5],
    );
    let mut all = Vec::new();
    for world in [SMALL, LOSSY] {
        let jobs = jobs(context, world, places.iter().map(|p| vec![*p]), RENO)?;
        let results = context.run("one proxy", &jobs)?;
        let rates = results.iter().map(|result| mbps(result, 0));
        all.push((world, places.iter().copied().zip(rates).collect()));
    }
    Ok(Line(all))
}

fn jobs(
    context: &Context<'_>,
    world: World,
    cuts: impl Iterator<Item = Vec<f64>>,
    controller: &str,
) -> Result<Vec<Job>, PaperError> {
    let duration = context.pick("20s", "60s");
    let seed = context.seed.to_string();
    cuts.map(|cuts| {
        let text = line(&cuts, world, controller, duration);
        Job::new(&format!("line {cuts:?}"), &text, &[("seed", &seed)])
    })
    .collect()
}

/// The scenario with proxies at `cuts` (ms of RTT from the sender, ascending).
fn line(cuts: &[f64], world: World, controller: &str, duration: &str) -> String {
    let proxies: Vec<String> = (1..=cuts.len()).map(|n| format!("proxy{n}")).collect();
    let mut nodes = vec!["sender".to_owned()];
    nodes.extend(proxies.iter().cloned());
    nodes.push("receiver".to_owned());
    let ends: Vec<f64> = std::iter::once(0.0).chain(cuts.iter().copied()).collect();
    let mut paths = String::from("[path]\n");
    let mut links = String::from(
        "[link.internet]\nrate = \"70Mbps\"\njitter = \"0.1ms\"\nqueue = \"100KiB\"\n",
    );
    for (hop, pair) in nodes.windows(2).enumerate() {
        let (from, to) = (ends[hop], cuts.get(hop).copied().unwrap_or(LENGTH));
        let holds = from < BOTTLENECK && BOTTLENECK <= to;
        let internet = if holds { ", \"internet\"" } else { "" };
        let _ = writeln!(
            paths,
            "hop{hop} = {{ from = \"{}\", to = \"{}\", links = [\"wire{hop}\"{internet}] }}",
            pair[0], pair[1],
        );
        let loss = world.loss * (to - from) / LENGTH;
        let _ = writeln!(
            links,
            "[link.wire{hop}]\nrate = \"1Gbps\"\ndelay = \"{}us\"\nqueue = \"1000 packets\"\n\
             up = {{ loss = {loss:.9} }}",
            ((to - from) * 500.0).round() as u64,
        );
    }
    let buffers = ["sender", "receiver"].map(|host| {
        format!(
            "[host.{host}.tcp.linux]\nso_sndbuf = \"{0}\"\nso_rcvbuf = \"{0}\"\n\
             rmem_max = \"4MiB\"\nwmem_max = \"4MiB\"\n",
            world.buffer
        )
    });
    // The hosts keep Reno.
    let sides: Vec<String> = proxies
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let last = n + 1 == proxies.len();
            let own = if last { RENO } else { controller };
            format!("[proxy.{name}]\nconnect = {{ congestion = \"{own}\" }}\n")
        })
        .collect();
    format!(
        "duration = \"{duration}\"\n{paths}{links}[defaults]\nmptcp = false\n\
         congestion = \"reno\"\ntcp.autotuning = \"linux\"\n{}{}\
         [[flow]]\nname = \"flow\"\nfrom = \"sender\"\n\
         to = \"receiver\"\nvia = {proxies:?}\ndirection = \"upload\"\nbulk = \"unlimited\"\n",
        buffers.concat(),
        sides.concat(),
    )
}

/// The greatest of (place, value).
fn best(points: &[(f64, f64)]) -> (f64, f64) {
    points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0.0, 0.0))
}

impl Line {
    pub(super) fn tell(&self, report: &mut Report) {
        for (world, points) in &self.0 {
            for (place, rate) in points {
                let row = format!("{place} ms");
                report.cell("one proxy on a line of 43 ms", row, world.name, {
                    (None, *rate, "Mbit/s")
                });
            }
        }
        let bests: Vec<(f64, f64)> = self.0.iter().map(|(_, points)| best(points)).collect();
        let even = |b: &(f64, f64)| (0.35..=0.65).contains(&(b.0 / LENGTH));
        let text = "one proxy, Reno, 43 ms: best where it divides the delay evenly (its place, \
                    in RTT from the sender, where sockets are small)";
        let verdict = Verdict::when(bests.iter().all(even), || {
            let places: Vec<String> = bests.iter().map(|b| format!("{} ms", b.0)).collect();
            format!("the best places are {}", places.join(" and "))
        });
        claim(report, "place", text, bests[0].0, "ms", verdict);
        let series = |(hue, (world, points)): (usize, &Curve)| Series {
            label: world.name.to_owned(),
            hue,
            source: Source::Ours,
            points: points.clone(),
        };
        report.figures.push(Figure {
            id: "line".into(),
            title: "One proxy anywhere on a line of 43 ms".into(),
            caption: "Reno on both sides; the bottleneck is at 9 ms.".into(),
            columns: 1,
            panels: vec![Panel::Plot(Plot {
                title: "goodput by place of the proxy".into(),
                x: Axis::new("RTT from the sender to the proxy, ms"),
                y: Axis { low: Some(0.0), ..Axis::new("goodput, Mbit/s") },
                kind: Kind::Points,
                series: self.0.iter().enumerate().map(series).collect(),
            })],
        });
    }
}

/// Tries two proxies at all pairs of places; tells the best.
pub(super) fn advise(context: &Context<'_>, report: &mut Report) -> Result<(), PaperError> {
    let places: &[f64] = context.pick(
        &[0.5, 7.0, 14.0, 29.0, 36.0, 42.5],
        &[0.5, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 36.0, 39.0, 42.5],
    );
    let mut pairs = Vec::new();
    for (i, west) in places.iter().enumerate() {
        pairs.extend(places[i + 1..].iter().map(|east| vec![*west, *east]));
    }
    let mut panels = Vec::new();
    for (name, controller) in [("Reno", RENO), ("gHSTCP", GENTLE)] {
        let jobs = jobs(context, SMALL, pairs.iter().cloned(), controller)?;
        let results = context.run("two proxies", &jobs)?;
        let mut found: Vec<(&Vec<f64>, f64)> =
            pairs.iter().zip(results.iter().map(|result| mbps(result, 0))).collect();
        let value = |west: f64, east: f64| {
            found.iter().find(|f| f.0[0] == west && f.0[1] == east).map(|f| f.1)
        };
        let row = |west: &f64| places.iter().map(|east| value(*west, *east)).collect();
        panels.push(Panel::Heat(Heat {
            title: format!("{name} between the proxies, Mbit/s"),
            rows: ("first proxy, ms".into(), places.iter().map(f64::to_string).collect()),
            columns: ("second proxy, ms".into(), places.iter().map(f64::to_string).collect()),
            values: places.iter().map(row).collect(),
            scale: (0.0, super::BOUND),
        }));
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        let row = |f: &(&Vec<f64>, f64)| {
            vec![format!("{} ms", f.0[0]), format!("{} ms", f.0[1]), format!("{:.2}", f.1)]
        };
        report.tables.push(Table {
            title: format!("Best places of two proxies, {name} between them"),
            head: ["first proxy", "second proxy", "goodput, Mbit/s"].map(str::to_owned).to_vec(),
            rows: found.iter().take(5).map(row).collect(),
            caption: "RTT from the sender; 43 ms in all, hosts of 64 KB, bottleneck at 9 ms."
                .into(),
        });
        let (places, rate) = (found[0].0, found[0].1);
        report.note(format!(
            "Put the proxies at {} and {} ms from the sender ({name} between them): {rate:.1} \
             Mbit/s.",
            places[0], places[1]
        ));
    }
    report.figures.push(Figure {
        id: "place".into(),
        title: "Two proxies on a line of 43 ms".into(),
        caption: "Goodput for every pair of places tried; hosts of 64 KB.".into(),
        columns: 2,
        panels,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_length_and_one_bottleneck_wherever_it_is_cut() {
        for cuts in [vec![], vec![21.5], vec![0.5, 42.5], vec![4.0, 8.0], vec![9.0, 30.0]] {
            for world in [SMALL, LOSSY] {
                let text = line(&cuts, world, GENTLE, "1s");
                let job = Job::new("line", &text, &[]).unwrap_or_else(|e| panic!("{text}\n{e}"));
                assert!(job.name.starts_with("line"));
                assert_eq!(text.matches(", \"internet\"]").count(), 1, "{text}");
                let delays = text.split("delay = \"").skip(1).map(|rest| {
                    rest.split("us").next().and_then(|n| n.parse::<u64>().ok()).unwrap()
                });
                assert_eq!(delays.sum::<u64>(), 21_500, "{text}");
            }
        }
    }
}
