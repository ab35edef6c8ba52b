//! Hedged openings: what opens a connection and is not answered within its path's expected round
//! trip leaves again by another path, instead of waiting for a timer that knows nothing yet
//! (1 s, RFC 6298). A copy keeps addresses and ports, so it needs paths that carry each other's
//! addresses: tunnels. (Hedged requests: Dean and Barroso, "The Tail at Scale", CACM 2013; what
//! is expected: RFC 9040.)
//!
//! - SYN and SYN+ACK: a copy by another path alone after SRTT + 4 RTTVAR, another after twice as
//!   long. A copy is no retransmission: it backs nothing off. A SYN may be held at the far end
//!   (`Endpoint::listen_held`) and not be lost at all, so there are no more than two.
//! - The first data (request and answer): probed as early, the probe by both paths, as long as
//!   there is no other subflow that could carry it.
//! - An MP_JOIN, of whose path nothing is known: a copy by the same path after
//!   [`MptcpConfig::join_copy_after`](crate::config::MptcpConfig::join_copy_after).
//! - While only a copy has got through, all that opens the connection leaves by both paths, until
//!   data is acknowledged, [`COPIES`] segments at most.

use super::Connection;
use super::subflow::Join;
use crate::config::Config;
use crate::tcp::Outgoing;
use crate::view::{PathId, PathRtt, PathSet, SubflowId};
use std::sync::Arc;
use tabane_wire::{Flags, Segment};

/// What is expected of paths, shared by an endpoint's connections.
pub(crate) type PathRtts = Arc<Vec<(PathId, PathRtt)>>;

/// How the opening of a subflow is hedged.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Hedge {
    /// Copies leave by this path.
    by: Option<PathId>,
    /// Alternatives tried so far.
    tried: u8,
    /// Copies that have left.
    copies: u8,
}

/// Copies of an opening: as many segments as an initial window (RFC 6928).
const COPIES: u8 = 10;

impl Connection {
    /// What the endpoint expects of paths.
    pub(crate) fn learn_rtts(&mut self, rtts: &PathRtts) {
        if self.config.mptcp.hedging {
            self.path_rtts = Some(PathRtts::clone(rtts));
        }
    }

    /// Whether copies of what opens a subflow may come.
    pub(crate) fn hedges(&self, id: SubflowId) -> bool {
        let opens = |at: usize| !self.subflows[at].tcb.has_exchanged();
        self.config.mptcp.hedging && self.index(id).is_some_and(opens)
    }

    /// Round trips of openings since the last call, by path.
    pub(crate) fn take_opening_rtts(&mut self) -> Vec<(PathId, crate::time::Duration)> {
        std::mem::take(&mut self.opening_rtts)
    }

    /// The handshake of a subflow has completed: what it says of its path.
    pub(super) fn note_opening_rtt(&mut self, at: usize) {
        if self.config.mptcp.hedging
            && let Some(rtt) = self.subflows[at].tcb.handshake_rtt()
        {
            self.opening_rtts.push((self.subflows[at].path, rtt));
        }
    }

    /// The SYN of the first subflow came by this path.
    pub(crate) fn opened_by(&mut self, path: PathId) {
        if let Some(first) = self.subflows.first_mut()
            && first.path != path
        {
            first.hedge.by = Some(path);
        }
    }

    /// The SYN or SYN+ACK of a subflow is not answered in time: a copy leaves. That of an MP_JOIN
    /// leaves by its own path, since there are others for data meanwhile.
    pub(super) fn hedge_handshake(&mut self, at: usize) {
        if self.subflows[at].join != Join::First || self.choose_hedge(at) {
            self.subflows[at].tcb.copy_handshake();
            self.pending.insert(self.subflows[at].id);
        }
    }

    /// The first data of a subflow is not acknowledged in time: the probe leaves by two paths,
    /// unless there is another subflow by now, which is offered the data.
    pub(super) fn hedge_first_data(&mut self, at: usize) {
        let first = self.subflows[at].join == Join::First;
        let alone = self.subflows.iter().filter(|s| s.usable()).count() < 2;
        if self.config.mptcp.hedging && first && alone && self.subflows[at].tcb.is_first_flight() {
            self.choose_hedge(at);
        }
    }

    /// A segment comes: by another path than its subflow's, then the peer hedges, and so do we; or
    /// it answers by its own, which needs no hedging then. Whether it is a SYN that was known: then
    /// it goes no further.
    pub(super) fn hedged_by_peer(&mut self, at: usize, path: PathId, segment: &Segment) -> bool {
        let subflow = &mut self.subflows[at];
        if !self.config.mptcp.hedging || !subflow.tcb.is_first_flight() {
            return false;
        }
        let syn = segment.flags.contains(Flags::SYN);
        let acks = segment.flags.contains(Flags::ACK);
        if path == subflow.path {
            if syn && acks {
                subflow.hedge.by = None;
            }
            return false;
        }
        let known = syn && !acks && subflow.tcb.is_syn_received(segment.seq);
        // While a SYN is held, a copy of it says only that.
        if !known || subflow.tcb.has_answered() {
            subflow.hedge.by = Some(path);
        }
        if known {
            subflow.tcb.copy_handshake();
            self.pending.insert(self.subflows[at].id);
        }
        known
    }

    /// The paths of a segment that leaves by `paths` without hedging.
    #[inline]
    pub(super) fn hedge(&mut self, at: usize, out: &Outgoing<'_>, paths: PathSet) -> PathSet {
        let hedge = self.subflows[at].hedge;
        let Some(by) = hedge.by else { return paths };
        let first = self.subflows[at].tcb.is_first_flight();
        let (own, len) = (self.subflows[at].path, out.segment.wire_len() as u32);
        if !first || hedge.copies >= COPIES || !self.carrying(own, len).contains(by) {
            self.subflows[at].hedge.by = None;
            return paths;
        }
        self.subflows[at].hedge.copies += 1;
        if out.copy {
            return PathSet::only(by);
        }
        paths.union(PathSet::only(by))
    }

    /// Chooses the path of copies: of those that something is known of, the quickest that was not
    /// tried yet. Whether there is one.
    fn choose_hedge(&mut self, at: usize) -> bool {
        let own = self.subflows[at].path;
        let Some(rtts) = &self.path_rtts else { return false };
        let wanted = |id: PathId| {
            let backup = self.config.path(id).is_some_and(|path| path.backup);
            id != own && !backup && !self.paths_down.contains(id)
        };
        let mut others: Vec<_> = rtts.iter().filter(|(id, _)| wanted(*id)).collect();
        others.sort_by_key(|(id, rtt)| (rtt.srtt, id.0));
        let hedge = &mut self.subflows[at].hedge;
        let Some(turn) = usize::from(hedge.tried).checked_rem(others.len()) else { return false };
        hedge.by = Some(others[turn].0);
        hedge.tried = hedge.tried.saturating_add(1);
        true
    }
}

impl Config {
    /// The path on which the peer has this address, if the driver has said so.
    pub(crate) fn path_of_peer(&self, address: std::net::IpAddr) -> Option<PathId> {
        self.paths.iter().find(|p| p.peers.contains(&address)).map(|p| p.id)
    }
}
