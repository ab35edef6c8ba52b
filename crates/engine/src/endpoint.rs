//! The interface of the engine: many connections behind one state machine ([`Endpoint`]).
//!
//! # The run loop
//!
//! 1. Feed `handle_*`: one input, or a batch of what has come. Time does not go back.
//! 2. Take: `poll_segment` (or `poll_into`, or `poll_transmit`), `poll_event` and `poll_record`,
//!    until each returns `None`; each may make more for the others. Segments may be left for later
//!    by a driver that cannot send any more or has others to serve. Events may not: those of the
//!    last inputs are taken before the next input.
//! 3. Sleep until `poll_timeout`, which is at once while something is left.
//!
//! Debug builds panic where time goes back, and at an input too early. What the rule is for: it
//! alone limits the number of events that wait, to what one turn makes.
//!
//! Connections may be called at any time; what was done with them takes effect in step 2.
//!
//! Whatever the number of connections, a segment costs the same: a hash table finds its
//! connection, a queue holds the connections that may have something to send, and a heap holds
//! one deadline per connection.

mod ahead;
mod api;
mod copies;
mod deadlines;
mod flow;
mod open;
mod paths;
mod slots;
mod stateless;
mod time_wait;
mod turn;

use self::ahead::Ahead;
pub use self::api::{ConnectError, Departure, ListenError, Stats, Transmit, TurnedAway};
use self::copies::Copies;
use self::deadlines::Deadlines;
use self::flow::{FlowTable, Owner, Tuple};
use self::open::{Ports, Secrets};
use self::slots::Slots;
pub(crate) use self::stateless::is_of_one_host;
use self::time_wait::TimeWaits;
use self::turn::Turn;
use crate::config::{Config, Profile, TcpConfig};
use crate::event::{ConnId, Event};
use crate::mptcp::{Connection, Mtus, PathRtts};
use crate::policy::PolicyError;
use crate::record::{DropReason, Record, RecordLog, What};
use crate::time::Instant;
use crate::view::{PathId, PathSet, SubflowId};
use crate::{congestion, egress, scheduler};
use bytes::Bytes;
use hashbrown::HashTable;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use tabane_wire::{ParseError, Segment};

/// A host's TCP and MPTCP stack: it accepts, opens and owns connections, and assigns each arriving
/// segment to one. It has no sockets, no clock and no threads; a driver calls it.
///
/// # Contract
///
/// The driver gives the time with every call, and time never goes back. It feeds one input
/// (`handle_segment`, `handle_packet`, `handle_timeout`, or a change to a [`Connection`]) and then
/// drains `poll_segment` (or `poll_into`, `poll_transmit`), `poll_event` and, if records are on,
/// `poll_record`, until each returns `None`. Then it waits for a packet or for `poll_timeout`.
///
/// - Input never fails: what is malformed, forged or beyond a limit is counted and recorded.
/// - A segment leaves by every path in its [`Departure::paths`]; the driver knows what a path is.
/// - A connection exists from `connect`, or from the SYN that a listener took, until `poll_event`
///   has returned its [`Event::Closed`]; then its [`ConnId`] is invalid and never used again.
/// - With the same configuration, seed and inputs it does the same, byte for byte.
pub struct Endpoint {
    config: Arc<Config>,
    /// `config.tcp`, as subflows share it.
    tcp: Arc<TcpConfig>,
    rng: ChaCha8Rng,
    secrets: Secrets,
    connections: Slots,
    /// Slots by id and by token.
    ids: HashTable<(ConnId, u32)>,
    tokens: HashTable<(u32, u32)>,
    /// The connection that something came for last: whose it is asks for it next.
    latest: Option<(ConnId, u32)>,
    flows: FlowTable,
    ahead: Ahead,
    listeners: BTreeMap<SocketAddr, Admission>,
    /// Connections that may have something to send.
    ready: VecDeque<u32>,
    deadlines: Deadlines,
    time_waits: TimeWaits,
    /// Made when a segment first comes by another path than its subflow's own.
    copies: Option<Copies>,
    /// Segments for no connection: resets and ACKs in TIME-WAIT (`Limits::resets`).
    stateless: VecDeque<Departure>,
    /// Refused because `Limits::connections` are open; as many as `Limits::resets`.
    turned_away: VecDeque<TurnedAway>,
    events: VecDeque<(ConnId, Event)>,
    log: RecordLog,
    /// Accepted connections whose handshake is not over (`Limits::syn_backlog`).
    backlog: usize,
    paths_down: PathSet,
    mtus: Mtus,
    /// What is known of paths, and whether the driver says it.
    path_rtts: PathRtts,
    rtts_given: bool,
    /// Copies may come, and are to be removed.
    several_paths: bool,
    next_id: u64,
    ports: Ports,
    now: Instant,
    turn: Turn,
    stats: Stats,
}

/// A connection and what the endpoint notes about it.
#[repr(C, align(64))]
struct Slot {
    /// As entered in `tokens`.
    token: Option<u32>,
    /// Whether it is in `ready`.
    queued: bool,
    /// Whether it is counted in `backlog`.
    in_backlog: bool,
    /// Its SYN is not answered before `admit`.
    held: bool,
    connection: Connection,
}

/// What a listener does with a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    /// Answers it at once.
    Open,
    /// Tells the application, and waits for `admit`.
    Held,
}

impl Endpoint {
    /// An endpoint. Everything random in it comes from `seed`.
    ///
    /// # Errors
    /// A policy named in the configuration does not exist.
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, PolicyError> {
        check_policies(&config)?;
        let mut rng = ChaCha8Rng::from_seed(seed);
        let secrets = Secrets::new(&mut rng);
        Ok(Self {
            flows: FlowTable::new(secrets.flow),
            ahead: Ahead::default(),
            secrets,
            rng,
            connections: Slots::default(),
            ids: HashTable::new(),
            tokens: HashTable::new(),
            latest: None,
            listeners: BTreeMap::new(),
            ready: VecDeque::new(),
            deadlines: Deadlines::new(),
            time_waits: TimeWaits::new(config.limits.connections, config.tcp.time_wait),
            copies: None,
            stateless: VecDeque::new(),
            turned_away: VecDeque::new(),
            events: VecDeque::new(),
            log: RecordLog::new(config.records),
            backlog: 0,
            paths_down: PathSet::NONE,
            mtus: Mtus::new(config.paths.iter().map(|p| (p.id, p.mtu)).collect()),
            path_rtts: PathRtts::default(),
            rtts_given: false,
            several_paths: config.mptcp.remove_copies && config.paths.len() > 1,
            next_id: 1,
            ports: Ports::default(),
            now: Instant::ZERO,
            turn: Turn::default(),
            stats: Stats::default(),
            tcp: Arc::new(config.tcp.clone()),
            config: Arc::new(config),
        })
    }

    /// Accepts connections to `local`; an unspecified address is every address, port 0 every
    /// port.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, local: SocketAddr) -> Result<(), ListenError> {
        self.add_listener(local, Admission::Open)
    }

    /// As `listen`, but a SYN is not answered yet: `Event::Incoming` asks for [`Endpoint::admit`],
    /// or for `abort` of the connection, which refuses it. For relays, which know only once they
    /// have connected on. Those that wait count in `Limits::syn_backlog`. With as many connections
    /// as may be, a SYN is refused at once ([`Endpoint::poll_turned_away`]).
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen_held(&mut self, local: SocketAddr) -> Result<(), ListenError> {
        self.add_listener(local, Admission::Held)
    }

    fn add_listener(&mut self, local: SocketAddr, how: Admission) -> Result<(), ListenError> {
        if self.listeners.contains_key(&local) {
            return Err(ListenError::InUse(local));
        }
        self.listeners.insert(local, how);
        Ok(())
    }

    /// Answers the SYN of a connection that `Event::Incoming` announced.
    pub fn admit(&mut self, id: ConnId) {
        let Some(key) = self.key_of(id) else { return };
        if let Some(slot) = self.connections.get_mut(key) {
            slot.held = false;
        }
        self.enqueue(key);
    }

    /// Stops accepting connections to `local`; those accepted live on.
    pub fn unlisten(&mut self, local: SocketAddr) {
        self.listeners.remove(&local);
    }

    /// Opens a connection from `local` (port 0: an ephemeral one, RFC 6056) to `remote`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<ConnId, ConnectError> {
        self.advance(now);
        self.open_active(local, remote, self.own_profile())
    }

    /// As `connect`, with the settings of a profile.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect_as(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        profile: &Profile,
    ) -> Result<ConnId, ConnectError> {
        self.advance(now);
        self.open_active(local, remote, profile.clone())
    }

    /// Settings for connections that differ from the endpoint's own: TCP, MPTCP, and the paths
    /// that they may use. Limits and records remain the endpoint's.
    ///
    /// # Errors
    /// A policy named in it does not exist.
    pub fn profile(&self, config: Config) -> Result<Profile, PolicyError> {
        check_policies(&config)?;
        let Config { limits, records, segment_records, .. } = *self.config;
        Ok(Profile::new(Config { limits, records, segment_records, ..config }))
    }

    fn own_profile(&self) -> Profile {
        Profile { config: self.config.clone(), tcp: self.tcp.clone() }
    }

    /// A connection, to read, write and steer. `None` once it is over. What was done with it
    /// takes effect with the next `poll_segment`.
    pub fn connection(&mut self, id: ConnId) -> Option<&mut Connection> {
        let key = self.key_of(id)?;
        self.enqueue(key);
        self.connections.get_mut(key).map(|slot| &mut slot.connection)
    }

    /// Two connections at once, for whoever passes bytes from one to the other
    /// ([`pipe`](crate::pipe)). `None` if one is over, or both are the same.
    pub fn connections_mut(&mut self, ids: [ConnId; 2]) -> Option<[&mut Connection; 2]> {
        let keys = [self.key_of(ids[0])?, self.key_of(ids[1])?];
        keys.into_iter().for_each(|key| self.enqueue(key));
        Some(self.connections.get_two(keys)?.map(|slot| &mut slot.connection))
    }

    /// Takes a segment that came by `path`. Never fails: bad input is a record and a counter.
    #[inline]
    pub fn handle_segment(&mut self, now: Instant, path: PathId, segment: &Segment) {
        self.feed(now);
        let tuple = Tuple { local: segment.dst, remote: segment.src };
        match self.find_owner(tuple) {
            Some(Owner::Subflow(key, id)) => {
                if self.several_paths && self.is_copy(key, id, path, segment) {
                    return;
                }
                let Some(slot) = self.connections.get_mut(key) else { return };
                slot.connection.on_segment(now, path, id, segment);
                self.enqueue(key);
                self.take_events(key);
            }
            Some(Owner::TimeWait(at)) => self.handle_time_wait(path, at, tuple, segment),
            None => self.handle_unknown(path, tuple, segment),
        }
    }

    /// Whether the segment has come by another path before; then it is dropped here.
    fn is_copy(&mut self, key: u32, id: SubflowId, path: PathId, segment: &Segment) -> bool {
        let copies = match &mut self.copies {
            Some(copies) => copies,
            none => {
                let slot = self.connections.get(key);
                let own = |s: &Slot| s.connection.own_path(id).is_none_or(|own| own == path);
                // A hedged opening is no reason for a table yet: TCP takes what comes twice.
                if slot.is_none_or(|s| own(s) || s.connection.hedges(id)) {
                    return false;
                }
                none.insert(Copies::new(self.secrets.copies, self.config.limits.copies))
            }
        };
        let copy = copies.is_copy(path.0, segment);
        if copy {
            self.stats.copies += 1;
            if let Some(slot) = self.connections.get_mut(key) {
                slot.connection.on_copy(self.now, path, id, segment);
            }
            let reason = DropReason::Copy;
            self.log.add(self.now, None, None, || What::Dropped { reason });
        }
        copy
    }

    /// The next segment to send.
    pub fn poll_segment(&mut self, now: Instant) -> Option<Departure> {
        let mut segment = Segment::blank();
        let paths = self.poll_into(now, &mut segment)?;
        Some(Departure { paths, segment })
    }

    /// As `poll_segment`, with the segment where the caller wants it, in place of what was there,
    /// and its paths as the answer. For those who send so many that copying one counts.
    #[inline]
    pub fn poll_into(&mut self, now: Instant, segment: &mut Segment) -> Option<PathSet> {
        self.turn.take();
        self.advance(now);
        if let Some(departure) = self.stateless.pop_front() {
            *segment = departure.segment;
            return Some(departure.paths);
        }
        while let Some(key) = self.ready.front().copied() {
            let Some(slot) = self.connections.get_mut(key) else {
                self.ready.pop_front();
                continue;
            };
            let held = slot.held && slot.connection.is_opening();
            if !held && let Some(paths) = slot.connection.poll(now, segment) {
                return Some(paths);
            }
            if held || !self.flush(key) {
                self.ready.pop_front();
                if let Some(slot) = self.connections.get_mut(key) {
                    slot.queued = false;
                }
            }
        }
        None
    }

    /// Takes an IP packet: parse (the payload is copied) and `handle_segment`.
    pub fn handle_packet(&mut self, now: Instant, path: PathId, packet: &[u8]) {
        self.handle_parsed(now, path, Segment::parse_slice(packet));
    }

    /// As `handle_packet`, with the payload sharing the packet's memory.
    pub fn handle_bytes(&mut self, now: Instant, path: PathId, packet: &Bytes) {
        self.handle_parsed(now, path, Segment::parse(packet));
    }

    fn handle_parsed(&mut self, now: Instant, path: PathId, segment: Result<Segment, ParseError>) {
        match segment {
            Ok(segment) => self.handle_segment(now, path, &segment),
            Err(_) => {
                self.feed(now);
                self.stats.malformed += 1;
                let reason = DropReason::Malformed;
                self.log.add(now, None, None, || What::Dropped { reason });
            }
        }
    }

    /// The next packet to send, written to the start of `buf` (at least the largest MTU).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<Transmit> {
        let mut segment = Segment::blank();
        loop {
            let paths = self.poll_into(now, &mut segment)?;
            match segment.emit(buf) {
                Ok(len) => return Some(Transmit { paths, len }),
                // Too large for the buffer: as if lost on the way.
                Err(_) => self.stats.unsendable += 1,
            }
        }
    }

    /// When `handle_timeout` wants to be called next. May be early, never late; at once while
    /// there is something to take.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() || !self.stateless.is_empty() || !self.events.is_empty() {
            return Some(self.now);
        }
        let deadline = self.deadlines.first().map(|(at, _)| at);
        match (deadline, self.time_waits.next_expiry()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Runs every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.feed(now);
        while let Some(key) = self.deadlines.expire(now) {
            let Some(slot) = self.connections.get_mut(key) else { continue };
            if slot.connection.next_timeout() <= now {
                slot.connection.on_timeout(now);
                self.enqueue(key);
                self.take_events(key);
            } else {
                self.schedule(key);
            }
        }
        while let Some((tuple, at)) = self.time_waits.expire(now) {
            self.flows.remove(&tuple, Owner::TimeWait(at));
        }
    }

    /// The next SYN that a held listener had no connection for (`Limits::connections`). It is
    /// answered with a reset, and nothing is kept of it; the relay may say more before that. Those
    /// beyond `Limits::resets` that nobody takes are forgotten.
    pub fn poll_turned_away(&mut self) -> Option<TurnedAway> {
        self.turned_away.pop_front()
    }

    /// The next event for the application. With `Event::Closed` the connection is gone.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        self.turn.take();
        let Some((id, event)) = self.events.pop_front() else {
            self.turn.events_taken();
            return None;
        };
        if let Event::Closed(_) = event
            && let Some(key) = self.key_of(id)
        {
            self.forget(key);
        }
        Some((id, event))
    }

    /// The next record, if `Config::records`.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.log.pop()
    }

    /// Counters of what belongs to no connection.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Connections there are, in whatever state.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    #[inline]
    fn enqueue(&mut self, key: u32) {
        if let Some(slot) = self.connections.get_mut(key)
            && !slot.queued
        {
            slot.queued = true;
            self.ready.push_back(key);
        }
    }

    /// Called when a connection has nothing more to send for now: opens the subflows that it
    /// requested, forgets the flows that closed, passes on its events, and notes its deadline.
    /// Returns whether it may have something to send again.
    fn flush(&mut self, key: u32) -> bool {
        let Some(slot) = self.connections.get_mut(key) else { return false };
        let again = slot.connection.flush_closed();
        if slot.in_backlog && !slot.connection.is_opening() {
            slot.in_backlog = false;
            self.backlog -= 1;
        }
        let changed = slot.connection.changes_flows();
        if slot.token.is_some() && slot.connection.token().is_none() {
            self.drop_token(key);
        }
        if self.config.mptcp.hedging {
            self.learn_rtts(key);
        }
        let opened = changed && self.open_requested(key);
        if changed {
            self.forget_flows(key);
        }
        self.take_events(key);
        self.schedule(key);
        again || opened
    }

    /// Notes the connection's deadline.
    #[inline]
    fn schedule(&mut self, key: u32) {
        let Some(slot) = self.connections.get(key) else { return };
        self.deadlines.set(key, slot.connection.next_timeout());
    }

    // For each segment: a call would cost what `.ci/check_instructions.py` counts.
    #[inline(always)]
    fn take_events(&mut self, key: u32) {
        let Some(slot) = self.connections.get_mut(key) else { return };
        let id = slot.connection.id();
        self.latest = Some((id, key));
        while let Some(event) = slot.connection.take_event() {
            self.events.push_back((id, event));
        }
        if self.log.is_on() {
            while let Some(record) = slot.connection.take_record() {
                self.log.add(record.at, record.conn, record.subflow, || record.what);
            }
        }
    }

    fn forget_flows(&mut self, key: u32) {
        while let Some(closed) =
            self.connections.get_mut(key).and_then(|s| s.connection.take_closed_tuple())
        {
            let tuple = Tuple { local: closed.local, remote: closed.remote };
            self.flows.remove(&tuple, Owner::Subflow(key, closed.id));
            if let Some((at, evicted)) = self.time_waits.insert(self.now, tuple, closed) {
                if let Some((old, old_at)) = evicted {
                    self.flows.remove(&old, Owner::TimeWait(old_at));
                }
                self.flows.insert(tuple, Owner::TimeWait(at));
            }
        }
    }

    /// Removes a connection that has been reported closed.
    fn forget(&mut self, key: u32) {
        self.forget_flows(key);
        self.take_events(key);
        self.drop_token(key);
        self.deadlines.set(key, Instant::FAR_FUTURE);
        let Some(slot) = self.connections.remove(key) else { return };
        self.latest = None;
        self.backlog -= usize::from(slot.in_backlog);
        let id = slot.connection.id();
        if let Ok(entry) = self.ids.find_entry(id_hash(id), |(other, _)| *other == id) {
            entry.remove();
        }
    }

    fn key_of(&self, id: ConnId) -> Option<u32> {
        if let Some((_, latest)) = self.latest.filter(|(other, _)| *other == id) {
            return Some(latest);
        }
        self.ids.find(id_hash(id), |(other, _)| *other == id).map(|(_, key)| *key)
    }
}

/// Ids are ours: no attacker chooses them.
fn id_hash(id: ConnId) -> u64 {
    id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn check_policies(config: &Config) -> Result<(), PolicyError> {
    scheduler::build(&config.mptcp.scheduler)?;
    egress::build(&config.mptcp.egress)?;
    let start = congestion::Start { mss: 1460, cwnd: 14_600, ssthresh: u64::MAX };
    congestion::build(&config.tcp.congestion, start).map(|_| ())
}
