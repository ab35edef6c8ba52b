//! The cases: which scenario is run, what is measured, and what is aimed at.

use super::watch::Watch;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write};
use std::sync::{Arc, Mutex};
use tabane_sim::run;
use tabane_sim::scenario::Scenario;

/// Links and seeds to design on, and links that no design has seen.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Set {
    Design,
    Unseen,
}

impl Set {
    pub(crate) fn named(name: &str) -> Self {
        if name == "unseen" { Self::Unseen } else { Self::Design }
    }

    fn of(self, design: &[Link], unseen: &[Link]) -> Vec<Link> {
        if self == Self::Design { design } else { unseen }.to_vec()
    }
}

/// What a figure should be.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

impl Aim {
    /// The value that is farthest on the wrong side.
    pub(crate) fn worst(self, values: &[f64]) -> f64 {
        let badness = |value: f64| match self {
            Self::AtLeast(_) => -value,
            Self::AtMost(_) => value,
            Self::Between(low, high) => (low / value.max(1e-9)).max(value / high),
        };
        values.iter().copied().max_by(|a, b| badness(*a).total_cmp(&badness(*b))).unwrap_or(0.0)
    }
}

impl Display for Aim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

/// Rate in Mbit/s and round trip in ms of a bottleneck.
type Link = (f64, f64);

/// Payload that a tunnel leaves of a link's nominal rate.
const ATTAINABLE: f64 = 0.904;

/// Something to judge a controller by.
pub(crate) struct Case {
    /// Cases of one row are averaged.
    pub(crate) row: String,
    pub(crate) aim: Aim,
    link: Link,
    kind: Kind,
    baselines: Arc<Mutex<BTreeMap<String, f64>>>,
}

#[derive(Clone)]
enum Kind {
    /// One flow, packets lost like that, and with so much jitter.
    Lossy(&'static str, &'static str),
    /// One connection over this link and another, which share nothing.
    Bundle(Link, &'static str),
    /// Beside so many flows of that controller, at that queue: of what CUBIC gets there.
    Share(&'static str, usize, Queue),
    /// Four flows of the controller.
    Jain(Queue),
    /// The standing queue, of what is allowed.
    Standing(Queue),
    /// Goodput at that queue.
    Goodput(Queue),
    /// Time to 80 % after what happens at 10 s, of what is allowed: 2 s and 4 round trips.
    Recovery(Event),
    /// So many subflows beside five Reno flows: of what one flow gets.
    Subflows(usize, Queue),
    /// Two subflows over links of their own, a Reno flow at each: of what one flow gets there.
    Separate(Queue),
    /// The rate changes each second.
    Varying,
}

#[derive(Clone, Copy)]
enum Queue {
    /// A drop-tail queue of so many BDP.
    Bdp(f64),
    /// A drop-tail queue of so many seconds.
    Seconds(f64),
    CoDel,
    Red,
}

#[derive(Clone, Copy)]
enum Event {
    Outage(f64),
    /// Losses, of so many of all packets, for 0.8 s.
    Losses(f64),
    /// From a round trip of so many times the usual one, or to it.
    RttUp(f64),
    RttDown(f64),
    /// A tenth of the rate for 5 s.
    RateStep,
    /// An outage of 150 ms, a longer round trip and 0.8 s in which a fifth of all packets are lost,
    /// on a link that loses one in a thousand all the time.
    Leo,
}

impl Queue {
    fn spec(self, (rate, rtt): Link) -> String {
        let packets = rate * rtt * 1000.0 / 8.0 / 1500.0;
        match self {
            Self::Bdp(n) => format!("{} packets", (packets * n).max(4.0).round()),
            Self::Seconds(s) => format!("{} packets", (packets * s * 1000.0 / rtt).round()),
            Self::CoDel => "codel".into(),
            Self::Red => {
                let part = |n: f64| (packets * n).round().max(5.0);
                format!("red:min={},max={},packets={}", part(0.25), part(0.75), part(2.0))
            }
        }
    }

    fn name(self) -> String {
        match self {
            Self::Bdp(n) => format!("{n} BDP"),
            Self::Seconds(s) => format!("{s} s"),
            Self::CoDel => "CoDel".into(),
            Self::Red => "RED".into(),
        }
    }
}

const LOSSES: [(&str, &str); 7] = [
    ("none", "none"),
    ("1 %", "bernoulli:p=0.01"),
    ("2 %", "bernoulli:p=0.02"),
    ("1 % in bursts of 5", "gilbert:p=0.00202,r=0.2"),
    ("0.5 % in bursts of 10", "gilbert:p=0.0005,r=0.1"),
    ("2 % in bursts of 10", "gilbert:p=0.00204,r=0.1"),
    ("2 % in bursts of 20", "gilbert:p=0.00102,r=0.05"),
];

const QUEUES: [Queue; 5] =
    [Queue::Bdp(0.5), Queue::Bdp(1.0), Queue::Bdp(4.0), Queue::CoDel, Queue::Red];

/// Every case of a set.
pub(crate) fn all(set: Set) -> Vec<Case> {
    let baselines = Arc::new(Mutex::new(BTreeMap::new()));
    let mut cases = Vec::new();
    let mut add = |row: String, aim: Aim, links: &[Link], kind: Kind| {
        for &link in links {
            let (row, kind, baselines) = (row.clone(), kind.clone(), baselines.clone());
            cases.push(Case { row, aim, link, kind, baselines });
        }
    };
    let noisy = set.of(&[(230.0, 20.0), (80.0, 50.0)], &[(100.0, 10.0), (30.0, 120.0)]);
    for (name, loss) in LOSSES {
        add(format!("loss {name}"), Aim::AtLeast(0.9), &noisy, Kind::Lossy(loss, "0ms"));
    }
    for jitter in ["0.5ms", "2ms", "5ms"] {
        for (name, loss) in [LOSSES[0], LOSSES[1], LOSSES[4]] {
            let row = format!("loss {name}, jitter {jitter}");
            add(row, Aim::AtLeast(0.9), &noisy, Kind::Lossy(loss, jitter));
        }
    }
    let pair = set.of(&[(230.0, 20.0)], &[(100.0, 60.0)]);
    let other = if set == Set::Design { (80.0, 50.0) } else { (100.0, 10.0) };
    for (name, loss) in [LOSSES[0], LOSSES[4]] {
        add(format!("bundle, loss {name}"), Aim::AtLeast(0.9), &pair, Kind::Bundle(other, loss));
    }
    let met = set.of(&[(50.0, 20.0), (20.0, 60.0)], &[(80.0, 30.0), (30.0, 90.0)]);
    for queue in QUEUES {
        for (beside, others) in [("cubic", 1), ("reno", 1), ("reno", 5)] {
            let row = format!("share {} beside {others} {beside}", queue.name());
            add(row, Aim::Between(0.8, 1.2), &met, Kind::Share(beside, others, queue));
        }
    }
    for queue in [Queue::Bdp(1.0), Queue::Bdp(4.0), Queue::CoDel] {
        add(format!("Jain {}", queue.name()), Aim::AtLeast(0.95), &met, Kind::Jain(queue));
    }
    for queue in [Queue::Bdp(1.0), Queue::Bdp(4.0), Queue::Seconds(2.0)] {
        let name = queue.name();
        add(format!("standing queue {name}"), Aim::AtMost(1.0), &met, Kind::Standing(queue));
        add(format!("goodput {name}"), Aim::AtLeast(0.92), &met, Kind::Goodput(queue));
    }
    let moving = set.of(&[(150.0, 40.0)], &[(60.0, 50.0), (200.0, 25.0)]);
    for (name, event) in [
        ("outage 0.15 s", Event::Outage(0.15)),
        ("outage 0.8 s", Event::Outage(0.8)),
        ("outage 5 s", Event::Outage(5.0)),
        ("5 % lost for 0.8 s", Event::Losses(0.05)),
        ("half lost for 0.8 s", Event::Losses(0.5)),
        ("RTT x 2.5", Event::RttUp(2.5)),
        ("RTT / 2.5", Event::RttDown(2.5)),
        ("rate / 10 for 5 s", Event::RateStep),
        ("leo", Event::Leo),
    ] {
        add(format!("recovery {name}"), Aim::AtMost(1.0), &moving, Kind::Recovery(event));
    }
    for queue in [Queue::Bdp(1.0), Queue::CoDel] {
        for n in [2, 4] {
            let row = format!("{n} subflows {} beside 5 reno", queue.name());
            add(row, Aim::AtMost(1.2), &met, Kind::Subflows(n, queue));
        }
        let row = format!("separate subflows {}", queue.name());
        add(row, Aim::AtLeast(0.9), &met, Kind::Separate(queue));
    }
    add("varying rate".into(), Aim::AtLeast(0.85), &met[..1], Kind::Varying);
    cases
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{} {}@{}", self.row, self.link.0, self.link.1)
    }

    /// The figure of `controller`.
    pub(crate) fn judge(&self, controller: &str, seed: u64) -> f64 {
        let (rate, rtt) = self.link;
        let capacity = rate * 1e6;
        let world = World { link: self.link, seed, controller };
        match self.kind {
            Kind::Lossy(loss, jitter) => {
                let more = format!("loss = \"{loss}\"\njitter = \"{jitter}\"");
                let watch = world.alone(Queue::Bdp(1.0), 20.0, &more, "");
                watch.rate(0, 0.0, 20.0) / (capacity * ATTAINABLE)
            }
            Kind::Bundle(other, loss) => {
                let watch = world.bundle(other, loss);
                watch.rate(0, 0.0, 20.0) / (ATTAINABLE * 1e6 * (rate + other.0))
            }
            Kind::Share(beside, others, queue) => {
                let ours = world.beside(1, beside, others, queue);
                let key = format!("{} {seed}", self.name());
                let known = self.baselines.lock().unwrap().get(&key).copied();
                let usual = known.unwrap_or_else(|| {
                    World { controller: "cubic", ..world }.beside(1, beside, others, queue)
                });
                self.baselines.lock().unwrap().insert(key, usual);
                ours / usual
            }
            Kind::Jain(queue) => world.jain(queue),
            Kind::Standing(queue) => {
                let watch = world.alone(queue, 40.0, "", "");
                let bytes = watch.standing_queue(10.0, rtt / 1e3);
                let allowed = if matches!(queue, Queue::Seconds(_)) { 15.0_f64 } else { 0.0 };
                bytes * 8.0 / capacity * 1e3 / allowed.max(rtt / 2.0)
            }
            Kind::Goodput(queue) => {
                world.alone(queue, 40.0, "", "").rate(0, 0.0, 40.0) / (capacity * ATTAINABLE)
            }
            Kind::Recovery(event) => world.recovery(event),
            Kind::Subflows(n, queue) => {
                world.beside(n, "reno", 5, queue) / world.beside(1, "reno", 5, queue)
            }
            Kind::Separate(queue) => {
                world.separate(queue) / world.beside(1, "reno", 1, queue) / 2.0
            }
            Kind::Varying => world.varying(),
        }
    }
}

/// A bottleneck, and who is judged there.
#[derive(Clone, Copy)]
struct World<'a> {
    link: Link,
    seed: u64,
    controller: &'a str,
}

impl World<'_> {
    fn run(&self, seconds: f64, text: &str) -> Watch {
        let head = format!("seed = {}\nduration = \"{seconds}s\"\n", self.seed);
        let text = head + text;
        let plan = Scenario::parse("judge.toml", &text)
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
            .compile()
            .unwrap();
        let mut watch = Watch::default();
        run(&plan, &mut watch).unwrap();
        watch
    }

    fn bottleneck(&self, name: &str, queue: Queue, more: &str) -> String {
        let (rate, rtt) = self.link;
        format!(
            "[link.{name}]\nrate = \"{rate}Mbps\"\ndelay = \"{}us\"\nqueue = \"{}\"\n{more}\n",
            rtt * 500.0,
            queue.spec(self.link)
        )
    }

    fn alone(&self, queue: Queue, seconds: f64, more: &str, changes: &str) -> Watch {
        let text = format!(
            "[defaults]\ncongestion = \"{}\"\nmptcp = false\n{}
             [[flow]]\nbulk = \"unlimited\"\ndirection = \"upload\"\n{changes}",
            self.controller,
            self.bottleneck("bottleneck", queue, more)
        );
        self.run(seconds, &text)
    }

    fn bundle(&self, other: Link, loss: &str) -> Watch {
        let loss = format!("loss = \"{loss}\"");
        let second = World { link: other, ..*self };
        let text = format!(
            "[defaults]\ncongestion = \"{}\"\n{}{}
             [[flow]]\nbulk = \"unlimited\"\ndirection = \"upload\"\n",
            self.controller,
            self.bottleneck("one", Queue::Bdp(1.0), &loss),
            second.bottleneck("two", Queue::Bdp(1.0), &loss)
        );
        self.run(20.0, &text)
    }

    /// Flows that meet in the bottleneck: hosts by controller and number of subflows.
    /// The first of them starts a second before the others, or after them.
    fn meeting(&self, hosts: &[(&str, usize)], queue: Queue, first: bool) -> Watch {
        let mut text = self.bottleneck("bottleneck", queue, "");
        for (h, &(controller, subflows)) in hosts.iter().enumerate() {
            for s in 0..subflows {
                write!(
                    text,
                    "[link.access{h}-{s}]\nrate = \"1Gbps\"\ndelay = \"{}us\"
                     queue = \"1000 packets\"
                     [path.path{h}-{s}]\nfrom = \"host{h}\"\nto = \"server\"
                     links = [\"access{h}-{s}\", \"bottleneck\"]\n",
                    50 + 10 * h + 3 * s
                )
                .unwrap();
            }
            let plain = if subflows == 1 { "mptcp = false" } else { "" };
            let late = (h == 0) != first;
            let start = u64::from(late) * 1000 + (self.seed * 7 + h as u64 * 31) % 10 * 70;
            write!(
                text,
                "[host.host{h}]\ncongestion = \"{controller}\"\n{plain}
                 [[flow]]\nfrom = \"host{h}\"\nbulk = \"unlimited\"\ndirection = \"upload\"
                 start = \"{start}ms\"\n"
            )
            .unwrap();
        }
        self.run(60.0, &text)
    }

    /// What `subflows` of ours get beside so many others, bit/s.
    fn beside(&self, subflows: usize, other: &str, others: usize, queue: Queue) -> f64 {
        let mut hosts = vec![(self.controller, subflows)];
        hosts.extend(std::iter::repeat_n((other, 1), others));
        // Who comes first has more for a long time: the mean of both orders.
        let of = |first| self.meeting(&hosts, queue, first).rate(0, 15.0, 60.0);
        (of(true) + of(false)) / 2.0
    }

    fn jain(&self, queue: Queue) -> f64 {
        let watch = self.meeting(&[(self.controller, 1); 4], queue, true);
        let rates: Vec<f64> = (0..4).map(|flow| watch.rate(flow, 15.0, 60.0)).collect();
        let sum: f64 = rates.iter().sum();
        sum * sum / (4.0 * rates.iter().map(|rate| rate * rate).sum::<f64>())
    }

    /// Two subflows, each with a bottleneck of its own and a Reno flow there.
    fn separate(&self, queue: Queue) -> f64 {
        let (one, two) =
            (self.bottleneck("bottleneck", queue, ""), self.bottleneck("second", queue, ""));
        let text = format!(
            "{one}{two}
             [link.a]\nrate = \"1Gbps\"\ndelay = \"50us\"\nqueue = \"1000 packets\"
             [link.b]\nrate = \"1Gbps\"\ndelay = \"60us\"\nqueue = \"1000 packets\"
             [link.c]\nrate = \"1Gbps\"\ndelay = \"70us\"\nqueue = \"1000 packets\"
             [link.d]\nrate = \"1Gbps\"\ndelay = \"80us\"\nqueue = \"1000 packets\"
             [path]
             a = {{ from = \"host\", to = \"server\", links = [\"a\", \"bottleneck\"] }}
             b = {{ from = \"host\", to = \"server\", links = [\"b\", \"second\"] }}
             c = {{ from = \"near\", to = \"server\", links = [\"c\", \"bottleneck\"] }}
             d = {{ from = \"far\", to = \"server\", links = [\"d\", \"second\"] }}
             [host.host]\ncongestion = \"{}\"
             [host.near]\ncongestion = \"reno\"\nmptcp = false
             [host.far]\ncongestion = \"reno\"\nmptcp = false\n",
            self.controller
        );
        let flow = |host: &str| {
            format!("[[flow]]\nfrom = \"{host}\"\nbulk = \"unlimited\"\ndirection = \"upload\"\n")
        };
        let text = text + &flow("host") + &flow("near") + &flow("far");
        self.run(60.0, &text).rate(0, 15.0, 60.0)
    }

    fn recovery(&self, event: Event) -> f64 {
        let (rate, rtt) = self.link;
        let at = |time: f64, what: &str| {
            format!("[[at]]\ntime = \"{time}s\"\nlink = \"bottleneck\"\n{what}\n")
        };
        let delay = |factor: f64| format!("delay = \"{}us\"", rtt * factor * 500.0);
        let lose = |share: f64| format!("loss = \"{}%\"", share * 100.0);
        let down = "[[at]]\ntime = \"10s\"\ndown = \"bottleneck\"\nsilent = true\n";
        let up = |time: f64| format!("[[at]]\ntime = \"{time}s\"\nup = \"bottleneck\"\n");
        let (over, changes, factor) = match event {
            Event::Outage(s) => (10.0 + s, down.to_owned() + &up(10.0 + s), 1.0),
            Event::Losses(p) => (10.8, at(10.0, &lose(p)) + &at(10.8, &lose(0.0)), 1.0),
            Event::RttUp(f) => (10.0, at(10.0, &delay(f)), f),
            Event::RttDown(f) => (10.0, at(0.0, &delay(f)) + &at(10.0, &delay(1.0)), 1.0),
            Event::RateStep => {
                let slow = at(10.0, &format!("rate = \"{}Mbps\"", rate / 10.0));
                (15.0, slow + &at(15.0, &format!("rate = \"{rate}Mbps\"")), 1.0)
            }
            Event::Leo => {
                let moved = at(10.15, &delay(1.5)) + &at(10.15, &lose(0.2));
                let usual = at(0.0, &lose(0.001)) + &at(10.95, &lose(0.001));
                (10.95, down.to_owned() + &up(10.15) + &moved + &usual, 1.5)
            }
        };
        let watch = self.alone(Queue::Bdp(1.0), 40.0, "", &changes);
        let took = watch.recovered(0.8 * rate * 1e6, over, 40.0);
        took / (2.0 + 4.0 * rtt * factor / 1e3)
    }

    /// From 1 to 40 Mbit/s, other each second, at a queue of half a second.
    fn varying(&self) -> f64 {
        let mut state = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut changes = String::new();
        let mut sum = 0.0;
        for second in 0..40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let rate = 1 + (state >> 33) % 40;
            sum += rate as f64;
            write!(
                changes,
                "[[at]]\ntime = \"{second}s\"\nlink = \"bottleneck\"\nrate = \"{rate}Mbps\"\n"
            )
            .unwrap();
        }
        let link = (20.0, 50.0);
        let watch = World { link, ..*self }.alone(Queue::Seconds(0.5), 40.0, "", &changes);
        watch.rate(0, 0.0, 40.0) * 40.0 / (sum * 1e6 * ATTAINABLE)
    }
}
