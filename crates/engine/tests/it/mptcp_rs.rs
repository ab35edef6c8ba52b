//! An independent MPTCP client, the crate `mptcp-rs`, against our server in virtual time.
//!
//! Two lossy paths between them, packets as bytes, one seed a test: what is not understood by
//! somebody else's reading of RFC 8684 shows here, in milliseconds and without privileges. The
//! client role of that crate is all there is of it; it has no checksums and no MP_FAIL.

mod world;

use mptcp_rs::{CloseReason as TheirReason, CongestionControlKind, Event as TheirEvent};
use tabane_engine::Event;
use tabane_engine::record::CloseReason;
use tabane_engine::view::SubflowId;
use world::{Family, Speaks, World};

const MIB: usize = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// A lossy pair of paths: 20 Mbit/s and 10 ms, 10 Mbit/s and 25 ms, 1 % loss each way.
fn lossy(family: Family, seed: u64) -> World {
    let mut world = World::new(family, seed, Speaks::Mptcp);
    world.links.iter_mut().for_each(|link| link.loss = 0.01);
    world
}

/// Opens, joins the second path.
fn joined(mut world: World) -> World {
    world.open();
    world.join(false);
    world.run("the join", 5 * SECOND, |w| {
        w.their_events.iter().any(|e| matches!(e, TheirEvent::SubflowUp { .. }))
    });
    world
}

fn both_carried(payload: [u64; 2]) {
    let all: u64 = payload.iter().sum();
    assert!(payload.iter().all(|part| *part > all / 10), "one path carried it all: {payload:?}");
}

#[test]
fn downloads_arrive_over_two_lossy_paths() {
    for (family, seed) in [(Family::V4, 1), (Family::V6, 2), (Family::V4, 3), (Family::V6, 4)] {
        let mut world = joined(lossy(family, seed));
        world.send_from_us(4 * MIB);
        world.run("the download", 60 * SECOND, |w| w.they_got.len() == 4 * MIB);
        assert!(world.they_got == world.we_sent, "the data arrived damaged");
        both_carried(world.payload_to_them);
        println!("{family:?} seed {seed}: {:.1} s, {:?}", world.seconds(), world.payload_to_them);
    }
}

#[test]
fn uploads_arrive_over_two_lossy_paths() {
    for (family, seed) in [(Family::V4, 5), (Family::V6, 6), (Family::V4, 7), (Family::V6, 8)] {
        let mut world = joined(lossy(family, seed));
        world.send_from_them(4 * MIB);
        world.run("the upload", 60 * SECOND, |w| w.we_got.len() == 4 * MIB);
        assert!(world.we_got == world.they_sent, "the data arrived damaged");
        both_carried(world.payload_to_us);
        println!("{family:?} seed {seed}: {:.1} s, {:?}", world.seconds(), world.payload_to_us);
    }
}

#[test]
fn both_directions_at_once_with_their_bbr() {
    let mut world = lossy(Family::V4, 9);
    world.config.congestion_control = CongestionControlKind::BbrV3;
    let mut world = joined(world);
    world.send_from_us(2 * MIB);
    world.send_from_them(2 * MIB);
    let done = |w: &mut World| w.they_got.len() == 2 * MIB && w.we_got.len() == 2 * MIB;
    world.run("both transfers", 60 * SECOND, done);
    assert!(world.they_got == world.we_sent && world.we_got == world.they_sent, "damaged");
}

/// Acknowledgements ride on data then; what they have to say must not make that too long.
#[test]
fn both_directions_at_once_over_lossy_paths_of_exact_mtu() {
    for (family, seed) in [(Family::V4, 21), (Family::V6, 22), (Family::V4, 23), (Family::V6, 24)] {
        let mut world = joined(lossy(family, seed));
        world.links.iter_mut().for_each(|link| link.loss = 0.03);
        world.send_from_us(2 * MIB);
        world.send_from_them(2 * MIB);
        let done = |w: &mut World| w.they_got.len() == 2 * MIB && w.we_got.len() == 2 * MIB;
        world.run("both transfers", 60 * SECOND, done);
        let whole = world.they_got == world.we_sent && world.we_got == world.they_sent;
        assert!(whole, "the data arrived damaged");
    }
}

#[test]
fn plain_tcp_is_served_too() {
    let mut world = World::new(Family::V4, 10, Speaks::Tcp);
    world.links[0].loss = 0.01;
    world.open();
    world.send_from_us(MIB);
    world.send_from_them(MIB);
    let done = |w: &mut World| w.they_got.len() == MIB && w.we_got.len() == MIB;
    world.run("both transfers", 60 * SECOND, done);
    assert!(world.they_got == world.we_sent && world.we_got == world.they_sent, "damaged");
    assert!(world.their_events.contains(&TheirEvent::Connected { mptcp: false }));
    assert!(!world.info().mptcp);
}

#[test]
fn closing_ends_both_sides_normally() {
    let mut world = joined(lossy(Family::V4, 11));
    world.send_from_us(MIB / 4);
    world.run("the data", 30 * SECOND, |w| w.they_got.len() == MIB / 4);
    world.close_us();
    world.run("their end of file", 10 * SECOND, |w| w.they_got_end);
    world.close_them();
    // They report it when every subflow has left TIME-WAIT.
    world.run("the end", 150 * SECOND, |w| {
        let theirs = TheirEvent::Closed { reason: TheirReason::Normal };
        w.their_events.contains(&theirs) && w.our_close() == Some(CloseReason::Finished)
    });
}

#[test]
fn their_abort_reaches_us_as_fastclose() {
    let mut world = joined(lossy(Family::V4, 12));
    world.send_from_us(2 * MIB);
    world.run("some data", 30 * SECOND, |w| w.they_got.len() > MIB / 2);
    world.client().abort();
    world.run("the end", 5 * SECOND, |w| w.our_close().is_some());
    assert_eq!(world.our_close(), Some(CloseReason::FastClose));
}

#[test]
fn our_abort_reaches_them() {
    let mut world = joined(lossy(Family::V4, 13));
    world.send_from_them(2 * MIB);
    world.run("some data", 30 * SECOND, |w| w.we_got.len() > MIB / 2);
    world.abort_us();
    let end = TheirEvent::Closed { reason: TheirReason::Reset };
    world.run("the end", 20 * SECOND, |w| w.their_events.contains(&end));
}

#[test]
fn priorities_are_told_both_ways_and_obeyed() {
    let mut world = joined(World::new(Family::V4, 14, Speaks::Mptcp));
    // We tell them; they report it.
    let now = world.now();
    world.connection().set_backup(now, SubflowId(1), true).unwrap();
    world.run("our MP_PRIO", SECOND, |w| {
        let told = |e: &TheirEvent| matches!(e, TheirEvent::PeerPriority { backup: true, .. });
        w.their_events.iter().any(told)
    });
    world.connection().set_backup(now, SubflowId(1), false).unwrap();
    world.run("our second MP_PRIO", SECOND, |w| {
        let told = |e: &TheirEvent| matches!(e, TheirEvent::PeerPriority { backup: false, .. });
        w.their_events.iter().any(told)
    });
    // They tell us; we obey.
    world.set_their_backup(true);
    world.run("their MP_PRIO", SECOND, |w| w.info().subflows[1].view.backup);
    world.send_from_us(MIB);
    world.run("the download", 10 * SECOND, |w| w.they_got.len() == MIB);
    assert_eq!(world.payload_to_them[1], 0, "data on a backup while the active path works");
}

#[test]
fn our_announcement_is_understood_and_joined() {
    let mut world = World::new(Family::V4, 15, Speaks::Mptcp);
    world.open();
    let (now, second) = (world.now(), world.our_address(2));
    let id = world.connection().announce(now, second).unwrap();
    world.run("ADD_ADDR", SECOND, |w| {
        w.their_events.contains(&TheirEvent::AddressAnnounced { id, addr: second })
    });
    world.join_at(second);
    world.run("the join", 5 * SECOND, |w| w.info().subflows.len() == 2);
    let now = world.now();
    world.connection().withdraw(now, &[id]);
    world.run("REMOVE_ADDR", SECOND, |w| {
        w.their_events.contains(&TheirEvent::AddressRemoved { id })
    });
}

#[test]
fn an_address_they_lose_is_removed_here() {
    let mut world = joined(lossy(Family::V4, 16));
    world.send_from_us(2 * MIB);
    world.run("some data", 30 * SECOND, |w| w.payload_to_them[1] > 100_000);
    world.remove_their_address(2);
    world.run("REMOVE_ADDR or RST", 5 * SECOND, |w| {
        w.our_events.iter().any(|e| matches!(e, Event::SubflowClosed(SubflowId(1), _)))
    });
    world.run("the rest", 60 * SECOND, |w| w.they_got.len() == 2 * MIB);
    assert!(world.they_got == world.we_sent, "the data arrived damaged");
}

#[test]
fn a_path_that_dies_for_15_s_does_not_stop_the_rest() {
    for from_us in [true, false] {
        let mut world = World::new(Family::V4, 17, Speaks::Mptcp);
        // They keep 64 ranges out of order at data level and forget what they have acknowledged
        // beyond: a window that cannot overflow the queues makes fewer.
        world.config.recv_buffer = 400_000;
        let mut world = joined(world);
        if from_us {
            world.send_from_us(24 * MIB);
        } else {
            world.send_from_them(24 * MIB);
        }
        let got = |w: &World| w.they_got.len() + w.we_got.len();
        world.run("some data", 10 * SECOND, |w| got(w) > MIB);
        world.links[0].down = true;
        let before = got(&world);
        world.run_for(15 * SECOND);
        let meanwhile = got(&world) - before;
        // 10 Mbit/s for 15 s is 18 MB; a stale subflow and its timeouts cost some of it.
        assert!(meanwhile > 8 * MIB, "only {meanwhile} bytes in 15 s by the living path");
        world.links[0].down = false;
        world.run("the rest", 60 * SECOND, |w| got(w) == 24 * MIB);
        let whole = world.they_got == world.we_sent && world.we_got == world.they_sent;
        assert!(whole, "the data arrived damaged");
        println!("from us: {from_us}: {meanwhile} bytes in the 15 s, {:.1} s", world.seconds());
    }
}

#[test]
fn a_reader_that_stops_closes_the_window_and_opens_it_again() {
    let mut world = joined(lossy(Family::V4, 18));
    world.they_read = false;
    world.send_from_us(8 * MIB);
    world.run_for(20 * SECOND);
    let stuck: u64 = world.payload_to_them.iter().sum();
    world.run_for(10 * SECOND);
    let probes: u64 = world.payload_to_them.iter().sum::<u64>() - stuck;
    assert!(probes < 20_000, "{probes} bytes in 10 s into a closed window");
    world.they_read = true;
    world.run("the rest", 90 * SECOND, |w| w.they_got.len() == 8 * MIB);
    assert!(world.they_got == world.we_sent, "the data arrived damaged");
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let run = |seed| {
        let mut world = joined(lossy(Family::V4, seed));
        world.send_from_us(MIB);
        world.run("the download", 60 * SECOND, |w| w.they_got.len() == MIB);
        (world.now(), world.packets, world.trace)
    };
    assert_eq!(run(19), run(19));
    assert_ne!(run(19).2, run(20).2);
}
