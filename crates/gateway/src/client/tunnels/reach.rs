//! At which of the server's addresses each path looks for it.
//!
//! A path takes the first address of a family that its link has, in the order of the
//! configuration, and the next such one if the server is not reached there for [`PATIENCE`]. So a
//! link with IPv6 alone works beside one with IPv4 alone, and one that has both tries both.

use super::{Tunnel, Tunnels};
use crate::path::Links;
use std::net::SocketAddr;
use tabane_engine::{Duration, Instant};

/// How long a server may be out of reach at an address before another is tried. Longer than a
/// server needs to restart.
pub(in crate::client) const PATIENCE: Duration = Duration::from_secs(6);

impl Tunnels {
    /// Sets where the server is, by preference; paths that have an address of their own for it keep
    /// that.
    pub(in crate::client) fn set_addresses(&mut self, now: Instant, addresses: &[SocketAddr]) {
        self.addresses = addresses.to_vec();
        self.choose_addresses(now);
    }

    /// Gives each path the address that it shall use now.
    pub(super) fn choose_addresses(&mut self, now: Instant) {
        for tunnel in &mut self.all {
            let all = candidates(tunnel, &self.addresses, self.links.as_ref());
            let up = tunnel.monitor.is_up();
            if up {
                tunnel.since = now;
            }
            let late = !up && now.saturating_since(tunnel.since) > PATIENCE;
            let Some(new) = choice(&all, tunnel.remote, late) else { continue };
            if late {
                tunnel.since = now;
            }
            if tunnel.remote == Some(new) {
                continue;
            }
            if tunnel.remote.is_some_and(|old| old.is_ipv6() != new.is_ipv6()) {
                // Its socket is of the other family.
                tunnel.close(&self.registry);
                tunnel.next_open = now;
            }
            (tunnel.remote, tunnel.since) = (Some(new), now);
        }
    }
}

/// The addresses that a path could use by what its link has; all, if it could use none.
fn candidates(tunnel: &Tunnel, all: &[SocketAddr], links: Option<&Links>) -> Vec<SocketAddr> {
    if let Some(own) = tunnel.config.remote {
        return vec![own];
    }
    let usable = |remote: &&SocketAddr| {
        let source = tunnel.config.source;
        let family = source.is_none_or(|source| source.is_ipv6() == remote.is_ipv6());
        family && links.is_none_or(|links| links.find(&tunnel.binding(**remote)).is_ok())
    };
    let usable: Vec<SocketAddr> = all.iter().filter(usable).copied().collect();
    if usable.is_empty() { all.to_vec() } else { usable }
}

/// Of those, the one in use as long as it will do, else the next, else the first.
fn choice(all: &[SocketAddr], current: Option<SocketAddr>, late: bool) -> Option<SocketAddr> {
    let at = current.and_then(|current| all.iter().position(|one| *one == current));
    match at {
        Some(at) if late => all.get((at + 1) % all.len()).copied(),
        Some(at) => all.get(at).copied(),
        None => all.first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_while_it_will_do() {
        let all: Vec<SocketAddr> =
            ["192.0.2.1:1", "[2001:db8::1]:1"].map(|text| text.parse().unwrap()).into();
        let [v4, v6] = [all[0], all[1]];
        assert_eq!(choice(&all, None, false), Some(v4));
        assert_eq!(choice(&all, Some(v6), false), Some(v6));
        assert_eq!(choice(&all, Some(v4), true), Some(v6));
        assert_eq!(choice(&all, Some(v6), true), Some(v4), "in a circle");
        assert_eq!(choice(&all[..1], Some(v4), true), Some(v4), "there is no other");
        assert_eq!(choice(&all[1..], Some(v4), false), Some(v6), "its family has gone");
        assert_eq!(choice(&[], Some(v4), true), None);
    }
}
