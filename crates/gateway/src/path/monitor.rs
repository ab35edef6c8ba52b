//! Whether a path works, as its client finds out: probes, silence, trials, and the largest packet.
//!
//! A state machine without I/O. The driver repeats: feed `handle_*`; then drain
//! [`Monitor::poll_probe`] and [`Monitor::poll_event`], ask [`Monitor::poll_handshake`], and sleep
//! until [`Monitor::poll_timeout`].
//!
//! * **Left**: nothing heard for [`SILENCE`] although several probes ask. As soon as one answer is
//!   overdue they ask every [`MIN_GAP`], so that random loss does not look like death; how many
//!   unanswered ones are proof depends on how many usually are. Whatever is heard is life: a queue
//!   of seconds is none of death. A far end that is heard but does not answer is left after
//!   [`ONE_WAY`].
//! * **Used again**: after two answers in a row, one if no other works; after a trial if it has
//!   failed often (`damping.rs`). See `again.rs`.
//! * **Thrifty**: without open connections for a minute, and on paths that stand by, probes thin
//!   out.
//! * Time that jumps (a suspended machine, a stopped process) proves nothing about a path.

use super::damping::Damping;
use super::history::History;
use super::mtu::{BASE, MtuSearch, TooBig};
use super::probe::{AskedRole, Ends, Probe, ServerInfo};
use super::reason::{Absence, LinkState, Reason};
use super::roles::Use;
use crate::model::{PathState, Role};
use std::net::SocketAddr;
use tabane_engine::{Duration, Instant};

mod again;
mod pace;
mod size;

/// A path, seen from its client.
#[derive(Debug)]
pub(crate) struct Monitor {
    config: MonitorConfig,
    announced: Announcement,
    demand: Demand,
    link: LinkState,
    /// The tunnel has keys.
    session: bool,
    state: PathState,
    since: Instant,
    reason: Reason,
    history: History,
    /// The one until the path was left for its silence.
    before: Option<History>,
    mtu: MtuSearch,
    damping: Damping,
    /// When anything came in last.
    heard: Instant,
    /// When the first probe since then left.
    unheard: Option<Instant>,
    /// When a probe was answered last.
    answered: Instant,
    /// Answers in a row while it is not used.
    answers: u32,
    trial_end: Option<Instant>,
    /// Since then no connection has been open.
    quiet_since: Instant,
    next_probe: Instant,
    last_probe: Option<Instant>,
    last_was_large: bool,
    next_handshake: Instant,
    /// No verdict before.
    not_before: Instant,
    far_full: bool,
    far_reports: bool,
    far: Option<Far>,
    /// The role that the server asks for, and the last that `poll_event` told.
    asked_role: Option<AskedRole>,
    reported_role: Option<AskedRole>,
    reported_up: bool,
    reported_mtu: u16,
    too_big: TooBig,
    /// As the server was told.
    said_mtu: u16,
    wake: Instant,
    now: Instant,
}

/// What a [`Monitor`] is told once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MonitorConfig {
    /// The addresses of its probes.
    pub ends: Ends,
    /// Its index at the client.
    pub path: u8,
    /// A random number of this run of the program.
    pub run: u32,
    /// Between probes while connections are open ([`INTERVAL`]); at least [`MIN_GAP`].
    pub interval: Duration,
    /// Largest inner packet, if it is not to be looked for.
    pub mtu: Option<u16>,
}

/// What the bond wants of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// Connections are open, or data flows.
    pub open: bool,
    /// It carries nothing now (a backup): probed thinly.
    pub standby: bool,
    /// No other path works: no trial.
    pub alone: bool,
}

/// What the server is told of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    /// What it may be used for.
    pub(crate) role: Role,
    /// What it is used for now.
    pub(crate) using: Use,
    /// Most that the server may send on it, bits per second.
    pub(crate) cap_bps: Option<u64>,
    /// The server may ask for another role.
    pub(crate) takes_roles: bool,
}

impl Announcement {
    /// The client uses the path for nothing.
    pub(crate) fn is_unused(&self) -> bool {
        self.using == Use::Unused
    }
}

/// What the far end said in its newest answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Far {
    /// Our outer address, as it sees it.
    pub(crate) seen_as: SocketAddr,
    /// Its time, milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Ours then, half a round trip before the answer came.
    pub(crate) at: Instant,
    /// That half round trip: so much may be wrong with `at`.
    pub(crate) within: Duration,
    /// Which of its lives this is; `None` if it does not say.
    pub(crate) life: Option<u32>,
}

/// What has changed. Only the newest of each kind is kept for whoever polls late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PathEvent {
    /// It works.
    Up,
    /// It does not: why, for people.
    Down(String),
    /// Its largest inner packet.
    Mtu(u16),
    /// An inner packet of this length was longer (told at most once a second).
    TooBig(u16),
    /// What the client says about it (from a [`super::Responder`] only).
    Announced(Announcement),
    /// What the server wants it to be used for from now on (from a [`Monitor`] only).
    AskedRole(Role),
}

/// Snapshot of a path's health.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Health {
    /// Whether it works.
    pub(crate) state: PathState,
    /// For how long it has been in that state.
    pub(crate) age: Duration,
    /// Why, for people.
    pub(crate) reason: String,
    /// Smoothed round-trip time of small probes.
    pub(crate) rtt: Option<Duration>,
    /// Its mean deviation.
    pub(crate) rttvar: Duration,
    /// Share of the last small probes that were not answered.
    pub(crate) loss: Option<f64>,
    /// Largest inner packet.
    pub(crate) mtu: u16,
    /// Failures in the last two minutes.
    pub(crate) failures: u32,
    /// Data for us waits for room at the far end, as its last answer said.
    pub(crate) far_full: bool,
}

/// Between probes while connections are open, unless configured.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
/// Never less between probes.
pub(crate) const MIN_GAP: Duration = Duration::from_millis(50);
/// So long nothing is heard on a dead path: within a second, less the last probe's way.
pub(crate) const SILENCE: Duration = Duration::from_millis(850);
/// So long a path that is heard may leave probes unanswered: queues of 2 s are seen.
pub(crate) const ONE_WAY: Duration = Duration::from_secs(3);
/// So long the first of the probes in vain must wait; a modem that slept needs longer.
const WAIT: Duration = Duration::from_millis(600);
const WAIT_ASLEEP: Duration = Duration::from_millis(1500);
/// A driver that comes later than this was not watching.
pub(super) const OVERSLEPT: Duration = Duration::from_millis(500);
/// One that comes later than this may find what it waits for in a socket: no verdict until
/// [`PARDON`] has passed.
pub(super) const LATE: Duration = Duration::from_millis(60);
pub(super) const PARDON: Duration = Duration::from_millis(250);

/// A sequence number above those of all probes of this run so far, of which there is at most one in
/// [`MIN_GAP`]: a path that was removed and is there again has another monitor, and the far end
/// takes what is numbered below its last for late. It comes round after three years.
#[must_use]
pub(crate) fn first_seq(now: Instant) -> u32 {
    (now.0 / (MIN_GAP.0 / 2)) as u32
}

impl Monitor {
    /// A path of which nothing is known; tell it of the link next.
    #[must_use]
    pub(crate) fn new(now: Instant, config: MonitorConfig) -> Self {
        let mtu = MtuSearch::new(now, config.mtu.unwrap_or(BASE), config.mtu.is_some());
        let config = MonitorConfig { interval: config.interval.max(MIN_GAP), ..config };
        let absence = Absence::Other("not set up yet".into());
        Self {
            config,
            announced: Announcement {
                role: Role::Primary,
                using: Use::Active,
                cap_bps: None,
                takes_roles: false,
            },
            demand: Demand { open: false, standby: false, alone: false },
            link: LinkState::Absent(absence.clone()),
            session: false,
            state: PathState::Absent,
            since: now,
            reason: Reason::Absent(absence),
            history: History::new(first_seq(now)),
            before: None,
            // What whoever uses a path takes for granted.
            reported_mtu: BASE,
            too_big: TooBig::default(),
            said_mtu: 0,
            mtu,
            damping: Damping::default(),
            heard: now,
            unheard: None,
            answered: now,
            answers: 0,
            trial_end: None,
            quiet_since: now,
            next_probe: now,
            last_probe: None,
            last_was_large: false,
            next_handshake: now,
            not_before: now,
            far_full: false,
            far_reports: false,
            far: None,
            asked_role: None,
            reported_role: None,
            reported_up: false,
            wake: Instant::FAR_FUTURE,
            now,
        }
    }

    /// The link below has changed, or its address has (then the state is the same again).
    pub(crate) fn handle_link(&mut self, now: Instant, link: LinkState) {
        self.clock(now);
        match (&link, self.state) {
            (LinkState::Absent(absence), state) => {
                if state == PathState::Up {
                    self.damping.failed(self.now);
                }
                let absence = absence.clone();
                self.enter(PathState::Absent, Reason::Absent(absence));
            }
            (LinkState::Ready { limit }, PathState::Absent) => {
                self.restart_mtu(*limit);
                let reason = self.why_not_yet();
                self.enter(PathState::Connecting, reason);
                self.next_handshake = self.now;
            }
            (LinkState::Ready { limit }, _) => {
                if link != self.link {
                    self.restart_mtu(*limit);
                }
                self.next_probe = self.now;
            }
        }
        self.link = link;
        self.schedule_wake();
    }

    /// The tunnel has keys, or has lost them.
    pub(crate) fn handle_session(&mut self, now: Instant, session: bool) {
        if session == self.session {
            return;
        }
        self.clock(now);
        self.session = session;
        match self.state {
            PathState::Absent => {}
            PathState::Up if !session => self.fail(Reason::Handshake(self.now)),
            PathState::Up => {}
            PathState::Connecting | PathState::Down => {
                if !session {
                    // What was answered by keys that are gone proves nothing of the next ones.
                    (self.answers, self.trial_end) = (0, None);
                }
                if self.answers == 0 {
                    self.reason = self.why_not_yet();
                }
                self.next_probe = self.now;
            }
        }
        self.schedule_wake();
    }

    /// The bond wants something else of this path. Probes are fast again at once.
    pub(crate) fn handle_demand(&mut self, now: Instant, demand: Demand) {
        if demand == self.demand {
            return;
        }
        self.clock(now);
        if self.demand.open && !demand.open {
            self.quiet_since = self.now;
        }
        self.demand = demand;
        if self.next_probe > self.now + self.interval() {
            self.next_probe = self.now;
        }
        self.next_handshake = self.next_handshake.min(self.now + self.handshake_interval());
        self.consider();
        self.schedule_wake();
    }

    /// What the server is to know from now on; it is told at once.
    pub(crate) fn handle_announcement(&mut self, now: Instant, announcement: Announcement) {
        if announcement == self.announced {
            return;
        }
        self.clock(now);
        self.announced = announcement;
        self.next_probe = self.now;
        self.schedule_wake();
    }

    /// A packet came out of the tunnel. True: it was the answer to a probe, and is consumed.
    pub(crate) fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> bool {
        self.handle_heard(now);
        let Some(probe) = Probe::answered(packet, &self.config.ends) else { return false };
        if probe.run != self.config.run {
            return true;
        }
        if self.has_held(probe.seq) {
            self.resume();
            self.schedule_wake();
        } else if let Some(answered) = self.history.answered(self.now, probe.seq) {
            self.answered = self.now;
            self.far_full = probe.full;
            self.far_reports = probe.far_reports;
            self.asked_role = probe.asked_role;
            if let Some(server_info) = probe.server_info {
                let within = answered.rtt / 2;
                let ServerInfo { seen_as, unix_ms, life } = server_info;
                let at = Instant(self.now.0.saturating_sub(within.0));
                self.far = Some(Far { seen_as, unix_ms, at, within, life });
            }
            if answered.large {
                self.mtu.answered(self.now, answered.size);
            } else {
                self.answers = self.answers.saturating_add(1);
                if self.answers == 1 {
                    self.next_probe = self.next_probe.min(self.now);
                }
                self.consider();
            }
            self.schedule_wake();
        }
        true
    }

    /// Something authentic came from the far end (a keepalive, a handshake).
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        // Asked of every packet: what needs more than this is done at the next timeout.
        self.now = self.now.max(now);
        self.heard = self.now;
        self.unheard = None;
    }

    /// Time has come to [`Monitor::poll_timeout`]. Calls before it do nothing.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.now <= now && now < self.wake {
            return;
        }
        self.clock(now);
        if self.state == PathState::Up {
            if let Some(reason) = self.verdict() {
                self.fail(reason);
            }
        } else {
            self.consider();
        }
        self.schedule_wake();
    }

    /// When [`Monitor::handle_timeout`] and the polls want to be called next.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.wake
    }

    /// A probe to send through the tunnel now: its length in `buffer`. It is one packet of at
    /// most the link's limit; what the buffer cannot hold counts as lost.
    pub(crate) fn poll_probe(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.handle_timeout(now);
        let (small, large) = (self.small_due() <= self.now, self.large_due() <= self.now);
        // In turns, where small ones are due as often as any may be sent.
        let length = if large && (!small || !self.last_was_large) {
            self.send_large(buffer)
        } else if small {
            self.send_small(buffer)
        } else {
            return None;
        };
        self.schedule_wake();
        length
    }

    /// Whether the tunnel should begin a handshake now, whatever keys it has: there are none, or
    /// the far end may have lost its own.
    pub(crate) fn poll_handshake(&mut self, now: Instant) -> bool {
        self.handle_timeout(now);
        let due = self.handshake_due() <= self.now;
        if due {
            self.next_handshake = self.now + self.handshake_interval();
            self.schedule_wake();
        }
        due
    }

    /// What has changed since the last call.
    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        let up = self.is_up();
        if up != self.reported_up {
            self.reported_up = up;
            let down = || PathEvent::Down(self.reason.words(self.now));
            return Some(if up { PathEvent::Up } else { down() });
        }
        let mtu = self.mtu.mtu();
        if mtu != self.reported_mtu {
            self.reported_mtu = mtu;
            return Some(PathEvent::Mtu(mtu));
        }
        if self.asked_role != self.reported_role {
            self.reported_role = self.asked_role;
            if let Some(asked) = self.asked_role {
                return Some(PathEvent::AskedRole(asked.role));
            }
        }
        self.too_big.poll().map(PathEvent::TooBig)
    }

    /// Whether it works.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    /// Its snapshot.
    #[must_use]
    pub(crate) fn health(&self, now: Instant) -> Health {
        Health {
            state: self.state,
            age: now - self.since,
            reason: self.reason.words(now),
            rtt: self.rtt(),
            rttvar: self.history.rttvar(),
            loss: self.history.loss(now),
            mtu: self.mtu(),
            failures: self.damping.count(now),
            far_full: self.far_full,
        }
    }

    /// Largest inner packet.
    #[must_use]
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.mtu()
    }

    /// Smoothed round-trip time of small probes.
    #[must_use]
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.history.srtt()
    }

    /// What the far end said last, if it says anything; a server that is left is forgotten.
    #[must_use]
    pub(crate) fn far(&self) -> Option<Far> {
        self.far
    }

    /// Takes the time, and finds out whether it has jumped.
    fn clock(&mut self, now: Instant) {
        let back = self.now - now > OVERSLEPT;
        let late = now - self.wake;
        if back || late > OVERSLEPT {
            self.rebase(now);
            return;
        }
        self.now = self.now.max(now);
        if late > LATE {
            self.not_before = self.now + PARDON;
        }
    }

    /// Nobody was listening: what was not heard in that time says nothing.
    fn rebase(&mut self, now: Instant) {
        self.now = now;
        self.heard = now;
        self.unheard = None;
        self.answered = now;
        self.since = self.since.min(now);
        self.quiet_since = self.quiet_since.min(now);
        self.next_probe = now;
        self.last_probe = self.last_probe.filter(|&last| last <= now);
        self.next_handshake = now;
        self.not_before = now;
        self.trial_end = None;
        self.history.forgive();
        self.before = None;
        self.damping.forget();
        self.mtu.resume(now);
    }

    fn restart_mtu(&mut self, limit: u16) {
        let fixed = self.config.mtu;
        self.mtu.restart(self.now, fixed.unwrap_or(limit), fixed.is_some());
    }

    fn why_not_yet(&self) -> Reason {
        let reason = if self.session { Reason::NoAnswerYet } else { Reason::Handshake };
        reason(self.now)
    }

    fn enter(&mut self, state: PathState, reason: Reason) {
        if self.state != state {
            self.state = state;
            self.since = self.now;
        }
        self.reason = reason;
        self.answers = 0;
        self.far_full = false;
        self.far_reports = false;
        self.far = None;
        self.trial_end = None;
        let history = self.history.clear();
        self.before = matches!(self.reason, Reason::Silent(_)).then_some(history);
        self.unheard = None;
        self.next_probe = self.now;
    }

    fn fail(&mut self, reason: Reason) {
        self.damping.failed(self.now);
        self.enter(PathState::Down, reason);
        self.next_handshake = self.now;
    }

    /// Why a path that is used is to be left, if it is.
    fn verdict(&self) -> Option<Reason> {
        let now = self.now;
        if now < self.not_before {
            return None;
        }
        let proof = proof(self.history.usual_loss());
        if self.unheard.is_some_and(|unheard| self.is_unresponsive(unheard)) {
            return (self.history.overdue(now) >= proof).then_some(Reason::Silent(self.heard));
        }
        let patience = ONE_WAY.max(self.history.bound() * 2);
        let unanswered = self.history.first_open().is_some_and(|first| now - first >= patience);
        let one_way = unanswered && self.history.overdue(now) >= proof;
        one_way.then_some(Reason::OneWay(self.answered))
    }

    fn is_unresponsive(&self, unheard: Instant) -> bool {
        let asleep = self.interval() > self.config.interval;
        let wait = if asleep { WAIT_ASLEEP } else { WAIT };
        self.now - self.heard >= SILENCE && self.now - unheard >= wait
    }
}

/// How many unanswered probes are proof where this share of them usually is not answered: the
/// chance that loss alone does it stays near 1e-6, and 1e-3 where the path is hardly of use.
fn proof(loss: f64) -> usize {
    match loss {
        _ if loss < 0.02 => 4,
        _ if loss < 0.10 => 6,
        _ if loss < 0.20 => 9,
        _ if loss < 0.40 => 14,
        _ => 16,
    }
}

#[cfg(test)]
mod tests;
