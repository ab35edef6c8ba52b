//! What TUN mode changes on the host, and how it is taken back: routes in a table of its own,
//! rules that lead there, and, if asked for, the list of resolvers.
//!
//! Nothing is changed that is not configured. What will be changed is written to a state file
//! first, and undone from it: at the end, at the next start after a crash, or by
//! [`Host::cleanup`]. The main table is never touched: with the rules gone, everything is as
//! before. What leaves beside the tunnel all the same is listed in `docs/tun.md`.
//!
//! Not here: nft or iptables (no dependency on either), systemd-resolved (it has its own idea of
//! resolvers; refused with a remedy), NetworkManager.

mod netlink;
mod plan;
mod resolver;
mod state;

use crate::access::{Prefix, PrefixError};
use crate::config::client::TunConfig;
use netlink::Netlink;
use plan::Change;
use state::State;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Changes in force; undone when dropped, better by [`Host::restore`], which tells of trouble.
pub struct Host {
    state: Option<State>,
}

/// What to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// The device, which is there and up.
    pub device: String,
    /// Prefixes that are routed into it.
    pub routes: Vec<Prefix>,
    /// Nothing of those prefixes leaves beside the tunnel, even when the client has crashed; and
    /// if one family is routed whole, nothing of the other leaves either.
    pub kill_switch: bool,
    /// Resolvers behind the tunnel, to be the host's; empty: names are left alone.
    pub resolvers: Vec<IpAddr>,
    /// Where the host has its list of resolvers.
    pub resolv_conf: PathBuf,
    /// Servers, which are reached beside the tunnel.
    pub servers: Vec<IpAddr>,
    /// Routing table.
    pub table: u32,
    /// Mark of packets that leave beside the tunnel (`SO_MARK` of the paths' sockets).
    pub mark: u32,
    /// Where to note what is changed. Of one client alone.
    pub state: PathBuf,
}

/// Routing table and mark unless configured: `tb` in ASCII, 29794.
pub const TABLE_AND_MARK: u32 = 0x7462;

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            device: "tabane0".into(),
            routes: Vec::new(),
            kill_switch: false,
            resolvers: Vec::new(),
            resolv_conf: "/etc/resolv.conf".into(),
            servers: Vec::new(),
            table: TABLE_AND_MARK,
            mark: TABLE_AND_MARK,
            state: "/var/lib/tabane/host.json".into(),
        }
    }
}

/// Why the host was not changed, or not changed back.
#[derive(Error, Debug)]
pub enum HostError {
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
    /// A running client has changed the host.
    #[error("{} is in use: another client runs with the same state file", path.display())]
    Running {
        /// The state file.
        path: PathBuf,
    },
    /// The state file cannot be read or written.
    #[error("cannot use the state file {}: {source}", path.display())]
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
        path.display(), first = plan::PRIORITY_FIRST, last = plan::PRIORITY_LAST
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
    pub fn new(
        tun: &TunConfig,
        client: &str,
        resolvers: &[IpAddr],
        servers: &[IpAddr],
    ) -> Result<Self, PrefixError> {
        let routes: Result<_, _> = tun.routes.iter().map(|text| text.parse()).collect();
        let default = Self::default();
        Ok(Self {
            device: tun.name.clone().unwrap_or(default.device),
            routes: routes?,
            kill_switch: tun.kill_switch,
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
pub fn state_folder() -> PathBuf {
    std::env::var_os("STATE_DIRECTORY").unwrap_or_else(|| "/var/lib/tabane".into()).into()
}

/// Where a client notes what it changes.
#[must_use]
pub fn state_file(client: &str) -> PathBuf {
    // A name is a name, not a way out of the folder.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let name: String = client.chars().map(plain).collect();
    state_folder().join(format!("{name}.host.json"))
}

/// What was found when changes were undone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Undone {
    /// Changes undone, those included that had gone by themselves.
    pub changes: usize,
    /// What was left as it is, and why; for people.
    pub notes: Vec<String>,
}

impl Host {
    /// Undoes what a crashed client left, then changes the host. If a change fails, those before
    /// it are undone.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn apply(config: &HostConfig) -> Result<Self, HostError> {
        let mut state = State::open(&config.state)?;
        undo(&mut state)?;
        let mut changes = plan::routing(config);
        if let Some(change) = resolver::plan(config)? {
            changes.push(change);
        }
        let mut netlink = open_netlink()?;
        for v6 in [false, true] {
            let what = || format!("list the routes of table {}", config.table);
            let routes = netlink.routes_in(config.table, v6);
            if routes.map_err(|source| HostError::Netlink { what: what(), source })? > 0 {
                return Err(HostError::TableInUse { table: config.table });
            }
        }
        state.write(changes.clone())?;
        let mut host = Self { state: Some(state) };
        for change in &changes {
            if let Err(error) = make(&mut netlink, change) {
                // The first failure is what matters to whoever reads it.
                let _ = host.undo();
                return Err(error);
            }
        }
        Ok(host)
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// [`HostError`]; the state file then still says what is left.
    pub fn restore(mut self) -> Result<Undone, HostError> {
        self.undo()
    }

    /// Undoes what a crashed client left, if it left anything.
    ///
    /// # Errors
    /// [`HostError`]; [`HostError::Running`] if it has not crashed.
    pub fn cleanup(state: &Path) -> Result<Undone, HostError> {
        if !state.exists() {
            return Ok(Undone::default());
        }
        undo(&mut State::open(state)?)
    }

    fn undo(&mut self) -> Result<Undone, HostError> {
        let Some(state) = &mut self.state else { return Ok(Undone::default()) };
        let undone = undo(state)?;
        self.state = None;
        Ok(undone)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The state file says what is left; the next start tries again.
        let _ = self.undo();
    }
}

fn open_netlink() -> Result<Netlink, HostError> {
    let what = || "ask the kernel about routes".to_owned();
    Netlink::open().map_err(|source| HostError::Netlink { what: what(), source })
}

fn make(netlink: &mut Netlink, change: &Change) -> Result<(), HostError> {
    let failed = |source| HostError::Netlink { what: format!("add {change}"), source };
    match change {
        Change::Rule(rule) => netlink.add_rule(rule).map_err(failed),
        Change::Route(route) => netlink.add_route(route).map_err(failed),
        Change::Resolvers(change) => resolver::make(change),
    }
}

/// Undoes all that the state file lists, the last first. What fails remains listed.
fn undo(state: &mut State) -> Result<Undone, HostError> {
    let mut undone = Undone::default();
    if state.changes().is_empty() {
        state.remove();
        return Ok(undone);
    }
    let mut netlink = open_netlink()?;
    let mut failure = None;
    for change in state.changes().iter().rev() {
        let failed = |source| HostError::Netlink { what: format!("remove {change}"), source };
        let done = match change {
            Change::Rule(rule) => netlink.remove_rule(rule).map_err(failed),
            Change::Route(route) => netlink.remove_route(route).map_err(failed),
            Change::Resolvers(change) => resolver::undo(change).map(|note| {
                undone.notes.extend(note);
            }),
        };
        match done {
            Ok(()) => undone.changes += 1,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => {
            state.remove();
            Ok(undone)
        }
    }
}
