//! Copies and order in virtual time.

use super::*;
use crate::udp::Tagger;
use crate::udp::packet::{HEADROOM, Inside, parse, put_udp};
use crate::udp::tag::Kind;
use proptest::prelude::*;

struct World {
    tagger: Tagger,
    filter: Filter,
    now: Instant,
    sent: u32,
    got: Vec<u32>,
}

impl World {
    fn new(seed: u8) -> Self {
        let (tagger, filter) = (Tagger::new([seed; 32]), Filter::default());
        Self { tagger, filter, now: Instant::ZERO, sent: 0, got: Vec::new() }
    }

    /// The next packet of a flow, without a number; its payload counts all packets.
    fn plain(&mut self, flow: u16) -> Vec<u8> {
        let mut buffer = [&[0; HEADROOM][..], &self.sent.to_be_bytes()].concat();
        self.sent += 1;
        let from = (std::net::Ipv4Addr::new(10, 0, 0, 1), flow);
        let start = put_udp(&mut buffer, from.into(), ([10, 0, 0, 2], 9).into()).unwrap();
        buffer.split_off(start)
    }

    /// The same with one.
    fn packet(&mut self, flow: u16, ordered: bool) -> Vec<u8> {
        let mut packet = self.plain(flow);
        let kind = if ordered { Kind::Ordered } else { Kind::Copies };
        assert!(self.tagger.tag(self.now, &mut packet, kind));
        packet
    }

    fn packets(&mut self, count: usize, ordered: bool) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.packet(1, ordered)).collect()
    }

    fn receive(&mut self, path: u8, packet: &[u8]) -> Verdict {
        let verdict = self.filter.handle_packet(self.now, PathId(path), packet);
        if verdict == Verdict::Deliver {
            self.got.push(number(packet));
        }
        self.drain();
        verdict
    }

    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.filter.handle_timeout(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(packet) = self.filter.poll_packet() {
            self.got.push(number(&packet));
        }
    }
}

fn number(packet: &[u8]) -> u32 {
    let Some(Inside::Datagram { payload, .. }) = parse(packet) else { panic!("damaged") };
    u32::from_be_bytes(payload.try_into().unwrap())
}

#[test]
fn of_copies_the_first_gets_through() {
    let mut world = World::new(1);
    let packets = world.packets(5000, false);
    // The second path is 1000 packets behind, and nothing waits.
    for i in 0..6000 {
        if let Some(packet) = packets.get(i) {
            assert_eq!(world.receive(0, packet), Verdict::Deliver, "{i}");
        }
        if i >= 1000 {
            assert_eq!(world.receive(1, &packets[i - 1000]), Verdict::Copy, "{i}");
        }
    }
    assert_eq!(world.got, (0..5000).collect::<Vec<_>>());
    assert_eq!(world.filter.poll_timeout(), None);
    assert_eq!(world.filter.counters().copies, 5000);
    // A copy that is later than the window is no news either.
    assert_eq!(world.receive(1, &packets[10]), Verdict::Copy);
}

#[test]
fn packets_without_number_and_other_flows_pass() {
    let mut world = World::new(2);
    let mut plain = world.packet(1, false);
    Tagger::clear(&mut plain);
    for _ in 0..3 {
        assert_eq!(world.receive(0, &plain), Verdict::Deliver);
    }
    let (a, b) = (world.packet(1, false), world.packet(2, false));
    for packet in [&a, &b] {
        assert_eq!(world.receive(0, packet), Verdict::Deliver);
        assert_eq!(world.receive(1, packet), Verdict::Copy);
    }
    assert_eq!(world.filter.handle_packet(world.now, PathId(9), b"junk"), Verdict::Deliver);
}

#[test]
fn order_is_restored() {
    let mut world = World::new(3);
    let packets = world.packets(6, true);
    for (path, i) in [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (1, 5)] {
        world.receive(path, &packets[i]);
    }
    assert_eq!(world.got, [0, 1, 2, 3, 4, 5]);
    assert_eq!((world.filter.poll_timeout(), world.filter.held), (None, 0));
}

#[test]
fn what_is_missing_is_waited_for_not_long() {
    let mut world = World::new(4);
    let packets = world.packets(5, true);
    world.receive(0, &packets[0]);
    world.receive(0, &packets[2]);
    world.wait(10);
    world.receive(0, &packets[4]);
    world.wait(19);
    assert_eq!(world.got, [0]);
    world.wait(1);
    assert_eq!(world.got, [0, 2], "30 ms after it came; the last has waited 20 only");
    world.wait(10);
    assert_eq!(world.got, [0, 2, 4]);
    // Late is never.
    assert_eq!(world.receive(0, &packets[3]), Verdict::Late);
    assert_eq!(world.got, [0, 2, 4]);
    let counters = world.filter.counters();
    assert_eq!((counters.held, counters.missed, counters.late), (2, 2, 1));
}

#[test]
fn what_every_path_has_passed_is_lost_at_once() {
    let mut world = World::new(5);
    let packets = world.packets(8, true);
    world.receive(0, &packets[0]);
    world.receive(1, &packets[1]);
    // 2 was lost on path 0: nothing is known before path 1 has brought something newer, too.
    world.receive(0, &packets[4]);
    assert_eq!(world.got, [0, 1]);
    world.receive(1, &packets[3]);
    assert_eq!(world.got, [0, 1, 3, 4]);
    // A path that is silent is not waited for longer than that.
    world.wait(101);
    world.receive(0, &packets[6]);
    assert_eq!(world.got.last(), Some(&4), "one path alone says nothing");
    world.wait(30);
    assert_eq!(world.got.last(), Some(&6));
}

#[test]
fn what_went_by_the_same_path_is_lost_at_once() {
    let mut world = World::new(9);
    let sent: Vec<_> = [0, 0, 0, 1, 0, 0]
        .map(|path| {
            let mut packet = world.plain(1);
            let flow = world.tagger.flow(world.now, &packet).unwrap();
            flow.number(&mut packet, Kind::Ordered, Some(PathId(path)));
            (path, packet)
        })
        .into();
    // Path 0 loses its second packet; what path 1 carries may still come.
    world.receive(0, &sent[0].1);
    world.receive(0, &sent[2].1);
    let counters = world.filter.counters();
    assert_eq!(world.got.len(), 2, "{counters:?}");
    world.receive(0, &sent[4].1);
    world.receive(0, &sent[5].1);
    assert_eq!(world.got.len(), 2, "3 went by another path");
    world.receive(1, &sent[3].1);
    assert_eq!(world.got, [0, 2, 3, 4, 5]);
}

#[test]
fn what_is_protected_is_asked_for_and_does_not_wait() {
    let mut world = World::new(10);
    let mut packets: Vec<_> = (0..40).map(|_| world.plain(1)).collect();
    for packet in &mut packets {
        let flow = world.tagger.flow(world.now, packet).unwrap();
        flow.number(packet, Kind::Protected, Some(PathId(0)));
    }
    for (i, packet) in packets.iter().enumerate().take(30) {
        if i != 20 {
            assert_eq!(world.receive(0, packet), Verdict::Deliver);
        }
        let request = world.filter.poll_request(world.now);
        assert_eq!(
            request.map_or(0, |request| request.wanted.len()),
            usize::from([21, 24, 27].contains(&i))
        );
        world.wait(20);
    }
    world.wait(20);
    let silence = world.filter.poll_request(world.now).unwrap();
    assert!(silence.silent);
    assert_eq!(world.receive(1, &packets[20]), Verdict::Deliver, "late is not too late");
}

#[test]
fn a_sender_that_starts_again_is_heard() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        for packet in world.packets(3000, false) {
            world.receive(0, &packet);
        }
        world.tagger = Tagger::new([seed ^ 0x55; 32]);
        world.wait(2001);
        world.got.clear();
        let again = world.packets(100, seed % 2 == 0);
        for packet in &again {
            assert_eq!(world.receive(0, packet), Verdict::Deliver);
            assert_eq!(world.receive(1, packet), Verdict::Copy);
        }
    }
    // At once it is heard after one packet, unless the numbers happen to be near the old ones.
    let mut heard = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        for packet in world.packets(3000, false) {
            world.receive(0, &packet);
        }
        world.tagger = Tagger::new([seed ^ 0x55; 32]);
        world.got.clear();
        for packet in &world.packets(100, false) {
            world.receive(0, packet);
        }
        heard += usize::from(world.got.len() >= 99);
    }
    assert!(heard >= 50, "{heard} of 60");
}

#[test]
fn what_waits_is_bounded() {
    let mut world = World::new(6);
    let packets = world.packets(20_000, true);
    world.receive(0, &packets[0]);
    for packet in packets.iter().skip(1).step_by(2).skip(1) {
        world.receive(0, packet);
        let flow = key(packet).and_then(|key| world.filter.flows.get_mut(&key)).unwrap();
        assert!(flow.order.as_ref().unwrap().len() <= HELD_MAX);
    }
    // Many flows together.
    let mut world = World::new(7);
    for flow in 0..3000 {
        for i in 0..30 {
            let packet = world.packet(flow, true);
            if i != 1 {
                world.receive(0, &packet);
            }
        }
        assert!(world.filter.held <= HELD_BYTES_MAX);
    }
    world.wait(30);
    assert_eq!((world.filter.held, world.filter.poll_timeout()), (0, None));
    assert_eq!(world.got.len(), 3000 * 29);
}

proptest! {
    /// Whatever two paths do with packets: none comes twice, all that arrived come, none waits
    /// longer than it may, and without loss and within the hold they come in order.
    #[test]
    fn nothing_twice_nothing_kept(
        seed: u8, ordered: bool,
        fates in prop::collection::vec((0..3u8, 0..40u64, 0..10u8), 1..200),
    ) {
        let mut world = World::new(seed);
        let mut arrivals = Vec::new();
        let mut clear = [0; 2];
        for (i, (datagram_path, delay, fate)) in fates.iter().enumerate() {
            let packet = world.packet(1, ordered);
            // Each path keeps its order; way 2 is both, and some are lost.
            for path in 0..2u8 {
                if [path, 2].contains(datagram_path) && *fate > 1 {
                    let at = (i as u64 * 2 + delay).max(clear[usize::from(path)]);
                    clear[usize::from(path)] = at;
                    arrivals.push((at, path, packet.clone()));
                }
            }
        }
        arrivals.sort_by_key(|(at, _, _)| *at);
        let numbers = arrivals.iter().map(|(_, _, packet)| number(packet));
        let distinct: BTreeSet<u32> = numbers.collect();
        for (at, path, packet) in &arrivals {
            while let Some(due) = world.filter.poll_timeout()
                && due.as_millis() <= *at
            {
                world.now = due;
                world.wait(0);
            }
            world.now = Instant::ZERO + Duration::from_millis(*at);
            world.receive(*path, packet);
        }
        world.wait(30);
        let got: BTreeSet<u32> = world.got.iter().copied().collect();
        prop_assert_eq!(got.len(), world.got.len(), "none twice");
        if ordered {
            prop_assert!(world.got.is_sorted(), "none out of order");
            let late = world.filter.counters().late as usize;
            prop_assert_eq!(got.len() + late, distinct.len());
        } else {
            prop_assert_eq!(got, distinct);
        }
        prop_assert_eq!((world.filter.held, world.filter.poll_timeout()), (0, None));
    }

    #[test]
    fn any_bytes_are_taken(
        packets in prop::collection::vec(any::<Vec<u8>>(), 0..9), cut in 0..40usize,
    ) {
        let mut world = World::new(1);
        let whole = world.packet(1, true);
        for packet in packets.iter().map(Vec::as_slice).chain([&whole[..cut.min(whole.len())]]) {
            world.filter.handle_packet(world.now, PathId(0), packet);
        }
    }
}
