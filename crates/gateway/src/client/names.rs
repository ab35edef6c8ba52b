//! Names that programs want: asked through the tunnel, so that nothing of them is seen outside.

use super::Core;
use crate::dns::{self, LookupId};
use crate::listener::{ConnectError, Target};
use crate::reactor::SocketId;
use crate::udp_packet;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_wire::segment::Trust;
use tabane_wire::udp::Datagram;

/// Lookups, and who waits for them.
pub(super) struct Names {
    client: dns::Client,
    waiting: BTreeMap<LookupId, (SocketId, Target)>,
    /// Where queries leave from: an inner address that belongs to no path.
    source: SocketAddr,
    service: SocketAddr,
}

/// Queries leave from here; what tells answers apart are their ids and questions.
const PORT: u16 = 5353;

impl Names {
    pub(super) fn new(
        client: dns::Client,
        own: std::net::IpAddr,
        service: std::net::IpAddr,
    ) -> Self {
        Self {
            client,
            waiting: BTreeMap::new(),
            source: SocketAddr::new(own, PORT),
            service: SocketAddr::new(service, dns::PORT),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.client.poll_timeout()
    }
}

impl Core {
    /// A program wants to go to a name.
    pub(super) fn look_up(&mut self, now: Instant, program: SocketId, name: &str, port: u16) {
        match self.names.client.resolve(now, name) {
            Ok(id) => {
                let target = Target::Name(name.to_owned(), port);
                self.names.waiting.insert(id, (program, target));
                self.programs.resolving(program);
                self.names(now);
            }
            Err(why) => self.refuse_program(program, why),
        }
    }

    /// Asks for a name; what comes of it goes to whoever noted the lookup.
    pub(super) fn ask_name(&mut self, now: Instant, name: &str) -> Option<LookupId> {
        self.names.client.resolve(now, name).ok()
    }

    /// Sends queries and hands out results.
    pub(super) fn names(&mut self, now: Instant) {
        if self.names.client.poll_timeout().is_some_and(|due| due <= now) {
            self.names.client.handle_timeout(now);
        }
        while let Some(query) = self.names.client.poll_query() {
            let (src, dst) = (self.names.source, self.names.service);
            let packet = udp_packet(src, dst, Bytes::from(query));
            self.send_everywhere(now, &packet);
        }
        while let Some((id, result)) = self.names.client.poll_result() {
            if self.named(now, id, &result) {
                continue;
            }
            let Some((program, target)) = self.names.waiting.remove(&id) else { continue };
            if !self.programs.is_resolving(program) {
                continue;
            }
            match result {
                Ok(addresses) => {
                    let at = |ip| SocketAddr::new(ip, target.port());
                    let all = addresses.into_iter().map(at).collect();
                    self.connect_program(now, program, target, all);
                }
                Err(why) => {
                    // Without a path nothing could be asked.
                    let why =
                        if self.tunnels.best().is_none() { ConnectError::NoPath } else { why };
                    self.refuse_program(program, why);
                }
            }
        }
    }

    /// Whether a UDP packet was an answer of the service.
    pub(super) fn take_answer(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Ok(datagram) = Datagram::parse_slice(packet, Trust::Verify) else { return false };
        if (datagram.src, datagram.dst) != (self.names.service, self.names.source) {
            return false;
        }
        self.names.client.handle_answer(now, &datagram.payload);
        self.names(now);
        true
    }

    /// By every path that works and is not kept back: for what is small and must arrive.
    pub(super) fn send_everywhere(&mut self, now: Instant, packet: &[u8]) {
        for path in self.tunnels.active() {
            let taken = self.tunnels.send(now, path, packet);
            self.bond.counters[path].sent(packet.len(), taken);
        }
    }
}
