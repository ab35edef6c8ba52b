//! The server's name service: takes the queries that clients send to port 53 of the service
//! address and answers as the server's own system would. A and AAAA go through the system's
//! resolver (its hosts file, its search of nothing, its caches), everything else as it is to the
//! first name server of the system, where there is one, else it is "not implemented".
//!
//! Resolving blocks, so it happens on threads, of which every client has a share (`pool`); answers
//! come back through a channel, and `wake` tells the loop. Whoever asked waits for [`PATIENCE`] at
//! most, and what failed is not asked again for [`FAILED`]. What a client was told is remembered
//! for that client alone: neither the time that is left of an answer nor how soon it comes tells
//! what others have asked. Addresses that the server has no route to are left out of answers: a
//! server without IPv6 gives none. Answers are at most 512 bytes over UDP; there is no TCP.

mod pool;
mod system;

pub(crate) use system::LookupError;

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
pub(crate) struct Service {
    addresses: Pool<String, Looked>,
    others: Option<Pool<Vec<u8>, Option<Vec<u8>>>>,
    looked_up: Receiver<(ClientNumber, String, Looked)>,
    forwarded: Receiver<(ClientNumber, Vec<u8>, Option<Vec<u8>>)>,
    clients: BTreeMap<ClientNumber, Client>,
    answers: VecDeque<(Asker, Vec<u8>)>,
}

/// What is known of a name.
type Looked = Result<Vec<IpAddr>, LookupError>;

/// What a client has asked.
#[derive(Default)]
struct Client {
    /// Names being looked up, and the queries that wait for each; none if all have waited too long.
    names: BTreeMap<String, Vec<Waiting>>,
    /// Queries under way to the name server, without their id.
    under_way: BTreeMap<Vec<u8>, Vec<Waiting>>,
    /// Names that it was told, until when.
    known: BTreeMap<String, (Instant, Looked)>,
    /// Other queries that failed.
    failed: BTreeMap<Vec<u8>, Instant>,
}

/// Who asked, and where the answer comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Asker {
    /// Whose datagram it was.
    pub client: ClientNumber,
    /// Its source.
    pub source: SocketAddr,
    /// Its destination: not always the service address.
    pub destination: SocketAddr,
}

/// How names are looked up.
pub(crate) type LookupFn = Arc<dyn Fn(&str) -> Result<Vec<IpAddr>, LookupError> + Send + Sync>;

struct Waiting {
    asker: Asker,
    query: Vec<u8>,
    until: Instant,
}

/// Threads of the system's resolver, which may take many seconds for a dead name.
const LOOKUP_THREADS: usize = 64;
/// Threads that wait for the name server.
const FORWARD_THREADS: usize = 32;
/// Questions of a client that wait for a thread; what is beyond fails at once.
const QUEUE_MAX: usize = 128;
/// Queries of a client that wait at a time; those beyond fail at once.
const PENDING_MAX: usize = 256;
/// Longest query taken, bytes.
const QUERY_MAX: usize = 512;
/// Names remembered of a client, so that AAAA after A asks nobody; at the limit all are forgotten.
const KNOWN_MAX: usize = 128;
/// How long, and what clients are told: the system's resolver does not say.
const TTL: Duration = Duration::from_secs(30);
/// How long what failed, or is not there, is not asked again.
const FAILED: Duration = Duration::from_secs(5);
/// How long a client waits, before it is told that its question failed.
const PATIENCE: Duration = Duration::from_secs(2);

impl Service {
    /// With the system's resolver and name server.
    #[must_use]
    pub(crate) fn start(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self::with(Arc::new(system::lookup), system::name_server(), wake)
    }

    /// With another resolver, and another name server or none.
    #[must_use]
    pub(crate) fn with(
        lookup: LookupFn,
        name_server: Option<SocketAddr>,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (done, looked_up) = channel();
        let work = Arc::new(move |name: &String| lookup(name));
        let size = ("names", LOOKUP_THREADS, QUEUE_MAX);
        let addresses = Pool::new(size, work, done, Arc::clone(&wake));
        let (done, forwarded) = channel();
        let others = name_server.map(|server| {
            let work = Arc::new(move |query: &Vec<u8>| system::forward(server, query));
            Pool::new(("dns", FORWARD_THREADS, QUEUE_MAX), work, done, wake)
        });
        let (clients, answers) = (BTreeMap::new(), VecDeque::new());
        Self { addresses, others, looked_up, forwarded, clients, answers }
    }

    /// A UDP payload of a client. What is no query is ignored, and so is one that waits already.
    pub(crate) fn ask(&mut self, now: Instant, asker: Asker, query: &[u8]) {
        let Some(asked) = message::parse_query(query) else { return };
        let waiting = Waiting { asker, query: query.to_vec(), until: now + PATIENCE };
        if query.len() > QUERY_MAX {
            self.refuse(&waiting, RCODE::FormatError);
            return;
        }
        match asked {
            Query::Bad(code) => self.refuse(&waiting, code),
            Query::Addresses(name, _) => {
                let client = self.clients.entry(asker.client).or_default();
                match client.known.get(&name) {
                    Some((end, known)) if now < *end => {
                        let left = end.saturating_since(now).as_millis().div_ceil(1000) as u32;
                        let bytes = answer(query, known, left);
                        self.answers.extend(bytes.map(|bytes| (asker, bytes)));
                    }
                    _ => self.look_up(name, waiting),
                }
            }
            Query::Other => self.forward(now, waiting),
        }
    }

    /// The next answer, and whom it is for.
    pub(crate) fn poll_answer(&mut self, now: Instant) -> Option<(Asker, Vec<u8>)> {
        while let Ok((client, name, result)) = self.looked_up.try_recv() {
            self.resolved(now, client, name, result);
        }
        while let Ok((client, question, answer)) = self.forwarded.try_recv() {
            self.came_back(now, client, question, answer);
        }
        self.answers.pop_front()
    }

    /// Fails what has waited for too long, and forgets what is old; a few times a second.
    pub(crate) fn expire(&mut self, now: Instant) {
        let mut late = Vec::new();
        for client in self.clients.values_mut() {
            client.known.retain(|_, (end, _)| now < *end);
            client.failed.retain(|_, end| now < *end);
            for (name, waiting) in &mut client.names {
                let before = late.len();
                late.extend(waiting.extract_if(.., |one| one.until <= now));
                if late.len() > before {
                    client.known.insert(name.clone(), (now + FAILED, Err(LookupError::Failed)));
                }
            }
            for (question, waiting) in &mut client.under_way {
                let before = late.len();
                late.extend(waiting.extract_if(.., |one| one.until <= now));
                if late.len() > before {
                    client.failed.insert(question.clone(), now + FAILED);
                }
            }
        }
        self.clients.retain(|_, client| !client.is_idle());
        for waiting in late {
            self.refuse(&waiting, RCODE::ServerFailure);
        }
    }

    /// Queries that wait.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn waiting(&self) -> usize {
        self.clients.values().map(Client::waiting).sum()
    }

    fn look_up(&mut self, name: String, waiting: Waiting) {
        let number = waiting.asker.client;
        let client = self.clients.entry(number).or_default();
        let full = client.waiting() >= PENDING_MAX;
        match client.names.get_mut(&name) {
            Some(others) if is_among(&waiting, others) => {}
            Some(others) if !full => others.push(waiting),
            None if !full && self.addresses.put(number, name.clone()) => {
                client.names.insert(name, vec![waiting]);
            }
            _ => self.refuse(&waiting, RCODE::ServerFailure),
        }
    }

    fn forward(&mut self, now: Instant, waiting: Waiting) {
        let Some(pool) = &self.others else {
            self.refuse(&waiting, RCODE::NotImplemented);
            return;
        };
        // The same question is one, whatever its id.
        let question = [&[0, 0], &waiting.query[2..]].concat();
        let number = waiting.asker.client;
        let client = self.clients.entry(number).or_default();
        let failed = client.failed.get(&question).is_some_and(|end| now < *end);
        let full = failed || client.waiting() >= PENDING_MAX;
        match client.under_way.get_mut(&question) {
            Some(others) if is_among(&waiting, others) => {}
            Some(others) if !full => others.push(waiting),
            None if !full && pool.put(number, question.clone()) => {
                client.under_way.insert(question, vec![waiting]);
            }
            _ => self.refuse(&waiting, RCODE::ServerFailure),
        }
    }

    fn resolved(&mut self, now: Instant, client: ClientNumber, name: String, result: Looked) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        let ttl = if result.is_ok() { TTL } else { FAILED };
        for waiting in client.names.remove(&name).unwrap_or_default() {
            let bytes = answer(&waiting.query, &result, (ttl.as_millis() / 1000) as u32);
            self.answers.extend(bytes.map(|bytes| (waiting.asker, bytes)));
        }
        if client.known.len() >= KNOWN_MAX {
            client.known.clear();
        }
        client.known.insert(name, (now + ttl, result));
    }

    fn came_back(
        &mut self,
        now: Instant,
        client: ClientNumber,
        question: Vec<u8>,
        answer: Option<Vec<u8>>,
    ) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        let all = client.under_way.remove(&question).unwrap_or_default();
        if answer.is_some() {
            client.failed.remove(&question);
        } else {
            if client.failed.len() >= KNOWN_MAX {
                client.failed.clear();
            }
            client.failed.insert(question, now + FAILED);
        }
        for waiting in all {
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

    fn refuse(&mut self, waiting: &Waiting, code: RCODE) {
        let bytes = message::answer(&waiting.query, &[], 0, code);
        self.answers.extend(bytes.map(|bytes| (waiting.asker, bytes)));
    }
}

impl Client {
    /// Queries that wait.
    fn waiting(&self) -> usize {
        let all = self.names.values().chain(self.under_way.values());
        all.map(Vec::len).sum()
    }

    /// Whether nothing is kept of it.
    fn is_idle(&self) -> bool {
        self.names.is_empty()
            && self.under_way.is_empty()
            && self.known.is_empty()
            && self.failed.is_empty()
    }
}

/// The answer to a query about addresses.
fn answer(query: &[u8], known: &Looked, ttl: u32) -> Option<Vec<u8>> {
    let (addresses, code) = match known {
        Ok(addresses) => (&addresses[..], RCODE::NoError),
        Err(LookupError::NoName) => (&[][..], RCODE::NameError),
        Err(LookupError::Failed) => (&[][..], RCODE::ServerFailure),
    };
    message::answer(query, addresses, ttl, code)
}

/// Whether the same query of the same asker waits: a repetition.
fn is_among(waiting: &Waiting, others: &[Waiting]) -> bool {
    others.iter().any(|other| other.asker == waiting.asker && other.query == waiting.query)
}

#[cfg(test)]
mod tests;
