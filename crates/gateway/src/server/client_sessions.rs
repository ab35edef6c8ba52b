//! The clients of the server and their tunnels.

use super::ServerError;
use super::client_session::ClientSession;
use super::enrolment::Askers;
use super::limiters::RateLimiter;
use super::notes::Notes;
use super::owners::Owners;
use crate::address::{ClientNumber, Network, PATHS_MAX};
use crate::config::{ClientEntry, Configuration, ServerConfig};
use crate::index::{ClientIndex, PathIndex};
use crate::inner::is_syn;
use crate::keys::{self, Key};
use crate::path::{PathEvent, Reports};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_engine::Instant;
use tabane_net::wireguard::{
    FourTuple, OVERHEAD, Opened, PeerId, Peers, PeersConfig, PeersCounters, PublicKey, Sealed,
    UdpPort, seal_space,
};

pub(super) struct ClientSessions {
    /// In their places, which they keep; `None` where one has gone.
    pub(super) all: Vec<Option<ClientSession>>,
    by_number: BTreeMap<ClientNumber, ClientIndex>,
    pub(super) peers: Peers,
    /// Who asks for something, and is no path.
    pub(super) askers: Askers,
    pub(super) owners: Owners,
    pub(super) network: Network,
    /// What is to be told of them.
    pub(super) notes: Notes,
    /// Those with something to do, each once.
    touched: Vec<ClientIndex>,
}

/// What a datagram brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// An inner packet by a member's path, of that length.
    Packet(ClientIndex, PathIndex, usize),
    /// A packet of who is no path, of that length.
    PolicyOverride(PeerId, usize),
    /// A sign of life by a member's path.
    Sign(ClientIndex, PathIndex),
    /// Nothing that counts.
    Nothing,
}

impl ClientSessions {
    /// Those of a configuration.
    ///
    /// # Errors
    /// Keys and policies that are none.
    pub(super) fn new(config: &ServerConfig, network: Network) -> Result<Self, ServerError> {
        let peers = Peers::new((&config.key()?).into(), PeersConfig::default());
        let (all, by_number, owners) = (Vec::new(), BTreeMap::new(), Owners::default());
        let (askers, notes, touched) = (Askers::default(), Notes::default(), Vec::new());
        let mut client_sessions =
            Self { all, by_number, peers, askers, owners, network, notes, touched };
        let there = |client: &&ClientEntry| !client.disabled && !client.keys.is_empty();
        for client in config.client.iter().filter(there) {
            client_sessions.add(config, client)?;
        }
        Ok(client_sessions)
    }

    /// A client has something to do in this round.
    pub(super) fn touch(&mut self, at: ClientIndex) {
        if let Some(Some(session)) = self.all.get_mut(at.get())
            && !std::mem::replace(&mut session.touched, true)
        {
            self.touched.push(at);
        }
    }

    /// Whether there are such.
    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Those that have been touched since the last call.
    pub(super) fn take_touched(&mut self) -> Vec<ClientIndex> {
        for at in &self.touched {
            if let Some(Some(session)) = self.all.get_mut(at.get()) {
                session.touched = false;
            }
        }
        std::mem::take(&mut self.touched)
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
        let free = self.all.iter().position(Option::is_none);
        let at = ClientIndex::new(free.unwrap_or(self.all.len()));
        let preshared = client.preshared_key.as_deref().map(str::parse::<Key>).transpose()?;
        let preshared = preshared.map(|key| *key.bytes());
        let mut session = ClientSession::new(config, client, self.network)?;
        let keys: Result<Vec<PublicKey>, _> =
            client.keys.iter().take(PATHS_MAX).map(|key| keys::public(key)).collect();
        for (path, key) in PathIndex::enumerate(keys?) {
            match self.peers.add(key, preshared) {
                Ok(peer) => {
                    self.owners.insert(peer, (at, path));
                    session.peers[path] = Some(peer);
                }
                Err(error) => {
                    // None of its keys may lead to who gets this place next.
                    for peer in session.peers.into_iter().flatten() {
                        self.owners.remove(peer);
                        self.peers.remove(peer);
                    }
                    let name = &client.name;
                    return Err(ServerError::Config(format!(
                        "key {path} of client {name}: {error}"
                    )));
                }
            }
        }
        self.by_number.insert(session.number, at);
        match self.all.get_mut(at.get()) {
            Some(place) => *place = Some(session),
            None => self.all.push(Some(session)),
        }
        Ok(())
    }

    /// A client less.
    pub(super) fn remove(&mut self, at: ClientIndex) -> Option<ClientSession> {
        let session = self.all.get_mut(at.get())?.take()?;
        self.by_number.remove(&session.number);
        let own = self.owners.of_client(at).map(|(peer, _)| peer);
        for peer in own.collect::<Vec<_>>() {
            self.owners.remove(peer);
            self.peers.remove(peer);
        }
        Some(session)
    }

    /// Places, taken or not.
    pub(super) fn places(&self) -> impl Iterator<Item = ClientIndex> + use<> {
        ClientIndex::first(self.all.len())
    }

    /// The member at a place.
    pub(super) fn get(&mut self, at: ClientIndex) -> Option<&mut ClientSession> {
        self.all.get_mut(at.get())?.as_mut()
    }

    /// The place of the member with that number.
    pub(super) fn find(&self, number: ClientNumber) -> Option<ClientIndex> {
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
        from: &FourTuple,
        datagram: &[u8],
        out: &mut [u8],
    ) -> Came {
        let strangers = self.peers.counters().unknown_key;
        let received = self.peers.open(from, datagram, out);
        if let Opened::Bad(_) = received.opened {
            let owner = received.peer.and_then(|peer| Some(self.owners.get(peer)?.0));
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
        let Some((at, path)) = self.owners.get(peer) else { return Came::Nothing };
        if let Opened::Packet { .. } | Opened::Keepalive = received.opened
            && let Some(Some(session)) = self.all.get_mut(at.get())
        {
            // Of two generations of keys that which was heard of last is answered by.
            if session.peers[path].replace(peer) != Some(peer) {
                session.reports[path].restart();
            }
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
        (port, from): (&mut UdpPort, &FourTuple),
        out: &mut [u8],
    ) -> Came {
        match opened {
            Opened::Packet { len, .. } => {
                self.askers.heard(now, peer);
                Came::PolicyOverride(peer, len)
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
    pub(super) fn four_tuple_of(&self, peer: PeerId) -> Option<&FourTuple> {
        self.peers.four_tuple(peer)
    }

    /// Forgets a peer's session.
    pub(super) fn forget_session(&mut self, peer: PeerId) {
        self.peers.forget_session(peer);
    }

    /// Something authentic came by a path.
    pub(super) fn heard(&mut self, now: Instant, at: ClientIndex, path: PathIndex) {
        let Some(Some(session)) = self.all.get_mut(at.get()) else { return };
        session.responders[path].handle_heard(now);
        self.events(now, at, path);
    }

    /// What the watch over a path has found.
    pub(super) fn events(&mut self, now: Instant, at: ClientIndex, path: PathIndex) {
        let Some(Some(session)) = self.all.get_mut(at.get()) else { return };
        while let Some(event) = session.responders[path].poll_event() {
            self.notes.path(at, path, &event);
            match event {
                PathEvent::Up => session.set_up(now, path, true),
                PathEvent::Down(_) => session.set_up(now, path, false),
                // Of one that was too long too: the engine may have missed the change.
                PathEvent::Mtu(_) | PathEvent::TooBig(_) => {
                    let mtu = session.responders[path].mtu();
                    session.bond.endpoint.set_path_mtu(now, path.into(), mtu);
                }
                PathEvent::Announced(announcement) => session.announced(now, path, announcement),
                PathEvent::AskedRole(_) => {}
            }
        }
    }

    /// Where a member's path is.
    pub(super) fn four_tuple(&self, at: ClientIndex, path: PathIndex) -> Option<&FourTuple> {
        let peer = self.all.get(at.get())?.as_ref()?.peers[path]?;
        self.peers.four_tuple(peer)
    }

    /// The path by which a member is best told something.
    pub(super) fn best(&self, at: ClientIndex) -> Option<PathIndex> {
        let session = self.all.get(at.get())?.as_ref()?;
        session.best()
    }

    /// Sends an inner packet by a member's path, whatever its rates.
    pub(super) fn send(
        &mut self,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
        ports: &mut [UdpPort],
    ) {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        let taken = session.peers[path].is_some_and(|peer| seal(peers, peer, packet, ports));
        session.bond.counters[path].sent(packet.len(), taken);
    }

    /// Sends an inner packet by a member's path, now or when its rates allow it.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        (at, path): (ClientIndex, PathIndex),
        packet: &[u8],
        ports: &mut [UdpPort],
    ) {
        let Some(Some(session)) = self.all.get_mut(at.get()) else { return };
        match session.limiters.leave(now, path, packet) {
            RateLimiter::Open => self.send((at, path), packet, ports),
            limiter => {
                session.bond.counters[path].sent(packet.len(), limiter == RateLimiter::Waits);
            }
        }
    }

    /// Sends a batch of what a member's engine has to send; whether there may be more.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        at: ClientIndex,
        ports: &mut [UdpPort],
        scratch: &mut [u8],
    ) -> bool {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return false };
        let ClientSession { bond, peers: own, limiters, responders, announced, .. } = session;
        bond.transmit(now, scratch, |path, packet| {
            let Some(peer) = own[path] else { return false };
            // A path that the client does not use carries nothing, not even a subflow's question
            // once a second whether it is back: its quota may be used up. One who opens a subflow
            // uses it, though his probe that says so may come later.
            if announced[path].is_some_and(|said| said.is_unused()) && !is_syn(packet) {
                return false;
            }
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
        for at in self.places().take_while(|_| !refused.is_empty()) {
            let Self { all, peers, .. } = self;
            let Some(session) = &mut all[at] else { continue };
            for (peer, responder) in session.peers.iter().zip(&mut session.responders) {
                let four_tuple = peer.and_then(|peer| peers.four_tuple(peer));
                if let Some(len) = four_tuple.and_then(|four_tuple| refused.get(&four_tuple.remote))
                {
                    responder.handle_too_big(now, len.saturating_sub(OVERHEAD), true);
                }
            }
            PathIndex::all().for_each(|path| self.events(now, at, path));
        }
    }

    /// As [`ClientSessions::transmit`], whatever its rates: there is no later.
    pub(super) fn say_last(
        &mut self,
        now: Instant,
        at: ClientIndex,
        ports: &mut [UdpPort],
        scratch: &mut [u8],
    ) -> bool {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return false };
        let ClientSession { bond, peers: own, .. } = session;
        bond.transmit(now, scratch, |path, packet| {
            own[path].is_some_and(|peer| seal(peers, peer, packet, ports))
        })
    }

    /// Sends what has waited because of a member's rates.
    pub(super) fn release(&mut self, now: Instant, at: ClientIndex, ports: &mut [UdpPort]) {
        let Self { all, peers, .. } = self;
        let Some(Some(session)) = all.get_mut(at.get()) else { return };
        while let Some((path, packet)) = session.limiters.pop_leaving(now) {
            if let Some(peer) = session.peers[path] {
                seal(peers, peer, &packet, ports);
            }
        }
    }

    /// When a member wants to be looked at.
    pub(super) fn next_timeout(&self, at: ClientIndex) -> Option<Instant> {
        let session = self.all.get(at.get())?.as_ref()?;
        let paths = session.responders.iter().map(|responder| responder.poll_timeout());
        let reports = session.reports.iter().filter_map(Reports::poll_timeout);
        let due = [
            session.bond.endpoint.poll_timeout(),
            session.limiters.next_event(),
            session.dispatcher.poll_timeout(),
        ];
        due.into_iter().flatten().chain(paths).chain(reports).min()
    }

    /// Timers of a member's paths and engine.
    pub(super) fn on_timeout(&mut self, now: Instant, at: ClientIndex) {
        let Some(Some(session)) = self.all.get_mut(at.get()) else { return };
        if session.bond.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            session.bond.endpoint.handle_timeout(now);
        }
        for path in PathIndex::all() {
            let Some(Some(session)) = self.all.get_mut(at.get()) else { return };
            if session.responders[path].poll_timeout() <= now {
                session.responders[path].handle_timeout(now);
                self.events(now, at, path);
            }
        }
    }

    /// Keys that age, and rates.
    pub(super) fn tick(&mut self, now: Instant, ports: &mut [UdpPort], scratch: &mut [u8]) {
        self.hear_too_big(now, ports);
        self.peers.on_timer(now, scratch, |four_tuple, datagram| {
            if let Some(port) = ports.get_mut(usize::from(four_tuple.port)) {
                queue(port, four_tuple, datagram);
            }
        });
        for session in self.all.iter_mut().flatten() {
            for counters in &mut session.bond.counters {
                counters.tick(crate::TICK.as_secs_f64());
            }
            session.look(now);
        }
    }
}

/// Seals a packet into a port's queue; whether it is on its way.
pub(super) fn seal(peers: &mut Peers, peer: PeerId, packet: &[u8], ports: &mut [UdpPort]) -> bool {
    let Some(four_tuple) = peers.four_tuple(peer).copied() else { return false };
    let Some(port) = ports.get_mut(usize::from(four_tuple.port)) else { return false };
    let mut sealed = false;
    let queued = port.queue(&four_tuple, seal_space(packet.len()), |out| {
        match peers.seal(peer, packet, out) {
            Sealed::Packet(len) => {
                sealed = true;
                len
            }
            Sealed::Handshake(len) => len,
            Sealed::Nothing => 0,
        }
    });
    queued && sealed
}

fn queue(port: &mut UdpPort, four_tuple: &FourTuple, datagram: &[u8]) {
    port.queue(four_tuple, datagram.len(), |out| {
        out.copy_from_slice(datagram);
        datagram.len()
    });
}
