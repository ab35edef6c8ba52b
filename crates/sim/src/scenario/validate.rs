//! What a well-formed scenario may still have wrong: names that do not exist, policies that do
//! not, flows without an application, changes that change nothing.

use super::change::is_named;
use super::host::Mptcp;
use super::{Change, Fault, Flow, FlowDirection, Host, Scenario};
use crate::link::{loss, queue};
use crate::topology::{Topology, check_mtu};
use crate::world::ports::Ports;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Bound;
use tabane_config::policy::PolicySpec;
use tabane_config::quantity::Time;
use tabane_engine::Duration;
use tabane_engine::config::Config;
use tabane_engine::congestion::{self, Start};
use tabane_engine::policy::PolicyError;
use tabane_engine::{egress, scheduler};

/// Refuses what cannot run, whatever the topology.
pub(crate) fn settings(scenario: &Scenario) -> Result<(), Fault> {
    if scenario.duration.0.is_zero() {
        return Err(Fault::new(&[&"duration"], "a run needs a duration").help("write \"30s\""));
    }
    if !matches!(scenario.ip, 4 | 6) {
        return Err(Fault::new(&[&"ip"], "ip is 4 or 6"));
    }
    let plain = Config::default();
    let mut defaults = plain.clone();
    scenario.defaults.apply(&mut defaults);
    check_host(&["defaults"], &scenario.defaults, &plain)?;
    for (name, host) in scenario.host.iter() {
        check_host(&["host", name], host, &defaults)?;
    }
    for (name, proxy) in scenario.proxy.iter() {
        check_host(&["proxy", name, "listen"], &proxy.listen, &defaults)?;
        check_host(&["proxy", name, "connect"], &proxy.connect, &defaults)?;
    }
    if let Some(name) = scenario.tunnel.names().next().filter(|_| scenario.offload) {
        let fault = Fault::new(&[&"tunnel", &name], "a tunnel carries no super-packets");
        return Err(fault.help("remove the tunnel, or `offload`"));
    }
    for (name, tunnel) in scenario.tunnel.iter() {
        if scenario.link.get(name).is_some() {
            let fault = Fault::new(&[&"tunnel", &name], format!("'{name}' is a link and a tunnel"));
            return Err(fault.help("paths could not tell them apart: rename one"));
        }
        check_host(&["tunnel", name], &tunnel.settings(), &defaults)?;
        tunnel.fault(name).map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Refuses flows, changes and captures that cannot be in this topology.
pub(crate) fn events(scenario: &Scenario, topology: &Topology) -> Result<(), Fault> {
    if scenario.flow.is_empty() {
        let fault = Fault::new(&[&"flow"], "there is no flow, so nothing would happen");
        return Err(fault.help("add [[flow]] with bulk = \"20MB\""));
    }
    for (n, flow) in scenario.flow.iter().enumerate() {
        check_flow(n, flow, scenario, topology)?;
    }
    check_names(scenario)?;
    check_counts(scenario)?;
    for (n, change) in scenario.at.iter().enumerate() {
        check_change(n, change, scenario, topology)?;
    }
    if let Some(sample) = scenario.output.sample {
        let at: &[&dyn Display] = &[&"output", &"sample"];
        not_a_storm(sample).map_err(|message| Fault::new(at, message))?;
    }
    for (n, name) in scenario.output.pcap.iter().enumerate() {
        let hosts = topology.hosts.iter().map(|h| h.name.as_str());
        let known: Vec<_> = hosts.chain(scenario.link.names()).collect();
        if !known.contains(&name.as_str()) {
            let at: &[&dyn Display] = &[&"output", &"pcap", &n];
            return Err(Fault::unknown(at, "host or link", name, known.into_iter()));
        }
    }
    Ok(())
}

/// What a host is told, over what it is without that.
fn check_host(at: &[&str], host: &Host, base: &Config) -> Result<(), Fault> {
    let tcp = &host.tcp;
    let fault = |keys: &[&str], message: String| {
        let at = at.iter().chain(keys).map(|key| (*key).to_owned()).collect();
        Fault { at, message, help: None }
    };
    let timers =
        [("keepalive", tcp.keepalive), ("rto_initial", tcp.rto_initial), ("rto_max", tcp.rto_max)];
    for (key, timer) in timers {
        not_a_storm(timer.unwrap_or(PERIOD)).map_err(|message| fault(&["tcp", key], message))?;
    }
    if let Some((key, message)) = tcp.fault(&base.tcp) {
        return Err(fault(&["tcp", key], message));
    }
    if let Some((key, message)) = tcp.linux.and_then(|linux| linux.fault()) {
        return Err(fault(&["tcp", "linux", key], message));
    }
    if let Some(Mptcp::Settings(settings)) = &host.mptcp
        && let Some((key, message)) = settings.fault()
    {
        return Err(fault(&["mptcp", key], message));
    }
    check_policies(at, &host.scheduler, &host.congestion, &host.egress)
}

fn check_policies(
    at: &[&str],
    scheduler: &Option<PolicySpec>,
    congestion: &Option<PolicySpec>,
    egress: &Option<PolicySpec>,
) -> Result<(), Fault> {
    let fault = |key: &str, error: PolicyError| {
        let at: Vec<&dyn Display> = at.iter().map(|k| k as &dyn Display).collect();
        Fault::policy(&[&at[..], &[&key]].concat(), &error)
    };
    if let Some(choice) = scheduler {
        scheduler::build(&choice.0).map_err(|e| fault("scheduler", e))?;
    }
    if let Some(choice) = congestion {
        let start = Start::new(1448, 14_480, u64::MAX);
        congestion::build(&choice.0, start).map_err(|e| fault("congestion", e))?;
    }
    if let Some(choice) = egress {
        egress::build(&choice.0).map_err(|e| fault("egress", e))?;
    }
    Ok(())
}

fn check_flow(
    n: usize,
    flow: &Flow,
    scenario: &Scenario,
    topology: &Topology,
) -> Result<(), Fault> {
    let apps = flow.apps();
    if apps.len() != 1 {
        let message = match apps.len() {
            0 => "this flow has no application".to_owned(),
            _ => format!("a flow has one application, this one has {}", apps.join(" and ")),
        };
        return Err(Fault::new(&[&"flow", &n], message)
            .help("give one of bulk, request, paced, onoff; as in bulk = \"20MB\""));
    }
    if flow.count == 0 {
        return Err(Fault::new(&[&"flow", &n, &"count"], "a flow that comes 0 times"));
    }
    let last = Time(flow.start.0 + flow.stagger.0 * u64::from(flow.count - 1));
    if let Some(stop) = flow.stop.filter(|stop| stop.0 <= last.0) {
        let message = format!("a flow that stops at {stop} and starts at {last}");
        return Err(Fault::new(&[&"flow", &n, &"stop"], message));
    }
    check_way(n, flow, scenario, topology)?;
    check_app(n, flow)
}

/// Whether each flow has a name of its own, also those that are several.
fn check_names(scenario: &Scenario) -> Result<(), Fault> {
    let named = || scenario.flow.iter().enumerate().map(|(n, flow)| (flow.name_at(n), n, flow));
    let mut names: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
    let twice = |name: &str, n: usize| {
        let at: &[&dyn Display] = &[&"flow", &n, &"name"];
        Fault::new(at, format!("there are two flows '{name}'"))
    };
    for (name, n, _) in named() {
        if let Some(first) = names.insert(name.clone(), n) {
            // The one that has it by default has no place where it is written.
            let written = if scenario.flow[n].name.is_some() { n } else { first };
            return Err(twice(&name, written));
        }
    }
    for (name, _, flow) in named().filter(|(_, _, flow)| flow.count > 1) {
        let prefix = format!("{name}.");
        let rest = names.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
        for (other, n) in rest.take_while(|(other, _)| other.starts_with(&prefix)) {
            let number = &other[prefix.len()..];
            let is_one = |k: u32| k.to_string() == number && (1..=flow.count).contains(&k);
            if number.parse().is_ok_and(is_one) {
                let fault = twice(other, *n);
                return Err(fault.help(format!("flow '{name}' is {} of them", flow.count)));
            }
        }
    }
    Ok(())
}

/// Flows of a run.
pub(crate) const MAX_FLOWS: u64 = 1_000_000;

/// Whether there are no more flows than a run can hold, and two nodes tell apart.
fn check_counts(scenario: &Scenario) -> Result<(), Fault> {
    let mut all = 0;
    let mut between: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (n, flow) in scenario.flow.iter().enumerate() {
        let at: &[&dyn Display] = &[&"flow", &n, &"count"];
        all += u64::from(flow.count);
        if all > MAX_FLOWS {
            return Err(Fault::new(at, format!("{all} flows, the most is {MAX_FLOWS}")));
        }
        for (a, b) in flow.nodes().zip(flow.nodes().skip(1)) {
            let count = between.entry((a, b)).or_default();
            *count += u64::from(flow.count);
            if *count > u64::from(Ports::MOST) {
                let message = format!("{count} flows from '{a}' to '{b}'");
                let fault = Fault::new(at, format!("{message}, the most is {}", Ports::MOST));
                return Err(fault.help("each has a port of its own: let more hosts connect"));
            }
        }
    }
    Ok(())
}

/// Proxies on the way of a flow.
const MAX_PROXIES: usize = 64;

/// Whether a flow can get from node to node.
fn check_way(n: usize, flow: &Flow, scenario: &Scenario, topology: &Topology) -> Result<(), Fault> {
    for (key, name) in [("from", &flow.from), ("to", &flow.to)] {
        let at: &[&dyn Display] = &[&"flow", &n, &key];
        if scenario.proxy.get(name).is_some() {
            let fault =
                Fault::new(at, format!("'{name}' is a proxy: flows begin and end at hosts"));
            return Err(fault.help(format!("write via = [\"{name}\"]")));
        }
        if topology.host(name).is_none() {
            return Err(Fault::unknown(at, "host", name, topology.host_names()));
        }
    }
    if flow.from == flow.to {
        return Err(Fault::new(&[&"flow", &n, &"to"], "a flow from a host to itself"));
    }
    if flow.via.len() > MAX_PROXIES {
        let message = format!("a flow is relayed by at most {MAX_PROXIES} proxies");
        return Err(Fault::new(&[&"flow", &n, &"via"], message));
    }
    for (k, name) in flow.via.iter().enumerate() {
        let at: &[&dyn Display] = &[&"flow", &n, &"via", &k];
        if scenario.proxy.get(name).is_none() {
            let fault = Fault::unknown(at, "proxy", name, scenario.proxy.names());
            let is_host = topology.host(name).is_some();
            let help = format!("'{name}' relays nothing without [proxy.{name}]");
            return Err(if is_host { fault.help(help) } else { fault });
        }
        if flow.via[..k].contains(name) {
            return Err(Fault::new(at, format!("this flow is relayed by '{name}' twice")));
        }
    }
    for (k, (a, b)) in flow.nodes().zip(flow.nodes().skip(1)).enumerate() {
        if !topology.reachable(a, b) || !topology.reachable(b, a) {
            let key = match (flow.via.is_empty(), flow.to == "server") {
                (false, _) => "via",
                (true, true) => "from",
                (true, false) => "to",
            };
            let at: &[&dyn Display] = match key {
                "via" => &[&"flow", &n, &"via", &k],
                _ => &[&"flow", &n, &key],
            };
            return Err(Fault::new(at, format!("no path leads from '{a}' to '{b}'"))
                .help("add one under [path], or links that join them"));
        }
    }
    Ok(())
}

/// What happens again and again, again after this at the soonest: a run would not end otherwise.
const PERIOD: Time = Time(Duration::from_micros(100));
/// Time between two messages of a flow at least: 10 Gbit/s of 125 bytes.
const MESSAGE_NANOS: u128 = 100;

/// Refuses a period that would fill the run with events.
fn not_a_storm(period: Time) -> Result<(), String> {
    if period >= PERIOD {
        return Ok(());
    }
    Err(format!("again after {period}: at the soonest after {PERIOD}"))
}

/// What is wrong with a flow's application.
fn check_app(n: usize, flow: &Flow) -> Result<(), Fault> {
    if flow.direction == FlowDirection::Both && flow.bulk.is_none() {
        let fault = Fault::new(&[&"flow", &n, &"direction"], "only bulk goes both ways at once");
        return Err(fault.help("give bulk, or direction = \"download\" or \"upload\""));
    }
    if let Some(paced) = &flow.paced {
        if paced.message.0 == 0 {
            return Err(Fault::new(&[&"flow", &n, &"paced", &"message"], "messages of 0 bytes"));
        }
        let nanos = u128::from(paced.message.0) * 8_000_000_000 / u128::from(paced.rate.0);
        if nanos < MESSAGE_NANOS {
            let message = format!("a message every {nanos} ns: at most one in {MESSAGE_NANOS} ns");
            let fault = Fault::new(&[&"flow", &n, &"paced"], message);
            return Err(fault.help("make messages larger, or the rate smaller"));
        }
    }
    if let Some(request) = &flow.request
        && (request.size.0 == 0 || request.request.0 == 0)
    {
        let message = "requests and answers have at least one byte";
        return Err(Fault::new(&[&"flow", &n, &"request"], message));
    }
    if let Some(onoff) = &flow.onoff {
        if onoff.on.0.is_zero() {
            return Err(Fault::new(&[&"flow", &n, &"onoff", &"on"], "a source that is never on"));
        }
        let at: &[&dyn Display] = &[&"flow", &n, &"onoff"];
        let period = Time(onoff.on.0 + onoff.off.0);
        not_a_storm(period).map_err(|message| Fault::new(at, message))?;
    }
    Ok(())
}

fn check_change(
    n: usize,
    change: &Change,
    scenario: &Scenario,
    topology: &Topology,
) -> Result<(), Fault> {
    let here: &[&dyn Display] = &[&"at", &n];
    let targets = change.targets();
    let [target] = targets[..] else {
        let help = "give one of down = LINK, up = LINK, link = LINK, host = HOST";
        return Err(Fault::new(here, "a change is about one thing").help(help));
    };
    let (link_keys, host_keys) = (change.link_keys(), change.host_keys());
    let (wrong, fits) = match target {
        "link" => (&host_keys[..], link_keys.iter().any(|k| *k != "direction")),
        "host" => {
            (&link_keys[..], host_keys.iter().any(|k| !matches!(*k, "flow" | "side" | "path")))
        }
        _ => (if link_keys.is_empty() { &host_keys[..] } else { &link_keys[..] }, true),
    };
    if let Some(key) = wrong.first() {
        let message = format!("'{key}' does not go with '{target}'");
        return Err(Fault::new(&[&"at", &n, key], message));
    }
    if !fits {
        let help = match target {
            "link" => {
                let params: Vec<_> = change.params_given().iter().map(|(name, _)| *name).collect();
                format!("give {} or mtu", params.join(", "))
            }
            _ => "give scheduler, congestion, egress, backup, subflow, abort or asleep".into(),
        };
        return Err(Fault::new(here, "this changes nothing").help(help));
    }
    if change.silent && target != "down" {
        return Err(Fault::new(&[&"at", &n, &"silent"], "only what goes down does so silently"));
    }
    if let Some(every) = change.every {
        let at: &[&dyn Display] = &[&"at", &n, &"every"];
        not_a_storm(every).map_err(|message| Fault::new(at, message))?;
    }
    for (key, name) in [("down", &change.down), ("up", &change.up), ("link", &change.link)] {
        if let Some(name) = name
            && scenario.link.get(name).is_none()
        {
            return Err(Fault::unknown(&[&"at", &n, &key], "link", name, scenario.link.names()));
        }
    }
    check_link_change(n, change)?;
    check_host_change(n, change, scenario, topology)
}

/// What a link becomes has the limits of what one may be.
fn check_link_change(n: usize, change: &Change) -> Result<(), Fault> {
    let queue = change.queue.as_ref().map(|queue| queue::build(&queue.0).map(drop));
    let loss = change.loss.as_ref().map(|loss| loss::build(&loss.0).map(drop));
    for (key, built) in [("queue", queue), ("loss", loss)] {
        if let Some(Err(error)) = built {
            return Err(Fault::policy(&[&"at", &n, &key], &error));
        }
    }
    check_mtu(change.mtu, &[&"at", &n, &"mtu"])
}

fn check_host_change(
    n: usize,
    change: &Change,
    scenario: &Scenario,
    topology: &Topology,
) -> Result<(), Fault> {
    let Some(name) = &change.host else { return Ok(()) };
    let Some(host) = topology.host(name) else {
        let known = topology.host_names();
        return Err(Fault::unknown(&[&"at", &n, &"host"], "host", name, known));
    };
    if change.side.is_some() && scenario.proxy.get(name).is_none() {
        let message = format!("'{name}' is not a proxy: it has no sides");
        return Err(Fault::new(&[&"at", &n, &"side"], message));
    }
    if let Some(path) = &change.path {
        let paths = || topology.hosts[host].paths.iter().map(|p| p.name.as_str());
        if !paths().any(|p| p == path) {
            return Err(Fault::unknown(&[&"at", &n, &"path"], "path", path, paths()));
        }
        if change.backup.is_none() && change.subflow.is_none() && change.congestion.is_none() {
            let message =
                "'path' is for backup, subflow and congestion: the rest is of connections";
            return Err(Fault::new(&[&"at", &n, &"path"], message));
        }
    } else if change.backup.is_some() || change.subflow.is_some() {
        let fault = Fault::new(&[&"at", &n], "whose subflows? 'path' is missing");
        return Err(fault.help("add path = NAME"));
    }
    let any_of = |meant: &str| {
        let mut groups = scenario.flow.iter().filter_map(|f| Some((f.name.as_ref()?, f.count)));
        groups.any(|(name, count)| is_named(name, meant) || count > 1 && is_named(meant, name))
    };
    if let Some(flow) = &change.flow
        && !any_of(flow)
    {
        let known = scenario.flow.iter().filter_map(|f| f.name.as_deref());
        return Err(Fault::unknown(&[&"at", &n, &"flow"], "named flow", flow, known));
    }
    let n = n.to_string();
    check_policies(&["at", &n], &change.scheduler, &change.congestion, &change.egress)
}
