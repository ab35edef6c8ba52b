//! Changes that the page makes at once for several hosts.

use serde_json::json;
use tabane_sim::Plan;
use tabane_sim::scenario::Host;

/// A policy for every host that follows `[defaults]`, as changes of each.
pub(crate) fn of_policy(plan: &Plan, kind: &str, policy: &str) -> Vec<String> {
    let hosts = plan.topology.hosts.iter().filter(|host| follows(plan, &host.name, kind));
    hosts.map(|host| json!({ "host": host.name, kind: policy }).to_string()).collect()
}

/// Whether a host has no such policy of its own, and speaks MPTCP or the policy is of TCP.
pub(crate) fn follows(plan: &Plan, name: &str, kind: &str) -> bool {
    let scenario = &plan.scenario;
    if scenario.proxy.get(name).is_some() {
        return false;
    }
    let Some(host) = scenario.host.get(name) else { return true };
    own(host, kind).is_none()
}

/// What a host's section says, as text.
pub(crate) fn own(host: &Host, kind: &str) -> Option<String> {
    let spec = match kind {
        "scheduler" => &host.scheduler,
        "congestion" => &host.congestion,
        "egress" => &host.egress,
        _ => &None,
    };
    spec.as_ref().map(|spec| spec.0.to_string())
}
