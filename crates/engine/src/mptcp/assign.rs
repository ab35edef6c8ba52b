//! Binding data to subflows: what the sender says may leave (`sender.rs`), the scheduler's answer
//! checked and carried out, and the persist timer when the peer's window is shut.

use super::Connection;
use super::sender::{Nagle, Probing, Sender};
use super::session::Again;
use super::subflow::Subflow;
use crate::record::{ReinjectReason, What};
use crate::scheduler::Work;
use crate::seq::Dsn;
use crate::tcp::{Chunk, Span};
use crate::view::{SubflowSet, SubflowView};
use std::mem;

/// A range of data about to be bound to subflows.
#[derive(Clone, Copy)]
pub(super) struct DataRange {
    pub(super) dsn: Dsn,
    /// At most this long; cut to the segment size of the subflows picked.
    pub(super) len: u64,
    /// Sent before, and why again.
    pub(super) again: Option<ReinjectReason>,
    pub(super) carried: SubflowSet,
}

impl Connection {
    /// Binds one segment's worth of data, or a FIN. Whether `poll` should ask subflows again.
    #[inline]
    pub(super) fn assign(&mut self) -> bool {
        if self.subflows.is_empty() || !self.may_send() {
            return false;
        }
        if self.subflows.len() == 1 { self.assign_single() } else { self.assign_scheduled() }
    }

    /// One subflow: no choice, no snapshots.
    fn assign_single(&mut self) -> bool {
        if !self.subflows[0].usable() {
            return false;
        }
        let mss = self.segment_size(0);
        let range = match self.next_reinjection() {
            Some(range) => range,
            None if self.send.unsent() == 0 => return self.finish(),
            None => match self.new_range(mss) {
                Some(range) => range,
                None => return self.hold(),
            },
        };
        let sendable = self.subflows[0].tcb.sendable(self.now);
        let len = range.len.min(mss);
        let Some(len) = fit_sendable(&self.send, &self.subflows[0], len, sendable) else {
            return self.hold();
        };
        let range = DataRange { len, ..range };
        match self.mapped(0, &range, u32::MAX) {
            Some(bytes) => self.bind_mapped(0, &range, bytes),
            None => self.bind(range, SubflowSet::only(self.subflows[0].id)),
        }
        true
    }

    /// Several subflows: the scheduler decides.
    fn assign_scheduled(&mut self) -> bool {
        self.refresh_views();
        let replicas = self.scheduling.replicas(&self.views);
        if let Some(bound) = self.repeat_next() {
            return bound || self.probe_if_idle();
        }
        if !replicas.is_empty() {
            return self.replicate(replicas) || self.finish();
        }
        if self.send.unsent() == 0 {
            if self.send.probing() == Probing::Shut {
                self.stop_probing();
            }
            return self.finish() || self.resend_blocked(false) || self.reinject_tail();
        }
        if self.reinject_joined() || self.reinject_overdue() {
            return true;
        }
        let mss = self.views.iter().filter(|v| v.usable).map(|v| v.mss).max().unwrap_or(0);
        if mss == 0 {
            return false;
        }
        match self.new_range(mss) {
            Some(range) => self.schedule(range) || self.probe_if_idle(),
            None => {
                let window_full = self.send.is_window_full(mss);
                window_full && (self.resend_blocked(true) || self.reinject_tail()) || {
                    self.probe_shut();
                    self.hold()
                }
            }
        }
    }

    /// Sends the next reinjection, if there is one; whether it could be bound. A tail reinjection
    /// does not wait for space, nor does it go where it is under way: it is forgotten.
    pub(super) fn repeat_next(&mut self) -> Option<bool> {
        loop {
            let range = self.next_reinjection()?;
            if self.schedule(range) {
                return Some(true);
            }
            if range.again != Some(ReinjectReason::Opportunistic) {
                return Some(false);
            }
            self.forget_tail(range.dsn, range.len);
        }
    }

    /// Nothing could be bound: what was blocked is probed for, what is urgent goes alone.
    fn probe_if_idle(&mut self) -> bool {
        self.probe_shut();
        self.is_idle() && self.hold()
    }

    /// Whether nothing is under way that could change anything.
    fn is_idle(&self) -> bool {
        self.views.iter().all(|v| v.in_flight == 0)
    }

    /// New data that may leave at data level: `None` if Nagle or the peer's window holds it.
    fn new_range(&self, mss: u64) -> Option<DataRange> {
        let nagle = if self.config.tcp.nagle { Nagle::On } else { Nagle::Off };
        let len = self.send.next_len(mss, nagle)?;
        Some(DataRange { dsn: self.send.nxt(), len, again: None, carried: SubflowSet::NONE })
    }

    /// Payload of a full segment on a subflow, with space for the options of this phase.
    #[inline]
    fn segment_size(&self, at: usize) -> u64 {
        full_segment(&self.subflows[at], self.protocol.capable_space())
    }

    /// Brings the snapshots up to date.
    fn refresh_views(&mut self) {
        if self.views.len() != self.subflows.len() {
            self.views.clear();
            self.views.resize(self.subflows.len(), SubflowView::default());
            self.outdated = self.subflows.iter().map(|s| s.id).collect();
        }
        let unsent = self.send.unsent();
        let space = self.protocol.capable_space();
        let outdated = std::mem::take(&mut self.outdated);
        for (subflow, view) in self.subflows.iter().zip(&mut self.views) {
            if outdated.contains(subflow.id) {
                subflow.tcb.fill_view(view);
            }
            view.usable = subflow.usable();
            view.potentially_failed = subflow.potentially_failed();
            view.backup = subflow.backup || subflow.peer_backup;
            view.mss = full_segment(subflow, space);
            let sendable = if view.usable { subflow.tcb.sendable(self.now) } else { 0 };
            // Less than what would be sent is no space: schedulers test only for zero.
            let fits = fit_sendable(&self.send, subflow, unsent.clamp(1, view.mss), sendable);
            view.sendable = if fits.is_some() { sendable } else { 0 };
        }
    }

    /// Snapshots for congestion control; those of an only subflow are of no use to anybody.
    #[inline]
    pub(super) fn siblings(&mut self) {
        if self.subflows.len() > 1 {
            if self.views.len() != self.subflows.len() || !self.outdated.is_empty() {
                self.refresh_views();
            }
        } else {
            self.views.clear();
        }
    }

    /// Asks the scheduler, checks the answer, carries it out.
    pub(super) fn schedule(&mut self, mut range: DataRange) -> bool {
        let work = Work {
            now: self.now,
            dsn: range.dsn,
            len: range.len,
            unsent: self.send.unsent(),
            carried: range.carried,
            reinjection: range.again.is_some(),
            window_space: self.send.allowed(),
            window: self.send.window(),
        };
        let picks = self.scheduling.select(&work, &self.views);
        let gap = if range.again.is_none() { self.scheduling.gap() } else { 0 };
        let eligible = self.views.iter().filter(|v| v.usable && v.sendable > 0);
        let eligible: SubflowSet = eligible.map(|v| v.id).collect();
        let mut chosen = picks.intersection(eligible);
        if chosen != picks {
            self.note(None, || What::PolicyRefused { policy: "scheduler" });
        }
        if chosen.is_empty() && self.is_idle() {
            // A policy may be slow or odd, but never stops a connection.
            chosen = eligible.first().map_or(SubflowSet::NONE, SubflowSet::only);
        }
        if range.again == Some(ReinjectReason::Opportunistic) {
            chosen = chosen.minus(range.carried);
        }
        if gap > 0 && chosen == picks && !chosen.is_empty() {
            match self.send.beyond(gap, range.len) {
                Some((dsn, len)) => range = DataRange { dsn, len, ..range },
                // As above: what is next goes, if nothing else does.
                None if self.is_idle() => {}
                None => return false,
            }
        }
        self.decided(range.dsn, eligible, chosen);
        if chosen.is_empty() {
            return false;
        }
        let limit = |v: &&SubflowView| chosen.contains(v.id);
        let len = self.views.iter().filter(limit).map(|v| v.mss.min(v.sendable)).min();
        let len = len.unwrap_or(0).min(range.len);
        let range = DataRange { len, ..range };
        if self.scheduling.places_runs() && range.again.is_none() && gap == 0 {
            let before = self.scheduling.in_a_row(chosen, 1);
            let only = chosen.first().filter(|_| before > 0 && chosen.len() == 1);
            if let Some(at) = only.and_then(|id| self.index(id))
                && let Some(bytes) = self.mapped(at, &range, before)
            {
                self.bind_mapped(at, &range, bytes);
                return true;
            }
        }
        self.bind(range, chosen);
        true
    }

    /// How many bytes one mapping is to cover, if more than the full segment `range`: of as many
    /// segments as the subflow at `at` has carried in a row `before`, as the scheduler would most
    /// likely give it the next as well.
    ///
    /// Where the end of the data is near each segment has its own: what a mapping covers is of no
    /// use before the segment that carries it, and waits in the subflow's queue where it could
    /// leave by another. Three windows of all subflows leave, and are repaired, before the end is
    /// under way. So has each of the first flight, before a DATA_ACK: a subflow that joins takes it
    /// over whole, as the segments of both are of one size.
    // Asked for each segment, of plain TCP as well.
    #[inline(always)]
    fn mapped(&self, at: usize, range: &DataRange, before: u32) -> Option<u64> {
        let tcb = &self.subflows[at].tcb;
        let most = u64::from(self.config.mptcp.segments_per_mapping).min(before.into());
        if !tcb.spans() || most < 2 || range.again.is_some() || self.send.is_bound_ahead() {
            return None;
        }
        let session = self.protocol.session()?;
        if !session.fully || session.acked < self.receive.next() || self.send.una() == Dsn(1) {
            return None;
        }
        let (full, bare) = (tcb.mss(), tcb.bare_mss());
        let windows = self.views.iter().filter(|v| v.usable).map(|v| v.cwnd);
        let windows = windows.fold(0, u64::saturating_add);
        let end = if self.send.was_short() { 0 } else { windows.saturating_mul(3) };
        let unsent = self.send.unsent().checked_sub(end.saturating_add(full))?;
        let room = unsent.min(self.send.allowed());
        let room = room.min(tcb.queueable()).min(u16::MAX.into()).checked_sub(full + bare)?;
        let segments = most.min(2 + room / bare);
        (range.len == full).then_some(full + (segments - 1) * bare)
    }

    /// Pushes what one mapping covers, `bytes` from `range` on, down to the subflow at `at`.
    fn bind_mapped(&mut self, at: usize, range: &DataRange, bytes: u64) {
        self.has_space(at);
        let (id, full) = (self.subflows[at].id, range.len);
        let (end, mut dsn, mut len) = (range.dsn + bytes, range.dsn, full);
        let mut span = Span::first(bytes as u16);
        let mut segments = 0;
        while dsn < end {
            let data = self.send.slice(dsn, len);
            self.subflows[at].tcb.push_part(self.now, Chunk { dsn, data }, span);
            (dsn, len, span) = (dsn + len, self.subflows[at].tcb.bare_mss(), Span::WITHIN);
            segments += 1;
        }
        let chosen = SubflowSet::only(id);
        self.scheduling.in_a_row(chosen, segments - 1);
        self.pending.insert(id);
        self.outdated.insert(id);
        self.send.set_pushed(None);
        self.send.on_bound(range.dsn, bytes, || full);
        self.note_carriers(range.dsn, bytes, chosen, Again::No);
    }

    /// A range of data is bound to `chosen`: MPTCP remembers that, and when it is late.
    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    fn note_carriers(&mut self, dsn: Dsn, len: u64, chosen: SubflowSet, again: Again) {
        if let Some(session) = self.protocol.session_mut() {
            session.on_bound(dsn, len, chosen, again);
            session.arm_data(self.now, &self.subflows);
        }
    }

    /// Records a decision that differs from the last.
    fn decided(&mut self, dsn: Dsn, eligible: SubflowSet, chosen: SubflowSet) {
        if !self.log.is_on() {
            return;
        }
        if let Some(reason) = self.scheduling.news(chosen) {
            self.note(None, || What::Decision { dsn, eligible, chosen, reason });
        }
    }

    /// Pushes a range of data down to the subflows `chosen`.
    #[inline]
    pub(super) fn bind(&mut self, range: DataRange, chosen: SubflowSet) {
        let DataRange { dsn, len, again, .. } = range;
        let mut data = self.send.slice(dsn, len);
        let (mut first, mut left, mut queued) = (None, chosen.len(), false);
        for id in chosen.iter() {
            left -= 1;
            let Some(at) = self.index(id) else { continue };
            self.has_space(at);
            let data = if left == 0 { mem::take(&mut data) } else { data.clone() };
            queued |= self.subflows[at].tcb.is_queued();
            self.subflows[at].tcb.push(self.now, Chunk { dsn, data });
            self.pending.insert(id);
            self.outdated.insert(id);
            let why = again.or(first.is_some().then_some(ReinjectReason::Replica));
            first.get_or_insert(id);
            if let Some(why) = why {
                self.note(Some(id), || What::Reinjected { dsn, len: len as u32, why });
                self.send.on_reinjected(len);
            }
        }
        // `poll` takes it: only if no other subflow has anything pending is the next segment known.
        let lone = chosen.len() == 1 && self.pending == chosen && !queued;
        self.send.set_pushed(first.filter(|_| lone).map(|id| (id, len as usize)));
        if again.is_none() {
            let space = self.protocol.capable_space();
            let carrier = || self.subflows.iter().find(|s| Some(s.id) == first);
            self.send.on_bound(dsn, len, || carrier().map_or(0, |s| full_segment(s, space)));
        }
        let again = if again.is_some() { Again::Yes } else { Again::No };
        self.note_carriers(dsn, len, chosen, again);
    }

    /// The next reinjection, not longer than one segment.
    #[inline]
    pub(super) fn next_reinjection(&mut self) -> Option<DataRange> {
        let carried = &mut self.protocol.session_mut()?.carried;
        if carried.reinjections().is_empty() { None } else { self.first_reinjection() }
    }

    fn first_reinjection(&mut self) -> Option<DataRange> {
        let carried = &mut self.protocol.session_mut()?.carried;
        let (dsn, len, why) = carried.reinjections().first(self.send.una())?;
        let len = self.send.bound(dsn, len);
        if len == 0 {
            carried.reinjections().clear();
            return None;
        }
        let carried = carried.by(dsn);
        let live: SubflowSet = self.subflows.iter().map(|s| s.id).collect();
        let mss = self.subflows.iter().map(|s| s.tcb.mss()).max()?;
        let carried = carried.intersection(live);
        Some(DataRange { dsn, len: len.min(mss), again: Some(why), carried })
    }

    /// Every byte on each of `replicas`, each at its own pace: a cursor per subflow, which jumps
    /// over what is acknowledged, and a rotating start (as `mptcp_redundant.c` of Linux MPTCP since
    /// v0.90).
    fn replicate(&mut self, replicas: SubflowSet) -> bool {
        let n = self.subflows.len();
        let start = self.scheduling.first();
        for at in (0..n).map(|i| (start + i) % n) {
            let view = self.views[at];
            if !replicas.contains(view.id) || !view.usable || view.sendable == 0 {
                continue;
            }
            let cursor = self.subflows[at].replica.max(self.send.una());
            let range = if cursor < self.send.nxt() {
                let len = (self.send.nxt() - cursor).min(view.mss).min(view.sendable);
                let again = Some(ReinjectReason::Replica);
                Some(DataRange { dsn: cursor, len, again, carried: SubflowSet::NONE })
            } else {
                self.new_range(view.mss).map(|p| DataRange { len: p.len.min(view.sendable), ..p })
            };
            let Some(range) = range.filter(|p| p.len > 0) else { continue };
            self.decided(range.dsn, replicas, SubflowSet::only(view.id));
            self.bind(range, SubflowSet::only(view.id));
            self.subflows[at].replica = range.dsn + range.len;
            self.scheduling.rotate(at, n);
            return true;
        }
        self.probe_shut();
        self.hold()
    }

    /// Data is there, new or to be repeated, and cannot leave. With nothing under way, nothing will
    /// come that changes this: probe the window, and let what is short leave after a while.
    fn hold(&mut self) -> bool {
        if self.send.unsent() == 0 && !self.repeats() {
            return false;
        }
        if self.send.outstanding() && self.subflows.iter().any(|s| !s.tcb.is_idle()) {
            return false;
        }
        // Asked again each time: a subflow that has joined since probes too, and the one that did
        // may be gone.
        self.probe();
        let now = self.now;
        let some = self.send.allowed() > 0
            && self.subflows.iter().any(|s| s.usable() && s.tcb.sendable(now) > 0);
        self.send.hold(now, some);
        false
    }

    /// Whether data waits to be sent again.
    fn repeats(&self) -> bool {
        self.protocol.session().is_some_and(|s| s.carried.repeats())
    }

    /// Each subflow has a window of its own from the last segment that came on it. If that is shut
    /// and data waits the subflow probes, though others carry data: nothing else would open it,
    /// and it would be missing when they fail.
    fn probe_shut(&mut self) {
        if self.send.probing() == Probing::All {
            return;
        }
        let mut shut = false;
        for (subflow, view) in self.subflows.iter_mut().zip(&self.views) {
            let is_shut = view.usable && view.sendable == 0 && subflow.tcb.is_shut();
            shut |= is_shut;
            subflow.tcb.set_blocked(self.now, is_shut);
        }
        self.send.set_probing(if shut { Probing::Shut } else { Probing::No });
    }

    /// All subflows probe the peer's window from now on.
    fn probe(&mut self) {
        self.send.set_probing(Probing::All);
        for subflow in self.subflows.iter_mut().filter(|s| s.usable()) {
            subflow.tcb.set_blocked(self.now, true);
        }
    }

    /// Data leaves by the subflow: it need not probe, and where all did, none.
    #[inline]
    fn has_space(&mut self, at: usize) {
        match self.send.probing() {
            Probing::No => {}
            Probing::Shut => self.subflows[at].tcb.set_blocked(self.now, false),
            Probing::All => self.stop_probing(),
        }
    }

    fn stop_probing(&mut self) {
        self.send.set_probing(Probing::No);
        for subflow in &mut self.subflows {
            subflow.tcb.set_blocked(self.now, false);
        }
    }

    /// Everything is bound: the end of the stream, once the application has closed.
    fn finish(&mut self) -> bool {
        if !self.send.is_end_due() {
            return false;
        }
        if let Some(session) = self.protocol.session() {
            return !session.fin_due && self.send_data_fin();
        }
        self.send.send_fin();
        let id = self.subflows[0].id;
        self.subflows[0].tcb.close(self.now);
        self.pending.insert(id);
        true
    }
}

/// Payload of a full segment on a subflow, with `space` for options beside its own.
#[inline]
fn full_segment(subflow: &Subflow, space: u64) -> u64 {
    subflow.tcb.mss().saturating_sub(space).max(1)
}

/// What of `len` bytes fits `sendable` of a subflow without being silly.
#[inline]
fn fit_sendable(send: &Sender, subflow: &Subflow, len: u64, sendable: u64) -> Option<u64> {
    if sendable >= len {
        return Some(len);
    }
    let idle = subflow.tcb.snd_una() == subflow.tcb.snd_nxt();
    (sendable > 0 && idle && send.worth_sending(sendable)).then_some(sendable)
}
