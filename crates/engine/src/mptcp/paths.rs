//! The path manager: ids of our addresses, what we have announced and what the peer has, which
//! pairs of addresses failed, and which subflows the mesh wants (RFC 8684 section 3.4).

use super::Role;
use super::crypto::Keys;
use crate::config::MptcpConfig;
use crate::endpoint::is_of_one_host;
use crate::record::{CloseReason, DropReason};
use crate::time::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use tabane_wire::mptcp::AddAddr;

/// What a connection knows of addresses, ours and the peer's. It sends nothing and opens nothing:
/// its answers say what is due.
#[derive(Debug)]
pub(super) struct PathManager {
    /// Ends of the first subflow, ours and the peer's.
    first: (SocketAddr, SocketAddr),
    /// The peer wants no joins to its first address.
    deny_initial: bool,
    /// Ids of our addresses; the first address is 0.
    local_ids: Vec<(IpAddr, u8)>,
    next_local_id: u8,
    announced: Vec<Announced>,
    /// Addresses of the peer (`Limits::addresses`).
    addresses: Vec<PeerAddress>,
    /// The oldest of [`ATTEMPTS`] goes.
    attempts: Vec<Attempt>,
}

/// An address that we announced.
#[derive(Clone, Copy, Debug)]
struct Announced {
    id: u8,
    address: SocketAddr,
    /// Transmissions left until it is given up.
    tries: u8,
    next: Instant,
}

/// An address that the peer announced.
#[derive(Clone, Copy, Debug)]
struct PeerAddress {
    id: u8,
    address: SocketAddr,
}

/// What became of subflows between two addresses.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    between: Pair,
    failures: u32,
    /// `FAR_FUTURE`: never again.
    next: Instant,
}

/// An address of ours, and an address and port of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) local: IpAddr,
    pub(super) remote: SocketAddr,
}

/// An ADD_ADDR of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Learned {
    New(SocketAddr),
    /// The peer has announced it before.
    Again,
}

impl PathManager {
    /// `first`: ends of the first subflow, ours and the peer's.
    pub(super) fn new(first: (SocketAddr, SocketAddr), deny_initial: bool) -> Self {
        Self {
            first,
            deny_initial,
            local_ids: vec![(first.0.ip(), 0)],
            next_local_id: 1,
            announced: Vec::new(),
            addresses: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Our address that the connection began with.
    pub(super) fn first_local(&self) -> IpAddr {
        self.first.0.ip()
    }

    /// Id of an address of ours, given at first use.
    pub(super) fn local_id(&mut self, address: IpAddr) -> u8 {
        if let Some((_, id)) = self.local_ids.iter().find(|(a, _)| *a == address) {
            return *id;
        }
        let id = self.next_local_id;
        self.next_local_id = id.checked_add(1).unwrap_or(1);
        if self.local_ids.len() > 255 {
            self.local_ids.remove(1);
        }
        self.local_ids.push((address, id));
        id
    }

    /// Id of an address of the peer: what it announced, 0 for the first.
    pub(super) fn remote_id(&self, address: SocketAddr) -> u8 {
        self.addresses.iter().find(|a| a.address == address).map_or(0, |a| a.id)
    }

    /// An address of ours is to be announced from now on; its id.
    pub(super) fn announce(&mut self, now: Instant, address: SocketAddr) -> u8 {
        let id = self.local_id(address.ip());
        self.announced.retain(|a| a.id != id);
        self.announced.push(Announced { id, address, tries: ANNOUNCE_TRIES, next: now });
        id
    }

    /// Whether any address of ours has been announced.
    pub(super) fn announces(&self) -> bool {
        !self.announced.is_empty()
    }

    /// What is to be announced now, once more where no echo came within `interval`, and when to
    /// ask again.
    ///
    /// Without a port the first subflow's is meant; and with one, IPv6 and timestamps do not fit
    /// into one header (RFC 8684 section 3.4.1).
    pub(super) fn announcements(
        &mut self,
        now: Instant,
        interval: Duration,
        keys: Keys,
    ) -> (Vec<AddAddr>, Instant) {
        let usual = self.first.0.port();
        let mut next = Instant::FAR_FUTURE;
        let mut due = Vec::new();
        for announced in &mut self.announced {
            if announced.next <= now && announced.tries > 0 {
                announced.tries -= 1;
                announced.next = now + interval;
                let (address_id, address) = (announced.id, announced.address.ip());
                let port = Some(announced.address.port()).filter(|p| ![0, usual].contains(p));
                let hmac = Some(keys.add_addr(address_id, address, port));
                due.push(AddAddr { address_id, address, port, hmac });
            }
            if announced.tries > 0 {
                next = next.min(announced.next);
            }
        }
        (due, next)
    }

    /// Addresses of ours are gone.
    pub(super) fn withdraw(&mut self, ids: &[u8]) {
        self.announced.retain(|a| !ids.contains(&a.id));
    }

    /// The peer has echoed an ADD_ADDR of ours.
    pub(super) fn echoed(&mut self, id: u8) {
        self.announced.iter_mut().filter(|a| a.id == id).for_each(|a| a.tries = 0);
    }

    /// An ADD_ADDR of the peer, with its HMAC; at most `limit` addresses are kept. What failed to
    /// the address may be tried again when it is new: a repeat, whose echo was lost, says nothing.
    ///
    /// # Errors
    /// Why it is ignored.
    pub(super) fn learn(
        &mut self,
        add: &AddAddr,
        hmac: u64,
        keys: Keys,
        limit: usize,
    ) -> Result<Learned, DropReason> {
        if keys.swapped().add_addr(add.address_id, add.address, add.port) != hmac {
            return Err(DropReason::BadHmac);
        }
        let port = add.port.unwrap_or(self.first.1.port());
        let address = SocketAddr::new(add.address, port);
        if !may_be_joined(address) {
            return Err(DropReason::BadAddress);
        }
        let learned = match self.addresses.iter().find(|a| a.id == add.address_id) {
            // An id keeps its address until it is removed.
            Some(known) if known.address != address => return Err(DropReason::BadMapping),
            Some(_) => Learned::Again,
            None if self.addresses.len() >= limit => return Err(DropReason::Limit("addresses")),
            None => {
                self.addresses.push(PeerAddress { id: add.address_id, address });
                Learned::New(address)
            }
        };
        if learned != Learned::Again {
            self.attempts.retain(|a| a.between.remote != address);
        }
        Ok(learned)
    }

    /// The peer has withdrawn an address; whether it had announced it.
    pub(super) fn forget(&mut self, id: u8) -> bool {
        let before = self.addresses.len();
        self.addresses.retain(|a| a.id != id);
        before != self.addresses.len()
    }

    /// Where the mesh leads: the peer's first address (if the peer does not deny that, and we are
    /// the client) and every address that it announced, as configured.
    pub(super) fn remotes(&self, config: &MptcpConfig, role: Role) -> Vec<SocketAddr> {
        let initial = config.full_mesh && role == Role::Client && !self.deny_initial;
        let announced = self.addresses.iter().filter(|_| config.accept_addresses);
        let first = initial.then_some(self.first.1);
        first.into_iter().chain(announced.map(|a| a.address)).collect()
    }

    /// When a subflow between two addresses may be tried.
    pub(super) fn retry_at(&self, between: Pair) -> Instant {
        let known = self.attempts.iter().find(|a| a.between == between);
        known.map_or(Instant::ZERO, |a| a.next)
    }

    fn attempt(&mut self, between: Pair) -> &mut Attempt {
        let at = self.attempts.iter().position(|a| a.between == between).unwrap_or_else(|| {
            if self.attempts.len() == ATTEMPTS {
                self.attempts.remove(0);
            }
            self.attempts.push(Attempt { between, failures: 0, next: Instant::ZERO });
            self.attempts.len() - 1
        });
        &mut self.attempts[at]
    }

    /// A subflow was established between two addresses.
    pub(super) fn succeeded(&mut self, between: Pair) {
        self.attempts.retain(|a| a.between != between || a.next == Instant::FAR_FUTURE);
    }

    /// A subflow between two addresses has closed: when another may be tried, sooner if the SYN
    /// merely got no answer; `FAR_FUTURE` for never.
    pub(super) fn failed(&mut self, now: Instant, between: Pair, why: CloseReason) -> Instant {
        let attempt = self.attempt(between);
        if attempt.next != Instant::FAR_FUTURE {
            if why != CloseReason::TimedOut {
                attempt.failures = (attempt.failures + 1).min(6);
            }
            attempt.next = now + Duration(RETRY.0 << attempt.failures.saturating_sub(1));
        }
        attempt.next
    }

    /// The application or the peer does not want a subflow between these addresses.
    pub(super) fn forbid(&mut self, between: Pair) {
        self.attempt(between).next = Instant::FAR_FUTURE;
    }

    /// The peer knew nothing of a subflow any more that was silent for as long as its own
    /// retransmissions last: it does not refuse the next one, which may be tried at once.
    pub(super) fn forgotten(&mut self, now: Instant, between: Pair) -> Instant {
        let attempt = self.attempt(between);
        attempt.next = attempt.next.max(now);
        attempt.next
    }

    /// What failed from these addresses may be tried again.
    pub(super) fn forgive(&mut self, locals: &[IpAddr]) {
        self.attempts.retain(|a| !locals.contains(&a.between.local));
    }
}

/// Whether a subflow may lead there (RFC 9293 section 3.9.2.3, MUST-46): the peer names what it
/// likes, and is believed to name itself only.
pub(super) fn may_be_joined(remote: SocketAddr) -> bool {
    is_of_one_host(remote.ip()) && remote.port() != 0
}

/// Transmissions of an ADD_ADDR at most.
const ANNOUNCE_TRIES: u8 = 8;

/// Pairs of addresses remembered; the oldest goes.
const ATTEMPTS: usize = 256;

/// Time after a subflow has closed before another is tried; doubled up to half a minute if the
/// peer refuses it.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mptcp::crypto::Key;

    const KEYS: Keys = Keys { local: Key(1), remote: Key(2) };

    fn manager() -> PathManager {
        let [local, remote] = ["10.0.0.1:5000", "10.0.0.2:80"].map(|a| a.parse().unwrap());
        PathManager::new((local, remote), false)
    }

    fn add(id: u8, last: u8) -> AddAddr {
        let address = [10, 0, 1, last].into();
        let hmac = Some(KEYS.swapped().add_addr(id, address, None));
        AddAddr { address_id: id, address, port: None, hmac }
    }

    #[test]
    fn an_address_is_announced_until_it_is_echoed_or_given_up() {
        let second = Duration::from_secs(1);
        for echoed in [true, false] {
            let (mut m, mut now) = (manager(), Instant::ZERO);
            let id = m.announce(now, "10.0.9.1:0".parse().unwrap());
            assert_eq!((id, m.local_id("10.0.9.1".parse().unwrap())), (1, 1));
            let mut sent = 0;
            loop {
                let (due, next) = m.announcements(now, second, KEYS);
                sent += due.len();
                if next == Instant::FAR_FUTURE {
                    break;
                }
                assert!(m.announcements(now, second, KEYS).0.is_empty(), "one at a time");
                now = next;
                if echoed {
                    m.echoed(id);
                }
            }
            assert_eq!(sent, if echoed { 1 } else { usize::from(ANNOUNCE_TRIES) });
        }
    }

    #[test]
    fn addresses_of_the_peer_are_checked_and_limited() {
        let mut m = manager();
        let learn = |m: &mut PathManager, add: AddAddr| m.learn(&add, add.hmac.unwrap(), KEYS, 2);
        let forged = AddAddr { hmac: Some(7), ..add(1, 1) };
        assert_eq!(learn(&mut m, forged), Err(DropReason::BadHmac));
        let first = "10.0.1.1:80".parse().unwrap();
        assert_eq!(learn(&mut m, add(1, 1)), Ok(Learned::New(first)));
        assert_eq!(learn(&mut m, add(1, 1)), Ok(Learned::Again));
        assert_eq!(learn(&mut m, add(1, 2)), Err(DropReason::BadMapping));
        assert!(learn(&mut m, add(2, 2)).is_ok());
        assert_eq!(learn(&mut m, add(3, 3)), Err(DropReason::Limit("addresses")));
        assert_eq!((m.remote_id(first), m.forget(1), m.forget(1)), (1, true, false));
        assert!(learn(&mut m, add(3, 3)).is_ok(), "there is space again");
    }

    // RFC 9293 section 3.9.2.3, MUST-46: no connection to what is no host.
    #[test]
    fn rfc9293_addresses_of_no_host_are_not_learned() {
        let mut m = manager();
        let mut learn = |id: u8, address: &str, port| {
            let address = address.parse().unwrap();
            let hmac = KEYS.swapped().add_addr(id, address, port);
            m.learn(&AddAddr { address_id: id, address, port, hmac: Some(hmac) }, hmac, KEYS, 8)
        };
        for none in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::"] {
            assert_eq!(learn(1, none, None), Err(DropReason::BadAddress), "{none}");
        }
        assert_eq!(learn(1, "10.0.1.1", Some(0)), Err(DropReason::BadAddress));
        assert!(learn(1, "10.0.1.1", Some(81)).is_ok(), "nothing was kept");
    }

    #[test]
    fn what_fails_waits_and_what_is_forbidden_stays_so() {
        let mut m = manager();
        let pair = Pair { local: "10.0.0.1".parse().unwrap(), remote: m.first.1 };
        let after = |s| Instant::ZERO + Duration::from_secs(s);
        let refused = CloseReason::Reset(None);
        for wait in [1, 2, 4, 8, 16, 32, 32] {
            assert_eq!(m.failed(Instant::ZERO, pair, refused), after(wait));
        }
        m.succeeded(pair);
        assert_eq!(m.retry_at(pair), Instant::ZERO);
        assert_eq!(m.failed(Instant::ZERO, pair, CloseReason::TimedOut), after(1));
        m.forbid(pair);
        m.succeeded(pair);
        assert_eq!(m.failed(Instant::ZERO, pair, refused), Instant::FAR_FUTURE);
        assert_eq!(m.forgotten(after(5), pair), Instant::FAR_FUTURE);
        m.forgive(&[pair.local]);
        assert_eq!(m.retry_at(pair), Instant::ZERO);
        assert_eq!(m.forgotten(after(5), pair), after(5));
        assert_eq!(m.failed(after(5), pair, refused), after(6));
        assert_eq!(m.forgotten(after(5), pair), after(6), "refused before: that counts");
    }
}
