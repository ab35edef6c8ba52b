//! What is wrong with the host of a client in TUN mode.

use super::Finding;
use super::Verdict::{Bad, Good, Note};
use super::host::Host;
use super::routes::MainRoute;
use crate::access::Prefix;
use crate::model::{Status, TunStatus};
use std::net::IpAddr;
use std::path::Path;

/// Routes that are named; of more only the number is told.
const NAMED: usize = 6;

/// What a client that was killed has left, as that file says.
pub(super) fn left(file: &Path) -> Finding {
    let text =
        format!("a client that was killed has left changes to this host ({})", file.display());
    let remedy = "start it again, or `tabane client cleanup`";
    Finding::new("tun", "left", Bad, text).remedy(remedy)
}

/// The device, and routes of the host that lead past it, or would.
pub(super) fn findings(status: &Status, host: &Host) -> Vec<Finding> {
    let Some(tun) = &status.tun else { return Vec::new() };
    let mut found = vec![device(tun)];
    found.extend(rules(tun, host));
    let routed = prefixes(&tun.routes);
    let local = prefixes(&tun.local_networks);
    let servers: Vec<IpAddr> =
        status.paths.iter().filter_map(|path| path.remote).map(|remote| remote.ip()).collect();
    let past = |route: &&MainRoute| {
        let inside = routed.iter().any(|p| *p != route.to && p.covers(&route.to));
        let to_server = route.to.is_host() && servers.contains(&route.to.address());
        let link_local = matches!(route.to.address(), IpAddr::V6(v6) if v6.is_unicast_link_local());
        inside && route.device != tun.device && !to_server && !link_local
    };
    let past: Vec<&MainRoute> = host.routes.iter().filter(past).collect();
    if tun.kill_switch {
        let held = |route: &&&MainRoute| {
            let listed = |p: &Prefix| p.covers(&route.to);
            route.via.is_some() || !local.iter().any(listed)
        };
        let held: Vec<&MainRoute> = past.iter().filter(held).copied().collect();
        if !held.is_empty() {
            let text = format!(
                "routes of the host that would lead past the tunnel, without effect because of \
                 the kill switch: {}",
                list(&held)
            );
            found.push(Finding::new("tun", "routes", Note, text).remedy(
                "if you did not set them, a network that this host is in did (DHCP option 121, \
                 router advertisements): do not trust it",
            ));
        }
        return found;
    }
    let public: Vec<&MainRoute> =
        past.into_iter().filter(|route| !is_private(route.to.address())).collect();
    if !public.is_empty() {
        let text = format!("routes of the host lead past the tunnel: {}", list(&public));
        found.push(Finding::new("tun", "routes", Bad, text).remedy(
            "kill_switch = true under [tun] overrules them; if you did not set them, a network \
             that this host is in did (DHCP option 121, router advertisements)",
        ));
    }
    found
}

fn rules(tun: &TunStatus, host: &Host) -> Option<Finding> {
    if host.rules.is_empty() {
        return None;
    }
    let numbers: Vec<String> = host.rules.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if host.rules.len() > NAMED { " ..." } else { "" };
    let also = if tun.kill_switch { ", in spite of the kill switch" } else { "" };
    let text = format!(
        "rules of others come before the tunnel's, and what they match does not go through it\
         {also}: priorities {}{more}",
        numbers.join(", ")
    );
    let remedy = "`ip rule` and `ip -6 rule` show them; other VPNs have such";
    Some(Finding::new("tun", "rules", Note, text).remedy(remedy))
}

fn device(tun: &TunStatus) -> Finding {
    let text = format!("{}: {}", tun.device, tun.reason);
    match tun.state.as_str() {
        "up" => Finding::new("tun", "device", Good, text),
        "waiting" => Finding::new("tun", "device", Note, text),
        _ => Finding::new("tun", "device", Bad, text).remedy(
            "it is tried again every second; something on this host takes it away, or has taken \
             the client's permission (CAP_NET_ADMIN)",
        ),
    }
}

fn prefixes(all: &[String]) -> Vec<Prefix> {
    all.iter().filter_map(|text| text.parse().ok()).collect()
}

fn list(routes: &[&MainRoute]) -> String {
    let mut text: Vec<String> = routes.iter().take(NAMED).map(ToString::to_string).collect();
    if routes.len() > NAMED {
        text.push(format!("and {} more", routes.len() - NAMED));
    }
    text.join(", ")
}

/// Whether a network there is somebody's own.
fn is_private(address: IpAddr) -> bool {
    let all = crate::tun::host::LOCAL_NETWORKS.iter();
    all.filter_map(|text| text.parse::<Prefix>().ok()).any(|prefix| prefix.holds(address))
}
