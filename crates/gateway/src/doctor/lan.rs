//! What is wrong with the hosts behind a client (`[lan]`), and with this machine as their router.

use super::Finding;
use super::Verdict::{Bad, Good, Note};
use super::host::Interface;
use crate::model::{LanStatus, PathState, Status};
use crate::tun::OnLink;
use crate::tun::host::sysctl;
use std::process::Command;

/// This machine as a router.
#[derive(Clone, Default, Debug)]
pub(crate) struct LanFacts {
    /// Those that the hosts are behind.
    pub(crate) interfaces: Vec<Interface>,
    /// Networks that this machine has an address in, the device's own included.
    pub(crate) networks: Vec<OnLink>,
    /// Interfaces of hosts from which the kernel does not forward.
    pub(crate) not_forwarding: Vec<String>,
    /// Interfaces that drop what comes another way than packets to its sender go
    /// (`rp_filter = 1`).
    pub(crate) strict: Vec<String>,
    /// A packet filter that drops what is forwarded unless something accepts it: its chain.
    pub(crate) filter: Option<String>,
}

impl LanFacts {
    /// Looks at this machine; `links` are those of the paths.
    pub(super) fn look(interfaces: Vec<Interface>, links: &[String]) -> Self {
        let networks = crate::tun::on_link();
        let set = |name: &String, what: &str| {
            let of = |name: &str| sysctl::read(&format!("ipv4/conf/{name}/{what}"));
            // Of the two that hold for an interface, the larger one counts.
            [of("all"), of(name)].into_iter().flatten().max()
        };
        let names = interfaces.iter().map(|one| &one.name);
        let off = |name: &&String| {
            sysctl::read(&format!("ipv4/conf/{name}/forwarding")).as_deref() == Some("0")
        };
        Self {
            not_forwarding: names.filter(off).cloned().collect(),
            strict: links
                .iter()
                .filter(|name| set(name, "rp_filter").as_deref() == Some("1"))
                .cloned()
                .collect(),
            filter: dropping_filter(),
            networks,
            interfaces,
        }
    }
}

/// All findings; `status` of a running client only.
pub(super) fn findings(facts: &LanFacts, status: Option<&Status>) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.interfaces.iter().filter_map(interface).collect();
    found.extend(overlaps(facts));
    if let Some(chain) = &facts.filter {
        let text = format!("a packet filter drops what is forwarded by default: {chain}");
        found.push(Finding::new("lan", "filter", Note, text).remedy(
            "it must accept what goes from the LAN's interfaces to the TUN device, and back \
             (docs/router.md)",
        ));
    }
    let Some(status) = status else { return found };
    for name in &facts.not_forwarding {
        let text = format!("the kernel does not forward what comes from {name}");
        found.push(Finding::new("lan", "forwarding", Bad, text).remedy(format!(
            "another program switches it off again and again, or the client may not switch it on \
             (tabane service install --lan NAME); sysctl -w net.ipv4.conf.{name}.forwarding=1"
        )));
    }
    for path in status.paths.iter().filter(|path| path.state != PathState::Up) {
        let Some(name) = path.interface.as_ref().filter(|name| facts.strict.contains(name)) else {
            continue;
        };
        let text =
            format!("{name} drops answers that come another way than packets go (rp_filter)");
        let remedy = format!("sysctl -w net.ipv4.conf.{name}.rp_filter=2, and in /etc/sysctl.d");
        found.push(Finding::new(&path.name, "rp_filter", Bad, text).remedy(remedy));
    }
    if let Some(lan) = status.tun.as_ref().and_then(|tun| tun.lan.as_ref()) {
        found.extend(hosts(lan, found.iter().all(|finding| finding.verdict != Bad)));
    }
    found
}

fn interface(one: &Interface) -> Option<Finding> {
    let name = &one.name;
    let (text, remedy) = if !one.there {
        (format!("{name} does not exist"), "see `ip link`, and `interfaces` under [lan]".into())
    } else if !one.enabled {
        (format!("{name} is switched off"), format!("ip link set {name} up"))
    } else if one.addresses.is_empty() {
        let remedy = format!(
            "give it the address that the hosts have as router: ip address add \
                              192.168.7.1/24 dev {name}"
        );
        (format!("{name} has no address: its hosts have no router"), remedy)
    } else {
        return None;
    };
    Some(Finding::new("lan", "interface", Bad, text).remedy(remedy))
}

/// Networks of the hosts that are somewhere else, too: packets to them would go either way.
fn overlaps(facts: &LanFacts) -> Vec<Finding> {
    let is_lan = |link: &&OnLink| facts.interfaces.iter().any(|one| one.name == link.device);
    let (lan, others): (Vec<&OnLink>, Vec<&OnLink>) = facts.networks.iter().partition(is_lan);
    let pairs = lan.iter().flat_map(|lan| others.iter().map(move |other| (lan, other)));
    let overlap = pairs.filter(|(a, b)| a.prefix.covers(&b.prefix) || b.prefix.covers(&a.prefix));
    overlap
        .map(|(lan, other)| {
            let text = format!(
                "{} of {} overlaps {} of {}",
                lan.prefix, lan.device, other.prefix, other.device
            );
            Finding::new("lan", "network", Bad, text)
                .remedy("give the LAN another network, or the tunnels (network = of the server)")
        })
        .collect()
}

fn hosts(lan: &LanStatus, sound: bool) -> Option<Finding> {
    let count = |name: &str| lan.refused.iter().find(|one| one.0 == name).map_or(0, |one| one.1);
    Some(if lan.state == "direct" {
        let text = "hosts of the LAN go past the bond, since no path works";
        Finding::new("lan", "hosts", Bad, text).remedy("when_down = \"block\" would keep them here")
    } else if lan.hosts == 0 {
        let text = "no host of the LAN has been heard of in the last ten minutes";
        let remedy = "this machine must be the router of the hosts: their default route, by DHCP \
                      and router advertisements";
        Finding::new("lan", "hosts", Note, text).remedy(remedy)
    } else if count("sources") > 0 {
        let text = format!("{} datagrams had too many sources beside them", count("sources"));
        Finding::new("lan", "hosts", Note, text).remedy("some host scans, or is part of a flood")
    } else if sound {
        let text = format!("{} addresses of hosts go through the bond", lan.hosts);
        Finding::new("lan", "hosts", Good, text)
    } else {
        return None;
    })
}

/// What nft says of chains for forwarded packets that end in a drop. Without nft, or the right to
/// ask it, nothing is known.
fn dropping_filter() -> Option<String> {
    let output = Command::new("nft").args(["list", "chains"]).output().ok()?;
    dropping_chain(&String::from_utf8_lossy(&output.stdout))
}

/// The first one, as `TABLE CHAIN`.
pub(super) fn dropping_chain(listed: &str) -> Option<String> {
    let (mut table, mut chain) = ("", "");
    for line in listed.lines().map(|line| line.trim().trim_end_matches(" {")) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name;
        } else if let Some(name) = line.strip_prefix("chain ") {
            chain = name;
        } else if line.contains(" hook forward ") && line.contains("policy drop") {
            return Some(format!("{table} {chain}"));
        }
    }
    None
}
