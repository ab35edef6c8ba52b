//! Where clients of a server may connect to: prefixes allowed and denied, ports, and what nobody
//! should reach through a server unless its owner says so (the server itself, its private
//! networks, metadata services of clouds).
//!
//! The longest prefix that holds an address decides; of two equal ones the owner's wins over the
//! built-in ones, and `deny` over `allow`. An IPv6 address that stands for an IPv4 address (mapped,
//! NAT64 of RFC 6052, 6to4, IPv4-compatible) must pass as both. Addresses are checked at the time
//! of connecting, not names: a name whose address changes, or that resolves to a private one,
//! gains nothing. Built-in prefixes are those of the IANA special-purpose registries (RFC 6890)
//! and a few in wide use.

mod builtin;

use builtin::Kind;
pub(crate) use builtin::kind_of;
pub(crate) use tabane_net::prefix::PortRange;
pub(crate) use tabane_net::prefix::Prefix;
pub(crate) use tabane_net::prefix::PrefixError;

use crate::address::Network;
use crate::config::AccessConfig;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thiserror::Error;

/// The list of a server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Longest first; of equal ones the first counts.
    entries: Vec<Entry>,
    deny_ports: Vec<PortRange>,
    /// Of the server itself, with `entries`.
    own: Vec<IpAddr>,
    /// Whether the server's own addresses are open, by the configuration.
    own_open: bool,
}

/// Why an address may not be reached.
#[derive(Error, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Denied {
    /// By the configuration.
    #[error("{0} is denied")]
    Prefix(Prefix),
    /// By the configuration.
    #[error("port {0} is denied")]
    Port(u16),
    /// By default.
    #[error("{1} addresses ({0}) are denied unless allowed")]
    Builtin(Prefix, Kind),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    prefix: Prefix,
    verdict: Verdict,
}

/// In falling order of what counts among equal prefixes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Deny,
    Allow,
    Builtin(Kind),
    /// Global addresses.
    Open,
}

impl Access {
    /// The list as configured. `network` is never reached by ordinary sockets; `own` are the
    /// server's addresses ([`own_addresses`]).
    ///
    /// # Errors
    /// [`PrefixError`] with the text that is wrong.
    pub(crate) fn new(
        config: &AccessConfig,
        network: &Network,
        own: Vec<IpAddr>,
    ) -> Result<Self, PrefixError> {
        let mut entries = Vec::new();
        let mut add = |prefix, verdict| entries.push(Entry { prefix, verdict });
        for text in &config.deny {
            add(text.parse()?, Verdict::Deny);
        }
        for text in &config.allow {
            add(text.parse()?, Verdict::Allow);
        }
        for (prefix, kind) in builtin::prefixes() {
            match kind {
                None => add(prefix, Verdict::Open),
                Some(kind) if kind.is_open(config) => add(prefix, Verdict::Open),
                Some(kind) => add(prefix, Verdict::Builtin(kind)),
            }
        }
        for address in [(network.v4.into(), 16), (network.v6.into(), 64)] {
            add(Prefix::new(address.0, address.1)?, Verdict::Builtin(Kind::Inner));
        }
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.prefix.len()), entry.verdict));
        let ports = config.deny_ports.iter().map(|text| text.parse());
        let deny_ports = ports.collect::<Result<_, _>>()?;
        Ok(Self { entries, deny_ports, own, own_open: Kind::Own.is_open(config) })
    }

    /// The server's addresses are others now.
    pub(crate) fn set_own(&mut self, own: Vec<IpAddr>) {
        self.own = own;
    }

    /// Whether an address may be reached, over TCP or UDP.
    ///
    /// # Errors
    /// [`Denied`], for the log; clients learn only that it is not allowed.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<(), Denied> {
        for ip in [Some(address.ip().to_canonical()), embedded(address.ip())].into_iter().flatten()
        {
            self.check_ip(ip)?;
        }
        let port = address.port();
        if self.deny_ports.iter().any(|range| range.holds(port)) {
            return Err(Denied::Port(port));
        }
        Ok(())
    }

    fn check_ip(&self, ip: IpAddr) -> Result<(), Denied> {
        let entry = self.entries.iter().find(|entry| entry.prefix.holds(ip));
        if !self.own_open && self.own.contains(&ip) {
            // As a prefix of one address: only the same prefix counts more.
            let said = entry.is_some_and(|entry| {
                entry.prefix.is_host() && matches!(entry.verdict, Verdict::Allow | Verdict::Deny)
            });
            if !said {
                return Err(Denied::Builtin(Prefix::host(ip), Kind::Own));
            }
        }
        match entry.map(|entry| (entry.prefix, entry.verdict)) {
            Some((_, Verdict::Allow | Verdict::Open)) => Ok(()),
            Some((prefix, Verdict::Deny)) => Err(Denied::Prefix(prefix)),
            Some((prefix, Verdict::Builtin(kind))) => Err(Denied::Builtin(prefix, kind)),
            None => Err(Denied::Builtin(Prefix::host(ip), Kind::Reserved)),
        }
    }
}

/// The addresses of this machine, for [`Access::new`] and [`Access::set_own`]; none if they cannot
/// be listed.
#[must_use]
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let interfaces = getifaddrs::getifaddrs().into_iter().flatten();
    interfaces.filter_map(|interface| interface.address.ip_addr()).collect()
}

/// The IPv4 address that an IPv6 address leads to although it is no mapped one (those are never
/// anything else, and have been replaced).
fn embedded(ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = ip.to_canonical() else { return None };
    let bits = v6.to_bits();
    let v4 = match v6.segments() {
        // 6to4 (RFC 3056).
        [0x2002, ..] => (bits >> 80) as u32,
        // NAT64 with the well-known prefix (RFC 6052 section 2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => bits as u32,
        // IPv4-compatible (RFC 4291 section 2.5.5.1); not :: and ::1.
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => bits as u32,
        // ISATAP (RFC 5214 section 6.1).
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => bits as u32,
        _ => return None,
    };
    Some(Ipv4Addr::from_bits(v4).into())
}

#[cfg(test)]
mod tests;
