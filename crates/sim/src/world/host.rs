//! A host: an engine, its paths, and the flows whose ends live there.

use super::{Action, RunError, TOO_LONG, World};
use crate::app::Role;
use crate::observe::{CapturePoint, FlowIdx, HostIdx, LinkIdx, Observer};
use crate::packet::{Carried, Packet};
use crate::plan::Plan;
use crate::relay::Side;
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::topology::{Hop, NO_ROUTE, Topology};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tabane_engine::config::{Config, PathConfig, SUBFLOWS_MAX};
use tabane_engine::record::CloseReason;
use tabane_engine::view::{PathId, PathSet};
use tabane_engine::{ConnId, Endpoint, Event, Profile};
use tabane_wire::Segment;

pub(super) struct HostState {
    pub(super) endpoint: Endpoint,
    pub(super) conns: Conns,
    /// Settings of the connections that a proxy opens, by the node that they lead to.
    pub(super) profiles: BTreeMap<usize, Profile>,
    /// What it may send by each of its paths.
    pub(super) mtus: Vec<u16>,
    /// Packets that were longer.
    pub(super) too_long: u64,
}

/// Which flow a connection belongs to. Ids are numbers of the engine's choosing, mostly small.
#[derive(Default)]
pub(super) struct Conns {
    small: Vec<Option<(u32, Owner)>>,
    large: BTreeMap<u64, (u32, Owner)>,
}

/// Who of a flow has a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// One end of its application.
    App(Role),
    /// A side of the relay with this number, or [`Owner::TUNNEL`].
    Relay(u8, Side),
}

impl Owner {
    /// In place of a relay's number: the connection is no flow's, but belongs to an end of the
    /// tunnel whose number stands in place of the flow's. No variant of its own: applications'
    /// events, which come with every packet, would have to look at one more.
    pub(super) const TUNNEL: u8 = u8::MAX;
}

/// Ids up to here have a place in an array.
const SMALL: u64 = 1 << 18;

impl Conns {
    pub(super) fn insert(&mut self, id: ConnId, flow: usize, owner: Owner) {
        if id.0 >= SMALL {
            self.large.insert(id.0, (flow as u32, owner));
            return;
        }
        let at = id.0 as usize;
        if self.small.len() <= at {
            self.small.resize(at + 1, None);
        }
        self.small[at] = Some((flow as u32, owner));
    }

    #[inline]
    fn get(&self, id: ConnId) -> Option<(usize, Owner)> {
        let found = match self.small.get(id.0 as usize) {
            Some(found) => *found,
            None => self.large.get(&id.0).copied(),
        };
        found.map(|(flow, owner)| (flow as usize, owner))
    }
}

impl HostState {
    pub(super) fn new(
        scenario: &Scenario,
        topology: &Topology,
        roles: &Roles,
        host: usize,
        observer: &dyn Observer,
    ) -> Result<Self, RunError> {
        let seed = Seed(scenario.seed);
        let node = &topology.hosts[host];
        let mut config = defaults(scenario, topology, host);
        config.records = observer.wants().records;
        config.segment_records = observer.wants_segments();
        let proxy = scenario.proxy.get(&node.name);
        let own = roles.settings[host].map(|n| &scenario.host.0[n].1);
        let connecting = proxy.map(|proxy| {
            let mut config = config.clone();
            proxy.connect.apply(&mut config);
            config
        });
        if let Some(own) = proxy.map(|p| &p.listen).or(own) {
            own.apply(&mut config);
        }
        let tunnel = topology.tunnel_end(host);
        if let Some((n, _)) = tunnel {
            scenario.tunnel.0[n].1.settings().apply(&mut config);
        }
        name_peers(&mut config, topology, host);
        let mut endpoint = Endpoint::new(config, seed.key(&format!("host/{}", node.name)))?;
        let mut profiles = BTreeMap::new();
        if let Some(config) = connecting {
            profiles = super::proxy::profiles(&endpoint, scenario, topology, host, &config)?;
        }
        let accepts = matches!(tunnel, Some((_, 1)));
        let how = if accepts { Listening::Open } else { roles.listening[host] };
        listen(&mut endpoint, scenario.ip, how)?;
        let mtus = node.paths.iter().map(|path| path.mtu).collect();
        Ok(Self { endpoint, conns: Conns::default(), profiles, mtus, too_long: 0 })
    }
}

/// The engine of a host: its paths, and what `[defaults]` says.
fn defaults(scenario: &Scenario, topology: &Topology, host: usize) -> Config {
    let node = &topology.hosts[host];
    let mut config = Config::default();
    let shared = topology.shared_address(host);
    for (n, path) in node.paths.iter().enumerate() {
        let addresses = vec![topology.address(host, n), shared];
        let ours = PathConfig::new(PathId(n as u8), addresses, path.mtu);
        config.paths.push(ours.with(|p| p.backup = path.backup));
    }
    // One subflow a path must be possible, however many paths there are.
    let paths = u8::try_from(node.paths.len()).unwrap_or(u8::MAX);
    config.mptcp.max_subflows = config.mptcp.max_subflows.max(paths).min(SUBFLOWS_MAX);
    scenario.defaults.apply(&mut config);
    config
}

/// The engine's settings at a host that is no proxy, for those who run it elsewhere.
pub fn engine_config(plan: &Plan, host: usize) -> Config {
    let Plan { scenario, topology, .. } = plan;
    let mut config = defaults(scenario, topology, host);
    if let Some(own) = scenario.host.get(&topology.hosts[host].name) {
        own.apply(&mut config);
    }
    name_peers(&mut config, topology, host);
    config
}

/// Where openings are hedged a host must know which path a peer's address belongs to.
fn name_peers(config: &mut Config, topology: &Topology, host: usize) {
    if !config.mptcp.hedging {
        return;
    }
    let destination = topology.shared_address(host);
    for other in topology.peers(host) {
        for path in 0..topology.hosts[other].paths.len() {
            if let Some((_, by)) = topology.far_end(other, path, destination) {
                config.paths[by].peers.push(topology.address(other, path));
            }
        }
    }
}

/// What nodes are to flows, and where their settings are: found once for all of them.
pub(super) struct Roles {
    listening: Vec<Listening>,
    /// Place of each host's own settings in the scenario.
    settings: Vec<Option<usize>>,
}

/// How a node takes what flows bring it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Listening {
    No,
    /// Every connection at once.
    Open,
    /// The world is asked first: it refuses some, or opens another connection.
    Held,
}

impl Roles {
    pub(super) fn of(scenario: &Scenario, topology: &Topology) -> Self {
        let mut listening = vec![Listening::No; topology.hosts.len()];
        let mut settings = vec![None; topology.hosts.len()];
        for flow in &scenario.flow {
            let how = if flow.refuse { Listening::Held } else { Listening::Open };
            if let Some(host) = topology.host(&flow.to) {
                listening[host] = listening[host].max(how);
            }
        }
        for host in scenario.proxy.names().filter_map(|name| topology.host(name)) {
            listening[host] = Listening::Held;
        }
        for (n, name) in scenario.host.names().enumerate() {
            if let Some(host) = topology.host(name) {
                settings[host] = Some(n);
            }
        }
        Self { listening, settings }
    }
}

/// Makes a node accept what flows bring it.
fn listen(endpoint: &mut Endpoint, ip: u8, how: Listening) -> Result<(), RunError> {
    let any: IpAddr = match ip {
        6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let any = SocketAddr::new(any, 0);
    let listening = match how {
        Listening::No => Ok(()),
        Listening::Open => endpoint.listen(any),
        Listening::Held => endpoint.listen_held(any),
    };
    listening.map_err(|error| RunError::Scenario(error.to_string()))
}

impl World<'_> {
    /// Hands a packet to the engine of the host it has reached.
    #[inline]
    pub(super) fn deliver(&mut self, host: usize, path: u8, packet: Packet) {
        if self.now < self.asleep[host] {
            self.pool.recycle(packet.into_carried());
            return;
        }
        let path = PathId(path);
        if self.watched {
            let point = CapturePoint::Received(HostIdx(host as u32), path);
            self.observe(point, packet.carried());
        }
        if packet.flipped_bit().is_some() || self.scenario.wire {
            self.deliver_bytes(host, path, &packet);
        } else {
            // A super-packet is acknowledged once: the host is asked for segments after the last.
            let mut carried = packet.carried();
            loop {
                self.hosts[host].endpoint.handle_segment(self.now, path, carried.segment());
                let Some(rest) = carried.rest() else { break };
                carried = rest;
            }
        }
        self.pool.recycle(packet.into_carried());
        self.flush(host);
    }

    /// As it would come from a wire, with the damage done to it there.
    fn deliver_bytes(&mut self, host: usize, path: PathId, packet: &Packet) {
        let mut damaged = packet.flipped_bit();
        for segment in packet.carried().segments() {
            let len = segment.emit(&mut self.buffer);
            let len = len.expect("invariant: engines emit valid segments");
            if let Some(bit) = damaged {
                damaged = bit.checked_sub(len * 8);
                if damaged.is_none() {
                    self.buffer[bit / 8] ^= 1 << (bit % 8);
                }
            }
            self.hosts[host].endpoint.handle_packet(self.now, path, &self.buffer[..len]);
        }
    }

    /// Lets a host do everything it can do now: events to applications, segments to links,
    /// records to observers, its next timer to the schedule.
    #[inline]
    pub(super) fn flush(&mut self, host: usize) {
        let source = 1 + self.links.len() + host;
        if self.now < self.asleep[host] {
            self.schedule.set(source, self.asleep[host]);
            return;
        }
        loop {
            while let Some((conn, event)) = self.hosts[host].endpoint.poll_event() {
                self.on_event(host, conn, &event);
            }
            while let Some((paths, carried)) = self.poll_departure(host) {
                if self.scenario.offload {
                    self.hold(host, paths, carried);
                } else {
                    self.depart(host, paths, carried);
                }
            }
            if self.scenario.offload {
                self.depart_held(host);
            }
            // Polling for segments finds out what is over.
            let Some((conn, event)) = self.hosts[host].endpoint.poll_event() else { break };
            self.on_event(host, conn, &event);
        }
        if self.wants.records {
            while let Some(record) = self.hosts[host].endpoint.poll_record() {
                self.observer.record(HostIdx(host as u32), &record);
            }
        }
        let next = self.hosts[host].endpoint.poll_timeout();
        self.schedule.set(source, next.unwrap_or(tabane_engine::Instant::FAR_FUTURE));
    }

    /// Puts a segment that leaves into a super-packet with those before it, as far as they go
    /// together.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, host: usize, paths: PathSet, carried: Box<Carried>) {
        let (by, held) = &mut self.held;
        if *by != paths || !held.takes(&carried) {
            self.depart_held(host);
        }
        self.held.0 = paths;
        self.held.1.push(carried);
    }

    #[cold]
    #[inline(never)]
    fn depart_held(&mut self, host: usize) {
        if let Some(carried) = self.held.1.take() {
            self.depart(host, self.held.0, carried);
        }
    }

    #[inline]
    fn poll_departure(&mut self, host: usize) -> Option<(PathSet, Box<Carried>)> {
        let endpoint = &mut self.hosts[host].endpoint;
        if !self.scenario.wire {
            let paths = endpoint.poll_into(self.now, self.pool.blank())?;
            return Some((paths, self.pool.take()));
        }
        let transmit = endpoint.poll_transmit(self.now, &mut self.buffer)?;
        let packet = Bytes::copy_from_slice(&self.buffer[..transmit.len]);
        let segment = Segment::parse(&packet).expect("invariant: engines emit valid segments");
        *self.pool.blank() = segment;
        Some((transmit.paths, self.pool.take()))
    }

    /// Sends a segment, with a copy by each path that the engine named.
    #[inline]
    fn depart(&mut self, host: usize, mut paths: PathSet, carried: Box<Carried>) {
        while let Some(path) = paths.first() {
            paths.remove(path);
            if paths.is_empty() {
                self.depart_by(host, path, carried);
                return;
            }
            let copy = self.pool.copy_of(&carried);
            self.depart_by(host, path, copy);
        }
    }

    #[inline]
    fn depart_by(&mut self, host: usize, path: PathId, carried: Box<Carried>) {
        let to = carried.segment().dst.ip();
        let cursor = self.topology.route(host, usize::from(path.0), to);
        if cursor == NO_ROUTE {
            self.unroutable += 1;
            return self.pool.recycle(carried);
        }
        if self.watched {
            let point = CapturePoint::Sent(HostIdx(host as u32), path);
            self.observe(point, &carried);
        }
        let packet = Packet::new(carried, cursor);
        let mtu = self.hosts[host].mtus[usize::from(path.0)];
        if !packet.fits(mtu.into()) {
            return self.refuse(host, path, packet);
        }
        match self.topology.hop(cursor) {
            Hop::Link(link) => self.enter(link as usize, packet),
            Hop::Arrive(..) => unreachable!("invariant: a route crosses a link"),
        }
    }

    /// A packet is longer than the path carries: as a tunnel of exact MTU does, it is not let in,
    /// and whoever sent it is told.
    #[cold]
    fn refuse(&mut self, host: usize, path: PathId, packet: Packet) {
        self.hosts[host].too_long += 1;
        let link = match self.topology.hop(packet.cursor()) {
            Hop::Link(link) => LinkIdx(link),
            Hop::Arrive(..) => unreachable!("invariant: a route crosses a link"),
        };
        if self.watched {
            self.observer.lost(link, self.now, TOO_LONG, packet.segment());
        }
        self.pool.recycle(packet.into_carried());
        let host = &mut self.hosts[host];
        let mtu = host.mtus[usize::from(path.0)];
        host.endpoint.set_path_mtu(self.now, path, mtu);
    }

    /// Opens a flow's connection.
    pub(super) fn start(&mut self, n: usize) {
        let client = self.flows[n].client;
        match self.asleep[client] {
            awake if awake <= self.now => {}
            awake if awake <= self.end => return self.plan(awake, Action::Start(n as u32)),
            _ => return self.fail(n, "its host is gone".into()),
        }
        self.flows[n].started = true;
        let flow = &self.flows[n];
        let (next, port) = match flow.relays.first() {
            Some(relay) => (relay.host, relay.port),
            None => (flow.server, flow.port),
        };
        let (local, remote) = self.ends(client, next, port);
        match self.hosts[client].endpoint.connect(self.now, local, remote) {
            Ok(conn) => {
                let flow = &mut self.flows[n];
                flow.client_conn = Some(conn);
                let role = if flow.download { Role::Sink } else { Role::Source };
                self.hosts[client].conns.insert(conn, n, Owner::App(role));
                let (flow, host) = (FlowIdx(n as u32), HostIdx(client as u32));
                self.observer.opened(self.now, flow, host, conn);
                self.flush(client);
            }
            Err(error) => self.fail(n, error.to_string()),
        }
    }

    /// Addresses of a connection from a host to a port of another.
    pub(super) fn ends(&self, from: usize, to: usize, port: u16) -> (SocketAddr, SocketAddr) {
        let path = self.topology.path_to_open(from, to, &self.hosts[from].endpoint);
        let local = SocketAddr::new(self.topology.address(from, path), 0);
        (local, SocketAddr::new(self.topology.shared_address(to), port))
    }

    #[inline]
    fn on_event(&mut self, host: usize, conn: ConnId, event: &Event) {
        match event {
            Event::Incoming { local, remote } => {
                return self.on_incoming(host, conn, local.port(), remote.ip());
            }
            Event::Accepted { local, remote } => {
                self.accept(host, conn, local.port(), remote.ip());
            }
            _ => {}
        }
        let Some((n, owner)) = self.hosts[host].conns.get(conn) else { return };
        let role = match owner {
            Owner::App(role) => role,
            Owner::Relay(Owner::TUNNEL, side) => {
                return self.on_tunnel_event(n, side, conn, event);
            }
            Owner::Relay(k, side) => return self.on_relay_event(n, usize::from(k), side, event),
        };
        if let Event::Closed(reason) = event {
            self.on_closed(n, role, *reason);
            return;
        }
        let Some(connection) = self.hosts[host].endpoint.connection(conn) else { return };
        let flow = &mut self.flows[n];
        let again = flow.app.on_event(self.now, role, event, connection);
        let completed = !flow.done && flow.app.completed().is_some();
        if let Some(at) = again {
            self.plan(at, Action::Tick(n as u32));
        }
        if completed {
            self.complete(n);
        }
    }

    /// The flow whose port a connection came to.
    fn accept(&mut self, host: usize, conn: ConnId, port: u16, from: IpAddr) {
        if self.hosts[host].conns.get(conn).is_some() {
            return;
        }
        let Some((n, _)) = self.ports.find(host, port, self.topology.host_of(from)) else {
            return self.accept_tunnel(host, conn);
        };
        if self.flows[n].done {
            return self.turn_away(host, conn);
        }
        let flow = &mut self.flows[n];
        flow.server_conn = Some(conn);
        let role = if flow.download { Role::Source } else { Role::Sink };
        self.hosts[host].conns.insert(conn, n, Owner::App(role));
        let flow = &self.flows[n];
        let leg = flow.leg_idx(n, flow.relays.len());
        self.observer.opened(self.now, leg, HostIdx(host as u32), conn);
    }

    /// An old SYN, or one repeated for want of a reset, came for a flow that is over: its programs
    /// are, and nobody would ever close this connection.
    pub(super) fn turn_away(&mut self, host: usize, conn: ConnId) {
        if let Some(connection) = self.hosts[host].endpoint.connection(conn) {
            connection.abort(self.now);
        }
    }

    fn on_closed(&mut self, n: usize, role: Role, reason: CloseReason) {
        let flow = &mut self.flows[n];
        flow.closed[role as usize] = Some(reason);
        // Behind a proxy the last of what it sent may still be on its way.
        let sends = role == Role::Source || flow.app.goes_both_ways();
        if flow.done || (reason == CloseReason::Finished && sends) {
            return;
        }
        self.fail(n, format!("{reason:?} at the {role:?}").to_lowercase());
    }

    /// An application's time has come.
    pub(super) fn tick(&mut self, n: usize, role: Role) {
        let flow = &mut self.flows[n];
        let client = flow.download == (role == Role::Sink);
        let (host, conn) = match client {
            true => (flow.client, flow.client_conn),
            false => (flow.server, flow.server_conn),
        };
        if self.now < self.asleep[host] {
            return self.plan(self.asleep[host], Action::Tick(n as u32));
        }
        let Some(conn) = conn else { return };
        let Some(connection) = self.hosts[host].endpoint.connection(conn) else { return };
        let again = flow.app.tick(self.now, role, connection);
        let completed = !flow.done && flow.app.completed().is_some();
        if let Some(at) = again {
            self.plan(at, Action::Tick(n as u32));
        }
        if completed {
            self.complete(n);
        }
        self.flush(host);
    }

    /// A flow has delivered everything.
    fn complete(&mut self, n: usize) {
        self.flows[n].result = Some(Box::new(self.flow_result(n)));
        self.flows[n].done = true;
        self.remaining -= 1;
        if self.wants.sample.is_some() {
            self.sample_flow(n);
        }
        self.observer.completed(self.now, FlowIdx(n as u32));
    }

    /// A flow can go no further.
    pub(super) fn fail(&mut self, n: usize, why: String) {
        if self.flows[n].done {
            return;
        }
        self.flows[n].failed = Some(why);
        self.flows[n].result = Some(Box::new(self.flow_result(n)));
        self.flows[n].done = true;
        self.remaining -= 1;
    }
}
