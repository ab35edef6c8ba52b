//! The receiving half of a subflow: which positions have come, what to acknowledge and when
//! (RFC 9293, 2018, 2883, 5681 section 4.2, 3168 section 6.1.3). Holds no data.

use super::ranges::Ranges;
use crate::config::TcpConfig;
use tabane_wire::{SackBlocks, SeqNum};

/// When an acknowledgement is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum AckDue {
    /// Nothing to acknowledge.
    No,
    /// Within the delayed-ACK time.
    Delayed,
    /// At the next poll.
    Now,
}

/// What an arriving range of positions was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// Brought something new.
    New,
    /// All of it had come before.
    Duplicate,
    /// Refused: too many separate ranges are held.
    Refused,
}

/// The receiving side of a subflow: what has arrived, and which ACK is due.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Peer's initial sequence number: position 0.
    pub(super) irs: SeqNum,
    /// The first position that has not arrived (RCV.NXT).
    pub(super) rcv_nxt: u64,
    /// Right edge: the furthest position ever advertised.
    pub(super) edge: u64,
    /// `rcv_nxt` in the last acknowledgement sent.
    pub(super) acked: u64,
    /// Position of the peer's FIN, once seen.
    pub(super) fin: Option<u64>,
    /// Congestion experienced: echo ECE until the peer says CWR.
    pub(super) ece: bool,
    pub(super) due: AckDue,
    out_of_order: Ranges,
    /// A position in each of the most recently changed ranges, newest first.
    recent: [u64; 4],
    dsack: Option<(u64, u64)>,
    /// Something came out of order, or again, and no SACK block (or duplicate ACK) has reported it.
    unreported: bool,
    quick: u32,
    largest: u64,
    ce: bool,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            irs: SeqNum(0),
            rcv_nxt: 0,
            edge: 0,
            acked: 0,
            fin: None,
            ece: false,
            due: AckDue::No,
            out_of_order: Ranges::default(),
            recent: [0; 4],
            dsack: None,
            unreported: false,
            quick: config.quick_acks,
            largest: 0,
            ce: false,
        }
    }

    /// Whether everything in `[start, end)` has arrived.
    pub(super) fn has(&self, start: u64, end: u64) -> bool {
        let ahead = || self.out_of_order.containing(start).is_some_and(|range| end <= range.1);
        end <= self.rcv_nxt || ahead()
    }

    /// Position of a sequence number of the peer.
    #[inline]
    pub(super) fn position(&self, seq: SeqNum) -> Option<u64> {
        seq.unwrap_near(self.irs, self.rcv_nxt)
    }

    /// Payload at `[start, end)` came, not reaching beyond the edge.
    pub(super) fn on_data(&mut self, start: u64, end: u64) -> Arrival {
        self.largest = self.largest.max(end - start);
        if end <= self.rcv_nxt {
            self.repeated(start, end);
            self.due = AckDue::Now;
            return Arrival::Duplicate;
        }
        if start > self.rcv_nxt {
            return self.on_gap(start, end);
        }
        let filling = !self.out_of_order.is_empty();
        if start < self.rcv_nxt {
            self.repeated(start, self.rcv_nxt);
            self.due = AckDue::Now;
        } else if filling && let Some(twice) = self.out_of_order.overlap(start, end) {
            self.repeated(twice.0, twice.1);
        }
        self.rcv_nxt = end;
        if filling {
            self.absorb();
            self.due = AckDue::Now;
        }
        self.schedule_ack();
        Arrival::New
    }

    fn on_gap(&mut self, start: u64, end: u64) -> Arrival {
        self.due = AckDue::Now;
        let touches = self.out_of_order.containing(start).is_some();
        if self.out_of_order.len() >= Ranges::MOST && !touches {
            return Arrival::Refused;
        }
        self.unreported = true;
        // RFC 2883 section 4: of what had come before, the first part.
        if let Some(twice) = self.out_of_order.overlap(start, end) {
            self.dsack = Some(twice);
        }
        let new = self.out_of_order.insert(start, end).is_some();
        self.touch(start);
        if new { Arrival::New } else { Arrival::Duplicate }
    }

    /// Takes in ranges that have become contiguous.
    fn absorb(&mut self) {
        while let Some(end) = self.out_of_order.take_from(self.rcv_nxt) {
            self.rcv_nxt = self.rcv_nxt.max(end);
        }
    }

    /// RFC 5681: an ACK for at least every second full-sized segment.
    #[inline]
    fn schedule_ack(&mut self) {
        if self.quick > 0 {
            self.quick -= 1;
            self.due = AckDue::Now;
        } else if self.rcv_nxt - self.acked > self.largest {
            self.due = AckDue::Now;
        } else {
            self.due = self.due.max(AckDue::Delayed);
        }
    }

    /// Takes the peer's FIN if everything before it has come. True the first time.
    pub(super) fn take_fin(&mut self) -> bool {
        if self.fin != Some(self.rcv_nxt) {
            return false;
        }
        self.rcv_nxt += 1;
        self.due = AckDue::Now;
        true
    }

    /// ECN codepoint of an arriving segment with payload (RFC 3168 section 6.1.3).
    pub(super) fn on_ecn(&mut self, congested: bool, cwr: bool) {
        if cwr {
            self.ece = false;
        }
        if congested != self.ce {
            self.ce = congested;
            self.due = AckDue::Now;
        }
        self.ece |= congested;
    }

    /// Fills in the blocks of an acknowledgement: a DSACK first, then the most recent ranges.
    pub(super) fn sack_blocks(&mut self, blocks: &mut SackBlocks, max: usize) {
        if max == 0 {
            return;
        }
        let seq = |p: u64| self.irs.plus(p as u32);
        if let Some((start, end)) = self.dsack.take() {
            blocks.push(seq(start), seq(end));
        }
        self.unreported = blocks.len() >= max && !self.out_of_order.is_empty();
        if self.out_of_order.is_empty() {
            return;
        }
        let mut used = [(0, 0); 4];
        let mut n = 0;
        for position in self.recent {
            let Some(range) = self.out_of_order.containing(position) else { continue };
            if used[..n].contains(&range) || blocks.len() >= max {
                continue;
            }
            used[n] = range;
            n += 1;
            blocks.push(seq(range.0), seq(range.1));
        }
        for range in self.out_of_order.iter().take(4) {
            if blocks.len() < max && !used[..n].contains(&range) {
                blocks.push(seq(range.0), seq(range.1));
            }
        }
    }

    /// Whether an acknowledgement would carry SACK information.
    pub(super) fn has_sack(&self) -> bool {
        self.dsack.is_some() || !self.out_of_order.is_empty()
    }

    /// Whether something is missing before what has come.
    pub(super) fn has_gap(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Whether something came out of order, or again, that no acknowledgement has reported yet: by
    /// a SACK block or, to peers without SACK, as a duplicate ACK, which carries no data.
    pub(super) fn has_unreported(&self) -> bool {
        self.unreported && self.has_sack()
    }

    /// An acknowledgement left, advertising up to `edge`; with data or without.
    #[inline]
    pub(super) fn on_ack_sent(&mut self, edge: u64, pure: bool) {
        self.unreported &= !pure;
        self.acked = self.rcv_nxt;
        self.edge = self.edge.max(edge);
        self.due = AckDue::No;
    }

    /// A duplicate below the window, outside what `on_data` sees.
    pub(super) fn on_old(&mut self, start: u64, end: u64) {
        if start < end && end <= self.rcv_nxt {
            self.repeated(start, end);
        }
        self.due = AckDue::Now;
    }

    fn repeated(&mut self, start: u64, end: u64) {
        self.dsack = Some((start, end));
        self.unreported = true;
    }

    fn touch(&mut self, position: u64) {
        let Some(range) = self.out_of_order.containing(position) else { return };
        let keep = |p: &u64| !(range.0..range.1).contains(p);
        let mut next = [0; 4];
        next[0] = position;
        let rest = self.recent.iter().copied().filter(|p| keep(p)).take(3);
        next[1..].iter_mut().zip(rest).for_each(|(slot, p)| *slot = p);
        self.recent = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        let config = TcpConfig { quick_acks: 0, ..TcpConfig::default() };
        Receiver { rcv_nxt: 1, acked: 1, edge: 1 << 20, ..Receiver::new(&config) }
    }

    fn blocks(r: &mut Receiver) -> Vec<(u32, u32)> {
        let mut blocks = SackBlocks::default();
        r.sack_blocks(&mut blocks, 3);
        blocks.as_slice().iter().map(|b| (b.0.0, b.1.0)).collect()
    }

    #[test]
    fn every_second_full_segment_is_acknowledged_at_once() {
        let mut r = receiver();
        r.on_data(1, 1001);
        assert_eq!(r.due, AckDue::Delayed);
        r.on_data(1001, 2001);
        assert_eq!(r.due, AckDue::Now);
        r.on_ack_sent(1 << 20, true);
        assert_eq!(r.due, AckDue::No);
    }

    #[test]
    fn newest_range_comes_first_and_a_filled_gap_is_acknowledged_at_once() {
        let mut r = receiver();
        r.on_data(1001, 2001);
        r.on_data(3001, 4001);
        r.on_data(5001, 6001);
        assert_eq!(blocks(&mut r), [(5001, 6001), (3001, 4001), (1001, 2001)]);
        r.on_data(2001, 3001);
        assert_eq!(blocks(&mut r), [(1001, 4001), (5001, 6001)]);
        r.on_data(1, 1001);
        assert_eq!((r.rcv_nxt, r.due), (4001, AckDue::Now));
    }

    #[test]
    fn duplicates_are_reported_once_as_dsack() {
        let mut r = receiver();
        r.on_data(1, 1001);
        assert_eq!(r.on_data(1, 1001), Arrival::Duplicate);
        assert_eq!(blocks(&mut r), [(1, 1001)]);
        assert_eq!(blocks(&mut r), []);
        r.on_data(2001, 3001);
        assert_eq!(r.on_data(2001, 3001), Arrival::Duplicate);
        assert_eq!(blocks(&mut r), [(2001, 3001), (2001, 3001)], "RFC 2883 section 4");
    }
}
