//! Links in virtual time, to the nanosecond.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A packet with a number.
#[derive(Clone, PartialEq, Debug)]
struct Numbered {
    number: u64,
    len: u32,
    ce: bool,
    damaged: bool,
}

impl Packet for Numbered {
    fn wire_len(&self) -> u32 {
        self.len
    }
    fn ect(&self) -> bool {
        true
    }
    fn mark_ce(&mut self) {
        self.ce = true;
    }
    fn corrupt(&mut self, _bits: u64) {
        self.damaged = true;
    }
    fn duplicate(&self) -> Self {
        self.clone()
    }
    /// Three flows, of the packets in turn.
    fn flow(&self) -> u64 {
        (self.number % 3) << 62
    }
}

fn packet(number: u64, len: u32) -> Numbered {
    Numbered { number, len, ce: false, damaged: false }
}

fn link(config: &LinkConfig) -> Link<Numbered> {
    Link::new(config, Seed(1), "link/test").expect("a sound configuration")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn constant(mbps: u64, delay_ms: u64, queue: &str) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(mbps * 1_000_000),
        delay: DelayConfig::Constant(ms(delay_ms)),
        queue: queue.parse().expect("a spec"),
        ..LinkConfig::default()
    }
}

/// Runs until the link is empty: arrivals as (ns, number), and how many events it took.
fn drain(link: &mut Link<Numbered>) -> (Vec<(u64, u64)>, u32) {
    let (mut arrivals, mut events) = (Vec::new(), 0);
    while let Some(at) = link.next_event() {
        events += 1;
        while let Some(packet) = link.pop(at) {
            arrivals.push((at.0, packet.number));
        }
        assert!(events < 1_000_000, "next_event does not move on");
    }
    (arrivals, events)
}

/// 20 packets of 1500 bytes at once into 15 kB at 12 Mb/s and 10 ms: one is sent, ten wait, nine
/// are dropped. Each takes 1 ms, so the last arrives at 21 ms.
#[test]
fn the_hand_computed_link() {
    for queue in ["droptail:bytes=15000", "droptail:packets=10"] {
        let mut link = link(&constant(12, 10, queue));
        (0..20).for_each(|n| link.push(Instant(0), packet(n, 1500)));
        let (arrivals, events) = drain(&mut link);
        let expected: Vec<_> = (0..11).map(|n| ((11 + n) * MS, n)).collect();
        assert_eq!(arrivals, expected);
        assert_eq!(events, 11, "one event a packet");
        let stats = link.stats(Instant(30 * MS));
        assert_eq!(stats.offered, Count { packets: 20, bytes: 30_000 });
        assert_eq!(stats.dropped, Count { packets: 9, bytes: 13_500 });
        assert_eq!(stats.delivered, Count { packets: 11, bytes: 16_500 });
        assert_eq!((stats.queue_packets_max, stats.queue_bytes_max), (10, 15_000));
        assert_eq!(stats.busy, ms(11));
    }
}

#[test]
fn one_event_a_packet_with_codel_and_red_too() {
    for queue in ["codel", "red:min=1,max=8,weight=0.1", "droptail"] {
        let mut link = link(&constant(12, 40, queue));
        let mut arrived = 0;
        let mut events = 0;
        for n in 0..2_000 {
            let now = Instant(n * MS * 9 / 10);
            while let Some(at) = link.next_event().filter(|&at| at <= now) {
                events += 1;
                while link.pop(at).is_some() {
                    arrived += 1;
                }
            }
            link.push(now, packet(n, 1500));
        }
        let (rest, more) = drain(&mut link);
        let dropped = link.stats(Instant(10_000 * MS)).dropped.packets;
        assert_eq!(arrived + rest.len() as u64 + dropped, 2_000);
        assert!(dropped > 5 || queue == "droptail", "{queue} dropped {dropped}");
        assert_eq!(u64::from(events + more), 2_000 - dropped, "{queue}");
    }
}

#[test]
fn a_lost_packet_does_not_stop_those_behind_it() {
    let drop = vec![1, 2, 5];
    let faults = Faults { drop, ..Faults::default() };
    let mut link = link(&LinkConfig { faults, ..constant(12, 0, "droptail") });
    link.report_losses(true);
    (1..=5).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    assert_eq!(drain(&mut link).0, [(3 * MS, 3), (4 * MS, 4)]);
    let mut losses = Vec::new();
    while let Some(lost) = link.poll_loss() {
        assert_eq!(lost.cause, Cause::Loss);
        losses.push((lost.at.0 / MS, lost.packet.number));
    }
    assert_eq!(losses, [(1, 1), (2, 2), (5, 5)]);
    assert_eq!(link.stats(Instant(5 * MS)).busy, ms(5), "lost packets are sent first");
}

#[test]
fn a_new_rate_holds_for_what_is_left_of_a_packet() {
    let mut link = link(&constant(12, 10, "droptail"));
    (0..3).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let rate = |mbps: u64| LinkChange {
        rate: Some(RateConfig::Constant(mbps * 1_000_000)),
        ..LinkChange::default()
    };
    // A quarter is sent at 12 Mb/s; of the rest half at 6 Mb/s (0.75 ms), half at 24 Mb/s.
    link.change(Instant(MS / 4), &rate(6)).unwrap();
    link.change(Instant(MS), &rate(24)).unwrap();
    let first = MS + 187_500;
    let expected = [(10 * MS + first, 0), (10 * MS + first + MS / 2, 1), (11 * MS + first, 2)];
    assert_eq!(drain(&mut link).0, expected);
    assert_eq!(link.stats(Instant(20 * MS)).busy, Duration(first + MS));
}

#[test]
fn a_shorter_delay_does_not_let_packets_overtake() {
    let mut link = link(&constant(12, 50, "droptail"));
    (0..4).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let delay = Some(DelayConfig::Constant(ms(5)));
    link.change(Instant(2 * MS + 1), &LinkChange { delay, ..LinkChange::default() }).unwrap();
    // 0 and 1 are on their way and arrive at 51 and 52; 2 and 3 would at 8 and 9.
    let expected = [(51 * MS, 0), (52 * MS, 1), (52 * MS, 2), (52 * MS, 3)];
    assert_eq!(drain(&mut link).0, expected);
}

#[test]
fn going_down_loses_what_is_in_the_link() {
    let mut link = link(&constant(12, 5, "droptail"));
    link.report_losses(true);
    (0..10).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let up = |up| LinkChange { up: Some(up), ..LinkChange::default() };
    assert!(link.pop(Instant(6 * MS)).is_some());
    link.change(Instant(6 * MS + MS / 2), &up(false)).unwrap();
    assert_eq!(link.next_event(), None);
    link.push(Instant(7 * MS), packet(10, 1500));
    let stats = link.stats(Instant(8 * MS));
    assert_eq!((stats.delivered.packets, stats.cut.packets), (1, 10));
    assert_eq!(stats.busy, Duration(6 * MS + MS / 2));
    let mut lost = 0;
    while link.poll_loss().is_some_and(|l| l.cause == Cause::Down) {
        lost += 1;
    }
    assert_eq!(lost, 10);
    link.change(Instant(9 * MS), &up(true)).unwrap();
    link.push(Instant(9 * MS), packet(11, 1500));
    assert_eq!(drain(&mut link).0, [(15 * MS, 11)]);
}

#[test]
fn after_a_cut_nothing_waits_for_what_it_lost() {
    let mut link = link(&constant(12, 2_000, "droptail"));
    link.push(Instant(0), packet(0, 1500));
    let up = |up| LinkChange { up: Some(up), ..LinkChange::default() };
    link.change(Instant(100 * MS), &up(false)).unwrap();
    let delay = Some(DelayConfig::Constant(ms(5)));
    link.change(Instant(200 * MS), &LinkChange { delay, ..up(true) }).unwrap();
    link.push(Instant(200 * MS), packet(1, 1500));
    assert_eq!(drain(&mut link).0, [(206 * MS, 1)], "1 ms to send it and 5 ms on the way");
}

#[test]
fn a_new_queue_takes_what_it_can_hold() {
    let mut link = link(&constant(12, 0, "droptail:packets=50"));
    (0..31).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let queue = Some("droptail:packets=10".parse().unwrap());
    link.change(Instant(MS / 2), &LinkChange { queue, ..LinkChange::default() }).unwrap();
    assert_eq!(link.backlog(Instant(MS / 2)), Count { packets: 10, bytes: 15_000 });
    let numbers: Vec<u64> = drain(&mut link).0.iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>());
    assert_eq!(link.stats(Instant(99 * MS)).dropped.packets, 20);
}

#[test]
fn changes_that_make_no_sense_change_nothing() {
    let mut link = link(&constant(12, 10, "droptail"));
    let rate = Some(RateConfig::Constant(0));
    let delay = Some(DelayConfig::Constant(ms(99)));
    let change = LinkChange { rate, delay, ..LinkChange::default() };
    assert_eq!(link.change(Instant(0), &change), Err(LinkError::NoRate));
    link.push(Instant(0), packet(0, 1500));
    assert_eq!(drain(&mut link).0, [(11 * MS, 0)]);
    for bad in ["bernoulli:p=2", "none:p=0"] {
        let config = LinkConfig { loss: bad.parse().unwrap(), ..LinkConfig::default() };
        assert!(config.check().is_err());
    }
    let faults = Faults { corrupt: -0.1, ..Faults::default() };
    assert!(LinkConfig { faults, ..LinkConfig::default() }.check().is_err());
}

#[test]
fn a_trace_sends_at_its_opportunities() {
    let trace = Trace::parse("3\n3\n10\n").expect("a trace");
    let rate = RateConfig::Trace(Arc::new(trace));
    let delay = DelayConfig::Constant(ms(1));
    let mut link = link(&LinkConfig { rate, delay, ..LinkConfig::default() });
    (0..5).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    assert_eq!(link.backlog(Instant(0)).packets, 5, "nothing is sent before 3 ms");
    let expected = [(4, 0), (4, 1), (11, 2), (14, 3), (14, 4)].map(|(at, n)| (at * MS, n));
    assert_eq!(drain(&mut link).0, expected);
}

#[test]
fn an_unlimited_rate_only_delays() {
    let delay = DelayConfig::Constant(ms(7));
    let mut link = link(&LinkConfig { delay, ..LinkConfig::default() });
    (0..1000).for_each(|n| link.push(Instant(n), packet(n, 1500)));
    let expected: Vec<_> = (0..1000).map(|n| (7 * MS + n, n)).collect();
    assert_eq!(drain(&mut link).0, expected);
    assert_eq!(link.stats(Instant(8 * MS)).queue_packets_max, 0);
}

#[test]
fn jitter_reorders_only_when_asked() {
    for reorder in [false, true] {
        let delay = DelayConfig::Normal { mean: ms(20), deviation: ms(5), reorder };
        let mut link = link(&LinkConfig { delay, ..constant(12, 0, "droptail:packets=500") });
        (0..400).for_each(|n| link.push(Instant(0), packet(n, 1500)));
        let (arrivals, _) = drain(&mut link);
        assert_eq!(arrivals.len(), 400);
        assert!(arrivals.is_sorted_by_key(|a| a.0), "arrivals come in order of time");
        assert_eq!(arrivals.is_sorted_by_key(|a| a.1), !reorder);
    }
}

#[test]
fn faults_happen_as_often_as_they_should() {
    let (duplicate, corrupt, reorder) = (0.1, 0.05, 0.02);
    let faults = Faults { duplicate, corrupt, reorder, ..Faults::default() };
    let mut link = link(&LinkConfig { faults, ..constant(12, 0, "droptail:packets=20000") });
    let n = 10_000_u64;
    (0..n).for_each(|number| link.push(Instant(0), packet(number, 1500)));
    let (arrivals, _) = drain(&mut link);
    let stats = link.stats(Instant(20_000 * MS));
    let near =
        |count: u64, p: f64| (count as f64 - n as f64 * p).abs() < 4.0 * (n as f64 * p).sqrt();
    assert!(near(stats.duplicated.packets, duplicate), "{}", stats.duplicated.packets);
    assert!(near(stats.corrupted, corrupt), "{}", stats.corrupted);
    assert_eq!(arrivals.len() as u64, n + stats.duplicated.packets);
    let late = arrivals.iter().filter(|(at, number)| *at > (number + 2) * MS).count() as u64;
    assert!(near(late, reorder * (1.0 + duplicate)), "{late}");
}

#[test]
fn marks_reach_the_other_end() {
    let mut link = link(&constant(12, 0, "red:min=1,max=50,weight=1,max_p=0.5,packets=100"));
    (0..60).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let mut marked = 0;
    while let Some(at) = link.next_event() {
        while let Some(packet) = link.pop(at) {
            marked += u64::from(packet.ce);
        }
    }
    let stats = link.stats(Instant(100 * MS));
    assert!(marked > 5 && marked == stats.marked, "{marked} {}", stats.marked);
}

#[test]
fn bytes_are_damaged_in_one_bit() {
    let mut bytes = vec![0_u8; 100];
    bytes.corrupt(799 + 800);
    assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    assert_eq!(bytes[99], 0x80);
    Vec::new().corrupt(3);
}

#[test]
fn another_link_does_not_change_what_this_one_samples() {
    let config = LinkConfig { loss: "bernoulli:p=0.3".parse().unwrap(), ..LinkConfig::default() };
    let run = |name: &str| {
        let mut link = Link::new(&config, Seed(9), name).unwrap();
        (0..100).for_each(|n| link.push(Instant(n), packet(n, 100)));
        drain(&mut link).0
    };
    assert_eq!(run("link/wifi/up"), run("link/wifi/up"));
    assert_ne!(run("link/wifi/up"), run("link/lte/up"));
}

fn any_config(reorder: bool) -> impl Strategy<Value = LinkConfig> {
    let trace = || RateConfig::Trace(Arc::new(Trace::parse("1\n1\n4\n9\n").expect("a trace")));
    let rate = prop_oneof![
        Just(RateConfig::Unlimited),
        (100_000..100_000_000_u64).prop_map(RateConfig::Constant),
        Just(trace()),
    ];
    let delay = (0..40_u64, 0..10_u64, 0..3).prop_map(move |(a, b, kind)| match kind {
        0 => DelayConfig::Constant(ms(a)),
        1 => DelayConfig::Normal { mean: ms(a), deviation: ms(b), reorder },
        _ => DelayConfig::Uniform { mean: ms(a), half: ms(b), reorder },
    });
    let mut queues = vec![
        "droptail:packets=7",
        "droptail:bytes=9000",
        "codel:interval_ms=10,target_ms=1",
        "red:min=2,max=6,weight=0.2",
        "pie:target_ms=1,burst_ms=10,packets=30",
    ];
    // Flows overtake each other there.
    if reorder {
        queues.push("fq_codel:flows=4,packets=9,interval_ms=10,target_ms=1");
    }
    let queue = proptest::sample::select(queues);
    let loss = proptest::sample::select(vec!["none", "bernoulli:p=0.2", "gilbert:p=0.1,r=0.3"]);
    let parts = (rate, delay, queue, loss, any::<bool>(), any::<bool>());
    parts.prop_map(move |(rate, delay, queue, loss, some, conditions)| {
        let (queue, loss) = (queue.parse().expect("a spec"), loss.parse().expect("a spec"));
        let share = if some { 0.2 } else { 0.0 };
        let late = if reorder { share } else { 0.0 };
        let faults = Faults { duplicate: share, reorder: late, ..Faults::default() };
        let changing = || {
            let text = "time_ms,rate_mbps,delay_ms,loss\n0,9,9,0\n3,0,1,0.5\n8,50,30,0\n11,,,\n";
            ConditionsConfig::Series(Arc::new(Series::parse(text).expect("a series")))
        };
        let conditions = conditions.then(changing);
        LinkConfig { rate, delay, queue, loss, faults, conditions, ..LinkConfig::default() }
    })
}

#[derive(Clone, Debug)]
enum Op {
    Push(u32),
    Wait(u64),
    Change(Box<LinkConfig>),
    Up(bool),
}

fn any_op(reorder: bool) -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (40..1500_u32).prop_map(Op::Push),
        6 => (0..5_000_000_u64).prop_map(Op::Wait),
        1 => any_config(reorder).prop_map(|c| Op::Change(Box::new(c))),
        1 => any::<bool>().prop_map(Op::Up),
    ]
}

fn change_to(config: LinkConfig) -> LinkChange {
    LinkChange {
        rate: Some(config.rate),
        delay: Some(config.delay),
        queue: Some(config.queue),
        loss: Some(config.loss),
        faults: Some(config.faults),
        up: None,
    }
}

fn in_link(link: &Link<Numbered>) -> u64 {
    link.waiting.len() as u64 + u64::from(link.service.is_some()) + link.flight.len() as u64
}

/// Whatever is changed meanwhile: packets stay in order (if `ordered`), none is made or
/// forgotten, and the events announced are enough to get every packet out on time.
fn check(config: &LinkConfig, ops: Vec<Op>, ordered: bool) -> Result<(), TestCaseError> {
    let mut link = link(config);
    let (mut now, mut number, mut last) = (0_u64, 0, 0);
    let mut take = |link: &mut Link<Numbered>, at: Instant| {
        while let Some(packet) = link.pop(at) {
            prop_assert!(!ordered || packet.number >= last, "{} after {last}", packet.number);
            last = packet.number;
        }
        Ok(())
    };
    for op in ops {
        match op {
            Op::Push(len) => {
                link.push(Instant(now), packet(number, len));
                number += 1;
            }
            Op::Wait(ns) => {
                now += ns;
                while let Some(at) = link.next_event().filter(|at| at.0 <= now) {
                    take(&mut link, at)?;
                    prop_assert!(link.next_event().is_none_or(|next| next > at));
                }
                prop_assert!(link.pop(Instant(now)).is_none(), "came without an event");
            }
            Op::Change(config) => {
                prop_assert!(link.change(Instant(now), &change_to(*config)).is_ok());
            }
            Op::Up(up) => {
                let change = LinkChange { up: Some(up), ..LinkChange::default() };
                prop_assert!(link.change(Instant(now), &change).is_ok());
            }
        }
        let s = link.stats(Instant(now));
        let gone = s.dropped.packets + s.lost.packets + s.cut.packets + s.delivered.packets;
        prop_assert_eq!(s.offered.packets + s.duplicated.packets, gone + in_link(&link));
        prop_assert!(s.busy.0 <= now);
    }
    while let Some(at) = link.next_event() {
        take(&mut link, at)?;
    }
    // A last packet that will be lost needs no event.
    let sure = link.service.as_ref().map_or(0, |s| u64::from(s.fate.lost));
    prop_assert_eq!(in_link(&link), sure);
    Ok(())
}

proptest! {
    #[test]
    fn packets_stay_in_order_and_none_is_forgotten(
        config in any_config(false),
        ops in proptest::collection::vec(any_op(false), 1..120),
    ) {
        check(&config, ops, true)?;
    }

    #[test]
    fn none_is_forgotten_or_late_where_packets_overtake(
        config in any_config(true),
        ops in proptest::collection::vec(any_op(true), 1..120),
    ) {
        check(&config, ops, false)?;
    }
}

/// The average of RED decays while nothing is sent: the link tells the queue.
#[test]
fn the_queue_hears_that_it_is_idle() {
    let mut link = link(&constant(12, 0, "red:min=1,max=2,weight=0.5,gentle=0,packets=50"));
    (0..10).for_each(|n| link.push(Instant(0), packet(n, 1500)));
    let dropped = link.stats(Instant(0)).dropped.packets;
    assert!((1..9).contains(&dropped), "{dropped}");
    drain(&mut link);
    link.push(Instant(1000 * MS), packet(10, 1500));
    assert_eq!(link.stats(Instant(1000 * MS)).dropped.packets, dropped);
    assert_eq!(drain(&mut link).0, [(1001 * MS, 10)]);
}
