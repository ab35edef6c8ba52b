//! What a run looked like: series and figures by flow, subflow and path, ready for files, tables
//! and plots.

use crate::collect::{self as c, Collector, End, Subflow};
use crate::fairness;
use crate::histogram::Histogram;
use crate::observe::{FlowIdx, HostIdx};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tabane_engine::Instant;
use tabane_engine::view::SubflowId;

/// A run, as its [`Collector`] saw it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// When it ended, seconds.
    pub end: f64,
    /// Length of a bin of the series, seconds.
    pub interval: f64,
    /// Series, by flow, host and subflow; those of links come last.
    pub series: Vec<Series>,
    /// Figures, in the same order.
    pub figures: Vec<Figure>,
    /// Changes of the world: time in seconds, words.
    pub marks: Vec<(f64, String)>,
    /// One sentence a sending subflow: how often it was chosen, and why not.
    pub reasons: Vec<String>,
}

/// What a value belongs to. Empty strings and `None` stand for "all" or "does not apply".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
pub struct Subject {
    pub flow: String,
    /// Host at which it was seen; for a link direction `from>to`.
    pub host: String,
    /// Subflow, by order of creation from 0; `None` is the connection.
    pub subflow: Option<usize>,
    /// Path of the subflow, or link.
    pub path: String,
}

/// One value over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Of what.
    pub subject: Subject,
    pub metric: Metric,
    /// Time in seconds and value. A rate is the mean since the point before it.
    pub points: Vec<(f64, f64)>,
}

/// One value of a whole run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Of what.
    pub subject: Subject,
    /// Which value; the unit is its last word.
    pub metric: String,
    pub value: f64,
}

/// What is plotted over time. Rates are payload bits a second except [`Metric::LinkRate`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Metric {
    /// Payload sent, repeats included, seen at the sender.
    Throughput,
    /// Payload new at data level, seen at the receiver.
    Goodput,
    Cwnd,
    /// Slow start threshold; no point while there is none.
    Ssthresh,
    /// Bytes in flight (pipe).
    InFlight,
    Srtt,
    /// Latest RTT sample.
    Rtt,
    /// The peer's window beyond what is acknowledged at data level.
    SendWindow,
    /// Sent and not acknowledged at data level.
    Outstanding,
    /// Receive window as advertised.
    ReceiveWindow,
    ReceiveBuffer,
    /// Held out of order by the receiver.
    OutOfOrder,
    /// Waiting in a link's queue.
    Queue,
    /// Delivered by a link, headers included.
    LinkRate,
    /// Packets lost by a link so far.
    LinkLost,
}

impl Metric {
    /// Name in files; the unit is its last word (`bps` is bits a second).
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_bps",
            Self::Goodput => "goodput_bps",
            Self::Cwnd => "cwnd_bytes",
            Self::Ssthresh => "ssthresh_bytes",
            Self::InFlight => "in_flight_bytes",
            Self::Srtt => "srtt_s",
            Self::Rtt => "rtt_s",
            Self::SendWindow => "send_window_bytes",
            Self::Outstanding => "outstanding_bytes",
            Self::ReceiveWindow => "receive_window_bytes",
            Self::ReceiveBuffer => "receive_buffer_bytes",
            Self::OutOfOrder => "out_of_order_bytes",
            Self::Queue => "queue_bytes",
            Self::LinkRate => "link_bps",
            Self::LinkLost => "link_lost_packets",
        }
    }
}

impl Report {
    /// Series of one metric, of subflows and links only (`whole` = false) or of connections only.
    pub fn of(&self, metric: Metric, whole: bool) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(move |s| s.metric == metric)
            .filter(move |s| (s.subject.subflow.is_none() && !s.subject.flow.is_empty()) == whole)
    }

    /// The figure of a subject, for tests and tables.
    pub fn figure(&self, flow: &str, subflow: Option<usize>, metric: &str) -> Option<f64> {
        let is = |f: &&Figure| {
            f.subject.flow == flow && f.subject.subflow == subflow && f.metric == metric
        };
        self.figures.iter().find(is).map(|f| f.value)
    }

    /// Jain's index of the flows' goodput over sliding windows of `window` seconds, leaving out
    /// what is before `skip` seconds. Empty with fewer than two flows.
    pub fn fairness(&self, window: f64, skip: f64) -> Vec<(f64, f64)> {
        let goodputs: Vec<_> = self.of(Metric::Goodput, true).collect();
        if goodputs.len() < 2 || self.interval <= 0.0 {
            return Vec::new();
        }
        let bin = |t: f64| (t / self.interval - 1e-9).ceil() as usize;
        let grid: Vec<Vec<f64>> = goodputs
            .iter()
            .map(|series| {
                let mut values = vec![0.0; bin(self.end) + 1];
                series.points.iter().for_each(|&(t, v)| {
                    if let Some(slot) = values.get_mut(bin(t)) {
                        *slot = v;
                    }
                });
                values
            })
            .collect();
        let width = (window / self.interval).round().max(1.0) as usize;
        fairness::jain_over_time(&grid, width)
            .into_iter()
            .map(|(bin, j)| (bin as f64 * self.interval, j))
            .filter(|&(t, _)| t - window >= skip - 1e-9)
            .collect()
    }
}

impl Collector {
    /// What was seen until now.
    pub fn report(&self) -> Report {
        let mut report = Report {
            end: self.now.as_secs_f64(),
            interval: self.clock.interval().as_secs_f64(),
            marks: self.marks.iter().map(|(t, text)| (t.as_secs_f64(), text.clone())).collect(),
            ..Report::default()
        };
        let mut received = BTreeMap::new();
        for (&(flow, host), end) in &self.ends {
            let subject = Subject {
                flow: self.flow_name(flow),
                host: self.host_name(host),
                ..Subject::default()
            };
            self.add_connection(&mut report, subject.clone(), flow, end);
            for subflow in &end.subflows {
                let (number, path) = (Some(subflow.number as usize), subflow.path.clone());
                let subject = Subject { subflow: number, path, ..subject.clone() };
                add_subflow(&mut report, subject, end, subflow);
            }
            add_reasons(&mut report, &subject.flow, end);
            *received.entry(flow).or_insert(0.0) += end.row[c::RECEIVED];
        }
        self.add_links(&mut report);
        self.add_drops(&mut report);
        add_fairness(&mut report, &received.into_values().collect::<Vec<f64>>());
        report
    }

    fn add_connection(&self, report: &mut Report, subject: Subject, flow: FlowIdx, end: &End) {
        let mut out = Out { report, subject };
        let value = |column| end.track.values(column);
        if end.row[c::WRITTEN] > 0.0 {
            out.figure("written_bytes", end.row[c::WRITTEN]);
            out.figure("reinjected_bytes", end.row[c::REINJECTED]);
            out.series(Metric::InFlight, sum_of(&end.subflows, c::IN_FLIGHT));
            out.series(Metric::Cwnd, sum_of(&end.subflows, c::CWND));
            out.series(Metric::SendWindow, value(c::SEND_WINDOW));
            out.series(Metric::Outstanding, value(c::OUTSTANDING));
        }
        if end.row[c::RECEIVED] > 0.0 {
            let done = self.completed.get(&flow).copied();
            let seconds = done.unwrap_or(self.now).saturating_since(end.opened).as_secs_f64();
            out.figure("received_bytes", end.row[c::RECEIVED]);
            out.figure("mean_goodput_bps", end.row[c::RECEIVED] * 8.0 / seconds.max(1e-9));
            out.figure("duplicate_bytes", end.row[c::DUPLICATE]);
            out.series(Metric::Goodput, end.track.rates(c::RECEIVED, 8.0, end.opened));
            out.series(Metric::OutOfOrder, value(c::OUT_OF_ORDER));
            out.series(Metric::ReceiveBuffer, value(c::RECEIVE_BUFFER));
            out.series(Metric::ReceiveWindow, value(c::RECEIVE_WINDOW));
        }
    }

    fn add_links(&self, report: &mut Report) {
        for (track, link) in self.links.iter().zip(&self.layout.links) {
            let Some(last) = track.last() else { continue };
            let host = format!("{}>{}", link.from, link.to);
            let subject = Subject { host, path: link.name.clone(), ..Subject::default() };
            let mut out = Out { report, subject };
            out.series(Metric::LinkRate, track.rates(c::CARRIED, 8.0, Instant::ZERO));
            out.series(Metric::Queue, track.values(c::QUEUED));
            out.series(Metric::LinkLost, track.values(c::LOST));
            out.figure("link_delivered_bytes", last[c::CARRIED]);
            out.figure("link_delivered_packets", last[c::PACKETS]);
            out.figure("link_lost_packets", last[c::LOST]);
            out.figure("link_mean_queue_bytes", mean(&track.values(c::QUEUED)));
        }
    }

    fn add_drops(&self, report: &mut Report) {
        for (&(host, reason), &n) in &self.drops {
            let subject = Subject { host: self.host_name(host), ..Subject::default() };
            Out { report, subject }.figure(&format!("dropped_{reason}_segments"), n as f64);
        }
    }

    fn flow_name(&self, flow: FlowIdx) -> String {
        let known = self.layout.flows.get(flow.0 as usize);
        known.map_or_else(|| format!("flow{}", flow.0), |f| f.name.clone())
    }

    fn host_name(&self, host: HostIdx) -> String {
        let known = self.layout.hosts.get(host.0 as usize);
        known.map_or_else(|| format!("host{}", host.0), |h| h.name.clone())
    }
}

/// Adds the values of one subject.
struct Out<'a> {
    report: &'a mut Report,
    subject: Subject,
}

impl Out<'_> {
    fn figure(&mut self, metric: &str, value: f64) {
        if value.is_finite() {
            let (subject, metric) = (self.subject.clone(), metric.to_owned());
            self.report.figures.push(Figure { subject, metric, value });
        }
    }

    fn series(&mut self, metric: Metric, points: Vec<(f64, f64)>) {
        let points: Vec<_> = points.into_iter().filter(|p| p.1.is_finite()).collect();
        if !points.is_empty() {
            self.report.series.push(Series { subject: self.subject.clone(), metric, points });
        }
    }
}

fn add_reasons(report: &mut Report, flow: &str, end: &End) {
    let name = |id: SubflowId| {
        let found = end.subflows.iter().rev().find(|s| s.slot == id);
        found.map_or_else(|| format!("subflow {}", id.0), |s| s.path.clone())
    };
    for (number, _) in end.decisions.subflows() {
        let known = end.subflows.iter().find(|s| s.number == number);
        let own = known.map_or_else(|| format!("subflow {number}"), |s| s.path.clone());
        report.reasons.push(format!("{flow}: {}", end.decisions.explain(number, &own, name)));
    }
}

fn add_subflow(report: &mut Report, subject: Subject, end: &End, subflow: &Subflow) {
    let mut out = Out { report, subject };
    let (track, stats) = (&subflow.track, &subflow.stats);
    if subflow.row[c::SENT] > 0.0 {
        out.figure("sent_bytes", subflow.row[c::SENT]);
        out.figure("retransmitted_bytes", subflow.row[c::RETRANSMITTED]);
        out.figure("retransmitted_ratio", subflow.row[c::RETRANSMITTED] / subflow.row[c::SENT]);
        out.figure("recoveries", stats.recoveries as f64);
        out.figure("timeouts", stats.timeouts as f64);
        out.figure("undone", stats.undone as f64);
        out.figure("tail_loss_probes", stats.tail_loss_probes as f64);
        out.figure("mean_cwnd_bytes", mean(&track.values(c::CWND)));
        if let Some(rtt) = end.rtt.get(&subflow.number) {
            add_rtt(&mut out, rtt);
        }
        let fate = end.decisions.subflows().find(|(number, _)| *number == subflow.number);
        if let Some((_, fate)) = fate {
            out.figure("chosen_decisions", fate.chosen as f64);
            let mut idle: BTreeMap<&str, u64> = BTreeMap::new();
            fate.not.iter().for_each(|(why, n)| *idle.entry(why.name()).or_default() += n);
            idle.iter().for_each(|(why, &n)| {
                out.figure(&format!("idle_{why}_decisions"), n as f64);
            });
        }
        out.series(Metric::Throughput, track.rates(c::SENT, 8.0, end.opened));
        out.series(Metric::Cwnd, track.values(c::CWND));
        out.series(Metric::Ssthresh, track.values(c::SSTHRESH));
        out.series(Metric::InFlight, track.values(c::IN_FLIGHT));
        let known = |points: Vec<(f64, f64)>| points.into_iter().filter(|p| p.1 > 0.0).collect();
        out.series(Metric::Srtt, known(track.values(c::SRTT)));
        out.series(Metric::Rtt, known(track.values(c::RTT)));
    }
    if subflow.row[c::DELIVERED] > 0.0 {
        let all: f64 = end.subflows.iter().map(|s| s.row[c::DELIVERED]).sum();
        out.figure("delivered_bytes", subflow.row[c::DELIVERED]);
        out.figure("delivered_share", subflow.row[c::DELIVERED] / all);
        out.figure("received_twice_bytes", stats.bytes_duplicate as f64);
        out.series(Metric::Goodput, track.rates(c::DELIVERED, 8.0, end.opened));
    }
}

fn add_rtt(out: &mut Out, rtt: &Histogram) {
    let quantiles =
        [("min", 0.0), ("p05", 0.05), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
    for (name, q) in quantiles {
        out.figure(&format!("rtt_{name}_s"), rtt.quantile(q).unwrap_or(0) as f64 / 1e9);
    }
    out.figure("rtt_mean_s", rtt.mean().unwrap_or(0.0) / 1e9);
    out.figure("rtt_samples", rtt.count() as f64);
}

/// Seconds of a window of Jain's index over time, and what is left out at the start.
const FAIRNESS_WINDOW: f64 = 1.0;
const FAIRNESS_SKIP: f64 = 5.0;

fn add_fairness(report: &mut Report, received: &[f64]) {
    if received.len() < 2 {
        return;
    }
    let windows = report.fairness(FAIRNESS_WINDOW, FAIRNESS_SKIP);
    let indexed: Vec<(usize, f64)> = windows.iter().map(|w| w.1).enumerate().collect();
    let mut out = Out { report, subject: Subject::default() };
    out.figure("jain", fairness::jain(received));
    if let Some(summary) = fairness::summarise(&indexed) {
        out.figure("jain_1s_mean", summary.mean);
        out.figure("jain_1s_p05", summary.p05);
        out.figure("jain_1s_below_0.9_ratio", summary.unfair);
    }
}

/// Sum over subflows of a column, at the times of any.
fn sum_of(subflows: &[Subflow], column: usize) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for subflow in subflows {
        for (t, value) in subflow.track.values(column) {
            *sums.entry((t * 1e9).round() as u64).or_default() += value;
        }
    }
    sums.into_iter().map(|(t, value)| (t as f64 / 1e9, value)).collect()
}

fn mean(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64
}
