//! The addresses that are not simply somebody's on the Internet: the IANA special-purpose
//! registries (RFC 6890 and later), multicast, and metadata services at public addresses.

use super::Prefix;
use crate::config::AccessConfig;
use std::fmt;
use std::net::IpAddr;

/// Why a prefix is denied unless allowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// The machine itself; the unspecified address too, which leads there.
    Loopback,
    /// Private and unique local (RFC 1918, RFC 4193, site-local).
    Private,
    /// Shared between provider and customers (RFC 6598).
    Shared,
    /// Link-local, where clouds keep their metadata.
    LinkLocal,
    /// Metadata services elsewhere.
    Metadata,
    /// For benchmarks (RFC 2544) and examples.
    Testing,
    /// Translation and tunnels whose far end cannot be seen in the address.
    Translation,
    /// Groups and broadcast.
    Multicast,
    /// Not assigned for use.
    Reserved,
    /// Inside the tunnels.
    Inner,
    /// The server's own.
    Own,
}

/// Prefixes and why each is denied; `None`: it is not.
pub(super) fn prefixes() -> impl Iterator<Item = (Prefix, Option<Kind>)> {
    TABLE.iter().map(|(text, kind)| {
        let prefix = text.parse().expect("invariant: the table is checked by a test");
        (prefix, *kind)
    })
}

/// What kind of address that is; `None`: somebody's on the Internet, as far as addresses tell.
#[must_use]
pub(crate) fn kind_of(address: IpAddr) -> Option<Kind> {
    let holding = prefixes().filter(|(prefix, _)| prefix.holds(address));
    holding.max_by_key(|(prefix, _)| prefix.len()).and_then(|(_, kind)| kind)
}

const TABLE: &[(&str, Option<Kind>)] = &[
    ("0.0.0.0/0", None),
    ("0.0.0.0/8", Some(Kind::Loopback)),
    ("10.0.0.0/8", Some(Kind::Private)),
    ("100.64.0.0/10", Some(Kind::Shared)),
    // Clouds have their metadata in private networks too: Alibaba, Oracle, Amazon, Google.
    ("100.100.100.200/32", Some(Kind::Metadata)),
    ("192.0.0.192/32", Some(Kind::Metadata)),
    ("fd00:ec2::/32", Some(Kind::Metadata)),
    ("fd00:c1::a9fe:a9fe/128", Some(Kind::Metadata)),
    ("fd20:ce::254/128", Some(Kind::Metadata)),
    ("127.0.0.0/8", Some(Kind::Loopback)),
    // The host agent of one large cloud has a public address.
    ("168.63.129.16/32", Some(Kind::Metadata)),
    ("169.254.0.0/16", Some(Kind::LinkLocal)),
    ("172.16.0.0/12", Some(Kind::Private)),
    ("192.0.0.0/24", Some(Kind::Private)),
    ("192.0.2.0/24", Some(Kind::Testing)),
    ("192.88.99.0/24", Some(Kind::Translation)),
    ("192.168.0.0/16", Some(Kind::Private)),
    ("198.18.0.0/15", Some(Kind::Testing)),
    ("198.51.100.0/24", Some(Kind::Testing)),
    ("203.0.113.0/24", Some(Kind::Testing)),
    ("224.0.0.0/4", Some(Kind::Multicast)),
    ("240.0.0.0/4", Some(Kind::Reserved)),
    ("255.255.255.255/32", Some(Kind::Multicast)),
    // Only 2000::/3 is global unicast (RFC 4291 section 2.4, RFC 3587).
    ("::/0", Some(Kind::Reserved)),
    ("2000::/3", None),
    ("::/128", Some(Kind::Loopback)),
    ("::1/128", Some(Kind::Loopback)),
    // NAT64 (RFC 6052) is as good as the IPv4 address in it; its local-use prefix (RFC 8215)
    // leads nobody knows where.
    ("64:ff9b::/96", None),
    ("64:ff9b:1::/48", Some(Kind::Translation)),
    ("100::/64", Some(Kind::Reserved)),
    // Teredo (RFC 4380) hides an address and a port.
    ("2001::/32", Some(Kind::Translation)),
    ("2001:2::/48", Some(Kind::Testing)),
    ("2001:10::/28", Some(Kind::Reserved)),
    ("2001:20::/28", Some(Kind::Reserved)),
    ("2001:db8::/32", Some(Kind::Testing)),
    ("3fff::/20", Some(Kind::Testing)),
    ("fc00::/7", Some(Kind::Private)),
    ("fe80::/10", Some(Kind::LinkLocal)),
    ("fec0::/10", Some(Kind::Private)),
    ("ff00::/8", Some(Kind::Multicast)),
];

impl Kind {
    /// Whether a switch of the configuration opens it. What has none is opened by `allow` alone,
    /// and the inner network by nothing.
    pub(super) fn is_open(self, config: &AccessConfig) -> bool {
        match self {
            Self::Private | Self::Shared => config.private,
            Self::Loopback | Self::Own => config.loopback == Some(true),
            Self::LinkLocal | Self::Metadata => config.metadata == Some(true),
            Self::Testing | Self::Translation => false,
            Self::Multicast | Self::Reserved | Self::Inner => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::Testing => "testing",
            Self::Translation => "translation",
            Self::Multicast => "multicast",
            Self::Reserved => "reserved",
            Self::Inner => "inner",
            Self::Own => "the server's own",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_the_internet_does_not_reach_are_told() {
        for (address, kind) in [
            ("10.0.0.5", Some(Kind::Private)),
            ("172.31.4.4", Some(Kind::Private)),
            ("100.72.1.1", Some(Kind::Shared)),
            ("169.254.3.3", Some(Kind::LinkLocal)),
            ("fd00::1", Some(Kind::Private)),
            ("fe80::1", Some(Kind::LinkLocal)),
            ("9.9.9.9", None),
            ("2620:fe::fe", None),
        ] {
            assert_eq!(kind_of(address.parse().unwrap()), kind, "{address}");
        }
    }
}
