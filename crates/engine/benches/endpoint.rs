//! Cost of the engine alone: a bulk transfer by plain TCP between two endpoints, typed, over a
//! fixed delay. One element is one data segment with its share of acknowledgements, both ends.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::collections::VecDeque;
use tabane_engine::config::{Config, PathConfig};
use tabane_engine::policy::Spec;
use tabane_engine::view::PathId;
use tabane_engine::{Duration, Endpoint, Event, Instant};
use tabane_wire::Segment;

const SEGMENTS: u64 = 20_000;
const MSS: u64 = 1448;
const DELAY: Duration = Duration::from_millis(10);
/// One full segment in 120 us: 100 Mbit/s.
const SPACING: Duration = Duration::from_micros(120);
const PATH: PathId = PathId(0);

struct World {
    now: Instant,
    /// The client, which sends, and the server.
    ends: [Endpoint; 2],
    /// What is on its way to each of them.
    flying: [VecDeque<(Instant, Segment)>; 2],
    busy: Instant,
    /// Every so many data segments one is lost; 0 for none.
    loss: u64,
    data_segments: u64,
    received: u64,
}

fn endpoint(host: u8) -> Endpoint {
    let config = Config::default().with(|c| {
        c.paths = vec![PathConfig::new(PATH, vec![[10, 0, 0, host].into()], 1500)];
        c.mptcp.enabled = false;
        c.tcp.congestion = Spec::named("cubic");
    });
    Endpoint::new(config, [host; 32]).unwrap()
}

impl World {
    /// Everything that an end can do now.
    fn drain(&mut self, end: usize) {
        loop {
            while let Some(departure) = self.ends[end].poll_segment(self.now) {
                self.depart(end, departure.segment);
            }
            let Some((id, event)) = self.ends[end].poll_event() else { return };
            if event == Event::Readable {
                let connection = self.ends[end].connection(id).unwrap();
                while let Some(data) = connection.read(usize::MAX) {
                    self.received += data.len() as u64;
                }
            }
        }
    }

    fn depart(&mut self, from: usize, segment: Segment) {
        let mut at = self.now;
        if !segment.payload.is_empty() {
            self.data_segments += 1;
            if self.loss > 0 && self.data_segments.is_multiple_of(self.loss) {
                return;
            }
            self.busy = self.busy.max(at) + SPACING;
            at = self.busy;
        }
        self.flying[1 - from].push_back((at + DELAY, segment));
    }

    /// To the next arrival or timer.
    fn step(&mut self) {
        let arrivals = self.flying.each_ref().map(|flying| flying.front().map(|f| f.0));
        let timers = self.ends.each_ref().map(Endpoint::poll_timeout);
        let next = arrivals.iter().chain(&timers).flatten().min().unwrap();
        self.now = self.now.max(*next);
        for (end, timer) in timers.into_iter().enumerate() {
            while self.flying[end].front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, segment) = self.flying[end].pop_front().unwrap();
                self.ends[end].handle_segment(self.now, PATH, &segment);
                self.drain(end);
            }
            if timer.is_some_and(|at| at <= self.now) {
                self.ends[end].handle_timeout(self.now);
                self.drain(end);
            }
        }
    }
}

fn transfer(loss: u64) -> u64 {
    let now = Instant(1_000_000_000);
    let mut world = World {
        now,
        ends: [endpoint(1), endpoint(2)],
        flying: [VecDeque::new(), VecDeque::new()],
        busy: now,
        loss,
        data_segments: 0,
        received: 0,
    };
    let server = "10.0.0.2:80".parse().unwrap();
    world.ends[1].listen(server).unwrap();
    let id = world.ends[0].connect(now, "10.0.0.1:0".parse().unwrap(), server).unwrap();
    let mut unsent = Bytes::from(vec![7; (SEGMENTS * MSS) as usize]);
    while world.received < SEGMENTS * MSS {
        if !unsent.is_empty() {
            world.ends[0].connection(id).unwrap().write(&mut unsent);
            world.drain(0);
        }
        world.step();
    }
    world.data_segments
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("endpoint");
    group.throughput(Throughput::Elements(SEGMENTS)).sample_size(20);
    for (name, loss) in [("clean", 0), ("loss 1 %", 100)] {
        group.bench_function(name, |b| b.iter(|| transfer(loss)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
