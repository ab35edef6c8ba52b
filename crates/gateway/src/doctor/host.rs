//! What this machine says of the links: interfaces, addresses, the way to the server, and routes
//! that may lead past a TUN device.

use super::lan::LanFacts;
use super::routes::{self, MainRoute};
use super::rules;
use crate::client::cleanup;
use crate::config::{ClientConfig, PathConfig};
use crate::model::Status;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Snapshot of this machine.
#[derive(Clone, Default, Debug)]
pub(crate) struct Host {
    /// Names of all interfaces.
    pub(crate) interfaces: Vec<String>,
    /// Of each link.
    pub(crate) links: Vec<LinkFacts>,
    /// Unix time, seconds.
    pub(crate) unix_s: u64,
    /// Why the server's name has no address.
    pub(crate) no_server: Option<String>,
    /// Routes of the main table, but default ones.
    pub(crate) routes: Vec<MainRoute>,
    /// Priorities of others' rules that come before a client's.
    pub(crate) rules: BTreeSet<u32>,
    /// What killed clients have left: their state files.
    pub(crate) left: Vec<PathBuf>,
    /// This machine as a router, if it is one.
    pub(crate) lan: Option<LanFacts>,
}

/// A link as it should be.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Want {
    /// The path's name.
    pub(crate) name: String,
    /// The interface that it leaves by.
    pub(crate) interface: Option<String>,
    /// The address that it leaves from.
    pub(crate) source: Option<IpAddr>,
    /// Its largest inner packet, if that is configured.
    pub(crate) mtu: Option<u16>,
    /// Where the server is.
    pub(crate) remote: Option<SocketAddr>,
    /// Where it may be looked for instead, by preference.
    pub(crate) others: Vec<SocketAddr>,
}

/// A link as it is.
#[derive(Clone, Default, Debug)]
pub(crate) struct LinkFacts {
    /// As it should be.
    pub(crate) want: Want,
    /// Its interface, if it is bound to one.
    pub(crate) interface: Option<Interface>,
    /// Whether an interface has the source address, if one is given.
    pub(crate) source_there: Option<bool>,
    /// The address from which packets to the server would leave, or why none can.
    pub(crate) route: Option<Result<IpAddr, String>>,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// It exists.
    pub(crate) there: bool,
    /// It is switched on.
    pub(crate) enabled: bool,
    /// It is connected to something.
    pub(crate) carrier: bool,
    /// Its largest packet.
    pub(crate) mtu: Option<u32>,
    /// Its addresses, but link-local ones.
    pub(crate) addresses: Vec<IpAddr>,
}

/// `IFF_UP` in the flags of an interface.
const IFF_UP: u32 = 1;

impl Want {
    /// The links of a configuration; the error is of the server's name, and the links are then
    /// without it.
    #[must_use]
    pub(crate) fn of_config(config: &ClientConfig) -> (Vec<Self>, Option<String>) {
        let names = config.server.first().map_or(&[][..], |server| &server.addresses);
        let (mut servers, mut error) = (Vec::new(), None);
        for name in names {
            match name.to_socket_addrs() {
                Ok(all) => servers.extend(all),
                Err(why) => error = Some(format!("{name}: {why}")),
            }
        }
        // One name that leads somewhere is enough.
        let error = match (names, &servers[..]) {
            ([], _) => Some("no [[server]] with an address is configured".to_owned()),
            (_, []) => error,
            _ => None,
        };
        let want = |(i, path): (usize, &PathConfig)| Self {
            name: path
                .name
                .clone()
                .or_else(|| path.interface.clone())
                .unwrap_or_else(|| format!("path{i}")),
            interface: path.interface.clone(),
            source: path.source,
            mtu: path.mtu,
            remote: path.remote.or(servers.first().copied()),
            others: if path.remote.is_some() { Vec::new() } else { servers.clone() },
        };
        (config.path.iter().enumerate().map(want).collect(), error)
    }

    /// The links of a running client.
    #[must_use]
    pub(crate) fn of_status(status: &Status) -> Vec<Self> {
        let path = |path: &crate::model::PathStatus| Self {
            name: path.name.clone(),
            interface: path.interface.clone(),
            remote: path.remote.or(status.server),
            ..Self::default()
        };
        status.paths.iter().map(path).collect()
    }
}

impl Host {
    /// Looks at this machine.
    #[must_use]
    pub(crate) fn look(wants: Vec<Want>, no_server: Option<String>) -> Self {
        let (names, all) = interfaces();
        #[allow(clippy::disallowed_methods)] // Whether the clock is right is what is asked.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            links: wants.into_iter().map(|want| link(want, &names, &all)).collect(),
            interfaces: names.into_iter().collect(),
            unix_s: now.map_or(0, |since| since.as_secs()),
            no_server,
            routes: routes::main_table(),
            rules: rules::before_ours(),
            left: cleanup::left(),
            lan: None,
        }
    }

    /// Looks at this machine as the router of hosts behind these interfaces.
    pub(super) fn look_at_lan(&mut self, lan: Vec<String>) {
        let (names, all) = interfaces();
        let lan = lan.iter().map(|name| interface(name, &names, &all)).collect();
        let links = self.links.iter().filter_map(|link| link.want.interface.clone());
        self.lan = Some(LanFacts::look(lan, &links.collect::<Vec<_>>()));
    }
}

/// The names of all interfaces, and their addresses.
fn interfaces() -> (BTreeSet<String>, Vec<(String, IpAddr)>) {
    let all: Vec<(String, IpAddr)> = getifaddrs::getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|one| Some((one.name.clone(), one.address.ip_addr()?)))
        .collect();
    let named = fs::read_dir("/sys/class/net").into_iter().flatten();
    let named = named.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    (named.chain(all.iter().map(|one| one.0.clone())).collect(), all)
}

fn link(mut want: Want, names: &BTreeSet<String>, all: &[(String, IpAddr)]) -> LinkFacts {
    let interface = want.interface.as_ref().map(|name| interface(name, names, all));
    let source_there = want.source.map(|source| all.iter().any(|one| one.1 == source));
    // As the agent does it: the first address of a family that the link has.
    let usable = |remote: &&SocketAddr| match (&want.source, &interface) {
        (Some(source), _) => source.is_ipv6() == remote.is_ipv6(),
        (None, Some(interface)) => interface.has_family(remote.is_ipv6()),
        (None, None) => true,
    };
    if let Some(first) = want.others.iter().find(usable).copied() {
        want.remote = Some(first);
    }
    let route = want.remote.map(|server| route(&want, server, interface.as_ref()));
    LinkFacts { want, interface, source_there, route }
}

impl Interface {
    /// Whether it has an address of that family, IPv6 if true.
    #[must_use]
    pub(crate) fn has_family(&self, ipv6: bool) -> bool {
        self.addresses.iter().any(|address| address.is_ipv6() == ipv6)
    }
}

fn interface(name: &str, names: &BTreeSet<String>, all: &[(String, IpAddr)]) -> Interface {
    // Names with a slash are none; the kernel allows no others that leave the folder.
    let folder = PathBuf::from("/sys/class/net").join(name.replace('/', "_"));
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok().map(|s| s.trim().to_owned());
    let flags =
        read("flags").and_then(|hex| u32::from_str_radix(hex.trim_start_matches("0x"), 16).ok());
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    Interface {
        name: name.to_owned(),
        there: names.contains(name),
        enabled: flags.is_none_or(|flags| flags & IFF_UP != 0),
        carrier: read("carrier").is_none_or(|carrier| carrier != "0"),
        mtu: read("mtu").and_then(|mtu| mtu.parse().ok()),
        addresses: all.iter().filter(|one| one.0 == name).map(|one| one.1).filter(usable).collect(),
    }
}

/// Where a packet to the server would leave, found by connecting a UDP socket; nothing is sent.
fn route(want: &Want, server: SocketAddr, interface: Option<&Interface>) -> Result<IpAddr, String> {
    let connect = || {
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, None)?;
        if let Some(interface) = &want.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(source) = want.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&server.into())?;
        let local = socket.local_addr()?.as_socket();
        local.map(|local| local.ip()).ok_or_else(|| std::io::Error::other("no address"))
    };
    let from = connect().map_err(|error: std::io::Error| error.to_string())?;
    match interface {
        // The kernel takes another link's address if this one has none.
        Some(own) if want.source.is_none() && !own.addresses.contains(&from) => {
            Err(format!("packets would leave with {from}, which is not an address of {}", own.name))
        }
        _ => Ok(from),
    }
}
