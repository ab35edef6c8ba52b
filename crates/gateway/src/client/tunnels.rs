//! The paths of a client: a UDP port, a WireGuard session and a watch over both for each.
//!
//! A path without an interface, an address or an answer is no error: it is tried again, and the
//! others go on.

mod reach;
mod tunnel;

pub(super) use reach::PATIENCE;

use super::host::HostSide;
use super::{ClientError, setup};
use crate::address::{ClientNumber, Network, PATHS_MAX};
use crate::bond::Counters;
use crate::config::{ClientConfig, Configuration, PathChange, PathConfig, ServerEntry};
use crate::index::PathIndex;
use crate::keys::{Key, KeyError};
use crate::model::Role;
use crate::path::{
    Absence, Announcement, Decision, Demand, Ends, Found, INTERVAL, LinkState, Links, Monitor,
    MonitorConfig, PathEvent, Reports, Shaper, Use, first_seq,
};
use crate::reactor::{EventSource, follow_port};
use mio::Registry;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tabane_engine::{Duration, Instant};
use tabane_net::wireguard::{Batch, FourTuple, Opened, Session, UdpPort};

pub(super) struct Tunnels {
    all: Vec<Tunnel>,
    maker: Maker,
    /// Where the server in use is, by preference.
    addresses: Vec<SocketAddr>,
    batch: Batch,
    /// Where datagrams are opened.
    opened: Vec<u8>,
    events: VecDeque<(PathIndex, PathEvent)>,
    registry: Registry,
    /// The host's interfaces, if they can be followed.
    links: Option<Links>,
}

/// What all paths are made with.
struct Maker {
    network: Network,
    number: ClientNumber,
    /// Drawn anew by each run of the program.
    run: u32,
    mark: Option<u32>,
}

/// One path.
pub(super) struct Tunnel {
    name: String,
    config: PathConfig,
    monitor: Monitor,
    session: Session,
    /// What it carries.
    reports: Reports,
    /// Where the server is, and since when it is looked for there or has not been reached.
    remote: Option<SocketAddr>,
    since: Instant,
    port: Option<UdpPort>,
    /// Of what its port sends.
    mark: Option<u32>,
    next_open: Instant,
    /// What it is used for.
    decision: Decision,
    /// How long it takes to open a connection on it, as far as is known.
    opening_time: Duration,
    /// What waits for its turn because of the cap.
    shaper: Shaper<Vec<u8>>,
    /// It is no longer configured: until then the server is told so.
    retires: Option<Instant>,
    /// What there was below it when the host's interfaces changed last.
    found: Option<Result<Option<Found>, Absence>>,
}

/// Inner MTU before anything is known: what fits into any path that carries IPv6.
pub(super) const MTU: u16 = 1280;
/// How long the server is told that a path is no longer used before it is taken away.
const RETIRES: Duration = Duration::from_secs(1);
/// Between attempts to open a port.
const REOPEN: Duration = Duration::from_millis(500);
/// Outer MTU of a link that does not tell.
const OUTER_MTU: u32 = 1500;
/// No link to another host carries more. Loopback does (65536), where agents are tried out: there
/// packets are to be as elsewhere.
const OUTER_MTU_MAX: u32 = 9216;

/// Whether the tunnels themselves have a use for a packet that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// A report: it is to be counted only.
    Here,
    Not,
}

/// Where what the tunnels send by themselves is counted, and a buffer for it.
type Out<'a> = (&'a mut [Counters; PATHS_MAX], &'a mut [u8]);

impl Tunnels {
    /// The paths of a configuration; ports are opened by the first tick.
    ///
    /// # Errors
    /// Keys that are none.
    pub(super) fn new(
        config: &ClientConfig,
        (network, number): (Network, ClientNumber),
        (registry, links): (Registry, Option<Links>),
        now: Instant,
    ) -> Result<Self, ClientError> {
        let none = || ClientError::Config("no [[server]] is given".into());
        let server = config.server.first().ok_or_else(none)?;
        let secret = config.key()?;
        let run = crate::draw()?;
        let mark = config.device().map(HostSide::mark);
        let maker = Maker { network, number, run, mark };
        let paths = PathIndex::enumerate(&config.path);
        let all = paths.map(|(i, path)| maker.tunnel(now, path, (&secret, server), i));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            maker,
            addresses: Vec::new(),
            batch: Batch::new(),
            opened: vec![0; 65_536],
            events: VecDeque::new(),
            registry,
            links,
        })
    }

    /// The path's name; what is left of one that has been taken away may still be shown.
    pub(super) fn name(&self, path: PathIndex) -> &str {
        self.all.get(path.get()).map_or("gone", |tunnel| &tunnel.name)
    }

    /// Largest inner packet of a path.
    pub(super) fn mtu(&self, path: PathIndex) -> u16 {
        self.all.get(path.get()).map_or(MTU, |tunnel| tunnel.monitor.mtu())
    }

    /// All of them, in the order of the configuration.
    pub(super) fn all(&self) -> &[Tunnel] {
        &self.all
    }

    /// The path of that name.
    pub(super) fn find(&self, name: &str) -> Option<PathIndex> {
        self.indices().find(|path| self.all[*path].name == name)
    }

    /// The path on which a connection begins: of those that are used, among the most wanted the one
    /// on which it is expected to be open first.
    pub(super) fn best(&self) -> Option<PathIndex> {
        let low = |tunnel: &Tunnel| tunnel.decision.using != Use::Active;
        let rank = |tunnel: &Tunnel| (low(tunnel), tunnel.config.role as u8, tunnel.opening_time);
        let usable = self.indices().filter(|&path| self.all[path].carries());
        usable.min_by_key(|&path| rank(&self.all[path]))
    }

    /// What each path carries.
    pub(super) fn reports_mut(&mut self) -> impl Iterator<Item = (PathIndex, &mut Reports)> {
        PathIndex::enumerate(&mut self.all).map(|(path, tunnel)| (path, &mut tunnel.reports))
    }

    /// The paths that work and are not kept back; if there are none, those that work at all.
    pub(super) fn active(&self) -> Vec<PathIndex> {
        let all: Vec<_> = self.indices().filter(|&path| self.all[path].carries()).collect();
        let wanted = |path: &PathIndex| self.all[*path].decision.using == Use::Active;
        let active: Vec<_> = all.iter().copied().filter(wanted).collect();
        if active.is_empty() { all } else { active }
    }

    /// Uses the paths as was decided, and tells the server; those whose use has changed, and what
    /// it was before.
    pub(super) fn obey(
        &mut self,
        now: Instant,
        (open, takes_roles): (bool, bool),
        decisions: Vec<Decision>,
    ) -> Vec<(PathIndex, Use)> {
        let mut changed = Vec::new();
        for (path, (tunnel, decision)) in PathIndex::enumerate(self.all.iter_mut().zip(decisions)) {
            // A dead path is looked for as often as one that is missed.
            let standby = decision.standby && tunnel.monitor.is_up();
            let demand = Demand { open, standby, alone: decision.alone };
            tunnel.monitor.handle_demand(now, demand);
            let announcement = Announcement {
                role: tunnel.config.role,
                using: decision.using,
                cap_bps: tunnel.config.cap_down.map(|cap| cap.0),
                takes_roles,
            };
            tunnel.monitor.handle_announcement(now, announcement);
            if tunnel.decision.using != decision.using {
                changed.push((path, tunnel.decision.using));
            }
            tunnel.decision = decision;
            tunnel.opening_time = tunnel.find_opening_time(now);
        }
        self.collect_all();
        changed
    }

    /// Large packets may be getting lost on a path.
    pub(super) fn suspect_mtu(&mut self, now: Instant, path: PathIndex) {
        if let Some(tunnel) = self.all.get_mut(path.get()) {
            tunnel.monitor.suspect_mtu(now);
        }
    }

    /// Takes in what has changed below the paths: those whose interface or address has gone are
    /// closed, those that have another one are opened anew.
    pub(super) fn follow(&mut self, now: Instant) {
        if let Some(links) = &mut self.links {
            links.poll();
        }
        self.choose_addresses(now);
        let Some(links) = &mut self.links else { return };
        for (path, tunnel) in PathIndex::enumerate(&mut self.all) {
            let Some(remote) = tunnel.remote else { continue };
            let found = links.find(&tunnel.binding(remote));
            if tunnel.found.as_ref() == Some(&found) {
                continue;
            }
            tunnel.close(&self.registry);
            if let Err(absence) = &found {
                tunnel.monitor.handle_link(now, LinkState::Absent(absence.clone()));
            }
            tunnel.found = Some(found);
            if tunnel.may_open() {
                tunnel.next_open = now + REOPEN;
                tunnel.open(now, path, &self.registry);
            }
        }
        self.collect_all();
    }

    /// Takes a batch of what has come by a path, inner packets to `take`; whether there is more.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        path: PathIndex,
        mut take: impl FnMut(&[u8], Taken),
    ) -> bool {
        let Self { all, batch, opened, .. } = self;
        let Some(tunnel) = all.get_mut(path.get()) else { return false };
        let Some(port) = &mut tunnel.port else { return false };
        for _ in 0..crate::RECEIVE_CALLS {
            match port.recv(batch) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    tunnel.lose(now, &self.registry, error.to_string());
                    return false;
                }
            }
            for (four_tuple, datagram) in batch.datagrams() {
                match tunnel.session.open(Some(four_tuple.remote.ip()), datagram, opened) {
                    Opened::Packet { len, .. } => {
                        tunnel.monitor.handle_heard(now);
                        let packet = &opened[..len];
                        let received = tunnel::received(&tunnel.session);
                        match tunnel.reports.handle_packet(now, packet, received) {
                            true => take(packet, Taken::Here),
                            false => take(packet, Taken::Not),
                        }
                    }
                    Opened::Reply(len) => {
                        answer(port, four_tuple, &opened[..len]);
                        tunnel.monitor.handle_heard(now);
                        tunnel.monitor.handle_session(now, tunnel.session.has_keys());
                        while let Some(len) = tunnel.session.pending(opened) {
                            answer(port, four_tuple, &opened[..len]);
                        }
                    }
                    Opened::Keepalive => tunnel.monitor.handle_heard(now),
                    Opened::Cookie | Opened::Bad(_) => {}
                }
            }
            if batch.took_all() {
                return false;
            }
        }
        true
    }

    /// Where paths find the server, or may.
    pub(super) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let own = self.all.iter().filter_map(|tunnel| tunnel.remote);
        own.chain(self.addresses.iter().copied())
    }

    /// Where the server in use is.
    pub(super) fn server(&self) -> Option<SocketAddr> {
        self.all.iter().find_map(|tunnel| tunnel.remote)
    }

    /// Paths of a configuration that has changed; `server` is the one in use. A path that is gone
    /// stays for [`RETIRES`], unused, so that the server hears of it.
    ///
    /// # Errors
    /// Keys that are none.
    pub(super) fn reload(
        &mut self,
        now: Instant,
        (new, server): (&ClientConfig, &ServerEntry),
        changes: &[(PathIndex, PathChange)],
    ) -> Result<(), KeyError> {
        for (path, change) in changes.iter().copied() {
            match (change, self.all.get_mut(path.get()), new.path.get(path.get())) {
                (PathChange::Removed, Some(tunnel), _) => {
                    tunnel.config.role = Role::Never;
                    tunnel.retires = Some(now + RETIRES);
                }
                (PathChange::Added, None, Some(config)) => {
                    let secret = new.key()?;
                    let mut tunnel = self.maker.tunnel(now, config, (&secret, server), path)?;
                    tunnel.remote = config.remote.or(self.addresses.first().copied());
                    self.all.push(tunnel);
                }
                (_, Some(tunnel), Some(config)) => {
                    tunnel.config = config.clone();
                    tunnel.name = config.label().to_owned();
                    tunnel.shaper.set_rate(now, config.cap_up.map(|cap| cap.0));
                    tunnel.monitor.handle_config(now, probe_interval(config), config.mtu);
                    tunnel.retires = None;
                    if change != PathChange::Adjusted {
                        tunnel.lose(now, &self.registry, "it is being moved".into());
                        (tunnel.next_open, tunnel.found) = (now, None);
                        tunnel.remote = config.remote.or(self.addresses.first().copied());
                    }
                }
                // Paths are told apart by their place: what is added follows what there is.
                _ => debug_assert!(false, "no such change: {change:?} of path {path}"),
            }
        }
        // What was set while it ran ends with this, also where the file has not changed.
        for (tunnel, config) in self.all.iter_mut().zip(&new.path) {
            if tunnel.retires.is_none() && tunnel.config != *config {
                tunnel.config = config.clone();
                tunnel.shaper.set_rate(now, config.cap_up.map(|cap| cap.0));
            }
        }
        Ok(())
    }

    /// Takes away paths that have been gone for long enough; they are the last ones. Which.
    pub(super) fn retire(&mut self, now: Instant) -> Vec<PathIndex> {
        let mut gone = Vec::new();
        while let Some(mut tunnel) =
            self.all.pop_if(|tunnel| tunnel.retires.is_some_and(|at| at <= now))
        {
            tunnel.close(&self.registry);
            gone.push(PathIndex::new(self.all.len()));
        }
        self.events.retain(|(path, _)| !gone.contains(path));
        gone
    }

    /// Which of its lives the server said last on a path that this is.
    pub(super) fn life(&self, path: PathIndex) -> Option<u32> {
        self.all.get(path.get())?.monitor.far()?.life
    }

    /// Whether any path works.
    pub(super) fn any_up(&self) -> bool {
        self.all.iter().any(|tunnel| tunnel.monitor.is_up())
    }

    /// Another server: new tunnels.
    pub(super) fn set_server(
        &mut self,
        now: Instant,
        secret: &Key,
        server: &ServerEntry,
    ) -> Result<(), KeyError> {
        for (i, tunnel) in PathIndex::enumerate(&mut self.all) {
            tunnel.session = setup::session(secret, server, i)?;
            tunnel.reports.restart();
            tunnel.monitor.handle_session(now, false);
        }
        Ok(())
    }

    /// What a path may be used for from now on.
    pub(super) fn set_role(&mut self, path: PathIndex, role: Role) {
        self.all[path].config.role = role;
    }

    /// How fast a path may be used from now on, in each direction.
    pub(super) fn set_cap(&mut self, now: Instant, path: PathIndex, cap_bps: Option<u64>) {
        let tunnel = &mut self.all[path];
        let cap = cap_bps.map(tabane_config::quantity::Rate);
        (tunnel.config.cap_up, tunnel.config.cap_down) = (cap, cap);
        tunnel.shaper.set_rate(now, cap_bps);
    }

    /// Whether a packet was the answer to a probe.
    pub(super) fn take_probe(&mut self, now: Instant, path: PathIndex, packet: &[u8]) -> bool {
        let Some(tunnel) = self.all.get_mut(path.get()) else { return false };
        let taken = tunnel.monitor.handle_packet(now, packet);
        self.collect(path);
        taken
    }

    /// Seals an inner packet and queues it, now or when the path's cap allows it; whether it was
    /// taken.
    pub(super) fn send(&mut self, now: Instant, path: PathIndex, packet: &[u8]) -> bool {
        let Some(tunnel) = self.all.get_mut(path.get()) else { return false };
        if tunnel.decision.using == Use::Unused {
            return false;
        }
        if tunnel.shaper.pass(now, packet.len()) {
            let taken = tunnel.carry(now, packet);
            if !taken {
                self.collect(path);
            }
            return taken;
        }
        tunnel.shaper.push(packet.to_vec(), packet.len()).is_ok()
    }

    /// Sends what is queued, and behind it the reports that are due.
    pub(super) fn flush(&mut self, now: Instant, (counters, scratch): Out<'_>) {
        for (at, tunnel) in self.all.iter_mut().enumerate() {
            if let Some((len, taken)) = tunnel.report(now, scratch) {
                counters[PathIndex::new(at)].sent(len, taken);
            }
            if let Some(port) = &mut tunnel.port
                && port.has_queued()
            {
                let flushed = port.flush();
                follow_port(&self.registry, port, EventSource::Port(at));
                if let Err(error) = flushed {
                    tunnel.lose(now, &self.registry, error.to_string());
                }
            }
            tunnel.hear_too_big(now);
        }
        self.collect_all();
    }

    /// Probes and handshakes that are due, and what has waited because of a cap.
    pub(super) fn on_timeout(&mut self, now: Instant, (counters, scratch): Out<'_>) {
        for path in self.indices() {
            let tunnel = &mut self.all[path];
            while let Some(packet) = tunnel.shaper.pop(now) {
                tunnel.carry(now, &packet);
            }
            if tunnel.monitor.poll_timeout() > now {
                self.collect(path);
                continue;
            }
            tunnel.monitor.handle_timeout(now);
            while let Some(len) = tunnel.monitor.poll_probe(now, scratch) {
                let taken = tunnel.send(&scratch[..len]);
                counters[path].sent(len, taken);
            }
            if tunnel.monitor.poll_handshake(now)
                && let (Some(port), Some(remote)) = (&mut tunnel.port, tunnel.remote)
                && let Some(len) = tunnel.session.handshake(scratch, true)
            {
                answer(port, &FourTuple::to(remote), &scratch[..len]);
            }
            self.collect(path);
        }
    }

    /// When `on_timeout` wants to be called.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = |tunnel: &Tunnel| {
            let probe = tunnel.monitor.poll_timeout();
            let report = tunnel.reports.poll_timeout();
            [tunnel.shaper.next_event(), report].into_iter().flatten().fold(probe, Instant::min)
        };
        self.all.iter().map(due).min()
    }

    /// What happened to a path.
    pub(super) fn poll_event(&mut self) -> Option<(PathIndex, PathEvent)> {
        self.events.pop_front()
    }

    /// Keys that age, ports that are missing.
    pub(super) fn tick(&mut self, now: Instant, scratch: &mut [u8]) {
        self.follow(now);
        for (path, tunnel) in PathIndex::enumerate(&mut self.all) {
            if now >= tunnel.next_open && tunnel.may_open() {
                tunnel.next_open = now + REOPEN;
                tunnel.open(now, path, &self.registry);
            }
            tunnel.monitor.handle_session(now, tunnel.session.has_keys());
            let (Some(port), Some(remote)) = (&mut tunnel.port, tunnel.remote) else { continue };
            if let Some(len) = tunnel.session.on_timer(scratch) {
                answer(port, &FourTuple::to(remote), &scratch[..len]);
            }
        }
        self.collect_all();
    }

    fn indices(&self) -> impl Iterator<Item = PathIndex> + use<> {
        PathIndex::first(self.all.len())
    }

    fn collect_all(&mut self) {
        self.indices().for_each(|path| self.collect(path));
    }

    fn collect(&mut self, path: PathIndex) {
        while let Some(event) = self.all[path].monitor.poll_event() {
            self.events.push_back((path, event));
        }
    }
}

impl Maker {
    fn tunnel(
        &self,
        now: Instant,
        path: &PathConfig,
        (secret, server): (&Key, &ServerEntry),
        index: PathIndex,
    ) -> Result<Tunnel, KeyError> {
        let Self { network, number, run, mark } = self;
        let config = monitor_config(path, (network, *number), index, *run);
        // Its counters begin anew: the path may have been there before, in this run too.
        let reports = Reports::new(config.ends, false, run.wrapping_add(first_seq(now)));
        Ok(Tunnel {
            name: path.label().to_owned(),
            config: path.clone(),
            monitor: Monitor::new(now, config),
            reports,
            session: setup::session(secret, server, index)?,
            remote: None,
            since: now,
            port: None,
            mark: *mark,
            next_open: now,
            decision: unused(),
            opening_time: Duration::MAX,
            shaper: Shaper::new(path.cap_up.map(|cap| cap.0)),
            retires: None,
            found: None,
        })
    }
}

/// Of a path that nothing has been decided about yet.
fn unused() -> Decision {
    let reason = "not set up yet".into();
    Decision { using: Use::Unused, reason, standby: false, alone: false }
}

fn monitor_config(
    path: &PathConfig,
    (network, number): (&Network, ClientNumber),
    index: PathIndex,
    run: u32,
) -> MonitorConfig {
    MonitorConfig {
        ends: Ends { path: network.path(number, index)[0], service: network.service()[0] },
        path: index.id(),
        run,
        interval: probe_interval(path),
        mtu: path.mtu,
    }
}

fn probe_interval(path: &PathConfig) -> Duration {
    path.probe.map_or(INTERVAL, |probe| probe.0)
}

fn answer(port: &mut UdpPort, four_tuple: &FourTuple, datagram: &[u8]) {
    port.queue(four_tuple, datagram.len(), |out| {
        out.copy_from_slice(datagram);
        datagram.len()
    });
}
