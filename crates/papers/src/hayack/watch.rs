//! What a run is watched for: how much of Link1 each flow gets over time, windows,
//! congestion events, and the error packets of the multipath flow as Wireshark names them.

use std::collections::VecDeque;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::record::{Record, What};
use tabane_engine::view::{PathId, SubflowId};
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{CapturePoint, FlowIdx, HostIdx, Layout, Observer, Wants};
use tabane_trace::analysis::{Analyzer, Label, Settings};
use tabane_wire::pcapng::BASE_TIME;
use tabane_wire::{Headers, Segment};

/// Between samples, seconds.
pub(super) const STEP: f64 = 0.1;
/// Left out at the start, seconds (as the paper).
pub(super) const SKIP: f64 = 5.0;
/// ACKs remembered to know their copies by.
const COPIES: usize = 1024;

pub(super) struct Watch {
    errors: bool,
    hosts: [HostIdx; 4],
    /// Of TCP and of the multipath flow.
    pub(super) flows: [Track; 2],
    /// By the second subflow, bytes by sample.
    pub(super) second: Vec<f64>,
    headers: Headers,
    analyzer: Analyzer,
    seen: VecDeque<Segment>,
    counts: [u64; 5],
    /// Error packets of each kind so far, every second.
    pub(super) over_time: Vec<[u64; 5]>,
}

/// A flow on Link1.
#[derive(Default)]
pub(super) struct Track {
    /// Payload bytes delivered by Link1, by sample.
    pub(super) bytes: Vec<f64>,
    /// Window and bytes in flight at the sender, by sample.
    pub(super) window: Vec<f64>,
    pub(super) flight: Vec<f64>,
    /// Samples after the start in which the window was not what limited sending, of all.
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

    fn sender(&mut self, now: Instant, subflow: &SubflowInfo) {
        let view = &subflow.view;
        self.window.push(view.cwnd as f64);
        self.flight.push(view.in_flight as f64);
        if now.as_secs_f64() >= SKIP {
            self.idle.1 += 1;
            self.idle.0 += u64::from(view.in_flight + 2 * view.mss <= view.cwnd);
        }
    }
}

impl Watch {
    /// `errors`: packets are classified, too.
    pub(super) fn new(errors: bool) -> Self {
        let settings = Settings { streams: 64, tracked: 1, ..Settings::default() };
        Self {
            errors,
            hosts: [HostIdx(u32::MAX); 4],
            flows: Default::default(),
            second: Vec::new(),
            headers: Headers::default(),
            analyzer: Analyzer::new(settings),
            seen: VecDeque::new(),
            counts: [0; 5],
            over_time: Vec::new(),
        }
    }

    /// Whether this is an ACK of the first subflow that another path has brought already: the
    /// thinned stream by its own path is ours, not the paper's.
    fn is_copy(&mut self, path: PathId, segment: &Segment) -> bool {
        if !segment.payload.is_empty() {
            return false;
        }
        if path == PathId(1) {
            if self.seen.len() == COPIES {
                self.seen.pop_front();
            }
            self.seen.push_back(segment.clone());
            return false;
        }
        self.seen.iter().any(|seen| seen == segment)
    }
}

impl Observer for Watch {
    fn wants(&self) -> Wants {
        let sample = Some(Duration::from_millis((STEP * 1e3) as u64));
        Wants { records: true, packets: self.errors, sample }
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
            self.flows[usize::from(host == b)].sender(now, first);
        } else if host == c || host == d {
            self.flows[usize::from(host == d)].bytes.push(first.delivered as f64);
        }
        if host == d {
            let second = info.subflows.iter().filter(|s| s.path == PathId(1));
            self.second.push(second.map(|s| s.delivered as f64).sum());
            if self.errors && self.second.len().is_multiple_of(10) {
                self.over_time.push(self.counts);
            }
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
        let (host, path) = match point {
            CapturePoint::Sent(host, path) | CapturePoint::Received(host, path) => (host, path),
            CapturePoint::Link(_) => return,
        };
        if host != self.hosts[1] {
            return;
        }
        let received = matches!(point, CapturePoint::Received(..));
        if received && self.is_copy(path, segment) {
            return;
        }
        self.headers.set(segment);
        let outcome = self.analyzer.packet(BASE_TIME.saturating_add(now.0), &self.headers);
        // The first stream is the first subflow.
        if let Some(outcome) = outcome.filter(|o| o.stream == 0) {
            for (count, label) in self.counts.iter_mut().zip(Label::ERRORS) {
                *count += u64::from(outcome.verdict.labels.contains(label));
            }
        }
    }
}
