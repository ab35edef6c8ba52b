//! PIE against its specification.

use super::super::build;
use super::*;
use crate::link::{Count, Link, LinkConfig, Packet, RateConfig};
use crate::seed::Seed;

const MS: u64 = 1_000_000;

fn arrival(now_ms: u64, ect: bool) -> Arrival {
    let (now, service) = (Instant(now_ms * MS), Duration::from_millis(1));
    let at_once = false;
    Arrival { now, len: 1500, ect, packets: 20, bytes: 30_000, at_once, service, subqueue: 0 }
}

fn head(now_ms: u64, waited_ms: u64) -> Head {
    let (now, waited) = (Instant(now_ms * MS), Duration::from_millis(waited_ms));
    Head { now, waited, ect: false, len: 1500, behind: 30_000, subqueue: 0 }
}

/// What comes and goes each millisecond while the delay stays at `delay_ms`: times of drops and
/// of marks.
fn feed(spec: &str, delay_ms: u64, until_ms: u64, ect: bool) -> (Vec<u64>, Vec<u64>) {
    let mut pie = build(&spec.parse().unwrap()).unwrap();
    let mut rng = Seed(1).stream("pie");
    let (mut drops, mut marks) = (Vec::new(), Vec::new());
    for now in 0..until_ms {
        match pie.admit(&arrival(now, ect), &mut rng) {
            Verdict::Drop => drops.push(now),
            Verdict::Mark => marks.push(now),
            Verdict::Pass => {}
        }
        assert_eq!(pie.leave(&head(now, delay_ms)), Verdict::Pass);
    }
    (drops, marks)
}

/// Section 4.4: 150 ms pass whatever the delay. Section 5.4: a drop comes at the soonest when the
/// probabilities add up to 0.85.
#[test]
fn a_burst_passes_and_drops_are_spaced_out() {
    let (drops, _) = feed("pie", 200, 3_000, false);
    assert!(drops[0] > 150, "{drops:?}");
    assert!(drops.windows(2).all(|two| two[1] > two[0]));
    let (sooner, _) = feed("pie:burst_ms=0", 200, 3_000, false);
    assert!(sooner[0] < drops[0]);
}

/// Section 4.2 by hand, at a delay of 45 ms: the first update, at 15 ms, adds
/// (0.125 x 30 ms + 1.25 x 45 ms) / 2048 = 2.93e-5, each after it 0.125 x 30 ms = 3.75e-3 over
/// 128 below 1e-4, over 32 below 1e-3, over 8 below 1e-2, over 2 below 0.1, then all of it.
#[test]
fn the_probability_follows_the_formula() {
    let spec = "pie".parse().unwrap();
    let (_, values) = super::super::REGISTRY.find(&spec).unwrap();
    let mut pie = Pie::new(&values);
    pie.delay = 0.045;
    let near = |pie: &Pie, p: f64| {
        assert!((pie.probability / p - 1.0).abs() < 1e-9, "{} {p}", pie.probability);
    };
    pie.calculate();
    near(&pie, (0.00375 + 0.05625) / 2048.0);
    pie.calculate();
    near(&pie, 0.06 / 2048.0 + 0.00375 / 128.0);
    let mut expected: f64 = 0.06 / 2048.0 + 0.00375 / 128.0;
    for _ in 0..200 {
        let scale = if expected < 1e-4 {
            128.0
        } else if expected < 1e-3 {
            32.0
        } else if expected < 1e-2 {
            8.0
        } else if expected < 0.1 {
            2.0
        } else {
            1.0
        };
        expected += 0.00375 / scale;
        pie.calculate();
        near(&pie, expected);
    }
    assert!(expected > 0.2);
    // Steps of more than 2 % are cut; above 250 ms 2 % come on top.
    pie.delay = 0.2;
    pie.calculate();
    near(&pie, expected + 0.02);
    pie.delay = 0.3;
    pie.calculate();
    near(&pie, expected + 0.06);
    // Empty twice: it decays, after what the formula takes away.
    (pie.delay, pie.delay_before, pie.probability) = (0.0, 0.0, 0.5);
    pie.calculate();
    near(&pie, (0.5 - 0.125 * 0.015) * 0.98);
}

/// Section 5.1: marks below 10 %, drops above.
#[test]
fn it_marks_up_to_a_tenth() {
    let (drops, marks) = feed("pie:ecn=1", 60, 30_000, true);
    assert!(marks.len() > 5 && !drops.is_empty());
    assert!(marks.last() < drops.first(), "{marks:?} {drops:?}");
    assert!(feed("pie", 60, 30_000, true).1.is_empty(), "off unless asked for");
}

#[derive(Clone)]
struct Plain;

impl Packet for Plain {
    fn wire_len(&self) -> u32 {
        1500
    }
    fn corrupt(&mut self, _bits: u64) {}
    fn duplicate(&self) -> Self {
        self.clone()
    }
}

/// 25 % too much for a minute: a fifth is dropped, and what gets through waits for the target of
/// 15 ms.
#[test]
fn the_delay_of_an_overloaded_link_is_held_at_the_target() {
    let rate = RateConfig::Constant(12_000_000);
    let queue = "pie".parse().expect("a spec");
    let config = LinkConfig { rate, queue, ..LinkConfig::default() };
    let mut link = Link::new(&config, Seed(1), "link/pie").expect("a link");
    let (mut before, mut backlog, mut samples) = (Count::default(), 0, 0);
    for n in 0..75_000_u64 {
        let now = Instant(n * MS * 4 / 5);
        while link.pop(now).is_some() {}
        link.push(now, Plain);
        if n == 25_000 {
            before = link.stats(now).dropped;
        }
        if n >= 25_000 {
            backlog += link.backlog(now).packets;
            samples += 1;
        }
    }
    let dropped = link.stats(Instant(60_000 * MS)).dropped.packets - before.packets;
    let share = dropped as f64 / 50_000.0;
    assert!((0.19..0.21).contains(&share), "{share}");
    let mean = backlog as f64 / f64::from(samples);
    assert!((10.0..20.0).contains(&mean), "{mean} ms");
}

/// After a quarter of an hour without a packet it is as new, and does not count every update.
#[test]
fn an_idle_queue_forgets() {
    let mut pie = build(&"pie".parse().unwrap()).unwrap();
    let mut rng = Seed(1).stream("pie");
    for now in 0..5_000 {
        pie.admit(&arrival(now, false), &mut rng);
        pie.leave(&head(now, 100));
    }
    pie.on_empty(Instant(5_000 * MS));
    for now in 900_000..900_150 {
        assert_eq!(pie.admit(&arrival(now, false), &mut rng), Verdict::Pass);
        pie.leave(&head(now, 100));
    }
}
