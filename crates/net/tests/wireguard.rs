//! Tunnels against whatever a network can send, and ports against what happens to interfaces.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::net::IpAddr;
use std::process::Command;
use tabane_net::wireguard::{
    Bind, FourTuple, Opened, PeerId, Peers, PeersConfig, PortConfig, PortError, PublicKey, Sealed,
    Session, StaticSecret, UdpPort, seal_space,
};

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::from([seed; 32])
}

fn packet(len: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; len];
    packet[..4].copy_from_slice(&[0x45, 0, (len >> 8) as u8, len as u8]);
    packet
}

/// A client and a server of it, with keys.
fn joined() -> (Session, Peers, FourTuple) {
    let mut client = Session::new(&secret(1), PublicKey::from(&secret(2)), None, 1, None);
    let mut peers = Peers::new(secret(2), PeersConfig::default());
    peers.add(PublicKey::from(&secret(1)), None).unwrap();
    let four_tuple = FourTuple::to(([192, 0, 2, 1], 1000).into());
    let (mut out, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
    let len = client.handshake(&mut out, false).unwrap();
    assert_eq!(peers.open(&four_tuple, &out[..len], &mut reply).opened, Opened::Reply(92));
    let Opened::Reply(len) = client.open(None, &reply[..92], &mut out) else { panic!() };
    assert_eq!(peers.open(&four_tuple, &out[..len], &mut reply).opened, Opened::Keepalive);
    (client, peers, four_tuple)
}

fn sealed(client: &mut Session, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; seal_space(packet.len())];
    let Sealed::Packet(len) = client.seal(packet, &mut out) else { panic!("no keys") };
    out.truncate(len);
    out
}

/// Anything: bytes without a meaning, and messages that begin as if they had one.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..400);
    let head = (0u8..6, prop::sample::select(vec![0u32, 1, 2, 0x100, 0x101, 0x102, u32::MAX]));
    let length = prop::sample::select(vec![0usize, 4, 16, 31, 32, 63, 64, 92, 147, 148, 149, 400]);
    let shaped = (head, length, bytes.clone()).prop_map(|((kind, index), length, mut bytes)| {
        bytes.resize(length.max(12), 0);
        bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
        bytes[4..8].copy_from_slice(&index.to_le_bytes());
        bytes[8..12].copy_from_slice(&index.to_le_bytes());
        bytes.truncate(length);
        bytes
    });
    prop_oneof![bytes, shaped]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_comes_is_dropped_without_an_answer_or_harm(
        datagrams in prop::collection::vec(datagram(), 1..20)
    ) {
        let (mut client, mut peers, four_tuple) = joined();
        let mut out = vec![0; 65_536];
        let elsewhere = FourTuple::to(([198, 51, 100, 9], 9).into());
        for datagram in &datagrams {
            let received = peers.open(&elsewhere, datagram, &mut out);
            prop_assert!(matches!(received.opened, Opened::Bad(_)), "{received:?}");
            let opened = client.open(Some(elsewhere.remote.ip()), datagram, &mut out);
            prop_assert!(matches!(opened, Opened::Bad(_)), "{opened:?}");
        }
        prop_assert_eq!(peers.four_tuple(PeerId(0)), Some(&four_tuple));
        let datagram = sealed(&mut client, &packet(100));
        let received = peers.open(&four_tuple, &datagram, &mut out);
        prop_assert!(matches!(received.opened, Opened::Packet { len: 100, .. }), "{received:?}");
    }

    #[test]
    fn packets_arrive_once_whatever_is_dropped_doubled_shuffled_or_spoilt(
        fates in prop::collection::vec((0u8..5, any::<prop::sample::Index>(), 0u8..8), 1..60)
    ) {
        let (mut client, mut peers, four_tuple) = joined();
        let mut out = vec![0; 65_536];
        let mut air: Vec<(usize, bool, Vec<u8>)> = Vec::new();
        for (i, (fate, place, bit)) in fates.iter().enumerate() {
            let inside = packet(100 + i);
            let datagram = sealed(&mut client, &inside);
            let copies = match fate { 0 => 0, 1 => 2, _ => 1 };
            for copy in 0..copies {
                let mut datagram = datagram.clone();
                let spoilt = *fate == 2 && copy == 0;
                if spoilt {
                    let at = place.index(datagram.len());
                    datagram[at] ^= 1 << bit;
                }
                air.insert(place.index(air.len() + 1), (i, spoilt, datagram));
            }
        }
        let mut seen = vec![false; fates.len()];
        for (i, spoilt, datagram) in air {
            match peers.open(&four_tuple, &datagram, &mut out).opened {
                Opened::Packet { len, .. } => {
                    prop_assert!(!spoilt && !seen[i]);
                    prop_assert_eq!(&out[..len], &packet(100 + i)[..]);
                    seen[i] = true;
                }
                Opened::Bad(_) => prop_assert!(spoilt || seen[i]),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        for (i, (fate, ..)) in fates.iter().enumerate() {
            prop_assert_eq!(seen[i], !matches!(fate, 0 | 2));
        }
    }
}

/// Runs `test` on a thread in a network namespace of its own.
fn in_a_namespace(test: fn()) {
    let thread = std::thread::spawn(move || {
        // It changes the network of this thread only.
        let done = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET);
        if done.is_err() || !Command::new("ip").arg("-V").output().is_ok_and(|o| o.status.success())
        {
            println!("SKIPPED: needs root and ip(8)");
            assert!(std::env::var_os("CI").is_none());
            return;
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// A link of MTU 1400 with 10.9.0.1 and fd09::1, and somebody at .2 who hears but says nothing.
fn link() {
    ip("link add v0 mtu 1400 type veth peer name v1");
    for link in ["v0", "v1"] {
        ip(&format!("link set {link} up"));
    }
    ip("addr add 10.9.0.1/24 dev v0");
    ip("addr add fd09::1/64 dev v0 nodad");
    ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev v0 nud permanent");
    ip("neigh add fd09::2 lladdr 02:00:00:00:00:01 dev v0 nud permanent");
}

fn open(bind: Bind) -> UdpPort {
    UdpPort::open(PortConfig::new(bind)).unwrap()
}

/// What has left by a link, packets.
fn sent(link: &str) -> u64 {
    let output = Command::new("ip").args(["-s", "-o", "link", "show", "dev", link]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let after = text.split("TX:").nth(1).unwrap().split('\\').nth(1).unwrap();
    after.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn one_bound_to_interface_and_source_leaves_by_the_interface() {
    in_a_namespace(|| {
        link();
        // Another link into the same network, which the kernel would not choose.
        ip("link add w0 type veth peer name w1");
        for link in ["w0", "w1"] {
            ip(&format!("link set {link} up"));
        }
        ip("addr add 10.9.0.7/24 dev w0 metric 500");
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev w0 nud permanent");
        let source: IpAddr = "10.9.0.7".parse().unwrap();
        let both = Bind::SourceOn { name: "w0".into(), source };
        for (bind, by) in [(Bind::Source(source), "v0"), (both.clone(), "w0")] {
            let mut port = open(bind);
            assert_eq!(port.local().ip(), source);
            let before = sent(by);
            for _ in 0..40 {
                put(&mut port, "10.9.0.2", 100);
                assert!(port.flush().unwrap());
            }
            assert!(sent(by) >= before + 40, "not by {by}");
        }
        let mut port = open(both.clone());
        ip("addr del 10.9.0.7/24 dev w0");
        put(&mut port, "10.9.0.2", 100);
        assert!(matches!(port.flush(), Err(PortError::Gone { .. })), "its address has gone");
        let error = UdpPort::open(PortConfig::new(both)).unwrap_err();
        assert!(matches!(error, PortError::Absent { .. }), "{error}");
    });
}

fn interface(ipv6: bool) -> Bind {
    Bind::Interface { name: "v0".into(), ipv6 }
}

fn put(port: &mut UdpPort, to: &str, len: usize) {
    let to: IpAddr = to.parse().unwrap();
    assert!(port.queue(&FourTuple::to((to, 9).into()), len, |out| out.len()));
}

#[test]
fn what_the_link_does_not_carry_whole_is_dropped_alone() {
    in_a_namespace(|| {
        link();
        for (ipv6, to, most) in [(false, "10.9.0.2", 1372), (true, "fd09::2", 1352)] {
            let mut port = open(interface(ipv6));
            let offload = port.offload();
            // In a run of its own, then within one.
            for len in [1000, most + 1, most, most] {
                put(&mut port, to, len);
            }
            assert!(port.flush().unwrap());
            let counters = *port.counters();
            assert_eq!((counters.tx_datagrams, counters.dropped_too_big), (3, 1), "{counters:?}");
            let address: IpAddr = to.parse().unwrap();
            assert_eq!(port.poll_too_big(), Some(((address, 9).into(), most + 1)));
            assert_eq!(port.poll_too_big(), None);
            for len in [most + 1, most + 1, most + 1, 100] {
                put(&mut port, to, len);
            }
            assert!(port.flush().unwrap());
            let counters = *port.counters();
            assert_eq!((counters.tx_datagrams, counters.dropped_too_big), (4, 4), "{counters:?}");
            assert_eq!(counters.dropped(), 4);
            assert_eq!(port.offload(), offload, "this was not offload's fault");
        }
    });
}

#[test]
fn a_link_that_is_down_is_waited_for_and_one_that_vanishes_is_told() {
    in_a_namespace(|| {
        for (ipv6, to) in [(false, "10.9.0.2"), (true, "fd09::2")] {
            link();
            let mut port = open(interface(ipv6));
            put(&mut port, to, 100);
            assert!(port.flush().unwrap());
            ip("link set v0 down");
            for _ in 0..3 {
                put(&mut port, to, 100);
                assert!(port.flush().unwrap(), "down is not gone");
            }
            assert_eq!(port.counters().dropped_unreachable, 3, "{:?}", port.counters());
            ip("link set v0 up");
            if ipv6 {
                ip("addr add fd09::1/64 dev v0 nodad");
            }
            put(&mut port, to, 100);
            assert!(port.flush().unwrap());
            assert_eq!(port.counters().tx_datagrams, 2);
            ip("link del v0");
            put(&mut port, to, 100);
            let error = port.flush().unwrap_err();
            assert!(matches!(error, PortError::Gone { .. }), "{error}");
            // One of the same name is another.
            link();
            put(&mut port, to, 100);
            assert!(matches!(port.flush(), Err(PortError::Gone { .. })), "ipv6 {ipv6}");
            let mut port = open(interface(ipv6));
            put(&mut port, to, 100);
            assert!(port.flush().unwrap());
            ip("link del v0");
        }
    });
}

#[test]
fn a_source_address_that_vanishes_is_told() {
    in_a_namespace(|| {
        link();
        let mut port = open(Bind::Source("10.9.0.1".parse().unwrap()));
        put(&mut port, "10.9.0.2", 100);
        assert!(port.flush().unwrap());
        ip("link set v0 down");
        put(&mut port, "10.9.0.2", 100);
        assert!(port.flush().unwrap(), "down is not gone");
        ip("link set v0 up");
        ip("addr del 10.9.0.1/24 dev v0");
        put(&mut port, "10.9.0.2", 100);
        let error = port.flush().unwrap_err();
        assert!(matches!(error, PortError::Gone { .. }), "{error}");
    });
}
