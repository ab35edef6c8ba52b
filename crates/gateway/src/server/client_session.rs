//! A client at the server: its engine, what it has open, and what it may use.

use super::limiters::RateLimiters;
use super::memory::FRESH;
use super::overrides::OverrideCache;
use crate::address::{ClientNumber, Network, PATHS_MAX};
use crate::bond::{Bond, paths_of_peer};
use crate::config::matching::RuleError;
use crate::config::{ClientEntry, ClientLimits, Policies, Rules, ServerConfig};
use crate::engine_config::{BUFFER_MAX, engine_config};
use crate::index::PathIndex;
use crate::model::Role;
use crate::path::{Announcement, Ends, Lives, Reports, Responder, Use};
use crate::policy_requests::{LENGTH_MAX, PolicyRequests};
use crate::snapshots;
use crate::udp::Dispatcher;
use crate::udp::fragment::Reassembler;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use tabane_engine::config::TcpConfig;
use tabane_engine::policy::PolicyError;
use tabane_engine::{ConnId, Duration, Event, Instant};
use tabane_net::wireguard::PeerId;
use thiserror::Error;

pub(super) struct ClientSession {
    pub(super) name: String,
    pub(super) number: ClientNumber,
    pub(super) bond: Bond,
    pub(super) limits: ClientLimits,
    /// The tunnels of its paths.
    pub(super) peers: [Option<PeerId>; PATHS_MAX],
    /// The watch over its paths.
    pub(super) responders: Vec<Responder>,
    /// What its paths carry.
    pub(super) reports: Vec<Reports>,
    /// Its connections that are carried on.
    pub(super) conns: BTreeSet<ConnId>,
    /// Connections that it has asked for since it is there, and those of them that were refused.
    pub(super) opened: u64,
    pub(super) refused: u64,
    /// Packets from addresses that are not its.
    pub(super) spoofed: u64,
    /// Copies and order of its datagrams.
    pub(super) dispatcher: Dispatcher,
    /// The path by which its last datagram came first.
    pub(super) fastest: Option<PathIndex>,
    /// What it drew whenever it started.
    pub(super) lives: Lives,
    /// How often that was another number.
    pub(super) ended_runs: u32,
    /// Fragments of its datagrams.
    pub(super) reassembler: Reassembler,
    /// Of the last datagram to it that was cut.
    pub(super) fragment_id: u32,
    /// It is in the list of those with something to do.
    pub(super) touched: bool,
    /// Policies of what it is sent.
    pub(super) rules: Rules,
    /// What it has said so far of its wishes, on which connection.
    pub(super) policy_requests: Option<(ConnId, Vec<u8>)>,
    /// Its wishes, once it has said them.
    pub(super) requested: Option<Vec<u8>>,
    /// What it asks for single connections.
    pub(super) policy_override: OverrideCache,
    /// Its rates.
    pub(super) limiters: RateLimiters,
    /// Bytes that its connections held at the last look, and those admitted since.
    held: u64,
    /// Connections that are not in `conns` any more, or never were, as of the last look.
    pub(super) lingering: usize,
    fresh: u64,
    /// Its connections hold so much that buffers are to be small.
    pub(super) tight: bool,
    /// All clients together hold too much, and this one more than its part.
    full: bool,
    /// Since when no path works.
    left: Option<Instant>,
    up: [bool; PATHS_MAX],
    /// Whether one did when it was last told.
    pub(super) was_there: bool,
    /// As the engine was told.
    carries: [bool; PATHS_MAX],
    /// The connection that was looked at last.
    looked_at: ConnId,
    /// What it says of its paths.
    pub(super) announced: [Option<Announcement>; PATHS_MAX],
}

/// Why there is no member.
#[derive(Error, Debug)]
pub(crate) enum ClientSessionError {
    /// A policy that does not exist.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The same.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The system has no random bytes.
    #[error(transparent)]
    Random(#[from] io::Error),
}

/// Connections looked at in one tick, to find out whether paths are full.
const LOOKED_AT: usize = 64;
/// A client that is sent less fills no path.
const BUSY_BPS: f64 = 50_000.0;
/// The receive buffer of one connection is at most this share of what all may hold, its send
/// buffer half of that.
const BUFFER_SHARE: u64 = 16;
/// Least receive buffer of a connection.
const BUFFER_MIN: u64 = 128 << 10;
/// Least share of the send buffer.
const SHARE_MIN: u64 = 16 << 10;
/// Send buffer of a connection among many until the next look.
const BUFFER_FIRST: u64 = 1 << 20;
/// With fewer connections their buffers together are within the limit anyway.
const CROWD: usize = 10;

/// Inner MTU before anything is known: what fits into any path that carries IPv6.
const MTU: u16 = 1280;

/// The buffers of a client's connections.
fn tcp_of(tcp: TcpConfig, limits: &ClientLimits) -> TcpConfig {
    let buffer = (limits.buffer.0 / BUFFER_SHARE).clamp(BUFFER_MIN, BUFFER_MAX);
    tcp.with(|tcp| {
        tcp.receive_buffer_max = buffer;
        tcp.receive_buffer = tcp.receive_buffer.min(buffer);
        tcp.send_buffer = tcp.send_buffer.min(buffer / 2);
    })
}

impl ClientSession {
    /// A client that was configured so.
    ///
    /// # Errors
    /// [`ClientSessionError`].
    pub(super) fn new(
        server: &ServerConfig,
        client: &ClientEntry,
        network: Network,
    ) -> Result<Self, ClientSessionError> {
        let limits = client.limits.clone().unwrap_or_else(|| server.limits.clone());
        let rules = Rules::compile(&[], &Policies::default(), &server.down)?;
        let number = ClientNumber(client.number);
        let paths = paths_of_peer(|path| network.path(number, path).to_vec(), MTU);
        let mut config = engine_config(paths, &rules.rest().down);
        config.limits.connections = limits.connections;
        config.tcp = tcp_of(config.tcp, &limits);
        config.records = server.metrics.is_some() || server.web.is_some();
        config.mptcp.full_mesh = false;
        config.mptcp.accept_addresses = false;
        let mut bond = Bond::new(config, crate::seed()?)?;
        let any: [SocketAddr; 2] = [([0, 0, 0, 0], 0).into(), ([0_u16; 8], 0).into()];
        for address in any {
            // A new endpoint has no other listeners.
            let _ = bond.endpoint.listen_held(address);
        }
        let responder = |_| Responder::new(Instant::ZERO, network.service());
        let service = network.service()[0];
        let epoch = crate::draw()?;
        let reports = |path| {
            let ends = Ends { path: network.path(number, path)[0], service };
            Reports::new(ends, true, epoch)
        };
        Ok(Self {
            name: client.name.clone(),
            number,
            bond,
            limiters: RateLimiters::new(limits.rate),
            limits,
            peers: [None; PATHS_MAX],
            responders: (0..PATHS_MAX).map(responder).collect(),
            reports: PathIndex::all().map(reports).collect(),
            conns: BTreeSet::new(),
            opened: 0,
            refused: 0,
            spoofed: 0,
            dispatcher: Dispatcher::new(crate::seed()?),
            fastest: None,
            lives: Lives::default(),
            ended_runs: 0,
            reassembler: Reassembler::default(),
            fragment_id: 0,
            touched: false,
            rules,
            policy_requests: None,
            requested: None,
            policy_override: OverrideCache::default(),
            held: 0,
            lingering: 0,
            fresh: 0,
            tight: false,
            full: false,
            left: None,
            up: [false; PATHS_MAX],
            was_there: false,
            carries: [false; PATHS_MAX],
            looked_at: ConnId(0),
            announced: [None; PATHS_MAX],
        })
    }

    /// Its configuration, or the server's, has been read again; connections that are there keep
    /// their buffers.
    ///
    /// # Errors
    /// [`ClientSessionError`].
    pub(super) fn reload(
        &mut self,
        now: Instant,
        server: &ServerConfig,
        client: &ClientEntry,
    ) -> Result<(), ClientSessionError> {
        self.rules = match &self.requested {
            Some(text) => PolicyRequests::parse(text, &server.down)
                .or_else(|_| Rules::compile(&[], &Policies::default(), &server.down))?,
            None => Rules::compile(&[], &Policies::default(), &server.down)?,
        };
        self.name.clone_from(&client.name);
        self.limits = client.limits.clone().unwrap_or_else(|| server.limits.clone());
        self.limiters.set_rate(now, self.limits.rate);
        // Paths are as they were.
        let mut config = engine_config(Vec::new(), &self.rules.rest().down);
        config.limits.connections = self.limits.connections;
        self.bond.endpoint.set_limits(config.limits, tcp_of(config.tcp, &self.limits))?;
        Ok(())
    }

    /// Whether a packet that came by one of its paths may say that it is from there.
    pub(super) fn owns(&self, network: &Network, source: IpAddr) -> bool {
        network.client_of(source) == Some(self.number)
    }

    /// A path begins or ceases to work.
    pub(super) fn set_up(&mut self, now: Instant, path: PathIndex, up: bool) {
        self.up[path] = up;
        self.use_path(now, path);
    }

    /// A path that the client does not use is none for what it is sent.
    fn use_path(&mut self, now: Instant, path: PathIndex) {
        let carries = self.up[path] && self.is_used(path);
        if std::mem::replace(&mut self.carries[path], carries) != carries {
            self.bond.endpoint.set_path_up(now, path.into(), carries);
        }
    }

    /// Whether the client uses a path, as far as it has said.
    pub(super) fn is_used(&self, path: PathIndex) -> bool {
        !self.announced[path].is_some_and(|announced| announced.is_unused())
    }

    /// Whether the client keeps a path back, as far as it has said.
    pub(super) fn is_low(&self, path: PathIndex) -> bool {
        self.announced[path].is_some_and(|announced| announced.using == Use::Low)
    }

    /// Looks at some of its connections: whether paths are full, and what they hold.
    pub(super) fn look(&mut self, now: Instant) {
        let mut full = [false; PATHS_MAX];
        if self.bond.counters.iter().any(|counters| counters.tx_bps >= BUSY_BPS) {
            let later = (Bound::Excluded(self.looked_at), Bound::Unbounded);
            let later = self.conns.range(later).chain(self.conns.range(..=self.looked_at));
            let ids: Vec<ConnId> = later.copied().take(LOOKED_AT).collect();
            for id in ids {
                self.looked_at = id;
                if let Some(conn) = self.bond.endpoint.connection(id) {
                    snapshots::note_full(&conn.info(now), &mut full);
                }
            }
        }
        for (responder, full) in self.responders.iter_mut().zip(full) {
            responder.set_full(full);
        }
        self.left = if self.is_there() { None } else { Some(self.left.unwrap_or(now)) };
        self.share_out();
    }

    /// Divides the buffer that the client may have among its connections, so that many of them
    /// that nobody reads leave room for the next. What they hold already counts all the same.
    fn share_out(&mut self) {
        let share = self.share();
        for id in &self.conns {
            if let Some(conn) = self.bond.endpoint.connection(*id) {
                conn.limit_send_buffer(share);
            }
        }
    }

    fn share(&self) -> u64 {
        let part = if self.tight { 4 } else { 2 };
        (self.limits.buffer.0 / part / (self.crowd() as u64).max(1)).max(SHARE_MIN)
    }

    /// Another connection leads somewhere. Among many it begins with little, until the next
    /// look: so many that come at once and are not read would else have filled everything by then.
    pub(super) fn add(&mut self, id: ConnId) {
        self.conns.insert(id);
        self.fresh += 1;
        let most = if self.crowd() > CROWD { BUFFER_FIRST } else { u64::MAX };
        let share = self.share().min(most);
        if let Some(conn) = self.bond.endpoint.connection(id) {
            conn.limit_send_buffer(share);
        }
    }

    /// Ends every connection at once: the client hears of it.
    pub(super) fn abort_all(&mut self, now: Instant) {
        let ids: Vec<ConnId> = self.bond.endpoint.connection_ids().collect();
        for id in ids {
            if let Some(conn) = self.bond.endpoint.connection(id) {
                conn.abort(now);
            }
        }
    }

    /// What its connections hold now; whether all clients together hold much or too much.
    pub(super) fn note_held(&mut self, held: u64, (much, full): (bool, bool)) {
        (self.held, self.fresh, self.full) = (held, 0, full);
        let limit = self.limits.buffer.0;
        self.tight = much || held > limit / 2 || self.tight && held > limit / 4;
    }

    /// Whether there are to be no more connections of it.
    pub(super) fn is_over_memory_limit(&self) -> bool {
        let held = self.held + self.fresh * FRESH;
        self.full || self.crowd() > CROWD && held > self.limits.buffer.0
    }

    /// Connections that may hold something.
    fn crowd(&self) -> usize {
        self.conns.len() + self.lingering
    }

    /// For how long none of its paths has worked.
    pub(super) fn away(&self, now: Instant) -> Duration {
        self.left.map_or(Duration::ZERO, |left| now.saturating_since(left))
    }

    /// Whether an event was about its wishes.
    pub(super) fn take_policy_requests(
        &mut self,
        now: Instant,
        id: ConnId,
        event: Event,
        own: &Policies,
    ) -> bool {
        let Some((on, text)) = &mut self.policy_requests else { return false };
        if *on != id {
            return false;
        }
        if let Event::Closed(_) = event {
            self.policy_requests = None;
            return true;
        }
        let Some(conn) = self.bond.endpoint.connection(id) else { return true };
        while let Some(chunk) = conn.read(LENGTH_MAX) {
            text.extend_from_slice(&chunk);
            if text.len() > LENGTH_MAX {
                conn.abort(now);
                return true;
            }
        }
        if conn.is_finished() {
            match PolicyRequests::parse(text, own) {
                Ok(rules) => {
                    self.rules = rules;
                    self.requested = Some(std::mem::take(text));
                }
                Err(why) => {
                    conn.write(&mut Bytes::from(why));
                }
            }
            conn.close(now);
        }
        true
    }

    /// Whether a path works.
    pub(super) fn works(&self, path: PathIndex) -> bool {
        self.up[path]
    }

    /// Whether one of its paths works.
    pub(super) fn is_there(&self) -> bool {
        self.up.contains(&true)
    }

    /// What the client says of a path.
    pub(super) fn announced(&mut self, now: Instant, path: PathIndex, announcement: Announcement) {
        self.announced[path] = Some(announcement);
        self.limiters.set_cap(now, path, announcement.cap_bps);
        self.use_path(now, path);
    }

    /// What a path may be used for, as far as the client has said.
    pub(super) fn role(&self, path: PathIndex) -> Role {
        self.announced[path].map_or(Role::Primary, |announcement| announcement.role)
    }

    /// Most that it is to be sent by a path, bits per second.
    pub(super) fn cap_bps(&self, path: PathIndex) -> Option<u64> {
        self.announced[path]?.cap_bps
    }

    /// The paths that work, those that the client wants used first.
    pub(super) fn working(&self) -> impl Iterator<Item = PathIndex> {
        let rank = |path: &PathIndex| match self.announced[*path].map(|a| a.using) {
            None | Some(Use::Active) => 0,
            Some(Use::Low) => 1,
            Some(Use::Unused) => 2,
        };
        let mut paths: Vec<_> = PathIndex::all().filter(|path| self.up[*path]).collect();
        paths.sort_by_key(rank);
        paths.into_iter()
    }

    /// The path by which it is best told something.
    pub(super) fn best(&self) -> Option<PathIndex> {
        self.working().next()
    }
}
