//! What comes out of the tunnels.

use super::client_sessions::Came;
use super::limiters::RateLimiter;
use super::{Core, ServerError};
use crate::index::{ClientIndex, PathIndex, PortIndex};
use crate::inner::peek;
use crate::model::EventKind;
use crate::path::ServerInfo;
use crate::path::probe::Probe;
use crate::udp::fragment::FRAGMENT_HEADER;
use crate::udp::{Flows, Outside, request};
use crate::{RECEIVE_CALLS, dns, policy_requests, udp_packet};
use bytes::Bytes;
use tabane_engine::Instant;
use tabane_net::icmp;
use tabane_net::wireguard::{FourTuple, is_handshake};
use tabane_wire::ip::protocol;
use tabane_wire::segment::Trust;
use tabane_wire::udp::Datagram;

/// Datagrams brought back before others have their turn.
const FLOW_BATCH: usize = 256;

impl Core {
    /// Takes a batch of what has come to each port that has something; the rest has its turn in
    /// the next round, after everybody else.
    pub(super) fn read_ports(&mut self, now: Instant) -> Result<(), ServerError> {
        for index in std::mem::take(&mut self.unread) {
            if self.receive(now, index)? {
                self.unread.push(index);
            }
        }
        Ok(())
    }

    /// Takes a batch of what has come to a port; whether there may be more. Handshakes wait.
    fn receive(&mut self, now: Instant, index: PortIndex) -> Result<bool, ServerError> {
        // Its buffers are large: there is no other for the time being.
        let Some(mut batch) = self.batch.take() else { return Ok(true) };
        let mut result = Ok(true);
        for _ in 0..RECEIVE_CALLS {
            let Some(port) = self.ports.get_mut(index.get()) else { break };
            result = port.recv(&mut batch).map_err(ServerError::from);
            if !matches!(result, Ok(true)) {
                break;
            }
            for (four_tuple, datagram) in batch.datagrams() {
                if is_handshake(datagram) {
                    self.handshakes.push(index, four_tuple, datagram);
                } else {
                    self.open(now, index, four_tuple, datagram);
                }
            }
            if batch.took_all() {
                result = Ok(false);
                break;
            }
        }
        self.batch = Some(batch);
        result
    }

    /// Takes a datagram that came to a port.
    pub(super) fn open(
        &mut self,
        now: Instant,
        index: PortIndex,
        four_tuple: &FourTuple,
        datagram: &[u8],
    ) {
        let Some(port) = self.ports.get_mut(index.get()) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        match self.client_sessions.open(now, port, four_tuple, datagram, &mut scratch) {
            Came::Packet(at, path, len) => {
                self.client_sessions.heard(now, at, path);
                self.take(now, (at, path), &scratch[..len]);
                self.client_sessions.touch(at);
            }
            Came::PolicyOverride(peer, len) => self.take_asker(now, peer, &scratch[..len]),
            Came::Sign(at, path) => {
                self.client_sessions.heard(now, at, path);
                self.client_sessions.touch(at);
            }
            Came::Nothing => {}
        }
        self.scratch = scratch;
    }

    /// A packet of a client.
    fn take(&mut self, now: Instant, (at, path): (ClientIndex, PathIndex), packet: &[u8]) {
        let network = self.network;
        let Some(session) = self.client_sessions.get(at) else { return };
        session.bond.counters[path].received(packet.len());
        let Some(inner) = peek(packet) else { return };
        if !session.owns(&network, inner.src) {
            session.spoofed += 1;
            return;
        }
        match inner.protocol {
            protocol::ICMP | protocol::ICMPV6 if network.service().contains(&inner.dst) => {
                // Probes and reports come from the path's own address. A program's ping does not,
                // and could end all connections of the client by what it has in it.
                if !network.path(session.number, path).contains(&inner.src) {
                    if let icmp::Answer::Reply(answer) = icmp::answer(packet, &network.service()) {
                        self.client_sessions.send((at, path), &answer, &mut self.ports);
                    }
                    return;
                }
                if self.client_sessions.take_report(now, (at, path), packet) {
                    return;
                }
                let seen_as =
                    self.client_sessions.four_tuple(at, path).map(|four_tuple| four_tuple.remote);
                // First, since the answer says it.
                self.meet(now, at, packet);
                let Some(session) = self.client_sessions.get(at) else { return };
                // To a client whose connections were taken for those of a run that has ended, as
                // if this had been started again: what is not heard of at all would hang.
                let life = Some(self.life.wrapping_add(session.ended_runs));
                let unix_ms = self.clock.unix(now).as_millis() as u64;
                if let Some(seen_as) = seen_as {
                    session.responders[path].set_server_info(ServerInfo { seen_as, unix_ms, life });
                }
                let answer = session.responders[path].handle_packet(now, packet);
                self.client_sessions.events(now, at, path);
                if let Some(answer) = answer {
                    self.client_sessions.send((at, path), &answer, &mut self.ports);
                }
            }
            protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMPV6 | FRAGMENT_HEADER => {
                let limiter = session.limiters.enter(now, path, packet);
                if limiter == RateLimiter::Open {
                    self.enter(now, (at, path), packet);
                }
            }
            _ => {}
        }
    }

    /// By a probe: a client that was started again has nothing connected any more.
    fn meet(&mut self, now: Instant, at: ClientIndex, packet: &[u8]) {
        let Some(probe) = Probe::parse_request(packet, &self.network.service()) else { return };
        let Some(session) = self.client_sessions.get(at) else { return };
        if session.meet(now, probe.run) {
            session.abort_all(now);
            self.end_connections(now, at);
        } else if session.lives.is_twin(now, probe.run) {
            let name = session.name.clone();
            let text = format!(
                "two machines use the keys of {name}, or two clients of one do: each takes the \
                 other's paths; stop one, or give it keys of its own"
            );
            self.event_log.add(now, EventKind::KeysShared, (Some(&name), None), text);
        }
    }

    /// Packets of a client that have waited because of its rate.
    pub(super) fn enter_late(&mut self, now: Instant, at: ClientIndex) {
        while let Some(session) = self.client_sessions.get(at)
            && let Some((path, packet)) = session.limiters.pop_entering(now)
        {
            self.enter(now, (at, path), &packet);
        }
    }

    /// A packet of a client that is within its rate.
    fn enter(&mut self, now: Instant, (at, path): (ClientIndex, PathIndex), packet: &[u8]) {
        let service = self.network.service();
        let Some(session) = self.client_sessions.get(at) else { return };
        let Some(inner) = peek(packet) else { return };
        match inner.protocol {
            protocol::TCP => {
                session.bond.endpoint.handle_packet(now, path.into(), packet);
            }
            protocol::UDP if service.contains(&inner.dst) => {
                self.take_question(now, (at, path), packet);
            }
            protocol::UDP | protocol::ICMP | protocol::ICMPV6 | FRAGMENT_HEADER => {
                self.take_datagram(now, (at, path), packet);
            }
            _ => {}
        }
    }

    /// A datagram to the server itself: names.
    fn take_question(&mut self, now: Instant, (at, path): (ClientIndex, PathIndex), packet: &[u8]) {
        let Ok(datagram) = Datagram::parse_slice(packet, Trust::Verify) else { return };
        let (from, to) = (datagram.src, datagram.dst);
        // Agents speak from the port that they speak to: a program has another one.
        let Some(session) = self.client_sessions.get(at) else { return };
        let own = self.network.own(session.number).contains(&from.ip());
        let by_agent = own && from.port() == to.port();
        if to.port() == policy_requests::PORT && by_agent {
            return self.take_policy_override(now, at, &datagram.payload);
        }
        if to.port() == request::PORT && by_agent {
            let Self { client_sessions, ports, .. } = self;
            return client_sessions.take_request(now, at, &datagram.payload, ports);
        }
        if to.port() == dns::PORT && !self.send_forward(now, (at, path), packet) {
            let Some(session) = self.client_sessions.get(at) else { return };
            let asker =
                dns::Asker { client: session.number, source: datagram.src, destination: to };
            self.names.ask(now, asker, &datagram.payload);
            self.answer_names(now);
        }
    }

    /// A whole datagram or an echo request to the outside.
    pub(super) fn send_on(
        &mut self,
        now: Instant,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
    ) {
        if self.send_forward(now, (at, path), packet) {
            return;
        }
        let Some(session) = self.client_sessions.get(at) else { return };
        let (registry, access) = (self.outbound.registry(), &self.access);
        let outside = Outside { registry, access, flows: session.limits.udp_flows };
        let sent = self.flows.send(now, &outside, session.number, packet);
        if let Err(why) = sent
            && let Some(answer) = Flows::explain(packet, why)
        {
            self.client_sessions.send((at, path), &answer, &mut self.ports);
        }
    }

    /// Sends the datagrams of clients to the outside, as many at a time as there are.
    pub(super) fn flush_flows(&mut self, now: Instant) {
        let mut answers = Vec::new();
        self.flows.flush(&mut |client, answer| answers.push((client, answer)));
        for (client, answer) in answers {
            if let Some(at) = self.client_sessions.find(client) {
                self.tell(now, at, &answer);
            }
        }
    }

    /// Brings back what has come from outside; whether there may be more.
    pub(super) fn read_flows(&mut self, now: Instant) -> bool {
        self.flows.handle_timeout(now);
        let Self { flows, client_sessions, ports, .. } = self;
        let mut told = Vec::new();
        let more = flows.read(FLOW_BATCH, &mut |client, packet| {
            if let Some(at) = client_sessions.find(client) {
                client_sessions.send_datagram(now, at, packet, ports);
                told.push(at);
            }
        });
        // What waits because of a rate has a time to leave at.
        told.into_iter().for_each(|at| self.client_sessions.touch(at));
        more
    }

    /// Sends the answers about names that are there.
    pub(super) fn answer_names(&mut self, now: Instant) {
        while let Some((asker, answer)) = self.names.poll_answer(now) {
            let Some(at) = self.client_sessions.find(asker.client) else { continue };
            let packet = udp_packet(asker.destination, asker.source, Bytes::from(answer));
            self.tell(now, at, &packet);
        }
    }
}
