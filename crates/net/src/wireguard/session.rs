//! One peer: a WireGuard tunnel in memory (boringtun's `Tunn`), with what a caller wants to know
//! of each step as a value, and its edges guarded.
//!
//! What boringtun does underneath, from its source (0.7.1) and section 6 of the WireGuard paper:
//! - the side that began a handshake begins the next when the keys are 120 s old and it sends, or
//!   165 s old and it receives; keys older than 180 s are forgotten, unused or not;
//! - a handshake without an answer is begun again every 5 s for 90 s, then given up
//!   ([`Session::expired`]) until there is something to send;
//! - who received and had nothing to say sends an empty packet after 10 s; who sent and heard
//!   nothing for 15 s begins a handshake;
//! - counters within the last 1024 are accepted once, older ones never;
//! - a first message must carry a later time than the last one did, or it is taken for a replay.
//!   The time is the sender's system clock as it was when its session was made: a peer that
//!   restarts with a clock behind is not answered before it has caught up ([`Bad::Timestamp`]).
//!
//! boringtun reads its own clock (`CLOCK_BOOTTIME`) in [`Session::on_timer`] and in handshakes,
//! and none per packet. It does not pad packets to 16 bytes; neither is it done here.

use super::{
    INITIATION, OVERHEAD, PublicKey, RateLimiter, StaticSecret, TYPE_DATA, TYPE_INITIATION,
    seal_space,
};
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::{Tunn, TunnResult};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A tunnel to one peer.
pub struct Session {
    tunn: Tunn,
    /// Whether there were keys when last looked; the timer and every answer refresh it.
    keys: bool,
    /// Packets that wait for keys inside `tunn`.
    waiting: usize,
    counters: SessionCounters,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sealed {
    /// `out[..len]` is the packet, sealed.
    Packet(usize),
    /// There are no keys: the packet waits, or was dropped and counted; `out[..len]` is the first
    /// message of a handshake and wants to be sent.
    Handshake(usize),
    /// There are no keys yet: the packet waits, or was dropped and counted. Nothing to send.
    Nothing,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Opened {
    /// `out[..len]` is an IP packet of the peer.
    Packet {
        /// Bytes.
        len: usize,
        /// Its source address as its header says. Nobody has checked that the peer may use it.
        source: IpAddr,
    },
    /// `out[..len]` goes back to where the datagram came from.
    Reply(usize),
    /// From the peer, empty.
    Keepalive,
    /// A cookie, which the next handshake will carry. Anybody who saw our message and knows the
    /// peer's public key can make one: no sign of life.
    Cookie,
    /// Dropped and counted; no answer.
    Bad(Bad),
}

/// Why a datagram was dropped.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// No message of WireGuard.
    #[error("no WireGuard message")]
    Malformed,
    /// The wrong key, or bytes that were changed on the way.
    #[error("not authentic")]
    Unauthentic,
    /// Received before, or more than 1024 packets late.
    #[error("received before, or too late to tell")]
    Replay,
    /// A handshake of the past: a replay, or the peer's clock was set back.
    #[error("a handshake older than the last one: replayed, or the peer's clock was set back")]
    Timestamp,
    /// For keys that are no more, or an answer to what nobody asked.
    #[error("of no session that we know")]
    Unexpected,
    /// From the peer, but no IP packet.
    #[error("no IP packet inside")]
    NotIp,
    /// More handshakes than are looked at.
    #[error("too many handshakes")]
    UnderLoad,
}

/// What a session has seen. Bytes are those of the packets inside.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionCounters {
    /// Packets sealed.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets opened.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Handshakes that gave new keys.
    pub handshakes: u64,
    /// First messages of handshakes sent.
    pub initiations: u64,
    /// [`Bad::Replay`] and [`Bad::Timestamp`].
    pub replays: u64,
    /// Every other [`Bad`].
    pub bad: u64,
    /// Packets that found no keys and no room to wait for them.
    pub dropped: u64,
}

/// Packets that wait for keys; later ones are dropped. Enough for what opens connections: the
/// engine sends again what is lost, and what is old by then helps nobody.
const WAITING_MAX: usize = 16;
/// WireGuard's REJECT-AFTER-MESSAGES. boringtun does not check it, and adds to the counter.
const COUNTER_MAX: u64 = u64::MAX - (1 << 13) - 1;
/// The shortest IP header.
const IP_HEADER_MIN: usize = 20;

impl Session {
    /// A tunnel to the owner of `peer`. The low 24 bits of `index` are what the far end puts on
    /// its datagrams to us (followed by 8 bits of boringtun's), for everybody to see: take
    /// [`random_index`]. Without a `limiter` the session
    /// looks at ten handshakes a second. Sends nothing by itself.
    #[must_use]
    pub fn new(
        secret: &StaticSecret,
        peer: PublicKey,
        preshared_key: Option<[u8; 32]>,
        index: u32,
        limiter: Option<Arc<RateLimiter>>,
    ) -> Self {
        let index = index & 0x00ff_ffff;
        let tunn = Tunn::new(secret.clone(), peer, preshared_key, None, index, limiter);
        Self { tunn, keys: false, waiting: 0, counters: SessionCounters::default() }
    }

    /// Seals a packet; an empty one is a sign of life.
    ///
    /// # Panics
    /// If `out` is shorter than [`seal_space`]`(packet.len())`.
    pub fn seal(&mut self, packet: &[u8], out: &mut [u8]) -> Sealed {
        assert!(out.len() >= seal_space(packet.len()), "no room to seal in");
        if !self.keys {
            self.keys = self.has_keys();
        }
        if !self.keys && self.waiting >= WAITING_MAX {
            self.counters.dropped += 1;
            return self.handshake(out, false).map_or(Sealed::Nothing, Sealed::Handshake);
        }
        let len = match self.tunn.encapsulate(packet, out) {
            TunnResult::WriteToNetwork(datagram) => datagram.len(),
            _ => 0,
        };
        if len > 0 && out[0] == TYPE_DATA {
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += packet.len() as u64;
            return Sealed::Packet(len);
        }
        self.keys = false;
        self.waiting += 1;
        if len == 0 {
            return Sealed::Nothing;
        }
        self.counters.initiations += 1;
        Sealed::Handshake(len)
    }

    /// Takes a datagram. `from` matters under load only (the cookie is bound to it). Call
    /// [`Session::pending`] after a reply or a keepalive.
    ///
    /// `out` should have 64 KiB: what is longer than it cannot be opened.
    pub fn open(&mut self, from: Option<IpAddr>, datagram: &[u8], out: &mut [u8]) -> Opened {
        let kind = match kind_of(datagram) {
            Some(kind) if out.len() >= datagram.len().max(INITIATION) => kind,
            _ => return self.bad(Bad::Malformed),
        };
        if kind == TYPE_DATA && counter_of(datagram) > COUNTER_MAX {
            return self.bad(Bad::Malformed);
        }
        match self.tunn.decapsulate(from, datagram, out) {
            TunnResult::WriteToTunnelV4(packet, source) => {
                let len = packet.len();
                self.opened(len, source.into())
            }
            TunnResult::WriteToTunnelV6(packet, source) => {
                let len = packet.len();
                self.opened(len, source.into())
            }
            TunnResult::WriteToNetwork(reply) => {
                let (len, kind) = (reply.len(), reply[0]);
                // To a response boringtun says an empty packet, to a first message a response,
                // unless it is a cookie, which is no handshake.
                self.keys |= kind == TYPE_DATA;
                let agreed = kind == TYPE_DATA || kind == super::TYPE_RESPONSE;
                self.counters.handshakes += u64::from(agreed);
                Opened::Reply(len)
            }
            TunnResult::Done if kind == TYPE_DATA => {
                self.keys = true;
                Opened::Keepalive
            }
            TunnResult::Done => Opened::Cookie,
            TunnResult::Err(error) => {
                let bad = reason(&error, kind);
                self.bad(bad)
            }
        }
    }

    /// The next of the packets that had waited for keys, sealed: its length in `out`, which
    /// should have 64 KiB. `None` when there are none, or still no keys.
    pub fn pending(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.waiting == 0 || !self.has_keys() {
            return None;
        }
        let len = match self.tunn.decapsulate(None, &[], out) {
            TunnResult::WriteToNetwork(datagram) => datagram.len(),
            _ => 0,
        };
        if len == 0 {
            self.waiting = 0;
            return None;
        }
        self.waiting -= 1;
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += (len - OVERHEAD) as u64;
        Some(len)
    }

    /// Does what is due; call it every [`TIMER_MS`](super::TIMER_MS). The length of what wants to
    /// be sent, if anything: a handshake or an empty packet.
    ///
    /// # Panics
    /// If `out` is shorter than [`seal_space`]`(0)`.
    pub fn on_timer(&mut self, out: &mut [u8]) -> Option<usize> {
        assert!(out.len() >= seal_space(0), "no room to seal in");
        let result = self.tunn.update_timers(out);
        let len = match &result {
            TunnResult::WriteToNetwork(datagram) => Some(datagram.len()),
            _ => None,
        };
        if let TunnResult::Err(WireGuardError::ConnectionExpired) = result {
            // boringtun has emptied its queue.
            self.waiting = 0;
        }
        self.keys = self.has_keys();
        if len.is_some() && out[0] == TYPE_INITIATION {
            self.counters.initiations += 1;
        }
        len
    }

    /// Begins a handshake: the length of its first message in `out`. If one is under way, only
    /// with `again`: boringtun itself waits 5 s for an answer, which is long on a link that has
    /// just come back. The answers to the last two are accepted; a stock peer looks at 50 a
    /// second at most.
    ///
    /// # Panics
    /// If `out` is shorter than [`seal_space`]`(0)`.
    pub fn handshake(&mut self, out: &mut [u8], again: bool) -> Option<usize> {
        assert!(out.len() >= seal_space(0), "no room to seal in");
        match self.tunn.format_handshake_initiation(out, again) {
            TunnResult::WriteToNetwork(datagram) => {
                self.counters.initiations += 1;
                Some(datagram.len())
            }
            _ => None,
        }
    }

    /// Whether packets can be sealed now.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.handshake_age().is_some()
    }

    /// Age of the keys in use; `None` without keys. As exact as the calls of the timer.
    #[must_use]
    pub fn handshake_age(&self) -> Option<Duration> {
        self.tunn.time_since_last_handshake()
    }

    /// Whether boringtun has given up: no answer to handshakes for 90 s, or no new keys for
    /// 540 s. Packets that waited are dropped. The next packet or handshake begins anew.
    #[must_use]
    pub fn expired(&self) -> bool {
        self.tunn.is_expired()
    }

    /// What it has seen.
    #[must_use]
    pub fn counters(&self) -> &SessionCounters {
        &self.counters
    }

    fn opened(&mut self, len: usize, source: IpAddr) -> Opened {
        self.keys = true;
        // The length is what the packet's header says.
        if len < IP_HEADER_MIN {
            return self.bad(Bad::NotIp);
        }
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += len as u64;
        Opened::Packet { len, source }
    }

    fn bad(&mut self, why: Bad) -> Opened {
        match why {
            Bad::Replay | Bad::Timestamp => self.counters.replays += 1,
            _ => self.counters.bad += 1,
        }
        Opened::Bad(why)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("keys", &self.keys).field("waiting", &self.waiting);
        debug.field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// A number for a session, of 24 random bits: one that says nothing of who it is, how many there
/// are, or which it was before a restart. Never the largest.
///
/// # Panics
/// If the system has no random bytes: there are no keys then either.
#[must_use]
pub fn random_index() -> u32 {
    loop {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes[..3]).expect("invariant: the system has random bytes");
        let index = u32::from_le_bytes(bytes);
        if index != 0x00ff_ffff {
            return index;
        }
    }
}

/// The type of a message; `None` if it is none, or shorter than the shortest data message.
pub(super) fn kind_of(datagram: &[u8]) -> Option<u8> {
    let long_enough = datagram.len() >= OVERHEAD;
    (long_enough && datagram[1..4] == [0; 3] && (1..=4).contains(&datagram[0])).then(|| datagram[0])
}

/// The counter of a data message.
pub(super) fn counter_of(datagram: &[u8]) -> u64 {
    u64::from_le_bytes(datagram[8..16].try_into().expect("invariant: eight bytes"))
}

/// What boringtun's error about a message of type `kind` comes down to.
pub(super) fn reason(error: &WireGuardError, kind: u8) -> Bad {
    use WireGuardError as E;
    match error {
        // Of a data message that parses, the inside.
        E::InvalidPacket if kind == TYPE_DATA => Bad::NotIp,
        E::InvalidMac | E::InvalidAeadTag | E::WrongKey => Bad::Unauthentic,
        E::InvalidCounter | E::DuplicateCounter => Bad::Replay,
        E::WrongTai64nTimestamp | E::InvalidTai64nTimestamp => Bad::Timestamp,
        E::UnexpectedPacket | E::WrongIndex | E::NoCurrentSession | E::ConnectionExpired => {
            Bad::Unexpected
        }
        E::UnderLoad => Bad::UnderLoad,
        E::InvalidPacket
        | E::IncorrectPacketLength
        | E::WrongPacketType
        | E::DestinationBufferTooSmall
        | E::LockFailed => Bad::Malformed,
    }
}

#[cfg(test)]
mod tests;
