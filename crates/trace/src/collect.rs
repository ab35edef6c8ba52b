//! The observer behind every table and plot: samples become tracks, records become counters.
//!
//! Its memory is bounded: [`Settings::bins`] rows a series, [`Settings::tracked`] connection ends
//! with series (further ones have counters only), [`MARKS`] changes remembered. It keeps no
//! record and no packet.

use crate::histogram::Histogram;
use crate::idle::Decisions;
use crate::observe::{FlowIdx, HostIdx, Layout, LinkIdx, LinkSample, Observer, Wants};
use crate::track::{Clock, Track};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tabane_engine::mptcp::{Info, SubflowInfo};
use tabane_engine::record::{ConnectionChange, Record, What};
use tabane_engine::tcp;
use tabane_engine::view::SubflowId;
use tabane_engine::{ConnId, Duration, Instant};

/// Changes of the world remembered; later ones are not drawn.
pub const MARKS: usize = 1_000;

/// Watches a run; [`Collector::report`] tells what it saw.
#[derive(Debug)]
pub struct Collector {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) layout: Layout,
    pub(crate) ends: BTreeMap<(FlowIdx, HostIdx), End>,
    owners: BTreeMap<(HostIdx, ConnId), FlowIdx>,
    pub(crate) links: Vec<Track<LINK_COLUMNS>>,
    pub(crate) marks: Vec<(Instant, String)>,
    pub(crate) completed: BTreeMap<FlowIdx, Instant>,
    pub(crate) drops: BTreeMap<(HostIdx, &'static str), u64>,
    pub(crate) now: Instant,
}

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time between samples.
    pub interval: Duration,
    /// Rows kept a series; when a run outgrows them, the interval doubles.
    pub bins: usize,
    /// Connection ends (two a flow) that get series.
    pub tracked: usize,
    /// Whether to watch records too: RTT quantiles, windows, reasons.
    pub records: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Duration::from_millis(100), bins: 2_000, tracked: 256, records: true }
    }
}

/// Columns of a link's track.
pub(crate) const LINK_COLUMNS: usize = 4;
/// Bytes waiting.
pub(crate) const QUEUED: usize = 0;
/// Bytes delivered, a counter.
pub(crate) const CARRIED: usize = 1;
/// Packets lost, a counter.
pub(crate) const LOST: usize = 2;
/// Packets delivered, a counter.
pub(crate) const PACKETS: usize = 3;

/// Columns of a connection's track; those below [`CONN_COUNTERS`] are counters.
pub(crate) const CONN_COLUMNS: usize = 10;
pub(crate) const CONN_COUNTERS: usize = 5;
pub(crate) const WRITTEN: usize = 0;
pub(crate) const ACKED: usize = 1;
pub(crate) const RECEIVED: usize = 2;
pub(crate) const DUPLICATE: usize = 3;
pub(crate) const REINJECTED: usize = 4;
pub(crate) const OUT_OF_ORDER: usize = 5;
pub(crate) const RECEIVE_BUFFER: usize = 6;
pub(crate) const SEND_WINDOW: usize = 7;
pub(crate) const OUTSTANDING: usize = 8;
pub(crate) const RECEIVE_WINDOW: usize = 9;

/// Columns of a subflow's track; those below [`SUB_COUNTERS`] are counters.
pub(crate) const SUB_COLUMNS: usize = 8;
pub(crate) const SUB_COUNTERS: usize = 3;
pub(crate) const SENT: usize = 0;
pub(crate) const RETRANSMITTED: usize = 1;
pub(crate) const DELIVERED: usize = 2;
pub(crate) const CWND: usize = 3;
pub(crate) const SSTHRESH: usize = 4;
pub(crate) const IN_FLIGHT: usize = 5;
pub(crate) const SRTT: usize = 6;
pub(crate) const RTT: usize = 7;

/// One end of a flow: its connection at one host (the latest, if it had several).
#[derive(Default, Debug)]
pub(crate) struct End {
    pub(crate) opened: Instant,
    /// Among the first [`Settings::tracked`]: has series.
    kept: bool,
    pub(crate) row: [f64; CONN_COLUMNS],
    base: [f64; CONN_COUNTERS],
    pub(crate) track: Track<CONN_COLUMNS>,
    pub(crate) subflows: Vec<Subflow>,
    /// By the subflows' numbers.
    pub(crate) rtt: BTreeMap<u32, Histogram>,
    pub(crate) decisions: Decisions,
}

/// A subflow at one end, by order of creation.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub(crate) number: u32,
    pub(crate) slot: SubflowId,
    /// Its name at the host that connects.
    pub(crate) path: String,
    pub(crate) row: [f64; SUB_COLUMNS],
    base: [f64; SUB_COUNTERS],
    pub(crate) stats: tcp::Stats,
    pub(crate) track: Track<SUB_COLUMNS>,
}

impl Collector {
    /// A collector that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: Clock::new(settings.interval, settings.bins),
            layout: Layout::default(),
            ends: BTreeMap::new(),
            owners: BTreeMap::new(),
            links: Vec::new(),
            marks: Vec::new(),
            completed: BTreeMap::new(),
            drops: BTreeMap::new(),
            now: Instant::ZERO,
        }
    }

    fn reach(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while self.clock.is_beyond(now) {
            self.clock.double();
            let clock = &self.clock;
            for end in self.ends.values_mut() {
                end.track.coarsen(clock);
                end.subflows.iter_mut().for_each(|s| s.track.coarsen(clock));
            }
            self.links.iter_mut().for_each(|l| l.coarsen(clock));
        }
    }
}

impl Observer for Collector {
    fn wants(&self) -> Wants {
        let (records, sample) = (self.settings.records, Some(self.settings.interval));
        Wants { records, packets: false, sample }
    }

    fn begin(&mut self, layout: &Layout) {
        self.links = vec![Track::default(); layout.links.len()];
        self.layout = layout.clone();
    }

    fn opened(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, conn: ConnId) {
        self.owners.insert((host, conn), flow);
        let kept = self.ends.len() < self.settings.tracked;
        match self.ends.entry((flow, host)) {
            Entry::Vacant(place) => {
                place.insert(End { opened: now, kept, ..End::default() });
            }
            Entry::Occupied(mut end) => end.get_mut().start_over(),
        }
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        self.now = self.now.max(record.at);
        if let What::Dropped { reason } = record.what {
            *self.drops.entry((host, reason.name())).or_default() += 1;
        }
        let Some(conn) = record.conn else { return };
        let Some(&flow) = self.owners.get(&(host, conn)) else { return };
        if let Some(end) = self.ends.get_mut(&(flow, host)) {
            end.record(record);
        }
        if matches!(record.what, What::Connection(ConnectionChange::Closed(_))) {
            self.owners.remove(&(host, conn));
        }
    }

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        self.reach(now);
        let (ends, tracked) = (self.ends.len(), self.settings.tracked);
        let layout = &self.layout;
        let named = |subflow: &SubflowInfo| {
            let ends = [subflow.local.ip(), subflow.remote.ip()];
            let known = layout.subflow_path(flow, ends);
            known.map_or_else(|| layout.path_name(host, subflow.path), str::to_owned)
        };
        let fresh = || End { kept: ends < tracked, ..End::default() };
        let end = self.ends.entry((flow, host)).or_insert_with(fresh);
        for subflow in &info.subflows {
            if end.subflows.iter().all(|known| known.number != subflow.number) {
                end.subflows.push(Subflow::new(subflow, named(subflow)));
            }
        }
        end.sample(&self.clock, now, info);
    }

    fn link_sample(&mut self, now: Instant, link: LinkIdx, sample: &LinkSample) {
        self.reach(now);
        let Some(track) = self.links.get_mut(link.0 as usize) else { return };
        let mut row = [0.0; LINK_COLUMNS];
        row[QUEUED] = sample.queued_bytes as f64;
        row[CARRIED] = sample.delivered_bytes as f64;
        row[LOST] = sample.lost as f64;
        row[PACKETS] = sample.delivered as f64;
        track.push(&self.clock, now, row);
    }

    fn changed(&mut self, now: Instant, change: &str) {
        if self.marks.len() < MARKS {
            self.marks.push((now, change.to_owned()));
        }
    }

    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        self.completed.insert(flow, now);
    }

    fn end(&mut self, now: Instant) {
        self.reach(now);
    }
}

impl End {
    /// A further connection carries on the flow: counters go on from where they are.
    fn start_over(&mut self) {
        self.base.copy_from_slice(&self.row[..CONN_COUNTERS]);
        self.subflows.iter_mut().for_each(|s| s.base.copy_from_slice(&s.row[..SUB_COUNTERS]));
        self.decisions.start_over();
    }

    fn record(&mut self, record: &Record) {
        match record.what {
            What::Rtt { sample, .. } => {
                let slot = record.subflow.unwrap_or_default();
                self.rtt.entry(self.decisions.number(slot)).or_default().add(sample.0);
            }
            _ => self.decisions.record(record),
        }
    }

    fn sample(&mut self, clock: &Clock, now: Instant, info: &Info) {
        let kept = self.kept;
        self.decisions.take_numbers(info);
        self.row = conn_row(info);
        self.row.iter_mut().zip(self.base).for_each(|(value, base)| *value += base);
        if kept {
            self.track.push(clock, now, self.row);
        }
        for info in &info.subflows {
            let same = self.subflows.iter_mut().find(|known| known.number == info.number);
            same.into_iter().for_each(|subflow| subflow.sample(clock, now, info, kept));
        }
    }
}

impl Subflow {
    fn new(info: &SubflowInfo, path: String) -> Self {
        Self {
            number: info.number,
            slot: info.view.id,
            path,
            row: [0.0; SUB_COLUMNS],
            base: [0.0; SUB_COUNTERS],
            stats: info.stats,
            track: Track::default(),
        }
    }

    fn sample(&mut self, clock: &Clock, now: Instant, info: &SubflowInfo, kept: bool) {
        self.row = subflow_row(info);
        self.row.iter_mut().zip(self.base).for_each(|(value, base)| *value += base);
        self.stats = info.stats;
        let alive = !matches!(info.state, tcp::State::Closed | tcp::State::TimeWait);
        if kept && alive {
            self.track.push(clock, now, self.row);
        }
    }
}

fn conn_row(info: &Info) -> [f64; CONN_COLUMNS] {
    let mut row = [0.0; CONN_COLUMNS];
    row[WRITTEN] = info.written as f64;
    row[ACKED] = info.acked as f64;
    row[RECEIVED] = info.received as f64;
    row[DUPLICATE] = info.duplicate as f64;
    row[REINJECTED] = info.reinjected as f64;
    row[OUT_OF_ORDER] = info.out_of_order as f64;
    row[RECEIVE_BUFFER] = info.receive_buffer as f64;
    row[SEND_WINDOW] = info.send_window.map_or(f64::NAN, |window| window as f64);
    row[OUTSTANDING] = info.outstanding as f64;
    row[RECEIVE_WINDOW] = info.receive_window as f64;
    row
}

fn subflow_row(info: &SubflowInfo) -> [f64; SUB_COLUMNS] {
    let view = &info.view;
    let mut row = [0.0; SUB_COLUMNS];
    row[SENT] = info.stats.bytes_sent as f64;
    row[RETRANSMITTED] = info.stats.bytes_retransmitted as f64;
    row[DELIVERED] = info.delivered as f64;
    row[CWND] = view.cwnd as f64;
    row[SSTHRESH] = if view.ssthresh == u64::MAX { f64::NAN } else { view.ssthresh as f64 };
    row[IN_FLIGHT] = view.in_flight as f64;
    row[SRTT] = view.srtt.as_secs_f64();
    row[RTT] = view.latest_rtt.as_secs_f64();
    row
}

#[cfg(test)]
mod tests;
