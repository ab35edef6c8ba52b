//! When a [`Monitor`] sends: how often it probes, and what it puts into a probe; and what others
//! may expect of the path by its answers.

use super::super::probe::Probe;
use super::{Demand, MIN_GAP, Monitor, SILENCE, proof};
use crate::model::PathState;
use tabane_engine::view::PathRtt;
use tabane_engine::{Duration, Instant};

/// Between probes on a dead path while connections are open.
const DEAD_INTERVAL: Duration = Duration::from_millis(500);
/// Between handshakes on a dead path; and while nothing is open.
const HANDSHAKE: Duration = Duration::from_secs(1);
const HANDSHAKE_QUIET: Duration = Duration::from_secs(5);
/// After so long without connections, probes come every [`THIN_INTERVAL`].
const THIN_AFTER: Duration = Duration::from_secs(60);
/// On paths that stand by, too.
const THIN_INTERVAL: Duration = Duration::from_secs(5);
/// After so long, just often enough for NATs.
const SLEEP_AFTER: Duration = Duration::from_secs(600);
const SLEEP_INTERVAL: Duration = Duration::from_secs(25);

impl Monitor {
    /// What its round trips are expected to take.
    #[must_use]
    pub(crate) fn expected_rtt(&self) -> Option<PathRtt> {
        let srtt = self.rtt()?;
        Some(PathRtt { srtt, rttvar: self.history.rttvar() })
    }

    /// Whether the server knows reports, as its last answer said.
    #[must_use]
    pub(crate) fn knows_reports(&self) -> bool {
        self.far_reports
    }

    /// Answers further apart than this are none in a row.
    pub(super) fn together(&self) -> Duration {
        self.history.bound() + DEAD_INTERVAL * 3
    }

    /// Between probes on a path that works.
    pub(super) fn interval(&self) -> Duration {
        let quiet = self.now - self.quiet_since;
        let interval = match self.demand {
            Demand { open: false, .. } if quiet >= SLEEP_AFTER => SLEEP_INTERVAL,
            Demand { open: false, .. } if quiet >= THIN_AFTER => THIN_INTERVAL,
            Demand { open: true, standby: true, .. } => THIN_INTERVAL,
            _ => self.config.interval,
        };
        interval.max(self.config.interval)
    }

    /// Between probes now.
    pub(super) fn pace(&self) -> Duration {
        let fast = self.config.interval;
        match self.state {
            PathState::Up | PathState::Absent => self.interval(),
            _ if self.answers > 0 => fast,
            // Everything waits for the first path that is there again.
            PathState::Down if self.demand.open && self.demand.alone => fast,
            PathState::Connecting if self.demand.open => DEAD_INTERVAL.max(fast),
            _ => self.interval().max(DEAD_INTERVAL),
        }
    }

    pub(super) fn handshake_interval(&self) -> Duration {
        let quiet = !self.demand.open && self.now - self.quiet_since >= THIN_AFTER;
        if quiet { HANDSHAKE_QUIET } else { HANDSHAKE }
    }

    /// When the next small probe is due: earlier than planned if an answer is overdue.
    pub(super) fn small_due(&self) -> Instant {
        if !self.session || self.state == PathState::Absent {
            return Instant::FAR_FUTURE;
        }
        self.after_gap(self.next_probe.min(self.suspicion()))
    }

    /// When silence is worth a closer look.
    fn suspicion(&self) -> Instant {
        let unheard = self.unheard.filter(|_| self.state == PathState::Up);
        unheard.map_or(Instant::FAR_FUTURE, |first| first + self.history.bound())
    }

    pub(super) fn large_due(&self) -> Instant {
        // While small ones are not answered, large ones teach nothing.
        let bound = self.history.bound();
        let slow = self.history.first_open().is_some_and(|first| first + bound <= self.now);
        if self.state != PathState::Up || slow {
            return Instant::FAR_FUTURE;
        }
        self.after_gap(self.mtu.next(bound, self.is_busy()))
    }

    pub(super) fn handshake_due(&self) -> Instant {
        let wanted = match self.state {
            PathState::Absent | PathState::Up => false,
            PathState::Connecting => !self.session,
            PathState::Down => true,
        };
        if wanted { self.next_handshake } else { Instant::FAR_FUTURE }
    }

    fn is_busy(&self) -> bool {
        self.demand.open && !self.demand.standby
    }

    fn after_gap(&self, due: Instant) -> Instant {
        self.last_probe.map_or(due, |last| due.max(last + MIN_GAP))
    }

    pub(super) fn send_small(&mut self, buffer: &mut [u8]) -> Option<usize> {
        self.unheard.get_or_insert(self.now);
        self.next_probe = self.now + self.pace();
        self.said_mtu = self.mtu.mtu();
        self.send(0, false, buffer)
    }

    pub(super) fn send_large(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let proof = proof(self.history.usual_loss());
        let patience = self.history.bound();
        let size = self.mtu.due(self.now, patience, proof, self.is_busy())?;
        self.mtu.sent(self.now);
        self.send(size, true, buffer)
    }

    fn send(&mut self, size: u16, large: bool, buffer: &mut [u8]) -> Option<usize> {
        (self.last_probe, self.last_was_large) = (Some(self.now), large);
        let within = self.next_probe - self.now;
        let probe = Probe {
            path: self.config.path,
            run: self.config.run,
            seq: self.history.sent(self.now, size, large),
            hears: self.is_up(),
            using: self.announced.using,
            role: self.announced.role,
            mtu: self.mtu.mtu(),
            within_ms: u16::try_from(within.as_millis()).unwrap_or(u16::MAX),
            cap_bps: self.announced.cap_bps,
            reports: true,
            far_reports: false,
            takes_roles: self.announced.takes_roles,
            asked_role: None,
            full: false,
            server_info: None,
        };
        probe.emit(&self.config.ends, usize::from(size), buffer)
    }

    /// Decides when to wake up next.
    pub(super) fn schedule_wake(&mut self) {
        if self.said_mtu != self.mtu.mtu() {
            self.next_probe = self.next_probe.min(self.now);
        }
        let mut wake = self.small_due().min(self.large_due()).min(self.handshake_due());
        let silence = self.heard + SILENCE;
        if self.unheard.is_some() && silence > self.now {
            wake = wake.min(silence);
        }
        if !self.is_up() && self.answers > 0 {
            wake = wake.min(self.answered + self.together());
            wake = wake.min(self.trial_end.unwrap_or(wake));
        }
        self.wake = wake;
    }
}
