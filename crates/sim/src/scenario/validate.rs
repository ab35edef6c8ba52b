//! What a well-formed scenario may still have wrong: names that do not exist, policies that do
//! not, flows without an application, changes that change nothing.

use super::error::{Fault, suggest};
use super::{Change, Choice, Flow, Host, Scenario};
use crate::topology::Topology;
use std::fmt::Display;
use tabane_engine::congestion::{self, Start};
use tabane_engine::policy::PolicyError;
use tabane_engine::{egress, scheduler};

/// Refuses what cannot run.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Fault> {
    if scenario.duration.0.is_zero() {
        return Err(Fault::new(&[&"duration"], "a run needs a duration").help("write \"30s\""));
    }
    if !matches!(scenario.ip, 4 | 6) {
        return Err(Fault::new(&[&"ip"], "ip is 4 or 6"));
    }
    check_host(&["defaults"], &scenario.defaults)?;
    for (name, host) in scenario.host.iter() {
        check_host(&["host", name], host)?;
    }
    let topology = Topology::build(scenario)?;
    if scenario.flow.is_empty() {
        let fault = Fault::new(&[&"flow"], "there is no flow, so nothing would happen");
        return Err(fault.help("add [[flow]] with bulk = \"20MB\""));
    }
    let mut names: Vec<&str> = Vec::new();
    for (n, flow) in scenario.flow.iter().enumerate() {
        check_flow(n, flow, &topology)?;
        if let Some(name) = flow.name.as_deref() {
            if names.contains(&name) {
                let at: &[&dyn Display] = &[&"flow", &n, &"name"];
                return Err(Fault::new(at, format!("there are two flows '{name}'")));
            }
            names.push(name);
        }
    }
    for (n, change) in scenario.at.iter().enumerate() {
        check_change(n, change, scenario, &topology)?;
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

fn check_host(at: &[&str], host: &Host) -> Result<(), Fault> {
    check_policies(at, &host.scheduler, &host.congestion, &host.egress)
}

fn check_policies(
    at: &[&str],
    scheduler: &Option<Choice>,
    congestion: &Option<Choice>,
    egress: &Option<Choice>,
) -> Result<(), Fault> {
    let fault = |key: &str, error: PolicyError| {
        let at: Vec<&dyn Display> = at.iter().map(|k| k as &dyn Display).collect();
        policy_fault(&[&at[..], &[&key]].concat(), &error)
    };
    if let Some(choice) = scheduler {
        scheduler::build(&choice.0).map_err(|e| fault("scheduler", e))?;
    }
    if let Some(choice) = congestion {
        let start = Start { mss: 1448, cwnd: 14_480, ssthresh: u64::MAX };
        congestion::build(&choice.0, start).map_err(|e| fault("congestion", e))?;
    }
    if let Some(choice) = egress {
        egress::build(&choice.0).map_err(|e| fault("egress", e))?;
    }
    Ok(())
}

/// The engine's own words, with the remedy on its own line.
pub(crate) fn policy_fault(at: &[&dyn Display], error: &PolicyError) -> Fault {
    match error {
        PolicyError::Unknown { kind, name, known, .. } => {
            let known: Vec<_> = known.split(", ").collect();
            Fault::new(at, format!("unknown {kind} '{name}'")).help(format!(
                "{} All of them: {}",
                suggest(name, &known),
                known.join(", ")
            ))
        }
        other => Fault::new(at, other.to_string()),
    }
}

fn check_flow(n: usize, flow: &Flow, topology: &Topology) -> Result<(), Fault> {
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
    for (key, name) in [("from", &flow.from), ("to", &flow.to)] {
        if topology.host(name).is_none() {
            let known = topology.hosts.iter().map(|h| h.name.as_str());
            return Err(Fault::unknown(&[&"flow", &n, &key], "host", name, known));
        }
    }
    if flow.from == flow.to {
        return Err(Fault::new(&[&"flow", &n, &"to"], "a flow from a host to itself"));
    }
    if !topology.reachable(&flow.from, &flow.to) {
        let message = format!("no path leads from '{}' to '{}'", flow.from, flow.to);
        let key = if flow.to == "server" { "from" } else { "to" };
        return Err(Fault::new(&[&"flow", &n, &key], message)
            .help("add one under [path], or links that join them"));
    }
    if let Some(paced) = &flow.paced
        && paced.message.0 == 0
    {
        return Err(Fault::new(&[&"flow", &n, &"paced", &"message"], "messages of 0 bytes"));
    }
    if let Some(request) = &flow.request
        && (request.size.0 == 0 || request.request.0 == 0)
    {
        let message = "requests and answers have at least one byte";
        return Err(Fault::new(&[&"flow", &n, &"request"], message));
    }
    if let Some(onoff) = &flow.onoff
        && onoff.on.0.is_zero()
    {
        return Err(Fault::new(&[&"flow", &n, &"onoff", &"on"], "a source that is never on"));
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
        "host" => (&link_keys[..], host_keys.iter().any(|k| !matches!(*k, "flow" | "path"))),
        _ => (if link_keys.is_empty() { &host_keys[..] } else { &link_keys[..] }, true),
    };
    if let Some(key) = wrong.first() {
        let message = format!("'{key}' does not go with '{target}'");
        return Err(Fault::new(&[&"at", &n, key], message));
    }
    if !fits {
        let help = match target {
            "link" => "give rate, delay, jitter, loss, queue, reorder, duplicate, corrupt or mtu",
            _ => "give scheduler, congestion, egress, backup or subflow",
        };
        return Err(Fault::new(here, "this changes nothing").help(help));
    }
    if change.every.is_some_and(|every| every.0.is_zero()) {
        return Err(Fault::new(&[&"at", &n, &"every"], "a period of zero"));
    }
    for (key, name) in [("down", &change.down), ("up", &change.up), ("link", &change.link)] {
        if let Some(name) = name
            && scenario.link.get(name).is_none()
        {
            return Err(Fault::unknown(&[&"at", &n, &key], "link", name, scenario.link.names()));
        }
    }
    check_host_change(n, change, scenario, topology)
}

fn check_host_change(
    n: usize,
    change: &Change,
    scenario: &Scenario,
    topology: &Topology,
) -> Result<(), Fault> {
    let Some(name) = &change.host else { return Ok(()) };
    let Some(host) = topology.host(name) else {
        let known = topology.hosts.iter().map(|h| h.name.as_str());
        return Err(Fault::unknown(&[&"at", &n, &"host"], "host", name, known));
    };
    if let Some(path) = &change.path {
        let paths = || topology.hosts[host].paths.iter().map(|p| p.name.as_str());
        if !paths().any(|p| p == path) {
            return Err(Fault::unknown(&[&"at", &n, &"path"], "path", path, paths()));
        }
    } else if change.backup.is_some() || change.subflow.is_some() {
        let fault = Fault::new(&[&"at", &n], "whose subflows? 'path' is missing");
        return Err(fault.help("add path = NAME"));
    }
    if let Some(flow) = &change.flow
        && !scenario.flow.iter().any(|f| f.name.as_ref() == Some(flow))
    {
        let known = scenario.flow.iter().filter_map(|f| f.name.as_deref());
        return Err(Fault::unknown(&[&"at", &n, &"flow"], "named flow", flow, known));
    }
    let n = n.to_string();
    check_policies(&["at", &n], &change.scheduler, &change.congestion, &change.egress)
}
