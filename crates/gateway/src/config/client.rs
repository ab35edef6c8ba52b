//! The client's configuration.

use super::check::At;
use super::lan::LanConfig;
use super::load::{Configuration, Findings};
use super::matching::{RuleError, Rules};
use super::rule::{Policies, Rule};
use super::secret::Secret;
use crate::access::Prefix;
use crate::address::{CLIENTS_MAX, Network, PATHS_MAX};
use crate::keys::{self, Key, KeyError};
use crate::model::Role;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tabane_config::quantity::{Rate, Size, Time};
use tabane_config::source_document::Fault;
use tabane_engine::Duration;

/// The least that IPv6 asks of a link (RFC 8200 section 5).
const MTU_MIN: u16 = 1280;
/// An outer packet has 65535 bytes at most; the rest is headers, WireGuard's among them.
const MTU_MAX: u16 = 65_400;

/// A client.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// Its name at the server.
    pub name: String,
    /// Its number at the server (`address::ClientNumber`).
    pub number: u16,
    /// Base64 of the 32 bytes that the private keys of its paths derive from (`keys`).
    pub secret: Option<Secret>,
    /// A file with the same, instead.
    pub secret_file: Option<PathBuf>,
    /// Servers, tried in this order.
    pub server: Vec<ServerEntry>,
    /// Paths in the order of the file (`[[path]]`); at most `address::PATHS_MAX`.
    pub path: Vec<PathConfig>,
    /// Front ends.
    pub front: ListenerConfig,
    /// TUN mode.
    pub tun: Option<TunConfig>,
    /// Roles of paths are as configured here, whatever the server asks for.
    pub keep_roles: bool,
    /// Hosts behind the client.
    pub lan: Option<LanConfig>,
    /// Policies from the client to the server.
    pub up: Policies,
    /// Policies from the server to the client.
    pub down: Policies,
    /// Traffic with policies of its own.
    pub rule: Vec<Rule>,
    /// Bytes that connections of programs may hold in the agent, all together (default 256 MiB).
    /// Above half of it they share what is left; no connection ends for it.
    pub buffer: Option<Size>,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// Where Prometheus finds metrics; off unless given.
    pub metrics: Option<SocketAddr>,
    /// The web page; off unless given.
    pub web: Option<SocketAddr>,
    /// A file with the token that changes on the web page need.
    pub web_token_file: Option<PathBuf>,
    /// Where quotas are remembered.
    pub state: Option<PathBuf>,
    /// How long what paths and connections do is kept (`"7 days"`); not recorded unless given.
    pub record: Option<String>,
    /// Where; `tabane_record::usual_folder` if absent.
    pub record_folder: Option<PathBuf>,
    /// Destinations are recorded, too.
    pub record_names: bool,
}

/// A server of a client.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ServerEntry {
    /// `host:port`, several for one server with several addresses.
    pub addresses: Vec<String>,
    /// Its public key, base64.
    pub public_key: String,
    /// A preshared key, base64.
    pub preshared_key: Option<Secret>,
    /// How the keys of paths derive from the secret: 1 (if absent) or 2 ([`crate::keys`]).
    pub key_version: Option<u8>,
    /// The secret of an invitation that was not used yet, base64: the agent joins with it when no
    /// path works.
    pub enrolment: Option<Secret>,
    /// First address of the /16 inside its tunnels, as the server has it (default 10.81.0.0).
    pub network: Option<Ipv4Addr>,
    /// First address of the /64 inside its tunnels (default fd74:6162:616e:6500::).
    pub network6: Option<Ipv6Addr>,
}

/// A path that is slower takes seconds for what opens a connection, and its probes pass all the
/// same: nobody would know that it is of no use.
const CAP_MIN: Rate = Rate(8_000);

/// Whether a path may be capped to this; the error is for people.
pub(crate) fn check_cap(bps: u64) -> Result<(), String> {
    if bps >= CAP_MIN.0 {
        return Ok(());
    }
    let cap = Rate(bps);
    Err(format!(
        "a cap of {cap} leaves nothing to use: the least is {CAP_MIN}; role never leaves a path \
         unused"
    ))
}

/// A path of a client.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct PathConfig {
    /// Its name; the interface's if absent.
    pub name: Option<String>,
    /// The interface that it leaves by.
    pub interface: Option<String>,
    /// The source address that it leaves from.
    pub source: Option<IpAddr>,
    /// Where this path finds the server, if not at the server's own addresses.
    pub remote: Option<SocketAddr>,
    /// What it may be used for.
    pub role: Role,
    /// Subflows of a connection on it; the largest number of all paths holds for each of them.
    pub subflows: Option<u8>,
    /// Rate caps.
    pub cap_up: Option<Rate>,
    /// See `cap_up`.
    pub cap_down: Option<Rate>,
    /// Bytes in both directions that it may carry in a period.
    pub quota: Option<Size>,
    /// The quota's period: `day`, `month` (the default), or a number of days.
    pub quota_period: Option<String>,
    /// Largest inner packet; absent: probed.
    pub mtu: Option<u16>,
    /// Between probes while connections are open (default 250 ms).
    pub probe: Option<Time>,
}

/// Front ends that need no privilege.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerConfig {
    /// SOCKS5 listens here.
    pub socks5: Vec<SocketAddr>,
    /// HTTP CONNECT listens here.
    pub http: Vec<SocketAddr>,
    /// `user:password` that both ask for.
    pub login: Option<Secret>,
}

/// TUN mode: the host's packets, or those to some prefixes.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct TunConfig {
    /// The device (`tabane0`).
    pub name: Option<String>,
    /// Prefixes that are routed into it; `0.0.0.0/0` and `::/0` for the whole host. Nothing else
    /// of the host is touched.
    pub routes: Vec<String>,
    /// Drop what would leave beside the tunnel, from the start of the client to its orderly end.
    pub kill_switch: bool,
    /// With the kill switch: networks that the host is in go beside the tunnel if they are in one
    /// of these prefixes (absent: the private ones, `tun::host::LOCAL_NETWORKS`).
    pub local_networks: Option<Vec<String>>,
    /// Answer names through the tunnel at this address, and make it the host's resolver.
    pub dns: bool,
    /// Routing table and mark (defaults in `docs/configuring.md`).
    pub table: Option<u32>,
    /// See `table`.
    pub mark: Option<u32>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            number: 1,
            secret: None,
            secret_file: None,
            server: Vec::new(),
            path: Vec::new(),
            front: ListenerConfig::default(),
            tun: None,
            keep_roles: false,
            lan: None,
            up: Policies::default(),
            down: Policies::default(),
            rule: Vec::new(),
            buffer: None,
            control: None,
            metrics: None,
            web: None,
            web_token_file: None,
            state: None,
            record: None,
            record_folder: None,
            record_names: false,
        }
    }
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self { socks5: vec![([127, 0, 0, 1], 1080).into()], http: Vec::new(), login: None }
    }
}

/// The device of a client that carries for hosts behind it, and for nobody else.
static WITHOUT_ROUTES: TunConfig = TunConfig {
    name: None,
    routes: Vec::new(),
    kill_switch: false,
    local_networks: None,
    dns: false,
    table: None,
    mark: None,
};

impl ClientConfig {
    /// The TUN device that the client needs, if it needs one.
    pub(crate) fn device(&self) -> Option<&TunConfig> {
        self.tun.as_ref().or(self.lan.as_ref().map(|_| &WITHOUT_ROUTES))
    }

    /// The policies of all traffic.
    ///
    /// # Errors
    /// `RuleError`; never for a configuration that was read.
    pub(crate) fn rules(&self) -> Result<Rules, RuleError> {
        Rules::compile(&self.rule, &self.up, &self.down)
    }

    /// All but what programs and people connect to.
    pub(super) fn check_bond(&self, found: &mut Findings) {
        if !self.name.is_empty() {
            found.name(&[&"name"], &self.name);
        }
        found.range(&[&"number"], self.number, 1, CLIENTS_MAX);
        self.check_servers(found);
        self.check_paths(found);
        found.policies(&[&"up"], &self.up);
        found.policies_of_peer(&[&"down"], &self.down);
        found.rules(&self.rule);
    }

    fn check_paths(&self, found: &mut Findings) {
        if self.path.is_empty() {
            let help = "add [[path]] with interface = \"eth0\", one for each link";
            found.fault(Fault::new(&[&"path"], "there is no path").help(help));
        }
        if self.path.len() > PATHS_MAX {
            let message = format!("there are {} paths, allowed are {PATHS_MAX}", self.path.len());
            found.fault(Fault::new(&[&"path", &PATHS_MAX], message));
        }
        let mut labels: Vec<&str> = Vec::new();
        for (n, path) in self.path.iter().enumerate() {
            path.check(&[&"path", &n], found);
            let unbound = path.interface.is_none() && path.source.is_none();
            if unbound && self.path.len() > 1 {
                let help = "only a path that is alone may leave it to the host's routes";
                let message = "neither 'interface' nor 'source': which link is it?";
                found.fault(Fault::new(&[&"path", &n], message).help(help));
            } else if labels.contains(&path.label()) {
                let message = format!("there are two paths '{}'", path.label());
                let fault = Fault::new(&[&"path", &n, &"name"], message);
                found.fault(fault.help("give each a 'name' of its own"));
            }
            labels.push(path.label());
        }
        if !self.path.is_empty() && self.path.iter().all(|path| path.role == Role::Never) {
            found.warn(Fault::new(&[&"path", &0, &"role"], "no path may be used"));
        }
    }

    fn check_servers(&self, found: &mut Findings) {
        if self.server.is_empty() {
            let help = "`tabane server invite NAME` at the server, then `tabane client join` here";
            found.fault(Fault::new(&[&"server"], "there is no server").help(help));
        }
        for (n, server) in self.server.iter().enumerate() {
            if server.addresses.is_empty() {
                let fault = Fault::new(&[&"server", &n], "a server without 'addresses'");
                found.fault(fault.help("addresses = [\"vpn.example.org:51820\"]"));
            }
            for (i, address) in server.addresses.iter().enumerate() {
                found.host_port(&[&"server", &n, &"addresses", &i], address);
            }
            let key = keys::public(&server.public_key).map(drop);
            found.says(&[&"server", &n, &"public_key"], key);
            let preshared = server.preshared_key.as_deref();
            found.preshared(&[&"server", &n, &"preshared_key"], preshared);
            found.network(&[&"server", &n], server.network, server.network6);
            server.check_keys(&[&"server", &n], found);
        }
    }

    fn check_listeners(&self, found: &mut Findings) {
        let mut all = Vec::new();
        for (key, list) in [("socks5", &self.front.socks5), ("http", &self.front.http)] {
            for (n, address) in list.iter().enumerate() {
                all.push((vec!["front".to_owned(), key.to_owned(), n.to_string()], *address));
                if self.front.login.is_none() && !address.ip().to_canonical().is_loopback() {
                    let message = format!("who reaches {address} may use this bond");
                    let fault = Fault::new(&[&"front", &key, &n], message);
                    found.warn(fault.help("add login = \"user:password\" under [front]"));
                }
            }
        }
        if all.is_empty() && self.device().is_none() {
            let fault = Fault::new(&[&"front"], "no front end and no TUN device: nothing to carry");
            found.warn(fault.help("add socks5 = [\"127.0.0.1:1080\"] under [front]"));
        }
        let pages = [("metrics", self.metrics), ("web", self.web)];
        let pages = pages.into_iter().filter_map(|(key, at)| Some((vec![key.to_owned()], at?)));
        all.extend(pages);
        found.listeners(&all);
        if let Some(login) = &self.front.login {
            let sound = |part: &str| (1..=255).contains(&part.len());
            if !login.split_once(':').is_some_and(|(user, word)| sound(user) && sound(word)) {
                let message = "a login is user:password, 1 to 255 bytes each";
                found.fault(Fault::new(&[&"front", &"login"], message));
            }
        }
    }
}

impl Configuration for ClientConfig {
    const ROLE: &'static str = "client";
    const LISTS: &'static [&'static str] = &[
        "front.socks5",
        "front.http",
        "server.*.addresses",
        "tun.routes",
        "tun.local_networks",
        "lan.interfaces",
        "rule.*.destinations",
        "rule.*.names",
        "rule.*.ports",
    ];
    const KEY: [&'static str; 2] = ["secret", "secret_file"];

    fn check(&self, found: &mut Findings) {
        self.check_listeners(found);
        found.page(self.web, self.web_token_file.is_some());
        found.recording(&self.record, &self.record_folder, self.record_names);
        if let Some(buffer) = self.buffer {
            found.range(&[&"buffer"], buffer, Size(1 << 20), Size(64 << 30));
        }
        self.check_bond(found);
        if let Some(tun) = &self.tun {
            tun.check(found);
        }
        if let Some(lan) = &self.lan {
            lan.check(self, found);
        }
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        let Self { secret_file, control, web_token_file, state, record_folder, .. } = self;
        let files = [secret_file, control, web_token_file, state, record_folder];
        files.into_iter().flatten().collect()
    }

    fn sending(&mut self) -> Vec<&mut Policies> {
        let Self { up, rule, .. } = self;
        rule.iter_mut().map(|rule| &mut rule.up).chain([up]).collect()
    }

    fn kept(&mut self) -> Vec<&mut PathBuf> {
        self.state.iter_mut().chain(&mut self.record_folder).collect()
    }

    fn needed(&self) -> Vec<(&'static str, &Path)> {
        let files = [("secret_file", &self.secret_file), ("web_token_file", &self.web_token_file)];
        files.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?))).collect()
    }

    fn given_key(&self) -> (Option<&str>, Option<&Path>) {
        (self.secret.as_deref(), self.secret_file.as_deref())
    }

    fn holds_keys(&self) -> bool {
        let shared = |s: &ServerEntry| s.preshared_key.is_some() || s.enrolment.is_some();
        let shared = self.server.iter().any(shared);
        self.secret.is_some() || shared || self.front.login.is_some()
    }
}

impl ServerEntry {
    /// The addresses inside its tunnels.
    #[must_use]
    pub(crate) fn inner(&self) -> Network {
        Network::new(self.network, self.network6)
    }

    /// The private key of a path to it, of a client with that secret.
    ///
    /// # Errors
    /// Its public key is none.
    pub(crate) fn key_of_path(&self, secret: &Key, path: usize) -> Result<Key, KeyError> {
        match self.key_version {
            Some(2) => Ok(secret.of_path_to(&keys::public(&self.public_key)?, path)),
            _ => Ok(secret.of_path(path)),
        }
    }

    fn check_keys(&self, at: At<'_>, found: &mut Findings) {
        found.range(&[at, &[&"key_version"]].concat(), self.key_version.unwrap_or(1), 1, 2);
        found.preshared(&[at, &[&"enrolment"]].concat(), self.enrolment.as_deref());
        if self.key_version.is_none() {
            let message = "this server has made the client's keys, and the line that brought them \
                           holds them for good";
            let help = "`tabane server invite NAME --replace` there, then `tabane client join \
                        --force` here; key_version = 1 if it is to stay";
            found.warn(Fault::new(&[at, &[&"public_key"]].concat(), message).help(help));
        }
        let own = self.key_version == Some(2) && self.preshared_key.is_some();
        if self.enrolment.is_some() && !own {
            let message = "'enrolment' without 'key_version = 2' and 'preshared_key'";
            let fault = Fault::new(&[at, &[&"enrolment"]].concat(), message);
            found.fault(fault.help("`tabane client join` writes all three"));
        }
    }
}

impl PathConfig {
    /// What people call it: its name, else its interface, else `default`.
    #[must_use]
    pub(crate) fn label(&self) -> &str {
        let name = self.name.as_deref().or(self.interface.as_deref());
        name.unwrap_or("default")
    }

    fn check(&self, at: At<'_>, found: &mut Findings) {
        if let Some(name) = &self.name {
            found.name(&[at, &[&"name"]].concat(), name);
        }
        if let Some(interface) = &self.interface {
            found.interface(&[at, &[&"interface"]].concat(), interface);
        }
        if self.remote.is_some_and(|remote| remote.port() == 0) {
            found.fault(Fault::new(&[at, &[&"remote"]].concat(), "port 0: nobody listens there"));
        }
        if let (Some(source), Some(remote)) = (self.source, self.remote)
            && source.is_ipv4() != remote.is_ipv4()
        {
            let message = format!("{remote} cannot be reached from {source}");
            found.fault(Fault::new(&[at, &[&"remote"]].concat(), message));
        }
        if let Some(subflows) = self.subflows {
            found.range(&[at, &[&"subflows"]].concat(), subflows, 1, PATHS_MAX as u8);
        }
        for (key, cap) in [("cap_up", self.cap_up), ("cap_down", self.cap_down)] {
            let fits = cap.map_or(Ok(()), |Rate(bps)| check_cap(bps));
            found.says(&[at, &[&key]].concat(), fits);
        }
        if let Some(mtu) = self.mtu {
            found.range(&[at, &[&"mtu"]].concat(), mtu, MTU_MIN, MTU_MAX);
        }
        if let Some(probe) = self.probe {
            let (low, high) = (Duration::from_millis(20), Duration::from_secs(60));
            found.range(&[at, &[&"probe"]].concat(), probe, Time(low), Time(high));
        }
        self.check_quota(&[at, &[&"quota"]].concat(), &[at, &[&"quota_period"]].concat(), found);
    }

    fn check_quota(&self, quota: At<'_>, period: At<'_>, found: &mut Findings) {
        if self.quota == Some(Size(0)) {
            let fault = Fault::new(quota, "a quota of nothing");
            found.fault(fault.help("role = \"never\" keeps a path unused"));
        }
        let Some(text) = self.quota_period.as_deref() else { return };
        let days = text.parse::<u16>().is_ok_and(|days| (1..=366).contains(&days));
        if !days && !["day", "month"].contains(&text) {
            let message = format!("'{text}' is no period: day, month, or a number of days to 366");
            found.fault(Fault::new(period, message));
        }
        if self.quota.is_none() {
            found.fault(Fault::new(period, "a period without a 'quota'"));
        }
    }
}

impl TunConfig {
    fn check(&self, found: &mut Findings) {
        if let Some(name) = &self.name {
            found.interface(&[&"tun", &"name"], name);
        }
        found.each::<Prefix>(&[&"tun", &"routes"], &self.routes);
        if let Some(local) = &self.local_networks {
            found.each::<Prefix>(&[&"tun", &"local_networks"], local);
            if !self.kill_switch {
                let message = "'local_networks' has an effect with the kill switch only";
                let fault = Fault::new(&[&"tun", &"local_networks"], message);
                found.warn(fault.help("add kill_switch = true, or leave it out"));
            }
        }
        if self.kill_switch && self.routes.is_empty() {
            let fault = Fault::new(&[&"tun", &"kill_switch"], "nothing is routed to hold back");
            let help = "add routes = [\"0.0.0.0/0\", \"::/0\"], or leave 'kill_switch' out";
            found.fault(fault.help(help));
        }
        let mut seen = Vec::new();
        for (n, route) in self.routes.iter().enumerate() {
            let Ok(prefix) = route.parse::<Prefix>() else { continue };
            if seen.contains(&prefix) {
                let message = format!("{prefix} is routed twice");
                found.fault(Fault::new(&[&"tun", &"routes", &n], message));
            }
            seen.push(prefix);
        }
        // The kernel's own tables: unspec, default, main, local.
        if let Some(table @ (0 | 253..=255)) = self.table {
            let message = format!("table {table} is the kernel's own");
            let fault = Fault::new(&[&"tun", &"table"], message);
            found.fault(fault.help("take a number that `ip rule` does not show"));
        }
        if self.mark == Some(0) {
            found.fault(Fault::new(&[&"tun", &"mark"], "mark 0 is that of every packet"));
        }
    }
}
