//! Bounds the work that strangers can cause a server by handshakes, with a fixed amount of memory.
//!
//! What a first message can cost, in the order in which it is looked at: its MAC1 (0.35 us; only
//! who knows our public key has one), its cookie (0.35 us), a new cookie (2.5 us), and the
//! Diffie-Hellman of the handshake itself (0.1 ms). While there are few messages, all go through.
//! Above [`PeersConfig::handshakes`] a second the costly two are bounded, by token buckets for all
//! together and by counters for each source. Which sources are one: an address of IPv4, a /64 of
//! IPv6, of which a single host has all addresses. Cookies and handshakes are counted apart:
//! whoever forges somebody's address can use up the cookies sent there, but not the handshakes of
//! who has a cookie (section 5.3 of the WireGuard paper). The first handshake of a peer in a second
//! that comes to something is not counted: behind one address of IPv4 may be a thousand peers, who
//! all come when the server has been started again.

use super::peers::PeersConfig;
use super::{Bad, Opened, PublicKey, RateLimiter, StaticSecret};
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::{Packet, TunnResult};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use tabane_engine::{Duration, Instant};

pub(super) struct Guard {
    /// Checks MAC1, and nothing else: for all messages, and for sessions, which see only what has
    /// passed here.
    pub(super) passed: Arc<RateLimiter>,
    /// Asks everybody for a cookie.
    strict: RateLimiter,
    /// First messages and answers that had a MAC1, this second.
    seen: u64,
    /// More than these: under load.
    calm: u64,
    /// Handshakes that may be looked at, and cookies that may be made.
    handshakes: Bucket,
    cookies: Bucket,
    /// Of this second, by a keyed hash of the source: handshakes of those that have proved their
    /// address, and cookies.
    sources: Box<[[u8; 2]; SOURCES]>,
    hash: RandomState,
    since: Instant,
    /// The number of this second.
    second: u32,
    refilled: Instant,
}

/// Tokens that come at a rate, up to those of a second.
struct Bucket {
    tokens: u64,
    per_second: u64,
}

/// First messages a second and source, once its address is proved, that come to nothing.
pub(super) const PER_SOURCE: u8 = 20;
/// Cookies a second and source: half a millisecond, and less than what asked for them.
pub(super) const COOKIES_PER_SOURCE: u8 = 200;
/// Size of the table that counts them.
const SOURCES: usize = 1024;
/// Cookies a second for all: 5 % of a core, and 10 Mbit/s.
const COOKIES: u64 = 20_000;
/// In `sources`.
const HANDSHAKE: usize = 0;
const COOKIE: usize = 1;
const MOST: [u8; 2] = [PER_SOURCE, COOKIES_PER_SOURCE];

impl Guard {
    pub(super) fn new(public: &PublicKey, config: PeersConfig) -> Self {
        Self {
            passed: Arc::new(RateLimiter::new(public, u64::MAX)),
            strict: RateLimiter::new(public, 0),
            seen: 0,
            calm: config.handshakes,
            handshakes: Bucket::new(config.handshakes.saturating_mul(2)),
            cookies: Bucket::new(COOKIES),
            sources: Box::new([[0; 2]; SOURCES]),
            hash: RandomState::new(),
            since: Instant::ZERO,
            second: 0,
            refilled: Instant::ZERO,
        }
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.seen) = (now, 0);
            self.second = self.second.wrapping_add(1);
            self.sources.fill([0; 2]);
        }
        let elapsed = now.saturating_since(self.refilled);
        self.refilled = now;
        self.handshakes.refill(elapsed);
        self.cookies.refill(elapsed);
    }

    /// The sender of a first message as it claims, sealed to our key; or what to make of it.
    pub(super) fn check(
        &mut self,
        source: IpAddr,
        datagram: &[u8],
        out: &mut [u8],
        secret: &StaticSecret,
        public: &PublicKey,
    ) -> Result<[u8; 32], Opened> {
        let Packet::HandshakeInit(initiation) = self.check_mac(source, datagram, out)? else {
            return Err(Opened::Bad(Bad::Malformed));
        };
        if self.is_under_load() && !self.count(source, HANDSHAKE) || !self.handshakes.take() {
            return Err(Opened::Bad(Bad::UnderLoad));
        }
        let half = parse_handshake_anon(secret, public, &initiation);
        half.map(|half| half.peer_static_public).map_err(|_| Opened::Bad(Bad::Unauthentic))
    }

    /// A handshake message by somebody who knows our public key and, under load, has proved its
    /// address; or the cookie to send.
    pub(super) fn check_mac<'a>(
        &mut self,
        source: IpAddr,
        datagram: &'a [u8],
        out: &mut [u8],
    ) -> Result<Packet<'a>, Opened> {
        let packet = match self.passed.verify_packet(Some(source), datagram, &mut []) {
            Ok(packet) => packet,
            Err(TunnResult::Err(error)) => {
                return Err(Opened::Bad(super::session::reason(&error, datagram[0])));
            }
            Err(_) => return Err(Opened::Bad(Bad::Malformed)),
        };
        self.seen += 1;
        if !self.is_under_load() {
            return Ok(packet);
        }
        // Without room to write to, it says whether the cookie is right and makes none.
        if self.strict.verify_packet(Some(source), datagram, &mut []).is_ok() {
            return Ok(packet);
        }
        if !self.count(source, COOKIE) || !self.cookies.take() {
            return Err(Opened::Bad(Bad::UnderLoad));
        }
        match self.strict.verify_packet(Some(source), datagram, out) {
            Err(TunnResult::WriteToNetwork(cookie)) => Err(Opened::Reply(cookie.len())),
            _ => Err(Opened::Bad(Bad::Malformed)),
        }
    }

    fn is_under_load(&self) -> bool {
        self.seen > self.calm
    }

    /// A handshake that was looked at is a peer's, who last came in the second `before`. Returns
    /// the present one, to be given the next time.
    pub(super) fn accepted(&mut self, source: IpAddr, before: u32) -> u32 {
        if self.is_under_load() && before != self.second {
            let count = self.counter(source, HANDSHAKE);
            *count = count.saturating_sub(1);
        }
        self.second
    }

    /// Counts one more for a source; `false` if it has had its share of this second.
    fn count(&mut self, source: IpAddr, what: usize) -> bool {
        let count = self.counter(source, what);
        let within = *count < MOST[what];
        *count += u8::from(within);
        within
    }

    fn counter(&mut self, source: IpAddr, what: usize) -> &mut u8 {
        let hash = self.hash.hash_one(network(source));
        &mut self.sources[hash as usize % SOURCES][what]
    }
}

impl Bucket {
    fn new(per_second: u64) -> Self {
        Self { tokens: per_second, per_second }
    }

    fn refill(&mut self, elapsed: Duration) {
        let elapsed = elapsed.min(Duration::from_secs(1));
        let new = u128::from(self.per_second) * u128::from(elapsed.0) / 1_000_000_000;
        self.tokens = self.tokens.saturating_add(new as u64).min(self.per_second);
    }

    fn take(&mut self) -> bool {
        let left = self.tokens.checked_sub(1);
        self.tokens = left.unwrap_or(0);
        left.is_some()
    }
}

/// What one host can have all addresses of.
pub(super) fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}
