//! The server agent: tunnels of clients on one side, ordinary sockets on the other.
//!
//! Needs no privilege. One thread: [`Server::run`] goes round between what is ready, what is due
//! and what is to be sent. Each client has an engine of its own, so that what one does is nothing
//! to the others. What other threads want of the agent comes through [`Server::request_channel`].

mod answers;
mod carried;
mod client_session;
mod client_sessions;
mod dispatcher;
mod enrolment;
mod handshakes;
mod ingress;
mod limiters;
mod memory;
mod notes;
mod outbound;
mod overrides;
mod owners;
mod record;
mod reload;
mod reports;
mod upstream_hop;

use crate::access::{Access, own_addresses};
use crate::address::Network;
use crate::agent::AgentError;
use crate::client::ClientError;
use crate::config::ServerConfig;
use crate::deadlines::Deadlines;
use crate::dns;
use crate::enrol::store::{Store, StoreError};
use crate::event_log::{EventLog, LogSink};
use crate::index::{ClientIndex, PortIndex};
use crate::keys::KeyError;
use crate::model::EventKind;
use crate::reactor::{Agent, EventSource, Reactor, Ready, follow_port, register_port};
use crate::request_channel::{RequestReceiver, RequestSender, request_channel};
use crate::udp::Flows;
use crate::udp::flows::FLOWS_MAX;
use crate::{PACKET_MAX, ROUNDS, TICK};
use carried::Carried;
pub(crate) use client_session::ClientSessionError;
use client_sessions::ClientSessions;
use handshakes::Handshakes;
use memory::Memory;
use outbound::Outbound;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_net::wireguard::{Batch, Bind, PortConfig, PortError, UdpPort};
use thiserror::Error;
use upstream_hop::Next;

/// The server agent.
pub struct Server {
    reactor: Reactor,
    core: Core,
    request_channel: RequestSender,
}

/// Addresses come and go: clients must not get to a new one of the server.
const OWN_EVERY: Duration = Duration::from_secs(5);

/// Everything but what waits.
struct Core {
    config: ServerConfig,
    network: Network,
    /// Drawn anew by each run of the program: clients see by it what has ended.
    life: u32,
    clock: Clock,
    ports: Vec<UdpPort>,
    /// Ports with more to take at once.
    unread: Vec<PortIndex>,
    handshakes: Handshakes,
    client_sessions: ClientSessions,
    /// The clients that have joined.
    store: Store,
    access: Access,
    carried: Carried,
    outbound: Outbound,
    memory: Memory,
    /// What is recorded, if anything is.
    recording: Option<record::Recording>,
    /// The next server.
    next: Option<Next>,
    names: dns::Service,
    flows: Flows,
    event_log: EventLog,
    inbox: RequestReceiver,
    /// Where the configuration is read again.
    source: Option<Source>,
    /// Taken while it is in use.
    batch: Option<Batch>,
    scratch: Vec<u8>,
    deadlines: Deadlines,
    next_tick: Instant,
    stopped: bool,
    /// When it last said that there are no ports.
    said_no_port: Option<Instant>,
    /// When this machine's addresses were looked at.
    own_looked_at: Instant,
}

/// Reads the configuration again; an error is for people.
pub(crate) type Source = crate::config::Source<ServerConfig>;

/// Why a server cannot start, or cannot go on.
#[derive(Error, Debug)]
pub(crate) enum ServerError {
    /// A client in the configuration.
    #[error(transparent)]
    ClientSession(#[from] ClientSessionError),
    /// The bond to the next server.
    #[error("[next]: {0}")]
    Next(#[from] ClientError),
    /// A key in the configuration.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The clients that have joined.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something else in the configuration.
    #[error("{0}")]
    Config(String),
    /// It cannot listen.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The system gives no descriptors or the like.
    #[error("the system refuses what the agent needs: {0}")]
    System(#[from] io::Error),
}

impl Server {
    /// A server that listens already; nothing is answered before [`Server::run`]. Clients that join
    /// are remembered in the file `state`, if the configuration names no other.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn new(config: ServerConfig, state: Option<&Path>) -> Result<Self, AgentError> {
        Self::open(config, state).map_err(AgentError::new)
    }

    fn open(mut config: ServerConfig, state: Option<&Path>) -> Result<Self, ServerError> {
        let store = Store::open(config.state.as_deref().or(state))?;
        store.fill(&mut config);
        let reactor = Reactor::new()?;
        let clock = Clock::start();
        let network = config.inner();
        let (mut ports, mut companions) = (Vec::new(), Vec::new());
        for (i, at) in config.listen.iter().enumerate() {
            let mut wanted = PortConfig::new(Bind::Listen(*at));
            wanted.id = i as u8;
            let port = UdpPort::open(wanted)?;
            register_port(reactor.registry(), &port, EventSource::Port(i))?;
            companions.push(port.open_handshakes()?);
            ports.push(port);
        }
        let handshakes = Handshakes::new(companions, reactor.registry())?;
        let access = Access::new(&config.access, &network, own_addresses());
        let access = access.map_err(|e| ServerError::Config(e.to_string()))?;
        let registry = reactor.registry().try_clone()?;
        let (request_channel, inbox) = request_channel(reactor.waker());
        let client_sessions = ClientSessions::new(&config, network)?;
        let service = network.service();
        let next = config.next.as_ref().map(|next| Next::new(next, clock, &reactor, service));
        let next = next.transpose()?;
        let waker = reactor.waker();
        let core = Core {
            access,
            carried: carried::none(config.next.is_some()),
            outbound: Outbound::new(registry),
            config,
            network,
            life: crate::draw()?,
            clock,
            ports,
            unread: Vec::new(),
            handshakes,
            client_sessions,
            store,
            memory: Memory::default(),
            recording: None,
            next,
            names: dns::Service::start(Arc::new(move || {
                // An agent that has ended needs no waking.
                let _ = waker.wake();
            })),
            flows: Flows::new(FLOWS_MAX),
            event_log: EventLog::new(clock),
            inbox,
            source: None,
            batch: Some(Batch::new()),
            scratch: vec![0; PACKET_MAX],
            deadlines: Deadlines::default(),
            next_tick: Instant::ZERO,
            stopped: false,
            said_no_port: None,
            own_looked_at: Instant::ZERO,
        };
        let mut server = Self { reactor, core, request_channel };
        server.core.start_enrolment();
        Ok(server)
    }

    /// To ask it something from another thread.
    #[must_use]
    pub fn request_channel(&self) -> RequestSender {
        self.request_channel.clone()
    }

    /// Where it listens (port 0 became a real one).
    #[must_use]
    pub fn local(&self) -> Vec<SocketAddr> {
        self.core.ports.iter().map(UdpPort::local).collect()
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
        Ok(())
    }
}

impl Agent for Core {
    type Error = ServerError;

    fn round(&mut self) -> Result<bool, ServerError> {
        let now = self.clock.now();
        self.read_ports(now)?;
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.tick(now);
        }
        while let Some(at) = self.deadlines.pop(now) {
            self.client_sessions.touch(at);
        }
        let unread = self.read_flows(now);
        if self.memory.is_due(now) && self.carried.len() > 0 {
            self.mind_memory(now);
        }
        let (carried, mut clients, mut beyond) = self.ends();
        for id in carried.take_again() {
            carried.step(now, (&mut clients, &mut beyond), id);
        }
        self.serve_all(now);
        let forwards = self.forward(now);
        let now = self.clock.now();
        self.serve_all(now);
        // What strangers send, too: after everything else.
        self.take_handshakes(now)?;
        self.flush_flows(now);
        self.flush();
        self.record(now);
        self.tell_notes(now);
        let unread = unread || !self.unread.is_empty();
        let touched = self.client_sessions.has_touched();
        Ok(unread || forwards || touched || self.carried.has_again())
    }

    fn sleep(&self) -> Option<Duration> {
        let due = [
            self.deadlines.next(),
            self.flows.poll_timeout(),
            Some(self.next_tick),
            self.handshakes.next_turn(),
            self.recording.as_ref().and_then(|hook| hook.recorder.poll_timeout()),
        ];
        let due = due.into_iter().flatten().min()?;
        let due = due.saturating_since(self.clock.now());
        let next = self.next.as_ref().and_then(|next| next.upstream_sleep());
        Some(next.map_or(due, |next| next.min(due)))
    }

    fn ready(&mut self, ready: Ready) {
        let now = self.clock.now();
        match ready.source {
            EventSource::Wake => {
                self.requests(now);
                self.answer_names(now);
            }
            EventSource::Port(port) => {
                let port = PortIndex::new(port);
                if !self.unread.contains(&port) {
                    self.unread.push(port);
                }
            }
            EventSource::Handshakes(_) => self.handshakes.ready(),
            EventSource::Socket(id) => {
                self.on_outbound(now, id, (ready.readable, ready.writable));
            }
            EventSource::Flow(flow) => self.flows.ready(flow),
            // The next server is looked into in every round; a server has none of the others.
            EventSource::Next
            | EventSource::Listener(_)
            | EventSource::Associate(_)
            | EventSource::Tun => {}
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl Core {
    fn serve_all(&mut self, now: Instant) {
        for at in self.client_sessions.take_touched() {
            self.serve(now, at);
        }
    }

    /// Everything that a member's engine wants: timers, events, packets.
    fn serve(&mut self, now: Instant, at: ClientIndex) {
        self.client_sessions.on_timeout(now, at);
        self.client_sessions.release(now, at, &mut self.ports);
        self.enter_late(now, at);
        self.release_datagrams(now, at);
        self.client_sessions.transmit_datagrams(now, at, &mut self.ports);
        let mut more = false;
        for _ in 0..ROUNDS {
            let told = self.events(now, at);
            more = self.client_sessions.transmit(now, at, &mut self.ports, &mut self.scratch);
            if !more && !told {
                break;
            }
        }
        if more {
            self.client_sessions.touch(at);
        }
        self.client_sessions.report(now, at, &mut self.ports, &mut self.scratch);
        self.deadlines.set(at, self.client_sessions.next_timeout(at));
    }

    /// Sends an inner packet to a client, by its best path.
    fn tell(&mut self, now: Instant, at: ClientIndex, packet: &[u8]) {
        if let Some(path) = self.client_sessions.best(at) {
            self.client_sessions.offer(now, (at, path), packet, &mut self.ports);
            self.client_sessions.touch(at);
        }
    }

    /// Says, once a minute, that this machine has no ports left towards some target.
    fn note_ports(&mut self, now: Instant) {
        let Some(target) = self.outbound.take_no_port() else { return };
        let minute = Duration::from_secs(60);
        if self.said_no_port.is_none_or(|said| now.saturating_since(said) >= minute) {
            self.said_no_port = Some(now);
            let text = format!(
                "no local port left towards {target}: clients are told that it is unreachable; \
                 more ports: net.ipv4.ip_local_port_range, sooner again: net.ipv4.tcp_tw_reuse=1"
            );
            self.event_log.add(now, EventKind::NoPort, (None, None), text);
        }
    }

    /// Tells the clients that all of their connections are over, as far as that is possible; what
    /// it does not reach is found by [`Core::life`].
    fn bye(&mut self) {
        let now = self.clock.now();
        self.end_recording(now);
        for at in self.client_sessions.places() {
            let Some(session) = self.client_sessions.get(at) else { continue };
            session.abort_all(now);
            while self.client_sessions.say_last(now, at, &mut self.ports, &mut self.scratch) {
                self.flush();
            }
            self.flush();
            self.end_connections(now, at);
        }
        if let Some(next) = &mut self.next {
            next.upstream().bye();
        }
    }

    fn flush(&mut self) {
        for (i, port) in self.ports.iter_mut().enumerate() {
            if port.has_queued() {
                // A listening port is bound to no interface that could vanish.
                let _ = port.flush();
                follow_port(self.outbound.registry(), port, EventSource::Port(i));
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        self.client_sessions.tick(now, &mut self.ports, &mut self.scratch);
        let (carried, mut clients, mut beyond) = self.ends();
        carried.tick(now, (&mut clients, &mut beyond));
        self.open_requested(now);
        self.mind_memory(now);
        self.note_ports(now);
        self.names.expire(now);
        self.answer_names(now);
        self.tick_enrolment(now);
        if now >= self.own_looked_at + OWN_EVERY {
            self.own_looked_at = now;
            let own = own_addresses();
            // None is that they cannot be listed now.
            if !own.is_empty() {
                self.access.set_own(own);
            }
        }
        self.flush();
    }
}
