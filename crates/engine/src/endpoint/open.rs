//! Opening: connections of ours and of peers, subflows that connections ask for; sequence numbers
//! (RFC 6528), ports (RFC 6056), keys and tokens (RFC 8684 section 3.1).

use super::flow::{Owner, Tuple, hash};
use super::{Admission, ConnectError, Endpoint, Slot, check_policies, id_hash, is_of_one_host};
use crate::config::{Config, Limits, Profile, TcpConfig};
use crate::event::{ConnId, Event};
use crate::mptcp::crypto::Key;
use crate::mptcp::{Connection, Opening, OwnKey, Role};
use crate::policy::{PolicyError, Spec};
use crate::record::DropReason;
use crate::tcp::{Setup, Tcb};
use crate::time::{Duration, Instant};
use crate::view::{PathId, PathRtt, SubflowId};
use rand_core::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use tabane_wire::mptcp::MpJoin;
use tabane_wire::{MptcpOption, Segment, SeqNum};

/// Keys of the hashes whose results peers see or could aim at.
pub(super) struct Secrets {
    pub(super) flow: (u64, u64),
    isn: (u64, u64),
    port: (u64, u64),
    timestamp: (u64, u64),
    pub(super) copies: (u64, u64),
}

/// State for choosing ephemeral ports.
#[derive(Default)]
pub(super) struct Ports {
    counter: u32,
    /// From where to where there was none, and until when that holds.
    none: Option<(Tuple, Instant)>,
}

impl Secrets {
    pub(super) fn new(rng: &mut impl Rng) -> Self {
        let mut pair = || (rng.next_u64(), rng.next_u64());
        let (flow, isn, port, timestamp) = (pair(), pair(), pair(), pair());
        Self { flow, isn, port, timestamp, copies: (flow.1, flow.0) }
    }

    /// RFC 6528: a clock of 4 microseconds, offset per 4-tuple.
    fn isn(&self, now: Instant, tuple: &Tuple) -> u32 {
        (hash(self.isn, tuple) as u32).wrapping_add((now.0 / 4_000) as u32)
    }
}

impl Endpoint {
    /// Other limits from now on, and TCP as in `tcp` for connections without a profile that are
    /// opened or accepted from now on; what is there keeps what it has.
    ///
    /// # Errors
    /// Its congestion controller does not exist; nothing is changed then.
    pub fn set_limits(&mut self, limits: Limits, tcp: TcpConfig) -> Result<(), PolicyError> {
        let mut config = Config::clone(&self.config);
        (config.limits, config.tcp) = (limits, tcp);
        check_policies(&config)?;
        self.tcp = Arc::new(config.tcp.clone());
        self.config = Arc::new(config);
        Ok(())
    }

    pub(super) fn open_active(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        profile: Profile,
    ) -> Result<ConnId, ConnectError> {
        if !is_of_one_host(remote.ip()) {
            return Err(ConnectError::Address(remote.ip()));
        }
        let config = &profile.config;
        let path = config.path_of(local.ip()).ok_or(ConnectError::NoPath(local.ip()))?;
        let limit = self.config.limits.connections;
        if self.connections.len() >= limit {
            return Err(ConnectError::Limit(limit));
        }
        let local = self.choose_port(local, remote).ok_or(ConnectError::NoPort(remote))?;
        let tuple = Tuple { local, remote };
        let congestion = config.tcp.congestion.clone();
        let mut setup = self.setup(SubflowId(0), path, tuple, congestion, config);
        setup.expected = self.expected(path, config);
        setup.begin_after(self.end_time_wait(tuple));
        let tcb = Tcb::connect(self.now, &profile.tcp, setup)?;
        let key = config.mptcp.enabled.then(|| self.make_key());
        Ok(self.add_connection(Role::Client, tuple, Opening { tcb, key }, profile)?)
    }

    /// A SYN for a listener.
    pub(super) fn open_passive(
        &mut self,
        path: PathId,
        tuple: Tuple,
        syn: &Segment,
        iss_after: Option<SeqNum>,
        how: Admission,
    ) {
        if self.connections.len() >= self.config.limits.connections {
            if how == Admission::Held {
                self.turn_away(path, syn);
            }
            return self.drop_stateless(DropReason::Limit("connections"));
        }
        if self.backlog >= self.config.limits.syn_backlog {
            return self.drop_stateless(DropReason::Limit("SYN backlog"));
        }
        let profile = self.own_profile();
        let config = &profile.config;
        let congestion = config.tcp.congestion.clone();
        let came_by = path;
        let path = self.path_of_peer(path, tuple, config);
        let mut setup = self.setup(SubflowId(0), path, tuple, congestion, config);
        setup.expected = self.expected(path, config);
        setup.begin_after(iss_after);
        let Ok(tcb) = Tcb::accept(self.now, &profile.tcp, setup, syn) else { return };
        let wanted = Connection::wants_mptcp(syn).filter(|_| config.mptcp.enabled);
        let key = wanted.map(|_| self.make_key());
        let opening = Opening { tcb, key };
        let Ok(id) = self.add_connection(Role::Server, tuple, opening, profile) else { return };
        let Some(at) = self.key_of(id) else { return };
        if let Some(slot) = self.connections.get_mut(at) {
            slot.in_backlog = true;
            self.backlog += 1;
            slot.held = how == Admission::Held;
            slot.connection.require_checksum(wanted == Some(true));
            slot.connection.opened_by(came_by);
        }
        if how == Admission::Held {
            let Tuple { local, remote } = tuple;
            self.events.push_back((id, Event::Incoming { local, remote }));
        }
    }

    /// A SYN with MP_JOIN. False if it is not one.
    pub(super) fn open_join(&mut self, path: PathId, tuple: Tuple, syn: &Segment) -> bool {
        let join = syn.options.mptcp().iter().find_map(|option| match option {
            MptcpOption::Join(join @ MpJoin::Syn { .. }) => Some(*join),
            _ => None,
        });
        let Some(join) = join else { return false };
        let MpJoin::Syn { token, .. } = join else { return false };
        let found = self.tokens.find(token_hash(token), |(t, _)| *t == token).map(|(_, key)| *key);
        let Some(key) = found else {
            self.drop_stateless(DropReason::UnknownToken);
            self.reset_join(path, syn, 1);
            return true;
        };
        let Some(slot) = self.connections.get_mut(key) else { return true };
        if let Some((code, reason)) = slot.connection.join_refusal() {
            self.drop_stateless(reason);
            self.reset_join(path, syn, code);
            return true;
        }
        let congestion = slot.connection.congestion().clone();
        let profile = slot.connection.profile();
        let id = slot.connection.reserve_slot();
        let path = self.path_of_peer(path, tuple, &profile.config);
        let setup = self.setup(id, path, tuple, congestion, &profile.config);
        let nonce = self.rng.next_u32();
        let tcb = Tcb::accept(self.now, &profile.tcp, setup, syn);
        let (Ok(tcb), Some(slot)) = (tcb, self.connections.get_mut(key)) else {
            return true;
        };
        slot.connection.accept_join(self.now, tcb, join, nonce);
        self.flows.insert(tuple, Owner::Subflow(key, id));
        self.enqueue(key);
        true
    }

    /// Opens what a connection has asked for. Whether anything was.
    pub(super) fn open_requested(&mut self, key: u32) -> bool {
        let mut any = false;
        while let Some(slot) = self.connections.get_mut(key)
            && let Some(mut request) = slot.connection.take_request()
        {
            any = true;
            let congestion = slot.connection.congestion().clone();
            let profile = slot.connection.profile();
            let local = self.choose_port(request.local, request.remote);
            let tcb = local.and_then(|local| {
                request.local = local;
                let tuple = Tuple { local, remote: request.remote };
                let mut setup =
                    self.setup(request.id, request.path, tuple, congestion, &profile.config);
                setup.begin_after(self.end_time_wait(tuple));
                Tcb::connect(self.now, &profile.tcp, setup).ok()
            });
            let nonce = self.rng.next_u32();
            let Some(slot) = self.connections.get_mut(key) else { break };
            match tcb {
                Some(tcb) => {
                    slot.connection.open_subflow(self.now, &request, tcb, nonce);
                    let tuple = Tuple { local: request.local, remote: request.remote };
                    self.flows.insert(tuple, Owner::Subflow(key, request.id));
                }
                None => slot.connection.request_failed(&request),
            }
        }
        any
    }

    fn add_connection(
        &mut self,
        role: Role,
        tuple: Tuple,
        opening: Opening,
        profile: Profile,
    ) -> Result<ConnId, PolicyError> {
        let id = ConnId(self.next_id);
        let token = opening.key.map(|key| key.token());
        let mut connection = Connection::new(self.now, id, profile, role, opening)?;
        self.next_id += 1;
        for path in self.paths_down.iter() {
            connection.set_path_up(self.now, path, false);
        }
        connection.learn_mtus(&self.mtus);
        connection.learn_rtts(&self.path_rtts);
        let (queued, in_backlog, held) = (false, false, false);
        let slot = Slot { connection, queued, in_backlog, token, held };
        let key = self.connections.insert(slot);
        self.ids.insert_unique(id_hash(id), (id, key), |(id, _)| id_hash(*id));
        if let Some(token) = token {
            self.tokens.insert_unique(token_hash(token), (token, key), |(t, _)| token_hash(*t));
        }
        self.flows.insert(tuple, Owner::Subflow(key, SubflowId(0)));
        self.enqueue(key);
        Ok(id)
    }

    fn setup(
        &self,
        id: SubflowId,
        path: PathId,
        tuple: Tuple,
        congestion: Spec,
        config: &Config,
    ) -> Setup {
        let mtu = self.mtus.iter().find(|(p, _)| *p == path).map_or(1500, |(_, mtu)| *mtu);
        Setup {
            id,
            path,
            mtu,
            local: tuple.local,
            remote: tuple.remote,
            iss: self.secrets.isn(self.now, &tuple),
            timestamp_offset: hash(self.secrets.timestamp, &tuple) as u32,
            congestion,
            window_max: config.tcp.receive_buffer_max,
            expected: None,
            patience: Some(config.mptcp.join_copy_after)
                .filter(|patience| id != SubflowId(0) && !patience.is_zero()),
        }
    }

    /// What is known of a path, where openings are hedged.
    fn expected(&self, path: PathId, config: &Config) -> Option<PathRtt> {
        let known = self.path_rtts.iter().find(|(id, _)| *id == path).map(|(_, rtt)| *rtt);
        known.filter(|_| config.mptcp.hedging)
    }

    /// The own path of a subflow that the peer opens by a SYN that came by `path`.
    fn path_of_peer(&self, path: PathId, tuple: Tuple, config: &Config) -> PathId {
        if !config.mptcp.hedging {
            return path;
        }
        config.path_of_peer(tuple.remote.ip()).unwrap_or(path)
    }

    /// The port asked for, or an ephemeral one (RFC 6056 section 3.3.3): per destination in order
    /// from a secret start. If the next [`PORT_TRIES`] are all taken, one whose connection is over
    /// and in TIME-WAIT for a second ([`Endpoint::may_reuse`]). `None` if there is none; then none
    /// is looked for again for [`NO_PORT_LASTS`], since that takes as long as all else together.
    fn choose_port(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<SocketAddr> {
        if local.port() != 0 {
            let free = self.flows.find(&Tuple { local, remote }).is_none();
            return free.then_some(local);
        }
        let ends = Tuple { local, remote };
        if self.ports.none.is_some_and(|(none, until)| none == ends && self.now < until) {
            return None;
        }
        let count = u32::from(LAST_PORT - FIRST_PORT) + 1;
        let start = hash(self.secrets.port, &ends) as u32;
        let mut over = None;
        for tried in 0..count {
            if tried >= PORT_TRIES && over.is_some() {
                return over;
            }
            let offset = start.wrapping_add(self.ports.counter) % count;
            self.ports.counter = self.ports.counter.wrapping_add(1);
            let candidate = SocketAddr::new(local.ip(), FIRST_PORT + offset as u16);
            if self.listeners.contains_key(&candidate) {
                continue;
            }
            match self.flows.find(&Tuple { local: candidate, remote }) {
                None => return Some(candidate),
                Some(Owner::TimeWait(at)) if over.is_none() && self.may_reuse(at) => {
                    over = Some(candidate);
                }
                Some(_) => {}
            }
        }
        if over.is_none() {
            self.ports.none = Some((ends, self.now + NO_PORT_LASTS));
        }
        over
    }

    /// A key whose token is not in use.
    fn make_key(&mut self) -> OwnKey {
        loop {
            let key = OwnKey::new(Key(self.rng.next_u64()));
            let token = key.token();
            if self.tokens.find(token_hash(token), |(t, _)| *t == token).is_none() {
                return key;
            }
        }
    }

    /// Forgets the token of a connection that fell back or is over.
    pub(super) fn drop_token(&mut self, key: u32) {
        let slot = self.connections.get_mut(key);
        let Some(token) = slot.and_then(|slot| slot.token.take()) else { return };
        if let Ok(entry) = self.tokens.find_entry(token_hash(token), |(t, _)| *t == token) {
            entry.remove();
        }
    }
}

/// Tokens are hashes already; those of keys that we chose.
fn token_hash(token: u32) -> u64 {
    u64::from(token).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Ephemeral ports (the range of Linux).
const FIRST_PORT: u16 = 32_768;
const LAST_PORT: u16 = 60_999;
/// Ports that are looked at for a free one, before one in TIME-WAIT is as good.
const PORT_TRIES: u32 = 64;
/// How long it is remembered that there is no port to a destination.
const NO_PORT_LASTS: Duration = Duration::from_millis(100);
