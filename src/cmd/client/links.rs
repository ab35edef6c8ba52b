//! Which interfaces lead out: those with a default route in the kernel's main tables, as
//! `/proc/net/route` and `/proc/net/ipv6_route` tell them.

use std::collections::BTreeMap;

/// Interfaces with a default route, the preferred first; IPv4's before those of IPv6 alone.
pub(super) fn with_default_route() -> Vec<String> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let mut found = v4(&read("/proc/net/route"));
    for name in v6(&read("/proc/net/ipv6_route")) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Columns: interface, destination, gateway, flags, 2 counters, metric, mask.
fn v4(table: &str) -> Vec<String> {
    let route = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [name, "00000000", _, flags, _, _, metric, "00000000", ..] = columns[..] else {
            return None;
        };
        usable(name, flags, metric.parse().ok()?)
    };
    ordered(table.lines().filter_map(route))
}

/// Columns: destination, length, source, length, gateway, metric, 2 counters, flags, interface.
fn v6(table: &str) -> Vec<String> {
    let route = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let [to, "00", _, "00", _, metric, _, _, flags, name] = columns[..] else { return None };
        let default = to.bytes().all(|byte| byte == b'0');
        let metric = u32::from_str_radix(metric, 16).ok()?;
        usable(name, flags, metric).filter(|_| default)
    };
    ordered(table.lines().filter_map(route))
}

/// RTF_UP, and neither RTF_REJECT nor the loopback, which holds the kernel's "unreachable".
fn usable(name: &str, flags: &str, metric: u32) -> Option<(u32, String)> {
    let flags = u32::from_str_radix(flags, 16).ok()?;
    (flags & 1 != 0 && flags & 0x200 == 0 && name != "lo").then(|| (metric, name.to_owned()))
}

/// By metric, each once.
fn ordered(routes: impl Iterator<Item = (u32, String)>) -> Vec<String> {
    let mut best: BTreeMap<String, u32> = BTreeMap::new();
    for (metric, name) in routes {
        let known = best.entry(name).or_insert(metric);
        *known = metric.min(*known);
    }
    let mut all: Vec<_> = best.into_iter().map(|(name, metric)| (metric, name)).collect();
    all.sort();
    all.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found_in_order_of_metric() {
        let table = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
tun0\t00000000\t00000000\t0001\t0\t0\t50\t00000080\t0\t0\t0
down0\t00000000\t0100000A\t0002\t0\t0\t1\t00000000\t0\t0\t0
wlan0\t00000000\t0102A8C0\t0003\t0\t0\t20\t00000000\t0\t0\t0";
        assert_eq!(v4(table), ["wlan0", "eth0"]);
    }

    #[test]
    fn so_are_those_of_ipv6() {
        let zero = "0".repeat(32);
        let line = |to: &str, length: &str, metric: &str, flags: &str, name: &str| {
            format!("{to} {length} {zero} 00 {zero} {metric} 00000001 00000000 {flags} {name}\n")
        };
        let table = line(&zero, "00", "00000400", "00000003", "eth0")
            + &line(&zero, "00", "ffffffff", "00200200", "lo")
            + &line(&"f".repeat(32), "40", "00000100", "00000001", "wlan0");
        assert_eq!(v6(&table), ["eth0"]);
    }
}
