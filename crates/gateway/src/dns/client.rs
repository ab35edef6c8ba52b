//! The client's resolver: asks the service for the A and AAAA records of a name at once (RFC 8305
//! section 3), again when nothing comes back, and hands out both families in the order to try. A
//! state machine: its loop carries the queries to the service and the answers back.

use super::cache::Cache;
use super::message::{self, Family, Outcome, Reply};
use super::order::interleave;
use crate::listener::ConnectError;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use tabane_engine::{Duration, Instant};

/// The resolver of a client.
#[derive(Debug)]
pub(crate) struct Client {
    rng: ChaCha8Rng,
    cache: Cache,
    lookups: BTreeMap<u64, Lookup>,
    /// Lookups by name: a name is asked for once at a time.
    names: BTreeMap<String, u64>,
    /// Open questions by the id of their queries.
    ids: BTreeMap<u16, (u64, Family)>,
    /// Who waits for which lookup.
    waiting: BTreeMap<LookupId, u64>,
    /// Lookups by the time at which something is to be done.
    timers: BTreeSet<(Instant, u64)>,
    queries: VecDeque<(u64, Family)>,
    results: VecDeque<(LookupId, Result<Vec<IpAddr>, ConnectError>)>,
    next: u64,
}

/// One call of [`Client::resolve`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LookupId(u64);

#[derive(Debug)]
struct Lookup {
    name: String,
    waiters: Vec<LookupId>,
    /// A, AAAA.
    states: [QueryState; 2],
    /// Queries sent for each, and when they are sent again.
    tries: u32,
    again: Instant,
    /// What is known then is the answer.
    end: Instant,
    /// In `timers`.
    timer: Instant,
}

#[derive(Clone, Debug)]
enum QueryState {
    /// With this id.
    Open(u16),
    Answered(Outcome),
}

/// Lookups at a time; a further one is refused.
const LOOKUPS_MAX: usize = 1024;
/// Calls that wait, and results not taken, at a time; a further one is refused.
const WAITERS_MAX: usize = 8192;
/// Until the queries are sent again the first time; then twice as long each time. Less than a
/// satellite's round trip costs a query in vain, more would cost everybody else.
const AGAIN: Duration = Duration::from_millis(300);
/// All queries of a name: at 0, 0.3, 0.9, 2.1 and 4.5 s.
const TRIES_MAX: u32 = 5;
/// When a lookup fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the other family may take when one has its addresses (RFC 8305 section 3).
const OTHER_FAMILY: Duration = Duration::from_millis(50);

impl Client {
    /// With ids drawn from `seed`.
    #[must_use]
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self {
            rng: ChaCha8Rng::from_seed(seed),
            cache: Cache::default(),
            lookups: BTreeMap::new(),
            names: BTreeMap::new(),
            ids: BTreeMap::new(),
            waiting: BTreeMap::new(),
            timers: BTreeSet::new(),
            queries: VecDeque::new(),
            results: VecDeque::new(),
            next: 0,
        }
    }

    /// Asks for the addresses of `name`, a valid host name ([`crate::listener::Target`]); its
    /// result comes from [`Client::poll_result`], perhaps at once.
    ///
    /// # Errors
    /// [`ConnectError::Busy`] at the limits (1024 names, 8192 calls).
    pub(crate) fn resolve(&mut self, now: Instant, name: &str) -> Result<LookupId, ConnectError> {
        if self.waiting.len() + self.results.len() >= WAITERS_MAX {
            return Err(ConnectError::Busy);
        }
        let id = LookupId(self.next);
        self.next += 1;
        if let Some(addresses) = self.cache.get(now, name) {
            let result = self.ordered(addresses);
            self.results.push_back((id, result));
            return Ok(id);
        }
        let key = match self.names.get(name) {
            Some(key) => *key,
            None => self.ask(now, name)?,
        };
        self.waiting.insert(id, key);
        let lookup = self.lookups.get_mut(&key).expect("invariant: names leads to lookups");
        lookup.waiters.push(id);
        Ok(id)
    }

    /// The next query: a UDP payload for port 53 of the service address, from a port whose
    /// answers come to [`Client::handle_answer`].
    pub(crate) fn poll_query(&mut self) -> Option<Vec<u8>> {
        loop {
            let (key, family) = self.queries.pop_front()?;
            let lookup = self.lookups.get(&key);
            if let Some(lookup) = lookup
                && let QueryState::Open(id) = lookup.states[family as usize]
                && let Some(query) = message::query(id, &lookup.name, family)
            {
                return Some(query);
            }
        }
    }

    /// A UDP payload from port 53 of the service address. What answers no open question is
    /// ignored.
    pub(crate) fn handle_answer(&mut self, now: Instant, payload: &[u8]) {
        let Some(Reply { id, name, family, outcome }) = message::parse_reply(payload) else {
            return;
        };
        let Some((key, states)) = self.ids.get(&id).copied() else { return };
        let Some(lookup) = self.lookups.get_mut(&key) else { return };
        if states != family || lookup.name != name {
            return;
        }
        self.ids.remove(&id);
        let found = matches!(&outcome, Outcome::Addresses(found, _) if !found.is_empty());
        lookup.states[family as usize] = QueryState::Answered(outcome);
        if found {
            lookup.end = lookup.end.min(now + OTHER_FAMILY);
        }
        self.advance(now, key);
    }

    /// When [`Client::handle_timeout`] is due.
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Asks again, or gives up, what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            self.advance(now, key);
        }
    }

    /// The next result: addresses in the order to try, at least one, or why there are none.
    pub(crate) fn poll_result(&mut self) -> Option<(LookupId, Result<Vec<IpAddr>, ConnectError>)> {
        self.results.pop_front()
    }

    fn ask(&mut self, now: Instant, name: &str) -> Result<u64, ConnectError> {
        if self.lookups.len() >= LOOKUPS_MAX {
            return Err(ConnectError::Busy);
        }
        let key = self.next;
        self.next += 1;
        let states = [Family::V4, Family::V6].map(|family| {
            let id = self.fresh_id();
            self.ids.insert(id, (key, family));
            self.queries.push_back((key, family));
            QueryState::Open(id)
        });
        let (again, end) = (now + AGAIN, now + PATIENCE);
        let (name, waiters) = (name.to_owned(), Vec::new());
        self.names.insert(name.clone(), key);
        self.timers.insert((again, key));
        self.lookups
            .insert(key, Lookup { name, waiters, states, tries: 1, again, end, timer: again });
        Ok(key)
    }

    /// An id that no open question has; there are far more ids than questions.
    fn fresh_id(&mut self) -> u16 {
        loop {
            let id = self.rng.next_u32() as u16;
            if !self.ids.contains_key(&id) {
                return id;
            }
        }
    }

    /// Finishes the lookup, or asks again and sets its timer.
    fn advance(&mut self, now: Instant, key: u64) {
        let Some(lookup) = self.lookups.get_mut(&key) else { return };
        let open = lookup.states.iter().any(|states| matches!(states, QueryState::Open(_)));
        if !open || lookup.end <= now {
            self.finish(now, key);
            return;
        }
        if lookup.again <= now {
            // The queue is empty unless its loop is stuck: then once is enough.
            if self.queries.len() < 2 * LOOKUPS_MAX {
                self.queries.extend([(key, Family::V4), (key, Family::V6)]);
            }
            lookup.again = match lookup.tries < TRIES_MAX - 1 {
                true => now + Duration(AGAIN.0 << lookup.tries),
                false => Instant::FAR_FUTURE,
            };
            lookup.tries += 1;
        }
        self.timers.remove(&(lookup.timer, key));
        lookup.timer = lookup.again.min(lookup.end);
        self.timers.insert((lookup.timer, key));
    }

    fn finish(&mut self, now: Instant, key: u64) {
        let Some(lookup) = self.lookups.remove(&key) else { return };
        self.timers.remove(&(lookup.timer, key));
        self.names.remove(&lookup.name);
        let (mut addresses, mut ttl, mut complete, mut failed) = (Vec::new(), None, true, false);
        for states in &lookup.states {
            match states {
                QueryState::Answered(Outcome::Addresses(found, seconds)) if !found.is_empty() => {
                    addresses.extend_from_slice(found);
                    ttl = Some(ttl.unwrap_or(u32::MAX).min(*seconds));
                }
                QueryState::Answered(Outcome::Addresses(..) | Outcome::NoName) => {}
                QueryState::Answered(Outcome::Failed) => (complete, failed) = (false, true),
                QueryState::Open(id) => {
                    self.ids.remove(id);
                    (complete, failed) = (false, true);
                }
            }
        }
        if complete {
            self.cache.put(now, &lookup.name, &addresses, ttl.unwrap_or(0));
        }
        let result = match addresses.is_empty() && failed {
            true => Err(ConnectError::NameFailed),
            false => self.ordered(&addresses),
        };
        for id in lookup.waiters {
            self.waiting.remove(&id);
            self.results.push_back((id, result.clone()));
        }
    }

    fn ordered(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, ConnectError> {
        match addresses.is_empty() {
            true => Err(ConnectError::NameNotFound),
            false => Ok(interleave(addresses)),
        }
    }
}

#[cfg(test)]
mod tests;
