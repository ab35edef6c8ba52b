//! From a scenario's hosts to namespaces, devices, addresses, routes and rules: a plan that is
//! only words, for `ip` and for `/proc/sys`.
//!
//! Addresses are the simulator's: one a path, and one that all paths of a host share, where it
//! listens. A packet leaves by the path of its source address or, from the shared address, by the
//! path that leads to its destination; so a subflow has one path in both directions, as in the
//! simulator.
//!
//! ```text
//! kernel:  sockets -- wifi (TUN) -- emulator          tabane:  engine -- e0 (TUN) -- forwarding --
//!                     lte  (TUN) -- emulator                             wifi (TUN) -- emulator
//! ```

use crate::Stack;
use crate::translate::KernelSettings;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tabane_sim::Plan;
use tabane_sim::topology::{NO_ROUTE, Topology};

/// Names of the lab's namespaces begin with this, then the id of the process that made them.
pub const PREFIX: &str = "tbl";

/// What the lab makes.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkPlan {
    /// Hosts, as in the topology.
    pub hosts: Vec<HostPlan>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct HostPlan {
    /// Its name in the scenario.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its devices, one a path.
    pub devices: Vec<DevicePlan>,
    /// Commands for `ip -batch`, once the devices are there.
    pub commands: Vec<String>,
    /// Settings below `/proc/sys/`.
    pub sysctls: Vec<(String, String)>,
}

/// A path of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct DevicePlan {
    /// The device at the emulated link.
    pub link: String,
    /// The engine's device, where the engine is the host's stack.
    pub engine: Option<String>,
    /// Addresses: the path's own, and the shared one.
    pub addresses: [IpAddr; 2],
    /// Largest IP packet.
    pub mtu: u16,
    /// New subflows on it ask for low priority.
    pub backup: bool,
}

/// First routing table of the devices at links, and of the engine's.
const LINK_TABLE: usize = 100;
const ENGINE_TABLE: usize = 200;
/// Packets that wait in a device for the emulator to take them.
const DEVICE_QUEUE: u32 = 10_000;
/// Most subflows, and accepted addresses, that `ip mptcp limits` takes.
const MPTCP_LIMIT: usize = 8;

impl NetworkPlan {
    /// The plan of a scenario for one stack, made by the process `pid`.
    pub fn new(plan: &Plan, stack: Stack, pid: u32) -> Self {
        let topology = &plan.topology;
        let names = host_names(topology);
        let hosts = (0..topology.hosts.len()).map(|host| {
            let namespace = format!("{PREFIX}{pid}-{}", names[host]);
            host_plan(plan, stack, host, namespace)
        });
        Self { hosts: hosts.collect() }
    }
}

fn host_plan(plan: &Plan, stack: Stack, host: usize, namespace: String) -> HostPlan {
    let topology = &plan.topology;
    let node = &topology.hosts[host];
    let links = device_names(node.paths.iter().map(|p| p.name.as_str()));
    let shared = topology.shared_address(host);
    let devices: Vec<DevicePlan> = (node.paths.iter().zip(links).enumerate())
        .map(|(n, (path, link))| DevicePlan {
            link,
            engine: (stack == Stack::Tabane).then(|| format!("eng{n}")),
            addresses: [topology.address(host, n), shared],
            mtu: path.mtu,
            backup: path.backup,
        })
        .collect();
    let mut made = HostPlan {
        name: node.name.clone(),
        namespace,
        devices,
        commands: vec!["link set lo up".to_owned()],
        sysctls: Vec::new(),
    };
    // The devices' own too: they were made before, with what the machine prefers.
    let own = made.devices.iter().map(|device| device.link.as_str());
    let every = ["all", "default"].into_iter().chain(own);
    let every: Vec<String> = every.map(|w| format!("net/ipv4/conf/{w}/rp_filter")).collect();
    made.sysctls.extend(every.into_iter().map(|key| (key, "0".to_owned())));
    made.bring_up();
    match stack {
        Stack::Tabane => made.forward(),
        Stack::Kernel => made.be_a_host(plan, host),
    }
    made
}

impl HostPlan {
    fn bring_up(&mut self) {
        for device in &self.devices {
            let (link, mtu) = (&device.link, device.mtu);
            let settings = format!("mtu {mtu} txqueuelen {DEVICE_QUEUE}");
            self.commands.push(format!("link set dev {link} {settings} up"));
            if let Some(engine) = &device.engine {
                self.commands.push(format!("link set dev {engine} {settings} up"));
            }
        }
    }

    /// The engine's packets go between its devices and those at the links, path by path.
    fn forward(&mut self) {
        for (n, device) in self.devices.iter().enumerate() {
            let Some(engine) = &device.engine else { continue };
            let (link, out, inbound) = (&device.link, LINK_TABLE + n, ENGINE_TABLE + n);
            self.commands.push(format!("route add default dev {link} table {out}"));
            self.commands.push(format!("route add default dev {engine} table {inbound}"));
            self.commands.push(format!("rule add priority 1000 iif {engine} lookup {out}"));
            self.commands.push(format!("rule add priority 1000 iif {link} lookup {inbound}"));
        }
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        self.sysctls.push(set("net/ipv4/ip_forward", "1"));
        self.sysctls.push(set("net/ipv6/conf/all/forwarding", "1"));
        self.sysctls.push(set("net/ipv4/conf/all/send_redirects", "0"));
        self.sysctls.push(set("net/ipv4/conf/default/send_redirects", "0"));
    }

    /// The kernel is the host: it has the addresses, and routes by source.
    fn be_a_host(&mut self, plan: &Plan, host: usize) {
        let Plan { scenario, topology, .. } = plan;
        let settings = KernelSettings::of(plan, host);
        let nodad = if topology.ip == 6 { " nodad" } else { "" };
        let bits = if topology.ip == 6 { 128 } else { 32 };
        let shared = topology.shared_address(host);
        self.commands.push(format!("addr add {shared}/{bits} dev lo{nodad}"));
        for (n, device) in self.devices.iter().enumerate() {
            let (link, [own, _], table) = (&device.link, device.addresses, LINK_TABLE + n);
            let route = &settings.route;
            self.commands.push(format!("addr add {own}/{bits} dev {link}{nodad}"));
            self.commands.push(format!("route add default dev {link} table {table}{route}"));
            self.commands.push(format!("rule add priority 1000 from {own} lookup {table}"));
        }
        for (to, path) in path_by_destination(topology, host) {
            let table = LINK_TABLE + path;
            self.commands.push(format!("rule add priority 2000 to {to} lookup {table}"));
        }
        if settings.mptcp {
            let limit = settings.subflows.min(MPTCP_LIMIT);
            self.commands.push(format!("mptcp limits set subflows {limit} add_addr_accepted 0"));
            // One kind of endpoint only, and only where connections begin: with both kinds the
            // kernel makes subflows that cross.
            let connects = scenario.flow.iter().any(|flow| flow.from == self.name);
            for device in self.devices.iter().filter(|_| connects) {
                let backup = if device.backup { " backup" } else { "" };
                let (own, link) = (device.addresses[0], &device.link);
                self.commands.push(format!("mptcp endpoint add {own} dev {link} subflow{backup}"));
            }
        }
        self.sysctls.extend(settings.sysctls);
    }
}

/// For every address of other hosts, the path of `host` that leads there: for a path's address the
/// one by which its packets come here, for a shared address the first.
fn path_by_destination(topology: &Topology, host: usize) -> BTreeMap<IpAddr, usize> {
    let mut paths = BTreeMap::new();
    let shared = topology.shared_address(host);
    for other in (0..topology.hosts.len()).filter(|other| *other != host) {
        if let Some(first) = topology.first_path(host, other) {
            paths.insert(topology.shared_address(other), first);
        }
        for path in 0..topology.hosts[other].paths.len() {
            let to = topology.address(other, path);
            if let Some((_, arrival)) = topology.far_end(other, path, shared)
                && topology.route(host, arrival, to) != NO_ROUTE
            {
                paths.insert(to, arrival);
            }
        }
    }
    paths
}

/// Names for namespaces: the hosts' own where those can be file names.
fn host_names(topology: &Topology) -> Vec<String> {
    unique(topology.hosts.iter().map(|h| h.name.as_str()), 40, "host")
}

/// Names for devices: the paths' own, where the kernel takes them and `ip` has no other use for
/// them (it reads one letter as an abbreviated keyword).
fn device_names<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    unique(paths, 12, "path")
}

fn unique<'a>(names: impl Iterator<Item = &'a str>, longest: usize, kind: &str) -> Vec<String> {
    const TAKEN: [&str; 7] = ["lo", "all", "default", "dev", "up", "down", "type"];
    let mut given: Vec<String> = Vec::new();
    for (n, name) in names.enumerate() {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let fits = plain && (2..=longest).contains(&name.len()) && !TAKEN.contains(&name);
        let engine = name.starts_with("eng") || name.starts_with('-');
        let name = if fits && !engine && !given.iter().any(|g| g == name) {
            name.to_owned()
        } else {
            format!("{kind}{n}")
        };
        given.push(name);
    }
    given
}

#[cfg(test)]
mod tests;
