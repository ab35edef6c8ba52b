//! The client agent: programs on one side, paths to a server on the other.
//!
//! One thread: [`Client::run`] goes round between what is ready, what is due and what is to be
//! sent. What other threads want of it comes through [`Client::request_channel`].

mod answers;
mod carried;
pub(crate) mod cleanup;
mod connect;
mod datagrams;
mod dispatcher;
mod enrolment;
mod host;
mod idle;
mod lan;
mod listeners;
mod lookup;
mod memory;
mod names;
mod policies;
mod program;
mod programs;
mod quotas;
mod record;
mod role_state;
mod servers;
mod setup;
mod tunnels;
mod upstream;
mod waits;

use crate::address::{ClientNumber, Network};
use crate::agent::AgentError;
use crate::bond::{Bond, paths};
use crate::config::{ClientConfig, Rules, ServerEntry};
use crate::dns;
use crate::engine_config::engine_config;
use crate::event_log::{EventLog, LogSink};
use crate::index::{AssociationIndex, ListenerIndex, PathIndex};
use crate::inner::{parse_unreachable, peek};
use crate::keys::KeyError;
use crate::model::EventKind;
use crate::path::{Links, PathEvent, QuotaError};
use crate::policy_requests::PolicyOverride;
use crate::reactor::{Agent, EventSource, Reactor, Ready};
use crate::request_channel::{RequestReceiver, RequestSender, request_channel};
use crate::udp::Dispatcher;
use crate::udp::fragment::{self, Reassembler};
use crate::{PACKET_MAX, ROUNDS, TICK};
use carried::{Carried, Owner};
use datagrams::Datagrams;
use enrolment::Enrolling;
use host::HostSide;
use lan::LanSide;
use memory::Memory;
pub(crate) use memory::buffered;
use names::Names;
use policies::PolicySync;
use programs::Programs;
use quotas::Quotas;
use role_state::RoleState;
use servers::Servers;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use tabane_engine::policy::PolicyError;
use tabane_engine::view::PathId;
use tabane_engine::{ConnId, Duration, Instant, Profile};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_net::device::TunError;
use tabane_wire::ip::protocol;
use thiserror::Error;
use tunnels::{Taken, Tunnels};
use upstream::Upstream;
pub(crate) use upstream::{UpstreamClient, UpstreamNotification};
use waits::Waits;

/// The client agent.
pub struct Client {
    reactor: Reactor,
    core: Core,
    request_channel: RequestSender,
    socks: Vec<SocketAddr>,
}

/// Everything but what waits.
struct Core {
    config: ClientConfig,
    network: Network,
    number: ClientNumber,
    clock: Clock,
    bond: Bond,
    tunnels: Tunnels,
    role_state: RoleState,
    waits: Waits,
    quotas: Quotas,
    /// Which traffic has which policies, and the settings made of them, by rule.
    rules: Rules,
    profiles: BTreeMap<Option<usize>, Profile>,
    policy_sync: PolicySync,
    /// What was asked for connections that do not stand yet.
    policy_overrides: BTreeMap<ConnId, PolicyOverride>,
    /// The server has been told something since it was chosen.
    synced_before: bool,
    /// Where the configuration is read again.
    source: Option<Source>,
    programs: Programs,
    carried: Carried,
    /// Whose each connection of the engine is.
    owners: BTreeMap<ConnId, Owner>,
    /// Programs that were refused before they had a session.
    refused: u64,
    names: Names,
    datagrams: Datagrams,
    /// TUN mode.
    host: Option<HostSide>,
    /// Inside a server that forwards.
    upstream: Option<Upstream>,
    /// When it last said that connections are refused for want of something.
    exhausted: Option<Instant>,
    /// Why it stopped by itself.
    failed: Option<String>,
    dispatcher: Dispatcher,
    fragment_id: u32,
    reassembler: Reassembler,
    /// Paths with more to receive at once.
    unread_paths: Vec<PathIndex>,
    /// Associations with more to read at once.
    unread: Vec<AssociationIndex>,
    servers: Servers,
    enrolling: Enrolling,
    memory: Memory,
    /// What is recorded, if anything is.
    recording: Option<record::Recording>,
    event_log: EventLog,
    inbox: RequestReceiver,
    /// Where packets are made.
    scratch: Vec<u8>,
    /// Packets that are not for the engine, with their path.
    side: Vec<(PathIndex, Vec<u8>)>,
    next_tick: Instant,
    stopped: bool,
    /// It stops for another that takes over at once.
    restarts: bool,
}

/// Reads the configuration again; an error is for people.
pub(crate) type Source = crate::config::Source<ClientConfig>;

/// Why a client cannot start, or cannot go on.
#[derive(Error, Debug)]
pub(crate) enum ClientError {
    /// A policy in the configuration.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A key in the configuration.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What was used of quotas.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Something else in the configuration.
    #[error("{0}")]
    Config(String),
    /// A front end cannot listen.
    #[error("cannot listen on {at}: {source}; change it under [front] or end what listens there")]
    Listen {
        /// Where.
        at: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// The TUN device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The host's routes.
    #[error("cannot change the host's routes: {0}")]
    Host(String),
    /// The system gives no descriptors or the like.
    #[error("the system refuses what the agent needs: {0}")]
    System(#[from] io::Error),
}

impl Client {
    /// A client that listens for programs already; nothing is sent before [`Client::run`].
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn new(config: ClientConfig) -> Result<Self, AgentError> {
        Self::open(config).map_err(AgentError::new)
    }

    fn open(config: ClientConfig) -> Result<Self, ClientError> {
        let reactor = Reactor::new()?;
        let (request_channel, inbox) = request_channel(reactor.waker());
        let mut core = Core::new(config, Clock::start(), &reactor, inbox)?;
        let socks = core.programs.listen(&core.config.front)?;
        let own = core.network.own(core.number);
        if let Some(tun) = core.config.device() {
            let lan = LanSide::new(&core.config, own, core.network.service());
            let of = (tun, &*core.config.name);
            core.host = Some(HostSide::open(of, own, lan, reactor.registry())?);
        }
        Ok(Self { reactor, core, request_channel, socks })
    }

    /// To ask it something from another thread.
    #[must_use]
    pub fn request_channel(&self) -> RequestSender {
        self.request_channel.clone()
    }

    /// Where programs connect, in the order of the configuration (port 0 became a real one).
    #[must_use]
    pub fn listeners(&self) -> &[SocketAddr] {
        &self.socks
    }

    /// Where events go as they happen.
    pub fn set_log(&mut self, sink: LogSink) {
        self.core.event_log.set_log(sink);
    }

    /// Where the configuration is read when it is to be read again.
    pub fn set_source(&mut self, source: impl Into<Source>) {
        self.core.source = Some(source.into());
    }

    /// Runs until it is asked to stop.
    ///
    /// # Errors
    /// The system's, when it cannot even wait.
    pub fn run(mut self) -> Result<(), AgentError> {
        sharpen_timers();
        self.core.start_recording();
        self.reactor.run(&mut self.core).map_err(AgentError::new)?;
        self.core.bye();
        self.core.failed.map_or(Ok(()), |why| Err(AgentError::new(ClientError::Host(why))))
    }
}

impl Core {
    /// An agent without programs; it is told what is wanted of it by `inbox`.
    fn new(
        config: ClientConfig,
        clock: Clock,
        reactor: &Reactor,
        inbox: RequestReceiver,
    ) -> Result<Self, ClientError> {
        let network = config.server.first().map(ServerEntry::inner).unwrap_or_default();
        let number = ClientNumber(config.number);
        let ways = paths(|i| network.path(number, i).to_vec(), tunnels::MTU);
        let rules = config.rules().map_err(|error| ClientError::Config(error.to_string()))?;
        let mut engine = engine_config(ways, &rules.rest().up);
        engine.records = config.metrics.is_some() || config.web.is_some();
        let bond = Bond::new(engine, crate::seed()?)?;
        let waker = reactor.waker();
        let links = Links::start(move || {
            // An agent that has ended needs no waking.
            let _ = waker.wake();
        });
        let registry = reactor.registry().try_clone()?;
        // Without netlink, whether there is an interface shows when it is tried.
        let tunnels =
            Tunnels::new(&config, (network, number), (registry, links.ok()), clock.now())?;
        Ok(Self {
            quotas: Quotas::new(&config)?,
            config,
            network,
            number,
            clock,
            rules,
            profiles: BTreeMap::new(),
            policy_sync: PolicySync::default(),
            policy_overrides: BTreeMap::new(),
            synced_before: false,
            source: None,
            bond,
            tunnels,
            role_state: RoleState::default(),
            waits: Waits::default(),
            programs: Programs::new(reactor.registry().try_clone()?),
            carried: carried::none(),
            owners: BTreeMap::new(),
            refused: 0,
            names: Names::new(
                dns::Client::new(crate::seed()?),
                network.own(number)[0],
                network.service()[0],
            ),
            datagrams: Datagrams::new(reactor.registry().try_clone()?),
            host: None,
            upstream: None,
            exhausted: None,
            failed: None,
            dispatcher: Dispatcher::new(crate::seed()?),
            fragment_id: 0,
            reassembler: Reassembler::default(),
            unread_paths: Vec::new(),
            unread: Vec::new(),
            servers: Servers::new(clock.now(), reactor.waker()),
            memory: Memory::default(),
            recording: None,
            enrolling: Enrolling::new(clock.now(), reactor.waker()),
            event_log: EventLog::new(clock),
            inbox,
            scratch: vec![0; PACKET_MAX],
            side: Vec::new(),
            next_tick: Instant::ZERO,
            stopped: false,
            restarts: false,
        })
    }
}

impl Agent for Core {
    type Error = ClientError;

    fn round(&mut self) -> Result<bool, ClientError> {
        let now = self.clock.now();
        for path in std::mem::take(&mut self.unread_paths) {
            if self.receive(now, path) {
                self.unread_paths.push(path);
            }
        }
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.tick(now);
        }
        // What has happened to paths decides what the next probe says of them.
        self.path_events(now);
        self.tunnels.on_timeout(now, (&mut self.bond.counters, &mut self.scratch));
        self.path_events(now);
        self.names(now);
        self.release_datagrams(now);
        self.transmit_datagrams(now);
        if self.bond.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.bond.endpoint.handle_timeout(now);
        }
        for index in std::mem::take(&mut self.unread) {
            if self.read_association(now, index) {
                self.unread.push(index);
            }
        }
        for association in self.programs.take_gone() {
            self.datagrams.close(association);
        }
        self.programs.go_on(now);
        for id in self.carried.take_again() {
            self.step(now, id);
        }
        self.host_round(now);
        let mut more = false;
        for _ in 0..ROUNDS {
            let told = self.events(now);
            let Self { bond, tunnels, scratch, .. } = self;
            more = bond.transmit(now, scratch, |path, packet| tunnels.send(now, path, packet));
            if !more && !told {
                break;
            }
        }
        self.tunnels.flush(now, (&mut self.bond.counters, &mut self.scratch));
        self.path_events(now);
        self.record(now);
        self.flush_host(now);
        let host = self.host.as_ref().is_some_and(HostSide::is_busy);
        let unread = !self.unread.is_empty() || !self.unread_paths.is_empty();
        let busy = self.programs.is_busy() || self.carried.has_again();
        Ok(host || more || busy || unread)
    }

    fn sleep(&self) -> Option<Duration> {
        let due = [
            self.bond.endpoint.poll_timeout(),
            self.tunnels.next_timeout(),
            self.names.poll_timeout(),
            self.dispatcher.poll_timeout(),
            self.host.as_ref().and_then(|host| host.stack.poll_timeout()),
            self.recording.as_ref().and_then(|hook| hook.recorder.poll_timeout()),
            Some(self.next_tick),
        ];
        let due = due.into_iter().flatten().min()?;
        Some(due.saturating_since(self.clock.now()))
    }

    fn ready(&mut self, ready: Ready) {
        let now = self.clock.now();
        match ready.source {
            EventSource::Wake => {
                self.requests(now);
                self.servers(now);
                self.tunnels.follow(now);
                // The networks that the host is in may have changed.
                self.look_at_host_soon();
            }
            EventSource::Port(path) => {
                let path = PathIndex::new(path);
                if !self.unread_paths.contains(&path) {
                    self.unread_paths.push(path);
                }
            }
            EventSource::Listener(listener) => {
                self.programs.accept(now, ListenerIndex::new(listener));
            }
            EventSource::Socket(id) => {
                self.on_front_end(now, id, (ready.readable, ready.writable));
            }
            EventSource::Associate(association) => {
                let index = AssociationIndex::new(association);
                if !self.unread.contains(&index) {
                    self.unread.push(index);
                }
            }
            EventSource::Tun => {
                if let Some(host) = &mut self.host {
                    host.ready();
                }
            }
            // A client has none of these.
            EventSource::Flow(_) | EventSource::Next | EventSource::Handshakes(_) => {}
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl Core {
    /// Takes a batch of what has come by a path; whether there may be more.
    fn receive(&mut self, now: Instant, path: PathIndex) -> bool {
        let Self { tunnels, bond, side, .. } = self;
        let more = tunnels.receive(now, path, |packet, taken| {
            bond.counters[path].received(packet.len());
            match peek(packet).filter(|_| taken == Taken::Not) {
                Some(inner) if inner.protocol == protocol::TCP => {
                    bond.endpoint.handle_packet(now, path.into(), packet);
                }
                Some(_) => side.push((path, packet.to_vec())),
                None => {}
            }
        });
        for (path, packet) in std::mem::take(&mut self.side) {
            self.take(now, path, &packet);
        }
        more
    }

    /// A packet that is not for the engine.
    fn take(&mut self, now: Instant, path: PathIndex, packet: &[u8]) {
        if self.tunnels.take_probe(now, path, packet) {
            return self.meet_server(now, path);
        }
        if self.take_answer(now, packet) || self.take_request(now, packet) {
            return;
        }
        if fragment::is_fragment(packet) {
            if let Some(whole) = self.reassembler.add(now, packet) {
                self.hand_over(&whole);
            }
            return;
        }
        if let Some((from, to, why)) = parse_unreachable(packet) {
            return self.on_unreachable(now, (from, to), connect::connect_error(why));
        }
        self.take_datagram(now, path, packet);
    }

    fn path_events(&mut self, now: Instant) {
        while let Some((path, event)) = self.tunnels.poll_event() {
            let name = self.tunnels.name(path).to_owned();
            let id = PathId::from(path);
            let (kind, text) = match event {
                PathEvent::Up => {
                    self.decide(now);
                    (EventKind::PathUp, format!("{name} works"))
                }
                PathEvent::Down(reason) => {
                    self.decide(now);
                    (EventKind::PathDown, format!("{name}: {reason}"))
                }
                // What a server hears only.
                PathEvent::Announced(_) => continue,
                PathEvent::AskedRole(role) => {
                    let text = self.take_role(now, path, role);
                    (EventKind::Role, text)
                }
                PathEvent::Mtu(mtu) => {
                    self.bond.endpoint.set_path_mtu(now, id, mtu);
                    (EventKind::PathMtu, format!("{name} carries packets of {mtu} bytes"))
                }
                PathEvent::TooBig(len) => {
                    // It may have missed the change.
                    let mtu = self.tunnels.mtu(path);
                    self.bond.endpoint.set_path_mtu(now, id, mtu);
                    let text = format!("{name}: a packet of {len} bytes is longer than {mtu}");
                    (EventKind::PathTooBig, text)
                }
            };
            let (up, down) = (kind == EventKind::PathUp, kind == EventKind::PathDown);
            self.event_log.add(now, kind, (None, Some(&name)), text);
            if up || down {
                self.retry(now, down.then_some(path));
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.servers(now);
        self.enrol(now);
        self.mind_memory(now);
        self.sync_policies(now);
        self.look_at_host(now);
        let endpoint = &mut self.bond.endpoint;
        self.policy_overrides.retain(|id, _| endpoint.connection(*id).is_some());
        for counters in &mut self.bond.counters {
            counters.tick(TICK.as_secs_f64());
        }
        self.count(now);
        self.look(now);
        self.decide(now);
        self.tell_waits(now);
        for path in self.tunnels.retire(now) {
            self.forget_path(now, path);
        }
        self.tunnels.tick(now, &mut self.scratch);
        self.programs.tick(now);
        let (carried, mut all, endpoint) = self.ends();
        carried.tick(now, (&mut all, endpoint));
        self.open_requested(now);
    }

    /// What the paths have carried goes into their quotas.
    fn count(&mut self, now: Instant) {
        let unix = self.unix(now);
        self.quotas.count(unix, &self.bond.counters);
        if let Err(error) = self.quotas.tick(now) {
            self.event_log.add(now, EventKind::QuotaNotSaved, (None, None), error.to_string());
        }
    }

    /// Tells the far end that all is over, as far as that is possible.
    fn bye(&mut self) {
        let now = self.clock.now();
        self.end_recording(now);
        let open = self.open_connections().into_iter().chain(self.carried.answered());
        let open: Vec<_> = open.collect();
        let (carried, mut all, endpoint) = self.ends();
        carried.dismiss(now, (&mut all, endpoint));
        self.leave_host(now);
        for id in open {
            if let Some(conn) = self.bond.endpoint.connection(id) {
                conn.abort(now);
            }
        }
        let Self { bond, tunnels, scratch, .. } = self;
        while bond.transmit(now, scratch, |path, packet| tunnels.send(now, path, packet)) {}
        tunnels.flush(now, (&mut bond.counters, scratch));
        self.count(now);
        if let Err(error) = self.quotas.save() {
            self.event_log.add(now, EventKind::QuotaNotSaved, (None, None), error.to_string());
        }
    }
}
