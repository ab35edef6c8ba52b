//! Segment arrival (RFC 9293 section 3.10.7, with the checks of RFC 5961 and RFC 7323).

use super::receive::{AckDue, Arrival};
use super::timer::Timer;
use super::{Accepted, ResetDue, State, Tcb};
use crate::record::{CloseReason, DropReason, What};
use crate::seq::Ssn;
use crate::time::{Duration, Instant};
use crate::view::SubflowView;
use tabane_wire::{Ecn, Flags, Segment};

/// PAWS forgets a timestamp that is older than this (RFC 7323 section 5.5).
const PAWS_IDLE: Duration = Duration::from_secs(24 * 24 * 3600);

impl Tcb {
    /// Processes a segment of this 4-tuple (RFC 9293 section 3.10.7). `siblings`: snapshots of all
    /// subflows of the connection.
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
        siblings: &[SubflowView],
    ) -> Accepted {
        self.stats.segments_received += 1;
        self.stats.bytes_received += segment.payload.len() as u64;
        let mut out = Accepted::default();
        match self.state {
            State::Closed => out.dropped = Some(DropReason::NoConnection),
            State::SynSent => self.in_syn_sent(now, segment, &mut out),
            _ => self.in_synchronised(now, segment, siblings, &mut out),
        }
        if let Some(reason) = out.dropped {
            self.stats.dropped += 1;
            let id = self.setup.id;
            self.log.add(now, None, Some(id), || What::Dropped { reason });
        }
        out
    }

    fn in_synchronised(
        &mut self,
        now: Instant,
        segment: &Segment,
        siblings: &[SubflowView],
        out: &mut Accepted,
    ) {
        let Some(start) = self.rx.position(segment.seq) else {
            self.refuse(now, segment, DropReason::OutOfWindow, out);
            return;
        };
        if !self.acceptable(now, segment, start, out) {
            return;
        }
        let flags = segment.flags;
        if !flags.contains(Flags::ACK) {
            out.dropped = Some(DropReason::BadFlags);
            return;
        }
        let Some(ack) = segment.ack.unwrap_near(self.iss, self.snd_una) else {
            self.challenge(now);
            out.dropped = Some(DropReason::BadAck);
            return;
        };
        if !self.check_ack(now, segment, ack, out) {
            return;
        }
        self.heard(now, segment, start);
        self.process_ack(now, segment, (start, ack), siblings, out);
        if self.state == State::Closed {
            return;
        }
        if flags.contains(Flags::SYN) {
            // It completes a simultaneous open.
            return self.take_beside_syn(now, segment, out);
        }
        self.take_payload(now, segment, start, out);
        self.take_fin(now, segment, start, out);
    }

    /// What a SYN+ACK brings beside the SYN (RFC 9293 section 3.10.7.3): data and FIN, which begin
    /// at the first position. With MPTCP on it there is no mapping for them: they come again.
    pub(super) fn take_beside_syn(&mut self, now: Instant, segment: &Segment, out: &mut Accepted) {
        if !segment.options.has_mptcp() {
            self.take_payload(now, segment, 1, out);
            self.take_fin(now, segment, 1, out);
        }
    }

    /// Steps one to four: sequence, timestamps, RST, SYN. Whether the segment goes further.
    fn acceptable(
        &mut self,
        now: Instant,
        segment: &Segment,
        start: u64,
        out: &mut Accepted,
    ) -> bool {
        let flags = segment.flags;
        let reset = flags.contains(Flags::RST);
        if flags.contains(Flags::SYN) && !reset {
            out.dropped = self.on_syn(now, segment, start);
            return out.dropped.is_none();
        }
        if reset {
            self.on_reset(now, start, out);
            return false;
        }
        if self.too_old(now, segment, start) {
            self.rx.on_old(start, start + segment.payload.len() as u64);
            out.dropped = Some(DropReason::Paws);
            return false;
        }
        let end = start + u64::from(segment.seq_len());
        // What ends before the last acknowledgement sent is certainly old; what begins beyond the
        // edge is certainly not for us. One byte at a closed window is a probe: answer it.
        if end < self.rx.acked.min(self.rx.rcv_nxt) || start > self.rx.edge.max(self.rx.rcv_nxt) {
            self.refuse(now, segment, DropReason::OutOfWindow, out);
            return false;
        }
        true
    }

    /// RFC 5961 section 3.2: only the exact number resets. Another one within the window is
    /// challenged; what is outside of it says nothing.
    fn on_reset(&mut self, now: Instant, start: u64, out: &mut Accepted) {
        let next = self.rx.rcv_nxt;
        if start == next {
            let refused = self.state == State::SynReceived;
            let reason = if refused { CloseReason::Refused } else { CloseReason::Reset(None) };
            self.finish(now, reason);
            out.closed = self.close_reason;
        } else if (next..self.rx.edge).contains(&start) {
            self.challenge(now);
            out.dropped = Some(DropReason::BadReset);
        } else {
            out.dropped = Some(DropReason::OutOfWindow);
        }
    }

    /// RFC 5961 section 4, and repeats of the handshake.
    fn on_syn(&mut self, now: Instant, segment: &Segment, start: u64) -> Option<DropReason> {
        let same = start == 0;
        if self.state == State::SynReceived && same {
            if segment.flags.contains(Flags::ACK) {
                return None;
            }
            // The answer echoes this one's timestamp: RFC 7323 section 4.3.
            self.heard(now, segment, start);
            self.due.syn = true;
            return Some(DropReason::BadSyn);
        }
        if same && segment.flags.contains(Flags::ACK) && self.state >= State::Established {
            // Our ACK of the SYN+ACK was lost.
            self.rx.due = AckDue::Now;
            return Some(DropReason::BadSyn);
        }
        self.challenge(now);
        Some(DropReason::BadSyn)
    }

    /// PAWS (RFC 7323 section 5.3), except for acknowledgements that were merely overtaken.
    fn too_old(&self, now: Instant, segment: &Segment, start: u64) -> bool {
        if !self.peer.timestamps {
            return false;
        }
        let Some(timestamps) = segment.options.timestamps else { return false };
        let behind = timestamps.value.wrapping_sub(self.peer.ts_recent) as i32;
        if behind >= 0 || now - self.peer.ts_recent_at > PAWS_IDLE {
            return false;
        }
        let overtaken = segment.seq_len() == 0 && start == self.rx.rcv_nxt;
        !overtaken
    }

    /// Step five: SYN-RECEIVED, and the bounds of RFC 5961 section 5.
    fn check_ack(&mut self, now: Instant, segment: &Segment, ack: u64, out: &mut Accepted) -> bool {
        if self.state == State::SynReceived {
            if ack != 1 || self.syn.transmissions == 0 {
                out.dropped = Some(DropReason::BadAck);
                self.due.reset = Some(ResetDue::To(segment.ack));
                return false;
            }
            self.complete_handshake(now, segment, out);
            return true;
        }
        if ack > self.snd_nxt || ack + self.max_wnd < self.snd_una {
            self.challenge(now);
            out.dropped = Some(DropReason::BadAck);
            return false;
        }
        true
    }

    /// A segment passed all checks: the peer lives; its timestamp may be the one to echo.
    fn heard(&mut self, now: Instant, segment: &Segment, start: u64) {
        self.last_heard = now;
        self.keepalives = 0;
        if self.config.keepalive.is_some() {
            self.arm_keepalive(now);
        }
        if let Some(timestamps) = segment.options.timestamps
            && self.peer.timestamps
            && start <= self.rx.acked
            && (timestamps.value.wrapping_sub(self.peer.ts_recent) as i32 >= 0
                || now - self.peer.ts_recent_at > PAWS_IDLE)
        {
            self.peer.ts_recent = timestamps.value;
            self.peer.ts_recent_at = now;
        }
        if self.peer.ecn && !segment.payload.is_empty() {
            self.rx.on_ecn(segment.ecn == Ecn::Ce, segment.flags.contains(Flags::CWR));
        }
    }

    /// Step seven: payload goes up as it came, cut at the edge of the window.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    fn take_payload(&mut self, now: Instant, segment: &Segment, start: u64, out: &mut Accepted) {
        let len = segment.payload.len() as u64;
        if len == 0 {
            // Old-sequence probes (keepalive, window probe) ask for an answer.
            if start < self.rx.rcv_nxt && !segment.flags.contains(Flags::FIN) {
                self.rx.due = AckDue::Now;
            }
            return;
        }
        if self.state >= State::CloseWait {
            return;
        }
        let end = (start + len).min(self.rx.edge.max(self.rx.rcv_nxt));
        if end <= start {
            self.rx.due = AckDue::Now;
            out.dropped = Some(DropReason::OutOfWindow);
            return;
        }
        let before = self.rx.rcv_nxt;
        match self.rx.on_data(start, end) {
            Arrival::Refused => {
                out.dropped = Some(DropReason::Limit("out-of-order ranges"));
                return;
            }
            Arrival::Duplicate => {
                out.duplicate = true;
                self.stats.bytes_duplicate += end - start;
            }
            Arrival::New => {
                self.stats.bytes_duplicate += before.saturating_sub(start);
            }
        }
        if self.rx.due == AckDue::Delayed && !self.timers.is_set(Timer::Ack) {
            self.timers.set(Timer::Ack, now + self.config.ack_delay);
        }
        let payload = segment.payload.slice(..(end - start) as usize);
        out.payload = Some((Ssn(start), payload));
    }

    /// Step eight: the peer's FIN, once everything before it has come.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    fn take_fin(&mut self, now: Instant, segment: &Segment, start: u64, out: &mut Accepted) {
        if segment.flags.contains(Flags::FIN) {
            let position = start + segment.payload.len() as u64;
            if self.state >= State::CloseWait {
                // A repeat: acknowledge it; TIME-WAIT begins anew.
                self.rx.due = AckDue::Now;
                if self.state == State::TimeWait {
                    self.timers.set(Timer::TimeWait, now + self.config.time_wait);
                }
                return;
            }
            if self.rx.fin.is_none() && position >= self.rx.rcv_nxt {
                self.rx.fin = Some(position);
            }
            if position > self.rx.rcv_nxt {
                // RFC 5681 section 4.2: out of order, as data would be.
                self.rx.due = AckDue::Now;
            }
        }
        if !self.rx.take_fin() {
            return;
        }
        out.fin = true;
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// To TIME-WAIT (RFC 9293 section 3.6); little is kept.
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.clear();
        self.tx.clear();
        self.timers.set(Timer::TimeWait, now + self.config.time_wait);
    }

    /// Not acceptable: answered with an acknowledgement, unless it is a reset.
    fn refuse(&mut self, now: Instant, segment: &Segment, why: DropReason, out: &mut Accepted) {
        out.dropped = Some(why);
        if segment.flags.contains(Flags::RST) {
            return;
        }
        match self.rx.position(segment.seq) {
            Some(start) => self.rx.on_old(start, start + segment.payload.len() as u64),
            None => self.challenge(now),
        }
    }

    /// A challenge ACK (RFC 5961), at most `TcpConfig::challenge_acks` a second.
    pub(super) fn challenge(&mut self, now: Instant) {
        let second = now.0 / 1_000_000_000;
        if self.challenge.0 != second {
            self.challenge = (second, 0);
        }
        if self.challenge.1 < self.config.challenge_acks {
            self.challenge.1 += 1;
            self.rx.due = AckDue::Now;
        }
    }
}
