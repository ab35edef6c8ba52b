//! What clients ask for single connections, kept until the connection is there.

use super::Core;
use super::client_session::ClientSession;
use crate::config::Choice;
use crate::index::ClientIndex;
use crate::policy_requests::{self, PolicyOverride};
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::{ConnId, Duration, Instant};

/// Of one client: the newest last, and forgotten after [`KEPT`] or when there are more than
/// [`MAX`].
#[derive(Default)]
pub(super) struct OverrideCache(VecDeque<Entry>);

struct Entry {
    /// From where, to where.
    four_tuple: (SocketAddr, SocketAddr),
    choice: Choice,
    at: Instant,
    /// In force: whoever repeats it has said it.
    done: bool,
}

/// A connection that is asked for comes within this time, or not at all.
const KEPT: Duration = Duration::from_secs(30);
const MAX: usize = 1024;

impl OverrideCache {
    /// Notes it; whether it is new.
    fn note(&mut self, now: Instant, four_tuple: (SocketAddr, SocketAddr), choice: Choice) -> bool {
        while self.0.front().is_some_and(|entry| entry.at + KEPT <= now) || self.0.len() >= MAX {
            self.0.pop_front();
        }
        if self.0.iter().any(|entry| entry.four_tuple == four_tuple) {
            return false;
        }
        self.0.push_back(Entry { four_tuple, choice, at: now, done: false });
        true
    }

    /// What was asked for a connection that is there now.
    fn take(&mut self, now: Instant, four_tuple: (SocketAddr, SocketAddr)) -> Option<Choice> {
        let fits = |entry: &&mut Entry| {
            entry.four_tuple == four_tuple && !entry.done && entry.at + KEPT > now
        };
        let entry = self.0.iter_mut().find(fits)?;
        entry.done = true;
        Some(entry.choice.clone())
    }
}

impl ClientSession {
    /// Puts into force what holds for a connection from there to there: what was asked for it
    /// alone, else what the rules say.
    pub(super) fn enforce(
        &mut self,
        now: Instant,
        id: ConnId,
        four_tuple: (SocketAddr, SocketAddr),
    ) {
        let policy_override = self.policy_override.take(now, four_tuple);
        let choice = policy_override
            .as_ref()
            .unwrap_or_else(|| policy_requests::choice(&self.rules, four_tuple.1));
        if let Some(conn) = self.bond.endpoint.connection(id) {
            policy_requests::enforce(now, conn, choice);
        }
    }
}

impl Core {
    /// A client asks for something for one of its connections; nonsense is dropped.
    pub(super) fn take_policy_override(&mut self, now: Instant, at: ClientIndex, text: &[u8]) {
        let Ok((policy_override, choice)) = PolicyOverride::parse(text, &self.config.down) else {
            return;
        };
        let Some(session) = self.client_sessions.get(at) else { return };
        let four_tuple = (policy_override.source, policy_override.target);
        if !session.owns(&self.network, four_tuple.0.ip())
            || !session.policy_override.note(now, four_tuple, choice)
        {
            return;
        }
        // What was said before the SYN is found with it. Only what comes late is looked for.
        if !policy_override.late {
            return;
        }
        let (source, target) = four_tuple;
        let id = session.bond.endpoint.connection_of(target, source);
        let Some(id) = id.filter(|id| session.conns.contains(id)) else { return };
        if self.carried.get((at, id)).is_some_and(|session| session.connected) {
            session.enforce(now, id, four_tuple);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Policies, Rules};

    fn four_tuple(port: u16) -> (SocketAddr, SocketAddr) {
        (([10, 81, 0, 16], port).into(), ([192, 0, 2, 1], 443).into())
    }

    #[test]
    fn it_is_kept_for_its_connection_and_not_for_ever() {
        let rules = Rules::compile(&[], &Policies::default(), &Policies::default()).unwrap();
        let choice = || rules.rest().down.clone();
        let (mut overrides, now) = (OverrideCache::default(), Instant(1));
        assert!(overrides.note(now, four_tuple(1), choice()));
        assert!(!overrides.note(now, four_tuple(1), choice()), "said twice");
        assert!(overrides.take(now, four_tuple(2)).is_none());
        assert!(overrides.take(now, four_tuple(1)).is_some());
        assert!(overrides.take(now, four_tuple(1)).is_none(), "it is in force");
        assert!(!overrides.note(now, four_tuple(1), choice()), "said again, late");
        assert!(overrides.note(now, four_tuple(3), choice()));
        assert!(overrides.take(now + KEPT, four_tuple(3)).is_none());
        for port in 0..2000 {
            overrides.note(now + KEPT, four_tuple(10_000 + port), choice());
        }
        assert_eq!(overrides.0.len(), MAX);
    }
}
