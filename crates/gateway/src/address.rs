//! Addresses inside the tunnels: who is who in the plain IP packets that the paths carry.
//!
//! A network is a /16 of IPv4 and a /64 of IPv6. Host 1 is the server's service address (names,
//! probes, requests to the server itself); client `n` has the sixteen hosts from `16 n` on: the
//! first [`PATHS_MAX`] are its paths', the last is the client's own, for what belongs to no path
//! (datagrams, ICMP).

use crate::access::kind_of;
use crate::dns;
use crate::index::PathIndex;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The addresses of a server and of all its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Network {
    /// Its first address; the last two octets are zero.
    pub(crate) v4: Ipv4Addr,
    /// Its first address; the last eight octets are zero.
    pub(crate) v6: Ipv6Addr,
}

/// A client of a server, from 1 to [`CLIENTS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ClientNumber(pub(crate) u16);

/// Paths of a client.
pub const PATHS_MAX: usize = 8;
/// Clients of a server.
pub const CLIENTS_MAX: u16 = 4095;
/// Hosts of a client.
const HOSTS: u32 = 16;
/// Among those, the one that belongs to no path.
const OWN: u32 = 15;
/// The server.
const SERVICE: u32 = 1;

/// Of an address that is not simply somebody's on the Internet, as far as addresses tell: its kind.
#[must_use]
pub fn special_kind(address: IpAddr) -> Option<impl fmt::Display> {
    kind_of(address)
}

impl Default for Network {
    fn default() -> Self {
        Self {
            v4: Ipv4Addr::new(10, 81, 0, 0),
            v6: Ipv6Addr::new(0xfd74, 0x6162, 0x616e, 0x6500, 0, 0, 0, 0),
        }
    }
}

impl Network {
    /// With those first addresses, where they are given.
    #[must_use]
    pub(crate) fn new(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> Self {
        let own = Self::default();
        Self { v4: v4.unwrap_or(own.v4), v6: v6.unwrap_or(own.v6) }
    }

    /// The server's own addresses.
    #[must_use]
    pub(crate) fn service(&self) -> [IpAddr; 2] {
        self.host(SERVICE)
    }

    /// Whether only agents speak to that: what a client asks of its server holds for all that use
    /// the client, so a program or a host behind it must not ask. Names (and echoes, which have no
    /// port) are for everybody.
    #[must_use]
    pub(crate) fn is_for_agents(&self, to: SocketAddr) -> bool {
        self.service().contains(&to.ip()) && ![0, dns::PORT].contains(&to.port())
    }

    /// The addresses of a client's path.
    #[must_use]
    pub(crate) fn path(&self, client: ClientNumber, path: PathIndex) -> [IpAddr; 2] {
        debug_assert!(path.get() < PATHS_MAX);
        self.host(u32::from(client.0) * HOSTS + u32::from(path.id()))
    }

    /// The addresses of a client that belong to no path.
    #[must_use]
    pub(crate) fn own(&self, client: ClientNumber) -> [IpAddr; 2] {
        self.host(u32::from(client.0) * HOSTS + OWN)
    }

    /// Whose address it is; `None` for the server's and for those outside.
    #[must_use]
    pub(crate) fn client_of(&self, address: IpAddr) -> Option<ClientNumber> {
        let host = match address {
            IpAddr::V4(v4) => v4.to_bits().checked_sub(self.v4.to_bits())?,
            IpAddr::V6(v6) => u32::try_from(v6.to_bits().checked_sub(self.v6.to_bits())?).ok()?,
        };
        let number = u16::try_from(host / HOSTS).ok()?;
        (1..=CLIENTS_MAX).contains(&number).then_some(ClientNumber(number))
    }

    fn host(&self, host: u32) -> [IpAddr; 2] {
        [
            Ipv4Addr::from_bits(self.v4.to_bits() + host).into(),
            Ipv6Addr::from_bits(self.v6.to_bits() + u128::from(host)).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_client_is_known_as_its() {
        let network = Network::default();
        for client in [1, 2, 77, CLIENTS_MAX].map(ClientNumber) {
            let paths = PathIndex::all().flat_map(|path| network.path(client, path));
            for address in paths.chain(network.own(client)) {
                assert_eq!(network.client_of(address), Some(client), "{address}");
            }
        }
        assert_eq!(network.own(ClientNumber(1))[0].to_string(), "10.81.0.31");
        assert_eq!(
            network.path(ClientNumber(2), PathIndex::new(1))[1].to_string(),
            "fd74:6162:616e:6500::21"
        );
    }

    #[test]
    fn others_are_nobodys() {
        let network = Network::default();
        let others = ["10.81.0.1", "10.80.255.255", "10.82.0.0", "::1", "ffff::", "1.1.1.1"];
        for address in others {
            assert_eq!(network.client_of(address.parse().unwrap()), None, "{address}");
        }
    }
}
