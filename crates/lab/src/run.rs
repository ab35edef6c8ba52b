//! One run: the network is built, hosts and emulator run in threads of their own, and the thread
//! that called passes their notifications to the observer and makes the result.

use crate::accuracy::{Accuracy, LinkAccuracy};
use crate::emulator::{self, Report};
use crate::engine_host::EngineHost;
use crate::flows::{Agenda, Flow};
use crate::kernel::KernelHost;
use crate::memory::Watcher;
use crate::network::{Network, set, spawn, stop_pair};
use crate::notification::{LIMIT, Notification, Notifier};
use crate::priority;
use crate::{LabError, Stack};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tabane_engine::mptcp::Info;
use tabane_engine::{Duration, Endpoint, Instant};
use tabane_net::driver::Waker;
use tabane_net::{Clock, Driver, Path};
use tabane_sim::observe::{FlowIdx, HostIdx, Layout, Observer, Silent, Wants};
use tabane_sim::result::{
    Cost, FlowDetail, FlowResult, LatencyResult, LinkResult, RunResult, SubflowResult,
};
use tabane_sim::scenario::Scenario;
use tabane_sim::seed::Seed;
use tabane_sim::{LinkPlan, Plan, World, engine_config};
use tabane_wire::Segment;

/// A run's result: the simulator's document, and what it was measured with.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LabResult {
    /// What ran the flows.
    pub stack: Stack,
    /// As of the simulator.
    #[serde(flatten)]
    pub run: RunResult,
    /// How well the links were emulated.
    pub accuracy: Accuracy,
}

/// Runs a scenario once.
///
/// # Errors
/// [`LabError`]; nothing of the network is left then either.
pub fn run(
    plan: &Plan,
    stack: Stack,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<LabResult, LabError> {
    let broken = |error: &dyn std::fmt::Display| LabError::Broken(error.to_string());
    let layout = World::new(plan, &mut Silent).map_err(|e| broken(&e))?.layout();
    let mut network = Network::build(plan, stack)?;
    let scenario = &*plan.scenario;
    let flows = Flow::all(plan).map_err(LabError::Broken)?;
    let (out, notifications) = sync_channel(LIMIT);
    let notifier = Notifier::new(out);
    let wants = observer.wants();
    observer.begin(&layout);

    let flows = Arc::new(flows);
    let memory = (stack == Stack::Kernel).then(Watcher::start);
    let mut hosts = Hosts::prepare(&network, &flows, &notifier, wants)?;
    let clock = Clock::start();
    let emulator = network.start(clock, (notifier.clone(), wants))?;
    hosts.start(&mut network, clock, (&notifier, wants))?;
    let mut watch = Watch::new(&layout, &flows, observer);
    let ended = watch.until_over(&notifications, clock, scenario.duration.0, interrupted);
    let now = clock.now();
    let delivered: Vec<u64> = flows.iter().map(|flow| flow.app().delivered()).collect();
    hosts.order_stop()?;
    while !hosts.are_over() {
        watch.drain(&notifications);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let stopped = hosts.join();
    watch.drain(&notifications);
    let dropped = network.dropped();
    let report = emulator.stop()?;
    let dropped_notifications = notifier.dropped();
    drop(notifier);
    watch.drain(&notifications);
    watch.observer.end(now);
    ended.and(stopped)?;
    let results = (0..flows.len()).map(|n| watch.flow_result(n, delivered[n], now)).collect();
    let mut accuracy = accuracy(&layout, &report, dropped_notifications);
    accuracy.dropped_by_devices = report.refused + if cuts_carrier(scenario) { 0 } else { dropped };
    accuracy.tcp_memory = memory.and_then(Watcher::finish);
    accuracy.judge(shortest_delay(plan));
    let run = RunResult {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ended_s: now.as_secs_f64(),
        flows: results,
        links: link_results(&layout, &report),
        too_long: Vec::new(),
        open: Vec::new(),
        cost: Cost { packet_hops: report.hops, ..Cost::default() },
    };
    Ok(LabResult { stack, run, accuracy })
}

/// Devices whose carrier is taken away drop packets as they should.
fn cuts_carrier(scenario: &Scenario) -> bool {
    scenario.at.iter().any(|change| change.down.is_some() && !change.silent)
}

/// The shortest one-way delay of a link.
fn shortest_delay(plan: &Plan) -> Duration {
    let delay = |link: &LinkPlan| link.params.delay.map_or(Duration::ZERO, |delay| delay.0);
    plan.links.iter().map(delay).min().unwrap_or(Duration::ZERO)
}

#[derive(Default)]
struct Hosts {
    flows: Arc<Vec<Flow>>,
    stop: Option<OwnedFd>,
    /// Of the kernel's programs, which wait for the clock.
    waiting: Vec<SyncSender<Clock>>,
    wakers: Vec<Waker>,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl Hosts {
    /// Starts the threads of kernel hosts as far as their listening sockets.
    fn prepare(
        network: &Network,
        flows: &Arc<Vec<Flow>>,
        notifier: &Notifier,
        wants: Wants,
    ) -> Result<Self, LabError> {
        let mut hosts = Self::default();
        hosts.flows = flows.clone();
        if network.stack != Stack::Kernel {
            return Ok(hosts);
        }
        let (stop, theirs) = stop_pair()?;
        hosts.stop = Some(stop);
        for host in 0..network.namespaces.len() {
            let stop = theirs
                .try_clone()
                .map_err(|source| LabError::System { what: "copy a descriptor".into(), source })?;
            hosts.prepare_one(network, host, (notifier, wants), stop)?;
        }
        Ok(hosts)
    }

    fn prepare_one(
        &mut self,
        network: &Network,
        host: usize,
        (notifier, wants): (&Notifier, Wants),
        stop: OwnedFd,
    ) -> Result<(), LabError> {
        let namespace = network.namespaces[host].clone();
        let (go, clock) = sync_channel(1);
        let (ready, is_ready) = mpsc::channel();
        let plan = network.plan.clone();
        let (flows, notifier) = (self.flows.clone(), notifier.clone());
        let agenda = Agenda::new(&plan, host, &flows, wants.sample);
        let version = plan.scenario.ip;
        let name = network.hosts.hosts[host].name.clone();
        let thread = spawn(&name.clone(), move || {
            let commanded = namespace.clone();
            let command = move |line: &str| commanded.ip(version, &[line.to_owned()]);
            let made = namespace.enter().and_then(|()| {
                let system = |source| LabError::System {
                    what: format!("make the sockets of {name}"),
                    source,
                };
                KernelHost::new(host, plan, flows, agenda, notifier, Box::new(command))
                    .map_err(system)
            });
            let host = match made {
                Ok(host) => host,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return Ok(());
                }
            };
            let _ = ready.send(Ok(()));
            // Nobody starts it: the lab could not be built.
            let Ok(clock) = clock.recv() else { return Ok(()) };
            let what = format!("wait for the sockets of {name}");
            priority::take(priority::HOSTS);
            host.run(clock, &stop).map_err(|source| LabError::System { what, source })
        })?;
        self.threads.push(thread);
        self.waiting.push(go);
        is_ready.recv().unwrap_or_else(|_| Err(LabError::Broken("a host panicked".into())))
    }

    /// Lets hosts do what they have to do. Servers tend to come last in scenarios, and are ready
    /// first.
    fn start(
        &mut self,
        network: &mut Network,
        clock: Clock,
        notifier: (&Notifier, Wants),
    ) -> Result<(), LabError> {
        for go in self.waiting.drain(..).rev() {
            // A thread that is gone has said why.
            let _ = go.send(clock);
        }
        if network.stack == Stack::Tabane {
            for host in (0..network.engines.len()).rev() {
                self.start_engine(network, host, clock, notifier)?;
            }
        }
        Ok(())
    }

    fn start_engine(
        &mut self,
        network: &mut Network,
        host: usize,
        clock: Clock,
        (notifier, wants): (&Notifier, Wants),
    ) -> Result<(), LabError> {
        let broken = |error: &dyn std::fmt::Display| LabError::Broken(error.to_string());
        let plan = network.plan.clone();
        let mut config = engine_config(&plan, host);
        config.records = wants.records;
        let devices = std::mem::take(&mut network.engines[host]);
        let labels = plan.topology.hosts[host].paths.iter().map(|p| p.name.as_str());
        let paths = config.paths.iter().zip(labels).zip(devices);
        let paths = paths.map(|((path, label), device)| Path::new(path, label, device)).collect();
        let name = &plan.topology.hosts[host].name;
        let key = Seed(plan.scenario.seed).key(&format!("host/{name}"));
        let mut endpoint = Endpoint::new(config, key).map_err(|e| broken(&e))?;
        let mut app =
            EngineHost::new(host, plan.clone(), self.flows.clone(), (notifier.clone(), wants));
        app.listen(&mut endpoint).map_err(LabError::Broken)?;
        let mut driver = Driver::new(endpoint, clock, paths).map_err(|e| broken(&e))?;
        self.wakers.push(driver.waker());
        let thread = spawn(name, move || {
            priority::take(priority::HOSTS);
            driver.run(&mut app).map_err(|e| LabError::Broken(e.to_string()))
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Asks all hosts to stop.
    fn order_stop(&self) -> Result<(), LabError> {
        self.wakers.iter().for_each(Waker::stop);
        self.stop.as_ref().map_or(Ok(()), set)
    }

    /// Whether all hosts have stopped; until then they may send notifications.
    fn are_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for their threads; the first error of them.
    fn join(&mut self) -> Result<(), LabError> {
        let mut done = Ok(());
        for thread in self.threads.drain(..) {
            let panicked = || Err(LabError::Broken("a host's thread panicked".into()));
            let one = thread.join().unwrap_or_else(|_| panicked());
            done = done.and(one);
        }
        done
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.waiting.clear();
        // A failure has been reported already.
        let _ = self.order_stop();
        let _ = self.join();
    }
}

/// Passes notifications to the observer, and keeps what the result needs.
struct Watch<'a> {
    layout: &'a Layout,
    flows: &'a [Flow],
    observer: &'a mut dyn Observer,
    opened: BTreeMap<FlowIdx, Instant>,
    completed: BTreeMap<FlowIdx, (Instant, Info)>,
    failed: BTreeMap<FlowIdx, String>,
    /// The last snapshot of each flow's connection at its receiving end.
    last: BTreeMap<FlowIdx, Info>,
    broken: Option<String>,
}

/// How often the run looks whether it is interrupted or over.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

impl<'a> Watch<'a> {
    fn new(layout: &'a Layout, flows: &'a [Flow], observer: &'a mut dyn Observer) -> Self {
        Self {
            layout,
            flows,
            observer,
            opened: BTreeMap::new(),
            completed: BTreeMap::new(),
            failed: BTreeMap::new(),
            last: BTreeMap::new(),
            broken: None,
        }
    }

    /// Until every flow is over, the time is up, or somebody ends it.
    fn until_over(
        &mut self,
        notifications: &Receiver<Notification>,
        clock: Clock,
        duration: Duration,
        interrupted: &AtomicBool,
    ) -> Result<(), LabError> {
        let end = Instant::ZERO + duration;
        let mut shown = Instant::ZERO;
        loop {
            let now = clock.now();
            if now >= shown + Duration::from_millis(100) {
                shown = now;
                self.observer.progress(now, end);
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if let Some(why) = self.broken.take() {
                return Err(LabError::Broken(why));
            }
            let over = self.completed.len() + self.failed.len();
            if now >= end || over == self.flows.len() {
                return Ok(());
            }
            let patience = LOOK.min(std::time::Duration::from_nanos((end - now).0));
            match notifications.recv_timeout(patience) {
                Ok(notification) => self.handle(notification),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(LabError::Broken("the lab's threads are gone".into()));
                }
            }
        }
    }

    fn drain(&mut self, notifications: &Receiver<Notification>) {
        while let Ok(notification) = notifications.try_recv() {
            self.handle(notification);
        }
    }

    fn handle(&mut self, notification: Notification) {
        match notification {
            Notification::Opened(at, flow, host, conn) => {
                self.opened.entry(flow).or_insert(at);
                self.observer.opened(at, flow, host, conn);
            }
            Notification::Record(host, record) => self.observer.record(host, &record),
            Notification::Sample(at, flow, host, info) => {
                self.observer.sample(at, flow, host, &info);
                if self.is_sink(flow, host) {
                    self.last.insert(flow, *info);
                }
            }
            Notification::Link(at, link, sample) => self.observer.link_sample(at, link, &sample),
            Notification::Packet(point, at, bytes) => {
                if let Ok(segment) = Segment::parse(&bytes.into()) {
                    self.observer.packet(point, at, &segment);
                }
            }
            Notification::Lost(link, at, cause, bytes) => {
                if let Ok(segment) = Segment::parse(&bytes.into()) {
                    self.observer.lost(link, at, cause, &segment);
                }
            }
            Notification::Changed(at, words) => self.observer.changed(at, &words),
            Notification::Completed(at, flow, info) => {
                let sink = HostIdx(self.flows[flow.0 as usize].sink() as u32);
                self.observer.sample(at, flow, sink, &info);
                self.observer.completed(at, flow);
                self.completed.insert(flow, (at, *info));
            }
            Notification::Failed(flow, why) => {
                self.failed.insert(flow, why);
            }
            Notification::Broken(why) => self.broken = Some(why),
        }
    }

    fn is_sink(&self, flow: FlowIdx, host: HostIdx) -> bool {
        self.flows[flow.0 as usize].sink() == host.0 as usize
    }

    /// How a flow has done; it had delivered so many bytes when the run ended.
    fn flow_result(&self, n: usize, delivered: u64, now: Instant) -> FlowResult {
        let flow = &self.flows[n];
        let opened = self.opened.get(&flow.idx).copied().unwrap_or(flow.start);
        let completed = self.completed.get(&flow.idx);
        let until = completed.map_or(now, |(at, _)| *at);
        let seconds = until.saturating_since(opened).as_secs_f64();
        let rate = |bytes: u64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let info = completed.map(|(_, info)| info).or(self.last.get(&flow.idx));
        let subflows = info.iter().flat_map(|info| &info.subflows).map(|subflow| {
            let ends = [subflow.local.ip(), subflow.remote.ip()];
            let path = self.layout.subflow_path(flow.idx, ends).unwrap_or("?").to_owned();
            let goodput_bps = rate(subflow.delivered);
            SubflowResult { path, bytes: subflow.delivered, goodput_bps }
        });
        let app = flow.app();
        FlowResult {
            name: flow.name.clone(),
            bytes: delivered,
            completed_s: completed.map(|_| seconds),
            goodput_bps: rate(delivered),
            subflows: subflows.collect(),
            hops: Vec::new(),
            latency: app.latencies().and_then(LatencyResult::of),
            failed: self.failed.get(&flow.idx).cloned(),
            corrupt_at: app.wrong_at(),
            closed: [None, None],
            detail: FlowDetail::default(),
        }
    }
}

fn link_results(layout: &Layout, report: &Report) -> Vec<LinkResult> {
    let links = layout.links.iter().zip(&report.links);
    let links = links.map(|(link, (stats, too_long, ..))| LinkResult {
        link: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        packets: stats.delivered.packets,
        bytes: stats.delivered.bytes,
        lost: emulator::lost(stats, *too_long),
        frames: 0,
    });
    links.collect()
}

fn accuracy(layout: &Layout, report: &Report, dropped_notifications: u64) -> Accuracy {
    let links = layout.links.iter().zip(&report.links);
    let links = links.map(|(link, (stats, _, rate_bps, achieved_bps))| LinkAccuracy {
        link: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        rate_bps: *rate_bps,
        achieved_bps: *achieved_bps,
        loss: stats.lost.packets as f64
            / (stats.lost.packets + stats.delivered.packets).max(1) as f64,
    });
    let lateness = &report.lateness;
    Accuracy {
        packets: lateness.count(),
        lateness_p50_us: lateness.quantile_us(0.5),
        lateness_p99_us: lateness.quantile_us(0.99),
        lateness_p999_us: lateness.quantile_us(0.999),
        lateness_max_us: lateness.most_us(),
        realtime: report.realtime,
        dropped_by_devices: 0,
        tcp_memory: None,
        dropped_notifications,
        links: links.collect(),
        poor: None,
    }
}
