//! Whether a path works, as its server finds out, and what the client says about it.
//!
//! The client probes; this answers, and knows by what the last probe promised when the next is
//! due. A client that never sent a probe of ours (a stock WireGuard peer) is heard when it has
//! something to say, and its silence says nothing. A state machine without I/O.

use super::monitor::{Announcement, Health, LATE, OVERSLEPT, PARDON, PathEvent, SILENCE};
use super::mtu::{BASE, LEAST, LIMIT_MAX, TooBig};
use super::probe::{AskedRole, Probe, ServerInfo};
use super::reason;
use crate::model::{PathState, Role};
use std::net::IpAddr;
use tabane_engine::{Duration, Instant};
use tabane_net::icmp;

/// A path, seen from its server.
#[derive(Debug)]
pub(crate) struct Responder {
    service: [IpAddr; 2],
    heard: Option<Instant>,
    /// The newest probe.
    probe: Option<Probe>,
    full: bool,
    server_info: Option<ServerInfo>,
    asked_role: Option<AskedRole>,
    state: PathState,
    since: Instant,
    reported_up: bool,
    reported_mtu: Option<u16>,
    /// More than this did not leave here, until the client has found it out too.
    most: Option<u16>,
    too_big: TooBig,
    announced: Option<Announcement>,
    /// When the client's present run began to probe, as long as it has never heard us.
    unheard_since: Option<Instant>,
    /// No verdict before.
    not_before: Instant,
    /// Time that probes may still take, as of then.
    allowance: Duration,
    allowed_at: Instant,
    now: Instant,
    wake: Instant,
}

/// A probe each so often is taken, and as many at once as this long has.
const PROBE: Duration = Duration::from_millis(20);
const PROBES_MAX: Duration = Duration::from_millis(1_000);
/// Beyond what the client promised.
const GRACE: Duration = Duration::from_millis(650);
/// A client that has just started may take so long to say that it hears us.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

impl Responder {
    /// A path that nothing has come by yet, of a server with these addresses.
    #[must_use]
    pub(crate) fn new(now: Instant, service: [IpAddr; 2]) -> Self {
        Self {
            service,
            heard: None,
            probe: None,
            full: false,
            server_info: None,
            asked_role: None,
            state: PathState::Connecting,
            since: now,
            reported_up: false,
            reported_mtu: None,
            most: None,
            too_big: TooBig::default(),
            announced: None,
            unheard_since: None,
            not_before: now,
            allowance: PROBES_MAX,
            allowed_at: now,
            now,
            wake: Instant::FAR_FUTURE,
        }
    }

    /// A packet came out of the tunnel. `Some`: it was a ping to the service address, and this
    /// answer goes back by the same path.
    pub(crate) fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> Option<Vec<u8>> {
        let Some(probe) = Probe::parse_request(packet, &self.service) else {
            self.handle_heard(now);
            return match icmp::answer(packet, &self.service) {
                icmp::Answer::Reply(reply) => Some(reply),
                _ => None,
            };
        };
        self.hear(now);
        if !self.allows(now) {
            return None;
        }
        let newer =
            |last: Probe| probe.run != last.run || probe.seq.wrapping_sub(last.seq) < 1 << 31;
        if self.probe.is_none_or(newer) {
            if self.probe.is_none_or(|last| probe.run != last.run) {
                self.unheard_since = Some(self.now);
            }
            self.probe = Some(probe);
            self.most = self.most.filter(|most| *most < probe.mtu);
            // Up by a handshake, or of a run before: the first probes are sent before any answer.
            let early = self.unheard_since.is_some_and(|since| self.now - since <= FIRST_ANSWER);
            match self.state {
                _ if probe.hears => {
                    self.unheard_since = None;
                    self.enter(PathState::Up);
                }
                PathState::Up if !early => self.enter(PathState::Down),
                _ => {}
            }
        }
        self.schedule_wake();
        Probe {
            far_reports: true,
            full: self.full,
            server_info: self.server_info,
            asked_role: self.asked_role,
            ..probe
        }
        .reply(packet, &self.service)
    }

    /// What its answers ask the client to use the path for, from now on.
    pub(crate) fn ask_role(&mut self, role: Role) {
        let turn = self.asked_role.is_some_and(|before| !before.turn);
        self.asked_role = Some(AskedRole { role, turn });
    }

    /// Whether the client takes roles from its server, as of its newest probe.
    #[must_use]
    pub(crate) fn takes_roles(&self) -> bool {
        self.probe.is_some_and(|probe| probe.takes_roles)
    }

    /// Whether data for this client waits for room on its active paths; its next answer says so.
    pub(crate) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    /// Whether there may be another probe now. What one says can be work for all connections of the
    /// client; the fastest that a client of ours sends them is one in 50 ms.
    fn allows(&mut self, now: Instant) -> bool {
        let gained = now.saturating_since(std::mem::replace(&mut self.allowed_at, now));
        let allowance = (self.allowance + gained).min(PROBES_MAX);
        let allowed = allowance >= PROBE;
        self.allowance = if allowed { allowance - PROBE } else { allowance };
        allowed
    }

    /// What its next answer says beside.
    pub(crate) fn set_server_info(&mut self, info: ServerInfo) {
        self.server_info = Some(info);
    }

    /// Something authentic came from the client (data, a keepalive, a handshake).
    pub(crate) fn handle_heard(&mut self, now: Instant) {
        self.hear(now);
        // A client that probes decides by itself; a probe that says so may have been lost.
        if self.state != PathState::Up && self.probe.is_none_or(|probe| probe.hears) {
            self.enter(PathState::Up);
            self.schedule_wake();
        }
    }

    /// Time has come to [`Responder::poll_timeout`].
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let back = self.now - now > OVERSLEPT;
        let late = now - self.wake;
        if back || late > OVERSLEPT {
            // Nobody was listening, or time has jumped: silence until now proves nothing.
            self.now = now;
            self.since = self.since.min(now);
            self.heard = self.heard.map(|_| now);
            self.not_before = now;
        } else {
            self.now = self.now.max(now);
            if late > LATE {
                self.not_before = self.now + PARDON;
            }
        }
        let deadline = self.deadline().max(self.not_before);
        if self.state == PathState::Up && deadline <= self.now {
            self.enter(PathState::Down);
        }
        self.schedule_wake();
    }

    /// When [`Responder::handle_timeout`] wants to be called next. It may be early: what is heard
    /// moves it only then.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.wake
    }

    /// What has changed since the last call.
    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        let up = self.is_up();
        if up != self.reported_up {
            self.reported_up = up;
            let down = || PathEvent::Down(self.reason(self.now));
            return Some(if up { PathEvent::Up } else { down() });
        }
        let probe = self.probe?;
        let mtu = self.mtu();
        if self.reported_mtu != Some(mtu) {
            self.reported_mtu = Some(mtu);
            return Some(PathEvent::Mtu(mtu));
        }
        if let Some(len) = self.too_big.poll() {
            return Some(PathEvent::TooBig(len));
        }
        let Probe { role, using, cap_bps, takes_roles, .. } = probe;
        let announced = Announcement { role, using, cap_bps, takes_roles };
        if self.announced != Some(announced) {
            self.announced = Some(announced);
            return Some(PathEvent::Announced(announced));
        }
        None
    }

    /// Whether it works.
    #[must_use]
    pub(crate) fn is_up(&self) -> bool {
        self.state == PathState::Up
    }

    /// Whether something has come from the client lately, whatever that says of the way to it.
    #[must_use]
    pub(crate) fn is_heard(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.saturating_since(heard) < SILENCE)
    }

    /// Whether the client has ever sent a probe of ours.
    #[must_use]
    pub(crate) fn is_stock(&self) -> bool {
        self.probe.is_none()
    }

    /// Whether the client knows reports, as of its newest probe.
    #[must_use]
    pub(crate) fn knows_reports(&self) -> bool {
        self.probe.is_some_and(|probe| probe.reports)
    }

    /// Largest inner packet, as far as the client has said; whatever that is, one that can be sent.
    #[must_use]
    pub(crate) fn mtu(&self) -> u16 {
        let said = self.probe.map_or(BASE, |probe| probe.mtu.clamp(LEAST, LIMIT_MAX));
        self.most.map_or(said, |most| most.min(said))
    }

    /// An inner packet of `len` bytes was too long for the path, and did not go: `refused` by the
    /// host's own link, or longer than what the client says to pass.
    pub(crate) fn handle_too_big(&mut self, now: Instant, len: usize, refused: bool) {
        self.now = self.now.max(now);
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        let most = len.saturating_sub(1).max(LEAST);
        if refused {
            self.most = Some(self.most.map_or(most, |before| before.min(most)));
        }
        self.too_big.note(self.now, len);
    }

    /// Packets that were too long for the path.
    #[must_use]
    pub(crate) fn too_big(&self) -> u64 {
        self.too_big.count()
    }

    /// Its snapshot: the client alone measures round trips and loss.
    #[must_use]
    pub(crate) fn health(&self, now: Instant) -> Health {
        Health {
            state: self.state,
            age: now - self.since,
            reason: self.reason(now),
            rtt: None,
            rttvar: Duration::ZERO,
            loss: None,
            mtu: self.mtu(),
            failures: 0,
            far_full: false,
        }
    }

    fn hear(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.heard = Some(self.now);
    }

    /// When silence means death.
    fn deadline(&self) -> Instant {
        let (Some(heard), Some(probe)) = (self.heard, self.probe) else {
            return Instant::FAR_FUTURE;
        };
        let promised = Duration::from_millis(u64::from(probe.within_ms));
        heard + (promised + GRACE).max(SILENCE)
    }

    fn enter(&mut self, state: PathState) {
        if self.state != state {
            self.state = state;
            self.since = self.now;
        }
    }

    fn schedule_wake(&mut self) {
        let up = self.state == PathState::Up;
        let deadline = self.deadline().max(self.not_before);
        self.wake = if up { deadline } else { Instant::FAR_FUTURE };
    }

    fn reason(&self, now: Instant) -> String {
        match (self.state, self.heard, self.probe) {
            (PathState::Up, _, Some(_)) => "works".into(),
            (PathState::Up, _, None) => "works (a stock peer: it sends no probes)".into(),
            (_, None, _) => "nothing has come from the client yet".into(),
            (_, Some(heard), Some(probe)) if self.deadline() <= now || probe.hears => {
                format!("nothing from the client for {}", reason::ago(now, heard))
            }
            _ => "the client does not use it: it does not hear us, or it is on trial".into(),
        }
    }
}

#[cfg(test)]
mod tests;
