//! Proxies of a world: which relay joins which connections of a flow, and what passed each hop.
//! The relaying itself is in [`crate::relay`].

use super::host::{HostState, Owner};
use super::ports::Ports;
use super::{FlowState, RunError, World};
use crate::observe::{FlowIdx, HostIdx};
use crate::relay::{Relay, Side};
use crate::result::HopResult;
use crate::scenario::Scenario;
use crate::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tabane_engine::config::Config;
use tabane_engine::mptcp::Info;
use tabane_engine::{ConnId, Endpoint, Event, Profile};

/// A proxy on the way of a flow.
pub(super) struct RelayState {
    pub(super) host: usize,
    /// It accepts the flow at this port.
    pub(super) port: u16,
    /// Node and port that it connects on to.
    next: (usize, u16),
    /// Number that observers know the connection beyond it by.
    pub(super) leg: FlowIdx,
    /// Once there are connections.
    relay: Option<Relay>,
    /// How its receiving side stood when that had everything.
    received: Option<Box<Info>>,
}

/// A connection of a flow: from client to server, or between two nodes on the way.
pub(super) struct Leg<'a> {
    pub(super) flow: &'a FlowState,
    /// 0 is the client's.
    pub(super) number: usize,
    /// Node that connects, and its connection.
    pub(super) client: (usize, Option<ConnId>),
    /// Node that accepts, and its connection.
    pub(super) server: (usize, Option<ConnId>),
}

/// The settings of connections that a proxy opens, by node: only paths that lead there are used.
pub(super) fn profiles(
    endpoint: &Endpoint,
    scenario: &Scenario,
    topology: &Topology,
    host: usize,
    config: &Config,
) -> Result<BTreeMap<usize, Profile>, RunError> {
    let mut profiles = BTreeMap::new();
    let name = topology.hosts[host].name.as_str();
    let next = |(a, b): (&str, &str)| (a == name).then(|| topology.host(b)).flatten();
    let pairs = scenario.flow.iter().flat_map(|flow| flow.nodes().zip(flow.nodes().skip(1)));
    for next in pairs.filter_map(next).collect::<BTreeSet<_>>() {
        let mut config = config.clone();
        let shared = topology.shared_address(next);
        config.paths.retain(|path| {
            topology.route(host, usize::from(path.id.0), shared) != crate::topology::NO_ROUTE
        });
        profiles.insert(next, endpoint.profile(config)?);
    }
    Ok(profiles)
}

impl RelayState {
    /// The proxies among the nodes of the `flow`-th flow, whose server listens at `port`; `None`
    /// if one has no port left.
    pub(super) fn chain(
        nodes: &[usize],
        port: u16,
        flow: usize,
        ports: &mut Ports,
    ) -> Option<Vec<Self>> {
        let mut relays = Vec::new();
        let mut next = (nodes[nodes.len() - 1], port);
        for k in (0..nodes.len() - 2).rev() {
            let (peer, host) = (nodes[k], nodes[k + 1]);
            let port = ports.assign(host, peer, (flow, k))?;
            let leg = FlowIdx::default();
            relays.insert(0, Self { host, port, next, leg, relay: None, received: None });
            next = (host, port);
        }
        Some(relays)
    }

    fn conn(&self, side: Side) -> Option<ConnId> {
        self.relay.as_ref().and_then(|relay| relay.conn(side))
    }
}

impl FlowState {
    /// Its `k`-th connection.
    pub(super) fn leg(&self, k: usize) -> Leg<'_> {
        let client = match k.checked_sub(1).map(|before| &self.relays[before]) {
            Some(relay) => (relay.host, relay.conn(Side::Far)),
            None => (self.client, self.client_conn),
        };
        let server = match self.relays.get(k) {
            Some(relay) => (relay.host, relay.conn(Side::Near)),
            None => (self.server, self.server_conn),
        };
        Leg { flow: self, number: k, client, server }
    }

    /// Number that observers know its `k`-th connection by; it is the `n`-th flow.
    pub(super) fn leg_idx(&self, n: usize, k: usize) -> FlowIdx {
        k.checked_sub(1).map_or(FlowIdx(n as u32), |before| self.relays[before].leg)
    }

    /// Its connections at a host; of a proxy, those on `side`.
    pub(super) fn conns_at(&self, host: usize, side: Option<Side>) -> Vec<ConnId> {
        let ends = [(self.client, self.client_conn), (self.server, self.server_conn)];
        let ends = ends.into_iter().filter(|_| side.is_none());
        let relays = self.relays.iter().flat_map(|relay| {
            let sides = [Side::Near, Side::Far].into_iter();
            let sides = sides.filter(move |s| side.is_none_or(|only| only == *s));
            sides.map(|s| (relay.host, relay.conn(s)))
        });
        ends.chain(relays).filter(|(at, _)| *at == host).filter_map(|(_, conn)| conn).collect()
    }
}

impl World<'_> {
    /// A SYN waits for an answer: a proxy connects on first, a server that refuses says so.
    pub(super) fn on_incoming(&mut self, host: usize, conn: ConnId, port: u16, from: IpAddr) {
        let place = self.ports.find(host, port, self.topology.host_of(from));
        if let Some((n, k)) = place.filter(|(n, k)| *k < self.flows[*n].relays.len()) {
            return match self.flows[n].done {
                true => self.turn_away(host, conn),
                false => self.connect_on(n, k, conn),
            };
        }
        let refused = place.is_some_and(|(n, _)| self.flows[n].refuse);
        let endpoint = &mut self.hosts[host].endpoint;
        match endpoint.connection(conn).filter(|_| refused) {
            Some(connection) => connection.abort(self.now),
            None => endpoint.admit(conn),
        }
    }

    /// The `k`-th proxy of a flow opens the connection that it relays `near` over.
    fn connect_on(&mut self, n: usize, k: usize, near: ConnId) {
        let relay = &self.flows[n].relays[k];
        let (host, (next, port)) = (relay.host, relay.next);
        let (local, remote) = self.ends(host, next, port);
        let HostState { endpoint, profiles, .. } = &mut self.hosts[host];
        let profile = profiles.get(&next).expect("invariant: made for every flow");
        let far = match endpoint.connect_as(self.now, local, remote, profile) {
            Ok(far) => far,
            Err(error) => {
                if let Some(connection) = endpoint.connection(near) {
                    connection.abort(self.now);
                }
                return self.fail(n, error.to_string());
            }
        };
        let before = self.flows[n].leg_idx(n, k);
        let relay = &mut self.flows[n].relays[k];
        relay.relay = Some(Relay::new(near, far));
        for (conn, side, leg) in [(near, Side::Near, before), (far, Side::Far, relay.leg)] {
            self.hosts[host].conns.insert(conn, n, Owner::Relay(k as u8, side));
            self.observer.opened(self.now, leg, HostIdx(host as u32), conn);
        }
    }

    /// An event of a proxy's connection.
    #[inline]
    pub(super) fn on_relay_event(&mut self, n: usize, k: usize, side: Side, event: &Event) {
        let flow = &mut self.flows[n];
        let receiving = if flow.download { Side::Far } else { Side::Near };
        let state = &mut flow.relays[k];
        let Some(relay) = &mut state.relay else { return };
        let endpoint = &mut self.hosts[state.host].endpoint;
        if *event == Event::PeerFinished && side == receiving {
            let connection = relay.conn(side).and_then(|id| endpoint.connection(id));
            state.received = connection.map(|c| Box::new(c.info(self.now)));
        }
        relay.on_event(self.now, endpoint, side, event);
    }

    /// What has passed each connection of a flow that proxies relay, so far.
    pub(super) fn hop_results(&mut self, n: usize, seconds: f64) -> Vec<HopResult> {
        let legs = match self.flows[n].relays.len() {
            0 => 0,
            proxies => proxies + 1,
        };
        (0..legs).map(|k| self.hop_result(n, k, seconds)).collect()
    }

    fn hop_result(&mut self, n: usize, k: usize, seconds: f64) -> HopResult {
        let flow = &self.flows[n];
        let leg = flow.leg(k);
        let (client, server) = (leg.client, leg.server);
        let receiver = if flow.download { client } else { server };
        // Who receives over it: an end of the flow, or a proxy that may have noted how it was.
        let noted = match flow.download {
            true => k.checked_sub(1).map(|before| &flow.relays[before]),
            false => flow.relays.get(k),
        };
        let noted = noted.and_then(|relay| relay.received.as_deref().cloned());
        let info = noted.unwrap_or_else(|| {
            let endpoint = &mut self.hosts[receiver.0].endpoint;
            let connection = receiver.1.and_then(|id| endpoint.connection(id));
            connection.map(|c| c.info(self.now)).unwrap_or_default()
        });
        let goodput = info.received as f64 * 8.0 / seconds;
        HopResult {
            from: self.topology.hosts[client.0].name.clone(),
            to: self.topology.hosts[server.0].name.clone(),
            bytes: info.received,
            goodput_bps: if seconds > 0.0 { goodput } else { 0.0 },
            subflows: self.subflows(&info, client.0, seconds),
        }
    }
}
