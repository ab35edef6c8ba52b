//! The causes that the paper's set-up allows, each run for all eight figures: tunnels as links or
//! as TCP connections, subflows by their own tunnels or across them, schedulers, queues. One
//! table, nothing fitted.

use super::inside::{Layer, Run};
use super::layers::{ACROSS, CAUSES, Cause, PAPER, PLAIN, Setting, Traffic, runs};
use super::{QUEUE, SHORT};
use crate::context::Context;
use crate::report::{Report, Table};
use crate::{PaperError, stats};

/// Scheduler and queue of the WANs.
const CONDITIONS: [(&str, &str); 4] =
    [("burst", QUEUE), ("burst", "40KB"), ("burst", "300KB"), ("roundrobin:cwnd_limited=0", QUEUE)];

/// The kinds of traffic, as rows of the paper's table.
const TRAFFIC: [(Traffic, bool); 4] =
    [(Traffic::Udp, true), (Traffic::Udp, false), (Traffic::Tcp, true), (Traffic::Tcp, false)];

/// One line of the table: its cells in the order of the paper's, without and with the extra tunnel.
struct Line<'a> {
    cause: Cause,
    condition: (&'a str, &'a str),
    cells: Vec<f64>,
    /// One run of TCP down with a tunnel a WAN for each seed.
    inside: Vec<Run>,
}

impl Line<'_> {
    /// Over its runs of TCP down.
    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        stats::mean(&self.inside.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    }
}

/// Runs them all. `paper`: its eight figures; `as_published`: what was run for them, each at least
/// [`SHORT`]. What TCP tunnels with subflows across them come to, in the order of the figures.
pub(super) fn run(
    context: &Context<'_>,
    report: &mut Report,
    paper: &[f64],
    as_published: &[Vec<Run>],
) -> Result<Vec<f64>, PaperError> {
    let seeds = context.seeds(context.pick(1, 3));
    let lines: Vec<(Cause, (&str, &str))> = CAUSES
        .into_iter()
        .flat_map(|cause| {
            // Those that differ from the others in where subflows go are not run with everything.
            let few = context.quick || !cause.is_main();
            let conditions = &CONDITIONS[..if few { 1 } else { CONDITIONS.len() }];
            conditions.iter().map(move |condition| (cause, *condition))
        })
        .collect();
    let is_published = |line: &(Cause, _)| *line == (PAPER, CONDITIONS[0]);
    let others = lines.iter().filter(|line| !is_published(line));
    let settings: Vec<Setting<'_>> = others.flat_map(settings).collect();
    let mut others = runs(context, "rival causes", &seeds, &settings)?.into_iter();
    let line = |line: &(Cause, (&'static str, &'static str))| {
        let runs: Vec<Vec<Run>> = match is_published(line) {
            true => as_published.iter().map(|runs| runs[..seeds.len()].to_vec()).collect(),
            false => others.by_ref().take(2 * TRAFFIC.len()).collect(),
        };
        let cells = runs.iter().map(|runs| rate(runs)).collect();
        Line { cause: line.0, condition: line.1, cells, inside: runs[runs.len() - 2].clone() }
    };
    let lines: Vec<Line<'_>> = lines.iter().map(line).collect();
    report.tables.push(table(&lines, paper, seeds.len()));
    report.tables.push(layers(&lines));
    report.note(words(&lines, paper));
    Ok(of(&lines, ACROSS).map_or_else(Vec::new, |line| line.cells.clone()))
}

/// For each of the eight figures.
fn settings<'a>(
    (cause, (scheduler, queue)): &(Cause, (&'a str, &'a str)),
) -> impl Iterator<Item = Setting<'a>> {
    let (cause, scheduler, queue, seconds) = (*cause, *scheduler, *queue, SHORT);
    TRAFFIC.into_iter().flat_map(move |(traffic, upload)| {
        [false, true].map(|extra| Setting {
            cause,
            scheduler,
            queue,
            traffic,
            upload,
            extra,
            seconds,
        })
    })
}

/// A cause with upstream's scheduler and the queue of the reproduction.
fn of<'l>(lines: &'l [Line<'l>], cause: Cause) -> Option<&'l Line<'l>> {
    lines.iter().find(|line| line.cause == cause && line.condition == CONDITIONS[0])
}

/// Mean Mbit/s of the first seconds.
fn rate(runs: &[Run]) -> f64 {
    let rates: Vec<f64> = runs.iter().map(|run| run.course.mean(0, SHORT)).collect();
    stats::mean(&rates).unwrap_or(0.0)
}

/// How far a line is from the paper: the factor by which it is off (geometric mean, upwards and
/// downwards alike), and cells within 15 %.
fn distance(cells: &[f64], paper: &[f64]) -> (f64, usize) {
    let ratios = || cells.iter().zip(paper).map(|(ours, paper)| ours / paper);
    let logs: Vec<f64> = ratios().map(|ratio| ratio.ln().abs()).collect();
    let near = ratios().filter(|ratio| (ratio - 1.0).abs() <= 0.15).count();
    (stats::mean(&logs).unwrap_or(f64::NAN).exp(), near)
}

fn scheduler(name: &str) -> &str {
    if name.contains("cwnd_limited") { "strict round robin" } else { name }
}

fn table(lines: &[Line<'_>], paper: &[f64], seeds: usize) -> Table {
    let head = ["cause", "scheduler", "queue", "UDP up", "UDP down", "TCP up", "TCP down"];
    let head = head.into_iter().chain(["off by a factor of", "within 15 %"]);
    let pairs = |cells: &[f64]| -> Vec<String> {
        cells.chunks(2).map(|pair| format!("{:.0} / {:.0}", pair[0], pair[1])).collect()
    };
    let mut rows = vec![["the paper", "", ""].map(str::to_owned).to_vec()];
    rows[0].extend(pairs(paper));
    rows[0].extend([String::new(), String::new()]);
    rows.extend(lines.iter().map(|line| {
        let (scheduler_name, queue) = line.condition;
        let (error, near) = distance(&line.cells, paper);
        let mut row = vec![line.cause.name.to_owned(), scheduler(scheduler_name).to_owned()];
        row.push(queue.to_owned());
        row.extend(pairs(&line.cells));
        row.extend([format!("{error:.2}"), near.to_string()]);
        row
    }));
    Table {
        title: "The eight figures by cause: Mbit/s in 10 s".to_owned(),
        head: head.map(str::to_owned).collect(),
        rows,
        caption: format!(
            "A tunnel a WAN / with the extra tunnel; mean of {seeds}. UDP is what the MPTCP \
             connection of the VPN delivers, TCP a connection whose packets travel in its stream. \
             Nothing is fitted here."
        ),
    }
}

/// What became of the segments of each layer.
fn layers(lines: &[Line<'_>]) -> Table {
    let first = lines.iter().filter(|line| line.condition == CONDITIONS[0]);
    let row = |line: &Line<'_>| {
        let layer = |of: &dyn Fn(&Run) -> Layer| {
            let part = |pick: &dyn Fn(Layer) -> f64| line.mean(|run| pick(of(run)));
            let (resent, rtt) = (part(&|l| l.resent()), part(&|l| 1e3 * l.rtt));
            let timeouts = part(&|l| l.timeouts as f64);
            format!("{resent:.2} %, {timeouts:.1}, {rtt:.0} ms")
        };
        vec![
            line.cause.name.to_owned(),
            format!("{:.0}", line.mean(|run| run.dropped as f64)),
            format!("{:.0}", line.mean(|run| run.refused as f64)),
            layer(&|run| run.tunnels),
            layer(&|run| run.vpn),
            layer(&|run| run.flow),
        ]
    };
    let head = ["cause", "dropped by WANs", "by tunnels", "tunnels", "MPTCP", "iperf3's TCP"];
    Table {
        title: "What each layer sends again: TCP down, a tunnel a WAN".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: first.map(row).collect(),
        caption: "Packets; of each layer the share of bytes sent again, timeouts, and the mean \
                  smoothed round-trip time while it sends. Scheduler burst, the fitted queue."
            .to_owned(),
    }
}

/// What the tables say.
fn words(lines: &[Line<'_>], paper: &[f64]) -> String {
    let (Some(plain), Some(tcp), Some(across)) =
        (of(lines, PLAIN), of(lines, PAPER), of(lines, ACROSS))
    else {
        return String::new();
    };
    let factor = |line: &Line<'_>| distance(&line.cells, paper).0;
    let near = |line: &Line<'_>| distance(&line.cells, paper).1;
    let nearest = lines.iter().max_by_key(|line| near(line)).map_or("", |line| line.cause.name);
    let (up, down) = across.cells.split_at(2);
    format!(
        "Rival causes. Tunnels as links are off by a factor of {:.2} over the eight \
         figures, TCP tunnels by {:.2}, TCP tunnels with subflows across them by {:.2} \
         ({} of eight within 15 %; the most has \"{nearest}\"). Traces: in TCP tunnels \
         the WANs drop {:.0} packets in 10 s of TCP down, the tunnels send {:.2} % \
         again, MPTCP above them {:.2} % and the connection inside {:.2} %: a loss is a \
         delay there. MPTCP's round-trip time is {:.0} ms where the WANs have 30 and \
         40, as data waits in the send buffers of the tunnels. No cause has the paper's \
         difference between up and down (UDP up {:.0}, down {:.0} across TCP tunnels): \
         rates, delays and queues are the same both ways.",
        factor(plain),
        factor(tcp),
        factor(across),
        near(across),
        tcp.mean(|run| run.dropped as f64),
        tcp.mean(|run| run.tunnels.resent()),
        tcp.mean(|run| run.vpn.resent()),
        tcp.mean(|run| run.flow.resent()),
        tcp.mean(|run| 1e3 * run.vpn.rtt),
        up[0],
        down[0],
    )
}
