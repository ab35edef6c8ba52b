//! What must hold in every run, whatever the network does: observers that look for violations.
//!
//! Byte-exact delivery is checked by the applications (`verify = true`); here are the invariants
//! that packets and samples show.

use crate::observe::{CapturePoint, FlowIdx, HostIdx, LinkIdx, Observer, Wants};
use crate::result::RunResult;
use crate::scenario::{Amount, Scenario};
use crate::world::TOO_LONG;
use siphasher::sip::SipHasher24;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::Hasher;
use std::net::SocketAddr;
use tabane_engine::mptcp::Info;
use tabane_engine::record::Record;
use tabane_engine::{Config, Duration, Instant};
use tabane_wire::{DataNumber, Flags, Segment, SeqNum};

/// Looks for what must never happen.
#[derive(Debug, Default)]
pub struct Check {
    violations: Vec<String>,
    /// Violations beyond [`Check::LIMIT`].
    more: u64,
    streams: BTreeMap<(SocketAddr, SocketAddr), Stream>,
    hosts: BTreeMap<HostIdx, Traffic>,
    receive_buffer_max: u64,
    send_buffer_max: u64,
}

/// One direction of a subflow, as its sender sent it.
#[derive(Debug, Default)]
struct Stream {
    ack: Option<SeqNum>,
    data_ack: Option<SeqNum>,
}

/// What a host sent and received.
#[derive(Debug, Default)]
struct Traffic {
    pure_acks: u64,
    /// What may be answered by an ACK: payload, control bits, probes, other ACKs out of window.
    answerable: u64,
    /// Pure ACKs received since something else was.
    echo: u64,
}

impl Check {
    /// Violations kept; the rest are counted.
    pub const LIMIT: usize = 20;
    /// Pure ACKs that may come in a row while no data moves in either direction.
    const ECHO_LIMIT: u64 = 20_000;

    /// Looks at a run of this scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let mut check = Self::default();
        let mut configs = vec![Config::default()];
        scenario.defaults.apply(&mut configs[0]);
        for (_, host) in scenario.host.iter() {
            let mut config = configs[0].clone();
            host.apply(&mut config);
            configs.push(config);
        }
        for side in scenario.proxy.iter().flat_map(|(_, proxy)| [&proxy.listen, &proxy.connect]) {
            let mut config = configs[0].clone();
            side.apply(&mut config);
            configs.push(config);
        }
        for (_, tunnel) in scenario.tunnel.iter() {
            let mut config = configs[0].clone();
            tunnel.settings().apply(&mut config);
            configs.push(config);
        }
        let tcp = || configs.iter().map(|c| &c.tcp);
        let receive = tcp().map(|c| c.receive_buffer_max.max(c.receive_buffer)).max();
        check.receive_buffer_max = receive.unwrap_or(u64::MAX);
        check.send_buffer_max = tcp().map(|c| c.send_buffer).max().unwrap_or(u64::MAX);
        check
    }

    /// What was found, after the run, together with what its result shows.
    pub fn violations(mut self, scenario: &Scenario, result: &RunResult) -> Vec<String> {
        let specs = scenario.flow.iter().flat_map(|f| std::iter::repeat_n(f, f.count as usize));
        for (flow, spec) in result.flows.iter().zip(specs) {
            if let Some(at) = flow.corrupt_at {
                self.add(format!("flow {}: wrong byte at position {at}", flow.name));
            }
            if let (Some(Amount::Bytes(size)), Some(_)) = (spec.bulk, flow.completed_s)
                && flow.bytes != size.0
                && spec.stop.is_none()
            {
                self.add(format!("flow {}: {} bytes of {size} delivered", flow.name, flow.bytes));
            }
        }
        for (host, traffic) in std::mem::take(&mut self.hosts) {
            let seconds = result.ended_s.ceil() as u64 + 1;
            let allowed = 4 * traffic.answerable + 500 * seconds + 1_000;
            if traffic.pure_acks > allowed {
                let Traffic { pure_acks, answerable, .. } = traffic;
                self.add(format!("host {host:?}: {pure_acks} ACKs for {answerable} packets"));
            }
        }
        for (node, count) in &result.too_long {
            self.add(format!("{node}: {count} packets longer than their path's MTU"));
        }
        if self.more > 0 {
            self.violations.push(format!("and {} more", self.more));
        }
        self.violations
    }

    fn add(&mut self, violation: String) {
        if self.violations.len() < Self::LIMIT {
            self.violations.push(violation);
        } else {
            self.more += 1;
        }
    }

    /// Acknowledgements never go back, at either level.
    fn on_sent(&mut self, now: Instant, host: HostIdx, segment: &Segment) {
        let flags = segment.flags;
        let stream = self.streams.entry((segment.src, segment.dst)).or_default();
        if flags.contains(Flags::SYN) {
            *stream = Stream::default();
        }
        let mut wrong = None;
        if flags.contains(Flags::ACK) && !flags.contains(Flags::RST) {
            if stream.ack.is_some_and(|before| segment.ack.before(before)) {
                wrong = Some(format!("ACK went back: {:?} after {:?}", segment.ack, stream.ack));
            }
            stream.ack = Some(segment.ack);
        }
        if let Some(number) = segment.options.dss.and_then(|dss| dss.data_ack) {
            // A long number may follow short ones: the low halves are compared.
            let low = SeqNum(match number {
                DataNumber::Long(n) => n as u32,
                DataNumber::Short(n) => n,
            });
            if stream.data_ack.is_some_and(|before| low.before(before)) {
                wrong = Some(format!("DATA_ACK went back: {low:?} after {:?}", stream.data_ack));
            }
            stream.data_ack = Some(low);
        }
        if let Some(what) = wrong {
            let (src, dst) = (segment.src, segment.dst);
            self.add(format!("{} s: {src} > {dst}: {what}", now.as_secs_f64()));
        }
        if is_pure_ack(segment) {
            self.hosts.entry(host).or_default().pure_acks += 1;
        }
    }

    /// ACKs are not answered with ACKs for ever.
    fn on_received(&mut self, now: Instant, host: HostIdx, segment: &Segment) {
        let traffic = self.hosts.entry(host).or_default();
        if is_pure_ack(segment) {
            traffic.echo += 1;
        } else {
            traffic.answerable += 1;
            traffic.echo = 0;
        }
        if traffic.echo == Self::ECHO_LIMIT && traffic.answerable == 0 {
            let count = Self::ECHO_LIMIT;
            self.add(format!("{} s: {count} ACKs and nothing else", now.as_secs_f64()));
        }
    }
}

fn is_pure_ack(segment: &Segment) -> bool {
    let control = Flags::SYN | Flags::FIN | Flags::RST;
    segment.payload.is_empty() && !segment.flags.intersects(control)
}

impl Observer for Check {
    fn wants(&self) -> Wants {
        Wants { records: false, packets: true, sample: Some(Duration::from_millis(100)) }
    }

    fn packet(&mut self, point: CapturePoint, now: Instant, segment: &Segment) {
        match point {
            CapturePoint::Sent(host, _) => self.on_sent(now, host, segment),
            CapturePoint::Received(host, _) => self.on_received(now, host, segment),
            CapturePoint::Link(_) => {}
        }
    }

    fn lost(&mut self, _: LinkIdx, now: Instant, cause: &'static str, segment: &Segment) {
        if cause == TOO_LONG {
            let len = segment.wire_len();
            self.add(format!("{} s: {len} bytes are too long: {segment}", now.as_secs_f64()));
        }
    }

    fn sample(&mut self, now: Instant, flow: FlowIdx, host: HostIdx, info: &Info) {
        // A byte more for a window that was full when a probe came.
        let held = info.out_of_order + info.received.saturating_sub(info.read);
        if held > self.receive_buffer_max + (64 << 10) {
            let limit = self.receive_buffer_max;
            self.add(format!(
                "{} s: {flow:?} holds {held} bytes at {host:?}, its buffer is {limit}",
                now.as_secs_f64()
            ));
        }
        let outstanding = info.written.saturating_sub(info.acked);
        if outstanding > self.send_buffer_max {
            let limit = self.send_buffer_max;
            self.add(format!(
                "{} s: {flow:?} has {outstanding} bytes unacknowledged, its send buffer is {limit}",
                now.as_secs_f64()
            ));
        }
    }
}

/// A hash of every record, in order: equal for equal runs.
#[derive(Debug)]
pub struct RecordHash {
    hasher: SipHasher24,
    text: String,
    pub count: u64,
}

impl Default for RecordHash {
    fn default() -> Self {
        Self { hasher: SipHasher24::new_with_keys(0, 0), text: String::new(), count: 0 }
    }
}

impl RecordHash {
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.hasher.finish()
    }
}

impl Observer for RecordHash {
    fn wants(&self) -> Wants {
        Wants { records: true, ..Wants::default() }
    }

    fn record(&mut self, host: HostIdx, record: &Record) {
        self.text.clear();
        let written = write!(self.text, "{host:?} {record:?}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
        self.hasher.write(self.text.as_bytes());
        self.count += 1;
    }
}
