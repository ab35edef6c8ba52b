//! One direction of a link as a state machine: Queue -> Rate -> Loss -> Delay, always in this
//! order; packets and time in, packets and time out. No clock and no I/O, so that the simulator
//! and the emulator that shapes real packets run the same code.
//!
//! Everything is computed lazily: what the link would have done up to `now` is done when somebody
//! asks, at the times at which it would have happened. So one event per packet and hop is enough
//! ([`Link::next_event`] is mostly the next arrival), whatever the queue model.
#![warn(missing_docs)]

mod backlog;
pub mod conditions;
pub mod config;
pub mod delay;
mod faults;
mod flight;
pub mod loss;
pub mod medium;
pub mod queue;
pub mod rate;
mod sharing;
mod stats;

use crate::prefetch::fetch;
use crate::seed::{Rng, Seed};
use backlog::{Backlog, Waiting};
use conditions::Course;
use delay::Delay;
use flight::Flight;
use loss::Loss;
use medium::Station;
use queue::{Arrival, Head, Queue, Verdict};
use rate::{Rate, Work};
use siphasher::sip::SipHasher24;
use std::collections::VecDeque;
use std::hash::Hasher;
use tabane_engine::{Duration, Instant};

pub use conditions::{ConditionsConfig, Series, SeriesError};
pub use config::{LinkChange, LinkConfig, LinkError};
pub use delay::DelayConfig;
pub use faults::Faults;
pub use rate::{RateConfig, Trace, TraceError};
pub use stats::{Count, LinkStats};

/// Packets that may be on their way at once; what is more is dropped as by the queue. Only an
/// unlimited rate, or a delay of minutes, gets there.
const MAX_FLIGHT: usize = 1 << 22;

/// Reports of losses that are kept for [`Link::poll_loss`]; the oldest go first.
const MAX_REPORTS: usize = 1 << 16;

/// What travels.
pub trait Packet: Sized {
    /// Length on the wire, bytes, IP header included.
    fn wire_len(&self) -> u32;
    /// May be marked instead of dropped (ECT, RFC 3168).
    fn ect(&self) -> bool {
        false
    }
    /// Marks it Congestion Experienced. Only asked of packets that are `ect`.
    fn mark_ce(&mut self) {}
    /// Damages it; `bits` are random.
    fn corrupt(&mut self, bits: u64);
    /// A second one.
    fn duplicate(&self) -> Self;
    /// A hash of what tells its flow from others: protocol, addresses, ports. Unless said, all are
    /// one flow.
    fn flow(&self) -> u64 {
        0
    }
}

/// A hash of a flow, evenly spread.
pub fn flow_hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(0, 0);
    parts.iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

/// Bytes that mean nothing to the link.
impl Packet for Vec<u8> {
    fn wire_len(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }
    fn corrupt(&mut self, bits: u64) {
        if !self.is_empty() {
            let bit = bits % (self.len() as u64 * 8);
            self[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// One direction of a link.
pub struct Link<P> {
    waiting: Backlog<P>,
    /// When the first of `waiting` would begin, if nothing is being sent.
    begins: Instant,
    service: Option<Service<P>>,
    flight: Flight<P>,
    /// The last arrival of those that stay in order.
    arrival_max: Instant,
    /// How long the last packet took to send that took any time; what is usual before the first.
    last_service: Duration,
    clock: Instant,
    up: bool,
    course: Option<Box<Course>>,
    /// When conditions change, or the medium may have sent the packet.
    turn: Instant,

    queue: Box<dyn Queue>,
    rate: Box<dyn Rate>,
    loss: Option<Box<dyn Loss>>,
    delay: DelayConfig,
    faults: Faults,
    /// Some fault is on.
    faulty: bool,
    /// More may happen before the next arrival: packets overtake each other, or a medium is shared.
    reorders: bool,
    /// Packets that reached the loss stage.
    numbered: u64,
    aside: Box<Aside>,

    stats: LinkStats,
    report: bool,
    losses: VecDeque<Lost<P>>,
}

/// What many links never need, apart: what all packets need stays close together.
struct Aside {
    /// A random stream for each stage that may draw.
    queue: Rng,
    loss: Rng,
    delay: Rng,
    fault: Rng,
    /// The link's own loss, while conditions say another.
    own_loss: Option<OwnLoss>,
    /// Where a medium is shared with the other direction.
    station: Option<Station>,
}

/// A link's own loss model while another is in its place: it goes on where it was.
struct OwnLoss {
    model: Option<Box<dyn Loss>>,
    /// The number of the packet that was being sent, and whether this model lost it: a model is
    /// asked about each packet once, because some count them.
    said: Option<(u64, bool)>,
}

/// A packet that is gone.
#[derive(Clone, PartialEq, Debug)]
pub struct Lost<P> {
    /// When.
    pub at: Instant,
    /// Where.
    pub cause: Cause,
    /// The packet.
    pub packet: P,
}

/// Where packets go lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The queue dropped it.
    Queue,
    /// The loss model took it, or the list of drops.
    Loss,
    /// The link was or went down.
    Down,
}

impl Cause {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Loss => "loss",
            Self::Down => "down",
        }
    }
}

/// Where in a link a packet is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// Behind so many others in the queue; the one that is being sent has nobody before it.
    Queued(usize),
    /// On its way: the share of the propagation delay that lies behind it, 0 to 1.
    Travelling(f64),
}

/// Brings the place of a packet whose turn comes soon into the caches, in which nothing stays as
/// long as in a queue when thousands of connections take turns.
#[inline]
fn fetch_soon<T>(queue: &VecDeque<T>) {
    const SOON: usize = 16;
    if let Some(later) = queue.get(SOON) {
        fetch(later);
    }
}

/// The packet that is being sent, with what will become of it.
struct Service<P> {
    began: Instant,
    /// Of `work`; later than `began` if the rate has changed meanwhile.
    start: Instant,
    work: Work,
    departure: Instant,
    arrival: Instant,
    fate: Fate,
    packet: P,
}

#[derive(Clone, Copy, Default)]
struct Fate {
    /// By the loss model.
    lost: bool,
    /// By the list of drops.
    listed: bool,
    /// By the medium.
    garbled: bool,
    delay: Duration,
    /// Extra delay by which others may overtake it.
    late: Option<Duration>,
    corrupt: Option<u64>,
    duplicate: bool,
}

impl Fate {
    /// Whether it never arrives.
    #[inline(always)]
    fn is_gone(&self) -> bool {
        self.lost | self.listed | self.garbled
    }
}

impl<P: Packet> Link<P> {
    /// A link as `config` says, whose random streams are called `name/...`.
    ///
    /// # Errors
    /// What [`LinkConfig::check`] finds; [`LinkError::Alone`].
    pub fn new(config: &LinkConfig, seed: Seed, name: &str) -> Result<Self, LinkError> {
        match &config.medium {
            Some(_) => Err(LinkError::Alone),
            None => Self::own(config, seed, name),
        }
    }

    /// A link by itself, whatever medium it is to have.
    fn own(config: &LinkConfig, seed: Seed, name: &str) -> Result<Self, LinkError> {
        config.check()?;
        let stream = |part: &str| seed.stream(&format!("{name}/{part}"));
        let queue = queue::build(&config.queue)?;
        let course = config.conditions.as_ref();
        let course = course.map(|given| Course::new(given, config, seed, name)).transpose()?;
        let turn = course.as_ref().map_or(Instant::FAR_FUTURE, Course::next);
        let mut link = Self {
            waiting: Backlog::new(queue.subqueues()),
            begins: Instant::ZERO,
            service: None,
            flight: Flight::new(),
            arrival_max: Instant::ZERO,
            last_service: Duration((12_000.0e9 / config.rate.mean()) as u64),
            clock: Instant::ZERO,
            up: config.up,
            course: course.map(Box::new),
            turn,
            queue,
            rate: rate::build(&config.rate, Instant::ZERO),
            loss: loss::build(&config.loss)?,
            delay: config.delay,
            faults: Faults::default(),
            faulty: false,
            reorders: false,
            numbered: 0,
            aside: Box::new(Aside {
                queue: stream("queue"),
                loss: stream("loss"),
                delay: stream("delay"),
                fault: stream("faults"),
                own_loss: None,
                station: None,
            }),
            stats: LinkStats::default(),
            report: false,
            losses: VecDeque::new(),
        };
        link.set_faults(config.faults.clone());
        Ok(link)
    }

    /// Whether lost packets are kept for [`Link::poll_loss`]. Off at first.
    pub fn report_losses(&mut self, on: bool) {
        self.report = on;
    }

    /// A packet comes. Time never goes back: an earlier `now` than before counts as that.
    pub fn push(&mut self, now: Instant, packet: P) {
        let now = self.advance(now);
        let len = packet.wire_len();
        self.stats.offered.add(len);
        if !self.up {
            return self.lose(now, Cause::Down, packet);
        }
        if self.flight.len() >= MAX_FLIGHT {
            return self.lose(now, Cause::Queue, packet);
        }
        self.enqueue(now, packet, now);
        let (packets, bytes) = (self.waiting.len() as u64, self.waiting.bytes());
        self.stats.queue_packets_max = self.stats.queue_packets_max.max(packets);
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(bytes);
    }

    /// The next packet that has arrived by `now`, if any.
    pub fn pop(&mut self, now: Instant) -> Option<P> {
        let now = self.advance(now);
        let packet = self.flight.pop(now)?;
        self.stats.delivered.add(packet.wire_len());
        Some(packet)
    }

    /// The packet that arrives `n` packets after the next one, if it is known by now and none
    /// overtakes it: a hint.
    #[inline]
    pub fn upcoming(&self, n: usize) -> Option<&P> {
        self.flight.upcoming(n)
    }

    /// When to call [`Link::pop`] next (it may find nothing then); `None` while the link is
    /// empty.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = self.flight.next();
        if arrival.is_some() && !self.reorders {
            return arrival;
        }
        let server = match &self.service {
            Some(s) if s.fate.is_gone() && self.waiting.is_empty() && !self.report => None,
            Some(s) if s.fate.is_gone() || (self.reorders && !self.waiting.is_empty()) => {
                Some(s.departure)
            }
            Some(s) => Some(s.arrival),
            None => (!self.waiting.is_empty()).then_some(self.begins),
        };
        // Then it may be sooner.
        let server = server.map(|at| at.min(self.turn));
        match (arrival, server) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether [`Link::poll_loss`] has something to tell.
    #[inline]
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// A packet that was lost, if [`Link::report_losses`] is on. Ask after each push and pop.
    pub fn poll_loss(&mut self) -> Option<Lost<P>> {
        self.losses.pop_front()
    }

    /// Totals up to `now`.
    pub fn stats(&mut self, now: Instant) -> LinkStats {
        let now = self.advance(now);
        let mut stats = self.stats;
        if let Some(service) = &self.service {
            stats.busy = stats.busy + (now - service.began);
        }
        stats
    }

    /// Packets and bytes that wait at `now`.
    pub fn backlog(&mut self, now: Instant) -> Count {
        self.advance(now);
        Count { packets: self.waiting.len() as u64, bytes: self.waiting.bytes() }
    }

    /// Looks at each packet in it, from the far end on. Where they are is told for `now`; who is in
    /// the queue is as of the last packet that came or went.
    pub fn packets(&self, now: Instant, mut look: impl FnMut(Place, &P)) {
        let whole = self.delay.mean().0.max(1) as f64;
        for (arrival, packet) in self.flight.all() {
            let left = (arrival.0.saturating_sub(now.0)) as f64;
            look(Place::Travelling((1.0 - left / whole).clamp(0.0, 1.0)), packet);
        }
        let sent = self.service.iter().map(|service| &service.packet);
        for (before, packet) in sent.chain(self.waiting.all()).enumerate() {
            look(Place::Queued(before), packet);
        }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Changes what `change` names, from `now` on.
    ///
    /// # Errors
    /// What [`LinkChange::check`] finds; then nothing is changed.
    pub fn change(&mut self, now: Instant, change: &LinkChange) -> Result<(), LinkError> {
        change.check()?;
        let now = self.advance(now);
        match &mut self.course {
            Some(course) => {
                let adapted = course.adapt(change);
                if let Some(spec) = change.loss.as_ref().filter(|_| course.has_loss()) {
                    let model = loss::build(spec)?;
                    self.aside.own_loss = Some(OwnLoss { model, said: None });
                }
                self.apply(now, &adapted)?;
            }
            None => self.apply(now, change)?,
        }
        self.advance(now);
        Ok(())
    }

    fn apply(&mut self, now: Instant, change: &LinkChange) -> Result<(), LinkError> {
        if let Some(spec) = &change.queue {
            self.replace_queue(now, queue::build(spec)?);
        }
        if let Some(rate) = &change.rate {
            match &mut self.aside.station {
                Some(station) => station.set_rate(rate.mean() as u64),
                None => self.replace_rate(now, rate::build(rate, now)),
            }
        }
        let said = change.loss.as_ref().map(|spec| self.set_loss(spec)).transpose()?.flatten();
        if let Some(delay) = change.delay {
            self.delay = delay;
        }
        let faults = change.faults.clone().unwrap_or_else(|| std::mem::take(&mut self.faults));
        self.set_faults(faults);
        self.redraw(change, said);
        if let Some(up) = change.up {
            self.set_up(now, up);
        }
        Ok(())
    }
}

mod machine;

#[cfg(test)]
mod tests;
