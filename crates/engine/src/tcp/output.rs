//! What leaves a subflow, and in which order: resets, handshake, retransmissions, data, FIN,
//! acknowledgements.

use super::receive::AckDue;
use super::timer::Timer;
use super::{Kind, Outgoing, ResetDue, Span, State, Tcb};
use crate::seq::{Dsn, Ssn};
use crate::time::{Duration, Instant, mul_div};
use crate::view::RecoveryPhase;
use bytes::Bytes;
use tabane_wire::{Ecn, Flags, Segment, SeqNum, TcpOptions, Timestamps};

/// Position of the first byte of data.
const FIRST: u64 = 1;

/// A segment with payload or FIN, taken from the scoreboard.
struct TxRange {
    ssn: u64,
    dsn: Dsn,
    data: Bytes,
    span: Span,
    fin: bool,
    again: bool,
}

impl Tcb {
    /// The next segment that this subflow has to or may send: handshake, resets, retransmissions,
    /// pushed chunks, FIN, ACKs that are due. `window`: bytes that the connection can take from
    /// its (data-level) acknowledgement on; the connection sees to it that the edge never shrinks.
    pub(crate) fn poll_segment<'s>(
        &mut self,
        now: Instant,
        window: u64,
        segment: &'s mut Segment,
    ) -> Option<Outgoing<'s>> {
        if let Some(reset) = self.due.reset.take() {
            return Some(self.reset(now, reset, segment));
        }
        match self.state {
            State::Closed => return None,
            State::SynSent | State::SynReceived if self.due.syn => {
                self.note_syn(now);
                return Some(self.syn(now, window, segment));
            }
            State::SynSent | State::SynReceived if self.due.copy => {
                self.due.copy = false;
                self.syn.departs(now);
                self.expect_answer(now);
                return Some(Outgoing { copy: true, ..self.syn(now, window, segment) });
            }
            State::SynSent => return None,
            // Challenges, and answers to what is not acceptable.
            State::SynReceived => {
                let due = self.rx.due == AckDue::Now;
                return due.then(|| self.ack(now, window, segment));
            }
            _ => {}
        }
        if let Some(range) = self.next_range(now) {
            return Some(self.data(now, window, range, segment));
        }
        if self.rx.due == AckDue::Now {
            return Some(self.ack(now, window, segment));
        }
        if self.due.probe {
            self.due.probe = false;
            return Some(self.old_sequence_probe(now, window, segment));
        }
        None
    }

    /// What comes next of data: a loss probe, what is lost, what is new.
    fn next_range(&mut self, now: Instant) -> Option<TxRange> {
        if self.probe.due {
            self.probe.due = false;
            if let Some(range) = self.take_last(now) {
                return Some(range);
            }
        }
        if self.tx.has_lost()
            && self.recovery.frto_hold.is_none()
            && let Some(range) = self.take_lost(now)
        {
            return Some(range);
        }
        if self.tx.unsent_bytes() == 0 || (self.snd_nxt < self.queued_to && self.waits(now)) {
            return None;
        }
        self.take_unsent(now)
    }

    /// Whether a retransmission may leave.
    fn may_retransmit(&self, now: Instant) -> bool {
        if self.recovery.forced > 0 {
            return true;
        }
        let space = match self.recovery.phase {
            RecoveryPhase::Recovery if self.window.pacing_rate.is_none() => {
                self.recovery.prr.allowance() > 0
            }
            _ => self.pipe() < self.window.cwnd,
        };
        space && self.pace_until <= now
    }

    /// Whether what is bound has to wait, and did not leave with the push. Nothing waits that
    /// nothing in flight would bring on.
    fn waits(&mut self, now: Instant) -> bool {
        let Some(segment) = self.tx.next_unsent() else { return false };
        let (end, len) = (segment.end(), segment.len());
        if self.pipe() == 0 {
            return false;
        }
        let hold = self.recovery.frto_hold.is_some();
        let space = match self.recovery.phase {
            _ if hold => end <= self.recovery.high + 2 * self.mss,
            _ if self.tx.has_lost() => false,
            RecoveryPhase::Recovery if self.window.pacing_rate.is_none() => {
                self.recovery.prr.allowance() > 0
            }
            _ => self.pipe() + len <= self.window.cwnd,
        };
        !space || self.pace_until > now || end > self.snd_una + self.snd_wnd
    }

    fn take_lost(&mut self, now: Instant) -> Option<TxRange> {
        if !self.may_retransmit(now) {
            return None;
        }
        let (ssn, span) = self.tx.next_lost().map(|segment| (segment.ssn, segment.span))?;
        // A window that has shrunk (RFC 9293 section 3.8.6, MAY-7): as Linux, only the oldest
        // byte goes beyond it, and so probes it too. A peer that takes back what it offered has
        // no memory for the rest.
        if ssn != self.snd_una && ssn >= self.snd_una + self.snd_wnd {
            return None;
        }
        self.recovery.forced = self.recovery.forced.saturating_sub(1);
        self.tx.split(ssn, self.longest(ssn, span));
        self.resend(now, ssn, false)
    }

    fn take_last(&mut self, now: Instant) -> Option<TxRange> {
        loop {
            let last = self.tx.last_sent()?;
            let (ssn, span, len) = (last.ssn, last.span, last.chunk.data.len());
            if len <= self.longest(ssn, span) {
                return self.resend(now, ssn, true);
            }
            // The MTU has shrunk since it was sent: what is left behind the first part may still
            // be longer than a segment.
            self.tx.split(ssn, self.longest(ssn, span));
        }
    }

    fn resend(&mut self, now: Instant, ssn: u64, probe: bool) -> Option<TxRange> {
        let idle = !self.tx.outstanding();
        let segment = if probe { self.tx.last_sent()? } else { self.tx.next_lost()? };
        self.rate.stamp(now, segment, idle);
        let (end, fin) = (segment.end(), segment.fin);
        let (dsn, data, span) = (segment.chunk.dsn, segment.chunk.data.clone(), segment.span);
        self.tx.resent(ssn, now);
        let stamp = self.timestamp(now);
        self.recovery.undo.on_resent(ssn, end, stamp, probe);
        self.stats.bytes_retransmitted += data.len() as u64;
        self.after_sending(now, end - ssn);
        if ssn == self.snd_una && !probe {
            // Its answer takes a round trip from now: a timer that runs since the last advance
            // would call a retransmission lost that RACK has only just repeated (as in Linux).
            self.timers.set(Timer::Retransmit, now + self.rtt.rto());
        }
        Some(TxRange { ssn, dsn, data, span, fin, again: true })
    }

    fn take_unsent(&mut self, now: Instant) -> Option<TxRange> {
        let idle = !self.tx.outstanding();
        let limited = self.limited.yes || self.paces(now);
        let (mss, opening) = (self.mss as usize, self.opening);
        let mut segment = self.tx.next_unsent()?;
        if segment.chunk.data.len() > mss || (opening > 0 && segment.ssn == FIRST) {
            let (ssn, span) = (segment.ssn, segment.span);
            self.tx.split(ssn, self.longest(ssn, span));
            segment = self.tx.next_unsent()?;
        }
        self.rate.stamp(now, segment, idle);
        segment.app_limited = !limited;
        let (ssn, len, fin) = (segment.ssn, segment.len(), segment.fin);
        let (dsn, data, span) = (segment.chunk.dsn, segment.chunk.data.clone(), segment.span);
        self.tx.sent_next(now);
        self.snd_nxt = self.snd_nxt.max(ssn + len);
        self.after_sending(now, len);
        self.note_limit();
        if !self.timers.is_set(Timer::Retransmit) {
            self.timers.set(Timer::Retransmit, now + self.rtt.rto());
        }
        self.arm_probe(now, idle);
        Some(TxRange { ssn, dsn, data, span, fin, again: false })
    }

    /// Payload of a full segment that begins at `ssn`.
    fn longest(&self, ssn: u64, span: Span) -> usize {
        if span.is_within() && self.spans {
            return self.space.bare() as usize;
        }
        let opening = if ssn == FIRST { self.opening } else { 0 };
        (self.mss - u64::from(opening)) as usize
    }

    /// Bookkeeping for bytes that leave.
    fn after_sending(&mut self, now: Instant, bytes: u64) {
        self.last_sent = now;
        self.stats.bytes_sent += bytes;
        if self.recovery.phase == RecoveryPhase::Recovery {
            self.recovery.prr.on_sent(bytes);
        }
        let in_flight = self.pipe();
        self.cc.on_sent(now, bytes, in_flight);
        self.cc.report(&mut self.window);
        // What leaves whatever the window says is not paced, but for the last.
        let paced = self.recovery.forced == 0 || self.recovery.phase != RecoveryPhase::Loss;
        if let Some(rate) = self.window.pacing_rate.filter(|_| paced) {
            let gap = mul_div(bytes, 1_000_000_000, rate.max(1));
            let floor = Instant(now.0.saturating_sub(self.config.pacing_credit.0));
            self.pace_until = self.pace_until.max(floor) + Duration(gap);
            if self.pace_until > now {
                self.timers.set(Timer::Pacing, self.pace_until);
            }
        }
    }

    /// Whether the pacer has held data back until now, or nearly: its credit is not used up.
    fn paces(&self, now: Instant) -> bool {
        self.window.pacing_rate.is_some() && self.pace_until + self.config.pacing_credit > now
    }

    /// Whether the window was the limit, remembered for a round (as Linux's `is_cwnd_limited`).
    fn note_limit(&mut self) {
        let in_flight = self.pipe() + self.tx.unsent_bytes();
        if self.snd_una >= self.limited.round_end {
            let round_end = self.snd_nxt;
            self.limited = super::CwndLimited { yes: false, round_end, max_in_flight: 0 };
        }
        self.limited.max_in_flight = self.limited.max_in_flight.max(in_flight);
        self.limited.yes |= in_flight + self.smss > self.window.cwnd;
    }

    fn data<'s>(
        &mut self,
        now: Instant,
        window: u64,
        range: TxRange,
        segment: &'s mut Segment,
    ) -> Outgoing<'s> {
        let mut flags = Flags::ACK;
        if range.fin {
            flags = flags | Flags::FIN;
        }
        if self.due.cwr && !range.again {
            self.due.cwr = false;
            flags = flags | Flags::CWR;
        }
        let has_data = !range.data.is_empty();
        self.fill(now, window, (range.ssn, range.data.len()), flags, segment);
        if self.peer.ecn && has_data && !range.again {
            segment.ecn = Ecn::Ect0;
        }
        segment.payload = range.data;
        let kind = if has_data { Kind::Data } else { Kind::Fin };
        let dsn = has_data.then_some(range.dsn);
        Outgoing {
            segment,
            kind,
            ssn: Ssn(range.ssn),
            dsn,
            span: range.span,
            retransmission: range.again,
            copy: false,
        }
    }

    fn ack<'s>(&mut self, now: Instant, window: u64, segment: &'s mut Segment) -> Outgoing<'s> {
        self.fill(now, window, (self.snd_nxt, 0), Flags::ACK, segment);
        segment.payload = Bytes::new();
        let ssn = Ssn(self.snd_nxt);
        let kind = Kind::Ack;
        Outgoing::empty(segment, kind, ssn)
    }

    /// Keepalive and window probe: a number that the peer has acknowledged, which it must answer.
    fn old_sequence_probe<'s>(
        &mut self,
        now: Instant,
        window: u64,
        segment: &'s mut Segment,
    ) -> Outgoing<'s> {
        let ssn = self.snd_una.saturating_sub(1);
        self.fill(now, window, (ssn, 0), Flags::ACK, segment);
        segment.payload = Bytes::new();
        let (kind, ssn) = (Kind::Probe, Ssn(ssn));
        Outgoing::empty(segment, kind, ssn)
    }

    /// All but the payload of a segment of a synchronised state: numbers, window, timestamps, SACK
    /// as far as there is space for it beside so much payload.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    fn fill(
        &mut self,
        now: Instant,
        window: u64,
        (ssn, payload): (u64, usize),
        mut flags: Flags,
        segment: &mut Segment,
    ) {
        // Rounded up, so that the edge that the peer computes never moves back.
        let field = window.div_ceil(1 << self.scale).min(u64::from(u16::MAX));
        segment.options.clear();
        let options = &mut segment.options;
        if self.peer.timestamps {
            let value = self.timestamp(now);
            options.timestamps = Some(Timestamps { value, echo: self.peer.ts_recent });
        }
        if self.peer.sack && self.rx.has_sack() {
            self.rx.sack_blocks(&mut options.sack, self.space.blocks(payload));
        }
        if self.peer.ecn && self.rx.ece {
            flags = flags | Flags::ECE;
        }
        self.timers.stop(Timer::Ack);
        self.rx.on_ack_sent(self.rx.rcv_nxt + (field << self.scale), payload == 0);
        if payload > 0 && self.rx.has_unreported() {
            // It had no space for the blocks, or the peer takes no data for a duplicate ACK: the
            // peer's recovery must not wait until we have nothing to send.
            self.rx.due = AckDue::Now;
        }
        self.stats.segments_sent += 1;
        segment.src = self.setup.local;
        segment.dst = self.setup.remote;
        segment.seq = self.seq(ssn);
        segment.ack = self.rx.irs.plus(self.rx.rcv_nxt as u32);
        segment.flags = flags;
        segment.window = field as u16;
        segment.ecn = Ecn::NotEct;
    }

    /// Bookkeeping for a SYN or SYN+ACK that leaves.
    fn note_syn(&mut self, now: Instant) {
        (self.due.syn, self.due.copy) = (false, false);
        self.syn.transmissions += 1;
        self.syn.departs(now);
        self.last_sent = now;
        let due = self.syn.resume.take().unwrap_or(now + self.rtt.rto());
        self.timers.set(Timer::Retransmit, due);
        self.expect_answer(now);
    }

    fn syn<'s>(&mut self, now: Instant, window: u64, segment: &'s mut Segment) -> Outgoing<'s> {
        self.stats.segments_sent += 1;
        let passive = self.state == State::SynReceived;
        let config = &self.config;
        let mut options = TcpOptions { mss: Some(self.announced_mss()), ..TcpOptions::default() };
        let mut flags = Flags::SYN;
        let mut ack = SeqNum(0);
        if passive {
            flags = flags | Flags::ACK;
            ack = self.rx.irs.plus(self.rx.rcv_nxt as u32);
            if self.peer.ecn {
                flags = flags | Flags::ECE;
            }
        } else if config.ecn {
            flags = flags | Flags::ECE | Flags::CWR;
        }
        options.sack_permitted = if passive { self.peer.sack } else { config.sack };
        if if passive { self.peer.timestamps } else { config.timestamps } {
            let value = self.timestamp(now);
            options.timestamps = Some(Timestamps { value, echo: self.peer.ts_recent });
        }
        // RFC 7323 section 2.2: on a SYN+ACK only if the SYN had it.
        if !passive || self.peer.scales {
            options.window_scale = Some(self.scale);
        }
        let field = window.min(u64::from(u16::MAX));
        if passive {
            self.rx.on_ack_sent(self.rx.rcv_nxt + field, true);
        } else {
            self.syn.window = field;
        }
        *segment = Segment {
            src: self.setup.local,
            dst: self.setup.remote,
            seq: self.iss,
            ack,
            flags,
            window: field as u16,
            ecn: Ecn::NotEct,
            options,
            payload: Bytes::new(),
        };
        let kind = if passive { Kind::SynAck } else { Kind::Syn };
        let retransmission = self.syn.transmissions > 1;
        Outgoing { retransmission, ..Outgoing::empty(segment, kind, Ssn(0)) }
    }

    fn reset<'s>(&mut self, now: Instant, due: ResetDue, segment: &'s mut Segment) -> Outgoing<'s> {
        self.stats.segments_sent += 1;
        // RFC 7323 section 3.2: once in use, on resets too.
        let echo = self.peer.timestamps.then_some(self.peer.ts_recent);
        let timestamps = echo.map(|echo| Timestamps { value: self.timestamp(now), echo });
        let (seq, flags) = match due {
            ResetDue::Own => (self.seq(self.snd_nxt), Flags::RST | Flags::ACK),
            ResetDue::To(seq) => (seq, Flags::RST),
        };
        *segment = Segment {
            src: self.setup.local,
            dst: self.setup.remote,
            seq,
            ack: self.rx.irs.plus(self.rx.rcv_nxt as u32),
            flags,
            window: 0,
            ecn: Ecn::NotEct,
            options: TcpOptions { timestamps, ..TcpOptions::default() },
            payload: Bytes::new(),
        };
        let ssn = Ssn(self.snd_nxt);
        let kind = Kind::Reset;
        Outgoing::empty(segment, kind, ssn)
    }
}
