//! The server's name service: takes the queries that clients send to port 53 of the service
//! address and answers as the server's own system would. A and AAAA go through the system's
//! resolver (its hosts file, its search of nothing, its caches), everything else as it is to the
//! first name server of the system, where there is one, else it is "not implemented".
//!
//! Resolving blocks, so it happens on a few threads; answers come back through a channel, and
//! `wake` tells the loop. Addresses that the server has no route to are left out of answers: a
//! server without IPv6 gives none. Answers are at most 512 bytes over UDP; there is no TCP.

mod pool;
mod system;

pub use system::LookupError;

use super::message::{self, Query};
use crate::address::ClientNumber;
use pool::Pool;
use simple_dns::RCODE;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use tabane_engine::{Duration, Instant};

/// The service of a server.
pub struct Service {
    addresses: Pool<String, Result<Vec<IpAddr>, LookupError>>,
    others: Option<Pool<Vec<u8>, Option<Vec<u8>>>>,
    looked_up: Receiver<(String, Result<Vec<IpAddr>, LookupError>)>,
    forwarded: Receiver<(Vec<u8>, Option<Vec<u8>>)>,
    /// Names being looked up, and the queries that wait for each.
    names: BTreeMap<String, Vec<Waiting>>,
    /// Queries under way to the name server, as they were asked.
    under_way: BTreeMap<Vec<u8>, Vec<Waiting>>,
    /// Of each client that waits for anything.
    pending: BTreeMap<ClientNumber, usize>,
    known: BTreeMap<String, (Instant, Vec<IpAddr>)>,
    answers: VecDeque<(Asker, Vec<u8>)>,
}

/// Who asked, and where the answer comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Asker {
    /// Whose datagram it was.
    pub client: ClientNumber,
    /// Its source.
    pub source: SocketAddr,
    /// Its destination: not always the service address.
    pub destination: SocketAddr,
}

/// How names are looked up.
pub type LookupFn = Arc<dyn Fn(&str) -> Result<Vec<IpAddr>, LookupError> + Send + Sync>;

struct Waiting {
    asker: Asker,
    query: Vec<u8>,
}

/// Threads of the system's resolver, which may take many seconds for a dead name.
const LOOKUP_THREADS: usize = 8;
/// Threads that wait for the name server.
const FORWARD_THREADS: usize = 4;
/// Jobs that wait for a thread; what is beyond fails at once.
const QUEUE_MAX: usize = 512;
/// Queries of a client that wait at a time; those beyond fail at once.
const PENDING_MAX: usize = 256;
/// Longest query taken, bytes.
const QUERY_MAX: usize = 512;
/// Names remembered, so that AAAA after A asks nobody; at the limit all are forgotten.
const KNOWN_MAX: usize = 1024;
/// How long, and what clients are told: the system's resolver does not say.
const TTL: Duration = Duration::from_secs(30);

impl Service {
    /// Starts the threads, with the system's resolver and name server.
    ///
    /// # Errors
    /// What starting a thread gives.
    pub fn start(wake: Arc<dyn Fn() + Send + Sync>) -> std::io::Result<Self> {
        Self::with(Arc::new(system::lookup), system::name_server(), wake)
    }

    /// With another resolver, and another name server or none.
    ///
    /// # Errors
    /// What starting a thread gives.
    pub fn with(
        lookup: LookupFn,
        name_server: Option<SocketAddr>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<Self> {
        let (done, looked_up) = channel();
        let work = Arc::new(move |name: &String| lookup(name));
        let addresses =
            Pool::start("names", LOOKUP_THREADS, QUEUE_MAX, work, done, Arc::clone(&wake))?;
        let (done, forwarded) = channel();
        let others = match name_server {
            None => None,
            Some(server) => {
                let work = Arc::new(move |query: &Vec<u8>| system::forward(server, query));
                Some(Pool::start("dns", FORWARD_THREADS, QUEUE_MAX, work, done, wake)?)
            }
        };
        Ok(Self {
            addresses,
            others,
            looked_up,
            forwarded,
            names: BTreeMap::new(),
            under_way: BTreeMap::new(),
            pending: BTreeMap::new(),
            known: BTreeMap::new(),
            answers: VecDeque::new(),
        })
    }

    /// A UDP payload of a client. What is no query is ignored, and so is one that waits already.
    pub fn ask(&mut self, now: Instant, asker: Asker, query: &[u8]) {
        let Some(asked) = message::parse_query(query) else { return };
        let waiting = Waiting { asker, query: query.to_vec() };
        if query.len() > QUERY_MAX {
            self.refuse(&waiting, RCODE::FormatError);
            return;
        }
        match asked {
            Query::Bad(code) => self.refuse(&waiting, code),
            Query::Addresses(name, _) => match self.known.get(&name) {
                Some((end, addresses)) if now < *end => {
                    let left = end.saturating_since(now).as_millis().div_ceil(1000) as u32;
                    let bytes = message::answer(query, addresses, left, RCODE::NoError);
                    self.answers.extend(bytes.map(|bytes| (asker, bytes)));
                }
                _ => self.look_up(name, waiting),
            },
            Query::Other => self.forward(waiting),
        }
    }

    /// The next answer, and whom it is for.
    pub fn poll_answer(&mut self, now: Instant) -> Option<(Asker, Vec<u8>)> {
        while let Ok((name, result)) = self.looked_up.try_recv() {
            self.resolved(now, name, result);
        }
        while let Ok((query, answer)) = self.forwarded.try_recv() {
            for waiting in self.under_way.remove(&query).unwrap_or_default() {
                self.settle(waiting.asker.client);
                match &answer {
                    Some(bytes) => {
                        let mut bytes = bytes.clone();
                        bytes[..2].copy_from_slice(&waiting.query[..2]);
                        self.answers.push_back((waiting.asker, bytes));
                    }
                    None => self.refuse(&waiting, RCODE::ServerFailure),
                }
            }
        }
        self.answers.pop_front()
    }

    /// Queries that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pending.values().sum()
    }

    fn look_up(&mut self, name: String, waiting: Waiting) {
        let others = self.names.get(&name);
        if others.is_some_and(|others| is_among(&waiting, others)) {
            return;
        }
        let new = others.is_none();
        if !self.admit(&waiting) || (new && !self.addresses.put(name.clone())) {
            self.refuse(&waiting, RCODE::ServerFailure);
            return;
        }
        *self.pending.entry(waiting.asker.client).or_default() += 1;
        self.names.entry(name).or_default().push(waiting);
    }

    fn forward(&mut self, waiting: Waiting) {
        let Some(pool) = &mut self.others else {
            self.refuse(&waiting, RCODE::NotImplemented);
            return;
        };
        // The same question of several clients is one, whatever its id.
        let question = [&[0, 0], &waiting.query[2..]].concat();
        let others = self.under_way.get(&question);
        if others.is_some_and(|others| is_among(&waiting, others)) {
            return;
        }
        let full = self.pending.get(&waiting.asker.client).is_some_and(|n| *n >= PENDING_MAX);
        if full || (others.is_none() && !pool.put(question.clone())) {
            self.refuse(&waiting, RCODE::ServerFailure);
            return;
        }
        *self.pending.entry(waiting.asker.client).or_default() += 1;
        self.under_way.entry(question).or_default().push(waiting);
    }

    fn resolved(&mut self, now: Instant, name: String, result: Result<Vec<IpAddr>, LookupError>) {
        let waiting = self.names.remove(&name).unwrap_or_default();
        let (addresses, code) = match &result {
            Ok(addresses) => (&addresses[..], RCODE::NoError),
            Err(LookupError::NoName) => (&[][..], RCODE::NameError),
            Err(LookupError::Failed) => (&[][..], RCODE::ServerFailure),
        };
        for waiting in waiting {
            self.settle(waiting.asker.client);
            let ttl = (TTL.as_millis() / 1000) as u32;
            let bytes = message::answer(&waiting.query, addresses, ttl, code);
            self.answers.extend(bytes.map(|bytes| (waiting.asker, bytes)));
        }
        if let Ok(addresses) = result {
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(name, (now + TTL, addresses));
        }
    }

    fn admit(&self, waiting: &Waiting) -> bool {
        self.pending.get(&waiting.asker.client).is_none_or(|count| *count < PENDING_MAX)
    }

    fn settle(&mut self, client: ClientNumber) {
        if let Some(count) = self.pending.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(&client);
            }
        }
    }

    fn refuse(&mut self, waiting: &Waiting, code: RCODE) {
        let bytes = message::answer(&waiting.query, &[], 0, code);
        self.answers.extend(bytes.map(|bytes| (waiting.asker, bytes)));
    }
}

/// Whether the same query of the same asker waits: a repetition.
fn is_among(waiting: &Waiting, others: &[Waiting]) -> bool {
    others.iter().any(|other| other.asker == waiting.asker && other.query == waiting.query)
}

#[cfg(test)]
mod tests;
