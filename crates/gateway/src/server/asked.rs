//! What clients ask for single connections, kept until the connection is there.

use super::Core;
use super::member::{Member, RelayTarget};
use crate::config::Choice;
use crate::policy_requests::{self, Asked};
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::mptcp::Connection;
use tabane_engine::{ConnId, Duration, Instant};

/// Of one client: the newest last, and forgotten after [`KEPT`] or when there are more than
/// [`MAX`].
#[derive(Default)]
pub(super) struct Book(VecDeque<Entry>);

struct Entry {
    /// From where, to where.
    way: (SocketAddr, SocketAddr),
    choice: Choice,
    at: Instant,
    /// In force: whoever repeats it has said it.
    done: bool,
}

/// A connection that is asked for comes within this time, or not at all.
const KEPT: Duration = Duration::from_secs(30);
const MAX: usize = 1024;

impl Book {
    /// Notes it; whether it is new.
    fn note(&mut self, now: Instant, way: (SocketAddr, SocketAddr), choice: Choice) -> bool {
        while self.0.front().is_some_and(|entry| entry.at + KEPT <= now) || self.0.len() >= MAX {
            self.0.pop_front();
        }
        if self.0.iter().any(|entry| entry.way == way) {
            return false;
        }
        self.0.push_back(Entry { way, choice, at: now, done: false });
        true
    }

    /// What was asked for a connection that is there now.
    fn take(&mut self, now: Instant, way: (SocketAddr, SocketAddr)) -> Option<Choice> {
        let fits = |entry: &&mut Entry| entry.way == way && !entry.done && entry.at + KEPT > now;
        let entry = self.0.iter_mut().find(fits)?;
        entry.done = true;
        Some(entry.choice.clone())
    }
}

impl Member {
    /// Puts into force what holds for a connection from there to there: what was asked for it
    /// alone, else what the rules say.
    pub(super) fn enforce(&mut self, now: Instant, id: ConnId, way: (SocketAddr, SocketAddr)) {
        let asked = self.asked.take(now, way);
        let choice = asked.as_ref().unwrap_or_else(|| policy_requests::choice(&self.rules, way.1));
        if let Some(conn) = self.bond.endpoint.connection(id) {
            policy_requests::enforce(now, conn, choice);
        }
    }
}

impl Core {
    /// A client asks for something for one of its connections; nonsense is dropped.
    pub(super) fn take_asked(&mut self, now: Instant, at: usize, text: &[u8]) {
        let Ok((asked, choice)) = Asked::parse(text, &self.config.down) else { return };
        let Some(member) = self.members.get(at) else { return };
        let way = (asked.source, asked.target);
        if !member.owns(&self.network, way.0.ip()) || !member.asked.note(now, way, choice) {
            return;
        }
        // What was said before the SYN is found with it. Only what comes late is looked for.
        if !asked.late {
            return;
        }
        let is_it = |conn: &mut Connection| {
            let subflow = conn.info(now).subflows.into_iter().next();
            subflow.is_some_and(|subflow| (subflow.remote, subflow.local) == way)
        };
        let Self { connections, members, .. } = self;
        let Some(member) = members.get(at) else { return };
        let endpoint = &mut member.bond.endpoint;
        let found = member.conns.iter().find(|(id, relay_target)| match relay_target {
            RelayTarget::Out(index) => connections
                .get(*index)
                .is_some_and(|out| !out.is_connecting() && (out.source, out.target) == way),
            RelayTarget::On => endpoint.connection(**id).is_some_and(is_it),
        });
        if let Some(id) = found.map(|(id, _)| *id) {
            member.enforce(now, id, way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Policies, Rules};

    fn way(port: u16) -> (SocketAddr, SocketAddr) {
        (([10, 81, 0, 16], port).into(), ([192, 0, 2, 1], 443).into())
    }

    #[test]
    fn it_is_kept_for_its_connection_and_not_for_ever() {
        let rules = Rules::compile(&[], &Policies::default(), &Policies::default()).unwrap();
        let choice = || rules.rest().down.clone();
        let (mut book, now) = (Book::default(), Instant(1));
        assert!(book.note(now, way(1), choice()));
        assert!(!book.note(now, way(1), choice()), "said twice");
        assert!(book.take(now, way(2)).is_none());
        assert!(book.take(now, way(1)).is_some());
        assert!(book.take(now, way(1)).is_none(), "it is in force");
        assert!(!book.note(now, way(1), choice()), "said again, late");
        assert!(book.note(now, way(3), choice()));
        assert!(book.take(now + KEPT, way(3)).is_none());
        for port in 0..2000 {
            book.note(now + KEPT, way(10_000 + port), choice());
        }
        assert_eq!(book.0.len(), MAX);
    }
}
