//! Routes of the main table (`rtnetlink(7)`): anybody in charge of a network can put some there, by
//! DHCP (RFC 3442) or router advertisements (RFC 4191).

use crate::access::Prefix;
use rtnetlink::packet_core::NLM_F_DUMP;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_net::netlink::Netlink;

/// A route of the main table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MainRoute {
    /// Where it leads.
    pub(crate) to: Prefix,
    /// By which router; `None` for what is on the link.
    pub(crate) via: Option<IpAddr>,
    /// By which interface; empty if by several.
    pub(crate) device: String,
}

impl fmt::Display for MainRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if self.device.is_empty() { Ok(()) } else { write!(f, " dev {}", self.device) }
    }
}

/// `RT_TABLE_MAIN`
const MAIN: u32 = 254;

/// All but default routes; none where the kernel does not tell.
pub(super) fn main_table() -> Vec<MainRoute> {
    let devices = devices();
    let all = of_both_families(|family| {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        RouteNetlinkMessage::GetRoute(message)
    });
    let routes = all.iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    });
    routes.filter_map(|route| read(route, &devices)).collect()
}

/// What the kernel lists for IPv4, then for IPv6; nothing where it does not tell.
pub(super) fn of_both_families(
    ask: impl Fn(AddressFamily) -> RouteNetlinkMessage,
) -> Vec<RouteNetlinkMessage> {
    let Ok(mut netlink) = Netlink::open() else { return Vec::new() };
    let families = [AddressFamily::Inet, AddressFamily::Inet6];
    let lists = families.map(|family| netlink.request(ask(family), NLM_F_DUMP));
    lists.into_iter().flat_map(Result::unwrap_or_default).collect()
}

fn read(route: &RouteMessage, devices: &[(u32, String)]) -> Option<MainRoute> {
    let header = &route.header;
    let v6 = header.address_family == AddressFamily::Inet6;
    let mut to = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    let (mut table, mut via, mut device) = (u32::from(header.table), None, String::new());
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(RouteAddress::Inet(v4)) => to = (*v4).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(v6)) => to = (*v6).into(),
            RouteAttribute::Gateway(RouteAddress::Inet(v4))
            | RouteAttribute::Via(RouteVia::Inet(v4)) => via = Some((*v4).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(v6))
            | RouteAttribute::Via(RouteVia::Inet6(v6)) => via = Some((*v6).into()),
            RouteAttribute::Oif(index) => {
                let known = devices.iter().find(|(known, _)| known == index);
                device = known.map_or_else(|| format!("#{index}"), |(_, name)| name.clone());
            }
            _ => {}
        }
    }
    let len = header.destination_prefix_length;
    let relay_target = table == MAIN && header.kind == RouteType::Unicast && len > 0;
    let to = Prefix::new(to, len).ok()?;
    relay_target.then_some(MainRoute { to, via, device })
}

fn devices() -> Vec<(u32, String)> {
    let all = fs::read_dir("/sys/class/net").into_iter().flatten();
    all.filter_map(|entry| {
        let entry = entry.ok()?;
        let index = fs::read_to_string(entry.path().join("ifindex")).ok()?;
        Some((index.trim().parse().ok()?, entry.file_name().into_string().ok()?))
    })
    .collect()
}
