//! MP_CAPABLE and MP_JOIN handshakes (RFC 8684 sections 3.1 and 3.2).

use super::keys::{Agreed, Handshake, acceptable, find_capable};
use super::paths::PathManager;
use super::receiver::Receiver;
use super::route::EgressState;
use super::scheduling::Scheduling;
use super::sender::Sender;
use super::session::{Opening, Protocol, Request, Session};
use super::subflow::{Join, Subflow, reset_reason};
use super::timers::Timer;
use super::{Connection, Role};
use crate::config::{Profile, SUBFLOWS_MAX};
use crate::event::{ConnId, Event};
use crate::policy::PolicyError;
use crate::record::{CloseReason, ConnectionChange, DropReason};
use crate::record::{RecordLog, SubflowChange, What};
use crate::seq::Dsn;
use crate::tcp::Tcb;
use crate::time::{Duration, Instant};
use crate::view::{PathSet, SubflowSet};
use std::collections::VecDeque;
use tabane_wire::mptcp::MpJoin;
use tabane_wire::{Flags, MptcpOption, Segment};

impl Connection {
    /// A connection around its first subflow: ours (client) or one upon a SYN (server).
    ///
    /// # Errors
    /// A policy named in the configuration does not exist.
    pub(crate) fn new(
        now: Instant,
        id: ConnId,
        profile: Profile,
        role: Role,
        opening: Opening,
    ) -> Result<Self, PolicyError> {
        let Profile { config, tcp: shared } = profile;
        let Opening { mut tcb, key } = opening;
        tcb.log.set_on(config.records && config.segment_records);
        let backup = config.path(tcb.setup().path).is_some_and(|p| p.backup);
        let opening = |key| Protocol::Opening(Box::new(Handshake::new(key)));
        let mut first = Subflow::new(tcb, Join::First);
        first.backup = backup;
        let slot = first.id;
        let buffer = config.tcp.receive_buffer.min(config.tcp.receive_buffer_max);
        let mut connection = Self {
            id,
            role,
            slots: SubflowSet::only(slot),
            pending: SubflowSet::only(slot),
            views: Vec::new(),
            outdated: SubflowSet::NONE,
            send: Sender::new(),
            receive: Receiver::new(now, buffer),
            protocol: key.map_or(Protocol::Tcp, opening),
            scheduling: Scheduling::new(&config.mptcp.scheduler)?,
            egress: EgressState::build(&config.mptcp.egress)?,
            congestion: None,
            events: VecDeque::new(),
            log: RecordLog::new(config.records),
            requests: Vec::new(),
            closed_tuples: Vec::new(),
            pending_resets: VecDeque::new(),
            created: 1,
            closed_subflows: VecDeque::new(),
            steered: None,
            paths_down: PathSet::NONE,
            mtus: None,
            path_rtts: None,
            opening_rtts: Vec::new(),
            established: false,
            ended: None,
            reported: false,
            now,
            subflows: Vec::with_capacity(1),
            config,
            tcp: shared,
        };
        connection.subflows.push(first);
        connection.note(None, || What::Connection(ConnectionChange::Opening));
        connection.note(Some(slot), || What::Subflow(SubflowChange::Opening));
        Ok(connection)
    }

    /// Whether a SYN asks for MPTCP in a way that we speak; flag A of it.
    pub(crate) fn wants_mptcp(syn: &Segment) -> Option<bool> {
        let capable = find_capable(syn)?;
        acceptable(capable).then_some(capable.checksum_required)
    }

    /// As server: the SYN required checksums.
    pub(crate) fn require_checksum(&mut self, required: bool) {
        if let Protocol::Opening(handshake) = &mut self.protocol
            && (required || self.config.mptcp.checksum)
        {
            handshake.require_checksum();
        }
    }

    /// Our token, while the peer may know it.
    pub(crate) fn token(&self) -> Option<u32> {
        self.protocol.own_key().map(|key| key.token())
    }

    /// Whether the first handshake is still going on.
    pub(crate) fn is_opening(&self) -> bool {
        !self.established && self.ended.is_none()
    }

    /// During the handshake, before the TCB sees a segment: whether it goes further. As server
    /// without the peer's key, data with a DSS cannot be understood; it will come again, with
    /// MP_CAPABLE.
    pub(super) fn admits(&mut self, at: usize, segment: &Segment) -> bool {
        if self.role == Role::Client {
            return true;
        }
        let early = segment.options.dss.is_some()
            && find_capable(segment).is_none()
            && !segment.flags.contains(Flags::RST);
        if early {
            let id = self.subflows[at].id;
            self.note(Some(id), || What::Dropped { reason: DropReason::Unmapped });
        }
        !early
    }

    /// The TCP handshake of a subflow has completed with this segment.
    pub(super) fn on_established(&mut self, at: usize, segment: &Segment) {
        self.note_opening_rtt(at);
        match self.subflows[at].join {
            Join::First => self.first_established(segment),
            Join::Initiator { .. } => self.join_answered(at, segment),
            Join::Responder { .. } => self.join_authenticate(at, segment),
        }
    }

    fn first_established(&mut self, segment: &Segment) {
        if let Protocol::Opening(handshake) = &self.protocol {
            let agreed = match self.role {
                Role::Client => handshake.answered(segment, &self.config.mptcp),
                Role::Server => handshake.confirmed(segment),
            };
            match agreed {
                Ok(agreed) => self.speak_mptcp(agreed),
                Err(reason) => self.fall_back(reason),
            }
        }
        if self.is_mptcp() {
            // Windows of the handshake are not tied to a DATA_ACK: they start the data level.
            self.send.limit_to(Dsn(1));
        }
        self.established = true;
        let mptcp = self.is_mptcp();
        self.note(None, || What::Connection(ConnectionChange::Established(mptcp)));
        let setup = self.subflows[0].tcb.setup();
        let event = match self.role {
            Role::Client => Event::Connected,
            Role::Server => Event::Accepted { local: setup.local, remote: setup.remote },
        };
        self.events.push_back(event);
        self.announce_subflow(0);
        if mptcp && self.role == Role::Server {
            // Both keys have come back: MPTCP works both ways. A DATA_ACK at once tells the
            // client so, and it may join.
            self.request_ack(0);
            self.on_fully_established();
        }
    }

    /// Whether mappings may cover several segments.
    pub(super) fn spans(&self, agreed: &Agreed) -> bool {
        self.scheduling.places_runs() && agreed.spans(self.config.mptcp.segments_per_mapping)
    }

    /// Both keys are known.
    fn speak_mptcp(&mut self, agreed: Agreed) {
        let spans = self.spans(&agreed);
        let first = &mut self.subflows[0];
        let ends = (first.tcb.setup().local, first.tcb.setup().remote);
        let paths = PathManager::new(ends, agreed.deny_initial());
        first.tcb.set_spans(spans);
        first.tcb.set_option_reserve(agreed.data_options());
        if self.role == Role::Client {
            // MP_CAPABLE with data takes up to four bytes more than a short DSS.
            first.tcb.set_opening_reserve(4);
        }
        self.protocol = Protocol::Mptcp(Box::new(Session::new(agreed, paths)));
        if self.config.mptcp.numbers == crate::config::NumberSize::Long {
            self.use_long_numbers();
        }
    }

    /// The peer has our key (RFC 8684 section 3.1): subflows may be added.
    pub(super) fn on_fully_established(&mut self) {
        let Some(session) = self.protocol.session_mut() else { return };
        session.fully = true;
        self.subflows.iter_mut().for_each(|s| s.tcb.set_opening_reserve(0));
        self.outdated = self.subflows.iter().map(|s| s.id).collect();
        self.announce_own_addresses();
        self.plan_mesh();
    }

    /// The endpoint has made the TCB of a request of ours.
    pub(crate) fn open_subflow(&mut self, now: Instant, request: &Request, tcb: Tcb, nonce: u32) {
        self.now = now;
        let again = Instant::FAR_FUTURE;
        let join = Join::Initiator { nonce, peer_nonce: 0, confirmed: false, tries: 0, again };
        let mut subflow = self.new_subflow(tcb, join);
        subflow.backup = request.backup;
        if let Some(session) = self.protocol.session_mut() {
            subflow.local_id = session.paths.local_id(request.local.ip());
            subflow.remote_id = session.paths.remote_id(request.remote);
        }
        subflow.tcb.limit_rto(Some(JOIN_RTO_MAX));
        self.add(subflow);
    }

    /// A SYN with MP_JOIN and our token: the endpoint has made the TCB. `None` if it is refused.
    pub(crate) fn join_refusal(&self) -> Option<(u8, DropReason)> {
        let pending = self
            .subflows
            .iter()
            .filter(|s| matches!(s.join, Join::Responder { .. }) && !s.joined());
        if !self.is_mptcp() || self.ended.is_some() {
            return Some((reset_reason::PROHIBITED, DropReason::BadFlags));
        }
        if pending.count() >= self.config.limits.pending_joins {
            return Some((reset_reason::RESOURCES, DropReason::Limit("pending joins")));
        }
        if self.has_all_subflows() {
            return Some((reset_reason::RESOURCES, DropReason::Limit("subflows")));
        }
        None
    }

    /// Whether there are as many subflows as there may be.
    pub(super) fn has_all_subflows(&self) -> bool {
        self.slots.len() >= usize::from(self.config.mptcp.max_subflows.min(SUBFLOWS_MAX))
    }

    /// A slot for a subflow of the peer.
    pub(crate) fn reserve_slot(&mut self) -> crate::view::SubflowId {
        let free = (0..64).map(crate::view::SubflowId).find(|id| !self.slots.contains(*id));
        let id = free.expect("invariant: subflows are SUBFLOWS_MAX at most, slots are 64");
        self.slots.insert(id);
        id
    }

    /// The endpoint has accepted a join: its SYN was `syn`.
    pub(crate) fn accept_join(&mut self, now: Instant, tcb: Tcb, syn: MpJoin, nonce: u32) {
        self.now = now;
        let MpJoin::Syn { backup, address_id, nonce: peer_nonce, .. } = syn else { return };
        let own = tcb.setup().path;
        let join = Join::Responder { nonce, peer_nonce, confirmed: false };
        let mut subflow = self.new_subflow(tcb, join);
        if let Some(session) = self.protocol.session_mut() {
            subflow.local_id = session.paths.local_id(subflow.tcb.setup().local.ip());
        }
        subflow.remote_id = address_id;
        subflow.peer_backup = backup;
        subflow.backup = self.config.path(own).is_some_and(|p| p.backup);
        self.add(subflow);
    }

    fn new_subflow(&mut self, mut tcb: Tcb, join: Join) -> Subflow {
        tcb.log.set_on(self.config.records && self.config.segment_records);
        let mut subflow = Subflow::new(tcb, join);
        subflow.tcb.set_path_down(self.paths_down.contains(subflow.path));
        subflow
    }

    fn add(&mut self, mut subflow: Subflow) {
        let id = subflow.id;
        let session = self.protocol.session();
        subflow.tcb.set_spans(session.is_some_and(|session| self.spans(&session.agreed)));
        subflow.tcb.set_option_reserve(self.protocol.data_options());
        subflow.replica = self.send.una();
        subflow.number = self.created;
        self.created += 1;
        self.pending.insert(id);
        self.subflows.push(subflow);
        self.receive.judge_next();
        self.note(Some(id), || What::Subflow(SubflowChange::Opening));
    }

    /// SYN+ACK of our join: the peer must have the keys.
    fn join_answered(&mut self, at: usize, segment: &Segment) {
        let Join::Initiator { nonce, .. } = self.subflows[at].join else { return };
        let keys = self.protocol.session().map(|s| s.agreed.keys());
        let answer = segment.options.mptcp().iter().find_map(|o| match o {
            MptcpOption::Join(MpJoin::SynAck { backup, address_id, hmac, nonce }) => {
                Some((*backup, *address_id, *hmac, *nonce))
            }
            _ => None,
        });
        let (Some((backup, address_id, hmac, peer_nonce)), Some(keys)) = (answer, keys) else {
            return self.reset_at(at, reset_reason::MIDDLEBOX, CloseReason::Mptcp(6));
        };
        if keys.swapped().join_syn_ack(peer_nonce, nonce) != hmac {
            let id = self.subflows[at].id;
            self.note(Some(id), || What::Dropped { reason: DropReason::BadHmac });
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        let again = self.now + self.subflows[at].tcb.rto();
        let subflow = &mut self.subflows[at];
        subflow.peer_backup = backup;
        subflow.remote_id = address_id;
        subflow.join = Join::Initiator { nonce, peer_nonce, confirmed: false, tries: 0, again };
        self.request_ack(at);
    }

    /// Third packet of the peer's join (or, that lost, one that claims to come after it).
    pub(super) fn join_authenticate(&mut self, at: usize, segment: &Segment) {
        let Join::Responder { nonce, peer_nonce, .. } = self.subflows[at].join else { return };
        let keys = self.protocol.session().map(|s| s.agreed.keys());
        let theirs = segment.options.mptcp().iter().find_map(|o| match o {
            MptcpOption::Join(MpJoin::Ack { hmac }) => Some(*hmac),
            _ => None,
        });
        let id = self.subflows[at].id;
        let (Some(theirs), Some(keys)) = (theirs, keys) else {
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        };
        if keys.swapped().join_ack(peer_nonce, nonce) != theirs {
            self.note(Some(id), || What::Dropped { reason: DropReason::BadHmac });
            return self.reset_at(at, reset_reason::MPTCP, CloseReason::Mptcp(1));
        }
        self.subflows[at].join = Join::Responder { nonce, peer_nonce, confirmed: true };
        self.request_ack(at);
        self.announce_subflow(at);
    }

    /// A segment on a subflow that is not joined yet. Whether its content counts.
    pub(super) fn join_progress(&mut self, at: usize, segment: &Segment) -> bool {
        match &mut self.subflows[at].join {
            Join::First => true,
            Join::Initiator { confirmed: true, .. } => true,
            Join::Initiator { confirmed, .. } => {
                // The fourth packet: the peer has checked our HMAC. What refuses us is none.
                if segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::RST) {
                    return false;
                }
                *confirmed = true;
                self.subflows[at].tcb.limit_rto(None);
                self.announce_subflow(at);
                true
            }
            Join::Responder { confirmed, .. } => {
                if *confirmed && has_join_ack(segment) {
                    // Our fourth packet was lost.
                    self.request_ack(at);
                }
                matches!(self.subflows[at].join, Join::Responder { confirmed: true, .. })
            }
        }
    }

    /// Tells that a subflow may carry data.
    fn announce_subflow(&mut self, at: usize) {
        let id = self.subflows[at].id;
        self.outdated.insert(id);
        self.pending.insert(id);
        if std::mem::replace(&mut self.subflows[at].established, true) {
            return;
        }
        self.note(Some(id), || What::Subflow(SubflowChange::Established));
        if let Some(session) = self.protocol.session_mut() {
            self.events.push_back(Event::SubflowEstablished(id));
            session.joined.insert(id);
            session.first_alone &= self.subflows[at].join == Join::First;
            session.paths.succeeded(self.subflows[at].between());
            session.timers.stop(Timer::Bare);
        }
    }
}

fn has_join_ack(segment: &Segment) -> bool {
    let third = |o: &MptcpOption| matches!(o, MptcpOption::Join(MpJoin::Ack { .. }));
    segment.options.mptcp().iter().any(third)
}

/// SYNs of joins, with siblings at hand, go at least this often: a path that comes back is used
/// soon.
const JOIN_RTO_MAX: Duration = Duration::from_secs(1);
