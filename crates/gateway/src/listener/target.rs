//! Where a program wants to go: an address, or a name that the far end resolves.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// A destination.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    /// An address and a port.
    Address(SocketAddr),
    /// A name in lower case without its last dot, and a port; always a valid host name
    /// (`Target::new`).
    Name(String, u16),
}

/// Why text is no destination.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetError {
    /// Neither an address nor a host name.
    #[error("the host is neither an address nor a host name")]
    Host,
    /// Not a port from 1 to 65535.
    #[error("the port is not a number from 1 to 65535")]
    Port,
}

impl Target {
    /// From a host as programs write it (an address, an IPv6 address in brackets, a name) and a
    /// port. Names have labels of letters, digits, `-` and `_`, at most 63 each and 253 together
    /// (RFC 1123 section 2.1; `_` because it is in use). Numbers that only some resolvers take
    /// for addresses (`127.1`, `0x7f000001`) are refused: a name must not mean one thing here and
    /// another there.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(crate) fn new(host: &[u8], port: u16) -> Result<Self, TargetError> {
        if port == 0 {
            return Err(TargetError::Port);
        }
        let host = str::from_utf8(host).map_err(|_| TargetError::Host)?;
        if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr = inner.parse().map_err(|_| TargetError::Host)?;
            return Ok(Self::Address(SocketAddr::new(address.into(), port)));
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(address, port)));
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        if !is_name(name) {
            return Err(TargetError::Host);
        }
        Ok(Self::Name(name.to_ascii_lowercase(), port))
    }

    /// The port.
    #[must_use]
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }

    /// From `host:port`.
    ///
    /// # Errors
    /// [`TargetError`].
    pub(crate) fn parse(authority: &str) -> Result<Self, TargetError> {
        let (host, port) = authority.rsplit_once(':').ok_or(TargetError::Port)?;
        // An IPv6 address without brackets would lose its last group to the port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(TargetError::Host);
        }
        Self::new(host.as_bytes(), parse_port(port)?)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// Digits only: `parse` of the standard library takes a sign, too.
pub(super) fn parse_port(text: &str) -> Result<u16, TargetError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = if digits { text.parse().unwrap_or(0) } else { 0 };
    if port == 0 { Err(TargetError::Port) } else { Ok(port) }
}

fn is_name(name: &str) -> bool {
    let labels = name.split('.');
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let last = name.rsplit('.').next().unwrap_or("");
    let hex = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    name.len() <= 253 && labels.into_iter().all(label_fits) && !numeric
}

/// An address of four bytes at the start of `bytes`.
pub(super) fn v4(bytes: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 4] = bytes.first_chunk().copied()?;
    Some(Ipv4Addr::from(octets).into())
}

/// An address of sixteen bytes at the start of `bytes`.
pub(super) fn v6(bytes: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = bytes.first_chunk().copied()?;
    Some(Ipv6Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        let long = "a".repeat(64);
        let table = [
            ("192.0.2.1:80", Ok("192.0.2.1:80")),
            ("[2001:db8::1]:443", Ok("[2001:db8::1]:443")),
            ("Example.ORG.:443", Ok("example.org:443")),
            ("_sip._udp.example.org:1", Ok("_sip._udp.example.org:1")),
            ("localhost:65535", Ok("localhost:65535")),
            ("3com.net:1", Ok("3com.net:1")),
            ("2001:db8::1:443", Err(TargetError::Host)),
            ("[fe80::1%eth0]:80", Err(TargetError::Host)),
            ("[192.0.2.1]:80", Err(TargetError::Host)),
            ("127.1:80", Err(TargetError::Host)),
            ("2130706433:80", Err(TargetError::Host)),
            ("0x7f000001:80", Err(TargetError::Host)),
            ("example.0x1:80", Err(TargetError::Host)),
            (":80", Err(TargetError::Host)),
            (".:80", Err(TargetError::Host)),
            ("a..b:80", Err(TargetError::Host)),
            ("a b:80", Err(TargetError::Host)),
            ("a\0b:80", Err(TargetError::Host)),
            ("münchen.de:80", Err(TargetError::Host)),
            ("example.org", Err(TargetError::Port)),
            ("example.org:", Err(TargetError::Port)),
            ("example.org:0", Err(TargetError::Port)),
            ("example.org:+80", Err(TargetError::Port)),
            ("example.org:65536", Err(TargetError::Port)),
            ("example.org:80 ", Err(TargetError::Port)),
            (&format!("{long}.org:80"), Err(TargetError::Host)),
        ];
        for (text, expected) in table {
            let got = Target::parse(text).map(|target| target.to_string());
            assert_eq!(got.as_deref(), expected.as_ref().map(|text| *text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_prints_and_parses_again(text in ".{0,40}", port: u16) {
            for text in [text.clone(), format!("{text}:{port}"), format!("[{text}]:{port}")] {
                if let Ok(target) = Target::parse(&text) {
                    prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
                }
            }
        }
    }
}
