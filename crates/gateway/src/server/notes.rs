//! What a server tells of its clients: they come and go, their paths do, and handshakes are
//! refused. What strangers cause is counted and told once in [`REFUSED_EVERY`], however much it is.

use super::Core;
use crate::access::Denied;
use crate::index::{ClientIndex, PathIndex};
use crate::model::EventKind;
use crate::path::PathEvent;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{Bad, Opened};

/// What has happened to clients since it was last told.
#[derive(Default)]
pub(super) struct Notes {
    /// Member, path and event. Told after every round, in which few things happen; what is beyond
    /// [`PATHS_NOTED`] is not told.
    paths: Vec<(ClientIndex, PathIndex, PathNote)>,
    refused: BTreeMap<(Why, Option<ClientIndex>), (u64, SocketAddr)>,
    next_refused: Instant,
    /// Connections beyond the limit of their client, and when they are told next.
    turned_away: BTreeMap<ClientIndex, u64>,
    next_turned_away: Instant,
    /// What clients wanted to connect to and may not reach, by the rule that says so: how often,
    /// and when it is told next.
    denied: BTreeMap<(ClientIndex, Denied), (u64, Instant)>,
}

/// A path of a client begins or ceases to work.
pub(super) enum PathNote {
    Up,
    Down(String),
}

/// Why a handshake came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Why {
    /// Nobody's key.
    Unknown,
    /// Not made for our key, or damaged.
    NotForUs,
    /// Replayed, or by a clock that was set back.
    Old,
    /// Too many.
    Load,
    /// No handshake at all.
    Malformed,
}

const PATHS_NOTED: usize = 1024;
/// Between two events about the same.
const REFUSED_EVERY: Duration = Duration::from_secs(10);
/// The same of what a client may not reach: programs try again for as long as they run.
const DENIED_EVERY: Duration = Duration::from_secs(600);
/// Kinds of refusals, by client, that are counted at a time; more are not told.
const REFUSED_MAX: usize = 64;
/// The first byte of the first message of a handshake.
const INITIATION: u8 = 1;

impl Notes {
    /// Something happened to a path of a member.
    pub(super) fn path(&mut self, at: ClientIndex, path: PathIndex, event: &PathEvent) {
        let note = match event {
            PathEvent::Up => PathNote::Up,
            PathEvent::Down(reason) => PathNote::Down(reason.clone()),
            PathEvent::Mtu(_)
            | PathEvent::Announced(_)
            | PathEvent::AskedRole(_)
            | PathEvent::TooBig(_) => return,
        };
        if self.paths.len() < PATHS_NOTED {
            self.paths.push((at, path, note));
        }
    }

    /// A client asked for more connections than it may have.
    pub(super) fn turned_away(&mut self, at: ClientIndex) {
        *self.turned_away.entry(at).or_default() += 1;
    }

    /// A client wanted what it may not reach. Told by the rule: a journal is no list of where
    /// clients go.
    pub(super) fn denied(&mut self, at: ClientIndex, why: Denied) {
        let space = self.denied.len() < REFUSED_MAX;
        match self.denied.get_mut(&(at, why)) {
            Some((count, _)) => *count += 1,
            None if space => {
                self.denied.insert((at, why), (1, Instant::ZERO));
            }
            None => {}
        }
    }

    /// A datagram came to nothing, of a member if one is known by it.
    pub(super) fn opened(
        &mut self,
        (from, session): (SocketAddr, Option<ClientIndex>),
        datagram: &[u8],
        opened: Opened,
        stranger: bool,
    ) {
        let Opened::Bad(bad) = opened else { return };
        let handshake = datagram.first() == Some(&INITIATION);
        let why = match bad {
            Bad::Timestamp => Why::Old,
            Bad::UnderLoad => Why::Load,
            Bad::Unauthentic if handshake && stranger => Why::Unknown,
            Bad::Unauthentic if handshake => Why::NotForUs,
            Bad::Malformed => Why::Malformed,
            _ => return,
        };
        let space = self.refused.len() < REFUSED_MAX;
        match self.refused.get_mut(&(why, session)) {
            Some(known) => *known = (known.0 + 1, from),
            None if space => {
                self.refused.insert((why, session), (1, from));
            }
            None => {}
        }
    }
}

impl Core {
    /// Tells what has happened to clients.
    pub(super) fn tell_notes(&mut self, now: Instant) {
        for (at, path, note) in std::mem::take(&mut self.client_sessions.notes.paths) {
            let remote = self.client_sessions.four_tuple(at, path).map(|at| at.remote);
            let Some(session) = self.client_sessions.get(at) else { continue };
            let (client, name) = (session.name.clone(), format!("{}/{path}", session.name));
            let of = (Some(client.as_str()), Some(name.as_str()));
            let (there, was) = (session.is_there(), std::mem::take(&mut session.was_there));
            session.was_there = there;
            match note {
                PathNote::Up => {
                    if there && !was {
                        let text = format!("{client} is connected");
                        self.event_log.add(now, EventKind::ClientConnected, (of.0, None), text);
                    }
                    let from = remote.map(|from| format!(" from {from}")).unwrap_or_default();
                    self.event_log.add(now, EventKind::PathUp, of, format!("{name} works{from}"));
                }
                PathNote::Down(reason) => {
                    self.event_log.add(now, EventKind::PathDown, of, format!("{name}: {reason}"));
                    if was && !there {
                        let text = format!("{client} is gone: none of its paths works");
                        self.event_log.add(now, EventKind::ClientGone, (of.0, None), text);
                    }
                }
            }
        }
        self.tell_turned_away(now);
        self.tell_denied(now);
        let notes = &mut self.client_sessions.notes;
        if notes.refused.is_empty() || now < notes.next_refused {
            return;
        }
        notes.next_refused = now + REFUSED_EVERY;
        for ((why, at), (count, from)) in std::mem::take(&mut notes.refused) {
            let client = at.and_then(|at| Some(self.client_sessions.get(at)?.name.clone()));
            let of = client.as_deref().map(|name| format!(" of {name}")).unwrap_or_default();
            // Whoever scans ports is no client that fails.
            let (kind, what) = match why {
                Why::Malformed => (EventKind::DatagramDropped, "datagrams dropped"),
                _ => (EventKind::HandshakeRefused, "handshakes refused"),
            };
            let text = format!("{count} {what}{of}: {}; last from {from}", why.text());
            self.event_log.add(now, kind, (client.as_deref(), None), text);
        }
    }

    fn tell_denied(&mut self, now: Instant) {
        let mut due = Vec::new();
        self.client_sessions.notes.denied.retain(|(at, why), (count, next)| {
            if now < *next {
                return true;
            }
            *next = now + DENIED_EVERY;
            let told = std::mem::take(count);
            due.extend((told > 0).then_some((*at, *why, told)));
            told > 0
        });
        for (at, why, count) in due {
            let Some(session) = self.client_sessions.get(at) else { continue };
            let client = session.name.clone();
            let text = format!(
                "connections of {client} refused ({count}): {why}, by [access] of this server"
            );
            self.event_log.add(now, EventKind::AccessDenied, (Some(&client), None), text);
        }
    }

    fn tell_turned_away(&mut self, now: Instant) {
        let notes = &mut self.client_sessions.notes;
        if notes.turned_away.is_empty() || now < notes.next_turned_away {
            return;
        }
        notes.next_turned_away = now + REFUSED_EVERY;
        for (at, count) in std::mem::take(&mut notes.turned_away) {
            let Some(session) = self.client_sessions.get(at) else { continue };
            let (client, most) = (session.name.clone(), session.limits.connections);
            let text = format!(
                "{client} has all the connections that it may have ({most}): {count} more refused"
            );
            self.event_log.add(now, EventKind::Exhausted, (Some(&client), None), text);
        }
    }
}

impl Why {
    fn text(self) -> &'static str {
        match self {
            Self::Unknown => {
                "no client has such a key (it was removed, is disabled, or means another server)"
            }
            Self::NotForUs => "not made for this server's key, or damaged on the way",
            Self::Old => "older than the last one: replayed, or the client's clock was set back",
            Self::Load => "too many at once",
            Self::Malformed => "no WireGuard messages",
        }
    }
}
