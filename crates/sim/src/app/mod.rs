//! Applications: what the two ends of a flow write and read, and when.
//!
//! One value holds both ends of a flow. The *source* sends the data that counts, the *sink* reads
//! it; which of them connected is the scenario's `direction`. Applications see a connection and
//! the time, and answer with the time at which they want to be called again. What they run on is a
//! [`Transport`], so that the same application drives the engine and the kernel's sockets.

mod bulk;
mod onoff;
mod paced;
mod request;

use crate::pattern::Pattern;
use crate::scenario::{Amount, Flow as FlowSpec, FlowDirection as Direction};
use crate::seed::Rng;
use bytes::Bytes;
use tabane_config::quantity::Size;
use tabane_engine::mptcp::Connection;
use tabane_engine::{Duration, Event, Instant};

/// The applications, for listings: name and one line.
pub const ALL: &[(&str, &str)] = &[
    ("bulk", "sends a number of bytes, or without end, as fast as it goes"),
    ("request", "asks, waits for the answer, thinks, asks again; latency of each answer"),
    ("paced", "messages at a steady rate; latency of each message"),
    ("onoff", "as fast as it goes for a while, then nothing for a while"),
];

/// What carries an application's bytes: a connection of the engine, or a socket of the kernel.
pub trait Transport {
    /// Takes from the front of `data` what it has room for now; how many bytes that was.
    fn write(&mut self, data: &mut Bytes) -> usize;
    /// Bytes that it would take now.
    fn writable(&self) -> u64;
    /// The next bytes in order, if there are any: at most `max`.
    fn read(&mut self, max: usize) -> Option<Bytes>;
    /// The peer has closed and everything has been read.
    fn is_finished(&self) -> bool;
    /// Nothing more will be written.
    fn close(&mut self, now: Instant);
}

impl Transport for Connection {
    fn write(&mut self, data: &mut Bytes) -> usize {
        Self::write(self, data)
    }
    fn writable(&self) -> u64 {
        Self::writable(self)
    }
    fn read(&mut self, max: usize) -> Option<Bytes> {
        Self::read(self, max)
    }
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn close(&mut self, now: Instant) {
        Self::close(self, now);
    }
}

/// Which end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Writes the data that counts.
    Source,
    /// Reads it.
    Sink,
}

/// An application and both its ends.
#[derive(Debug)]
pub struct App {
    kind: Kind,
    /// Source to sink.
    data: Stream,
    /// Sink to source (requests; bulk, if it goes both ways).
    ask: Stream,
    /// Bulk both ways at once.
    both: bool,
    /// Compare what is read with what was written.
    verify: bool,
    stopping: bool,
    source_closed: bool,
    sink_closed: bool,
    completed: Option<Instant>,
    latencies: Latencies,
    /// When the sink last read data (at first never, which is far), and the longest time between
    /// two such moments.
    delivery: Instant,
    stall: Duration,
}

#[derive(Debug)]
enum Kind {
    Bulk(bulk::Bulk),
    Request(request::Request),
    Paced(paced::Paced),
    OnOff(Box<onoff::OnOff>),
}

/// One direction of a flow.
#[derive(Debug, Default)]
struct Stream {
    pattern: Pattern,
    written: u64,
    read: u64,
    /// Position of the first byte that was not what it had to be.
    wrong_at: Option<u64>,
}

/// Latencies in nanoseconds, at most [`Latencies::LIMIT`]; later ones are only counted.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// In order of completion.
    pub nanos: Vec<u64>,
    /// Beyond the limit.
    pub uncounted: u64,
}

impl Latencies {
    /// Latencies kept per flow (8 MB).
    pub const LIMIT: usize = 1 << 20;

    fn add(&mut self, nanos: u64) {
        if self.nanos.len() < Self::LIMIT {
            self.nanos.push(nanos);
        } else {
            self.uncounted += 1;
        }
    }
}

impl App {
    /// The application of the `n`-th flow of a run.
    pub fn new(spec: &FlowSpec, n: u64, verify: bool, rng: Rng) -> Self {
        let kind = if let Some(amount) = spec.bulk {
            Kind::Bulk(bulk::Bulk::new(match amount {
                Amount::Bytes(Size(bytes)) => Some(bytes),
                Amount::Unlimited => None,
            }))
        } else if let Some(request) = &spec.request {
            Kind::Request(request::Request::new(request))
        } else if let Some(paced) = &spec.paced {
            Kind::Paced(paced::Paced::new(paced))
        } else {
            let onoff = spec.onoff.as_ref().expect("invariant: a checked flow has one app");
            Kind::OnOff(Box::new(onoff::OnOff::new(onoff, rng)))
        };
        let stream = |k| Stream { pattern: Pattern::of(2 * n + k), ..Stream::default() };
        Self {
            kind,
            data: stream(0),
            ask: stream(1),
            both: spec.bulk.is_some() && spec.direction == Direction::Both,
            verify,
            stopping: false,
            source_closed: false,
            sink_closed: false,
            completed: None,
            latencies: Latencies::default(),
            delivery: Instant::FAR_FUTURE,
            stall: Duration::ZERO,
        }
    }

    /// An event of one end's connection. Returns when this end wants [`App::tick`] called, if it
    /// was not waiting for that already.
    pub fn on_event(
        &mut self,
        now: Instant,
        role: Role,
        event: &Event,
        conn: &mut impl Transport,
    ) -> Option<Instant> {
        match event {
            Event::Connected | Event::Accepted { .. } | Event::Writable => {
                self.advance(now, role, conn)
            }
            Event::Readable => {
                self.read(now, role, conn);
                self.advance(now, role, conn)
            }
            Event::PeerFinished => {
                self.read(now, role, conn);
                let again = self.advance(now, role, conn);
                if !self.both {
                    self.close(now, role, conn);
                }
                again
            }
            _ => None,
        }
    }

    /// A time asked for has come.
    pub fn tick(&mut self, now: Instant, role: Role, conn: &mut impl Transport) -> Option<Instant> {
        match &mut self.kind {
            Kind::Request(request) => request.wake(),
            Kind::OnOff(onoff) => onoff.wake(),
            Kind::Paced(paced) => paced.wake(),
            Kind::Bulk(_) => {}
        }
        self.advance(now, role, conn)
    }

    /// The flow's `stop` has come: the source finishes what it has written and closes.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether the application has done all it had to.
    pub fn completed(&self) -> Option<Instant> {
        self.completed
    }

    /// Whether both ends send.
    pub fn goes_both_ways(&self) -> bool {
        self.both
    }

    /// Bytes of data read by the sink.
    pub fn delivered(&self) -> u64 {
        self.data.read
    }

    /// Bytes of data written by the source.
    pub fn written(&self) -> u64 {
        self.data.written
    }

    /// Position of the first wrong byte of either direction.
    pub fn wrong_at(&self) -> Option<u64> {
        self.data.wrong_at.or(self.ask.wrong_at)
    }

    /// Latencies, for applications that have them.
    pub fn latencies(&self) -> Option<&Latencies> {
        matches!(self.kind, Kind::Request(_) | Kind::Paced(_)).then_some(&self.latencies)
    }

    /// The longest time between two deliveries to the sink, the one that lasts at `now` included;
    /// all the time since `start` if there has been none.
    pub fn stall(&self, now: Instant, start: Instant) -> Duration {
        let end = self.completed.unwrap_or(now);
        if self.delivery == Instant::FAR_FUTURE {
            return end - start;
        }
        self.stall.max(end - self.delivery)
    }

    /// Whether this end has the role that must be told about the passing of time.
    pub fn ticking_role(&self) -> Role {
        match self.kind {
            Kind::Request(_) => Role::Sink,
            _ => Role::Source,
        }
    }

    fn advance(&mut self, now: Instant, role: Role, conn: &mut impl Transport) -> Option<Instant> {
        match role {
            Role::Source => self.supply(now, conn),
            Role::Sink => self.consume(now, conn),
        }
    }

    /// The sink of a flow both ways sends as much as it gets.
    fn send_back(&mut self, now: Instant, bulk: u64, conn: &mut impl Transport) {
        if self.sink_closed {
            return;
        }
        let goal = if self.stopping { self.ask.written } else { bulk };
        self.ask.write_up_to(goal, conn);
        if self.ask.written >= goal {
            self.close(now, Role::Sink, conn);
        }
    }

    /// Whether both streams of a flow both ways have brought everything.
    fn is_exchanged(&self) -> bool {
        let whole = |stream: &Stream| stream.read == stream.written;
        self.source_closed && self.sink_closed && whole(&self.ask) && whole(&self.data)
    }

    /// The source writes what it may.
    fn supply(&mut self, now: Instant, conn: &mut impl Transport) -> Option<Instant> {
        if self.source_closed {
            return None;
        }
        let stopping = self.stopping;
        let (goal, again) = match &mut self.kind {
            Kind::Bulk(bulk) => (bulk.goal(), None),
            Kind::Request(request) => (request.goal(self.ask.read), None),
            Kind::Paced(paced) => paced.goal(now, stopping),
            Kind::OnOff(onoff) => onoff.goal(now, self.data.written, conn.writable()),
        };
        let goal = if stopping { goal.min(self.data.written) } else { goal };
        self.data.write_up_to(goal, conn);
        let all = match &self.kind {
            Kind::Bulk(bulk) => bulk.is_all(self.data.written),
            _ => false,
        };
        if all || (stopping && self.data.written >= goal) {
            self.close(now, Role::Source, conn);
        }
        again
    }

    /// The sink looks at what it has, and asks for more if it is the asking kind.
    fn consume(&mut self, now: Instant, conn: &mut impl Transport) -> Option<Instant> {
        let read = self.data.read;
        let mut again = None;
        let done = match &mut self.kind {
            Kind::Bulk(bulk) => bulk.is_all(read) && !self.both,
            Kind::Request(request) => {
                again = request.ask(now, read, self.stopping, &mut self.latencies);
                request.is_over(read, self.stopping)
            }
            Kind::Paced(paced) => {
                paced.arrived(now, read, &mut self.latencies);
                false
            }
            Kind::OnOff(_) => false,
        };
        if let Kind::Request(request) = &self.kind
            && !self.sink_closed
        {
            self.ask.write_up_to(request.asked(), conn);
        }
        if let Kind::Bulk(bulk) = &self.kind
            && self.both
        {
            let goal = bulk.goal();
            self.send_back(now, goal, conn);
        }
        if done && self.completed.is_none() {
            self.completed = Some(now);
            if matches!(self.kind, Kind::Request(_)) {
                self.close(now, Role::Sink, conn);
            }
        }
        again
    }

    fn read(&mut self, now: Instant, role: Role, conn: &mut impl Transport) {
        let stream = match role {
            Role::Source => &mut self.ask,
            Role::Sink => {
                self.stall = self.stall.max(now - self.delivery);
                self.delivery = now;
                &mut self.data
            }
        };
        while let Some(bytes) = conn.read(usize::MAX) {
            if self.verify && stream.wrong_at.is_none() {
                let fits = stream.pattern.matches(stream.read, &bytes);
                stream.wrong_at = (!fits).then_some(stream.read);
            }
            stream.read += bytes.len() as u64;
        }
        let over = role == Role::Sink && conn.is_finished() && self.completed.is_none();
        if self.both && self.is_exchanged() {
            self.completed.get_or_insert(now);
        } else if over && !self.both && self.stopping && self.data.read == self.data.written {
            self.completed = Some(now);
        }
    }

    fn close(&mut self, now: Instant, role: Role, conn: &mut impl Transport) {
        let closed = match role {
            Role::Source => &mut self.source_closed,
            Role::Sink => &mut self.sink_closed,
        };
        if !std::mem::replace(closed, true) {
            conn.close(now);
        }
    }
}

impl Stream {
    /// Writes until `goal` bytes have been written in all, or the send buffer is full.
    fn write_up_to(&mut self, goal: u64, conn: &mut impl Transport) {
        while self.written < goal {
            let mut bytes = self.pattern.from(self.written, goal - self.written);
            let taken = conn.write(&mut bytes);
            self.written += taken as u64;
            if !bytes.is_empty() {
                break;
            }
        }
    }
}
