//! The server's configuration.

use super::check::At;
use super::load::{Configuration, Findings};
use super::next::NextConfig;
use super::rule::Policies;
use super::secret::Secret;
use crate::access::{PortRange, Prefix};
use crate::address::{CLIENTS_MAX, ClientNumber, Network, PATHS_MAX};
use crate::enrol::store::Record;
use crate::index::PathIndex;
use crate::keys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tabane_config::quantity::{Rate, Size};
use tabane_config::source_document::Fault;

/// Of one client, connections or flows.
const CONNECTIONS_MAX: usize = 65_536;

/// A server.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// UDP addresses that it listens on.
    pub listen: Vec<SocketAddr>,
    /// `host:port` as clients reach it; for invitations.
    pub public: Vec<String>,
    /// Its private key, base64.
    pub private_key: Option<Secret>,
    /// A file with the same, instead.
    pub private_key_file: Option<PathBuf>,
    /// First address of the /16 inside the tunnels (default 10.81.0.0).
    pub network: Option<Ipv4Addr>,
    /// First address of the /64 inside the tunnels (default fd74:6162:616e:6500::).
    pub network6: Option<Ipv6Addr>,
    /// Clients.
    pub client: Vec<ClientEntry>,
    /// Limits of clients that have none of their own.
    pub limits: ClientLimits,
    /// Where clients may connect to.
    pub access: AccessConfig,
    /// Policies from the server to clients, where a client asks for none.
    pub down: Policies,
    /// The next server, which everything is forwarded to; this one then connects to nobody else.
    pub next: Option<NextConfig>,
    /// Where clients that have joined are remembered.
    pub state: Option<PathBuf>,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// Where Prometheus finds metrics; off unless given.
    pub metrics: Option<SocketAddr>,
    /// The web page; off unless given.
    pub web: Option<SocketAddr>,
    /// A file with the token that changes on the web page need.
    pub web_token_file: Option<PathBuf>,
    /// How long what paths and connections do is kept (`"7 days"`); not recorded unless given.
    pub record: Option<String>,
    /// Where; `tabane_record::usual_folder` if absent.
    pub record_folder: Option<PathBuf>,
    /// Names of clients and destinations are recorded, too.
    pub record_names: bool,
}

/// A client of a server.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ClientEntry {
    /// For people, logs and metrics.
    pub name: String,
    /// Its number, from 1; fixes its inner addresses.
    pub number: u16,
    /// Public keys of its paths, base64, in order.
    pub keys: Vec<String>,
    /// A preshared key, base64.
    pub preshared_key: Option<Secret>,
    /// How it makes itself known, if it makes its own keys; then it has no `keys` here.
    pub invitation: Option<InvitationEntry>,
    /// The keys by which it has joined, as the server remembers them (`crate::enrol::store`).
    #[serde(skip)]
    pub enrolled: Option<Record>,
    /// Its limits; absent: the server's.
    pub limits: Option<ClientLimits>,
    /// Refused while set.
    pub disabled: bool,
}

/// An invitation that was given out.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct InvitationEntry {
    /// Its one-time public key, base64.
    pub(crate) key: String,
    /// The preshared key of its session, base64.
    pub(crate) preshared_key: Secret,
    /// Until when it can be used, seconds since 1970.
    pub expires: u64,
}

/// What a client may use.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ClientLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Flows of datagrams at a time.
    pub udp_flows: usize,
    /// Bytes that its connections may hold, both directions, in the agent and in the kernel's
    /// queues to the outside. Above half of it buffers become small; above all of it new ones are
    /// refused, and those that hold most end. One alone may hold a sixteenth of it received and
    /// half as much to be sent, and never more than 16 MiB and 8 MiB.
    pub buffer: Size,
    /// The same for all clients together (default 512 MiB); only under the server's `[limits]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Size>,
    /// Rate of inner packets in each direction, all its paths together; what exceeds it waits up
    /// to 50 ms and is then dropped.
    pub rate: Option<Rate>,
}

/// Destinations: the longest prefix decides between `allow` and `deny`, then ports.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Prefixes that may be reached although they are private, or denied otherwise.
    pub allow: Vec<String>,
    /// Prefixes that may not be reached.
    pub deny: Vec<String>,
    /// Ports that may not be reached (`25`, `135-139`).
    pub deny_ports: Vec<String>,
    /// Private networks (RFC 1918, unique local, 100.64.0.0/10) may be reached. Like the others,
    /// they may also be opened one by one in `allow`.
    pub private: bool,
    /// The server itself may be reached, at its loopback and its other addresses: whatever
    /// trusts it for them, its own page among it.
    pub loopback: Option<bool>,
    /// Link-local addresses may be reached, and where clouds keep metadata: often the keys of the
    /// machine's account.
    pub metadata: Option<bool>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: vec![([0, 0, 0, 0], 51_820).into()],
            public: Vec::new(),
            private_key: None,
            private_key_file: None,
            network: None,
            network6: None,
            client: Vec::new(),
            limits: ClientLimits::default(),
            access: AccessConfig::default(),
            down: Policies::default(),
            next: None,
            state: None,
            control: None,
            metrics: None,
            web: None,
            web_token_file: None,
            record: None,
            record_folder: None,
            record_names: false,
        }
    }
}

impl Default for ClientLimits {
    fn default() -> Self {
        let buffer = Size(256 << 20);
        Self { connections: 4096, udp_flows: 1024, buffer, total: None, rate: None }
    }
}

impl ServerConfig {
    /// The first inner address of the client with that number.
    #[must_use]
    pub fn client_address(&self, number: u16) -> IpAddr {
        self.inner().path(ClientNumber(number), PathIndex::new(0))[0]
    }

    /// The addresses inside the tunnels.
    #[must_use]
    pub(crate) fn inner(&self) -> Network {
        Network::new(self.network, self.network6)
    }

    fn check_clients(&self, found: &mut Findings) {
        let own = self.key().ok().map(|key| keys::encode(&key.public()));
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let mut numbers: BTreeMap<u16, usize> = BTreeMap::new();
        let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
        for (n, client) in self.client.iter().enumerate() {
            let at: At<'_> = &[&"client", &n];
            found.name(&[at, &[&"name"]].concat(), &client.name);
            found.range(&[at, &[&"number"]].concat(), client.number, 1, CLIENTS_MAX);
            found.preshared(&[at, &[&"preshared_key"]].concat(), client.preshared_key.as_deref());
            if let Some(first) = names.insert(&client.name, n) {
                let message = format!("client {} has the name '{}' too", first + 1, client.name);
                found.fault(Fault::new(&[at, &[&"name"]].concat(), message));
            }
            if let Some(first) = numbers.insert(client.number, n) {
                let of = &self.client[first].name;
                let message = format!("'{of}' has the number {} too", client.number);
                let fault = Fault::new(&[at, &[&"number"]].concat(), message);
                found.fault(fault.help("a number fixes inner addresses: each has its own"));
            }
            if let Some(limits) = &client.limits {
                limits.check(&[at, &[&"limits"]].concat(), found);
                if limits.total.is_some() {
                    let message = "'total' is for all clients together";
                    let fault = Fault::new(&[at, &[&"limits", &"total"]].concat(), message);
                    found.fault(fault.help("total = ... under [limits] of the server"));
                }
            }
            if let Some(invitation) = &client.invitation {
                invitation.check(&[at, &[&"invitation"]].concat(), found);
                if let Some(first) = owners.insert(&invitation.key, n) {
                    let of = &self.client[first].name;
                    let fault = Fault::new(&[at, &[&"invitation"]].concat(), "it is not its own");
                    found.fault(fault.help(format!("'{of}' has this key too: invite one anew")));
                }
                if !client.keys.is_empty() || client.preshared_key.is_some() {
                    let message = "both 'invitation' and 'keys' or 'preshared_key'";
                    let help = "whoever is invited brings its own keys: leave those out here";
                    found.fault(Fault::new(at, message).help(help));
                }
                continue;
            }
            if client.keys.is_empty() || client.keys.len() > PATHS_MAX {
                let (name, count) = (&client.name, client.keys.len());
                let message = format!("'{name}' has {count} keys, allowed are 1 to {PATHS_MAX}");
                found.fault(Fault::new(&[at, &[&"keys"]].concat(), message));
            }
            for (i, key) in client.keys.iter().enumerate() {
                let at = [at, &[&"keys", &i]].concat();
                found.says(&at, keys::public(key).map(drop));
                if let Some(first) = owners.insert(key, n) {
                    let message = format!("'{}' has this key too", self.client[first].name);
                    found.fault(Fault::new(&at, message).help("one key, one path of one client"));
                }
                if own.as_ref() == Some(key) {
                    found.fault(Fault::new(&at, "this is the server's own key"));
                }
            }
        }
    }
}

impl Configuration for ServerConfig {
    const ROLE: &'static str = "server";
    const LISTS: &'static [&'static str] = &[
        "listen",
        "public",
        "client.*.keys",
        "access.allow",
        "access.deny",
        "access.deny_ports",
        "next.server.*.addresses",
        "next.rule.*.destinations",
        "next.rule.*.names",
        "next.rule.*.ports",
    ];
    const KEY: [&'static str; 2] = ["private_key", "private_key_file"];

    fn check(&self, found: &mut Findings) {
        if self.listen.is_empty() {
            let fault = Fault::new(&[&"listen"], "the server listens nowhere");
            found.fault(fault.help("listen = [\"0.0.0.0:51820\"]"));
        }
        let listen = self.listen.iter().enumerate();
        let listen: Vec<_> =
            listen.map(|(n, at)| (vec!["listen".to_owned(), n.to_string()], *at)).collect();
        found.listeners(&listen);
        let pages = [("metrics", self.metrics), ("web", self.web)];
        let pages = pages.into_iter().filter_map(|(key, at)| Some((vec![key.to_owned()], at?)));
        found.listeners(&pages.collect::<Vec<_>>());
        found.page(self.web, self.web_token_file.is_some());
        found.recording(&self.record, &self.record_folder, self.record_names);
        for (n, public) in self.public.iter().enumerate() {
            found.host_port(&[&"public", &n], public);
        }
        found.network(&[], self.network, self.network6);
        if self.client.is_empty() {
            let fault = Fault::new(&[&"client"], "there is no client");
            found.warn(fault.help("`tabane server invite NAME` adds one"));
        }
        self.check_clients(found);
        self.limits.check(&[&"limits"], found);
        found.each::<Prefix>(&[&"access", &"allow"], &self.access.allow);
        found.each::<Prefix>(&[&"access", &"deny"], &self.access.deny);
        found.each::<PortRange>(&[&"access", &"deny_ports"], &self.access.deny_ports);
        self.access.check(found);
        found.policies(&[&"down"], &self.down);
        if let Some(next) = &self.next {
            next.check(found);
        }
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        let Self { private_key_file, next, state, control, web_token_file, .. } = self;
        let own = [private_key_file, state, control, web_token_file, &mut self.record_folder];
        let next = next.iter_mut().flat_map(|next| [&mut next.secret_file, &mut next.state]);
        own.into_iter().chain(next).flatten().collect()
    }

    fn sending(&mut self) -> Vec<&mut Policies> {
        let Self { down, next, .. } = self;
        let next = next.iter_mut().flat_map(|next| {
            let NextConfig { up, rule, .. } = next;
            rule.iter_mut().map(|rule| &mut rule.up).chain([up])
        });
        next.chain([down]).collect()
    }

    fn kept(&mut self) -> Vec<&mut PathBuf> {
        let next = self.next.iter_mut().filter_map(|next| next.state.as_mut());
        self.state.iter_mut().chain(&mut self.record_folder).chain(next).collect()
    }

    fn needed(&self) -> Vec<(&'static str, &Path)> {
        let files = [
            ("private_key_file", &self.private_key_file),
            ("web_token_file", &self.web_token_file),
        ];
        let next = self.next.iter().map(|next| ("next.secret_file", &next.secret_file));
        let files = files.into_iter().chain(next);
        files.filter_map(|(key, file)| Some((key, file.as_deref()?))).collect()
    }

    fn given_key(&self) -> (Option<&str>, Option<&Path>) {
        (self.private_key.as_deref(), self.private_key_file.as_deref())
    }

    fn holds_keys(&self) -> bool {
        let shared =
            |client: &ClientEntry| client.preshared_key.is_some() || client.invitation.is_some();
        let shared = self.client.iter().any(shared);
        self.private_key.is_some()
            || shared
            || self.next.as_ref().is_some_and(|next| next.client().holds_keys())
    }
}

impl InvitationEntry {
    fn check(&self, at: At<'_>, found: &mut Findings) {
        found.says(&[at, &[&"key"]].concat(), keys::public(&self.key).map(drop));
        found.preshared(&[at, &[&"preshared_key"]].concat(), Some(&self.preshared_key));
    }
}

impl AccessConfig {
    /// `private` once opened more than it says.
    fn check(&self, found: &mut Findings) {
        if self.private && self.loopback.is_none() && self.metadata.is_none() {
            let message = "'private' opens private networks alone, not the server itself \
                           (loopback) nor a cloud's metadata";
            let fault = Fault::new(&[&"access", &"private"], message);
            found.warn(fault.help("loopback = false, metadata = false if that is right"));
        }
    }
}

impl ClientLimits {
    fn check(&self, at: At<'_>, found: &mut Findings) {
        found.range(&[at, &[&"connections"]].concat(), self.connections, 1, CONNECTIONS_MAX);
        found.range(&[at, &[&"udp_flows"]].concat(), self.udp_flows, 0, CONNECTIONS_MAX);
        let buffer = &[at, &[&"buffer"]].concat();
        found.range(buffer, self.buffer, Size(1 << 20), Size(64 << 30));
        if let Some(total) = self.total {
            found.range(&[at, &[&"total"]].concat(), total, Size(1 << 20), Size(64 << 30));
        }
    }
}
