//! FQ-CoDel against its specification, on a link of 12 Mb/s: 1500 bytes take 1 ms.

use crate::link::{Link, LinkConfig, Packet, RateConfig};
use crate::seed::Seed;
use tabane_engine::{Duration, Instant};

const MS: u64 = 1_000_000;

#[derive(Clone, PartialEq, Debug)]
struct Sent {
    flow: u64,
    number: u64,
    len: u32,
    at: u64,
    marked: bool,
}

impl Packet for Sent {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn ect(&self) -> bool {
        self.flow == 7
    }
    fn mark_ce(&mut self) {
        self.marked = true;
    }
    fn corrupt(&mut self, _bits: u64) {}
    fn duplicate(&self) -> Self {
        self.clone()
    }
    /// Eight subqueues: the upper three bits.
    fn flow(&self) -> u64 {
        self.flow << 61
    }
}

struct Bench {
    link: Link<Sent>,
    arrived: Vec<(u64, Sent)>,
    next: [u64; 8],
}

impl Bench {
    fn new(queue: &str) -> Self {
        let rate = RateConfig::Constant(12_000_000);
        let queue = queue.parse().expect("a spec");
        let config = LinkConfig { rate, queue, ..LinkConfig::default() };
        let link = Link::new(&config, Seed(1), "link/fq").expect("a link");
        Self { link, arrived: Vec::new(), next: [0; 8] }
    }

    fn push(&mut self, at: u64, flow: u64, len: u32) {
        self.run(at);
        let number = self.next[flow as usize];
        self.next[flow as usize] += 1;
        self.link.push(Instant(at), Sent { flow, number, len, at, marked: false });
    }

    fn run(&mut self, until: u64) {
        while let Some(at) = self.link.next_event().filter(|at| at.0 <= until) {
            while let Some(packet) = self.link.pop(at) {
                self.arrived.push((at.0, packet));
            }
        }
    }

    fn flow(&self, flow: u64) -> impl Iterator<Item = &(u64, Sent)> {
        self.arrived.iter().filter(move |(_, packet)| packet.flow == flow)
    }

    fn bytes(&self, flow: u64) -> u64 {
        self.flow(flow).map(|(_, packet)| u64::from(packet.len)).sum()
    }
}

/// Deficit round robin shares bytes, not packets.
#[test]
fn flows_get_the_same_bytes_whatever_their_packets() {
    let mut bench = Bench::new("fq_codel:flows=8,target_ms=1000000");
    for ms in 0..2_000 {
        bench.push(ms * MS, 1, 1500);
        (0..5).for_each(|_| bench.push(ms * MS, 2, 300));
        bench.push(ms * MS, 3, 1000);
    }
    bench.run(2_000 * MS);
    let shares = [1, 2, 3].map(|flow| bench.bytes(flow) as f64 / 1e6);
    assert!(shares.iter().all(|share| (0.985..1.015).contains(share)), "{shares:?} MB of 3");
}

/// Section 5.1: a flow that builds no queue waits for what is being sent and for those as new as
/// it, not for those that are busy.
#[test]
fn sparse_flows_go_first() {
    let mut bench = Bench::new("fq_codel:flows=8");
    for ms in 0..1_000 {
        (0..3).for_each(|_| bench.push(ms * MS, 1, 1500));
        if ms % 20 == 10 {
            bench.push(ms * MS + 1, 2, 200);
        }
    }
    bench.run(1_000 * MS);
    let longest = bench.flow(2).map(|(at, packet)| at - packet.at).max().unwrap();
    assert_eq!(bench.flow(2).count(), 50);
    assert!(longest <= MS + MS / 5, "{longest} ns: the packet being sent, and itself");
}

#[test]
fn packets_of_a_flow_stay_in_order() {
    let mut bench = Bench::new("fq_codel:flows=8,packets=50,target_ms=1,interval_ms=10");
    for n in 0..3_000_u64 {
        bench.push(n * MS / 3, n * n % 7, 300 + (n * 377 % 1200) as u32);
    }
    bench.run(9_000 * MS);
    for flow in 0..7 {
        assert!(bench.flow(flow).map(|(_, packet)| packet.number).is_sorted(), "flow {flow}");
    }
    let stats = bench.link.stats(Instant(9_000 * MS));
    assert_eq!(stats.delivered.packets + stats.dropped.packets, 3_000);
}

/// Section 4.1: beyond the limit the fattest subqueue loses half of its packets, 64 at most, from
/// its head; the others lose none.
#[test]
fn the_fattest_flow_pays_for_too_many_packets() {
    let mut bench = Bench::new("fq_codel:flows=8,packets=100");
    bench.push(0, 3, 1500);
    (0..40).for_each(|_| bench.push(0, 1, 1500));
    (0..61).for_each(|_| bench.push(0, 2, 1000));
    // The fattest subqueue is the first: 60 kB against 61 kB of the second, which has just grown.
    assert_eq!(bench.link.stats(Instant(0)).dropped.packets, 30);
    bench.run(200 * MS);
    assert_eq!((bench.flow(1).count(), bench.flow(2).count()), (40, 31));
    assert_eq!(bench.flow(2).next().map(|(_, packet)| packet.number), Some(30));
    // With 300 in one subqueue 64 go at once.
    let mut bench = Bench::new("fq_codel:flows=8,packets=300");
    (0..302).for_each(|_| bench.push(0, 1, 1500));
    assert_eq!(bench.link.stats(Instant(0)).dropped.packets, 64);
}

/// Each subqueue has a CoDel of its own: who fills one is held at its target, who does not loses
/// nothing.
#[test]
fn every_subqueue_is_under_codel() {
    let mut bench = Bench::new("fq_codel:flows=8");
    for ms in 0..20_000 {
        // 100.5 % of the link.
        bench.push(ms * MS, 1, if ms % 4 == 0 { 1500 } else { 1430 });
        if ms % 20 == 0 {
            bench.push(ms * MS, 2, 1500);
        }
    }
    bench.run(20_000 * MS);
    assert_eq!(bench.flow(2).count(), 1000, "none is dropped");
    let late = bench.flow(1).filter(|(at, _)| *at > 15_000 * MS);
    let waited: Vec<u64> = late.map(|(at, packet)| at - packet.at).collect();
    let mean = Duration(waited.iter().sum::<u64>() / waited.len() as u64);
    assert!(mean < Duration::from_millis(40), "{mean:?}");
    assert!(bench.link.stats(Instant(20_000 * MS)).dropped.packets > 100);
}

#[test]
fn packets_that_allow_it_are_marked() {
    for (queue, marks) in [("fq_codel:flows=8", true), ("fq_codel:flows=8,ecn=0", false)] {
        let mut bench = Bench::new(queue);
        (0..2_000).for_each(|ms| bench.push(ms * MS, 7, 1600));
        bench.run(9_000 * MS);
        let marked = bench.flow(7).filter(|(_, packet)| packet.marked).count();
        let dropped = bench.link.stats(Instant(9_000 * MS)).dropped.packets;
        assert_eq!((marked > 5, dropped > 5), (marks, !marks), "{marked} {dropped}");
    }
}
