//! Which server is used, and where it is. Servers are tried in the order of the configuration: one
//! that no path reaches for [`PATIENCE`] at each of its addresses is left for the next, in a
//! circle. What is connected through a server ends with it: servers know nothing of each other, nor
//! of what they were before they were started again, which shows in what they answer to probes.

use super::HostSide;
use super::lookup::{self, Beside};
use super::policies::PolicySync;
use super::tunnels::PATIENCE;
use super::{Core, UpstreamNotification};
use crate::config::{ClientConfig, Configuration, ServerEntry};
use crate::index::{PathIndex, ServerIndex};
use crate::model::EventKind;
use crate::path::Lives;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tabane_engine::{Duration, Instant};

/// The servers of a client.
pub(super) struct Servers {
    /// The one in use.
    current: ServerIndex,
    /// Since when it is tried, or has not been reached.
    since: Instant,
    /// Names being asked for outside the tunnel: all of a server's, and what was found.
    found: Receiver<(Vec<String>, lookup::Answers)>,
    sender: Sender<(Vec<String>, lookup::Answers)>,
    asking: bool,
    next_question: Instant,
    known: Vec<SocketAddr>,
    waker: Arc<mio::Waker>,
    lives: Lives,
}

/// Whether two entries are of one server, wherever it is.
fn is_same(one: &ServerEntry, other: &ServerEntry) -> bool {
    one.public_key == other.public_key
        && one.preshared_key == other.preshared_key
        && one.key_version == other.key_version
}

/// Between questions for an address that is not found.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Addresses of a server; further ones are not tried.
const ADDRESSES_MAX: usize = 16;

impl Servers {
    pub(super) fn new(now: Instant, waker: Arc<mio::Waker>) -> Self {
        let (sender, found) = channel();
        Self {
            current: ServerIndex::new(0),
            since: now,
            found,
            sender,
            asking: false,
            next_question: now,
            known: Vec::new(),
            waker,
            lives: Lives::default(),
        }
    }
}

impl Servers {
    /// The one in use, by its place in the configuration.
    pub(super) fn current(&self) -> ServerIndex {
        self.current
    }
}

impl Core {
    /// Finds out where the server is, and leaves it if it cannot be reached.
    pub(super) fn servers(&mut self, now: Instant) {
        self.ask_address(now);
        if let Ok((names, answers)) = self.servers.found.try_recv() {
            self.servers.asking = false;
            let current = self.config.server.get(self.servers.current.get());
            if current.is_some_and(|entry| entry.addresses == names) {
                self.take_answers(now, answers);
            }
        }
        let servers = &mut self.servers;
        // Each of its addresses gets its turn.
        let patience = PATIENCE * servers.known.len().clamp(1, ADDRESSES_MAX) as u64;
        if self.tunnels.any_up() {
            servers.since = now;
        } else if now.saturating_since(servers.since) > patience {
            self.next_server(now);
        }
    }

    /// The system, or whoever was asked, has said where the server's names lead. What it says is
    /// remembered; where it says nothing, what it said last is used.
    fn take_answers(&mut self, now: Instant, answers: lookup::Answers) {
        let mut addresses = Vec::new();
        for (name, found) in answers {
            let known = self.host.as_ref().filter(|_| found.is_empty());
            let remembered = known.map(|host| host.remembered(&name)).unwrap_or_default();
            if let Some(host) = self.host.as_mut().filter(|_| !found.is_empty())
                && let Err(error) = host.remember(&name, &found)
            {
                self.event_log.add(now, EventKind::TunNote, (None, None), error);
            }
            addresses.extend(found);
            addresses.extend(remembered);
        }
        addresses.truncate(ADDRESSES_MAX);
        if !addresses.is_empty() {
            self.servers.known = addresses;
            self.servers.since = now;
            self.use_addresses(now);
        }
    }

    fn ask_address(&mut self, now: Instant) {
        let servers = &mut self.servers;
        if servers.asking || !servers.known.is_empty() || now < servers.next_question {
            return;
        }
        let Some(entry) = self.config.server.get(servers.current.get()) else { return };
        servers.next_question = now + ASK_AGAIN;
        // Without a name nothing needs to be waited for.
        let parsed: Result<Vec<SocketAddr>, _> =
            entry.addresses.iter().map(|text| text.parse()).collect();
        if let Ok(addresses) = parsed {
            servers.known = addresses;
            servers.since = now;
            return self.use_addresses(now);
        }
        let (names, sender) = (entry.addresses.clone(), servers.sender.clone());
        let waker = servers.waker.clone();
        let beside = self.config.device().map(|tun| Beside {
            mark: HostSide::mark(tun),
            resolvers: self.host.as_ref().map(HostSide::resolvers).unwrap_or_default(),
            system: !tun.dns,
        });
        let ask = move || {
            let found = lookup::addresses(&names, beside.as_ref());
            // The agent may have ended in the meantime.
            let _ = sender.send((names, found));
            let _ = waker.wake();
        };
        servers.asking = thread::Builder::new().name("names".into()).spawn(ask).is_ok();
    }

    fn use_addresses(&mut self, now: Instant) {
        self.tunnels.set_addresses(now, &self.servers.known);
        // What leads to the server must not be led into the device.
        self.look_at_host_soon();
        self.look_at_host(now);
    }

    fn next_server(&mut self, now: Instant) {
        let servers = &mut self.servers;
        servers.since = now;
        servers.known = Vec::new();
        servers.next_question = now;
        let count = self.config.server.len();
        if count > 1 {
            let next = ServerIndex::new((servers.current.get() + 1) % count);
            self.use_server(now, next, "no path reaches the server: trying");
        }
        self.ask_address(now);
    }

    /// Another server, or one with other keys: what is connected ends. `why` is for people, with
    /// its address behind.
    fn use_server(&mut self, now: Instant, index: ServerIndex, why: &str) {
        self.servers.current = index;
        let Some(entry) = self.config.server.get(index.get()).cloned() else { return };
        // All keys were read when the configuration was.
        if let Ok(secret) = self.config.key()
            && self.tunnels.set_server(now, &secret, &entry).is_ok()
        {
            let text = format!("{why} {}", entry.addresses[0]);
            self.event_log.add(now, EventKind::ServerChanged, (None, None), text);
            self.servers.lives.leave();
            self.abandon(now);
            self.dispatcher.forget();
        }
    }

    /// Which of the servers of another configuration is the one in use; the first where it is gone.
    pub(super) fn server_of(&self, new: &ClientConfig) -> ServerIndex {
        let used = self.config.server.get(self.servers.current.get());
        let place = |used: &ServerEntry| new.server.iter().position(|entry| is_same(entry, used));
        ServerIndex::new(used.and_then(place).unwrap_or(0))
    }

    /// The configuration has been read again: `before` was the server in use, `index` is its place
    /// now, or that of the one to use instead.
    pub(super) fn reload_servers(
        &mut self,
        now: Instant,
        before: Option<&ServerEntry>,
        index: ServerIndex,
    ) {
        let Some(entry) = self.config.server.get(index.get()) else { return };
        let same = before.is_some_and(|before| is_same(entry, before));
        self.servers.current = index;
        if same && before.is_some_and(|before| before.addresses == entry.addresses) {
            return;
        }
        let servers = &mut self.servers;
        (servers.known, servers.since, servers.next_question) = (Vec::new(), now, now);
        if !same {
            self.use_server(now, index, "by the configuration, the server is");
        }
        self.ask_address(now);
    }

    /// A probe was answered on a path: by a server that has been started again, or has
    /// taken another client for this one, everything that was connected through it is over.
    pub(super) fn meet_server(&mut self, now: Instant, path: PathIndex) {
        let Some(life) = self.tunnels.life(path) else { return };
        if self.servers.lives.meet(now, life) {
            let text = "connections have ended: the server was started again, or another client \
                        with the same keys was";
            self.event_log.add(now, EventKind::ServerRestarted, (None, None), text.into());
            self.abandon(now);
            self.dispatcher.forget();
        }
    }

    /// Ends every connection: the far end is another one.
    fn abandon(&mut self, now: Instant) {
        let open = self.open_connections();
        for id in open {
            if let Some(conn) = self.bond.endpoint.connection(id) {
                conn.abort(now);
            }
        }
        let (carried, mut all, endpoint) = self.ends();
        carried.reset_all(now, (&mut all, endpoint));
        if let Some(upstream) = &mut self.upstream {
            upstream.tell(UpstreamNotification::Lost);
        }
        (self.policy_sync, self.synced_before) = (PolicySync::default(), false);
    }
}
