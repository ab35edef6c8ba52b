//! Arriving segments (RFC 8684 section 3.3): each goes to its subflow, its MPTCP options are read,
//! and its payload is mapped to data positions and reassembled.

use super::handshake::acceptable;
use super::mapping::{Delivery, Mapping, Sum};
use super::session::Offset;
use super::subflow::{Join, reset_reason};
use super::{Connection, Mode, Role};
use crate::event::Event;
use crate::record::{
    CloseReason, ConnectionChange, DropReason, FallbackReason, ReinjectReason, What,
};
use crate::seq::{Dsn, Ssn};
use crate::tcp::Accepted;
use crate::time::Instant;
use crate::view::{PathId, SubflowId};
use bytes::Bytes;
use tabane_wire::{DataNumber, Dss, Flags, MptcpOption, Segment};

impl Connection {
    /// Takes a segment of one of its subflows.
    pub(crate) fn on_segment(
        &mut self,
        now: Instant,
        path: PathId,
        id: SubflowId,
        segment: &Segment,
    ) {
        self.now = now;
        let Some(at) = self.index(id) else { return };
        if self.session.is_some() && !self.admits(at, segment) {
            return;
        }
        if self.hedged_by_peer(at, path, segment) {
            return;
        }
        self.siblings();
        let expected = self.subflows[at].tcb.rcv_nxt();
        if self.config.paths.len() > 1 {
            self.set_arrival_path(at, path, segment);
        }
        let siblings = self.egress.as_ref().map_or(&self.views[..], |w| w.siblings(&self.views));
        let undone = self.subflows[at].tcb.stats().undone;
        let mut accepted = self.subflows[at].tcb.on_segment(now, segment, siblings);
        if self.subflows[at].tcb.stats().undone != undone {
            self.recall(at, ReinjectReason::Timeout);
        }
        self.pending.insert(id);
        self.outdated.insert(id);
        if self.log.is_on() {
            self.note_arrival(at, path, segment, &accepted);
        }
        if accepted.dropped.is_none() {
            self.on_alive(at);
        }
        if accepted.established {
            self.on_established(at, segment);
        }
        if accepted.dropped.is_none() && self.index(id) == Some(at) {
            match self.mode {
                Mode::Plain => self.take_plain(at, segment, &mut accepted),
                Mode::Opening => {}
                Mode::Mptcp => self.take_mptcp(at, segment, &mut accepted, expected),
            }
        }
        if let Some(at) = self.index(id) {
            self.take_ending(at, segment, &accepted);
        }
    }

    fn note_arrival(&mut self, at: usize, path: PathId, segment: &Segment, accepted: &Accepted) {
        self.drain_log(at);
        if accepted.dropped.is_some() {
            return;
        }
        let subflow = &self.subflows[at];
        let ssn = accepted.payload.as_ref().map(|p| p.0);
        let ssn = ssn.or_else(|| subflow.tcb.position(segment.seq)).unwrap_or_default();
        let (len, duplicate) = (segment.payload.len() as u32, accepted.duplicate);
        self.note(Some(subflow.id), || What::Received { path, ssn, len, duplicate });
    }

    /// Plain TCP: positions coincide (or, after a fallback, differ by a constant).
    #[inline]
    fn take_plain(&mut self, at: usize, segment: &Segment, accepted: &mut Accepted) {
        if let Some(window) = accepted.window {
            self.send.window_max = self.send.window_max.max(window);
        }
        if let Some(acked) = accepted.acked_to {
            let offset = self.subflows[at].offset_out;
            let to = offset.dsn(acked).min(self.send.nxt);
            if to > self.send.buffer.una() {
                self.on_data_acked(to);
            }
        }
        if let Some((ssn, payload)) = accepted.payload.take() {
            self.on_data_arrival(at, segment);
            let dsn = self.subflows[at].offset_in.dsn(ssn);
            self.deliver(at, dsn, payload, usize::MAX);
        }
        if accepted.fin_acked {
            self.on_fin_acked();
        }
        if accepted.fin {
            self.receive.fin = Some(self.receive.stream.next());
            self.check_peer_finished();
        }
    }

    fn take_mptcp(&mut self, at: usize, segment: &Segment, accepted: &mut Accepted, expected: Ssn) {
        if self.subflows[at].join != Join::First && !self.join_progress(at, segment) {
            if accepted.payload.is_some() {
                self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
            }
            return;
        }
        if segment.options.mptcp.is_some() && !self.take_options(at, segment, expected) {
            return;
        }
        let mut mapping = None;
        match &segment.options.dss {
            Some(dss) => {
                if !self.take_dss(at, dss, accepted, &mut mapping) {
                    return;
                }
            }
            None => {
                self.take_opening_window(at, accepted);
                mapping = self.capable_mapping(at, segment);
                if mapping.is_none() && !self.without_dss(at, segment, accepted) {
                    return;
                }
            }
        }
        if let Some((ssn, payload)) = accepted.payload.take() {
            self.on_data_arrival(at, segment);
            if self.mode == Mode::Plain {
                // It has just fallen back: this is the first of the plain stream.
                let dsn = self.subflows[at].offset_in.dsn(ssn);
                self.deliver(at, dsn, payload, usize::MAX);
            } else {
                self.take_payload(at, ssn, payload, mapping, expected);
            }
        }
    }

    /// Options beside DSS. Whether the segment goes further.
    fn take_options(&mut self, at: usize, segment: &Segment, expected: Ssn) -> bool {
        let id = self.subflows[at].id;
        for option in segment.options.mptcp() {
            match option {
                MptcpOption::AddAddr(add) => self.on_add_addr(at, add),
                MptcpOption::RemoveAddr(ids) => self.on_remove_addr(ids),
                MptcpOption::Prio { backup } => self.on_prio(at, *backup),
                MptcpOption::Fail(_) => self.on_mp_fail(at, expected),
                MptcpOption::FastClose(key) => self.on_fast_close(*key),
                // The third packet again: our DATA_ACK of it was lost.
                MptcpOption::Capable(c) if c.data.is_none() => self.request_ack(at),
                _ => {}
            }
            if self.index(id) != Some(at) || self.mode != Mode::Mptcp {
                // A fallback keeps the segment, a closed subflow does not.
                return self.index(id) == Some(at);
            }
        }
        true
    }

    /// The DSS: acknowledgement, window, mapping, DATA_FIN. Whether the payload goes further.
    #[inline]
    fn take_dss(
        &mut self,
        at: usize,
        dss: &Dss,
        accepted: &Accepted,
        mapping: &mut Option<Mapping>,
    ) -> bool {
        let Some(session) = &mut self.session else { return false };
        if !session.fully {
            self.on_fully_established();
        }
        let subflow = &mut self.subflows[at];
        (subflow.dss_seen, subflow.bare_acks) = (true, 0);
        if let Some(number) = dss.data_ack {
            self.take_data_ack(number, accepted);
        }
        let Some(map) = &dss.mapping else { return true };
        if matches!(map.dsn, DataNumber::Long(_)) {
            self.use_long_numbers();
        }
        let Some(session) = &mut self.session else { return false };
        if map.length == 0 {
            self.on_infinite_mapping(at, map);
            return self.mode == Mode::Plain;
        }
        if map.checksum.is_some() != session.checksum {
            self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
            return false;
        }
        let Some(dsn) = session.peer_position(map.dsn, self.receive.stream.next()) else {
            self.note_drop(at, DropReason::BadMapping);
            return true;
        };
        let len = u64::from(map.length) - u64::from(dss.data_fin);
        if dss.data_fin {
            self.on_data_fin(at, dsn + len);
        }
        if len > 0 {
            let near = accepted.payload.as_ref().map_or(self.subflows[at].tcb.rcv_nxt(), |p| p.0);
            *mapping = self.absolute(map, dsn, len, near);
        }
        true
    }

    /// The mapping with its subflow position unwrapped.
    #[inline]
    fn absolute(
        &self,
        map: &tabane_wire::Mapping,
        dsn: Dsn,
        len: u64,
        near: Ssn,
    ) -> Option<Mapping> {
        let distance = i64::from(map.ssn.wrapping_sub(near.0 as u32) as i32);
        let ssn = Ssn(near.0.checked_add_signed(distance)?);
        let session = self.session.as_ref()?;
        let number = session.remote_idsn.wrapping_add(dsn.0);
        let sum = |value| Sum { value, dsn: number, ssn: map.ssn, length: map.length };
        Some(Mapping { ssn, len, dsn, checksum: map.checksum.map(sum) })
    }

    fn take_data_ack(&mut self, number: DataNumber, accepted: &Accepted) {
        let una = self.send.buffer.una();
        let Some(session) = &mut self.session else { return };
        session.data_acked = true;
        let Some(to) = session.own_position(number, una) else { return };
        let last = self.send.nxt + u64::from(self.send.fin_sent);
        if to > last {
            return;
        }
        if let Some(window) = accepted.window {
            self.send.window_max = self.send.window_max.max(window);
            self.send.edge = self.send.edge.max(to + window);
        }
        if to > una {
            self.on_data_acked(to.min(self.send.nxt));
            if self.send.fin_sent && to > self.fin_position() {
                self.on_fin_acked();
            }
        }
    }

    /// MP_CAPABLE that maps the first data (length 22 or 24).
    fn capable_mapping(&mut self, at: usize, segment: &Segment) -> Option<Mapping> {
        if self.subflows[at].join != Join::First || self.role == Role::Client {
            return None;
        }
        let (length, checksum) = segment.options.mptcp().iter().find_map(|o| match o {
            MptcpOption::Capable(capable) if acceptable(capable) => capable.data,
            _ => None,
        })?;
        if length == 0 {
            return None;
        }
        let session = self.session.as_ref()?;
        let dsn = session.remote_idsn.wrapping_add(1);
        let sum = |value| Sum { value, dsn, ssn: 1, length };
        let checksum = checksum.filter(|_| session.checksum).map(sum);
        Some(Mapping { ssn: Ssn(1), len: u64::from(length), dsn: Dsn(1), checksum })
    }

    /// Payload with or without a mapping of its own.
    #[inline]
    fn take_payload(
        &mut self,
        at: usize,
        ssn: Ssn,
        payload: Bytes,
        mapping: Option<Mapping>,
        expected: Ssn,
    ) {
        let end = ssn + payload.len() as u64;
        let limit = self.config.limits.out_of_order_ranges;
        if let Some(m) = &mapping
            && m.checksum.is_none()
            && m.ssn <= ssn
            && end <= m.end()
        {
            let idle = self.subflows[at].inbox.as_ref().is_none_or(|i| i.is_idle());
            if idle && m.end() == end {
                let dsn = m.dsn + (ssn - m.ssn);
                self.deliver(at, dsn, payload, limit);
                return;
            }
        }
        if mapping.is_none() && end <= expected {
            // A repeat of what has been dealt with.
            return;
        }
        let inbox = self.subflows[at].inbox.get_or_insert_default();
        if mapping.is_some_and(|m| !inbox.add_mapping(m)) {
            self.note_drop(at, DropReason::BadMapping);
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        let mut out = std::mem::take(&mut self.receive.passed);
        inbox.add_payload(ssn, payload, self.receive.buffer, &mut out);
        self.let_through(at, out.drain(..), limit);
        self.receive.passed = out;
    }

    fn let_through(&mut self, at: usize, deliveries: impl Iterator<Item = Delivery>, limit: usize) {
        let id = self.subflows[at].id;
        for delivery in deliveries {
            match delivery {
                Delivery::Data(dsn, data) => self.deliver(at, dsn, data, limit),
                Delivery::BadChecksum(mapping) => {
                    self.note_drop(at, DropReason::DssChecksum);
                    return self.on_bad_checksum(at, &mapping);
                }
                Delivery::Overflow => {
                    self.note_drop(at, DropReason::Unmapped);
                    return self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
                }
            }
            if self.index(id) != Some(at) {
                return;
            }
        }
        let arrived = self.subflows[at].tcb.rcv_nxt();
        if let Some(inbox) = &mut self.subflows[at].inbox {
            inbox.retire(arrived);
        }
    }

    /// Data at its position.
    #[inline]
    pub(super) fn deliver(&mut self, at: usize, dsn: Dsn, data: Bytes, limit: usize) {
        let end = dsn + data.len() as u64;
        // The advertised window is rounded up to its scale, at most 2^14.
        let beyond = end > self.receive.edge + (1 << 14)
            || self.receive.fin.is_some_and(|fin| end > fin && dsn >= self.receive.stream.next());
        if beyond && self.is_mptcp() {
            return self.note_drop(at, DropReason::OutOfWindow);
        }
        if self.receive.finished {
            self.receive.duplicate += data.len() as u64;
            return;
        }
        let held = self.receive.stream.held();
        let inserted = self.receive.stream.insert(dsn, data, limit);
        if self.log.is_on() {
            self.note_gap(held);
        }
        self.receive.duplicate += inserted.duplicate;
        self.subflows[at].delivered += inserted.new;
        if inserted.refused > 0 {
            self.note_drop(at, DropReason::Limit("out-of-order ranges"));
        }
        if inserted.in_order > 0 {
            self.receive.received += inserted.in_order;
            if !self.receive.readable_reported {
                self.receive.readable_reported = true;
                self.events.push_back(Event::Readable);
            }
            if self.receive.fin.is_some() {
                self.check_peer_finished();
            }
        }
    }

    /// Records how long the first gap has held up data, if it is filled; `held` were out of order
    /// before.
    fn note_gap(&mut self, held: u64) {
        let now_held = self.receive.stream.held();
        if now_held < held
            && let Some(since) = self.receive.gap_since.take()
        {
            let delay = self.now.saturating_since(since);
            self.note(None, || What::GapFilled { delay });
        }
        if now_held > 0 {
            self.receive.gap_since.get_or_insert(self.now);
        }
    }

    /// Whether the stream of the peer has come to its end.
    pub(super) fn check_peer_finished(&mut self) {
        let next = self.receive.stream.next();
        if self.receive.finished || self.receive.fin != Some(next) {
            return;
        }
        self.receive.finished = true;
        self.receive.stream.advance_over_fin();
        self.receive.edge = self.receive.edge.max(self.receive.stream.next());
        self.receive.stream.drop_held();
        self.note(None, || What::Connection(ConnectionChange::PeerFinished));
        self.events.push_back(Event::PeerFinished);
    }

    /// Everything before `to` has been acknowledged at data level.
    #[inline]
    pub(super) fn on_data_acked(&mut self, to: Dsn) {
        let acked = to - self.send.buffer.una();
        self.send.acked += acked;
        self.send.buffer.acknowledge(to);
        if let Some(session) = self.session.as_mut().filter(|_| self.mode == Mode::Mptcp) {
            while session.sent.front().is_some_and(|s| s.dsn + u64::from(s.len) <= to) {
                session.sent.pop_front();
            }
            session.data_backoff = 0;
            if session.data_recovery.is_some() {
                let mss = self.subflows.first().map_or(1, |s| s.tcb.mss());
                session.go_on_recovering(to, acked, mss);
            }
            session.timers.stop(super::timers::Timer::Data);
            if self.outstanding() {
                self.arm_data_timer();
            }
        }
        let limit = self.send_limit();
        if self.send.short_write && self.send.buffer.len() <= limit - limit / 4 {
            self.send.short_write = false;
            self.events.push_back(Event::Writable);
        }
    }

    /// Before the first DATA_ACK the windows of the handshake count, that of the first data beside
    /// MP_CAPABLE among them: the third packet may be lost, and this takes its place.
    fn take_opening_window(&mut self, at: usize, accepted: &Accepted) {
        if let Some(window) = accepted.window
            && self.subflows[at].join == Join::First
            && self.session.as_ref().is_some_and(|s| !s.data_acked)
        {
            self.send.window_max = self.send.window_max.max(window);
            self.send.edge = self.send.edge.max(Dsn(1) + window);
        }
    }

    /// A segment that should have had a DSS, and has none (RFC 8684 section 3.7). Whether its
    /// payload goes further.
    fn without_dss(&mut self, at: usize, segment: &Segment, accepted: &Accepted) -> bool {
        let first = self.subflows[at].join == Join::First;
        if segment.flags.contains(Flags::SYN) {
            return true;
        }
        let acks_data = accepted.acked_to.is_some_and(|to| to > Ssn(1));
        let dss_seen = self.subflows[at].dss_seen;
        let data_acked = self.session.as_ref().is_some_and(|s| s.data_acked);
        let payload = accepted.payload.is_some();
        // An option that left no space for the DATA_ACK shows that options do pass.
        let bare_ack = acks_data && !data_acked && !segment.options.has_mptcp();
        if first && (bare_ack || payload && !dss_seen) && self.only_first() {
            let reason =
                if payload { FallbackReason::OptionsStripped } else { FallbackReason::NoDataAck };
            self.fall_back_live(at, reason);
            return true;
        }
        if segment.options.has_mptcp() {
            return true;
        }
        if !first && acks_data && !self.subflows[at].dss_seen {
            self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
            return false;
        }
        self.subflows[at].bare_acks += u32::from(acks_data);
        let covered = self.subflows[at].inbox.as_ref().is_some_and(|i| !i.is_idle());
        if self.may_fall_back() {
            if payload && !covered {
                self.fall_back_live(at, FallbackReason::OptionsStripped);
            } else if self.subflows[at].bare_acks >= STRIPPED_AFTER {
                self.fall_back_live(at, FallbackReason::NoDataAck);
            }
        }
        true
    }

    /// A drop that the TCB knows nothing of.
    pub(super) fn note_drop(&mut self, at: usize, reason: DropReason) {
        let id = self.subflows[at].id;
        self.note(Some(id), || What::Dropped { reason });
    }

    /// Sets the constant offset from subflow to data positions for what is received.
    pub(super) fn set_offset_in(&mut self, at: usize, dsn: Dsn, ssn: Ssn) {
        self.subflows[at].offset_in = Offset::between(dsn, ssn);
    }
}

/// Acknowledgements of data in a row without any MPTCP option that show that these are stripped
/// on the way (or that the peer has fallen back).
const STRIPPED_AFTER: u32 = 3;
