//! Two clients behind one address, and what comes back for them.

use super::*;
use crate::udp::packet::{Inside, Reason, parse};
use crate::udp_packet;
use bytes::Bytes;
use tabane_engine::Duration;

const NOW: Instant = Instant(1_000_000_000);

fn sides() -> Sides {
    let pair = |v4: &str, v6: &str| [v4.parse().unwrap(), v6.parse().unwrap()];
    Sides {
        own: pair("10.99.0.31", "fd99::1f"),
        service: [pair("10.81.0.1", "fd81::1"), pair("10.99.0.1", "fd99::1")],
    }
}

fn datagram(from: &str, to: &str) -> Vec<u8> {
    udp_packet(from.parse().unwrap(), to.parse().unwrap(), Bytes::from_static(b"hello"))
}

/// Who sent the packet that goes on.
fn source(packet: &[u8]) -> SocketAddr {
    match parse(packet) {
        Some(Inside::Datagram { source, .. }) => source,
        Some(Inside::Echo { source, identifier, .. }) => SocketAddr::new(source, identifier),
        None => panic!("no datagram"),
    }
}

fn forward(nat: &mut Nat, client: u16, packet: &[u8]) -> (SocketAddr, Vec<u8>) {
    let (to, packet) = nat.forward(NOW, (ClientNumber(client), 10), &sides(), packet).unwrap();
    (to, packet.to_vec())
}

#[test]
fn answers_find_their_clients() {
    let mut nat = Nat::new(10_000, 100);
    for (near, far) in [("10.81.0.31:4000", "192.0.2.1:9"), ("[fd81::1f]:4000", "[2001:db8::1]:9")]
    {
        let ports: Vec<SocketAddr> = [1, 2]
            .map(|client| {
                let (to, packet) = forward(&mut nat, client, &datagram(near, far));
                assert_eq!(to, far.parse().unwrap());
                source(&packet)
            })
            .to_vec();
        assert!(ports[0] != ports[1] && ports.iter().all(|p| sides().own.contains(&p.ip())));
        // The same source keeps its port, whoever it speaks to.
        let other = far.replace(":9", ":10");
        assert_eq!(source(&forward(&mut nat, 1, &datagram(near, &other)).1), ports[0]);
        for (client, port) in [(1, ports[0]), (2, ports[1])] {
            let back = datagram(far, &port.to_string());
            let (whose, packet) = nat.backwards(&sides(), &back).unwrap();
            assert_eq!((whose, &*packet), (ClientNumber(client), &datagram(far, near)[..]));
        }
        let stranger = datagram(far, &SocketAddr::new(ports[0].ip(), 9).to_string());
        assert!(nat.backwards(&sides(), &stranger).is_none());
    }
    assert_eq!(nat.len(), 4);
    nat.forget(ClientNumber(1));
    assert_eq!((nat.len(), nat.owners.len(), nat.timers.len()), (2, 2, 2));
}

#[test]
fn the_server_is_known_by_another_address_on_each_side() {
    let mut nat = Nat::new(10_000, 100);
    let query = datagram("10.81.0.31:5353", "10.81.0.1:53");
    let (to, packet) = forward(&mut nat, 1, &query);
    assert_eq!(to, "10.99.0.1:53".parse().unwrap());
    let answer = datagram("10.99.0.1:53", &source(&packet).to_string());
    let (_, packet) = nat.backwards(&sides(), &answer).unwrap();
    assert_eq!(&*packet, &datagram("10.81.0.1:53", "10.81.0.31:5353")[..]);
}

#[test]
fn echoes_and_failures_come_back_too() {
    let mut nat = Nat::new(10_000, 100);
    for (near, far) in [("10.81.0.31", "192.0.2.1"), ("fd81::1f", "2001:db8::1")] {
        let (near, far): (IpAddr, IpAddr) = (near.parse().unwrap(), far.parse().unwrap());
        let mut request = [&[0; HEADROOM][..], &[0; 8], b"ping"].concat();
        let start = packet::put_echo_request(&mut request, near, far, 7).unwrap();
        let (_, on) = forward(&mut nat, 1, &request[start..]);
        let as_seen = source(&on);
        let mut reply = [&[0; HEADROOM][..], &[0; 8], b"ping"].concat();
        let start = packet::put_echo_reply(&mut reply, far, as_seen.ip(), as_seen.port()).unwrap();
        let (_, back) = nat.backwards(&sides(), &reply[start..]).unwrap();
        let Some(Back::Reply { source, destination, identifier, message }) =
            packet::parse_back(back)
        else {
            panic!("no reply")
        };
        assert_eq!((source, destination, identifier), (far, near, 7));
        assert_eq!(&message[8..], b"ping");
        let why = Reason::host(near.is_ipv4());
        let failed = packet::echo_unreachable(as_seen.ip(), far, as_seen.port(), why).unwrap();
        let expected = packet::echo_unreachable(near, far, 7, why).unwrap();
        assert_eq!(nat.backwards(&sides(), &failed).unwrap().1, expected);
        // And of a datagram.
        let (near, far) = (SocketAddr::new(near, 4000), SocketAddr::new(far, 9));
        let (_, on) = forward(&mut nat, 1, &datagram(&near.to_string(), &far.to_string()));
        let failed = packet::unreachable(self::source(&on), far, why).unwrap();
        let expected = packet::unreachable(near, far, why).unwrap();
        assert_eq!(nat.backwards(&sides(), &failed).unwrap().1, expected);
    }
}

#[test]
fn what_is_idle_makes_room() {
    let mut nat = Nat::new(10_000, 3);
    let to = "192.0.2.1:9";
    let send = |nat: &mut Nat, now: Instant, client: u16, port: u16| {
        let packet = datagram(&format!("10.81.0.31:{port}"), to);
        nat.forward(now, (ClientNumber(client), 2), &sides(), &packet).map(drop)
    };
    send(&mut nat, NOW, 1, 1).unwrap();
    send(&mut nat, NOW + Duration::from_secs(1), 1, 2).unwrap();
    // At its limit, with nothing idle; then with the first.
    assert_eq!(send(&mut nat, NOW + Duration::from_secs(2), 1, 3), Err(Refused::Full));
    send(&mut nat, NOW + Duration::from_secs(5), 1, 3).unwrap();
    send(&mut nat, NOW + Duration::from_secs(5), 2, 1).unwrap();
    assert_eq!(send(&mut nat, NOW + Duration::from_secs(5), 2, 2), Err(Refused::Full));
    nat.handle_timeout(NOW + Duration::from_secs(100));
    assert_eq!(nat.len(), 3);
    nat.handle_timeout(NOW + Duration::from_secs(126));
    assert!(nat.is_empty() && nat.owners.is_empty() && nat.timers.is_empty());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken(bytes: Vec<u8>) {
        let mut nat = Nat::new(10_000, 10);
        let _ = nat.backwards(&sides(), &bytes);
        let _ = nat.forward(NOW, (ClientNumber(1), 1), &sides(), &bytes);
    }
}
