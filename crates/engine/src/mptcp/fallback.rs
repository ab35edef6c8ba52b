//! Falling back to plain TCP (RFC 8684 section 3.7). It is final, and no subflow joins
//! afterwards.

use super::mapping::Mapping;
use super::session::Offset;
use super::subflow::reset_reason;
use super::{Connection, Mode};
use crate::event::Event;
use crate::record::{CloseReason, FallbackReason, What};
use crate::seq::{Dsn, Ssn};
use tabane_wire::MptcpOption;

impl Connection {
    /// Whether falling back is possible at all: one subflow, the first, and no other has ever
    /// carried data, so that subflow and data positions have kept step.
    pub(super) fn may_fall_back(&self) -> bool {
        let in_step = self.session.as_ref().is_some_and(|s| s.in_step);
        self.only_first() && self.closed_subflows.is_empty() && in_step
    }

    /// Falls back before anything was mapped.
    pub(super) fn fall_back(&mut self, reason: FallbackReason) {
        self.mode = Mode::Plain;
        self.session = None;
        self.send.edge = Dsn(u64::MAX);
        if let Some(first) = self.subflows.first_mut() {
            first.tcb.set_option_reserve(0);
            first.tcb.set_opening_reserve(0);
            first.inbox = None;
            self.outdated.insert(first.id);
        }
        self.note(None, || What::Fallback(reason));
        self.events.push_back(Event::Fallback(reason));
        self.refuse_requests();
    }

    /// Falls back on a connection that has carried data: positions keep step from here on, what
    /// is unacknowledged at data level is freed by subflow acknowledgements.
    pub(super) fn fall_back_live(&mut self, at: usize, reason: FallbackReason) {
        if !self.only_first() {
            return self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
        }
        let subflow = &self.subflows[at];
        let out = Offset::between(self.send.nxt, subflow.tcb.snd_nxt());
        let acked = out.dsn(subflow.tcb.snd_una());
        self.subflows[at].offset_out = out;
        let close = self.send.fin_sent;
        let held = self.subflows[at].inbox.take();
        self.fall_back(reason);
        let offset = self.subflows[at].offset_in;
        for (ssn, data) in held.into_iter().flat_map(|inbox| inbox.into_payload()) {
            self.deliver(at, offset.dsn(ssn), data, usize::MAX);
        }
        if acked > self.send.buffer.una() {
            self.on_data_acked(acked.min(self.send.nxt));
        }
        if close {
            // The DATA_FIN means nothing any more: the FIN takes its place.
            self.send.fin_sent = false;
        }
        self.pending.insert(self.subflows[at].id);
    }

    /// As above, and the peer is told: MP_FAIL at once, the infinite mapping with the next data.
    fn fall_back_and_notify(&mut self, at: usize, reason: FallbackReason, fail: Option<u64>) {
        let session = self.session.take();
        self.fall_back_live(at, reason);
        if self.mode != Mode::Plain || self.subflows.is_empty() {
            return;
        }
        self.session = session;
        if let Some(session) = &mut self.session {
            session.infinite_due = true;
            session.timers = super::timers::Timers::default();
            session.sent.clear();
            session.reinjections.clear();
        }
        // Room for the infinite mapping, until that has left.
        let reserve = self.option_reserve();
        self.subflows[0].tcb.set_option_reserve(reserve);
        if let Some(dsn) = fail {
            self.subflows[at].signal(MptcpOption::Fail(dsn));
        }
    }

    /// A mapping's checksum is wrong: somebody changes the payload. With other subflows, or data
    /// out of order, this one goes (MP_FAIL on its reset); else the connection goes on as plain
    /// TCP and takes the payload as it is.
    pub(super) fn on_bad_checksum(&mut self, at: usize, mapping: &Mapping) {
        let Some(sum) = mapping.checksum else { return };
        let contiguous = mapping.dsn == self.receive.stream.next();
        if !self.only_first() || !contiguous || !self.may_fall_back() {
            self.subflows[at].fail = Some(sum.dsn);
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        self.set_offset_in(at, mapping.dsn, mapping.ssn);
        self.fall_back_and_notify(at, FallbackReason::Checksum, Some(sum.dsn));
    }

    /// MP_FAIL from the peer: our data does not reach it as we sent it. `expected`: RCV.NXT before
    /// the segment that says so, which may bring data too.
    pub(super) fn on_mp_fail(&mut self, at: usize, expected: Ssn) {
        if self.only_first() && self.may_fall_back() {
            // What the stream waits for is what comes next, or what waits for its mapping.
            let waiting = self.subflows[at].inbox.as_ref().and_then(|inbox| inbox.first());
            let ssn = waiting.map_or(expected, |first| first.min(expected));
            let next = self.receive.stream.next();
            let fail = self.session.as_ref().map(|s| s.remote_idsn.wrapping_add(next.0));
            self.set_offset_in(at, next, ssn);
            self.fall_back_and_notify(at, FallbackReason::Checksum, fail);
        }
    }

    /// The peer's infinite mapping: from its position on the stream is plain.
    pub(super) fn on_infinite_mapping(&mut self, at: usize, map: &tabane_wire::Mapping) {
        let near = self.subflows[at].tcb.rcv_nxt();
        let next = self.receive.stream.next();
        let distance = i64::from(map.ssn.wrapping_sub(near.0 as u32) as i32);
        let ssn = near.0.checked_add_signed(distance).map(Ssn);
        let dsn = match &self.session {
            Some(session) => session.peer_position(map.dsn, next),
            None => None,
        };
        let (Some(ssn), Some(dsn)) = (ssn, dsn) else {
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        };
        if !self.only_first() {
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        self.set_offset_in(at, dsn, ssn);
        self.fall_back_live(at, FallbackReason::InfiniteMapping);
    }
}
