//! Which server is used, and where it is. Servers are tried in the order of the configuration: one
//! that no path reaches for [`PATIENCE`] is left for the next, in a circle. What is connected
//! through a server ends with it: servers know nothing of each other, nor of what they were before
//! they were started again, which shows in what they answer to probes.

use super::policies::Telling;
use super::{Core, Told};
use crate::config::Configuration;
use crate::path::Lives;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tabane_engine::{Duration, Instant};

/// The servers of a client.
pub(super) struct Servers {
    /// The one in use, and which of its addresses.
    current: usize,
    address: usize,
    /// Since when it is tried, or has not been reached.
    since: Instant,
    /// Names being asked for outside the tunnel: of which server, and what was found.
    found: Receiver<(usize, Vec<SocketAddr>)>,
    teller: Sender<(usize, Vec<SocketAddr>)>,
    asking: bool,
    next_question: Instant,
    known: Vec<SocketAddr>,
    waker: Arc<mio::Waker>,
    lives: Lives,
}

/// How long a server may be out of reach of every path before the next is tried. Longer than a
/// server needs to restart.
const PATIENCE: Duration = Duration::from_secs(6);
/// Between questions for an address that is not found.
const ASK_AGAIN: Duration = Duration::from_secs(5);

impl Servers {
    pub(super) fn new(now: Instant, waker: Arc<mio::Waker>) -> Self {
        let (teller, found) = channel();
        Self {
            current: 0,
            address: 0,
            since: now,
            found,
            teller,
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
    pub(super) fn current(&self) -> usize {
        self.current
    }
}

impl Core {
    /// Finds out where the server is, and leaves it if it cannot be reached.
    pub(super) fn servers(&mut self, now: Instant) {
        self.ask_address(now);
        if let Ok((server, addresses)) = self.servers.found.try_recv() {
            self.servers.asking = false;
            if server == self.servers.current && !addresses.is_empty() {
                self.servers.known = addresses;
                self.servers.address = 0;
                self.servers.since = now;
                self.use_address();
            }
        }
        if self.tunnels.any_up() {
            self.servers.since = now;
        } else if now.saturating_since(self.servers.since) > PATIENCE {
            self.next_server(now);
        }
    }

    fn ask_address(&mut self, now: Instant) {
        let servers = &mut self.servers;
        if servers.asking || !servers.known.is_empty() || now < servers.next_question {
            return;
        }
        let Some(entry) = self.config.server.get(servers.current) else { return };
        servers.next_question = now + ASK_AGAIN;
        // Without a name nothing needs to be waited for.
        let parsed: Result<Vec<SocketAddr>, _> =
            entry.addresses.iter().map(|text| text.parse()).collect();
        if let Ok(addresses) = parsed {
            servers.known = addresses;
            servers.since = now;
            return self.use_address();
        }
        let (names, teller) = (entry.addresses.clone(), servers.teller.clone());
        let (waker, current) = (servers.waker.clone(), servers.current);
        let ask = move || {
            let found = names.iter().flat_map(|name| name.to_socket_addrs().into_iter().flatten());
            // The agent may have ended in the meantime.
            let _ = teller.send((current, found.collect()));
            let _ = waker.wake();
        };
        servers.asking = thread::Builder::new().name("names".into()).spawn(ask).is_ok();
    }

    fn use_address(&mut self) {
        if let Some(address) = self.servers.known.get(self.servers.address) {
            self.tunnels.set_remote(*address);
            self.rechange_host(self.clock.now());
        }
    }

    fn next_server(&mut self, now: Instant) {
        let servers = &mut self.servers;
        servers.since = now;
        if servers.address + 1 < servers.known.len() {
            servers.address += 1;
            return self.use_address();
        }
        let count = self.config.server.len();
        (servers.address, servers.known) = (0, Vec::new());
        servers.next_question = now;
        if count > 1 {
            servers.current = (servers.current + 1) % count;
            let entry = self.config.server[servers.current].clone();
            let secret = self.config.key();
            // Both were read when the agent started.
            if let Ok(secret) = secret
                && self.tunnels.set_server(now, &secret, &entry).is_ok()
            {
                let text = format!("no path reaches the server: trying {}", entry.addresses[0]);
                self.happenings.add(now, "server-changed", (None, None), text);
                self.servers.lives.leave();
                self.abandon(now);
                self.spread.forget();
            }
        }
        self.ask_address(now);
    }

    /// A probe was answered on a path: by a server that has been started again, everything that
    /// was connected through it is over, which it cannot say.
    pub(super) fn meet_server(&mut self, now: Instant, path: usize) {
        let Some(life) = self.tunnels.life(path) else { return };
        if self.servers.lives.meet(life) {
            let text = "the server was started again: connections have ended".to_owned();
            self.happenings.add(now, "server-restarted", (None, None), text);
            self.abandon(now);
            self.spread.forget();
        }
    }

    /// Ends every connection: the far end is another one.
    fn abandon(&mut self, now: Instant) {
        let open = self.open_connections();
        for id in open {
            if let Some(conn) = self.bundle.endpoint.connection(id) {
                conn.abort(now);
            }
        }
        self.programs.reset_all();
        if let Some(host) = &mut self.host {
            host.sessions.reset_all(now, &mut host.stack);
        }
        if let Some(carried) = &mut self.carried {
            carried.tell(Told::Lost);
        }
        (self.telling, self.told_before) = (Telling::default(), false);
    }
}
