//! What one end of a stream sends: how much, how much of it for the first time, what is in
//! flight, which window it gives its peer.

use super::classify::Verdict;
use super::labels::{Counts, Label};
use super::ranges::Ranges;
use super::rtt::Meter;
use crate::track::{Clock, Track};
use tabane_engine::Instant;
use tabane_wire::{Flags, Headers, SeqNum};

/// One direction of a stream.
#[derive(Clone, Default, Debug)]
pub(super) struct Flow {
    pub(super) packets: u64,
    /// Payload, repeats included.
    pub(super) bytes: u64,
    /// Payload seen for the first time.
    pub(super) new_bytes: u64,
    pub(super) counts: Counts,
    pub(super) rtt: Meter,
    /// Scaled; what the end that sends this flow can take.
    pub(super) window: u64,
    pub(super) window_max: u64,
    pub(super) in_flight_max: u64,
    /// When payload first and last passed.
    pub(super) data: Option<(u64, u64)>,
    pub(super) flags: Flags,
    /// Number of position [`ZERO`], the SYN's if it was seen.
    origin: Option<SeqNum>,
    /// Position of the SYN, which is SSN 0 (RFC 8684 section 3.3.1).
    pub(super) syn: Option<u64>,
    seen: Ranges,
    /// After the highest position sent, SYN and FIN counted.
    next: u64,
    /// What the peer acknowledges.
    acked: u64,
    pub(super) track: Option<Box<Track<COLUMNS>>>,
}

/// Position of the first sequence number seen; there may be lower ones.
pub(super) const ZERO: u64 = 1 << 32;

/// Columns of a flow's track.
pub(super) const COLUMNS: usize = 10;
pub(super) const BYTES: usize = 0;
pub(super) const NEW_BYTES: usize = 1;
pub(super) const RTT: usize = 2;
pub(super) const IN_FLIGHT: usize = 3;
pub(super) const WINDOW: usize = 4;
/// The first of [`Label::ERRORS`].
pub(super) const ERRORS: usize = 5;

/// Where a segment's payload lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PayloadRange {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Bytes of it that this flow had not carried before.
    pub(super) new: u64,
}

impl Flow {
    /// A packet of this end, labelled; `shift` scales its window.
    #[inline]
    pub(super) fn sent(
        &mut self,
        now: u64,
        headers: &Headers,
        verdict: &Verdict,
        shift: u8,
    ) -> PayloadRange {
        self.packets += 1;
        self.flags = self.flags | headers.flags;
        self.counts.add(verdict.labels);
        self.window = u64::from(headers.window) << shift.min(14);
        self.window_max = self.window_max.max(self.window);
        let origin = *self.origin.get_or_insert(headers.seq);
        let near = if self.next == 0 { ZERO } else { self.next };
        let at = headers.seq.unwrap_near(SeqNum(origin.0.wrapping_sub(ZERO as u32)), near);
        let at = at.unwrap_or(ZERO);
        let syn = headers.flags.contains(Flags::SYN);
        if syn {
            self.syn = Some(at);
        }
        let start = at + u64::from(syn);
        let len = u64::from(headers.payload_len);
        let end = start + len + u64::from(headers.flags.contains(Flags::FIN));
        let new = if len > 0 { self.payload(now, start, len) } else { 0 };
        if end > at && end > self.next && !verdict.labels.contains(Label::ZeroWindowProbe) {
            self.rtt.sent(now, end);
            self.next = end;
        } else if end > at {
            self.rtt.repeated(at, end);
        }
        if self.acked != 0 {
            self.in_flight_max = self.in_flight_max.max(self.in_flight());
        }
        if let Some(timestamps) = headers.options.timestamps {
            self.rtt.tick(now, timestamps.value);
        }
        PayloadRange { start, len, new }
    }

    #[inline]
    fn payload(&mut self, now: u64, start: u64, len: u64) -> u64 {
        self.bytes += len;
        let new = self.seen.insert(start, start + len);
        self.new_bytes += new;
        match &mut self.data {
            Some((_, last)) => *last = now,
            none => *none = Some((now, now)),
        }
        new
    }

    /// A packet of the peer, about this flow.
    #[inline]
    pub(super) fn received(&mut self, now: u64, headers: &Headers) {
        if !headers.flags.contains(Flags::ACK) {
            return;
        }
        let Some(origin) = self.origin else { return };
        let zero = SeqNum(origin.0.wrapping_sub(ZERO as u32));
        let Some(ack) = headers.ack.unwrap_near(zero, self.next) else { return };
        if ack > self.acked && ack <= self.next {
            self.acked = ack;
            self.rtt.acknowledged(now, ack);
            if let Some(timestamps) = headers.options.timestamps {
                self.rtt.echo(now, timestamps.echo);
            }
        }
    }

    /// Sent and not acknowledged, as far as the capture tells.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        if self.acked == 0 { 0 } else { self.next.saturating_sub(self.acked) }
    }

    /// Writes down how things stand; `window` is what the peer gives.
    pub(super) fn row(&mut self, clock: &Clock, at: Instant, window: u64) {
        let Some(track) = &mut self.track else { return };
        let mut row = [0.0; COLUMNS];
        row[BYTES] = self.bytes as f64;
        row[NEW_BYTES] = self.new_bytes as f64;
        row[RTT] = self.rtt.take().unwrap_or(f64::NAN);
        let in_flight = self.next.saturating_sub(self.acked);
        row[IN_FLIGHT] = if self.acked == 0 { f64::NAN } else { in_flight as f64 };
        row[WINDOW] = window as f64;
        for (to, label) in row[ERRORS..].iter_mut().zip(Label::ERRORS) {
            *to = self.counts.get(label) as f64;
        }
        track.push(clock, at, row);
    }
}
