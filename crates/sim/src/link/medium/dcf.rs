//! The distributed coordination function of IEEE 802.11 (2016, clause 10.3), basic access, event by
//! event: who may begin when, what overlaps, what is acknowledged.
//!
//! A station begins a frame when its counter has come to 0. The counter is drawn from a window
//! that doubles with each failure, and goes down by one with each slot in which the station hears
//! nothing, DIFS after the last it heard. Frames that begin in the same slot overlap. What is
//! received is acknowledged SIFS later; what is not acknowledged is sent again, until the
//! attempts are used up. After each frame, repeated or given up, comes a new counter, whether or
//! not there is another frame.
//!
//! There are four kinds of stations: the link's terminal, its access point, others that all hear,
//! and hidden ones, which hear all but the terminal, and which the terminal does not hear. All but
//! the access point send to the access point, that sends to the terminal. So a frame of the
//! terminal is open to hidden stations as long as it lasts, one of the access point is not; and
//! the ACK of the terminal is guarded by what hidden stations read in the access point's frame, for
//! how long the exchange takes (NAV).
//!
//! Simplified: begins are sensed at once, and not within a part of a slot; a packet that comes when
//! nobody sends begins with the next slot; who gets no ACK waits as long as who heard the frame; a
//! longer wait (EIFS) is not cut short.

use super::{Outcome, Wifi};
use crate::seed::{Rng, Seed};
use tabane_engine::{Duration, Instant};

/// A link's medium.
pub(super) struct Dcf {
    wifi: Wifi,
    rng: Rng,
    noise: Option<Noise>,
    clock: Instant,
    /// The terminal, the access point, the others, hidden ones last.
    members: Vec<Member>,
    /// What each kind of station hears.
    views: [View; KINDS],
    on_air: Vec<OnAir>,
    /// An ACK that will begin, and for whom.
    acks: Vec<(Instant, usize)>,
    /// Of the packets of both ends.
    outcomes: [Option<Outcome>; 2],
    /// Who begins now: for its memory.
    beginners: Vec<usize>,
}

/// Kinds of stations; the first two are members by the same numbers.
const TERMINAL: usize = 0;
const ACCESS_POINT: usize = 1;
const OTHER: usize = 2;
const HIDDEN: usize = 3;
const KINDS: usize = 4;

fn hears(kind: usize, source: usize) -> bool {
    !matches!((kind, source), (TERMINAL, HIDDEN) | (HIDDEN, TERMINAL))
}

/// A station.
struct Member {
    kind: usize,
    /// What it always has to send.
    always: Option<Frame>,
    frame: Option<Frame>,
    /// The one after that, of a link's end: its packet came while the ACK was on its way.
    queued: Option<Frame>,
    /// The window that counters are drawn from: 0 to this.
    window: u64,
    /// Slots to wait, counted from its view's `resumes`.
    counter: u64,
    /// Attempts at the present frame.
    tries: u32,
    sending: bool,
    /// For an ACK.
    waiting: bool,
    counters: Counters,
}

/// What a station has sent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    /// Frames, each time that they were sent.
    pub(super) attempts: u64,
    /// Those without an ACK.
    pub(super) failed: u64,
    /// Frames received, each once.
    pub(super) received: u64,
    /// Frames given up, whether or not they were received.
    pub(super) given_up: u64,
}

#[derive(Clone, Copy)]
struct Frame {
    /// Its time on the air.
    time: Duration,
    /// That of its ACK.
    ack: Duration,
    received: bool,
}

/// The medium as one kind of stations hears it.
#[derive(Clone, Copy)]
struct View {
    /// Frames and ACKs that it hears now.
    heard: u32,
    /// When counters go on, or went on if nothing is heard.
    resumes: Instant,
}

/// A frame or an ACK that is being sent.
struct OnAir {
    until: Instant,
    /// Kind of the station that sends it.
    source: usize,
    /// Member that sends it, or that the ACK is for.
    member: usize,
    is_ack: bool,
    /// Who cannot read it.
    garbled: [bool; KINDS],
}

/// Interference.
struct Noise {
    rng: Rng,
    burst: Duration,
    pause: Duration,
    on: bool,
    changes: Instant,
}

impl Noise {
    fn new((share, burst): (f64, Duration), mut rng: Rng) -> Option<Self> {
        let pause = Duration((burst.0 as f64 * (1.0 - share) / share.max(1e-9)) as u64);
        let changes = Instant::ZERO + rng.exponential_span(pause);
        (share > 0.0).then_some(Self { rng, burst, pause, on: false, changes })
    }

    fn change(&mut self) {
        self.on = !self.on;
        let mean = if self.on { self.burst } else { self.pause };
        self.changes += self.rng.exponential_span(mean).max(Duration(1));
    }
}

impl Dcf {
    /// The medium of the link called `link`; others send at `bps`.
    pub(super) fn new(wifi: &Wifi, bps: u64, seed: Seed, link: &str) -> Self {
        let noise = seed.stream(&format!("{link}/medium/interference"));
        let time = wifi.packet_time(wifi.bytes, bps);
        let always = Frame { time, ack: wifi.ack_time(bps), received: false };
        let own = [TERMINAL, ACCESS_POINT].map(|kind| Member::new(kind, None, wifi));
        let heard = wifi.stations - wifi.hidden;
        let kinds = (0..wifi.stations).map(|n| if n < heard { OTHER } else { HIDDEN });
        let others = kinds.map(|kind| Member::new(kind, Some(always), wifi));
        let view = View { heard: 0, resumes: Instant::ZERO + wifi.difs };
        let mut medium = Self {
            rng: seed.stream(&format!("{link}/medium")),
            noise: Noise::new(wifi.interference, noise),
            clock: Instant::ZERO,
            members: own.into_iter().chain(others).collect(),
            views: [view; KINDS],
            on_air: Vec::new(),
            acks: Vec::new(),
            outcomes: [None; 2],
            beginners: Vec::new(),
            wifi: wifi.clone(),
        };
        (2..medium.members.len()).for_each(|n| medium.draw(n));
        medium
    }

    /// One of the link's ends has a packet, and none whose outcome is not known.
    pub(super) fn offer(&mut self, own: usize, now: Instant, len: u32, bps: u64) {
        self.advance(now);
        let (time, ack) = (self.wifi.packet_time(len, bps), self.wifi.ack_time(bps));
        let frame = Some(Frame { time, ack, received: false });
        let member = &mut self.members[own];
        if member.frame.is_some() || member.sending || member.waiting {
            member.queued = frame;
            return;
        }
        member.frame = frame;
        let (view, now) = (self.views[member.kind], self.clock);
        if view.heard == 0 && now >= view.resumes {
            // Its counter may have come to 0 long ago.
            let begun = (now - view.resumes).0.div_ceil(self.wifi.slot.0);
            member.counter = member.counter.max(begun);
        } else if member.counter == 0 {
            self.draw(own);
        }
    }

    /// One of the link's ends has nothing to send any more.
    pub(super) fn withdraw(&mut self, own: usize, now: Instant) {
        self.advance(now);
        let member = &mut self.members[own];
        (member.frame, member.queued) = (None, None);
        self.outcomes[own] = None;
    }

    pub(super) fn take_outcome(&mut self, own: usize) -> Option<Outcome> {
        self.outcomes[own].take()
    }

    pub(super) fn counters(&self, member: usize) -> Counters {
        self.members[member].counters
    }

    /// The earliest moment at which the outcome of an end's packet may be known.
    pub(super) fn outlook(&self, own: usize) -> Instant {
        let member = &self.members[own];
        if let Some(outcome) = self.outcomes[own] {
            return outcome.at;
        }
        if let Some(queued) = &member.queued {
            return self.clock + queued.time;
        }
        let Some(frame) = member.frame.filter(|frame| !frame.received) else {
            return Instant::FAR_FUTURE;
        };
        if let Some(sent) = self.on_air.iter().find(|a| a.member == own && !a.is_ack) {
            return sent.until;
        }
        // As if nobody else began before.
        let heard = self.on_air.iter().filter(|a| hears(member.kind, a.source));
        let free = heard.map(|a| a.until + self.wifi.difs).max().unwrap_or_default();
        let resumes = self.views[member.kind].resumes.max(free);
        resumes + self.wifi.slot * member.counter + frame.time
    }

    /// Lets happen what happens up to `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        loop {
            let at = self.next();
            if at > now {
                break;
            }
            self.clock = at;
            while let Some(n) = self.on_air.iter().position(|a| a.until <= at) {
                let ended = self.on_air.remove(n);
                self.end(&ended);
            }
            if let Some(noise) = self.noise.as_mut().filter(|noise| noise.changes <= at) {
                noise.change();
                if noise.on {
                    self.on_air.iter_mut().for_each(|a| a.garbled = [true; KINDS]);
                }
            }
            while let Some(n) = self.acks.iter().position(|(begins, _)| *begins <= at) {
                let (_, member) = self.acks.remove(n);
                self.acknowledge(member);
            }
            self.begin();
        }
        self.clock = self.clock.max(now);
    }

    /// When something happens next.
    fn next(&self) -> Instant {
        let ends = self.on_air.iter().map(|a| a.until);
        let acks = self.acks.iter().map(|(begins, _)| *begins);
        let noise = self.noise.iter().map(|noise| noise.changes);
        let begins = self.members.iter().filter_map(|member| self.begins(member));
        ends.chain(acks).chain(noise).chain(begins).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// When a station begins its frame, if nobody else does before.
    fn begins(&self, member: &Member) -> Option<Instant> {
        let view = &self.views[member.kind];
        let ready = member.frame.is_some() && !member.sending && !member.waiting;
        (ready && view.heard == 0).then(|| view.resumes + self.wifi.slot * member.counter)
    }

    /// Those whose time has come begin their frames, all at once.
    fn begin(&mut self) {
        let mut beginners = std::mem::take(&mut self.beginners);
        let due = |member: &Member| self.begins(member).is_some_and(|at| at <= self.clock);
        beginners.extend((0..self.members.len()).filter(|n| due(&self.members[*n])));
        for member in beginners.drain(..) {
            let station = &mut self.members[member];
            let Some(frame) = station.frame else { continue };
            (station.sending, station.counters.attempts) = (true, station.counters.attempts + 1);
            let source = station.kind;
            self.send(frame.time, source, member, false);
        }
        self.beginners = beginners;
    }

    /// The receiver of a member's frame answers.
    fn acknowledge(&mut self, member: usize) {
        let station = &self.members[member];
        let ack = station.frame.map_or(self.wifi.ack_time(Wifi::LEAST_RATE), |frame| frame.ack);
        self.send(ack, receiver(station.kind), member, true);
    }

    /// A frame or an ACK begins.
    fn send(&mut self, time: Duration, source: usize, member: usize, is_ack: bool) {
        let noisy = self.noise.as_ref().is_some_and(|noise| noise.on);
        let mut begun =
            OnAir { until: self.clock + time, source, member, is_ack, garbled: [noisy; KINDS] };
        for kind in (0..KINDS).filter(|kind| hears(*kind, source)) {
            if self.views[kind].heard == 0 {
                self.freeze(kind);
            }
            self.views[kind].heard += 1;
            for other in self.on_air.iter_mut().filter(|other| hears(kind, other.source)) {
                (begun.garbled[kind], other.garbled[kind]) = (true, true);
            }
        }
        self.on_air.push(begun);
    }

    /// Counters of a kind of stations stop: something begins.
    fn freeze(&mut self, kind: usize) {
        let slots = (self.clock - self.views[kind].resumes).0 / self.wifi.slot.0;
        for member in self.members.iter_mut().filter(|member| member.kind == kind) {
            member.counter = member.counter.saturating_sub(slots);
        }
    }

    /// A frame or an ACK ends.
    fn end(&mut self, ended: &OnAir) {
        let (now, member) = (self.clock, ended.member);
        let ack = self.members[member].frame.map_or(Duration::ZERO, |frame| frame.ack);
        for kind in (0..KINDS).filter(|kind| hears(*kind, ended.source)) {
            let wait = match (ended.garbled[kind], ended.is_ack) {
                (true, _) => self.wifi.eifs,
                (false, true) => self.wifi.difs,
                // Who can read a frame knows how long the exchange takes.
                (false, false) => self.wifi.sifs + ack + self.wifi.difs,
            };
            let view = &mut self.views[kind];
            view.heard -= 1;
            view.resumes = view.resumes.max(now + wait);
        }
        let station = &mut self.members[member];
        if ended.is_ack {
            station.waiting = false;
            let acknowledged = !ended.garbled[station.kind];
            return self.conclude(member, acknowledged);
        }
        station.sending = false;
        if ended.garbled[receiver(station.kind)] {
            return self.conclude(member, false);
        }
        station.waiting = true;
        self.acks.push((now + self.wifi.sifs, member));
        if let Some(frame) = &mut station.frame
            && !std::mem::replace(&mut frame.received, true)
        {
            station.counters.received += 1;
            self.tell(member, true);
        }
    }

    /// An attempt is over.
    fn conclude(&mut self, member: usize, acknowledged: bool) {
        let station = &mut self.members[member];
        station.tries += 1;
        station.counters.failed += u64::from(!acknowledged);
        let given_up = !acknowledged && station.tries >= self.wifi.attempts;
        let Some(frame) = station.frame.filter(|_| !acknowledged && !given_up) else {
            let last = station.frame;
            station.counters.given_up += u64::from(given_up);
            (station.tries, station.window) = (0, self.wifi.cwmin);
            station.frame = station.queued.take().or(station.always);
            if given_up && last.is_some_and(|frame| !frame.received) {
                self.tell(member, false);
            }
            return self.draw(member);
        };
        station.frame = Some(frame);
        station.window = (2 * station.window + 1).min(self.wifi.cwmax);
        self.draw(member);
    }

    /// The outcome of a packet is known now.
    fn tell(&mut self, member: usize, received: bool) {
        if let Some(outcome) = self.outcomes.get_mut(member) {
            *outcome = Some(Outcome { at: self.clock, received });
        }
    }

    fn draw(&mut self, member: usize) {
        let station = &mut self.members[member];
        station.counter = self.rng.between(0, station.window);
    }
}

impl Member {
    fn new(kind: usize, always: Option<Frame>, wifi: &Wifi) -> Self {
        Self {
            kind,
            always,
            frame: always,
            queued: None,
            window: wifi.cwmin,
            counter: 0,
            tries: 0,
            sending: false,
            waiting: false,
            counters: Counters::default(),
        }
    }
}

/// Kind of the station that the frames of another kind are for.
fn receiver(kind: usize) -> usize {
    if kind == ACCESS_POINT { TERMINAL } else { ACCESS_POINT }
}
