//! Datagrams of programs (SOCKS5's UDP ASSOCIATE): each association has a socket for its program,
//! and a port inside the tunnel for all its destinations, so that the server's mapping is as
//! endpoint-independent as that of a NAT should be.

use super::Core;
use crate::dns::LookupId;
use crate::index::AssociationIndex;
use crate::listener::{ConnectError, Target, udp_header};
use crate::reactor::{EventSource, SocketId};
use crate::udp::packet::{Inside, parse};
use crate::udp_packet;
use bytes::{BufMut, Bytes, BytesMut};
use mio::net::UdpSocket;
use mio::{Interest, Registry};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use tabane_engine::Instant;

/// All associations.
pub(super) struct Datagrams {
    all: Slab<Association>,
    by_port: BTreeMap<u16, AssociationIndex>,
    /// Inner ports that nobody has, the longest unused first: the far ends of whoever had one
    /// before may still send to it.
    free_ports: VecDeque<u16>,
    /// Datagrams whose destination's name is being asked for.
    named: BTreeMap<LookupId, Named>,
    registry: Registry,
    buffer: Vec<u8>,
}

/// A program's relay of datagrams.
struct Association {
    socket: UdpSocket,
    /// Inside the tunnel.
    port: u16,
    /// Only this host is relayed: the one that the program's connection comes from.
    host: IpAddr,
    /// Where the program sent from last.
    program: Option<SocketAddr>,
}

struct Named {
    association: AssociationIndex,
    port: u16,
    payload: Bytes,
}

/// Associations at a time.
const MAX: usize = 1024;
/// Datagrams that wait for a name at a time; those beyond are dropped.
const NAMED_MAX: usize = 256;
/// Inner ports of associations: about twice as many as there may be of these.
const PORTS: Range<u16> = 20_000..22_000;
/// Datagrams read from one association before others have their turn.
const TURN: usize = 64;

impl Datagrams {
    pub(super) fn new(registry: Registry) -> Self {
        let buffer = vec![0; 1 << 16];
        Self {
            all: Slab::new(),
            by_port: BTreeMap::new(),
            free_ports: PORTS.collect(),
            named: BTreeMap::new(),
            registry,
            buffer,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A new one for a program that came from `host` to `local`; its index, and where it takes
    /// datagrams.
    fn open(
        &mut self,
        local: IpAddr,
        host: IpAddr,
    ) -> Result<(AssociationIndex, SocketAddr), ConnectError> {
        if self.all.len() >= MAX {
            return Err(ConnectError::Busy);
        }
        let failed = |error: io::Error| ConnectError::of(&error);
        let mut socket = UdpSocket::bind(SocketAddr::new(local, 0)).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let entry = self.all.vacant_entry();
        let index = AssociationIndex::new(entry.key());
        let token = EventSource::Associate(index.get()).token();
        self.registry.register(&mut socket, token, Interest::READABLE).map_err(failed)?;
        let port = self.free_ports.pop_front().ok_or(ConnectError::Busy)?;
        self.by_port.insert(port, index);
        entry.insert(Association { socket, port, host, program: None });
        Ok((index, bound))
    }

    /// Its program has gone.
    pub(super) fn close(&mut self, index: AssociationIndex) {
        if let Some(mut association) = self.all.try_remove(index.get()) {
            // Closing takes it out of the poll too.
            let _ = self.registry.deregister(&mut association.socket);
            self.by_port.remove(&association.port);
            self.free_ports.push_back(association.port);
        }
        self.named.retain(|_, named| named.association != index);
    }
}

impl Core {
    /// A program wants its datagrams relayed.
    pub(super) fn associate(&mut self, id: SocketId) {
        let Some(program) = self.programs.get(id) else { return };
        let host = program.source.ip();
        let local = program.stream().local_addr().map(|local| local.ip());
        let opened =
            local.map_err(|e| ConnectError::of(&e)).and_then(|at| self.datagrams.open(at, host));
        match opened {
            Ok((at, bound)) => {
                let Some(program) = self.programs.get(id) else { return };
                if !program.associated(at, bound) {
                    self.datagrams.close(at);
                    self.programs.remove(id);
                }
            }
            Err(why) => self.refuse_program(id, why),
        }
    }

    /// Takes what programs have sent to an association; whether there may be more.
    pub(super) fn read_association(&mut self, now: Instant, index: AssociationIndex) -> bool {
        let mut buffer = std::mem::take(&mut self.datagrams.buffer);
        let mut more = true;
        for _ in 0..TURN {
            let Some(association) = self.datagrams.all.get_mut(index.get()) else {
                // It was closed before all was read.
                more = false;
                break;
            };
            match association.socket.recv_from(&mut buffer) {
                Ok((len, from)) if from.ip() == association.host => {
                    association.program = Some(from);
                    self.carry(now, index, &buffer[..len]);
                }
                // Somebody else's, or the echo of an ICMP error.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    more = false;
                    break;
                }
                Err(_) => {}
            }
        }
        self.datagrams.buffer = buffer;
        more
    }

    /// A datagram of a program, with its SOCKS5 header; what is none is dropped (RFC 1928
    /// section 7).
    fn carry(&mut self, now: Instant, index: AssociationIndex, datagram: &[u8]) {
        let Ok((target, payload)) = udp_header::parse(datagram) else { return };
        match target {
            Target::Address(to) => self.send_for(now, index, to, Bytes::copy_from_slice(payload)),
            Target::Name(name, port) => {
                if self.datagrams.named.len() >= NAMED_MAX {
                    return;
                }
                let Some(id) = self.ask_name(now, &name) else { return };
                let payload = Bytes::copy_from_slice(payload);
                self.datagrams.named.insert(id, Named { association: index, port, payload });
                self.names(now);
            }
        }
    }

    /// A name that a datagram waited for is known, or not; whether one waited for it.
    pub(super) fn named(
        &mut self,
        now: Instant,
        id: LookupId,
        found: &Result<Vec<IpAddr>, ConnectError>,
    ) -> bool {
        let Some(named) = self.datagrams.named.remove(&id) else { return false };
        if let Ok([first, ..]) = found.as_deref() {
            let to = SocketAddr::new(*first, named.port);
            self.send_for(now, named.association, to, named.payload);
        }
        true
    }

    fn send_for(&mut self, now: Instant, index: AssociationIndex, to: SocketAddr, payload: Bytes) {
        if self.network.is_for_agents(to) {
            return;
        }
        let [v4, v6] = self.network.own(self.number);
        let own = if to.is_ipv4() { v4 } else { v6 };
        let Some(association) = self.datagrams.all.get(index.get()) else { return };
        let from = SocketAddr::new(own, association.port);
        let mut packet = udp_packet(from, to, payload);
        self.send_datagram(now, to, &mut packet);
    }

    /// A packet that came through the tunnel for an association; whether it was one.
    pub(super) fn deliver(&mut self, packet: &[u8]) -> bool {
        if self.datagrams.all.is_empty() {
            return false;
        }
        let Some(Inside::Datagram { source, destination, payload }) = parse(packet) else {
            return false;
        };
        let own = self.network.own(self.number).contains(&destination.ip());
        let index = self.datagrams.by_port.get(&destination.port()).filter(|_| own);
        let Some(association) = index.and_then(|at| self.datagrams.all.get_mut(at.get())) else {
            return false;
        };
        let Some(program) = association.program else { return true };
        let mut out = BytesMut::with_capacity(payload.len() + 22);
        udp_header::emit(&mut out, source);
        out.put_slice(payload);
        // A program that does not take it loses it, as with any datagram.
        let _ = association.socket.send_to(&out, program);
        true
    }
}
