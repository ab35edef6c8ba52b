//! What a reload would change, and whether the agent can do so while it runs.

use super::{ClientConfig, PathConfig, ServerConfig};
use crate::index::PathIndex;

/// A part of a client's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientPart {
    /// Name, number and key.
    Identity,
    /// Servers.
    Servers,
    /// Paths; see [`ClientConfig::path_changes`].
    Paths,
    /// Policies and rules.
    Policies,
    /// What connections may hold.
    Buffer,
    /// Where programs connect to, and their login.
    Listeners,
    /// TUN mode.
    Tun,
    /// Hosts behind the client.
    Lan,
    /// Control socket, metrics, web page, and where state is kept.
    Sockets,
    /// Recording.
    Recording,
}

/// A part of a server's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerPart {
    /// Its key and its inner addresses.
    Identity,
    /// Where it listens.
    Listen,
    /// Clients; see [`ServerConfig::client_changes`].
    Clients,
    /// Limits of clients that have none of their own.
    Limits,
    /// Where clients may connect to.
    Access,
    /// Policies.
    Policies,
    /// The next server.
    Next,
    /// What invitations name.
    Public,
    /// Control socket, metrics and web page.
    Sockets,
    /// Recording.
    Recording,
}

/// What happens to a path. Paths are told apart by their place in the file, on which their keys
/// and inner addresses depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathChange {
    /// There was none there.
    Added,
    /// There is none any more.
    Removed,
    /// It leaves elsewhere: its socket must be opened again.
    Moved,
    /// Name, role, cap, quota, MTU or probing: its connections need not notice.
    Adjusted,
}

/// What happens to a client of a server; clients are told apart by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientChange {
    /// It is new, or no longer disabled.
    Added,
    /// It is gone, or disabled now: its connections end.
    Removed,
    /// Its keys are others: its sessions begin anew.
    Rekeyed,
    /// It has changed its keys itself: those before end when their time is over.
    Rotated,
    /// Its name or its limits.
    Adjusted,
}

/// What people are told of the parts that a reload has changed.
///
/// # Errors
/// Those that cannot change without a restart, for people.
pub(crate) fn reloaded<P: Copy>(
    parts: &[P],
    is_live: impl Fn(P) -> bool,
    name: impl Fn(P) -> &'static str,
) -> Result<String, String> {
    let names = |parts: Vec<P>| parts.into_iter().map(&name).collect::<Vec<_>>().join(", ");
    let still: Vec<P> = parts.iter().copied().filter(|part| !is_live(*part)).collect();
    match (still.is_empty(), parts.is_empty()) {
        (false, _) => Err(format!("{} cannot change without a restart", names(still))),
        (true, true) => Ok("nothing has changed".into()),
        (true, false) => Ok(names(parts.to_vec())),
    }
}

impl ClientPart {
    /// Whether it changes without a restart.
    #[must_use]
    pub(crate) fn is_live(self) -> bool {
        !matches!(self, Self::Identity | Self::Tun | Self::Lan | Self::Sockets | Self::Recording)
    }

    /// For people.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "name, number, key or inner addresses",
            Self::Servers => "servers",
            Self::Paths => "paths",
            Self::Policies => "policies",
            Self::Buffer => "buffer",
            Self::Listeners => "front ends",
            Self::Tun => "TUN mode",
            Self::Lan => "the LAN",
            Self::Sockets => "control socket, metrics, web page or state",
            Self::Recording => "recording",
        }
    }
}

impl ServerPart {
    /// Whether it changes without a restart.
    #[must_use]
    pub(crate) fn is_live(self) -> bool {
        !matches!(self, Self::Identity | Self::Listen | Self::Sockets | Self::Recording)
    }

    /// For people.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "key or inner addresses",
            Self::Listen => "listening addresses",
            Self::Clients => "clients",
            Self::Limits => "limits",
            Self::Access => "access",
            Self::Policies => "policies",
            Self::Next => "the next server",
            Self::Public => "public addresses",
            Self::Sockets => "control socket, metrics, web page or state",
            Self::Recording => "recording",
        }
    }
}

impl ClientConfig {
    /// The parts in which `new` differs.
    #[must_use]
    pub(crate) fn changes(&self, new: &Self) -> Vec<ClientPart> {
        let policies = |c: &Self| (c.up.clone(), c.down.clone(), c.rule.clone(), c.keep_roles);
        // Inner addresses, too, are what every connection and the device are made of.
        let inner = |c: &Self| c.server.first().map(|s| (s.network, s.network6));
        let identity = |c: &Self| {
            (c.name.clone(), c.number, c.secret.clone(), c.secret_file.clone(), inner(c))
        };
        let sockets = |c: &Self| {
            let files = [&c.control, &c.web_token_file, &c.state].map(Option::clone);
            (files, c.metrics, c.web)
        };
        let recording = |c: &Self| (c.record.clone(), c.record_folder.clone(), c.record_names);
        let parts = [
            (ClientPart::Identity, identity(self) != identity(new)),
            (ClientPart::Servers, self.server != new.server),
            (ClientPart::Paths, self.path != new.path),
            (ClientPart::Policies, policies(self) != policies(new)),
            (ClientPart::Buffer, self.buffer != new.buffer),
            (ClientPart::Listeners, self.front != new.front),
            (ClientPart::Tun, self.tun != new.tun),
            (ClientPart::Lan, self.lan != new.lan),
            (ClientPart::Sockets, sockets(self) != sockets(new)),
            (ClientPart::Recording, recording(self) != recording(new)),
        ];
        parts.into_iter().filter(|part| part.1).map(|part| part.0).collect()
    }

    /// What happens to paths: place in the file, and what.
    #[must_use]
    pub(crate) fn path_changes(&self, new: &Self) -> Vec<(PathIndex, PathChange)> {
        let outside = |p: &PathConfig| (p.interface.clone(), p.source, p.remote, p.subflows);
        let change = |n: usize| match (self.path.get(n), new.path.get(n)) {
            (None, Some(_)) => Some(PathChange::Added),
            (Some(_), None) => Some(PathChange::Removed),
            (Some(a), Some(b)) if outside(a) != outside(b) => Some(PathChange::Moved),
            (Some(a), Some(b)) if a != b => Some(PathChange::Adjusted),
            _ => None,
        };
        let count = self.path.len().max(new.path.len());
        (0..count).filter_map(|n| Some((PathIndex::new(n), change(n)?))).collect()
    }
}

impl ServerConfig {
    /// The parts in which `new` differs.
    #[must_use]
    pub(crate) fn changes(&self, new: &Self) -> Vec<ServerPart> {
        let identity = |c: &Self| (c.private_key.clone(), c.private_key_file.clone(), c.inner());
        let sockets = |c: &Self| {
            let files = [&c.control, &c.web_token_file, &c.state].map(Option::clone);
            (files, c.metrics, c.web)
        };
        let recording = |c: &Self| (c.record.clone(), c.record_folder.clone(), c.record_names);
        let parts = [
            (ServerPart::Identity, identity(self) != identity(new)),
            (ServerPart::Listen, self.listen != new.listen),
            (ServerPart::Clients, self.client != new.client),
            (ServerPart::Limits, self.limits != new.limits),
            (ServerPart::Access, self.access != new.access),
            (ServerPart::Policies, self.down != new.down),
            (ServerPart::Next, self.next != new.next),
            (ServerPart::Public, self.public != new.public),
            (ServerPart::Sockets, sockets(self) != sockets(new)),
            (ServerPart::Recording, recording(self) != recording(new)),
        ];
        parts.into_iter().filter(|part| part.1).map(|part| part.0).collect()
    }

    /// Takes from `old` what cannot change while the server runs ([`ServerPart::is_live`]).
    pub(crate) fn keep_fixed(&mut self, old: &Self) {
        self.private_key.clone_from(&old.private_key);
        self.private_key_file.clone_from(&old.private_key_file);
        (self.network, self.network6) = (old.network, old.network6);
        self.listen.clone_from(&old.listen);
        self.state.clone_from(&old.state);
        self.control.clone_from(&old.control);
        (self.metrics, self.web) = (old.metrics, old.web);
        self.web_token_file.clone_from(&old.web_token_file);
        self.record.clone_from(&old.record);
        self.record_folder.clone_from(&old.record_folder);
        self.record_names = old.record_names;
    }

    /// What happens to clients: number, and what, in order of numbers.
    #[must_use]
    pub(crate) fn client_changes(&self, new: &Self) -> Vec<(u16, ClientChange)> {
        let enabled = |config: &'_ Self| -> std::collections::BTreeMap<u16, usize> {
            let clients = config.client.iter().enumerate();
            let there = |c: &super::ClientEntry| !c.disabled && !c.keys.is_empty();
            clients.filter(|(_, c)| there(c)).map(|(n, c)| (c.number, n)).collect()
        };
        let (before, after) = (enabled(self), enabled(new));
        let numbers: std::collections::BTreeSet<u16> =
            before.keys().chain(after.keys()).copied().collect();
        let change = |number: &u16| match (before.get(number), after.get(number)) {
            (None, Some(_)) => Some(ClientChange::Added),
            (Some(_), None) => Some(ClientChange::Removed),
            (Some(a), Some(b)) => {
                let (a, b) = (&self.client[*a], &new.client[*b]);
                let keys = a.keys == b.keys && a.preshared_key == b.preshared_key;
                let same = a.invitation == b.invitation && a.invitation.is_some();
                let rotated = same && a.enrolled != b.enrolled;
                match (keys, a == b) {
                    _ if rotated => Some(ClientChange::Rotated),
                    (false, _) => Some(ClientChange::Rekeyed),
                    (true, false) => Some(ClientChange::Adjusted),
                    (true, true) => None,
                }
            }
            (None, None) => None,
        };
        numbers.iter().filter_map(|number| Some((*number, change(number)?))).collect()
    }
}
