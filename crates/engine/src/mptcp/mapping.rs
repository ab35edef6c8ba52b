//! Mappings from subflow positions to data positions (RFC 8684 section 3.3.1), one inbox per
//! subflow: mappings until they are used up, payload that no mapping covers yet, and, with
//! checksums, payload of mappings that are not complete.
//!
//! Both are bounded: [`Inbox::MAPPINGS`] mappings, and as many bytes as the caller says.

use super::buffer::{SMALL, join_small};
use crate::seq::{Dsn, Ssn};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use tabane_wire::Checksum;
use tabane_wire::checksum::dss_checksum_fits;

/// A mapping with absolute positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) ssn: Ssn,
    /// Bytes on the subflow: without the DATA_FIN.
    pub(crate) len: u64,
    pub(crate) dsn: Dsn,
    /// As received, if checksums are in use.
    pub(crate) checksum: Option<Sum>,
}

/// What a DSS checksum covers beside the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sum {
    /// The checksum as received.
    pub(crate) value: u16,
    /// 64-bit number of the first byte, as on the wire.
    pub(crate) dsn: u64,
    /// Subflow number as sent.
    pub(crate) ssn: u32,
    /// Length as sent: with the DATA_FIN.
    pub(crate) length: u16,
}

impl Mapping {
    /// Position after the last byte.
    pub(crate) fn end(&self) -> Ssn {
        self.ssn + self.len
    }

    fn data_position(&self, ssn: Ssn) -> Dsn {
        self.dsn + (ssn - self.ssn)
    }
}

/// What the inbox lets through, or why not.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    /// Bytes for the reassembler.
    Data(Dsn, Bytes),
    /// A mapping's checksum is wrong; its data stays here.
    BadChecksum(Mapping),
    /// Payload was dropped: more held without a mapping than allowed.
    Overflow,
}

/// Mappings and payload of one subflow that wait for each other.
#[derive(Default, Debug)]
pub(crate) struct Inbox {
    /// In order of arrival, which is nearly always order of position.
    mappings: VecDeque<Entry>,
    /// Payload without mapping, disjoint.
    unmapped: BTreeMap<Ssn, Bytes>,
    unmapped_len: u64,
    /// Where the furthest mapping ends.
    end: Ssn,
    /// Where the latest mappings are, until what had waited for them has been let through.
    fresh: Option<(Ssn, Ssn)>,
}

/// A mapping; with a checksum also the payload that it still waits for, and whether it is done.
#[derive(Debug)]
struct Entry {
    mapping: Mapping,
    held: BTreeMap<Ssn, Bytes>,
    held_len: u64,
    done: bool,
}

impl Inbox {
    /// Mappings kept at most, but for those of which nothing is missing; the oldest goes, and data
    /// that still needed it is unmapped.
    pub(crate) const MAPPINGS: usize = 512;

    /// Whether nothing waits: a segment with its own exact mapping need not come here.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.mappings.is_empty() && self.unmapped.is_empty()
    }

    /// Position of the first payload that has not been let through.
    pub(crate) fn first(&self) -> Option<Ssn> {
        let held = self.mappings.iter().filter_map(|entry| entry.held.keys().next());
        held.chain(self.unmapped.keys().next()).min().copied()
    }

    /// Whether a mapping for the payload at `ssn` is there.
    pub(crate) fn covers(&self, ssn: Ssn) -> bool {
        self.mappings.iter().any(|e| e.mapping.ssn <= ssn && ssn < e.mapping.end())
    }

    /// Where the payload from `ssn` to before `end` belongs, if the last mapping covers it and asks
    /// for no checksum: the usual case where mappings span segments.
    #[inline]
    pub(crate) fn position(&self, ssn: Ssn, end: Ssn) -> Option<Dsn> {
        let mapping = self.mappings.back().map(|entry| &entry.mapping)?;
        let covers = mapping.ssn <= ssn && end <= mapping.end() && mapping.checksum.is_none();
        (covers && self.fresh.is_none()).then(|| mapping.data_position(ssn))
    }

    /// Adds a mapping. False if it contradicts one that is there (mappings are fixed once sent).
    /// When there are too many, those go of which `has` says that everything has arrived, from
    /// the first position to before the second.
    pub(crate) fn add_mapping(&mut self, mapping: Mapping, has: impl Fn(Ssn, Ssn) -> bool) -> bool {
        let overlapping = |m: &Mapping| m.ssn < mapping.end() && mapping.ssn < m.end();
        // Usual case: what follows all before.
        let known = if mapping.ssn >= self.end { 0 } else { self.mappings.len() };
        self.end = self.end.max(mapping.end());
        for Entry { mapping: m, .. } in self.mappings.iter().rev().take(known) {
            if overlapping(m) {
                let same = i128::from(m.dsn.0) - i128::from(m.ssn.0)
                    == i128::from(mapping.dsn.0) - i128::from(mapping.ssn.0);
                if !same {
                    return false;
                }
                if m.ssn <= mapping.ssn && mapping.end() <= m.end() {
                    return true;
                }
            }
        }
        if self.mappings.len() == Self::MAPPINGS {
            self.mappings.retain(|Entry { mapping: m, done, .. }| {
                !(has(m.ssn, m.end()) && (*done || m.checksum.is_none()))
            });
        }
        if self.mappings.len() == Self::MAPPINGS {
            self.mappings.pop_front();
        }
        if !self.unmapped.is_empty() {
            let (from, to) = self.fresh.unwrap_or((mapping.ssn, mapping.end()));
            self.fresh = Some((from.min(mapping.ssn), to.max(mapping.end())));
        }
        let entry = Entry { mapping, held: BTreeMap::new(), held_len: 0, done: false };
        self.mappings.push_back(entry);
        true
    }

    /// Adds payload at `ssn`, after the mapping that came with it, and says what is through.
    /// `limit`: bytes that may wait for a mapping.
    pub(crate) fn add_payload(
        &mut self,
        ssn: Ssn,
        payload: Bytes,
        limit: u64,
        out: &mut Vec<Delivery>,
    ) {
        self.place(ssn, payload, limit, out);
        let Some((from, to)) = self.fresh.take() else { return };
        let before = self.unmapped.range(..from).next_back();
        let first = before.filter(|(ssn, part)| **ssn + part.len() as u64 > from);
        let mut first = first.map_or(from, |(ssn, _)| *ssn);
        while let Some((ssn, _)) = self.unmapped.range(first..to).next() {
            let ssn = *ssn;
            let payload = self.unmapped.remove(&ssn).expect("invariant: it was just seen");
            self.unmapped_len -= payload.len() as u64;
            self.place(ssn, payload, limit, out);
            // What is before the mappings waits on, as does what is behind them.
            first = from;
        }
    }

    fn place(&mut self, mut ssn: Ssn, mut payload: Bytes, limit: u64, out: &mut Vec<Delivery>) {
        while !payload.is_empty() {
            let Some(entry) = self.covering(ssn) else {
                let next = self.mappings.iter().map(|e| e.mapping.ssn).filter(|s| *s > ssn).min();
                let gap = next.map_or(u64::MAX, |s| s - ssn).min(payload.len() as u64);
                self.hold(ssn, payload.split_to(gap as usize), limit, out);
                ssn += gap;
                continue;
            };
            let len = (entry.mapping.end() - ssn).min(payload.len() as u64);
            let waits = entry.waits_after(len);
            if waits && self.held() + len > 2 * limit {
                out.push(Delivery::Overflow);
                return;
            }
            let part = payload.split_to(len as usize);
            if let Some(entry) = self.covering(ssn) {
                entry.take(ssn, part, out);
            }
            ssn += len;
        }
    }

    fn covering(&mut self, ssn: Ssn) -> Option<&mut Entry> {
        self.mappings.iter_mut().find(|e| e.mapping.ssn <= ssn && ssn < e.mapping.end())
    }

    /// Bytes that wait for the rest of their mapping. One that sends what we can take has no more
    /// of them under way than fit the window, and again as many that it sends once more.
    fn held(&self) -> u64 {
        self.mappings.iter().filter(|e| !e.held.is_empty()).map(|e| e.held_len).sum()
    }

    fn hold(&mut self, ssn: Ssn, payload: Bytes, limit: u64, out: &mut Vec<Delivery>) {
        let known = self.unmapped.get(&ssn).is_some_and(|p| p.len() >= payload.len());
        if known {
            return;
        }
        let len = payload.len() as u64;
        // Each payload held is charged 128 bytes beside its own, so that single bytes cost enough.
        if self.unmapped_len + len > limit || self.unmapped.len() as u64 * 128 > limit {
            out.push(Delivery::Overflow);
            return;
        }
        let replaced = self.unmapped.insert(ssn, payload).map_or(0, |p| p.len() as u64);
        self.unmapped_len = self.unmapped_len + len - replaced;
    }

    /// All payload that has not been let through, by position.
    pub(crate) fn into_payload(self) -> BTreeMap<Ssn, Bytes> {
        let mut payload = self.unmapped;
        self.mappings.into_iter().for_each(|entry| payload.extend(entry.held));
        payload
    }

    /// Everything before `rcv_nxt` has arrived on the subflow: mappings before it are used up.
    pub(crate) fn retire(&mut self, rcv_nxt: Ssn) {
        while let Some(entry) = self.mappings.front()
            && entry.mapping.end() <= rcv_nxt
            && (entry.done || entry.mapping.checksum.is_none())
        {
            self.mappings.pop_front();
        }
    }
}

impl Entry {
    /// Whether `len` bytes more will be kept until the rest of the mapping is there.
    fn waits_after(&self, len: u64) -> bool {
        let complete = self.held_len + len >= self.mapping.len;
        self.mapping.checksum.is_some() && !self.done && !complete
    }

    fn take(&mut self, ssn: Ssn, payload: Bytes, out: &mut Vec<Delivery>) {
        let Some(sum) = self.mapping.checksum else {
            out.push(Delivery::Data(self.mapping.data_position(ssn), payload));
            return;
        };
        if self.done {
            return;
        }
        self.hold(ssn, payload);
        if self.held_len < self.mapping.len {
            return;
        }
        self.done = true;
        let mut checksum = Checksum::default();
        self.held.values().for_each(|part| checksum.add(part));
        if dss_checksum_fits(checksum, sum.dsn, sum.ssn, sum.length, sum.value) {
            let mapping = self.mapping;
            let held = std::mem::take(&mut self.held);
            out.extend(held.into_iter().map(|(s, p)| Delivery::Data(mapping.data_position(s), p)));
        } else {
            out.push(Delivery::BadChecksum(self.mapping));
        }
    }

    /// Keeps what is new of `payload`: parts stay disjoint.
    fn hold(&mut self, mut ssn: Ssn, mut payload: Bytes) {
        while !payload.is_empty() {
            if let Some((start, part)) = self.held.range(..=ssn).next_back() {
                let end = *start + part.len() as u64;
                if end > ssn {
                    let known = (end - ssn).min(payload.len() as u64);
                    drop(payload.split_to(known as usize));
                    ssn += known;
                    continue;
                }
            }
            let gap = self.held.range(ssn..).next().map_or(u64::MAX, |(start, _)| *start - ssn);
            let part = payload.split_to(gap.min(payload.len() as u64) as usize);
            let len = part.len() as u64;
            self.keep(ssn, part);
            self.held_len += len;
            ssn += len;
        }
    }

    /// Keeps a part that overlaps none; small ones are joined with their neighbours, so that single
    /// bytes do not cost a hundred times what they are.
    fn keep(&mut self, ssn: Ssn, mut part: Bytes) {
        if part.len() < SMALL {
            let end = ssn + part.len() as u64;
            if let Some(joined) = self.held.get(&end).and_then(|next| join_small(&part, next)) {
                self.held.remove(&end);
                part = joined;
            }
            if let Some((start, before)) = self.held.range_mut(..ssn).next_back()
                && *start + before.len() as u64 == ssn
                && let Some(joined) = join_small(before, &part)
            {
                *before = joined;
                return;
            }
        }
        self.held.insert(ssn, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_wire::checksum::dss_checksum;

    fn pattern(from: u64, len: u64) -> Bytes {
        (from..from + len).map(|i| (i % 251) as u8).collect()
    }

    fn mapping(ssn: u64, len: u64, dsn: u64) -> Mapping {
        Mapping { ssn: Ssn(ssn), len, dsn: Dsn(dsn), checksum: None }
    }

    fn with_sum(ssn: u64, len: u64, dsn: u64, data: &Bytes) -> Mapping {
        let length = len as u16;
        let value = dss_checksum(Checksum::of(data), 900 + dsn, ssn as u32, length);
        let sum = Sum { value, dsn: 900 + dsn, ssn: ssn as u32, length };
        Mapping { checksum: Some(sum), ..mapping(ssn, len, dsn) }
    }

    /// Mappings of which the end never comes hold no more than the limits say.
    #[test]
    fn what_waits_for_its_checksum_is_limited() {
        let (mut inbox, mut overflows) = (Inbox::default(), 0);
        for n in 0..100 {
            let (at, data) = (1 + n * 1000, pattern(0, 1000));
            assert!(inbox.add_mapping(with_sum(at, 1000, at, &data), |_, _| false));
            let out = deliver(&mut inbox, at, data.slice(..999));
            overflows += u32::from(out == [Delivery::Overflow]);
        }
        assert_eq!((inbox.held(), overflows), (20 * 999, 80), "twice 10 000 bytes");
        // What completes one still may.
        let last = pattern(999, 1);
        assert_eq!(deliver(&mut inbox, 1000, last).len(), 2);
    }

    fn deliver(inbox: &mut Inbox, ssn: u64, payload: Bytes) -> Vec<Delivery> {
        let mut out = Vec::new();
        inbox.add_payload(Ssn(ssn), payload, 10_000, &mut out);
        out
    }

    #[test]
    fn one_mapping_spans_many_segments() {
        let mut inbox = Inbox::default();
        assert!(inbox.add_mapping(mapping(1, 3000, 501), |_, _| false));
        for at in [1, 1001, 2001] {
            assert!(inbox.add_mapping(mapping(1, 3000, 501), |_, _| false), "repeated");
            let expected = Delivery::Data(Dsn(500 + at), pattern(at, 1000));
            assert_eq!(deliver(&mut inbox, at, pattern(at, 1000)), [expected]);
        }
        assert_eq!(inbox.mappings.len(), 1);
        inbox.retire(Ssn(3001));
        assert!(inbox.is_idle() && inbox.first().is_none());
    }

    #[test]
    fn payload_waits_for_its_mapping_within_the_limit() {
        let mut inbox = Inbox::default();
        assert_eq!(deliver(&mut inbox, 1, pattern(1, 1000)), []);
        assert_eq!(deliver(&mut inbox, 1001, pattern(1001, 9000)), []);
        assert_eq!(deliver(&mut inbox, 10_001, pattern(0, 1)), [Delivery::Overflow]);
        assert_eq!((inbox.unmapped_len, inbox.first()), (10_000, Some(Ssn(1))));
        inbox.add_mapping(mapping(501, 1000, 7), |_, _| false);
        let out = deliver(&mut inbox, 501, pattern(501, 100));
        assert_eq!(out[0], Delivery::Data(Dsn(7), pattern(501, 100)));
        assert_eq!(out[1], Delivery::Data(Dsn(7), pattern(501, 500)));
        assert_eq!(out[2], Delivery::Data(Dsn(507), pattern(1001, 500)));
        assert_eq!(inbox.unmapped_len, 500 + 8500);
    }

    #[test]
    fn a_mapping_of_which_something_is_missing_stays_however_many_come() {
        let mut inbox = Inbox::default();
        let most = Inbox::MAPPINGS as u64;
        for n in 0..3 * most {
            assert!(
                inbox.add_mapping(mapping(1 + n * 10, 10, 1 + n * 10), |from, _| from > Ssn(1))
            );
            assert!(inbox.mappings.len() <= Inbox::MAPPINGS);
        }
        assert!(inbox.covers(Ssn(5)) && !inbox.covers(Ssn(15)));
        assert_eq!(inbox.position(Ssn(5), Ssn(8)), None, "not the last");
        let last = 1 + (3 * most - 1) * 10;
        assert_eq!(inbox.position(Ssn(last + 5), Ssn(last + 10)), Some(Dsn(last + 5)));
        assert_eq!(inbox.position(Ssn(last + 5), Ssn(last + 11)), None);
        assert_eq!(deliver(&mut inbox, 5, pattern(5, 3)), [Delivery::Data(Dsn(5), pattern(5, 3))]);
    }

    #[test]
    fn contradicting_mappings_are_refused() {
        let mut inbox = Inbox::default();
        assert!(inbox.add_mapping(mapping(1, 1000, 1), |_, _| false));
        assert!(!inbox.add_mapping(mapping(500, 1000, 501), |_, _| false));
        assert!(inbox.add_mapping(mapping(500, 1000, 500), |_, _| false), "extends consistently");
        assert!(inbox.add_mapping(mapping(1500, 1000, 99), |_, _| false));
    }

    #[test]
    fn checksummed_data_is_held_until_the_mapping_is_complete() {
        let data = pattern(0, 2500);
        let mut inbox = Inbox::default();
        assert!(inbox.add_mapping(with_sum(1, 2500, 1, &data), |_, _| false));
        assert_eq!(deliver(&mut inbox, 1001, data.slice(1000..2000)), []);
        assert_eq!(inbox.first(), Some(Ssn(1001)));
        assert_eq!(deliver(&mut inbox, 1, data.slice(..1200)), []);
        assert_eq!(inbox.first(), Some(Ssn(1)));
        inbox.retire(Ssn(2001));
        assert!(!inbox.is_idle(), "still incomplete");
        let out = deliver(&mut inbox, 2001, data.slice(2000..));
        assert_eq!(in_order(out), data);
        inbox.retire(Ssn(2501));
        assert!(inbox.is_idle());
    }

    /// What was delivered, from the first byte on and without a gap.
    fn in_order(out: Vec<Delivery>) -> Bytes {
        let mut all = Vec::new();
        for delivery in out {
            let Delivery::Data(dsn, part) = delivery else { panic!("{delivery:?}") };
            assert_eq!(dsn, Dsn(1 + all.len() as u64));
            all.extend_from_slice(&part);
        }
        all.into()
    }

    #[test]
    fn single_bytes_that_wait_for_a_checksum_are_joined() {
        let data = pattern(0, 4000);
        let gaps_last = (0..2).flat_map(|odd| (0..2000).map(move |n| 2 * n + odd));
        for order in [(0..4000).collect(), (0..4000).rev().collect(), gaps_last.collect()] {
            let order: Vec<usize> = order;
            let mut inbox = Inbox::default();
            inbox.add_mapping(with_sum(1, 4000, 1, &data), |_, _| false);
            let mut out = Vec::new();
            for at in order {
                out.extend(deliver(&mut inbox, 1 + at as u64, data.slice(at..at + 1)));
            }
            assert!(out.len() <= 4000 / 256, "{}", out.len());
            assert_eq!(in_order(out), data);
        }
    }

    #[test]
    fn a_wrong_checksum_delivers_nothing() {
        let data = pattern(0, 1001);
        let mut inbox = Inbox::default();
        let m = with_sum(1, 1001, 1, &data);
        inbox.add_mapping(m, |_, _| false);
        assert_eq!(deliver(&mut inbox, 1, data.slice(..1000)), []);
        let out = deliver(&mut inbox, 1001, Bytes::from_static(b"\xff"));
        assert_eq!(out, [Delivery::BadChecksum(m)]);
    }

    #[test]
    fn mappings_wait_for_their_payload_and_not_too_many() {
        let mut inbox = Inbox::default();
        for n in 0..Inbox::MAPPINGS as u64 + 1 {
            assert!(inbox.add_mapping(mapping(1 + n * 10, 10, 1001 + n * 20), |_, _| false));
        }
        assert_eq!(inbox.mappings.len(), Inbox::MAPPINGS);
        assert_eq!(deliver(&mut inbox, 1, pattern(1, 10)), [], "the oldest is forgotten");
        let second = Delivery::Data(Dsn(1021), pattern(11, 10));
        assert_eq!(deliver(&mut inbox, 11, pattern(11, 10)), [second]);
    }

    #[test]
    fn a_mapping_that_reaches_further_is_new() {
        let mut inbox = Inbox::default();
        assert!(inbox.add_mapping(mapping(101, 100, 101), |_, _| false));
        for (ssn, len) in [(1, 150), (151, 150)] {
            assert!(inbox.add_mapping(mapping(ssn, len, ssn), |_, _| false), "agrees");
        }
        for ssn in [1, 250] {
            let expected = Delivery::Data(Dsn(ssn), pattern(ssn, 10));
            assert_eq!(deliver(&mut inbox, ssn, pattern(ssn, 10)), [expected]);
        }
    }

    /// Each payload is charged 128 bytes more, so that many single bytes hit the limit; a payload
    /// that is replaced by a longer one is charged once.
    #[test]
    fn payload_without_a_mapping_is_counted() {
        let mut inbox = Inbox::default();
        let mut held = 0;
        while deliver(&mut inbox, 1 + held * 2, pattern(0, 1)).is_empty() {
            held += 1;
            assert!(held < 1000);
        }
        assert_eq!(held, 10_000 / 128 + 1);
        let mut inbox = Inbox::default();
        for len in [100, 300, 200] {
            assert_eq!(deliver(&mut inbox, 1, pattern(0, len)), []);
        }
        assert_eq!(inbox.unmapped_len, 300);
        inbox.add_mapping(mapping(1, 300, 501), |_, _| false);
        let expected = Delivery::Data(Dsn(501), pattern(0, 300));
        assert_eq!(deliver(&mut inbox, 301, pattern(300, 1)), [expected]);
    }
}
