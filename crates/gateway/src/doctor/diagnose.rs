//! From facts to findings.

use super::Verdict::{Bad, Good, Note, Unknown};
use super::host::{Host, Interface, LinkFacts};
use super::{Finding, Verdict, lan, tun};
use crate::model::{PathState, PathStatus, Role, Status};
use crate::path::inner_limit;
use std::net::{IpAddr, SocketAddr};

/// IPv6 needs packets of this size.
const IPV6_MTU: u16 = 1280;
/// Shares of lost probes.
const LOSS_NOTE: f64 = 0.02;
const LOSS_BAD: f64 = 0.1;
/// A link that is so much slower than the quickest seldom helps.
const SLOW_FACTOR: f64 = 5.0;
const SLOW_MS: f64 = 150.0;
/// Clocks that differ by more make logs and certificates wrong.
const CLOCK_MS: f64 = 5000.0;
/// 2025-01-01: no clock can show less, unless it was never set.
const CLOCK_LEAST: u64 = 1_735_689_600;

/// What is wrong, and right, with an agent's links. Without a status, what the host alone says.
#[must_use]
pub(crate) fn diagnose(status: Option<&Status>, host: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(error) = &host.no_server {
        let remedy = "check the name and this machine's resolver, or give an address";
        found.push(Finding::new("server", "name", Bad, error.clone()).remedy(remedy));
    }
    match status {
        Some(status) if status.agent == "server" => {
            for path in &status.paths {
                let name = path.name.as_str();
                found.push(match path.client {
                    Some(_) => remote_tunnel(name, path),
                    // To the next server.
                    None => tunnel(path, status, None),
                });
                found.extend(quality(name, path, status));
            }
            found.push(pings(status));
        }
        Some(status) => {
            found.extend(status.paths.iter().flat_map(|path| link(path, status, host)));
            found.extend(tun::findings(status, host));
            found.extend(summary(status));
        }
        None => {
            for facts in &host.links {
                found.extend(ground(&facts.want.name, facts, host, false));
                let text = "no agent runs and none could be tried";
                found.push(Finding::new(&facts.want.name, "tunnel", Unknown, text));
            }
        }
    }
    found.extend(host.left.iter().map(|file| tun::left(file)));
    if let Some(facts) = &host.lan {
        let running = status.filter(|status| status.tun.is_some());
        found.extend(lan::findings(facts, running));
    }
    found.extend(clock(status, host));
    found
}

/// All of one link of a client.
fn link(path: &PathStatus, status: &Status, host: &Host) -> Vec<Finding> {
    let name = path.name.as_str();
    if path.role == Role::Never {
        let remedy = format!("`tabane path set {name} --role primary` uses it");
        return vec![Finding::new(name, "role", Note, "not used: role never").remedy(remedy)];
    }
    let facts = host.links.iter().find(|facts| facts.want.name == path.name);
    let up = path.state == PathState::Up;
    let mut found = Vec::new();
    if let Some(facts) = facts {
        found.extend(ground(name, facts, host, up));
    }
    // What has no ground needs no second complaint.
    if found.iter().all(|finding| finding.verdict != Bad) {
        found.push(tunnel(path, status, facts));
    }
    if up {
        found.extend(mtu(path, facts));
        found.extend(quality(name, path, status));
        found.extend(nat(path, facts));
    }
    if path.quota_left == Some(0) {
        let remedy = "it is used again in the next period, or with a larger `quota`";
        found.push(Finding::new(name, "quota", Bad, "its quota is used up").remedy(remedy));
    }
    found
}

/// Interface, address and route.
fn ground(name: &str, facts: &LinkFacts, host: &Host, works: bool) -> Vec<Finding> {
    let finding = |check, verdict, text: String| Finding::new(name, check, verdict, text);
    if works {
        return Vec::new();
    }
    if let Some(interface) = &facts.interface {
        let i = interface.name.as_str();
        let wrong = if !interface.there {
            let others: Vec<&str> =
                host.interfaces.iter().map(String::as_str).filter(|name| *name != "lo").collect();
            Some((
                "interface",
                format!("interface {i} is not there"),
                format!("plug it in, or name another one; there are: {}", others.join(", ")),
            ))
        } else if !interface.enabled {
            let remedy = format!("ip link set {i} up");
            Some(("interface", format!("interface {i} is switched off"), remedy))
        } else if !interface.carrier {
            let remedy = "check its cable, radio or SIM card".to_owned();
            Some(("interface", format!("interface {i} has no connection"), remedy))
        } else if interface.addresses.is_empty() {
            let remedy = "its router or modem gives none: check DHCP there, or set one".to_owned();
            Some(("address", format!("interface {i} has no address"), remedy))
        } else {
            other_family(interface, facts.want.remote)
        };
        if let Some((check, text, remedy)) = wrong {
            return vec![finding(check, Bad, text).remedy(remedy)];
        }
    }
    if let (Some(false), Some(source)) = (facts.source_there, facts.want.source) {
        let remedy = "set `interface` in place of `source` if addresses change";
        let text = format!("no interface has the address {source}");
        return vec![finding("address", Bad, text).remedy(remedy)];
    }
    match (&facts.route, facts.want.remote) {
        (Some(Err(error)), Some(server)) => {
            let from = facts.want.interface.as_deref().unwrap_or("this machine");
            let remedy = format!(
                "give it a route of its own, behind the others: \
                 ip route add default via GATEWAY dev {from} metric 1000"
            );
            let text = format!("no way from {from} to {server}: {error}");
            vec![finding("route", Bad, text).remedy(remedy)]
        }
        (Some(Ok(from)), Some(server)) => {
            vec![finding("route", Good, format!("{server} is reached from {from}"))]
        }
        _ => Vec::new(),
    }
}

/// An interface that has addresses, but none of the family by which the server is reached.
fn other_family(
    interface: &Interface,
    server: Option<SocketAddr>,
) -> Option<(&'static str, String, String)> {
    let server = server.filter(|server| !interface.has_family(server.is_ipv6()))?;
    let [none, other] = if server.is_ipv6() { ["IPv6", "IPv4"] } else { ["IPv4", "IPv6"] };
    let i = &interface.name;
    let text = format!("interface {i} has no {none} address, and the server is at {server}");
    let remedy = format!("add an {other} address of the server to `addresses` under [[server]]");
    Some(("address", text, remedy))
}

/// Whether the server answers.
fn tunnel(path: &PathStatus, status: &Status, facts: Option<&LinkFacts>) -> Finding {
    let name = path.name.as_str();
    if path.state == PathState::Up {
        let age = path.handshake_age_s;
        let age = age.map(|s| format!(", last handshake {s:.0} s ago")).unwrap_or_default();
        return Finding::new(name, "tunnel", Good, format!("the server answers{age}"));
    }
    let server = path.remote.or(facts.and_then(|f| f.want.remote)).or(status.server);
    let port = server.map_or(0, |server| server.port());
    let others = status.paths.iter().any(|other| other.state == PathState::Up);
    let remedy = if path.state == PathState::Absent {
        "see the reason; once it is there it is used within 2 s".to_owned()
    } else if path.handshake_age_s.is_some() && !others {
        "it worked before: the server has stopped, this client was removed or disabled there, or \
         the network on the way is down"
            .into()
    } else if path.handshake_age_s.is_some() {
        "it worked before: the network behind it is down, or drops what is not known to it".into()
    } else if others {
        format!(
            "the server answers other links: this one's network blocks or loses UDP to port \
             {port}, or the server does not know this path's key (was a path added after joining?)"
        )
    } else {
        format!(
            "is the server running, is its UDP port {port} open in its firewall and its \
             provider's, and do both sides have each other's keys? A client that was removed or \
             disabled at the server gets no answer, as a wrong key gets none"
        )
    };
    let server = server.map_or_else(|| "the server".into(), |server| server.to_string());
    let text = format!("{server} does not answer: {}", path.reason);
    Finding::new(name, "tunnel", Bad, text).remedy(remedy)
}

/// A client's path, seen from the server.
fn remote_tunnel(name: &str, path: &PathStatus) -> Finding {
    match path.state {
        PathState::Up => Finding::new(name, "tunnel", Good, "the client answers"),
        _ => Finding::new(name, "tunnel", Note, path.reason.clone())
            .remedy("`tabane doctor` at the client says more"),
    }
}

/// The largest packet, and what limits it.
fn mtu(path: &PathStatus, facts: Option<&LinkFacts>) -> Option<Finding> {
    let (name, mtu) = (path.name.as_str(), path.mtu);
    if mtu == 0 {
        return None;
    }
    if mtu < IPV6_MTU {
        let text = format!("largest packet inside {mtu} bytes: too small for IPv6");
        let remedy = "look for a tunnel below it that takes room, or raise the interface's MTU";
        return Some(Finding::new(name, "mtu", Bad, text).remedy(remedy));
    }
    if facts.is_some_and(|facts| facts.want.mtu == Some(mtu)) {
        let text = format!("largest packet inside {mtu} bytes, as configured");
        return Some(Finding::new(name, "mtu", Good, text));
    }
    let outer = facts.and_then(|facts| facts.interface.as_ref()?.mtu);
    let v6 = path.remote.is_some_and(|remote| remote.is_ipv6());
    let text = match outer {
        Some(outer) if mtu >= inner_limit(outer, v6) => {
            format!("largest packet inside {mtu} bytes, all that the interface's {outer} allow")
        }
        Some(outer) => {
            let possible = inner_limit(outer, v6);
            let text = format!(
                "largest packet inside {mtu} bytes; the interface allows {possible}, something on \
                 the way (PPPoE, a tunnel, mobile network) does not, or the search is under way"
            );
            return Some(Finding::new(name, "mtu", Note, text));
        }
        None => format!("largest packet inside {mtu} bytes"),
    };
    Some(Finding::new(name, "mtu", Good, text))
}

/// Loss and round-trip time now.
fn quality(name: &str, path: &PathStatus, status: &Status) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(loss) = path.loss.filter(|_| path.state == PathState::Up) {
        let text = format!("{:.1} % of the last probes lost", loss * 100.0);
        found.push(match loss {
            loss if loss >= LOSS_BAD => Finding::new(name, "loss", Bad, text).remedy(
                "a weak signal or an overloaded link: move the antenna, cap its rate, or make it \
                 a backup",
            ),
            loss if loss >= LOSS_NOTE => Finding::new(name, "loss", Note, text),
            _ => Finding::new(name, "loss", Good, text),
        });
    }
    if let Some(rtt) = path.rtt_ms.filter(|_| path.state == PathState::Up) {
        let same =
            |other: &&PathStatus| other.client == path.client && other.state == PathState::Up;
        let rtts = status.paths.iter().filter(same).filter_map(|other| other.rtt_ms);
        let least = rtts.fold(rtt, f64::min);
        let slow = rtt > SLOW_MS && rtt > least * SLOW_FACTOR;
        let text = format!("round-trip time {rtt:.1} ms");
        found.push(if slow {
            let remedy = "it helps bulk transfers only; role secondary keeps it out of the rest";
            let text = format!("{text}, the quickest link has {least:.1} ms");
            Finding::new(name, "rtt", Note, text).remedy(remedy)
        } else {
            Finding::new(name, "rtt", Good, text)
        });
    }
    found
}

fn nat(path: &PathStatus, facts: Option<&LinkFacts>) -> Option<Finding> {
    let (name, local) = (path.name.as_str(), path.local?);
    // Bound to an interface and not to an address: one of the interface's it is.
    let ours = facts.and_then(|facts| facts.interface.as_ref());
    let ours = ours.map_or(&[][..], |interface| &interface.addresses[..]);
    let finding = |verdict: Verdict, text: String| Some(Finding::new(name, "nat", verdict, text));
    match path.seen_as {
        Some(seen) if seen == local => finding(Good, format!("no NAT: {local} is seen as it is")),
        Some(seen) if local.ip().is_unspecified() && ours.contains(&seen.ip()) => {
            let same = if seen.port() == local.port() { "" } else { ", with another port" };
            finding(Good, format!("no NAT: {} is seen as it is{same}", seen.ip()))
        }
        // Which address it leaves from, the host's routes decide.
        Some(_) if local.ip().is_unspecified() && ours.is_empty() => None,
        Some(seen) if seen.ip() == local.ip() => {
            let text = format!("a NAT on the way changes the port: {local} is seen as {seen}");
            finding(Note, text)
        }
        Some(seen) => finding(Good, format!("behind a NAT: the server sees {seen}")),
        None if local.ip().is_unspecified() => None,
        None if is_private(local.ip()) => {
            let far = path.remote.is_some_and(|remote| !is_private(remote.ip()));
            let behind = format!("{local} is private, so a NAT is on the way; its outer address");
            if far { finding(Unknown, format!("{behind} is not told")) } else { None }
        }
        None => None,
    }
}

/// Whether anything works at all.
fn summary(status: &Status) -> Option<Finding> {
    let up = status.paths.iter().filter(|path| path.state == PathState::Up).count();
    let all = status.paths.len();
    let text = format!("{up} of {all} links work");
    Some(match up {
        0 if all == 0 => Finding::new("agent", "links", Bad, "it has no links")
            .remedy("configure one or more [[path]]"),
        0 => Finding::new("agent", "links", Bad, text).remedy("see the links above"),
        1 if all > 1 => Finding::new("agent", "links", Note, text + ": nothing is bundled"),
        _ => Finding::new("agent", "links", Good, text),
    })
}

/// Whether clients can ping through a server.
fn pings(status: &Status) -> Finding {
    let Some(why) = &status.no_pings else {
        return Finding::new("server", "pings", Good, "clients can ping through this server");
    };
    let text = format!("clients cannot ping through this server: {why}");
    let remedy = "`tabane service install --pings`, or sysctl -w \
                  net.ipv4.ping_group_range='0 2147483647', and in /etc/sysctl.d";
    Finding::new("server", "pings", Note, text).remedy(remedy)
}

fn clock(status: Option<&Status>, host: &Host) -> Vec<Finding> {
    if host.unix_s < CLOCK_LEAST {
        let remedy = "set it (NTP): servers refuse handshakes that are older than the last one";
        let text = "this machine's clock was never set";
        return vec![Finding::new("clock", "clock", Bad, text).remedy(remedy)];
    }
    let Some(status) = status.filter(|status| status.agent == "client") else { return Vec::new() };
    vec![match status.clock_ahead_ms {
        Some(ms) if ms.abs() > CLOCK_MS => {
            let text = format!("the far end's clock differs by {:.0} s", ms / 1e3);
            let remedy = "set both clocks by NTP; logs of both sides do not fit otherwise";
            Finding::new("clock", "clock", Note, text).remedy(remedy)
        }
        Some(ms) => {
            let text = format!("the far end's clock agrees within {:.0} ms", ms.abs().max(1.0));
            Finding::new("clock", "clock", Good, text)
        }
        None => Finding::new("clock", "clock", Unknown, "the far end does not tell its time"),
    }]
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        // 100.64/10 is what carriers use for NAT (RFC 6598).
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
