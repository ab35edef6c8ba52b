//! A server's table of peers: whose datagram is it, and is it worth a look.
//!
//! - A data message carries the number that we gave the session (a random one, so that it tells
//!   nothing), so its peer is found by index; the
//!   first message of a handshake carries the sender's public key, sealed to ours.
//! - Who does not know our public key is recognised by a hash (MAC1) and gets no answer. Who
//!   knows it and is no peer costs one Diffie-Hellman and gets none either.
//! - Above [`PeersConfig::handshakes`] a second, a first message must carry a cookie bound to its
//!   source address (section 5.4.7 of the WireGuard paper); who has none is sent one, of 64 bytes
//!   for the 148 received. What each source, and all together, may cost is bounded (`guard`).
//! - Nothing is kept per sender that is no peer: counters in a table of fixed size are all.
//! - A peer without a handshake so far is its keys (200 bytes); its session, [`SESSION_BYTES`], is
//!   made by the first authentic one and stays until the peer is removed: it remembers the time of
//!   the last handshake, without which an old one could be replayed.

use super::guard::Guard;
use super::session::{counter_of, kind_of, random_index};
use super::{
    Bad, FourTuple, Opened, PublicKey, Sealed, Session, StaticSecret, TYPE_DATA, TYPE_INITIATION,
    TYPE_RESPONSE,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tabane_engine::Instant;
use thiserror::Error;

/// The sessions of a server.
pub struct Peers {
    secret: StaticSecret,
    public: PublicKey,
    slots: Vec<Option<Peer>>,
    free: Vec<u32>,
    by_key: BTreeMap<[u8; 32], PeerId>,
    /// Whose session has that number.
    by_index: BTreeMap<u32, PeerId>,
    guard: Guard,
    /// Next to be visited by the timer.
    cursor: usize,
    counters: PeersCounters,
}

/// A peer in the table; may be given to another one after it was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// Limits of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeersConfig {
    /// Handshakes a second that are looked at without a cookie; with one, twice as many. One costs
    /// about 0.2 ms. A cookie costs the client the 5 s until it tries again, so a server to which
    /// thousands come back at once must not ask for it too soon.
    pub handshakes: u64,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Received {
    /// Whose it is, as far as anybody can tell: authentic only if `opened` is.
    pub peer: Option<PeerId>,
    /// As of a [`Session`]. After a reply or a keepalive, call [`Peers::pending`].
    pub opened: Opened,
}

/// Why a peer cannot be added.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddPeerError {
    /// One with this public key exists.
    #[error("there is a peer with this public key")]
    Duplicate(PeerId),
    /// It is the server's own.
    #[error("this is the server's own public key")]
    Own,
    /// There are [`PEERS_MAX`].
    #[error("there are {PEERS_MAX} peers, which is the limit")]
    Full,
}

/// What strangers did. What peers did is in their sessions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeersCounters {
    /// No messages of WireGuard.
    pub malformed: u64,
    /// Handshakes by who does not know our public key.
    pub unauthentic: u64,
    /// Handshakes by who knows it and is no peer.
    pub unknown_key: u64,
    /// Other messages for sessions that do not exist.
    pub unknown_index: u64,
    /// Cookies sent.
    pub cookies: u64,
    /// Handshakes that were too many.
    pub refused: u64,
}

/// Peers of a table.
pub const PEERS_MAX: usize = 1 << 17;
/// Memory of a session without packets that wait, bytes.
pub const SESSION_BYTES: usize = size_of::<Session>();

/// Parts that the timer visits in turn: each session once a second.
const TIMER_PARTS: usize = 4;

/// A peer: 200 bytes until it has a session.
struct Peer {
    key: PublicKey,
    preshared_key: Option<[u8; 32]>,
    session: Option<Box<Session>>,
    /// The number of the session, if there is one.
    index: u32,
    four_tuple: Option<FourTuple>,
    newest: Newest,
    /// The second of its last handshake, as the guard counts them; `u32::MAX` before the first.
    greeted: u32,
}

/// The newest data message: an older one that comes late does not say where the peer is.
///
/// After handshakes that crossed or were answered together (a server that was stopped for seconds
/// finds several), the peer may go back to the keys before and stay with them. One message with
/// those keys may be late, the second in a row is not.
struct Newest {
    keys: NewestOf,
    before: NewestOf,
    /// The last message was one with the keys before.
    went_back: bool,
}

/// The newest message with the keys of this index.
#[derive(Clone, Copy)]
struct NewestOf {
    index: u32,
    counter: u64,
}

impl Default for PeersConfig {
    fn default() -> Self {
        Self { handshakes: 1000 }
    }
}

impl Peers {
    /// An empty table of the server with this private key.
    #[must_use]
    pub fn new(secret: StaticSecret, config: PeersConfig) -> Self {
        let public = PublicKey::from(&secret);
        Self {
            guard: Guard::new(&public, config),
            secret,
            public,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            by_index: BTreeMap::new(),
            cursor: 0,
            counters: PeersCounters::default(),
        }
    }

    /// Adds a peer. Nothing is computed before it comes.
    ///
    /// # Errors
    /// [`AddPeerError`].
    pub fn add(
        &mut self,
        key: PublicKey,
        preshared_key: Option<[u8; 32]>,
    ) -> Result<PeerId, AddPeerError> {
        if key == self.public {
            return Err(AddPeerError::Own);
        }
        if let Some(&id) = self.by_key.get(key.as_bytes()) {
            return Err(AddPeerError::Duplicate(id));
        }
        if self.by_key.len() >= PEERS_MAX {
            return Err(AddPeerError::Full);
        }
        let (session, index, four_tuple, newest) = (None, 0, None, Newest::none());
        let greeted = u32::MAX;
        let peer = Peer { key, preshared_key, session, index, four_tuple, newest, greeted };
        let id = PeerId(self.free.pop().unwrap_or(self.slots.len() as u32));
        match self.slots.get_mut(id.0 as usize) {
            Some(slot) => *slot = Some(peer),
            None => self.slots.push(Some(peer)),
        }
        self.by_key.insert(*key.as_bytes(), id);
        Ok(id)
    }

    /// Forgets a peer and its keys; `false` if there is none. Others notice nothing.
    pub fn remove(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return false;
        };
        self.by_key.remove(peer.key.as_bytes());
        if peer.session.is_some() {
            self.by_index.remove(&peer.index);
        }
        self.free.push(id.0);
        true
    }

    /// Forgets a peer's session, and with it the time of its last handshake: its next one is
    /// accepted whatever time it carries.
    pub fn forget_session(&mut self, id: PeerId) {
        if let Some(Some(peer)) = self.slots.get_mut(id.0 as usize) {
            if peer.session.take().is_some() {
                self.by_index.remove(&peer.index);
            }
            peer.newest = Newest::none();
        }
    }

    /// The peer with a public key.
    #[must_use]
    pub fn find(&self, key: &PublicKey) -> Option<PeerId> {
        self.by_key.get(key.as_bytes()).copied()
    }

    /// How many peers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// A peer's public key.
    #[must_use]
    pub fn key(&self, id: PeerId) -> Option<&PublicKey> {
        self.peer(id).map(|peer| &peer.key)
    }

    /// A peer's session, if it ever came.
    #[must_use]
    pub fn session(&self, id: PeerId) -> Option<&Session> {
        self.peer(id)?.session.as_deref()
    }

    /// Where a peer is: where its newest authentic packet came from.
    #[must_use]
    pub fn four_tuple(&self, id: PeerId) -> Option<&FourTuple> {
        self.peer(id)?.four_tuple.as_ref()
    }

    /// What strangers did.
    #[must_use]
    pub fn counters(&self) -> &PeersCounters {
        &self.counters
    }

    /// Takes a datagram that came from `from`, where a reply goes too. `out` should have 64 KiB.
    pub fn open(&mut self, from: &FourTuple, datagram: &[u8], out: &mut [u8]) -> Received {
        let Some(kind) = kind_of(datagram) else {
            self.counters.malformed += 1;
            return Received { peer: None, opened: Opened::Bad(Bad::Malformed) };
        };
        match kind {
            TYPE_DATA => self.open_indexed(from, datagram, 4, out),
            TYPE_INITIATION => self.open_initiation(from, datagram, out),
            // A response, whose own index comes first, or a cookie.
            TYPE_RESPONSE => self.open_indexed(from, datagram, 8, out),
            _ => self.open_indexed(from, datagram, 4, out),
        }
    }

    /// Seals a packet for a peer, to be sent to its [`Peers::four_tuple`]. A peer that never came
    /// gets nothing.
    ///
    /// # Panics
    /// If `out` is shorter than `seal_space(packet.len())`.
    pub fn seal(&mut self, id: PeerId, packet: &[u8], out: &mut [u8]) -> Sealed {
        let session = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        match session.and_then(|peer| peer.session.as_deref_mut()) {
            Some(session) => session.seal(packet, out),
            None => Sealed::Nothing,
        }
    }

    /// See [`Session::pending`].
    pub fn pending(&mut self, id: PeerId, out: &mut [u8]) -> Option<usize> {
        let peer = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        peer.session.as_deref_mut()?.pending(out)
    }

    /// Does what is due; call it every [`TIMER_MS`](super::TIMER_MS). `send` gets what wants to
    /// be sent. `out` as for [`Session::on_timer`].
    pub fn on_timer(
        &mut self,
        now: Instant,
        out: &mut [u8],
        mut send: impl FnMut(&FourTuple, &[u8]),
    ) {
        self.guard.on_timer(now);
        let part = self.slots.len().div_ceil(TIMER_PARTS);
        for _ in 0..part {
            self.cursor = if self.cursor + 1 < self.slots.len() { self.cursor + 1 } else { 0 };
            let Some(peer) = &mut self.slots[self.cursor] else { continue };
            let Some(session) = peer.session.as_deref_mut() else { continue };
            if let (Some(len), Some(four_tuple)) = (session.on_timer(out), &peer.four_tuple) {
                send(four_tuple, &out[..len]);
            }
        }
    }

    fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// A message that carries our index at `offset`.
    fn open_indexed(
        &mut self,
        from: &FourTuple,
        datagram: &[u8],
        offset: usize,
        out: &mut [u8],
    ) -> Received {
        let bytes = datagram[offset..offset + 4].try_into().expect("invariant: four bytes");
        let index = u32::from_le_bytes(bytes);
        // The low 8 bits are boringtun's. Anybody can send any index: what is looked up must not be
        // able to end the program, whatever is forgotten elsewhere.
        let id = self.by_index.get(&(index >> 8)).copied();
        let peer = id.and_then(|id| self.slots.get_mut(id.0 as usize)).and_then(Option::as_mut);
        let (Some(id), Some(Peer { session: Some(session), four_tuple, newest, .. })) = (id, peer)
        else {
            self.counters.unknown_index += 1;
            return Received { peer: None, opened: Opened::Bad(Bad::Unexpected) };
        };
        let is_data = datagram[0] == TYPE_DATA;
        if datagram[0] == TYPE_RESPONSE
            && let Err(opened) = self.guard.check_mac(from.remote.ip(), datagram, out)
        {
            self.counters.count(opened);
            return Received { peer: None, opened };
        }
        let opened = session.open(Some(from.remote.ip()), datagram, out);
        let moves = match opened {
            Opened::Packet { .. } | Opened::Keepalive => newest.update(index, counter_of(datagram)),
            Opened::Reply(_) => !is_data,
            Opened::Cookie | Opened::Bad(_) => false,
        };
        if moves && *four_tuple != Some(*from) {
            *four_tuple = Some(*from);
        }
        Received { peer: Some(id), opened }
    }

    /// The first message of a handshake. It does not move the peer: it could be a copy, sent on
    /// by somebody else before the original came. The first packet with the new keys does.
    fn open_initiation(&mut self, from: &FourTuple, datagram: &[u8], out: &mut [u8]) -> Received {
        let source = from.remote.ip();
        let key = match self.guard.check(source, datagram, out, &self.secret, &self.public) {
            Ok(key) => key,
            Err(opened) => {
                self.counters.count(opened);
                return Received { peer: None, opened };
            }
        };
        let Some(&id) = self.by_key.get(&key) else {
            self.counters.unknown_key += 1;
            return Received { peer: None, opened: Opened::Bad(Bad::Unauthentic) };
        };
        let slot = self.slots[id.0 as usize].as_mut();
        let peer = slot.expect("invariant: by_key names peers that exist");
        let fresh = peer.session.is_none();
        if fresh {
            peer.index = std::iter::repeat_with(random_index)
                .find(|index| !self.by_index.contains_key(index))
                .expect("invariant: there are more numbers than peers");
        }
        let (secret, limiter) = (&self.secret, &self.guard.passed);
        let make = || {
            let limiter = Some(Arc::clone(limiter));
            Box::new(Session::new(secret, peer.key, peer.preshared_key, peer.index, limiter))
        };
        let session = peer.session.get_or_insert_with(make);
        let opened = session.open(Some(source), datagram, out);
        if matches!(opened, Opened::Reply(_)) {
            peer.greeted = self.guard.accepted(source, peer.greeted);
        }
        match (fresh, opened) {
            // The key was only claimed: it is in no secret place. No memory for that.
            (true, Opened::Bad(_)) => peer.session = None,
            (true, _) => _ = self.by_index.insert(peer.index, id),
            (false, _) => {}
        }
        Received { peer: Some(id), opened }
    }
}

impl Newest {
    fn none() -> Self {
        // No index is that large: see `random_index`.
        let none = NewestOf { index: u32::MAX, counter: 0 };
        Self { keys: none, before: none, went_back: false }
    }

    /// Whether a message is newer than all before; it is the newest then.
    fn update(&mut self, index: u32, counter: u64) -> bool {
        if index == self.before.index {
            if counter <= self.before.counter {
                return false;
            }
            if !std::mem::replace(&mut self.went_back, true) {
                self.before.counter = counter;
                return false;
            }
        } else if index == self.keys.index {
            self.went_back = false;
            let newer = counter > self.keys.counter;
            self.keys.counter = counter.max(self.keys.counter);
            return newer;
        }
        self.before = self.keys;
        self.keys = NewestOf { index, counter };
        self.went_back = false;
        true
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Peers");
        debug.field("len", &self.len()).field("counters", &self.counters);
        debug.finish_non_exhaustive()
    }
}

impl PeersCounters {
    fn count(&mut self, opened: Opened) {
        match opened {
            Opened::Reply(_) => self.cookies += 1,
            Opened::Bad(Bad::UnderLoad) => self.refused += 1,
            Opened::Bad(Bad::Malformed) => self.malformed += 1,
            _ => self.unauthentic += 1,
        }
    }
}

#[cfg(test)]
mod tests;
