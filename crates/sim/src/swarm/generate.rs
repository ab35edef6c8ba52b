//! Generating a world from a seed: topology, parameters, policies, applications, faults and
//! their end.

use crate::scenario::{
    Amount, BufferAutotuning, Change, Flow, FlowDirection, Host, Jitter, Link, LinkDirection,
    LinkParams, Loss, Mptcp, MptcpSettings, Named, Paced, Path, PathSettings, Proxy, Queue,
    Request, Scenario, SubflowChange, Tcp,
};
use crate::seed::{Rng, Seed};
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::{Rate, Ratio, Size, Time};
use tabane_engine::Duration;
use tabane_engine::policy::{Entry, Spec};
use tabane_engine::{congestion, egress, scheduler};

/// Faults happen before this.
const FAULTS: Duration = Duration::from_secs(15);
/// Time to finish after the faults: several retransmission timeouts at their longest.
const PATIENCE: Duration = Duration::from_secs(900);
/// Links carry this after the faults.
const HEALED: Rate = Rate(5_000_000);
/// Time to find out that a peer is gone: all retransmissions, or keepalive and all its probes,
/// then break before make.
const GRIEF: Duration = Duration::from_secs(3_000);

/// The scenario of a seed; the same one on every platform.
pub fn generate(seed: u64) -> Scenario {
    let mut generator = Generator { rng: Seed(seed).stream("swarm") };
    let mut scenario = Scenario {
        name: format!("swarm-{seed}"),
        about: "drawn by the swarm".into(),
        seed,
        duration: Time(FAULTS + PATIENCE),
        ip: if generator.chance(0.7) { 4 } else { 6 },
        wire: generator.chance(0.3),
        verify: true,
        closing: true,
        ..Scenario::default()
    };
    generator.topology(&mut scenario);
    scenario.host.0.push(("client".into(), generator.host()));
    scenario.host.0.push(("server".into(), generator.host()));
    let most = most_bytes(&scenario);
    for _ in 0..generator.rng.between(1, 3) {
        let flow = generator.flow(most);
        scenario.flow.push(flow);
    }
    generator.faults(&mut scenario);
    // From a stream of its own: the worlds of seeds without proxies stay what they are.
    let mut generator = Generator { rng: Seed(seed).stream("swarm/proxy") };
    if generator.chance(0.2) {
        generator.proxies(&mut scenario);
    }
    // Likewise.
    Generator { rng: Seed(seed).stream("swarm/lives") }.lives(&mut scenario);
    Generator { rng: Seed(seed).stream("swarm/both") }.both_ways(&mut scenario);
    Generator { rng: Seed(seed).stream("swarm/queues") }.queues(&mut scenario);
    scenario.offload = Generator { rng: Seed(seed).stream("swarm/offload") }.chance(0.1);
    fit(&mut scenario);
    heal(&mut scenario);
    scenario
}

/// Who only waits for data finds out that its peer is gone, by keepalive, also when a reset is
/// lost; and there is time for it.
pub(super) fn find_out(scenario: &mut Scenario) {
    scenario.duration = Time(FAULTS + GRIEF);
    scenario.defaults.tcp.keepalive = Some(Time(Duration::from_secs(60)));
}

struct Generator {
    rng: Rng,
}

impl Generator {
    fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    fn maybe<T>(&mut self, probability: f64, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(probability).then(|| value(self))
    }

    fn index(&mut self, len: usize) -> usize {
        self.rng.between(0, len as u64 - 1) as usize
    }

    /// Between `low` and `high`, every order of magnitude as likely as another: by doubling.
    fn scale(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low).ilog2();
        let base = low << self.rng.between(0, u64::from(doublings));
        self.rng.between(base, (2 * base).min(high))
    }

    fn time(&mut self, low: Duration, high: Duration) -> Time {
        Time(Duration(self.scale(low.0, high.0)))
    }

    /// Up to `most`, in thousandths.
    fn share(&mut self, most: u64) -> Ratio {
        Ratio(self.rng.between(1, most) as f64 / 1e3)
    }

    fn policy<F: ?Sized>(&mut self, table: &[Entry<F>]) -> Option<PolicySpec> {
        let row = &table[self.index(table.len())];
        Some(PolicySpec(Spec::named(row.name)))
    }

    fn topology(&mut self, scenario: &mut Scenario) {
        let paths = self.rng.between(1, 4);
        let shared = self.chance(0.3);
        let mut paths_of = Vec::new();
        for n in 0..paths {
            let name = format!("access{n}");
            let link = self.link(scenario.ip);
            scenario.link.0.push((name.clone(), link));
            let mut links = vec![name];
            if shared {
                links.push("core".into());
            } else if self.chance(0.3) {
                let name = format!("core{n}");
                let link = self.link(scenario.ip);
                scenario.link.0.push((name.clone(), link));
                links.push(name);
            }
            let backup = n > 0 && self.chance(0.15);
            let settings = PathSettings { links, backup, ..PathSettings::default() };
            paths_of.push((format!("path{n}"), Path(settings)));
        }
        if shared {
            scenario.link.0.push(("core".into(), self.link(scenario.ip)));
        }
        scenario.path = Named(paths_of);
    }

    fn jitter(&mut self) -> Jitter {
        Jitter {
            spread: self.time(Duration::from_micros(50), Duration::from_millis(20)),
            uniform: self.chance(0.3),
            reordering: self.chance(0.3),
        }
    }

    fn link(&mut self, ip: u8) -> Link {
        let mut link = Link {
            rate: Some(Rate(self.scale(300_000, 200_000_000))),
            delay: Some(self.time(Duration::from_micros(50), Duration::from_millis(200))),
            queue: self.maybe(0.8, Self::queue),
            loss: self.maybe(0.5, Self::loss),
            jitter: self.maybe(0.2, Self::jitter),
            reorder: self.maybe(0.2, |d| d.share(50)),
            duplicate: self.maybe(0.2, |d| d.share(50)),
            corrupt: self.maybe(0.15, |d| d.share(10)),
            mtu: self.maybe(0.25, |d| d.mtu(ip)),
            ..Link::default()
        };
        if self.chance(0.3) {
            let loss = self.maybe(0.5, Self::loss);
            link.up = Some(LinkParams {
                rate: Some(Rate(self.scale(300_000, 200_000_000))),
                loss,
                ..LinkParams::default()
            });
        }
        link
    }

    fn mtu(&mut self, ip: u8) -> u16 {
        // RFC 8200 section 5: IPv6 needs 1280.
        let least = if ip == 6 { 1280 } else { 576 };
        self.rng.between(least, 2_500) as u16
    }

    fn queue(&mut self) -> Queue {
        let spec = match self.rng.between(0, 4) {
            0 => format!("droptail:bytes={}", self.scale(5_000, 500_000)),
            1 => "codel".into(),
            2 => "red".into(),
            _ => format!("droptail:packets={}", self.scale(3, 300)),
        };
        Queue(spec.parse().expect("invariant: a well-formed queue"))
    }

    fn loss(&mut self) -> Loss {
        let spec = match self.chance(0.7) {
            true => format!("bernoulli:p={}", self.share(50).0),
            false => format!("gilbert:p={},r={}", self.share(30).0, self.share(800).0 + 0.1),
        };
        Loss(spec.parse().expect("invariant: a well-formed loss model"))
    }

    fn host(&mut self) -> Host {
        let mptcp = if self.chance(0.15) {
            Mptcp::Switch(false)
        } else {
            Mptcp::Settings(MptcpSettings {
                checksum: self.maybe(0.3, |_| true),
                long_numbers: self.maybe(0.3, |_| true),
                subflows_per_path: self.maybe(0.2, |_| 2),
                announce: self.maybe(0.2, |_| true),
                rescue: self.maybe(0.2, |_| false),
                ..MptcpSettings::default()
            })
        };
        Host {
            scheduler: self.policy(scheduler::ALL),
            congestion: self.policy(congestion::ALL),
            egress: self.policy(egress::ALL),
            mptcp: Some(mptcp),
            tcp: self.tcp(),
        }
    }

    fn tcp(&mut self) -> Tcp {
        let tiny = self.chance(0.25);
        let (low, high) = if tiny { (4_000, 30_000) } else { (65_000, 4_000_000) };
        Tcp {
            receive_buffer: Some(Size(self.scale(low, high))),
            receive_buffer_max: self.maybe(0.5, |d| Size(d.scale(low, 4 * high))),
            send_buffer: Some(Size(self.scale(low, high))),
            autotuning: self.maybe(0.3, |_| BufferAutotuning::Linux),
            ack_delay: self
                .maybe(0.3, |d| d.time(Duration::from_millis(1), Duration::from_millis(200))),
            nagle: self.maybe(0.3, |_| false),
            sack: self.maybe(0.2, |_| false),
            timestamps: self.maybe(0.2, |_| false),
            ecn: self.maybe(0.3, |_| true),
            initial_window: self.maybe(0.2, |d| d.rng.between(1, 20) as u32),
            mss: self.maybe(0.15, |d| d.rng.between(536, 1460) as u16),
            ..Tcp::default()
        }
    }

    fn flow(&mut self, most: u64) -> Flow {
        let mut flow = Flow {
            start: Time(Duration::from_millis(self.rng.between(0, 3_000))),
            direction: match self.chance(0.6) {
                true => FlowDirection::Download,
                false => FlowDirection::Upload,
            },
            ..Flow::default()
        };
        match self.rng.between(0, 9) {
            0..=5 => flow.bulk = Some(Amount::Bytes(Size(self.scale(1, most)))),
            6..=7 => {
                flow.request = Some(Request {
                    size: Size(self.scale(100, 300_000)),
                    request: Size(self.scale(1, 3_000)),
                    think: Time(Duration::from_millis(self.rng.between(0, 500))),
                    count: Some(self.rng.between(1, 20) as u32),
                });
            }
            _ => {
                let rate = Rate(self.scale(8_000, 500_000));
                flow.paced = Some(Paced { rate, message: Size(self.scale(20, 4_000)) });
                flow.stop = Some(Time(FAULTS));
            }
        }
        flow
    }

    fn faults(&mut self, scenario: &mut Scenario) {
        let count = if self.chance(0.3) { 0 } else { self.rng.between(1, 8) };
        for _ in 0..count {
            let at = Duration::from_millis(self.rng.between(10, FAULTS.as_millis() - 1));
            let fault = match self.rng.between(0, 9) {
                0..=3 => self.flap(scenario, at),
                4..=6 => vec![self.worsen(scenario)],
                _ => vec![self.steer(scenario)],
            };
            for (n, mut change) in fault.into_iter().enumerate() {
                if n == 0 {
                    change.time = Time(at);
                }
                scenario.at.push(change);
            }
        }
    }

    /// One or two proxies before the server, each behind one more link.
    fn proxies(&mut self, scenario: &mut Scenario) {
        let count = self.rng.between(1, 2);
        let names: Vec<String> = (0..count).map(|n| format!("proxy{n}")).collect();
        for (_, Path(path)) in &mut scenario.path.0 {
            path.to.clone_from(&names[0]);
        }
        for (n, name) in names.iter().enumerate() {
            let link = format!("behind{n}");
            let to = names.get(n + 1).map_or("server", String::as_str);
            let (from, to) = (name.clone(), to.to_owned());
            let settings =
                PathSettings { from, to, links: vec![link.clone()], ..PathSettings::default() };
            scenario.path.0.push((link.clone(), Path(settings)));
            scenario.link.0.push((link, self.link(scenario.ip)));
            let (listen, connect) = (self.host(), self.host());
            scenario.proxy.0.push((name.clone(), Proxy { listen, connect }));
        }
        for flow in &mut scenario.flow {
            flow.via.clone_from(&names);
            if let Some(Amount::Bytes(size)) = &mut flow.bulk {
                // The proxies' windows may be tiny.
                size.0 = size.0.min(3_000_000);
            }
        }
        for change in &mut scenario.at {
            if change.path.is_some() && change.host.as_deref() == Some("server") {
                change.host = Some(names[0].clone());
            }
        }
    }

    /// Machines that are suspended, die, or whose users give up.
    fn lives(&mut self, scenario: &mut Scenario) {
        let hosts = scenario.host.names().chain(scenario.proxy.names());
        let hosts: Vec<String> = hosts.map(str::to_owned).collect();
        let change = |generator: &mut Self| Change {
            time: Time(Duration::from_millis(generator.rng.between(10, FAULTS.as_millis() - 1))),
            host: Some(hosts[generator.index(hosts.len())].clone()),
            ..Change::default()
        };
        if self.chance(0.15) {
            let asleep = self.time(Duration::from_millis(10), Duration::from_secs(60));
            scenario.at.push(Change { asleep: Some(asleep), ..change(self) });
        }
        let aborts = self.chance(0.05);
        if aborts {
            scenario.at.push(Change { abort: true, ..change(self) });
        }
        let dies = self.chance(0.05);
        if dies {
            scenario.at.push(Change { asleep: Some(Time(GRIEF * 2)), ..change(self) });
        }
        if aborts || dies {
            find_out(scenario);
        }
    }

    /// Transfers both ways at once, over lossy links of exact MTU: then acknowledgements ride on
    /// data, and what they have to say competes with it for room.
    fn both_ways(&mut self, scenario: &mut Scenario) {
        if !self.chance(0.35) {
            return;
        }
        let mut any = false;
        for flow in scenario.flow.iter_mut().filter(|flow| flow.bulk.is_some()) {
            flow.direction = FlowDirection::Both;
            if let Some(Amount::Bytes(size)) = &mut flow.bulk {
                size.0 = size.0.div_ceil(2);
            }
            any = true;
        }
        for (_, link) in scenario.link.0.iter_mut().filter(|_| any) {
            if link.loss.is_none() && self.chance(0.7) {
                link.loss = Some(self.loss());
            }
            if link.mtu.is_none() && self.chance(0.5) {
                link.mtu = Some(self.mtu(scenario.ip));
            }
        }
    }

    /// Queues that keep flows apart or a delay low, on some links.
    fn queues(&mut self, scenario: &mut Scenario) {
        if !self.chance(0.1) {
            return;
        }
        for (_, link) in &mut scenario.link.0 {
            link.queue = match self.rng.between(0, 3) {
                0 => Some("fq_codel".parse()),
                1 => Some(format!("fq_codel:flows=4,packets={}", self.scale(5, 300)).parse()),
                2 => Some(format!("pie:packets={}", self.scale(5, 300)).parse()),
                _ => continue,
            }
            .map(|queue| queue.expect("invariant: a well-formed queue"));
        }
    }

    /// A link goes down and, mostly, up again.
    fn flap(&mut self, scenario: &Scenario, at: Duration) -> Vec<Change> {
        let link = scenario.link.0[self.index(scenario.link.0.len())].0.clone();
        let mut flap = vec![Change {
            down: Some(link.clone()),
            silent: self.chance(0.5),
            ..Change::default()
        }];
        if self.chance(0.8) {
            let back = at + Duration::from_millis(self.rng.between(1, 5_000));
            if back < FAULTS {
                flap.push(Change { time: Time(back), up: Some(link), ..Change::default() });
            }
        }
        flap
    }

    /// A link changes its parameters.
    fn worsen(&mut self, scenario: &Scenario) -> Change {
        let link = scenario.link.0[self.index(scenario.link.0.len())].0.clone();
        let mut change = Change { link: Some(link), ..Change::default() };
        if self.chance(0.3) {
            change.direction =
                Some(if self.chance(0.5) { LinkDirection::Up } else { LinkDirection::Down });
        }
        match self.rng.between(0, 6) {
            0 => change.rate = Some(Rate(self.scale(100_000, 200_000_000))),
            1 => {
                let (low, high) = (Duration::from_micros(50), Duration::from_millis(500));
                change.delay = Some(self.time(low, high));
            }
            2 => change.loss = Some(Loss("bernoulli:p=1".parse().expect("invariant: all lost"))),
            3 => change.loss = Some(self.loss()),
            4 => change.mtu = Some(self.mtu(scenario.ip)),
            5 => change.queue = Some(self.queue()),
            _ => change.reorder = Some(self.share(300)),
        }
        change
    }

    /// Somebody changes a host's live connections.
    fn steer(&mut self, scenario: &Scenario) -> Change {
        let host = if self.chance(0.5) { "client" } else { "server" };
        let mut change = Change { host: Some(host.into()), ..Change::default() };
        let paths = scenario.path.0.len();
        let path = scenario.path.0[self.index(paths)].0.clone();
        let several = paths > 1 && super::is_multipath(scenario);
        match self.rng.between(0, 5) {
            0 => change.scheduler = self.policy(scheduler::ALL),
            1 => change.congestion = self.policy(congestion::ALL),
            2 => change.egress = self.policy(egress::ALL),
            3 if several => {
                (change.path, change.subflow) = (Some(path), Some(SubflowChange::Add));
                change.host = Some("client".into());
            }
            4 if several => {
                let how = match self.chance(0.5) {
                    true => SubflowChange::Remove,
                    false => SubflowChange::Reset,
                };
                (change.path, change.subflow) = (Some(path), Some(how));
            }
            _ => (change.path, change.backup) = (Some(path), Some(self.chance(0.5))),
        }
        change
    }
}

/// Bulk that all these windows can carry with time to spare: one tiny window a round trip is slow.
fn most_bytes(scenario: &Scenario) -> u64 {
    let tcp = scenario.host.iter().map(|(_, host)| &host.tcp);
    let buffers = tcp.flat_map(|t| [t.receive_buffer, t.receive_buffer_max, t.send_buffer]);
    if buffers.flatten().any(|size| size.0 < 60_000) { 3_000_000 } else { 60_000_000 }
}

/// Bulk over a link that all paths share is no more than it carries in half the time to finish,
/// with all the copies that may be made of it: by every subflow, and each of these by every path.
fn fit(scenario: &mut Scenario) {
    if !scenario.link.names().any(|name| name == "core") {
        return;
    }
    let hosts = || scenario.host.iter().map(|(_, host)| host);
    let is = |choice: &Option<PolicySpec>, name| choice.as_ref().is_some_and(|c| c.0.name == name);
    let redundant = hosts().any(|h| is(&h.scheduler, "redundant"))
        || scenario.at.iter().any(|change| is(&change.scheduler, "redundant"));
    let bicast = hosts().any(|h| is(&h.egress, "bicast"))
        || scenario.at.iter().any(|change| is(&change.egress, "bicast"));
    let paths = scenario.path.0.len() as u64;
    let twice = hosts().any(|h| match &h.mptcp {
        Some(Mptcp::Settings(settings)) => settings.subflows_per_path == Some(2),
        _ => false,
    });
    let subflows = if redundant { paths * (1 + u64::from(twice)) } else { 1 };
    let copies = subflows * if bicast { paths } else { 1 };
    let bytes = HEALED.0 / 8 * (PATIENCE / 2).as_millis() / 1_000;
    let most = bytes / copies / scenario.flow.len() as u64;
    for flow in &mut scenario.flow {
        if let Some(Amount::Bytes(size)) = &mut flow.bulk {
            size.0 = size.0.min(most);
        }
    }
}

/// All faults stop: links are up, lossless and not too slow.
fn heal(scenario: &mut Scenario) {
    let none = Ratio(0.0);
    for name in scenario.link.names().map(str::to_owned).collect::<Vec<_>>() {
        let time = Time(FAULTS);
        let up = Change { time, up: Some(name.clone()), ..Change::default() };
        let clean = Change {
            time,
            link: Some(name),
            rate: Some(HEALED),
            delay: Some(Time(Duration::from_millis(20))),
            jitter: Some(Jitter::from(Time::default())),
            loss: Some(Loss(Spec::named("none"))),
            queue: Some(Queue("droptail:packets=100".parse().expect("invariant: a queue"))),
            reorder: Some(none),
            duplicate: Some(none),
            corrupt: Some(none),
            ..Change::default()
        };
        scenario.at.extend([up, clean]);
    }
}
