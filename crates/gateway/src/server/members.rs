//! The clients of the server and their tunnels.

use super::ServerError;
use super::enrolment::Askers;
use super::limiters::RateLimiter;
use super::member::Member;
use super::notes::Notes;
use crate::address::{ClientNumber, Network, PATHS_MAX};
use crate::config::{ClientEntry, Configuration, ServerConfig};
use crate::keys::{self, Key};
use crate::path::PathEvent;
use crate::udp::fragment;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_engine::view::PathId;
use tabane_net::wireguard::{
    OVERHEAD, Opened, PeerId, Peers, PeersConfig, PeersCounters, Sealed, UdpPort, Way, room,
};

/// See the module.
pub(super) struct Members {
    /// In their places, which they keep; `None` where one has gone.
    pub(super) all: Vec<Option<Member>>,
    by_number: BTreeMap<ClientNumber, usize>,
    pub(super) peers: Peers,
    /// Who asks for something, and is no path.
    pub(super) askers: Askers,
    /// Member and path of each peer.
    pub(super) owners: BTreeMap<PeerId, (usize, usize)>,
    network: Network,
    /// What is to be told of them.
    pub(super) notes: Notes,
}

/// What a datagram brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// An inner packet by a member's path, of that length.
    Packet(usize, usize, usize),
    /// A packet of who is no path, of that length.
    Asked(PeerId, usize),
    /// A sign of life by a member's path.
    Sign(usize, usize),
    /// Nothing that counts.
    Nothing,
}

impl Members {
    /// Those of a configuration.
    ///
    /// # Errors
    /// Keys and policies that are none.
    pub(super) fn new(config: &ServerConfig, network: Network) -> Result<Self, ServerError> {
        let peers = Peers::new(config.key()?.to_static(), PeersConfig::default());
        let (all, by_number, owners) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (askers, notes) = (Askers::default(), Notes::default());
        let mut members = Self { all, by_number, peers, askers, owners, network, notes };
        let there = |client: &&ClientEntry| !client.disabled && !client.keys.is_empty();
        for client in config.client.iter().filter(there) {
            members.add(config, client)?;
        }
        Ok(members)
    }

    /// A client more.
    ///
    /// # Errors
    /// Keys and policies that are none.
    pub(super) fn add(
        &mut self,
        config: &ServerConfig,
        client: &ClientEntry,
    ) -> Result<(), ServerError> {
        let at = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        let preshared = client.preshared_key.as_deref().map(str::parse::<Key>).transpose()?;
        let preshared = preshared.map(|key| *key.bytes());
        let mut member = Member::new(config, client, self.network)?;
        for (path, key) in client.keys.iter().take(PATHS_MAX).enumerate() {
            let peer = self.peers.add(keys::public(key)?, preshared);
            let peer = peer.map_err(|error| {
                ServerError::Config(format!("key {path} of client {}: {error}", client.name))
            })?;
            self.owners.insert(peer, (at, path));
            member.peers[path] = Some(peer);
        }
        self.by_number.insert(member.number, at);
        match self.all.get_mut(at) {
            Some(place) => *place = Some(member),
            None => self.all.push(Some(member)),
        }
        Ok(())
    }

    /// A client less.
    pub(super) fn remove(&mut self, at: usize) -> Option<Member> {
        let member = self.all.get_mut(at)?.take()?;
        self.by_number.remove(&member.number);
        let own = self.owners.iter().filter(|(_, owner)| owner.0 == at);
        for peer in own.map(|(peer, _)| *peer).collect::<Vec<_>>() {
            self.owners.remove(&peer);
            self.peers.remove(peer);
        }
        Some(member)
    }

    /// Places, taken or not.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The member at a place.
    pub(super) fn get(&mut self, at: usize) -> Option<&mut Member> {
        self.all.get_mut(at)?.as_mut()
    }

    /// The place of the member with that number.
    pub(super) fn find(&self, number: ClientNumber) -> Option<usize> {
        self.by_number.get(&number).copied()
    }

    /// What strangers did.
    pub(super) fn strangers(&self) -> &PeersCounters {
        self.peers.counters()
    }

    /// Takes a datagram; what is inside goes to `out`.
    pub(super) fn open(
        &mut self,
        now: Instant,
        port: &mut UdpPort,
        from: &Way,
        datagram: &[u8],
        out: &mut [u8],
    ) -> Came {
        let strangers = self.peers.counters().unknown_key;
        let received = self.peers.open(from, datagram, out);
        if let Opened::Bad(_) = received.opened {
            let owner = received.peer.and_then(|peer| Some(self.owners.get(&peer)?.0));
            let stranger = self.peers.counters().unknown_key > strangers;
            self.notes.opened((from.remote, owner), datagram, received.opened, stranger);
        }
        if let Opened::Reply(len) = received.opened {
            queue(port, from, &out[..len]);
        }
        let Some(peer) = received.peer else { return Came::Nothing };
        if self.askers.get(peer).is_some() {
            return self.open_asker(now, (peer, received.opened), (port, from), out);
        }
        let Some(&(at, path)) = self.owners.get(&peer) else { return Came::Nothing };
        if let Opened::Packet { .. } | Opened::Keepalive = received.opened
            && let Some(Some(member)) = self.all.get_mut(at)
        {
            // Of two generations of keys that which was heard of last is answered by.
            member.peers[path] = Some(peer);
        }
        match received.opened {
            Opened::Packet { len, .. } => Came::Packet(at, path, len),
            // The first packet with new keys, mostly an empty one, is what lets a server use them.
            Opened::Reply(_) | Opened::Keepalive => {
                while let Some(len) = self.peers.pending(peer, out) {
                    queue(port, from, &out[..len]);
                }
                Came::Sign(at, path)
            }
            Opened::Cookie | Opened::Bad(_) => Came::Nothing,
        }
    }

    /// The same of who is no path.
    fn open_asker(
        &mut self,
        now: Instant,
        (peer, opened): (PeerId, Opened),
        (port, from): (&mut UdpPort, &Way),
        out: &mut [u8],
    ) -> Came {
        match opened {
            Opened::Packet { len, .. } => {
                self.askers.heard(now, peer);
                Came::Asked(peer, len)
            }
            Opened::Reply(_) | Opened::Keepalive => {
                self.askers.heard(now, peer);
                while let Some(len) = self.peers.pending(peer, out) {
                    queue(port, from, &out[..len]);
                }
                Came::Nothing
            }
            Opened::Cookie | Opened::Bad(_) => Came::Nothing,
        }
    }

    /// Where a peer is.
    pub(super) fn way_of(&self, peer: PeerId) -> Option<&Way> {
        self.peers.way(peer)
    }

    /// Forgets a peer's session.
    pub(super) fn forget_session(&mut self, peer: PeerId) {
        self.peers.forget_session(peer);
    }

    /// Something authentic came by a path.
    pub(super) fn heard(&mut self, now: Instant, at: usize, path: usize) {
        let Some(Some(member)) = self.all.get_mut(at) else { return };
        member.responders[path].handle_heard(now);
        self.events(now, at, path);
    }

    /// What the watch over a path has found.
    pub(super) fn events(&mut self, now: Instant, at: usize, path: usize) {
        let Some(Some(member)) = self.all.get_mut(at) else { return };
        while let Some(event) = member.responders[path].poll_event() {
            self.notes.path(at, path, &event);
            match event {
                PathEvent::Up => member.set_up(now, path, true),
                PathEvent::Down(_) => member.set_up(now, path, false),
                // Of one that was too long too: the engine may have missed the change.
                PathEvent::Mtu(_) | PathEvent::TooBig(_) => {
                    let mtu = member.responders[path].mtu();
                    member.bond.endpoint.set_path_mtu(now, PathId(path as u8), mtu);
                }
                PathEvent::Announced(announcement) => member.announced(now, path, announcement),
            }
        }
    }

    /// Where a member's path is.
    pub(super) fn way(&self, at: usize, path: usize) -> Option<&Way> {
        let peer = self.all.get(at)?.as_ref()?.peers[path]?;
        self.peers.way(peer)
    }

    /// The path by which a member is best told something.
    pub(super) fn best(&self, at: usize) -> Option<usize> {
        let member = self.all.get(at)?.as_ref()?;
        member.best()
    }

    /// Sends an inner packet by a member's path, whatever its rates.
    pub(super) fn send(
        &mut self,
        (at, path): (usize, usize),
        packet: &[u8],
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(member)) = all.get_mut(at) else { return };
        let taken = member.peers[path].is_some_and(|peer| seal(peers, peer, packet, ports));
        member.bond.counters[path].sent(packet.len(), taken);
    }

    /// Sends a datagram's packet to a member, by the paths that it wants; in fragments if it is too
    /// long for a path.
    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        at: usize,
        packet: &mut [u8],
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(member)) = all.get_mut(at) else { return };
        for id in member.prepare(now, packet).iter() {
            let (path, mtu) = (usize::from(id.0), usize::from(member.dispatcher.mtu(id)));
            member.fragment_id = member.fragment_id.wrapping_add(1);
            let Member { bond, peers: own, fragment_id, limiters, .. } = &mut *member;
            fragment::cut(packet, mtu, *fragment_id, &mut |piece| {
                let taken = own[path].is_some_and(|peer| match limiters.leave(now, path, piece) {
                    RateLimiter::Open => seal(peers, peer, piece, ports),
                    limiter => limiter == RateLimiter::Waits,
                });
                bond.counters[path].sent(piece.len(), taken);
            });
        }
    }

    /// Sends an inner packet by a member's path, now or when its rates allow it.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        (at, path): (usize, usize),
        packet: &[u8],
        ports: &mut [UdpPort],
    ) {
        let Some(Some(member)) = self.all.get_mut(at) else { return };
        match member.limiters.leave(now, path, packet) {
            RateLimiter::Open => self.send((at, path), packet, ports),
            limiter => {
                member.bond.counters[path].sent(packet.len(), limiter == RateLimiter::Waits);
            }
        }
    }

    /// Sends a batch of what a member's engine has to send; whether there may be more.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        at: usize,
        ports: &mut [UdpPort],
        scratch: &mut [u8],
    ) -> bool {
        let Self { all, peers, .. } = self;
        let Some(Some(member)) = all.get_mut(at) else { return false };
        let Member { bond, peers: own, limiters, responders, .. } = member;
        bond.transmit(now, scratch, |path, packet| {
            let Some(peer) = own[path] else { return false };
            let responder = &mut responders[path];
            if !responder.is_stock() && packet.len() > usize::from(responder.mtu()) {
                responder.handle_too_big(now, packet.len(), false);
                return false;
            }
            match limiters.leave(now, path, packet) {
                RateLimiter::Open => seal(peers, peer, packet, ports),
                limiter => limiter == RateLimiter::Waits,
            }
        })
    }

    /// What the host's own links have refused to carry: whose paths they were hears of it.
    fn hear_too_big(&mut self, now: Instant, ports: &mut [UdpPort]) {
        let polled = ports.iter_mut().flat_map(|port| std::iter::from_fn(|| port.poll_too_big()));
        // The least of each is all that counts; so one walk over all clients does.
        let mut refused: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for (remote, len) in polled {
            refused.entry(remote).and_modify(|least| *least = len.min(*least)).or_insert(len);
        }
        for at in 0..if refused.is_empty() { 0 } else { self.all.len() } {
            let Self { all, peers, .. } = self;
            let Some(member) = &mut all[at] else { continue };
            for (peer, responder) in member.peers.iter().zip(&mut member.responders) {
                let way = peer.and_then(|peer| peers.way(peer));
                if let Some(len) = way.and_then(|way| refused.get(&way.remote)) {
                    responder.handle_too_big(now, len.saturating_sub(OVERHEAD), true);
                }
            }
            (0..PATHS_MAX).for_each(|path| self.events(now, at, path));
        }
    }

    /// As [`Members::transmit`], whatever its rates: there is no later.
    pub(super) fn say_last(
        &mut self,
        now: Instant,
        at: usize,
        ports: &mut [UdpPort],
        scratch: &mut [u8],
    ) -> bool {
        let Self { all, peers, .. } = self;
        let Some(Some(member)) = all.get_mut(at) else { return false };
        let Member { bond, peers: own, .. } = member;
        bond.transmit(now, scratch, |path, packet| {
            own[path].is_some_and(|peer| seal(peers, peer, packet, ports))
        })
    }

    /// Sends what has waited because of a member's rates.
    pub(super) fn release(&mut self, now: Instant, at: usize, ports: &mut [UdpPort]) {
        let Self { all, peers, .. } = self;
        let Some(Some(member)) = all.get_mut(at) else { return };
        while let Some((path, packet)) = member.limiters.pop_leaving(now) {
            if let Some(peer) = member.peers[path] {
                seal(peers, peer, &packet, ports);
            }
        }
    }

    /// When a member wants to be looked at.
    pub(super) fn next_timeout(&self, at: usize) -> Option<Instant> {
        let member = self.all.get(at)?.as_ref()?;
        let paths = member.responders.iter().map(|responder| responder.poll_timeout());
        let due = [
            member.bond.endpoint.poll_timeout(),
            member.limiters.next_event(),
            member.dispatcher.poll_timeout(),
        ];
        due.into_iter().flatten().chain(paths).min()
    }

    /// Timers of a member's paths and engine.
    pub(super) fn on_timeout(&mut self, now: Instant, at: usize) {
        let Some(Some(member)) = self.all.get_mut(at) else { return };
        if member.bond.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            member.bond.endpoint.handle_timeout(now);
        }
        for path in 0..PATHS_MAX {
            let Some(Some(member)) = self.all.get_mut(at) else { return };
            if member.responders[path].poll_timeout() <= now {
                member.responders[path].handle_timeout(now);
                self.events(now, at, path);
            }
        }
    }

    /// Keys that age, and rates.
    pub(super) fn tick(&mut self, now: Instant, ports: &mut [UdpPort], scratch: &mut [u8]) {
        self.hear_too_big(now, ports);
        self.peers.on_timer(now, scratch, |way, datagram| {
            if let Some(port) = ports.get_mut(usize::from(way.port)) {
                queue(port, way, datagram);
            }
        });
        for member in self.all.iter_mut().flatten() {
            for counters in &mut member.bond.counters {
                counters.tick(crate::TICK.as_secs_f64());
            }
            member.look(now);
        }
    }
}

/// Seals a packet into a port's queue; whether it is on its way.
pub(super) fn seal(peers: &mut Peers, peer: PeerId, packet: &[u8], ports: &mut [UdpPort]) -> bool {
    let Some(way) = peers.way(peer).copied() else { return false };
    let Some(port) = ports.get_mut(usize::from(way.port)) else { return false };
    let mut sealed = false;
    let queued = port.queue(&way, room(packet.len()), |out| match peers.seal(peer, packet, out) {
        Sealed::Packet(len) => {
            sealed = true;
            len
        }
        Sealed::Handshake(len) => len,
        Sealed::Nothing => 0,
    });
    queued && sealed
}

fn queue(port: &mut UdpPort, way: &Way, datagram: &[u8]) {
    port.queue(way, datagram.len(), |out| {
        out.copy_from_slice(datagram);
        datagram.len()
    });
}
