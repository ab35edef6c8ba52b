//! The event loop: hosts, links and the order in which things happen to them.
//!
//! One event per packet and hop: its arrival at the far end of a link. Links keep their packets
//! in order, so that only their earliest arrival is in the schedule. A host's engine is asked for
//! segments after something happened to it, never otherwise.

mod change;
mod drive;
mod host;
mod partition;
pub(crate) mod ports;
mod proxy;
mod report;
mod tunnel;

use crate::app::{App, Role};
use crate::link::{Link, Lost};
use crate::observe::{CapturePoint, FlowIdx, Layout, LinkIdx, Observer, Wants};
use crate::packet::{Carried, Held, Packet, Pool};
use crate::plan::{LinkPlan, Plan};
use crate::result::{FlowResult, RunResult};
use crate::scenario::{Fault, FlowDirection, LinkParams, Scenario};
use crate::schedule::Schedule;
use crate::seed::Seed;
use crate::topology::{Hop, Topology};
pub use change::change_connection;
pub use host::engine_config;
use host::{HostState, Roles};
use partition::Progress;
use ports::Ports;
use proxy::RelayState;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tabane_engine::policy::PolicyError;
use tabane_engine::record::CloseReason;
use tabane_engine::view::PathSet;
use tabane_engine::{ConnId, Duration, Instant};
use thiserror::Error;
use tunnel::TunnelState;

/// Why a run could not be made, or had to be broken off.
#[derive(Error, Clone, PartialEq, Debug)]
pub enum RunError {
    /// The scenario is wrong (those from [`crate::scenario::Document`] are checked already).
    #[error("{0}")]
    Scenario(String),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Events without end at one moment: a fault of the engine or of a policy.
    #[error("no progress at {0} s: {1}")]
    Livelock(f64, &'static str),
    /// An observer broke it off.
    #[error("broken off at {0} s")]
    Stopped(f64),
}

impl From<Fault> for RunError {
    fn from(fault: Fault) -> Self {
        Self::Scenario(fault.message)
    }
}

/// Runs a scenario.
///
/// # Errors
/// [`RunError`].
pub fn run(plan: &Plan, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
    World::new(plan, observer)?.run()
}

/// A world, ready to run.
pub struct World<'o> {
    now: Instant,
    end: Instant,
    scenario: &'o Scenario,
    topology: &'o Topology,
    schedule: Schedule,
    /// Starts, stops, changes, application timers: few, and none per packet.
    agenda: Agenda,
    /// Entries of the agenda so far.
    entries: u64,
    progress: Progress,
    links: Vec<LinkState>,
    hosts: Vec<HostState>,
    /// Until when each of them stands still.
    asleep: Vec<Instant>,
    flows: Vec<FlowState>,
    tunnels: Vec<TunnelState>,
    ports: Ports,
    /// Flows that have still something to do.
    remaining: usize,
    pool: Pool,
    /// What leaves a host just now as one super-packet, and by which paths.
    held: (PathSet, Held),
    observer: &'o mut dyn Observer,
    wants: Wants,
    watched: bool,
    hops: u64,
    /// An observer has had enough.
    stopped: bool,
    unroutable: u64,
    /// Events at `now`.
    idle_events: u32,
    buffer: Vec<u8>,
}

struct LinkState {
    link: Link<Packet>,
    /// What it is made from, with the changes so far.
    params: LinkParams,
    mtu: u32,
    /// Packets longer than `mtu`.
    too_long: u64,
}

/// A flow and its two connections.
struct FlowState {
    name: String,
    app: App,
    client: usize,
    server: usize,
    port: u16,
    start: Instant,
    started: bool,
    /// The client is the sink.
    download: bool,
    client_conn: Option<ConnId>,
    server_conn: Option<ConnId>,
    /// Proxies on the way, from the client on.
    relays: Vec<RelayState>,
    /// The server does not accept it.
    refuse: bool,
    done: bool,
    /// It is done, and none of its connections is there any more.
    gone: bool,
    failed: Option<String>,
    /// How the connections of source and sink ended.
    closed: [Option<CloseReason>; 2],
    /// Taken when it completed. Boxed, as what else is rare: a flow is touched with every packet.
    result: Option<Box<FlowResult>>,
}

type Agenda = BinaryHeap<Reverse<Entry>>;

/// An action by time and, at equal times, by rank and age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: Instant,
    rank: Rank,
    age: u64,
    action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// Changes of links: who opens a connection knows what links of that moment are like.
    Links,
    Other,
}

/// Something on the agenda. The order of variants has no meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Action {
    Start(u32),
    Stop(u32),
    Tick(u32),
    Change(u32),
    Tunnel(u32),
    Sample,
    Progress,
}

/// Why a host's packet did not go in: longer than its path carries.
pub(crate) const TOO_LONG: &str = "too long";
/// The agenda is source 0 of the schedule: changes come before packets of the same moment.
const AGENDA: usize = 0;
/// How many packets before its arrival a host is told of a segment.
const AHEAD: usize = 4;
/// Events at one moment that are beyond any use.
const MAX_IDLE_EVENTS: u32 = 2_000_000;

impl<'o> World<'o> {
    /// Makes everything; nothing has happened yet.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn new(plan: &'o Plan, observer: &'o mut dyn Observer) -> Result<Self, RunError> {
        let (scenario, topology) = (&*plan.scenario, &*plan.topology);
        let wants = observer.wants();
        let seed = Seed(scenario.seed);
        let links = make_links(plan)?;
        let roles = Roles::of(scenario, topology);
        let hosts = (0..topology.hosts.len())
            .map(|n| HostState::new(scenario, topology, &roles, n, &*observer))
            .collect::<Result<Vec<_>, _>>()?;
        let (flows, ports) = make_flows(scenario, topology, seed)?;
        let legs = flows.iter().map(|flow| 1 + flow.relays.len()).sum::<usize>();
        let tunnels = tunnel::tunnels(scenario, topology, legs as u32);
        let mut world = Self {
            now: Instant::ZERO,
            end: Instant::ZERO + scenario.duration.0,
            schedule: Schedule::new(1 + links.len() + hosts.len()),
            agenda: Agenda::new(),
            entries: 0,
            progress: Progress::WHOLE,
            links,
            asleep: vec![Instant::ZERO; hosts.len()],
            hosts,
            ports,
            tunnels,
            remaining: flows.len(),
            flows,
            pool: Pool::default(),
            held: (PathSet::default(), Held::default()),
            observer,
            wants,
            watched: wants.packets,
            hops: 0,
            stopped: false,
            unroutable: 0,
            idle_events: 0,
            buffer: vec![0; 1 << 16],
            scenario,
            topology,
        };
        world.fill_agenda();
        Ok(world)
    }

    /// Names behind the numbers that observers get.
    pub fn layout(&self) -> Layout {
        report::layout(self.scenario, self.topology, &self.flows, self.end)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`RunError::Livelock`], [`RunError::Stopped`].
    pub fn run(mut self) -> Result<RunResult, RunError> {
        self.begin();
        if !self.run_apart()? {
            self.run_flows(0)?;
        }
        Ok(self.finish())
    }

    /// Runs until all flows but so many have nothing more to do, and whoever closes has closed, or
    /// to the end of time; returns the event at which it stopped.
    fn run_flows(&mut self, but: usize) -> Result<(Instant, usize), RunError> {
        let mut next = (self.now, AGENDA);
        while self.remaining > but || (self.scenario.closing && self.is_open()) {
            next = self.schedule.first();
            if next.0 > self.end {
                self.now = self.end;
                break;
            }
            self.step(next.0, next.1)?;
            if self.stopped {
                let shown = self.progress.show(self.now, self.end);
                return Err(RunError::Stopped(shown.as_secs_f64()));
            }
        }
        Ok(next)
    }

    /// Whether a node that is not gone for good has connections.
    fn is_open(&self) -> bool {
        let mut nodes = self.hosts[..self.topology.first_end()].iter().zip(&self.asleep);
        nodes.any(|(node, asleep)| *asleep <= self.end && node.endpoint.connections() > 0)
    }

    // Calls for each event, here and below, would cost some hundredths of a packet-hop.
    #[inline(always)]
    fn step(&mut self, time: Instant, source: usize) -> Result<(), RunError> {
        if time > self.now {
            self.now = time;
            self.idle_events = 0;
        } else {
            self.idle_events += 1;
            if self.idle_events > MAX_IDLE_EVENTS {
                let what = match source {
                    AGENDA => "the agenda",
                    s if s <= self.links.len() => "a link",
                    _ => "timers of a host",
                };
                return Err(RunError::Livelock(self.now.as_secs_f64(), what));
            }
        }
        if source == AGENDA {
            self.act();
        } else if source <= self.links.len() {
            self.drain_link(source - 1);
        } else {
            let host = source - 1 - self.links.len();
            self.hosts[host].endpoint.handle_timeout(self.now);
            self.flush(host);
        }
        Ok(())
    }

    /// Takes what has arrived at the end of a link direction.
    #[inline(always)]
    fn drain_link(&mut self, link: usize) {
        loop {
            let Some(packet) = self.links[link].link.pop(self.now) else {
                self.reschedule(link);
                return;
            };
            self.hops += 1;
            self.forward(link, packet);
            if self.reschedule(link) > self.now {
                return;
            }
        }
    }

    /// Moves a packet that a link has brought to the next hop of its route.
    #[inline(always)]
    fn forward(&mut self, link: usize, mut packet: Packet) {
        packet.advance();
        match self.topology.hop(packet.cursor()) {
            Hop::Link(next) => self.enter(next as usize, packet),
            Hop::Arrive(host, path) => {
                self.look_ahead(link, host as usize);
                self.deliver(host as usize, path, packet);
            }
        }
    }

    /// Tells the host at the end of a link which segments come next, so that what they need is
    /// in the caches by then.
    #[inline]
    fn look_ahead(&mut self, link: usize, host: usize) {
        let link = &self.links[link].link;
        if let Some(packet) = link.upcoming(2 * AHEAD) {
            packet.prefetch();
        }
        if let Some(packet) = link.upcoming(AHEAD) {
            self.hosts[host].endpoint.expect(packet.segment());
        }
    }

    /// Puts a packet into a link direction.
    #[inline]
    fn enter(&mut self, link: usize, packet: Packet) {
        // Beyond the links are the tunnels.
        if link >= self.links.len() {
            return self.enter_tunnel(link, packet);
        }
        if self.watched {
            let point = CapturePoint::Link(LinkIdx(link as u32));
            self.observe(point, packet.carried());
        }
        let state = &mut self.links[link];
        if !packet.fits(state.mtu) {
            state.too_long += 1;
            if self.watched {
                self.observer.lost(LinkIdx(link as u32), self.now, "mtu", packet.segment());
            }
            self.pool.recycle(packet.into_carried());
            return;
        }
        state.link.push(self.now, packet);
        self.reschedule(link);
    }

    /// Shows an observer what passes.
    #[cold]
    #[inline(never)]
    fn observe(&mut self, point: CapturePoint, carried: &Carried) {
        for segment in carried.segments() {
            self.observer.packet(point, self.now, segment);
        }
    }

    /// Notes when a link direction has something to do next, and returns that.
    #[inline(always)]
    fn reschedule(&mut self, link: usize) -> Instant {
        if self.links[link].link.has_losses() {
            self.report_losses(link);
        }
        let next = self.links[link].link.next_event().unwrap_or(Instant::FAR_FUTURE);
        self.schedule.set(1 + link, next);
        next
    }

    /// Takes what a link direction has lost.
    #[cold]
    #[inline(never)]
    fn report_losses(&mut self, link: usize) {
        while let Some(lost) = self.links[link].link.poll_loss() {
            self.lose(link, lost);
        }
    }

    /// A link direction has lost a packet.
    #[cold]
    #[inline(never)]
    fn lose(&mut self, link: usize, lost: Lost<Packet>) {
        if self.watched {
            let (idx, cause) = (LinkIdx(link as u32), lost.cause.as_str());
            for segment in lost.packet.carried().segments() {
                self.observer.lost(idx, lost.at, cause, segment);
            }
        }
        self.pool.recycle(lost.packet.into_carried());
    }

    /// Puts something on the agenda.
    fn plan(&mut self, at: Instant, action: Action) {
        self.entries += 1;
        let rank = match action {
            Action::Change(n) if self.scenario.at[n as usize].host.is_none() => Rank::Links,
            _ => Rank::Other,
        };
        self.agenda.push(Reverse(Entry { at: at.max(self.now), rank, age: self.entries, action }));
        self.reschedule_agenda();
    }

    fn reschedule_agenda(&mut self) {
        let next = self.agenda.peek().map_or(Instant::FAR_FUTURE, |Reverse(entry)| entry.at);
        self.schedule.set(AGENDA, next);
    }

    fn fill_agenda(&mut self) {
        for n in 0..self.flows.len() {
            self.plan(self.flows[n].start, Action::Start(n as u32));
        }
        let mut n = 0;
        for spec in 0..self.scenario.flow.len() {
            let (stop, count) = (self.scenario.flow[spec].stop, self.scenario.flow[spec].count);
            for _ in 0..count {
                if let Some(stop) = stop {
                    self.plan(Instant::ZERO + stop.0, Action::Stop(n));
                }
                n += 1;
            }
        }
        for (n, change) in self.scenario.at.iter().enumerate() {
            self.plan(Instant::ZERO + change.time.0, Action::Change(n as u32));
        }
        if self.wants.sample.is_some() {
            self.plan(Instant::ZERO, Action::Sample);
        }
        self.plan(Instant::ZERO, Action::Progress);
    }

    /// Does what is first on the agenda.
    fn act(&mut self) {
        let Some(Reverse(Entry { action, .. })) = self.agenda.pop() else { return };
        self.reschedule_agenda();
        match action {
            Action::Start(flow) => self.start(flow as usize),
            Action::Stop(flow) => {
                let FlowState { client, server, .. } = self.flows[flow as usize];
                let awake = self.asleep[client].max(self.asleep[server]);
                if awake > self.now {
                    return self.plan(awake, action);
                }
                self.flows[flow as usize].app.stop();
                self.tick(flow as usize, Role::Source);
                self.tick(flow as usize, Role::Sink);
            }
            Action::Tick(flow) => {
                let role = self.flows[flow as usize].app.ticking_role();
                self.tick(flow as usize, role);
            }
            Action::Change(n) => self.change(n as usize),
            Action::Tunnel(n) => self.open_tunnel(n as usize),
            Action::Sample => {
                self.sample();
                let interval = self.wants.sample.unwrap_or(Duration::MAX).max(Duration(1));
                self.plan(self.now + interval, Action::Sample);
            }
            Action::Progress => {
                self.observer.progress(self.progress.show(self.now, self.end), self.end);
                self.stopped = self.observer.stops();
                self.plan(self.now + self.progress.step(self.end), Action::Progress);
            }
        }
    }
}

fn make_links(plan: &Plan) -> Result<Vec<LinkState>, RunError> {
    let mut links = Vec::with_capacity(plan.links.len());
    for pair in plan.links.as_chunks().0 {
        let made = LinkPlan::both(pair, plan.scenario.seed);
        let made = made.map_err(|error| RunError::Scenario(error.to_string()))?;
        for (mut link, direction) in made.into_iter().zip(pair) {
            link.report_losses(true);
            let (params, mtu) = (direction.params.clone(), u32::from(direction.mtu));
            links.push(LinkState { link, params, mtu, too_long: 0 });
        }
    }
    Ok(links)
}

fn make_flows(
    scenario: &Scenario,
    topology: &Topology,
    seed: Seed,
) -> Result<(Vec<FlowState>, Ports), RunError> {
    let mut flows = Vec::new();
    let mut ports = Ports::default();
    for (n, spec) in scenario.flow.iter().enumerate() {
        let nodes = spec.nodes().map(|name| topology.host(name)).collect::<Option<Vec<_>>>();
        let nodes = nodes.ok_or_else(|| RunError::Scenario("unknown host".into()))?;
        let (client, server) = (nodes[0], nodes[nodes.len() - 1]);
        for (k, name) in spec.names_at(n).enumerate() {
            let id = flows.len();
            let last = nodes.len() - 2;
            let full = || RunError::Scenario(format!("too many flows from '{}'", spec.from));
            let port = ports.assign(server, nodes[last], (id, last)).ok_or_else(full)?;
            let relays = RelayState::chain(&nodes, port, id, &mut ports).ok_or_else(full)?;
            let rng = seed.stream(&format!("flow/{name}"));
            flows.push(FlowState {
                app: App::new(spec, id as u64, scenario.verify, rng),
                name,
                client,
                server,
                port,
                start: Instant::ZERO + spec.start.0 + spec.stagger.0 * k as u64,
                started: false,
                download: spec.direction != FlowDirection::Upload,
                client_conn: None,
                server_conn: None,
                relays,
                refuse: spec.refuse,
                done: false,
                gone: false,
                failed: None,
                closed: [None; 2],
                result: None,
            });
        }
    }
    // To observers, each connection beyond a flow's first is a flow of its own, after all others.
    let legs = flows.len() as u32..;
    let relays = flows.iter_mut().flat_map(|flow| &mut flow.relays);
    relays.zip(legs).for_each(|(relay, leg)| relay.leg = FlowIdx(leg));
    Ok((flows, ports))
}

#[cfg(test)]
mod tests;
