//! The switch on packets made by hand: which paths what a host sends takes.

use super::*;
use std::sync::Arc;
use tabane_wire::{MptcpOption, SackBlocks, Segment, SeqNum, TcpOptions, Timestamps};

/// The server is reached by both paths; Wi-Fi takes 50 ms each way and LTE 5.
fn world(egress: &str) -> (Topology, Switch) {
    let text = format!(
        "duration = \"1s\"\n[link.wifi]\nrate = \"10Mbps\"\n[link.lte]\nrate = \"10Mbps\"\n\
         [host.client]\negress = \"{egress}\"\n[[flow]]\nbulk = \"1MB\"\n"
    );
    let scenario = Scenario::parse("test", &text).unwrap_or_else(|e| panic!("{e}"));
    let topology = Arc::unwrap_or_clone(scenario.compile().unwrap().topology);
    assert!(Switch::of(&scenario, &topology, 1).unwrap().is_none(), "the server's is `own`");
    let switch = Switch::of(&scenario, &topology, 0).unwrap().unwrap();
    (topology, switch)
}

const RTTS: [u64; 2] = [100, 10];

struct Bed {
    topology: Topology,
    switch: Switch,
    /// Of the next segments.
    acked: u32,
}

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn ids(set: PathSet) -> Vec<u8> {
    set.iter().map(|p| p.0).collect()
}

impl Bed {
    fn new(egress: &str) -> Self {
        let (topology, switch) = world(egress);
        Self { topology, switch, acked: 1 }
    }

    fn segment(&self, path: usize, stamp: u32) -> Segment {
        let port = 40_000 + path as u16;
        let timestamps = Some(Timestamps { value: stamp, echo: 0 });
        Segment {
            src: (self.topology.address(0, path), port).into(),
            dst: (self.topology.shared_address(1), 5001).into(),
            seq: SeqNum(1),
            ack: SeqNum(self.acked),
            flags: Flags::ACK,
            window: 1000,
            ecn: Default::default(),
            options: TcpOptions { timestamps, ..TcpOptions::default() },
            payload: Default::default(),
        }
    }

    /// The client sends it by `path`; where it goes.
    fn send(&mut self, ms: u64, path: usize, segment: &Segment) -> Vec<u8> {
        let mut bytes = vec![0; segment.wire_len()];
        segment.emit(&mut bytes).unwrap();
        let (packet, to) = (Packet::new(bytes), segment.dst.ip());
        ids(self.switch.route(at(ms), &self.topology, path, (&packet, to)))
    }

    /// An ACK of something new.
    fn ack(&mut self, ms: u64, path: usize) -> Vec<u8> {
        self.acked += 1000;
        self.send(ms, path, &self.segment(path, ms as u32))
    }

    /// The server's segment comes by `path`, with data if `len` is not zero.
    fn come(&mut self, ms: u64, path: usize, echo: u32, len: usize) {
        let mut segment = self.segment(path, 1);
        std::mem::swap(&mut segment.src, &mut segment.dst);
        segment.options.timestamps = Some(Timestamps { value: 1, echo });
        segment.payload = vec![7; len].into();
        let mut bytes = vec![0; segment.wire_len()];
        segment.emit(&mut bytes).unwrap();
        self.switch.arrives(at(ms), path, &bytes);
    }

    /// Handshakes on both paths, with their round trips, and the first data.
    fn established(mut self) -> Self {
        for (path, rtt) in RTTS.into_iter().enumerate() {
            let syn = Segment { flags: Flags::SYN, ..self.segment(path, 0) };
            assert_eq!(self.send(0, path, &syn), [path as u8], "SYNs leave by one path");
            self.come(rtt, path, 0, 0);
            self.come(rtt, path, 0, 1000);
            assert!(
                self.ack(rtt, path).contains(&(path as u8)),
                "the first leaves by its own path"
            );
        }
        self
    }

    fn rtts(&mut self) -> Vec<u64> {
        let to = self.topology.shared_address(1);
        self.switch.look(&self.topology, to, Some(1));
        self.switch.views.iter().map(|view| view.rtt.as_micros() / 1000).collect()
    }
}

#[test]
fn bicast_copies_whatever_is_no_handshake() {
    let mut bed = Bed::new("bicast").established();
    assert_eq!(bed.ack(200, 1), [0, 1]);
    let data = Segment { payload: vec![1; 500].into(), ..bed.segment(0, 1) };
    assert_eq!(bed.send(200, 0, &data), [0, 1]);
    // A ping is a packet, too.
    let mut ping = vec![0; 28];
    ping[0] = 0x45;
    let to = bed.topology.shared_address(1);
    let paths = bed.switch.route(at(200), &bed.topology, 0, (&Packet::new(ping), to));
    assert_eq!(ids(paths), [0, 1]);
    // By what has a carrier.
    bed.switch.set_up(1, false);
    assert_eq!(bed.send(200, 0, &data), [0]);
    bed.switch.set_up(1, true);
    let mut acks = Bed::new("bicast-ack").established();
    let data = Segment { payload: vec![1; 500].into(), ..acks.segment(1, 1) };
    assert_eq!(acks.send(200, 1, &data), [1]);
    assert_eq!(acks.ack(200, 1), [0, 1]);
}

#[test]
fn hayack_learns_round_trips_and_takes_the_faster_way_back() {
    let mut bed = Bed::new("hayack").established();
    assert_eq!(bed.rtts(), [100, 10]);
    let paths: Vec<Vec<u8>> = (200..220).map(|ms| bed.ack(ms, 0)).collect();
    assert!(paths[3..].iter().all(|paths| paths.contains(&1)), "{paths:?}");
    let own = paths[3..].iter().filter(|paths| paths.contains(&0)).count();
    assert!((1..=3).contains(&own), "one of eight leaves by its own path as well: {paths:?}");
    // Those of the faster path stay there.
    assert_eq!(bed.ack(220, 1), [1]);
    let data = Segment { payload: vec![1; 500].into(), ..bed.segment(0, 1) };
    assert_eq!(bed.send(221, 0, &data), [0]);
}

#[test]
fn what_tells_of_gaps_windows_and_signals_has_its_own_way_too() {
    let mut bed = Bed::new("hayack:path=1").established();
    bed.ack(200, 0);
    assert_eq!(bed.ack(201, 0), [1]);
    let again = bed.segment(0, 202);
    assert_eq!(bed.send(202, 0, &again), [0, 1], "acknowledges nothing new");
    let mut sack = bed.segment(0, 203);
    sack.ack = SeqNum(900_000);
    let mut gap = sack.clone();
    gap.options.sack = SackBlocks::default();
    gap.options.sack.push(SeqNum(910_000), SeqNum(911_000));
    assert_eq!(bed.send(203, 0, &gap), [0, 1]);
    let mut signal = sack.clone();
    signal.ack = SeqNum(920_000);
    signal.options.push_mptcp(MptcpOption::Prio { backup: true });
    assert_eq!(bed.send(204, 0, &signal), [0, 1]);
    let fin = Segment { flags: Flags::ACK | Flags::FIN, ..sack };
    assert_eq!(bed.send(205, 0, &fin), [0]);
}

#[test]
fn round_trips_are_those_of_acks_that_had_their_own_way_alone() {
    let mut bed = Bed::new("hayack:path=0").established();
    // The first ACK left at 100, by its own path alone, and is echoed 40 ms later.
    bed.come(140, 0, 100, 1000);
    assert_eq!(bed.rtts()[0], 40);
    // Of path 1: left by path 0 as well, so what is echoed says nothing.
    assert_eq!(bed.ack(400, 1), [0, 1]);
    bed.come(402, 1, 400, 1000);
    assert_eq!(bed.rtts()[1], 10);
    // A SYN that was sent twice has no round trip.
    let mut twice = Bed::new("hayack");
    let syn = Segment { flags: Flags::SYN, ..twice.segment(0, 0) };
    twice.send(0, 0, &syn);
    twice.send(1000, 0, &syn);
    twice.come(1010, 0, 0, 0);
    assert_eq!(twice.rtts()[0], 0);
}

#[test]
fn no_more_subflows_are_watched_than_there_is_room_for() {
    let mut bed = Bed::new("bicast");
    for n in 0..200 {
        let mut segment = bed.segment(0, n);
        segment.src.set_port(1000 + n as u16);
        bed.send(u64::from(n), 0, &segment);
    }
    assert_eq!(bed.switch.subflows.len(), WATCHED);
    let ports = bed.switch.subflows.iter().map(|s| s.local.port());
    assert!(ports.clone().all(|port| port >= 1200 - WATCHED as u16), "{:?}", ports.min());
}
