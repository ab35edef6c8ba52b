//! The table against clients that are sessions, known and unknown.

use super::super::guard::{COOKIES_PER_SOURCE, PER_SOURCE, network};
use super::super::{Sealed, seal_space};
use super::*;
use blake2::digest::consts::U16;
use blake2::digest::{Digest, Mac};
use blake2::{Blake2s256, Blake2sMac};

const SERVER: u8 = 200;

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::from([seed; 32])
}

fn public(seed: u8) -> PublicKey {
    PublicKey::from(&secret(seed))
}

fn client(seed: u8) -> Session {
    Session::new(&secret(seed), public(SERVER), None, seed.into(), None)
}

fn four_tuple(host: u8) -> FourTuple {
    FourTuple::to(([192, 0, 2, host], 1000).into())
}

fn packet(from: u8) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[..4].copy_from_slice(&[0x45, 0, 0, 40]);
    packet[12..16].copy_from_slice(&[10, 0, 0, from]);
    packet
}

/// A server of the clients 1 to `n`.
fn server(n: u8, handshakes: u64) -> Peers {
    let mut peers = Peers::new(secret(SERVER), PeersConfig { handshakes });
    for seed in 1..=n {
        peers.add(public(seed), None).unwrap();
    }
    peers
}

fn initiation(client: &mut Session) -> Vec<u8> {
    let mut out = [0; 256];
    let len = client.handshake(&mut out, true).unwrap();
    out[..len].to_vec()
}

fn sealed(client: &mut Session, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; seal_space(packet.len())];
    let Sealed::Packet(len) = client.seal(packet, &mut out) else { panic!("no keys") };
    out.truncate(len);
    out
}

fn receive(peers: &mut Peers, from: FourTuple, datagram: &[u8]) -> (Received, Vec<u8>) {
    let mut out = vec![0; 65_536];
    let received = peers.open(&from, datagram, &mut out);
    let len = match received.opened {
        Opened::Packet { len, .. } | Opened::Reply(len) => len,
        _ => 0,
    };
    out.truncate(len);
    (received, out)
}

fn answer(client: &mut Session, datagram: &[u8]) -> (Opened, Vec<u8>) {
    let mut out = vec![0; 65_536];
    let opened = client.open(None, datagram, &mut out);
    let len = match opened {
        Opened::Packet { len, .. } | Opened::Reply(len) => len,
        _ => 0,
    };
    out.truncate(len);
    (opened, out)
}

/// A handshake from `from`; the peer.
fn join(peers: &mut Peers, client: &mut Session, from: FourTuple) -> PeerId {
    let (received, response) = receive(peers, from, &initiation(client));
    assert_eq!(received.opened, Opened::Reply(92));
    let (_, keepalive) = answer(client, &response);
    let (received, _) = receive(peers, from, &keepalive);
    assert_eq!(received.opened, Opened::Keepalive);
    received.peer.unwrap()
}

fn down(peers: &mut Peers, id: PeerId, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; seal_space(packet.len())];
    let Sealed::Packet(len) = peers.seal(id, packet, &mut out) else { panic!("no keys") };
    out.truncate(len);
    out
}

#[test]
fn every_peer_has_its_own_session() {
    let mut peers = server(5, 1000);
    let mut clients: Vec<_> = (1..=5).map(client).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let id = join(&mut peers, client, four_tuple(i as u8));
        assert_eq!(peers.find(&public(i as u8 + 1)), Some(id));
        assert_eq!(peers.key(id), Some(&public(i as u8 + 1)));
        assert_eq!(peers.four_tuple(id), Some(&four_tuple(i as u8)));
    }
    for (i, client) in clients.iter_mut().enumerate() {
        let id = PeerId(i as u32);
        let datagram = sealed(client, &packet(i as u8));
        let (received, inside) = receive(&mut peers, four_tuple(i as u8), &datagram);
        assert_eq!((received.peer, inside), (Some(id), packet(i as u8)));
        let datagram = down(&mut peers, id, &packet(99));
        assert_eq!(answer(client, &datagram).1, packet(99));
    }
    assert_eq!(*peers.counters(), PeersCounters::default());
}

#[test]
fn strangers_get_no_answer_and_no_memory() {
    let mut peers = server(1, 1000);
    let from = four_tuple(66);
    // Knows the server's public key, but is nobody's.
    let hello = initiation(&mut client(7));
    assert_eq!(receive(&mut peers, from, &hello).0.opened, Opened::Bad(Bad::Unauthentic));
    // Does not even know that.
    let mut lost = Session::new(&secret(1), public(8), None, 1, None);
    let hello = initiation(&mut lost);
    assert_eq!(receive(&mut peers, from, &hello).0.opened, Opened::Bad(Bad::Unauthentic));
    // Messages to sessions that are not, and no messages.
    for kind in [2, 3, 4] {
        let mut datagram = vec![0; if kind == 3 { 64 } else { 92 }];
        datagram[0] = kind;
        assert_eq!(receive(&mut peers, from, &datagram).0.opened, Opened::Bad(Bad::Unexpected));
        datagram[9] = 77;
        datagram[5] = 77;
        assert_eq!(receive(&mut peers, from, &datagram).0.opened, Opened::Bad(Bad::Unexpected));
    }
    for junk in [&[][..], &[1], &[0; 148], &[1; 148], &[9; 1400], b"GET / HTTP/1.1\r\n\r\n"] {
        assert_eq!(receive(&mut peers, from, junk).0.opened, Opened::Bad(Bad::Malformed));
    }
    let counters = *peers.counters();
    let expected = PeersCounters {
        malformed: 6,
        unauthentic: 1,
        unknown_key: 1,
        unknown_index: 6,
        cookies: 0,
        refused: 0,
    };
    assert_eq!(counters, expected);
    assert!(peers.session(PeerId(0)).is_none() && peers.four_tuple(PeerId(0)).is_none());
}

#[test]
fn claiming_a_peers_key_is_not_enough() {
    let mut peers = server(1, 1000);
    // Who knows both public keys can make a first message up to the point where the secret is
    // needed: the time. Like the peer's own with that part spoilt, and a MAC over the result.
    let mut forged = initiation(&mut client(1));
    forged[100] ^= 1;
    let key = Blake2s256::new().chain_update(b"mac1----").chain_update(public(SERVER).as_bytes());
    let mut mac = Blake2sMac::<U16>::new_from_slice(&key.finalize()).unwrap();
    Mac::update(&mut mac, &forged[..116]);
    forged[116..132].copy_from_slice(&mac.finalize().into_bytes());
    let (received, _) = receive(&mut peers, four_tuple(1), &forged);
    assert_eq!(received.opened, Opened::Bad(Bad::Unauthentic));
    assert_eq!(received.peer, Some(PeerId(0)), "it came as far as the session");
    assert!(peers.session(PeerId(0)).is_none(), "which is not kept");
    // A replay to a server that has restarted makes a session, as any WireGuard does, but
    // whoever sends it cannot go on, and the peer has no address.
    let captured = initiation(&mut client(1));
    assert_eq!(receive(&mut peers, four_tuple(66), &captured).0.opened, Opened::Reply(92));
    assert!(peers.four_tuple(PeerId(0)).is_none());
    assert_eq!(
        receive(&mut peers, four_tuple(66), &captured).0.opened,
        Opened::Bad(Bad::Timestamp)
    );
}

/// A client whose clock is behind: its time is before that of its last handshake.
#[test]
fn a_session_that_is_forgotten_takes_any_time() {
    let mut peers = server(1, 1000);
    let mut behind = client(1);
    let early = initiation(&mut behind);
    let id = join(&mut peers, &mut client(1), four_tuple(1));
    assert_eq!(receive(&mut peers, four_tuple(1), &early).0.opened, Opened::Bad(Bad::Timestamp));
    peers.forget_session(id);
    assert!(peers.session(id).is_none());
    let (received, response) = receive(&mut peers, four_tuple(1), &early);
    assert_eq!((received.peer, received.opened), (Some(id), Opened::Reply(92)));
    assert!(matches!(answer(&mut behind, &response).0, Opened::Reply(_)));
    // Nobody is another peer for it.
    assert_eq!(peers.find(&public(1)), Some(id));
}

/// Whoever has seen a packet of a session can send its index at any time.
#[test]
fn an_index_that_was_forgotten_is_an_unknown_one() {
    let mut peers = server(2, 1000);
    let mut device = client(1);
    let id = join(&mut peers, &mut device, four_tuple(1));
    let datagram = sealed(&mut device, &packet(1));
    peers.forget_session(id);
    let mut forged = vec![4, 0, 0, 0];
    forged.extend_from_slice(&datagram[4..8]);
    forged.resize(32, 0);
    let mut response = forged.clone();
    (response[0], response[8]) = (2, response[4]);
    response.resize(92, 0);
    response.copy_within(4..8, 8);
    for sent in [&datagram, &forged, &response] {
        let (received, _) = receive(&mut peers, four_tuple(9), sent);
        assert_eq!((received.peer, received.opened), (None, Opened::Bad(Bad::Unexpected)));
    }
    // Nor does it lead to who comes after a peer that was forgotten and then removed.
    assert!(peers.remove(id));
    join(&mut peers, &mut client(2), four_tuple(2));
    assert_eq!(receive(&mut peers, four_tuple(9), &forged).0.peer, None);
    assert_eq!(peers.counters().unknown_index, 4);
}

#[test]
fn under_load_a_cookie_is_asked_for() {
    let mut peers = server(3, 2);
    for seed in [1, 2] {
        join(&mut peers, &mut client(seed), four_tuple(seed));
    }
    let mut third = client(3);
    let (received, cookie) = receive(&mut peers, four_tuple(3), &initiation(&mut third));
    assert_eq!((received.peer, received.opened), (None, Opened::Reply(64)));
    assert_eq!(answer(&mut third, &cookie).0, Opened::Cookie);
    // The cookie is for this address only.
    let with_cookie = initiation(&mut third);
    let (received, _) = receive(&mut peers, four_tuple(99), &with_cookie);
    assert_eq!(received.opened, Opened::Reply(64));
    let id = join(&mut peers, &mut third, four_tuple(3));
    assert_eq!(id, PeerId(2));
    assert_eq!(peers.counters().cookies, 2);
    // Those who have keys notice nothing.
    let datagram = sealed(&mut third, &packet(3));
    assert_eq!(receive(&mut peers, four_tuple(3), &datagram).1, packet(3));
}

#[test]
fn who_has_a_cookie_is_looked_at_so_often_only() {
    let mut peers = server(1, 30);
    let mut one = client(1);
    for _ in 0..30 {
        let _ = receive(&mut peers, four_tuple(1), &initiation(&mut client(9)));
    }
    let (_, cookie) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
    assert_eq!(answer(&mut one, &cookie).0, Opened::Cookie);
    // The first is not counted.
    for _ in 0..=PER_SOURCE {
        let (received, _) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
        assert_eq!(received.opened, Opened::Reply(92));
    }
    let (received, _) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
    assert_eq!(received.opened, Opened::Bad(Bad::UnderLoad));
    assert_eq!((peers.counters().refused, peers.counters().cookies), (1, 1));
    std::thread::sleep(std::time::Duration::from_millis(1050));
    peers.on_timer(Instant(2_000_000_000), &mut [0; 256], |_, _| {});
    let (received, _) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
    assert_eq!(received.opened, Opened::Reply(92), "the next second");
}

/// A network address translator, and the server has been started again.
#[test]
fn many_peers_may_come_from_one_address_at_a_time() {
    let mut peers = server(PER_SOURCE + 8, 30);
    for _ in 0..30 {
        let _ = receive(&mut peers, four_tuple(1), &initiation(&mut client(99)));
    }
    for seed in 1..=PER_SOURCE + 8 {
        let mut one = client(seed);
        let (_, cookie) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
        assert_eq!(answer(&mut one, &cookie).0, Opened::Cookie, "{seed}");
        let (received, _) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
        assert_eq!(received.opened, Opened::Reply(92), "{seed}");
    }
}

/// One address (or one /64, of which a host has all addresses) that floods gets few cookies, and
/// costs nobody else theirs.
#[test]
fn a_flood_from_one_source_is_not_answered_and_others_are() {
    let mut peers = server(1, 30);
    let replayed = initiation(&mut client(9));
    let from = |host: u128| {
        FourTuple::to((std::net::Ipv6Addr::from((0x2001_0db8 << 96) + host), 9).into())
    };
    let mut cookies = 0;
    for host in 0..1000 {
        let (received, _) = receive(&mut peers, from(host), &replayed);
        cookies += u32::from(received.opened == Opened::Reply(64));
    }
    assert_eq!(cookies, u32::from(COOKIES_PER_SOURCE));
    assert_eq!(peers.counters().refused, 1000 - 30 - u64::from(COOKIES_PER_SOURCE));
    // The counters are a table: a few tries, as another source may share the place.
    let mut others =
        (1_u128..4).map(|net| receive(&mut peers, from(net << 64), &replayed).0.opened);
    assert!(others.any(|opened| opened == Opened::Reply(64)));
    let mut one = client(1);
    let (_, cookie) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
    assert_eq!(answer(&mut one, &cookie).0, Opened::Cookie);
    join(&mut peers, &mut one, four_tuple(1));
}

#[test]
fn sources_are_networks_of_one_host() {
    let of = |text: &str| network(text.parse().unwrap()).to_string();
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    assert_eq!(of("192.0.2.7"), "192.0.2.7");
    assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7", "IPv4 on a socket of both families");
}

/// What a server puts on the wire for a client: nothing that says which client it is.
#[test]
fn the_number_of_a_session_is_another_one_after_a_restart() {
    let numbers: Vec<u32> = (0..4)
        .map(|_| {
            let (mut peers, mut one) = (server(1, 1000), client(1));
            let (_, response) = receive(&mut peers, four_tuple(1), &initiation(&mut one));
            u32::from_le_bytes(response[4..8].try_into().unwrap()) >> 8
        })
        .collect();
    assert!(numbers.iter().any(|number| *number > 0xffff), "{numbers:?}");
    assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "{numbers:?}");
}

#[test]
fn a_peer_is_where_its_newest_packet_came_from() {
    let mut peers = server(2, 1000);
    let (mut one, mut two) = (client(1), client(2));
    let id = join(&mut peers, &mut one, four_tuple(1));
    join(&mut peers, &mut two, four_tuple(2));
    let late = sealed(&mut one, &packet(1));
    let datagram = sealed(&mut one, &packet(1));
    let _ = receive(&mut peers, four_tuple(11), &datagram);
    assert_eq!(peers.four_tuple(id), Some(&four_tuple(11)));
    let _ = receive(&mut peers, four_tuple(1), &late);
    assert_eq!(
        peers.four_tuple(id),
        Some(&four_tuple(11)),
        "an older packet does not call it back"
    );
    let _ = receive(&mut peers, four_tuple(66), &datagram);
    assert_eq!(peers.four_tuple(id), Some(&four_tuple(11)), "nor does a replay");
    let mut changed = sealed(&mut one, &packet(1));
    changed[40] ^= 1;
    let _ = receive(&mut peers, four_tuple(66), &changed);
    assert_eq!(peers.four_tuple(id), Some(&four_tuple(11)), "nor what is not authentic");
    let (_, response) = receive(&mut peers, four_tuple(66), &initiation(&mut one));
    assert_eq!(
        peers.four_tuple(id),
        Some(&four_tuple(11)),
        "nor a first message, which anybody can pass on"
    );
    let old_keys = sealed(&mut one, &packet(1));
    let (_, keepalive) = answer(&mut one, &response);
    let _ = receive(&mut peers, four_tuple(12), &keepalive);
    assert_eq!(peers.four_tuple(id), Some(&four_tuple(12)));
    let (received, _) = receive(&mut peers, four_tuple(11), &old_keys);
    assert!(matches!(received.opened, Opened::Packet { .. }));
    assert_eq!(peers.four_tuple(id), Some(&four_tuple(12)), "nor a packet with the keys before");
    assert_eq!(peers.four_tuple(PeerId(1)), Some(&four_tuple(2)), "others stay where they are");
}

/// A server that was stopped for seconds answers several first messages at once. The client ends
/// up with keys that are not the last ones seen, and stays with them.
#[test]
fn a_peer_that_goes_back_to_keys_is_followed() {
    let mut newest = Newest::none();
    assert!(newest.update(1, 0) && newest.update(1, 1));
    assert!(newest.update(2, 0), "the next keys");
    assert!(!newest.update(1, 2), "one may be late");
    assert!(newest.update(2, 1) && !newest.update(1, 3), "nor are two that are not in a row");
    assert!(!newest.update(1, 3), "nor is a message that was seen");
    assert!(newest.update(1, 4) && newest.update(1, 5), "it is back");
    assert!(!newest.update(2, 2), "now these are the keys before");
    assert!(newest.update(1, 6) && newest.update(3, 0) && newest.update(3, 1));
    assert!(!newest.update(1, 5), "an older one");
}

#[test]
fn peers_come_and_go_without_touching_others() {
    let mut peers = server(3, 1000);
    let mut clients: Vec<_> = (1..=3).map(client).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        join(&mut peers, client, four_tuple(i as u8));
    }
    assert_eq!(peers.add(public(2), None), Err(AddPeerError::Duplicate(PeerId(1))));
    assert_eq!(peers.add(public(SERVER), None), Err(AddPeerError::Own));
    assert!(peers.remove(PeerId(1)) && !peers.remove(PeerId(1)) && !peers.remove(PeerId(9)));
    assert_eq!((peers.len(), peers.find(&public(2))), (2, None));
    let mut out = [0; 256];
    assert_eq!(peers.seal(PeerId(1), &packet(1), &mut out), Sealed::Nothing);

    let stale = sealed(&mut clients[1], &packet(2));
    assert_eq!(receive(&mut peers, four_tuple(1), &stale).0.opened, Opened::Bad(Bad::Unexpected));
    let hello = initiation(&mut clients[1]);
    assert_eq!(receive(&mut peers, four_tuple(1), &hello).0.opened, Opened::Bad(Bad::Unauthentic));
    // Another one takes its place and does not inherit anything.
    assert_eq!(peers.add(public(4), None), Ok(PeerId(1)));
    let mut fourth = client(4);
    join(&mut peers, &mut fourth, four_tuple(4));
    assert!(matches!(receive(&mut peers, four_tuple(1), &stale).0.opened, Opened::Bad(_)));
    let datagram = sealed(&mut clients[0], &packet(1));
    assert_eq!(receive(&mut peers, four_tuple(0), &datagram).1, packet(1));
    let datagram = sealed(&mut clients[2], &packet(3));
    assert_eq!(receive(&mut peers, four_tuple(2), &datagram).1, packet(3));
    assert_eq!(receive(&mut peers, four_tuple(4), &sealed(&mut fourth, &packet(4))).1, packet(4));
}

#[test]
fn a_server_can_begin_the_handshake_too() {
    let mut peers = server(1, 1000);
    let mut one = client(1);
    let mut out = [0; 256];
    assert_eq!(peers.seal(PeerId(0), &packet(9), &mut out), Sealed::Nothing, "never came");
    let _ = receive(&mut peers, four_tuple(1), &initiation(&mut one));
    let sealed = peers.seal(PeerId(0), &packet(9), &mut out);
    let Sealed::Handshake(len) = sealed else { panic!("{sealed:?}") };
    let (_, response) = answer(&mut one, &out[..len]);
    let (received, keepalive) = receive(&mut peers, four_tuple(5), &response);
    assert_eq!((received.peer, received.opened), (Some(PeerId(0)), Opened::Reply(32)));
    assert_eq!(peers.four_tuple(PeerId(0)), Some(&four_tuple(5)));
    assert_eq!(answer(&mut one, &keepalive).0, Opened::Keepalive);
    let len = peers.pending(PeerId(0), &mut out).unwrap();
    assert_eq!(answer(&mut one, &out[..len]).1, packet(9));
}

#[test]
fn the_timer_visits_everybody_and_an_idle_peer_is_small() {
    let mut peers = server(9, 1000);
    let mut one = client(9);
    let id = join(&mut peers, &mut one, four_tuple(9));
    for i in 0..8 {
        let now = Instant(i * 250_000_000);
        peers.on_timer(now, &mut [0; 256], |_, _| panic!("nothing is due"));
    }
    assert!(peers.session(id).unwrap().has_keys());
    assert!(size_of::<Option<Peer>>() <= 200, "{}", size_of::<Option<Peer>>());
    println!("a session has {SESSION_BYTES} bytes");
    assert!(Peers::new(secret(1), PeersConfig::default()).is_empty());
}
