//! An observer of the simulator that records as an agent does.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use tabane_engine::mptcp::Info;
use tabane_engine::{ConnId, Duration, Instant};
use tabane_record::{
    ConnectionReading, DOWN, DirectionReading, PathReading, RecordSettings, Recorder, Role, UP,
    Using,
};
use tabane_sim::observe::{
    CapturePoint, FlowIdx, HostIdx, Layout, LinkIdx, LinkSample, Observer, Wants,
};
use tabane_wire::Segment;

/// When the recording begins, milliseconds since 1970.
pub(super) const START: u64 = 1_800_000_000_000;
/// From one marker of a direction to the next.
const MARKER: Duration = Duration::from_millis(50);
/// Least delays are remembered for half of it to all of it.
const WINDOW: Duration = Duration::from_secs(20);
/// A queue stands from here on.
const STANDS: Duration = Duration::from_millis(2);
/// Markers on their way.
const PENDING: usize = 64;

/// Records what a simulated client and server would know.
pub(super) struct Feed {
    layout: Layout,
    policies: Arc<str>,
    /// By name of path, up and down.
    directions: BTreeMap<String, [Direction; 2]>,
    paths: BTreeMap<String, PathNow>,
    connections: BTreeMap<u32, ConnectionReading>,
    opened: BTreeMap<u32, Instant>,
    recorder: Option<Recorder>,
}

#[derive(Default)]
struct PathNow {
    waits: bool,
    rtt: Option<Duration>,
}

#[derive(Default)]
struct Direction {
    sent: u64,
    packets: u64,
    bytes: u64,
    lost: u64,
    next: Instant,
    pending: VecDeque<(Segment, Instant, u64)>,
    queue: Option<Duration>,
    least: [Duration; 2],
    since: Instant,
}

impl Direction {
    fn send(&mut self, now: Instant, segment: &Segment) {
        self.sent += 1;
        if now >= self.next {
            self.next = now + MARKER;
            if self.pending.len() == PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back((segment.clone(), now, self.sent));
        }
    }

    fn receive(&mut self, now: Instant, segment: &Segment, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
        let is_it = |(marker, ..): &(Segment, Instant, u64)| {
            marker.seq == segment.seq && marker.src == segment.src && marker == segment
        };
        let Some(at) = self.pending.iter().position(is_it) else { return };
        let Some((_, sent_at, sent)) = self.pending.drain(..=at).next_back() else { return };
        self.lost = self.lost.max(sent.saturating_sub(self.packets));
        if now.saturating_since(self.since) > WINDOW / 2 {
            self.least = [self.least[1], Duration(u64::MAX)];
            self.since = now;
        }
        let delay = now.saturating_since(sent_at);
        self.least[1] = self.least[1].min(delay);
        self.queue = Some(delay.saturating_sub(self.least[0].min(self.least[1])));
    }

    fn reading(&self, now: Instant) -> DirectionReading {
        let Self { packets, bytes, lost, queue, .. } = *self;
        let (at_us, exercised) = (now.0 / 1000, queue.is_some_and(|queue| queue >= STANDS));
        DirectionReading { at_us, bytes, packets, lost, queue, exercised, ..Default::default() }
    }
}

impl Feed {
    /// Records into a folder.
    pub(super) fn new(policies: &str, folder: &Path) -> Self {
        let keep = Duration::from_secs(86_400);
        let settings = RecordSettings { keep, folder: folder.to_owned(), names: false };
        Self {
            layout: Layout::default(),
            policies: policies.into(),
            directions: BTreeMap::new(),
            paths: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: BTreeMap::new(),
            recorder: Some(Recorder::start(&settings, Role::Client).unwrap()),
        }
    }

    /// The direction in which a segment goes that a host sends or receives.
    fn direction(&mut self, host: HostIdx, segment: &Segment, sends: bool) -> &mut Direction {
        // Flows here all go from the same client.
        let ends = [segment.src.ip(), segment.dst.ip()];
        let name = self.layout.subflow_path(FlowIdx(0), ends).unwrap_or("unknown").to_owned();
        let client = self.layout.flows[0].client == host;
        let way = if client == sends { UP } else { DOWN };
        let new = || {
            let least = [Duration(u64::MAX); 2];
            [(); 2].map(|()| Direction { least, ..Direction::default() })
        };
        &mut self.directions.entry(name).or_insert_with(new)[way]
    }
}

fn unix_ms(now: Instant) -> u64 {
    START + now.0 / 1_000_000
}

impl Observer for Feed {
    fn wants(&self) -> Wants {
        let sample = Some(tabane_record::TICK);
        Wants { packets: true, sample, ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        self.layout = layout.clone();
    }

    fn opened(&mut self, now: Instant, flow: FlowIdx, _host: HostIdx, _conn: ConnId) {
        self.opened.entry(flow.0).or_insert(now);
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        match point {
            CapturePoint::Sent(host, _) => self.direction(host, segment, true).send(now, segment),
            CapturePoint::Received(host, _) => {
                let bytes = segment.wire_len() as u64;
                self.direction(host, segment, false).receive(now, segment, bytes);
            }
            CapturePoint::Link(_) => {}
        }
    }

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        let ends = self.layout.flows[flow.0 as usize].clone();
        let opened = self.opened.get(&flow.0).copied().unwrap_or(now);
        let policies = self.policies.clone();
        let reading = self.connections.entry(flow.0).or_insert_with(|| ConnectionReading {
            id: u64::from(flow.0) + 1,
            policies,
            target: "".into(),
            ..ConnectionReading::default()
        });
        reading.age = now.saturating_since(opened);
        let waits = info.written > info.acked + info.outstanding;
        if host == ends.client {
            reading.bytes = [info.acked, info.received];
            reading.waits = waits;
            reading.paths.clear();
        }
        // The server's sample comes after the client's.
        reading.waits |= waits;
        for subflow in &info.subflows {
            let ips = [subflow.local.ip(), subflow.remote.ip()];
            let name = self.layout.subflow_path(flow, ips).unwrap_or("unknown").to_owned();
            let path = self.paths.entry(name.clone()).or_default();
            let view = &subflow.view;
            if view.in_flight > 0 {
                path.waits = true;
                if !view.latest_rtt.is_zero() && subflow.stats.bytes_sent > 10_000 {
                    path.rtt = Some(view.latest_rtt);
                }
            }
            if host == ends.client {
                let bytes = subflow.stats.bytes_sent + subflow.delivered;
                match reading.paths.iter_mut().find(|(known, _)| **known == *name) {
                    Some((_, sum)) => *sum += bytes,
                    None => reading.paths.push((name.into(), bytes)),
                }
            }
        }
    }

    fn link_sample(&mut self, now: Instant, link: LinkIdx, _sample: &LinkSample) {
        if link != LinkIdx(0) || now == Instant::ZERO {
            return;
        }
        let mut paths: Vec<(Arc<str>, PathReading)> = Vec::new();
        for (name, path) in &mut self.paths {
            let Some(directions) = self.directions.get(name) else { continue };
            let directions = directions.each_ref().map(|way| way.reading(now));
            let (waits, rtt) = (std::mem::take(&mut path.waits), path.rtt);
            let using = Using::Active;
            paths.push((
                name.as_str().into(),
                PathReading { up: true, waits, using, rtt, directions },
            ));
        }
        let connections: Vec<_> = self.connections.values().cloned().collect();
        if let Some(recorder) = &mut self.recorder {
            assert_eq!(recorder.take((now, unix_ms(now)), paths, connections), None);
        }
    }

    fn completed(&mut self, now: Instant, flow: FlowIdx) {
        if let (Some(last), Some(recorder)) = (self.connections.remove(&flow.0), &mut self.recorder)
        {
            recorder.ended((now, unix_ms(now)), &last);
        }
    }

    fn end(&mut self, now: Instant) {
        if let Some(recorder) = self.recorder.take() {
            recorder.end((now, unix_ms(now)));
        }
    }
}
