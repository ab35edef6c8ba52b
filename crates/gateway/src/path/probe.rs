//! Probes: ICMP echo requests (RFC 792, RFC 4443 section 4.1) from a path's inner address to the
//! server's service address. A stock host answers them as any ping. The payload says what the
//! client wants the server to know of the path, and has room for what the server has to say:
//!
//! ```text
//!  0        6     7     8     12    16     17     18    20       22  24
//!  | tabane | ver | use | run | seq | role | path | mtu | within | f g | cap ...
//!  32     34        50     58
//!  | port | address | time | life | padding ...
//!                         58     62
//! ```
//! A server of ours sets `f` in its answer. Bit 0: data for the client waits for room on its paths.
//! Bit 1: it says where the path's datagrams come from, as it sees them (IPv4 as `::ffff:a.b.c.d`),
//! and its time, in milliseconds since 1970. Bit 2: it says which of its lives this is: what is
//! connected through it ends with it. Bit 3: it knows reports ([`Reports`](super::Reports)), as bit
//! 0 of `g` says of the client. Bit 1 of `g`: the client takes roles from its server, which asks
//! for one by its number, from 1, in bits 4 to 6 of its answer's; bit 7 changes with each request.
//! Of a probe that ends after `cap` or `time` (those of earlier
//! versions) the answer does, too.

use super::roles::Use;
use crate::model::Role;
use std::net::{IpAddr, SocketAddr};
use tabane_net::icmp;
use tabane_wire::icmp::checksum;
use tabane_wire::ip::{IpHeader, protocol};

/// What a probe says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// The sender's index of the path.
    pub(crate) path: u8,
    /// Drawn anew by each sender, so that answers to an earlier one are told apart.
    pub(crate) run: u32,
    /// Counts up by one.
    pub(crate) seq: u32,
    /// Whether the sender hears the far end on this path.
    pub(crate) hears: bool,
    /// What the path is used for now.
    pub(crate) using: Use,
    /// What the path may be used for.
    pub(crate) role: Role,
    /// Largest inner packet that the sender sends.
    pub(crate) mtu: u16,
    /// Another probe follows within so many milliseconds.
    pub(crate) within_ms: u16,
    /// Most that the far end may send on it, bits per second.
    pub(crate) cap_bps: Option<u64>,
    /// The client knows reports.
    pub(crate) reports: bool,
    /// In an answer: the server does, too.
    pub(crate) far_reports: bool,
    /// The client takes roles of its paths from its server.
    pub(crate) takes_roles: bool,
    /// In an answer: what the server wants the path to be used for.
    pub(crate) asked_role: Option<AskedRole>,
    /// In an answer: data for the client waits for room on its paths.
    pub(crate) full: bool,
    /// In an answer: what else the server says.
    pub(crate) server_info: Option<ServerInfo>,
}

/// What a server wants a path to be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AskedRole {
    pub(crate) role: Role,
    /// Another than in the request before: one for the same role counts, too.
    pub(crate) turn: bool,
}

/// What a server of ours says in its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ServerInfo {
    /// Where the path's datagrams come from, as it sees them.
    pub(crate) seen_as: SocketAddr,
    /// Its time, milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Another one whenever it starts, or has ended this client's connections since it was said to
    /// have started again; `None` of earlier versions.
    pub(crate) life: Option<u32>,
}

/// The addresses of an echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    /// Of the client's path.
    pub path: IpAddr,
    /// Of the server.
    pub service: IpAddr,
}

const MAGIC: &[u8; 6] = b"tabane";
const VERSION: u8 = 1;
/// Up to `cap`: what every version says.
const PAYLOAD: usize = 32;
/// Up to `time`.
const TIMED: usize = 58;
/// With room for the answer.
const PADDED: usize = 62;
/// Bits of `f`.
const FULL: u8 = 1;
const SERVER_INFO: u8 = 2;
const LIFE: u8 = 4;
const FAR_REPORTS: u8 = 8;
/// Bits of `g`.
const REPORTS: u8 = 1;
const TAKES_ROLES: u8 = 2;
/// Above them the role that is asked for, 3 bits.
const ASKED_ROLE: u32 = 4;
const TURN: u8 = 128;
/// Type, code, checksum, identifier, sequence number.
const ICMP: usize = 8;

impl Ends {
    /// Length of a probe without padding, bytes.
    #[must_use]
    pub(crate) fn smallest(&self) -> usize {
        let header = if self.service.is_ipv4() { 20 } else { 40 };
        header + ICMP + PADDED
    }

    fn number(&self) -> u8 {
        if self.service.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 }
    }
}

impl Probe {
    /// Writes an echo request of `size` bytes, at least `Ends::smallest`; returns its length,
    /// or `None` if the buffer is too small or the addresses are of two families.
    pub(crate) fn emit(&self, ends: &Ends, size: usize, buffer: &mut [u8]) -> Option<usize> {
        let size = size.max(ends.smallest());
        let header = IpHeader::new(ends.path, ends.service, ends.number());
        let length = size - (ends.smallest() - ICMP - PADDED);
        let start = header.emit(buffer, length).ok()?;
        let echo = buffer.get_mut(start..size)?;
        echo.fill(0);
        echo[0] = if ends.service.is_ipv4() { 8 } else { 128 };
        echo[4..6].copy_from_slice(&[self.run as u8, self.path]);
        echo[6..8].copy_from_slice(&(self.seq as u16).to_be_bytes());
        self.put(&mut echo[ICMP..]);
        let sum = checksum(&header, echo);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        Some(size)
    }

    /// The answer to `packet`, a probe to one of these addresses.
    #[must_use]
    pub(crate) fn reply(&self, packet: &[u8], service: &[IpAddr]) -> Option<Vec<u8>> {
        let icmp::Answer::Reply(mut reply) = icmp::answer(packet, service) else { return None };
        let (header, range) = IpHeader::parse(&reply).ok()?;
        let echo = reply.get_mut(range)?;
        self.put(echo.get_mut(ICMP..).filter(|payload| payload.len() >= PAYLOAD)?);
        echo[2..4].fill(0);
        let sum = checksum(&header, echo);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        Some(reply)
    }

    /// The probe that `packet` is an answer to.
    #[must_use]
    pub(crate) fn answered(packet: &[u8], ends: &Ends) -> Option<Self> {
        let answer = if ends.service.is_ipv4() { 0 } else { 129 };
        Self::parse(packet, ends.service, Some(ends.path), answer)
    }

    /// The probe that `packet` is, if it goes to one of these addresses.
    #[must_use]
    pub(crate) fn parse_request(packet: &[u8], service: &[IpAddr]) -> Option<Self> {
        service.iter().find_map(|&to| {
            let request = if to.is_ipv4() { 8 } else { 128 };
            Self::parse(packet, to, None, request)
        })
    }

    /// `service` is one end; with `path` it is the source, without the destination.
    fn parse(packet: &[u8], service: IpAddr, path: Option<IpAddr>, kind: u8) -> Option<Self> {
        // This is asked of every packet, and nearly none is a probe.
        let is_icmp = match packet.first().map(|byte| byte >> 4) {
            Some(4) => packet.get(9) == Some(&protocol::ICMP),
            Some(6) => packet.get(6) == Some(&protocol::ICMPV6),
            _ => false,
        };
        if !is_icmp {
            return None;
        }
        let (header, range) = IpHeader::parse(packet).ok()?;
        let echo = packet.get(range)?;
        let between = match path {
            Some(path) => header.src == service && header.dst == path,
            None => header.dst == service,
        };
        let fits = between
            && echo.len() >= ICMP + PAYLOAD
            && echo[..2] == [kind, 0]
            && checksum(&header, echo) == 0;
        if fits { Self::take(&echo[ICMP..]) } else { None }
    }

    fn put(&self, payload: &mut [u8]) {
        let using = match self.using {
            Use::Unused => 0,
            Use::Low => 1,
            Use::Active => 2,
        };
        let role = Role::ALL.iter().position(|&role| role == self.role).unwrap_or(0);
        payload[..6].copy_from_slice(MAGIC);
        payload[6] = VERSION;
        payload[7] = u8::from(self.hears) | using << 1;
        payload[8..12].copy_from_slice(&self.run.to_be_bytes());
        payload[12..16].copy_from_slice(&self.seq.to_be_bytes());
        payload[16] = role as u8;
        payload[17] = self.path;
        payload[18..20].copy_from_slice(&self.mtu.to_be_bytes());
        payload[20..22].copy_from_slice(&self.within_ms.to_be_bytes());
        payload[22] = if self.full { FULL } else { 0 };
        payload[22] |= if self.far_reports { FAR_REPORTS } else { 0 };
        payload[23] = if self.reports { REPORTS } else { 0 };
        payload[23] |= if self.takes_roles { TAKES_ROLES } else { 0 };
        if let Some(asked) = self.asked_role {
            let role = Role::ALL.iter().position(|&role| role == asked.role).unwrap_or(0) as u8;
            payload[23] |= (role + 1) << ASKED_ROLE | if asked.turn { TURN } else { 0 };
        }
        payload[24..32].copy_from_slice(&self.cap_bps.unwrap_or(0).to_be_bytes());
        if let (Some(server_info), Some(space)) =
            (self.server_info, payload.get_mut(PAYLOAD..TIMED))
        {
            let address = match server_info.seen_as.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            space[..2].copy_from_slice(&server_info.seen_as.port().to_be_bytes());
            space[2..18].copy_from_slice(&address.octets());
            space[18..].copy_from_slice(&server_info.unix_ms.to_be_bytes());
            payload[22] |= SERVER_INFO;
            if let (Some(life), Some(space)) = (server_info.life, payload.get_mut(TIMED..PADDED)) {
                space.copy_from_slice(&life.to_be_bytes());
                payload[22] |= LIFE;
            }
        }
    }

    fn take(payload: &[u8]) -> Option<Self> {
        if payload[..6] != MAGIC[..] || payload[6] != VERSION {
            return None;
        }
        let u16_at = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let using = match payload[7] >> 1 {
            0 => Use::Unused,
            1 => Use::Low,
            2 => Use::Active,
            _ => return None,
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        let cap = u64_at(24);
        let server_info = || {
            let octets: [u8; 16] = payload.get(34..50)?.try_into().ok()?;
            let seen_as = SocketAddr::new(IpAddr::from(octets).to_canonical(), u16_at(32));
            let says_life = payload[22] & LIFE != 0 && payload.len() >= PADDED;
            let life = says_life.then(|| u32_at(TIMED));
            (payload.len() >= TIMED).then(|| ServerInfo { seen_as, unix_ms: u64_at(50), life })
        };
        Some(Self {
            path: payload[17],
            run: u32_at(8),
            seq: u32_at(12),
            hears: payload[7] & 1 != 0,
            using,
            role: *Role::ALL.get(usize::from(payload[16]))?,
            mtu: u16_at(18),
            within_ms: u16_at(20),
            cap_bps: (cap != 0).then_some(cap),
            reports: payload[23] & REPORTS != 0,
            takes_roles: payload[23] & TAKES_ROLES != 0,
            asked_role: usize::from((payload[23] & !TURN) >> ASKED_ROLE)
                .checked_sub(1)
                .and_then(|at| Role::ALL.get(at).copied())
                .map(|role| AskedRole { role, turn: payload[23] & TURN != 0 }),
            far_reports: payload[22] & FAR_REPORTS != 0,
            full: payload[22] & FULL != 0,
            server_info: if payload[22] & SERVER_INFO != 0 { server_info() } else { None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{ClientNumber, Network};
    use crate::index::PathIndex;
    use proptest::prelude::*;

    fn ends(family: usize) -> Ends {
        let network = Network::default();
        Ends {
            path: network.path(ClientNumber(3), PathIndex::new(1))[family],
            service: network.service()[family],
        }
    }

    const PROBE: Probe = Probe {
        path: 1,
        run: 0xdead_beef,
        seq: 0x0102_0304,
        hears: true,
        using: Use::Low,
        role: Role::Backup,
        mtu: 1420,
        within_ms: 250,
        cap_bps: Some(5_000_000),
        reports: true,
        far_reports: false,
        takes_roles: true,
        asked_role: None,
        full: false,
        server_info: None,
    };

    #[test]
    fn a_probe_is_a_ping_and_its_answer_says_the_same() {
        for family in [0, 1] {
            let ends = ends(family);
            for size in [0, 61, 1280, 1440] {
                let mut packet = [0xaa; 1500];
                let length = PROBE.emit(&ends, size, &mut packet).unwrap();
                assert_eq!(length, size.max(ends.smallest()));
                let packet = &packet[..length];
                assert_eq!(
                    Probe::parse_request(packet, &Network::default().service()),
                    Some(PROBE)
                );
                assert_eq!(Probe::answered(packet, &ends), None, "it is not its own answer");
                let icmp::Answer::Reply(reply) = icmp::answer(packet, &[ends.service]) else {
                    panic!("any host answers it");
                };
                assert_eq!(reply.len(), length);
                assert_eq!(Probe::answered(&reply, &ends), Some(PROBE));
                let seen_as = ["192.0.2.7:4000", "[2001:db8::7]:4000"][family].parse().unwrap();
                let life = Some(0xfeed_beef);
                let server_info = Some(ServerInfo { seen_as, unix_ms: 1_800_000_000_123, life });
                let asked_role = Some(AskedRole { role: Role::Never, turn: family == 0 });
                let full =
                    Probe { full: true, far_reports: true, asked_role, server_info, ..PROBE };
                let ours = full.reply(packet, &Network::default().service()).unwrap();
                assert_eq!(Probe::answered(&ours, &ends), Some(full));
                assert_eq!(ours.len(), length);
                let other = Ends {
                    path: Network::default().path(ClientNumber(3), PathIndex::new(2))[family],
                    ..ends
                };
                assert_eq!(Probe::answered(&reply, &other), None, "of another path");
            }
        }
    }

    /// Earlier versions leave no room for what the server says, and do not look for it.
    #[test]
    fn earlier_versions_are_answered_as_they_ask() {
        let seen_as = "192.0.2.7:4000".parse().unwrap();
        let server_info = ServerInfo { seen_as, unix_ms: 1, life: Some(7) };
        let cases = [(PAYLOAD, None), (TIMED, Some(ServerInfo { life: None, ..server_info }))];
        for (family, (space, heard)) in [0, 1].into_iter().flat_map(|f| cases.map(|c| (f, c))) {
            let ends = ends(family);
            let mut packet = [0; 200];
            let length = PROBE.emit(&ends, 0, &mut packet).unwrap();
            let start = length - PADDED - ICMP;
            let length = length - (PADDED - space);
            let header = IpHeader::new(ends.path, ends.service, ends.number());
            header.emit(&mut packet, length - start).unwrap();
            packet[start + 2..start + 4].fill(0);
            let sum = checksum(&header, &packet[start..length]);
            packet[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
            let request = Probe::parse_request(&packet[..length], &[ends.service]).unwrap();
            assert_eq!(request, PROBE);
            let answer = Probe { server_info: Some(server_info), ..request };
            let answer = answer.reply(&packet[..length], &[ends.service]).unwrap();
            assert_eq!(answer.len(), length);
            assert_eq!(
                Probe::answered(&answer, &ends),
                Some(Probe { server_info: heard, ..PROBE })
            );
        }
    }

    #[test]
    fn a_buffer_too_small_takes_nothing() {
        assert_eq!(PROBE.emit(&ends(0), 1280, &mut [0; 1279]), None);
        let mixed = Ends { path: ends(1).path, service: ends(0).service };
        assert_eq!(PROBE.emit(&mixed, 0, &mut [0; 1500]), None);
    }

    proptest! {
        #[test]
        fn damaged_answers_are_none(family in 0usize..2, at in 0usize..110, bit in 0u8..8) {
            let ends = ends(family);
            let mut packet = [0; 1500];
            let length = PROBE.emit(&ends, 0, &mut packet).unwrap();
            let icmp::Answer::Reply(mut reply) = icmp::answer(&packet[..length], &[ends.service])
            else { panic!("answered") };
            let at = at % reply.len();
            reply[at] ^= 1 << bit;
            // The IPv6 header has no checksum of its own: what it does not cover may change.
            if let Some(probe) = Probe::answered(&reply, &ends) {
                prop_assert_eq!(probe, PROBE);
                prop_assert!(family == 1 && at < 8);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Probe::parse_request(&bytes, &Network::default().service());
            let _ = Probe::answered(&bytes, &ends(0));
        }
    }
}
