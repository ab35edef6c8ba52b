//! Packets by other interfaces than the one they were routed to: `bicast` and `hayack`, as
//! classifiers at clsact egress of each interface.
//!
//! A set of interfaces is attached and detached as one. Nothing is pinned: the filters hold the
//! program, the program its maps, and both are found again through the filters. Next hops are
//! gateways, taken from the routes when attaching and not followed afterwards; their link-layer
//! addresses are the business of the kernel's neighbour table, always.

mod host;
mod layout;
mod tc;

use crate::object::{BICAST, Compiled, HAYACK, Kind};
use crate::{Error, sys};
use host::{Gateways, Interface};
use layout::{
    Config, Counters, IFACES, Iface, ONLY_ACKS, ONLY_MPTCP, ONLY_TO, PREFIXES, PURE, State,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use tabane_net::netlink::Netlink;
pub use tabane_net::prefix::Prefix;
use tc::Filter;

/// What is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Every packet by every interface.
    Bicast,
    /// Pure ACKs by the fastest interface.
    Hayack,
}

/// What is to be attached.
#[derive(Clone, Debug)]
pub struct Request {
    pub policy: Policy,
    /// By name; 2 to 8, Ethernet, up.
    pub interfaces: Vec<String>,
    /// Only pure ACKs of TCP. HayACK means no others anyway.
    pub only_acks: bool,
    /// Only segments of MPTCP.
    pub only_mptcp: bool,
    /// Only packets to these; everywhere, if empty. 64 of each family at most.
    pub to: Vec<Prefix>,
    /// Next hops that are not to be taken from the routes.
    pub via: Vec<(String, IpAddr)>,
    /// HayACK: one ACK of so many leaves by its own interface as well; at least 1.
    pub every: u32,
    /// HayACK as the paper has it: each ACK by the interface with the smallest round-trip time just
    /// then, and by no other (`every` does not count).
    pub pure: bool,
    /// HayACK: the interface that all ACKs take; `None`: the fastest.
    pub target: Option<String>,
}

/// A set of interfaces to which a policy is attached.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Attached {
    pub policy: Policy,
    /// Only pure ACKs.
    pub only_acks: bool,
    /// Only MPTCP.
    pub only_mptcp: bool,
    /// Only to these prefixes, unless empty.
    pub to: Vec<String>,
    /// HayACK: one ACK of so many leaves by its own interface as well.
    pub every: u32,
    /// HayACK: as the paper has it.
    pub pure: bool,
    /// HayACK: the interface that all ACKs take.
    pub target: Option<String>,
    /// In the order in which they were named.
    pub interfaces: Vec<Member>,
}

/// An interface of a set.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Member {
    /// Its name; `#7` once it is gone.
    pub interface: String,
    /// `None`: destinations are taken for neighbours.
    pub gateway4: Option<Ipv4Addr>,
    /// `None`: destinations are taken for neighbours.
    pub gateway6: Option<Ipv6Addr>,
    /// Packets routed to it that were to leave by others too, or instead.
    pub meant: u64,
    /// Packets routed to others that left by it.
    pub sent: u64,
    /// Copies of `meant` that another interface did not take.
    pub failed: u64,
    /// HayACK: of `meant`, those that left by it.
    pub own: u64,
    /// HayACK: the smallest round-trip time of late, ms; `None`: nothing was sent by it.
    pub rtt_ms: Option<f64>,
    /// HayACK: the interface by which its ACKs leave.
    pub way: Option<String>,
}

impl Policy {
    /// The filters' and the program's name.
    fn name(self) -> &'static str {
        match self {
            Self::Bicast => "tabane_bicast",
            Self::Hayack => "tabane_hayack",
        }
    }

    fn object(self) -> Compiled {
        match self {
            Self::Bicast => BICAST(),
            Self::Hayack => HAYACK(),
        }
    }

    fn of(filter: &Filter) -> Option<Self> {
        [Self::Bicast, Self::Hayack].into_iter().find(|policy| policy.name() == filter.name)
    }

    /// As the command line has it.
    #[must_use]
    pub fn verb(self) -> &'static str {
        self.name().trim_start_matches("tabane_")
    }
}

/// Attaches what is asked for, to all interfaces or none.
///
/// # Errors
/// [`Error`]: an interface that cannot be used or has a policy already, privilege, the kernel.
pub fn attach(request: &Request) -> Result<Attached, Error> {
    let mut netlink = open()?;
    let all = host::interfaces(&mut netlink)?;
    let chosen = choose(&request.interfaces, &all)?;
    if let Some(filter) = ours(&mut netlink, &chosen)?.into_iter().next() {
        let policy = Policy::of(&filter).map_or("", Policy::verb);
        let name = name_of(&all, filter.interface);
        return Err(Error::Already(format!(
            "{policy} is attached to {name} already; `tabane kernel {policy} detach {name}` first"
        )));
    }
    let ifaces = next_hops(&mut netlink, &chosen, &request.via)?;
    let loaded = request.policy.object().load(&Kind::Classifier)?;
    configure(&loaded.maps, request, &chosen)?;
    let name = request.policy.name();
    let program = loaded.programs.get(name).ok_or_else(|| unfit(name))?;
    let mut done: Vec<Iface> = Vec::new();
    for (slot, mut iface) in ifaces.into_iter().enumerate() {
        let result = hang(&mut netlink, &loaded.maps, slot, &mut iface, name, program);
        done.push(iface);
        if let Err(error) = result {
            undo(&mut netlink, &done, name);
            return Err(error);
        }
    }
    let found = status(request.policy)?.into_iter();
    let mine = |set: &Attached| set.interfaces.iter().any(|m| m.interface == chosen[0].name);
    found.into_iter().find(mine).ok_or_else(|| unfit(name))
}

/// Detaches every set of `policy` that has one of `interfaces`, or every set if none are named.
/// What was taken away is returned, with its last counters.
///
/// # Errors
/// [`Error::Missing`] if there is nothing to detach; privilege, the kernel.
pub fn detach(policy: Policy, interfaces: &[String]) -> Result<Vec<Attached>, Error> {
    let mut netlink = open()?;
    let all = host::interfaces(&mut netlink)?;
    for name in interfaces {
        find(&all, name)?;
    }
    let mut sets = sets(&mut netlink, policy, &all)?;
    let named = |set: &Set| {
        interfaces.is_empty()
            || set.filters.iter().any(|f| interfaces.contains(&name_of(&all, f.interface)))
    };
    sets.retain(named);
    if sets.is_empty() {
        let place =
            if interfaces.is_empty() { "any interface".into() } else { interfaces.join(", ") };
        let text =
            format!("{} is not attached to {place} in this network namespace", policy.verb());
        return Err(Error::Missing(text));
    }
    let mut detached = Vec::new();
    for set in &sets {
        let shown = set.describe(policy, &all)?;
        for filter in &set.filters {
            tc::remove(&mut netlink, filter)?;
            let made = set.ifaces.iter().any(|i| i.index == filter.interface && i.clsact);
            // Others may have hung theirs there meanwhile.
            if made && tc::list(&mut netlink, filter.interface)?.is_empty() {
                tc::remove_clsact(&mut netlink, filter.interface)?;
            }
        }
        detached.push(shown);
    }
    Ok(detached)
}

/// What is attached in this network namespace.
///
/// # Errors
/// [`Error`]: privilege, the kernel.
pub fn status(policy: Policy) -> Result<Vec<Attached>, Error> {
    let mut netlink = open()?;
    let all = host::interfaces(&mut netlink)?;
    sets(&mut netlink, policy, &all)?.iter().map(|set| set.describe(policy, &all)).collect()
}

/// Filters that share a program, and its maps.
struct Set {
    filters: Vec<Filter>,
    maps: BTreeMap<String, OwnedFd>,
    /// By slot; free slots are left out.
    ifaces: Vec<Iface>,
}

impl Set {
    fn new(program: u32, filters: Vec<Filter>) -> Result<Self, Error> {
        let fail = |error| Error::system("asking for the program's maps", error);
        let program = sys::program(program).map_err(fail)?;
        let mut maps = BTreeMap::new();
        for id in sys::maps_of(&program).map_err(fail)? {
            let map = sys::map(id).map_err(fail)?;
            maps.insert(sys::map_info(&map).map_err(fail)?.name(), map);
        }
        let mut set = Self { filters, maps, ifaces: Vec::new() };
        for slot in 0..IFACES as u32 {
            set.ifaces.extend(Iface::read(&set.value("tabane_ifaces", slot)?));
        }
        Ok(set)
    }

    fn value(&self, map: &str, key: u32) -> Result<Vec<u8>, Error> {
        let map = find_map(&self.maps, map)?;
        sys::lookup(map, &key.to_ne_bytes()).map_err(|e| Error::system("reading a map", e))
    }

    fn describe(&self, policy: Policy, all: &[Interface]) -> Result<Attached, Error> {
        let config =
            Config::read(&self.value("tabane_config", 0)?).ok_or_else(|| unfit("config"))?;
        let name = |slot: u32| {
            let iface = self.ifaces.get(slot.checked_sub(1)? as usize)?;
            Some(name_of(all, iface.index))
        };
        let now = sys::monotonic_ns();
        let mut interfaces = Vec::new();
        for (slot, iface) in self.ifaces.iter().enumerate() {
            let slot = slot as u32;
            let counters = Counters::read(&self.value("tabane_counters", slot)?);
            let counters = counters.ok_or_else(|| unfit("counters"))?;
            let state = match policy {
                Policy::Bicast => None,
                Policy::Hayack => State::read(&self.value("tabane_state", slot)?),
            };
            let chosen = state.map(|state| match (config.target, state.way) {
                (0, 0) => slot + 1,
                (0, way) => way,
                (target, _) => target,
            });
            interfaces.push(Member {
                interface: name_of(all, iface.index),
                gateway4: iface.gateway4,
                gateway6: iface.gateway6,
                meant: counters.meant,
                sent: counters.sent,
                failed: counters.failed,
                own: counters.own,
                rtt_ms: state.and_then(|s| s.rtt_us(now)).map(|us| f64::from(us) / 1e3),
                way: chosen.and_then(name),
            });
        }
        let mut to = Vec::new();
        for map in ["tabane_to4", "tabane_to6"] {
            let keys = sys::keys(find_map(&self.maps, map)?, PREFIXES);
            let keys = keys.map_err(|e| Error::system("reading a map", e))?;
            let prefixes = keys.iter().filter_map(|key| layout::prefix(key));
            to.extend(prefixes.map(|prefix| prefix.to_string()));
        }
        Ok(Attached {
            policy,
            only_acks: config.only & ONLY_ACKS != 0,
            only_mptcp: config.only & ONLY_MPTCP != 0,
            to,
            every: config.every,
            pure: config.only & PURE != 0,
            target: name(config.target),
            interfaces,
        })
    }
}

/// The sets of a policy, in the order of their programs.
fn sets(netlink: &mut Netlink, policy: Policy, all: &[Interface]) -> Result<Vec<Set>, Error> {
    let mut filters: BTreeMap<u32, Vec<Filter>> = BTreeMap::new();
    for filter in ours(netlink, all)? {
        if Policy::of(&filter) == Some(policy) {
            filters.entry(filter.program).or_default().push(filter);
        }
    }
    filters.into_iter().map(|(program, filters)| Set::new(program, filters)).collect()
}

/// Filters of ours on these interfaces.
fn ours(netlink: &mut Netlink, interfaces: &[Interface]) -> Result<Vec<Filter>, Error> {
    let mut found = Vec::new();
    for interface in interfaces {
        let all = tc::list(netlink, interface.index)?;
        found.extend(all.into_iter().filter(|filter| Policy::of(filter).is_some()));
    }
    Ok(found)
}

fn choose(names: &[String], all: &[Interface]) -> Result<Vec<Interface>, Error> {
    if !(2..=IFACES).contains(&names.len()) {
        let text = format!("{} interfaces: it takes 2 to {IFACES}", names.len());
        return Err(Error::Interface(text));
    }
    let mut chosen: Vec<Interface> = Vec::new();
    for name in names {
        let interface = find(all, name)?;
        interface.check()?;
        if chosen.contains(interface) {
            return Err(Error::Interface(format!("{name} is named twice")));
        }
        chosen.push(interface.clone());
    }
    Ok(chosen)
}

fn find<'a>(all: &'a [Interface], name: &str) -> Result<&'a Interface, Error> {
    all.iter().find(|interface| interface.name == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
        let names = names.join(", ");
        Error::Interface(format!("{name}: no such interface in this network namespace ({names})"))
    })
}

fn name_of(all: &[Interface], index: u32) -> String {
    let found = all.iter().find(|interface| interface.index == index);
    found.map_or_else(|| format!("#{index}"), |interface| interface.name.clone())
}

fn next_hops(
    netlink: &mut Netlink,
    chosen: &[Interface],
    via: &[(String, IpAddr)],
) -> Result<Vec<Iface>, Error> {
    if let Some((name, _)) = via.iter().find(|(name, _)| chosen.iter().all(|c| c.name != *name)) {
        let text = format!("--via {name}: not one of the interfaces named");
        return Err(Error::Interface(text));
    }
    let gateways = Gateways::list(netlink)?;
    let iface = |interface: &Interface| {
        let mut iface = Iface {
            index: interface.index,
            clsact: false,
            gateway4: gateways.v4(interface.index),
            gateway6: gateways.v6(interface.index),
        };
        for (_, address) in via.iter().filter(|(name, _)| *name == interface.name) {
            match address {
                IpAddr::V4(address) => iface.gateway4 = Some(*address),
                IpAddr::V6(address) => iface.gateway6 = Some(*address),
            }
        }
        iface
    };
    Ok(chosen.iter().map(iface).collect())
}

fn configure(
    maps: &BTreeMap<String, OwnedFd>,
    request: &Request,
    chosen: &[Interface],
) -> Result<(), Error> {
    let fail = |error| Error::system("writing a map", error);
    let target = match &request.target {
        None => 0,
        Some(name) => {
            let slot = chosen.iter().position(|interface| interface.name == *name);
            1 + slot.ok_or_else(|| {
                Error::Interface(format!("--target {name}: not one of the interfaces named"))
            })? as u32
        }
    };
    let flag = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
    let only = flag(request.only_acks, ONLY_ACKS)
        | flag(request.only_mptcp, ONLY_MPTCP)
        | flag(!request.to.is_empty(), ONLY_TO)
        | flag(request.pure, PURE);
    let config = Config { only, every: request.every.max(1), target };
    sys::update(find_map(maps, "tabane_config")?, &[0; 4], &config.bytes()).map_err(fail)?;
    for (slot, interface) in chosen.iter().enumerate() {
        let (key, value) = (interface.index.to_ne_bytes(), (slot as u32).to_ne_bytes());
        sys::update(find_map(maps, "tabane_slots")?, &key, &value).map_err(fail)?;
    }
    for prefix in &request.to {
        let map = if prefix.address().is_ipv4() { "tabane_to4" } else { "tabane_to6" };
        sys::update(find_map(maps, map)?, &layout::key(prefix), &[1]).map_err(
            |error| match error.raw_os_error() {
                Some(libc::ENOSPC) => Error::Interface(format!(
                    "too many destinations: at most {PREFIXES} of each family"
                )),
                _ => fail(error),
            },
        )?;
    }
    Ok(())
}

/// Qdisc, slot and filter of one interface.
fn hang(
    netlink: &mut Netlink,
    maps: &BTreeMap<String, OwnedFd>,
    slot: usize,
    iface: &mut Iface,
    name: &str,
    program: &OwnedFd,
) -> Result<(), Error> {
    iface.clsact = tc::make_clsact(netlink, iface.index)?;
    let key = (slot as u32).to_ne_bytes();
    sys::update(find_map(maps, "tabane_ifaces")?, &key, &iface.bytes())
        .map_err(|e| Error::system("writing a map", e))?;
    tc::add(netlink, iface.index, name, program)
}

/// As far as it goes: the error that led here is the one to be told.
fn undo(netlink: &mut Netlink, done: &[Iface], name: &str) {
    for iface in done {
        let filters = tc::list(netlink, iface.index).unwrap_or_default();
        for filter in filters.iter().filter(|filter| filter.name == name) {
            let _ = tc::remove(netlink, filter);
        }
        if iface.clsact {
            let _ = tc::remove_clsact(netlink, iface.index);
        }
    }
}

fn open() -> Result<Netlink, Error> {
    Netlink::open().map_err(|error| Error::system("opening netlink", error))
}

fn find_map<'a>(maps: &'a BTreeMap<String, OwnedFd>, name: &str) -> Result<&'a OwnedFd, Error> {
    // The kernel cuts names.
    let name = &name[..name.len().min(sys::NAME_LEN)];
    let found = maps.iter().find(|(known, _)| known[..known.len().min(sys::NAME_LEN)] == *name);
    found.map(|(_, map)| map).ok_or_else(|| unfit(name))
}

/// What is attached was attached by another version.
fn unfit(what: &str) -> Error {
    let text = format!("what is attached has no {what} that this version knows");
    Error::System { what: "reading what is attached".into(), error: io::Error::other(text) }
}
