//! What the scenarios of the monitor do not show: stock peers, resets.

use super::super::world::{World, changes, ms};
use super::*;
use crate::address::Network;
use proptest::prelude::*;

fn responder() -> Responder {
    Responder::new(Instant::ZERO, Network::default().service())
}

#[test]
fn a_stock_peer_is_never_dead_by_silence() {
    let mut responder = responder();
    assert!(!responder.is_up());
    responder.handle_heard(Instant::ZERO + ms(5));
    assert_eq!(responder.poll_event(), Some(PathEvent::Up));
    assert_eq!(responder.poll_timeout(), Instant::FAR_FUTURE);
    let later = Instant::ZERO + Duration::from_secs(86_400);
    responder.handle_timeout(later);
    assert!(responder.is_up() && responder.is_stock());
    assert_eq!(responder.poll_event(), None);
    assert!(responder.health(later).reason.contains("stock peer"));
}

#[test]
fn a_plain_ping_is_answered_and_makes_no_prober() {
    let mut responder = responder();
    // An echo request of ping(8): 10.81.0.16 to 10.81.0.1.
    let header = tabane_wire::ip::IpHeader::new(
        "10.81.0.16".parse().unwrap(),
        "10.81.0.1".parse().unwrap(),
        tabane_wire::ip::protocol::ICMP,
    );
    let mut packet = [0u8; 84];
    packet[20] = 8;
    let start = header.emit(&mut packet, 64).unwrap();
    let sum = tabane_wire::icmp::checksum(&header, &packet[start..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    assert!(responder.handle_packet(Instant::ZERO, &packet).is_some());
    assert!(responder.is_stock() && responder.is_up());
    // To others it is not ours.
    assert_eq!(responder.handle_packet(Instant::ZERO, &[0x45; 60]), None);
}

#[test]
fn old_probes_change_nothing() {
    let mut world = World::new(1);
    world.run(ms(2_000));
    let newest = world.responder.probe.unwrap();
    let ends = super::super::Ends {
        path: "10.81.0.16".parse().unwrap(),
        service: "10.81.0.1".parse().unwrap(),
    };
    let old = Probe { seq: newest.seq.wrapping_sub(3), hears: false, mtu: 600, ..newest };
    let mut packet = [0; 100];
    let length = old.emit(&ends, 0, &mut packet).unwrap();
    assert!(world.responder.handle_packet(world.now, &packet[..length]).is_some());
    assert!(world.responder.is_up());
    assert_eq!(world.responder.probe, Some(newest));
    // A client that was started again counts from zero.
    let fresh = Probe { run: newest.run ^ 1, seq: 0, hears: false, ..newest };
    let length = fresh.emit(&ends, 0, &mut packet).unwrap();
    world.responder.handle_packet(world.now, &packet[..length]);
    world.now += FIRST_ANSWER + ms(1);
    let fresh = Probe { seq: 1, ..fresh };
    let length = fresh.emit(&ends, 0, &mut packet).unwrap();
    world.responder.handle_packet(world.now, &packet[..length]);
    assert!(!world.responder.is_up());
    // Its data does not make it usable before it says so.
    world.responder.handle_heard(world.now);
    assert!(!world.responder.is_up());
}

/// The handshake comes first, then probes that were sent before any answer.
#[test]
fn a_client_that_starts_causes_no_alarm() {
    let mut world = World::new(1);
    world.responder.handle_heard(world.now);
    world.run(ms(2_000));
    assert_eq!(changes(&world.server), [(Instant::ZERO + ms(1_000), true)]);
    let newest = world.responder.probe.unwrap();
    let ends = super::super::Ends {
        path: "10.81.0.16".parse().unwrap(),
        service: "10.81.0.1".parse().unwrap(),
    };
    let mut packet = [0; 100];
    // Killed and started again: the same, as long as its answers may be on their way.
    let mut say = |wait, seq, hears| {
        world.now += ms(wait);
        let probe = Probe { run: newest.run ^ 1, seq, hears, ..newest };
        let length = probe.emit(&ends, 0, &mut packet).unwrap();
        world.responder.handle_packet(world.now, &packet[..length]);
        world.responder.is_up()
    };
    assert!(say(10, 0, false) && say(500, 1, false) && say(500, 2, true));
    assert!(!say(10, 3, false), "it has heard us before");
}

#[test]
fn what_did_not_leave_here_is_not_sent_again_until_the_client_knows() {
    let mut world = World::new(3);
    world.run(ms(5_000));
    assert_eq!(world.responder.mtu(), 1440);
    world.responder.handle_too_big(world.now, 1440, true);
    assert_eq!(world.responder.mtu(), 1439);
    assert_eq!(world.responder.poll_event(), Some(PathEvent::Mtu(1439)));
    assert_eq!(world.responder.poll_event(), Some(PathEvent::TooBig(1440)));
    assert_eq!((world.responder.poll_event(), world.responder.too_big()), (None, 1));
    // Longer than what is known: nothing new, but told.
    world.responder.handle_too_big(world.now + ms(2_000), 1500, false);
    assert_eq!(world.responder.mtu(), 1439);
    assert_eq!(world.responder.poll_event(), Some(PathEvent::TooBig(1500)));
    // What the client has found since counts.
    let newest = world.responder.probe.unwrap();
    for (n, mtu, now) in [(1, 1440, 1439), (2, 1400, 1400), (3, 1440, 1440)] {
        let ends = super::super::Ends {
            path: "10.81.0.16".parse().unwrap(),
            service: "10.81.0.1".parse().unwrap(),
        };
        let mut packet = [0; 100];
        let probe = Probe { seq: newest.seq.wrapping_add(n), mtu, ..newest };
        let length = probe.emit(&ends, 0, &mut packet).unwrap();
        world.responder.handle_packet(world.now, &packet[..length]);
        assert_eq!(world.responder.mtu(), now, "the client says {mtu}");
    }
}

/// A client that is none of ours can say anything, as fast as it can send.
#[test]
fn probes_say_no_size_that_cannot_be_sent_nor_too_often_anything() {
    let mut world = World::new(3);
    world.run(ms(5_000));
    let newest = world.responder.probe.unwrap();
    let ends = super::super::Ends {
        path: "10.81.0.16".parse().unwrap(),
        service: "10.81.0.1".parse().unwrap(),
    };
    let mut say = |n: u32, mtu| {
        let mut packet = [0; 100];
        let probe = Probe { seq: newest.seq.wrapping_add(n), mtu, ..newest };
        let length = probe.emit(&ends, 0, &mut packet).unwrap();
        let now = world.now + ms(u64::from(n));
        let answered = world.responder.handle_packet(now, &packet[..length]).is_some();
        (answered, world.responder.mtu())
    };
    assert_eq!(say(1, u16::MAX), (true, 9_000));
    assert_eq!(say(2, 0), (true, LEAST));
    let taken = (3..1_003).filter(|n| say(*n, 1_280 + *n as u16 % 2).0).count();
    assert!((90..=110).contains(&taken), "{taken} of a thousand in a second");
}

proptest! {
    #[test]
    fn no_input_makes_it_panic_or_spin(
        steps in proptest::collection::vec(
            (0u64..4_000, 0u8..5, any::<u32>(), any::<u16>(), any::<bool>()), 1..100)
    ) {
        let mut responder = responder();
        let ends = super::super::Ends {
            path: "10.81.0.16".parse().unwrap(),
            service: "10.81.0.1".parse().unwrap(),
        };
        let mut now = Instant::ZERO;
        for (wait, kind, seq, within_ms, hears) in steps {
            now += ms(wait);
            match kind {
                0..3 => {
                    let probe = Probe {
                        path: 0,
                        run: seq & 1,
                        seq,
                        hears,
                        using: super::super::Use::Active,
                        role: crate::model::Role::Primary,
                        mtu: within_ms,
                        within_ms,
                        cap_bps: None,
                        reports: false,
                        far_reports: false,
                        takes_roles: false,
                        asked_role: None,
                        full: false,
                        server_info: None,
                    };
                    let mut packet = [0; 100];
                    let length = probe.emit(&ends, 0, &mut packet).unwrap();
                    let answer = responder.handle_packet(now, &packet[..length]);
                    prop_assert!(answer.is_none_or(|answer| answer.len() == length));
                }
                3 => drop(responder.handle_packet(now, &seq.to_be_bytes())),
                _ => responder.handle_heard(now),
            }
            responder.handle_timeout(now);
            prop_assert!(responder.poll_timeout() > now, "it spins");
            for _ in 0..3 {
                responder.poll_event();
            }
            prop_assert_eq!(responder.poll_event(), None);
            prop_assert!(!responder.health(now).reason.is_empty());
        }
    }
}
