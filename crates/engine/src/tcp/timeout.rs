//! What happens when a timer fires (RFC 6298 section 5, RFC 8985 section 6.3, RFC 9293 section
//! 3.8).

use super::receive::AckDue;
use super::timer::Timer;
use super::{Expired, State, Tcb};
use crate::congestion::CongestionKind;
use crate::record::{CloseReason, What};
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};

/// R2 of RFC 9293 section 3.8.3, where data is repeated more often than by doubling timeouts: with
/// a capped timeout, and when paths come up.
const GIVE_UP: Duration = Duration::from_secs(100);
/// If nothing has been heard for so long, the peer may have given up; we do after [`GIVE_UP`].
const PEER_GIVES_UP: Duration = Duration::from_secs(60);

/// Silence in FIN-WAIT-2 after which a subflow that was given up goes (Linux: `tcp_fin_timeout`).
pub(super) const FIN_WAIT: Duration = Duration::from_secs(60);

impl Tcb {
    /// Runs every timer that is due.
    pub(crate) fn on_timeout(&mut self, now: Instant, siblings: &[SubflowView]) -> Expired {
        let mut expired = Expired::default();
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Retransmit => self.on_retransmit_timer(now, siblings, &mut expired),
                Timer::Probe if self.snd_una == 0 => expired.unanswered = true,
                Timer::Probe => expired.unresponsive = self.on_probe_timer(now),
                Timer::Reorder => self.on_reorder_timer(now, siblings),
                Timer::Ack => {
                    if self.rx.due == AckDue::Delayed {
                        self.rx.due = AckDue::Now;
                    }
                }
                Timer::Persist => self.on_persist_timer(now),
                Timer::Keepalive => self.on_keepalive_timer(now),
                Timer::TimeWait if self.state == State::FinWait2 => self.on_fin_wait_timer(now),
                Timer::TimeWait => self.finish(now, CloseReason::Finished),
                // `sendable` looks at the time itself.
                Timer::Pacing => {}
            }
            if self.state == State::Closed {
                expired.closed = self.close_reason;
                break;
            }
        }
        expired
    }

    /// In FIN-WAIT-2 a peer of which nothing is heard for a minute has no end to send any more.
    pub(crate) fn limit_fin_wait(&mut self) {
        self.limits_fin_wait = true;
    }

    /// The peer has acknowledged our FIN and sends none: what it sends otherwise is waited for.
    fn on_fin_wait_timer(&mut self, now: Instant) {
        let until = self.last_heard + FIN_WAIT;
        if until > now {
            self.timers.set(Timer::TimeWait, until);
        } else {
            self.abort();
        }
    }

    /// The path is reported to work again: data that has timed out is sent again at once. It counts
    /// as lost even if the first segment had arrived and only its ACK was lost: that says nothing
    /// about the rest (a DSACK would undo the timeout, and the rest would wait for the next one).
    pub(crate) fn retry(&mut self, now: Instant) {
        let Some(due) = self.timers.get(Timer::Retransmit) else { return self.ask(now) };
        if self.rtt.backoff() == 0 {
            return;
        }
        if !matches!(self.state, State::SynSent | State::SynReceived) {
            self.recovery.retried.get_or_insert(now);
        } else if due > now {
            self.syn.resume = Some(due);
        }
        self.timers.set(Timer::Retransmit, now);
        self.recovery.undo.end();
        self.recovery.frto = false;
    }

    /// As `retry`, if the peer may have given up.
    pub(crate) fn retry_if_silent(&mut self, now: Instant) {
        if self.is_silent(now) {
            self.retry(now);
        }
    }

    /// Whether the peer may have given up by now.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        now - self.last_heard >= PEER_GIVES_UP
    }

    /// Sends a keepalive early. Nothing of ours has to be repeated, but the peer may have given up
    /// repeating something; without this only the next keepalive would find that out.
    fn ask(&mut self, now: Instant) {
        let open = matches!(self.state, State::Established | State::FinWait2 | State::CloseWait);
        if !open || !self.is_silent(now) {
            return;
        }
        match self.config.keepalive {
            // With repetitions.
            Some(_) => self.timers.set(Timer::Keepalive, now),
            None => self.due.probe = true,
        }
    }

    fn on_retransmit_timer(
        &mut self,
        now: Instant,
        siblings: &[SubflowView],
        expired: &mut Expired,
    ) {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            return self.on_syn_timer(now);
        }
        if !self.tx.outstanding() {
            return;
        }
        let before = self.rtt.backoff();
        // A closed window is no reason to give up while the peer answers.
        let answering = self.snd_wnd == 0 && now - self.last_heard < self.rtt.rto() * 2;
        let probing = self.rtt.is_limited(&self.config) && now - self.last_heard < GIVE_UP;
        // Paths that come up repeat what the timer would have repeated later.
        let retried = self.recovery.retried.is_some_and(|since| now - since < GIVE_UP);
        let soon = self.rtt.retries_soon() && now - self.last_heard < GIVE_UP;
        if before >= self.config.retries && !answering && !probing && !retried && !soon {
            self.finish(now, CloseReason::TimedOut);
            return;
        }
        let backoff = self.rtt.back_off();
        expired.rto = Some(backoff);
        self.stats.timeouts += 1;
        let id = self.setup.id;
        self.log.add(now, None, Some(id), || What::Timeout { backoff });
        self.enter_loss(now, before, siblings);
        self.timers.set(Timer::Retransmit, now + self.rtt.rto());
    }

    /// RTO recovery: what has had its time is lost; start again from one segment.
    fn enter_loss(&mut self, now: Instant, before: u32, siblings: &[SubflowView]) {
        self.cancel_probe();
        self.timers.stop(Timer::Reorder);
        let recovery = &mut self.recovery;
        let fresh = recovery.phase != RecoveryPhase::Loss || before == 0;
        // RFC 5682 section 3: not when an earlier timeout is still being repaired.
        recovery.frto = self.peer.sack && (recovery.phase == RecoveryPhase::Open || before == 0);
        recovery.frto_held = false;
        recovery.frto_hold = None;
        recovery.dup_credit = 0;
        recovery.dupacks = 0;
        let wait = if recovery.rack.rtt.is_zero() {
            Duration::ZERO
        } else {
            recovery.rack.wait(true, self.rtt.min(), self.rtt.srtt())
        };
        if fresh {
            recovery.undo.begin();
        }
        self.tx.mark_timeout(now, wait);
        self.recovery.high = self.snd_nxt;
        if fresh {
            self.recovery.phase = RecoveryPhase::Loss;
            self.congestion(now, CongestionKind::Rto, siblings);
            self.recovery_changed(now);
        }
        let burst = self.retry_burst();
        self.recovery.forced = burst.max(1);
        self.rtt.set_retries_soon(burst > 1);
    }

    /// Segments that may leave again at a timeout whatever the window says; not by a path that the
    /// driver has taken away.
    pub(super) fn retry_burst(&self) -> u32 {
        if self.path_down { 0 } else { (self.cc.retry_burst() / self.smss.max(1)) as u32 }
    }

    fn on_syn_timer(&mut self, now: Instant) {
        // Paths that come up use up no repetitions, and put none off.
        if self.syn.resume.is_some() {
            self.due.syn = true;
            return;
        }
        // Not by transmissions: those that a repeated SYN asked for show that the peer is there.
        if self.rtt.backoff() >= self.config.syn_retries {
            self.finish(now, CloseReason::TimedOut);
            return;
        }
        self.due.syn = true;
        self.rtt.back_off();
    }

    fn on_reorder_timer(&mut self, now: Instant, siblings: &[SubflowView]) {
        if self.recovery.frto_hold.is_some_and(|until| until <= now) {
            self.recovery.frto_hold = None;
        }
        let lost = self.detect_loss(now);
        self.recovery.untold += lost;
        if lost > 0 && self.recovery.phase == RecoveryPhase::Open {
            self.begin_recovery(now, 0, siblings);
        }
        if self.recovery.phase == RecoveryPhase::Recovery {
            let (pipe, ssthresh) = (self.pipe(), self.window.ssthresh);
            self.recovery.prr.on_ack(0, pipe, ssthresh, self.smss, false);
        }
    }

    /// The window is (nearly) closed and data waits: ask, with backoff, for ever.
    fn on_persist_timer(&mut self, now: Instant) {
        if !self.blocked {
            return;
        }
        if self.tx.outstanding() {
            // That is repeated, and asks as well; once it has arrived somebody must ask again.
            self.timers.set(Timer::Persist, now + self.rtt.rto());
            return;
        }
        self.due.probe = true;
        self.rtt.back_off();
        self.keepalives += 1;
        if self.keepalives > self.config.retries {
            self.finish(now, CloseReason::TimedOut);
            return;
        }
        self.timers.set(Timer::Persist, now + self.rtt.rto());
    }

    pub(super) fn arm_keepalive(&mut self, now: Instant) {
        if let Some(idle) = self.config.keepalive {
            self.timers.set(Timer::Keepalive, now + idle);
        }
    }

    fn on_keepalive_timer(&mut self, now: Instant) {
        if self.tx.outstanding() {
            return self.arm_keepalive(now);
        }
        if self.keepalives >= self.config.keepalive_probes {
            self.finish(now, CloseReason::TimedOut);
            return;
        }
        self.keepalives += 1;
        self.due.probe = true;
        self.timers.set(Timer::Keepalive, now + self.config.keepalive_interval);
    }
}
