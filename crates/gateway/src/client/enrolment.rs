//! Making itself known: while no path works, the client asks the server in a session beside those
//! of its paths ([`crate::enrol`]), by each of its links.
//!
//! - An invitation that could not be used when the configuration was made is used now.
//! - A clock that is behind (a board without a battery, before it has asked for the time) would
//!   have every handshake taken for a replay of an older one. The server begins the sessions of the
//!   paths anew.

use super::Core;
use super::host::HostSide;
use crate::config::{Configuration, ServerEntry};
use crate::enrol::exchange::{self, Link, Server};
use crate::enrol::{Ask, Credentials, ExchangeError};
use crate::keys::{self, Key, KeyError};
use crate::model::{EventKind, Role};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tabane_engine::{Duration, Instant};

pub(super) struct Enrolling {
    /// Since when no path has worked.
    since: Instant,
    next: Instant,
    busy: bool,
    found: Receiver<Found>,
    sender: Sender<Found>,
    waker: Arc<mio::Waker>,
}

/// What became of it.
enum Found {
    Joined,
    /// The server's clock, milliseconds since 1970.
    Resumed(u64),
    Refused(String),
    Silent,
}

/// How long paths have time to come up by themselves.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same, with an invitation: they cannot.
const PATIENCE_INVITED: Duration = Duration::from_millis(500);
/// Between attempts.
const AGAIN: Duration = Duration::from_secs(5);
/// For an answer, at each address and link.
const ANSWER: Duration = Duration::from_secs(2);
/// A clock that differs by more is worth a word.
const CLOCK_MS: u64 = 5000;

impl Enrolling {
    pub(super) fn new(now: Instant, waker: Arc<mio::Waker>) -> Self {
        let (sender, found) = channel();
        Self { since: now, next: now, busy: false, found, sender, waker }
    }
}

impl Core {
    /// Asks if that may help, and takes the answer.
    pub(super) fn enrol(&mut self, now: Instant) {
        if let Ok(found) = self.enrolling.found.try_recv() {
            self.enrolling.busy = false;
            self.enrolling.next = now + AGAIN;
            self.enrolled(now, found);
        }
        if self.tunnels.any_up() {
            self.enrolling.since = now;
            return;
        }
        let Some(entry) = self.config.server.get(self.servers.current().get()) else { return };
        let invited = entry.enrolment.is_some();
        let patience = if invited { PATIENCE_INVITED } else { PATIENCE };
        let early = now < self.enrolling.since + patience || now < self.enrolling.next;
        if entry.key_version != Some(2) || self.enrolling.busy || early {
            return;
        }
        let server = Server {
            addresses: self
                .tunnels
                .remotes()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect(),
            public_key: match keys::public(&entry.public_key) {
                Ok(key) => key,
                Err(_) => return,
            },
            network: self.network,
            number: self.number,
        };
        let Ok(secret) = self.config.key() else { return };
        if server.addresses.is_empty() {
            return;
        }
        let (entry, links) = (entry.clone(), self.ways_out());
        let (sender, waker) = (self.enrolling.sender.clone(), self.enrolling.waker.clone());
        let ask = move || {
            let found = ask(&server, &secret, &entry, &links);
            // The agent may have ended in the meantime.
            let _ = sender.send(found.unwrap_or(Found::Silent));
            let _ = waker.wake();
        };
        self.enrolling.busy = thread::Builder::new().name("enrol".into()).spawn(ask).is_ok();
    }

    fn enrolled(&mut self, now: Instant, found: Found) {
        let (kind, text) = match found {
            Found::Silent => return,
            Found::Joined => {
                (EventKind::Joined, "the server knows this client's keys now".to_owned())
            }
            Found::Refused(why) => (EventKind::EnrolmentRefused, why),
            Found::Resumed(theirs) => {
                let ours = self.clock.unix(now).as_millis() as u64;
                let mut text = "the server has begun the sessions of all paths anew".to_owned();
                if ours + CLOCK_MS < theirs {
                    let behind = (theirs - ours) / 1000;
                    text += &format!(": this machine's clock is {behind} s behind, set it (NTP)");
                }
                (EventKind::SessionsRenewed, text)
            }
        };
        self.event_log.add(now, kind, (None, None), text);
    }

    fn ways_out(&self) -> Vec<Link> {
        let mark = self.config.device().map(HostSide::mark);
        let used = self.config.path.iter().filter(|path| path.role != Role::Never);
        let link = |path: &crate::config::PathConfig| Link {
            interface: path.interface.clone(),
            source: path.source,
            mark,
        };
        used.map(link).collect()
    }
}

/// Asks what there is to ask, on a thread of its own.
fn ask(
    server: &Server,
    secret: &Key,
    entry: &ServerEntry,
    links: &[Link],
) -> Result<Found, KeyError> {
    let none = KeyError::Missing { key: "preshared_key", file: "server" };
    let preshared: Key = entry.preshared_key.as_deref().ok_or(none)?.parse()?;
    let mut refused = None;
    if let Some(invitation) = &entry.enrolment {
        let (key, once) = invitation.parse::<Key>()?.enrolment(&server.public_key);
        let join = Ask::Join(Credentials::of(secret, &server.public_key, &preshared));
        match exchange::ask(server, (&key, &once), &join, links, ANSWER) {
            Ok(_) => return Ok(Found::Joined),
            Err(ExchangeError::Refused(why)) => refused = Some(why),
            Err(ExchangeError::Silent(_)) => {}
        }
    }
    let control = secret.control(&server.public_key);
    match exchange::ask(server, (&control, &preshared), &Ask::Resume, links, ANSWER) {
        Ok(theirs) => Ok(Found::Resumed(theirs)),
        Err(ExchangeError::Refused(why)) => Ok(Found::Refused(why)),
        Err(ExchangeError::Silent(_)) => Ok(refused.map_or(Found::Silent, Found::Refused)),
    }
}
