//! How packets may travel between the ends: what a tunnel is, and which subflows there are.
//!
//! The paper's tunnels are TCP connections (SoftEther without UDP acceleration), the VPN over them
//! is one over MPTCP, and subflow endpoints are announced by both ends without source routing.
//! What each of these may come to is a cause; one run is one cause with a scheduler and a queue.

use super::inside::{Inside, Run};
use super::{FILE, TEXT};
use crate::PaperError;
use crate::context::{Context, Job};

/// What users' packets wait in: the most that SoftEther keeps for a connection
/// (`MAX_SEND_SOCKET_QUEUE_SIZE`, 1600 times 1600 bytes).
const QUEUE: &str = "2560KB";
/// Seconds until flows begin: by then the tunnels are open.
pub(super) const START: usize = 1;

/// Which subflows there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subflows {
    /// One a tunnel.
    Own,
    /// From each address to each: up by the tunnel of the server's address, down by that of the
    /// client's, as routes by destination have it.
    Cross,
    /// From each address of the client to the one that it has connected to: up all by the tunnel
    /// of that one, down by their own. So Linux's path manager does without `signal`.
    OneAddress,
    /// All by the tunnel of the default route, both ways.
    DefaultRoute,
}

/// A way in which packets may travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cause {
    pub(super) name: &'static str,
    /// Tunnels are TCP connections; else they are links.
    tcp: bool,
    subflows: Subflows,
}

const fn cause(name: &'static str, tcp: bool, subflows: Subflows) -> Cause {
    Cause { name, tcp, subflows }
}

impl Cause {
    /// Whether it is one of those that are run with every scheduler and queue.
    pub(super) fn is_main(self) -> bool {
        matches!(self.subflows, Subflows::Own | Subflows::Cross)
    }
}

/// Tunnels that only wrap packets, and subflows that each have one.
pub(super) const PLAIN: Cause = cause("tunnels as links", false, Subflows::Own);
/// What the paper has, as far as it says.
pub(super) const PAPER: Cause = cause("TCP tunnels", true, Subflows::Own);
/// The same with subflows across the tunnels.
pub(super) const ACROSS: Cause = cause("TCP tunnels, cross subflows", true, Subflows::Cross);
/// All of them.
pub(super) const CAUSES: [Cause; 6] = [
    PLAIN,
    PAPER,
    cause("cross subflows", false, Subflows::Cross),
    ACROSS,
    cause("TCP tunnels, subflows to one address", true, Subflows::OneAddress),
    cause("TCP tunnels, all by the default route", true, Subflows::DefaultRoute),
];

/// What iperf3 sends through the VPN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// As much as goes in: what the MPTCP connection of the VPN delivers.
    Udp,
    /// A TCP connection whose packets travel in that of the VPN.
    Tcp,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) cause: Cause,
    pub(super) scheduler: &'a str,
    /// Of each WAN.
    pub(super) queue: &'a str,
    pub(super) traffic: Traffic,
    pub(super) upload: bool,
    /// With the second tunnel over the faster WAN.
    pub(super) extra: bool,
    /// Seconds of the flow.
    pub(super) seconds: usize,
}

/// The tunnels that there are, and the WAN of each.
fn carriers(extra: bool) -> Vec<(&'static str, &'static str)> {
    let mut carriers = vec![("ftth", "ftth"), ("vdsl", "vdsl")];
    carriers.extend(extra.then_some(("extra", "ftth")));
    carriers
}

/// The paths of the MPTCP connection, as a table of a scenario.
pub(super) fn ways(cause: Cause, extra: bool) -> String {
    let carriers = carriers(extra);
    let carrier = |n: usize| match cause.tcp {
        true => format!("t-{}", carriers[n].0),
        false => carriers[n].1.to_owned(),
    };
    let way = |name: &str, up: usize, down: usize| {
        let (up, down) = (carrier(up), carrier(down));
        let back = if up == down { String::new() } else { format!(", back = [\"{down}\"]") };
        format!("{name} = {{ links = [\"{up}\"]{back} }}")
    };
    let own = |n: usize, up: usize, down: usize| way(carriers[n].0, up, down);
    let all = 0..carriers.len();
    let mut ways: Vec<String> = match cause.subflows {
        Subflows::Own | Subflows::Cross => all.clone().map(|n| own(n, n, n)).collect(),
        Subflows::OneAddress => all.clone().map(|n| own(n, 0, n)).collect(),
        Subflows::DefaultRoute => all.clone().map(|n| own(n, 0, 0)).collect(),
    };
    if cause.subflows == Subflows::Cross {
        let pairs = all.clone().flat_map(|down| all.clone().map(move |up| (up, down)));
        let others = pairs.filter(|(up, down)| up != down);
        ways.extend(
            others.map(|(up, down)| {
                way(&format!("{}-{}", carriers[down].0, carriers[up].0), up, down)
            }),
        );
    }
    format!("{{ {} }}", ways.join(", "))
}

/// The tunnels of a cause, as entries of a table of a scenario; none where they are links.
fn tunnels(cause: Cause, extra: bool) -> Vec<String> {
    // What nothing travels over cannot be in a scenario.
    let used = ways(cause, extra);
    let carriers = carriers(extra).into_iter().filter(|_| cause.tcp);
    carriers
        .filter(|(name, _)| used.contains(&format!("\"t-{name}\"")))
        .map(|(name, wan)| format!("t-{name} = {{ links = [\"{wan}\"], queue = \"{QUEUE}\" }}"))
        .collect()
}

/// What is laid over the scenario of the bundle.
pub(super) fn sets(cause: Cause, extra: bool, traffic: Traffic) -> Vec<(&'static str, String)> {
    let (ways, mut tunnels) = (ways(cause, extra), tunnels(cause, extra));
    let mut sets = vec![("flow.0.start", format!("{START}s"))];
    if cause.tcp {
        // Within the tunnel nothing limits packets but what a TAP device takes.
        sets.push(("link.ftth.mtu", "1500".to_owned()));
        sets.push(("link.vdsl.mtu", "1500".to_owned()));
    }
    if traffic == Traffic::Tcp {
        tunnels.push(format!("vpn = {{ queue = \"{QUEUE}\", paths = {ways} }}"));
        sets.push(("path", "{ vpn = [\"vpn\"] }".to_owned()));
        sets.push(("host", "{ client = { mptcp = false } }".to_owned()));
    } else {
        sets.push(("path", ways));
    }
    if !tunnels.is_empty() {
        sets.push(("tunnel", format!("{{ {} }}", tunnels.join(", "))));
    }
    if cause.subflows == Subflows::DefaultRoute {
        sets.push(("link", LINKS_OF_DEFAULT.to_owned()));
    }
    sets
}

/// Where nothing goes by VDSL.
const LINKS_OF_DEFAULT: &str = "{ ftth = { rate = \"230Mbps\", delay = \"15ms\", \
                                jitter = \"0.2ms\", queue = \"80KB\", mtu = 1500 } }";

impl Setting<'_> {
    fn job(&self, seed: u64) -> Result<Job, PaperError> {
        let mut sets = sets(self.cause, self.extra, self.traffic);
        sets.push(("duration", format!("{}s", START + self.seconds)));
        sets.push(("defaults.scheduler", self.scheduler.to_owned()));
        sets.push(("seed", seed.to_string()));
        if self.upload {
            sets.push(("flow.0.direction", "upload".to_owned()));
        }
        // Last, as a table of links may stand before it.
        sets.push(("link.ftth.queue", self.queue.to_owned()));
        if self.cause.subflows != Subflows::DefaultRoute {
            sets.push(("link.vdsl.queue", self.queue.to_owned()));
        }
        let sets: Vec<(&str, &str)> = sets.iter().map(|(k, v)| (*k, v.as_str())).collect();
        Job::new(FILE, TEXT, &sets)
    }
}

/// Runs each of the settings with each seed, and looks inside.
pub(super) fn runs(
    context: &Context<'_>,
    stage: &str,
    seeds: &[u64],
    settings: &[Setting<'_>],
) -> Result<Vec<Vec<Run>>, PaperError> {
    let mut jobs = Vec::new();
    for setting in settings {
        for seed in seeds {
            jobs.push((setting.job(*seed)?, setting.upload));
        }
    }
    let all = context.each(stage, &jobs, |(job, upload)| {
        let mut inside = Inside::default();
        let result = job.run(context, &mut inside)?;
        Ok(inside.run(&result, *upload))
    })?;
    Ok(all.chunks(seeds.len()).map(<[Run]>::to_vec).collect())
}
