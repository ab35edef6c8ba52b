//! Acknowledgement processing: window update, scoreboard, RTT, loss detection, recovery and
//! congestion control, in this order (RFC 9293 section 3.10.7.4, RFC 6675, 8985, 6937, 5682).

use super::scoreboard::{AckContext, Delta};
use super::timeout::FIN_WAIT;
use super::timer::Timer;
use super::{Accepted, State, Tcb};
use crate::congestion::{Ack, Congestion, CongestionKind};
use crate::record::What;
use crate::seq::Ssn;
use crate::time::{Duration, Instant};
use crate::view::{RecoveryPhase, SubflowView};
use tabane_wire::{Flags, Segment};

impl Tcb {
    /// `position` is that of the segment and of its acknowledgement, both checked.
    pub(super) fn process_ack(
        &mut self,
        now: Instant,
        segment: &Segment,
        position: (u64, u64),
        siblings: &[SubflowView],
        out: &mut Accepted,
    ) {
        let (start, ack) = position;
        let window_changed = self.update_window(segment, start, ack, out);
        if ack == self.snd_una && !self.tx.outstanding() && segment.options.sack.is_empty() {
            // Nothing is under way: nothing can be learned of it.
            self.overtaken(now, segment, ack);
            self.probe_repeated(segment, ack);
            if self.peer.ecn && segment.flags.contains(Flags::ECE) {
                self.on_ecn_echo(now, siblings);
            }
            return self.after_ack_state(now, &Delta::default(), out);
        }
        let prior_in_flight = self.pipe();
        let context = AckContext {
            now,
            echo_covers: self.echo_covers(now, segment),
            min_rtt: self.min_rtt_here(),
            high: if self.recovery.frto { self.recovery.high } else { 0 },
        };
        let mut delta = Delta::default();
        if ack > self.snd_una {
            self.tx.acknowledge(ack, &context, &mut delta);
            self.snd_una = ack;
            out.acked_to = Some(Ssn(ack));
            self.stats.bytes_acked += delta.acked;
            self.rtt.reset_backoff();
            self.recovery.retried = None;
        }
        let dsack = self.take_sack(segment, ack, &context, &mut delta);
        if !self.peer.sack && !window_changed {
            self.count_duplicate(segment, ack, &mut delta);
        }
        if delta.delivered > 0 || delta.acked > 0 || dsack {
            self.after_delivery(now, segment, (prior_in_flight, dsack), &delta, siblings);
        } else {
            self.overtaken(now, segment, ack);
            self.probe_repeated(segment, ack);
        }
        if self.peer.ecn && segment.flags.contains(Flags::ECE) {
            self.on_ecn_echo(now, siblings);
        }
        self.after_ack_state(now, &delta, out);
    }

    /// SND.WND (RFC 9293 section 3.10.7.4). Like Linux, only an acknowledgement that is new, or
    /// a segment that is, may make it smaller: an overtaken copy cannot.
    fn update_window(&mut self, s: &Segment, start: u64, ack: u64, out: &mut Accepted) -> bool {
        if ack < self.snd_una {
            return false;
        }
        let shift = if s.flags.contains(Flags::SYN) { 0 } else { self.peer.scale };
        let window = u64::from(s.window) << shift;
        out.window = Some(window);
        let changed = window != self.snd_wnd && ack == self.snd_una;
        if ack > self.snd_una || start > self.snd_wl1 || window > self.snd_wnd {
            // SND.WND counts from SND.UNA, which `process_ack` moves to `ack` next.
            self.snd_wnd = window;
            self.snd_wl1 = self.snd_wl1.max(start);
            self.max_wnd = self.max_wnd.max(window);
        }
        changed
    }

    /// The last moment at which the segment that the peer's echo refers to can have been sent.
    pub(super) fn echo_covers(&self, now: Instant, segment: &Segment) -> Option<Instant> {
        let age = self.echo_age(now, segment)?.as_millis();
        Some(Instant(now.as_millis().saturating_sub(age) * 1_000_000 + 999_999))
    }

    /// How long ago, in whole milliseconds, the segment was sent that the peer's echo refers to.
    fn echo_age(&self, now: Instant, segment: &Segment) -> Option<Duration> {
        let echo = segment.options.timestamps.filter(|_| self.peer.timestamps)?.echo;
        Some(Duration::from_millis(self.timestamp(now).wrapping_sub(echo).into()))
    }

    /// SACK blocks and DSACK. Whether there was a DSACK.
    fn take_sack(
        &mut self,
        segment: &Segment,
        ack: u64,
        context: &AckContext,
        delta: &mut Delta,
    ) -> bool {
        if !self.peer.sack || segment.options.sack.is_empty() {
            return false;
        }
        let mut blocks = [(0, 0); 4];
        let mut n = 0;
        for &(a, b) in segment.options.sack.as_slice() {
            let a = a.unwrap_near(self.iss, self.snd_una);
            let b = b.unwrap_near(self.iss, self.snd_una);
            if let (Some(a), Some(b)) = (a, b)
                && a < b
                && b <= self.snd_nxt
            {
                blocks[n] = (a, b);
                n += 1;
            }
        }
        let blocks = &mut blocks[..n];
        let Some(&first) = blocks.first() else { return false };
        // The echo is of the segment that last advanced the left edge (RFC 7323 section 4.3), never
        // of one that is SACKed: of the two tests for ambiguity in RFC 8985 section 6.2 step 2 only
        // that of the round trip says something of these (the only one that Linux makes).
        let context = &AckContext { echo_covers: None, ..*context };
        // RFC 2883 section 5: below the acknowledgement, or inside the second block.
        let inside = blocks.get(1).is_some_and(|b| b.0 <= first.0 && first.1 <= b.1);
        let dsack = first.0 < ack || inside;
        if dsack {
            let ours = self.recovery.undo.on_dsack(first.0, first.1);
            if ours && !self.recovery.undo.sees_duplication() {
                self.recovery.rack.on_dsack(self.snd_una, self.snd_nxt);
            }
        }
        // What comes in one ACK has no order in time: the newest block is the first (RFC 2018
        // section 4), and those below it are no reordering (RFC 8985 section 6.2 step 3).
        let sacks = &mut blocks[usize::from(dsack)..];
        sacks.sort_unstable();
        for &mut (a, b) in sacks {
            if b > self.snd_una {
                self.tx.sack((a.max(self.snd_una), b), context, delta);
            }
        }
        dsack
    }

    /// Without SACK a duplicate ACK says that one segment has left the network (RFC 5681).
    fn count_duplicate(&mut self, segment: &Segment, ack: u64, delta: &mut Delta) {
        let elsewhere = self.is_elsewhere();
        let recovery = &mut self.recovery;
        if delta.acked > 0 {
            // One segment of it is the retransmission; the rest was credited already.
            let credited = recovery.dup_credit.min(delta.acked.saturating_sub(self.mss));
            delta.delivered = delta.delivered.saturating_sub(recovery.dup_credit).max(self.mss);
            recovery.dup_credit -= credited;
            recovery.dupacks = 0;
            return;
        }
        // RFC 8684 section 3.3.6: an MPTCP signal on an ACK makes it no sign of congestion.
        let signal = segment.options.mptcp.is_some();
        let bare = segment.payload.is_empty() && !segment.flags.contains(Flags::FIN);
        // Those by another path may be copies of those by its own.
        if ack == self.snd_una && bare && !signal && !elsewhere && self.tx.outstanding() {
            recovery.dupacks += 1;
            recovery.dup_credit += self.mss;
            delta.delivered += self.mss;
        }
    }

    /// Something was delivered, or reported as duplicate.
    fn after_delivery(
        &mut self,
        now: Instant,
        segment: &Segment,
        (prior_in_flight, dsack): (u64, bool),
        delta: &Delta,
        siblings: &[SubflowView],
    ) {
        if self.recovery.phase == RecoveryPhase::Loss {
            // An answer: the window says again what leaves.
            self.recovery.forced = 0;
        }
        let rtt = self.take_rtt(now, segment, delta);
        self.recovery.rack.on_delivered(delta);
        let idle = !self.tx.outstanding();
        let min_rtt = self.rtt.min();
        let delivery_rate = self.rate.on_ack(now, delta.delivered, delta.rate, idle, min_rtt);
        if let Some(rtt) = rtt {
            // The last ACK may have been delayed, for want of more.
            let usual = if idle { min_rtt + self.config.ack_delay } else { min_rtt };
            self.rate.confirm(now, rtt.saturating_sub(usual), delta.delivered);
        }
        let lost = self.detect_loss(now);
        self.rate.on_lost(lost);
        self.probe_answered(now, self.snd_una, dsack, siblings);
        self.step_recovery(now, segment, delta, lost, siblings);
        if delta.delivered > 0 {
            self.notify_ack_path(now, delta.acked > 0);
            let (yes, in_flight) = (self.limited.yes, self.pipe());
            let cc = self.window;
            let doubling = cc.cwnd < cc.ssthresh && cc.cwnd < 2 * self.limited.max_in_flight;
            let reverse_delay = rtt.map(|rtt| self.reverse_delay(now, segment, rtt));
            let ack = Ack {
                now,
                subflow: self.setup.id,
                acked: delta.acked,
                delivered: delta.delivered,
                rtt,
                srtt: self.rtt.srtt(),
                min_rtt: self.rtt.min(),
                reverse_delay: reverse_delay.unwrap_or_default(),
                prior_in_flight,
                in_flight,
                mss: self.smss,
                cwnd_limited: yes || doubling,
                phase: self.recovery.phase,
                snd_una: self.snd_una,
                snd_nxt: self.snd_nxt,
                delivery_rate,
                capacity: self.rate.capacity(),
                lost: lost + std::mem::take(&mut self.recovery.untold),
            };
            self.cc.on_ack(&ack, siblings);
            self.cc.report(&mut self.window);
        }
        self.record_window(now);
    }

    /// RTT from the oldest segment delivered that was sent once (as Linux does: it holds the
    /// delayed ACK); the most recent one is what congestion control and RACK's minimum see.
    ///
    /// Karn's rule holds for the whole ACK (Linux: FLAG_RETRANS_DATA_ACKED): what comes with the
    /// acknowledgement of a retransmission has waited for it at the peer, perhaps for many repairs.
    fn take_rtt(&mut self, now: Instant, segment: &Segment, delta: &Delta) -> Option<Duration> {
        if delta.retransmitted && delta.acked > 0 {
            self.take_echoed_rtt(now, segment, delta);
        }
        let oldest = delta.oldest.filter(|_| !delta.retransmitted)?;
        self.rtt.on_sample(now, now - oldest);
        let recent = now - delta.latest.unwrap_or(oldest);
        let (rate, mark) = (&self.rate, &delta.rate);
        let waited = |mark| rate.waited_for_itself(now, mark, delta.delivered);
        self.rtt.on_recent(now, recent, || mark.as_ref().is_some_and(waited));
        self.sample_ack_path(now, oldest, delta.acked > 0);
        self.log_rtt(now, now - oldest);
        Some(recent)
    }

    /// Of what was sent again the echo tells which transmission arrived (RFC 7323 section 4, as in
    /// Linux' `tcp_ack_update_rtt`). Else a path on which even the first segments wait longer than
    /// the timeout would never have a sample, and each timeout would send more into its queue.
    ///
    /// The echo has milliseconds: if what was delivered was sent in the one that it names, the
    /// moment of sending is known better.
    fn take_echoed_rtt(&mut self, now: Instant, segment: &Segment, delta: &Delta) {
        let Some(age) = self.echo_age(now, segment) else { return };
        let echoed = |sent_at: Instant| now.as_millis() - sent_at.as_millis() == age.as_millis();
        let sample = match delta.newest {
            Some((newest, rtt)) if echoed(newest.sent_at) => rtt,
            _ => age,
        };
        // Nobody waits longer than the longest timeout: then it is no echo of ours.
        if sample <= self.config.rto_max {
            self.rtt.on_sample(now, sample);
            self.log_rtt(now, sample);
        }
    }

    /// What this ACK, whose round trip is `rtt`, has waited on its way back. Those that come by
    /// several paths do not compare.
    fn reverse_delay(&mut self, now: Instant, segment: &Segment, rtt: Duration) -> Duration {
        let timestamps = segment.options.timestamps.filter(|_| self.peer.timestamps);
        match timestamps {
            Some(stamps) if self.ack_path.is_none() => self.reverse.on_ack(now, stamps.value, rtt),
            _ => Duration::ZERO,
        }
    }

    fn log_rtt(&mut self, now: Instant, sample: Duration) {
        let (id, srtt, rto) = (self.setup.id, self.rtt.srtt(), self.rtt.rto());
        self.log.add(now, None, Some(id), || What::Rtt { sample, srtt, rto });
    }

    /// RACK (RFC 8985 section 6.2). Bytes newly lost.
    pub(super) fn detect_loss(&mut self, now: Instant) -> u64 {
        if !self.peer.sack {
            return self.detect_by_duplicates();
        }
        let recovery = &self.recovery;
        let hasty = recovery.phase != RecoveryPhase::Open || self.tx.sacked_segments() >= 3;
        let wait = recovery.rack.wait(hasty, self.rtt.min(), self.rtt.srtt());
        let (lost, again) = self.tx.detect(now, recovery.rack.newest, wait);
        match again {
            Some(at) => self.timers.set(Timer::Reorder, at),
            None => self.timers.stop(Timer::Reorder),
        }
        lost
    }

    /// Without SACK: three duplicates, and in recovery every partial acknowledgement (RFC 6582).
    fn detect_by_duplicates(&mut self) -> u64 {
        let third = self.recovery.dupacks == 3 && self.recovery.phase == RecoveryPhase::Open;
        let partial = self.recovery.dupacks == 0
            && self.recovery.phase == RecoveryPhase::Recovery
            && self.snd_una < self.recovery.high
            && self.tx.first().is_some_and(|s| !s.retransmitted);
        // RFC 6582 section 3.2 step 1: not again for what the last recovery covered.
        let covered = self.snd_una < self.recovery.high;
        // RFC 6582 section 3.2 step 3: a partial acknowledgement is answered at once.
        self.recovery.forced = self.recovery.forced.max(u32::from(partial));
        if third && !covered || partial { self.tx.mark_first_lost() } else { 0 }
    }

    /// Continues, ends or starts loss recovery according to what was delivered.
    pub(super) fn step_recovery(
        &mut self,
        now: Instant,
        segment: &Segment,
        delta: &Delta,
        lost: u64,
        siblings: &[SubflowView],
    ) {
        let echo = segment.options.timestamps.filter(|_| self.peer.timestamps).map(|t| t.echo);
        let recovering = self.recovery.phase != RecoveryPhase::Open;
        let early = recovering && delta.acked > 0 && self.recovery.undo.sent_again();
        let una = self.snd_una;
        let eifel = early && echo.is_some_and(|e| self.recovery.undo.echo_is_older(e, una));
        let frto = self.recovery.frto && delta.original && self.recovery.undo.sent_again();
        if eifel || frto || self.recovery.undo.all_dsacked() {
            self.undo(now);
        }
        self.step_frto(now, delta);
        if self.recovery.phase != RecoveryPhase::Open && self.snd_una >= self.recovery.high {
            self.end_recovery(now);
        }
        if self.recovery.phase == RecoveryPhase::Open && lost > 0 {
            self.begin_recovery(now, delta.delivered, siblings);
        }
        if self.recovery.phase == RecoveryPhase::Recovery {
            let safe = delta.acked > 0 && lost == 0;
            let (pipe, ssthresh) = (self.pipe(), self.window.ssthresh);
            self.recovery.prr.on_ack(delta.delivered, pipe, ssthresh, self.smss, safe);
        }
    }

    /// RFC 5682 section 3.1 step 2b: the first ACK after the timeout lets two new segments go; if
    /// the application has none soon, or the next ACK proves nothing, retransmission goes on.
    /// With timestamps the echo has decided already.
    fn step_frto(&mut self, now: Instant, delta: &Delta) {
        let recovery = &mut self.recovery;
        if recovery.phase != RecoveryPhase::Loss || !recovery.frto {
            return;
        }
        if recovery.frto_held || self.peer.timestamps {
            recovery.frto_hold = None;
            return;
        }
        if delta.acked == 0 {
            return;
        }
        recovery.frto_held = true;
        let until = now + Duration((self.rtt.srtt().0 / 8).max(1_000_000));
        recovery.frto_hold = Some(until);
        self.timers.set(Timer::Reorder, until);
    }

    /// Fast recovery begins with an ACK that delivers so much, or (0) with a timer.
    pub(super) fn begin_recovery(
        &mut self,
        now: Instant,
        delivered: u64,
        siblings: &[SubflowView],
    ) {
        self.recovery.phase = RecoveryPhase::Recovery;
        self.recovery.high = self.snd_nxt;
        self.recovery.forced = 1;
        let flight = self.snd_nxt - self.snd_una;
        let sacked = self.tx.sacked_bytes();
        let newly_delivered = if self.peer.sack { delivered } else { 0 };
        self.recovery.prr.begin(flight.saturating_sub(sacked) + newly_delivered);
        self.stats.recoveries += 1;
        // RFC 3168 section 6.1.2: one reduction in a window, whatever says so.
        if self.snd_una >= self.recovery.ecn_high {
            self.recovery.undo.begin();
            self.congestion(now, CongestionKind::Loss, siblings);
        } else {
            self.answer_window();
        }
        self.recovery_changed(now);
        // RFC 8985 section 7.1: one loss has one answer, and what a probe finds has it now.
        self.cancel_probe();
    }

    fn end_recovery(&mut self, now: Instant) {
        self.recovery.phase = RecoveryPhase::Open;
        self.recovery.forced = 0;
        self.recovery.frto = false;
        self.recovery.frto_hold = None;
        self.recovery.dup_credit = 0;
        self.recovery.dupacks = 0;
        self.recovery.rack.on_recovery_end();
        self.recovery_changed(now);
    }

    /// The congestion response was spurious: as if it had not been.
    fn undo(&mut self, now: Instant) {
        self.cc.on_spurious(now);
        self.cc.report(&mut self.window);
        self.tx.unmark_lost();
        self.recovery.undo.end();
        // Nothing has been reduced: the peer is not told so, and marks of this window count.
        (self.recovery.ecn_high, self.due.cwr) = (0, false);
        self.recovery.rack.saw_reordering();
        self.recovery.frto = false;
        self.recovery.frto_hold = None;
        self.recovery.forced = 0;
        self.stats.undone += 1;
        let id = self.setup.id;
        self.log.add(now, None, Some(id), || What::Undone);
        if self.recovery.phase != RecoveryPhase::Open {
            self.recovery.phase = RecoveryPhase::Open;
            self.recovery_changed(now);
        }
    }

    /// ECE (RFC 3168 section 6.1.2): one cut per window.
    fn on_ecn_echo(&mut self, now: Instant, siblings: &[SubflowView]) {
        // Until something beyond that window has arrived the peer has not heard of the cut.
        if self.recovery.phase == RecoveryPhase::Open && self.snd_una > self.recovery.ecn_high {
            self.congestion(now, CongestionKind::Ecn, siblings);
            // A recovery before it is over: what that took stays, if it was spurious or not.
            self.recovery.undo.end();
        }
    }

    /// Congestion in the window in flight is answered: marks of it count no more, and the peer is
    /// told to stop repeating them (RFC 3168 section 6.1.2).
    fn answer_window(&mut self) {
        if self.peer.ecn {
            (self.recovery.ecn_high, self.due.cwr) = (self.snd_nxt, true);
        }
    }

    /// Tells the controller, and records it.
    pub(super) fn congestion(
        &mut self,
        now: Instant,
        kind: CongestionKind,
        siblings: &[SubflowView],
    ) {
        let event = Congestion {
            now,
            subflow: self.setup.id,
            kind,
            in_flight: self.snd_nxt - self.snd_una,
            mss: self.smss,
            snd_nxt: self.snd_nxt,
        };
        self.answer_window();
        self.loss_interval.on_congestion(self.stats.bytes_acked);
        let before = self.window.cwnd;
        self.cc.on_congestion(&event, siblings);
        self.cc.report(&mut self.window);
        if self.window.cwnd < before {
            self.reduced_at = now;
        }
        let id = self.setup.id;
        self.log.add(now, None, Some(id), || What::Congestion(kind));
        self.record_window(now);
    }

    pub(super) fn recovery_changed(&mut self, now: Instant) {
        let (id, phase) = (self.setup.id, self.recovery.phase);
        self.log.add(now, None, Some(id), || What::Recovery(phase));
    }

    /// States of closing, and the timers.
    fn after_ack_state(&mut self, now: Instant, delta: &Delta, out: &mut Accepted) {
        if delta.fin {
            out.fin_acked = true;
            match self.state {
                State::FinWait1 => {
                    self.state = State::FinWait2;
                    if self.limits_fin_wait {
                        self.timers.set(Timer::TimeWait, now + FIN_WAIT);
                    }
                }
                State::Closing => return self.enter_time_wait(now),
                State::LastAck => {
                    self.finish(now, crate::record::CloseReason::Finished);
                    out.closed = self.close_reason;
                    return;
                }
                _ => {}
            }
        }
        if self.blocked && self.timers.is_set(Timer::Persist) {
            // The peer answers: RFC 9293 section 3.8.6.1 never gives up on it.
            self.keepalives = 0;
        }
        if !self.tx.outstanding() {
            if self.state > State::SynReceived {
                self.timers.stop(Timer::Retransmit);
                self.timers.stop(Timer::Probe);
                self.timers.stop(Timer::Reorder);
            }
        } else if delta.acked > 0 || delta.sacked > 0 {
            if delta.acked > 0 || !self.timers.is_set(Timer::Retransmit) {
                self.timers.set(Timer::Retransmit, now + self.rtt.rto());
            }
            self.arm_probe(now, true);
        }
    }
}
