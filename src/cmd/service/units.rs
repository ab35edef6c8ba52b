//! The units themselves: texts of `packaging/systemd`, with the program's place filled in.

use std::collections::BTreeSet;

/// Where an administrator's units are; a package moves them to its own place.
pub(super) const FOLDER: &str = "/etc/systemd/system";
/// Where units are linked that start by themselves.
pub(super) const WANTED: &str = "/etc/systemd/system/multi-user.target.wants";
/// The files in [`FOLDER`].
pub(super) const NAMES: [&str; 2] = ["tabane-server.service", "tabane-client@.service"];
/// What folders of clients may hold: for a TUN device, the list of resolvers, and a router.
pub(super) const DROP_INS: [&str; 3] = ["tun.conf", "dns.conf", "lan.conf"];
/// Lets the kernel give the server sockets for pings.
pub(super) const SYSCTL: &str = "/etc/sysctl.d/60-tabane.conf";

const SERVER: &str = include_str!("../../../packaging/systemd/tabane-server.service");
const CLIENT: &str = include_str!("../../../packaging/systemd/tabane-client@.service");
const TUN: &str = include_str!("../../../packaging/systemd/tun.conf");
const DNS: &str = include_str!("../../../packaging/systemd/dns.conf");
const LAN: &str = include_str!("../../../packaging/systemd/lan.conf");
const PINGS: &str = include_str!("../../../packaging/sysctl.conf");

/// What units depend on.
pub(super) struct Choices<'a> {
    pub(super) binary: String,
    /// Clients that have a TUN device.
    pub(super) tun: &'a [String],
    /// Clients among them that are the host's resolver.
    pub(super) dns: &'a [String],
    /// Clients among them that hosts are behind.
    pub(super) lan: &'a [String],
    /// Clients may ping through the server.
    pub(super) pings: bool,
    /// The server listens below 1024.
    pub(super) low_ports: bool,
}

/// A file.
pub(super) struct Unit {
    pub(super) path: String,
    pub(super) text: String,
}

/// All files.
pub(super) fn all(choices: &Choices<'_>) -> Vec<Unit> {
    let fill = |text: &str, capability: &str| {
        let lines = match capability {
            "" => "CapabilityBoundingSet=\n".to_owned(),
            name => format!("AmbientCapabilities={name}\nCapabilityBoundingSet={name}\n"),
        };
        text.replace("@BINARY@", &choices.binary).replace("@CAPABILITIES@\n", &lines)
    };
    let low = if choices.low_ports { "CAP_NET_BIND_SERVICE" } else { "" };
    let texts = [fill(SERVER, low), fill(CLIENT, "")];
    let units = NAMES.iter().zip(texts);
    let units = units.map(|(name, text)| Unit { path: format!("{FOLDER}/{name}"), text });
    let drop_in = |client: &String, n: usize, text: &str| Unit {
        path: format!("{FOLDER}/tabane-client@{client}.service.d/{}", DROP_INS[n]),
        text: text.to_owned(),
    };
    // Whoever is the host's resolver, or a router, is so by its device.
    let tun: BTreeSet<_> = choices.tun.iter().chain(choices.dns).chain(choices.lan).collect();
    let tun = tun.into_iter().map(|client| drop_in(client, 0, TUN));
    let dns = choices.dns.iter().map(|client| drop_in(client, 1, DNS));
    let lan = choices.lan.iter().map(|client| drop_in(client, 2, LAN));
    let pings = Unit { path: SYSCTL.to_owned(), text: PINGS.to_owned() };
    units.chain(tun).chain(dns).chain(lan).chain(choices.pings.then_some(pings)).collect()
}

/// Whether a folder of [`FOLDER`] may hold [`DROP_INS`] of ours.
pub(super) fn is_drop_in(name: &str) -> bool {
    name.starts_with("tabane-client@") && name.ends_with(".service.d")
}
