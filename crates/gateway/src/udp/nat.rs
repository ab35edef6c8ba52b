//! At a server that forwards: the datagrams of its clients go on from one inner address of the next
//! bond, each source address and port of a client as a port of its own; echo identifiers alike. At
//! a client with hosts behind it the same is done for them.
//!
//! Endpoint-independent mapping as in [`super::flows`], with the same limits and times. What comes
//! back is not filtered: the last server of the chain does so.

use super::by_use::ByUse;
use super::flows::{IDLE, IDLE_NAMES, IN_USE, Key, NAMES_PORT, Refused};
use super::packet::{self, Back, HEADROOM};
use crate::address::ClientNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use tabane_engine::Instant;

/// The datagrams of all clients.
pub(crate) struct Nat {
    entries: BTreeMap<Key, Entry>,
    /// Whose a port is, or an identifier.
    owners: BTreeMap<(bool, u16), Key>,
    /// When to look whether an entry is idle.
    timers: BTreeSet<(Instant, Key)>,
    by_use: ByUse<Group, Key>,
    all_by_use: ByUse<(), Key>,
    /// A limit is for each host of a client.
    each_host: bool,
    first_port: u16,
    next_port: u16,
    max: usize,
    buffer: Vec<u8>,
}

/// Who has a limit of sources: a client, or one of the hosts behind it.
type Group = (ClientNumber, Option<IpAddr>);

/// Addresses of both sides, IPv4 and IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sides {
    /// Ours in the bond to the next server.
    pub(crate) own: [IpAddr; 2],
    /// Those of the server itself: as clients know it, and as the next server is known.
    pub(crate) service: [[IpAddr; 2]; 2],
}

/// What becomes of one source of a client.
struct Entry {
    port: u16,
    last: Instant,
    /// In `timers`.
    timer: Instant,
    names_only: bool,
}

impl Nat {
    /// At most `max` sources, with ports from `first_port` on.
    #[must_use]
    pub(crate) fn new(first_port: u16, max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            owners: BTreeMap::new(),
            timers: BTreeSet::new(),
            by_use: ByUse::new(),
            all_by_use: ByUse::new(),
            each_host: false,
            first_port,
            next_port: first_port,
            max: max.min(usize::from(u16::MAX - first_port)),
            buffer: Vec::new(),
        }
    }

    /// The same, where the limit of [`Nat::forward`] is for each host.
    #[must_use]
    pub(crate) fn of_hosts(first_port: u16, max: usize) -> Self {
        Self { each_host: true, ..Self::new(first_port, max) }
    }

    /// Where a client's packet goes, before anything else is asked of it.
    #[must_use]
    pub(crate) fn destination(packet: &[u8]) -> Option<SocketAddr> {
        let (_, destination, _) = Key::of(ClientNumber(0), packet).ok()?;
        Some(destination)
    }

    /// A client's packet as it goes on, and where to. `limit` is how many sources that client may
    /// have; at its limit the one that is idle longest makes room, if that is for 5 s.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn forward(
        &mut self,
        now: Instant,
        (client, limit): (ClientNumber, usize),
        sides: &Sides,
        packet: &[u8],
    ) -> Result<(SocketAddr, &mut [u8]), Refused> {
        let (key, destination, bytes) = Key::of(client, packet)?;
        let port = self.port(now, key, limit)?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.last = now;
            entry.names_only &= destination.port() == NAMES_PORT;
        }
        let to = SocketAddr::new(sides.exchange(destination.ip(), 0), destination.port());
        let own = sides.own[usize::from(to.is_ipv6())];
        self.buffer.clear();
        self.buffer.resize(HEADROOM, 0);
        self.buffer.extend_from_slice(bytes);
        let buffer = &mut self.buffer;
        let start = match key.echo {
            false => packet::put_udp(buffer, SocketAddr::new(own, port), to),
            true => packet::put_echo_request(buffer, own, to.ip(), port),
        };
        let start = start.ok_or(Refused::NoDatagram)?;
        Ok((to, &mut self.buffer[start..]))
    }

    /// What has come back, as its client gets it; `None` if it is nobody's.
    pub(crate) fn backwards(
        &mut self,
        sides: &Sides,
        packet: &[u8],
    ) -> Option<(ClientNumber, &mut [u8])> {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.resize(HEADROOM, 0);
        let ours = |address: IpAddr| sides.own.contains(&address);
        let (key, start) = match packet::parse_back(packet)? {
            Back::Datagram { source, destination, payload } => {
                let port = destination.port();
                let key = self.owners.get(&(false, port)).filter(|_| ours(destination.ip()))?;
                buffer.extend_from_slice(payload);
                let from = SocketAddr::new(sides.exchange(source.ip(), 1), source.port());
                (key, packet::put_udp(buffer, from, key.source)?)
            }
            Back::Reply { source, destination, identifier, message } => {
                let key = self.owners.get(&(true, identifier)).filter(|_| ours(destination))?;
                buffer.extend_from_slice(message);
                let Key { source: asker, .. } = key;
                (key, packet::put_echo_reply(buffer, source, asker.ip(), asker.port())?)
            }
            Back::Failed { source, destination, echo, why } => {
                let key = self.owners.get(&(echo, source.port())).filter(|_| ours(source.ip()))?;
                let asker = key.source;
                *buffer = match echo {
                    false => packet::unreachable(asker, destination, why)?,
                    true => {
                        let (from, to) = (asker.ip(), destination.ip());
                        packet::echo_unreachable(from, to, asker.port(), why)?
                    }
                };
                (key, 0)
            }
        };
        Some((key.client, &mut self.buffer[start..]))
    }

    /// Forgets sources that are idle.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            let Some(entry) = self.entries.get_mut(&key) else { return };
            let end = entry.last + if entry.names_only { IDLE_NAMES } else { IDLE };
            if end <= now {
                self.remove(key);
            } else {
                entry.timer = end;
                self.timers.remove(&(at, key));
                self.timers.insert((end, key));
            }
        }
    }

    /// Forgets a client.
    pub(crate) fn forget(&mut self, client: ClientNumber) {
        for key in self.of(client).map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key);
        }
    }

    /// Sources there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn of(&self, client: ClientNumber) -> impl Iterator<Item = (&Key, &Entry)> {
        let first = Key { client, source: ([0, 0, 0, 0], 0).into(), echo: false };
        self.entries.range(first..).take_while(move |(key, _)| key.client == client)
    }

    /// The port of a source, a new one if need be.
    fn port(&mut self, now: Instant, key: Key, limit: usize) -> Result<u16, Refused> {
        if let Some(entry) = self.entries.get(&key) {
            return Ok(entry.port);
        }
        let group = self.group(key);
        let last = |key| self.entries.get(&key).map_or(Instant::ZERO, |entry: &Entry| entry.last);
        let oldest = if self.by_use.count(group) >= limit {
            Some(self.by_use.oldest(group, last).ok_or(Refused::Full)?)
        } else if self.entries.len() >= self.max {
            Some(self.all_by_use.oldest((), last).ok_or(Refused::Full)?)
        } else {
            None
        };
        if let Some((last, oldest)) = oldest {
            if now.saturating_since(last) < IN_USE {
                return Err(Refused::Full);
            }
            self.remove(oldest);
        }
        // There are more ports than entries, so one is free.
        while self.owners.contains_key(&(key.echo, self.next_port)) {
            self.step();
        }
        let port = self.next_port;
        self.step();
        let timer = now + IDLE_NAMES;
        self.entries.insert(key, Entry { port, last: now, timer, names_only: true });
        self.owners.insert((key.echo, port), key);
        self.by_use.insert(now, group, key);
        self.all_by_use.insert(now, (), key);
        self.timers.insert((timer, key));
        Ok(port)
    }

    fn step(&mut self) {
        self.next_port = self.next_port.checked_add(1).unwrap_or(self.first_port);
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.owners.remove(&(key.echo, entry.port));
            self.timers.remove(&(entry.timer, key));
            self.by_use.remove(self.group(key), key);
            self.all_by_use.remove((), key);
        }
    }

    fn group(&self, key: Key) -> Group {
        (key.client, self.each_host.then_some(key.source.ip()))
    }
}

impl Sides {
    /// An address, unless it is that of the server itself on side `from`, which has another one on
    /// the other side.
    fn exchange(&self, address: IpAddr, from: usize) -> IpAddr {
        let own = self.service[from].iter().position(|own| *own == address);
        own.map_or(address, |family| self.service[1 - from][family])
    }
}

#[cfg(test)]
mod tests;
