//! Rules and routes over netlink (`rtnetlink(7)`), one request at a time: this runs at the start
//! and at the end, when there is nothing else to do.

use super::plan::{Action, MAIN, PRIORITY_LAST, Route, Rule};
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::IpAddr;
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

    /// Adds a rule; one that is there already will do.
    pub(super) fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRule(rule_message(rule));
        ignore(self.0.change(message, NLM_F_CREATE | NLM_F_EXCL), &[libc::EEXIST])
    }

    /// Removes a rule; if it is not there, all the better.
    pub(super) fn remove_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRule(rule_message(rule));
        ignore(self.0.change(message, 0), GONE)
    }

    /// Adds a route.
    pub(super) fn add_route(&mut self, route: &Route) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route_message(route)?);
        ignore(self.0.change(message, NLM_F_CREATE | NLM_F_EXCL), &[libc::EEXIST])
    }

    /// Removes a route; with its device it has gone by itself.
    pub(super) fn remove_route(&mut self, route: &Route) -> io::Result<()> {
        match route_message(route) {
            Ok(message) => ignore(self.0.change(RouteNetlinkMessage::DelRoute(message), 0), GONE),
            Err(error) => ignore(Err(error), GONE),
        }
    }

    /// How many routes a table has.
    pub(super) fn routes_in(&mut self, table: u32, v6: bool) -> io::Result<usize> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(v6);
        let answers = self.0.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let is_ours = |answer: &RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewRoute(route) => {
                let said = route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Table(table) => Some(*table),
                    _ => None,
                });
                said.unwrap_or(route.header.table.into()) == table
            }
            _ => false,
        };
        Ok(answers.iter().filter(|answer| is_ours(answer)).count())
    }
}

/// What the kernel says of something that is not there, or of a family that it lacks.
const GONE: &[i32] =
    &[libc::ENOENT, libc::ESRCH, libc::ENODEV, libc::ENXIO, libc::EAFNOSUPPORT, libc::EOPNOTSUPP];

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
        attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Advmss(ADVERTISED_MSS)]));
    }
    Ok(message)
}

fn destination(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(v4) => RouteAddress::Inet(v4),
        IpAddr::V6(v6) => RouteAddress::Inet6(v6),
    }
}
