//! What a run looks like from inside: goodput by the second, and what became of each layer's
//! segments.

use super::Course;
use super::layers::START;
use std::collections::BTreeMap;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, Observer, Wants};
use tabane_sim::result::RunResult;

/// Watches the connections of all layers.
#[derive(Default)]
pub(super) struct Inside {
    /// Names of the connections.
    flows: Vec<String>,
    /// Who receives a download and an upload.
    ends: [HostIdx; 2],
    /// Bytes received by the end of each second, at both ends of the flow.
    received: [Vec<u64>; 2],
    /// The last look at each end of a connection.
    last: BTreeMap<(FlowIdx, HostIdx), Layer>,
    /// Sums of smoothed round-trip times of senders, seconds, and looks.
    rtts: BTreeMap<FlowIdx, (f64, u64)>,
}

/// What a connection has gone through: all its subflows, both directions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Layer {
    sent: u64,
    resent: u64,
    pub(super) timeouts: u64,
    /// Congestion responses that were undone: nothing had been lost.
    pub(super) undone: u64,
    /// Mean of the smoothed round-trip times, seconds.
    pub(super) rtt: f64,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) course: Course,
    /// Packets that the WANs have dropped, both ways.
    pub(super) dropped: u64,
    /// Packets that found the queue of a tunnel full.
    pub(super) refused: u64,
    /// iperf3's connection, or that which stands for its datagrams.
    pub(super) flow: Layer,
    /// The connection of the VPN, where the flow is inside it.
    pub(super) vpn: Layer,
    /// Those of the tunnels over the WANs, together.
    pub(super) tunnels: Layer,
}

impl Layer {
    /// Share of what was sent that was sent again, percent.
    pub(super) fn resent(&self) -> f64 {
        100.0 * self.resent as f64 / (self.sent as f64).max(1.0)
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.resent += other.resent;
        self.timeouts += other.timeouts;
        self.undone += other.undone;
        self.rtt = self.rtt.max(other.rtt);
    }
}

impl Inside {
    pub(super) fn run(self, result: &RunResult, upload: bool) -> Run {
        let received = &self.received[usize::from(upload)];
        let rates = received.windows(2).skip(START);
        let course = Course(rates.map(|w| (w[1] - w[0]) as f64 * 8.0 / 1e6).collect());
        let layer = |wanted: &dyn Fn(&str) -> bool| {
            let mut sum = Layer::default();
            for ((flow, _), layer) in &self.last {
                if wanted(&self.flows[flow.0 as usize]) {
                    let (rtt, looks) = self.rtts.get(flow).copied().unwrap_or_default();
                    sum.add(&Layer { rtt: rtt / (looks as f64).max(1.0), ..*layer });
                }
            }
            sum
        };
        let lost = |tunnel: bool| {
            let is = |name: &str| (name == "vpn" || name.starts_with("t-")) == tunnel;
            result.links.iter().filter(|link| is(&link.link)).map(|link| link.lost).sum()
        };
        Run {
            course,
            dropped: lost(false),
            refused: lost(true),
            flow: layer(&|name| name == "file"),
            vpn: layer(&|name| name == "vpn"),
            tunnels: layer(&|name| name.starts_with("t-")),
        }
    }
}

impl Observer for Inside {
    fn wants(&self) -> Wants {
        Wants { sample: Some(Duration::from_millis(100)), ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.flows = layout.flows.iter().map(|flow| flow.name.clone()).collect();
        if let Some(flow) = layout.flows.first() {
            self.ends = [flow.client, flow.server];
        }
    }

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let mut layer = Layer::default();
        for subflow in &info.subflows {
            layer.sent += subflow.stats.bytes_sent;
            layer.resent += subflow.stats.bytes_retransmitted;
            layer.timeouts += subflow.stats.timeouts;
            layer.undone += subflow.stats.undone;
            if subflow.view.in_flight > 64 << 10 {
                let (sum, looks) = self.rtts.entry(flow).or_default();
                *sum += subflow.view.srtt.as_secs_f64();
                *looks += 1;
            }
        }
        self.last.insert((flow, host), layer);
        let end = self.ends.iter().position(|end| *end == host);
        if let (FlowIdx(0), Some(end)) = (flow, end) {
            // At the end of a second, the last look within it counts.
            let second = now.as_secs_f64().ceil() as usize;
            let series = &mut self.received[end];
            let before = series.last().copied().unwrap_or(0);
            series.resize((second + 1).max(series.len()), before);
            series[second] = info.received;
        }
    }
}
