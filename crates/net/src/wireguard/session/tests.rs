//! A session against another, and against boringtun's own.

use super::*;

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::from([seed; 32])
}

fn session(own: u8, peer: u8) -> Session {
    Session::new(&secret(own), PublicKey::from(&secret(peer)), None, own.into(), None)
}

/// An IPv4 packet of `len` bytes from 10.0.0.`from`.
fn packet(len: usize, from: u8) -> Vec<u8> {
    let mut packet = vec![0x5a; len];
    packet[..20].fill(0);
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&[10, 0, 0, from]);
    packet
}

fn sealed(session: &mut Session, packet: &[u8]) -> Vec<u8> {
    let mut out = vec![0; seal_space(packet.len())];
    let Sealed::Packet(len) = session.seal(packet, &mut out) else { panic!("no keys") };
    out.truncate(len);
    out
}

fn opened(session: &mut Session, datagram: &[u8]) -> (Opened, Vec<u8>) {
    let mut out = vec![0; 65_536];
    let opened = session.open(None, datagram, &mut out);
    let len = match opened {
        Opened::Packet { len, .. } | Opened::Reply(len) => len,
        _ => 0,
    };
    out.truncate(len);
    (opened, out)
}

fn initiation(session: &mut Session, again: bool) -> Vec<u8> {
    let mut out = [0; 256];
    let len = session.handshake(&mut out, again).expect("no handshake under way");
    out[..len].to_vec()
}

/// Client and server after a handshake.
fn pair() -> (Session, Session) {
    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let (_, response) = opened(&mut server, &initiation(&mut client, false));
    let (_, keepalive) = opened(&mut client, &response);
    assert_eq!(opened(&mut server, &keepalive).0, Opened::Keepalive);
    (client, server)
}

#[test]
fn packets_cross_both_ways_after_a_handshake() {
    let (mut client, mut server) = pair();
    assert!(client.has_keys() && server.has_keys());
    assert!(client.handshake_age().unwrap() < Duration::from_secs(5));
    for len in [20, 60, 1400, 9000] {
        let up = packet(len, 1);
        let datagram = sealed(&mut client, &up);
        assert_eq!(datagram.len(), len + OVERHEAD);
        let source = "10.0.0.1".parse().unwrap();
        assert_eq!(opened(&mut server, &datagram), (Opened::Packet { len, source }, up));
        let down = packet(len, 2);
        let datagram = sealed(&mut server, &down);
        assert_eq!(opened(&mut client, &datagram).1, down);
    }
    for session in [&client, &server] {
        let counters = session.counters();
        assert_eq!((counters.tx_packets, counters.rx_packets), (4, 4));
        assert_eq!((counters.tx_bytes, counters.rx_bytes), (10_480, 10_480));
        assert_eq!((counters.handshakes, counters.bad, counters.replays), (1, 0, 0));
    }
    assert_eq!((client.counters().initiations, server.counters().initiations), (1, 0));
}

#[test]
fn ipv6_crosses_too() {
    let (mut client, mut server) = pair();
    let mut packet = vec![7; 100];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&60u16.to_be_bytes());
    let datagram = sealed(&mut client, &packet);
    let (got, bytes) = opened(&mut server, &datagram);
    let source = "707:707:707:707:707:707:707:707".parse().unwrap();
    assert_eq!(got, Opened::Packet { len: 100, source });
    assert_eq!(bytes, packet);
}

#[test]
fn packets_wait_for_keys_and_leave_in_order() {
    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let mut out = vec![0; 65_536];
    let first = client.seal(&packet(100, 0), &mut out);
    let Sealed::Handshake(len) = first else { panic!("{first:?}") };
    let initiation = out[..len].to_vec();
    for i in 1..WAITING_MAX {
        assert_eq!(client.seal(&packet(100, i as u8), &mut out), Sealed::Nothing);
    }
    assert_eq!(client.counters().dropped, 0);
    assert_eq!(client.seal(&packet(100, 99), &mut out), Sealed::Nothing);
    assert_eq!(client.counters().dropped, 1, "the queue has a limit");
    assert_eq!(client.pending(&mut out), None);

    let (_, response) = opened(&mut server, &initiation);
    let (_, keepalive) = opened(&mut client, &response);
    assert_eq!(opened(&mut server, &keepalive).0, Opened::Keepalive);
    for i in 0..WAITING_MAX {
        let len = client.pending(&mut out).unwrap();
        let datagram = out[..len].to_vec();
        assert_eq!(opened(&mut server, &datagram).1, packet(100, i as u8));
    }
    assert_eq!(client.pending(&mut out), None);
    assert_eq!(client.counters().tx_packets, WAITING_MAX as u64);
    assert!(matches!(client.seal(&packet(100, 1), &mut out), Sealed::Packet(132)));
}

#[test]
fn a_responder_also_sends_what_waited() {
    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let mut out = vec![0; 65_536];
    assert!(matches!(server.seal(&packet(50, 9), &mut out), Sealed::Handshake(_)));
    let (_, response) = opened(&mut server, &initiation(&mut client, false));
    assert_eq!(server.pending(&mut out), None, "the initiator has not confirmed the keys");
    let (_, keepalive) = opened(&mut client, &response);
    assert_eq!(opened(&mut server, &keepalive).0, Opened::Keepalive);
    let len = server.pending(&mut out).unwrap();
    assert_eq!(opened(&mut client, &out[..len]).1, packet(50, 9));
}

#[test]
fn a_replay_is_refused_and_counted() {
    let (mut client, mut server) = pair();
    let datagrams: Vec<_> = (0..3).map(|_| sealed(&mut client, &packet(100, 1))).collect();
    for i in [2, 0, 1] {
        assert!(matches!(opened(&mut server, &datagrams[i]).0, Opened::Packet { .. }));
    }
    for datagram in &datagrams {
        assert_eq!(opened(&mut server, datagram).0, Opened::Bad(Bad::Replay));
    }
    let late = sealed(&mut client, &packet(100, 1));
    for _ in 0..1025 {
        let datagram = sealed(&mut client, &packet(20, 1));
        assert!(matches!(opened(&mut server, &datagram).0, Opened::Packet { .. }));
    }
    assert_eq!(opened(&mut server, &late).0, Opened::Bad(Bad::Replay), "the window is 1024");
    assert_eq!(server.counters().replays, 4);
}

#[test]
fn a_replayed_handshake_gets_no_answer() {
    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let first = initiation(&mut client, false);
    assert!(matches!(opened(&mut server, &first).0, Opened::Reply(92)));
    assert_eq!(opened(&mut server, &first).0, Opened::Bad(Bad::Timestamp));
    assert!(matches!(opened(&mut server, &initiation(&mut client, true)).0, Opened::Reply(92)));
    assert_eq!(opened(&mut server, &first).0, Opened::Bad(Bad::Timestamp));
    assert_eq!(server.counters().replays, 2);
}

#[test]
fn the_answers_to_the_last_two_handshakes_count() {
    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let late = opened(&mut server, &initiation(&mut client, false)).1;
    let mut out = [0; 256];
    assert_eq!(client.handshake(&mut out, false), None, "one is under way");
    let _lost = initiation(&mut client, true);
    let (_, keepalive) = opened(&mut client, &late);
    assert_eq!(opened(&mut server, &keepalive).0, Opened::Keepalive);
    assert!(client.has_keys() && server.has_keys());
}

#[test]
fn whatever_is_cut_or_changed_is_refused() {
    let (mut client, mut server) = pair();
    let good = sealed(&mut client, &packet(100, 1));
    for len in 0..good.len() {
        let (got, _) = opened(&mut server, &good[..len]);
        assert!(matches!(got, Opened::Bad(_)), "cut to {len}: {got:?}");
    }
    for bit in 0..good.len() * 8 {
        let mut changed = good.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (got, _) = opened(&mut server, &changed);
        assert!(matches!(got, Opened::Bad(_)), "bit {bit}: {got:?}");
    }
    assert!(matches!(opened(&mut server, &good).0, Opened::Packet { .. }), "no harm was done");
    assert_eq!(server.counters().rx_packets, 1);

    let (mut client, mut server) = (session(1, 2), session(2, 1));
    let good = initiation(&mut client, false);
    for bit in 0..good.len() * 8 {
        let mut changed = good.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (got, _) = opened(&mut server, &changed);
        let harmless = bit / 8 >= 132; // The cookie's MAC, which counts under load only.
        assert!(matches!(got, Opened::Bad(_)) || harmless, "bit {bit}: {got:?}");
    }
}

#[test]
fn a_stranger_gets_no_answer() {
    // Knows the server's public key, but is not the peer whom this session is for.
    let (mut stranger, mut server) = (session(3, 2), session(2, 1));
    let hello = initiation(&mut stranger, false);
    assert_eq!(opened(&mut server, &hello).0, Opened::Bad(Bad::Unauthentic));
    // Knows the client's key pair but not the server's.
    let (mut client, mut server) = (session(1, 4), session(2, 1));
    let hello = initiation(&mut client, false);
    assert_eq!(opened(&mut server, &hello).0, Opened::Bad(Bad::Unauthentic));
    // Another preshared key: the server answers, since the peer is who it says, but the answer
    // means nothing to it.
    let peer = PublicKey::from(&secret(2));
    let mut client = Session::new(&secret(1), peer, Some([9; 32]), 1, None);
    let hello = initiation(&mut client, false);
    let (_, response) = opened(&mut server, &hello);
    assert_eq!(opened(&mut client, &response).0, Opened::Bad(Bad::Unauthentic));
    assert!(!client.has_keys() && !server.has_keys());
}

#[test]
fn what_is_no_ip_packet_is_told_apart() {
    let (mut client, mut server) = pair();
    for inside in [&[0u8; 40][..], &[0x45; 19], &[0x60; 39], &[0x45, 0, 0, 5]] {
        let datagram = sealed(&mut client, inside);
        assert_eq!(opened(&mut server, &datagram).0, Opened::Bad(Bad::NotIp), "{inside:?}");
    }
    // A header that claims nothing, and one that claims more than there is.
    for claim in [0u16, 19, 61] {
        let mut inside = packet(60, 1);
        inside[2..4].copy_from_slice(&claim.to_be_bytes());
        let datagram = sealed(&mut client, &inside);
        assert_eq!(opened(&mut server, &datagram).0, Opened::Bad(Bad::NotIp), "{claim}");
    }
    // Padding behind the packet, as other implementations send it, is cut.
    let mut padded = packet(60, 1);
    padded.extend([0; 4]);
    let datagram = sealed(&mut client, &padded);
    assert_eq!(opened(&mut server, &datagram).1, packet(60, 1));
}

#[test]
fn a_counter_at_its_end_is_refused_before_it_is_reckoned_with() {
    let (_, mut server) = pair();
    let mut datagram = vec![0; 64];
    datagram[0] = TYPE_DATA;
    datagram[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(opened(&mut server, &datagram).0, Opened::Bad(Bad::Malformed));
}

#[test]
fn a_small_buffer_is_a_refusal_and_no_panic() {
    let (mut client, mut server) = pair();
    let datagram = sealed(&mut client, &packet(1000, 1));
    let mut out = [0; 500];
    assert_eq!(server.open(None, &datagram, &mut out), Opened::Bad(Bad::Malformed));
}

#[test]
fn an_independent_tunnel_understands_us() {
    let public = |seed| PublicKey::from(&secret(seed));
    let (mut buf, mut out) = (vec![0; 65_536], vec![0; 65_536]);
    let to_network = |result: TunnResult<'_>| match result {
        TunnResult::WriteToNetwork(datagram) => datagram.to_vec(),
        other => panic!("{other:?}"),
    };
    for psk in [None, Some([7; 32])] {
        for they_begin in [true, false] {
            let mut ours = Session::new(&secret(1), public(2), psk, 77, None);
            let mut theirs = Tunn::new(secret(2), public(1), psk, None, 5, None);
            if they_begin {
                let first = to_network(theirs.format_handshake_initiation(&mut buf, false));
                let (_, response) = opened(&mut ours, &first);
                let keepalive = to_network(theirs.decapsulate(None, &response, &mut buf));
                assert_eq!(opened(&mut ours, &keepalive).0, Opened::Keepalive);
            } else {
                let first = initiation(&mut ours, false);
                let response = to_network(theirs.decapsulate(None, &first, &mut buf));
                let (_, keepalive) = opened(&mut ours, &response);
                let done = theirs.decapsulate(None, &keepalive, &mut buf);
                assert!(matches!(done, TunnResult::Done), "{done:?}");
            }
            let up = packet(1400, 1);
            let datagram = sealed(&mut ours, &up);
            match theirs.decapsulate(None, &datagram, &mut out) {
                TunnResult::WriteToTunnelV4(inside, _) => assert_eq!(inside, up),
                other => panic!("{other:?}"),
            }
            let datagram = to_network(theirs.encapsulate(&up, &mut buf));
            assert_eq!(opened(&mut ours, &datagram).1, up);
        }
    }
}

#[test]
fn a_session_is_of_a_size_that_thousands_can_have() {
    // Memory of a server: see the peers' page. Eight generations of keys are inside.
    let size = size_of::<Session>();
    assert!(size < 16 << 10, "{size} bytes");
}
