//! Prefixes of addresses and ranges of ports as configurations write them.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// A prefix: `192.0.2.0/24`, or a single address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Prefix(IpNet);

/// A range of ports: `25` or `135-139`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Why text is no prefix or no range of ports.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum PrefixError {
    /// Not an address before the slash.
    #[error("'{0}' is no prefix: write 192.0.2.0/24, 2001:db8::/32 or an address")]
    Syntax(String),
    /// The part after the slash.
    #[error("'{0}': the length of a prefix is 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Length(String),
    /// Bits behind the length: probably another prefix is meant.
    #[error("'{0}' has bits beyond its length; did you mean {1}?")]
    Bits(String, Prefix),
    /// Not a range of ports.
    #[error("'{0}' is no port and no range: write 25 or 135-139")]
    Ports(String),
}

impl Prefix {
    /// From its first address and its length in bits.
    ///
    /// # Errors
    /// [`PrefixError::Length`], [`PrefixError::Bits`].
    pub fn new(address: IpAddr, len: u8) -> Result<Self, PrefixError> {
        let text = || format!("{address}/{len}");
        let net = IpNet::new(address, len).map_err(|_| PrefixError::Length(text()))?;
        if net != net.trunc() {
            return Err(PrefixError::Bits(text(), Self(net.trunc())));
        }
        // Mapped IPv4 addresses are IPv4 addresses everywhere here.
        let canonical = address.to_canonical();
        if canonical.is_ipv4() && address.is_ipv6() && len >= 96 {
            return Self::new(canonical, len - 96);
        }
        Ok(Self(net))
    }

    /// Of one address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// The one that an address is in, by its netmask; `None` if that is no netmask.
    #[must_use]
    pub fn around(address: IpAddr, netmask: IpAddr) -> Option<Self> {
        let net = IpNet::with_netmask(address, netmask).ok()?.trunc();
        Self::new(net.addr(), net.prefix_len()).ok()
    }

    /// Its length in bits.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.0.addr()
    }

    /// Whether it is one address.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len()
    }

    /// Whether an address is in it; a mapped IPv4 address counts as IPv4.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether all of another prefix is in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, len) = match text.split_once('/') {
            None => (text, None),
            Some((address, len)) => (address, Some(len)),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Syntax(text.into()))?;
        let Some(len) = len else { return Ok(Self::host(address)) };
        let digits = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
        let len = len.parse().ok().filter(|_| digits);
        Self::new(address, len.ok_or_else(|| PrefixError::Length(text.into()))?)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

impl PortRange {
    /// Whether a port is in it.
    #[must_use]
    pub fn holds(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| -> Option<u16> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits)
        };
        match (port(first.trim()), port(last.trim())) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(PrefixError::Ports(text.into())),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => self.first.fmt(f),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("10.0.0.0/33", "'10.0.0.0/33': the length of a prefix is 0 to 32 for IPv4"),
            ("10.0.0.0/", "'10.0.0.0/': the length"),
            ("10.0.0.0/+8", "'10.0.0.0/+8': the length"),
            ("10.1.0.0/8", "'10.1.0.0/8' has bits beyond its length; did you mean 10.0.0.0/8?"),
            ("fd00::1/64", "'fd00::1/64' has bits beyond its length; did you mean fd00::/64?"),
            ("example.org", "'example.org' is no prefix"),
            ("", "'' is no prefix"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        for text in ["", "-", "1-", "-1", "2-1", "65536", "+1", "a"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let mapped: Prefix = "::ffff:10.0.0.0/104".parse().unwrap();
        assert_eq!(mapped.to_string(), "10.0.0.0/8");
        assert!(mapped.holds("10.1.2.3".parse().unwrap()));
        assert!(mapped.holds("::ffff:10.1.2.3".parse().unwrap()));
        let one: Prefix = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(one, "10.0.0.1".parse().unwrap());
    }

    proptest! {
        #[test]
        fn what_prints_parses(
            v4: bool, bits: u128, len in 0..=128u8, other: u128, range: (u16, u16),
        ) {
            let address = |bits: u128| -> IpAddr {
                if v4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) }
            };
            let len = if v4 { len % 33 } else { len };
            let net = IpNet::new(address(bits), len).unwrap();
            let prefix = Prefix::new(net.network(), len).unwrap();
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
            prop_assert!(prefix.holds(address(bits)));
            let width = u32::from(if v4 { 32u8 } else { 128 });
            let all = if v4 { u128::from(u32::MAX) } else { u128::MAX };
            let same = ((bits ^ other) & all).checked_shr(width - u32::from(len)).unwrap_or(0) == 0;
            let mapped = !v4 && (address(other).to_canonical().is_ipv4());
            prop_assert!(mapped || prefix.holds(address(other)) == same);
            let range = PortRange { first: range.0.min(range.1), last: range.0.max(range.1) };
            prop_assert_eq!(range.to_string().parse(), Ok(range));
            prop_assert!(range.holds(range.first) && range.holds(range.last));
        }

        #[test]
        fn any_text_is_taken(text in "\\PC{0,30}") {
            let _ = text.parse::<Prefix>();
            let _ = text.parse::<PortRange>();
        }
    }
}
