//! What TUN mode changes on the host, and how it is taken back: routes in a table of its own,
//! rules that lead there, and, if asked for, the list of resolvers and what makes it a router.
//!
//! Nothing is changed that is not configured. What will be changed is written to a state file
//! first, and undone from it by an orderly stop (`Host::restore`) or by [`Host::cleanup`], and by
//! nothing else. Between the two the host is brought from what stands to what is wanted
//! (`Host::reconcile`): all is checked first, then what is missing is added, then what is no
//! longer wanted is taken away. So a client that starts after a crash takes over what that one
//! left, and at no time is there less than the one or the other. The main table is never touched:
//! with the rules gone, everything is as before. What leaves beside the tunnel all the same is
//! listed in `docs/tun.md`.
//!
//! Not here: nft or iptables (no dependency on either), systemd-resolved (it has its own idea of
//! resolvers; refused with a remedy), NetworkManager.

mod lan;
mod netlink;
mod plan;
mod reconcile;
mod resolver;
mod state;
pub(crate) mod sysctl;

use crate::access::{Prefix, PrefixError};
use crate::config::client::TunConfig;
pub(crate) use lan::LanHosts;
pub(crate) use plan::{OnLink, PRIORITY_LEAST};
pub(crate) use reconcile::on_link;
pub(crate) use resolver::read as read_resolvers;
use state::State;
pub(crate) use state::is_left;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Changes of the host, and the right to make them. Dropped, they stay: only `Host::restore` and
/// [`Host::cleanup`] take them back.
pub(crate) struct Host {
    state: State,
    /// What was wanted last, once it has been made.
    made: Option<HostConfig>,
}

/// What to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostConfig {
    /// The device, which is there and up.
    pub device: String,
    /// Prefixes that are routed into it.
    pub routes: Vec<Prefix>,
    /// Nothing of those prefixes leaves beside the tunnel, even when the client has crashed; and
    /// if one family is routed whole, nothing of the other leaves either.
    pub kill_switch: bool,
    /// With the kill switch: networks that the host is in go beside the tunnel if they are in one
    /// of these.
    pub local: Vec<Prefix>,
    /// Resolvers behind the tunnel, to be the host's; empty: names are left alone.
    pub resolvers: Vec<IpAddr>,
    /// Where the host has its list of resolvers.
    pub resolv_conf: PathBuf,
    /// Servers, which are reached beside the tunnel.
    pub servers: Vec<SocketAddr>,
    /// Routing table.
    pub table: u32,
    /// Mark of packets that leave beside the tunnel (`SO_MARK` of the paths' sockets).
    pub mark: u32,
    /// Hosts behind this machine that go through the tunnel.
    pub lan: Option<LanHosts>,
    /// Where to note what is changed. Of one client alone.
    pub state: PathBuf,
}

/// Routing table and mark unless configured: `tb` in ASCII, 29794.
pub(crate) const TABLE_AND_MARK: u32 = 0x7462;

/// Networks that are somebody's own (RFC 1918, RFC 3927, RFC 4193, RFC 4291 section 2.5.6): a host
/// that is in one of them reaches it beside the tunnel, unless configured otherwise.
pub(crate) const LOCAL_NETWORKS: [&str; 6] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"];

/// Where programs that are the host's resolver themselves list whom they ask: systemd-resolved, and
/// what NetworkManager starts.
const ASKED_BY_STUBS: [&str; 2] =
    ["/run/systemd/resolve/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf"];

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            device: "tabane0".into(),
            routes: Vec::new(),
            kill_switch: false,
            local: LOCAL_NETWORKS.iter().filter_map(|text| text.parse().ok()).collect(),
            resolvers: Vec::new(),
            resolv_conf: "/etc/resolv.conf".into(),
            servers: Vec::new(),
            table: TABLE_AND_MARK,
            mark: TABLE_AND_MARK,
            lan: None,
            state: "/var/lib/tabane/host.json".into(),
        }
    }
}

/// Why the host was not changed, or not changed back.
#[derive(Error, Debug)]
pub(crate) enum HostError {
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    Netlink {
        /// What was tried.
        what: String,
        /// The system's word.
        source: io::Error,
    },
    /// The routing table has somebody else's routes.
    #[error(
        "routing table {table} is in use by somebody else (see: ip route show table {table}); \
         choose another as table = N under [tun]"
    )]
    TableInUse {
        /// Its number.
        table: u32,
    },
    /// A switch of the kernel cannot be set.
    #[error(
        "cannot set net/{name}: {source}; do it yourself (sysctl -w net/{name}={value}), or let \
         the client (a service: `tabane service install --lan NAME`)"
    )]
    Sysctl {
        /// Below `net`, with slashes.
        name: String,
        /// What it must be.
        value: String,
        /// The system's word.
        source: io::Error,
    },
    /// A running client has changed the host.
    #[error("{} is in use: another client runs with the same state file", path.display())]
    Running {
        /// The state file.
        path: PathBuf,
    },
    /// The state file cannot be read or written.
    #[error(
        "cannot use the state file {}: {source}{}",
        path.display(),
        if source.kind() == io::ErrorKind::PermissionDenied {
            "; a client with [tun] is run by root or as a service (`tabane service install --tun \
             NAME`), or needs CAP_NET_ADMIN and a folder of its own in $STATE_DIRECTORY"
        } else {
            ""
        }
    )]
    State {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The state file is not ours.
    #[error(
        "{} is damaged ({why}). What a crashed client left: ip rule, ip -6 rule (priorities \
         {first} to {last}); remove those, then the file",
        path.display(), first = plan::PRIORITY_LEAST, last = plan::PRIORITY_LAST
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The list of resolvers belongs to systemd-resolved.
    #[error(
        "{} belongs to systemd-resolved ({}): set dns = false under [tun] and run, once the \
         client is up: resolvectl dns {device} {resolver}; resolvectl domain {device} '~.'",
        path.display(), target.display()
    )]
    Resolved {
        /// The list.
        path: PathBuf,
        /// What it is a link to.
        target: PathBuf,
        /// The device.
        device: String,
        /// The resolver behind the tunnel.
        resolver: IpAddr,
    },
    /// The list of resolvers belongs to some other program.
    #[error(
        "{} is a link to {}, which another program keeps: set dns = false under [tun] and name \
         {resolver} as resolver there, or make it a plain file",
        path.display(), target.display()
    )]
    ManagedResolvers {
        /// The list.
        path: PathBuf,
        /// What it is a link to.
        target: PathBuf,
        /// The resolver behind the tunnel.
        resolver: IpAddr,
    },
    /// The list of resolvers cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Resolvers {
        /// The list.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

impl HostConfig {
    /// What a client's configuration asks for. `resolvers` and `servers` come from whoever knows
    /// them; the former count only with `dns = true`.
    ///
    /// # Errors
    /// A route that is no prefix.
    pub(crate) fn new(
        tun: &TunConfig,
        client: &str,
        resolvers: &[IpAddr],
        servers: &[SocketAddr],
    ) -> Result<Self, PrefixError> {
        let parse = |list: &[String]| list.iter().map(|text| text.parse()).collect();
        let routes: Result<Vec<Prefix>, PrefixError> = parse(&tun.routes);
        let local: Option<Result<Vec<Prefix>, PrefixError>> =
            tun.local_networks.as_deref().map(parse);
        let default = Self::default();
        Ok(Self {
            device: tun.name.clone().unwrap_or(default.device),
            routes: routes?,
            kill_switch: tun.kill_switch,
            local: local.transpose()?.unwrap_or_else(|| default.local.clone()),
            resolvers: if tun.dns { resolvers.to_vec() } else { Vec::new() },
            servers: servers.to_vec(),
            table: tun.table.unwrap_or(default.table),
            mark: tun.mark.unwrap_or(default.mark),
            state: state_file(client),
            ..default
        })
    }
}

/// Where clients note what they change: systemd's `StateDirectory`, else `/var/lib/tabane`, which
/// outlives a reboot as the list of resolvers does.
#[must_use]
pub(crate) fn state_folder() -> PathBuf {
    std::env::var_os("STATE_DIRECTORY").unwrap_or_else(|| "/var/lib/tabane".into()).into()
}

/// Where a client notes what it changes.
#[must_use]
pub(crate) fn state_file(client: &str) -> PathBuf {
    // A name is a name, not a way out of the folder.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let name: String = client.chars().map(plain).collect();
    state_folder().join(format!("{name}.host.json"))
}

/// What was found when changes were undone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Undone {
    /// Changes undone, those included that had gone by themselves.
    pub changes: usize,
    /// What was left as it is, and why; for people.
    pub notes: Vec<String>,
}

/// What was done to bring the host to what is wanted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reconciled {
    /// Rules and routes that were in force and had been taken away by somebody; there again.
    pub restored: usize,
    /// What is no longer wanted and could not be taken away; for people.
    pub(crate) notes: Vec<String>,
    /// Another program had written the list of resolvers, which is as it should be again.
    pub(crate) names_restored: bool,
    /// Why that is not as it should be, though the rest is; for people.
    pub(crate) names_lost: Option<String>,
}

impl Host {
    /// Takes over what a client that did not end in order has left, if it left anything, and
    /// changes nothing.
    ///
    /// # Errors
    /// [`HostError`]; [`HostError::Running`] if it has not ended.
    pub(crate) fn open(state: &Path) -> Result<Self, HostError> {
        Ok(Self { state: State::open(state)?, made: None })
    }

    /// [`Host::open`], then [`Host::reconcile`].
    ///
    /// # Errors
    /// [`HostError`].
    #[cfg(test)]
    pub(crate) fn apply(config: &HostConfig) -> Result<Self, HostError> {
        let mut host = Self::open(&config.state)?;
        host.reconcile(config)?;
        Ok(host)
    }

    /// The resolvers that the host had before this or an earlier client put its own in their
    /// place; those in `list` if none has.
    #[must_use]
    pub(crate) fn resolvers_before(&self, list: &Path) -> Vec<IpAddr> {
        let ours = self.state.resolvers();
        let before = ours.map(|change| change.before.clone().unwrap_or_default());
        let text = before.or_else(|| resolver::read(list).ok());
        let mut all = resolver::listed(&text.unwrap_or_default());
        // What such a program asks in turn carries no mark, and goes into the tunnel.
        if all.iter().all(IpAddr::is_loopback) {
            let lists = ASKED_BY_STUBS.iter().filter_map(|path| resolver::read(path.as_ref()).ok());
            all.extend(lists.flat_map(|text| resolver::listed(&text)));
        }
        all
    }

    /// Where a server's name led when it was last asked for; empty if that is not known.
    #[must_use]
    pub(crate) fn remembered(&self, name: &str) -> &[SocketAddr] {
        self.state.addresses(name)
    }

    /// Notes where a server's name leads, for a start at which nobody can be asked.
    ///
    /// # Errors
    /// [`HostError::State`].
    pub(crate) fn remember(
        &mut self,
        name: &str,
        addresses: &[SocketAddr],
    ) -> Result<(), HostError> {
        self.state.remember(name, addresses)
    }

    /// Whether anything is changed, by this or an earlier client.
    #[must_use]
    pub(crate) fn is_changed(&self) -> bool {
        !self.state.changes().is_empty()
    }

    /// Undoes everything: an orderly end.
    ///
    /// # Errors
    /// [`HostError`]; the state file then still says what is left.
    pub(crate) fn restore(mut self) -> Result<Undone, HostError> {
        reconcile::undo(&mut self.state)
    }

    /// Undoes what a crashed client left, if it left anything.
    ///
    /// # Errors
    /// [`HostError`]; [`HostError::Running`] if it has not crashed.
    pub(crate) fn cleanup(state: &Path) -> Result<Undone, HostError> {
        if !state.exists() {
            return Ok(Undone::default());
        }
        reconcile::undo(&mut State::open(state)?)
    }
}
