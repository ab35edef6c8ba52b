//! Flows over real sockets on loopback.

use super::*;
use crate::address::Network;
use crate::config::AccessConfig;
use mio::{Events, Poll};
use std::net::Ipv4Addr;

struct World {
    flows: Flows,
    poll: Poll,
    events: Events,
    access: Access,
    limit: usize,
    now: Instant,
}

const CLIENT: ClientNumber = ClientNumber(1);

impl World {
    fn new() -> Self {
        let config = AccessConfig { loopback: Some(true), ..AccessConfig::default() };
        Self {
            flows: Flows::new(64),
            poll: Poll::new().unwrap(),
            events: Events::with_capacity(16),
            access: Access::new(&config, &Network::default(), vec![]).unwrap(),
            limit: 8,
            now: Instant::ZERO,
        }
    }

    fn send(&mut self, packet: &[u8]) -> Result<(), Refused> {
        let registry = self.poll.registry();
        let outside = Outside { registry, access: &self.access, flows: self.limit };
        self.flows.send(self.now, &outside, CLIENT, packet)?;
        self.flows.flush(&mut |_, packet| panic!("not sent: {packet:?}"));
        Ok(())
    }

    /// The next packets for clients, or none within a second.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..10 {
            let mut got = Vec::new();
            self.poll.poll(&mut self.events, Some(std::time::Duration::from_millis(100))).unwrap();
            for event in &self.events {
                self.flows.ready(event.token().0 & 0xffff);
            }
            while self.flows.read(4, &mut |client, packet: &mut [u8]| {
                assert_eq!(client, CLIENT);
                got.push(packet.to_vec());
            }) {}
            if !got.is_empty() {
                return got;
            }
        }
        Vec::new()
    }
}

fn udp(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut buffer = [&[0; HEADROOM][..], payload].concat();
    let start = packet::put_udp(&mut buffer, source, destination).unwrap();
    buffer.split_off(start)
}

fn source(v4: bool, port: u16) -> SocketAddr {
    let addresses = Network::default().own(CLIENT);
    SocketAddr::new(addresses[usize::from(!v4)], port)
}

fn peer(v4: bool) -> std::net::UdpSocket {
    let loopback: IpAddr =
        if v4 { Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    let socket = std::net::UdpSocket::bind((loopback, 0)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    socket
}

#[test]
fn datagrams_go_out_and_come_back() {
    // More than one turn, less than a socket's buffer.
    const COUNT: u8 = 50;
    for v4 in [true, false] {
        let (mut world, peer) = (World::new(), peer(v4));
        let (from, to) = (source(v4, 4000), peer.local_addr().unwrap());
        for i in 0..COUNT {
            world.send(&udp(from, to, &[i; 300])).unwrap();
        }
        let mut buffer = [0; 2000];
        for i in 0..COUNT {
            let (len, mapped) = peer.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..len], [i; 300]);
            peer.send_to(&buffer[..len], mapped).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < usize::from(COUNT) {
            let more = world.receive();
            assert!(!more.is_empty(), "{} of {COUNT} came back", got.len());
            got.extend(more);
        }
        let expected: Vec<_> = (0..COUNT).map(|i| udp(to, from, &[i; 300])).collect();
        assert_eq!(got, expected);
        assert_eq!((world.flows.len(), world.flows.counters().received), (1, u64::from(COUNT)));
    }
}

#[test]
fn one_source_is_one_address_outside_and_only_who_was_asked_may_answer() {
    let mut world = World::new();
    let (a, b) = (peer(true), peer(true));
    let mut seen = Vec::new();
    for peer in [&a, &b] {
        world.send(&udp(source(true, 4000), peer.local_addr().unwrap(), b"hi")).unwrap();
        seen.push(peer.recv_from(&mut [0; 9]).unwrap().1);
    }
    assert_eq!(seen[0], seen[1], "endpoint-independent mapping");
    // The same host, another port: taken. Another host: not.
    let other_port = peer(true);
    other_port.send_to(b"x", seen[0]).unwrap();
    assert_eq!(world.receive().len(), 1);
    let other_host = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    other_host.send_to(b"x", SocketAddr::new([127, 0, 0, 1].into(), seen[0].port())).unwrap();
    assert_eq!((world.receive().len(), world.flows.counters().unasked), (0, 1));
}

#[test]
fn nobody_there_comes_back_as_icmp() {
    for v4 in [true, false] {
        let (mut world, gone) = (World::new(), peer(v4).local_addr().unwrap());
        let from = source(v4, 4000);
        for turn in 0..2 {
            // The report about one is not taken for a failure of the next.
            world.send(&udp(from, gone, b"anybody?")).unwrap();
            let expected = packet::unreachable(from, gone, Reason::port(v4)).unwrap();
            assert_eq!(world.receive(), [expected], "{turn}");
        }
    }
}

#[test]
fn denied_destinations_are_told() {
    let mut world = World::new();
    world.access = Access::new(&AccessConfig::default(), &Network::default(), vec![]).unwrap();
    let packet = udp(source(true, 1), "127.0.0.1:53".parse().unwrap(), b"x");
    let refused = world.send(&packet).unwrap_err();
    assert!(matches!(refused, Refused::Denied(_)), "{refused}");
    let icmp = Flows::explain(&packet, refused).unwrap();
    assert_eq!(icmp[20..22], [3, 13]);
    assert!(world.flows.is_empty());
    assert_eq!(world.send(b"junk"), Err(Refused::NoDatagram));
    assert_eq!(Flows::explain(b"junk", Refused::NoDatagram), None);
}

#[test]
fn flows_end_when_idle_and_are_bounded() {
    let (mut world, to) = (World::new(), peer(true));
    let to = to.local_addr().unwrap();
    for port in 0..8 {
        world.send(&udp(source(true, port), to, b"x")).unwrap();
    }
    assert_eq!(world.send(&udp(source(true, 8), to, b"x")), Err(Refused::Full));
    world.now += IN_USE;
    world.send(&udp(source(true, 0), to, b"x")).unwrap();
    world.send(&udp(source(true, 8), to, b"x")).unwrap();
    assert_eq!((world.flows.count(CLIENT), world.flows.counters().evicted), (8, 1));
    assert!(world.flows.of(CLIENT).any(|(key, _)| key.source.port() == 0), "it was in use");
    // Idle ones go, the busy one stays.
    let start = world.now;
    while world.now < start + IDLE + IDLE {
        world.now += Duration::from_secs(30);
        world.send(&udp(source(true, 3), to, b"x")).unwrap();
        world.flows.handle_timeout(world.now);
    }
    assert_eq!(world.flows.len(), 1);
    world.flows.forget(CLIENT);
    assert_eq!((world.flows.len(), world.flows.poll_timeout()), (0, None));
    // Queries are over sooner.
    world.send(&udp(source(true, 3), "127.0.0.1:53".parse().unwrap(), b"x")).unwrap();
    assert_eq!(world.flows.poll_timeout(), Some(world.now + IDLE_NAMES));
    world.now += IDLE_NAMES;
    world.flows.handle_timeout(world.now);
    assert!(world.flows.is_empty());
}

#[test]
fn all_clients_together_are_bounded() {
    let (mut world, to) = (World::new(), peer(true));
    let to = to.local_addr().unwrap();
    world.limit = 1000;
    for port in 0..64 {
        world.send(&udp(source(true, port), to, b"x")).unwrap();
    }
    assert_eq!(world.send(&udp(source(true, 64), to, b"x")), Err(Refused::Full));
}

/// Gives this thread a network of its own, in which everybody may ping.
fn enter_a_network_with_pings() -> Result<(), String> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| e.to_string())?;
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")
        .map_err(|error| error.to_string())?;
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    up.ok().filter(std::process::ExitStatus::success).map(drop).ok_or("no ip command".into())
}

#[test]
fn pings_are_answered_where_the_system_lets_us() {
    let thread = std::thread::spawn(|| {
        let entered = enter_a_network_with_pings();
        if let Err(why) = &entered {
            println!("SKIPPED: no network of its own: {why}");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{why}");
            return;
        }
        for v4 in [true, false] {
            ping(v4);
        }
    });
    thread.join().unwrap();
}

fn ping(v4: bool) {
    let mut world = World::new();
    let (from, to) = (source(v4, 0).ip(), peer(v4).local_addr().unwrap().ip());
    let mut buffer = vec![0; HEADROOM];
    buffer.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, b'h', b'i']);
    // Made as a reply, turned into a request: type 0 to 8, or 129 to 128.
    let start = packet::put_echo_reply(&mut buffer, from, to, 0x1234).unwrap();
    let mut request = buffer.split_off(start);
    let at = request.len() - 10;
    request[at] = if v4 { 8 } else { 128 };
    request[at + 2..at + 4].fill(0);
    let mut sum = tabane_wire::Checksum::of(&request[at..]);
    if !v4 {
        // Both addresses, the length and the protocol count, too.
        sum.add(&request[8..40]);
        sum.add_u32(10);
        sum.add_u32(58);
    }
    request[at + 2..at + 4].copy_from_slice(&sum.finish().to_be_bytes());
    world.send(&request).unwrap();
    let got = world.receive();
    assert_eq!(got.len(), 1, "{got:?}");
    let (header, range) = tabane_wire::ip::IpHeader::parse(&got[0]).unwrap();
    assert_eq!((header.src, header.dst), (to, from));
    let kind = if v4 { 0 } else { 129 };
    let message = &got[0][range];
    assert_eq!((message[0], &message[4..]), (kind, &[0x12, 0x34, 0, 1, b'h', b'i'][..]));
}
