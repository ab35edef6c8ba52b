//! Cost of a subflow alone: a bulk transfer between two, typed, over a fixed delay. One element
//! is one data segment with its share of acknowledgements, both ends.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::collections::VecDeque;
use tabane_engine::config::TcpConfig;
use tabane_engine::policy::Spec;
use tabane_engine::seq::Dsn;
use tabane_engine::tcp::{Chunk, Setup, Tcb};
use tabane_engine::time::{Duration, Instant};
use tabane_engine::view::{PathId, SubflowId};
use tabane_wire::Segment;

const SEGMENTS: u64 = 20_000;
const DELAY: Duration = Duration::from_millis(10);
/// One full segment in 120 us: 100 Mbit/s.
const SPACING: Duration = Duration::from_micros(120);

fn setup(side: usize) -> Setup {
    let addresses = ["10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap()];
    Setup {
        id: SubflowId(0),
        path: PathId(0),
        mtu: 1500,
        local: addresses[side],
        remote: addresses[1 - side],
        iss: 1,
        timestamp_offset: 0,
        congestion: Spec::named("cubic"),
        window_max: 4 << 20,
    }
}

struct World {
    now: Instant,
    data: VecDeque<(Instant, Segment)>,
    acks: VecDeque<(Instant, Segment)>,
    busy: Instant,
    /// Every so many data segments one is lost; 0 for none.
    loss: u64,
    count: u64,
}

impl World {
    fn send(&mut self, tcb: &mut Tcb, from_client: bool) {
        while let Some(segment) = poll(tcb, self.now) {
            if !from_client {
                self.acks.push_back((self.now + DELAY, segment));
                continue;
            }
            self.count += 1;
            if self.loss > 0 && self.count.is_multiple_of(self.loss) {
                continue;
            }
            self.busy = self.busy.max(self.now) + SPACING;
            self.data.push_back((self.busy + DELAY, segment));
        }
    }
}

/// The next segment, with space for 4 MB at this end.
fn poll(tcb: &mut Tcb, now: Instant) -> Option<Segment> {
    let mut segment = Segment::blank();
    tcb.poll_segment(now, 4 << 20, &mut segment)?;
    Some(segment)
}

fn transfer(loss: u64) -> u64 {
    let config = TcpConfig::default();
    let now = Instant(1_000_000_000);
    let mut client = Tcb::connect(now, &config.clone().into(), setup(0)).unwrap();
    let syn = poll(&mut client, now).unwrap();
    let mut server = Tcb::accept(now, &config.clone().into(), setup(1), &syn).unwrap();
    let syn_ack = poll(&mut server, now).unwrap();
    let mut world = World {
        now: now + DELAY,
        data: VecDeque::new(),
        acks: VecDeque::new(),
        busy: now,
        loss,
        count: 0,
    };
    client.on_segment(world.now, &syn_ack, &[]);
    let payload = Bytes::from_static(&[7; 1448]);
    let total = SEGMENTS * 1448;
    let mut pushed = 0;
    while client.snd_una().0 < total {
        while pushed < total && client.sendable(world.now) >= 1448 {
            client.push(world.now, Chunk { dsn: Dsn(1 + pushed), data: payload.clone() });
            pushed += 1448;
            world.send(&mut client, true);
        }
        world.send(&mut client, true);
        let next_data = world.data.front().map(|d| d.0);
        let next_ack = world.acks.front().map(|d| d.0);
        let timer = client.next_timeout().into_iter().chain(server.next_timeout()).min();
        let next = next_data.into_iter().chain(next_ack).chain(timer).min().unwrap();
        world.now = world.now.max(next);
        if next_data == Some(next) {
            let (_, segment) = world.data.pop_front().unwrap();
            server.on_segment(world.now, &segment, &[]);
            world.send(&mut server, false);
        } else if next_ack == Some(next) {
            let (_, segment) = world.acks.pop_front().unwrap();
            client.on_segment(world.now, &segment, &[]);
        } else {
            client.on_timeout(world.now, &[]);
            server.on_timeout(world.now, &[]);
            world.send(&mut server, false);
        }
    }
    client.stats().segments_sent
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("subflow");
    group.throughput(Throughput::Elements(SEGMENTS)).sample_size(20);
    for (name, loss) in [("clean", 0), ("loss 1 %", 100)] {
        group.bench_function(name, |b| b.iter(|| transfer(loss)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
