//! The network: TUN devices of the hosts at one side, the links of the simulator between them, in
//! real time. Routers are routes here, as in the simulator.
//!
//! One thread, with a real-time priority where that is allowed, that sleeps until a packet comes
//! or is due and measures how late it is. Its queues are those of the links.
#![expect(unsafe_code, reason = "an ioctl that sets carriers, which no crate has")]

use crate::Stack;
use crate::accuracy::{Achieved, Lateness};
use crate::notification::{Notification, Notifier};
use crate::packet::Packet;
use crate::priority;
use crate::switch::Switch;
use crate::wires::{Pool, pop_due, wait};
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tabane_engine::Instant;
use tabane_engine::view::{PathId, PathSet};
use tabane_net::Clock;
use tabane_net::clock::sharpen_timers;
use tabane_net::device::virtio::VirtioHeader;
use tabane_sim::Plan;
use tabane_sim::link::{Link, LinkChange, LinkStats, Packet as _};
use tabane_sim::scenario::{Change, LinkDirection, LinkParams};
use tabane_sim::topology::{Hop, NO_ROUTE};
use tabane_trace::observe::{CapturePoint, HostIdx, LinkIdx, LinkSample, Wants};
use tun_rs::SyncDevice;

/// A network, ready to run.
pub(crate) struct Emulator {
    clock: Clock,
    plan: Plan,
    ports: Vec<Port>,
    /// Index of the first port of each host.
    first: Vec<usize>,
    links: Vec<Wire>,
    /// By host, where the stack is the kernel's and the scenario wants more than routes.
    switches: Vec<Option<Switch>>,
    agenda: BTreeMap<(Instant, usize), Change>,
    next_sample: Option<Instant>,
    wants: Wants,
    notifier: Notifier,
    stop: OwnedFd,
    pool: Pool,
    /// Largest packet that a device gives.
    longest: usize,
    /// Devices lose their carrier with their link.
    carrier: bool,
    /// Packets of devices have a [`VirtioHeader`] before them.
    offload: bool,
    report: Report,
}

/// A path of a host.
pub(crate) struct Port {
    pub(crate) host: usize,
    pub(crate) path: usize,
    pub(crate) device: SyncDevice,
}

struct Wire {
    link: Link<Packet>,
    params: LinkParams,
    mtu: usize,
    too_long: u64,
    achieved: Achieved,
}
#[derive(Default, Debug)]
pub(crate) struct Report {
    /// How late packets left links.
    pub(crate) lateness: Lateness,
    /// Packets that devices did not take.
    pub(crate) refused: u64,
    /// Whether the thread has a real-time priority.
    pub(crate) realtime: bool,
    /// Packets times link directions crossed.
    pub(crate) hops: u64,
    /// Each link direction: totals, packets longer than its MTU, its last constant rate and the
    /// rate achieved.
    pub(crate) links: Vec<(LinkStats, u64, Option<f64>, Option<f64>)>,
}

/// `ioctl` that sets a TUN device's carrier (linux/if_tun.h).
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
/// Packets taken from one device before others have their turn.
const BATCH: usize = 64;
/// Buffers kept: what the queues of links hold, roughly.
const POOL: usize = 16_384;

impl Emulator {
    /// The network of a scenario between `ports`; it ends when `stop` can be read.
    ///
    /// # Errors
    /// In words, a link that cannot be.
    pub(crate) fn new(
        plan: &Plan,
        stack: Stack,
        ports: Vec<Port>,
        clock: Clock,
        (notifier, wants): (Notifier, Wants),
        stop: OwnedFd,
    ) -> Result<Self, String> {
        let (scenario, topology) = (&*plan.scenario, &*plan.topology);
        let mut links = Vec::new();
        for direction in plan.links.iter() {
            let mut link = direction.build(scenario.seed).map_err(|e| e.to_string())?;
            link.report_losses(wants.packets);
            let (params, mtu) = (direction.params.clone(), usize::from(direction.mtu));
            links.push(Wire { link, params, mtu, too_long: 0, achieved: Achieved::default() });
        }
        let changes = scenario.at.iter().enumerate().filter(|(_, c)| c.host.is_none());
        let agenda = changes.map(|(n, c)| ((Instant::ZERO + c.time.0, n), c.clone())).collect();
        let (mut first, mut switches) = (Vec::new(), Vec::new());
        for host in 0..topology.hosts.len() {
            switches.push(match stack {
                Stack::Kernel => Switch::of(plan, host)?,
                Stack::Tabane => None,
            });
            first.push(ports.iter().position(|p| p.host == host).unwrap_or(0));
        }
        Ok(Self {
            clock,
            plan: plan.clone(),
            ports,
            first,
            links,
            switches,
            agenda,
            next_sample: wants.sample.map(|_| Instant::ZERO),
            wants,
            notifier,
            stop,
            pool: Pool::new(POOL),
            longest: if scenario.offload {
                VirtioHeader::LEN + usize::from(u16::MAX)
            } else {
                topology.hosts.iter().flat_map(|h| &h.paths).fold(0, |l, p| l.max(p.mtu)).into()
            },
            carrier: stack == Stack::Kernel,
            offload: scenario.offload,
            report: Report::default(),
        })
    }

    /// Carries packets until it is stopped.
    pub(crate) fn run(mut self) -> Report {
        sharpen_timers();
        self.report.realtime = priority::take(priority::LINKS);
        loop {
            self.take_in();
            self.let_out();
            self.act();
            match self.sleep() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    self.notifier
                        .send(Notification::Broken(format!("the emulator cannot wait: {error}")));
                    break;
                }
            }
        }
        let now = self.clock.now();
        self.sample(now);
        for wire in &mut self.links {
            // Conditions change it.
            let own = wire.params.rate.filter(|_| wire.params.conditions.is_none());
            let rate = own.map(|rate| rate.0 as f64);
            let stats = wire.link.stats(now);
            self.report.links.push((stats, wire.too_long, rate, wire.achieved.rate()));
        }
        self.report
    }

    fn take_in(&mut self) {
        for n in 0..self.ports.len() {
            for _ in 0..BATCH {
                let mut buffer = self.pool.take();
                buffer.resize(self.longest, 0);
                match self.ports[n].device.recv(&mut buffer) {
                    Ok(len) => {
                        buffer.truncate(len);
                        let offload = self.offload_of(&mut buffer);
                        self.depart(n, Packet { offload, ..Packet::new(buffer) });
                    }
                    Err(_) => {
                        self.pool.give_back(buffer);
                        break;
                    }
                }
            }
        }
    }

    /// What stands before a packet of a device, which is taken off.
    fn offload_of(&self, buffer: &mut Vec<u8>) -> VirtioHeader {
        let header = buffer.first_chunk().map(VirtioHeader::decode).filter(|_| self.offload);
        if header.is_some() {
            buffer.drain(..VirtioHeader::LEN);
        }
        header.unwrap_or_default()
    }

    /// A packet has left a host.
    fn depart(&mut self, port: usize, packet: Packet) {
        let now = self.clock.now();
        let Port { host, path, .. } = self.ports[port];
        let to = packet.destination();
        let to = to.filter(|to| self.plan.topology.route(host, path, *to) != NO_ROUTE);
        let Some(to) = to else {
            // Neighbour discovery and the like: nobody at the far end wants it.
            return self.pool.give_back(packet.bytes);
        };
        let paths = match &mut self.switches[host] {
            None => PathSet::only(PathId(path as u8)),
            Some(switch) => switch.route(now, &self.plan.topology, path, (&packet, to)),
        };
        let first = paths.first();
        for copy in paths.iter().filter(|path| Some(*path) != first) {
            let mut bytes = self.pool.take();
            bytes.clear();
            bytes.extend_from_slice(&packet.bytes);
            let offload = packet.offload;
            self.send(now, (host, copy, to), Packet { offload, ..Packet::new(bytes) });
        }
        match first {
            Some(first) => self.send(now, (host, first, to), packet),
            None => self.pool.give_back(packet.bytes),
        }
    }

    /// A packet leaves a host by a path that has a route.
    fn send(&mut self, now: Instant, (host, path, to): (usize, PathId, IpAddr), packet: Packet) {
        if self.wants.packets {
            let point = CapturePoint::Sent(HostIdx(host as u32), path);
            self.notifier.try_send(Notification::Packet(point, now, packet.seen().into()));
        }
        let cursor = self.plan.topology.route(host, usize::from(path.0), to);
        self.enter(now, Packet { cursor, ..packet });
    }

    /// A packet comes to the hop at its cursor.
    fn enter(&mut self, now: Instant, packet: Packet) {
        match self.plan.topology.hop(packet.cursor) {
            Hop::Link(link) => {
                if self.wants.packets {
                    let point = CapturePoint::Link(LinkIdx(link));
                    self.notifier.try_send(Notification::Packet(point, now, packet.seen().into()));
                }
                let wire = &mut self.links[link as usize];
                if packet.longest() > wire.mtu {
                    wire.too_long += 1;
                    return self.pool.give_back(packet.bytes);
                }
                wire.link.push(now, packet);
                self.lost(link);
            }
            Hop::Arrive(host, path) => self.arrive(now, host, path, packet),
        }
    }

    fn arrive(&mut self, now: Instant, host: u32, path: u8, packet: Packet) {
        if self.wants.packets {
            let point = CapturePoint::Received(HostIdx(host), PathId(path));
            self.notifier.try_send(Notification::Packet(point, now, packet.seen().into()));
        }
        if let Some(switch) = &mut self.switches[host as usize] {
            switch.arrives(now, usize::from(path), &packet.seen());
        }
        let port = &self.ports[self.first[host as usize] + usize::from(path)];
        let sent = if self.offload {
            let header = packet.offload.encode();
            let parts = [IoSlice::new(&header), IoSlice::new(&packet.bytes)];
            port.device.send_vectored(&parts)
        } else {
            port.device.send(&packet.bytes)
        };
        if sent.is_err() {
            self.report.refused += 1;
        }
        self.pool.give_back(packet.bytes);
    }

    /// Tells of the packets that a link direction has lost.
    fn lost(&mut self, link: u32) {
        while let Some(lost) = self.links[link as usize].link.poll_loss() {
            let (at, cause) = (lost.at, lost.cause.as_str());
            self.notifier.try_send(Notification::Lost(
                LinkIdx(link),
                at,
                cause,
                lost.packet.seen().into(),
            ));
        }
    }

    fn let_out(&mut self) {
        for n in 0..self.links.len() {
            while let Some((due, now, mut packet)) = pop_due(&mut self.links[n].link, self.clock) {
                let wire = &mut self.links[n];
                // Jitter moves packets towards each other: those are no rate.
                let steady = wire.params.rate.filter(|_| wire.params.jitter.is_none());
                let rate = steady.map(|rate| rate.0 as f64);
                wire.achieved.add(due, now, packet.wire_len() as usize, rate);
                self.report.lateness.add(now.saturating_since(due));
                self.report.hops += 1;
                packet.cursor += 1;
                // The next link counts from when the packet should have come.
                let at = match self.plan.topology.hop(packet.cursor) {
                    Hop::Link(_) => due,
                    Hop::Arrive(..) => now,
                };
                self.enter(at, packet);
            }
            self.lost(n as u32);
        }
    }

    /// Does what is due on the agenda.
    fn act(&mut self) {
        let now = self.clock.now();
        while let Some(entry) = self.agenda.first_entry().filter(|e| e.key().0 <= now) {
            let ((at, n), change) = entry.remove_entry();
            if let Some(every) = change.every {
                self.agenda.insert((at + every.0, n), change.clone());
            }
            let name = change.down.as_ref().or(change.up.as_ref()).or(change.link.as_ref());
            let Some(link) = name.and_then(|name| self.plan.scenario.link.position(name)) else {
                continue;
            };
            for (direction, way) in
                [(2 * link, LinkDirection::Up), (2 * link + 1, LinkDirection::Down)]
            {
                if change.direction.is_none_or(|only| only == way) {
                    self.change(now, direction, &change);
                }
            }
            if self.carrier && !change.silent && change.link.is_none() {
                self.set_carrier(link as u32, change.up.is_some());
            }
            self.notifier.try_send(Notification::Changed(now, change.words()));
        }
        if self.next_sample.is_some_and(|at| at <= now) {
            self.sample(now);
            self.next_sample = self.wants.sample.map(|interval| now + interval);
        }
    }

    fn change(&mut self, now: Instant, direction: usize, change: &Change) {
        let wire = &mut self.links[direction];
        let up = if change.up.is_some() { Some(true) } else { change.down.as_ref().map(|_| false) };
        let change = LinkChange::of(&mut wire.params, &change.params());
        let done = wire.link.change(now, &LinkChange { up, ..change });
        debug_assert!(done.is_ok(), "changes were checked with the scenario: {done:?}");
    }

    /// Whoever is attached to a link sees its carrier go and come.
    fn set_carrier(&mut self, link: u32, up: bool) {
        for port in &self.ports {
            if self.plan.topology.hosts[port.host].paths[port.path].first / 2 == link {
                if let Some(switch) = &mut self.switches[port.host] {
                    switch.set_up(port.path, up);
                }
                let on = libc::c_int::from(up);
                // SAFETY: the descriptor is a TUN device's, the flag lives through the call.
                let done = unsafe { libc::ioctl(port.device.as_raw_fd(), TUNSETCARRIER, &on) };
                if done != 0 {
                    let why = format!("a carrier cannot be set: {}", io::Error::last_os_error());
                    self.notifier.send(Notification::Broken(why));
                }
            }
        }
    }

    fn sample(&mut self, now: Instant) {
        for n in 0..self.links.len() {
            let wire = &mut self.links[n];
            let (backlog, stats) = (wire.link.backlog(now), wire.link.stats(now));
            let sample = LinkSample {
                queued_bytes: backlog.bytes,
                queued_packets: backlog.packets,
                delivered: stats.delivered.packets,
                delivered_bytes: stats.delivered.bytes,
                lost: lost(&stats, wire.too_long),
            };
            self.notifier.try_send(Notification::Link(now, LinkIdx(n as u32), sample));
        }
    }

    /// Waits for a packet to come or to be due; whether to end.
    fn sleep(&mut self) -> io::Result<bool> {
        let due = self.links.iter().filter_map(|wire| wire.link.next_event());
        let planned = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let due = due.chain(planned).chain(self.next_sample).min();
        let mut fds = Vec::with_capacity(1 + self.ports.len());
        fds.push(PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN));
        for port in &self.ports {
            // SAFETY: the descriptor belongs to the device, which outlives this call.
            let fd = unsafe { BorrowedFd::borrow_raw(port.device.as_raw_fd()) };
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        wait(self.clock, due, &mut fds)
    }
}

/// Packets that a link direction has lost, for whatever reason.
pub(crate) fn lost(stats: &LinkStats, too_long: u64) -> u64 {
    stats.dropped.packets + stats.lost.packets + stats.cut.packets + too_long
}
