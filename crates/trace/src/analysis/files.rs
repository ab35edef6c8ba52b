//! Values over time, as tidy CSV: `t,connection,subflow,direction,metric,value`.
//!
//! Connections and subflows have the numbers that they have in the document (subflow empty: the
//! whole connection, at data level); direction is that of the data, `forward` from the client.

use super::Analyzer;
use super::flow::{self, Flow};
use super::labels::Label;
use super::report::{self, Analysis, Connection};
use crate::track::Track;
use std::fmt::Write;
use tabane_engine::Instant;

/// One value over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Index of the connection.
    pub connection: usize,
    /// Index of the subflow in it; `None`: the connection.
    pub subflow: Option<usize>,
    /// Whether it is about data from client to server.
    pub forward: bool,
    pub metric: Metric,
    /// Seconds since the first packet, value. A rate is the mean since the point before it.
    pub points: Vec<(f64, f64)>,
}

/// What is measured over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Metric {
    /// Payload, repeats included.
    Throughput,
    /// New payload.
    Goodput,
    /// From data to its ACK (or timestamp to echo).
    Rtt,
    /// Sent and not acknowledged.
    InFlight,
    /// What the receiver of the data lets the sender have in flight.
    Window,
    /// Packets with this label so far.
    Errors(Label),
}

impl Metric {
    /// Name in files; the unit is its last word (`bps` is bits a second).
    pub fn name(self) -> String {
        match self {
            Self::Throughput => "throughput_bps".to_owned(),
            Self::Goodput => "goodput_bps".to_owned(),
            Self::Rtt => "rtt_s".to_owned(),
            Self::InFlight => "in_flight_bytes".to_owned(),
            Self::Window => "window_bytes".to_owned(),
            Self::Errors(label) => format!("{}_packets", label.name()),
        }
    }
}

/// Series of a connection whose first stream is `first`.
pub(super) fn series_of(
    analyzer: &Analyzer,
    number: usize,
    first: usize,
    connection: &Connection,
    out: &mut Vec<Series>,
) {
    let stream = &analyzer.streams[first];
    let client = stream.client();
    let begin = Instant((connection.start_s * 1e9) as u64);
    for (side, forward) in [(client, true), (client ^ 1, false)] {
        let mut add = |subflow, metric, points: Vec<(f64, f64)>| {
            if !points.is_empty() {
                let connection = number;
                out.push(Series { connection, subflow, forward, metric, points });
            }
        };
        if let Some(member) = stream.member {
            let state = &analyzer.connections[member.group as usize];
            let host = member.host(side);
            if let Some(track) = state.track.as_deref().filter(|_| state.data[host].new_bytes > 0) {
                add(None, Metric::Goodput, track.rates(host, 8.0, begin));
            }
        }
        for (i, subflow) in connection.subflows.iter().enumerate() {
            let from = report::flow_from(analyzer, subflow.stream, first, side);
            if let Some(flow) = from {
                let begin = Instant(analyzer.streams[subflow.stream].first);
                flow_series(flow, begin, |metric, points| add(Some(i), metric, points));
            }
        }
    }
}

fn flow_series(flow: &Flow, begin: Instant, mut add: impl FnMut(Metric, Vec<(f64, f64)>)) {
    let Some(track) = flow.track.as_deref() else { return };
    if flow.bytes > 0 {
        add(Metric::Throughput, track.rates(flow::BYTES, 8.0, begin));
        add(Metric::Goodput, track.rates(flow::NEW_BYTES, 8.0, begin));
        add(Metric::Rtt, known(track, flow::RTT));
        add(Metric::InFlight, known(track, flow::IN_FLIGHT));
        add(Metric::Window, known(track, flow::WINDOW));
    }
    for (i, label) in Label::ERRORS.into_iter().enumerate() {
        if flow.counts.get(label) > 0 {
            add(Metric::Errors(label), track.values(flow::ERRORS + i));
        }
    }
}

/// Values, without rows in which there was none.
fn known<const N: usize>(track: &Track<N>, column: usize) -> Vec<(f64, f64)> {
    track.values(column).into_iter().filter(|(_, value)| !value.is_nan()).collect()
}

/// All series of an analysis as CSV, header first, without comments.
pub fn csv(analysis: &Analysis) -> String {
    let mut out = String::from("t,connection,subflow,direction,metric,value\n");
    for series in &analysis.series {
        let subflow = series.subflow.map_or_else(String::new, |n| n.to_string());
        let direction = if series.forward { "forward" } else { "backward" };
        let (number, metric) = (series.connection, series.metric.name());
        for (t, value) in &series.points {
            writeln!(out, "{t},{number},{subflow},{direction},{metric},{value}")
                .expect("invariant: a String takes everything");
        }
    }
    if let Some(fairness) = &analysis.fairness {
        for (t, jain) in &fairness.points {
            writeln!(out, "{t},,,,jain_index,{jain}")
                .expect("invariant: a String takes everything");
        }
    }
    out
}
