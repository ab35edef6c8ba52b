//! The data level of an MPTCP connection (RFC 8684 section 3.3): from subflow positions to data
//! sequence numbers, and what arrives there for the first time or again.
//!
//! A byte that was seen before at data level is a *retransmission* if the same subflow carried
//! it, else *reinjected* (or sent by several subflows on purpose). What was lost before the
//! capture counts as never sent.

use super::flow::PayloadRange;
use super::ranges::Ranges;
use crate::histogram::Histogram;
use std::collections::VecDeque;
use tabane_wire::{DataNumber, Dss};

/// One direction of a connection.
#[derive(Clone, Default, Debug)]
pub(super) struct Data {
    pub(super) idsn: Option<u64>,
    /// Around which short numbers are completed.
    near: Option<u64>,
    seen: Ranges,
    /// Payload seen for the first time at data level.
    pub(super) new_bytes: u64,
    /// Payload that another subflow had carried.
    pub(super) reinjected: u64,
    /// Payload without a mapping: its place is not known, it counts as new.
    pub(super) unmapped: u64,
    pub(super) data_fin: bool,
    /// What the peer acknowledged of it.
    pub(super) acked: Acked,
}

/// DATA_ACKs for one direction, as the peer sent them (section 3.3.2).
#[derive(Clone, Default, Debug)]
pub(super) struct Acked {
    /// Packets that carried one.
    pub(super) acks: u64,
    /// From the first data seen to the highest acknowledgement, bytes.
    pub(super) bytes: u64,
    /// From data to the first DATA_ACK that covers it, nanoseconds; not for what was sent again
    /// meanwhile, by whichever subflow (Karn's rule).
    pub(super) rtt: Histogram,
    highest: Option<u64>,
    /// Ends of new data and when it was seen, in order of both.
    waiting: VecDeque<(u64, u64)>,
    /// Where the data begins that was seen first.
    begin: Option<u64>,
}

/// Data that waits for its DATA_ACK at a time; more goes untimed.
const WAITING: usize = 1024;

/// Mappings of one direction of a subflow.
#[derive(Clone, Default, Debug)]
pub(super) struct Maps {
    /// Position of SSN 0.
    zero: Option<u64>,
    /// Of the mapping before, to know where a new one starts when the SYN was not seen.
    last_ssn: Option<u32>,
    recent: VecDeque<Map>,
    /// Payload seen without its mapping, first positions and ends: the segment with that may have
    /// been lost, and come again.
    unmapped: VecDeque<(u64, u64)>,
    /// The infinite mapping: after the fallback (section 3.7).
    pub(super) infinite: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Map {
    start: u64,
    end: u64,
    dsn: u64,
}

/// Mappings that are kept of a flow; the oldest goes.
const MAPS: usize = 256;

impl Maps {
    /// Takes in the mapping on a segment; `syn` is the position of the flow's SYN, if seen.
    #[inline]
    pub(super) fn dss(
        &mut self,
        data: &mut Data,
        dss: &Dss,
        range: &PayloadRange,
        syn: Option<u64>,
    ) {
        data.data_fin |= dss.data_fin;
        let Some(mapping) = &dss.mapping else { return };
        if mapping.length == 0 {
            self.infinite = true;
            return;
        }
        let length = u64::from(mapping.length) - u64::from(dss.data_fin);
        if length == 0 || (dss.data_fin && mapping.ssn == 0) {
            return;
        }
        if self.zero.is_none() {
            self.zero = syn;
        }
        let starts_here = length == range.len || self.last_ssn.is_some_and(|s| s != mapping.ssn);
        if self.zero.is_none() && starts_here && range.len > 0 {
            self.zero = Some(range.start.wrapping_sub(u64::from(mapping.ssn)));
        }
        self.last_ssn = Some(mapping.ssn);
        let Some(zero) = self.zero else { return };
        // SSNs have 32 bits: the one nearest to this segment is meant.
        let behind = (range.start.wrapping_sub(zero) as u32).wrapping_sub(mapping.ssn) as i32;
        let start = range.start.wrapping_add_signed(-i64::from(behind));
        let dsn = data.complete(mapping.dsn);
        let map = Map { start, end: start + length, dsn };
        self.add(map);
        if !self.unmapped.is_empty() {
            self.place(data, map);
        }
    }

    /// Finds the place of payload that came before its mapping.
    #[cold]
    fn place(&mut self, data: &mut Data, map: Map) {
        self.unmapped.retain(|(from, to)| {
            if *from < map.start || map.end < *to {
                return true;
            }
            let (dsn, len) = (map.dsn.wrapping_add(from - map.start), to - from);
            let new = data.seen.insert(dsn, dsn.saturating_add(len));
            // Not timed: its DATA_ACK waits for the mapping.
            data.acked.sent(dsn, dsn.saturating_add(len), true, 0);
            data.unmapped -= len;
            data.new_bytes -= len - new;
            data.reinjected += len - new;
            false
        });
    }

    /// The mapping that MP_CAPABLE makes of the first data (section 3.1).
    pub(super) fn first(
        &mut self,
        data: &Data,
        length: u16,
        syn: Option<u64>,
        range: &PayloadRange,
    ) {
        let Some(idsn) = data.idsn else { return };
        let start = syn.map_or(range.start, |syn| syn + 1);
        self.zero = Some(start - 1);
        let dsn = idsn.wrapping_add(1);
        self.add(Map { start, end: start + u64::from(length), dsn });
    }

    #[inline]
    fn add(&mut self, map: Map) {
        if self.recent.back() == Some(&map) {
            return;
        }
        if self.recent.len() == MAPS {
            self.recent.pop_front();
        }
        self.recent.push_back(map);
    }

    /// Payload of the subflow, its mapping taken in already; how much of it is new at data level.
    #[inline]
    pub(super) fn payload(&mut self, data: &mut Data, range: &PayloadRange, now: u64) -> u64 {
        let end = range.start + range.len;
        let (mut mapped, mut new) = (0, 0);
        // The newest first: it nearly always is the one.
        for map in self.recent.iter().rev() {
            let (from, to) = (map.start.max(range.start), map.end.min(end));
            if from < to {
                let dsn = map.dsn.wrapping_add(from - map.start);
                let (until, before) = (dsn.saturating_add(to - from), new);
                new += data.seen.insert(dsn, until);
                data.acked.sent(dsn, until, new - before < to - from, now);
                mapped += to - from;
                if mapped >= range.len {
                    break;
                }
            }
        }
        let unmapped = range.len.saturating_sub(mapped).min(range.new);
        data.unmapped += unmapped;
        if unmapped == range.len && !self.infinite {
            if self.unmapped.len() == MAPS {
                self.unmapped.pop_front();
            }
            self.unmapped.push_back((range.start, end));
        }
        data.new_bytes += new + unmapped;
        data.reinjected += range.new.saturating_sub(new + unmapped);
        new + unmapped
    }
}

impl Acked {
    /// Data was seen; `again`: some of it was seen before.
    #[inline]
    fn sent(&mut self, dsn: u64, end: u64, again: bool, now: u64) {
        self.begin = Some(self.begin.map_or(dsn, |begin| begin.min(dsn)));
        if again {
            let first = self.waiting.partition_point(|(waits, _)| *waits <= dsn);
            self.waiting.truncate(first);
        } else if self.waiting.len() < WAITING && self.waiting.back().is_none_or(|w| w.0 < end) {
            self.waiting.push_back((end, now));
        }
    }

    /// The peer acknowledges everything below `ack`.
    #[inline]
    fn ack(&mut self, ack: u64, now: u64) {
        self.acks += 1;
        if self.highest.is_some_and(|highest| ack <= highest) {
            return;
        }
        self.highest = Some(ack);
        self.bytes = self.begin.map_or(0, |begin| ack.saturating_sub(begin));
        let covered = self.waiting.partition_point(|(end, _)| *end <= ack);
        if let Some((_, sent)) = self.waiting.drain(..covered).next_back() {
            self.rtt.add(now.saturating_sub(sent));
        }
    }
}

impl Data {
    /// The peer's DATA_ACK, at its time.
    #[inline]
    pub(super) fn acknowledged(&mut self, number: DataNumber, now: u64) {
        let ack = self.complete(number);
        // One more than the last byte is acknowledged for DATA_FIN.
        let ack = if self.data_fin { ack.min(self.seen.end().unwrap_or(ack)) } else { ack };
        self.acked.ack(ack, now);
    }

    /// A data sequence number in full.
    #[inline]
    fn complete(&mut self, number: DataNumber) -> u64 {
        let full = match (number, self.near.or(self.idsn)) {
            (DataNumber::Long(full), _) => full,
            (DataNumber::Short(low), Some(near)) => {
                near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
            }
            // Nothing says what the upper half is; one that leaves room below will do.
            (DataNumber::Short(low), None) => 1 << 32 | u64::from(low),
        };
        self.near = Some(full);
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::Mapping;

    fn dss(dsn: DataNumber, ssn: u32, length: u16) -> Dss {
        let mapping = Some(Mapping { dsn, ssn, length, checksum: None });
        Dss { data_ack: None, mapping, data_fin: false }
    }

    fn carry(
        maps: &mut Maps,
        data: &mut Data,
        dss: Option<Dss>,
        range: PayloadRange,
        syn: Option<u64>,
    ) {
        if let Some(dss) = dss {
            maps.dss(data, &dss, &range, syn);
        }
        maps.payload(data, &range, 0);
    }

    #[test]
    fn data_acks_are_timed_and_counted() {
        let (mut maps, mut data) = (Maps::default(), Data::default());
        let range = |start| PayloadRange { start, len: 100, new: 100 };
        let mut send = |data: &mut Data, n: u32, now: u64| {
            let dss = dss(DataNumber::Short(1_000 + n * 100), 1 + n * 100, 100);
            let range = range(1 + u64::from(n) * 100);
            maps.dss(data, &dss, &range, Some(0));
            maps.payload(data, &range, now);
        };
        (0..3).for_each(|n| send(&mut data, n, 10 * u64::from(n)));
        data.acknowledged(DataNumber::Short(1_200), 50);
        assert_eq!((data.acked.acks, data.acked.bytes), (1, 200));
        assert_eq!((data.acked.rtt.count(), data.acked.rtt.quantile(1.0)), (1, Some(40)));
        // The same once more, then what was sent twice: counted, not timed.
        data.acknowledged(DataNumber::Short(1_200), 60);
        send(&mut data, 2, 70);
        data.acknowledged(DataNumber::Short(1_300), 80);
        assert_eq!((data.acked.acks, data.acked.bytes, data.acked.rtt.count()), (3, 300, 1));
        // That of a DATA_FIN acknowledges no more data.
        data.data_fin = true;
        data.acknowledged(DataNumber::Short(1_301), 90);
        assert_eq!((data.acked.acks, data.acked.bytes), (4, 300));
    }

    #[test]
    fn the_second_subflow_reinjects() {
        let (mut one, mut two, mut data) = (Maps::default(), Maps::default(), Data::default());
        let zero = 1 << 32;
        let range = |start, len, new| PayloadRange { start: zero + start, len, new };
        // One mapping over two segments, the second of which carries none.
        let long = DataNumber::Long(u64::MAX - 2_000);
        carry(&mut one, &mut data, Some(dss(long, 1, 200)), range(1, 100, 100), Some(zero));
        carry(&mut one, &mut data, None, range(101, 100, 100), Some(zero));
        assert_eq!((data.new_bytes, data.reinjected), (200, 0));
        // Repeated by the same subflow: neither.
        carry(&mut one, &mut data, None, range(101, 100, 0), Some(zero));
        assert_eq!((data.new_bytes, data.reinjected), (200, 0));
        // By another one, whose SYN was not seen, with a short number; then new data.
        let short = DataNumber::Short((u64::MAX - 2_000) as u32 + 150);
        carry(&mut two, &mut data, Some(dss(short, 7_001, 100)), range(9, 100, 100), None);
        assert_eq!((data.new_bytes, data.reinjected, data.unmapped), (250, 50, 0));
        carry(&mut two, &mut data, None, range(109, 10, 10), None);
        assert_eq!((data.new_bytes, data.unmapped), (260, 10));
    }

    /// The segment with the mapping of three is lost and comes last; meanwhile the other subflow
    /// has carried the third.
    #[test]
    fn a_mapping_may_come_after_what_it_covers() {
        let (mut one, mut two, mut data) = (Maps::default(), Maps::default(), Data::default());
        let range = |start| PayloadRange { start, len: 100, new: 100 };
        let number = |n: u64| DataNumber::Long(5_000 + n);
        carry(&mut one, &mut data, None, range(101), Some(0));
        carry(&mut one, &mut data, None, range(201), Some(0));
        assert_eq!((data.new_bytes, data.unmapped), (200, 200));
        carry(&mut two, &mut data, Some(dss(number(200), 1, 100)), range(1), Some(0));
        carry(&mut one, &mut data, Some(dss(number(0), 1, 300)), range(1), Some(0));
        assert_eq!((data.new_bytes, data.reinjected, data.unmapped), (300, 100, 0));
    }
}
