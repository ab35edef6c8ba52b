//! Tail loss probes (RFC 8985 section 7). The probe is always the last segment sent: the subflow
//! does not know whether the connection has new data for it.

use super::Tcb;
use super::scoreboard::Undelivered;
use super::timer::Timer;
use crate::congestion::CongestionKind;
use crate::record::What;
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};
use tabane_wire::Segment;

/// The state of the tail loss probe.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TailProbe {
    /// SND.NXT when it was sent.
    end: Option<u64>,
    /// No RTT sample has been taken since.
    awaiting_sample: bool,
    /// It is to be sent.
    pub(super) due: bool,
    /// When it is due; the timer may run out before (`on_probe_timer`).
    at: Instant,
    /// The connection has been told that nothing is heard.
    reported: bool,
}

impl Tcb {
    /// Data that the peer cannot use yet, newest first. For reinjection on other subflows.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = Undelivered<'_>> {
        self.tx.undelivered()
    }

    /// Schedules a probe after sending new data or (`answered`) an advancing ACK, if one is allowed
    /// (section 7.2). New data puts the probe off; that nothing is heard is noticed in any case.
    pub(super) fn arm_probe(&mut self, now: Instant, answered: bool) {
        let allowed = self.peer.sack
            && self.recovery.phase == RecoveryPhase::Open
            && self.probe.end.is_none()
            && !self.probe.awaiting_sample
            && self.tx.sacked_segments() == 0
            && self.rtt.backoff() == 0;
        if !allowed {
            self.timers.stop(Timer::Probe);
            return;
        }
        let srtt = self.rtt.srtt();
        let known = self.setup.expected.filter(|_| self.snd_una <= 1);
        let mut timeout = match known {
            // The first data: peers acknowledge it at once.
            Some(known) => known.answer_within(),
            None if srtt.is_zero() => Duration::from_secs(1),
            None => srtt * 2,
        };
        if known.is_none() && self.tx.outstanding_segments() == 1 {
            // The peer may hold its ACK back; we take it to do so as long as we would. A probe
            // that is too early costs one segment, and DSACK tells.
            timeout = timeout + self.config.ack_delay;
        }
        let mut at = now + timeout.max(Duration::from_millis(2));
        if let Some(rto) = self.timers.get(Timer::Retransmit) {
            // TLP_calc_PTO: no later than the timeout, in the place of which it comes then.
            at = at.min(rto);
        }
        self.probe.at = at;
        if answered || self.timers.get(Timer::Probe).is_none_or(|set| at < set) {
            self.probe.reported = false;
            self.timers.set(Timer::Probe, at);
        }
    }

    /// The probe timer fired: two round trips without an answer, which the answer says (once). The
    /// probe itself waits as long after the last new data.
    pub(super) fn on_probe_timer(&mut self, now: Instant) -> bool {
        if !self.tx.outstanding() || self.recovery.phase != RecoveryPhase::Open {
            return false;
        }
        let unresponsive = !std::mem::replace(&mut self.probe.reported, true);
        if self.probe.at > now {
            self.timers.set(Timer::Probe, self.probe.at);
            return unresponsive;
        }
        let end = Some(self.snd_nxt);
        self.probe = TailProbe { end, awaiting_sample: true, due: true, ..TailProbe::default() };
        self.stats.tail_loss_probes += 1;
        self.rtt.set_retries_soon(self.retry_burst() > 1);
        self.timers.set(Timer::Retransmit, now + self.rtt.rto());
        let id = self.setup.id;
        self.log.add(now, None, Some(id), || What::TailLossProbe);
        unresponsive
    }

    /// SND.UNA is `ack` after what an acknowledgement brought: is the probe answered, and what does
    /// that say (section 7.4.2)?
    pub(super) fn probe_answered(
        &mut self,
        now: Instant,
        ack: u64,
        dsack: bool,
        siblings: &[SubflowView],
    ) {
        let Some(end) = self.probe.end else {
            self.probe.awaiting_sample = false;
            return;
        };
        if dsack && ack >= end {
            // Both the original and the probe arrived: nothing was lost.
            self.probe = TailProbe::default();
        } else if ack > end {
            // The probe repaired a loss that nothing else will report.
            self.probe = TailProbe::default();
            if self.recovery.phase == RecoveryPhase::Open {
                self.congestion(now, CongestionKind::Loss, siblings);
                self.recovery.undo.end();
            }
        }
    }

    /// An acknowledgement of `ack` brought nothing new. Without SACK, and of all up to the probe:
    /// the peer got that as a duplicate.
    pub(super) fn probe_repeated(&mut self, segment: &Segment, ack: u64) {
        let bare = segment.payload.is_empty() && segment.options.sack.is_empty();
        if bare && self.probe.end == Some(ack) {
            self.probe = TailProbe::default();
        }
    }

    /// A retransmission timeout or recovery overrides the probe.
    pub(super) fn cancel_probe(&mut self) {
        self.probe = TailProbe::default();
        self.timers.stop(Timer::Probe);
    }
}
