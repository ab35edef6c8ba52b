//! What the rows of the table are measured with: observers that keep what a formula speaks of.

use std::path::Path;
use tabane_engine::mptcp::Info;
use tabane_engine::record::{Record, What};
use tabane_engine::view::RecoveryPhase;
use tabane_engine::{Duration, Instant};
use tabane_sim::observe::{
    CapturePoint, FlowIdx, HostIdx, Layout, LinkIdx, LinkSample, Observer, Silent, Wants,
};
use tabane_sim::result::RunResult;
use tabane_sim::scenario::Document;
use tabane_sim::{Plan, run};
use tabane_wire::Segment;

/// A scenario of `scenarios/theory`, with overrides.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) file: &'static str,
    pub(crate) sets: &'static [&'static str],
}

impl Setting {
    /// Runs it under the eyes of `observer`.
    pub(crate) fn watch(self, observer: &mut dyn Observer) -> RunResult {
        run(&self.plan(), observer).unwrap_or_else(|e| panic!("{}: {e}", self.file))
    }

    /// Runs it unwatched.
    pub(crate) fn run(self) -> RunResult {
        self.watch(&mut Silent)
    }

    fn plan(self) -> Plan {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/theory");
        let sets: Vec<String> = self.sets.iter().map(|s| (*s).to_owned()).collect();
        let document = Document::read(&folder.join(self.file), &sets);
        let mut variants = document.and_then(|d| d.variants()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(variants.len(), 1, "{}: one run", self.file);
        variants.remove(0).plan
    }

    /// The command that repeats it.
    pub(crate) fn command(self) -> String {
        let sets = self.sets.iter().map(|s| format!(" --set '{s}'"));
        format!("tabane sim run scenarios/theory/{}{}", self.file, sets.collect::<String>())
    }
}

/// Something that a window went through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Step {
    /// It has so many bytes.
    Window(u64),
    /// A congestion signal reached the controller.
    Signal,
    /// What was lost has been repaired.
    Repaired,
}

/// The sender of the only flow, and the link that its data takes, in the second half of the run:
/// before, slow start has gone as far as the first loss let it.
#[derive(Default)]
pub(crate) struct Sender {
    /// Whether to look at records: signals and windows.
    records: bool,
    server: Option<HostIdx>,
    link: Option<LinkIdx>,
    half: Instant,
    /// Packets delivered and lost, at the middle of the run and by now; seconds of the run.
    middle: Option<(f64, [f64; 2])>,
    last: (f64, [f64; 2]),
    /// Samples of the smoothed RTT and the timeout, and their sums in seconds.
    samples: u64,
    rtt_sum: f64,
    rto_sum: f64,
    /// First timeouts of a row of them.
    pub(crate) timeouts: u64,
    /// Congestion signals.
    pub(crate) signals: u64,
    /// In seconds of the run.
    pub(crate) steps: Vec<(f64, Step)>,
}

impl Sender {
    /// One that looks at records, or not.
    pub(crate) fn new(records: bool) -> Self {
        Self { records, ..Self::default() }
    }

    /// Mean smoothed RTT, seconds.
    pub(crate) fn rtt(&self) -> f64 {
        self.rtt_sum / self.samples as f64
    }

    /// Mean retransmission timeout, seconds.
    pub(crate) fn rto(&self) -> f64 {
        self.rto_sum / self.samples as f64
    }

    /// Packets that were delivered, packets that were lost, and in how many seconds.
    pub(crate) fn carried(&self) -> ([f64; 2], f64) {
        let (begin, before) = self.middle.expect("the run has a second half");
        let (end, after) = self.last;
        ([after[0] - before[0], after[1] - before[1]], end - begin)
    }
}

impl Observer for Sender {
    fn wants(&self) -> Wants {
        let sample = Some(Duration::from_millis(100));
        Wants { records: self.records, packets: false, sample }
    }

    fn begin(&mut self, layout: &Layout) {
        let index = |n: usize| u32::try_from(n).ok();
        let server = layout.hosts.iter().position(|host| host.name == "server");
        let link = layout.links.iter().position(|link| link.to == "client");
        self.server = server.and_then(index).map(HostIdx);
        self.link = link.and_then(index).map(LinkIdx);
        self.half = Instant(layout.end.0 / 2);
    }

    fn sample(&mut self, now: Instant, _: FlowIdx, host: HostIdx, info: &Info) {
        if let [subflow] = info.subflows.as_slice()
            && Some(host) == self.server
            && now >= self.half
        {
            self.samples += 1;
            self.rtt_sum += subflow.view.srtt.as_secs_f64();
            self.rto_sum += subflow.rto.as_secs_f64();
        }
    }

    fn link_sample(&mut self, now: Instant, link: LinkIdx, sample: &LinkSample) {
        if Some(link) == self.link && now >= self.half {
            self.last = (seconds(now), [sample.delivered as f64, sample.lost as f64]);
            self.middle.get_or_insert(self.last);
        }
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        if Some(host) != self.server || record.at < self.half {
            return;
        }
        let step = match record.what {
            What::Timeout { backoff } => {
                self.timeouts += u64::from(backoff <= 1);
                return;
            }
            What::Congestion(_) => {
                self.signals += 1;
                Step::Signal
            }
            What::Window { cwnd, .. } => Step::Window(cwnd),
            What::Recovery(RecoveryPhase::Open) => Step::Repaired,
            _ => return,
        };
        self.steps.push((seconds(record.at), step));
    }
}

/// A link direction: what came, what arrived at its far end, and what waited.
pub(crate) struct Queue {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    sample: Duration,
    link: Option<LinkIdx>,
    host: Option<HostIdx>,
    packets: bool,
    /// Time and bytes on the wire of each packet that entered, nanoseconds.
    pub(crate) entered: Vec<(u64, u64)>,
    /// When each reached the host behind it.
    pub(crate) arrived: Vec<u64>,
    /// Time, packets and bytes that wait.
    pub(crate) samples: Vec<(f64, u64, u64)>,
}

impl Queue {
    /// The direction of link `name` from node `from` to host `to`; `packets`: each of them, too.
    pub(crate) fn new(name: &'static str, ends: [&'static str; 2], packets: bool) -> Self {
        let [from, to] = ends;
        Self {
            name,
            from,
            to,
            sample: Duration::from_micros(500),
            link: None,
            host: None,
            packets,
            entered: Vec::new(),
            arrived: Vec::new(),
            samples: Vec::new(),
        }
    }
}

impl Observer for Queue {
    fn wants(&self) -> Wants {
        Wants { packets: self.packets, sample: Some(self.sample), ..Wants::default() }
    }

    fn begin(&mut self, layout: &Layout) {
        let link = |l: &tabane_sim::observe::LinkLayout| {
            l.name == self.name && (l.from == self.from || l.to == self.to)
        };
        let index = |n: usize| u32::try_from(n).ok();
        self.link = layout.links.iter().position(link).and_then(index).map(LinkIdx);
        let host = layout.hosts.iter().position(|host| host.name == self.to);
        self.host = host.and_then(index).map(HostIdx);
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        match point {
            CapturePoint::Link(link) if Some(link) == self.link => {
                self.entered.push((now.0, segment.wire_len() as u64));
            }
            CapturePoint::Received(host, _) if Some(host) == self.host => self.arrived.push(now.0),
            _ => {}
        }
    }

    fn link_sample(&mut self, now: Instant, link: LinkIdx, sample: &LinkSample) {
        if Some(link) == self.link {
            let LinkSample { queued_packets, queued_bytes, .. } = *sample;
            self.samples.push((seconds(now), queued_packets, queued_bytes));
        }
    }
}

fn seconds(at: Instant) -> f64 {
    at.0 as f64 / 1e9
}
