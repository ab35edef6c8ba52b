//! Segments for no connection (RFC 9293 section 3.10.7.1): listeners, resets, and the refusal of
//! joins (RFC 8684 section 3.6).

use super::flow::Tuple;
use super::{Admission, Departure, Endpoint, TurnedAway};
use crate::record::{DropReason, What};
use crate::view::{PathId, PathSet};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tabane_wire::mptcp::MpTcpRst;
use tabane_wire::{Ecn, Flags, MptcpOption, Segment, SeqNum, TcpOptions};

impl Endpoint {
    pub(super) fn handle_unknown(&mut self, path: PathId, tuple: Tuple, segment: &Segment) {
        if !is_of_one_host(tuple.remote.ip()) || !is_of_one_host(tuple.local.ip()) {
            // RFC 9293 section 3.9.2.3: silently.
            return self.drop_stateless(DropReason::BadAddress);
        }
        if !self.open(path, tuple, segment, None) {
            self.refuse(path, tuple, segment);
        }
    }

    /// A SYN that asks for a connection, and somebody listens, or that joins one: opened, or
    /// refused for want of space. False: there is nothing that it could open. `iss_after`: our old
    /// sequence numbers of this 4-tuple.
    pub(super) fn open(
        &mut self,
        path: PathId,
        tuple: Tuple,
        segment: &Segment,
        iss_after: Option<SeqNum>,
    ) -> bool {
        let flags = segment.flags;
        if !flags.contains(Flags::SYN) || flags.intersects(Flags::ACK | Flags::RST | Flags::FIN) {
            return false;
        }
        if self.open_join(path, tuple, segment) {
            return true;
        }
        let Some(how) = self.listener(tuple.local) else { return false };
        self.open_passive(path, tuple, segment, iss_after, how);
        true
    }

    /// Answers a segment that belongs to no connection and opens none with a reset, unless it is a
    /// reset itself.
    fn refuse(&mut self, path: PathId, tuple: Tuple, segment: &Segment) {
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            return self.drop_stateless(DropReason::NoConnection);
        }
        if !flags.contains(Flags::ACK) && self.listener(tuple.local).is_some() {
            // Section 3.10.7.2: a listener answers acknowledgements only.
            return self.drop_stateless(DropReason::BadFlags);
        }
        self.drop_stateless(DropReason::NoConnection);
        if self.config.reset_unknown {
            self.reset(path, segment, None);
        }
    }

    /// Whether somebody listens: exactly here, on every address, on every port.
    fn listener(&self, local: SocketAddr) -> Option<Admission> {
        let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let mut places = [local.port(), 0]
            .into_iter()
            .flat_map(|port| [local.ip(), any[0], any[1]].map(|ip| SocketAddr::new(ip, port)));
        places.find_map(|place| self.listeners.get(&place).copied())
    }

    pub(super) fn drop_stateless(&mut self, reason: DropReason) {
        self.stats.dropped += 1;
        self.log.add(self.now, None, None, || What::Dropped { reason });
    }

    /// A relay has no connection for a SYN: whoever asks is told, instead of trying again for
    /// minutes. Nothing is kept, so nothing is filled by it.
    pub(super) fn turn_away(&mut self, path: PathId, syn: &Segment) {
        self.reset(path, syn, None);
        if self.turned_away.len() < self.config.limits.resets {
            let (local, remote) = (syn.dst, syn.src);
            self.turned_away.push_back(TurnedAway { path, local, remote });
        }
    }

    /// Refuses a join, saying why.
    pub(super) fn reset_join(&mut self, path: PathId, syn: &Segment, reason: u8) {
        let option = MpTcpRst { transient: false, reason };
        self.reset(path, syn, Some(MptcpOption::TcpRst(option)));
    }

    /// RFC 9293 section 3.10.7.1: a number that the peer takes for valid.
    fn reset(&mut self, path: PathId, to: &Segment, option: Option<MptcpOption>) {
        let (seq, ack, flags) = if to.flags.contains(Flags::ACK) {
            (to.ack, SeqNum(0), Flags::RST)
        } else {
            (SeqNum(0), to.seq.plus(to.seq_len()), Flags::RST | Flags::ACK)
        };
        let mut options = TcpOptions::default();
        if let Some(option) = option {
            options.push_mptcp(option);
        }
        let segment = Segment {
            src: to.dst,
            dst: to.src,
            seq,
            ack,
            flags,
            window: 0,
            ecn: Ecn::NotEct,
            options,
            payload: Bytes::new(),
        };
        if self.send_stateless(path, segment) {
            self.stats.resets += 1;
        }
    }

    /// Queues a segment of no connection; false if too many wait.
    pub(super) fn send_stateless(&mut self, path: PathId, segment: Segment) -> bool {
        let space = self.stateless.len() < self.config.limits.resets;
        if space {
            self.stateless.push_back(Departure { paths: PathSet::only(path), segment });
        }
        space
    }
}

/// Whether an address can be an end of a connection. Broadcast to a subnet is the driver's to
/// know.
pub(crate) fn is_of_one_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !broadcast && !address.is_multicast() && !address.is_unspecified()
}
