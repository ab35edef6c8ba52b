//! Data that goes again on another subflow (RFC 8684 section 3.3.6), and who has carried what.

use super::Connection;
use crate::record::ReinjectReason;
use crate::seq::Dsn;
use crate::view::{SubflowId, SubflowSet};
use std::collections::{BTreeMap, VecDeque};

/// Ranges waiting to be sent again, disjoint and in order. Bounded by the send buffer.
#[derive(Default, Debug)]
pub(super) struct Reinjections(BTreeMap<Dsn, (Dsn, ReinjectReason)>);

impl Reinjections {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what is not there yet.
    pub(super) fn add(&mut self, mut dsn: Dsn, len: u64, why: ReinjectReason) {
        let end = dsn + len;
        while dsn < end {
            if let Some((_, (before, reason))) = self.0.range_mut(..=dsn).next_back() {
                if *before > dsn {
                    dsn = *before;
                    continue;
                }
                if *before == dsn && *reason == why {
                    let next = self.0.range(dsn..).next().map_or(end, |(s, _)| *s);
                    let to = end.min(next);
                    if let Some((_, (before, _))) = self.0.range_mut(..=dsn).next_back() {
                        *before = to;
                    }
                    dsn = to;
                    continue;
                }
            }
            let to = self.0.range(dsn..).next().map_or(end, |(s, _)| end.min(*s));
            self.0.insert(dsn, (to, why));
            dsn = to;
        }
    }

    /// The first range, without what is before `una`.
    pub(super) fn first(&mut self, una: Dsn) -> Option<(Dsn, u64, ReinjectReason)> {
        loop {
            let (&start, &(end, why)) = self.0.first_key_value()?;
            if end > una {
                let start = start.max(una);
                return Some((start, end - start, why));
            }
            self.0.pop_first();
        }
    }

    /// `len` bytes from `dsn` on have been sent.
    pub(super) fn taken(&mut self, dsn: Dsn, len: u64) {
        let Some((&start, &(end, why))) = self.0.first_key_value() else { return };
        let done = dsn + len;
        if start <= dsn && dsn < end {
            self.0.pop_first();
            if done < end {
                self.0.insert(done, (end, why));
            }
        }
    }

    /// Forgets what is between `start` and `end` for this reason.
    fn withdraw(&mut self, start: Dsn, end: Dsn, why: ReinjectReason) {
        let waits = |(from, (to, reason)): (&Dsn, &(Dsn, ReinjectReason))| {
            (*reason == why && *from < end && start < *to).then_some((*from, *to))
        };
        while let Some((from, to)) = self.0.iter().find_map(waits) {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, (start, why));
            }
            if end < to {
                self.0.insert(end, (to, why));
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Data bound to subflows and not acknowledged at data level: who has carried it, and what of it
/// is to go again.
#[derive(Default, Debug)]
pub(super) struct Carried {
    /// Every bound byte without a DATA_ACK, once and in order.
    sent: VecDeque<Sent>,
    reinjections: Reinjections,
    /// Data timeouts in a row.
    backoff: u32,
    /// After a data timeout: sent again up to the first, and everything before the second is
    /// assumed lost at data level although subflows acknowledged it.
    recovery: Option<(Dsn, Dsn)>,
}

/// Bound data and who has carried it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    dsn: Dsn,
    carried: SubflowSet,
    len: u32,
}

impl Carried {
    /// What waits to be sent again.
    #[inline]
    pub(super) fn reinjections(&mut self) -> &mut Reinjections {
        &mut self.reinjections
    }

    /// Whether anything waits to be sent again.
    pub(super) fn repeats(&self) -> bool {
        !self.reinjections.is_empty()
    }

    /// Data timeouts in a row.
    #[inline]
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Who has carried the byte at `dsn`.
    pub(super) fn by(&self, dsn: Dsn) -> SubflowSet {
        let after = self.sent.partition_point(|s| s.dsn <= dsn);
        match after.checked_sub(1).map(|at| self.sent[at]) {
            Some(s) if dsn < s.dsn + u64::from(s.len) => s.carried,
            _ => SubflowSet::NONE,
        }
    }

    /// What `id` has not carried of `len` bytes from `dsn` on, from the first such byte to the end.
    pub(super) fn not_by(&self, id: SubflowId, dsn: Dsn, len: u64) -> Option<(Dsn, u64)> {
        let end = dsn + len;
        let after = self.sent.partition_point(|s| s.dsn <= dsn).saturating_sub(1);
        let covers = |s: &&Sent| s.dsn < end && s.carried.contains(id);
        let by = self.sent.range(after..).take_while(covers).last();
        let start = by.map_or(dsn, |s| dsn.max(s.dsn + u64::from(s.len)));
        (start < end).then(|| (start, end - start))
    }

    /// New data leaves.
    #[inline]
    pub(super) fn sent(&mut self, dsn: Dsn, len: u64, by: SubflowSet) {
        let sent = Sent { dsn, carried: by, len: len as u32 };
        if self.sent.back().is_none_or(|last| last.dsn < dsn) {
            self.sent.push_back(sent);
        } else {
            let at = self.sent.partition_point(|s| s.dsn < dsn);
            self.sent.insert(at, sent);
        }
    }

    /// Data that had been sent leaves again.
    pub(super) fn sent_again(&mut self, dsn: Dsn, len: u64, by: SubflowSet) {
        self.reinjections.taken(dsn, len);
        let end = dsn + len;
        // Subflows differ in segment size: what was carried in part is two ranges from now on.
        // Else a range whose neighbours went by a subflow would count as carried by it.
        self.split(dsn);
        self.split(end);
        let at = self.sent.partition_point(|s| s.dsn + u64::from(s.len) <= dsn);
        for sent in self.sent.range_mut(at..) {
            if sent.dsn >= end {
                break;
            }
            sent.carried = sent.carried.union(by);
        }
    }

    /// Makes two of the range that `dsn` lies in, unless it begins there.
    fn split(&mut self, dsn: Dsn) {
        let after = self.sent.partition_point(|s| s.dsn < dsn);
        let Some(head) = after.checked_sub(1).map(|at| &mut self.sent[at]) else { return };
        let end = head.dsn + u64::from(head.len);
        if dsn < end {
            let tail = Sent { dsn, len: (end - dsn) as u32, carried: head.carried };
            head.len = (dsn - head.dsn) as u32;
            self.sent.insert(after, tail);
        }
    }

    /// The DATA_ACK came `acked` bytes further, to `to`. `mss`: of the first subflow.
    #[inline]
    pub(super) fn acknowledge(&mut self, to: Dsn, acked: u64, mss: impl FnOnce() -> u64) {
        while self.sent.front().is_some_and(|s| s.dsn + u64::from(s.len) <= to) {
            self.sent.pop_front();
        }
        self.backoff = 0;
        if self.recovery.is_some() {
            self.go_on_recovering(to, acked, mss());
        }
    }

    /// After a data timeout: as the subflows have acknowledged what is beyond `to`, the peer has
    /// dropped that too (it may, when it has too many ranges out of order). The next range goes at
    /// once, twice as much as was repaired.
    fn go_on_recovering(&mut self, to: Dsn, acked: u64, mss: u64) {
        let Some((done, end)) = self.recovery else { return };
        if to >= end {
            self.recovery = None;
            return;
        }
        let start = done.max(to);
        if start - to >= RECOVERY_WINDOW * mss {
            return;
        }
        let len = (acked * 2).clamp(mss, RECOVERY_BURST * mss).min(end - start);
        self.reinjections.add(start, len, ReinjectReason::DataTimeout);
        self.recovery = Some((start + len, end));
    }

    /// Nothing has been acknowledged at data level for long, and nothing goes again: the next look
    /// is later.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Nothing has been acknowledged at data level for long: `len` bytes from `una` on go again.
    pub(super) fn on_timeout(&mut self, una: Dsn, len: u64, nxt: Dsn) {
        self.back_off();
        self.reinjections.add(una, len, ReinjectReason::DataTimeout);
        self.recovery = Some((una + len, nxt));
    }

    /// The subflow in a slot has closed: what it carried does not count for the next one there.
    pub(super) fn forget(&mut self, id: SubflowId) {
        self.sent.iter_mut().for_each(|s| s.carried.remove(id));
    }

    /// No subflow is left: these ranges, all that is under way, go by the next.
    pub(super) fn offer_all(&mut self, under_way: impl Iterator<Item = (Dsn, u64)>) {
        self.recovery = None;
        for (dsn, len) in under_way.filter(|(_, len)| *len > 0) {
            self.reinjections.add(dsn, len, ReinjectReason::SubflowClosed);
        }
    }

    /// Nothing goes again.
    pub(super) fn clear(&mut self) {
        self.sent.clear();
        self.reinjections.clear();
    }
}

impl Connection {
    /// Offers what is unacknowledged on a subflow to its siblings, unless a sound one has
    /// carried it already.
    pub(super) fn reinject(&mut self, at: usize, why: ReinjectReason) {
        let sound: SubflowSet = self
            .subflows
            .iter()
            .enumerate()
            .filter(|(i, s)| *i != at && s.usable() && !s.potentially_failed())
            .map(|(_, s)| s.id)
            .collect();
        let una = self.send.una();
        let Some(session) = self.protocol.session_mut() else { return };
        for chunk in self.subflows[at].tcb.unacked() {
            let start = chunk.dsn.max(una);
            let len = chunk.dsn + chunk.data.len() as u64 - start;
            let end = start + self.send.bound(start, len);
            if start < end && session.carried.by(start).intersection(sound).is_empty() {
                session.carried.reinjections().add(start, end - start, why);
            }
        }
    }

    /// A subflow is due for a tail loss probe: two round trips have passed without an answer. If
    /// other subflows are answered meanwhile, its path has failed or stalls, and the stream waits
    /// for the data that it carries. That data is offered to the others, oldest first, until
    /// something arrives on it again. The retransmission timeout is more than twice as far away,
    /// and the reader would get no data until then. Backups are not used for this.
    pub(super) fn on_unresponsive(&mut self, at: usize) {
        let own = &self.subflows[at];
        let answered = |s: &super::Subflow| {
            let backup = (s.backup || s.peer_backup) && !(own.backup || own.peer_backup);
            let heard = s.tcb.last_heard() > own.tcb.last_heard();
            s.id != own.id
                && s.usable()
                && !s.potentially_failed()
                && !s.unresponsive
                && heard
                && !backup
        };
        if !self.config.mptcp.tail_reinjection
            || !self.is_mptcp()
            || !self.subflows.iter().any(answered)
        {
            return;
        }
        self.subflows[at].unresponsive = true;
        self.reinject(at, ReinjectReason::Unresponsive);
    }

    /// A subflow whose data was offered to others answers after all: what has not been sent
    /// elsewhere yet is withdrawn.
    pub(super) fn recall(&mut self, at: usize, why: ReinjectReason) {
        let Some(session) = self.protocol.session_mut() else { return };
        for chunk in self.subflows[at].tcb.unacked() {
            let end = chunk.dsn + chunk.data.len() as u64;
            session.carried.reinjections().withdraw(chunk.dsn, end, why);
        }
    }
}

/// Segments sent again for data dropped by the peer: per DATA_ACK, and ahead of it.
const RECOVERY_BURST: u64 = 16;
const RECOVERY_WINDOW: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_withdrawn_leaves_the_rest() {
        let (timeout, stale) = (ReinjectReason::Timeout, ReinjectReason::Stale);
        let mut r = Reinjections::default();
        r.add(Dsn(1000), 3000, timeout);
        r.add(Dsn(5000), 1000, stale);
        r.withdraw(Dsn(2000), Dsn(6000), timeout);
        assert_eq!(r.first(Dsn(1)), Some((Dsn(1000), 1000, timeout)));
        assert_eq!(r.first(Dsn(2000)), Some((Dsn(5000), 1000, stale)));
        r.withdraw(Dsn(5200), Dsn(5300), stale);
        assert_eq!(r.first(Dsn(2000)), Some((Dsn(5000), 200, stale)));
        assert_eq!(r.first(Dsn(5200)), Some((Dsn(5300), 700, stale)));
    }

    #[test]
    fn overlaps_are_trimmed_and_order_is_by_position() {
        let why = ReinjectReason::Timeout;
        let mut r = Reinjections::default();
        r.add(Dsn(3000), 1000, why);
        r.add(Dsn(1000), 1000, why);
        r.add(Dsn(1500), 2000, why);
        assert_eq!(r.first(Dsn(1)), Some((Dsn(1000), 2000, why)), "joined as far as it was added");
        r.taken(Dsn(1000), 1448);
        assert_eq!(r.first(Dsn(1)), Some((Dsn(2448), 552, why)));
        assert_eq!(r.first(Dsn(2500)), Some((Dsn(2500), 500, why)), "acknowledged part is cut");
        r.taken(Dsn(2500), 500);
        assert_eq!(r.first(Dsn(2500)), Some((Dsn(3000), 1000, why)));
        r.add(Dsn(3000), 1000, ReinjectReason::Stale);
        assert_eq!(r.0.len(), 1);
        assert_eq!(r.first(Dsn(4000)), None);
    }

    #[test]
    fn what_was_carried_again_in_part_keeps_its_rest() {
        let (slow, fast) = (SubflowId(0), SubflowId(1));
        let mut carried = Carried::default();
        carried.sent(Dsn(1000), 3000, SubflowSet::only(slow));
        assert_eq!(carried.not_by(fast, Dsn(2000), 1448), Some((Dsn(2000), 1448)));
        carried.sent_again(Dsn(2000), 1428, SubflowSet::only(fast));
        assert_eq!(carried.not_by(fast, Dsn(2000), 1448), Some((Dsn(3428), 20)));
        assert_eq!(carried.not_by(fast, Dsn(2000), 1428), None);
        assert_eq!(
            carried.not_by(fast, Dsn(1000), 2000),
            Some((Dsn(1000), 2000)),
            "its end goes again"
        );
        assert_eq!(carried.not_by(slow, Dsn(1000), 3000), None);
    }

    #[test]
    fn what_did_not_wait_is_not_taken() {
        let why = ReinjectReason::Timeout;
        let mut r = Reinjections::default();
        r.add(Dsn(1000), 1000, why);
        for dsn in [500, 2000, 3000] {
            r.taken(Dsn(dsn), 100);
            assert_eq!(r.first(Dsn(1)), Some((Dsn(1000), 1000, why)), "{dsn}");
        }
        r.clear();
        assert_eq!(r.first(Dsn(1)), None);
    }

    #[test]
    fn who_has_carried_a_byte() {
        let (a, b) = (SubflowId(0), SubflowId(5));
        let mut s = Carried::default();
        for (dsn, len, by) in [(1, 1000, a), (1001, 500, b)] {
            s.sent(Dsn(dsn), len, SubflowSet::only(by));
        }
        let only = SubflowSet::only;
        for (dsn, by) in [(1, only(a)), (1000, only(a)), (1001, only(b)), (1500, only(b))] {
            assert_eq!(s.by(Dsn(dsn)), by, "{dsn}");
        }
        assert!(s.by(Dsn(0)).is_empty() && s.by(Dsn(1501)).is_empty());
        s.forget(a);
        assert!(s.by(Dsn(1)).is_empty());
        assert_eq!(s.by(Dsn(1001)), only(b));
    }

    /// RFC 8684 section 3.3.6: what subflows have acknowledged and the peer dropped goes again.
    #[test]
    fn what_was_dropped_at_data_level_goes_again_ever_faster() {
        let why = ReinjectReason::DataTimeout;
        let mut s = Carried::default();
        s.go_on_recovering(Dsn(1000), 999, 1000);
        assert_eq!(s.reinjections.first(Dsn(1)), None, "there was no timeout");
        s.recovery = Some((Dsn(1000), Dsn(200_000)));
        s.go_on_recovering(Dsn(1000), 900, 1000);
        assert_eq!(s.reinjections.first(Dsn(1)), Some((Dsn(1000), 1800, why)), "twice as much");
        s.go_on_recovering(Dsn(2800), 100, 1000);
        assert_eq!(s.reinjections.first(Dsn(2800)), Some((Dsn(2800), 1000, why)), "a segment");
        s.go_on_recovering(Dsn(3000), 50_000, 1000);
        assert_eq!(s.reinjections.first(Dsn(3800)), Some((Dsn(3800), 16_000, why)), "no burst");
        s.recovery = Some((Dsn(103_999), Dsn(200_000)));
        s.go_on_recovering(Dsn(40_000), 1000, 1000);
        assert_eq!(s.recovery, Some((Dsn(105_999), Dsn(200_000))));
        s.go_on_recovering(Dsn(41_999), 1000, 1000);
        assert_eq!(s.recovery, Some((Dsn(105_999), Dsn(200_000))), "64 segments ahead");
        s.go_on_recovering(Dsn(199_500), 1000, 1000);
        assert_eq!(s.recovery, Some((Dsn(200_000), Dsn(200_000))));
        assert_eq!(s.reinjections.first(Dsn(199_000)), Some((Dsn(199_500), 500, why)));
        s.go_on_recovering(Dsn(200_000), 500, 1000);
        assert_eq!(s.recovery, None);
    }
}
