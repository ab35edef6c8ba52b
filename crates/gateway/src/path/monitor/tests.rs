//! Scenarios in virtual time, against a real [`Responder`](super::super::Responder).

use super::super::world::{World, changes, ms};
use super::*;
use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use proptest::prelude::*;

const OPEN: Demand = Demand { open: true, standby: false, alone: false };
const IDLE: Demand = Demand { open: false, ..OPEN };

/// A path that has been up for ten seconds and is at rest.
fn settled(seed: u64) -> World {
    let mut world = World::new(seed);
    world.run(ms(10_000));
    assert!(world.monitor.is_up() && world.responder.is_up());
    world.client.clear();
    world.server.clear();
    world.probes.clear();
    world
}

#[test]
fn a_path_comes_up_after_one_round_trip() {
    for family in [0, 1] {
        let mut world = World::with_family(1, family);
        let start = world.now;
        world.run(ms(1_000));
        let up = changes(&world.client);
        assert_eq!(up, [(start + ms(20), true)]);
        // With what is sent next the server knows, too, that it may answer.
        assert_eq!(changes(&world.server), [(start + ms(30), true)]);
        let health = world.monitor.health(world.now);
        assert_eq!(health.rtt, Some(ms(20)));
        assert_eq!(health.loss, Some(0.0));
        assert_eq!(health.mtu, 1440);
        assert!(world.client.contains(&(world.client[1].0, PathEvent::Mtu(1440))));
        assert!(world.server.iter().any(|(_, event)| *event == PathEvent::Mtu(1440)));
        assert!(world.probes.len() < 8, "{}", world.probes.len());
    }
}

#[test]
fn a_black_hole_is_left_within_a_second_and_used_within_two() {
    for (seed, data) in [(1, None), (2, Some(ms(5))), (3, None), (4, Some(ms(40)))] {
        for delay in [1, 10, 50, 100] {
            let mut world = World::new(seed);
            world.direction[0].delay = ms(delay);
            world.direction[1].delay = ms(delay);
            world.data = data;
            world.run(ms(10_000 + seed * 37));
            world.client.clear();
            world.server.clear();
            let died = world.now;
            world.kill(true);
            world.run(ms(30_000));
            let down = world.changes();
            assert_eq!(down.len(), 1, "{down:?}");
            // What was on its way when the link died is heard for half a round trip more.
            assert!(down[0].0 - died <= ms(1000 + delay), "{delay}: {:?}", down[0].0 - died);
            let server = changes(&world.server);
            assert!(server[0].0 - died <= ms(1000 + delay), "server: {:?}", server[0].0 - died);
            let (_, PathEvent::Down(why)) = &world.client[0] else { panic!() };
            assert!(why.starts_with("no answer for 0.9 s") || why.ends_with("1.0 s"), "{why}");
            world.client.clear();
            world.server.clear();
            let back = world.now;
            world.kill(false);
            world.run(ms(5_000));
            let up = world.changes();
            assert_eq!(up.len(), 1);
            assert!(up[0].0 - back <= ms(1_000 + 4 * delay), "{:?}", up[0].0 - back);
            assert!(changes(&world.server)[0].0 - back <= ms(1_100 + 4 * delay));
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.client, self.server)
    }
}

#[test]
fn ten_percent_loss_does_not_kill() {
    let mut downs = 0;
    for (seed, data) in [(1, None), (2, Some(ms(20))), (3, None)] {
        let mut world = settled(seed);
        world.loss(0.1);
        world.data = data;
        world.run(Duration::from_secs(3_600));
        downs += world.changes().len() + changes(&world.server).len();
        let loss = world.monitor.health(world.now).loss.unwrap();
        assert!((0.05..0.40).contains(&loss), "19 % by round trip: {loss}");
    }
    assert_eq!(downs, 0, "in three hours");
}

#[test]
fn ten_percent_loss_on_a_long_path_does_not_kill() {
    let mut world = settled(9);
    world.direction[0].delay = ms(300);
    world.direction[1].delay = ms(300);
    world.run(ms(10_000));
    world.client.clear();
    world.loss(0.1);
    world.run(Duration::from_secs(3_600));
    assert_eq!(world.changes().len(), 0, "{:?}", world.client);
}

#[test]
fn sixty_percent_loss_is_seen_and_does_not_flap_fast() {
    let mut world = settled(5);
    world.loss(0.37); // 60 % by round trip
    world.run(Duration::from_secs(600));
    assert!(world.changes().len() <= 4, "{:?}", world.client);
    assert!(world.monitor.health(world.now).loss.unwrap() > 0.4);
    // 84 % by round trip: mostly down, and the changes are bounded.
    world.client.clear();
    world.loss(0.6);
    world.run(Duration::from_secs(600));
    assert!(world.changes().len() <= 60, "{}", world.changes().len());
}

#[test]
fn two_seconds_of_queue_are_no_death() {
    let mut world = settled(6);
    world.data = Some(ms(10));
    world.run(ms(1_000));
    // The queue grows to 2 s within four, as when an upload begins, and stays.
    for step in 0..200 {
        world.direction[0].delay = ms(10 + step * 10);
        world.run(ms(20));
    }
    world.run(ms(20_000));
    assert!(world.changes().is_empty(), "{:?}", world.client);
    assert!(changes(&world.server).is_empty(), "{:?}", world.server);
    assert!(world.monitor.health(world.now).rtt.unwrap() > ms(1_900));
    // At once, in one direction, with data in the other: heard all the time.
    world.direction[0].delay = ms(10);
    world.run(ms(20_000));
    world.direction[0].delay = ms(900);
    world.run(ms(10_000));
    assert!(world.changes().is_empty(), "{:?}", world.client);
}

#[test]
fn a_dead_link_behind_a_long_queue_is_left() {
    let mut world = settled(7);
    world.data = Some(ms(10));
    for step in 0..100 {
        world.direction[0].delay = ms(10 + step * 10);
        world.run(ms(20));
    }
    world.run(ms(10_000));
    let died = world.now;
    world.kill(true);
    world.run(ms(10_000));
    // What is in the queue still arrives.
    assert!(world.changes()[0].0 - died <= ms(2_100), "{:?}", world.changes()[0].0 - died);
}

#[test]
fn one_way_death_is_left() {
    for (dead, limit) in [(0, 2_000), (1, 1_000)] {
        for data in [None, Some(ms(10))] {
            let mut world = settled(8);
            world.data = data;
            world.run(ms(1_000));
            let died = world.now;
            world.direction[dead].dead = true;
            world.run(ms(10_000));
            let client = world.changes();
            let server = changes(&world.server);
            assert_eq!((client.len(), server.len()), (1, 1), "{world:?}");
            assert!(client[0].0 - died <= ms(limit), "{dead}: {:?}", client[0].0 - died);
            assert!(server[0].0 - died <= ms(1_100), "{dead}: {:?}", server[0].0 - died);
        }
    }
}

#[test]
fn a_far_end_that_is_heard_and_does_not_hear_is_left() {
    // Not our server: it sends on although it hears nothing.
    let mut world = settled(8);
    let died = world.now;
    world.kill(true);
    for _ in 0..500 {
        world.run(ms(10));
        world.monitor.handle_heard(world.now);
    }
    let (at, PathEvent::Down(why)) = &world.client[0] else { panic!() };
    assert!(*at - died >= ONE_WAY && *at - died < ONE_WAY + ms(500));
    assert!(why.contains("does not hear us"), "{why}");
}

#[test]
fn flapping_is_damped_and_forgiven() {
    let mut world = settled(10);
    for _ in 0..30 {
        world.kill(true);
        world.run(ms(1_500));
        world.kill(false);
        world.run(ms(2_500));
    }
    // Two minutes: undamped it would be 60 changes.
    assert!((6..=30).contains(&world.changes().len()), "{}", world.changes().len());
    world.client.clear();
    let back = world.now;
    world.run(Duration::from_secs(120));
    let up = world.changes();
    assert!(up.len() <= 1 && world.monitor.is_up());
    assert!(up.iter().all(|(at, _)| *at - back <= ms(21_000)), "{up:?}");
    world.kill(true);
    world.run(ms(2_000));
    world.kill(false);
    let back = world.now;
    world.run(ms(3_000));
    assert!(world.changes().last().unwrap().0 - back <= ms(1_000), "as good as any");
}

/// A mobile link whose rate is 0 for a second or two, again and again.
#[test]
fn a_link_that_holds_packets_back_has_not_failed() {
    for (held, data) in [(700, None), (1_000, None), (1_000, Some(ms(5))), (2_500, Some(ms(40)))] {
        let mut world = settled(21);
        world.data = data;
        world.run(ms(500));
        for _ in 0..20 {
            let released = world.now + ms(held);
            world.hold(ms(held));
            world.run(ms(held + 100));
            assert!(world.monitor.is_up(), "{held}: {world:?}");
            world.run(ms(4_000));
            let server = changes(&world.server);
            assert!(server.last().is_none_or(|(at, up)| *up && *at <= released + ms(100)));
            assert!(world.monitor.is_up() && world.responder.is_up(), "{held}: {world:?}");
        }
        let downs = world.changes().iter().filter(|(_, up)| !up).count();
        assert_eq!(downs, if held > 850 { 20 } else { 0 }, "new connections go elsewhere");
        assert_eq!(world.monitor.health(world.now).failures, 0);
    }
}

#[test]
fn the_only_path_has_no_trial() {
    let mut world = settled(11);
    for _ in 0..5 {
        world.kill(true);
        world.run(ms(1_500));
        world.kill(false);
        world.run(ms(2_500));
    }
    world.kill(false);
    world.run(ms(400));
    assert!(!world.monitor.is_up());
    assert!(world.monitor.health(world.now).reason.contains("on trial"), "{world:?}");
    world.monitor.handle_demand(world.now, Demand { alone: true, ..OPEN });
    assert!(world.monitor.is_up());
}

#[test]
fn probes_thin_out_and_are_fast_again_at_once() {
    let mut world = settled(12);
    world.monitor.handle_demand(world.now, IDLE);
    world.run(Duration::from_secs(60));
    assert!((225..=260).contains(&world.probes.len()), "{}", world.probes.len());
    world.probes.clear();
    world.run(Duration::from_secs(300));
    assert!((58..=65).contains(&world.probes.len()), "{}", world.probes.len());
    world.run(Duration::from_secs(600));
    world.probes.clear();
    world.run(Duration::from_secs(500));
    assert!((18..=22).contains(&world.probes.len()), "{}", world.probes.len());
    assert!(world.client.is_empty() && world.server.is_empty(), "thin is not dead: {world:?}");
    world.monitor.handle_demand(world.now, OPEN);
    world.probes.clear();
    let start = world.now;
    world.run(ms(1_000));
    assert_eq!(world.probes[0].0, start);
    assert!(world.probes.len() >= 4);
    assert!(world.client.is_empty() && world.server.is_empty(), "{world:?}");
}

#[test]
fn a_sleeping_path_that_died_is_found_when_a_connection_opens() {
    let mut world = settled(13);
    world.monitor.handle_demand(world.now, IDLE);
    world.run(Duration::from_secs(700));
    world.kill(true);
    let asked = world.now;
    world.monitor.handle_demand(asked, OPEN);
    world.run(ms(1_000));
    assert!(world.changes()[0].0 - asked <= ms(900));
}

#[test]
fn a_path_that_stands_by_is_probed_thinly() {
    let mut world = settled(14);
    world.monitor.handle_demand(world.now, Demand { standby: true, ..OPEN });
    world.run(Duration::from_secs(100));
    assert!((18..=24).contains(&world.probes.len()), "{}", world.probes.len());
    assert!(world.client.is_empty() && world.server.is_empty(), "{world:?}");
    let died = world.now;
    world.kill(true);
    world.run(ms(8_000));
    assert!(world.changes()[0].0 - died <= ms(7_500));
}

#[test]
fn a_process_that_slept_blames_no_path() {
    for slept in [300, 700, 1_000, 1_400, 10_000, 86_400_000] {
        let mut world = settled(15);
        world.now += ms(slept);
        world.run(ms(5_000));
        assert!(world.changes().is_empty(), "{slept}: {world:?}");
        assert!(changes(&world.server).is_empty(), "{slept}: {world:?}");
    }
}

#[test]
fn a_clock_that_steps_back_stops_nothing() {
    let mut world = settled(16);
    world.monitor.handle_timeout(Instant::ZERO);
    let mut buffer = [0; 1500];
    assert!(world.monitor.poll_probe(Instant::ZERO, &mut buffer).is_some());
    assert!(world.monitor.poll_timeout() < Instant::ZERO + ms(1_000));
    assert!(world.monitor.is_up());
}

#[test]
fn what_the_hosts_own_link_refuses_is_told_at_once() {
    let mut world = settled(18);
    world.data = Some(ms(20));
    world.run(ms(3_000));
    assert_eq!(world.monitor.health(world.now).mtu, 1440);
    // Longer than what passes, and not sent: nothing changes but that it is told.
    world.monitor.handle_too_big(world.now, 1500, false);
    assert_eq!(world.monitor.poll_event(), Some(PathEvent::TooBig(1500)));
    assert_eq!((world.monitor.poll_event(), world.monitor.mtu()), (None, 1440));
    world.direction[0].mtu = 1430;
    world.monitor.handle_too_big(world.now, 1440, true);
    assert_eq!(world.monitor.poll_event(), Some(PathEvent::Mtu(1280)), "at once");
    assert_eq!(world.monitor.too_big(), 2);
    world.run(ms(10_000));
    assert!((1400..=1430).contains(&world.monitor.mtu()), "{}", world.monitor.mtu());
}

#[test]
fn an_mtu_black_hole_is_left_and_searched() {
    let mut world = settled(17);
    world.data = Some(ms(20));
    world.run(ms(3_000));
    assert_eq!(world.monitor.health(world.now).mtu, 1440);
    world.client.clear();
    let shrunk = world.now;
    world.direction[1].mtu = 1400; // the way back counts as well
    world.run(ms(30_000));
    let mtus: Vec<_> = world.client.iter().map(|(at, event)| (*at - shrunk, event)).collect();
    assert_eq!(*mtus[0].1, PathEvent::Mtu(1280), "{mtus:?}");
    assert!(mtus[0].0 <= ms(6_000), "{mtus:?}");
    assert_eq!(*mtus.last().unwrap().1, PathEvent::Mtu(1400), "{mtus:?}");
    assert!(world.changes().is_empty(), "it is no death: {mtus:?}");
    assert_eq!(world.responder.health(world.now).mtu, 1400);
    // A hint makes it faster.
    world.direction[0].mtu = 1300;
    world.client.clear();
    let shrunk = world.now;
    world.monitor.suspect_mtu(shrunk);
    world.run(ms(10_000));
    assert!(world.client[0].0 - shrunk <= ms(2_000), "{world:?}");
    assert_eq!(world.monitor.health(world.now).mtu, 1300);
}

#[test]
fn what_the_client_announces_is_known_at_once() {
    let mut world = settled(18);
    let announcement = Announcement {
        role: Role::Backup,
        using: Use::Low,
        cap_bps: Some(3_000_000),
        takes_roles: true,
    };
    let said = world.now;
    world.monitor.handle_announcement(said, announcement);
    world.run(ms(200));
    assert_eq!(world.server, [(said + ms(10), PathEvent::Announced(announcement))]);
}

/// Each request once, one for the same role too; a server that was started anew asks for nothing.
#[test]
fn what_the_server_asks_for_is_told_once() {
    let mut world = settled(18);
    let asked = |world: &World| {
        let roles =
            world.client.iter().filter(|(_, event)| matches!(event, PathEvent::AskedRole(_)));
        roles.map(|(_, event)| event.clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&world), []);
    let mut told = Vec::new();
    for role in [Role::Backup, Role::Backup, Role::Primary] {
        world.responder.ask_role(role);
        world.run(ms(30_000));
        told.push(PathEvent::AskedRole(role));
        assert_eq!(asked(&world), told);
    }
}

#[test]
fn a_far_end_with_data_waiting_says_so() {
    let mut world = settled(20);
    assert!(!world.monitor.health(world.now).far_full);
    world.responder.set_full(true);
    world.run(ms(300));
    assert!(world.monitor.health(world.now).far_full);
    world.responder.set_full(false);
    world.run(ms(300));
    assert!(!world.monitor.health(world.now).far_full);
}

#[test]
fn links_come_and_go() {
    let mut world = settled(19);
    let gone = LinkState::Absent(Absence::NoInterface("wlan0".into()));
    world.monitor.handle_link(world.now, gone);
    world.kill(true);
    world.run(ms(5_000));
    let health = world.monitor.health(world.now);
    assert_eq!(health.state, PathState::Absent);
    assert_eq!(health.reason, "interface wlan0 is not there");
    assert_eq!(world.changes().len(), 1);
    assert_eq!(world.probes.len(), 0, "there is nothing to send by");
    world.kill(false);
    world.monitor.handle_session(world.now, false);
    world.monitor.handle_link(world.now, LinkState::Ready { limit: 1420 });
    world.run(ms(4_500));
    assert_eq!(world.handshakes, 5);
    let health = world.monitor.health(world.now);
    assert_eq!(health.state, PathState::Connecting);
    assert_eq!(health.reason, "tunnel handshake not answered for 4.5 s");
    world.monitor.handle_session(world.now, true);
    world.run(ms(1_000));
    assert!(world.monitor.is_up());
    assert_eq!(world.monitor.health(world.now).mtu, 1420);
    // Keys run out only where nothing was answered for minutes.
    world.monitor.handle_session(world.now, false);
    assert!(!world.monitor.is_up());
}

/// Nothing can be sent by a tunnel without keys, whatever it answered while it had some.
#[test]
fn a_path_that_has_lost_its_keys_does_not_rise() {
    let mut world = settled(21);
    world.monitor.handle_session(world.now, false);
    world.run(ms(100));
    world.monitor.handle_session(world.now, true);
    world.run(ms(40));
    assert!(!world.monitor.is_up(), "one answer is not enough");
    world.monitor.handle_session(world.now, false);
    world.monitor.handle_demand(world.now, Demand { open: false, standby: false, alone: true });
    assert!(!world.monitor.is_up());
    world.run(ms(5_000));
    assert!(!world.monitor.is_up());
    world.monitor.handle_session(world.now, true);
    world.run(ms(1_000));
    assert!(world.monitor.is_up());
}

#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    Link(bool, u16),
    Session(bool),
    Demand(bool, bool, bool),
    Heard,
    Answer,
    Junk(Vec<u8>),
    Suspect,
    Announce(u8),
    Small,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u64..3_000).prop_map(Op::Wait),
        1 => Just(Op::Wait(100_000_000)),
        2 => (any::<bool>(), any::<u16>()).prop_map(|(ready, limit)| Op::Link(ready, limit)),
        2 => any::<bool>().prop_map(Op::Session),
        2 => any::<(bool, bool, bool)>().prop_map(|(a, b, c)| Op::Demand(a, b, c)),
        3 => Just(Op::Heard),
        6 => Just(Op::Answer),
        1 => proptest::collection::vec(any::<u8>(), 0..100).prop_map(Op::Junk),
        1 => Just(Op::Suspect),
        1 => (0u8..4).prop_map(Op::Announce),
        1 => Just(Op::Small),
    ]
}

proptest! {
    #[test]
    fn no_input_makes_it_panic_spin_or_hurry(
        ops in proptest::collection::vec(op(), 1..120)
    ) {
        let network = Network::default();
        let path = network.path(ClientNumber(1), PathIndex::new(0))[0];
        let ends = Ends { path, service: network.service()[0] };
        let mut now = Instant::ZERO;
        let interval = Duration::ZERO;
        let config = MonitorConfig { ends, path: 0, run: 1, interval, mtu: None };
        let mut monitor = Monitor::new(now, config);
        let (mut last, mut asked) = (None, Vec::new());
        for op in ops {
            let (mut space, before) = (9_000, monitor.is_up());
            match op {
                Op::Wait(span) => now += ms(span),
                Op::Link(true, limit) => monitor.handle_link(now, LinkState::Ready { limit }),
                Op::Link(false, _) => {
                    monitor.handle_link(now, LinkState::Absent(Absence::Other("gone".into())));
                }
                Op::Session(session) => monitor.handle_session(now, session),
                Op::Demand(open, standby, alone) => {
                    monitor.handle_demand(now, Demand { open, standby, alone });
                }
                Op::Heard => monitor.handle_heard(now),
                Op::Answer => {
                    let answer = tabane_net::icmp::answer(&asked, &[ends.service]);
                    if let tabane_net::icmp::Answer::Reply(reply) = answer {
                        prop_assert!(monitor.handle_packet(now, &reply));
                    }
                }
                Op::Junk(bytes) => prop_assert!(!monitor.handle_packet(now, &bytes)),
                Op::Suspect => monitor.suspect_mtu(now),
                Op::Announce(role) => monitor.handle_announcement(now, Announcement {
                    role: Role::ALL[usize::from(role)],
                    using: Use::Active,
                    cap_bps: None,
                    takes_roles: false,
                }),
                Op::Small => space = 10,
            }
            let mut buffer = [0; 9_100];
            let mut rounds = 0;
            monitor.handle_timeout(now);
            // That it works is said at once.
            let rises = monitor.is_up() && !before;
            while monitor.poll_timeout() <= now {
                rounds += 1;
                prop_assert!(rounds < 4, "it spins");
                if let Some(length) = monitor.poll_probe(now, &mut buffer[..space]) {
                    asked = buffer[..length].to_vec();
                    if let Some(last) = last {
                        prop_assert!(rises || now - last >= MIN_GAP, "too fast");
                    }
                    last = Some(now);
                }
                monitor.poll_handshake(now);
                monitor.handle_timeout(now);
            }
            for _ in 0..4 {
                monitor.poll_event();
            }
            prop_assert_eq!(monitor.poll_event(), None);
            let health = monitor.health(now);
            prop_assert!((576..=9_000).contains(&health.mtu));
            prop_assert!(!health.reason.is_empty());
        }
    }
}
