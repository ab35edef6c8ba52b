//! Sending: what `poll` gives out, and how a segment leaves.
//!
//! First what subflows owe (handshakes, ACKs, retransmissions), then data is bound, one segment
//! at a time, when a subflow can send it now (late binding; `assign.rs`).

use super::{Connection, Mode};
use crate::egress;
use crate::endpoint::Departure;
use crate::record::What;
use crate::tcp::{Kind, Outgoing};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathSet, PathView};
use tabane_wire::Flags;

impl Connection {
    /// The next segment to send.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Departure> {
        self.now = now;
        if let Some(departure) = self.last_words.pop_front() {
            return Some(departure);
        }
        self.offer_window();
        loop {
            while let Some(id) = self.owed.first() {
                let Some(at) = self.index(id) else {
                    self.owed.remove(id);
                    continue;
                };
                let window = self.advertised();
                let Some(out) = self.subflows[at].tcb.poll_segment(now, window) else {
                    self.owed.remove(id);
                    self.drain_log(at);
                    continue;
                };
                // A subflow that owed nothing before this push owes nothing after it.
                if self.send.pushed.take() == Some((id, out.segment.payload.len()))
                    && !out.retransmission
                {
                    self.owed.remove(id);
                }
                self.outdated.insert(id);
                return Some(self.depart(at, out));
            }
            if !self.assign() {
                return None;
            }
        }
    }

    /// Adds what MPTCP has to say and finds the way out.
    fn depart(&mut self, at: usize, mut out: Outgoing) -> Departure {
        if self.session.is_some() {
            self.dress(at, &mut out);
        }
        let paths = self.route(at, &out);
        if self.log.is_on() {
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
        Departure { paths, segment: out.segment }
    }

    #[inline]
    fn route(&mut self, at: usize, out: &Outgoing) -> PathSet {
        let own = self.subflows[at].path;
        if self.egress.is_none() || self.config.paths.len() < 2 {
            return PathSet::only(own);
        }
        self.ask_egress(own, out)
    }

    fn ask_egress(&mut self, own: PathId, out: &Outgoing) -> PathSet {
        let views: Vec<PathView> =
            self.config.paths.iter().map(|path| self.path_view(path.id)).collect();
        let segment = &out.segment;
        let special = Flags::ECE | Flags::CWR | Flags::FIN | Flags::SYN | Flags::RST;
        let pure_ack = out.kind == Kind::Ack;
        let asked = egress::Outgoing {
            now: self.now,
            own,
            pure_ack,
            own_required: !pure_ack && segment.payload.is_empty()
                || segment.flags.intersects(special)
                || !segment.options.sack.is_empty()
                || !segment.options.mptcp().is_empty()
                || self.receive.closed_window
                || self.receive.updates_left > 0,
            len: segment.wire_len() as u32,
        };
        let Some(egress) = &mut self.egress else { return PathSet::only(own) };
        let answer = egress.route(&asked, &views);
        let known: PathSet = views.iter().map(|v| v.id).collect();
        let up: PathSet = views.iter().filter(|v| v.up).map(|v| v.id).collect();
        let mut paths = answer.intersection(known);
        let refused = paths != answer || paths.intersection(up).is_empty() && up.contains(own);
        if refused {
            self.note(None, || What::PolicyRefused { policy: "egress" });
        }
        if refused || asked.own_required || paths.is_empty() {
            paths.insert(own);
        }
        paths
    }

    fn path_view(&self, id: PathId) -> PathView {
        let rtts = self.subflows.iter().filter(|s| s.path == id).map(|s| s.tcb.srtt());
        let srtt = rtts.filter(|r| !r.is_zero()).min().unwrap_or(Duration::ZERO);
        PathView { id, up: !self.paths_down.contains(id), srtt }
    }

    /// Whether data is outstanding at data level.
    #[inline]
    pub(super) fn outstanding(&self) -> bool {
        self.send.buffer.una() < self.send.nxt
    }

    /// The handshake is done and MPTCP may carry data.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.established && self.ended.is_none() && self.mode != Mode::Opening
    }
}
