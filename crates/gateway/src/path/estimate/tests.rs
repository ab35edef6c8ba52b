//! The estimate of a direction over the simulator's links: two ends that report to each other, in
//! virtual time, with clocks that do not agree.

use super::super::probe::Ends;
use super::super::reports::{Count, Reports};
use super::Estimate;
use crate::address::{ClientNumber, Network};
use crate::index::PathIndex;
use tabane_engine::policy::Spec;
use tabane_engine::{Duration, Instant};
use tabane_sim::link::{DelayConfig, Link, LinkChange, LinkConfig, RateConfig};
use tabane_sim::seed::Seed;

const MBPS: f64 = 1e6;
const UP: usize = 0;
const DOWN: usize = 1;
/// Between looks at what is to be sent.
const STEP: Duration = Duration::from_micros(250);
/// Inner packets of the load.
const LEN: usize = 1_200;

/// A path, its two ends, and a load each way.
struct Bed {
    now: Instant,
    ends: [Reports; 2],
    sent: [Count; 2],
    received: [Count; 2],
    links: [Link<Vec<u8>>; 2],
    /// Offered, bits per second, and what is left to be sent of it.
    offered: [f64; 2],
    credit: [f64; 2],
    policer: Option<Policer>,
    /// The server's clock runs faster by this share.
    skew: f64,
    reports: u64,
}

/// Drops what comes faster than its rate.
struct Policer {
    bps: f64,
    bucket: f64,
    tokens: f64,
    at: Instant,
}

impl Policer {
    fn passes(&mut self, now: Instant, len: usize) -> bool {
        let refill = self.bps / 8.0 * (now - self.at).as_secs_f64();
        self.tokens = (self.tokens + refill).min(self.bucket);
        self.at = now;
        let passes = self.tokens >= len as f64;
        if passes {
            self.tokens -= len as f64;
        }
        passes
    }
}

fn link(bps: u64, delay_ms: u64, queue: &str) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(bps),
        delay: DelayConfig::Constant(Duration::from_millis(delay_ms)),
        queue: queue.parse().unwrap(),
        ..LinkConfig::default()
    }
}

impl Bed {
    fn new(up: LinkConfig, down: LinkConfig) -> Self {
        let network = Network::default();
        let ends = Ends {
            path: network.path(ClientNumber(1), PathIndex::new(0))[0],
            service: network.service()[0],
        };
        let mut ends = [Reports::new(ends, false, 7), Reports::new(ends, true, 9)];
        ends.iter_mut().for_each(|end| end.set_known(true));
        let links = [(up, "up"), (down, "down")];
        Self {
            now: Instant::ZERO + Duration::from_secs(1_000),
            ends,
            sent: Default::default(),
            received: Default::default(),
            links: links.map(|(config, name)| Link::new(&config, Seed(5), name).unwrap()),
            offered: [0.0; 2],
            credit: [0.0; 2],
            policer: None,
            skew: 0.0,
            reports: 0,
        }
    }

    /// As an end's clock shows it: the server's is five minutes behind.
    fn clock(&self, end: usize, at: Instant) -> Instant {
        let behind = Duration::from_secs(300);
        match end {
            DOWN => Instant((at.0 as f64 * (1.0 + self.skew)) as u64 - behind.0),
            _ => at,
        }
    }

    fn push(&mut self, way: usize, packet: Vec<u8>) {
        self.sent[way].packets += 1;
        self.sent[way].bytes += packet.len() as u64;
        let policed = way == UP
            && self.policer.as_mut().is_some_and(|policer| !policer.passes(self.now, packet.len()));
        if !policed {
            self.links[way].push(self.now, packet);
        }
    }

    fn deliver(&mut self, way: usize) {
        while let Some(at) = self.links[way].next_event().filter(|at| *at <= self.now) {
            let Some(packet) = self.links[way].pop(at) else { continue };
            self.received[way].packets += 1;
            self.received[way].bytes += packet.len() as u64;
            let (end, clock) = (1 - way, self.clock(1 - way, at));
            self.ends[end].handle_packet(clock, &packet, self.received[way]);
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        for way in [UP, DOWN] {
            self.deliver(way);
            self.credit[way] += self.offered[way] / 8.0 * STEP.as_secs_f64();
            while self.credit[way] >= LEN as f64 {
                self.credit[way] -= LEN as f64;
                self.push(way, vec![0; LEN]);
            }
            let mut buffer = [0; 200];
            let clock = self.clock(way, self.now);
            if let Some(len) = self.ends[way].poll(clock, self.sent[way], &mut buffer) {
                self.reports += 1;
                self.push(way, buffer[..len].to_vec());
            }
        }
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.step();
        }
    }

    /// What the client knows of the direction from it.
    fn up(&self) -> Estimate {
        self.ends[UP].sending(self.now)
    }

    fn set_rate(&mut self, way: usize, bps: u64) {
        let rate = Some(RateConfig::Constant(bps));
        self.links[way].change(self.now, &LinkChange { rate, ..LinkChange::default() }).unwrap();
    }

    fn set_up(&mut self, up: bool) {
        for link in &mut self.links {
            let change = LinkChange { up: Some(up), ..LinkChange::default() };
            link.change(self.now, &change).unwrap();
        }
    }

    /// How long it takes until the capacity is within `share` of `bps` and stays there for a
    /// second, in seconds.
    fn follow(&mut self, bps: f64, share: f64) -> f64 {
        let begin = self.now;
        let mut since = None;
        while self.now - begin < Duration::from_secs(20) {
            self.step();
            let near = self.up().capacity.is_some_and(|c| (c as f64 - bps).abs() <= bps * share);
            since = near.then(|| since.unwrap_or(self.now));
            if since.is_some_and(|since| self.now - since >= Duration::from_secs(1)) {
                return (since.unwrap() - begin).as_secs_f64();
            }
        }
        panic!("never within {share} of {bps}: {:?}", self.up());
    }
}

#[track_caller]
fn assert_near(value: Option<u64>, bps: f64, share: f64) {
    let value = value.map(|value| value as f64);
    let near = value.is_some_and(|value| (value - bps).abs() <= bps * share);
    assert!(near, "{value:?} is not {bps} within {share}");
}

fn clean(bps: u64) -> Bed {
    Bed::new(link(bps, 15, "droptail:bytes=312500"), link(50_000_000, 15, "droptail"))
}

/// Rates below what the path carries say what flows, and nothing of what it carries.
#[test]
fn what_was_not_exercised_is_unknown() {
    let mut bed = clean(50_000_000);
    for offered in [5.0, 20.0, 10.0, 40.0, 1.0] {
        bed.offered[UP] = offered * MBPS;
        bed.run(3.0);
        let estimate = bed.up();
        assert_eq!((estimate.capacity, estimate.confidence), (None, 0.0));
        assert_near(estimate.delivery_rate, offered * MBPS, 0.05);
        assert!(estimate.queueing_delay.unwrap() < Duration::from_millis(2));
        assert_eq!(estimate.loss, Some(0.0));
    }
    // Bursts at twenty a second, each a third of the time between them long.
    for _ in 0..200 {
        bed.offered[UP] = 100.0 * MBPS;
        bed.run(0.008);
        bed.offered[UP] = 0.0;
        bed.run(0.042);
    }
    assert_eq!(bed.up().capacity, None);
}

#[test]
fn an_idle_path_sends_no_reports() {
    let mut bed = clean(50_000_000);
    bed.offered[UP] = 5.0 * MBPS;
    bed.run(1.0);
    bed.offered[UP] = 0.0;
    bed.run(2.0);
    let before = bed.reports;
    assert!((40..60).contains(&before), "{before} reports, both ways, in a second and its end");
    bed.run(60.0);
    assert_eq!(bed.reports, before);
    assert_eq!((bed.up().delivery_rate, bed.up().queueing_delay), (None, None));
    assert_eq!(bed.ends[UP].poll_timeout(), None);
}

#[test]
fn steps_are_followed() {
    let mut bed = clean(50_000_000);
    bed.offered[UP] = 60.0 * MBPS;
    let begins = bed.follow(50e6, 0.05);
    bed.set_rate(UP, 10_000_000);
    let down = bed.follow(10e6, 0.1);
    bed.set_rate(UP, 50_000_000);
    let up = bed.follow(50e6, 0.1);
    eprintln!("within 5 % after {begins} s; 50 to 10 Mbit/s {down} s, 10 to 50 {up} s, 10 %");
    assert!(begins < 0.8 && down < 0.8 && up < 0.8, "{begins} {down} {up}");
    bed.run(2.0);
    let estimate = bed.up();
    assert_near(estimate.capacity, 50e6, 0.02);
    assert!(estimate.confidence > 0.5, "{estimate:?}");
}

#[test]
fn a_ramp_is_followed() {
    let mut bed = clean(10_000_000);
    bed.offered[UP] = 60.0 * MBPS;
    bed.run(2.0);
    let mut worst: f64 = 0.0;
    for tenth in 0..100 {
        let bps = 10_000_000 + 400_000 * tenth;
        bed.set_rate(UP, bps);
        bed.run(0.1);
        worst = worst.max((bed.up().capacity.unwrap() as f64 / bps as f64 - 1.0).abs());
    }
    eprintln!("from 10 to 50 Mbit/s in 10 s: never off by more than {:.0} %", worst * 100.0);
    assert!(worst < 0.25, "{worst:?}");
}

#[test]
fn a_queue_of_two_seconds_is_measured() {
    let up = link(10_000_000, 30, "droptail:bytes=2500000");
    let mut bed = Bed::new(up, link(50_000_000, 30, "droptail"));
    bed.offered[UP] = 9.0 * MBPS;
    bed.run(1.0);
    bed.offered[UP] = 12.0 * MBPS;
    let known = bed.follow(10e6, 0.05);
    bed.run(15.0);
    let queue = bed.up().queueing_delay.unwrap();
    eprintln!("known after {known} s; 2 s of queue: {queue:?}");
    assert!((queue.as_secs_f64() - 2.0).abs() < 0.1, "{queue:?}");
    assert_near(bed.up().capacity, 10e6, 0.02);
    assert_near(bed.up().delivery_rate, 10e6, 0.03);
}

#[test]
fn a_policer_is_found_by_its_losses() {
    for bps in [5.0, 20.0] {
        let mut bed = clean(100_000_000);
        let (bucket, at) = (64_000.0, bed.now);
        bed.policer = Some(Policer { bps: bps * MBPS, bucket, tokens: bucket, at });
        bed.offered[UP] = bps * 0.9 * MBPS;
        bed.run(2.0);
        assert_eq!(bed.up().capacity, None, "it has not been exercised yet");
        bed.offered[UP] = bps * 1.3 * MBPS;
        let known = bed.follow(bps * MBPS, 0.1);
        eprintln!("{bps} Mbit/s: within 10 % after {known} s");
        assert!(known < 1.5, "{known}");
        // At twice the rate from the start, too.
        let mut bed = clean(100_000_000);
        let at = bed.now;
        bed.policer = Some(Policer { bps: bps * MBPS, bucket, tokens: bucket, at });
        bed.offered[UP] = bps * 2.0 * MBPS;
        assert!(bed.follow(bps * MBPS, 0.1) < 2.0);
    }
}

/// A shaper lets a burst pass at the link's own rate, and then its own.
#[test]
fn a_token_bucket_shows_its_rate_when_it_is_empty() {
    let mut bed = clean(100_000_000);
    bed.offered[UP] = 60.0 * MBPS;
    bed.run(2.0);
    assert_eq!(bed.up().capacity, None);
    bed.set_rate(UP, 20_000_000);
    let known = bed.follow(20e6, 0.05);
    eprintln!("within 5 % after {known} s");
    assert!(known < 0.8, "{known}");
    bed.offered[UP] = 0.0;
    bed.run(10.0);
    assert_near(bed.up().capacity, 20e6, 0.05);
    // The bucket is full again: what comes faster shows that the path carries it for now.
    bed.set_rate(UP, 100_000_000);
    bed.offered[UP] = 60.0 * MBPS;
    bed.run(2.0);
    assert_near(bed.up().capacity, 60e6, 0.05);
    bed.set_rate(UP, 20_000_000);
    assert!(bed.follow(20e6, 0.05) < 0.8);
}

/// Reports come late and some not at all; what they say is as exact.
#[test]
fn a_congested_way_back_delays_only() {
    let down = link(1_000_000, 15, "droptail:bytes=125000");
    let mut bed = Bed::new(link(50_000_000, 15, "droptail:bytes=312500"), down);
    bed.offered = [60.0 * MBPS, 1.2 * MBPS];
    bed.run(10.0);
    let estimate = bed.up();
    assert_near(estimate.capacity, 50e6, 0.02);
    assert!((estimate.loss.unwrap() - 1.0 / 6.0).abs() < 0.03, "{estimate:?}");
    let queue = estimate.queueing_delay.unwrap();
    assert!((queue.as_secs_f64() - 0.05).abs() < 0.01, "{queue:?}");
    let far = bed.ends[UP].receiving(bed.now);
    assert_near(far.capacity, 1e6, 0.05);
    bed.set_rate(UP, 10_000_000);
    let known = bed.follow(10e6, 0.1);
    eprintln!("a second of queue on the way back: followed after {known} s");
    assert!(known < 2.5, "{known}");
}

/// Losses by chance are losses, and no sign that the path is full.
#[test]
fn losses_by_chance_are_counted_and_mean_nothing_else() {
    for loss in ["bernoulli:p=0.05", "gilbert:p=0.005,r=0.1"] {
        let mut up = link(50_000_000, 15, "droptail:bytes=312500");
        up.loss = loss.parse::<Spec>().unwrap();
        let mut bed = Bed::new(up, link(50_000_000, 15, "droptail"));
        for offered in [5.0, 20.0, 10.0, 15.0] {
            bed.offered[UP] = offered * MBPS;
            bed.run(8.0);
        }
        let estimate = bed.up();
        eprintln!("{loss}: {estimate:?}");
        assert!((0.025..0.08).contains(&estimate.loss.unwrap()), "{estimate:?}");
        assert!(estimate.capacity.is_none_or(|bps| bps > 15_000_000), "{estimate:?}");
        bed.offered[UP] = 60.0 * MBPS;
        bed.run(5.0);
        let through = 50e6 * 0.95;
        assert_near(bed.up().capacity, through, 0.05);
    }
}

#[test]
fn an_outage_is_no_measurement() {
    let mut bed = clean(50_000_000);
    bed.offered[UP] = 60.0 * MBPS;
    bed.run(5.0);
    bed.set_up(false);
    bed.run(3.0);
    let estimate = bed.up();
    assert_eq!((estimate.delivery_rate, estimate.queueing_delay), (None, None));
    assert_near(estimate.capacity, 50e6, 0.02);
    bed.set_up(true);
    bed.run(1.0);
    assert_near(bed.up().capacity, 50e6, 0.05);
    assert!(bed.up().loss.unwrap() > 0.5, "what was sent meanwhile is lost");
    let again = bed.follow(50e6, 0.02);
    assert!(again < 0.5, "{again}");
}

/// Clocks that run differently are no queue, in neither direction, and hide none.
#[test]
fn clocks_may_drift() {
    for ppm in [-100.0, 100.0] {
        let mut bed = clean(50_000_000);
        bed.skew = ppm / 1e6;
        bed.offered = [30.0 * MBPS; 2];
        let mut worst = Duration::ZERO;
        for second in 0..180 {
            bed.run(1.0);
            let server = bed.clock(DOWN, bed.now);
            let four = [
                bed.up(),
                bed.ends[UP].receiving(bed.now),
                bed.ends[DOWN].sending(server),
                bed.ends[DOWN].receiving(server),
            ];
            let queues = four.map(|estimate| estimate.queueing_delay.unwrap());
            if second >= 60 {
                worst = queues.into_iter().fold(worst, Duration::max);
            }
            assert!(four.iter().all(|estimate| estimate.capacity.is_none()), "{four:?}");
        }
        eprintln!("{ppm} ppm: {worst:?}");
        assert!(worst < Duration::from_millis(2), "{worst:?}");
    }
}

/// A longer way is no queue once the load has paused.
#[test]
fn a_longer_way_is_learnt_in_a_pause() {
    let mut bed = clean(50_000_000);
    bed.offered[UP] = 30.0 * MBPS;
    bed.run(5.0);
    let delay = Some(DelayConfig::Constant(Duration::from_millis(35)));
    bed.links[UP].change(bed.now, &LinkChange { delay, ..LinkChange::default() }).unwrap();
    bed.run(5.0);
    let before = bed.up().queueing_delay.unwrap();
    assert_eq!(before.as_millis(), 20);
    bed.offered[UP] = 0.2 * MBPS;
    bed.run(3.0);
    bed.offered[UP] = 30.0 * MBPS;
    bed.run(1.0);
    let after = bed.up().queueing_delay.unwrap();
    assert!(after < Duration::from_millis(2), "{after:?}");
}
