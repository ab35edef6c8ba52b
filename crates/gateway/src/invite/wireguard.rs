//! A client without tabane: stock WireGuard interfaces and the kernel's MPTCP.

use super::{Invitation, Own};
use crate::address::ClientNumber;
use crate::index::PathIndex;
use crate::keys;
use std::fmt::Write;

/// Of the first path; the next ones follow.
const TABLE: usize = 8100;
/// Of the MPTCP endpoints: one is removed by its id, so that it must be known. Small ones are what
/// the kernel gives to those without.
const FIRST_ENDPOINT: usize = 101;

/// One configuration of `wg-quick` a path, and the commands that bind them together.
pub(super) fn text(of: &Invitation, own: &Own, paths: usize) -> String {
    let mut text = format!(
        "# {} of {}, with stock WireGuard and the kernel's MPTCP.\n\
         # Save each part under the name above it, below /etc/wireguard, mode 0600.\n",
        of.name,
        of.addresses.first().map_or("a server", String::as_str)
    );
    for path in 0..paths {
        section(&mut text, (of, own), path).expect("invariant: a String grows");
    }
    text + &commands(of, paths)
}

/// The first path alone, without anything that belongs to a Linux: what the apps of phones take.
pub(super) fn app(of: &Invitation, own: &Own) -> String {
    let [v4, v6] = of.network.path(ClientNumber(of.number), PathIndex::new(0));
    let dns = of.network.service()[0];
    let key = own.secret.of_path(0);
    let mut text = format!(
        "[Interface]\nPrivateKey = {key}\nAddress = {v4}/32, {v6}/128\nDNS = {dns}\nMTU = 1420\n\n"
    );
    peer(&mut text, of, own).expect("invariant: a String grows");
    text
}

fn section(out: &mut String, (of, own): (&Invitation, &Own), path: usize) -> std::fmt::Result {
    let [v4, v6] = of.network.path(ClientNumber(of.number), PathIndex::new(path));
    let (device, table) = (device(path), TABLE + path);
    let key = own.secret.of_path(path);
    writeln!(out, "\n# ---- {device}.conf ----\n[Interface]\nPrivateKey = {key}")?;
    writeln!(out, "Address = {v4}/32, {v6}/128\nMTU = 1420")?;
    writeln!(out, "# Its own routes; the mark tells which link its outer packets take.")?;
    writeln!(out, "Table = {table}\nFwMark = {table}")?;
    let ids = FIRST_ENDPOINT + 2 * path..;
    for ((family, address), id) in [("-4", v4), ("-6", v6)].into_iter().zip(ids) {
        writeln!(out, "PostUp = ip {family} rule add from {address} lookup {table}")?;
        writeln!(out, "PreDown = ip {family} rule del from {address} lookup {table}")?;
        writeln!(out, "PostUp = ip mptcp endpoint add {address} dev %i id {id} subflow")?;
        writeln!(out, "PreDown = ip mptcp endpoint delete id {id}")?;
    }
    writeln!(out)?;
    peer(out, of, own)
}

fn peer(out: &mut String, of: &Invitation, own: &Own) -> std::fmt::Result {
    writeln!(out, "[Peer]\nPublicKey = {}", keys::encode(&of.public_key))?;
    if let Some(key) = &own.preshared_key {
        writeln!(out, "PresharedKey = {key}")?;
    }
    if let Some(address) = of.addresses.first() {
        writeln!(out, "Endpoint = {address}")?;
    }
    writeln!(out, "AllowedIPs = 0.0.0.0/0, ::/0\nPersistentKeepalive = 25")
}

fn commands(of: &Invitation, paths: usize) -> String {
    let mut text = format!(
        "\n# ---- commands, as root ----\n\
         sysctl -w net.mptcp.enabled=1\n\
         ip mptcp limits set subflows {paths} add_addr_accepted 0\n"
    );
    for path in 0..paths {
        let (device, table) = (device(path), TABLE + path);
        text += &format!(
            "wg-quick up {device}\n\
             # pin it to a link (its gateway and interface): table {0} is that link's\n\
             # ip rule add fwmark {table} lookup {0}\n\
             # ip route add default via GATEWAY dev LINK table {0}\n",
            table + 100
        );
    }
    let service = of.network.service()[0];
    text += &format!(
        "# connections begin on the first path (addresses of the outside world by it), the kernel\n\
         # adds the others: ip route add default dev {} metric 1; keep the links' own routes\n\
         # mptcpize run curl https://example.org/     the server itself answers at {service}\n",
        device(0)
    );
    text
}

fn device(path: usize) -> String {
    format!("tabane{path}")
}
