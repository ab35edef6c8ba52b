//! Rules and routes over netlink (`rtnetlink(7)`), one request at a time, each answered at once.

use super::plan::{Action, MAIN, PRIORITY_LAST, Route, Rule};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::IpProtocol;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tabane_net::netlink;

/// A connection to the kernel of the network namespace that it was opened in.
pub(super) struct Netlink(netlink::Netlink);

/// Segments from the far end may be this large: the device takes them whole, and so does the
/// kernel behind it.
const ADVERTISED_MSS: u32 = 65_495;

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        netlink::Netlink::open().map(Self)
    }

    /// Adds a rule, unless it is there already: then false.
    pub(super) fn add_rule(&mut self, rule: &Rule) -> io::Result<bool> {
        let message = RouteNetlinkMessage::NewRule(rule_message(rule));
        is_new(self.0.change(message, NLM_F_CREATE | NLM_F_EXCL), &[libc::EAFNOSUPPORT])
    }

    /// Removes a rule; if it is not there, all the better.
    pub(super) fn remove_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRule(rule_message(rule));
        ignore(self.0.change(message, 0), GONE)
    }

    /// Adds a route, unless there is one in its place: then false.
    pub(super) fn add_route(&mut self, route: &Route) -> io::Result<bool> {
        self.new_route(route, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Puts a route in its place, whatever is there; at no time is there none.
    pub(super) fn replace_route(&mut self, route: &Route) -> io::Result<bool> {
        self.new_route(route, NLM_F_CREATE | NLM_F_REPLACE)
    }

    fn new_route(&mut self, route: &Route, flags: u16) -> io::Result<bool> {
        let message = RouteNetlinkMessage::NewRoute(route_message(route)?);
        is_new(self.0.change(message, flags), if route.to.0.is_ipv6() { NO_IPV6 } else { &[] })
    }

    /// Removes a route; with its device it has gone by itself.
    pub(super) fn remove_route(&mut self, route: &Route) -> io::Result<()> {
        match route_message(route) {
            Ok(message) => ignore(self.0.change(RouteNetlinkMessage::DelRoute(message), 0), GONE),
            Err(error) => ignore(Err(error), GONE),
        }
    }

    /// The places of a table's routes: destination and metric.
    pub(super) fn places(&mut self, table: u32, v6: bool) -> io::Result<Vec<Place>> {
        let all = self.routes(v6)?;
        Ok(all.iter().filter_map(|route| place_in(route, table, v6)).collect())
    }

    /// Where routes of the main table by one of `interfaces` lead to, but for those to everywhere
    /// and to single links.
    pub(super) fn behind(&mut self, interfaces: &[String]) -> io::Result<Vec<(IpAddr, u8)>> {
        let index = |name: &String| getifaddrs::if_nametoindex(name).ok();
        let by: Vec<u32> = interfaces.iter().filter_map(index).collect();
        let mut found = Vec::new();
        for v6 in [false, true].into_iter().filter(|_| !by.is_empty()) {
            for route in self.routes(v6)? {
                let oif = route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Oif(index) => Some(*index),
                    _ => None,
                });
                let ours = oif.is_some_and(|index| by.contains(&index));
                let unicast = route.header.kind == RouteType::Unicast;
                let Some((to, _)) = place_in(&route, MAIN, v6).filter(|_| ours && unicast) else {
                    continue;
                };
                let linked = matches!(to.0, IpAddr::V6(to) if to.is_unicast_link_local());
                if to.1 > 0 && !linked && !found.contains(&to) {
                    found.push(to);
                }
            }
        }
        Ok(found)
    }

    fn routes(&mut self, v6: bool) -> io::Result<Vec<RouteMessage>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(v6);
        let answers = self.0.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let route = |answer: RouteNetlinkMessage| match answer {
            // A kernel without IPv6 lists what else there is.
            RouteNetlinkMessage::NewRoute(route) => {
                (route.header.address_family == family(v6)).then_some(route)
            }
            _ => None,
        };
        Ok(answers.into_iter().filter_map(route).collect())
    }
}

/// Where a route is in its table: destination, and metric.
pub(super) type Place = ((IpAddr, u8), u32);

/// Of a route, if it is in `table`.
fn place_in(route: &RouteMessage, table: u32, v6: bool) -> Option<Place> {
    let all = if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    let (mut to, mut metric, mut of) = (all, 0, u32::from(route.header.table));
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Table(table) => of = *table,
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::Destination(RouteAddress::Inet(v4)) => to = (*v4).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(v6)) => to = (*v6).into(),
            _ => {}
        }
    }
    (of == table).then_some(((to, route.header.destination_prefix_length), metric))
}

/// What the kernel says of something that is not there, or of a family that it lacks.
const GONE: &[i32] =
    &[libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::ENXIO, libc::EAFNOSUPPORT, libc::EOPNOTSUPP];

/// What it says of a route of IPv6 where that is switched off: of the whole kernel, or of an
/// interface (`net.ipv6.conf.NAME.disable_ipv6`).
const NO_IPV6: &[i32] = &[libc::EACCES, libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EOPNOTSUPP];

/// False if what was to be added is there already, or the kernel says one of `lacking`: then it is
/// of a family that nothing is sent in.
fn is_new(result: io::Result<()>, lacking: &[i32]) -> io::Result<bool> {
    match result.as_ref().map_err(io::Error::raw_os_error) {
        Ok(()) => Ok(true),
        Err(Some(code)) if code == libc::EEXIST || lacking.contains(&code) => Ok(false),
        Err(_) => result.map(|()| true),
    }
}

fn ignore(result: io::Result<()>, errors: &[i32]) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error().is_some_and(|code| errors.contains(&code)) => Ok(()),
        other => other,
    }
}

fn family(v6: bool) -> AddressFamily {
    if v6 { AddressFamily::Inet6 } else { AddressFamily::Inet }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let (address, len) = rule.to;
    message.header.family = family(address.is_ipv6());
    message.header.dst_len = len;
    let attributes = &mut message.attributes;
    if len > 0 {
        attributes.push(RuleAttribute::Destination(address));
    }
    attributes.push(RuleAttribute::Priority(rule.priority));
    if let Some(mark) = rule.mark {
        attributes.push(RuleAttribute::FwMark(mark));
        attributes.push(RuleAttribute::FwMask(u32::MAX));
    }
    attributes.extend(rule.from.clone().map(RuleAttribute::Iifname));
    if let Some(port) = rule.udp_port {
        attributes.push(RuleAttribute::IpProtocol(IpProtocol::Udp));
        let range = RulePortRange { start: port, end: port };
        attributes.push(RuleAttribute::DestinationPortRange(range));
    }
    message.header.action = match rule.action {
        Action::Table(table) => {
            attributes.push(RuleAttribute::Table(table));
            RuleAction::ToTable
        }
        Action::Longer(len) => {
            attributes.push(RuleAttribute::Table(MAIN));
            attributes.push(RuleAttribute::SuppressPrefixLen(len.into()));
            RuleAction::ToTable
        }
        Action::Skip => {
            attributes.push(RuleAttribute::Goto(PRIORITY_LAST));
            RuleAction::Goto
        }
        Action::End => RuleAction::Nop,
        Action::Discard => RuleAction::Blackhole,
    };
    message
}

fn route_message(route: &Route) -> io::Result<RouteMessage> {
    let mut message = RouteMessage::default();
    let (address, len) = route.to;
    let header = &mut message.header;
    header.address_family = family(address.is_ipv6());
    header.destination_prefix_length = len;
    header.protocol = RouteProtocol::Static;
    (header.kind, header.scope) = match &route.device {
        Some(_) if address.is_ipv4() => (RouteType::Unicast, RouteScope::Link),
        Some(_) => (RouteType::Unicast, RouteScope::Universe),
        None => (RouteType::Unreachable, RouteScope::Universe),
    };
    let attributes = &mut message.attributes;
    if len > 0 {
        attributes.push(RouteAttribute::Destination(destination(address)));
    }
    attributes.push(RouteAttribute::Table(route.table));
    attributes.push(RouteAttribute::Priority(route.metric));
    if let Some(device) = &route.device {
        attributes.push(RouteAttribute::Oif(getifaddrs::if_nametoindex(device)?));
        match route.source {
            Some(source) => attributes.push(RouteAttribute::PrefSource(destination(source))),
            None => {
                attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Advmss(ADVERTISED_MSS)]));
            }
        }
    }
    Ok(message)
}

fn destination(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}
