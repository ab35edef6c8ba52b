//! Hosts behind the client (`[lan]`): their packets come by the TUN device like the host's own.
//!
//! Their TCP ends here as the host's own does. Their datagrams and echo requests leave from the
//! client's inner address, each source as a port of its own ([`Nat`]), and so do the host's own,
//! so that no two of them share one. What the kernel is told of them is [`crate::tun::host`]'s.

use super::Core;
use super::host::DEVICE_MTU;
use crate::address::ClientNumber;
use crate::config::{ClientConfig, LanConfig, PathConfig, WhenDown};
use crate::model::{EventKind, LanInterface, LanStatus};
use crate::tun::packets::{Counts, prohibited};
use crate::tun::{LanHosts, on_link};
use crate::udp::{ByUse, Nat, Refused, Sides, fragment};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tabane_engine::{Duration, Instant};

/// The hosts behind a client.
pub(super) struct LanSide {
    config: LanConfig,
    number: ClientNumber,
    sides: Sides,
    nat: Nat,
    /// Of the last datagram to them that was cut.
    fragment_id: u32,
    /// When each was heard of last.
    hosts: BTreeMap<IpAddr, Instant>,
    hosts_by_use: ByUse<(), IpAddr>,
    /// Datagrams that were refused because there were too many sources.
    full: u64,
    /// And because no path worked.
    no_path: u64,
    /// Since when no path has worked.
    down: Option<Instant>,
    /// Packets of the hosts go through the bond.
    carried: bool,
}

/// Sources of datagrams at a time: ports that there are for them.
const SOURCES_MAX: usize = 16_384;
/// And those of one address: one host must not take them all.
const SOURCES_OF_HOST: usize = 2048;
/// The first port of a source: those below are for associations ([`super::datagrams`]).
const FIRST_PORT: u16 = 22_000;
/// Hosts that are remembered; when there are more, those heard of longest ago are forgotten.
const HOSTS_MAX: usize = 4096;
/// And for how long.
const HOST_AGE: Duration = Duration::from_secs(600);
/// From the end of the last path to the use of the host's own routes, or to what senders of
/// datagrams are told. Longer than a path that comes back at once takes.
const PATIENCE: Duration = Duration::from_secs(5);

impl LanSide {
    /// Of a configuration; `own` and `service` are the inner addresses of client and server.
    pub(super) fn new(
        config: &ClientConfig,
        own: [IpAddr; 2],
        service: [IpAddr; 2],
    ) -> Option<Self> {
        let lan = config.lan.clone()?;
        Some(Self {
            config: lan,
            number: ClientNumber(config.number),
            sides: Sides { own, service: [service, service] },
            nat: Nat::of_hosts(FIRST_PORT, SOURCES_MAX),
            fragment_id: 0,
            hosts: BTreeMap::new(),
            hosts_by_use: ByUse::new(),
            full: 0,
            no_path: 0,
            down: None,
            carried: true,
        })
    }

    /// Whether nothing of the hosts may leave past the tunnel.
    pub(super) fn blocks(&self) -> bool {
        self.config.when_down == WhenDown::Block
    }

    /// What the host must be told of them; `paths` are those of the configuration.
    pub(super) fn wanted(&self, paths: &[PathConfig]) -> LanHosts {
        LanHosts {
            interfaces: self.config.interfaces.clone(),
            links: paths.iter().filter_map(|path| path.interface.clone()).collect(),
            sources: paths.iter().filter_map(|path| path.source).collect(),
            any_link: paths.iter().any(|path| path.interface.is_none() && path.source.is_none()),
            block: self.blocks(),
            carried: self.carried,
        }
    }

    /// Whether no path works, and none is likely to at once.
    fn is_down(&self, now: Instant) -> bool {
        self.down.is_some_and(|since| now.saturating_since(since) >= PATIENCE)
    }

    /// Whether a path works; true if this changes where packets of the hosts go.
    fn set_up(&mut self, now: Instant, up: bool) -> bool {
        self.down = if up { None } else { self.down.or(Some(now)) };
        let carried = self.blocks() || !self.is_down(now);
        std::mem::replace(&mut self.carried, carried) != carried
    }

    /// A packet came from `source`.
    pub(super) fn hear(&mut self, now: Instant, source: IpAddr) {
        // The device has an address of the link's own, which the kernel uses for itself.
        let link_local = matches!(source, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if link_local || self.sides.own.contains(&source) {
            return;
        }
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&source) {
            let last = |host| self.hosts.get(&host).copied().unwrap_or_default();
            if let Some((_, oldest)) = self.hosts_by_use.oldest((), last) {
                self.hosts.remove(&oldest);
                self.hosts_by_use.remove((), oldest);
            }
        }
        if self.hosts.insert(source, now).is_none() {
            self.hosts_by_use.insert(now, (), source);
        }
    }

    /// A datagram or echo request as it leaves, and where to; `None` if it is not carried.
    ///
    /// # Errors
    /// The answer for its sender.
    fn translate(
        &mut self,
        now: Instant,
        packet: &[u8],
    ) -> Result<Option<(SocketAddr, &mut [u8])>, Option<Bytes>> {
        if self.is_down(now) {
            self.no_path += 1;
            return Err(prohibited(packet));
        }
        let client = (self.number, SOURCES_OF_HOST);
        match self.nat.forward(now, client, &self.sides, packet) {
            Ok(leaves) => Ok(Some(leaves)),
            Err(Refused::Full) => {
                self.full += 1;
                Err(prohibited(packet))
            }
            // A reply to an echo request that nobody has sent from there.
            Err(_) => Ok(None),
        }
    }

    /// Hands out what has come for a source, unless that is gone. In fragments if it is longer than
    /// the device's MTU: the kernel, which forwards it, cuts neither IPv6 nor what says "don't
    /// fragment", as all that comes out of the bond does.
    pub(super) fn back(&mut self, packet: &[u8], sink: &mut dyn FnMut(&[u8])) {
        let Some((_, packet)) = self.nat.backwards(&self.sides, packet) else { return };
        self.fragment_id = self.fragment_id.wrapping_add(1);
        let mtu = usize::from(DEVICE_MTU);
        fragment::cut(packet, mtu, self.fragment_id, &mut |part| sink(part));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.nat.handle_timeout(now);
    }

    /// What is to be shown of it; `counts` are those of the device, and `connections` those that
    /// were refused because their host has its share.
    pub(super) fn status(&self, now: Instant, counts: &Counts, connections: u64) -> LanStatus {
        let links = on_link();
        let interface = |name: &String| {
            let of = links.iter().filter(|link| link.device == *name);
            LanInterface {
                name: name.clone(),
                networks: of.map(|link| link.prefix.to_string()).collect(),
            }
        };
        let heard = |last: &&Instant| now.saturating_since(**last) < HOST_AGE;
        let refused = [
            ("protocols", counts.other),
            ("fragments", counts.fragments),
            ("multicast", counts.multicast),
            ("malformed", counts.malformed),
            ("connections", connections),
            ("sources", self.full),
            ("no path", self.no_path),
        ];
        LanStatus {
            state: if self.carried { "carried" } else { "direct" }.into(),
            when_down: if self.blocks() { "block" } else { "direct" }.into(),
            interfaces: self.config.interfaces.iter().map(interface).collect(),
            hosts: self.hosts.values().filter(heard).count() as u64,
            udp_flows: self.nat.len() as u64,
            refused: refused.map(|(name, count)| (name.to_owned(), count)).into(),
        }
    }
}

impl Core {
    /// Decides where packets of hosts behind this one go.
    pub(super) fn look_at_lan(&mut self, now: Instant) {
        let up = self.tunnels.all().iter().any(|tunnel| tunnel.carries());
        let Some(lan) = self.host.as_mut().and_then(|host| host.lan.as_mut()) else { return };
        if lan.set_up(now, up) {
            let text = match lan.carried {
                true => "hosts of the LAN go through the bond again",
                false => "no path works: hosts of the LAN use this host's own links",
            };
            self.event_log.add(now, EventKind::TunNote, (None, None), text.into());
        }
    }

    /// Sends a datagram or echo request that came by the device.
    pub(super) fn send_from_host(&mut self, now: Instant, to: SocketAddr, packet: &mut [u8]) {
        if self.network.is_for_agents(to) {
            return;
        }
        let Some(lan) = self.host.as_mut().and_then(|host| host.lan.as_mut()) else {
            return self.send_datagram(now, to, packet);
        };
        match lan.translate(now, packet) {
            Ok(Some((to, leaves))) => {
                let mut leaves = leaves.to_vec();
                self.send_datagram(now, to, &mut leaves);
            }
            Ok(None) | Err(None) => {}
            Err(Some(answer)) => {
                if let Some(host) = &mut self.host {
                    host.give(&answer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Network;
    use crate::udp::fragment::Reassembler;
    use crate::udp_packet;

    /// A host's kernel puts together what is cut; the router's forwards it as it is.
    #[test]
    fn long_answers_reach_hosts_in_fragments() {
        let now = Instant::ZERO;
        let network = Network::default();
        let config = ClientConfig {
            number: 1,
            lan: Some(LanConfig { interfaces: vec!["br0".into()], ..LanConfig::default() }),
            ..ClientConfig::default()
        };
        let own = network.own(ClientNumber(1));
        let mut lan = LanSide::new(&config, own, network.service()).unwrap();
        for (host, far) in
            [("10.7.0.10:4242", "192.0.2.1:7000"), ("[fd07::10]:4242", "[2001:db8::1]:7000")]
        {
            let (host, far): (SocketAddr, SocketAddr) =
                (host.parse().unwrap(), far.parse().unwrap());
            let asks = udp_packet(host, far, Bytes::from_static(b"?"));
            let leaves = lan.translate(now, &asks).unwrap().unwrap().1.to_vec();
            let at = if far.is_ipv4() { 20 } else { 40 };
            let port = u16::from_be_bytes([leaves[at], leaves[at + 1]]);
            let own = SocketAddr::new(own[usize::from(far.is_ipv6())], port);
            let mut reassembler = Reassembler::default();
            for len in [100, 4000] {
                let (mut parts, payload) = (Vec::new(), Bytes::from(vec![7; len]));
                let answer = udp_packet(far, own, payload.clone());
                lan.back(&answer, &mut |part| parts.push(part.to_vec()));
                assert_eq!(parts.len(), if len > 1500 { 3 } else { 1 });
                assert!(parts.iter().all(|part| part.len() <= 1500));
                if len < 1500 {
                    continue;
                }
                let whole = parts.iter().find_map(|part| reassembler.add(now, part)).unwrap();
                let datagram = tabane_wire::udp::Datagram::parse_slice(
                    &whole,
                    tabane_wire::segment::Trust::Verify,
                );
                let datagram = datagram.unwrap();
                assert_eq!((datagram.src, datagram.dst), (far, host));
                assert_eq!(datagram.payload, payload);
            }
        }
    }
}
