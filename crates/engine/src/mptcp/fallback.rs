//! Falling back to plain TCP (RFC 8684 section 3.7). It is final, and no subflow joins
//! afterwards.

use super::Connection;
use super::mapping::Mapping;
use super::session::{Notice, Offset, Protocol};
use super::subflow::reset_reason;
use crate::event::Event;
use crate::record::{CloseReason, FallbackReason, What};
use crate::seq::{Dsn, Ssn};
use crate::tcp::Accepted;
use tabane_wire::{MptcpOption, Segment};

impl Connection {
    /// Whether falling back is possible at all: one subflow, the first, and no other was ever
    /// established, so that subflow and data positions have kept step. An attempt that failed
    /// changes nothing: often it failed for what makes us fall back.
    pub(super) fn may_fall_back(&self) -> bool {
        let in_step = self.protocol.session().is_some_and(|s| s.in_step && s.first_alone);
        self.only_first() && in_step
    }

    /// Something on the way takes options away, or changes data: as plain TCP from here on, if
    /// that is possible, else without this subflow.
    pub(super) fn fall_back_or_reset(&mut self, at: usize, reason: FallbackReason) {
        if self.may_fall_back() {
            return self.fall_back_live(at, reason);
        }
        self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
    }

    /// Falls back before anything was mapped.
    pub(super) fn fall_back(&mut self, reason: FallbackReason) {
        self.protocol = Protocol::Tcp;
        self.send.limit_to(Dsn(u64::MAX));
        if let Some(first) = self.subflows.first_mut() {
            first.tcb.set_option_reserve(0);
            first.tcb.set_spans(false);
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
        let out = Offset::between(self.send.nxt(), subflow.tcb.snd_nxt());
        let acked = out.dsn(subflow.tcb.snd_una());
        self.subflows[at].offset_out = out;
        let held = self.subflows[at].inbox.take();
        self.fall_back(reason);
        let offset = self.subflows[at].offset_in;
        for (ssn, data) in held.into_iter().flat_map(|inbox| inbox.into_payload()) {
            self.deliver(at, offset.dsn(ssn), data, usize::MAX);
        }
        if acked > self.send.una() {
            self.on_data_acked(acked.min(self.send.nxt()));
        }
        self.send.unsend_fin();
        self.pending.insert(self.subflows[at].id);
    }

    /// As above, and the peer is told: MP_FAIL at once, the infinite mapping with the next data.
    fn fall_back_and_notify(&mut self, at: usize, reason: FallbackReason, fail: Option<u64>) {
        let notice = self.protocol.session().map(Notice::new);
        self.fall_back_live(at, reason);
        let (Protocol::Tcp, Some(notice)) = (&self.protocol, notice) else { return };
        self.protocol = Protocol::Fallback(Box::new(notice));
        // Room for the infinite mapping, until that has left.
        self.subflows[at].tcb.set_option_reserve(self.protocol.data_options());
        if let Some(dsn) = fail {
            self.subflows[at].signal(MptcpOption::Fail(dsn));
        }
    }

    /// What came with the MP_FAIL that has just made us fall back: the DATA_ACK still counts, and
    /// an infinite mapping says exactly where the plain stream, whose first the payload is, begins.
    pub(super) fn take_with_fail(&mut self, at: usize, segment: &Segment, accepted: &mut Accepted) {
        let (una, next) = (self.send.una(), self.receive.next());
        if let Protocol::Fallback(notice) = &mut self.protocol
            && let Some(dss) = &segment.options.dss
        {
            let acked = notice.on_dss(dss, una);
            if let Some(map) = dss.mapping.as_ref().filter(|map| map.length == 0)
                && let Some(ssn) = unwrapped(map.ssn, self.subflows[at].tcb.rcv_nxt())
                && let Some(dsn) = notice.peer_position(map.dsn, next)
            {
                let begins = accepted.payload.as_ref().map_or(ssn, |(begins, _)| *begins);
                if Offset::between(dsn, ssn).dsn(begins) <= next {
                    self.subflows[at].offset_in = Offset::between(dsn, ssn);
                }
            }
            self.subflows[at].tcb.set_option_reserve(self.protocol.data_options());
            if let Some(to) = acked {
                self.on_data_ack(to, accepted.window);
            }
        }
        self.take_first_plain(at, segment, accepted);
    }

    /// The payload and the end in the segment with which the connection has fallen back.
    pub(super) fn take_first_plain(
        &mut self,
        at: usize,
        segment: &Segment,
        accepted: &mut Accepted,
    ) {
        if let Some((ssn, payload)) = accepted.payload.take() {
            self.on_data_arrival(at, segment);
            let dsn = self.subflows[at].offset_in.dsn(ssn);
            self.deliver(at, dsn, payload, usize::MAX);
        }
        if accepted.fin && self.receive.end_here() {
            self.on_peer_finished();
        }
    }

    /// A mapping's checksum is wrong: somebody changes the payload. With other subflows, or data
    /// out of order, this one goes (MP_FAIL on its reset); else the connection goes on as plain
    /// TCP and takes the payload as it is.
    pub(super) fn on_bad_checksum(&mut self, at: usize, mapping: &Mapping) {
        let Some(sum) = mapping.checksum else { return };
        let contiguous = mapping.dsn == self.receive.next();
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
        if !self.only_first() {
            // With several subflows it comes beside a reset, or means nothing.
            return;
        }
        if !self.may_fall_back() {
            return self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
        }
        let ssn = self.waits_for(at, expected);
        let next = self.receive.next();
        let fail = self.protocol.session().map(|s| s.agreed.remote_number(next));
        self.set_offset_in(at, next, ssn);
        self.fall_back_and_notify(at, FallbackReason::Checksum, fail);
    }

    /// What the stream waits for on the subflow: what comes next, or what waits for its mapping.
    fn waits_for(&self, at: usize, expected: Ssn) -> Ssn {
        let waiting = self.subflows[at].inbox.as_ref().and_then(|inbox| inbox.first());
        waiting.map_or(expected, |first| first.min(expected))
    }

    /// The peer's infinite mapping: from its position on the stream is plain. `expected` as in
    /// `on_mp_fail`.
    pub(super) fn on_infinite_mapping(
        &mut self,
        at: usize,
        map: &tabane_wire::Mapping,
        expected: Ssn,
    ) {
        let ssn = unwrapped(map.ssn, self.subflows[at].tcb.rcv_nxt());
        let next = self.receive.next();
        let dsn = self.protocol.session().and_then(|s| s.agreed.peer_position(map.dsn, next));
        let (Some(ssn), Some(dsn)) = (ssn, dsn) else {
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        };
        // What comes next must be what the stream waits for: no mapping will fill a gap.
        let gap = Offset::between(dsn, ssn).dsn(self.waits_for(at, expected)) > next;
        if gap || !self.may_fall_back() {
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        self.set_offset_in(at, dsn, ssn);
        self.fall_back_live(at, FallbackReason::InfiniteMapping);
    }
}

/// The subflow position near `near` that a number on the wire means.
#[inline]
pub(super) fn unwrapped(ssn: u32, near: Ssn) -> Option<Ssn> {
    let distance = i64::from(ssn.wrapping_sub(near.0 as u32) as i32);
    near.0.checked_add_signed(distance).map(Ssn)
}
