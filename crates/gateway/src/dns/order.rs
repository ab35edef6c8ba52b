//! In which order to try the addresses of a name (RFC 8305 section 4): families alternate, so
//! that one that does not work costs one attempt. Which is first is a setting; within a family
//! the far end's order stays, whose system has sorted it (RFC 6724).

use std::net::IpAddr;

/// The family that is tried first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Preference {
    /// IPv6, as RFC 6724 has it.
    #[default]
    Ipv6,
    /// IPv4.
    Ipv4,
}

/// The addresses in the order to try.
#[must_use]
pub fn interleave(preference: Preference, addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = |address: &IpAddr| address.is_ipv6() == (preference == Preference::Ipv6);
    let mut firsts = addresses.iter().copied().filter(first);
    let mut others = addresses.iter().copied().filter(|address| !first(address));
    let mut ordered = Vec::with_capacity(addresses.len());
    while ordered.len() < addresses.len() {
        ordered.extend(firsts.next());
        ordered.extend(others.next());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate() {
        let addresses: Vec<IpAddr> =
            ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2"]
                .map(|text| text.parse().unwrap())
                .into();
        let order = |preference| -> Vec<String> {
            interleave(preference, &addresses).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            order(Preference::Ipv6),
            ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2", "192.0.2.3"]
        );
        assert_eq!(
            order(Preference::Ipv4),
            ["192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2", "192.0.2.3"]
        );
        assert!(interleave(Preference::Ipv4, &[]).is_empty());
    }
}
