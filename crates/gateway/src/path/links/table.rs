//! What is known of the interfaces, from the kernel's messages.

use super::Binding;
use crate::path::Absence;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Interfaces by index.
#[derive(Clone, Default, Debug)]
pub(super) struct Table {
    interfaces: BTreeMap<u32, Interface>,
    /// While everything is listed anew: what was listed so far.
    listed: Option<BTreeMap<u32, Interface>>,
    changed: bool,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Interface {
    name: String,
    enabled: bool,
    running: bool,
    mtu: u32,
    addresses: BTreeSet<IpAddr>,
}

/// What a path has below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// The interface's name.
    pub interface: String,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Those of its addresses from which the server can be reached.
    pub addresses: Vec<IpAddr>,
}

/// Interfaces remembered; on a host with more, those with the highest numbers are not seen.
const INTERFACES_MAX: usize = 65_536;

impl Table {
    /// Everything is about to be listed.
    pub(super) fn begin(&mut self) {
        self.listed = Some(BTreeMap::new());
    }

    /// Everything has been listed: what was not is gone.
    pub(super) fn end(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.changed = true;
            self.interfaces = listed;
        }
    }

    /// Whether anything has changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn apply(&mut self, message: &RouteNetlinkMessage) {
        match message {
            RouteNetlinkMessage::NewLink(link) => self.link(link),
            // Bridges announce ports that leave them as deleted links of their own family.
            RouteNetlinkMessage::DelLink(link)
                if link.header.interface_family == AddressFamily::Unspec =>
            {
                self.changed |= self.current().remove(&link.header.index).is_some();
            }
            RouteNetlinkMessage::NewAddress(address) => self.address(address, true),
            RouteNetlinkMessage::DelAddress(address) => self.address(address, false),
            _ => {}
        }
    }

    pub(super) fn find(&self, binding: &Binding<'_>) -> Result<Option<Found>, Absence> {
        let mut all = self.interfaces.values();
        let interface = match (binding.interface, binding.source) {
            (None, None) => return Ok(None),
            (Some(name), _) => {
                let missing = || Absence::NoInterface(name.into());
                all.find(|interface| interface.name == name).ok_or_else(missing)?
            }
            (None, Some(source)) => all
                .find(|interface| interface.addresses.contains(&source))
                .ok_or(Absence::NoSource(source))?,
        };
        let name = || interface.name.clone();
        if !interface.enabled {
            return Err(Absence::Disabled(name()));
        }
        if !interface.running {
            return Err(Absence::NoCarrier(name()));
        }
        if let Some(source) = binding.source
            && !interface.addresses.contains(&source)
        {
            return Err(Absence::NoSource(source));
        }
        let usable = |address: &IpAddr| match address {
            IpAddr::V4(_) => !binding.ipv6,
            IpAddr::V6(v6) => binding.ipv6 && !v6.is_unicast_link_local(),
        };
        let addresses: Vec<IpAddr> = match binding.source {
            Some(source) => vec![source],
            None => interface.addresses.iter().copied().filter(usable).collect(),
        };
        if addresses.is_empty() {
            let other = |address: &IpAddr| match address {
                IpAddr::V4(_) => binding.ipv6,
                IpAddr::V6(v6) => !binding.ipv6 && !v6.is_unicast_link_local(),
            };
            return Err(if interface.addresses.iter().any(other) {
                Absence::NoFamily(name(), binding.ipv6)
            } else {
                Absence::NoAddress(name())
            });
        }
        Ok(Some(Found { interface: name(), mtu: interface.mtu, addresses }))
    }

    fn current(&mut self) -> &mut BTreeMap<u32, Interface> {
        self.listed.as_mut().unwrap_or(&mut self.interfaces)
    }

    fn link(&mut self, link: &LinkMessage) {
        let interfaces = self.current();
        let index = link.header.index;
        if interfaces.len() >= INTERFACES_MAX && !interfaces.contains_key(&index) {
            return;
        }
        let known = interfaces.get(&index).cloned().unwrap_or_default();
        let mut interface = known.clone();
        interface.enabled = link.header.flags.contains(LinkFlags::Up);
        interface.running = link.header.flags.contains(LinkFlags::Running);
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                _ => {}
            }
        }
        let changed = interface != known;
        interfaces.insert(index, interface);
        self.changed |= changed;
    }

    fn address(&mut self, message: &AddressMessage, there: bool) {
        // On point-to-point links the local address has an attribute of its own.
        let of = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| {
            message.attributes.iter().find_map(wanted)
        };
        let local = of(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let address = local.or_else(|| {
            of(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            })
        });
        let Some(address) = address else { return };
        // It may not be used yet; another message tells when it may.
        let unusable = message.attributes.iter().any(|attribute| match attribute {
            AddressAttribute::Flags(flags) => {
                flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed)
                    && !flags.contains(AddressFlags::Optimistic)
            }
            _ => false,
        });
        let Some(interface) = self.current().get_mut(&message.header.index) else { return };
        self.changed |= if there && !unusable {
            interface.addresses.insert(address)
        } else {
            interface.addresses.remove(&address)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, flags: LinkFlags) -> RouteNetlinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = flags;
        link.attributes = vec![LinkAttribute::IfName(name.into()), LinkAttribute::Mtu(1500)];
        RouteNetlinkMessage::NewLink(link)
    }

    fn address(index: u32, address: &str, flags: AddressFlags) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Address(address.parse().unwrap()),
            AddressAttribute::Flags(flags),
        ];
        message
    }

    const ON: LinkFlags = LinkFlags::Up.union(LinkFlags::Running);
    const WLAN: Binding<'_> = Binding { interface: Some("wlan0"), source: None, ipv6: false };

    fn new_address(table: &mut Table, index: u32, text: &str) {
        let message = address(index, text, AddressFlags::empty());
        table.apply(&RouteNetlinkMessage::NewAddress(message));
    }

    #[test]
    fn an_interface_comes_up_step_by_step() {
        let mut table = Table::default();
        assert_eq!(table.find(&WLAN), Err(Absence::NoInterface("wlan0".into())));
        table.apply(&link(3, "wlan0", LinkFlags::empty()));
        assert_eq!(table.find(&WLAN), Err(Absence::Disabled("wlan0".into())));
        table.apply(&link(3, "wlan0", LinkFlags::Up));
        assert_eq!(table.find(&WLAN), Err(Absence::NoCarrier("wlan0".into())));
        table.apply(&link(3, "wlan0", ON));
        assert_eq!(table.find(&WLAN), Err(Absence::NoAddress("wlan0".into())));
        new_address(&mut table, 3, "fe80::1");
        new_address(&mut table, 3, "2001:db8::1");
        assert_eq!(table.find(&WLAN), Err(Absence::NoFamily("wlan0".into(), false)));
        new_address(&mut table, 3, "192.0.2.7");
        let found = table.find(&WLAN).unwrap().unwrap();
        assert_eq!((found.mtu, found.addresses), (1500, vec!["192.0.2.7".parse().unwrap()]));
        let v6 = table.find(&Binding { ipv6: true, ..WLAN }).unwrap().unwrap();
        assert_eq!(v6.addresses, ["2001:db8::1".parse::<IpAddr>().unwrap()]);
        assert!(table.take_changed() && !table.take_changed());
        new_address(&mut table, 3, "192.0.2.7");
        assert!(!table.take_changed(), "nothing new");
    }

    #[test]
    fn a_source_is_found_where_it_is() {
        let mut table = Table::default();
        let source = "192.0.2.7".parse().unwrap();
        let binding = Binding { interface: None, source: Some(source), ipv6: false };
        assert_eq!(table.find(&binding), Err(Absence::NoSource(source)));
        table.apply(&link(3, "eth0", ON));
        table.apply(&link(4, "eth1", ON));
        new_address(&mut table, 4, "192.0.2.7");
        assert_eq!(table.find(&binding).unwrap().unwrap().interface, "eth1");
        let wrong = Binding { interface: Some("eth0"), ..binding };
        assert_eq!(table.find(&wrong), Err(Absence::NoSource(source)));
        let gone = address(4, "192.0.2.7", AddressFlags::empty());
        table.apply(&RouteNetlinkMessage::DelAddress(gone));
        assert_eq!(table.find(&binding), Err(Absence::NoSource(source)));
        let none = Binding { interface: None, source: None, ipv6: false };
        assert_eq!(table.find(&none), Ok(None), "bound to nothing, nothing to miss");
    }

    #[test]
    fn an_address_under_test_does_not_count() {
        let mut table = Table::default();
        table.apply(&link(3, "wlan0", ON));
        let v6 = Binding { ipv6: true, ..WLAN };
        let tentative = address(3, "2001:db8::1", AddressFlags::Tentative);
        table.apply(&RouteNetlinkMessage::NewAddress(tentative));
        assert_eq!(table.find(&v6), Err(Absence::NoAddress("wlan0".into())));
        new_address(&mut table, 3, "2001:db8::1");
        assert!(table.find(&v6).is_ok());
        // Of an interface that is not known.
        new_address(&mut table, 9, "2001:db8::2");
    }

    #[test]
    fn what_is_not_listed_anew_is_gone() {
        let mut table = Table::default();
        table.apply(&link(3, "wlan0", ON));
        new_address(&mut table, 3, "192.0.2.7");
        table.apply(&link(4, "wwan0", ON));
        table.begin();
        table.apply(&link(4, "wwan0", ON));
        assert!(table.find(&WLAN).is_ok(), "until all is listed");
        table.end();
        assert_eq!(table.find(&WLAN), Err(Absence::NoInterface("wlan0".into())));
        let mut deleted = LinkMessage::default();
        deleted.header.index = 4;
        deleted.header.interface_family = AddressFamily::Bridge;
        table.apply(&RouteNetlinkMessage::DelLink(deleted.clone()));
        assert!(
            table
                .find(&Binding { interface: Some("wwan0"), ..WLAN })
                .is_err_and(|why| why == Absence::NoAddress("wwan0".into()))
        );
        deleted.header.interface_family = AddressFamily::Unspec;
        table.apply(&RouteNetlinkMessage::DelLink(deleted));
        assert!(
            table
                .find(&Binding { interface: Some("wwan0"), ..WLAN })
                .is_err_and(|why| why == Absence::NoInterface("wwan0".into()))
        );
    }
}
