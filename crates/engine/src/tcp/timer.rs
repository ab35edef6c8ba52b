//! Timers of a subflow, as data: a deadline per kind.

use crate::time::Instant;

/// What can be due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// Retransmission (RFC 6298), of SYN, data or FIN.
    Retransmit,
    /// Tail loss probe (RFC 8985 section 7).
    Probe,
    /// RACK's reordering window ends (RFC 8985 section 6).
    Reorder,
    /// A delayed ACK (RFC 1122).
    Ack,
    /// Window probe (RFC 9293 section 3.8.6.1).
    Persist,
    /// Keepalive (RFC 1122 section 4.2.3.6).
    Keepalive,
    /// TIME-WAIT ends, or FIN-WAIT-2 where that is limited.
    TimeWait,
    /// Pacing lets the next segment go.
    Pacing,
}

/// All of them, in the order in which those that are due at once are taken. The probe comes in the
/// place of the timeout (RFC 8985 section 7.2), which it puts off.
const ALL: [Timer; 8] = [
    Timer::Probe,
    Timer::Retransmit,
    Timer::Reorder,
    Timer::Ack,
    Timer::Persist,
    Timer::Keepalive,
    Timer::TimeWait,
    Timer::Pacing,
];

/// Deadlines; `FAR_FUTURE` is "not set".
#[derive(Clone, Debug)]
pub(super) struct Timers([Instant; ALL.len()]);

impl Default for Timers {
    fn default() -> Self {
        Self([Instant::FAR_FUTURE; ALL.len()])
    }
}

impl Timers {
    #[inline]
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }

    #[inline]
    pub(super) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = Instant::FAR_FUTURE;
    }

    #[inline]
    pub(super) fn get(&self, timer: Timer) -> Option<Instant> {
        let at = self.0[timer as usize];
        (at != Instant::FAR_FUTURE).then_some(at)
    }

    #[inline]
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != Instant::FAR_FUTURE
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        let first = self.0.iter().copied().fold(Instant::FAR_FUTURE, Instant::min);
        (first != Instant::FAR_FUTURE).then_some(first)
    }

    /// Takes one timer that is due, in the order of `ALL`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = ALL.into_iter().find(|&t| self.0[t as usize] <= now)?;
        self.stop(due);
        Some(due)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
