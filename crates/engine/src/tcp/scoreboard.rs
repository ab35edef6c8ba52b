//! What a subflow has sent and not yet seen acknowledged: retransmission queue and SACK scoreboard
//! (RFC 2018), with the pipe of RFC 6675 kept incrementally and loss marks by RACK (RFC 8985
//! section 6.2).
//!
//! No operation walks the window: SACK blocks touch only what is new in them; loss detection goes
//! on where it stopped, over originals in sequence order and over retransmissions in the order
//! they were sent; lost segments wait in a queue of their own.

pub(super) use self::delta::{AckContext, Delta, Newest, RateMark};
use super::ranges::Ranges;
use super::{Chunk, Span};
use crate::time::{Duration, Instant};
use std::collections::VecDeque;

/// One segment's worth of data, sent or about to be.
#[derive(Clone, Debug)]
pub(super) struct TxSegment {
    /// Position of the first byte.
    pub(super) ssn: u64,
    /// The data; empty on a bare FIN.
    pub(super) chunk: Chunk,
    /// Which mapping covers it.
    pub(super) span: Span,
    /// When it was last sent.
    pub(super) sent_at: Instant,
    /// Connection's delivered count at last transmission (delivery rate).
    pub(super) delivered: u64,
    /// When that count was reached.
    pub(super) delivered_at: Instant,
    /// Send time of the first segment of the flight this belongs to.
    pub(super) flight_start: Instant,
    /// Copies thought to be in the network.
    copies: u8,
    /// A FIN follows the data.
    pub(super) fin: bool,
    sacked: bool,
    lost: bool,
    /// Whether it was ever sent again.
    pub(super) retransmitted: bool,
    /// The application, not the window, limited sending.
    pub(super) app_limited: bool,
}

/// Data sent, or bound and still to be sent, that the peer cannot use yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undelivered<'s> {
    pub(crate) chunk: &'s Chunk,
    /// When the segment last left for which it waits: its own, or that with its mapping. `None` as
    /// long as it has not.
    pub(crate) sent_at: Option<Instant>,
    /// Whether that is marked lost.
    pub(crate) lost: bool,
    /// Bytes of it that have not been SACKed, on their way or before that.
    pub(crate) in_flight: u64,
}

impl TxSegment {
    pub(super) fn new(ssn: u64, chunk: Chunk, span: Span, fin: bool) -> Self {
        Self {
            ssn,
            chunk,
            span,
            sent_at: Instant::ZERO,
            delivered: 0,
            delivered_at: Instant::ZERO,
            flight_start: Instant::ZERO,
            copies: 0,
            fin,
            sacked: false,
            lost: false,
            retransmitted: false,
            app_limited: false,
        }
    }

    /// Length in sequence space: payload and FIN.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.chunk.data.len() as u64 + u64::from(self.fin)
    }

    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.ssn + self.len()
    }

    #[inline]
    fn sent(&self) -> Sent {
        let rate = RateMark {
            sent_at: self.sent_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            flight_start: self.flight_start,
            app_limited: self.app_limited,
        };
        Sent { end: self.end(), len: self.len(), retransmitted: self.retransmitted, rate }
    }
}

/// What must be known of a segment once it is delivered.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    len: u64,
    retransmitted: bool,
    rate: RateMark,
}

/// The retransmission queue of a subflow, with what SACK and RACK say about each segment.
// What is asked of it when it is empty comes first in memory.
#[derive(Default, Debug)]
#[repr(C)]
pub(super) struct Scoreboard {
    segments: VecDeque<TxSegment>,
    /// Segments at the end of the queue that have not been sent.
    unsent: usize,
    /// Payload bytes of the segments not sent yet.
    unsent_bytes: u64,
    /// RFC 6675 pipe, bytes.
    pipe: u64,
    /// Segments marked lost and not sent again, by position, ascending; stale entries are skipped.
    lost: VecDeque<u64>,
    /// Originals below this have been judged by `detect`.
    pub(super) scanned: u64,
    /// Highest position delivered (forward-most ACK).
    fack: u64,
    /// SACKed ranges above SND.UNA.
    sacked: Ranges,
    sacked_segments: u32,
    /// Retransmissions in the order they were sent; stale entries are skipped.
    resent: VecDeque<(Instant, u64)>,
    /// Acknowledgements in a row after which most of the queue's memory was unused.
    roomy: u32,
}

impl Scoreboard {
    /// Appends data or a FIN, not yet sent.
    pub(super) fn push(&mut self, segment: TxSegment) {
        self.unsent += 1;
        self.unsent_bytes += segment.len();
        self.segments.push_back(segment);
    }

    /// Bytes in the network.
    #[inline]
    pub(super) fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Bytes bound and not yet sent.
    #[inline]
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// Whether something has been sent and not acknowledged.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.segments.len() > self.unsent
    }

    /// Number of segments sent and not acknowledged.
    pub(super) fn outstanding_segments(&self) -> usize {
        self.segments.len() - self.unsent
    }

    /// Segments SACKed now.
    pub(super) fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Bytes SACKed now.
    pub(super) fn sacked_bytes(&self) -> u64 {
        self.sacked.iter().map(|(start, end)| end - start).sum()
    }

    /// Chunks with data, oldest first.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.segments.iter().map(|s| &s.chunk).filter(|c| !c.data.is_empty())
    }

    /// Data that the peer cannot use yet, newest first: what is neither acknowledged nor SACKed,
    /// and what is SACKed, but not the segment that carries its mapping. What waits for space in a
    /// window that has become smaller is part of it.
    pub(super) fn undelivered(&self) -> impl Iterator<Item = Undelivered<'_>> {
        let sent = self.outstanding_segments();
        (0..self.segments.len()).rev().filter_map(move |at| {
            let segment = &self.segments[at];
            let awaited = if segment.sacked { self.first_of(at) } else { segment };
            let len = segment.len();
            (len > 0 && !awaited.sacked).then_some(Undelivered {
                chunk: &segment.chunk,
                sent_at: (at < sent).then_some(awaited.sent_at),
                lost: awaited.lost,
                in_flight: if segment.sacked { 0 } else { len },
            })
        })
    }

    /// The segment that carries the mapping of the one at `at`; that itself if it does, or if the
    /// other has been acknowledged.
    fn first_of(&self, at: usize) -> &TxSegment {
        let mut before = self.segments.range(..=at).rev();
        before.find(|s| !s.span.is_within()).unwrap_or(&self.segments[at])
    }

    /// The first segment never sent, if any.
    pub(super) fn next_unsent(&mut self) -> Option<&mut TxSegment> {
        let at = self.segments.len() - self.unsent;
        self.segments.get_mut(at)
    }

    /// Marks the first unsent segment as sent; the caller has filled in its bookkeeping.
    pub(super) fn sent_next(&mut self, now: Instant) {
        let Some(segment) = self.next_unsent() else { return };
        segment.sent_at = now;
        segment.copies = 1;
        let len = segment.len();
        self.unsent -= 1;
        self.unsent_bytes -= len;
        self.pipe += len;
    }

    /// The first segment that is lost and waits to be sent again.
    pub(super) fn next_lost(&mut self) -> Option<&mut TxSegment> {
        let at = loop {
            let &ssn = self.lost.front()?;
            match self.find(ssn) {
                Some(at) if self.segments[at].lost => break at,
                _ => self.lost.pop_front(),
            };
        };
        self.segments.get_mut(at)
    }

    /// Whether lost segments may wait.
    #[inline]
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The last segment sent, for a tail loss probe.
    pub(super) fn last_sent(&mut self) -> Option<&mut TxSegment> {
        let sent = self.segments.len() - self.unsent;
        sent.checked_sub(1).and_then(|at| self.segments.get_mut(at))
    }

    /// When the oldest segment in flight was last sent; far in the future if there is none.
    pub(super) fn oldest_sent(&self) -> Instant {
        let oldest = self.segments.front().filter(|_| self.outstanding());
        oldest.map_or(Instant::FAR_FUTURE, |s| s.sent_at)
    }

    pub(super) fn first(&self) -> Option<&TxSegment> {
        self.segments.front()
    }

    /// Marks the segment at `ssn` as sent again.
    pub(super) fn resent(&mut self, ssn: u64, now: Instant) {
        let Some(at) = self.find(ssn) else { return };
        let segment = &mut self.segments[at];
        segment.sent_at = now;
        segment.retransmitted = true;
        segment.lost = false;
        segment.copies = segment.copies.saturating_add(1);
        self.pipe += segment.len();
        self.resent.push_back((now, ssn));
        if self.lost.front() == Some(&ssn) {
            self.lost.pop_front();
        }
    }

    /// Splits the segment at `ssn` so that its data is at most `max` bytes long (a smaller MTU).
    /// The rest stays where it is, in the same state.
    pub(super) fn split(&mut self, ssn: u64, max: usize) {
        let Some(at) = self.find(ssn) else { return };
        let head = &mut self.segments[at];
        if head.chunk.data.len() <= max || max == 0 {
            return;
        }
        let mut tail = head.clone();
        head.fin = false;
        tail.chunk.data = head.chunk.data.split_off(max);
        tail.chunk.dsn += max as u64;
        tail.ssn += max as u64;
        tail.span = head.span.rest();
        let (lost, tail_ssn) = (tail.lost, tail.ssn);
        if at >= self.segments.len() - self.unsent {
            self.unsent += 1;
        } else if tail.sacked {
            self.sacked_segments += 1;
        }
        if tail.retransmitted && !lost {
            self.resent.push_back((tail.sent_at, tail_ssn));
        }
        self.segments.insert(at + 1, tail);
        if lost {
            self.insert_lost(tail_ssn);
        }
    }

    /// Takes a cumulative acknowledgement up to `una`.
    pub(super) fn acknowledge(&mut self, una: u64, context: &AckContext, delta: &mut Delta) {
        while let Some(front) = self.segments.front_mut() {
            if front.end() > una || self.segments.len() == self.unsent {
                break;
            }
            let segment = self.segments.pop_front().expect("invariant: front exists");
            self.pipe -= u64::from(segment.copies) * segment.len();
            delta.acked += segment.len();
            delta.fin |= segment.fin;
            if segment.sacked {
                self.sacked_segments -= 1;
            } else {
                self.delivered(&segment.sent(), context, delta);
            }
        }
        self.trim_front(una, delta);
        self.tidy();
        self.sacked.drop_below(una);
        self.fack = self.fack.max(una);
        self.scanned = self.scanned.max(una);
        while self.resent.front().is_some_and(|&(_, ssn)| ssn < una) {
            self.resent.pop_front();
        }
    }

    /// A segment that is acknowledged in part keeps its rest.
    fn trim_front(&mut self, una: u64, delta: &mut Delta) {
        let Some(front) = self.segments.front_mut() else { return };
        if front.ssn >= una || front.end() <= una {
            return;
        }
        let part = una - front.ssn;
        let was = front.ssn;
        front.chunk.data = front.chunk.data.slice(part as usize..);
        front.chunk.dsn += part;
        front.ssn = una;
        // Whoever has acknowledged the first part has the mapping that came with it.
        front.span = front.span.rest();
        self.pipe -= u64::from(front.copies) * part;
        delta.acked += part;
        if !front.sacked {
            delta.delivered += part;
        }
        let (lost, sent_at, retransmitted) = (front.lost, front.sent_at, front.retransmitted);
        if lost {
            self.lost.retain(|&ssn| ssn != was);
            self.insert_lost(una);
        } else if retransmitted {
            self.resent.push_front((sent_at, una));
        }
    }

    /// Takes one SACK block, clipped by the caller to what has been sent.
    pub(super) fn sack(&mut self, block: (u64, u64), context: &AckContext, delta: &mut Delta) {
        let Some((added, whole)) = self.sacked.insert(block.0, block.1) else { return };
        let mut at = self.segments.partition_point(|s| s.end() <= added.0);
        let sent = self.segments.len() - self.unsent;
        while at < sent && self.segments[at].ssn < added.1 {
            let segment = &mut self.segments[at];
            let inside = segment.ssn >= whole.0 && segment.end() <= whole.1;
            if inside && !segment.sacked {
                segment.sacked = true;
                segment.lost = false;
                self.pipe -= u64::from(segment.copies) * segment.len();
                segment.copies = 0;
                self.sacked_segments += 1;
                delta.sacked += 1;
                let sent = segment.sent();
                self.delivered(&sent, context, delta);
            }
            at += 1;
        }
    }

    /// Bookkeeping for a segment seen delivered for the first time.
    #[inline]
    fn delivered(&mut self, sent: &Sent, context: &AckContext, delta: &mut Delta) {
        let (end, sent_at) = (sent.end, sent.rate.sent_at);
        delta.delivered += sent.len;
        if end > self.fack {
            self.fack = end;
        } else if !sent.retransmitted && end < self.fack {
            delta.reordered = true;
        }
        if sent.retransmitted {
            delta.retransmitted = true;
        } else {
            delta.original |= end <= context.high;
            delta.oldest = Some(delta.oldest.map_or(sent_at, |t| t.min(sent_at)));
            delta.latest = Some(delta.latest.map_or(sent_at, |t| t.max(sent_at)));
        }
        let rtt = context.now - sent_at;
        let ambiguous = sent.retransmitted
            && context.echo_covers.map_or(rtt < context.min_rtt, |echo| sent_at > echo);
        if ambiguous {
            return;
        }
        if delta.newest.is_none_or(|(n, _)| !n.after(sent_at, end)) {
            delta.newest = Some((Newest { sent_at, end }, rtt));
            delta.rate = Some(sent.rate);
        }
    }

    /// RACK_detect_loss: marks what was sent before `newest` and has had `wait` (RACK.rtt +
    /// RACK.reo_wnd) of time. Returns bytes newly lost and when to look again.
    pub(super) fn detect(
        &mut self,
        now: Instant,
        newest: Newest,
        wait: Duration,
    ) -> (u64, Option<Instant>) {
        let mut lost = 0;
        let mut again = None;
        while let Some(&(sent_at, ssn)) = self.resent.front() {
            let found = self.find(ssn).filter(|&at| {
                let s = &self.segments[at];
                !s.sacked && !s.lost && s.sent_at == sent_at
            });
            let Some(at) = found else {
                self.resent.pop_front();
                continue;
            };
            if !newest.after(sent_at, self.segments[at].end()) {
                break;
            }
            if sent_at + wait > now {
                again = Some(sent_at + wait);
                break;
            }
            self.resent.pop_front();
            lost += self.mark_lost(at);
        }
        let (more, later) = self.detect_originals(now, newest, wait);
        let again = match (again, later) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (lost + more, again)
    }

    fn detect_originals(
        &mut self,
        now: Instant,
        newest: Newest,
        wait: Duration,
    ) -> (u64, Option<Instant>) {
        let mut lost = 0;
        let sent = self.segments.len() - self.unsent;
        let mut at = match self.segments.front() {
            Some(front) if self.scanned > front.ssn => self.lower_bound(self.scanned),
            _ => 0,
        };
        while at < sent {
            let segment = &self.segments[at];
            if !(segment.sacked || segment.lost || segment.retransmitted) {
                if !newest.after(segment.sent_at, segment.end()) {
                    break;
                }
                if segment.sent_at + wait > now {
                    self.scanned = segment.ssn;
                    return (lost, Some(segment.sent_at + wait));
                }
                lost += self.mark_lost(at);
            }
            at += 1;
        }
        if let Some(segment) = self.segments.get(at) {
            self.scanned = self.scanned.max(segment.ssn);
        }
        (lost, None)
    }

    /// After a retransmission timeout: the first segment, and every other that has had `wait`.
    /// If the first was SACKed the peer has reneged: all SACK marks go (RFC 2018 section 8).
    pub(super) fn mark_timeout(&mut self, now: Instant, wait: Duration) -> u64 {
        if self.segments.front().is_some_and(|s| s.sacked) {
            self.forget_sacks();
        }
        let mut lost = 0;
        for at in 0..self.segments.len() - self.unsent {
            let segment = &self.segments[at];
            if segment.sacked || segment.lost {
                continue;
            }
            if at == 0 || segment.sent_at + wait <= now {
                lost += self.mark_lost(at);
            }
        }
        lost
    }

    /// Marks the oldest segment lost (three duplicate ACKs or a partial ACK without SACK).
    pub(super) fn mark_first_lost(&mut self) -> u64 {
        match self.segments.front() {
            Some(s) if !s.lost && !s.sacked && self.outstanding() => self.mark_lost(0),
            _ => 0,
        }
    }

    /// The loss marks were wrong: whatever waits to be sent again is in the network after all.
    pub(super) fn unmark_lost(&mut self) {
        for ssn in std::mem::take(&mut self.lost) {
            if let Some(at) = self.find(ssn) {
                let segment = &mut self.segments[at];
                if segment.lost {
                    segment.lost = false;
                    segment.copies = 1;
                    self.pipe += segment.len();
                    if segment.retransmitted {
                        self.resent.push_back((segment.sent_at, ssn));
                    }
                }
            }
        }
        self.scanned = self.segments.front().map_or(self.scanned, |s| s.ssn);
    }

    /// Drops everything (the subflow has closed).
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn forget_sacks(&mut self) {
        self.sacked = Ranges::default();
        self.sacked_segments = 0;
        for segment in &mut self.segments {
            if segment.sacked {
                segment.sacked = false;
                segment.copies = 1;
                self.pipe += segment.len();
            }
        }
        self.scanned = self.segments.front().map_or(0, |s| s.ssn);
    }

    fn mark_lost(&mut self, at: usize) -> u64 {
        let segment = &mut self.segments[at];
        segment.lost = true;
        let len = segment.len();
        let ssn = segment.ssn;
        self.pipe -= u64::from(segment.copies) * len;
        segment.copies = 0;
        self.insert_lost(ssn);
        len
    }

    fn insert_lost(&mut self, ssn: u64) {
        match self.lost.back() {
            Some(&last) if last >= ssn => {
                let at = self.lost.partition_point(|&s| s < ssn);
                if self.lost.get(at) != Some(&ssn) {
                    self.lost.insert(at, ssn);
                }
            }
            _ => self.lost.push_back(ssn),
        }
    }

    fn lower_bound(&self, ssn: u64) -> usize {
        self.segments.partition_point(|s| s.ssn < ssn)
    }

    fn find(&self, ssn: u64) -> Option<usize> {
        let at = self.lower_bound(ssn);
        (self.segments.get(at)?.ssn == ssn).then_some(at)
    }
}

mod delta;
mod memory;
#[cfg(test)]
mod tests;
