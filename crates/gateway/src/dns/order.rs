//! In which order to try the addresses of a name (RFC 8305 section 4): families alternate, so
//! that one that does not work costs one attempt. IPv6 is first; within a family the far end's
//! order stays, whose system has sorted it (RFC 6724).

use std::net::IpAddr;

/// The addresses in the order to try.
#[must_use]
pub(crate) fn interleave(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut firsts = addresses.iter().copied().filter(IpAddr::is_ipv6);
    let mut others = addresses.iter().copied().filter(IpAddr::is_ipv4);
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
        let order: Vec<String> = interleave(&addresses).iter().map(ToString::to_string).collect();
        assert_eq!(order, ["2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.2", "192.0.2.3"]);
        assert!(interleave(&[]).is_empty());
    }
}
