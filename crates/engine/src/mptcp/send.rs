//! Sending: what `poll` gives out, and how a segment leaves.
//!
//! First what subflows have pending (handshakes, ACKs, retransmissions, and what one mapping covers
//! with a segment that has left), then data is bound when a subflow can send it now (late binding;
//! `assign.rs`).

use super::Connection;
use super::session::Protocol;
use crate::record::What;
use crate::seq::Dsn;
use crate::tcp::Outgoing;
use crate::time::Instant;
use crate::view::PathSet;
use tabane_wire::{Flags, Segment};

impl Connection {
    /// Writes the next segment to send into `segment` and returns the paths by which it leaves.
    pub(crate) fn poll(&mut self, now: Instant, segment: &mut Segment) -> Option<PathSet> {
        self.now = now;
        if let Some(departure) = self.pending_resets.pop_front() {
            *segment = departure.segment;
            return Some(departure.paths);
        }
        self.offer_window();
        loop {
            while let Some(id) = self.pending.first() {
                let Some(at) = self.index(id) else {
                    self.pending.remove(id);
                    continue;
                };
                let window = self.advertised();
                let mut out = self.subflows[at].tcb.poll_segment(now, window, segment);
                let Some(out) = &mut out else {
                    self.pending.remove(id);
                    self.drain_log(at);
                    continue;
                };
                // A subflow that had nothing pending before this push has nothing pending after it.
                if self.send.take_pushed() == Some((id, out.segment.payload.len()))
                    && !out.retransmission
                {
                    self.pending.remove(id);
                }
                self.outdated.insert(id);
                return Some(self.depart(at, out));
            }
            if !self.assign() {
                return None;
            }
        }
    }

    /// Adds the MPTCP options and asks the egress policy for the paths.
    fn depart(&mut self, at: usize, out: &mut Outgoing<'_>) -> PathSet {
        // Asked here, too: a call for nothing is 0.4 % of the instructions of plain TCP.
        if !matches!(self.protocol, Protocol::Tcp) {
            self.add_options(at, out);
        }
        self.push_last(out);
        debug_assert!(self.subflows[at].tcb.carries(out.segment), "too long: {}", out.segment);
        let paths = self.route(at, out);
        let paths = self.hedge(at, out, paths);
        if self.log.is_on() && self.config.segment_records {
            self.drain_log(at);
            let what = What::Sent {
                paths,
                ssn: out.ssn,
                len: out.segment.payload.len() as u32,
                dsn: out.dsn,
                retransmission: out.retransmission,
            };
            self.note(Some(self.subflows[at].id), || what);
        }
        paths
    }

    /// PSH on what empties the send buffer, as Linux has it, and not on each segment, where it
    /// would be legal: receivers pass up their batch at every one (RFC 9293 section 3.9.1.2,
    /// MUST-61). Only the connection knows: what a subflow has is bound late, and leaves at once.
    #[inline]
    fn push_last(&self, out: &mut Outgoing<'_>) {
        let last = |dsn: Dsn| dsn + out.segment.payload.len() as u64 == self.send.end();
        if out.dsn.is_some_and(last) {
            out.segment.flags = out.segment.flags | Flags::PSH;
        }
    }

    /// The handshake is done and MPTCP may carry data.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.established && self.ended.is_none() && !self.is_negotiating()
    }
}
