//! What an [`Analyzer`] found out, as one document: connections, their subflows, each direction.
//!
//! Times are seconds since the first packet, rates bits a second, sizes bytes. *New* payload is
//! what the capture shows for the first time; what was lost before it and sent again counts once.

use super::connection::Event;
use super::fair::{self, Fairness, Supply};
use super::files;
use super::flow::{self, Flow};
use super::labels::{Counts, Label};
use super::opening::Opened;
use super::stream::Stream;
use super::{Analyzer, Settings, Side};
use crate::histogram::Histogram;
use crate::track::Track;
use serde::Serialize;
use tabane_engine::Instant;

#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Analysis {
    /// TCP packets.
    pub packets: u64,
    /// Time of the first packet, seconds since the Unix epoch.
    pub start_s: f64,
    /// From the first packet to the last.
    pub duration_s: f64,
    /// Packets of streams beyond the limit: counted, not looked at.
    pub beyond_limit: u64,
    /// How often each label was given.
    pub labels: Counts,
    /// Connections, in order of their first packets.
    pub connections: Vec<Connection>,
    /// Among the connections that carry data at the same time; absent if no two do.
    pub fairness: Option<Fairness>,
    /// Values over time, for files; not in the document.
    #[serde(skip)]
    pub series: Vec<files::Series>,
}

/// A connection: MPTCP with its subflows, or one TCP stream.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Connection {
    /// `mptcp`, or `tcp`.
    pub kind: &'static str,
    /// Address and port that connected first.
    pub client: String,
    /// Address and port to which it connected.
    pub server: String,
    /// Tokens of client and server (RFC 8684 section 3.1), if their keys were captured; without
    /// them its further subflows cannot be found, and appear as connections of their own.
    pub tokens: [Option<u32>; 2],
    /// First packet.
    pub start_s: f64,
    /// Last packet.
    pub end_s: f64,
    /// From client to server.
    pub forward: DataDirection,
    /// From server to client.
    pub backward: DataDirection,
    /// What the hosts signalled, in order.
    pub events: Vec<Event>,
    /// Further signals, not kept.
    pub more_events: u64,
    /// Its subflows, failed joins included; the first has the addresses above.
    pub subflows: Vec<Subflow>,
}

/// One direction of a connection, at data level.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct DataDirection {
    /// Payload, repeats included.
    pub bytes: u64,
    /// New payload.
    pub new_bytes: u64,
    /// New payload a second, from its first to its last.
    pub goodput_bps: f64,
    /// Payload that the same subflow had carried before.
    pub retransmitted_bytes: u64,
    /// Payload that another subflow had carried before.
    pub reinjected_bytes: u64,
    /// Payload of an MPTCP connection without a mapping.
    pub unmapped_bytes: u64,
    /// Whether DATA_FIN was seen.
    pub data_fin: bool,
    /// Packets of the peer that carried a DATA_ACK for it.
    pub data_acks: u64,
    /// Bytes up to the highest DATA_ACK, from the first data that was seen.
    pub data_acked_bytes: u64,
    /// From data to the first DATA_ACK that covers it, on whichever subflow, where the capture was
    /// made.
    pub data_rtt: Option<Rtt>,
}

/// A subflow, or the only stream of a TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Subflow {
    /// Number of the stream, as Wireshark's `tcp.stream`.
    pub stream: usize,
    /// Address and port that connected.
    pub client: String,
    /// Address and port to which it connected.
    pub server: String,
    /// How it was opened.
    pub opened: Opened,
    /// SYNs, repeats included.
    pub syns: u32,
    /// Whether client and server asked for a backup when joining.
    pub backup: [bool; 2],
    /// From the SYN to the ACK that ends the handshake.
    pub handshake_rtt_s: Option<f64>,
    /// First packet.
    pub start_s: f64,
    /// Last packet.
    pub end_s: f64,
    /// Whether a reset was seen.
    pub reset: bool,
    /// From client to server.
    pub forward: Direction,
    /// From server to client.
    pub backward: Direction,
}

/// What one end of a subflow sent.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Direction {
    pub packets: u64,
    /// Payload, repeats included.
    pub bytes: u64,
    /// New payload.
    pub new_bytes: u64,
    /// New payload a second, from its first to its last.
    pub goodput_bps: f64,
    /// From data to the ACK that covers it, as seen where the capture was made.
    pub rtt: Option<Rtt>,
    /// From a timestamp to its echo.
    pub rtt_timestamps: Option<Rtt>,
    /// Most bytes sent and not acknowledged.
    pub in_flight_max_bytes: u64,
    /// Largest window that this end gave its peer; unscaled if the handshake was not captured.
    pub window_max_bytes: u64,
    /// How often each label was given to its packets.
    pub labels: Counts,
}

/// RTTs, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rtt {
    pub samples: u64,
    pub min_s: f64,
    /// Half of them are not larger.
    pub median_s: f64,
    /// 95 of 100 are not larger.
    pub p95_s: f64,
    pub max_s: f64,
    pub mean_s: f64,
}

impl Connection {
    /// The direction with more new payload, `true` for that to the server.
    pub fn main(&self) -> (&DataDirection, bool) {
        let forward = self.forward.new_bytes >= self.backward.new_bytes;
        (if forward { &self.forward } else { &self.backward }, forward)
    }

    /// New payload in both directions.
    pub fn new_bytes(&self) -> u64 {
        self.forward.new_bytes + self.backward.new_bytes
    }

    /// How often each label was given.
    pub fn labels(&self) -> Counts {
        let mut sum = Counts::default();
        for subflow in &self.subflows {
            sum.merge(&subflow.forward.labels);
            sum.merge(&subflow.backward.labels);
        }
        sum
    }

    /// Error packets of the five classes that papers count.
    pub fn errors(&self) -> u64 {
        let labels = self.labels();
        Label::ERRORS.into_iter().map(|label| labels.get(label)).sum()
    }
}

/// Flows with less than this are not compared.
const COMPARED: u64 = 100_000;

pub(super) fn analysis(analyzer: &Analyzer) -> Analysis {
    let mut out = Analysis {
        packets: analyzer.packets,
        start_s: analyzer.start.unwrap_or(0) as f64 / 1e9,
        duration_s: seconds(analyzer.now),
        beyond_limit: analyzer.beyond_limit,
        ..Analysis::default()
    };
    let mut supplies = Vec::new();
    for (id, stream) in analyzer.streams.iter().enumerate() {
        out.labels.merge(&stream.labels());
        let ids = match stream.member {
            None => vec![id as u32],
            // A connection is told where its first stream is.
            Some(m) => {
                let streams = &analyzer.connections[m.group as usize].streams;
                if streams.first() != Some(&(id as u32)) {
                    continue;
                }
                streams.iter().copied().collect()
            }
        };
        let number = out.connections.len();
        let connection = connection(analyzer, &ids, id);
        files::series_of(analyzer, number, id, &connection, &mut out.series);
        supplies.extend(supply(analyzer, number, id, &connection));
        out.connections.push(connection);
    }
    out.fairness = compare(analyzer, &supplies, &out.connections);
    out
}

/// Of these streams, ascending.
fn connection(analyzer: &Analyzer, ids: &[u32], first: usize) -> Connection {
    let stream = &analyzer.streams[first];
    let client = stream.client();
    let members = || ids.iter().map(|id| &analyzer.streams[*id as usize]);
    let ends = stream.ends();
    let mut out = Connection {
        kind: if stream.member.is_some() { "mptcp" } else { "tcp" },
        client: ends[client].to_string(),
        server: ends[client ^ 1].to_string(),
        tokens: [None; 2],
        start_s: seconds(members().map(|s| s.first).min().unwrap_or(0)),
        end_s: seconds(members().map(|s| s.last).max().unwrap_or(0)),
        forward: DataDirection::default(),
        backward: DataDirection::default(),
        events: Vec::new(),
        more_events: 0,
        subflows: ids.iter().map(|id| subflow(analyzer, *id as usize)).collect(),
    };
    if let Some(member) = stream.member {
        let state = &analyzer.connections[member.group as usize];
        let group = analyzer.groups.get(member.group);
        out.tokens = [client, client ^ 1].map(|side| group.hosts[member.host(side)].token);
        (out.events, out.more_events) = (state.events.clone(), state.more_events);
    }
    out.forward = data_direction(analyzer, ids, first, client);
    out.backward = data_direction(analyzer, ids, first, client ^ 1);
    out
}

/// What is sent by the host that is `side` of the first stream.
fn data_direction(analyzer: &Analyzer, ids: &[u32], first: usize, side: Side) -> DataDirection {
    let flows = || ids.iter().filter_map(|id| flow_from(analyzer, *id as usize, first, side));
    let (bytes, on_subflows): (u64, u64) =
        flows().map(|f| (f.bytes, f.new_bytes)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let mut out = DataDirection {
        bytes,
        new_bytes: on_subflows,
        retransmitted_bytes: bytes - on_subflows,
        ..DataDirection::default()
    };
    if let Some(member) = analyzer.streams[first].member {
        let data = &analyzer.connections[member.group as usize].data[member.host(side)];
        out.new_bytes = data.new_bytes;
        out.reinjected_bytes = data.reinjected;
        out.unmapped_bytes = data.unmapped;
        out.data_fin = data.data_fin;
        out.data_acks = data.acked.acks;
        out.data_acked_bytes = data.acked.bytes;
        out.data_rtt = rtt(&data.acked.rtt);
    }
    let begin = flows().filter_map(|f| f.data).map(|d| d.0).min();
    let end = flows().filter_map(|f| f.data).map(|d| d.1).max();
    if let (Some(begin), Some(end)) = (begin, end) {
        out.goodput_bps = rate(out.new_bytes, begin, end);
    }
    out
}

/// The flow of stream `id` that comes from the host that is `side` of stream `first`.
pub(super) fn flow_from(analyzer: &Analyzer, id: usize, first: usize, side: Side) -> Option<&Flow> {
    let stream = &analyzer.streams[id];
    let Some(member) = stream.member else { return Some(&stream.flows[side]) };
    let host = analyzer.streams[first].member?.host(side);
    Some(&stream.flows[if member.host(0) == host { 0 } else { 1 }])
}

fn subflow(analyzer: &Analyzer, id: usize) -> Subflow {
    let stream = &analyzer.streams[id];
    let client = stream.client();
    let ends = stream.ends();
    let backup = stream.opening.backup;
    let flags = stream.flows[0].flags | stream.flows[1].flags;
    Subflow {
        stream: id,
        client: ends[client].to_string(),
        server: ends[client ^ 1].to_string(),
        opened: stream.opened(),
        syns: stream.opening.syns,
        backup: [backup[client], backup[client ^ 1]],
        handshake_rtt_s: stream.classifier.initial_rtt().map(seconds),
        start_s: seconds(stream.first),
        end_s: seconds(stream.last),
        reset: flags.contains(tabane_wire::Flags::RST),
        forward: direction(stream, client),
        backward: direction(stream, client ^ 1),
    }
}

fn direction(stream: &Stream, side: Side) -> Direction {
    let flow = &stream.flows[side];
    Direction {
        packets: flow.packets,
        bytes: flow.bytes,
        new_bytes: flow.new_bytes,
        goodput_bps: flow.data.map_or(0.0, |(begin, end)| rate(flow.new_bytes, begin, end)),
        rtt: rtt(&flow.rtt.by_ack),
        rtt_timestamps: rtt(&flow.rtt.by_timestamp),
        in_flight_max_bytes: flow.in_flight_max,
        window_max_bytes: flow.window_max,
        labels: flow.counts,
    }
}

fn rtt(samples: &Histogram) -> Option<Rtt> {
    let at = |q: f64| samples.quantile(q).map(seconds);
    Some(Rtt {
        samples: samples.count(),
        min_s: at(0.0)?,
        median_s: at(0.5)?,
        p95_s: at(0.95)?,
        max_s: at(1.0)?,
        mean_s: samples.mean()? / 1e9,
    })
}

/// What a connection carries in its main direction, by bins; `None` if it is not to be compared.
fn supply(a: &Analyzer, number: usize, first: usize, connection: &Connection) -> Option<Supply> {
    let (main, forward) = connection.main();
    if main.new_bytes < COMPARED {
        return None;
    }
    let stream = &a.streams[first];
    let side = if forward { stream.client() } else { stream.client() ^ 1 };
    let points = match stream.member {
        Some(m) => {
            let track = a.connections[m.group as usize].track.as_deref()?;
            growth(track, m.host(side))
        }
        None => growth(stream.flows[side].track.as_deref()?, flow::NEW_BYTES),
    };
    let bin = |t: f64| a.clock.bin(Instant((t * 1e9).round() as u64)) as usize;
    let mut bytes = vec![0.0; bin(seconds(a.bin_end)) + 1];
    for &(t, grown) in &points {
        if let Some(slot) = bytes.get_mut(bin(t)) {
            *slot += grown;
        }
    }
    let with_data = || bytes.iter().enumerate().filter(|(_, n)| **n > 0.0).map(|(i, _)| i);
    let alive = (with_data().next()?, with_data().next_back()?);
    Some(Supply { connection: number, bytes, alive })
}

/// By how much a counter grew at each row.
fn growth<const N: usize>(track: &Track<N>, column: usize) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let grown = |(t, value): (f64, f64)| (t, value - std::mem::replace(&mut before, value));
    track.values(column).into_iter().map(grown).collect()
}

fn compare(a: &Analyzer, supplies: &[Supply], connections: &[Connection]) -> Option<Fairness> {
    let Settings { window, skip, .. } = a.settings;
    let interval = a.clock.interval().as_secs_f64();
    let medians = supplies.iter().flat_map(|s| &connections[s.connection].subflows);
    let medians = medians.flat_map(|s| [s.forward.rtt, s.backward.rtt]).flatten();
    let slowest = medians.map(|rtt| rtt.median_s).fold(0.0, f64::max);
    let window = window.map_or_else(|| (10.0 * slowest).max(1.0), |w| w.as_secs_f64());
    let short = 5f64.min(seconds(a.now) / 10.0);
    let skip = skip.map_or(short, |s| s.as_secs_f64());
    let bins = |s: f64| (s / interval).round() as usize;
    fair::fairness(supplies, interval, bins(window), bins(skip))
}

fn rate(bytes: u64, begin: u64, end: u64) -> f64 {
    if end > begin { bytes as f64 * 8e9 / (end - begin) as f64 } else { 0.0 }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
