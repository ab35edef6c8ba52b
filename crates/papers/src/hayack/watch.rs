//! What a run is watched for: how much of Link1 each flow gets over time, windows, congestion
//! events, and what captures show of the multipath flow: on Link1, where the paper's is, and at its
//! sender, by both paths.

use super::capture::{Capture, Windows};
use std::net::SocketAddr;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::record::{Record, What};
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{CapturePoint, FlowIdx, HostIdx, Layout, LinkIdx, Observer, Wants};
use tabane_wire::Segment;

/// Between samples, seconds.
pub(super) const STEP: f64 = 0.1;
/// Before then nothing is sent, seconds (as in the paper); everything after it is measured.
pub(super) const START: f64 = 5.0;

pub(super) struct Watch {
    captures: bool,
    hosts: [HostIdx; 4],
    /// Of TCP and of the multipath flow.
    pub(super) flows: [Track; 2],
    /// By the second subflow, bytes by sample.
    pub(super) second: Vec<f64>,
    /// Of the first subflow, at the far end of Link1 and at the sender.
    pub(super) on_link1: Capture,
    pub(super) at_sender: Capture,
    /// Where the first subflow comes from, and how many of its segments with data Link1 has lost.
    source: Option<SocketAddr>,
    pub(super) lost: u64,
    /// Of the multipath flow.
    pub(super) window: Window,
}

/// How far a receive window has come towards what the buffer allows.
#[derive(Default)]
pub(super) struct Window {
    /// The most, as a share of the limit.
    pub(super) most: f64,
    /// When it was first there, seconds.
    pub(super) full_at: Option<f64>,
}

impl Window {
    fn seen(&mut self, now: Instant, info: &Info) {
        // The scale of the header rounds what is announced.
        const FULL: f64 = 0.95;
        let share = info.receive_window as f64 / (info.receive_buffer as f64).max(1.0);
        self.most = self.most.max(share);
        if share >= FULL && self.full_at.is_none() {
            self.full_at = Some(now.as_secs_f64());
        }
    }
}

/// A flow on Link1.
#[derive(Default)]
pub(super) struct Track {
    /// Payload bytes delivered by Link1, by sample.
    pub(super) bytes: Vec<f64>,
    /// As a capture at the far end of Link1 shows them.
    pub(super) captured: Windows,
    /// Samples in which the window was not what limited sending, of all.
    idle: (u64, u64),
    /// When it reduced its window, seconds, and how often by a timeout.
    pub(super) cuts: Vec<f64>,
    pub(super) timeouts: u64,
}

impl Track {
    /// Share of the time in which something else than congestion control limited sending.
    pub(super) fn window_limited(&self) -> f64 {
        self.idle.0 as f64 / (self.idle.1 as f64).max(1.0)
    }

    fn sender(&mut self, subflow: &SubflowInfo) {
        let view = &subflow.view;
        self.idle.1 += 1;
        self.idle.0 += u64::from(view.in_flight + 2 * view.mss <= view.cwnd);
    }
}

/// The value at a sample; those that there were none for are as the one before, or 0.
fn put(series: &mut Vec<f64>, now: Instant, value: f64) {
    let at = (now.as_secs_f64() / STEP).round() as usize;
    let last = series.last().copied().unwrap_or(0.0);
    series.resize((at + 1).max(series.len()), last);
    series[at] = value;
}

impl Watch {
    /// `captures`: packets are looked at, too.
    pub(super) fn new(captures: bool) -> Self {
        Self {
            captures,
            hosts: [HostIdx(u32::MAX); 4],
            flows: Default::default(),
            second: Vec::new(),
            on_link1: Capture::new(),
            at_sender: Capture::new(),
            source: None,
            lost: 0,
            window: Window::default(),
        }
    }
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        let sample = Some(Duration::from_millis((STEP * 1e3) as u64));
        Wants { records: true, packets: self.captures, sample }
    }

    fn begin(&mut self, layout: &Layout) {
        for (slot, name) in self.hosts.iter_mut().zip(["a", "b", "c", "d"]) {
            let found = layout.hosts.iter().position(|h| h.name == name);
            *slot = found.map_or(*slot, |at| HostIdx(at as u32));
        }
    }

    fn sample(&mut self, now: Instant, _flow: FlowIdx, host: HostIdx, info: &Info) {
        let first = info.subflows.iter().find(|s| s.path == PathId(0));
        let Some(first) = first else { return };
        let [a, b, c, d] = self.hosts;
        if host == a || host == b {
            self.flows[usize::from(host == b)].sender(first);
        } else if host == c || host == d {
            put(&mut self.flows[usize::from(host == d)].bytes, now, first.delivered as f64);
        }
        if host == d {
            self.window.seen(now, info);
            let second = info.subflows.iter().filter(|s| s.path == PathId(1));
            put(&mut self.second, now, second.map(|s| s.delivered as f64).sum());
        }
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        let What::Congestion(kind) = record.what else { return };
        let [a, b, ..] = self.hosts;
        if record.subflow != Some(SubflowId(0)) || host != a && host != b {
            return;
        }
        let track = &mut self.flows[usize::from(host == b)];
        track.cuts.push(record.at.as_secs_f64());
        let timeout = kind == tabane_engine::congestion::CongestionKind::Rto;
        track.timeouts += u64::from(timeout);
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        let (host, path, received) = match point {
            CapturePoint::Sent(host, path) => (host, path, false),
            CapturePoint::Received(host, path) => (host, path, true),
            CapturePoint::Link(_) => return,
        };
        let [_, b, c, d] = self.hosts;
        let first = path == PathId(0);
        if first && (host == c || host == d) {
            self.flows[usize::from(host == d)].captured.packet(now, received, segment);
        }
        if first && host == d {
            self.on_link1.packet(now, segment);
        }
        if host == b {
            if first && !received {
                self.source = Some(segment.src);
            }
            self.at_sender.packet(now, segment);
        }
    }

    fn lost(&mut self, _: LinkIdx, _: Instant, _: &'static str, segment: &Segment) {
        let ours = self.source == Some(segment.src) && !segment.payload.is_empty();
        self.lost += u64::from(ours);
    }
}
