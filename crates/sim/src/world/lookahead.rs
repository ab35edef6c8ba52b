//! What the next events will touch, brought into the caches while earlier ones are handled.
//!
//! With thousands of links and hosts, each is touched so seldom that nothing of it is left in the
//! caches, and a packet waits for one line after the other. But when a packet arrives is known long
//! before. Arrivals are noted in slots of time, a few in each, and when the time comes to a slot,
//! those in the slots ahead go one step further: the link, its queues, the packet, the host that it
//! comes to or the next link, the connection. Only speed depends on it.

use super::LinkState;
use super::host::HostState;
use crate::topology::{Hop, Topology};
use tabane_engine::{Endpoint, Instant};

/// Arrivals at the ends of links, by time.
pub(super) struct Lookahead {
    /// A ring; empty where links are few.
    slots: Vec<Vec<u32>>,
    /// A slot is 2^`shift` nanoseconds long.
    shift: u32,
    /// The slot that the time is in.
    current: u64,
    /// Arrivals noted since `since`.
    noted: u64,
    since: Instant,
}

/// Fewer links stay in the caches by themselves.
const MANY: usize = 256;
/// Slots.
const RING: u64 = 1024;
/// Slots ahead for the first step of an arrival; the last one is in the next slot.
const STEPS: u64 = 3 + Endpoint::STEPS as u64;
/// Arrivals after which it is looked how long slots should be, and how many should be in one.
const ROUND: u64 = 1 << 12;
const EACH: u64 = 4;

impl Lookahead {
    pub(super) fn new(links: usize) -> Self {
        let slots = if links < MANY { 0 } else { RING };
        let slots = (0..slots).map(|_| Vec::new()).collect();
        Self { slots, shift: 16, current: 0, noted: 0, since: Instant::ZERO }
    }

    /// A packet arrives at the end of a link direction then.
    #[inline]
    pub(super) fn note(&mut self, link: usize, time: Instant) {
        if self.slots.is_empty() {
            return;
        }
        let slot = time.0 >> self.shift;
        // What comes at once is not waited for, and what is far off may be noted again.
        if slot.wrapping_sub(self.current + 1) < RING - 1 {
            self.slots[(slot % RING) as usize].push(link as u32);
        }
    }

    /// The time has come to `now`.
    #[inline]
    pub(super) fn reach(
        &mut self,
        now: Instant,
        links: &[LinkState],
        hosts: &[HostState],
        topology: &Topology,
    ) {
        if !self.slots.is_empty() && now.0 >> self.shift != self.current {
            self.proceed(now, links, hosts, topology);
        }
    }

    #[inline(never)]
    fn proceed(
        &mut self,
        now: Instant,
        links: &[LinkState],
        hosts: &[HostState],
        topology: &Topology,
    ) {
        let slot = now.0 >> self.shift;
        for passed in self.current..slot.min(self.current + RING) {
            let arrivals = &mut self.slots[(passed % RING) as usize];
            self.noted += arrivals.len() as u64;
            arrivals.clear();
        }
        self.current = slot;
        for step in 0..STEPS {
            let ahead = &self.slots[((slot + STEPS - step) % RING) as usize];
            for link in ahead {
                prefetch(step as usize, *link as usize, links, hosts, topology);
            }
        }
        if self.noted >= ROUND {
            self.adapt(now);
        }
    }

    /// Makes slots so long that some [`EACH`] arrivals are in one.
    fn adapt(&mut self, now: Instant) {
        let each = EACH * (now - self.since).0 / self.noted;
        let shift = each.max(1).ilog2();
        (self.noted, self.since) = (0, now);
        if shift != self.shift {
            self.shift = shift;
            self.current = now.0 >> shift;
            self.slots.iter_mut().for_each(Vec::clear);
        }
    }
}

/// A step towards the next arrival at the end of a link direction.
#[inline]
fn prefetch(
    step: usize,
    link: usize,
    links: &[LinkState],
    hosts: &[HostState],
    topology: &Topology,
) {
    let own = &links[link].link;
    match step {
        0 => return own.prefetch(),
        1 => return own.prefetch_queues(),
        _ => {}
    }
    let Some(packet) = own.coming() else { return };
    if step == 2 {
        packet.prefetch();
    }
    match (topology.hop(packet.cursor() + 1), step) {
        (Hop::Link(next), 3) => links[next as usize].link.prefetch(),
        (Hop::Link(next), 4) => links[next as usize].link.prefetch_queues(),
        (Hop::Link(_), _) | (_, 2) => {}
        (Hop::Arrive(host, path), step) => {
            let endpoint = &hosts[host as usize].endpoint;
            endpoint.prefetch(packet.segment(), step - 3);
            // What it answers leaves by the path by which this came.
            let out = topology.hosts[host as usize].paths[usize::from(path)].first as usize;
            match step {
                4 => links[out].link.prefetch(),
                5 => links[out].link.prefetch_queues(),
                _ => {}
            }
        }
    }
}
