//! Flows as the threads of a lab share them: the application of each, and what a host has to do
//! for it at which time.

use crate::notification::{Notification, Notifier};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Instant};
use tabane_sim::Plan;
use tabane_sim::app::{App, Role};
use tabane_sim::scenario::{Change, FlowDirection, Scenario};
use tabane_sim::seed::Seed;
use tabane_trace::observe::FlowIdx;

pub(crate) struct Flow {
    pub(crate) idx: FlowIdx,
    pub(crate) name: String,
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// Where the server listens.
    pub(crate) port: u16,
    pub(crate) start: Instant,
    stop: Option<Instant>,
    /// The client is the sink.
    download: bool,
    app: Mutex<App>,
    /// Complete or failed.
    over: AtomicBool,
}

/// First port that flows connect to; a port a flow, per server. As in the simulator.
const FIRST_PORT: u16 = 5_001;

impl Flow {
    /// All flows of a scenario, in the simulator's order and with its names.
    pub(crate) fn all(plan: &Plan) -> Result<Vec<Self>, String> {
        let Plan { scenario, topology, .. } = plan;
        let mut flows = Vec::new();
        let mut ports: BTreeMap<usize, u16> = BTreeMap::new();
        for (n, spec) in scenario.flow.iter().enumerate() {
            let host = |name: &str| topology.host(name).ok_or(format!("no host '{name}'"));
            let (client, server) = (host(&spec.from)?, host(&spec.to)?);
            for (k, name) in spec.names_at(n).enumerate() {
                let port = ports.entry(server).or_insert(FIRST_PORT);
                let own = *port;
                *port = port.checked_add(1).ok_or(format!("too many flows to '{}'", spec.to))?;
                let rng = Seed(scenario.seed).stream(&format!("flow/{name}"));
                let app = App::new(spec, flows.len() as u64, scenario.verify, rng);
                flows.push(Self {
                    idx: FlowIdx(flows.len() as u32),
                    name,
                    client,
                    server,
                    port: own,
                    start: Instant::ZERO + spec.start.0 + spec.stagger.0 * k as u64,
                    stop: spec.stop.map(|stop| Instant::ZERO + stop.0),
                    download: spec.direction != FlowDirection::Upload,
                    app: Mutex::new(app),
                    over: AtomicBool::new(false),
                });
            }
        }
        Ok(flows)
    }

    /// What a host is in it.
    pub(crate) fn role(&self, host: usize) -> Role {
        if self.download == (host == self.client) { Role::Sink } else { Role::Source }
    }

    /// The receiving host.
    pub(crate) fn sink(&self) -> usize {
        if self.download { self.client } else { self.server }
    }

    pub(crate) fn app(&self) -> MutexGuard<'_, App> {
        self.app.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends, once, that everything was delivered, if it was.
    pub(crate) fn notify_if_complete(
        &self,
        notifier: &Notifier,
        app: &App,
        info: impl FnOnce() -> Info,
    ) {
        if let Some(at) = app.completed()
            && !self.over.swap(true, Ordering::Relaxed)
        {
            notifier.send(Notification::Completed(at, self.idx, Box::new(info())));
        }
    }

    /// Sends, once, that it failed.
    pub(crate) fn fail(&self, notifier: &Notifier, why: String) {
        if !self.over.swap(true, Ordering::Relaxed) {
            notifier.send(Notification::Failed(self.idx, why));
        }
    }
}

/// Something that a host does at a time; of one moment in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Action {
    /// A change of the scenario: one of its links loses its carrier, or has it again.
    Carrier(usize),
    /// It opens a flow's connection.
    Start(usize),
    /// A flow's application stops.
    Stop(usize),
    /// A flow's application wanted to be called.
    Tick(usize),
    /// A change of the scenario: of the host's own.
    Change(usize),
    /// It tells how its connections are.
    Sample,
}

/// What a host has to do, and when.
#[derive(Debug)]
pub(crate) struct Agenda {
    entries: BTreeSet<(Instant, Action)>,
    sample: Option<Duration>,
}

impl Agenda {
    /// Starts, stops, changes and samples of a host.
    pub(crate) fn new(plan: &Plan, host: usize, flows: &[Flow], sample: Option<Duration>) -> Self {
        let mut entries = BTreeSet::new();
        for (n, flow) in flows.iter().enumerate() {
            if flow.client == host {
                entries.insert((flow.start, Action::Start(n)));
            }
            if let Some(at) = flow.stop.filter(|_| [flow.client, flow.server].contains(&host)) {
                entries.insert((at, Action::Stop(n)));
            }
        }
        for (n, change) in plan.scenario.at.iter().enumerate() {
            let at = Instant::ZERO + change.time.0;
            if change.host.as_ref().is_some_and(|name| plan.topology.host(name) == Some(host)) {
                entries.insert((at, Action::Change(n)));
            } else if let Some((link, _)) = carrier(change)
                && attached(plan, host, link).next().is_some()
            {
                entries.insert((at, Action::Carrier(n)));
            }
        }
        entries.extend(sample.map(|_| (Instant::ZERO, Action::Sample)));
        Self { entries, sample }
    }

    /// What is due; what comes again is planned again.
    pub(crate) fn due(&mut self, now: Instant, scenario: &Scenario) -> Option<Action> {
        let (at, action) = *self.entries.first().filter(|(at, _)| *at <= now)?;
        self.entries.pop_first();
        let again = match action {
            Action::Sample => self.sample.map(|interval| now + interval),
            Action::Carrier(n) | Action::Change(n) => {
                scenario.at[n].every.map(|every| at + every.0)
            }
            _ => None,
        };
        self.entries.extend(again.map(|at| (at, action)));
        Some(action)
    }

    pub(crate) fn plan(&mut self, at: Option<Instant>, action: Action) {
        self.entries.extend(at.map(|at| (at, action)));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.entries.first().map(|(at, _)| *at)
    }
}

/// The link whose carrier a change takes away or gives back, as the hosts at it see, and which.
pub(crate) fn carrier(change: &Change) -> Option<(&str, bool)> {
    let link = change.down.as_ref().or(change.up.as_ref()).filter(|_| !change.silent)?;
    Some((link, change.up.is_some()))
}

/// The paths of a host that begin at a link.
pub(crate) fn attached<'a>(
    plan: &'a Plan,
    host: usize,
    link: &str,
) -> impl Iterator<Item = usize> + use<'a> {
    let link = plan.scenario.link.position(link);
    let paths = plan.topology.hosts[host].paths.iter().enumerate();
    paths.filter(move |(_, path)| Some(path.first as usize / 2) == link).map(|(n, _)| n)
}
