//! Endings (RFC 8684 sections 3.3.3, 3.5, 3.6): DATA_FIN, subflow FINs and resets, MP_FASTCLOSE,
//! and when the connection is over.

use super::Connection;
use super::session::{ClosedTuple, Protocol};
use super::subflow::{Join, Subflow, reset_reason};
use super::timers::Timer;
use crate::endpoint::Departure;
use crate::event::Event;
use crate::record::{CloseReason, ConnectionChange, ReinjectReason, SubflowChange, What};
use crate::seq::Dsn;
use crate::tcp::{Accepted, Kind, State};
use crate::time::Duration;
use crate::view::PathSet;
use tabane_wire::mptcp::MpTcpRst;
use tabane_wire::{MptcpOption, Segment};

impl Connection {
    /// The DATA_FIN alone, on the best subflow at hand.
    pub(super) fn send_data_fin(&mut self) -> bool {
        let usable = |potentially_failed: bool| {
            self.subflows
                .iter()
                .position(|s| s.usable() && s.potentially_failed() == potentially_failed)
        };
        let Some(at) = usable(false).or_else(|| usable(true)) else { return false };
        let Some(session) = self.protocol.session_mut() else { return false };
        session.fin_due = true;
        if !session.timers.is_set(Timer::Fin) {
            session.arm_fin(self.now, &self.subflows);
        }
        self.request_ack(at);
        true
    }

    /// The peer's DATA_FIN is at `fin`.
    pub(super) fn on_data_fin(&mut self, at: usize, fin: Dsn) {
        if self.receive.end_at(fin) {
            self.on_peer_finished();
        }
        // Of a repeat, too: our DATA_ACK of it was lost.
        self.request_ack(at);
    }

    /// Our DATA_FIN or FIN has been acknowledged.
    pub(super) fn on_fin_acked(&mut self) {
        if let Some(session) = self.protocol.session_mut() {
            session.on_fin_acked();
        }
        if self.send.on_fin_acked() {
            self.events.push_back(Event::Flushed);
        }
    }

    /// What a segment says of the end of its subflow or of the stream.
    pub(super) fn take_ending(&mut self, at: usize, segment: &Segment, accepted: &Accepted) {
        if accepted.fin_acked {
            self.farewell_heard();
        }
        let id = self.subflows[at].id;
        if let Some(reason) = accepted.closed {
            let reason = match reason {
                CloseReason::Reset(_) => self.reset_cause(segment),
                other => other,
            };
            self.on_subflow_closed(at, reason);
        } else if accepted.fin && self.is_mptcp() {
            self.on_subflow_fin(at);
        }
        // After the end of a subflow, too: its last ACK may have brought the DATA_ACK of our end.
        self.check_stream_over();
        if let Some(at) = self.index(id)
            && self.subflows[at].tcb.state() == State::Closed
        {
            let reason = self.subflows[at].tcb.close_reason().unwrap_or(CloseReason::Finished);
            self.on_subflow_closed(at, reason);
        }
    }

    /// A reset that the subflow does not take: with our key in MP_FASTCLOSE it ends all the same.
    pub(super) fn take_ending_reset(&mut self, segment: &Segment) {
        if self.reset_cause(segment) == CloseReason::FastClose {
            self.end_by_peer(CloseReason::FastClose);
        }
    }

    fn reset_cause(&self, segment: &Segment) -> CloseReason {
        let own = |key| self.protocol.own_key().is_some_and(|own| own.is(key));
        for option in segment.options.mptcp() {
            match option {
                MptcpOption::FastClose(key) if own(*key) => return CloseReason::FastClose,
                MptcpOption::TcpRst(MpTcpRst { reason, .. }) => {
                    return CloseReason::Reset(Some(*reason));
                }
                _ => {}
            }
        }
        CloseReason::Reset(None)
    }

    /// FIN on a subflow: the peer sends nothing more on it. Without DATA_FIN the subflow has no use
    /// any more, and the connection lives on. After it the peer has said all that it had to say:
    /// the last subflow stays open for our direction, until our DATA_FIN is acknowledged.
    fn on_subflow_fin(&mut self, at: usize) {
        let said_all = self.receive.is_finished();
        if self.subflows[at].closing || said_all && !self.others_carry(at) {
            return;
        }
        self.shut_subflow(at);
    }

    /// Whether what a subflow would carry can go by another that is in order, both ways open.
    fn others_carry(&self, at: usize) -> bool {
        let id = self.subflows[at].id;
        let sound = |s: &Subflow| s.id != id && s.usable() && !s.potentially_failed();
        self.subflows.iter().any(|s| sound(s) && s.tcb.state() == State::Established)
    }

    /// Closes a subflow after what is bound to it; siblings get its data too.
    pub(super) fn shut_subflow(&mut self, at: usize) {
        if std::mem::replace(&mut self.subflows[at].closing, true) {
            return;
        }
        let id = self.subflows[at].id;
        if self.is_mptcp() && self.subflows.len() > 1 {
            self.reinject(at, ReinjectReason::SubflowClosed);
        }
        let now = self.now;
        if self.is_mptcp() {
            self.subflows[at].tcb.limit_fin_wait();
        }
        self.subflows[at].tcb.close(now);
        self.pending.insert(id);
        self.outdated.insert(id);
        if self.subflows[at].tcb.state() == State::Closed {
            self.on_subflow_closed(at, CloseReason::Aborted);
        }
    }

    /// Both directions of the stream are over: subflows close.
    pub(super) fn check_stream_over(&mut self) {
        if !self.is_stream_over() || !self.is_mptcp() || self.ended.is_some() {
            return;
        }
        let now = self.now;
        for subflow in &mut self.subflows {
            if !std::mem::replace(&mut subflow.closing, true) {
                subflow.tcb.close(now);
                self.pending.insert(subflow.id);
            }
        }
        self.hasten(Timer::Linger, now + FAREWELL);
        // Attempts without an answer close at once.
        while let Some(at) = self.subflows.iter().position(|s| s.tcb.state() == State::Closed) {
            self.on_subflow_closed(at, CloseReason::Aborted);
        }
    }

    /// A FIN of ours has arrived. If it left after the stream was over it had our DATA_ACK of the
    /// peer's DATA_FIN with it: the peer knows, and subflows that do not answer need not be waited
    /// for. Until then their FINs have to be repeated: whoever misses that DATA_ACK cannot close.
    fn farewell_heard(&mut self) {
        let rto = self.subflows.iter().map(|s| s.tcb.rto()).max();
        let rto = rto.unwrap_or(Duration::ZERO).max(Duration::from_secs(1));
        if let Some(session) = self.protocol.session_mut()
            && session.timers.is_set(Timer::Linger)
        {
            session.timers.hasten(Timer::Linger, self.now + rto * 4);
        }
    }

    /// Subflows that did not close in time go without the peer's consent: all data is through.
    pub(super) fn linger_over(&mut self) {
        while !self.subflows.is_empty() {
            self.reset_at(0, reset_reason::UNSPECIFIED, CloseReason::Finished);
        }
    }

    /// The peer does not answer any more.
    pub(super) fn give_up(&mut self) {
        let through = self.is_through();
        self.abort_all(if through { CloseReason::Finished } else { CloseReason::TimedOut });
    }

    /// Everything has arrived at either end, and that ours is the end has been said: LAST-ACK. A
    /// peer that knows nothing of us any more is what it ends with, too (RFC 9293 section
    /// 3.10.7.4, RST in LAST-ACK): the peer has got our acknowledgement, and ours is lost.
    fn is_through(&self) -> bool {
        self.receive.is_finished() && self.send.is_through()
    }

    /// Resets a subflow, saying why.
    pub(super) fn reset_at(&mut self, at: usize, reason: u8, why: CloseReason) {
        let rst = MpTcpRst { transient: false, reason };
        self.subflows[at].reset = Some(rst);
        self.subflows[at].tcb.abort();
        self.on_subflow_closed(at, why);
    }

    /// A subflow has closed: its data is sent on the others, or the connection ends.
    pub(super) fn on_subflow_closed(&mut self, at: usize, reason: CloseReason) {
        let id = self.subflows[at].id;
        self.drain_log(at);
        self.note(Some(id), || What::Subflow(SubflowChange::Closed(reason)));
        if self.is_mptcp() && reason == CloseReason::FastClose {
            return self.end_by_peer(reason);
        }
        if self.is_mptcp() && self.ended.is_none() {
            self.reinject(at, ReinjectReason::SubflowClosed);
            self.events.push_back(Event::SubflowClosed(id, reason));
            self.mesh_failed(at, reason);
        }
        self.remove_subflow(at);
        if self.ended.is_some() || self.subflows.iter().any(|s| s.established) {
            return;
        }
        if !self.subflows.is_empty() {
            // Attempts keep nothing alive: by several paths in turn there is always one.
            if self.is_mptcp() && self.can_come_back() {
                self.limit_attempts();
            }
            return;
        }
        let over = self.is_stream_over();
        match self.protocol {
            Protocol::Mptcp(_) if over => self.end(CloseReason::Finished),
            Protocol::Mptcp(_) if self.can_come_back() => self.wait_for_subflows(),
            _ if self.is_through() && matches!(reason, CloseReason::Reset(_)) => {
                self.end(CloseReason::Finished);
            }
            _ => self.end(reason),
        }
    }

    /// Whether another subflow may still be opened, by us or by the peer.
    fn can_come_back(&self) -> bool {
        self.protocol.session().is_some_and(|s| s.fully)
    }

    fn wait_for_subflows(&mut self) {
        if let Some(session) = self.protocol.session_mut() {
            session.on_bare(self.send.under_way());
        }
        self.limit_attempts();
        self.plan_mesh();
    }

    /// From now on a subflow must be established in time.
    fn limit_attempts(&mut self) {
        self.hasten(Timer::Bare, self.now + self.config.mptcp.break_before_make);
    }

    /// Removes a closed subflow; the segments that it still has to send, mostly a reset, are
    /// queued.
    fn remove_subflow(&mut self, at: usize) {
        let id = self.subflows[at].id;
        let now = self.now;
        let window = self.advertised();
        loop {
            let mut segment = Segment::blank();
            let tcb = &mut self.subflows[at].tcb;
            let Some(mut out) = tcb.poll_segment(now, window, &mut segment) else { break };
            self.add_options(at, &mut out);
            let paths = PathSet::only(self.subflows[at].path);
            self.pending_resets.push_back(Departure { paths, segment });
        }
        let info = self.subflow_info(at, now);
        let mut subflow = self.subflows.remove(at);
        self.receive.judge_next();
        subflow.tcb.log.set_on(false);
        self.views.clear();
        self.pending.remove(id);
        self.slots.remove(id);
        self.send.set_pushed(None);
        if let Some(session) = self.protocol.session_mut() {
            session.carried.forget(id);
        }
        if self.closed_subflows.len() == CLOSED_SUBFLOWS_MAX {
            self.closed_subflows.pop_front();
        }
        self.closed_subflows.push_back(info);
        let setup = subflow.tcb.setup();
        self.closed_tuples.push(ClosedTuple {
            id,
            local: setup.local,
            remote: setup.remote,
            path: subflow.path,
            time_wait: None,
            timestamp_offset: setup.timestamp_offset,
        });
    }

    /// Subflows in TIME-WAIT leave the connection: the endpoint keeps what little they need.
    pub(super) fn retire_time_wait(&mut self) {
        let mut at = 0;
        while at < self.subflows.len() {
            if self.subflows[at].tcb.state() != State::TimeWait {
                at += 1;
                continue;
            }
            self.subflows[at].tcb.request_ack();
            let (now, window) = (self.now, self.advertised());
            let mut segment = Segment::blank();
            let last = self.subflows[at].tcb.poll_segment(now, window, &mut segment);
            let ack = last
                .filter(|out| out.kind == Kind::Ack)
                .map(|mut out| self.add_options(at, &mut out));
            self.on_subflow_closed(at, CloseReason::Finished);
            if let Some(closed) = self.closed_tuples.last_mut() {
                closed.time_wait = ack.map(|()| Box::new(segment));
            }
        }
    }

    /// MP_FASTCLOSE on an ACK or data: everything ends at once.
    pub(super) fn on_fast_close(&mut self, key: u64) {
        if self.protocol.own_key().is_some_and(|own| own.is(key)) {
            self.end_by_peer(CloseReason::FastClose);
        }
    }

    fn end_by_peer(&mut self, reason: CloseReason) {
        self.end(reason);
        while !self.subflows.is_empty() {
            let why = MpTcpRst { transient: false, reason: reset_reason::UNSPECIFIED };
            self.subflows[0].reset = Some(why);
            self.subflows[0].tcb.abort();
            self.remove_subflow(0);
        }
    }

    /// Ends the connection at once: MP_FASTCLOSE on every subflow's reset, or a plain reset.
    pub(super) fn abort_all(&mut self, reason: CloseReason) {
        if self.ended.is_some() {
            return;
        }
        let key = self.protocol.session().map(|s| s.agreed.remote_key());
        self.end(reason);
        while !self.subflows.is_empty() {
            self.subflows[0].fast_close = key.map(|k| k.0);
            self.subflows[0].tcb.abort();
            self.remove_subflow(0);
        }
    }

    /// Nothing more will happen but reading what has come.
    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(reason);
        self.requests.clear();
        self.send.clear();
        self.receive.stop_updates();
        if let Some(session) = self.protocol.session_mut() {
            session.end();
        }
        self.note(None, || What::Connection(ConnectionChange::Closed(reason)));
    }

    /// Reports the end, once: after a regular one when everything has been read.
    pub(super) fn report_end(&mut self) {
        let Some(reason) = self.ended.filter(|_| !self.reported) else { return };
        if reason == CloseReason::Finished && self.receive.readable() > 0 {
            return;
        }
        self.reported = true;
        self.events.push_back(Event::Closed(reason));
    }

    /// Whether the only subflow is the first.
    pub(super) fn only_first(&self) -> bool {
        self.subflows.len() == 1 && self.subflows[0].join == Join::First
    }
}

/// The last FINs are repeated at most this long: R2 of RFC 9293 section 3.8.3.
const FAREWELL: Duration = Duration::from_secs(100);

/// Closed subflows whose last state `info` still reports.
const CLOSED_SUBFLOWS_MAX: usize = 32;
