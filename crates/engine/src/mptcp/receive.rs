//! Arriving segments (RFC 8684 section 3.3): each goes to its subflow, its MPTCP options are read,
//! and its payload is mapped to data positions and reassembled.

use super::fallback::unwrapped;
use super::keys::acceptable;
use super::mapping::{Delivery, Mapping, Sum};
use super::session::{MappingRead, Offset, Protocol};
use super::subflow::{Join, Subflow, reset_reason};
use super::timers::Timer;
use super::{Connection, Role};
use crate::event::Event;
use crate::record::{
    CloseReason, ConnectionChange, DropReason, FallbackReason, ReinjectReason, What,
};
use crate::seq::{Dsn, Ssn};
use crate::tcp::Accepted;
use crate::time::Instant;
use crate::view::{PathId, SubflowId};
use bytes::Bytes;
use tabane_wire::{Dss, Flags, MptcpOption, Segment};

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
        if let Protocol::Opening(_) = self.protocol
            && !self.admits(at, segment)
        {
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
        match accepted.dropped {
            None => {
                self.on_alive(at);
                self.hasten_fin();
            }
            // Segments before it were lost, or its number is not exact for another reason: nobody
            // but the peer knows our key (RFC 8684 section 3.5).
            Some(_) if segment.flags.contains(Flags::RST) => self.take_ending_reset(segment),
            Some(_) => {}
        }
        if accepted.established {
            self.on_established(at, segment);
        }
        if accepted.dropped.is_none() && self.index(id) == Some(at) {
            match self.protocol {
                Protocol::Mptcp(_) => self.take_mptcp(at, segment, &mut accepted, expected),
                Protocol::Opening(_) => {}
                Protocol::Tcp | Protocol::Fallback(_) => {
                    self.take_plain(at, segment, &mut accepted);
                }
            }
        }
        if let Some(at) = self.index(id) {
            self.take_ending(at, segment, &accepted);
        }
    }

    fn note_arrival(&mut self, at: usize, path: PathId, segment: &Segment, accepted: &Accepted) {
        self.drain_log(at);
        if accepted.dropped.is_some() || !self.config.segment_records {
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
            self.send.on_window(window);
        }
        if let Some(acked) = accepted.acked_to {
            let offset = self.subflows[at].offset_out;
            let to = offset.dsn(acked).min(self.send.nxt());
            if to > self.send.una() {
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
        if accepted.fin && self.receive.end_here() {
            self.on_peer_finished();
        }
    }

    fn take_mptcp(
        &mut self,
        mut at: usize,
        segment: &Segment,
        accepted: &mut Accepted,
        expected: Ssn,
    ) {
        if self.subflows[at].join != Join::First && !self.join_progress(at, segment) {
            if accepted.payload.is_some() {
                self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
            }
            return;
        }
        if segment.options.mptcp.is_some() {
            let Some(here) = self.take_options(at, segment, expected) else { return };
            at = here;
            if !self.is_mptcp() {
                return self.take_with_fail(at, segment, accepted);
            }
        }
        let mut mapping = None;
        match &segment.options.dss {
            Some(dss) => {
                if !self.take_dss(at, dss, accepted, &mut mapping, expected) {
                    return;
                }
            }
            None => {
                self.take_opening_window(at, accepted);
                mapping = self.capable_mapping(at, segment);
                if mapping.is_none() && !self.without_dss(at, segment, accepted, expected) {
                    return;
                }
            }
        }
        if !self.is_mptcp() {
            return self.take_first_plain(at, segment, accepted);
        }
        if let Some((ssn, payload)) = accepted.payload.take() {
            self.on_data_arrival(at, segment);
            self.take_payload(at, ssn, payload, mapping, expected);
        }
    }

    /// Options beside DSS, up to one that closes the subflow or makes the connection fall back.
    /// Where the subflow is then: REMOVE_ADDR may have closed others before it.
    fn take_options(&mut self, mut at: usize, segment: &Segment, expected: Ssn) -> Option<usize> {
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
            at = self.index(id)?;
            if !self.is_mptcp() {
                break;
            }
        }
        Some(at)
    }

    /// The DSS: acknowledgement, window, mapping, DATA_FIN. Whether the payload goes further.
    #[inline]
    fn take_dss(
        &mut self,
        at: usize,
        dss: &Dss,
        accepted: &Accepted,
        mapping: &mut Option<Mapping>,
        expected: Ssn,
    ) -> bool {
        let (una, next) = (self.send.una(), self.receive.next());
        let Some(session) = self.protocol.session_mut() else { return false };
        let fully = session.fully;
        let read = session.read_dss(dss, una, next);
        if !fully {
            self.on_fully_established();
        }
        let subflow = &mut self.subflows[at];
        (subflow.dss_seen, subflow.bare_acks) = (true, 0);
        if let Some(to) = read.acked {
            self.on_data_ack(to, accepted.window);
        }
        let Some(map) = &dss.mapping else { return true };
        if read.lengthens {
            self.use_long_numbers();
        }
        let (dsn, number) = match read.mapping {
            MappingRead::At(dsn, number) => (dsn, number),
            MappingRead::TooFar => {
                self.note_drop(at, DropReason::BadMapping);
                return true;
            }
            MappingRead::Infinite => {
                self.on_infinite_mapping(at, map, expected);
                return !self.is_mptcp();
            }
            MappingRead::OtherChecksum => {
                self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
                return false;
            }
        };
        let len = u64::from(map.length) - u64::from(dss.data_fin);
        if dss.data_fin {
            self.on_data_fin(at, dsn + len);
        }
        if len > 0 {
            let near = accepted.payload.as_ref().map_or(self.subflows[at].tcb.rcv_nxt(), |p| p.0);
            *mapping = absolute(map, (dsn, number), len, near);
        }
        true
    }

    /// A DATA_ACK of everything before `to`, with the window that came with it.
    pub(super) fn on_data_ack(&mut self, to: Dsn, window: Option<u64>) {
        if !self.send.has_sent(to) {
            return;
        }
        if let Some(window) = window {
            self.send.on_window_from(to, window);
        }
        if to > self.send.una() {
            self.on_data_acked(to.min(self.send.nxt()));
            if self.send.is_fin(to) {
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
        Some(self.protocol.session()?.agreed.first_mapping(length, checksum))
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
        let Subflow { inbox, tcb, .. } = &mut self.subflows[at];
        let inbox = inbox.get_or_insert_default();
        let has = |from, to| tcb.has_received(from, to);
        if mapping.is_some_and(|m| !inbox.add_mapping(m, has)) {
            self.note_drop(at, DropReason::BadMapping);
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        if let Some(dsn) = inbox.position(ssn, end) {
            inbox.retire(tcb.rcv_nxt());
            return self.deliver(at, dsn, payload, limit);
        }
        let mut out = self.receive.lend_passed();
        inbox.add_payload(ssn, payload, self.receive.buffer(), &mut out);
        self.let_through(at, out.drain(..), limit);
        self.receive.return_passed(out);
    }

    fn let_through(&mut self, at: usize, deliveries: impl Iterator<Item = Delivery>, limit: usize) {
        let id = self.subflows[at].id;
        for delivery in deliveries {
            match delivery {
                Delivery::Data(dsn, data) => self.deliver(at, dsn, data, limit),
                // A mapping after one with which the connection has fallen back: its data has been
                // taken with what was held.
                Delivery::BadChecksum(_) if !self.is_mptcp() => {}
                Delivery::BadChecksum(mapping) => {
                    self.note_drop(at, DropReason::DssChecksum);
                    self.on_bad_checksum(at, &mapping);
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
        if self.receive.is_beyond(dsn, data.len() as u64) {
            return self.note_drop(at, DropReason::OutOfWindow);
        }
        let recording = self.log.is_on().then_some(self.now);
        let taken = self.receive.take(dsn, data, limit, recording);
        self.subflows[at].delivered += taken.new;
        if let Some(delay) = taken.filled_gap {
            self.note(None, || What::GapFilled { delay });
        }
        if taken.refused {
            self.note_drop(at, DropReason::Limit("out-of-order ranges"));
        }
        if taken.readable {
            self.events.push_back(Event::Readable);
        }
        if taken.finished {
            self.on_peer_finished();
        }
    }

    /// The stream of the peer has come to its end.
    pub(super) fn on_peer_finished(&mut self) {
        self.note(None, || What::Connection(ConnectionChange::PeerFinished));
        self.events.push_back(Event::PeerFinished);
    }

    /// Everything before `to` has been acknowledged at data level.
    #[inline]
    pub(super) fn on_data_acked(&mut self, to: Dsn) {
        let acked = self.send.acknowledge(to);
        if let Some(session) = self.protocol.session_mut() {
            let mss = || self.subflows.first().map_or(1, |s| s.tcb.mss());
            session.carried.acknowledge(to, acked, mss);
            session.timers.stop(Timer::Data);
            if to < self.send.nxt() {
                session.arm_data(self.now, &self.subflows);
            }
        }
        if self.send.becomes_writable(self.config.tcp.send_buffer) {
            self.events.push_back(Event::Writable);
        }
    }

    /// Before the first DATA_ACK the windows of the handshake count, that of the first data beside
    /// MP_CAPABLE among them: the third packet may be lost, and this takes its place.
    fn take_opening_window(&mut self, at: usize, accepted: &Accepted) {
        if let Some(window) = accepted.window
            && self.subflows[at].join == Join::First
            && self.protocol.session().is_some_and(|s| !s.data_acked)
        {
            self.send.on_window_from(Dsn(1), window);
        }
    }

    /// A segment that should have had a DSS, and has none (RFC 8684 section 3.7). Whether its
    /// payload goes further.
    fn without_dss(
        &mut self,
        at: usize,
        segment: &Segment,
        accepted: &Accepted,
        expected: Ssn,
    ) -> bool {
        let first = self.subflows[at].join == Join::First;
        if segment.flags.contains(Flags::SYN) {
            return true;
        }
        if let Some((ssn, payload)) = &accepted.payload
            && (*ssn > expected || *ssn + payload.len() as u64 <= expected)
        {
            // What was to bring its mapping may have been lost before it, or was used up.
            return true;
        }
        let acks_data = accepted.acked_to.is_some_and(|to| to > Ssn(1));
        let dss_seen = self.subflows[at].dss_seen;
        let data_acked = self.protocol.session().is_some_and(|s| s.data_acked);
        let payload = accepted.payload.is_some();
        // An option that left no space for the DATA_ACK shows that options do pass.
        let bare_ack = acks_data && !data_acked && !segment.options.has_mptcp();
        let bare_end = accepted.fin && !segment.options.has_mptcp();
        if first && (bare_ack || (payload || bare_end) && !dss_seen) && self.only_first() {
            let stripped = payload || bare_end;
            return self.without_options(at, stripped);
        }
        if segment.options.has_mptcp() {
            return true;
        }
        if !first && acks_data && !self.subflows[at].dss_seen {
            self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
            return false;
        }
        // What a mapping from before covers has no DSS, and with it no DATA_ACK.
        let covered = self.subflows[at].inbox.as_ref().is_some_and(|i| i.covers(expected));
        let bare = segment.payload.is_empty() || payload && !covered;
        self.subflows[at].bare_acks += u32::from(acks_data && bare);
        let stripped = payload && !covered;
        if stripped || self.subflows[at].bare_acks >= STRIPPED_AFTER {
            return self.without_options(at, stripped);
        }
        true
    }

    /// Options of the subflow do not pass any more: those of data (`stripped`), or of
    /// acknowledgements. Whether the payload goes further.
    fn without_options(&mut self, at: usize, stripped: bool) -> bool {
        let id = self.subflows[at].id;
        let reason =
            if stripped { FallbackReason::OptionsStripped } else { FallbackReason::NoDataAck };
        self.fall_back_or_reset(at, reason);
        self.index(id).is_some()
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

/// The mapping with its subflow position unwrapped. `start`: position of its first byte, and the
/// same as 64-bit number.
#[inline]
fn absolute(map: &tabane_wire::Mapping, start: (Dsn, u64), len: u64, near: Ssn) -> Option<Mapping> {
    let ssn = unwrapped(map.ssn, near)?;
    let sum = |value| Sum { value, dsn: start.1, ssn: map.ssn, length: map.length };
    Some(Mapping { ssn, len, dsn: start.0, checksum: map.checksum.map(sum) })
}

/// Acknowledgements of data in a row without any MPTCP option that show that these are stripped
/// on the way (or that the peer has fallen back).
const STRIPPED_AFTER: u32 = 3;
