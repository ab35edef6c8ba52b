//! Timers of a connection beside those of its subflows: a table of deadlines, and what happens.

use super::Connection;
use super::session::{Protocol, Session};
use super::subflow::{Join, Subflow, reset_reason};
use crate::record::{CloseReason, FallbackReason, ReinjectReason, SubflowChange, What};
use crate::time::{Duration, Instant};

/// What can be due at MPTCP level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    /// Data acknowledged by subflows but not at data level (RFC 8684 section 3.3.6).
    Data,
    /// Data that another subflow could carry as well is looked at again.
    Late,
    /// The DATA_FIN goes again.
    Fin,
    /// An ADD_ADDR that was not echoed is sent again.
    Announce,
    /// The mesh of subflows is looked at again.
    Mesh,
    /// No subflow is left, and none came in time (break before make).
    Bare,
    /// The stream is over in both directions: subflows that do not close in time are reset.
    Linger,
}

const ALL: [Timer; 7] = [
    Timer::Data,
    Timer::Late,
    Timer::Fin,
    Timer::Announce,
    Timer::Mesh,
    Timer::Bare,
    Timer::Linger,
];

/// Deadlines; `FAR_FUTURE` is "not set".
#[derive(Debug)]
pub(super) struct Timers([Instant; ALL.len()]);

impl Default for Timers {
    fn default() -> Self {
        Self([Instant::FAR_FUTURE; ALL.len()])
    }
}

impl Timers {
    #[inline]
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = at;
    }
    #[inline]
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != Instant::FAR_FUTURE
    }
    /// Whether it is set, and later than `at`.
    fn is_later(&self, timer: Timer, at: Instant) -> bool {
        self.is_set(timer) && self.0[timer as usize] > at
    }
    #[inline]
    pub(super) fn stop(&mut self, timer: Timer) {
        self.set(timer, Instant::FAR_FUTURE);
    }
    /// Earlier of what is set and `at`.
    pub(super) fn hasten(&mut self, timer: Timer, at: Instant) {
        let set = &mut self.0[timer as usize];
        *set = at.min(*set);
    }
    #[inline]
    fn next(&self) -> Instant {
        self.0.iter().copied().min().unwrap_or(Instant::FAR_FUTURE)
    }
    fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let timer = ALL.into_iter().find(|t| self.0[*t as usize] <= now)?;
        self.stop(timer);
        Some(timer)
    }
}

impl Connection {
    /// When `on_timeout` wants to be called; `FAR_FUTURE` for never.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Instant {
        let mut next = self.receive.update_at().min(self.send.next_timeout());
        for subflow in &self.subflows {
            if let Some(at) = subflow.tcb.next_timeout() {
                next = next.min(at);
            }
            if let Join::Initiator { confirmed: false, again, .. } = subflow.join {
                next = next.min(again);
            }
        }
        match &self.protocol {
            Protocol::Mptcp(session) => next.min(session.timers.next()),
            _ => next,
        }
    }

    /// Runs every timer that is due.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.now = now;
        self.siblings();
        let mut at = 0;
        while at < self.subflows.len() {
            let before = self.subflows.len();
            self.subflow_timeout(at);
            // A subflow that closed is gone: the next one is in its place.
            at += usize::from(self.subflows.len() == before);
        }
        if self.receive.update_at() <= now {
            self.repeat_window_update();
        }
        self.send.on_timeout(now);
        while let Some(timer) = self.protocol.session_mut().and_then(|s| s.timers.take_due(now)) {
            match timer {
                Timer::Data => self.data_timeout(),
                // `poll`, which follows, asks the scheduler.
                Timer::Late => {}
                Timer::Fin => self.fin_timeout(),
                Timer::Announce => self.announce_again(),
                Timer::Mesh => self.plan_mesh(),
                Timer::Bare => self.give_up(),
                Timer::Linger => self.linger_over(),
            }
        }
    }

    fn subflow_timeout(&mut self, at: usize) {
        let now = self.now;
        let id = self.subflows[at].id;
        if self.subflows[at].tcb.next_timeout().is_some_and(|due| due <= now) {
            let siblings =
                self.egress.as_ref().map_or(&self.views[..], |w| w.siblings(&self.views));
            let expired = self.subflows[at].tcb.on_timeout(now, siblings);
            self.pending.insert(id);
            self.outdated.insert(id);
            self.drain_log(at);
            if expired.unanswered {
                self.hedge_handshake(at);
            }
            if expired.unresponsive {
                self.hedge_first_data(at);
                self.on_unresponsive(at);
            }
            if let Some(in_a_row) = expired.rto {
                self.on_subflow_rto(at, in_a_row);
            }
            if let Some(reason) = expired.closed {
                self.on_subflow_closed(at, reason);
                return;
            }
        }
        self.third_packet_timeout(at);
    }

    /// The third packet of a join is repeated until the fourth comes (RFC 8684 section 3.2).
    fn third_packet_timeout(&mut self, at: usize) {
        let now = self.now;
        let rto = self.subflows[at].tcb.rto();
        let Join::Initiator { confirmed: false, tries, again, .. } = &mut self.subflows[at].join
        else {
            return;
        };
        if *again > now {
            return;
        }
        *tries += 1;
        *again = now + rto * (1 << (*tries).min(4));
        if *tries > self.config.tcp.syn_retries {
            self.reset_at(at, reset_reason::MPTCP, CloseReason::TimedOut);
            return;
        }
        self.request_ack(at);
    }

    /// A subflow had a retransmission timeout: its data is offered to others, and the subflow is
    /// used only if nothing better is there, until it answers.
    fn on_subflow_rto(&mut self, at: usize, in_a_row: u32) {
        let alone = self.subflows.len() == 1;
        self.subflows[at].timeouts = in_a_row;
        self.outdated.insert(self.subflows[at].id);
        if !self.is_mptcp() || alone {
            return;
        }
        self.reinject(at, ReinjectReason::Timeout);
        if in_a_row >= self.config.mptcp.stale_after && !self.subflows[at].stale {
            self.subflows[at].stale = true;
            let id = self.subflows[at].id;
            self.note(Some(id), || What::Subflow(SubflowChange::Stale(true)));
        }
        // Others carry the data: what is left is to learn soon that the path is back.
        self.subflows[at].tcb.limit_rto(Some(PROBE_INTERVAL));
    }

    /// A valid segment came: the subflow is neither potentially failed nor unresponsive any more.
    #[inline]
    pub(super) fn on_alive(&mut self, at: usize) {
        let subflow = &mut self.subflows[at];
        if subflow.timeouts == 0 && !subflow.stale && !subflow.unresponsive {
            return;
        }
        if std::mem::take(&mut subflow.unresponsive) {
            self.recall(at, ReinjectReason::Unresponsive);
        }
        let subflow = &mut self.subflows[at];
        subflow.timeouts = 0;
        subflow.tcb.limit_rto(None);
        let id = subflow.id;
        let stale = std::mem::take(&mut subflow.stale);
        self.outdated.insert(id);
        if stale {
            self.note(Some(id), || What::Subflow(SubflowChange::Stale(false)));
        }
    }

    /// The peer is heard again: a DATA_FIN that went into an outage does not wait out what it has
    /// backed off. Who talks has not gone: the repeat does not count.
    #[inline]
    pub(super) fn hasten_fin(&mut self) {
        if let Protocol::Mptcp(session) = &mut self.protocol
            && session.fin_backoff > 1
        {
            let again = session.fin_at + data_interval(&self.subflows, 0);
            if session.timers.is_later(Timer::Fin, again) {
                session.timers.set(Timer::Fin, again);
                session.fin_backoff -= 1;
            }
        }
    }

    /// A timer runs out at `at` at the latest.
    pub(super) fn hasten(&mut self, timer: Timer, at: Instant) {
        if let Some(session) = self.protocol.session_mut() {
            session.timers.hasten(timer, at);
        }
    }

    /// Nothing has been acknowledged at data level for long: unless a sound subflow is still at
    /// it, the head goes again. The only one that there is stays at it though it be in trouble:
    /// it repeats the segment itself, and the same data behind that would be no help, and read
    /// twice by a peer that has fallen back meanwhile.
    fn data_timeout(&mut self) {
        if !self.send.outstanding() || !self.is_mptcp() {
            return;
        }
        let una = self.send.una();
        let nxt = self.send.nxt();
        let alone = self.subflows.iter().filter(|s| s.usable()).count() == 1;
        let at_it = self.subflows.iter().find(|s| {
            s.usable()
                && (alone || !s.potentially_failed())
                && s.tcb.unacked().any(|c| c.dsn <= una && una < c.dsn + c.data.len() as u64)
        });
        let in_trouble = at_it.map(Subflow::potentially_failed);
        if in_trouble.is_none() && self.options_are_lost() {
            return;
        }
        let mss = self.subflows.first().map_or(1, |s| s.tcb.mss());
        let Some(session) = self.protocol.session_mut() else { return };
        match in_trouble {
            None => session.carried.on_timeout(una, (nxt - una).min(mss), nxt),
            Some(true) => session.carried.back_off(),
            Some(false) => {}
        }
        session.arm_data(self.now, &self.subflows);
    }

    /// What was sent has arrived, the last acknowledgements had no MPTCP option, and no DATA_ACK
    /// comes: the peer has fallen back, or options do not pass any more. The same data again would
    /// be read twice. Whether it was so.
    fn options_are_lost(&mut self) -> bool {
        let Some(at) = self.subflows.iter().position(|s| s.usable() && s.bare_acks > 0) else {
            return false;
        };
        self.fall_back_or_reset(at, FallbackReason::NoDataAck);
        true
    }

    fn fin_timeout(&mut self) {
        let retries = self.config.tcp.retries;
        let Some(session) = self.protocol.session_mut().filter(|_| !self.send.is_fin_acked())
        else {
            return;
        };
        session.fin_backoff += 1;
        // It may be the keys that are lost: without them the peer cannot understand a DATA_FIN.
        session.keys_due = true;
        if session.fin_backoff > retries {
            return self.give_up();
        }
        session.arm_fin(self.now, &self.subflows);
        // While data is outstanding its own retransmission carries the flag.
        if !self.send.outstanding() {
            self.send_data_fin();
        }
    }
}

impl Session {
    /// Data is bound: it must be acknowledged at data level.
    #[inline]
    pub(super) fn arm_data(&mut self, now: Instant, subflows: &[Subflow]) {
        if !self.timers.is_set(Timer::Data) {
            let interval = data_interval(subflows, self.carried.backoff());
            self.timers.set(Timer::Data, now + interval);
        }
    }

    /// The DATA_FIN has its own timer: it takes no subflow positions.
    pub(super) fn arm_fin(&mut self, now: Instant, subflows: &[Subflow]) {
        let interval = data_interval(subflows, self.fin_backoff);
        self.fin_at = now;
        self.timers.set(Timer::Fin, now + interval);
    }
}

/// Twice the longest retransmission timeout of a usable subflow that is not potentially failed (as
/// Linux MPTCP v0.9x for its connection-level timer), doubled with each expiry, up to two minutes.
fn data_interval(subflows: &[Subflow], backoff: u32) -> Duration {
    let sound = subflows.iter().filter(|s| s.usable() && !s.potentially_failed());
    let rto = sound.map(|s| s.tcb.rto()).max().unwrap_or(Duration::from_millis(500));
    let interval = Duration(rto.0.saturating_mul(2 << backoff.min(16)));
    interval.min(Duration::from_secs(120))
}

/// A subflow whose data goes by others is probed this often.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
