//! The host's interfaces and the gateways behind them, by netlink.

use crate::Error;
use rtnetlink::packet_core::NLM_F_DUMP;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_net::netlink::Netlink;

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    ethernet: bool,
    up: bool,
}

impl Interface {
    /// Whether packets of other interfaces can leave by it.
    pub(super) fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        if !self.ethernet {
            return Err(Error::Interface(format!(
                "{name} has no Ethernet frames (a tunnel, loopback): only Ethernet and Wi-Fi \
                 interfaces can be used"
            )));
        }
        if !self.up {
            let text = format!("{name} is down; `ip link set {name} up` first");
            return Err(Error::Interface(text));
        }
        Ok(())
    }
}

/// Every interface of this network namespace.
pub(super) fn interfaces(netlink: &mut Netlink) -> Result<Vec<Interface>, Error> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let answers = netlink.request(request, NLM_F_DUMP);
    let answers = answers.map_err(|e| Error::system("listing the interfaces", e))?;
    let interface = |answer: RouteNetlinkMessage| {
        let RouteNetlinkMessage::NewLink(link) = answer else { return None };
        let name = link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })?;
        Some(Interface {
            index: link.header.index,
            name,
            ethernet: link.header.link_layer_type == LinkLayerType::Ether,
            up: link.header.flags.contains(LinkFlags::Up),
        })
    };
    Ok(answers.into_iter().filter_map(interface).collect())
}

/// Gateways of interfaces, the best first.
#[derive(Debug)]
pub(super) struct Gateways {
    found: Vec<Gateway>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Gateway {
    /// Of the route: the shorter, the more it is for.
    prefix_len: u8,
    metric: u32,
    interface: u32,
    address: IpAddr,
}

impl Gateways {
    /// Those of all routes, in all tables: links that are used together have tables of their own.
    pub(super) fn list(netlink: &mut Netlink) -> Result<Self, Error> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = match netlink.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)
            {
                // A kernel without IPv6.
                Err(e) if family == AddressFamily::Inet6 && is_lacking(&e) => continue,
                answers => answers.map_err(|e| Error::system("listing the routes", e))?,
            };
            found.extend(answers.iter().filter_map(gateway));
        }
        found.sort();
        Ok(Self { found })
    }

    pub(super) fn v4(&self, interface: u32) -> Option<Ipv4Addr> {
        self.of(interface).find_map(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    pub(super) fn v6(&self, interface: u32) -> Option<Ipv6Addr> {
        self.of(interface).find_map(|address| match address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        })
    }

    fn of(&self, interface: u32) -> impl Iterator<Item = IpAddr> {
        let mine = move |gateway: &&Gateway| gateway.interface == interface;
        self.found.iter().filter(mine).map(|gateway| gateway.address)
    }
}

fn is_lacking(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP))
}

fn gateway(answer: &RouteNetlinkMessage) -> Option<Gateway> {
    let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
    if route.header.kind != RouteType::Unicast {
        return None;
    }
    let (mut interface, mut address, mut metric) = (None, None, 0);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Gateway(RouteAddress::Inet(v4)) => address = Some(IpAddr::V4(*v4)),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6)) => address = Some(IpAddr::V6(*v6)),
            RouteAttribute::Priority(value) => metric = *value,
            _ => {}
        }
    }
    let prefix_len = route.header.destination_prefix_length;
    Some(Gateway { prefix_len, metric, interface: interface?, address: address? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_names_the_gateway() {
        let gateway = |prefix_len, metric, address: &str| Gateway {
            prefix_len,
            metric,
            interface: 3,
            address: address.parse().unwrap(),
        };
        let mut found = vec![
            gateway(24, 0, "10.0.0.9"),
            gateway(0, 600, "10.0.0.2"),
            gateway(0, 100, "10.0.0.1"),
            gateway(0, 0, "fe80::1"),
        ];
        found.sort();
        let gateways = Gateways { found };
        assert_eq!(gateways.v4(3), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(gateways.v6(3), Some("fe80::1".parse().unwrap()));
        assert_eq!(gateways.v4(4), None);
    }

    #[test]
    fn only_ethernet_that_is_up() {
        let interface = |ethernet, up| Interface { index: 1, name: "x0".into(), ethernet, up };
        assert!(interface(true, true).check().is_ok());
        assert!(interface(true, false).check().unwrap_err().to_string().contains("is down"));
        assert!(interface(false, true).check().unwrap_err().to_string().contains("no Ethernet"));
    }
}
