//! Downloads by QUIC over bonds, and over one link.

use super::quic::{self, Quic};
use super::world::{CLIENT, SERVER, World, link};
use crate::config::UdpMode;
use tabane_engine::{Duration, Instant};
use tabane_sim::link::LinkConfig;

/// A run of downloads.
struct Run {
    world: World,
    flows: Vec<[Quic; 2]>,
    /// Payload that came last, to see what comes out of order: QUIC does not tell.
    reordered: u64,
}

impl Run {
    fn new(seed: u64, links: &[LinkConfig], flows: usize) -> Self {
        let world = World::new(seed, UdpMode::Bond, links);
        let flows = quic::download(world.now, flows);
        Self { world, flows, reordered: 0 }
    }

    /// Runs for so long; payload that has come meanwhile, Mbit/s.
    fn run(&mut self, seconds: f64) -> f64 {
        let end = self.world.now + Duration::from_secs_f64(seconds);
        let before: u64 = self.flows.iter().map(|[client, _]| client.end.read).sum();
        while self.world.now < end {
            self.turn();
            let timers = self.flows.iter_mut().flatten().filter_map(Quic::next).min();
            let next = timers.unwrap_or(Instant::FAR_FUTURE).min(self.world.next()).min(end);
            self.world.advance(next);
        }
        let after: u64 = self.flows.iter().map(|[client, _]| client.end.read).sum();
        (after - before) as f64 * 8e-6 / seconds
    }

    fn turn(&mut self) {
        let now = self.world.now;
        for side in [CLIENT, SERVER] {
            for datagram in self.world.take(side) {
                let flow = usize::from(datagram.flow);
                self.flows[flow][side].handle(datagram.at, &datagram);
            }
            for (flow, ends) in self.flows.iter_mut().enumerate() {
                ends[side].run(now);
                for payload in ends[side].out.drain(..) {
                    self.world.send(side, flow as u16, &payload);
                }
            }
        }
        self.reordered = self.world.reordered();
    }
}

/// Payload that a download brings from its third second on, Mbit/s: QUIC has found its window in
/// slow start. Of the wire's bytes, WireGuard's, IP's, UDP's and QUIC's headers leave 91 %.
fn steady(links: &[(u64, u64)]) -> f64 {
    let configs: Vec<LinkConfig> = links.iter().map(|(mbps, rtt)| link(*mbps, *rtt)).collect();
    let mut run = Run::new(1, &configs, 1);
    run.run(2.0);
    let rate = run.run(6.0);
    assert_eq!(run.reordered, 0, "{links:?}");
    rate
}

#[test]
fn a_quic_download_has_the_sum_of_its_links() {
    for links in [[(100, 10), (60, 60)], [(100, 20), (50, 40)]] {
        let (both, sum) = (steady(&links), links[0].0 + links[1].0);
        let share = both / sum as f64;
        assert!(share >= 0.90, "{links:?}: {both:.1} Mbit/s");
    }
}

#[test]
fn a_quic_download_over_one_link_loses_nothing_by_the_queue_before_it() {
    let rate = steady(&[(100, 10)]);
    assert!(rate >= 0.98 * 91.0, "{rate:.1} Mbit/s");
}

/// They cross in fragments; the links here take them whole.
#[test]
fn datagrams_that_fit_no_path_have_the_sum_of_the_links_too() {
    let mut world = World::new(1, UdpMode::Bond, &[link(20, 20), link(20, 40)]);
    let begin = world.now;
    let (warm, end) = (begin + Duration::from_secs(2), begin + Duration::from_secs(6));
    // 32 Mbit/s.
    let (mut due, pause) = (begin, Duration::from_micros(1250));
    let (mut sent, mut come) = (0, 0);
    while world.now < end {
        if due <= world.now {
            world.send(SERVER, 0, &[0; 5000]);
            sent += usize::from(due >= warm);
            due += pause;
        }
        let got = world.take(CLIENT);
        come += got.iter().filter(|datagram| datagram.at >= warm).count();
        let next = world.next().min(due).min(end);
        world.advance(next);
    }
    assert!(come * 100 >= sent * 97, "{come} of {sent}");
}
